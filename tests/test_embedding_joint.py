"""Joint training: the minimiser, convergence, weights, threads, the dial, held-out stopping."""

from dataclasses import replace

import numpy as np
import pytest
from embedding_reference import planted
from scipy import sparse
from scipy.optimize import minimize

from keytokens.embedding.concentration import effective_tokens
from keytokens.embedding.corpus import Corpus, from_scores, prior_logits, retempered, to_scores
from keytokens.embedding.heldout import Watch, held_out_rows, row_losses, temperature
from keytokens.embedding.joint import (
    JointOptions,
    continue_joint,
    joint_problem,
    rounds_of,
    sharpened,
    sharpness,
    train_joint,
)
from keytokens.embedding.kernels import Layout, Rows
from keytokens.embedding.lbfgs import minimise
from keytokens.embedding.scores import AttentionScores, logits


def valley(x):
    """Rosenbrock in four dimensions."""
    value = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    gradient[1:] += 200 * (x[1:] - x[:-1] ** 2)
    return value, gradient


def test_the_minimiser_finds_the_bottom_of_the_valley() -> None:
    found = minimise(valley, np.full(4, -0.5), 500, 1e-13)
    assert found.reason in ("converged", "no step lowers the loss any further")
    assert found.x == pytest.approx(np.ones(4), abs=1e-8)
    assert found.iterations <= 2 * minimize(valley, np.full(4, -0.5), jac=True).nit


def test_the_minimiser_says_why_it_ended() -> None:
    assert minimise(valley, np.ones(4), 5).reason == "converged"
    assert minimise(valley, np.zeros(4), 3).reason == "ran out of iterations"
    stopped = minimise(valley, np.zeros(4), 9, watch=lambda k, x: k == 2)
    assert (stopped.iterations, stopped.reason) == (2, "stopped by held-out loss")


def test_training_ends_at_a_minimum_of_the_stated_objective() -> None:
    corpus, options = planted(), JointOptions(tolerance=1e-12)
    problem = joint_problem(corpus, Rows.of(corpus.counts), options)
    found = minimise(problem, np.zeros(problem.scale.size), 1000, 1e-12)
    value, gradient = problem(found.x)
    assert np.abs(gradient).max() <= 1e-5
    other = minimize(problem, np.zeros(problem.scale.size), jac=True, method="L-BFGS-B")
    assert value <= other.fun + 1e-6


def test_joint_learns_what_was_planted() -> None:
    corpus = planted()
    fitted = train_joint(corpus, JointOptions())
    right = (logits(fitted.scores, corpus.counts)[:, 0] > 0) == corpus.labels
    b = fitted.scores.value[0, 0]
    assert fitted.reason == "converged"
    assert right.mean() > 0.9
    assert b[0] == b.min()
    assert b[1] == b.max()


def test_weight_two_is_a_row_twice() -> None:
    corpus = planted()
    weight = np.where(np.arange(80) < 30, 2.0, 1.0)
    twice = np.repeat(np.arange(80), weight.astype(int))
    weighted = train_joint(replace(corpus, weight=weight), JointOptions())
    repeated = replace(
        corpus,
        counts=corpus.counts[twice],
        labels=corpus.labels[twice],
        weight=np.ones(len(twice)),
    )
    one, two = weighted.scores, train_joint(repeated, JointOptions()).scores
    assert np.allclose(logits(one, corpus.counts), logits(two, corpus.counts), rtol=1e-7)


@pytest.mark.parametrize(
    "how", [dict(), dict(heads=2), dict(per_class=True), dict(cls_token=False)]
)
def test_several_classes_and_maps_learn_too(how: dict) -> None:
    corpus = planted(n=120, classes=3)
    fitted = train_joint(corpus, JointOptions(**how))
    right = logits(fitted.scores, corpus.counts).argmax(axis=1) == corpus.labels
    assert right.mean() > 0.85
    assert fitted.scores.has_cls is how.get("cls_token", True)


