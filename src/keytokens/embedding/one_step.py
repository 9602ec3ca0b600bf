"""The first stage: one gradient step on the embedding, from p = p0.

    E1_s = E0_s - eta (dL/da_s p0 + dL/db_s v)

Infinite width: rows of E0 orthonormal and orthogonal to v, p0 = 0. Then f = 0 before the step, and
    b_s = -eta dL/db_s |v|^2 = (eta/2) |v|^2 alpha_s       (two classes),
    E1 E1^T = I + sum_k beta_k beta_k^T,  beta = -eta dL/db |v|.
"""

from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus, Fitted, to_scores
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.rows import one_blas_thread


@dataclass(frozen=True)
class StageOptions:
    """Where the embedding starts and how far its one step goes; the numbers are our choice.

    width None is infinite. scale: standard deviation of E0's entries times sqrt(width);
    p0: length of a Gaussian start (0: start at 0); eta: the step on E, None for the step at which
    the embedding has moved by its own unit scale, 1 / |dL/db| at a = b = 0.
    """

    width: int | None = None
    eta: float | None = None
    scale: float = 1.0
    head_norm: float = 1.0
    p0: float = 0.0
    seed: int = 0
    norm: float = 1e4
    steps: int = 2000
    tolerance: float = 1e-4


@dataclass(frozen=True, eq=False)
class Embedded:
    """After one step: the values b (V, K) and what p sees.

    Finite width: the embedding E (V, d), so a = E p. Infinite width: E is None and a itself
    moves, in the Gram matrix I + beta beta^T, beta (V, K).
    """

    b: Floats
    beta: Floats
    E: Floats | None
    p0: Floats


def bare_loss(corpus: Corpus) -> CountLoss:
    """The model of the theory: no <cls>, no bias."""
    layout = Layout.of(corpus.positive.shape[1])
    loss = corpus.loss(Rows.of(corpus.counts), layout)
    loss.bias[:] = 0.0
    return loss


def without_cls(a: Floats, b: Floats) -> Floats:
    """theta of logits a (V,) and values b (V, K), with an absent <cls>. (V+1, 1+K)"""
    absent = np.append(-np.inf, np.zeros(b.shape[1]))
    return np.vstack([np.column_stack([a, b]), absent])


def embed(corpus: Corpus, loss: CountLoss, options: StageOptions) -> Embedded:
    """E0, one step on E, and what is left to p."""
    V, K = corpus.counts.shape[1], loss.layout.n_outputs
    eta = _unit_step(loss, V, K) if options.eta is None else options.eta
    if options.width is None:
        gradient = loss(without_cls(np.zeros(V), np.zeros((V, K))))[1][:-1, 1:]
        beta = -eta * options.head_norm * gradient
        return Embedded(options.head_norm * beta, beta, None, np.zeros(V))
    rng, d = np.random.default_rng(options.seed), options.width
    E = rng.standard_normal((V, d)) * options.scale / np.sqrt(d)
    v = np.linalg.qr(rng.standard_normal((d, K)))[0] * options.head_norm
    p = rng.standard_normal(d)
    p *= options.p0 / np.linalg.norm(p)
    with one_blas_thread():
        gradient = loss(without_cls(E @ p, E @ v))[1][:-1]
        E -= eta * (gradient[:, 1:] @ v.T)
        if p.any():
            E -= eta * np.outer(gradient[:, 0], p)
        return Embedded(E @ v, np.zeros((V, K)), E, p)


def _unit_step(loss: CountLoss, V: int, K: int) -> float:
    """1 / |dL/db| at a = b = 0: for two classes 2 / |alpha|."""
    size = float(np.linalg.norm(loss(without_cls(np.zeros(V), np.zeros((V, K))))[1][:-1, 1:]))
    return 1 / size if size > 0 else 1.0


def train_one_step(corpus: Corpus, options: StageOptions) -> Fitted:
    """The model after the first stage: attention as p0 left it, values after one step."""
    loss = bare_loss(corpus)
    embedded = embed(corpus, loss, options)
    a = np.zeros(len(embedded.b)) if embedded.E is None else embedded.E @ embedded.p0
    scores = to_scores(without_cls(a, embedded.b), loss.layout, loss.bias)
    return Fitted(scores, 1, "one gradient step on the embedding, as asked")
