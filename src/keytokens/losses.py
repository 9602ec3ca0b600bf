"""Losses l(m) of the margin m = y f, with slopes whose exponent is kept apart.

A slope is (sign, log|l'(m)|), so that it survives the underflow of exp. Works on NumPy and jax
arrays alike; a user's own loss is differentiated by jax.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keytokens._checks import one_of
from keytokens._extras import require
from keytokens.errors import raise_input

Array = Any  # a NumPy or a jax array


@dataclass(frozen=True)
class Loss:
    """A loss: its value, its slope as (sign, log of the absolute value), and log l where l > 0."""

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], tuple[Array, Array]]
    log_value: Callable[[Array], Array] | None = None


def _softplus(m: Array) -> Array:
    """log(1 + e^m), without overflow."""
    xp = m.__array_namespace__()
    return xp.logaddexp(m, xp.zeros_like(m))


def _logistic(m: Array) -> Array:
    """l(m) = log(1 + e^-m)."""
    return _softplus(-m)


def _logistic_slope(m: Array) -> tuple[Array, Array]:
    """l'(m) = -1 / (1 + e^m), so log|l'| = -log(1 + e^m)."""
    return -m.__array_namespace__().ones_like(m), -_softplus(m)


def _log_logistic(m: Array) -> Array:
    """log l = log log(1 + e^-m), which is -m to within rounding beyond 40."""
    xp = m.__array_namespace__()
    return xp.where(m > 40, -m, xp.log(_softplus(-xp.minimum(m, xp.full_like(m, 40.0)))))


def _exponential(m: Array) -> Array:
    """l(m) = e^-m."""
    return m.__array_namespace__().exp(-m)


def _exponential_slope(m: Array) -> tuple[Array, Array]:
    """l'(m) = -e^-m, so log|l'| = -m."""
    return -m.__array_namespace__().ones_like(m), -m


def _linear(m: Array) -> Array:
    """l(m) = -m."""
    return -m


def _linear_slope(m: Array) -> tuple[Array, Array]:
    """l'(m) = -1."""
    xp = m.__array_namespace__()
    return -xp.ones_like(m), xp.zeros_like(m)


LOSSES = {
    "logistic": Loss("logistic", _logistic, _logistic_slope, _log_logistic),
    "exponential": Loss("exponential", _exponential, _exponential_slope, lambda m: -m),
    "linear": Loss("linear", _linear, _linear_slope),
}


def loss_of(loss: str | Loss | Callable[[Array], Array]) -> Loss:
    """A loss by name, or a user's own function l(m) of one margin, differentiable by jax."""
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return _own_loss(loss)
    one_of("loss", loss, [*LOSSES, "a function of the margin"])
    return LOSSES[loss]


def _own_loss(function: Callable[[Array], Array]) -> Loss:
    jax = require("jax", "lab")
    _check_scalar(jax, function)
    name = getattr(function, "__name__", "own")
    return Loss(name, _Mapped(function), _OwnSlope(function))


def _check_scalar(jax: Any, function: Callable[[Array], Array]) -> None:
    """Trace the loss (nothing is compiled) to see that it maps one margin to one number."""
    try:
        with jax.enable_x64(True):  # as in training: jax keeps what it traces
            out = jax.eval_shape(function, jax.ShapeDtypeStruct((), "float64"))
    except Exception as error:
        first = str(error).splitlines()[0]
        raise_input("loss", "be a function of one margin, written with jax.numpy", first)
    if getattr(out, "shape", None) != ():
        came = getattr(out, "shape", type(out).__name__)
        raise_input("loss", "return one number for one margin", f"shape {came}")
    if out.dtype.kind != "f":
        raise_input("loss", "return a real number, differentiable in the margin", out.dtype)


@dataclass(frozen=True)
class _Mapped:
    """The user's l, over arrays of margins. Equal where the function is: no second compilation."""

    function: Callable[[Array], Array]

    def __call__(self, m: Array) -> Array:
        jax = require("jax", "lab")
        return jax.numpy.vectorize(self.function)(m)


@dataclass(frozen=True)
class _OwnSlope:
    """l' by automatic differentiation, as (sign, log|l'|)."""

    function: Callable[[Array], Array]

    def __call__(self, m: Array) -> tuple[Array, Array]:
        jax = require("jax", "lab")
        jnp = jax.numpy
        slope = jnp.vectorize(jax.grad(self.function))(m)
        flat = slope == 0
        return jnp.sign(slope), jnp.where(flat, -jnp.inf, jnp.log(jnp.abs(slope + flat)))
