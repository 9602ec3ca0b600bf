"""The theory's two stages and the usual network: by hand, against slow references, in the limit."""

from dataclasses import replace

import numpy as np
import pytest
from embedding_reference import dense_f, planted
from scipy import sparse

from keytokens.embedding.corpus import Corpus
from keytokens.embedding.finite import FiniteOptions, initial, train_finite, train_network
from keytokens.embedding.frequencies import signed_frequency
from keytokens.embedding.kernels import Layout
from keytokens.embedding.one_step import StageOptions, bare_loss, embed, train_one_step, without_cls
from keytokens.embedding.p_training import Space, follow, train_two_stage, velocity
from keytokens.embedding.scores import logits, weights
from keytokens.svm.corpus import corpus_att_svm


def test_one_step_is_half_eta_times_signed_frequency() -> None:
    corpus = planted()
    fitted = train_one_step(corpus, StageOptions(eta=6.0))
    alpha = signed_frequency(corpus.counts, corpus.target)
    assert np.allclose(fitted.scores.value[0, 0, :-1], 3 * alpha, rtol=1e-12, atol=1e-16)
    assert not fitted.scores.attention[:, :-1].any()
    assert not fitted.scores.has_cls


def test_finite_width_approaches_infinite_width() -> None:
    corpus, options = planted(), dict(eta=50.0)
    limit = train_one_step(corpus, StageOptions(**options)).scores.value[0, 0, :-1]
    off = [
        np.abs(
            train_one_step(corpus, StageOptions(width=d, **options)).scores.value[0, 0, :-1] - limit
        ).mean()
        for d in (100, 10_000)
    ]
    assert off[1] < off[0] / 4


def test_the_embedding_step_is_the_gradient_of_the_network() -> None:
    """E1 = E0 - eta dL/dE at p0, dL/dE by differences on the dense network."""
    corpus, options = planted(n=10, V=6), StageOptions(width=3, eta=2.0, p0=1.0, seed=4)
    rng = np.random.default_rng(4)
    E = rng.standard_normal((6, 3)) / np.sqrt(3)
    v = np.linalg.qr(rng.standard_normal((3, 1)))[0]
    p = rng.standard_normal(3)
    p /= np.linalg.norm(p)

    def network_loss(E: np.ndarray) -> float:
        f = dense_f(without_cls(E @ p, E @ v), corpus.counts, Layout.of(1), [0.0])[:, 0]
        return float(np.log1p(np.exp(-corpus.target * f)).mean())

    slope = np.zeros_like(E)
    for place in np.ndindex(E.shape):
        step = np.zeros_like(E)
        step[place] = 1e-5
        slope[place] = (network_loss(E + step) - network_loss(E - step)) / 2e-5
    embedded = embed(corpus, bare_loss(corpus), options)
    assert embedded.E is not None
    assert np.allclose(embedded.E, E - 2.0 * slope, atol=1e-9)
    assert np.allclose(embedded.b, embedded.E @ v, atol=1e-14)


def crossing() -> Corpus:
    """Two important tokens, one for each sign, beside one that stands everywhere."""
    counts = sparse.csr_array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]] * 3)
    return Corpus(counts, np.array([1, 0] * 3), 2, np.ones(6))


def test_two_stage_selects_the_important_tokens_at_the_max_margin() -> None:
    fitted = train_two_stage(crossing(), StageOptions(eta=2.0))
    assert fitted.reason == "converged in direction"
    w, _ = weights(fitted.scores, crossing().counts)
    assert w[0].reshape(-1, 2)[:, 0].min() > 0.999
    a = fitted.scores.attention[0, :-1]
    best = corpus_att_svm(crossing().counts, np.array([0, 1] * 3)).direction
    assert a @ best / np.linalg.norm(a) / np.linalg.norm(best) > 1 - 1e-4
    assert np.allclose(a / a[0], [1, 1, -2], atol=1e-2)  # by hand: min |a|, a_s - a_2 >= 1


