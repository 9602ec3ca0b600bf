"""Gradient flow, exact far past saturation: implicit, with time = log-norm, in the span.

dw/dt = -grad L moves along a path that does not depend on the clock. The clock here is log-norm:
the path to ||w|| = 1e5 would take e^100000 units of t. See flow_kernel.py for the field,
flow_rosenbrock.py for the step and flow_follow.py for the loop.
"""

from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.dynamics.flow_fields import (
    Coordinates,
    autodiff_field,
    is_compiled,
    linear_field,
)
from keytokens.dynamics.flow_follow import Lane, follow
from keytokens.dynamics.flow_span import features, span_of_differences
from keytokens.dynamics.job import Job, Outcome
from keytokens.dynamics.trajectory import Reason
from keytokens.errors import raise_input

POINTS = 41  # saved points at most: landing on a norm costs a few steps
LARGEST = 2000  # trained numbers: a step factors a matrix of that size
FIRST = 0.1  # the first norm to save after a start at zero


def run(job: Job) -> Outcome:
    """Follow each problem's flow by itself, so that a slow one holds no other up."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    norms = _norms(job)
    with threadpool_limits(1, user_api="blas"):  # the same bits on any machine's threads
        lanes = [_lane(job, k) for k in range(job.B)]
        points = [_points(follow(lane, norms[1:]), at, len(norms)) for lane, at in lanes]
    path = {name: np.stack([p[name] for p in points]) for name in job.start}
    steps = 0.5 * np.log1p(norms**2)
    return Outcome(path, steps, tuple(lane.reason for lane, _ in lanes))


def _norms(job: Job) -> Floats:
    """0 for the start, then log-spaced norms to the last one. (K,)"""
    sizes = np.sqrt(sum((w.reshape(job.B, -1) ** 2).sum(axis=1) for w in job.start.values()))
    last = job.method.norm
    if sizes.max() >= last:
        raise_input("norm", "be above the norm of the start", f"{last:g}, start {sizes.max():g}")
    first = min(max(float(sizes.min()), FIRST), last / 2)
    points = min(len(job.stops), POINTS)
    inner = np.geomspace(first, last, points) if points > 2 else np.array([last])
    return np.concatenate([[sizes.min()], inner[1:] if len(inner) > 1 else inner])


def _lane(job: Job, k: int) -> tuple[Lane, Coordinates]:
    """Problem k of the job, in coordinates of its own span."""
    data = {name: np.asarray(a[k]) for name, a in job.data.items()}
    start = {name: np.asarray(w[k]) for name, w in job.start.items()}
    Q, K = _span(job.objective.model, data)
    bases = {name: Q if name in ("p", "W") else None for name in start}
    at = Coordinates.of(start, bases)
    if K is not None and is_compiled(job.objective):
        field, jacobian = linear_field(K, data, job.objective.loss)
    else:
        field, jacobian = autodiff_field(job.objective, at, data, getattr(job.method, "ratio", 1.0))
    if len(at.y0) > LARGEST:
        came = f"{len(at.y0)} over {job.objective.model.over}"
        raise_input("problem", f"have at most {LARGEST} trained numbers for a gradient flow", came)
    most = int(job.stops[-1])
    return Lane(field, jacobian, at.y0, at.off_span, job.method.tolerance, most), at


def _span(model: Any, data: dict[str, Floats]) -> tuple[Floats | None, Floats | None]:
    """Basis and features where the logits are linear in p or W; (None, None) where they are not."""
    if "keys" in data:
        return span_of_differences(data["keys"], data.get("mask"))
    if model.over == "W" and "query" in data:
        return span_of_differences(features(data["X"], data["query"]), data.get("mask"))
    return None, None


def _points(lane: Lane, at: Coordinates, K: int) -> dict[str, Floats]:
    """Blocks at the start, at the norms that were reached, and at the end: (K, ...) each."""
    ys = [at.y0, *lane.points]
    if lane.reason is not Reason.NORM:
        ys += [lane.y] * (K - len(ys))
    found = [at.blocks(y) for y in ys]
    return {name: np.stack([b[name] for b in found]) for name in found[0]}
