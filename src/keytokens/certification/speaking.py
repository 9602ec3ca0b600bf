"""Which theorem speaks about an answer, and whether its assumptions hold there."""

import math
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.certification.certificate import Certificate, Offender, misalignment
from keytokens.certification.theorems import DERIVED, QUOTED, READING, Assumption, Theorem
from keytokens.dynamics.flow_span import features
from keytokens.dynamics.laws import key_inequality
from keytokens.dynamics.steps import norm
from keytokens.dynamics.trajectory import Reason
from keytokens.problem import optimal_tokens
from keytokens.svm.att import att_svm
from keytokens.svm.solution import Solution

MOST_ROWS = 2000  # support rows beyond which their span is not asked for


def theorems(case: Any, solution: Solution | None, cert: Certificate) -> tuple[Theorem, ...]:
    """The most direct one first."""
    if cert.optimality == "finite":
        return (_no_saturation(case),)
    assert solution is not None
    if solution.direction is None:
        return (_infeasible(solution),)
    against = (converse(case, solution, cert),) if cert.optimality == "none" else ()
    several = case.head is not None or bool((cert.kept.sum(axis=-1) > 1).any())
    if several or case.ids is not None:
        spoken = _several(case, solution) if several else _local(case, solution, cert)
        first = (*against, spoken) if several else against or (spoken,)
        return first if case.ids is None else (*first, _embedded(case))
    if case.norm not in ("l2", 2):
        return (*against, _other_norm(case, solution))
    if case.answer.reason is Reason.RADII:
        return against or (_path(case, solution, cert),)
    first = (_global(case),) if cert.optimality == "global" else ()
    return (*first, *(against or (_local(case, solution, cert),)))


def _no_saturation(case: Any) -> Theorem:
    moving = Assumption("the answer has a direction: it is not zero", False)
    if case.answer.weight.any():
        moving = Assumption(
            "the inputs' pulls do not cancel", False, case.balance, "they cancel to"
        )
    return Theorem(
        "Max-margin convergence", "the direction converges to an Att-SVM.", QUOTED, (moving,)
    )


def _infeasible(solution: Solution) -> Theorem:
    proof = Assumption(
        "the Att-SVM of the selection is feasible",
        False,
        solution.conflict.residual,
        "relative residual of the proof that it is not",
    )
    return Theorem("Max-margin convergence", "the direction is that Att-SVM's.", QUOTED, (proof,))


def _global(case: Any) -> Theorem:
    says = (
        "gradient descent goes to the Att-SVM direction of the optimal tokens; with one input from "
        "any start, with several only where it is not drawn to a locally optimal one first."
    )
    parts = (_unique(case), _feasible_optimum(case), _equal_rest(case), *_key(case))
    return Theorem("Global convergence", says, READING, parts)


def _unique(case: Any) -> Assumption:
    """The smallest lead of an optimal token over the rest of its input, copies of it left out."""
    best = case.scores.max(axis=-1, keepdims=True)
    opt = optimal_in(case)
    copy = (_rows(case.problem.X, opt) == case.problem.X).all(axis=-1)
    rest = np.where(copy | ~case.mask, -np.inf, case.scores)
    lead = float((best[:, 0] - rest.max(axis=-1)).min())
    return Assumption(
        "every input has one optimal token", lead > 0, lead, "smallest lead over the next score"
    )


def optimal_in(case: Any) -> Any:
    """The best-scoring token of each input, by the head that was trained. (n,)"""
    return optimal_tokens(case.problem) if case.head is None else case.scores.argmax(axis=-1)


def _rows(X: Floats, tokens: Any) -> Floats:
    return np.take_along_axis(X, tokens[:, None, None], axis=1)


def _feasible_optimum(case: Any) -> Assumption:
    found = att_svm(case.problem, optimal_in(case), case.answer.geometry)
    return Assumption(
        "the Att-SVM of the optimal tokens is feasible",
        found.direction is not None,
        float(found.margin),
        "margin",
    )


def _equal_rest(case: Any) -> Assumption:
    """One input, or equal non-optimal scores."""
    best = np.arange(case.problem.T) == optimal_in(case)[:, None]
    rest = ~best & case.mask
    low, high = (np.where(rest, case.scores, x) for x in (np.inf, -np.inf))
    spread = max(0.0, float((high.max(axis=-1) - low.min(axis=-1)).max()))
    scale = 1e-12 * np.abs(case.scores[case.mask]).max()
    return Assumption(
        "one input, or equal scores among each input's other tokens",
        case.problem.n == 1 or spread <= scale,
        spread,
        f"{case.problem.n} inputs, largest spread",
    )


