"""Far outside ordinary sizes: right where it can be, else a true reason, never a silent NaN."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import keytokens as kt

BASE = kt.random_problem(3, 4, 5, seed=1)
MASK = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0]], bool)
REASON = kt.Reason


def unit(w):
    return np.asarray(w) / np.abs(w).max() / np.linalg.norm(w / np.abs(w).max())


def downhill(problem):
    """-grad L at p = 0 by the textbook formula, logistic loss; all weights are 1/T."""
    gamma = kt.token_scores(problem)
    slopes = 1 / (1 + np.exp(np.clip(gamma.mean(axis=1), -700, 700)))
    pulls = slopes[:, None] * (gamma - gamma.mean(axis=1, keepdims=True))
    return np.einsum("it,itd->d", pulls, problem.X)


def assert_finite(run):
    for name in ("params", "path", "norms", "attention"):
        assert np.isfinite(getattr(run, name)).all(), name
    assert not np.isnan(run.losses).any()  # an exponential loss may truly be infinite


@pytest.mark.parametrize("method", [kt.NormalizedDescent(0.1), kt.GradientFlow(norm=1e4)], ids=repr)
def test_tiny_tokens_are_followed_along_their_gradient(method):
    ordinary = replace(BASE, v=BASE.v * 1e-9)  # scores so small that no slope bends
    tiny = replace(BASE, X=BASE.X * 1e-200)
    run = kt.train(tiny, "p", method, steps=50)
    assert np.allclose(unit(run.params), unit(downhill(ordinary)), atol=1e-8)
    assert run.reason in (REASON.STEPS, REASON.NORM)


@pytest.mark.parametrize("size", [1e8, 1e160])
def test_one_step_under_huge_scores(size):
    run = kt.train(replace(BASE, v=BASE.v * size), "p", kt.NormalizedDescent(0.1), steps=1)
    gamma = kt.token_scores(BASE)
    wrong = gamma.mean(axis=1) < 0  # logistic slope 1 for these inputs, underflown for the rest
    pulls = (gamma - gamma.mean(axis=1, keepdims=True))[wrong]
    assert np.allclose(unit(run.params), unit(np.einsum("it,itd->d", pulls, BASE.X[wrong])))


def test_the_flow_gets_under_way_under_huge_scores():
    run = kt.train(replace(BASE, v=BASE.v * 1e8), "p", kt.GradientFlow(norm=1e3), steps=300)
    assert run.norms[-1] > 0.5
    assert run.losses[-1] < 1e-3 * run.losses[0]


@pytest.mark.parametrize("scale", [1e-200, 1e-12, 1e8, 1e150])
@pytest.mark.parametrize("what", ["X", "v"])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
@pytest.mark.parametrize(
    "method",
    [kt.GradientDescent(1e290), kt.NormalizedDescent(1e290), kt.GradientFlow(norm=1e8)],
    ids=repr,
)
@pytest.mark.parametrize("start", [None, np.array([1e6, 0, 0, -1e6, 1e5])], ids=["0", "far"])
def test_no_silent_nan(scale, what, loss, method, start):
    problem = replace(BASE, **{what: getattr(BASE, what) * scale})
    run = kt.train(problem, "p", method, steps=40, loss=loss, start=start, save=5)
    assert_finite(run)
    if what == "X" and scale == 1e-200:  # an Att-SVM of norm 1e200
        with suppress(kt.InputError):  # refused by name, unless the run is at rest
            kt.certify(problem, run, loss=loss)
    else:
        assert "nan" not in str(kt.certify(problem, run, loss=loss)).lower()


def test_the_last_point_has_finite_logits():
    problem = replace(BASE, X=BASE.X * 1e150)
    run = kt.train(problem, "p", kt.NormalizedDescent(1e300), steps=5)
    assert run.reason is REASON.NOT_FINITE
    assert_finite(run)


def test_a_mirror_that_is_almost_flat_at_zero_is_left():
    run = kt.train(BASE, "p", kt.MirrorDescent(q=1.01, step=0.1), steps=40)  # w = theta^100
    assert run.norms[1] == 0 or run.norms[1] < 1e-80
    assert run.norms[-1] > 1


RAGGED = replace(BASE, mask=MASK)
COPIES = replace(BASE, X=np.repeat(BASE.X[:, :2], 2, axis=1))
ONE_IS_IDLE = replace(BASE, X=np.stack([np.tile(BASE.X[0, :1], (4, 1)), *BASE.X[1:]]))


@pytest.mark.parametrize("problem", [RAGGED, COPIES, ONE_IS_IDLE], ids=["ragged", "copies", "idle"])
def test_inputs_without_a_choice_do_not_stop_the_path_or_the_flow(problem):
    goal = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
    for method in (kt.RegularizationPath([1, 10, 1e4]), kt.GradientFlow(norm=1e4)):
        run = kt.train(problem, "p", method)
        assert run.reason in (REASON.RADII, REASON.NORM)
        assert unit(run.params) @ unit(goal) > 1 - 2e-6


@pytest.mark.parametrize("method", [kt.RegularizationPath([1, 100]), kt.NormalizedDescent()])
def test_equal_scores_leave_the_start_as_it_is(method):
    flat = kt.TokenProblem(
        np.random.default_rng(0).standard_normal((2, 3, 4)), [1, -1], np.zeros(4)
    )
    run = kt.train(flat, "p", method, steps=10)
    assert not run.params.any()
    cert = kt.certify(flat, run)
    assert cert.optimality == "finite"
    assert "The answer is zero" in " ".join(cert.sentences)


@pytest.mark.parametrize("length", [1e-200, 1e200])
def test_certificates_of_any_length(length):
    goal = kt.att_svm(BASE, kt.optimal_tokens(BASE)).direction
    cert = kt.certify(BASE, unit(goal) * length)
    assert cert.misalignment < 1e-15
    assert cert.margin_ratio == pytest.approx(1)


def test_a_loss_whose_slope_has_underflowed_is_no_finite_minimiser():
    from jax.numpy import exp

    run = kt.train(BASE, "vp", kt.GradientFlow(norm=1e4), loss=lambda m: exp(-2 * m))
    assert run.reason is REASON.STATIONARY
    assert run.norms[-1] > 100
