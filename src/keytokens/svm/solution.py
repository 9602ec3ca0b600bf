"""What an SVM call answers: a direction with its certificate, or a conflict with its proof."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats, Integers

Number = Any  # a float, or a (B,) array in a batch


@dataclass(frozen=True, eq=False)
class Certificate:
    """How good an answer is, computed from the problem and the answer alone.

    primal = ||p||^2 / 2; dual <= every feasible primal (weak duality, whoever found lambda);
    gap = (primal - dual) / primal; violation: the worst row's shortfall over ||row|| ||p||.
    Where there is no direction, primal and dual are infinite, gap and violation NaN.
    """

    primal: Number
    dual: Number
    gap: Number
    violation: Number

    def __getitem__(self, k: int) -> "Certificate":
        return Certificate(*(float(getattr(self, f.name)[k]) for f in fields(self)))


@dataclass(frozen=True, eq=False, repr=False)
class Conflict:
    """Why no direction exists: u >= 0 (free on equalities) with G^T u = 0 and h^T u = 1.

    vector (n, T): u, entry (i, t) weighs "the selected token of input i above token t".
    residual = ||G^T u|| / sum_r |u_r| ||g_r||: at rounding level it is a proof.
    least_norm = h^T u / ||G^T u||: every direction that satisfies the rows is at least this long.
    """

    vector: Floats
    selected: Integers
    residual: float
    least_norm: float
    is_proof: bool
    cycle: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def pairs(self) -> list[tuple[int, int, int]]:
        """(input, its selected token, the other token) of every row that takes part."""
        return [(int(i), int(self.selected[i]), int(t)) for i, t in np.argwhere(self.vector)]

    @property
    def inputs(self) -> list[int]:
        """The inputs that take part."""
        return sorted({i for i, _, _ in self.pairs})


@dataclass(frozen=True, eq=False)
class Solution:
    """The max-margin direction of a selection, or the proof that there is none.

    direction: p (d,) or W (d, d); None where there is none (a batch: rows of NaN).
    margin = 1 / ||direction||. multipliers (n, T): lambda, 0 where there is no row.
    support (n, T): tokens other than the selected one whose row is tight.
    is_locally_optimal: the selected token outscores every support token.
    A batch has B in front of every array; status and conflict are tuples.
    """

    direction: Floats | None
    margin: Number
    multipliers: Floats
    support: Booleans
    is_locally_optimal: Any
    certificate: Certificate
    status: Any
    conflict: Any
    selected: Integers

    @property
    def batch(self) -> int | None:
        """The number of problems, None when there is no batch axis."""
        return len(self.status) if isinstance(self.status, tuple) else None

    @property
    def is_feasible(self) -> Any:
        """Whether a direction was found and verified; (B,) booleans in a batch."""
        if self.batch is None:
            return self.direction is not None
        assert self.direction is not None
        return ~np.isnan(self.direction).any(axis=tuple(range(1, self.direction.ndim)))

    def __getitem__(self, k: int) -> "Solution":
        """The k-th solution of a batch."""
        if self.batch is None:
            raise TypeError("a single solution has no batch axis to be indexed")
        parts = {f.name: getattr(self, f.name)[k] for f in fields(self)}
        parts["margin"] = float(parts["margin"])
        if parts["is_locally_optimal"] is not None:
            parts["is_locally_optimal"] = bool(parts["is_locally_optimal"])
        one = replace(self, **parts)
        return replace(one, direction=None) if np.isnan(parts["direction"]).any() else one

    def __str__(self) -> str:
        """The status, then what was found, or the conflict in words."""
        if self.batch is not None:
            return f"{self.batch} problems, {int(self.is_feasible.sum())} of them with a direction."
        if self.conflict is not None:
            return f"{self.status}\n{self.conflict}"
        rows = int(self.support.sum())
        found = f"Margin {self.margin:.6g}, {rows} tight row{'' if rows == 1 else 's'}"
        local = {None: "", True: ", locally optimal", False: ", not locally optimal"}
        return f"{self.status}\n{found}{local[self.is_locally_optimal]}."

    def __repr__(self) -> str:
        if self.batch is not None:
            return f"Solution(batch={self.batch}, {int(self.is_feasible.sum())} feasible)"
        return f"Solution(margin={self.margin:.6g}, {self.status!r})"
