"""Max-margin directions in norms other than l2: Clarabel's cones directly.

    nuclear   min (tr P + tr Q) / 2  s.t.  [[P, W], [W^T, Q]] >= 0 (PSD), <g_r, W> >= h_r
    spectral  min t  s.t.  [[t I, W], [W^T, t I]] >= 0 (PSD),             <g_r, W> >= h_r
    l_q       min t  s.t.  r_j^(1/q) t^(1-1/q) >= |w_j|, sum_j r_j = t,   <g_r, w> >= h_r
    l_1, l_inf  linear programs
All come with multipliers lambda, and weak duality bounds N(w)^2 / 2 from below by
(h^T lambda)^2 / (2 N*(G^T lambda)^2): the certificate needs no trust in the solver.

A norm is one function that returns a Norm; a line in NORMS gives it a name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from keytokens._checks import Booleans, Floats
from keytokens.errors import raise_input
from keytokens.svm import certificate as certify
from keytokens.svm.interior import settings
from keytokens.svm.newton import newton_polish
from keytokens.svm.solution import Certificate

_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Norm:
    """A norm N, its dual N*, and the cone program that minimises it over a shape.

    size(w) = N(w) and dual_size(g) = max <g, w> over N(w) <= 1; both are given arrays of the
    direction's shape, (d,) over p and (d, d) over W, and certify whatever the cones answer.
    """

    size: Callable[[Floats], Any]
    dual_size: Callable[[Floats], Any]
    cones: Callable[[tuple[int, ...]], "Cones"]
    exponent: float | None = None  # q, where the norm is l_q with 1 < q < inf
    is_unitary: bool = False  # of matrices, N(U W V^T) = N(W): only the spans of the rows matter


@dataclass(frozen=True)
class Cones:
    """min cost^T x s.t. offset - A x in the cones, where w = pick x: N(w) at its least.

    cost (c,), A (m, c), offset (m,), pick (k, c) for the k numbers of w, row by row.
    """

    cost: Floats
    A: Any
    offset: Floats
    cones: list[Any]
    pick: Any


def nuclear() -> Norm:
    """||W||_* and the spectral norm."""
    return Norm(
        partial(np.linalg.norm, ord="nuc"), partial(np.linalg.norm, ord=2), _psd, is_unitary=True
    )


def spectral() -> Norm:
    """The largest singular value of W, and ||.||_*."""
    return Norm(
        partial(np.linalg.norm, ord=2),
        partial(np.linalg.norm, ord="nuc"),
        _largest_singular,
        is_unitary=True,
    )


def power(q: float) -> Norm:
    """||w||_q and ||w||_q', 1/q + 1/q' = 1; 1 <= q <= inf."""
    if q == 1:
        return Norm(partial(_lq, q=1), partial(_lq, q=np.inf), _sum_of_sizes)
    if np.isinf(q):
        return Norm(partial(_lq, q=np.inf), partial(_lq, q=1), _largest_size)
    return Norm(partial(_lq, q=q), partial(_lq, q=q / (q - 1)), partial(_power_cones, q=q), q)


def _lq(w: Floats, q: float) -> Any:
    """||w||_q, scaled so that no power overflows."""
    largest = np.abs(w).max(initial=0.0)
    return largest * np.linalg.norm(np.ravel(w) / (largest or 1.0), ord=q)


def _triangle(rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Of [[P, W], [W^T, Q]], upper triangle, column by column: which entries are diagonal, the
    places of those inside W, and the entry of W in each of these."""
    # The upper triangle column by column is the lower triangle row by row, transposed.
    low, high = np.tril_indices(rows + columns)
    inside = np.flatnonzero((high < rows) & (low >= rows))
    return low == high, inside, high[inside] * columns + (low[inside] - rows)


def _psd(shape: tuple[int, ...]) -> Cones:
    """x = the upper triangle, column by column, off-diagonal entries times sqrt 2."""
    rows, columns = shape
    size = rows + columns
    diagonal, inside, entry = _triangle(rows, columns)
    count = len(diagonal)
    cost = np.where(diagonal, 0.5, 0.0)
    pick = sparse.csr_array(
        (np.full(len(inside), 0.5**0.5), (entry, inside)), shape=(rows * columns, count)
    )
    A = -sparse.eye_array(count, format="csc")
    return Cones(cost, A, np.zeros(count), [clarabel.PSDTriangleConeT(size)], pick)


