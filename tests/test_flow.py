"""Gradient flow: by hand, against slow references, by two routes, and far past saturation."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import nnls

import keytokens as kt
from keytokens._checks import Floats
from keytokens.dynamics import flow_kernel as kernel
from keytokens.dynamics.flow_rosenbrock import rodas_step
from keytokens.losses import LOSSES, Loss

pytest.importorskip("jax")
CODES = {"logistic": 0, "exponential": 1, "linear": 2}


def unit(w: Floats) -> Floats:
    return w / np.linalg.norm(w)


def apart(one: Floats, two: Floats) -> float:
    """1 - cos, free of cancellation."""
    return float(((unit(one.ravel()) - unit(two.ravel())) ** 2).sum() / 2)


def flow(problem: kt.TokenProblem, over: str = "p", **options: object) -> kt.Trajectory:
    known = {k: options.pop(k) for k in ("norm", "tolerance", "ratio") if k in options}
    return kt.train(problem, over, kt.GradientFlow(**known), **options)  # type: ignore[arg-type]


def rows(problem: kt.TokenProblem, over: str, selected: Floats) -> Floats:
    """k_sel - k_t, or (x_sel - x_t) z^T, of every other token."""
    found = []
    for i, s in enumerate(selected):
        for t in set(range(problem.T)) - {int(s)}:
            row = problem.X[i, s] - problem.X[i, t]
            found.append(row if over == "p" else np.outer(row, problem.query[i]).ravel())
    return np.array(found)


def least_distance(G: Floats) -> Floats:
    """argmin ||p|| s.t. Gp >= 1, by non-negative least squares."""
    target = np.zeros(G.shape[1] + 1)
    target[-1] = 1.0
    E = np.vstack([G.T, np.ones(len(G))])
    r = E @ nnls(E, target, maxiter=10_000)[0] - target
    return -r[:-1] / r[-1]


def test_one_input_runs_along_the_only_difference() -> None:
    problem = kt.TokenProblem([[[3.0, 4.0], [0.0, 0.0]]], [1], [1.0, 0.0])
    run = flow(problem, norm=1e3)
    assert np.allclose(run.path, run.norms[:, None] * [0.6, 0.8], rtol=0, atol=1e-9)
    assert run.norms[-1] == pytest.approx(1e3, rel=1e-8)
    assert run.reason is kt.Reason.NORM
    assert run.steps[-1] == pytest.approx(np.log(np.hypot(1, 1e3)))


def test_what_no_gradient_touches_stays() -> None:
    problem = kt.TokenProblem([[[3.0, 4.0], [0.0, 0.0]]], [1], [1.0, 0.0])
    run = flow(problem, norm=1e3, start=np.array([8.0, -6.0]))
    assert np.allclose(run.path @ [0.8, -0.6], 10.0)
    assert run.norms[0] == pytest.approx(10.0)
    assert run.norms[-1] == pytest.approx(1e3)


def test_the_step_is_of_order_four() -> None:
    def f(y: Floats) -> Floats:
        return np.array([-y[0] * y[1] + np.sin(y[1]), y[0] ** 2 - y[1]])

    def J(y: Floats) -> Floats:
        return np.array([[-y[1], -y[0] + np.cos(y[1])], [2 * y[0], -1.0]])

    way = dict(method="DOP853", rtol=1e-13, atol=1e-14)
    exact = solve_ivp(lambda t, y: f(y), (0, 2), [1, 0.5], **way).y[:, -1]
    errors = []
    for n in (20, 40, 80):
        y = np.array([1.0, 0.5])
        for _ in range(n):
            y, _ = rodas_step(f, J(y), y, f(y), 2 / n)
        errors.append(np.abs(y - exact).max())
    assert np.allclose(np.log2(np.divide(errors[:-1], errors[1:])), 4, atol=0.3)


def plain_gradient(y: Floats, K: Floats, a0: Floats, scores: Floats, loss: str) -> Floats:
    """-grad L of the textbook formula: sum_i -l'(m_i) K_i^T (diag s - s s^T) gamma_i."""
    total = np.zeros(len(y))
    for keys, offset, gamma in zip(K, a0, scores, strict=True):
        s = np.exp(keys @ y + offset)
        s /= s.sum()
        slope = {"logistic": -1 / (1 + np.exp(s @ gamma)), "exponential": -np.exp(-s @ gamma)}
        total -= slope.get(loss, -1.0) * keys.T @ (np.diag(s) - np.outer(s, s)) @ gamma
    return total


