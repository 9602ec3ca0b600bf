"""Descent: by hand, two routes, the papers' laws, the limit, and why a run ended."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keytokens as kt
from keytokens.dynamics import fast
from keytokens.svm.att import att_svm

TWO = kt.TokenProblem([[[1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0])


def correlation(a, b):
    return np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.fixture
def by_jax(monkeypatch):
    """Send every job to the jax loop."""
    return lambda: monkeypatch.setattr(fast, "serves", lambda job: False)


def test_one_gradient_step_by_hand():
    """p = 0: s = 1/2, m = 1/2, l' = -1/(1 + e^.5); grad = l' s_1 s_2 (gamma_1 - gamma_2) dk."""
    run = kt.train(TWO, "p", kt.GradientDescent(step=2.0), steps=1)
    slope = 1 / (1 + np.exp(0.5)) / 4
    assert np.allclose(run.params, [2 * slope, -2 * slope], rtol=1e-14)
    assert run.losses[0] == pytest.approx(np.log1p(np.exp(-0.5)))
    assert run.steps.tolist() == [0, 1]


def test_normalized_steps_by_hand():
    """One input, two tokens: every step has length 0.1 along the key difference."""
    run = kt.train(TWO, "p", kt.NormalizedDescent(0.1), steps=50_000, save=[0, 3])
    unit = np.array([1.0, -1.0]) / np.sqrt(2)
    assert np.allclose(run.path, np.outer([0, 0.3, 5000], unit), atol=1e-9)
    assert run.selected.tolist() == [0]
    assert run.reason is kt.Reason.STEPS


METHODS = [kt.GradientDescent(1.5), kt.NormalizedDescent(0.1)]


@pytest.mark.parametrize("over", ["p", "W"])
@pytest.mark.parametrize("method", METHODS, ids=["gradient", "normalized"])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "linear"])
def test_compiled_loop_and_jax_agree(over, method, loss, by_jax):
    problem = kt.random_problem(n=3, T=4, d=5, batch=3)
    mask = np.ones((3, 3, 4), bool)
    mask[1, 0, 1:] = mask[2, 1, 0] = False
    problem = kt.TokenProblem(problem.X, problem.y, problem.v, problem.query, mask)
    compiled = kt.train(problem, over, method, steps=300, loss=loss)
    by_jax()
    plain = kt.train(problem, over, method, steps=300, loss=loss)
    for name in ("path", "norms", "losses", "attention"):
        assert np.allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-9, atol=1e-9)
    assert compiled.reason == plain.reason


def test_compiled_loop_and_jax_agree_past_underflow(by_jax):
    problem = kt.random_problem(n=2, T=3, d=6, seed=4)
    start = 1e4 * kt.train(problem, "p", steps=3000, save=1).params
    compiled = kt.train(problem, "p", kt.NormalizedDescent(1e4), steps=300, start=start)
    by_jax()
    plain = kt.train(problem, "p", kt.NormalizedDescent(1e4), steps=300, start=start)
    assert np.allclose(compiled.params, plain.params, rtol=1e-9)
    assert np.isfinite(compiled.params).all()


@pytest.mark.parametrize("over", ["p", "W"])
def test_direction_improves_where_rounding_used_to_rule(over):
    """The correlation with the Att-SVM at step 20,000 is above that at step 2,000."""
    problem = kt.random_problem(n=4, T=5, d=12, batch=5)
    run = kt.train(problem, over, steps=20_000, save=[2000, 20_000])
    path = run.path.reshape(5, 2, -1)
    for k in range(5):
        answer = att_svm(problem[k], run.selected[k], over=over)
        early, late = (correlation(w, answer.direction.ravel()) for w in path[k])
        assert late > early
        assert 1 - late < 1e-4


def test_a_step_that_shrinks_beside_the_norm_is_nearly_the_flow():
    """At norm 1e4 the flow has 1 - correlation ~ 2e-7; within ten times that."""
    problem = kt.random_problem(n=4, T=5, d=32, batch=6, seed=1)
    answers = att_svm(problem, kt.optimal_tokens(problem)).direction
    method = kt.NormalizedDescent(lambda k, norm: 0.4 * (1 + norm) * (k + 10.0) ** -0.8)
    run = kt.train(problem, "p", method, steps=20_000)
    for b in range(6):
        at = int(np.argmin(np.abs(run.norms[b] - 1e4)))
        assert run.norms[b, at] == pytest.approx(1e4, rel=0.5)
        assert 1 - correlation(run.path[b, at], answers[b]) < 2e-6


def test_p_and_W_are_one_descent():
    """Fix u, train p, or W with every query u and the step over ||u||: W_t u = p_t."""
    drawn = kt.random_problem(n=4, T=5, d=6)
    u = np.random.default_rng(0).standard_normal(6)
    problem = kt.TokenProblem(drawn.X, drawn.y, drawn.v, np.tile(u, (4, 1)))
    size = np.linalg.norm(u)
    for method, factor in ((kt.NormalizedDescent, size), (kt.GradientDescent, size**2)):
        p = kt.train(problem, "p", method(0.3), steps=200).path
        W = kt.train(problem, "W", method(0.3 / factor), steps=200).path
        assert np.allclose(W @ u, p, atol=1e-10)
        assert np.allclose(W, np.einsum("kd,e->kde", p, u) / size**2, atol=1e-10)
    one = kt.TokenProblem(drawn.X[:1], drawn.y[:1], drawn.v, u[None])
    p = kt.train(one, "p", kt.PolyakDescent(), steps=50).path
    W = kt.train(one, "W", kt.PolyakDescent(), steps=50).path
    assert np.allclose(W @ u, p, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("over", ["p", "W", "KQ", "vp"])
def test_a_batch_is_its_problems(over):
    batch = kt.random_problem(n=3, T=3, d=4, batch=3)
    together = kt.train(batch, over, steps=40)
    for k in (0, 2):
        start = None
        if over == "KQ":
            start = {name: w[k, 0] for name, w in together.path.items()}
        alone = kt.train(batch[k], over, steps=40, start=start)
        for name, w in alone.params.items() if over in ("KQ", "vp") else [(over, alone.params)]:
            found = together[k].params
            assert np.allclose(found[name] if isinstance(found, dict) else found, w, atol=1e-10)
        assert np.array_equal(alone.selected, together.selected[k])


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(4)), st.integers(0, 50))
def test_the_order_of_tokens_does_not_matter(order, seed):
    problem = kt.random_problem(n=2, T=4, d=3, seed=seed)
    shuffled = kt.TokenProblem(problem.X[:, order], problem.y, problem.v)
    runs = [kt.train(one, "p", kt.GradientDescent(1.0), steps=20) for one in (problem, shuffled)]
    assert np.allclose(runs[0].params, runs[1].params, atol=1e-11)
    assert np.allclose(runs[0].attention[:, order], runs[1].attention, atol=1e-11)


def test_masked_tokens_are_no_tokens():
    problem = kt.random_problem(n=3, T=5, d=4)
    mask = np.zeros((3, 5), bool)
    mask[:, :3] = True
    short = kt.TokenProblem(problem.X[:, :3], problem.y, problem.v, problem.query)
    long = kt.TokenProblem(problem.X, problem.y, problem.v, problem.query, mask)
    for over in ("p", "KQ", "vp"):
        a, b = (kt.train(one, over, steps=30) for one in (short, long))
        assert np.allclose(a.norms, b.norms, atol=1e-11)
        assert (b.attention[:, 3:] == 0).all()


def test_polyak_goes_to_the_best_loss_fast():
    """||p|| grows linearly, so L - L* falls exponentially."""
    problem = kt.random_problem(n=1, T=4, d=6)
    run = kt.train(problem, "p", kt.PolyakDescent(), steps=400, save=[100, 200, 400])
    best = np.log1p(np.exp(-kt.token_scores(problem).max()))
    assert run.losses[-1] == pytest.approx(best, abs=1e-12)
    assert run.norms[2] - run.norms[1] == pytest.approx(2 * (run.norms[1] - run.norms[0]), rel=0.1)


def test_mirror_descent_with_q_2_is_normalised_descent():
    problem = kt.random_problem(n=3, T=4, d=5)
    mirror = kt.train(problem, "W", kt.MirrorDescent(2.0, 0.1), steps=100)
    plain = kt.train(problem, "W", kt.NormalizedDescent(0.1), steps=100)
    assert np.allclose(mirror.path, plain.path, atol=1e-9)


@pytest.mark.parametrize("q", [1.5, 3.0])
def test_mirror_descent_goes_to_its_own_max_margin(q):
    """The margin min_t <p, k_opt - k_t> / ||p||_q nears the l_q Att-SVM's, past the l_2 run's."""
    problem = kt.random_problem(n=2, T=4, d=12, seed=0)
    opt = kt.optimal_tokens(problem)

    def margin(p):
        a = problem.X @ p / np.linalg.norm(p, q)
        gaps = np.take_along_axis(a, opt[:, None], 1) - a
        return np.partition(gaps, 1, axis=1)[:, 1].min()

    own = kt.train(problem, "p", kt.MirrorDescent(q, 0.5), steps=20_000, save=1)
    plain = kt.train(problem, "p", kt.NormalizedDescent(0.1), steps=20_000, save=1)
    best = att_svm(problem, opt, norm=q).margin
    assert margin(plain.params) < 0.98 * best
    assert 0.99 * best < margin(own.params) < best * (1 + 1e-9)


@pytest.mark.parametrize("ratio", [0.2, 1.0])
def test_the_ratio_of_the_two_radii(ratio):
    problem = kt.random_problem(n=2, T=3, d=8)
    run = kt.train(problem, "vp", kt.NormalizedDescent(0.1, ratio), steps=3000)
    sizes = {name: np.linalg.norm(w) for name, w in run.params.items()}
    assert sizes["v"] / sizes["p"] == pytest.approx(ratio, rel=0.15)


def test_joint_training_outlives_the_loss():
    """Past ||v|| ~ 1,000 the logistic loss has underflowed; the labels' margin still grows."""
    problem = kt.TokenProblem(
        [[[0.0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], [0.5, 1.5]]], [1, -1, 1], [1.0, 0]
    )
    start = {"p": [0.0, -1], "v": [-1.0, 0]}
    run = kt.train(problem, "vp", steps=20_000, start=start, save=[100, 20_000])
    assert run.losses[-1] == 0
    assert run.norms[-1] > 2500
    for name, limit in (("v", [0, 1]), ("p", [1, 0])):
        early, late = (1 - correlation(w, limit) for w in run.path[name])
        assert late <= early
        assert late < 1e-7


