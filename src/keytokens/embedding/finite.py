"""The usual network at width d: E (V, d), p (d,), v (d, K) trained as everybody trains it.

    B = (p, v_1 .. v_K),  theta = E B^T,  g = dL/dtheta = (dL/da, dL/db)
    dL/dE = g B,  dL/dB = g^T E

The gradient g comes from the counts, so an epoch costs a pass over the non-zeros and a few passes
over E, instead of a gather of n T d numbers; the numbers are the same.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus, Fitted, to_scores
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.rows import one_blas_thread, run_blocks, tree_sum
from keytokens.errors import raise_input

Parameters = dict[str, Floats]

_PART = 128  # rows of E a thread takes at a time: changed and read again while in its cache
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8


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


class Rule(Protocol):
    """Moves some rows of an array against the same rows of the gradient `left` `right`."""

    def move(self, array: Floats, rows: slice, left: Floats, right: Floats, k: int) -> None: ...


class Descent:
    """X <- X - rate G."""

    def __init__(self, rate: float, like: Floats) -> None:
        self.rate = rate

    def move(self, array: Floats, rows: slice, left: Floats, right: Floats, k: int) -> None:
        """Step k."""
        array[rows] -= self.rate * (left[rows] @ right)


class Adam:
    """X <- X - rate m^ / (sqrt(u^) + 1e-8): moving averages of G and G^2, hats undoing the bias."""

    def __init__(self, rate: float, like: Floats) -> None:
        self.rate = rate
        self.m, self.u = np.zeros_like(like), np.zeros_like(like)

    def move(self, array: Floats, rows: slice, left: Floats, right: Floats, k: int) -> None:
        """Step k = 1, 2, ..."""
        pace, unbiased = self.rate / (1 - _FIRST**k), 1 / (1 - _SECOND**k)
        _adam(array[rows], self.m[rows], self.u[rows], left[rows], right, pace, unbiased)


@njit(cache=True, nogil=True, error_model="numpy")
def _adam(
    array: Floats, m: Floats, u: Floats, left: Floats, right: Floats, pace: float, unbiased: float
) -> None:
    """One pass over the rows: the gradient, both averages and the step."""
    gradient = np.empty(array.shape[1])
    for s in range(len(array)):
        gradient[:] = 0.0
        for c in range(len(right)):
            for j in range(len(gradient)):
                gradient[j] += left[s, c] * right[c, j]
        for j in range(len(gradient)):
            m[s, j] = _FIRST * m[s, j] + (1 - _FIRST) * gradient[j]
            u[s, j] = _SECOND * u[s, j] + (1 - _SECOND) * gradient[j] ** 2
            array[s, j] -= pace * m[s, j] / (np.sqrt(unbiased * u[s, j]) + _TINY)


RULES: dict[str, type[Descent] | type[Adam]] = {"descent": Descent, "adam": Adam}


class Network:
    """E, changed in place, and B; `theta` (V+1, 1+K) is E B^T, with an absent <cls>."""

    def __init__(self, at: Parameters, options: FiniteOptions, n_jobs: int | None) -> None:
        self.E, self.B = at["E"], np.vstack([at["p"], at["v"].T])
        self.trained = len(self.B) if options.train_head else 1
        rule = RULES[options.optimiser]
        self.on_E: Rule = rule(options.rate, self.E)
        self.on_B: Rule = rule(options.rate, self.B)
        self.k, self.n_jobs = 0, n_jobs
        self.theta = np.zeros((len(self.E) + 1, len(self.B)))
        self.theta[-1, 0] = -np.inf
        self._over_parts(lambda part: None)

    def step(self, g: Floats) -> None:
        """Change E, p (and v) at once, by g (V, 1+K) = dL/dtheta at `theta`."""
        self.k += 1
        before, pull = self.B.copy(), self._pull(g)
        self.on_B.move(self.B, slice(self.trained), np.eye(len(self.B)), pull, self.k)
        self._over_parts(lambda part: self.on_E.move(self.E, part, g, before, self.k))

    def _pull(self, g: Floats) -> Floats:
        """dL/dB = g^T E, over the tokens that have a gradient. (1+K, d)"""
        active = np.flatnonzero(g.any(axis=1))
        parts = np.split(active, range(_PART, len(active), _PART))
        return tree_sum(
            run_blocks(lambda j: g[parts[j]].T @ self.E[parts[j]], len(parts), self.n_jobs)
        )

    def _over_parts(self, change: Callable[[slice], None]) -> None:
        """Change E part by part, and theta with it."""

        def part(j: int) -> None:
            rows = slice(j * _PART, min((j + 1) * _PART, len(self.E)))
            change(rows)
            self.theta[rows] = self.E[rows] @ self.B.T

        run_blocks(part, -(-len(self.E) // _PART), self.n_jobs)


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


def train_network(
    corpus: Corpus, options: FiniteOptions, start: Parameters | None = None
) -> Network:
    """E and p (and v if asked) after so many epochs of the named optimiser."""
    if start is None:
        at = initial(corpus.counts.shape[1], corpus.positive.shape[1], options)
    else:
        at = {name: array.copy() for name, array in start.items()}
    with one_blas_thread(), np.errstate(all="ignore"):  # what is not finite is refused below
        network = Network(at, options, corpus.n_jobs)
        for loss in batches(corpus, options):
            network.step(loss(network.theta)[1][:-1])
    if not np.isfinite(network.theta[:-1]).all():
        told = "be small enough for the numbers to stay finite"
        raise_input("options['rate']", told, f"{options.rate:g}")
    return network


def train_finite(corpus: Corpus, options: FiniteOptions, start: Parameters | None = None) -> Fitted:
    """The trained network as attention and values."""
    network = train_network(corpus, options, start)
    layout = Layout.of(corpus.positive.shape[1])
    scores = to_scores(network.theta, layout, np.zeros(layout.n_outputs))
    return Fitted(scores, network.k, f"{options.epochs} epochs of {options.optimiser}, as asked")
