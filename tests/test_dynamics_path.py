"""The regularisation path: minimisers, their limit, cones, and two radii."""

from itertools import pairwise

import numpy as np
import pytest

import keytokens as kt
from keytokens.dynamics.newton import Ball, minimise, minimise_in_cone
from keytokens.svm.att import att_svm


def far(w, answer):
    """1 - correlation"""
    return 1 - np.vdot(w, answer) / np.linalg.norm(w) / np.linalg.norm(answer)


def quadratic(target, A):
    """1/2 (u - target)^T A (u - target), its slope, its curvature."""

    def value(u, curved=True):
        slope = A @ (u - target)
        return (
            (0.5 * (u - target) @ slope, slope, A)
            if curved
            else (0.5 * (u - target) @ slope, slope)
        )

    return value


def test_a_quadratic_inside_and_on_the_ball():
    """A = I: the minimiser is the target, or where the ray to it meets the ball."""
    whole = Ball((slice(0, 3),))
    for target in ([0.1, 0.2, 0.3], [3.0, 4.0, 0.0]):
        u, settled = minimise(quadratic(np.array(target), np.eye(3)), np.zeros(3), whole)
        assert np.allclose(u, np.array(target) / max(1, np.linalg.norm(target)), atol=1e-12)
        assert settled


def test_a_quadratic_in_a_cone():
    """Target at right angles to the axis: the answer lies on the cone's surface, in their plane."""
    axis, target = np.array([1.0, 0, 0]), np.array([0, 5.0, 0])
    value = quadratic(target, np.eye(3))
    u, settled = minimise_in_cone(value, axis, Ball((slice(0, 3),)), axis, 0.3)
    assert np.allclose(u, [np.cos(0.3), np.sin(0.3), 0], atol=1e-9)
    assert settled


@pytest.mark.parametrize("over", ["p", "W"])
def test_the_limit_is_the_att_svm(over):
    problem = kt.random_problem(n=3, T=4, d=12 if over == "p" else 5, seed=1, batch=2)
    run = kt.train(problem, over, kt.RegularizationPath([1, 10, 100, 1e3, 1e4]))
    assert all(reason is kt.Reason.RADII for reason in run.reason)
    assert np.allclose(run.norms, run.steps, rtol=1e-9)
    for k in range(2):
        answer = att_svm(problem[k], kt.optimal_tokens(problem[k]), over=over).direction
        errors = [far(w, answer) for w in run.path[k]]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 1e-6


def test_each_point_is_a_minimiser():
    """No drawn direction of the same norm has a smaller loss at a radius where loss still tells."""
    problem = kt.random_problem(n=3, T=4, d=3, seed=2)
    run = kt.train(problem, "p", kt.RegularizationPath([0.5, 3.0]))
    rng = np.random.default_rng(0)
    for radius, loss in zip(run.steps, run.losses, strict=True):
        p = rng.standard_normal((2000, 3))
        p *= radius / np.linalg.norm(p, axis=1, keepdims=True)
        s = np.exp(problem.X @ p.T)
        m = (s * kt.token_scores(problem)[..., None]).sum(1) / s.sum(1)
        assert loss <= np.log1p(np.exp(-m)).mean(axis=0).min() + 1e-12


def test_a_finite_minimiser_is_found_inside_the_ball():
    """One input under both labels: cosh(f) is least at f = 3 s - 2 = 0, so 3 p = log 2."""
    problem = kt.TokenProblem([[[1.0], [-2.0]], [[1.0], [-2.0]]], [1, -1], [1.0])
    run = kt.train(problem, "p", kt.RegularizationPath([1.0, 10.0]), loss="exponential")
    assert np.allclose(run.path, np.log(2) / 3, rtol=1e-7)
    assert run.reason is kt.Reason.RADII


