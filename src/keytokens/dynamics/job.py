"""What `train` hands to the module that runs a method, and what it gets back."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.dynamics.trajectory import Reason
from keytokens.heads import Head
from keytokens.losses import Loss

Blocks = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Job:
    """A checked order: train `start` (named arrays, batch axis first, B = 1 if there is none).

    kind: of problem; model, loss, head: what is trained; data: the problem's arrays, batch axis
    first; stops (K,): the iterations to save, ascending, the last one among them.
    """

    kind: str
    model: Any
    loss: Loss
    head: Head | None
    data: Blocks
    method: Any
    start: Blocks
    stops: Integers

    @property
    def B(self) -> int:
        """Problems in the batch."""
        return len(next(iter(self.start.values())))

    @cached_property
    def objective(self) -> Any:
        """L and its gradient for one problem: see objective.py. Brings jax."""
        from keytokens.dynamics.objective import OBJECTIVES

        return OBJECTIVES[self.kind](self.model, self.loss, self.head)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The saved points (B, K, ...) of each block, their marks (K,) and the B reasons.

    The last point is where the run ended. A run that ended early repeats its last point.
    norms, losses (B, K), attention (B, n, T): where the runner has them anyway.
    """

    path: Blocks
    steps: Floats | Integers
    reasons: tuple[Reason, ...]
    norms: Floats | None = None
    losses: Floats | None = None
    attention: Floats | None = None


def log_spaced(steps: int, points: int) -> Integers:
    """At most `points` whole numbers from 0 to `steps`, log-spaced, both ends among them."""
    if steps + 1 <= points:
        return np.arange(steps + 1)
    if points < 3:
        return np.array([0, steps][2 - points :])
    spaced = np.geomspace(1, steps, points - 1).round().astype(np.int64)
    return np.unique(np.concatenate([[0], spaced]))