def _key(case: Any) -> tuple[Assumption, ...]:
    """The key inequality at the saved points of a run over p or W; one input does without it."""
    path, over = case.answer.path, case.answer.over
    if case.problem.n == 1:
        return ()
    if path is None or over not in ("p", "W") or case.head is not None or not _named(case.loss):
        return ()
    goal = att_svm(case.problem, optimal_in(case), over).direction
    if goal is None or case.log_counts is not None:
        return ()
    cosines = key_inequality(case.problem, path[over], goal, case.loss, over)
    if np.isnan(cosines).all():  # no pull anywhere
        return ()
    worst = float(np.nanmax(cosines))
    text = f"<grad L, {over}^mm> < 0 along this run"
    return (Assumption(text, worst < 0, worst, "largest cosine"),)


def _named(loss: Any) -> bool:
    return loss in ("logistic", "exponential", "linear")


def _path(case: Any, solution: Solution, cert: Certificate) -> Theorem:
    """The regularisation path: over all directions, or within a cone of one selection."""
    w = case.answer.geometry
    if cert.optimality == "global":
        says = f"argmin of L over ||{w}|| <= R turns into the direction of {w}^mm(opt) as R grows."
        parts = (_unique(case), _feasible_optimum(case))
    else:
        says = f"within a narrow cone around {w}^mm of this selection, the path turns into it."
        parts = (_outscores(case, solution), Assumption("the path was kept in such a cone", None))
    return Theorem("Regularisation path", says, READING, parts)


def _outscores(case: Any, solution: Solution) -> Assumption:
    lead = _smallest_lead(case, solution)
    return Assumption("locally optimal", lead > 0, lead, "smallest lead over a support token")


def _local(case: Any, solution: Solution, cert: Certificate) -> Theorem:
    w = case.answer.geometry
    says = (
        f"from a start this far out, in a cone around {w}^mm of this selection, the norm grows "
        f"without bound and the direction goes to {w}^mm."
    )
    ratio = float(norm(case.answer.weight) * cert.best_margin)
    radius = _radius(case, solution)
    parts = (
        _outscores(case, solution),
        Assumption(
            f"far out: ||{w}|| / ||{w}^mm|| at least {radius:.4g}", ratio >= radius, ratio, "it is"
        ),
        Assumption(
            "in the cone: at least half the best margin", cert.margin_ratio >= 0.5,
            cert.margin_ratio, "share of the margin",
        ),
    )  # fmt: skip
    return Theorem("Local convergence", says, f"{READING}, radius {DERIVED}", parts)


def _leads(case: Any) -> Floats:
    """Score of the selected token minus each other's; masked: inf. (n, T)"""
    chosen = np.take_along_axis(case.scores, case.selected[:, None], axis=-1)
    return chosen - case.scores


def _smallest_lead(case: Any, solution: Solution) -> float:
    return float(np.where(solution.support & ~case.tied, _leads(case), np.inf).min())


def _radius(case: Any, solution: Solution) -> float:
    """1 + ln[(gamma_bad - gamma_a) / ((gamma_a - gamma_support)(slack - 1))] / (slack - 1).

    The largest over non-support tokens that outscore the selected one; gamma_support the best
    support token of the same input (of all inputs, where it has none);
    slack = <p^mm, k_a - k_bad>. At least 1.
    """
    from keytokens.certification.answers import Answer, logits_of

    over = case.answer.geometry
    assert solution.direction is not None
    a = logits_of(case.problem, Answer(over, {over: solution.direction}, None, None))
    slack = np.take_along_axis(a, case.selected[:, None], axis=-1) - a
    lead = _leads(case)
    weakest = np.where(solution.support & ~case.tied, lead, np.inf).min(axis=-1, keepdims=True)
    weakest = np.where(np.isfinite(weakest), weakest, weakest.min())
    bad = (lead < 0) & case.mask & (slack > 1)
    if not bad.any() or not 0 < weakest.min() < np.inf:
        return 1.0
    i, _ = np.nonzero(bad)
    excess = slack[bad] - 1
    radii = 1 + np.log(-lead[bad] / (weakest[i, 0] * excess)) / excess
    return max(1.0, float(radii.max()))


