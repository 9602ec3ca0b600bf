"""The judgement of a case: its Att-SVM, its margins, and the words for them."""

import math
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats
from keytokens.attention import logits_of_p, logits_of_W
from keytokens.certification.case import Case
from keytokens.certification.certificate import Certificate, Offender, misalignment
from keytokens.certification.sentences import sentences
from keytokens.certification.speaking import theorems
from keytokens.svm.att import tied_tokens
from keytokens.svm.solution import Solution


def judge(case: Case) -> Certificate:
    """The certificate of a case."""
    if case.is_finite:
        return _finished(case, None, {"optimality": "finite"})
    solution = case.single if case.kept.sum() == case.problem.n else case.solve(_ties(case))
    if solution.direction is None:
        return _finished(case, solution, {"optimality": "none"})
    finite_part, rest = _split(case)
    facts = {
        "optimality": _optimality(case, solution),
        "direction": solution.direction,
        "finite_part": finite_part,
        "misalignment": misalignment(rest, solution.direction),
        "margin": _margin(case, rest),
        "best_margin": float(solution.margin),
        "gap": float(solution.certificate.gap),
        "violation": float(solution.certificate.violation),
        "offenders": offenders(case, solution),
    }
    return _finished(case, solution, facts)


def _finished(case: Case, solution: Solution | None, facts: dict[str, Any]) -> Certificate:
    """Facts first, then the theorems about them, then the sentences."""
    support = np.zeros_like(case.kept) if solution is None else solution.support
    bare = Certificate(
        over=case.answer.over,
        norm=str(case.norm),
        selected=case.selected,
        kept=case.kept,
        support=support,
        left=case.left,
        **facts,
    )
    speaking = theorems(case, solution, bare)
    words = sentences(case, solution, bare)
    return Certificate(**{**vars(bare), "theorems": speaking, "sentences": words})


def _ties(case: Case) -> Booleans:
    """Tokens kept together with the selected one, itself left out. (n, T)"""
    return case.kept & (np.arange(case.problem.T) != case.selected[:, None])


def _optimality(case: Case, solution: Solution) -> str:
    """global: every kept token scores best in its input; local: it outscores all support tokens."""
    best = case.scores.max(axis=-1, keepdims=True)
    slack = 1e-12 * (1.0 + np.abs(best))
    if (~case.kept | (case.scores >= best - slack)).all():
        return "global"
    return "none" if offenders(case, solution) else "local"


def offenders(case: Case, solution: Solution) -> tuple[Offender, ...]:
    """Support tokens that the selected token does not outscore, heaviest multiplier first."""
    chosen = np.take_along_axis(case.scores, case.selected[:, None], axis=-1)
    lead = chosen - np.where(case.mask, case.scores, 0.0)
    exact = tied_tokens(case.problem, case.selected) if case.head is None else lead == 0
    bad = solution.support & ~_ties(case) & ((lead <= 0) | exact)
    found = [
        Offender(int(i), int(t), float(lead[i, t]), float(solution.multipliers[i, t]))
        for i, t in np.argwhere(bad)
    ]
    return tuple(sorted(found, key=lambda o: -o.multiplier))


def _split(case: Case) -> tuple[Floats | None, Floats]:
    """The finite part, where tokens stay tied, and the answer without it.

    W_fin = argmin ||W|| s.t. (x_t - x_sel)^T W z_i = log(s_t / s_sel) for the tokens kept together.
    """
    weight = case.answer.weight
    ties = _ties(case)
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
    finite = np.linalg.lstsq(rows, ratios, rcond=None)[0].reshape(weight.shape)
    return finite, weight - finite


def _margin(case: Case, weight: Floats) -> float:
    """min over tokens left behind of <w / ||w||, k_sel - k_it>, in the norm of the program."""
    p, problem = weight / _size(case.norm, weight), case.problem
    if case.answer.geometry == "p":
        a = logits_of_p(problem.keys, p)
    else:
        a = logits_of_W(problem.X, p, problem.query)
    lead = np.take_along_axis(a, case.selected[:, None], axis=-1) - a
    rows = case.mask & ~case.kept & ~case.copies
    return float(np.where(rows, lead, math.inf).min())


def _size(norm: Any, weight: Floats) -> float:
    """||w|| in the norm of the program."""
    if norm in ("l2", 2):
        return float(np.linalg.norm(weight))
    if norm == "nuclear":
        return float(np.linalg.norm(weight, ord="nuc"))
    return float(np.linalg.norm(weight.ravel(), ord=norm))