def _largest_singular(shape: tuple[int, ...]) -> Cones:
    """x = (w, t): t on the diagonal of the triangle, sqrt 2 w inside."""
    k, size = int(np.prod(shape)), sum(shape)
    diagonal, inside, entry = _triangle(*shape)
    t = np.flatnonzero(diagonal)
    values = np.concatenate([np.full(k, 2**0.5), np.ones(size)])
    places = (np.concatenate([inside, t]), np.concatenate([entry, np.full(size, k)]))
    A = -sparse.csc_array((values, places), shape=(len(diagonal), k + 1))
    pick = sparse.eye_array(k, k + 1, format="csr")
    cones = [clarabel.PSDTriangleConeT(size)]
    return Cones(np.append(np.zeros(k), 1.0), A, np.zeros(len(diagonal)), cones, pick)


def _power_cones(shape: tuple[int, ...], q: float) -> Cones:
    """x = (w, r, t); sum r = t, then a power cone (r_j, t, w_j) of exponent 1/q for each j."""
    k = int(np.prod(shape))
    cost = np.zeros(2 * k + 1)
    cost[-1] = 1.0
    total = np.concatenate([np.zeros(k), np.ones(k), [-1.0]])
    j = np.arange(k)
    column = np.stack([k + j, np.full(k, 2 * k), j], axis=1).ravel()
    each = sparse.csr_array((-np.ones(3 * k), (np.arange(3 * k), column)), shape=(3 * k, 2 * k + 1))
    A = sparse.vstack([sparse.csr_array(total[None]), each], format="csc")
    cones = [clarabel.ZeroConeT(1)] + [clarabel.PowerConeT(1 / q)] * k
    return Cones(cost, A, np.zeros(3 * k + 1), cones, sparse.eye_array(k, 2 * k + 1, format="csr"))


def _sum_of_sizes(shape: tuple[int, ...]) -> Cones:
    """w = a - b with a, b >= 0, at the cost of their sum."""
    k = int(np.prod(shape))
    one = sparse.eye_array(k, format="csr")
    pick = sparse.hstack([one, -one], format="csr")
    A = -sparse.eye_array(2 * k, format="csc")
    return Cones(np.ones(2 * k), A, np.zeros(2 * k), [clarabel.NonnegativeConeT(2 * k)], pick)


def _largest_size(shape: tuple[int, ...]) -> Cones:
    """x = (w, t) with -t <= w_j <= t."""
    k = int(np.prod(shape))
    one, t = sparse.eye_array(k, format="csr"), np.ones((k, 1))
    A = sparse.vstack([sparse.hstack([one, -t]), sparse.hstack([-one, -t])], format="csc")
    cones = [clarabel.NonnegativeConeT(2 * k)]
    pick = sparse.eye_array(k, k + 1, format="csr")
    return Cones(np.append(np.zeros(k), 1.0), A, np.zeros(2 * k), cones, pick)


NORMS: dict[str, Callable[[], Norm]] = {
    "nuclear": nuclear,
    "spectral": spectral,
}


def named(norm: Any) -> Norm:
    """The norm of a name, or l_q of a number q >= 1."""
    is_name = isinstance(norm, str) and norm in NORMS
    if not (is_name or (isinstance(norm, Real) and float(norm) >= 1)):
        names = ", ".join(map(repr, ("l2", *NORMS)))
        raise_input("norm", f"be {names}, a number q >= 1 or a Norm", repr(norm))
    return NORMS[norm]() if is_name else power(float(norm))