def converse(case: Any, solution: Solution, cert: Certificate) -> Theorem:
    """A support token that is not outscored pushes the direction away."""
    w, worst = case.answer.geometry, cert.offenders[0]
    apart = _independence(case, solution, worst)
    parts = (
        Assumption(
            f"support token {worst.token} of input {worst.input} outscores the selected one",
            worst.lead < 0 or None, -worst.lead, "by",
        ),
        Assumption(
            "its constraint has a positive multiplier", worst.multiplier > 0,
            max(worst.multiplier, 0.0) + 0.0, "it is",
        ),
        Assumption(
            "no combination of other support constraints replaces it",
            None if apart is None else apart > 1e-8, apart, "distance from their span",
        ),
    )  # fmt: skip
    says = f"a support token that outscores the selected one pushes {w} away from {w}^mm."
    return Theorem("Converse", says, READING, parts)


def _independence(case: Any, solution: Solution, worst: Offender) -> float | None:
    """Distance of the offender's row from the span of the other support rows, relative.

    Copies of it that are not outscored either push the same way. None: too many rows to try.
    """
    phi = _phi(case)
    i, t = np.nonzero(solution.support & case.left_behind)
    if len(i) > MOST_ROWS:
        return None
    rows = phi[i, case.selected[i]] - phi[i, t]
    named = t if case.ids is None else case.ids[i, t]
    own = rows[(i == worst.input) & (named == worst.token)][0]
    copy = (rows == own).all(axis=-1) & (_leads(case)[i, t] <= 0)
    others = rows[~copy]
    if not len(others):
        return 1.0
    left = own - others.T @ np.linalg.lstsq(others.T, own, rcond=None)[0]
    return float(norm(left) / norm(own))


def _phi(case: Any) -> Floats:
    """Features with logits <phi, w>. (n, T, k)"""
    problem = case.problem
    one = (problem.keys, None) if case.answer.geometry == "p" else (problem.X, problem.query)
    return features(*one)


def _several(case: Any, solution: Solution) -> Theorem:
    w = case.answer.geometry
    says = (
        f"{w} ~ {w}_fin + R {w}_dir, {w}_dir with equality among the tokens kept together and at "
        "least 1 against the rest."
    )
    rows = solution.support & ~case.ties
    cost = float(np.where(rows, _leads(case), np.inf).min())
    parts = [
        Assumption(
            "moving attention to a support token costs at first order", cost > 0, cost,
            "smallest cost",
        ),
    ]  # fmt: skip
    kind = "Several kept tokens" if case.head is None else "Nonlinear head"
    return Theorem(kind, says, READING, tuple(parts))


def _embedded(case: Any) -> Theorem:
    """Trained embeddings: one step on E, then the flow on p."""
    counts = np.where(case.mask, np.exp(case.log_counts), 0.0)
    share = counts / counts.sum(axis=-1, keepdims=True) * case.problem.y[:, None]
    alpha, value = np.zeros(case.vocabulary), np.zeros(case.vocabulary)
    np.add.at(alpha, case.ids, share / len(counts))
    value[case.ids[case.mask]] = (case.problem.X @ case.v)[case.mask]
    seen = np.zeros(case.vocabulary, bool)
    seen[case.ids[case.mask]] = True
    agreement = 1 - misalignment(value[seen], alpha[seen])
    parts = (
        Assumption(
            "token values E v are nearly proportional to the average signed frequencies, as one "
            "step on E makes them", agreement > 0.9, agreement, "cosine",
        ),
        Assumption("p is trained by gradient flow with E and v fixed", None),
    )  # fmt: skip
    says = "p selects the important tokens and its direction has the largest margin for them."
    return Theorem("Trained embeddings, two stages", says, QUOTED, parts)


def _other_norm(case: Any, solution: Solution) -> Theorem:
    """Factors go to the nuclear norm's Att-SVM, mirror descent to that of its l_q norm."""
    if case.norm == "nuclear":
        says = "training the factors of W = K Q^T goes to the nuclear-norm Att-SVM."
        trained = case.answer.over == "KQ" and case.answer.path is not None
        part = Assumption("factors K, Q are trained by descent", trained or None)
        return Theorem("Factored attention", says, QUOTED, (_outscores(case, solution), part))
    says = "mirror descent with potential ||.||_q^q / q goes to the l_q-norm Att-SVM."
    ok = isinstance(case.norm, (int, float)) and 1 < case.norm < math.inf
    parts = (
        _outscores(case, solution),
        Assumption("q > 1", ok, float(case.norm) if ok else None, "q ="),
        Assumption("training was mirror descent with this q", None),
    )
    return Theorem("Mirror descent", says, QUOTED, parts)
