"""Gradients: the pairwise reference, finite differences, and life past the underflow of exp."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slow_attention as slow

import keytokens as kt
from keytokens.dynamics.job import Job
from keytokens.dynamics.kinds import KINDS, with_batch
from keytokens.heads import MLPHead, ReluHead
from keytokens.losses import loss_of


def own_loss(m):
    return (1 - m) ** 2


def own_head(x):
    return jnp.sum(jnp.sin(x)) + 0.5 * x @ x


def head_of(name, d):
    references, (A, b, u) = slow.heads(d)
    made = {"linear": None, "relu": ReluHead(A), "mlp": MLPHead(A, b, u), "own": own_head}
    return made[name], references.get(name)


def job_of(problem, over, loss="logistic", head=None):
    kind = KINDS[problem.kind]
    data, start = with_batch(kind.data(problem, over), None), kind.start(problem, over)
    loss = loss_of(own_loss if loss == "own" else loss)
    return Job(problem.kind, kind.model(over), loss, head, data, None, start, np.arange(2))


def drawn(start, scale=0.7):
    rng = np.random.default_rng(1)
    return {name: scale * rng.standard_normal(w.shape) for name, w in start.items()}


def safe_gradient(job, blocks):
    """(mantissas, exponents) of one problem."""
    data = {name: a[0] for name, a in job.data.items()}
    with jax.enable_x64(True):
        G, e = job.objective.gradient(blocks, data)
        return {k: np.asarray(g) for k, g in G.items()}, {k: float(x) for k, x in e.items()}


def gradient(job, blocks):
    G, e = safe_gradient(job, blocks)
    return {name: np.exp(e[name]) * G[name] for name in G}


def values(job, blocks):
    """L at each of several blocks, stacked along the first axis."""
    with jax.enable_x64(True):
        data = {name: jnp.asarray(a[0]) for name, a in job.data.items()}
        return np.asarray(jax.vmap(lambda b: job.objective.value(b, data))(blocks))


def finite_differences(job, blocks, name, h=1e-3):
    """Fourth-order central differences along ten drawn directions: directions and slopes."""
    u = np.random.default_rng(2).standard_normal((10, *blocks[name].shape))
    moved = np.concatenate([blocks[name] + k * h * u for k in (-2, -1, 1, 2)])
    still = {other: np.repeat(w[None], 40, axis=0) for other, w in blocks.items()}
    low, lower, upper, up = values(job, {**still, name: moved}).reshape(4, 10)
    return u, (low - 8 * lower + 8 * upper - up) / (12 * h)


def ragged(problem):
    mask = np.ones((problem.n, problem.T), bool)
    mask[0, 1:], mask[1, ::2] = False, False
    return kt.TokenProblem(problem.X, problem.y, problem.v, problem.query, mask)


def corpus():
    problem, _, _ = kt.embedding_problem(n=12, T=5, d=6, partly=2, irrelevant=3)
    rng = np.random.default_rng(3)
    return kt.EmbeddingProblem(
        problem.counts, problem.y, problem.embedding, problem.v, rng.standard_normal(6)
    )


def successors():
    E = np.random.default_rng(4).standard_normal((5, 4))
    return kt.NextTokenProblem([[0, 1, 2, 1], [3, 4, 4, 0], [2, 2, 2, 2]], [1, 0, 2], E)


HEADS = ("linear", "relu", "mlp", "own")
TOKEN_CASES = [
    case
    for case in itertools.product(
        ("p", "W", "KQ", "vp"), slow.LOSSES, ("linear", "relu", "mlp", "own")
    )
    if not (case[0] == "vp" and case[2] != "linear")
]
COUNT_CASES = [*itertools.product(("p", "E", "Ep"), slow.LOSSES, HEADS)]


def agrees(job, blocks, reference):
    found = gradient(job, blocks)
    for name, expected in reference.items():
        assert np.allclose(found[name], expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def agrees_with_differences(job, blocks):
    found = gradient(job, blocks)
    for name in blocks:
        scale = np.linalg.norm(found[name])
        u, slopes = finite_differences(job, blocks, name)
        error = np.abs(u.reshape(10, -1) @ found[name].ravel() - slopes)
        assert error.max() <= 1e-7 * scale * np.linalg.norm(u[0])


@pytest.mark.parametrize(("over", "loss", "head"), TOKEN_CASES)
def test_token_gradients(over, loss, head):
    problem = ragged(kt.random_problem(n=3, T=4, d=5, seed=7))
    psi, reference = head_of(head, problem.d)
    job = job_of(problem, over, loss, psi)
    blocks = drawn(job.start)
    agrees(job, blocks, slow.token_gradient(over, blocks, problem, loss, reference))
    agrees_with_differences(job, blocks)


@pytest.mark.parametrize(("over", "loss", "head"), COUNT_CASES)
def test_count_gradients(over, loss, head):
    problem = corpus()
    psi, reference = head_of(head, problem.d)
    job = job_of(problem, over, loss, psi)
    blocks = drawn(job.start)
    agrees(job, blocks, slow.count_gradient(blocks, problem, loss, reference))
    agrees_with_differences(job, blocks)


@pytest.mark.parametrize("over", ["W", "KQ"])
def test_next_token_gradients(over):
    problem = successors()
    job = job_of(problem, over)
    blocks = drawn(job.start)
    agrees(job, blocks, slow.next_gradient(blocks, problem))
    agrees_with_differences(job, blocks)


@pytest.mark.parametrize("scale", [1e1, 1e3, 1e5])
@pytest.mark.parametrize("head", ["linear", "own"])
def test_direction_outlives_underflow(scale, head):
    """Far out one input's closest rival decides: the gradient is along its key difference."""
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]])
    problem = kt.TokenProblem(X, [1], [1.0, 0.2])
    job = job_of(
        problem, "p", "logistic", None if head == "linear" else lambda x: x[0] + 0.2 * x[1]
    )
    G, e = safe_gradient(job, {"p": scale * np.array([1.0, 0.1])})
    away = X[0, 1] - X[0, 0]
    cosine = G["p"] @ away / np.linalg.norm(G["p"]) / np.linalg.norm(away)
    assert cosine == pytest.approx(1, abs=1e-12 if scale > 10 else 1e-2)
    assert 0.01 < np.abs(G["p"]).max() < 10
    assert e["p"] == pytest.approx(-0.9 * scale, abs=3)


