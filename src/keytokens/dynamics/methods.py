"""Training methods as plain objects; each names the module that runs it.

A module that runs a method has one function, `run(job) -> Outcome` (see job.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.errors import raise_input

Step = float | Callable[[Any, Any], Any]


def _check_step(step: object) -> None:
    if not callable(step):
        check.positive("step", step)


@dataclass(frozen=True)
class GradientDescent:
    """w <- w - step grad L(w). step: a number, or a function of (k, norm of w)."""

    step: Step = 0.1
    ratio: float = 1.0  # over vp: the step of v in units of the step of p
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        _check_step(self.step)
        check.positive("ratio", self.ratio)


@dataclass(frozen=True)
class NormalizedDescent:
    """w <- w - step grad L / ||grad L||, each block (K, Q, v, p, E) normalised by itself.

    step: a number, or a function of (k, norm of the block). ratio: over vp, the step of v in
    units of the step of p, hence in the long run ||v|| / ||p||.
    """

    step: Step = 0.1
    ratio: float = 1.0
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        _check_step(self.step)
        check.positive("ratio", self.ratio)


@dataclass(frozen=True)
class PolyakDescent:
    """w <- w - (L - L*) / ||grad L||^2 grad L.

    best_loss: L*; None is mean_i l(gamma_opt), for a linear head over p, W or KQ: it holds where
    the run goes to a feasible optimal selection. scale multiplies the step.
    """

    best_loss: float | None = None
    scale: float = 1.0
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        if self.best_loss is not None:
            check.number("best_loss", self.best_loss)
        check.positive("scale", self.scale)


@dataclass(frozen=True)
class MirrorDescent:
    """Mirror descent with potential ||w||_q^q / q, normalised by the dual norm.

    |w|^(q-1) sign(w) moves by -step grad L / ||grad L||_(q/(q-1)). q = 2 is normalised descent.
    """

    q: float = 2.0
    step: Step = 0.1
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        if check.number("q", self.q) <= 1:
            raise_input("q", "be above 1", f"{self.q:g}")
        _check_step(self.step)


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
Method = (
    GradientDescent
    | NormalizedDescent
    | PolyakDescent
    | MirrorDescent
    | GradientFlow
    | RegularizationPath
)
