"""Follow a field from a start, through a list of norms: the one loop of the flow.

The field is f = speed * (direction of steepest descent), speed ~ sqrt(1 + |y|^2), so that time is
log-norm once training runs away. Landing on a norm is a matter of choosing the last step.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from keytokens._checks import Floats
from keytokens.dynamics.flow_rosenbrock import rodas_step
from keytokens.dynamics.trajectory import Reason

CANCELLED = 1e-12  # the pulls of all inputs cancel to this share of their size: a finite limit
LANDED, PASSED = 1e-9, 1e-3  # relative distance to the last norm, and to those on the way
SETTLED = 1e-4  # Newton's step, relative to 1 + norm, at a finite limit
SHORTEST, SECANTS = 1e-13, 30

Attempt = Callable[[float], tuple[Floats, float]]  # step -> (where it ends, its error)


@dataclasses.dataclass
class Lane:
    """One problem's field, where it is, what it passed, and why it ended.

    field(y) = (f (D,), balance), balance -> 0 where the inputs' pulls cancel; jacobian(y) = df/dy;
    off_span: norm of the start's part that no gradient ever touches; h: the next step.
    """

    field: Callable[[Floats], tuple[Floats, float]]
    jacobian: Callable[[Floats], Floats]
    y: Floats
    off_span: float
    tolerance: float
    most: int
    h: float = 1e-3
    steps: int = 0
    points: list[Floats] = dataclasses.field(default_factory=list)
    reason: Reason = Reason.NORM

    def norm(self, y: Floats) -> float:
        """||w|| of the whole parameter."""
        return float(np.hypot(self.off_span, np.sqrt(y @ y)))

    def gap(self, y: Floats, target: float) -> float:
        """log(norm / target); from norm 0 the logarithm is no guide."""
        return float(np.log(max(self.norm(y) / target, 1e-3)))


def follow(lane: Lane, norms: Floats) -> Lane:
    """Integrate until the last norm, saving y where each norm is first reached."""
    for k, target in enumerate(norms):
        near = PASSED if k + 1 < len(norms) else LANDED
        while lane.norm(lane.y) < target * (1 - near):
            if not _advance(lane, target, near):
                return lane
        lane.points.append(lane.y)
    return lane


def _advance(lane: Lane, target: float, near: float) -> bool:
    """One accepted step, that ends near the target if it would cross it; False: the end."""
    f0, balance = lane.field(lane.y)
    if not balance > CANCELLED:  # a NaN says that there is no pull at all
        lane.reason = _at_rest(lane, f0, balance)
        return False
    attempt = _attempt(lane, f0)
    y, h = _accepted(attempt, lane)
    if y is None:
        return False
    far = lane.norm(y) > target * (1 + near)
    lane.y = _landed(attempt, lane, target, near, h, y) if far else y
    return True


def _at_rest(lane: Lane, f0: Floats, balance: float) -> Reason:
    """Why the pulls cancel: a zero gradient, a finite limit, or tokens kept together for good.

    Newton's step vanishes at a finite limit; where the norm runs away under tied tokens it is as
    long as the decay length of the pulls, one unit of log-weight.
    """
    if not balance > 0:
        return Reason.STATIONARY
    newton = np.linalg.lstsq(lane.jacobian(lane.y), f0, rcond=None)[0]
    still = np.sqrt(newton @ newton) <= SETTLED * (1.0 + lane.norm(lane.y))
    return Reason.CONVERGED if still else Reason.CANCELLED


def _attempt(lane: Lane, f0: Floats) -> Attempt:
    """Steps from where the lane is, with their error in units of the tolerance."""
    J, start = lane.jacobian(lane.y), lane.y
    unit = lane.tolerance * np.hypot(1.0, lane.norm(start))

    def attempt(h: float) -> tuple[Floats, float]:
        y, error = rodas_step(lambda z: lane.field(z)[0], J, start, f0, h)
        return y, float(np.sqrt(error @ error)) / unit

    return attempt


def _accepted(attempt: Attempt, lane: Lane) -> tuple[Floats | None, float]:
    """Shorten the step until its error is small enough; lengthen the next one."""
    while lane.steps < lane.most and lane.h > SHORTEST:
        lane.steps += 1
        h, (y, error) = lane.h, attempt(lane.h)
        lane.h *= min(5.0, max(0.2, 0.9 * max(error, 1e-9) ** -0.25)) if error >= 0 else 0.1
        if error <= 1.0:
            return y, h
    lane.reason = Reason.STEPS if lane.steps >= lane.most else Reason.UNSETTLED
    return None, lane.h


def _landed(
    attempt: Attempt, lane: Lane, target: float, near: float, h: float, y: Floats
) -> Floats:
    """Where a step in (0, h] ends near the target: false position on log-norm (Illinois).

    y: where the step h ends, beyond the target.
    """
    (low, below), (high, above) = (0.0, lane.gap(lane.y, target)), (h, lane.gap(y, target))
    for _ in range(SECANTS):
        middle = (low * above - high * below) / (above - below)
        y = attempt(middle)[0]
        gap = lane.gap(y, target)
        if abs(gap) < near:
            break
        if gap > 0:
            high, above, below = middle, gap, below / 2
        else:
            low, below, above = middle, gap, above / 2
    return y
