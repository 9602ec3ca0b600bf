"""Theorems as data: what each says, whose reading it is, and which numbers decide it."""

import math
from dataclasses import asdict, dataclass
from typing import Any

QUOTED = "as the papers state it"
READING = "our reading of the papers"
DERIVED = "derived here and checked numerically"


@dataclass(frozen=True)
class Assumption:
    """One hypothesis of a theorem: whether it holds here, and the number that decides.

    holds: True, False, or None where the answer alone cannot tell.
    """

    text: str
    holds: bool | None
    number: float | None = None
    meaning: str = ""

    def __post_init__(self) -> None:  # NumPy's own booleans and numbers are not JSON
        object.__setattr__(self, "holds", None if self.holds is None else bool(self.holds))
        object.__setattr__(self, "number", None if self.number is None else float(self.number))

    def __str__(self) -> str:
        verdict = {True: "holds", False: "fails", None: "not known from this answer"}[self.holds]
        number = "" if self.number is None else f" ({self.meaning} {self.number:.4g})"
        return f"{self.text}: {verdict}{number}"


@dataclass(frozen=True)
class Theorem:
    """A theorem that speaks about an answer, with its assumptions checked on it."""

    name: str
    says: str
    source: str
    assumptions: tuple[Assumption, ...]

    @property
    def applies(self) -> bool | None:
        """True when all assumptions hold, False when one fails, None when one is unknown."""
        verdicts = [a.holds for a in self.assumptions]
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def __str__(self) -> str:
        verdict = {True: "applies", False: "does not apply", None: "is open"}[self.applies]
        checked = "; ".join(f"({k}) {part}" for k, part in enumerate(self.assumptions, 1))
        return f"{self.name} ({self.source}): {self.says} Here it {verdict}: {checked}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON, which spells numbers that are not finite as strings."""
        plain = asdict(self)
        for part in plain["assumptions"]:
            if part["number"] is not None and not math.isfinite(part["number"]):
                part["number"] = repr(part["number"])
        return plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Theorem":
        """The inverse of `to_dict`."""
        parts = tuple(Assumption(**a) for a in plain["assumptions"])
        return cls(plain["name"], plain["says"], plain["source"], parts)
