"""Step rules: each a frozen class with its settings and one pure function, `change`.

`change` makes the change of every block from the gradient, which comes as mantissa G and exponent
e, grad = e^e G, so that a rule that only needs the direction never sees an underflow. What else it
is given: the blocks themselves, the iteration k, and excess(), which is log(L - L*).
A rule may add its change elsewhere: `to_mirror(w)`, undone by `from_mirror(theta)`.
A rule of the user's own is such a class too; these four have no privilege but the compiled loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from keytokens import _checks as check
from keytokens.errors import raise_input

Array = Any  # a jax array, or a NumPy array where a rule is called by hand
Blocks = dict[str, Array]
Step = float | Callable[[Any, Any], Any]


class StepRule(Protocol):
    """What `train` asks of a rule: a frozen dataclass with runner = "descent" and `change`.

    Numbers and arrays among its fields are traced by jax (another value is no new compilation);
    everything else, truth values included, is fixed and must be hashable.
    """

    @property
    def runner(self) -> str:
        """The word "descent"."""

    def change(self, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
        """The change of every block, shaped like it."""


def norm(array: Array, q: Array | float = 2.0) -> Array:
    """||array||_q, divided by its largest entry first so that no square underflows. ()"""
    xp = array.__array_namespace__()
    top = xp.max(xp.abs(array))
    safe = xp.where(top == 0, 1.0, top)
    return top * xp.sum((xp.abs(array) / safe) ** q) ** (1 / q)


def joint_norm(blocks: Blocks) -> Array:
    """The Euclidean norm of all blocks together. ()"""
    xp = next(iter(blocks.values())).__array_namespace__()
    return norm(xp.stack([norm(block) for block in blocks.values()]))


def unit(G: Array, q: Array | float = 2.0) -> Array:
    """G / ||G||_q; 0 where G = 0."""
    size = norm(G, q)
    return G / G.__array_namespace__().where(size == 0, 1.0, size)


def _check_step(step: object) -> None:
    if not callable(step):
        check.positive("step", step)


def _size(method: Any, name: str, k: Array, block: Array, q: Array | float = 2.0) -> Array:
    """The step of this block: a number, or what the user's function makes of (k, norm)."""
    step = method.step(k, norm(block, q)) if callable(method.step) else method.step
    return step * (getattr(method, "ratio", 1.0) if name == "v" else 1.0)


@dataclass(frozen=True)
class GradientDescent:
    """w <- w - step grad L(w). step: a number, or a function of (k, norm of w)."""

    step: Step = 0.1
    ratio: float = 1.0  # over vp: the step of v in units of the step of p
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        _check_step(self.step)
        check.positive("ratio", self.ratio)

    def change(self, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
        """-step e^e G"""
        return {b: -_size(self, b, k, w) * _exp(e[b]) * G[b] for b, w in blocks.items()}


@dataclass(frozen=True)
class NormalizedDescent:
    """w <- w - step grad L / ||grad L||, each block (K, Q, v, p, E) normalised by itself.

    step: a number, or a function of (k, norm of the block). ratio: over vp, the step of v in
    units of the step of p, hence in the long run ||v|| / ||p||.
    """

    step: Step = 0.1
    ratio: float = 1.0
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        _check_step(self.step)
        check.positive("ratio", self.ratio)

    def change(self, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
        """-step G / ||G||, each block by itself"""
        return {b: -_size(self, b, k, w) * unit(G[b]) for b, w in blocks.items()}


@dataclass(frozen=True)
class PolyakDescent:
    """w <- w - (L - L*) / ||grad L||^2 grad L.

    best_loss: L*; None is mean_i l(gamma_opt), for a linear head over p, W or KQ: it holds where
    the run goes to a feasible optimal selection. scale multiplies the step.
    """

    best_loss: float | None = None
    scale: float = 1.0
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        if self.best_loss is not None:
            check.number("best_loss", self.best_loss)
        check.positive("scale", self.scale)

    def change(self, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
        """-(L - L*) / ||grad||^2 grad, of all blocks together"""
        xp = next(iter(G.values())).__array_namespace__()
        top = xp.max(xp.stack(list(e.values())))
        G = {b: xp.exp(e[b] - top) * g for b, g in G.items()}
        size = joint_norm(G)
        safe = xp.where(size == 0, 1.0, size)
        length = self.scale * xp.exp(excess() - top - xp.log(safe))
        return {b: xp.where(size == 0, 0.0, -length * g / safe) for b, g in G.items()}


@dataclass(frozen=True)
class MirrorDescent:
    """Mirror descent with potential ||w||_q^q / q, normalised by the dual norm.

    |w|^(q-1) sign(w) moves by -step grad L / ||grad L||_(q/(q-1)). q = 2 is normalised descent.
    """

    q: float = 2.0
    step: Step = 0.1
    runner: ClassVar[str] = "descent"

    def __post_init__(self) -> None:
        if check.number("q", self.q) <= 1:
            raise_input("q", "be above 1", f"{self.q:g}")
        _check_step(self.step)

    def change(self, blocks: Blocks, G: Blocks, e: Blocks, k: Array, excess: Any) -> Blocks:
        """-step G / ||G||_(q/(q-1)), in the mirror"""
        dual = self.q / (self.q - 1)
        return {b: -_size(self, b, k, w, self.q) * unit(G[b], dual) for b, w in blocks.items()}

    def to_mirror(self, w: Array) -> Array:
        """theta = |w|^(q-1) sign(w), where the change is added."""
        xp = w.__array_namespace__()
        return xp.sign(w) * xp.abs(w) ** (self.q - 1)

    def from_mirror(self, theta: Array) -> Array:
        """w = |theta|^(1/(q-1)) sign(theta)."""
        xp = theta.__array_namespace__()
        return xp.sign(theta) * xp.abs(theta) ** (1 / (self.q - 1))


def _exp(exponent: Array) -> Array:
    return exponent.__array_namespace__().exp(exponent)
