"""Second and third opinions on rows that the first solver left open."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats
from keytokens.svm.certificate import feasible_multipliers, row_lengths

REDUNDANT, EXACT = 1e-13, 1e-18  # singular values below this share of the largest count as zero
_DUST = 1e-14  # multipliers below this share of the largest are rounding
_MISSED = 1e-9  # a row this share short of its right-hand side is missed
_ROUNDS = 5
_REFINEMENTS = 3
Opinion = tuple[Floats, Floats, Floats]  # p, lambda, Farkas vector


def rescue(G: Floats, h: Floats, equal: Booleans, u: Floats) -> Iterator[Opinion]:
    """Polished answers on the rows named by the elastic program, by NNLS and by Clarabel.

    All of them look at rows of length one: <g, p> >= h is <g / ||g||, p> >= h / ||g||.
    """
    lengths = row_lengths(G)
    lengths = np.where(lengths > 0, lengths, 1.0)
    for p, multipliers, v in _opinions(G / lengths[:, None], h / lengths, equal, u * lengths):
        yield p, multipliers / lengths, v / lengths


def _opinions(G: Floats, h: Floats, equal: Booleans, u: Floats) -> Iterator[Opinion]:
    yield polish(G, h, equal, u, REDUNDANT)
    yield polish(G, h, equal, u, EXACT)
    u = _least_distance(G, h / h.max(initial=1.0), equal)  # so that the direction is short
    yield polish(G, h, equal, u, REDUNDANT)
    yield polish(G, h, equal, u, EXACT)
    yield polish(G, h, equal, _clarabel(G, h, equal), REDUNDANT)


def polish(G: Floats, h: Floats, equal: Booleans, u: Floats, cutoff: float) -> Opinion:
    """The direction tight on the rows that u names, and u itself made as exact as it can be.

    Rows that this direction misses are named too: beside far longer ones their multipliers are
    too small to be seen.
    """
    named = np.abs(u) > _DUST * np.abs(u).max(initial=0.0)
    sharp = _sharpen(G, h, equal, np.where(named, u, 0.0), cutoff)
    for _ in range(_ROUNDS):
        p, multipliers = _tight_direction(G, h, equal, equal | named, cutoff)
        missed = ~equal & ~named & (G @ p < h * (1 - _MISSED))
        if not missed.any():
            break
        named = (multipliers > 0) | missed
    return p, multipliers, sharp


def _tight_direction(
    G: Floats, h: Floats, equal: Booleans, active: Booleans, cutoff: float
) -> tuple[Floats, Floats]:
    """Least-norm p with G_A p = h_A, refined once, and lambda with G_A^T lambda = p."""
    A, b = G[active], h[active]
    p = _refined(A, b, cutoff)
    multipliers = np.zeros(len(h))
    multipliers[active] = _refined(A.T, p, cutoff)
    if (multipliers[~equal] < 0).any():
        multipliers[active] = _nnls(A.T, p, equal[active])
    return p, multipliers


def _sharpen(G: Floats, h: Floats, equal: Booleans, u: Floats, cutoff: float) -> Floats:
    """The nearest u on the same rows with G^T u = 0 and h^T u = 1, as well as least squares can."""
    active, gain = u != 0, h @ u
    A = np.vstack([G[active].T, h[active]])
    start = u[active] / (gain if gain > 0 else 1.0)
    u = np.zeros(len(h))
    u[active] = _refined(A, _last(len(A)), cutoff, start)
    u[np.abs(u) <= _DUST * np.abs(u).max(initial=0.0)] = 0.0
    return feasible_multipliers(u, equal)


def _refined(A: Floats, b: Floats, cutoff: float, start: Floats | None = None) -> Floats:
    """The least-squares solution of Ax = b nearest to start (0); residuals in long doubles."""
    inverse = np.linalg.pinv(A, rcond=cutoff)
    x = inverse @ b if start is None else start
    wide = A.astype(np.longdouble)
    for _ in range(_REFINEMENTS):
        x = x + inverse @ (b - wide @ x).astype(np.float64)
    return x


def _least_distance(G: Floats, h: Floats, equal: Booleans) -> Floats:
    """u = argmin ||[G^T; h^T] u - e_last||, u >= 0 off equalities (Lawson and Hanson)."""
    A = np.concatenate([G, h[:, None]], axis=1).T
    return _nnls(A, _last(len(A)), equal)


def _last(size: int) -> Floats:
    """(0, ..., 0, 1)."""
    return np.eye(1, size, size - 1)[0]


def _nnls(A: Floats, target: Floats, free: Booleans) -> Floats:
    """argmin ||Ax - target||, x >= 0 but for the free ones, which enter twice."""
    from scipy.optimize import nnls

    try:
        both, _ = nnls(np.concatenate([A, -A[:, free]], axis=1), target)
    except RuntimeError:  # its iteration limit
        return np.zeros(len(free))
    x = both[: len(free)].copy()
    x[free] -= both[len(free) :]
    return x


def _clarabel(G: Floats, h: Floats, equal: Booleans) -> Floats:
    """Interior-point multipliers, with those of slack rows put to zero."""
    import clarabel
    from scipy import sparse

    from keytokens.svm.interior import settings

    order = np.argsort(~equal, kind="stable")
    count = int(equal.sum())
    cones = [clarabel.ZeroConeT(count), clarabel.NonnegativeConeT(len(h) - count)]
    k = G.shape[1]
    arguments: tuple[Any, ...] = (
        sparse.eye_array(k, format="csc"),
        np.zeros(k),
        sparse.csc_array(-G[order]),
        -h[order],
        cones,
        settings(1e-12),
    )
    found = clarabel.DefaultSolver(*arguments).solve()
    z, slack = np.asarray(found.z), np.asarray(found.s)
    u = np.zeros(len(h))
    u[order] = np.where((z > slack) | equal[order], z, 0.0)
    return u
