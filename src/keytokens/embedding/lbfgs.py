"""L-BFGS with sums of its own: the same bits on every run, whatever BLAS and its threads do."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from keytokens._checks import Floats

Objective = Callable[[Floats], tuple[float, Floats]]  # the gradient may be a buffer it reuses
_DECREASE, _CURVATURE = 1e-4, 0.9  # the weak Wolfe conditions


@dataclass(frozen=True)
class Minimum:
    """Where the search ended, after how many iterations, and why."""

    x: Floats
    value: float
    iterations: int
    reason: str


def minimise(
    objective: Objective,
    start: Floats,
    iterations: int,
    tolerance: float = 0.0,
    memory: int = 8,
    watch: Callable[[int, Floats], bool] | None = None,
) -> Minimum:
    """Minimise a smooth function of a vector by limited-memory quasi-Newton steps.

    tolerance: on the largest entry of the gradient, and on the relative decrease over the last
    five iterations. `watch(k, x)` sees every iterate, copies what it keeps of x, and may stop the
    search by answering True. Vectors are written over where they can be: fresh memory is slower
    than the arithmetic.
    """
    x, direction = start.copy(), np.empty_like(start)
    value, gradient = _copied(objective, x)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=memory)
    recent: deque[float] = deque([np.inf], maxlen=6)
    for k in range(iterations):
        if largest(gradient) <= tolerance:
            return Minimum(x, value, k, "converged")
        _set_direction(direction, gradient, pairs)
        step = 1.0 if pairs else 1.0 / max(np.sqrt(dot(gradient, gradient)), 1e-300)
        found = _line_search(objective, x, value, gradient, direction, step)
        if found is None:
            return Minimum(x, value, k, "no step lowers the loss any further")
        new, new_value, new_gradient = found
        np.subtract(new, x, out=x)
        np.subtract(new_gradient, gradient, out=gradient)
        _remember(pairs, x, gradient)
        x, value, gradient = new, new_value, new_gradient
        recent.append(value)
        if len(recent) == 6 and recent[0] - value <= tolerance * max(abs(value), 1e-300):
            return Minimum(x, value, k + 1, "converged")
        if watch is not None and watch(k + 1, x):
            return Minimum(x, value, k + 1, "stopped by held-out loss")
    return Minimum(x, value, iterations, "ran out of iterations")


def _copied(objective: Objective, x: Floats) -> tuple[float, Floats]:
    value, gradient = objective(x)
    return value, gradient.copy()


def _remember(pairs: deque[Any], s: Floats, y: Floats) -> None:
    """Keep (s, y, 1/<s,y>) where the curvature is safely positive."""
    curvature = dot(s, y)
    if curvature > 1e-14 * dot(y, y) and curvature > 0:
        pairs.append((s, y, 1.0 / curvature))


def _set_direction(q: Floats, gradient: Floats, pairs: deque[Any]) -> None:
    """q = -H g by the two-loop recursion, H scaled by <s,y>/<y,y> of the newest pair."""
    np.negative(gradient, out=q)
    alphas = []
    for s, y, rho in reversed(pairs):
        alphas.append(rho * dot(s, q))
        add_scaled(q, -alphas[-1], y)
    if pairs:
        _, y, rho = pairs[-1]
        q *= 1.0 / (rho * dot(y, y))
    for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
        add_scaled(q, alpha - rho * dot(y, q), s)


def _line_search(
    objective: Objective,
    x: Floats,
    value: float,
    gradient: Floats,
    direction: Floats,
    step: float,
) -> tuple[Floats, float, Floats] | None:
    """A step that meets the weak Wolfe conditions, by bracketing; None where there is none."""
    slope = dot(gradient, direction)
    if not slope < 0:
        return None
    low, high, best = 0.0, np.inf, None
    for _ in range(40):
        new = step * direction
        new += x
        new_value, new_gradient = objective(new)
        if not new_value <= value + _DECREASE * step * slope:
            high = step
        else:
            best = (new, new_value, new_gradient.copy())
            if dot(new_gradient, direction) >= _CURVATURE * slope:
                return best
            low = step
        step = 4 * step if high == np.inf else (low + high) / 2
    return best


@njit(cache=True, fastmath={"reassoc", "contract"})
def dot(x: Floats, y: Floats) -> float:
    """<x, y>, one thread, in one compiled order."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True)
def add_scaled(x: Floats, t: float, y: Floats) -> None:
    """x += t y, in place."""
    for i in range(len(x)):
        x[i] += t * y[i]


@njit(cache=True)
def largest(x: Floats) -> float:
    """max |x_i|"""
    high = 0.0
    for i in range(len(x)):
        high = max(high, abs(x[i]))
    return high
