"""Never trust a solver: primal, dual, gap and violation from problem and answer alone.

Rows g_r with right-hand sides h_r: <g_r, p> >= h_r, or = h_r where `equal`. G may be dense or
sparse; every function takes any number of leading batch axes where its arrays do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats
from keytokens.svm.solution import Certificate

Norm = Callable[[Floats], Any]
_EPS = float(np.finfo(np.float64).eps)
_LEAST_SQUARE = 1e-250  # sums of squares below it may have lost small terms


def certify_rows(
    G: Any,
    h: Floats,
    equal: Booleans | None,
    p: Floats,
    multipliers: Floats,
    norm: Norm | None = None,
    dual_norm: Norm | None = None,
) -> Certificate:
    """The certificate of one problem with rows G (m, k), dense or scipy.sparse."""
    equal = np.zeros(len(h), bool) if equal is None else equal
    lengths = row_lengths(G)
    multipliers = feasible_multipliers(multipliers, equal)
    return certificate(G @ p, G.T @ multipliers, lengths, h, equal, p, multipliers, norm, dual_norm)


def row_lengths(G: Any) -> Floats:
    """||g_r|| of dense or sparse rows. (m,)"""
    if hasattr(G, "multiply"):
        return np.sqrt(np.asarray(G.multiply(G).sum(axis=1)).ravel())
    return euclidean(G)


def unit_rows(G: Floats) -> Floats:
    """Dense rows scaled to length one; zero rows stay. (m, k)"""
    lengths = row_lengths(G)
    return G / np.where(lengths > 0, lengths, 1.0)[:, None]


def feasible_multipliers(multipliers: Floats, equal: Booleans) -> Floats:
    """lambda >= 0 on inequalities, free on equalities."""
    return np.where(equal, multipliers, np.maximum(multipliers, 0.0))


def certificate(
    Gp: Floats,
    GTlambda: Floats,
    lengths: Floats,
    h: Floats,
    equal: Booleans,
    p: Floats,
    multipliers: Floats,
    norm: Norm | None = None,
    dual_norm: Norm | None = None,
) -> Certificate:
    """primal = N(p)^2 / 2, dual = (h^T lambda)^2 / (2 N*(G^T lambda)^2), gap, violation.

    The dual is the best multiple of lambda in h^T lambda - N*(G^T lambda)^2 / 2: a lower bound
    on every feasible primal by weak duality. N = N* = the Euclidean norm unless given.
    """
    norm, dual_norm = norm or euclidean, dual_norm or euclidean
    size = norm(p)
    dual = dual_bound((h * multipliers).sum(axis=-1), dual_norm(GTlambda))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        primal = size**2 / 2
        gap = np.where(primal == 0, np.where(dual > 0, np.inf, 0.0), (primal - dual) / primal)
    worst = violation(Gp, lengths, h, equal, euclidean(p))
    return Certificate(*(_plain(x) for x in (primal, dual, gap, worst)))


def dual_bound(gain: Any, size: Any) -> Any:
    """max_c c gain - c^2 size^2 / 2 over c >= 0: gain^2 / (2 size^2)."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(gain > 0, 0.5 * (gain / size) ** 2, 0.0)


def violation(Gp: Floats, lengths: Floats, h: Floats, equal: Booleans, size: Any) -> Any:
    """max_r of the shortfall over max(||g_r|| ||p||, |h_r|)."""
    short = shortfalls(Gp, h, equal)
    scale = np.maximum(lengths * np.asarray(size)[..., None], np.abs(h))
    return np.divide(short, scale, out=np.zeros_like(short), where=scale != 0).max(
        axis=-1, initial=0.0
    )


def shortfalls(Gp: Floats, h: Floats, equal: Booleans) -> Floats:
    """(h_r - <g_r, p>)_+ of every row; the absolute value on equalities. (..., m)"""
    short = h - Gp
    return np.where(equal, np.abs(short), np.maximum(short, 0.0))


def farkas_residual(
    GTu: Floats, lengths: Floats, h: Floats, equal: Booleans, u: Floats
) -> tuple[Any, Any]:
    """(||G^T u|| / sum_r |u_r| ||g_r||, h^T u / ||G^T u||) for u >= 0 off equalities.

    Any p with Gp >= h has h^T u <= <G^T u, p> <= ||G^T u|| ||p||: the second number is a lower
    bound on its length, infinite when the first is zero.
    """
    size = euclidean(GTu)
    total = (np.abs(u) * lengths).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        residual = np.where(total > 0, size / total, 0.0)
        least = (h * u).sum(axis=-1) / size
    return residual, least


def is_farkas_proof(residual: Any, gain: Any, count: Any) -> Any:
    """G^T u = 0 to the rounding of its own sum of `count` rows, and h^T u > 0."""
    return (residual <= (8 + count) * _EPS) & (gain > 0)


def euclidean(x: Floats) -> Any:
    """||x|| over the last axis, also where the squares leave the range of float64."""
    squares = np.einsum("...k,...k->...", x, x)
    if ((squares > _LEAST_SQUARE) & (squares < np.inf)).all():
        return np.sqrt(squares)
    unit = power_of_two(np.abs(x).max(axis=-1, keepdims=True, initial=0.0))
    x = x / unit
    return unit[..., 0] * np.sqrt(np.einsum("...k,...k->...", x, x))


def power_of_two(size: Any) -> Any:
    """The power of two nearest to size (1 for 0 and what is not finite): a divisor that rounds
    nothing."""
    size = np.where((np.asarray(size) > 0) & np.isfinite(size), size, 1.0)
    return 2.0 ** np.clip(np.round(np.log2(size)), -1022, 1023)


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x
