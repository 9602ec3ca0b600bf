"""att_svm: the max-margin direction of a selection (letters as in the papers)."""

from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.errors import raise_input
from keytokens.problem import TokenProblem, token_scores
from keytokens.svm.batch import Answers, farkas_of, solve_rows
from keytokens.svm.certificate import is_farkas_proof
from keytokens.svm.dense import Verdict
from keytokens.svm.rows import Rows, build_rows
from keytokens.svm.solution import Conflict, Solution

_EPS = float(np.finfo(np.float64).eps)


def att_svm(
    problem: TokenProblem,
    selected: Any,
    over: str = "p",
    norm: Any = "l2",
    relax: Any = None,
    equal: Any = None,
) -> Solution:
    """p^mm = argmin ||p|| s.t. <p, k_i,sel - k_it> >= 1 for all i and all t distinct from sel.

    over="W": argmin ||W|| s.t. (x_i,sel - x_it)^T W z_i >= 1. selected (n,), or (B, n).
    relax (n,) or (n, T): rows that only ask for >= 0. equal (n, T): tokens kept together with
    the selected one, rows that ask for = 0. Copies of the selected token have no row.

    Tokens whose score exactly ties the selected one's get >= 1 like all others, as the papers
    write it: whether a run keeps them is the run's business. Where it does not matter to the
    loss, pass relax=tied_tokens(problem, selected).
    """
    check.one_of("over", over, ("p", "W"))
    if over == "W" and problem.query is None:
        raise_input("problem", "have a query to be solved over W", "none")
    geometry = _geometry(norm, over)
    selected = _checked_selection(problem, selected)
    relax = _flags("relax", relax, problem)
    equal = _flags("equal", equal, problem)
    B = problem.batch or 1
    shape = (B, problem.n, problem.T)
    rows = build_rows(
        problem, selected.reshape(B, -1), over, relax.reshape(shape), equal.reshape(shape)
    )
    solution = _solution(problem, selected.reshape(B, -1), rows, solve_rows(rows, geometry))
    return solution if problem.batch is not None else solution[0]


def _geometry(norm: Any, over: str) -> Any:
    """The cone program's norm; None for l2, which DAQP solves."""
    from keytokens.svm import norms

    if norm in ("l2", 2):
        return None
    if norm == "nuclear":
        if over == "p":
            raise_input("norm", "be 'l2' or a number q >= 1 over p", "'nuclear'")
        return norms.nuclear()
    if isinstance(norm, str):
        raise_input("norm", "be 'l2', 'nuclear' or a number q >= 1", repr(norm))
    q = norm if norm == np.inf else check.number("norm", norm)
    if q < 1:
        raise_input("norm", "be 'l2', 'nuclear' or a number q >= 1", f"{q:g}")
    return norms.power(q)


def tied_tokens(problem: TokenProblem, selected: Any) -> Booleans:
    """Tokens whose score equals the selected one's to rounding, itself left out. (n, T)"""
    selected = _checked_selection(problem, selected)
    tied = np.abs(_lead(problem, selected)) <= _rounding(problem)
    np.put_along_axis(tied, selected[..., None], False, axis=-1)
    return tied if problem.mask is None else tied & problem.mask


def _lead(problem: TokenProblem, selected: Integers) -> Floats:
    """gamma_i,sel - gamma_it. (n, T)"""
    scores = token_scores(problem)
    return np.take_along_axis(scores, selected[..., None], axis=-1) - scores


def _rounding(problem: TokenProblem) -> Any:
    """What rounding may do to a difference of two scores of one input. (n, 1)"""
    size = (np.abs(problem.X) @ np.abs(problem.v)[..., None, :, None])[..., 0]
    return 4 * _EPS * size.max(axis=-1, keepdims=True)


def _checked_selection(problem: TokenProblem, selected: Any) -> Integers:
    selected = check.indices("selected", selected, problem.T)
    check.shape("selected", selected, problem.X.shape[:-2], "(B, n)" if problem.batch else "(n)")
    if problem.mask is not None:
        kept = np.take_along_axis(problem.mask, selected[..., None], axis=-1)[..., 0]
        if not kept.all():
            where = tuple(int(i) for i in np.argwhere(~kept)[0])
            raise_input("selected", "hold tokens that are not masked", f"a masked one at {where}")
    return selected


