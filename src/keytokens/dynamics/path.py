"""The regularisation path: argmin L(w) over ||w|| <= R, a radius at a time, warm-started.

Solved in u = w / R by Newton's method on the spheres that hold it (newton.py), for F / R with
F = log(L - L*) where L* follows from the scores, log L over v, p (whose infimum is 0), and L
itself otherwise. F / R keeps its scale along the path: it tends to minus the margin. Where L stays
above L* (a cone around another selection, a nonlinear head), F is flat to rounding far out and its
slope underflows: there the slope is divided by e^depth, which no step depends on.
"""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens._extras import require
from keytokens._progress import track
from keytokens.dynamics.job import Job, Outcome
from keytokens.dynamics.models import TokenModel
from keytokens.dynamics.newton import Ball, minimise, minimise_in_cone
from keytokens.dynamics.trajectory import Reason
from keytokens.errors import raise_input

jax = require("jax", "lab")
jnp = jax.numpy
GROWTH = 2.0  # radii further apart than this are bridged: Newton starts within reach
FLAT = -50.0  # log of the slope below which no step changes F beyond rounding


def run(job: Job) -> Outcome:
    """Every problem by itself, every radius from the solution before."""
    radii = _radii(job)
    found = [_follow(job, k, radii) for k in track(range(job.B), "regularisation path")]
    path = {name: np.stack([points[name] for points, _ in found]) for name in job.start}
    marks = np.array([at.get("p", max(at.values())) for at in radii])
    return Outcome(path, marks, tuple(reason for _, reason in found))


def _radii(job: Job) -> list[dict[str, float]]:
    """The radius of each block at each point of the path."""
    given = np.asarray(job.method.radii)
    if given.ndim == 2:
        return [{"v": float(r), "p": float(R)} for r, R in given]
    ratio = {"v": job.method.ratio}
    return [{name: float(R) * ratio.get(name, 1.0) for name in job.start} for R in given]


def _bridged(radii: list[dict[str, float]]) -> list[tuple[dict[str, float], bool]]:
    """The radii, with others between where they are far apart; whether each was asked for."""
    found = [(radii[0], True)]
    for low, high in pairwise(radii):
        grown = max(high[name] / low[name] for name in high)
        count = max(1, int(np.ceil(np.log(grown) / np.log(GROWTH))))
        for j in range(1, count + 1):
            between = {b: low[b] * (high[b] / low[b]) ** (j / count) for b in high}
            found.append((high if j == count else between, j == count))
    return found


def _follow(job: Job, k: int, radii: list[dict[str, float]]) -> tuple[dict[str, Floats], Reason]:
    """The points of problem k, a dict of (K, ...), and whether all of them settled."""
    data = {name: jnp.asarray(a[k]) for name, a in job.data.items()}
    start = {name: job.start[name][k] for name in sorted(job.start)}  # jax sorts dicts too
    axis, u = _axis(job, start), _first(job, start, radii[0])
    points, settled = [], True
    for at, asked in _bridged(radii):
        radius = np.concatenate([np.full(w.size, at[name]) for name, w in start.items()])
        depth = _depth(job.objective, data, start, radius, u)
        value = partial(_value, job.objective, data, start, radius, depth)
        ball = Ball(_slices(start), job.method.least / max(at.values()))
        u, good = _solve(value, u, ball, axis, job.method.angle)
        if asked:
            settled = settled and good
            points.append(_unpacked(u * radius, start))
    path = {name: np.stack([point[name] for point in points]) for name in start}
    return path, Reason.RADII if settled else Reason.UNSETTLED


def _solve(
    value: Any, u: Floats, ball: Ball, axis: Floats | None, angle: float
) -> tuple[Floats, bool]:
    if axis is None:
        return minimise(value, u, ball)
    return minimise_in_cone(value, u, ball, axis, angle)


def _first(job: Job, start: dict[str, Floats], radius: dict[str, float]) -> Floats:
    """The start in units of the first radii: pulled into the ball, or onto the axis of a cone."""
    axis = _axis(job, start)
    if axis is not None:
        return axis
    units = [w.ravel() / radius[name] for name, w in start.items()]
    return np.concatenate([u / max(1.0, float(np.linalg.norm(u))) for u in units])


def _axis(job: Job, start: dict[str, Floats]) -> Floats | None:
    """The axis of the cone, of norm one."""
    if job.method.axis is None:
        return None
    axis = np.asarray(job.method.axis).ravel()
    size = sum(w.size for w in start.values())
    if axis.size != size or not np.any(axis):
        raise_input("axis", f"be a direction of {size} numbers", f"shape {axis.shape}")
    return axis / np.linalg.norm(axis)


def _slices(blocks: dict[str, Floats]) -> tuple[slice, ...]:
    edges = np.cumsum([0, *(w.size for w in blocks.values())])
    return tuple(slice(*edges[i : i + 2]) for i in range(len(blocks)))


def _unpacked(flat: Any, like: dict[str, Floats]) -> dict[str, Any]:
    parts = zip(_slices(like), like.items(), strict=True)
    return {name: flat[part].reshape(w.shape) for part, (name, w) in parts}


def _value(
    objective: Any, data: Any, like: Any, radius: Floats, depth: Any, u: Floats, curved: bool = True
) -> tuple[Any, ...]:
    """F(w) / R; over e^depth its slope and, if `curved`, its curvature in u; w = radius * u."""
    found = (_curved if curved else _sloped)(objective, data, like, radius, depth, u)
    return float(found[0]), *(np.asarray(part) for part in found[1:])


@partial(jax.jit, static_argnums=0)
def _sloped(objective: Any, data: Any, like: Any, radius: Any, depth: Any, u: Any) -> Any:
    F, G, e = _log_value(objective, _unpacked(u * radius, like), data)
    slope = jnp.concatenate([(jnp.exp(e[b] - depth) * G[b]).ravel() for b in G])
    return F / radius.max(), slope * radius / radius.max()


@partial(jax.jit, static_argnums=0)
def _curved(objective: Any, data: Any, like: Any, radius: Any, depth: Any, u: Any) -> Any:
    def both(x: Any) -> Any:
        F, slope = _sloped(objective, data, like, radius, depth, x)
        return slope, (F, slope)

    curvature, (F, slope) = jax.jacfwd(both, has_aux=True)(u)
    return F, slope, curvature


@partial(jax.jit, static_argnums=0)
def _depth(objective: Any, data: Any, like: Any, radius: Any, u: Any) -> Any:
    """The slope's exponent where F is flat to rounding, else 0."""
    e = _log_value(objective, _unpacked(u * radius, like), data)[2]
    deepest = jnp.max(jnp.stack([*e.values()]))
    return jnp.where(deepest < FLAT, deepest, 0.0)


def _log_value(objective: Any, blocks: Any, data: Any) -> Any:
    """F, and its slope e^e G: log(L - L*), or log L where L* = 0 is the infimum, or L."""
    G, e = objective.gradient(blocks, data)
    if objective.head is None and isinstance(objective.model, TokenModel) and "v" not in blocks:
        F = objective.log_excess(blocks, data)
    elif objective.floor_is_zero:
        F = objective.log_value(blocks, data)
    else:
        return objective.value(blocks, data), G, e
    return F, G, {b: e[b] - F for b in G}