def test_v_outlives_underflow_of_the_loss():
    problem = kt.TokenProblem([[[1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0])
    job = job_of(problem, "vp", "exponential")
    G, e = safe_gradient(job, {"v": np.array([4e3, 0.0]), "p": np.array([50.0, 0.0])})
    assert np.allclose(G["v"], [-1, 0], atol=1e-12)
    assert e["v"] == pytest.approx(-4e3)
    assert np.allclose(G["p"] / np.linalg.norm(G["p"]), [-np.sqrt(0.5), np.sqrt(0.5)])


def test_an_input_without_choice_has_no_say():
    """All scores equal in one input: it must not hide the underflown gradient of the other."""
    X = np.array([[[1.0, 0.0], [1.0, 3.0]], [[2.0, 0.0], [0.0, 1.0]]])
    problem = kt.TokenProblem(X, [1, 1], [1.0, 0.0])
    G, e = safe_gradient(job_of(problem, "p"), {"p": np.array([1e3, 0.0])})
    assert np.allclose(G["p"] / np.linalg.norm(G["p"]), np.array([-2, 1]) / np.sqrt(5))
    assert e["p"] == pytest.approx(-2e3, abs=5)


def test_next_token_outlives_underflow():
    problem = kt.NextTokenProblem([[0, 1]], [0], np.eye(2))
    G, e = safe_gradient(job_of(problem, "W"), {"W": np.array([[0.0, 2e3], [0.0, 0.0]])})
    assert e["W"] == pytest.approx(-2e3)
    assert np.allclose(G["W"], [[0, -1], [0, 1]])
