"""The usual network at width d: E (V+1, d), p (d,), v (d, K) trained as everybody trains it.

    a = E p, b = E v;   dL/dE = dL/da p^T + dL/db v^T,  dL/dp = E^T dL/da,  dL/dv = E^T dL/db

The gradient comes from the counts, so an epoch costs a pass over the non-zeros and a few products
instead of a gather of n T d numbers; the numbers are the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus, Fitted, to_scores
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.rows import one_blas_thread
from keytokens.errors import raise_input

Parameters = dict[str, Floats]


@dataclass(frozen=True)
class FiniteOptions:
    """Width, optimiser ("descent", full batch; "adam", minibatches) and its usual numbers."""

    width: int = 128
    optimiser: str = "adam"
    rate: float = 0.01
    epochs: int = 5
    batch: int = 256
    train_head: bool = False
    p0: float = 0.0
    seed: int = 0


def initial(V: int, K: int, options: FiniteOptions) -> Parameters:
    """E entries N(0, 1/d), v orthonormal columns, p Gaussian of length p0."""
    rng, d = np.random.default_rng(options.seed), options.width
    E = rng.standard_normal((V, d)) / np.sqrt(d)
    v = np.linalg.qr(rng.standard_normal((d, K)))[0]
    p = rng.standard_normal(d)
    return {"E": E, "p": p * options.p0 / np.linalg.norm(p), "v": v}


def gradients(loss: CountLoss, at: Parameters) -> tuple[float, Parameters]:
    """The loss and its gradient in E, p and v."""
    E, p, v = at["E"], at["p"], at["v"]
    value, g = loss(_theta(at))
    a, b = g[:-1, 0], g[:-1, 1:]
    return value, {"E": np.outer(a, p) + b @ v.T, "p": E.T @ a, "v": E.T @ b}


def _theta(at: Parameters) -> Floats:
    E = at["E"]
    theta = np.zeros((len(E) + 1, 1 + at["v"].shape[1]))
    theta[:-1, 0], theta[:-1, 1:] = E @ at["p"], E @ at["v"]
    theta[-1, 0] = -np.inf
    return theta


class Adam:
    """m, u moving averages of g, g^2; step rate m^ / (sqrt(u^) + 1e-8), hats undoing the bias."""

    def __init__(self, rate: float) -> None:
        self.rate, self.k = rate, 0
        self.m: Parameters = {}
        self.u: Parameters = {}

    def step(self, at: Parameters, gradient: Parameters) -> None:
        """One update in place."""
        self.k += 1
        for name, g in gradient.items():
            m = self.m[name] = 0.9 * self.m.get(name, 0.0) + 0.1 * g
            u = self.u[name] = 0.999 * self.u.get(name, 0.0) + 0.001 * g * g
            root = np.sqrt(u / (1 - 0.999**self.k)) + 1e-8
            at[name] -= self.rate / (1 - 0.9**self.k) * m / root


class Descent:
    """theta - rate g."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def step(self, at: Parameters, gradient: Parameters) -> None:
        """One update in place."""
        for name, g in gradient.items():
            at[name] -= self.rate * g


def batches(corpus: Corpus, options: FiniteOptions) -> Iterator[CountLoss]:
    """The losses to step on, in order: full batches, or shuffled minibatches."""
    layout = Layout.of(corpus.positive.shape[1])
    n, full = len(corpus.labels), options.optimiser == "descent"
    whole = _loss(corpus, np.arange(n), layout) if full else None
    rng = np.random.default_rng([options.seed, 1])
    for _ in range(options.epochs):
        if whole is not None:
            yield whole
            continue
        order = rng.permutation(n)
        for start in range(0, n, options.batch):
            yield _loss(corpus, order[start : start + options.batch], layout)


def _loss(corpus: Corpus, rows: np.ndarray, layout: Layout) -> CountLoss:
    picked = Rows.of(corpus.counts[rows])
    bias, weight = np.zeros(layout.n_outputs), corpus.weight[rows]
    return CountLoss(picked, corpus.target[rows], weight, layout, bias, corpus.n_jobs)


def train_finite(corpus: Corpus, options: FiniteOptions, start: Parameters | None = None) -> Fitted:
    """Train E and p (and v if asked) by the named optimiser."""
    layout = Layout.of(corpus.positive.shape[1])
    at = start or initial(corpus.counts.shape[1], layout.n_outputs, options)
    at = {name: array.copy() for name, array in at.items()}
    rule = Adam(options.rate) if options.optimiser == "adam" else Descent(options.rate)
    trained = ("E", "p", "v") if options.train_head else ("E", "p")
    steps = 0
    with one_blas_thread(), np.errstate(all="ignore"):  # what is not finite is refused below
        for loss in batches(corpus, options):
            _, gradient = gradients(loss, at)
            rule.step(at, {name: gradient[name] for name in trained})
            steps += 1
        theta = _theta(at)
    if not np.isfinite(theta[:-1]).all():
        told = "be small enough for the numbers to stay finite"
        raise_input("options['rate']", told, f"{options.rate:g}")
    scores = to_scores(theta, layout, np.zeros(layout.n_outputs))
    return Fitted(scores, steps, f"{options.epochs} epochs of {options.optimiser}, as asked")
