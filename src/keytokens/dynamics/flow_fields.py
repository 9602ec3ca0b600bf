"""Two fields of the same flow: compiled for a linear head, by automatic differentiation else.

A field maps coordinates y (D,) to (f, balance); f is a positive multiple of the gradient with a
minus sign, of size sqrt(1 + |y|^2) unless the inputs' pulls nearly cancel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens._extras import require
from keytokens.attention import token_scores
from keytokens.dynamics import flow_kernel as kernel
from keytokens.dynamics.flow_span import features
from keytokens.dynamics.models import TokenModel
from keytokens.losses import LOSSES, Loss, loss_of

Array = Any
Blocks = dict[str, Array]
_CODES = {"logistic": kernel.LOGISTIC, "exponential": kernel.EXPONENTIAL, "linear": kernel.LINEAR}


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The trained blocks as one vector: block = rest + basis y_block; rest is never touched.

    bases: (size, D_block), or None for all of the block's own entries. y0: where training starts.
    """

    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    bases: dict[str, Floats | None]
    rest: dict[str, Floats]
    y0: Floats

    @classmethod
    def of(cls, start: Blocks, bases: dict[str, Floats | None]) -> "Coordinates":
        """Split each block of the start into its part in the span and the rest."""
        flat = {name: w.ravel() for name, w in start.items()}
        y, rest = {}, {}
        for name, w in flat.items():
            Q = bases[name]
            y[name] = w if Q is None else Q.T @ w
            rest[name] = np.zeros(0) if Q is None else w - Q @ y[name]
        shapes = tuple((name, w.shape) for name, w in start.items())
        return cls(shapes, bases, rest, np.concatenate([y[name] for name, _ in shapes]))

    @property
    def off_span(self) -> float:
        """Norm of what is never touched."""
        return float(np.sqrt(sum(r @ r for r in self.rest.values())))

    def blocks(self, y: Array) -> Blocks:
        """The blocks at y (D,)."""
        return _blocks(self.shapes, self.bases, self.rest, y)


def _blocks(shapes: Any, bases: Any, rest: Any, y: Array) -> Blocks:
    """Blocks of y, on NumPy and jax arrays alike."""
    found, at = {}, 0
    for name, shape in shapes:
        basis = bases[name]
        size = int(np.prod(shape)) if basis is None else basis.shape[1]
        part = y[at : at + size]
        found[name] = (part if basis is None else rest[name] + basis @ part).reshape(shape)
        at += size
    return found


def is_known(loss: Loss) -> bool:
    """Whether the compiled kernel has this loss."""
    return loss.name in _CODES and LOSSES[loss.name] is loss


def is_compiled(objective: Any) -> bool:
    """Whether the compiled kernel covers it: p or W, linear head, a loss it knows."""
    model = objective.model
    plain = type(model) is TokenModel and model.over in ("p", "W")
    return plain and objective.head is None and is_known(objective.loss)


def linear_field(
    K: Floats, data: Blocks, loss: Loss
) -> tuple[Callable[[Floats], tuple[Floats, float]], Callable[[Floats], Floats]]:
    """The compiled field and its Jacobian for features K (n, T, D)."""
    mask, log_counts = data.get("mask"), data.get("log_counts")
    scores = token_scores(data["X"], data["y"], data["v"])
    offsets = np.zeros(scores.shape) if log_counts is None else log_counts
    if mask is not None:
        scores, offsets = np.where(mask, scores, 0.0), np.where(mask, offsets, -np.inf)
    scale = _size_of(K)
    rest = (np.ascontiguousarray(K) / scale, offsets, scores, _CODES[loss.name], scale)
    return (lambda y: kernel.field(y, *rest)), (lambda y: kernel.jacobian(y, *rest))


def _size_of(K: Floats) -> float:
    """Root mean square length of the features, no square over- or underflowing; 1 if all are 0."""
    top = float(np.abs(K).max(initial=0.0))
    return top * float(np.sqrt(np.mean(np.sum((K / top) ** 2, axis=-1)))) if top > 0 else 1.0


