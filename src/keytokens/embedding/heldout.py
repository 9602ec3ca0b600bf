"""Held-out rows: when to stop, and how sure to be."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, softmax

from keytokens._checks import Booleans, Floats
from keytokens.embedding.kernels import CountLoss

PATIENCE = 2  # iterations without a lower held-out loss before the search stops


@dataclass(frozen=True)
class HeldOut:
    """What rows kept out of training said: the best iteration, its loss and accuracy."""

    iterations: int
    loss: float
    accuracy: float
    rows: int
    temperature: float


def held_out_rows(labels: np.ndarray, seed: int, every: int = 10) -> Booleans:
    """A tenth of the rows of every class, drawn by seed. (n,)"""
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    held = np.zeros(len(labels), dtype=bool)
    held[by_class[::every]] = True
    return held


def row_losses(f: Floats, target: Floats) -> Floats:
    """log(1 + e^{-y f}) for one output, log sum_k e^{f_k} - f_y for several. (n,)"""
    if f.shape[1] == 1:
        return np.logaddexp(0, -target * f[:, 0])
    return logsumexp(f, axis=1) - f[np.arange(len(f)), target.astype(int)]


def hits(f: Floats, target: Floats) -> Booleans:
    """Where the prediction is right. (n,)"""
    if f.shape[1] == 1:
        return (f[:, 0] > 0) == (target > 0)
    return f.argmax(axis=1) == target


class Watch:
    """Sees every iterate; remembers the one with the lowest held-out loss after calibration.

    `weight` (n,) is zero on training rows. The loss has already computed every row's f. Without
    calibration an overconfident early iterate would look worse than it ranks. Patience runs from
    iteration `least` at the earliest: before, the loss may rise or rest before it falls for good.
    """

    def __init__(
        self,
        loss: CountLoss,
        target: Floats,
        weight: Floats,
        patience: int = PATIENCE,
        least: int = 0,
    ) -> None:
        self.patience, self.least = patience, least
        self.held = np.flatnonzero(weight)
        self.loss, self.target = loss, target[self.held]
        self.weight = weight[self.held] / weight.sum()
        self.best: HeldOut | None = None
        self.x: Floats | None = None  # the best iterate

    def __call__(self, iteration: int, x: Floats) -> bool:
        """True once the loss has not fallen for a while."""
        f = self.loss.f[self.held]
        tau = temperature(f, self.target, self.weight)
        loss = float(self.weight @ row_losses(f / tau, self.target))
        if self.best is None or loss < self.best.loss:
            accuracy = float(self.weight @ hits(f, self.target))
            self.x = x.copy()
            self.best = HeldOut(iteration, loss, accuracy, len(self.held), tau)
        return iteration >= max(self.best.iterations, self.least) + self.patience

    def answer(self) -> HeldOut:
        """The best iterate; the first one where the search never moved."""
        return self.best or HeldOut(1, np.inf, 0.0, len(self.held), 1.0)


def temperature(f: Floats, target: Floats, weight: Floats) -> float:
    """tau = argmin of the loss of f / tau, within e^-3 ... e^3: where its slope in 1 / tau, which
    rises, is zero."""

    def slope(t: float) -> float:
        return float(weight @ _slopes(f, target, t))

    least, most = np.exp(-3.0), np.exp(3.0)
    if not slope(most) > 0:
        return 1 / most
    if not slope(least) < 0:
        return 1 / least
    return 1 / float(brentq(slope, least, most, xtol=1e-5, rtol=1e-5))


def _slopes(f: Floats, target: Floats, t: float) -> Floats:
    """d/dt of each row's loss at t f: -m / (1 + e^{t m}) for a margin m, <softmax(t f), f> - f_y
    for several classes. (n,)"""
    if f.shape[1] == 1:
        margin = target * f[:, 0]
        return -margin * expit(-t * margin)
    label = np.arange(len(f)), target.astype(int)
    return (softmax(t * f, axis=1) * f).sum(axis=1) - f[label]
