"""Certificate: what an answer selects, how good that is, and which theorem says so."""

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keytokens._arrays import load_arrays, save_arrays
from keytokens._checks import Booleans, Floats, Integers
from keytokens.certification.theorems import Theorem
from keytokens.dynamics.steps import norm


@dataclass(frozen=True)
class Offender:
    """A support token that is not outscored: token `token` of input `input`.

    lead: the selected token's score minus this one's; multiplier: of its constraint.
    """

    input: int
    token: int
    lead: float
    multiplier: float

    def __str__(self) -> str:
        return (
            f"token {self.token} of input {self.input} outscores the selected one by "
            f"{-self.lead:.4g} (multiplier {max(self.multiplier, 0.0) + 0.0:.3g})"
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """The judgement on one answer to one problem.

    selected (n,): the heaviest token of each input; kept (n, T): it and those that stay tied to it;
    optimality: global | local | none | finite; direction: the Att-SVM solution of that selection
    (None: infeasible or finite), support (n, T) its support tokens, gap and violation its proof;
    misalignment = 1 - cos(answer, direction), free of cancellation; margin: of the normalised
    answer, best_margin = 1 / ||direction||; left: log of the largest weight on a token not kept;
    finite_part: where tokens stay tied, the least-norm W_fin (or p_fin) with their log-ratios.
    """

    over: str
    norm: str
    selected: Integers
    kept: Booleans
    optimality: str
    support: Booleans
    direction: Floats | None = None
    finite_part: Floats | None = None
    misalignment: float = math.nan
    margin: float = math.nan
    best_margin: float = math.nan
    gap: float = math.nan
    violation: float = math.nan
    left: float = -math.inf
    offenders: tuple[Offender, ...] = ()
    theorems: tuple[Theorem, ...] = ()
    sentences: tuple[str, ...] = ()

    @property
    def correlation(self) -> float:
        """cos(answer, direction)."""
        return 1.0 - self.misalignment

    @property
    def margin_ratio(self) -> float:
        """The answer's margin over the best one: at most 1, 1 at the Att-SVM direction."""
        return self.margin / self.best_margin

    @property
    def theorem(self) -> Theorem | None:
        """The theorem that speaks about this answer most directly."""
        return self.theorems[0] if self.theorems else None

    @property
    def assumptions(self) -> tuple[Any, ...]:
        """The assumptions of that theorem, each with the number that decides it."""
        return self.theorems[0].assumptions if self.theorems else ()

    def __str__(self) -> str:
        paragraphs = (" ".join(self.sentences), *map(str, self.theorems))
        return "\n\n".join(textwrap.fill(p, 96, break_on_hyphens=False) for p in paragraphs)

    def __repr__(self) -> str:
        if self.direction is None:
            return f"Certificate(over={self.over!r}, {self.optimality})"
        found = f"1-correlation={self.misalignment:.3g}, gap={max(self.gap, 0.0):.2g}"
        return f"Certificate(over={self.over!r}, {self.optimality}, {found})"

    def save(self, path: str | Path) -> None:
        """Write one safetensors file."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        facts = {name: getattr(self, name) for name in _FACTS}
        numbers = {name: repr(getattr(self, name)) for name in _NUMBERS}  # inf and nan are not JSON
        offenders = [(o.input, o.token, repr(o.lead), repr(o.multiplier)) for o in self.offenders]
        theorems = [t.to_dict() for t in self.theorems]
        facts |= {"numbers": numbers, "offenders": offenders, "theorems": theorems}
        present = {name: a for name, a in arrays.items() if a is not None}
        save_arrays(path, "certificate", present, facts)

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """Read what `save` wrote."""
        arrays, facts = load_arrays(path, "certificate")
        found: dict[str, Any] = {**arrays, **{name: facts[name] for name in _FACTS}}
        found |= {name: float(value) for name, value in facts["numbers"].items()}
        found["sentences"] = tuple(facts["sentences"])
        found["offenders"] = tuple(
            Offender(i, t, float(lead), float(multiplier))
            for i, t, lead, multiplier in facts["offenders"]
        )
        found["theorems"] = tuple(Theorem.from_dict(plain) for plain in facts["theorems"])
        return cls(**found)


_ARRAYS = ("selected", "kept", "support", "direction", "finite_part")
_FACTS = ("over", "norm", "optimality", "sentences")
_NUMBERS = ("misalignment", "margin", "best_margin", "gap", "violation", "left")


def misalignment(one: Floats, two: Floats) -> float:
    """1 - cos(one, two) = ||one/|one| - two/|two|||^2 / 2: no cancellation near 0."""
    lengths = [float(norm(w)) for w in (one, two)]
    if 0.0 in lengths:
        return math.nan
    a, b = (np.ravel(w) / size for w, size in zip((one, two), lengths, strict=True))
    return float(np.sum((a - b) ** 2) / 2)