def test_inside_a_cone_a_locally_optimal_direction_is_the_limit():
    """T = 2, differences (1, 0) and (-1.5, 0.3): (1, 0) selects badly for input 2, which then
    has no support token: locally optimal. Inside a narrow cone the path goes there."""
    X = np.array([[[1.0, 0.0], [0.0, 0.0]], [[-1.5, 0.3], [0.0, 0.0]]])
    problem = kt.TokenProblem(np.dstack([X, [[1, 0], [1, 0]]]), [1, 1], [0.0, 0.0, 1.0])
    start = {"p": [3.0, 0.0, 0.0]}
    method = kt.RegularizationPath([30, 300], axis=[1.0, 0, 0], angle=0.05, least=10.0)
    inside = kt.train(problem, "p", method, start=start, loss="linear")
    assert np.arccos(1 - far(inside.params, [1.0, 0, 0])) <= 0.05 + 1e-9


TOKENS = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]  # p^mm of token 1 is (1, 0), its support token 2


@pytest.mark.parametrize(("scores", "angle"), [((1.0, 0.9, 0.0), 0.0), ((0.0, 0.5, 1.0), 0.05)])
def test_in_a_cone_past_the_underflow_of_every_slope(scores, angle):
    """At norm 2,000 the slope is e^-2000: kept on the axis by the best of its neighbourhood, and
    on the cone's surface where the support token outscores the selected one."""
    X = np.dstack([TOKENS, [scores]])
    problem = kt.TokenProblem(X, [1], [0.0, 0.0, 1.0], W=np.eye(3)[:, :2])
    radii = np.geomspace(20, 2000, 11)
    method = kt.RegularizationPath(radii, axis=[1.0, 0], angle=0.05, least=20.0)
    run = kt.train(problem, "p", method)
    assert run.reason is kt.Reason.RADII
    assert np.allclose(np.abs(np.arctan2(*run.path[3:, ::-1].T)), angle, atol=1e-3)


def test_with_a_relu_head_the_path_goes_on_past_the_underflow_of_every_slope():
    """psi = sum relu(A .) is convex: under y = +1 the limit is the Att-SVM of the best tokens."""
    problem = kt.random_problem(n=3, T=4, d=8, seed=1)
    problem = kt.TokenProblem(problem.X, np.ones(3), problem.v)
    A = np.random.default_rng(0).standard_normal((8, 8)) / 8
    best = np.maximum(problem.X @ A.T, 0).sum(-1).argmax(-1)
    answer = att_svm(problem, best).direction
    radii = [10, 100, 300, 900, 2700]
    run = kt.train(problem, "p", kt.RegularizationPath(radii), head=kt.ReluHead(A), start=answer)
    errors = [far(p, answer) for p in run.path]
    assert run.reason is kt.Reason.RADII
    assert all(b < a / 4 for a, b in pairwise(errors[1:]))


def test_the_order_of_limits_decides_the_joint_answer():
    """Third input beyond the label margin: r/R >= 1 gives the relaxed direction (1, 0), and a
    small ratio the full Att-SVM's (1.25, 0.25)."""
    X = np.array([[[0.0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], [0.5, 1.5]]])
    problem = kt.TokenProblem(X, [1, -1, 1], [1.0, 0.0])
    full = att_svm(problem, [1, 1, 1]).direction
    start = {"p": [1.0, 0.0], "v": [0.0, 1.0]}
    radii = [1, 3, 10, 30, 100, 300, 1000]

    def end(ratio):
        method = kt.RegularizationPath(radii, ratio=ratio)
        return kt.train(problem, "vp", method, start=start)

    assert far(end(1.2).params["p"], [1.0, 0.0]) < 1e-5
    assert far(end(0.02).params["p"], full) < 1e-3
    assert 1e-3 < far(end(0.5).params["p"], full) < far(end(1.2).params["p"], full)
    pairs = kt.train(problem, "vp", kt.RegularizationPath([[0.5, 1], [5, 10]]), start=start)
    same = kt.train(problem, "vp", kt.RegularizationPath([1, 10], ratio=0.5), start=start)
    assert np.allclose(pairs.params["p"], same.params["p"])
    assert np.linalg.norm(pairs.params["v"]) == pytest.approx(5)
