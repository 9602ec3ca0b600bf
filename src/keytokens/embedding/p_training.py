"""The second stage: gradient flow on p, the embedding frozen, until its direction settles.

    dp/dt = -grad L(p),  grad_p L = E^T dL/da;  infinite width: da/dt = -(I + beta beta^T) dL/da

The flow slows down exponentially as attention saturates, so it is followed at unit speed in p
(the same path): the independent variable is the length of the path. Steps by the adaptive
embedded pair of Bogacki and Shampine, on the count kernels alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus, Fitted, to_scores
from keytokens.embedding.kernels import CountLoss
from keytokens.embedding.one_step import Embedded, StageOptions, bare_loss, embed, without_cls

_ERROR = 1e-4  # local error per step, relative to the norm of p (at least 1)

_SATURATED = 1e-6
_REST = 1e-7  # steps this short go back and forth about a minimum


Speed = Callable[[Floats], "tuple[Floats, float] | None"]


class Space:
    """Where attention lives: p in R^d (E given), or a itself in the Gram of infinite width."""

    def __init__(self, embedded: Embedded) -> None:
        self.E, self.beta = embedded.E, embedded.beta
        self.core = np.linalg.inv(np.eye(self.beta.shape[1]) + self.beta.T @ self.beta)

    def logits(self, p: Floats) -> Floats:
        """a = E p. (V,)"""
        return p if self.E is None else self.E @ p

    def descent(self, gradient: Floats) -> tuple[Floats, float]:
        """The direction -E^T dL/da (infinite width: -G dL/da), and its length in p's norm."""
        if self.E is not None:
            down = -self.E.T @ gradient
            return down, float(np.linalg.norm(down))
        pulled = gradient @ self.beta
        down = -(gradient + self.beta @ pulled)
        return down, float(np.sqrt(gradient @ gradient + pulled @ pulled))

    def inner(self, p: Floats, q: Floats) -> float:
        """<p, q>; infinite width: a^T (I + beta beta^T)^-1 a'."""
        if self.E is not None:
            return float(p @ q)
        return float(p @ q - (p @ self.beta) @ self.core @ (self.beta.T @ q))


@dataclass(frozen=True)
class Flow:
    """Where the flow ended: p, its norm, the steps taken, and why it ended."""

    p: Floats
    norm: float
    steps: int
    reason: str


def train_two_stage(corpus: Corpus, options: StageOptions) -> Fitted:
    """One step on E, then gradient flow on p."""
    loss = bare_loss(corpus)
    embedded = embed(corpus, loss, options)
    space = Space(embedded)
    flow = follow(velocity(loss, space, embedded.b), space, embedded.p0, options)
    theta = without_cls(space.logits(flow.p), embedded.b)
    return Fitted(to_scores(theta, loss.layout, loss.bias), flow.steps, flow.reason)


def velocity(loss: CountLoss, space: Space, b: Floats) -> Speed:
    """The unit velocity of p and the size of the gradient; None where it has vanished."""

    def unit(p: Floats) -> tuple[Floats, float] | None:
        gradient = loss(without_cls(space.logits(p), b))[1][:-1, 0]
        largest = np.abs(gradient).max()
        if not largest > 0:
            return None
        down, speed = space.descent(gradient / largest)
        return (down / speed, speed * largest) if speed > 0 else None

    return unit


def follow(speed: Speed, space: Space, p: Floats, options: StageOptions) -> Flow:
    """Follow dp/ds = speed(p) until the direction settles, the norm or the steps run out.

    Settled: attention has saturated (the gradient is below 1e-6 of the first one) and between
    norm R/2 and norm R the direction turned by less than `tolerance` (1 - cos).
    """
    step, now, mark, mark_norm = 0.1, speed(p), p, 0.0
    first = now[1] if now else 0.0
    for k in range(options.steps):
        norm = np.sqrt(max(space.inner(p, p), 0.0))
        if now is None:
            return Flow(p, norm, k, "the gradient is zero: every text's tokens are tied")
        if norm >= 2 * mark_norm and now[1] <= _SATURATED * first:
            if mark_norm > 0 and 1 - _cosine(space, mark, p) < options.tolerance:
                return Flow(p, norm, k, "converged in direction")
            mark, mark_norm = p, norm
        if norm >= options.norm:
            return Flow(p, norm, k, f"reached norm {options.norm:g} before its direction settled")
        p, now, step = _advance(speed, space, p, now, step)
        if step < _REST:
            return Flow(p, norm, k + 1, "came to rest at a finite p: attention need not saturate")
    norm = np.sqrt(max(space.inner(p, p), 0.0))
    return Flow(
        p, norm, options.steps, "ran out of steps before its direction settled; raise steps"
    )


def _cosine(space: Space, p: Floats, q: Floats) -> float:
    return space.inner(p, q) / np.sqrt(space.inner(p, p) * space.inner(q, q))


def _advance(
    speed: Speed, space: Space, p: Floats, now: tuple[Floats, float], step: float
) -> tuple[Floats, tuple[Floats, float] | None, float]:
    """One accepted step of the 3(2) pair, what moves p there, and the next step's size."""
    allowed, k1 = _ERROR * max(1.0, np.sqrt(max(space.inner(p, p), 0.0))), now[0]
    for _ in range(30):
        two = speed(p + step / 2 * k1)
        three = None if two is None else speed(p + 0.75 * step * two[0])
        if two is None or three is None:
            step /= 2
            continue
        new = p + step * (2 * k1 + 3 * two[0] + 4 * three[0]) / 9
        four = speed(new)
        if four is None:
            return new, None, step
        wrong = step * (-5 * k1 + 6 * two[0] + 8 * three[0] - 9 * four[0]) / 72
        error = np.sqrt(max(space.inner(wrong, wrong), 0.0))
        factor = 0.9 * (allowed / max(error, 1e-300)) ** (1 / 3)
        if error <= allowed:
            return new, four, step * min(max(factor, 0.3), 4.0)
        step *= max(factor, 0.2)
    return p, now, step