@pytest.fixture(params=CODES)
def pulls(request: pytest.FixtureRequest) -> tuple[str, tuple[Floats, ...]]:
    """A loss and the arrays of the compiled field; one token is masked, counts differ from 1."""
    rng = np.random.default_rng(3)
    K, scores = rng.standard_normal((4, 5, 6)), rng.standard_normal((4, 5))
    offsets = np.log(rng.integers(1, 4, (4, 5)).astype(float))
    offsets[1, 2], scores[1, 2] = -np.inf, 0.0
    return request.param, (K - K.mean(axis=1, keepdims=True), offsets, scores)


def test_field_is_the_plain_gradient(pulls: tuple[str, tuple[Floats, ...]]) -> None:
    loss, arrays = pulls
    y = np.random.default_rng(0).standard_normal(6)
    f, _ = kernel.field(y, *arrays, CODES[loss], 1.0)
    assert apart(f, plain_gradient(y, *arrays, loss)) < 1e-24


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 3000.0])
def test_jacobian_is_the_difference_quotient(
    pulls: tuple[str, tuple[Floats, ...]], scale: float
) -> None:
    loss, arrays = pulls
    y = scale * np.random.default_rng(1).standard_normal(6)
    h = 1e-6 * max(1.0, scale)

    def f(z: Floats) -> Floats:
        return kernel.field(z, *arrays, CODES[loss], 1.3)[0]

    quotient = np.stack([(f(y + h * e) - f(y - h * e)) / (2 * h) for e in np.eye(6)], axis=1)
    J = kernel.jacobian(y, *arrays, CODES[loss], 1.3)
    assert np.abs(J - quotient).max() < 1e-7 * np.abs(J).max()


@pytest.mark.parametrize(
    ("over", "problem"),
    [
        ("p", kt.random_problem(4, 5, 32, seed=1, batch=12)),
        ("W", kt.random_problem(6, 8, 10, seed=1, batch=6)),
    ],
)
def test_direction_is_the_att_svm_like_one_over_norm_squared(
    over: str, problem: kt.TokenProblem
) -> None:
    run = flow(problem, over)
    for k in range(len(problem)):
        goal = least_distance(rows(problem[k], over, run.selected[k]))
        far = run.norms[k] > 99
        errors = np.array([apart(w, goal) for w in run.path[k][far]])
        slope = np.polyfit(np.log(run.norms[k][far]), np.log(errors), 1)[0]
        assert run.reason[k] is kt.Reason.NORM
        assert errors[-1] < 1e-6
        assert slope == pytest.approx(-2, abs=0.3)
    assert np.median([apart(w, least_distance(rows(problem[k], over, run.selected[k])))
                      for k, w in enumerate(run.params)]) < 1e-8  # fmt: skip


def test_halving_the_tolerance_hardly_moves_the_end() -> None:
    problem = kt.random_problem(6, 8, 10, seed=2, batch=4)
    one, half = (flow(problem, "W", tolerance=t).params for t in (1e-6, 5e-7))
    assert max(np.linalg.norm(unit(a) - unit(b)) for a, b in zip(one, half, strict=True)) < 1e-8


def test_descent_with_small_steps_follows_the_flow() -> None:
    problem = kt.random_problem(3, 4, 5, seed=4)
    errors = []
    for step in (0.2, 0.1, 0.05):
        run = kt.train(problem, "p", kt.GradientDescent(step), steps=int(200 / step), save=2)
        end = flow(problem, norm=float(run.norms[-1]), tolerance=1e-9).params
        errors.append(np.linalg.norm(run.params - end))
    assert np.allclose(np.divide(errors[:-1], errors[1:]), 2, atol=0.1)


def test_compiled_autodiff_and_another_integrator_agree() -> None:
    diffrax, jnp = pytest.importorskip("diffrax"), pytest.importorskip("jax.numpy")
    problem = kt.random_problem(2, 3, 6, seed=5)
    compiled = flow(problem, norm=30.0, tolerance=1e-9)
    plain = LOSSES["logistic"]
    other = flow(problem, norm=30.0, tolerance=1e-9, loss=Loss("mine", plain.value, plain.slope))
    assert np.linalg.norm(compiled.params - other.params) < 1e-7
    assert max(apart(*pair) for pair in zip(compiled.path[1:], other.path[1:], strict=True)) < 1e-9
    with __import__("jax").enable_x64(True):
        X, gamma = jnp.asarray(problem.X), jnp.asarray(kt.token_scores(problem))

        def field(t: float, p: Floats, args: None) -> Floats:
            a = X @ p
            s = jnp.exp(a - a.max(axis=1, keepdims=True))
            s = s / s.sum(axis=1, keepdims=True)
            m = (s * gamma).sum(axis=1)
            pull = ((s * (gamma - m[:, None]))[..., None] * X).sum(axis=1)
            g = (pull / (1 + jnp.exp(m))[:, None]).sum(axis=0)
            return g / jnp.linalg.norm(g) * jnp.sqrt(1 + p @ p)

        control = diffrax.PIDController(rtol=1e-8, atol=1e-8)
        term, solver = diffrax.ODETerm(field), diffrax.Kvaerno5()
        found = diffrax.diffeqsolve(term, solver, 0.0, 3.0, 1e-3, jnp.zeros(6),
                                    stepsize_controller=control)  # fmt: skip
        end = np.asarray(found.ys[-1])
    ours = flow(problem, norm=float(np.linalg.norm(end)), tolerance=1e-9).params
    assert np.linalg.norm(ours - end) < 1e-6 * np.linalg.norm(end)


