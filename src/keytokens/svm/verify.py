"""The certificate of an answer that anybody found, from the problem and that answer alone."""

from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.problem import TokenProblem
from keytokens.svm.att import att_svm, geometry_of, rows_of
from keytokens.svm.batch import bare, certify_answers, take
from keytokens.svm.rows import Rows
from keytokens.svm.solution import Certificate


def svm_certificate(
    problem: TokenProblem,
    selected: Any,
    direction: Any,
    multipliers: Any = None,
    over: str = "p",
    norm: Any = "l2",
    relax: Any = None,
    equal: Any = None,
) -> Certificate:
    """How good a direction p (d,) or W (d, d) is for a selection: primal, dual, gap, violation.

    Whoever found it, with whatever solver; the other arguments are those of `att_svm`.
    multipliers (n, T): whatever is at hand; any lambda >= 0 bounds the program from below
    (negative ones count as 0, those of tokens without a row not at all). None: those of `att_svm`.
    The direction is optimal where violation and gap are both at rounding level.

    >>> import numpy as np, keytokens as kt
    >>> problem = kt.TokenProblem([[[3.0, 4.0], [0.0, 0.0]]], y=[1], v=[1.0, 0.0])
    >>> kt.svm_certificate(problem, [0], direction=[0.12, 0.16]).gap
    0.0
    >>> kt.svm_certificate(problem, [0], direction=[0.3, 0.1]).gap  # meets its row, but is longer
    0.6
    """
    if multipliers is None:
        multipliers = att_svm(problem, selected, over, norm, relax, equal).multipliers
    geometry = geometry_of(norm, over)
    rows, _ = rows_of(problem, selected, over, relax, equal)
    p = _shaped("direction", direction, problem, (problem.d,) * 2 if over == "W" else _width(rows))
    given = _shaped("multipliers", multipliers, problem, (problem.n, problem.T))
    at_rows = np.take_along_axis(given, rows.tokens, axis=-1) * rows.present
    found = [_one(rows, k, p, at_rows, geometry) for k in range(len(p))]
    if problem.batch is None:
        return found[0]
    names = ("primal", "dual", "gap", "violation")
    return Certificate(*(np.array([getattr(one, name) for one in found]) for name in names))


def _one(rows: Rows, k: int, p: Floats, multipliers: Floats, norm: Any) -> Certificate:
    row = take(rows, [k])
    if norm is None:
        return certify_answers(row, p[[k]], multipliers[[k]])[0]
    from keytokens.svm.norms import certify_norm

    return certify_norm(*bare(row), p[k], multipliers[k][rows.present[k]], norm)


def _width(rows: Rows) -> tuple[int, ...]:
    return (rows.columns,)


def _shaped(name: str, value: Any, problem: TokenProblem, shape: tuple[int, ...]) -> Floats:
    """Finite numbers, one array a problem. (B, *shape)"""
    array = check.float_array(name, value)
    lead = () if problem.batch is None else (problem.batch,)
    check.shape(name, array, lead + shape, "that of the problem")
    return array if lead else array[None]