def test_the_flow_follows_the_path_of_plain_gradient_flow() -> None:
    diffrax, jnp = pytest.importorskip("diffrax"), pytest.importorskip("jax.numpy")
    import jax

    with jax.enable_x64():
        corpus, options = planted(n=30, V=8), StageOptions(eta=20.0, norm=2.0)
        loss = bare_loss(corpus)
        embedded = embed(corpus, loss, options)
        space = Space(embedded)
        ours = follow(velocity(loss, space, embedded.b), space, embedded.p0, options)
        N, y = jnp.array(corpus.counts.toarray()), jnp.array(corpus.target)
        b, gram = (
            jnp.array(embedded.b[:, 0]),
            jnp.eye(8) + jnp.array(embedded.beta @ embedded.beta.T),
        )

        def objective(a):
            e = N * jnp.exp(a)
            return jnp.log1p(jnp.exp(-y * (e @ b) / e.sum(axis=1))).mean()

        def field(t, a, args):
            down = -gram @ jax.grad(objective)(a)
            return down / jnp.sqrt(down @ jnp.linalg.solve(gram, down))

        length = float(ours.norm) * 1.5
        path = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            0.0,
            length,
            1e-3,
            jnp.zeros(8),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, length, 4000)),
            stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-9),
            max_steps=100_000,
        )
        nearest = np.abs(np.asarray(path.ys) - ours.p).max(axis=1).min()
    assert ours.norm >= 2.0
    assert nearest <= 0.02


def test_a_flow_without_gradient_says_so() -> None:
    counts = sparse.csr_array(np.ones((4, 3)))
    still = Corpus(counts, np.array([0, 1, 0, 1]), 2, np.ones(4))
    assert "gradient is zero" in train_two_stage(still, StageOptions()).reason


def test_a_flow_whose_gradient_vanishes_on_the_way_does_not_call_it_a_tie() -> None:
    loss = bare_loss(crossing())
    embedded = embed(crossing(), loss, StageOptions(eta=2.0))
    space = Space(embedded)
    speed, gone = velocity(loss, space, embedded.b), 5.0
    vanishing = lambda p: speed(p) if space.norm(p) < gone else None  # noqa: E731
    found = follow(vanishing, space, embedded.p0, StageOptions(tolerance=1e-15))
    assert found.reason.startswith("the gradient fell below the smallest number")
    assert found.norm >= gone


