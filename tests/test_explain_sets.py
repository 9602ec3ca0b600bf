"""The smallest sets, against every subset there is."""

from itertools import combinations

import numpy as np
import pytest
from explaining import random_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from keytokens.explain import covers, sets
from keytokens.explain.bag import Bag


def bag(size: int, seed: int, **how: object) -> Bag:
    rng = np.random.default_rng([seed, 1])
    scores = random_scores(size + 3, seed=seed, **how)  # type: ignore[arg-type]
    columns = np.sort(rng.choice(size + 3, size, replace=False))
    return Bag.of(scores, columns, rng.integers(1, 4, size).astype(float))


def smallest(one: Bag, flips: bool) -> int | None:
    """The size of the smallest set, by trying every subset."""
    decision = one.decide(one.logits)
    for size in range(one.size + 1):
        for chosen in combinations(range(one.size), size):
            keep = np.isin(np.arange(one.size), chosen, invert=flips)
            if (one.decide(one.kept_logits(keep)) != decision) == flips:
                return size
    return None


def check(one: Bag) -> None:
    decision = one.decide(one.logits)
    flipping, sufficient = sets.flipping_set(one), sets.sufficient_set(one)
    assert one.decide(sufficient.logits) == decision
    best = smallest(one, flips=False)
    assert len(sufficient) >= best
    assert not sufficient.exact or len(sufficient) == best
    best = smallest(one, flips=True)
    if flipping is not None:
        assert one.decide(flipping.logits) != decision
        assert not flipping.exact or len(flipping) == best
    assert (flipping is None) == (best is None)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 8), st.integers(0, 10_000), st.booleans(), st.sampled_from([1.0, 400.0]))
def test_two_classes_are_exact(size: int, seed: int, cls: bool, scale: float) -> None:
    one = bag(size, seed, cls=cls, scale=scale)
    check(one)
    assert sets.sufficient_set(one).exact


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 10_000), st.booleans())
def test_three_classes_are_exact_or_say_so(size: int, seed: int, cls: bool) -> None:
    one = bag(size, seed, outputs=3, cls=cls)
    check(one)
    found = sets.flipping_set(one)
    assert found is None or found.exact
    assert sets.sufficient_set(one).exact


@settings(max_examples=20, deadline=None)
@given(st.integers(4, 8), st.integers(0, 10_000), st.sampled_from([1.0, 30.0]))
def test_five_classes_are_exact(size: int, seed: int, scale: float) -> None:
    one = bag(size, seed, outputs=5, scale=scale)
    check(one)
    assert sets.sufficient_set(one).exact


def test_two_rivals_that_one_token_holds_off_together() -> None:
    """The strongest against either rival alone is not the one that holds off both."""
    value = np.array([[[0.0, 0.0, 0.0, 0.5], [-9.0, 4.0, -2.0, 1.5], [4.0, -9.0, -2.0, 1.5]]])
    one = Bag(np.arange(3), np.ones(3), np.zeros((1, 4)), value, np.zeros(3))
    assert one.decide(one.logits) == 0
    found = sets.sufficient_set(one)
    assert found.places.tolist() == [2]
    assert found.exact


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000))
def test_short_texts_under_several_maps_are_exact(size: int, seed: int) -> None:
    one = bag(size, seed, maps=2)
    check(one)
    assert sets.sufficient_set(one).exact
    found = sets.flipping_set(one)
    assert found is None or found.exact


def test_what_was_not_searched_is_not_called_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = [bag(12, seed, outputs=4) for seed in range(60)]
    larger = [one for one in greedy if len(sets.sufficient_set(one)) > 1]
    assert larger
    monkeypatch.setattr(covers, "_NODES", 0)
    claims = [sets.sufficient_set(one) for one in larger]
    assert not all(found.exact for found in claims)
    for one, found in zip(larger, claims, strict=True):
        assert not found.exact or len(found) == smallest(one, flips=False)
    monkeypatch.setattr(sets, "_TRIES", 0)
    many = [sets.sufficient_set(bag(12, seed, maps=2)) for seed in range(20)]
    assert all(found.exact == (len(found) == 0) for found in many)


def test_one_token_that_holds_all() -> None:
    scores = random_scores(3, cls=False)
    one = Bag(
        np.arange(3),
        np.ones(3),
        np.array([[5000.0, 0.0, -5000.0, -np.inf]]),
        np.array([[[2.0, -1.0, 3.0, 0.0]]]),
        np.zeros(1),
    )
    assert scores.n_features == 3
    assert one.logits[0] == 2.0
    found = sets.flipping_set(one)
    assert found is not None
    assert found.places.tolist() == [0]
    assert found.logits[0] == -1.0


@pytest.mark.parametrize("cls", [True, False])
def test_an_empty_text(cls: bool) -> None:
    one = bag(0, 3, cls=cls)
    assert sets.flipping_set(one) is None
    assert len(sets.sufficient_set(one)) == 0
