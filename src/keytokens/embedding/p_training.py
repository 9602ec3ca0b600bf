"""The second stage: gradient flow on p, the embedding frozen, until its direction settles.

    dp/dt = -grad L(p),  grad_p L = E^T dL/da;  infinite width: da/dt = -(I + beta beta^T) dL/da

The flow slows down exponentially as attention saturates, so it is followed at unit speed in p
(the same path): the independent variable is the length of the path. Steps by chebyshev.py, on the
count kernels alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.chebyshev import Chebyshev, Speed
from keytokens.embedding.corpus import Corpus, Fitted, to_scores
from keytokens.embedding.kernels import CountLoss
from keytokens.embedding.one_step import Embedded, StageOptions, bare_loss, embed, without_cls
from keytokens.embedding.rows import one_blas_thread, run_blocks, tree_sum

_ERROR = 3e-4  # local error per step, relative to the norm of p (at least 1)

_SATURATED = 1e-6
_STILL = "the gradient is zero: every text's tokens are tied"
_VANISHED = "the gradient fell below the smallest number before its direction settled"
_PARTS = 4  # of a wide embedding: products by part have the same bits on any number of threads
_REST = 1e-7  # steps this short go back and forth about a minimum


class Space:
    """Where attention lives: p in R^d (E given), or a itself in the Gram of infinite width."""

    def __init__(self, embedded: Embedded) -> None:
        self.E, self.beta = embedded.E, embedded.beta
        self._parts = [] if self.E is None else np.array_split(self.E, _PARTS)
        self.core = np.linalg.inv(np.eye(self.beta.shape[1]) + self.beta.T @ self.beta)

    def logits(self, p: Floats) -> Floats:
        """a = E p. (V,)"""
        if self.E is None:
            return p
        return np.concatenate(run_blocks(lambda k: self._parts[k] @ p, _PARTS, None))

    def descent(self, gradient: Floats) -> tuple[Floats, float]:
        """The direction -E^T dL/da (infinite width: -G dL/da), and its length in p's norm."""
        if self.E is not None:
            pieces = np.array_split(gradient, _PARTS)
            down = -tree_sum(run_blocks(lambda k: pieces[k] @ self._parts[k], _PARTS, None))
            return down, float(np.linalg.norm(down))
        pulled = gradient @ self.beta
        down = -(gradient + self.beta @ pulled)
        return down, float(np.sqrt(gradient @ gradient + pulled @ pulled))

    def inner(self, p: Floats, q: Floats) -> float:
        """<p, q>; infinite width: a^T (I + beta beta^T)^-1 a'."""
        if self.E is not None:
            return float(p @ q)
        return float(p @ q - (p @ self.beta) @ self.core @ (self.beta.T @ q))

    def norm(self, p: Floats) -> float:
        """The square root of <p, p>."""
        return float(np.sqrt(max(self.inner(p, p), 0.0)))


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
    with one_blas_thread():
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


def follow(
    speed: Speed,
    space: Space,
    p: Floats,
    options: StageOptions,
    watch: Callable[[Floats, float], None] | None = None,
) -> Flow:
    """Follow dp/ds = speed(p) until the direction settles, the norm or the steps run out.

    Settled: attention has saturated (the gradient is below 1e-6 of the first one) and between
    norm R/2 and norm R the direction turned by less than `tolerance` (1 - cos).
    `watch` sees p and its norm after every step.
    """
    stepper = Chebyshev(speed, space.norm, _ERROR)
    step, now, mark, mark_norm = 0.1, speed(p), p, 0.0
    first = now[1] if now else 0.0
    for k in range(options.steps):
        norm = space.norm(p)
        if now is None:
            return Flow(p, norm, k, _STILL if k == 0 else _VANISHED)
        if norm >= 2 * mark_norm and now[1] <= _SATURATED * first:
            if mark_norm > 0 and 1 - _cosine(space, mark, p) < options.tolerance:
                return Flow(p, norm, k, "converged in direction")
            mark, mark_norm = p, norm
        if norm >= options.norm:
            return Flow(p, norm, k, f"reached norm {options.norm:g} before its direction settled")
        p, now, step = stepper.advance(p, now, step)
        if watch is not None:
            watch(p, space.norm(p))
        if step < _REST:
            return Flow(p, norm, k + 1, "came to rest at a finite p: attention need not saturate")
    norm = space.norm(p)
    return Flow(
        p, norm, options.steps, "ran out of steps before its direction settled; raise steps"
    )


def _cosine(space: Space, p: Floats, q: Floats) -> float:
    return space.inner(p, q) / np.sqrt(space.inner(p, p) * space.inner(q, q))
