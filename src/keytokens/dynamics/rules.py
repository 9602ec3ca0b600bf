"""What the loop of descent asks of a step rule, and the check of a user's own before it runs."""

from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from keytokens._extras import require
from keytokens.dynamics.job import Job
from keytokens.dynamics.models import TokenModel
from keytokens.errors import InputError, raise_input

jax = require("jax", "lab")
jnp = jax.numpy
Array = Any
Blocks = dict[str, Array]


def is_traced(value: object) -> bool:
    """Whether jax traces this field: a number or an array of them. Truth values are fixed."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iuf"
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def to_mirror(method: Any, w: Array) -> Array:
    """Where the change is added: the rule's mirror of w, or w itself."""
    return method.to_mirror(w) if hasattr(method, "to_mirror") else w


def from_mirror(method: Any, theta: Array) -> Array:
    """The inverse of `to_mirror`."""
    return method.from_mirror(theta) if hasattr(method, "from_mirror") else theta


def log_excess(objective: Any, method: Any, blocks: Blocks, data: Blocks) -> Array:
    """log(L - L*): without cancellation where L* follows from the scores, plainly otherwise."""
    best = getattr(method, "best_loss", None)
    if best is not None:
        return jnp.log(objective.value(blocks, data) - best)
    if not knows_best(objective):
        raise_input("best_loss", "be given but for a linear head over p, W or KQ", "None")
    return objective.log_excess(blocks, data)


def knows_best(objective: Any) -> bool:
    """Whether L* follows from the token scores: they stay as they are, and the head is linear."""
    fixed = isinstance(objective.model, TokenModel) and objective.model.over != "vp"
    return fixed and objective.head is None


def check_rule(job: Job) -> None:
    """A user's own rule, seen by tracing (nothing is compiled) and at the start."""
    method = job.method
    _check_class(method)
    blocks = {name: w[0] for name, w in job.start.items()}
    data = {name: jnp.asarray(a[0]) for name, a in job.data.items()}
    _check_change(job.objective, method, blocks, data)
    for name, w in blocks.items():
        _check_mirror(method, name, jnp.asarray(w))


def _check_class(method: Any) -> None:
    name = type(method).__name__
    parameters = getattr(type(method), "__dataclass_params__", None)
    if not getattr(parameters, "frozen", False):
        raise_input("method", "be a frozen dataclass", f"the class {name}")
    if not callable(getattr(method, "change", None)):
        raise_input("method", "have change(blocks, G, e, k, excess)", f"the class {name}")
    if hasattr(method, "to_mirror") != hasattr(method, "from_mirror"):
        raise_input("method", "have both to_mirror and from_mirror, or neither", "one of them")
    for field in fields(method):
        value = getattr(method, field.name)
        if not is_traced(value) and not _is_hashable(value):
            raise_input(f"method.{field.name}", "be a number, an array or hashable", repr(value))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _check_change(objective: Any, method: Any, blocks: Blocks, data: Blocks) -> None:
    """The change has every block, in its shape."""

    def change(blocks: Blocks, k: Array) -> Blocks:
        G, e = objective.gradient(blocks, data)
        excess = partial(log_excess, objective, method, blocks, data)
        found: Blocks = method.change(blocks, G, e, k, excess)
        return found

    out = _traced("change", change, blocks, jax.ShapeDtypeStruct((), "int64"))
    expected = {name: w.shape for name, w in blocks.items()}
    came = {n: getattr(w, "shape", ()) for n, w in out.items()} if isinstance(out, dict) else out
    if came != expected:
        raise_input("method.change", f"return a dict of shapes {expected}", came)


def _check_mirror(method: Any, name: str, w: Array) -> None:
    """from_mirror undoes to_mirror where training starts."""
    if not hasattr(method, "to_mirror"):
        return
    back = _traced("from_mirror", lambda w: method.from_mirror(method.to_mirror(w)), w)
    if back.shape != w.shape:
        raise_input("method.from_mirror", f"keep the shape {w.shape} of {name}", back.shape)
    apart = jnp.abs(method.from_mirror(method.to_mirror(w)) - w)
    if not bool(jnp.all(apart <= 1e-6 * (1.0 + jnp.abs(w)))):
        came = f"{name} off by {float(jnp.max(apart)):.2g} at the start"
        raise_input("method.from_mirror", "undo to_mirror", came)


def _traced(name: str, function: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        if isinstance(error, InputError):
            raise
        first = str(error).splitlines()[0]
        raise_input(f"method.{name}", "be pure and written with jax.numpy", first)