def test_every_head_and_own_loss_trains():
    problem = kt.random_problem(n=3, T=4, d=5)
    A = np.random.default_rng(0).standard_normal((4, 5))
    heads = [kt.ReluHead(A), kt.MLPHead(A, A[:, 0], A[:, 1]), lambda x: jnp.sum(x**3)]
    for head in heads:
        run = kt.train(problem, "W", head=head, loss=lambda m: jnp.exp(-2 * m), steps=200)
        assert run.losses[-1] < run.losses[0]
        assert run.reason is kt.Reason.STEPS


def test_reasons():
    flat = kt.TokenProblem([[[1.0, 0.0], [1.0, 2.0]]], [1], [1.0, 0.0])
    assert kt.train(flat, "p").reason is kt.Reason.STATIONARY
    assert kt.train(TWO, "p", kt.MirrorDescent(), start=[0, 0]).reason is kt.Reason.STEPS
    constant = kt.GradientDescent(lambda k, norm: 1.0)
    far = kt.train(TWO, "p", constant, start=[90.0, -90.0])
    assert far.reason is kt.Reason.STALLED
    assert np.array_equal(far.params, [90.0, -90.0])
    wild = kt.train(TWO, "p", kt.NormalizedDescent(lambda k, norm: 1e200 * (1 + norm)))
    assert wild.reason is kt.Reason.NOT_FINITE
    assert np.isfinite(wild.params).all()
    assert "raise `steps`" in str(kt.train(TWO, "p", steps=3).reason)