def test_further_heads_do_not_stay_equal() -> None:
    a = train_joint(planted(), JointOptions(heads=2)).scores.attention
    assert np.abs(a[0] - a[1]).max() > 0.1


def test_the_dial_goes_from_even_to_one_token() -> None:
    corpus = planted()
    effective = [
        effective_tokens(
            train_joint(corpus, JointOptions(selectivity=dial)).scores, corpus.counts
        ).mean()
        for dial in (0.0, 0.3, 0.6, 1.0)
    ]
    assert effective == sorted(effective, reverse=True)
    assert effective[0] > 5
    assert effective[-1] < 1.5


@pytest.mark.parametrize("kappa", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_sharpening_up_to_signs_changes_no_decision(kappa: float, classes: int) -> None:
    corpus = planted(n=120, classes=classes)
    teacher = train_joint(corpus, JointOptions()).scores
    layout = Layout.of(corpus.positive.shape[1])
    a, b = sharpened(teacher, np.ones(corpus.counts.shape[1]), layout, kappa, floor=0.0)
    sharp = to_scores(np.hstack([a, b]), layout, np.zeros(teacher.n_outputs))
    before, after = (logits(model, corpus.counts) for model in (teacher, sharp))
    if classes == 2:
        assert np.array_equal(before > 0, after > 0)
    else:
        assert np.array_equal(before.argmax(axis=1), after.argmax(axis=1))


def test_sharpened_scores_by_hand() -> None:
    teacher = AttentionScores([[0.0, 1.0, 0.0]], [[[3.0, -2.0, 0.0]]], [1.0])
    often, layout = np.array([1.0, 3.0]), Layout.of(1)  # beta = 4, -1, 1; mean |beta| = 7/4
    a, b = sharpened(teacher, often, layout, 2.0, floor=0.25)
    moved = np.log(np.array([4, 1]) / 1.75 + 0.25)
    assert a[:, 0] == pytest.approx([*(2 * moved + [0, 2]), 0])
    assert b[:, 0] == pytest.approx([1, -1, 1 / 1.75])
    a, b = sharpened(teacher, often, layout, 0.5, floor=0.25)
    assert a[:, 0] == pytest.approx([*(0.5 * moved + [0, 1]), 0])
    assert b[:, 0] == pytest.approx([2, -1, 1.75**-0.5])


def test_few_tokens_decide_nearly_as_well_as_all() -> None:
    corpus = planted(n=600)
    fitted = [train_joint(corpus, JointOptions(selectivity=s)).scores for s in (0.0, 0.6)]
    right = [(logits(one, corpus.counts)[:, 0] > 0) == corpus.labels for one in fitted]
    effective = [effective_tokens(one, corpus.counts).mean() for one in fitted]
    assert right[1].mean() > right[0].mean() - 0.02
    assert effective[1] < effective[0] / 3


@pytest.mark.parametrize("how", [dict(heads=2), dict(per_class=True), dict(cls_token=False)])
def test_the_dial_turns_with_several_maps_and_without_cls(how: dict) -> None:
    corpus = planted(n=150, classes=3)
    even, sharp = (
        train_joint(corpus, JointOptions(selectivity=s, **how)).scores for s in (0.0, 0.7)
    )
    effective = [effective_tokens(one, corpus.counts).mean() for one in (even, sharp)]
    assert effective[1] < effective[0] / 2
    assert (logits(sharp, corpus.counts).argmax(axis=1) == corpus.labels).mean() > 0.85


@pytest.mark.parametrize(
    ("patience", "least", "stops", "best"),
    [(3, 0, 4, 1), (4, 0, 9, 5), (1, 0, 2, 1), (1, 3, 4, 1), (1, 4, 6, 5)],
)
def test_patience_waits_for_a_loss_that_rises_before_it_falls(
    patience: int, least: int, stops: int, best: int
) -> None:
    target = np.array([1.0, 1.0, 1.0, -1.0])
    watch = Watch(Seen(), target, np.ones(4), patience, least)
    for k, sure in enumerate([3.0, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0], start=1):
        watch.loss.f = np.array([[sure], [sure], [sure], [1.0]])  # calibrated loss falls with sure
        if watch(k, np.full(1, float(k))):
            break
    assert (k, watch.answer().iterations) == (stops, best)
    assert watch.x == [best]


class Seen:
    """A loss that has computed what it is told."""

    f: np.ndarray


@pytest.mark.parametrize(
    ("kappa", "expected"),
    [
        (0, [0]),
        (0.8, [0, 0.8]),
        (2, [0, 2]),
        (3, [0, 2, 1.5]),
        (8, [0, 2, 2, 2]),
        (40, [0, 2, 2, 10]),
    ],
)
def test_sharpness_is_reached_in_rounds(kappa: float, expected: list[float]) -> None:
    rounds = rounds_of(JointOptions(selectivity=kappa / (2 + kappa)))
    assert [sharpness(one.selectivity) for one in rounds] == pytest.approx(expected)
    assert rounds[-1].selective_ridge == JointOptions().selective_ridge


def test_rounds_on_the_way_keep_what_one_leap_loses(monkeypatch) -> None:
    """Tokens that each say a little: 400 unseen texts, three corpora, few tokens a text."""
    right = {}
    for between in (0, 2):
        monkeypatch.setattr("keytokens.embedding.joint._BETWEEN", between)
        right[between] = np.mean([_unseen(seed) for seed in range(3)])
    assert right[2] > right[0] + 0.005


def _unseen(seed: int) -> float:
    rng = np.random.default_rng(seed)
    y, speaks = rng.integers(0, 2, 1200), 0.6 * rng.standard_normal(60)
    odds = 1 / (1 + np.exp(1.5 - np.outer(2 * y - 1, speaks)))
    counts = sparse.csr_array((rng.random((1200, 60)) < odds).astype(float))
    corpus = Corpus(counts[:800], y[:800], 2, np.ones(800))
    scores = train_joint(corpus, JointOptions(selectivity=0.8)).scores
    return float(((logits(scores, counts[800:])[:, 0] > 0) == y[800:]).mean())


@pytest.mark.parametrize("dial", [0.0, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_an_empty_text_is_unsure_at_every_dial(dial: float, classes: int) -> None:
    corpus = planted(n=120, classes=classes)
    scores = train_joint(corpus, JointOptions(selectivity=dial)).scores
    empty = logits(scores, sparse.csr_array((1, corpus.counts.shape[1])))
    assert np.abs(empty - prior_logits(corpus.positive, corpus.weight)).max() < 0.3
    assert np.abs(logits(scores, corpus.counts)).mean() > 1.5


def test_the_dial_holds_out_rows_in_every_round() -> None:
    corpus = planted(n=400)
    options = JointOptions(held_out_from=100, selectivity=0.6)
    fitted = train_joint(corpus, options)
    assert fitted.held_out is not None
    assert fitted.held_out.accuracy > 0.85
    assert "held-out loss was lowest" in fitted.reason


def test_all_rows_follow_where_held_out_loss_was_lowest() -> None:
    corpus = planted(n=400)
    fitted = train_joint(corpus, JointOptions(held_out_from=100))
    assert fitted.held_out is not None
    assert 0 < fitted.iterations - fitted.held_out.iterations <= 3
    assert fitted.held_out.rows == 40
    assert "held-out loss was lowest" in fitted.reason
    again = train_joint(corpus, JointOptions(held_out_from=100))
    assert np.array_equal(fitted.scores.value, again.scores.value)


def test_rows_held_out_are_learned_from_in_the_end() -> None:
    """Doubling their weight changes nothing while they are held out, and something afterwards."""
    corpus, options = planted(n=400), JointOptions(held_out_from=100)
    held = held_out_rows(corpus.labels, options.seed)
    one = train_joint(corpus, options)
    two = train_joint(replace(corpus, weight=np.where(held, 2.0, 1.0)), options)
    assert one.held_out == two.held_out
    assert np.abs(one.scores.value - two.scores.value).max() > 1e-3


@pytest.mark.parametrize("iterations", [1, 2, 5, 20])
def test_no_more_iterations_than_asked(iterations: int) -> None:
    fitted = train_joint(planted(n=400), JointOptions(held_out_from=100, iterations=iterations))
    assert 1 <= fitted.iterations <= iterations


def test_same_bits_with_one_thread_and_two() -> None:
    corpus = planted(n=30_000, V=60)
    assert corpus.counts.nnz > 200_000
    one, two = (train_joint(replace(corpus, n_jobs=jobs), JointOptions()) for jobs in (1, 2))
    assert one.scores.attention.tobytes() == two.scores.attention.tobytes()
    assert one.scores.value.tobytes() == two.scores.value.tobytes()


def test_a_warm_start_is_already_there() -> None:
    corpus, options = planted(), JointOptions(tolerance=1e-10)
    done = train_joint(corpus, options)
    again = continue_joint(corpus, options, done.scores, seen=0.0)
    assert again.iterations < done.iterations
    assert np.allclose(
        logits(again.scores, corpus.counts), logits(done.scores, corpus.counts), atol=1e-2
    )


def test_more_rows_seen_hold_the_model_more_firmly() -> None:
    corpus, options = planted(), JointOptions()
    done = train_joint(corpus, options).scores
    opposite = replace(corpus, labels=1 - corpus.labels)
    before = logits(done, corpus.counts)
    moved = [
        np.abs(logits(continue_joint(opposite, options, done, seen).scores, corpus.counts) - before)
        for seen in (10.0, 1e4, 1e8)
    ]
    assert moved[0].mean() > moved[1].mean() > moved[2].mean()
    assert moved[2].max() < 1e-2


def test_held_out_rows_are_a_tenth_of_every_class() -> None:
    labels = np.repeat([0, 1, 2], [500, 300, 30])
    held = held_out_rows(labels, seed=3)
    assert [held[labels == k].sum() for k in range(3)] == [50, 30, 3]
    assert not np.array_equal(held, held_out_rows(labels, seed=4))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_temperature_minimises_the_loss(classes: int) -> None:
    rng = np.random.default_rng(0)
    f = rng.standard_normal((2000, 1 if classes == 2 else classes)) * 6
    if classes == 2:
        target = np.where(rng.random(2000) < 1 / (1 + np.exp(-f[:, 0] / 3)), 1.0, -1.0)
    else:  # the largest of f / 3 + Gumbel noise is drawn from softmax(f / 3)
        target = (f / 3 + rng.gumbel(size=f.shape)).argmax(axis=1).astype(float)
    even = np.full(2000, 1 / 2000)
    tau = temperature(f, target, even)
    losses = [row_losses(f / t, target).mean() for t in (0.999 * tau, tau, 1.001 * tau)]
    assert tau == pytest.approx(3, rel=0.15)
    assert losses[1] == min(losses)


def test_the_temperature_of_what_is_never_or_always_wrong_is_the_last_allowed() -> None:
    f, target, even = np.array([[1.0], [-2.0]]), np.array([1.0, -1.0]), np.full(2, 0.5)
    assert temperature(f, target, even) == pytest.approx(np.exp(-3))
    assert temperature(f, -target, even) == pytest.approx(np.exp(3))


def test_prior_logits_by_hand() -> None:
    positive = np.array([[1.0], [1.0], [1.0], [0.0]])
    assert prior_logits(positive, np.ones(4)) == pytest.approx([np.log(3.5 / 1.5)])
    assert prior_logits(np.eye(3), np.ones(3)) == pytest.approx([0, 0, 0], abs=1e-15)


def test_scores_and_theta_are_one_thing() -> None:
    layout = Layout.of(3, heads=2, per_class=True)
    theta = np.random.default_rng(0).standard_normal((5, layout.width))
    scores = to_scores(theta, layout, np.zeros(3))
    assert np.array_equal(from_scores(scores, layout), theta)
    half = retempered(scores, 2.0)
    assert np.array_equal(half.value, scores.value / 2)
    assert np.array_equal(half.attention, scores.attention)
