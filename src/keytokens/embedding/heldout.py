"""Held-out rows: when to stop, and how sure to be."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from keytokens._checks import Booleans, Floats
from keytokens.embedding.kernels import CountLoss

PATIENCE = 3  # iterations without a lower held-out loss before the search stops


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
    calibration an overconfident early iterate would look worse than it ranks.
    """

    def __init__(
        self, loss: CountLoss, target: Floats, weight: Floats, patience: int = PATIENCE
    ) -> None:
        self.patience = patience
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
            self.x = x
            self.best = HeldOut(iteration, loss, accuracy, len(self.held), tau)
        return iteration >= self.best.iterations + self.patience

    def answer(self) -> HeldOut:
        """The best iterate; the first one where the search never moved."""
        return self.best or HeldOut(1, np.inf, 0.0, len(self.held), 1.0)


def temperature(f: Floats, target: Floats, weight: Floats) -> float:
    """tau = argmin of the loss of f / tau, by golden-section search on log tau."""

    def loss(u: float) -> float:
        return float(weight @ row_losses(f * np.exp(-u), target))

    low, high, golden = -3.0, 3.0, (5**0.5 - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(20):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return float(np.exp((low + high) / 2))