@pytest.mark.parametrize("steps", [1, 2, 199, 200, 5000])
def test_saved_points_are_few_and_hold_both_ends(steps):
    run = kt.train(TWO, "p", steps=steps)
    assert run.steps[0] == 0
    assert run.steps[-1] == steps
    assert len(run.steps) <= 200
    assert (np.diff(run.steps) > 0).all()
    assert len(run.path) == len(run.norms) == len(run.losses) == len(run.steps)


def test_saved_points_do_not_change_the_run():
    problem = kt.random_problem(batch=2)
    runs = [kt.train(problem, "W", steps=500, save=save) for save in (1, [7, 100], 200)]
    for run in runs[1:]:
        assert np.allclose(run.params, runs[0].params, atol=1e-11)


def test_same_bits_whatever_the_threads(monkeypatch):
    problem = kt.random_problem(batch=10)
    many = kt.train(problem, "W", steps=100)
    monkeypatch.setattr(fast.os, "cpu_count", lambda: 1)
    one = kt.train(problem, "W", steps=100)
    assert np.array_equal(many.path, one.path)


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("over", ["p", "vp"])
def test_runs_save_and_load(over, batch, tmp_path):
    run = kt.train(kt.random_problem(batch=batch), over, steps=10)
    run.save(tmp_path / "run")
    back = kt.Trajectory.load(tmp_path / "run")
    assert back.reason == run.reason
    assert back.over == over
    for name in ("norms", "losses", "attention", "selected", "steps"):
        assert np.array_equal(getattr(back, name), getattr(run, name))
    pairs = run.path.items() if over == "vp" else [("p", run.path)]
    for name, w in pairs:
        assert np.array_equal(back.path[name] if over == "vp" else back.path, w)
    with pytest.raises(kt.FileError, match="must hold a keytokens tokens problem; got: trajectory"):
        kt.TokenProblem.load(tmp_path / "run")
