"""One model, two implementations: the count kernels and the lab's EmbeddingProblem agree."""

import numpy as np
import pytest
from embedding_reference import planted

import keytokens as kt
from keytokens.embedding.corpus import Corpus
from keytokens.embedding.finite import FiniteOptions, train_finite
from keytokens.embedding.one_step import StageOptions, bare_loss, embed
from keytokens.embedding.p_training import Flow, Space, follow, velocity

V = 8


@pytest.fixture
def corpus() -> Corpus:
    return planted(n=30, V=V)


@pytest.fixture
def start() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E (V, 5), v (5,) of length 1, p (5,)."""
    rng = np.random.default_rng(0)
    E, v, p = rng.standard_normal((V, 5)) / 5**0.5, rng.standard_normal(5), rng.standard_normal(5)
    return E, v / np.linalg.norm(v), p


def lab(corpus: Corpus, E, v, over: str, method, p=None, **how):
    """Train the same corpus in the lab."""
    problem = kt.EmbeddingProblem(corpus.counts, corpus.target, E, v, p)
    return kt.train(problem, over=over, method=method, **how)


def test_the_networks_descent_is_the_labs_over_E_and_p(corpus, start) -> None:
    E, v, p = start
    options = FiniteOptions(width=5, optimiser="descent", rate=0.7, epochs=25)
    scores = train_finite(corpus, options, {"E": E, "p": p, "v": v[:, None]}).scores
    run = lab(
        *(corpus, E, v, "Ep", kt.GradientDescent(step=0.7)),
        steps=25,
        start={"E": E, "p": p},
    )
    assert scores.attention[0, :-1] == pytest.approx(run.params["E"] @ run.params["p"], abs=1e-12)
    assert scores.value[0, 0, :-1] == pytest.approx(run.params["E"] @ v, abs=1e-12)


def test_the_one_step_on_the_embedding_is_the_labs_over_E(corpus) -> None:
    options = StageOptions(width=5, eta=3.0, p0=1.0, seed=2)
    still = embed(corpus, bare_loss(corpus), StageOptions(width=5, eta=1e-300, p0=1.0, seed=2))
    assert still.E is not None
    rng = np.random.default_rng(2)
    rng.standard_normal((V, 5))
    v = np.linalg.qr(rng.standard_normal((5, 1)))[0][:, 0]
    run = lab(corpus, still.E, v, "E", kt.GradientDescent(step=3.0), p=still.p0, steps=1)
    stepped = embed(corpus, bare_loss(corpus), options).E
    assert stepped == pytest.approx(run.params, abs=1e-12)


def flow_of(corpus: Corpus, options: StageOptions) -> tuple[Flow, np.ndarray]:
    """The flow on p from the stage's own start, and where it ends in logits."""
    loss = bare_loss(corpus)
    embedded = embed(corpus, loss, options)
    space = Space(embedded)
    found = follow(velocity(loss, space, embedded.b), space, embedded.p0, options)
    return found, space.logits(found.p)


@pytest.mark.parametrize("error", [3e-4, 1e-7])
@pytest.mark.parametrize("norm", [2.0, 50.0])
def test_the_flow_at_infinite_width_is_the_labs_on_orthonormal_rows(
    corpus, error: float, norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V orthonormal rows that are orthogonal to v are all of infinite width that V tokens see."""
    monkeypatch.setattr("keytokens.embedding.p_training._ERROR", error)
    E, v = np.eye(V, V + 1), np.eye(V + 1)[V]
    stepped = lab(corpus, E, v, "E", kt.GradientDescent(step=20.0), steps=1).params
    found, a = flow_of(corpus, StageOptions(eta=20.0, norm=norm, steps=10_000))
    run = lab(corpus, stepped, v, "p", kt.GradientFlow(norm=found.norm))
    expected = stepped @ run.params
    cosine = a @ expected / np.linalg.norm(a) / np.linalg.norm(expected)
    assert 1 - cosine <= 1e-3 * error  # the square of the error along the path
    assert a == pytest.approx(expected, abs=100 * error)


def test_the_flow_at_finite_width_is_the_labs(corpus) -> None:
    options = StageOptions(width=6, eta=20.0, p0=0.5, seed=1, norm=30.0)
    embedded = embed(corpus, bare_loss(corpus), options)
    assert embedded.E is not None
    rng = np.random.default_rng(1)
    rng.standard_normal((V, 6))
    v = np.linalg.qr(rng.standard_normal((6, 1)))[0][:, 0]
    found, a = flow_of(corpus, options)
    run = lab(
        *(corpus, embedded.E, v, "p", kt.GradientFlow(norm=found.norm)),
        start=embedded.p0,
    )
    expected = embedded.E @ run.params
    assert 1 - a @ expected / np.linalg.norm(a) / np.linalg.norm(expected) <= 1e-6
