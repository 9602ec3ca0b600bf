"""The one loop of descent and mirror descent: batch axis first, compiled once per shape."""

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from keytokens._extras import require
from keytokens.dynamics.job import Job, Outcome
from keytokens.dynamics.rules import from_mirror, is_traced, log_excess, to_mirror
from keytokens.dynamics.trajectory import Reason

jax = require("jax", "lab")
jnp = jax.numpy
Array = Any
Blocks = dict[str, Array]

RUNNING, STATIONARY, STALLED, NOT_FINITE = range(4)
_REASONS = (Reason.STEPS, Reason.STATIONARY, Reason.STALLED, Reason.NOT_FINITE)


def run(job: Job) -> Outcome:
    """Train every problem of the batch, and save at the stops."""
    path, codes = _loop(job.objective, _Traced.of(job.method), job.start, job.data, job.stops)
    path = {name: np.swapaxes(np.asarray(a), 0, 1) for name, a in path.items()}
    return Outcome(path, job.stops, tuple(_REASONS[c] for c in np.asarray(codes)))


@partial(jax.jit, static_argnums=0)
def _loop(
    objective: Any, method: Any, start: Blocks, data: Blocks, stops: Array
) -> tuple[Blocks, Array]:
    """Scan over the stops; between two of them, a plain loop. Path (K, B, ...), codes (B,)."""
    step = jax.vmap(partial(_step, objective, method.method), (0, 0, 0, 0, None))

    def go_on(state: Any) -> Array:
        k, stop, _, _, codes = state
        return (k < stop) & jnp.any(codes == RUNNING)

    def body(state: Any) -> Any:
        k, stop, theta, blocks, codes = state
        return k + 1, stop, *step(theta, blocks, codes, data, k)

    def until(state: Any, stop: Array) -> Any:
        k, theta, blocks, codes = state
        _, _, theta, blocks, codes = jax.lax.while_loop(
            go_on, body, (k, stop, theta, blocks, codes)
        )
        return (jnp.maximum(k, stop), theta, blocks, codes), blocks

    theta = {name: to_mirror(method.method, w) for name, w in start.items()}
    codes = jnp.zeros(len(next(iter(start.values()))), dtype=jnp.int32)
    state, path = jax.lax.scan(until, (0, theta, start, codes), stops)
    return path, state[3]


def _step(
    objective: Any, method: Any, theta: Blocks, blocks: Blocks, code: Array,
    data: Blocks, k: Array,
) -> tuple[Blocks, Blocks, Array]:  # fmt: skip
    """One step of one problem; a run that has ended stays where it is."""
    G, e = objective.gradient(blocks, data)
    change = method.change(blocks, G, e, k, partial(log_excess, objective, method, blocks, data))
    moved = {name: theta[name] + change[name] for name in theta}
    new = {name: from_mirror(method, w) for name, w in moved.items()}
    code = jnp.where(
        code == RUNNING, _judge(G, theta, moved, (new, _logits(objective, new, data))), code
    )
    keep = partial(jnp.where, code == RUNNING)
    return (
        {name: keep(moved[name], theta[name]) for name in theta},
        {name: keep(new[name], blocks[name]) for name in blocks},
        code,
    )


def _judge(G: Blocks, theta: Blocks, moved: Blocks, new: Any) -> Array:
    """Whether the run goes on, or why it ends. In the mirror: theta moves before w = 0 does."""
    leaves = jax.tree_util.tree_leaves
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(w)) for w in leaves((G, moved, new))]))
    zero = jnp.all(jnp.stack([jnp.all(g == 0) for g in leaves(G)]))
    same = jnp.all(jnp.stack([jnp.all(moved[b] == w) for b, w in theta.items()]))
    ended = jnp.where(zero, STATIONARY, jnp.where(same, STALLED, RUNNING))
    return jnp.where(finite, ended, NOT_FINITE).astype(jnp.int32)


def _logits(objective: Any, blocks: Blocks, data: Blocks) -> Array:
    """a, masked tokens 0: a point where they overflow has no attention. (n, T)"""
    a = objective.model.logits(blocks, data)
    return jnp.where(data["mask"], a, 0.0) if "mask" in data else a


class _Traced:
    """A method whose numbers are traced and whose functions are static: a new step size is no
    new compilation."""

    def __init__(self, method: Any) -> None:
        self.method = method

    @classmethod
    def of(cls, method: Any) -> "_Traced":
        return cls(method)


def _flatten(traced: _Traced) -> tuple[tuple[Any, ...], Any]:
    found = {field.name: getattr(traced.method, field.name) for field in fields(traced.method)}
    numbers = {k: np.asarray(v, np.float64) for k, v in found.items() if is_traced(v)}
    rest = tuple((k, v) for k, v in found.items() if k not in numbers)
    return tuple(numbers.values()), (type(traced.method), tuple(numbers), rest)


def _unflatten(static: Any, numbers: Any) -> _Traced:
    kind, names, rest = static
    method = object.__new__(kind)  # past the checks: they were made, and cannot read tracers
    for name, value in (*zip(names, numbers, strict=True), *rest):
        object.__setattr__(method, name, value)
    return _Traced(method)


jax.tree_util.register_pytree_node(_Traced, _flatten, _unflatten)