def test_a_flow_that_runs_out_says_so() -> None:
    assert "raise steps" in train_two_stage(planted(), StageOptions(steps=3)).reason
    assert (
        "reached norm 3"
        in train_two_stage(planted(), StageOptions(norm=3.0, tolerance=1e-12)).reason
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_several_classes_go_through_both_stages(classes: int) -> None:
    corpus = planted(n=90, classes=classes)
    for train in (train_one_step, train_two_stage):
        f = logits(train(corpus, StageOptions(eta=100.0, steps=30)).scores, corpus.counts)
        right = (
            (f[:, 0] > 0) == corpus.labels if classes == 2 else f.argmax(axis=1) == corpus.labels
        )
        assert right.mean() > 0.85


def slow_network(corpus: Corpus, at: dict, options: FiniteOptions) -> dict:
    """The embedding-gather network, token by token: full-batch descent on E and p."""
    E, p, v = (at[name].copy() for name in ("E", "p", "v"))
    for _ in range(options.epochs):
        dE, dp = np.zeros_like(E), np.zeros_like(p)
        for i in range(len(corpus.labels)):
            row = corpus.counts[[i]]
            ids = np.repeat(row.indices, row.data.astype(int))
            X = E[ids]
            s = np.exp(X @ p - (X @ p).max())
            s /= s.sum()
            gamma = X @ v[:, 0]
            r = (
                -corpus.target[i]
                / (1 + np.exp(corpus.target[i] * (s @ gamma)))
                / len(corpus.labels)
            )
            ds = r * s * (gamma - s @ gamma)
            dp += X.T @ ds
            np.add.at(dE, ids, np.outer(ds, p) + r * np.outer(s, v[:, 0]))
        E, p = E - options.rate * dE, p - options.rate * dp
    return {"E": E, "p": p, "v": v}


def test_descent_reproduces_the_usual_networks_numbers() -> None:
    corpus = planted(n=20, V=10)
    options = FiniteOptions(width=4, optimiser="descent", rate=3.0, epochs=6, p0=0.5)
    at = initial(10, 1, options)
    expected = slow_network(corpus, at, options)
    scores = train_finite(corpus, options, at).scores
    assert scores.attention[0, :-1] == pytest.approx(expected["E"] @ expected["p"], abs=1e-12)
    assert scores.value[0, 0, :-1] == pytest.approx(
        (expected["E"] @ expected["v"])[:, 0], abs=1e-12
    )


def test_adam_reproduces_torch_on_the_same_minibatches() -> None:
    torch = pytest.importorskip("torch")
    corpus = planted(n=24, V=10)
    options = FiniteOptions(width=4, epochs=3, batch=8, rate=0.05, p0=0.5, train_head=True)
    at = initial(10, 1, options)
    E, p, v = (torch.tensor(at[name], requires_grad=True) for name in ("E", "p", "v"))
    adam = torch.optim.Adam([E, p, v], lr=0.05)
    N, y = torch.tensor(corpus.counts.toarray()), torch.tensor(corpus.target)
    rng = np.random.default_rng([0, 1])
    for _ in range(3):
        order = rng.permutation(24)
        for rows in order.reshape(3, 8):
            e = N[rows] * torch.exp(E @ p)
            f = (e @ (E @ v))[:, 0] / e.sum(dim=1)
            adam.zero_grad()
            torch.nn.functional.softplus(-y[rows] * f).mean().backward()
            adam.step()
    scores = train_finite(corpus, options, at).scores
    with torch.no_grad():
        assert scores.attention[0, :-1] == pytest.approx((E @ p).numpy(), abs=1e-9)
        assert scores.value[0, 0, :-1] == pytest.approx((E @ v)[:, 0].numpy(), abs=1e-9)


def test_a_step_of_the_network_goes_down_by_differences() -> None:
    """With three classes and the head trained: (before - after) / rate is dL/dE and dL/dB."""
    corpus, rate = planted(n=12, V=300, classes=3), 0.5
    how = FiniteOptions(width=5, p0=1.0, optimiser="descent", epochs=1, rate=rate, train_head=True)
    at = initial(300, 3, how)
    after, loss = train_network(corpus, how, at), bare_loss(corpus)
    steps = {
        "E": (at["E"] - after.E) / rate,
        "p": (at["p"] - after.B[0]) / rate,
        "v": (at["v"] - after.B[1:].T) / rate,
    }
    for name, array in at.items():
        for place in list(np.ndindex(array.shape))[:: max(array.size // 20, 1)]:
            rise = []
            for sign in (1, -1):
                moved = {k: a.copy() for k, a in at.items()}
                moved[name][place] += sign * 1e-5
                theta = without_cls(moved["E"] @ moved["p"], moved["E"] @ moved["v"])
                rise.append(loss(theta)[0])
            assert steps[name][place] == pytest.approx((rise[0] - rise[1]) / 2e-5, abs=1e-8)


def test_adam_has_the_same_bits_on_any_threads() -> None:
    corpus, how = planted(n=40, V=700), FiniteOptions(width=33, epochs=2, batch=16)
    one, two = (train_network(replace(corpus, n_jobs=jobs), how) for jobs in (1, 2))
    assert np.array_equal(one.E, two.E)
    assert np.array_equal(one.theta, two.theta)


def test_the_flow_at_finite_width_has_the_same_bits_on_any_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rng = np.random.default_rng(0)
    counts = sparse.random_array((60, 5002), density=0.01, rng=rng, format="csr")
    counts.data[:] = 1.0
    corpus = Corpus(counts, rng.integers(0, 2, 60), 2, np.ones(60))
    found = []
    for cores in (1, 2):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        with threadpoolctl.threadpool_limits(cores):
            options = StageOptions(width=256, eta=300.0, steps=8)
            found.append(train_two_stage(corpus, options).scores.attention)
    assert np.array_equal(*found)