def _flags(name: str, value: Any, problem: TokenProblem) -> Booleans:
    """Booleans (n, T); given as (n,) they hold for all tokens of an input (relax only)."""
    shape = problem.X.shape[:-1]
    if value is None:
        return np.zeros(shape, bool)
    flags = check.boolean_array(name, value)
    if name == "relax" and flags.ndim == len(shape) - 1:
        check.shape(name, flags, shape[:-1], "(n)")
        flags = np.broadcast_to(flags[..., None], shape)
    check.shape(name, flags, shape, "(n, T)")
    return flags


def _solution(problem: TokenProblem, selected: Integers, rows: Rows, answers: Answers) -> Solution:
    feasible = np.array([v in (Verdict.SOLVED, Verdict.LOOSE) for v in answers.verdicts])
    found = answers.certificate
    margin = np.where(feasible, _inverse(np.sqrt(2 * found.primal)), 0.0)
    support = rows.spread(_tight(rows, answers) & feasible[:, None, None])
    lead: Any = _lead(problem, selected.reshape(problem.X.shape[:-2])) > _rounding(problem)
    optimal = feasible & (~support | lead.reshape(support.shape)).all(axis=(1, 2))
    return Solution(
        direction=answers.direction,
        margin=margin,
        multipliers=rows.spread(answers.multipliers),
        support=support,
        is_locally_optimal=optimal,
        certificate=found,
        status=tuple(_sentence(rows, answers, k) for k in range(len(feasible))),
        conflict=_conflicts(rows, answers, selected, feasible),
        selected=selected,
    )


def _inverse(size: Floats) -> Floats:
    return np.divide(1.0, size, out=np.full_like(size, np.inf), where=size > 0)


def _tight(rows: Rows, answers: Answers) -> Booleans:
    """Rows without slack: to rounding in l2, to 1e-6 where an interior point answered. (B, n, S)"""
    p = answers.direction.reshape(len(rows.h), -1)
    rounding = 1e-13 * rows.lengths * np.sqrt(np.einsum("bk,bk->b", p, p))[:, None, None]
    with np.errstate(invalid="ignore"):
        slack = rows.apply(answers.direction) - rows.h
        tight = slack <= (1e-9 if answers.is_exact else 1e-6) + rounding
    if answers.is_exact:
        tight |= answers.multipliers > 0
    return tight & rows.present & ~rows.equal


def _sentence(rows: Rows, answers: Answers, k: int) -> str:
    found, verdict = answers.certificate, answers.verdicts[k]
    if verdict is Verdict.INFEASIBLE:
        return "Infeasible: the conflict holds the proof."
    if verdict is Verdict.UNDECIDED:
        return "Nearly infeasible: neither a direction nor a proof of conflict stands verification."
    if verdict is Verdict.LOOSE:
        return f"Not closed: relative gap {found.gap[k]:.0e}, violation {found.violation[k]:.0e}."
    if not rows.h[k].any():
        return "No row asks for a margin: the direction is 0 and the margin infinite."
    return f"Solved: relative gap {found.gap[k]:.0e}, worst violation {found.violation[k]:.0e}."


def _conflicts(
    rows: Rows, answers: Answers, selected: Integers, feasible: Booleans
) -> tuple[Conflict | None, ...]:
    """A conflict for every problem without a direction."""
    conflicts: list[Conflict | None] = [None] * len(feasible)
    if feasible.all():
        return tuple(conflicts)
    residual, least = farkas_of(rows, answers.farkas)
    gain = (rows.h * answers.farkas).sum(axis=(1, 2))
    count = np.count_nonzero(answers.farkas, axis=(1, 2))
    proof = is_farkas_proof(residual, gain, count)
    vectors = rows.spread(answers.farkas)
    for k in np.flatnonzero(~feasible):
        parts = (float(residual[k]), float(least[k]), bool(proof[k]))
        conflicts[k] = Conflict(vectors[k], selected[k], *parts)
    return tuple(conflicts)
