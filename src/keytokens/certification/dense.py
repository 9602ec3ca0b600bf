"""The judgement of a case: its Att-SVM, its margins, and the words for them."""

from dataclasses import replace
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.certification.case import Case
from keytokens.certification.certificate import Certificate, Offender, misalignment
from keytokens.certification.sentences import sentences
from keytokens.svm.solution import Solution


def judge(case: Case) -> Certificate:
    """Facts first, then the theorems about them, then the sentences."""
    solution = None if case.is_finite or not case.left_behind.any() else case.program
    bare = Certificate(
        over=case.answer.over,
        norm=str(case.norm),
        selected=case.named(case.selected),
        kept=case.spread(case.kept),
        support=case.spread(np.zeros_like(case.kept) if solution is None else solution.support),
        left=case.left,
        **_facts(case, solution),
    )
    words = sentences(case, solution, bare)
    return replace(bare, theorems=case.theorems(solution, bare), sentences=words)


def _facts(case: Case, solution: Solution | None) -> dict[str, Any]:
    """What there is to say: little where nothing diverges or nothing is feasible."""
    if solution is None:
        return {"optimality": "finite"}
    direction = case.limit
    if direction is None:
        return {"optimality": "none"}
    finite_part, rest = _split(case)
    return {
        "optimality": _optimality(case, solution),
        "direction": direction,
        "finite_part": finite_part,
        "misalignment": misalignment(rest, direction),
        "margin": case.margin(rest),
        "best_margin": case.best_margin,
        "gap": float(solution.certificate.gap),
        "violation": float(solution.certificate.violation),
        "offenders": offenders(case, solution),
    }


def _optimality(case: Case, solution: Solution) -> str:
    """global: every kept token scores best in its input; local: it outscores all support tokens."""
    best = case.scores.max(axis=-1, keepdims=True)
    slack = 1e-12 * np.abs(np.where(case.mask, case.scores, 0.0)).max(axis=-1, keepdims=True)
    if (~case.kept | (case.scores >= best - slack)).all():
        return "global"
    return "none" if offenders(case, solution) else "local"


def offenders(case: Case, solution: Solution) -> tuple[Offender, ...]:
    """Support tokens that the selected token does not outscore, heaviest multiplier first."""
    chosen = np.take_along_axis(case.scores, case.selected[:, None], axis=-1)
    lead = chosen - np.where(case.mask, case.scores, 0.0)
    bad = solution.support & ~case.ties & ~case.tied & (lead <= 0)
    ids = np.broadcast_to(np.arange(case.problem.T), bad.shape) if case.ids is None else case.ids
    found = [
        Offender(int(i), int(ids[i, t]), float(lead[i, t]), float(solution.multipliers[i, t]))
        for i, t in np.argwhere(bad)
    ]
    return tuple(sorted(found, key=lambda o: -o.multiplier))


def _split(case: Case) -> tuple[Floats | None, Floats]:
    """The finite part, where tokens stay tied, and the answer without it.

    W_fin = argmin ||W|| s.t. (x_t - x_sel)^T W z_i = log(s_t / s_sel) for the tokens kept together.
    """
    weight = case.answer.weight
    ties = case.ties
    if not ties.any():
        return None, weight
    i, t = np.nonzero(ties)
    chosen = case.selected[i]
    if case.answer.geometry == "p":
        rows = case.problem.keys[i, t] - case.problem.keys[i, chosen]
    else:
        assert case.problem.query is not None
        apart = case.problem.X[i, t] - case.problem.X[i, chosen]
        rows = (apart[:, :, None] * case.problem.query[i][:, None, :]).reshape(len(i), -1)
    ratios = case.logits[i, t] - case.logits[i, chosen]
    finite = np.asarray(np.linalg.lstsq(rows, ratios, rcond=None)[0], np.float64)
    return finite.reshape(weight.shape), weight - finite.reshape(weight.shape)