def conflict(v: list[float]) -> kt.TokenProblem:
    """Two inputs of the same two tokens, opposite labels."""
    tokens = [[1.0, 0.0], [0.0, 1.0]]
    return kt.TokenProblem([tokens, tokens], [1, -1], v)


def test_a_finite_limit_stops_the_run() -> None:
    """m = +-(2 s - 1): the loss is least at s = 1/2."""
    run = flow(conflict([1.0, -1.0]), start=np.array([1.5, 0.0]))
    assert run.reason is kt.Reason.CONVERGED
    assert np.allclose(run.params, 0.75, atol=1e-9)
    assert np.allclose(run.attention, 0.5)
    assert np.array_equal(run.path[-1], run.params)


def test_pulls_that_cancel_ever_more_are_not_called_a_limit() -> None:
    """m = +-s: the loss is least at s = 0, where the two inputs' pulls cancel."""
    run = flow(conflict([1.0, 0.0]))
    assert run.reason is kt.Reason.CANCELLED
    assert run.norms[-1] > 10
    assert run.attention[0, 0] < 1e-6


def test_no_pull_at_all_is_stationary() -> None:
    problem = kt.TokenProblem([[[1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 1.0])
    run = flow(problem, start=np.array([0.3, -0.1]))
    assert run.reason is kt.Reason.STATIONARY
    assert np.array_equal(run.params, [0.3, -0.1])


def test_a_masked_token_is_no_token() -> None:
    short = kt.random_problem(3, 4, 8, seed=6)
    X = np.concatenate([short.X, 7 * np.ones((3, 1, 8))], axis=1)
    mask = np.arange(5) < 4 + np.zeros((3, 1))
    long = kt.TokenProblem(X, short.y, short.v, mask=mask)
    assert np.allclose(flow(long).params, flow(short).params, rtol=1e-9)


def test_order_of_tokens_and_size_of_the_batch_do_not_matter() -> None:
    many = kt.random_problem(4, 5, 12, seed=7, batch=3)
    alone, together = flow(many[2]), flow(many)
    assert np.array_equal(alone.params, together.params[2])
    order = [3, 1, 4, 0, 2]
    turned = kt.TokenProblem(many.X[2][:, order], many.y[2], many.v[2])
    assert apart(flow(turned).params, alone.params) < 1e-18


def test_save_says_how_many_points() -> None:
    problem = kt.random_problem(3, 4, 6, seed=8)
    few = flow(problem, save=5)
    assert len(few.norms) <= 6
    assert few.norms[0] == 0
    assert few.norms[-1] == pytest.approx(1e5)
    assert (np.diff(few.norms) > 0).all()


def test_joint_flow_keeps_the_ratio_and_factors_go_nuclear() -> None:
    joint = flow(kt.random_problem(3, 3, 6, seed=9), "vp", ratio=0.5, norm=1e4)
    assert np.linalg.norm(joint.params["v"]) / np.linalg.norm(joint.params["p"]) == pytest.approx(
        0.5, rel=1e-3
    )
    problem = kt.random_problem(2, 3, 4, seed=9)
    run = flow(problem, "KQ", norm=1e3)
    W = run.params["K"] @ run.params["Q"].T
    nuclear = kt.att_svm(problem, run.selected, "W", "nuclear").direction
    assert apart(W, nuclear) < 1e-5


BAD = {
    "norm must be positive; got -1.": dict(norm=-1),
    "tolerance must be positive; got 0.": dict(tolerance=0),
    "norm must be above the norm of the start; got 3, start 5.": dict(norm=3, start=[3.0, 4.0]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    problem = kt.TokenProblem([[[1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0])
    with pytest.raises(kt.InputError) as caught:
        flow(problem, **BAD[message])
    assert str(caught.value) == message


def test_steps_bound_the_integrator() -> None:
    run = flow(kt.random_problem(3, 4, 6, seed=8), steps=10)
    assert run.reason is kt.Reason.STEPS
    assert run.norms[-1] < 1e5
