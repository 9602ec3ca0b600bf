"""What a training run leaves behind, and why it ended."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from keytokens._arrays import load_arrays, save_arrays
from keytokens._checks import Floats, Integers

Parameters = Floats | dict[str, Floats]


class Reason(Enum):
    """Why a run ended, as a sentence."""

    STEPS = "ran out of steps; raise `steps` to go further"
    NORM = "reached the norm that was asked for"
    RADII = "followed the path over every radius"
    STATIONARY = "the gradient is exactly zero in float64: a stationary point"
    STALLED = "the step no longer changes the parameter in float64"
    NOT_FINITE = (
        "the next step was not finite; this is the last finite point, lower the step "
        "(or correct best_loss)"
    )
    UNSETTLED = "the solver gave up before its tolerance was met; this is its last point"
    UNDEFINED = "the loss is not a number at points of this run: see `losses`"
    CONVERGED = "converged to a finite minimiser"
    CANCELLED = "the inputs' pulls cancel to rounding while the norm still grows"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run: where it went, where it ended and why. A batch has B in front of every array.

    params: the final parameter, shaped like it (a dict by name for KQ, vp and Ep);
    path: the same at the saved points (K, ...); steps (K,): their iteration numbers
    (log-norms for a flow, radii for a path); norms, losses (K,) along them;
    attention (n, T): final weights; selected (n,): the heaviest token of each input.
    """

    over: str
    params: Parameters
    path: Parameters
    steps: Floats | Integers
    norms: Floats
    losses: Floats
    attention: Floats
    selected: Integers
    reason: "Reason | tuple[Reason, ...]"

    @property
    def batch(self) -> int | None:
        """The number of problems, None when there is no batch axis."""
        return len(self.reason) if isinstance(self.reason, tuple) else None

    def __getitem__(self, k: int) -> "Trajectory":
        """The k-th run of a batch."""
        if not isinstance(self.reason, tuple):
            raise TypeError("a run of one problem has no batch axis to be indexed")
        pick: dict[str, Any] = {name: getattr(self, name)[k] for name in _PLAIN}
        parts: dict[str, Any] = {name: _pick(getattr(self, name), k) for name in ("params", "path")}
        return Trajectory(self.over, steps=self.steps, reason=self.reason[k], **pick, **parts)

    def __repr__(self) -> str:
        batch = f"batch={self.batch}, " if self.batch else ""
        norm = np.median(self.norms[..., -1])
        return f"Trajectory({batch}over={self.over!r}, steps={self.steps[-1]:g}, norm={norm:.4g})"

    def save(self, path: str | Path) -> None:
        """Write one safetensors file."""
        arrays = {name: getattr(self, name) for name in (*_PLAIN, "steps")}
        for name in ("params", "path"):
            arrays |= {f"{name}.{block}": a for block, a in _blocks(self, name).items()}
        batch = isinstance(self.reason, tuple)
        reasons = self.reason if isinstance(self.reason, tuple) else (self.reason,)
        facts = {"over": self.over, "batch": batch, "reason": [r.name for r in reasons]}
        save_arrays(path, "trajectory", arrays, facts)

    @classmethod
    def load(cls, path: str | Path) -> "Trajectory":
        """Read what `save` wrote."""
        arrays, facts = load_arrays(path, "trajectory")
        plain: dict[str, Any] = {name: arrays[name] for name in (*_PLAIN, "steps")}
        parts: dict[str, Any] = {name: _unblocked(arrays, name) for name in ("params", "path")}
        reasons = tuple(Reason[name] for name in facts["reason"])
        reason = reasons if facts["batch"] else reasons[0]
        return cls(facts["over"], reason=reason, **plain, **parts)


_PLAIN = ("norms", "losses", "attention", "selected")
_ALONE = ("p", "W", "E")  # these parameters are one array, the others a dict of blocks


def bare(over: str, blocks: dict[str, Floats]) -> Parameters:
    """One array where the parameter is one, else a dict by name."""
    return blocks[over] if over in _ALONE else blocks


def as_blocks(over: str, parameters: Parameters) -> dict[str, Floats]:
    """The inverse of `bare`."""
    return parameters if isinstance(parameters, dict) else {over: parameters}


def _blocks(run: Trajectory, name: str) -> dict[str, Floats]:
    return as_blocks(run.over, getattr(run, name))


def _unblocked(arrays: dict[str, Floats], name: str) -> Parameters:
    prefix = name + "."
    blocks = {k.removeprefix(prefix): a for k, a in arrays.items() if k.startswith(prefix)}
    return bare(next(iter(blocks)) if len(blocks) == 1 else "", blocks)


def _pick(parameters: Parameters, k: int) -> Parameters:
    if isinstance(parameters, dict):
        return {name: array[k] for name, array in parameters.items()}
    return parameters[k]