def _size_of_pull(data: Blocks) -> float:
    """What a logit's slope is multiplied by: the size of a key, with its query where it has one."""
    tokens = data["keys"] if "keys" in data else data.get("X", np.ones((1, 1)))
    return _size_of(tokens) * (_size_of(data["query"]) if "query" in data else 1.0)


def balance_of(
    problem: Any, weight: Floats, over: str, loss: Any, log_counts: Floats | None = None
) -> float | None:
    """|sum of the inputs' pulls| over their size at p or W; None for a loss not built in."""
    loss = loss_of(loss)
    if not is_known(loss):
        return None
    pair = (problem.keys, None) if over == "p" else (problem.X, problem.query)
    data = {"X": problem.X, "y": problem.y, "v": problem.v, "log_counts": log_counts}
    data |= {} if problem.mask is None else {"mask": problem.mask}
    return float(linear_field(features(*pair), data, loss)[0](weight.ravel())[1])


def autodiff_field(
    objective: Any, coordinates: Coordinates, data: Blocks, ratio: float
) -> tuple[Callable[[Floats], tuple[Floats, float]], Callable[[Floats], Floats]]:
    """The same by jax, for any model, head and loss: the log-domain gradient of the objective."""
    place = (coordinates.bases, coordinates.rest, data, ratio, _size_of_pull(data))
    static = (objective, coordinates.shapes)

    def field(y: Floats) -> tuple[Floats, float]:
        f, balance = _compiled()[0](*static, y, *place)
        return np.asarray(f), float(balance)

    return field, lambda y: np.asarray(_compiled()[1](*static, y, *place)[0])


def _compiled() -> tuple[Any, Any]:
    global _JITTED
    if _JITTED is None:
        jax = require("jax", "lab")
        slope = jax.jacfwd(_autodiff, argnums=2, has_aux=True)
        _JITTED = tuple(jax.jit(f, static_argnums=(0, 1)) for f in (_autodiff, slope))
    return _JITTED


_JITTED: Any = None


def _autodiff(
    objective: Any, shapes: Any, y: Array, bases: Any, rest: Any, data: Blocks, ratio: Array,
    scale: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """f and balance at y; over vp each block is normalised by itself, v with `ratio`."""
    jnp = require("jax", "lab").numpy
    blocks = _blocks(shapes, bases, rest, y)
    G, e = objective.gradient(blocks, data)
    flat = {name: G[name].ravel() / scale for name, _ in shapes}
    flat = {n: g if bases[n] is None else bases[n].T @ g for n, g in flat.items()}
    if objective.model.over == "vp":
        parts = [flat[n] / _length(jnp, flat[n]) for n, _ in shapes]
        parts = [g * ratio if n == "v" else g for g, (n, _) in zip(parts, shapes, strict=True)]
        direction, balance = (
            jnp.concatenate(parts),
            jnp.stack([_size(jnp, g) for g in flat.values()]),
        )
    else:
        top = jnp.max(jnp.stack(list(e.values())))
        joint = jnp.concatenate([flat[n] * jnp.exp(e[n] - top) for n, _ in shapes])
        direction, balance = joint / _length(jnp, joint), _size(jnp, joint)
    pulled = jnp.stack([jnp.any(g != 0) for g in flat.values()]).any()
    return -jnp.sqrt(1.0 + y @ y) * direction, jnp.where(pulled, jnp.max(balance), 0.0)


def _size(jnp: Any, g: Array) -> Array:
    """|g|, 0 with a finite derivative where g = 0."""
    return jnp.sqrt(jnp.sum(g * g) + 1e-300)


def _length(jnp: Any, g: Array) -> Array:
    """|g|, with a floor far below the size of one input's pull: finite limits are approached
    smoothly, the path is the same."""
    return jnp.maximum(_size(jnp, g), kernel.EASE)
