"""From rows and answers to the Solution a user reads."""

from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.svm import dense
from keytokens.svm.batch import Answers, bare, farkas_of, take
from keytokens.svm.certificate import euclidean, is_farkas_proof
from keytokens.svm.conflict import TokenConflict
from keytokens.svm.dense import Verdict
from keytokens.svm.rows import Rows
from keytokens.svm.solution import Solution


def assemble(
    rows: Rows, answers: Answers, selected: Integers, outscored: Booleans | None = None
) -> Solution:
    """The batch's solution. outscored (B, n, T): tokens that score less than the selected one."""
    feasible = np.array([v in (Verdict.SOLVED, Verdict.LOOSE) for v in answers.verdicts])
    support = rows.spread(_tight(rows, answers) & feasible[:, None, None])
    optimal = (None,) * len(feasible)
    if outscored is not None:
        optimal = feasible & (~support | outscored).all(axis=(1, 2))
    margin = _margins(answers)
    return Solution(
        direction=answers.direction,
        margin=margin,
        multipliers=rows.spread(answers.multipliers),
        support=support,
        is_locally_optimal=optimal,
        certificate=answers.certificate,
        status=_sentences(rows, answers, margin),
        conflict=_conflicts(rows, answers, selected, feasible),
        selected=selected,
    )


def _margins(answers: Answers) -> Floats:
    """1 / N(p); infinite for p = 0, 0 where infeasible, NaN where undecided. (B,)"""
    size = np.sqrt(2 * answers.certificate.primal)
    margin = np.divide(1.0, size, out=np.full_like(size, np.inf), where=size > 0)
    margin[[v is Verdict.UNDECIDED for v in answers.verdicts]] = np.nan
    return margin


def _tight(rows: Rows, answers: Answers) -> Booleans:
    """Rows without slack: to rounding in l2, to 1e-6 where an interior point answered. (B, n, S)"""
    size = euclidean(answers.direction.reshape(len(rows.h), -1))
    rounding = 1e-13 * rows.lengths * size[:, None, None]
    with np.errstate(invalid="ignore"):
        slack = rows.apply(answers.direction) - rows.h
        tight = slack <= (1e-9 if answers.is_exact else 1e-6) + rounding
    if answers.is_exact:
        tight |= answers.multipliers > 0
    return tight & rows.present & ~rows.equal


def _sentences(rows: Rows, answers: Answers, margin: Floats) -> tuple[str, ...]:
    """One sentence a problem."""
    found, longest = answers.certificate, rows.lengths.max(axis=(1, 2), initial=0.0)
    asks: Any = rows.h.any(axis=(1, 2))
    share = margin / np.where(longest > 0, longest, 1.0)
    for k in np.flatnonzero((share > 0) & (share < dense.NEARLY)):
        share[k] = dense.unit_margin(*bare(take(rows, [k])))
    figures = (x.tolist() for x in (share, found.gap, found.violation))
    asked: list[bool] = asks.tolist()
    return tuple(map(_sentence, answers.verdicts, asked, *figures))


def _sentence(verdict: Verdict, asks: bool, share: float, gap: float, violation: float) -> str:
    if verdict is Verdict.INFEASIBLE:
        return "Infeasible: the conflict holds the proof."
    if verdict is Verdict.UNDECIDED:
        return (
            "Nearly infeasible: rounding decides; the conflict says how long a direction would be."
        )
    if not asks:
        return "No row asks for a margin: the direction is 0 and the margin infinite."
    figures = f"relative gap {gap:.0e}, worst violation {violation:.0e}."
    if verdict is Verdict.LOOSE:
        return f"Not closed: {figures}"
    if share < dense.NEARLY:
        return f"Solved, but nearly infeasible (margin {share:.0e} at unit rows): {figures}"
    return f"Solved: {figures}"


def _conflicts(
    rows: Rows, answers: Answers, selected: Integers, feasible: Booleans
) -> tuple[TokenConflict | None, ...]:
    """A conflict for every problem without a direction."""
    conflicts: list[TokenConflict | None] = [None] * len(feasible)
    if feasible.all():
        return tuple(conflicts)
    residual, least = farkas_of(rows, answers.farkas)
    gain = (rows.h * answers.farkas).sum(axis=(1, 2))
    proof = is_farkas_proof(residual, gain, np.count_nonzero(answers.farkas, axis=(1, 2)))
    proof &= [v is Verdict.INFEASIBLE for v in answers.verdicts]
    vectors = rows.spread(answers.farkas)
    h = rows.spread(np.where(rows.present, rows.h, np.nan), np.nan)
    residuals, sizes, proofs = (x.tolist() for x in (residual, least, proof))
    for k in np.flatnonzero(~feasible).tolist():
        keys = None if rows.keys is None else rows.keys[k]
        conflicts[k] = TokenConflict(
            vectors[k], selected[k], residuals[k], sizes[k], proofs[k], keys=keys, rows=h[k]
        )
    return tuple(conflicts)
