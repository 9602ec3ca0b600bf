"""Stabilised explicit steps for gradient flows: Runge-Kutta-Chebyshev, second order.

A gradient flow whose attention has nearly decided is stiff, with real eigenvalues: some texts
answer to p a thousand times as fast as others. s stages are stable over steps of .65 s^2 / rho, rho
the spectral radius, where one Euler step is over 2 / rho: s stages go s / 3 times as far as s
Euler steps. (Sommeijer, Shampine and Verwer: RKC.)
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from keytokens._checks import Floats

Speed = Callable[[Floats], "tuple[Floats, float] | None"]
Now = tuple[Floats, float]

_DAMPING = 2 / 13
_MOST_STAGES = 200
_SAFETY = 1.2  # the power method finds rho from below
_FIRST, _AGAIN, _LATER = 40, 20, 2  # its iterations: at the start, after a refusal, at each step
_NUDGE = 1e-6  # how far apart the two points of a difference of velocities lie


class Chebyshev:
    """Steps along `speed` (velocity and size, None where there is none), error measured by `norm`.

    Each accepted step loses at most `error` times the norm of p (at least 1).
    """

    def __init__(self, speed: Speed, norm: Callable[[Floats], float], error: float) -> None:
        self.speed, self.norm, self.error = speed, norm, error
        self.radius = 0.0
        self._stiffest: Floats | None = None

    def advance(self, p: Floats, now: Now, step: float) -> tuple[Floats, Now | None, float]:
        """One accepted step, what moves p there, and the next step's size."""
        allowed = self.error * max(1.0, self.norm(p))
        self._measure(p, now, _FIRST if self._stiffest is None else _LATER)
        for _ in range(30):
            stages, step = self._stages(step)
            new = self._step(p, now[0], step, stages)
            after = None if new is None else self.speed(new)
            if new is None or (after is None and not np.isfinite(new).all()):
                step /= 2
                continue
            if after is None:
                return new, None, step
            wrong = self.norm(0.8 * (p - new) + 0.4 * step * (now[0] + after[0]))
            factor = 0.8 * (allowed / max(wrong, 1e-300)) ** (1 / 3)
            if wrong <= allowed:
                return new, after, step * min(max(factor, 0.3), 4.0)
            step *= max(factor, 0.1)
            self._measure(p, now, _AGAIN)
        return p, now, step

    def _stages(self, step: float) -> tuple[int, float]:
        """Enough stages for a stable step; a shorter step where they would be too many."""
        rho = _SAFETY * self.radius
        stages = max(2, int(1 + np.sqrt(1 + 1.54 * step * rho)))
        if stages <= _MOST_STAGES:
            return stages, step
        return _MOST_STAGES, 0.65 * (_MOST_STAGES**2 - 1) / rho

    def _step(self, p: Floats, F0: Floats, step: float, stages: int) -> Floats | None:
        """Y_j = (1 - mu - nu) p + mu Y_{j-1} + nu Y_{j-2} + step (mu~ F(Y_{j-1}) + gamma~ F(p))"""
        first, rest = coefficients(stages)
        before, Y = p, p + first * step * F0
        for mu, nu, forward, backward in rest:
            found = self.speed(Y)
            if found is None:
                return None
            new = (1 - mu - nu) * p + mu * Y + nu * before
            before, Y = Y, new + step * (forward * found[0] + backward * F0)
        return Y

    def _measure(self, p: Floats, now: Now, iterations: int) -> None:
        """rho by the power method on differences of velocities, going on where it stopped."""
        nudge = _NUDGE * max(1.0, self.norm(p))
        v = now[0] if self._stiffest is None else self._stiffest
        for k in range(iterations):
            length = self.norm(v)
            found = self.speed(p + nudge / length * v) if length > 0 else None
            if found is None:
                return
            v, last = found[0] - now[0], self.radius
            self.radius = self.norm(v) / nudge
            self._stiffest = v
            if k and abs(self.radius - last) <= 0.05 * self.radius:
                return


@lru_cache(maxsize=256)
def coefficients(stages: int) -> tuple[float, list[tuple[float, float, float, float]]]:
    """mu~_1, and (mu, nu, mu~, gamma~) of stages 2 .. s, from Chebyshev polynomials at w0."""
    w0 = 1 + _DAMPING / stages**2
    T, D, C = [1.0, w0], [0.0, 1.0], [0.0, 0.0]  # T_j(w0) and its first and second derivative
    for _ in range(2, stages + 1):
        C.append(4 * D[-1] + 2 * w0 * C[-1] - C[-2])
        D.append(2 * T[-1] + 2 * w0 * D[-1] - D[-2])
        T.append(2 * w0 * T[-1] - T[-2])
    w1 = D[-1] / C[-1]
    b = [c / d**2 for c, d in zip(C[2:], D[2:], strict=True)]
    b = [b[0], b[0], *b]
    rest = []
    for j in range(2, stages + 1):
        forward = 2 * b[j] * w1 / b[j - 1]
        backward = -(1 - b[j - 1] * T[j - 1]) * forward
        rest.append((2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], forward, backward))
    return b[1] * w1, rest
