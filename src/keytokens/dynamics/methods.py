"""Training methods as plain objects; each names the module that runs it.

A module that runs a method has one function, `run(job) -> Outcome` (see job.py). The methods of
descent are in steps.py: they differ in one function each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.dynamics.steps import (
    GradientDescent,
    MirrorDescent,
    NormalizedDescent,
    PolyakDescent,
    StepRule,
)
from keytokens.errors import raise_input


@dataclass(frozen=True)
class GradientFlow:
    """dw/dt = -grad L, followed with time = log-norm until ||w|| = norm.

    tolerance: error of a step relative to 1 + ||w||. `steps` of `train` bounds the integrator's
    steps (a few hundred are usual). Over vp each block is normalised by itself, dv by `ratio`.
    """

    norm: float = 1e5
    tolerance: float = 1e-6
    ratio: float = 1.0
    runner: ClassVar[str] = "flow"

    def __post_init__(self) -> None:
        check.positive("norm", self.norm)
        check.positive("tolerance", self.tolerance)
        check.positive("ratio", self.ratio)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """argmin L(w) over ||w|| <= R for each R of `radii`, in ascending order, warm-started.

    radii (K,); over vp also (K, 2): pairs (r, R) with ||v|| <= r, ||p|| <= R; one column means
    r = ratio R. axis, angle, least: only within `angle` (radians) of `axis` and with norm at
    least `least`, for the locally optimal directions; p and W only.
    """

    radii: Sequence[float] | Floats
    ratio: float = 1.0
    axis: Floats | None = None
    angle: float | None = None
    least: float = 0.0
    runner: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        radii = check.float_array("radii", self.radii, (1, 2))
        if radii.ndim == 2:
            check.shape("radii", radii, (len(radii), 2), "(K, 2)")
        if not radii.size or (radii <= 0).any():
            raise_input("radii", "hold at least one number, all positive", np.asarray(radii))
        if (np.diff(radii, axis=0) < 0).any():
            raise_input("radii", "ascend", np.asarray(radii))
        object.__setattr__(self, "radii", radii)
        check.positive("ratio", self.ratio)
        check.non_negative("least", self.least)
        self._check_cone(radii)

    def __repr__(self) -> str:
        radii = np.asarray(self.radii)
        cone = "" if self.axis is None else f", within {self.angle:g} of an axis"
        return f"RegularizationPath({len(radii)} radii to {radii[-1]}{cone})"

    def check_over(self, over: str) -> None:
        """Cones are for p and W, pairs of radii for vp."""
        if over != "vp" and np.ndim(self.radii) == 2:
            raise_input("radii", f"have 1 axis over {over}", np.shape(self.radii))
        if over not in ("p", "W") and (self.axis is not None or self.least > 0):
            raise_input("axis and least", "be left out but for p and W", f"over={over!r}")

    def _check_cone(self, radii: Floats) -> None:
        if (self.axis is None) != (self.angle is None):
            raise_input("axis and angle", "be given together", "one of them")
        if self.axis is not None:
            object.__setattr__(self, "axis", check.float_array("axis", self.axis))
        if self.angle is not None and not 0 < check.number("angle", self.angle) < np.pi / 2:
            raise_input("angle", "lie in (0, pi/2)", f"{self.angle:g}")
        if self.least > radii.min():
            raise_input("least", "be at most the first radius", f"{self.least:g}")


METHODS = (
    GradientDescent,
    NormalizedDescent,
    PolyakDescent,
    MirrorDescent,
    GradientFlow,
    RegularizationPath,
)
Method = StepRule | GradientFlow | RegularizationPath
