"""The laws: exact where they are exact, leading order where they are."""

import numpy as np
import pytest

import keytokens as kt
from keytokens._checks import Floats

pytest.importorskip("jax")


def shared_query(seed: int = 0) -> tuple[kt.TokenProblem, Floats]:
    """One query for all inputs, so that the logits over W are X W u."""
    base = kt.random_problem(4, 5, 6, seed)
    u = np.array([0.3, -1.2, 0.5, 0.0, 0.8, 0.1])
    return kt.TokenProblem(base.X, base.y, base.v, np.tile(u, (4, 1))), u


def test_equivalence_by_hand() -> None:
    W0 = np.array([[1.0, 2.0], [3.0, 4.0]])
    W = kt.equivalent_W([2.0, 3.0], u=[0.0, 2.0], W0=W0, p0=[4.0, 8.0])
    assert np.array_equal(W, [[1.0, 1.0], [3.0, 1.5]])


@pytest.mark.parametrize(
    ("method", "steps"),  # Polyak's steps grow without bound, and rounding with them
    [(kt.GradientDescent(0.5), 60), (kt.NormalizedDescent(0.1), 60), (kt.PolyakDescent(), 5)],
)
def test_training_p_is_training_W(method: object, steps: int) -> None:
    problem, u = shared_query()
    over_p = kt.train(problem, "p", method, steps=steps, save=10)
    over_W = kt.train(problem, "W", kt.equivalent_method(method, u), steps=steps, save=10)
    expected = kt.equivalent_W(over_p.path, u)
    assert np.abs(over_W.path - expected).max() < 1e-11 * np.abs(expected).max()


def test_the_flow_of_p_is_the_flow_of_W() -> None:
    problem, u = shared_query(1)
    flow = kt.GradientFlow(norm=100.0, tolerance=1e-8)
    over_p = kt.train(problem, "p", flow)
    length = float(np.linalg.norm(u))
    over_W = kt.train(problem, "W", kt.GradientFlow(norm=100.0 / length, tolerance=1e-8))
    assert np.linalg.norm(over_W.params - kt.equivalent_W(over_p.params, u)) < 1e-5


