"""A verdict: a claim, the number that decides it, and a threshold with its reason."""

import math
from dataclasses import dataclass

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "cannot be decided here"


@dataclass(frozen=True)
class Verdict:
    """`number` (named by `measure`) against `threshold`, which was chosen because of `why`.

    A number of None or NaN decides nothing.

    >>> at_most("Directions agree.", "1 - cos", 1e-9, 1e-6, "rounding is 1e-15").outcome
    'holds'
    """

    claim: str
    measure: str
    number: float | None
    side: str  # "at most" or "at least"
    threshold: float
    why: str

    @property
    def outcome(self) -> str:
        """holds | does not hold | cannot be decided here."""
        if self.number is None or math.isnan(self.number):
            return UNDECIDED
        below = self.number <= self.threshold
        above = self.number >= self.threshold
        return HOLDS if (below if self.side == "at most" else above) else FAILS

    def as_dict(self) -> dict[str, object]:
        """What the page reads; a NaN becomes None, which JSON knows."""
        number = None if self.outcome == UNDECIDED else float(self.number or 0.0)
        return {**self.__dict__, "number": number, "outcome": self.outcome}


def at_most(claim: str, measure: str, number: float | None, threshold: float, why: str) -> Verdict:
    """The claim holds when the number is no larger than the threshold."""
    return Verdict(claim, measure, number, "at most", threshold, why)


def at_least(claim: str, measure: str, number: float | None, threshold: float, why: str) -> Verdict:
    """The claim holds when the number is no smaller than the threshold."""
    return Verdict(claim, measure, number, "at least", threshold, why)
