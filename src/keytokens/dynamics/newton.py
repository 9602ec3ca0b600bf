"""Newton's method over a product of balls, each block on its sphere, between two, or inside.

On an active sphere (the function falls outward) the step lives in the tangent space and the
curvature gains the sphere's, mu = -<slope, u>; negative curvature is turned over, so that every
step is a direction of descent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats

Value = Callable[..., tuple[Any, ...]]  # u, curved -> value, slope, curvature
STEPS = 200
SETTLED = 1e-8  # tangential slope, relative to the slope


@dataclass(frozen=True)
class Ball:
    """Each block of u has norm at most 1, and at least `least`."""

    slices: tuple[slice, ...]
    least: float = 0.0

    def active(self, u: Floats, slope: Floats) -> list[slice]:
        """The blocks held by a sphere: on the outer one falling outward, or the inner, inward."""
        return [part for part in self.slices if self._held(u[part], slope[part])]

    def _held(self, u: Floats, slope: Floats) -> bool:
        size, outward = np.linalg.norm(u), -(slope @ u)
        return bool(
            (size >= 1 - 1e-12 and outward > 0)
            or (self.least > 0 and size <= self.least * (1 + 1e-12) and outward < 0)
        )

    def moved(self, u: Floats, step: Floats, active: list[slice]) -> Floats:
        """u + step, back on its sphere where active, back into the ball elsewhere."""
        new = u + step
        for part in self.slices:
            size = float(np.linalg.norm(new[part]))
            if part in active:
                new[part] *= np.linalg.norm(u[part]) / size
            elif size > 1:
                new[part] /= size
            elif size < self.least:
                new[part] *= self.least / max(size, 1e-300)
        return new


def minimise(value: Value, u: Floats, ball: Ball) -> tuple[Floats, bool]:
    """A local minimiser reached from u, and whether the slope along the spheres vanished."""
    if not np.any(u):
        u = _away_from_zero(value, u, ball)
    for _ in range(STEPS):
        F, slope, curvature = value(u)
        if not (np.isfinite(slope).all() and np.isfinite(curvature).all()):
            break
        active = ball.active(u, slope)
        residual = _tangential(slope, u, active)
        if np.linalg.norm(residual) <= 1e-13 * np.linalg.norm(slope):
            break
        step = _newton_step(u, slope, curvature, active)
        new = _line_search(value, u, step, ball, active, F, slope)
        if new is None:
            break
        u = new
    return u, _settled(value, u, ball)


def _away_from_zero(value: Value, u: Floats, ball: Ball) -> Floats:
    """0 may be a saddle: a short first step down the slope."""
    slope = value(u, curved=False)[1]
    if not np.isfinite(slope).all():
        return u
    return ball.moved(u, -0.1 * slope / max(float(np.linalg.norm(slope)), 1e-300), [])


def _settled(value: Value, u: Floats, ball: Ball) -> bool:
    """The slope along the spheres is small beside the slope; inside, beside the curvature.

    A slope of exactly zero where there is no curvature either has underflowed: not settled.
    F = -inf is L = L*: nothing is left to gain.
    """
    F, slope, curvature = value(u)
    if np.isneginf(F) or not np.isfinite(slope).all():
        return bool(np.isneginf(F))
    active = ball.active(u, slope)
    if not np.any(slope):
        return not np.any(u) or bool(np.any(curvature))
    scale = np.linalg.norm(slope) if active else np.abs(curvature).max()
    return bool(np.linalg.norm(_tangential(slope, u, active)) <= SETTLED * scale)


def _tangential(slope: Floats, u: Floats, active: list[slice]) -> Floats:
    """The slope without its part normal to the active spheres."""
    out = slope.copy()
    for part in active:
        out[part] -= (slope[part] @ u[part]) / (u[part] @ u[part]) * u[part]
    return out


def _newton_step(u: Floats, slope: Floats, curvature: Floats, active: list[slice]) -> Floats:
    """-|Q^T (curvature + mu) Q|^-1 Q^T slope, Q a basis of the tangent space."""
    hessian = (curvature + curvature.T) / 2
    normals = np.zeros((len(u), len(active)))
    for j, part in enumerate(active):
        size = u[part] @ u[part]
        normals[part, j] = u[part] / np.sqrt(size)
        hessian[part, part] += np.eye(len(u[part])) * -(slope[part] @ u[part]) / size
    Q = np.linalg.qr(normals, mode="complete")[0][:, len(active) :]
    values, vectors = np.linalg.eigh(Q.T @ hessian @ Q)
    floor = 1e-12 * max(float(np.abs(values).max()), 1e-300)
    return -Q @ (vectors @ ((vectors.T @ (Q.T @ slope)) / np.maximum(np.abs(values), floor)))


def _line_search(
    value: Value, u: Floats, step: Floats, ball: Ball, active: list[slice], F: float, slope: Floats
) -> Floats | None:
    """Halve the step until the function falls; where it is flat to rounding, until the slope
    along the step has shrunk and still points down. None if neither."""
    falls = 1e-4 * (slope @ step)
    length = min(1.0, 1.0 / max(float(np.linalg.norm(step)), 1e-300))
    for _ in range(60):
        new = ball.moved(u, length * step, active)
        F_new, slope_new = value(new, curved=False)
        if np.isfinite(F_new) and F_new <= F + length * falls and F_new < F:
            return new
        along = _tangential(slope_new, new, active) @ step
        if abs(F_new - F) <= 1e-13 * abs(F) and abs(along) < 0.5 * abs(slope @ step):
            return new
        if abs(F_new - F) <= 1e-13 * abs(F) and along < 0 and np.any(new != u):
            return new
        length /= 2
    return None


def minimise_in_cone(
    value: Value, u: Floats, ball: Ball, axis: Floats, angle: float
) -> tuple[Floats, bool]:
    """The same within `angle` of `axis`: inside if the way settles there, else on the surface
    at norm 1.
    """
    free, good = minimise(value, u, ball)
    inside = free @ axis >= np.cos(angle) * np.linalg.norm(free)
    if inside and good:
        return free, True
    edge, settled = _on_cone(value, u, axis, angle)
    if inside and not (settled and _falls_outward(value, edge, axis)):
        return free, False
    return edge, settled


def _falls_outward(value: Value, u: Floats, axis: Floats) -> bool:
    """Whether the function falls as the angle from the axis grows: du = (u cos - axis) / sin."""
    return bool(value(u, curved=False)[1] @ (u * (u @ axis) - axis * (u @ u)) < 0)


def _on_cone(value: Value, u: Floats, axis: Floats, angle: float) -> tuple[Floats, bool]:
    """Over u = cos(angle) axis + sin(angle) N n, ||n|| = 1, N a basis orthogonal to the axis."""
    N = np.linalg.qr(axis[:, None], mode="complete")[0][:, 1:]
    c, S = np.cos(angle) * axis, np.sin(angle) * N

    def on_surface(n: Floats, curved: bool = True) -> tuple[Any, ...]:
        F, slope, *rest = value(c + S @ n, curved=curved)
        return (F, S.T @ slope, *(S.T @ part @ S for part in rest))

    n = N.T @ u
    if not np.any(n):
        n = -N.T @ value(c, curved=False)[1]
    n, good = minimise(on_surface, n / np.linalg.norm(n), Ball((slice(0, len(n)),), least=1.0))
    return c + S @ n, good