def equal_rest(seed: int, spread: float = 0.0) -> kt.TokenProblem:
    """Every input's other tokens have equal scores, up to `spread`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 3, 12))
    X[..., -1] = spread * rng.standard_normal((4, 3))
    X[:, 0, -1] = 1.0 + spread
    X[..., -1] *= (y := rng.choice([-1.0, 1.0], 4))[:, None]
    return kt.TokenProblem(X, y, np.eye(12)[-1], W=np.eye(12)[:, :-1])


@pytest.mark.parametrize("seed", range(10))
def test_key_inequality_holds_when_other_scores_are_equal(seed: int) -> None:
    problem = equal_rest(seed)
    goal = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
    points = np.random.default_rng(seed).standard_normal((30, 11))
    points *= np.geomspace(0.1, 1e4, 30)[:, None]
    for loss in ("logistic", "exponential", "linear"):
        assert (kt.key_inequality(problem, points, goal, loss) < 0).all()


def test_key_inequality_fails_somewhere_when_they_are_not() -> None:
    found = []
    for seed in range(20):
        problem = equal_rest(seed, spread=1.0)
        goal = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
        points = 3 * np.random.default_rng(seed).standard_normal((30, 11))
        found.append(kt.key_inequality(problem, points, goal).max())
    assert max(found) > 0


def test_key_inequality_is_the_plain_cosine() -> None:
    problem = equal_rest(3, spread=0.4)
    p, goal = np.linspace(-1, 1, 11), np.linspace(2, -1, 11)
    K, gamma = problem.keys, kt.token_scores(problem)
    s = np.exp(K @ p) / np.exp(K @ p).sum(axis=1, keepdims=True)
    m = (s * gamma).sum(axis=1)
    g = -np.einsum("i,it,itj->j", 1 / (1 + np.exp(m)), s * (gamma - m[:, None]), K)
    cosine = g @ goal / np.linalg.norm(g) / np.linalg.norm(goal)
    assert kt.key_inequality(problem, p, goal)[0] == pytest.approx(cosine, abs=1e-12)


def ratios(law: object) -> Floats:
    return law.measured / law.predicted  # type: ignore[attr-defined]


def test_growth_under_constant_steps_is_logarithmic() -> None:
    problem = kt.TokenProblem([[[2.0, 0.0], [0.0, 0.0]]], [1], [1.0, 0.0])
    method = kt.GradientDescent(1.0)
    run = kt.train(problem, "p", method, steps=100_000, save=[100, 1000, 10_000])
    law = kt.growth_law(run, method, margin=kt.att_svm(problem, [0]).margin)
    error = np.abs(ratios(law) - 1)
    assert (np.diff(error) < 0).all()
    assert law.ratio == pytest.approx(1, abs=0.05)


def test_growth_under_normalised_and_mirror_steps() -> None:
    problem = kt.random_problem(3, 4, 8, seed=1)
    normalised = kt.NormalizedDescent(0.1)
    run = kt.train(problem, "p", normalised, steps=3000)
    assert kt.growth_law(run, normalised).ratio == pytest.approx(1, abs=0.05)
    mirror = kt.MirrorDescent(1.75, 0.1)
    run = kt.train(problem, "p", mirror, steps=3000)
    assert kt.growth_law(run, mirror).ratio == pytest.approx(1, abs=0.1)


def test_what_is_not_selected_dies_at_the_rate_of_the_margin() -> None:
    problem = kt.random_problem(3, 4, 8, seed=1)
    run = kt.train(problem, "p", kt.GradientFlow(norm=1e5))
    law = kt.saturation_law(problem, run, kt.att_svm(problem, run.selected).margin)
    assert law.ratio == pytest.approx(1, abs=1e-3)
    assert law.measured[-1] < -1e4  # far below the least float's logarithm
    near = np.flatnonzero((run.norms > 5) & (run.norms < 40))[0]
    a = problem.X @ run.path[near]
    s = np.exp(a - a.max(axis=1, keepdims=True))
    s /= s.sum(axis=1, keepdims=True)
    rest = 1 - s[np.arange(3), run.selected]
    assert law.measured[near] == pytest.approx(np.log(rest).max(), rel=1e-9)


def corpus() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, (30, 7)) + np.eye(7)[rng.integers(0, 7, 30)], rng.choice(
        [-1.0, 1], 30
    )


def test_early_law_is_exact_at_infinite_width() -> None:
    """Embeddings orthonormal and orthogonal to v: one step on E and one on p, in the open."""
    (N, y), eta, delta = corpus(), 5.0, 0.7
    n, V = N.shape
    E, v = np.eye(V + 1)[:V], 1.5 * np.eye(V + 1)[V]
    w = N / N.sum(axis=1, keepdims=True)
    E = E + eta * np.outer(w.T @ (0.5 * y) / n, v)  # f = 0 at the start: sigma(0) = 1/2
    b = E @ v
    f = w @ b
    r = -y / (1 + np.exp(y * f)) / n
    da = (w * r[:, None] * (b - f[:, None])).sum(axis=0)
    p = -delta * E.T @ da
    law = kt.early_law(N, y, eta, delta, v_norm=1.5)
    assert np.allclose(law.value, b, atol=1e-14)
    assert np.allclose(law.attention, E @ p, atol=1e-14)
    assert law.da.sum() == pytest.approx(0, abs=1e-15)


def test_early_law_leading_order_and_tilt() -> None:
    N, y = corpus()
    small, large = kt.early_law(N, y, 0.01), kt.early_law(N, y, 50.0)
    w = N / N.sum(axis=1, keepdims=True)
    half = 0.5 * (small.alpha * small.value - w.T @ (y * (w @ small.value)) / len(y))
    assert np.allclose(-small.da, half, rtol=2e-2, atol=2e-2 * np.abs(half).max())
    assert small.tilt_share < 1e-4 < large.tilt_share


def test_bad_input_is_named() -> None:
    problem, u = shared_query()
    run = kt.train(problem, "p", kt.GradientFlow(norm=10.0))
    cases = [
        (lambda: kt.equivalent_W([1.0, 2.0], u=[0.0, 0.0]), "u must differ from zero"),
        (lambda: kt.equivalent_W([1.0], [1.0], W0=[[2.0]], p0=[1.0]), "W0 must satisfy W0 u = p0"),
        (lambda: kt.equivalent_method(kt.MirrorDescent(3.0), u), "method must be gradient, normal"),
        (lambda: kt.equivalent_method(kt.GradientDescent(lambda k, r: 1.0), u), "step must be a n"),
        (lambda: kt.growth_law(run, kt.GradientFlow()), "method must be normalised, mirror or"),
        (lambda: kt.growth_law(run, kt.GradientDescent()), "margin must be a number; got None"),
        (lambda: kt.growth_law(run, kt.NormalizedDescent(lambda k, r: 1.0)), "step must be a n"),
        (lambda: kt.early_law([[1, 0]], [2], 1.0), "y must hold labels +1 or -1"),
        (lambda: kt.early_law([[1, 0], [0, 0]], [1, 1], 1.0), "counts must be zero or positive"),
        (lambda: kt.early_law([[1, 0]], [1], np.nan), "eta must be finite"),
        (lambda: kt.key_inequality(problem, [1.0] * 5, [1.0] * 6), "points of p must have shape"),
        (lambda: kt.key_inequality(problem, [1.0] * 6, [1.0] * 5), "direction must have shape"),
        (lambda: kt.key_inequality(problem, [1.0] * 6, [1.0] * 6, over="vp"), "over must be one"),
    ]
    for call, message in cases:
        with pytest.raises(kt.InputError) as caught:
            call()
        assert str(caught.value).startswith(message)