def minimise(
    G: Floats, h: Floats, equal: Booleans, start: Floats, norm: Norm
) -> tuple[Floats, Floats, Certificate]:
    """argmin N(w)^2 / 2 s.t. Gw >= h (= where equal), lambda and their certificate.

    start is any w that satisfies the rows, in w's shape; it tells the size to expect.
    """
    if norm.is_unitary:
        w, multipliers = _solve_within_spans(G, h, equal, start, norm)
    else:
        w, multipliers = solve_norm(G, h, equal, start.shape, norm, norm.size(start))
    w = _lifted(G, h, w.reshape(start.shape))
    found = certify_norm(G, h, equal, w, multipliers, norm)
    if norm.exponent is None:
        return w, multipliers, found
    sharp, sharper = newton_polish(G, h, equal, w.ravel(), multipliers, norm.exponent)
    sharp = sharp.reshape(w.shape)
    better = certify_norm(G, h, equal, sharp, sharper, norm)
    if abs(better.gap) <= abs(found.gap) and better.violation <= 1e-12:
        return sharp, sharper, better
    return w, multipliers, found


def _solve_within_spans(
    G: Floats, h: Floats, equal: Booleans, start: Floats, norm: Norm
) -> tuple[Floats, Floats]:
    """The same program on the spans of the rows' columns and of their rows: a smaller matrix."""
    rows = G.reshape(-1, *start.shape)
    left, right = _span(np.hstack([*rows])), _span(np.hstack([*rows.swapaxes(-1, -2)]))
    inner = left.T @ rows @ right
    shape, flat = inner.shape[1:], inner.reshape(len(rows), -1)
    w, multipliers = solve_norm(flat, h, equal, shape, norm, norm.size(start))
    return left @ w.reshape(shape) @ right.T, multipliers


def _span(A: Floats) -> Floats:
    """An orthonormal basis of the columns of A."""
    basis, sizes, _ = np.linalg.svd(A, full_matrices=False)
    return basis[:, sizes > 1e-13 * sizes.max(initial=0.0)]


def solve_norm(
    G: Floats, h: Floats, equal: Booleans, shape: tuple[int, ...], norm: Norm, size: float
) -> tuple[Floats, Floats]:
    """argmin N(w) s.t. Gw >= h (= where equal), and multipliers of N^2 / 2.

    G (m, k) with k = prod(shape); `size` is the norm to expect: the program is solved for
    h / size, so that its answer has norm near one.
    """
    cones = norm.cones(shape)
    order = np.argsort(~equal, kind="stable")
    A = sparse.vstack([-sparse.csr_array(G[order]) @ cones.pick, cones.A], format="csc")
    offset = np.concatenate([-h[order] / size, cones.offset])
    equalities = int(equal.sum())
    kinds = [clarabel.ZeroConeT(equalities), clarabel.NonnegativeConeT(len(h) - equalities)]
    n = len(cones.cost)
    kinds += cones.cones
    nothing = sparse.csc_array((n, n))
    chosen = settings(_TOLERANCE)
    found = clarabel.DefaultSolver(nothing, cones.cost, A, offset, kinds, chosen).solve()
    w = size * (cones.pick @ np.asarray(found.x))
    multipliers = np.empty(len(h))
    multipliers[order] = np.asarray(found.z)[: len(h)]
    multipliers = certify.feasible_multipliers(multipliers, equal)
    return w, _best_multiple(G, h, multipliers, shape, norm)


def _lifted(G: Floats, h: Floats, w: Floats) -> Floats:
    """w scaled up until every row with h = 1 holds: costs what it repairs."""
    worst = (G[h > 0] @ w.ravel()).min(initial=np.inf)
    return w / worst if 0.5 < worst < 1 else w


def _best_multiple(
    G: Floats, h: Floats, multipliers: Floats, shape: tuple[int, ...], norm: Norm
) -> Floats:
    """c lambda with the c that makes c h^T lambda - c^2 N*(G^T lambda)^2 / 2 largest."""
    size = norm.dual_size((G.T @ multipliers).reshape(shape))
    return multipliers * ((h @ multipliers) / size**2) if size > 0 else multipliers


def certify_norm(
    G: Floats, h: Floats, equal: Booleans, w: Floats, multipliers: Floats, norm: Norm
) -> Certificate:
    """The certificate in the norm N: weak duality with N*. w has its own shape."""
    multipliers = certify.feasible_multipliers(multipliers, equal)
    shape = w.shape
    return certify.certificate(
        G @ w.ravel(),
        G.T @ multipliers,
        certify.row_lengths(G),
        h,
        equal,
        w.ravel(),
        multipliers,
        lambda x: norm.size(x.reshape(shape)),
        lambda x: norm.dual_size(x.reshape(shape)),
    )
