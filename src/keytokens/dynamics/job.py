"""What `train` hands to the module that runs a method, and what it gets back."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.dynamics.trajectory import Reason

Blocks = dict[str, Floats]


@dataclass(frozen=True, eq=False)
class Job:
    """A checked order: train `blocks` (named arrays, batch axis first, B = 1 if there is none).

    objective: L and its gradient for one problem (objective.py); data: the problem's arrays,
    batch axis first; start: the blocks at iteration 0; stops (K,): the iterations to save,
    from 0 to the last, ascending. best (B, n): max_t gamma_it, where L* is known from it.
    """

    objective: Any
    data: Blocks
    method: Any
    start: Blocks
    stops: Integers
    best: Floats | None = None

    @property
    def B(self) -> int:
        """Problems in the batch."""
        return len(next(iter(self.start.values())))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The saved points (B, K, ...) of each block, their marks (K,) and the B reasons.

    The last point is where the run ended. A run that ended early repeats its last point.
    """

    path: Blocks
    steps: Floats | Integers
    reasons: tuple[Reason, ...]


def log_spaced(steps: int, points: int) -> Integers:
    """At most `points` whole numbers from 0 to `steps`, log-spaced, both ends among them."""
    if steps + 1 <= points:
        return np.arange(steps + 1)
    spaced = np.geomspace(1, steps, max(points - 1, 1)).round().astype(np.int64)
    return np.unique(np.concatenate([[0], spaced, [steps]]) if points > 1 else [steps])
