"""Heads psi(pooled) other than the problem's own linear v: any differentiable function of (d,).

None stands for the linear head <v, pooled>. A user's own head is a function written with
jax.numpy; the two here are the usual ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens._extras import require
from keytokens.errors import raise_input

Head = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class ReluHead:
    """psi(x) = sum_k relu(<A_k, x>), A (m, d)."""

    A: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", check.float_array("A", self.A, 2))

    def __repr__(self) -> str:
        return f"ReluHead(m={self.A.shape[0]}, d={self.A.shape[1]})"

    def __call__(self, x: Any) -> Any:
        jax = require("jax", "lab")
        return jax.numpy.sum(jax.nn.relu(self.A @ x))


@dataclass(frozen=True, eq=False)
class MLPHead:
    """psi(x) = <u, tanh(A x + b)>, A (m, d), b (m,), u (m,)."""

    A: Floats
    b: Floats
    u: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "A", check.float_array("A", self.A, 2))
        for name in ("b", "u"):
            value = check.float_array(name, getattr(self, name), 1)
            check.shape(name, value, self.A.shape[:1], "(m,)")
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"MLPHead(m={self.A.shape[0]}, d={self.A.shape[1]})"

    def __call__(self, x: Any) -> Any:
        jnp = require("jax", "lab").numpy
        return self.u @ jnp.tanh(self.A @ x + self.b)


def check_head(head: object, d: int) -> None:
    """A head maps one pooled token (d,) to one number; seen by tracing, nothing is compiled."""
    if head is None:
        return
    if not callable(head):
        raise_input("head", "be None (linear) or a function of the pooled token", repr(head))
    jax = require("jax", "lab")
    try:
        with jax.enable_x64(True):  # as in training: jax keeps what it traces
            out = jax.eval_shape(head, jax.ShapeDtypeStruct((d,), "float64"))
    except Exception as error:
        first = str(error).splitlines()[0]
        raise_input("head", f"accept a pooled token of shape ({d},)", first)
    if getattr(out, "shape", None) != ():
        came = getattr(out, "shape", type(out).__name__)
        raise_input("head", "return one number for one pooled token", f"shape {came}")
    if out.dtype.kind != "f":
        raise_input("head", "return a real number, differentiable in the token", out.dtype)
