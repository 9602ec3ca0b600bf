"""att_svm: the max-margin direction of a selection (letters as in the papers)."""

from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Integers
from keytokens.errors import raise_input
from keytokens.problem import TokenProblem, token_scores
from keytokens.svm.assemble import assemble
from keytokens.svm.batch import solve_rows
from keytokens.svm.rows import Rows, build_rows
from keytokens.svm.solution import Solution

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
    norm: "l2", "nuclear" or "spectral" (over W), a number q >= 1 for l_q, or a svm.norms.Norm.
    relax (n,) or (n, T): rows that only ask for >= 0. equal (n, T): tokens kept together with
    the selected one, rows that ask for = 0. Copies of the selected token have no row.

    Tokens whose score exactly ties the selected one's get >= 1 like all others, as the papers
    write it: whether a run keeps them is the run's business. Where it does not matter to the
    loss, pass relax=tied_tokens(problem, selected).
    """
    geometry = geometry_of(norm, over)
    rows, selected = rows_of(problem, selected, over, relax, equal)
    answers = solve_rows(rows, geometry)
    lead = _lead(problem, selected if problem.batch is not None else selected[0])
    outscored = (lead > _rounding(problem)).reshape(*selected.shape, problem.T)
    solution = assemble(rows, answers, selected, outscored)
    return solution if problem.batch is not None else solution[0]


def rows_of(
    problem: TokenProblem, selected: Any, over: str, relax: Any, equal: Any
) -> tuple[Rows, Integers]:
    """The rows of `att_svm`'s arguments and the selection, checked, with a batch axis. (B, n)"""
    check_problem(problem)
    check.one_of("over", over, ("p", "W"))
    if over == "W" and problem.query is None:
        raise_input("problem", "have a query to be solved over W", "none")
    selected = checked_selection(problem, selected)
    flags = (_flags(*named, problem) for named in (("relax", relax), ("equal", equal)))
    selected = selected.reshape(problem.batch or 1, problem.n)
    relax, equal = (each.reshape(*selected.shape, problem.T) for each in flags)
    return build_rows(problem, selected, over, relax, equal), selected


def geometry_of(norm: Any, over: str) -> Any:
    """The cone program's norm; None for l2, which DAQP solves."""
    if isinstance(norm, str | int | float) and norm in ("l2", 2):
        return None
    from keytokens.svm import norms  # with clarabel, only where it is needed

    found = norm if isinstance(norm, norms.Norm) else norms.named(norm)
    if found.is_unitary and over == "p":
        came = repr(norm) if isinstance(norm, str) else "one of matrices"
        raise_input("norm", "be a norm of vectors over p", came)
    return found


def tied_tokens(problem: TokenProblem, selected: Any) -> Booleans:
    """Tokens whose score equals the selected one's to rounding, itself left out. (n, T)"""
    selected = checked_selection(problem, selected)
    tied = np.abs(_lead(problem, selected)) <= _rounding(problem)
    np.put_along_axis(tied, selected[..., None], False, axis=-1)
    return tied if problem.mask is None else tied & problem.mask


def _lead(problem: TokenProblem, selected: Integers) -> Any:
    """gamma_i,sel - gamma_it. (n, T)"""
    scores = token_scores(problem)
    return np.take_along_axis(scores, selected[..., None], axis=-1) - scores


def _rounding(problem: TokenProblem) -> Any:
    """What rounding may do to a difference of two scores of one input. (n, 1)"""
    size = (np.abs(problem.X) @ np.abs(problem.v)[..., None, :, None])[..., 0]
    return 4 * _EPS * size.max(axis=-1, keepdims=True)


def check_problem(problem: Any) -> None:
    """Arrays alone have no labels and no head."""
    if not isinstance(problem, TokenProblem):
        raise_input("problem", "be a TokenProblem(X, y, v)", type(problem).__name__)


def checked_selection(problem: TokenProblem, selected: Any) -> Integers:
    """One unmasked token an input. (n,)"""
    check_problem(problem)
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
