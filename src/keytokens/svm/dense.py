"""The small dense program min ||p||^2 / 2 s.t. Gp >= h (= h where equal), solved and verified.

DAQP answers first. An answer that does not verify, and a claim of infeasibility, go to the
always feasible least-distance form
    min (||p||^2 + s^2) / 2  s.t.  Gp + h s >= h:   p = G^T u, s = h^T u,
whose multipliers u are a Farkas vector when s = 1 and give the direction p / (1 - s) otherwise;
then to a polish on the rows it names, to non-negative least squares, and to Clarabel.
"""

from enum import Enum
from typing import Any, NamedTuple

import daqp
import numpy as np

from keytokens._checks import Booleans, Floats
from keytokens.svm import certificate as certify
from keytokens.svm.rescue import EXACT, polish, rescue

NEARLY = 1e-6  # a margin below this, at rows of length one, is called nearly infeasible
_EQUALITY = 5  # DAQP's sense: active and immutable
_FREE = 1e30
_TOLERANCES = {"primal_tol": 1e-12, "dual_tol": 1e-12}


class Verdict(Enum):
    """What is known about the rows."""

    SOLVED = "a direction and multipliers with a closed gap"
    LOOSE = "a direction whose gap to its bound is not closed"
    INFEASIBLE = "a Farkas vector"
    UNDECIDED = "neither a direction nor a Farkas vector stands up to verification"


class Answer(NamedTuple):
    """p (k,) and lambda (m,); where not solved p is NaN and multipliers is the Farkas vector."""

    p: Floats
    multipliers: Floats
    verdict: Verdict


def solve(G: Floats, h: Floats, equal: Booleans | None = None) -> Answer:
    """min ||p||^2 / 2 s.t. Gp >= h (= h where equal), h 0 or 1; G (m, k)."""
    G = np.ascontiguousarray(G, dtype=np.float64)
    equal = np.zeros(len(h), bool) if equal is None else equal
    lengths = certify.row_lengths(G)
    scale = certify.power_of_two(lengths.max(initial=0.0))
    p, multipliers, verdict = _solve_scaled(G / scale, np.asarray(h, np.float64), equal)
    unit = scale if verdict is Verdict.SOLVED else 1.0
    with np.errstate(over="ignore"):
        return Answer(p / scale, multipliers / unit / unit, verdict)


def _solve_scaled(G: Floats, h: Floats, equal: Booleans) -> Answer:
    limits = bounds(h, equal)
    p, multipliers = call_daqp(G, h, *limits)
    if stands(G, h, equal, p, multipliers):
        return Answer(p, multipliers, Verdict.SOLVED)
    _, elastic = call_daqp(with_margins(G, h), h, *limits)
    return settle(G, h, equal, farkas_candidate(elastic, h, equal))


@np.errstate(over="ignore", invalid="ignore")  # what overflows does not verify
def settle(G: Floats, h: Floats, equal: Booleans, u: Floats) -> Answer:
    """Decide rows that DAQP's first answer left open, from the elastic multipliers u."""
    nowhere = np.full(G.shape[1], np.nan)
    if is_conflict(G, h, equal, u):
        doubtful = np.any(G.T @ u) and np.count_nonzero(u) <= G.shape[1]
        open_ = doubtful and _has_direction(G, h, equal, u)
        return Answer(nowhere, u, Verdict.UNDECIDED if open_ else Verdict.INFEASIBLE)
    best = u
    for p, multipliers, v in rescue(G, h, equal, u):
        if stands(G, h, equal, p, multipliers):
            return Answer(p, multipliers, Verdict.SOLVED)
        if is_conflict(G, h, equal, v):
            return Answer(nowhere, v, Verdict.INFEASIBLE)
        best = _longer(G, h, equal, best, v)
    return Answer(nowhere, best, Verdict.UNDECIDED)


def _has_direction(G: Floats, h: Floats, equal: Booleans, u: Floats) -> bool:
    """Whether the rows named by a Farkas vector have a direction all the same.

    u of more rows than G has columns is a conflict whatever the last bits of G. With fewer, a
    change of those bits may open a direction; where it can be shown, rounding decides.
    """
    p, multipliers, _ = polish(G, h, equal, u, EXACT)
    return stands(G, h, equal, p, multipliers)


def stands(G: Floats, h: Floats, equal: Booleans, p: Floats, multipliers: Floats) -> bool:
    """Whether p and lambda solve the rows, to rounding."""
    found = certify.certify_rows(G, h, equal, p, multipliers)
    return bool(is_solved(found, certify.shortfalls(G @ p, h, equal).max(initial=0.0)))


def unit_margin(G: Floats, h: Floats, equal: Booleans) -> float:
    """The margin at rows of length one: the largest least cosine between them and p; 0 if unknown.

    It tells rows that nearly conflict from rows of very different lengths.
    """
    size = np.linalg.norm(solve(certify.unit_rows(G), h, equal).p)
    return 0.0 if np.isnan(size) else float(1 / size)


def is_solved(found: Any, shortfall: Any) -> Any:
    """Gap and violation at rounding level, and every row within 1e-6 of its right-hand side.

    The longest row has length ~ 1: the rounding of lambda ~ ||p||^2 alone opens the relative gap
    by some eps ||p||.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.sqrt(2 * np.asarray(found.primal))
        closed = np.abs(found.gap) <= np.minimum(1e-12 + 1e-14 * size, 1e-6)
        return closed & (found.violation <= 1e-12) & (shortfall <= 1e-6)


def is_conflict(G: Floats, h: Floats, equal: Booleans, u: Floats) -> bool:
    """Whether u proves that no p satisfies the rows, to the rounding of G^T u."""
    u = certify.feasible_multipliers(u, equal)
    residual, _ = certify.farkas_residual(G.T @ u, certify.row_lengths(G), h, equal, u)
    return bool(certify.is_farkas_proof(residual, h @ u, np.count_nonzero(u)))


def _longer(G: Floats, h: Floats, equal: Booleans, one: Floats, other: Floats) -> Floats:
    """The vector that proves the larger least norm."""
    lengths = certify.row_lengths(G)
    _, a = certify.farkas_residual(G.T @ one, lengths, h, equal, one)
    _, b = certify.farkas_residual(G.T @ other, lengths, h, equal, other)
    return other if b > a or np.isnan(a) else one


def call_daqp(G: Floats, h: Floats, upper: Floats, sense: Any) -> tuple[Floats, Floats]:
    """DAQP's p and lambda of min ||p||^2 / 2 s.t. h <= Gp <= upper; NaN and 0 if it finds none."""
    p, _, flag, info = daqp.solve(None, None, G, upper, h, sense, **_TOLERANCES)
    if flag != 1:
        return np.full(G.shape[1], np.nan), np.zeros(len(h))
    return p, -info["lam"]


def with_margins(G: Floats, h: Floats) -> Floats:
    """[G h]: rows of the elastic program. (..., m, k + 1)"""
    return np.concatenate([G, h[..., None]], axis=-1)


def farkas_candidate(multipliers: Floats, h: Floats, equal: Booleans) -> Floats:
    """u >= 0 off equalities, scaled to h^T u = 1 where that is positive. (..., m)"""
    u = certify.feasible_multipliers(multipliers, equal)
    gain = (h * u).sum(axis=-1, keepdims=True)
    return np.divide(u, gain, out=u, where=gain > 0)


def bounds(h: Floats, equal: Booleans) -> tuple[Floats, Any]:
    """DAQP's upper bounds and kinds of rows."""
    upper = np.where(equal, h, _FREE)
    return upper, np.where(equal, _EQUALITY, 0).astype(np.intc)
