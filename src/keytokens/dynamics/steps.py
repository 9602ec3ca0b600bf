"""Step rules: pure functions from a gradient to a change, a block at a time.

A gradient comes as mantissa G and exponent e, grad = e^e G, so that a rule that only needs the
direction never sees an underflow. Adding a rule is one function here and one line in `CHANGES`.
"""

from typing import Any

from keytokens._extras import require
from keytokens.dynamics.methods import (
    GradientDescent,
    MirrorDescent,
    NormalizedDescent,
    PolyakDescent,
)

jnp = require("jax", "lab").numpy
Array = Any
Blocks = dict[str, Array]


def norm(array: Array, q: Array | float = 2.0) -> Array:
    """||array||_q, divided by its largest entry first so that no square underflows. ()"""
    top = jnp.max(jnp.abs(array))
    safe = jnp.where(top == 0, 1.0, top)
    return top * jnp.sum((jnp.abs(array) / safe) ** q) ** (1 / q)


def joint_norm(blocks: Blocks) -> Array:
    """The Euclidean norm of all blocks together. ()"""
    return norm(jnp.stack([norm(block) for block in blocks.values()]))


def _direction(G: Array, q: Array | float = 2.0) -> Array:
    size = norm(G, q)
    return G / jnp.where(size == 0, 1.0, size)


def _size(method: Any, name: str, k: Array, block: Array) -> Array:
    """The step of this block: a number, or what the user's function makes of (k, norm)."""
    step = method.step(k, norm(block)) if callable(method.step) else method.step
    return step * (method.ratio if name == "v" else 1.0)


def _gradient(method: Any, blocks: Blocks, G: Blocks, e: Blocks, k: Array, _: Any) -> Blocks:
    """-step e^e G"""
    return {b: -_size(method, b, k, w) * jnp.exp(e[b]) * G[b] for b, w in blocks.items()}


def _normalized(method: Any, blocks: Blocks, G: Blocks, e: Blocks, k: Array, _: Any) -> Blocks:
    """-step G / ||G||, each block by itself"""
    return {b: -_size(method, b, k, w) * _direction(G[b]) for b, w in blocks.items()}


def _polyak(method: Any, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
    """-(L - L*) / ||grad||^2 grad, of all blocks together; excess() = log(L - L*)"""
    top = jnp.max(jnp.stack(list(e.values())))
    G = {b: jnp.exp(e[b] - top) * g for b, g in G.items()}
    size = joint_norm(G)
    log_step = excess() - top - jnp.log(jnp.where(size == 0, 1.0, size))
    length = jnp.where(size == 0, 0.0, method.scale * jnp.exp(log_step))
    return {b: -length * g / jnp.where(size == 0, 1.0, size) for b, g in G.items()}


def _mirror(method: Any, blocks: Blocks, G: Blocks, e: Blocks, k: Array, _: Any) -> Blocks:
    """-step G / ||G||_(q/(q-1)), in the mirror |w|^(q-1) sign(w)"""
    dual = method.q / (method.q - 1)
    step = method.step if not callable(method.step) else None
    return {
        b: -(method.step(k, norm(w, method.q)) if step is None else step) * _direction(G[b], dual)
        for b, w in blocks.items()
    }


CHANGES = {
    GradientDescent: _gradient,
    NormalizedDescent: _normalized,
    PolyakDescent: _polyak,
    MirrorDescent: _mirror,
}


def to_mirror(method: Any, w: Array) -> Array:
    """Where the step is added: |w|^(q-1) sign(w) for mirror descent, w itself for the others."""
    if not isinstance(method, MirrorDescent):
        return w
    return jnp.sign(w) * jnp.abs(w) ** (method.q - 1)


def from_mirror(method: Any, theta: Array) -> Array:
    """The inverse of `to_mirror`."""
    if not isinstance(method, MirrorDescent):
        return theta
    return jnp.sign(theta) * jnp.abs(theta) ** (1 / (method.q - 1))
