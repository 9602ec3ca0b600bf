"""Faithfulness in closed form, against the model run on what is kept, and against every subset."""

from itertools import combinations

import numpy as np
import pytest
from explaining import random_scores
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from keytokens.embedding.scores import AttentionScores, logits
from keytokens.explain import faithfulness as faith
from keytokens.explain.explanation import probabilities

SHAPES = {
    "one map": {},
    "no cls": dict(cls=False),
    "two maps": dict(maps=2),
    "three classes": dict(outputs=3),
    "saturated": dict(scale=400.0),
}


def texts(V: int, n: int, seed: int, most: int | None = None) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.integers(1, 4, (n, V)) * (rng.random((n, V)) < 0.6)
    if most is not None:
        dense[:, most:] = 0
    dense[0] = 0
    return sparse.csr_array(dense.astype(float))


def decided_probability(
    scores: AttentionScores, rows: sparse.csr_array, c: np.ndarray
) -> np.ndarray:
    return probabilities(logits(scores, rows))[np.arange(len(c)), c]


def only(rows: sparse.csr_array, keep: np.ndarray) -> sparse.csr_array:
    part = rows.copy()
    part.data = part.data * keep
    part.eliminate_zeros()
    return part


def decisions(scores: AttentionScores, rows: sparse.csr_array) -> np.ndarray:
    return probabilities(logits(scores, rows)).argmax(axis=1)


def test_by_hand() -> None:
    # Two tokens of weights 3 and 1, values 2 and -1, no <cls>, bias 0: f = 5/4.
    scores = AttentionScores(
        np.array([[np.log(3.0), 0.0, -np.inf]]), np.array([[[2.0, -1.0, 0.0]]]), np.zeros(1)
    )
    rows = sparse.csr_array(np.ones((1, 2)))
    found = faith.faithfulness(scores, rows, np.array([1.0, 0.0]))
    p = [1 / (1 + np.exp(-f)) for f in (1.25, -1.0, 2.0)]
    assert np.allclose(found.comprehensiveness, p[0] - p[1])
    assert np.allclose(found.sufficiency, p[0] - p[2])
    assert np.allclose(faith.leave_one_out(scores, rows), [1.25 + 1.0, 1.25 - 2.0])
    limits = faith.bounds(scores, rows)
    assert limits is not None
    assert np.allclose(limits.best.comprehensiveness, p[0] - p[1])
    assert np.allclose(limits.worst.comprehensiveness, p[0] - p[2])
    assert limits.normalised(found) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("shape", SHAPES)
def test_subsets_against_the_model_itself(shape: str) -> None:
    scores, rows = random_scores(9, **SHAPES[shape], seed=4), texts(9, 12, 1)
    ranking = np.random.default_rng(0).standard_normal(rows.nnz)
    found = faith.faithfulness(scores, rows, ranking)
    c = decisions(scores, rows)
    full = decided_probability(scores, rows, c)
    for q, share in enumerate(faith.BINS):
        top = np.zeros(rows.nnz, bool)
        for lo, hi in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
            size = int(np.ceil(share * (hi - lo)))
            top[lo + np.argsort(-ranking[lo:hi])[:size]] = True
        without = decided_probability(scores, only(rows, ~top), c)
        alone = decided_probability(scores, only(rows, top), c)
        assert np.allclose(found.comprehensiveness[:, q], full - without, rtol=0, atol=1e-11)
        assert np.allclose(found.sufficiency[:, q], full - alone, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_leave_one_out_against_the_model_itself(shape: str) -> None:
    scores, rows = random_scores(8, **SHAPES[shape], seed=2), texts(8, 6, 3)
    found = faith.leave_one_out(scores, rows)
    full = logits(scores, rows)
    row = np.repeat(np.arange(6), np.diff(rows.indptr))
    changes = np.empty((scores.n_outputs, rows.nnz))
    for t in range(rows.nnz):
        keep = np.arange(rows.nnz) != t
        changes[:, t] = (full - logits(scores, only(rows, keep)))[row[t]]
    expected = faith.toward_decision(scores, rows, changes)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([1.0, 3.0, 400.0]))
def test_bounds_against_every_subset(seed: int, cls: bool, scale: float) -> None:
    scores = random_scores(7, seed=seed, cls=cls, scale=scale)
    rows = texts(7, 3, seed)
    limits = faith.bounds(scores, rows)
    assert limits is not None
    c = decisions(scores, rows)
    full = decided_probability(scores, rows, c)
    for i in range(3):
        one = rows[[i]]
        for q, share in enumerate(faith.BINS):
            size = int(np.ceil(share * one.nnz))
            drops = []
            for chosen in combinations(range(one.nnz), size):
                keep = np.isin(np.arange(one.nnz), chosen)
                sides = (only(one, ~keep), only(one, keep))
                left = [decided_probability(scores, side, c[[i]])[0] for side in sides]
                drops.append(full[i] - np.array(left))
            rest, kept = np.array(drops).T
            found = [
                part[i, q]
                for side in (limits.best, limits.worst)
                for part in (side.comprehensiveness, side.sufficiency)
            ]
            expected = [rest.max(), kept.min(), rest.min(), kept.max()]
            assert np.allclose(found, expected, rtol=0, atol=1e-10)


def test_any_ranking_lies_between_the_bounds() -> None:
    scores, rows = random_scores(30, seed=1), texts(30, 40, 2)
    limits = faith.bounds(scores, rows)
    assert limits is not None
    for seed in range(3):
        ranking = np.random.default_rng(seed).standard_normal(rows.nnz)
        shares = limits.normalised(faith.faithfulness(scores, rows, ranking))
        assert all(0 <= share <= 1 for share in shares)


def test_several_maps_have_no_closed_bounds() -> None:
    assert faith.bounds(random_scores(5, maps=2), texts(5, 3, 0)) is None
    assert faith.bounds(random_scores(5, outputs=3), texts(5, 3, 0)) is None
