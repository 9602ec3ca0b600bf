"""One fused pass over the counts: f, the loss, and its gradients in a and b.

    w_is = N_i(s) e^{a_s - max_i} / Z_i,   f_i = b_top + sum_s w_is (b_s - b_top)
    dL/db_s = sum_i w_is r_i
    dL/da_s = sum_i w_is r_i [(b_s - b_top(i)) - sum_u w_iu (b_u - b_top(i))]

top(i) is the heaviest token of input i: this form keeps its relative precision when one token
holds all the weight. Rows are cut into blocks that depend on the counts alone; each block has its
own gradient buffer and the buffers are added in one order: same bits whatever the threads.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from keytokens._checks import Floats

Ints = np.ndarray

_SMALL = 200_000  # non-zeros below which one block (and so one thread) is quickest
_BLOCKS = 4
_SPAN = 600.0  # logits closer than this share one exponent without under- or overflow


@dataclass(frozen=True, eq=False)
class Rows:
    """A count matrix as the kernels read it: CSR arrays of fixed types, cut into blocks of rows."""

    indptr: np.ndarray
    indices: np.ndarray
    data: Floats
    n_features: int
    edges: tuple[int, ...]

    @classmethod
    def of(cls, counts: sparse.csr_array) -> "Rows":
        """Views where the types already fit, copies where they do not."""
        indptr = counts.indptr.astype(np.int64, copy=False)
        indices = counts.indices.astype(np.int32, copy=False)
        data = counts.data.astype(np.float64, copy=False)
        return cls(indptr, indices, data, counts.shape[1], _edges(indptr))

    @property
    def n(self) -> int:
        """Inputs."""
        return len(self.indptr) - 1

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Row ranges (first, last + 1) of about equally many non-zeros."""
        return list(zip(self.edges[:-1], self.edges[1:], strict=True))


def _edges(indptr: np.ndarray) -> tuple[int, ...]:
    n, total = len(indptr) - 1, int(indptr[-1])
    if total < _SMALL:
        return (0, n)
    inner = np.searchsorted(indptr, np.arange(1, _BLOCKS) * total // _BLOCKS)
    return (0, *map(int, inner), n)


def threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` asks for: None or -1 is every core we may use."""
    return n_jobs if n_jobs is not None and n_jobs > 0 else len(os.sched_getaffinity(0))


def run_blocks(work: Callable[[int], Any], count: int, n_jobs: int | None) -> list[Any]:
    """[work(0), ..., work(count - 1)], on threads; the order of the answers is fixed."""
    workers = min(threads(n_jobs), count)
    if workers == 1:
        return [work(k) for k in range(count)]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, range(count)))


@dataclass(frozen=True)
class Layout:
    """Which value belongs to which map and output. theta (V+1, M+P): M logits, then P values."""

    n_maps: int
    n_outputs: int
    pair_map: tuple[int, ...]
    pair_out: tuple[int, ...]

    @classmethod
    def of(cls, n_outputs: int, heads: int = 1, per_class: bool = False) -> "Layout":
        """`heads` maps read by every output, or that many maps for each output alone."""
        if not per_class:
            pairs = [(m, k) for m in range(heads) for k in range(n_outputs)]
        else:
            pairs = [(k * heads + h, k) for k in range(n_outputs) for h in range(heads)]
        maps = heads * (n_outputs if per_class else 1)
        return cls(maps, n_outputs, tuple(m for m, _ in pairs), tuple(k for _, k in pairs))

    @property
    def n_pairs(self) -> int:
        """P: values per token."""
        return len(self.pair_map)

    @property
    def width(self) -> int:
        """M + P numbers per token."""
        return self.n_maps + self.n_pairs


class CountLoss:
    """Mean loss of theta over weighted rows, with its gradient; f of every row on the way.

    Rows of weight 0 only get their f: held-out rows ride along for free.
    """

    def __init__(
        self,
        rows: Rows,
        target: Floats,
        weight: Floats,
        layout: Layout,
        bias: Floats,
        n_jobs: int | None = None,
    ) -> None:
        self.rows, self.layout, self.n_jobs = rows, layout, n_jobs
        self.target = np.ascontiguousarray(target, dtype=np.float64)
        self.weight = np.ascontiguousarray(weight / weight.sum(), dtype=np.float64)
        self.bias = np.ascontiguousarray(bias, dtype=np.float64)
        self.f = np.zeros((rows.n, layout.n_outputs))
        self._grads = np.empty((len(rows.blocks), rows.n_features + 1, layout.width))
        self._pairs = np.array([layout.pair_map, layout.pair_out], dtype=np.int64)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """(L, dL/dtheta) at theta (V+1, M+P); the gradient is a buffer the next call reuses."""
        table, shared = exponentiate(theta, self.layout.n_maps)
        losses = run_blocks(lambda k: self._block(k, table, shared), len(self._grads), self.n_jobs)
        return tree_sum(losses), add_blocks(self._grads)

    def _block(self, k: int, table: Floats, shared: bool) -> float:
        lo, hi = self.rows.blocks[k]
        rows, grad = self.rows, self._grads[k]
        common = (rows.indptr, rows.indices, rows.data, lo, hi, table, shared)
        if self.layout.width == 2:
            return _binary_block(
                *common, self.bias[0], self.target, self.weight, self.f[:, 0], grad
            )
        return _general_block(
            *common, self._pairs, self.bias, self.target, self.weight, self.f, grad
        )


def exponentiate(theta: Floats, n_maps: int) -> tuple[Floats, bool]:
    """Replace the logits by e^{a - c} where all of them fit one exponent c. (V+1, M+P)

    The common factor cancels in the weights, and the exponential is taken once per token
    instead of once per non-zero. Where they do not fit, the kernels shift row by row.
    """
    a = theta[:, :n_maps]
    finite = a[np.isfinite(a)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if high - low > _SPAN:
        return np.ascontiguousarray(theta), False
    table = theta.copy()
    table[:, :n_maps] = np.exp(a - (low + high) / 2)
    return table, True


def tree_sum(parts: Sequence[Any]) -> Any:
    """The sum over a fixed tree of halves."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    return tree_sum(parts[:half]) + tree_sum(parts[half:])


def add_blocks(grads: Floats) -> Floats:
    """Sum the blocks' buffers into the first, in the order of a fixed tree."""
    width = len(grads)
    while width > 1:
        half = (width + 1) // 2
        grads[: width - half] += grads[half:width]
        width = half
    return grads[0]


@njit(cache=True, nogil=True)
def _weigh(
    columns: Ints, counts: Floats, table: Floats, m: int, shared: bool, e: Floats
) -> tuple[float, int]:
    """Fill e_j = N_j e^{a_j - shift}, <cls> last, and return (Z, the heaviest j)."""
    size, V = len(columns), len(table) - 1
    shift = 0.0
    if not shared:
        shift = table[V, m]
        for j in range(size):
            shift = max(shift, table[columns[j], m])
    total, top = 0.0, size
    for j in range(size + 1):
        a = table[columns[j], m] if j < size else table[V, m]
        weight = a if shared else np.exp(a - shift)
        if j < size:
            weight *= counts[j]
        e[j] = weight
        total += weight
        if weight > e[top] or j == 0:
            top = j
    return total, top


@njit(cache=True, nogil=True)
def _log1pexp(x: float) -> float:
    """log(1 + e^x) without overflow."""
    return max(x, 0.0) + np.log1p(np.exp(-abs(x)))


@njit(cache=True, nogil=True)
def _sigmoid(x: float) -> float:
    """1 / (1 + e^-x) without overflow."""
    z = np.exp(-abs(x))
    return 1.0 / (1.0 + z) if x >= 0 else z / (1.0 + z)


@njit(cache=True, nogil=True)
def _longest(indptr: Ints, lo: int, hi: int) -> int:
    """Non-zeros of the longest row of the block."""
    longest = 0
    for i in range(lo, hi):
        longest = max(longest, indptr[i + 1] - indptr[i])
    return longest


@njit(cache=True, nogil=True)
def _binary_block(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lo: int,
    hi: int,
    table: Floats,
    shared: bool,
    bias: float,
    target: Floats,
    weight: Floats,
    f: Floats,
    grad: Floats,
) -> float:
    """One map, one output, logistic loss: the general pass, unrolled for speed."""
    V = len(table) - 1
    grad[:] = 0.0
    e = np.empty(_longest(indptr, lo, hi) + 1)
    loss = 0.0
    for i in range(lo, hi):
        start, stop = indptr[i], indptr[i + 1]
        columns = indices[start:stop]
        total, top = _weigh(columns, data[start:stop], table, 0, shared, e)
        size = stop - start
        if not total > 0.0:
            f[i] = bias
            loss += weight[i] * _log1pexp(-target[i] * bias)
            continue
        best = table[columns[top], 1] if top < size else table[V, 1]
        rest = e[size] * (table[V, 1] - best)
        for j in range(size):
            rest += e[j] * (table[columns[j], 1] - best)
        rest /= total
        f[i] = bias + best + rest
        if weight[i] == 0.0:
            continue
        margin = target[i] * f[i]
        loss += weight[i] * _log1pexp(-margin)
        r = -weight[i] * target[i] * _sigmoid(-margin) / total
        for j in range(size):
            s = columns[j]
            pull = e[j] * r
            grad[s, 0] += pull * ((table[s, 1] - best) - rest)
            grad[s, 1] += pull
        grad[V, 0] += e[size] * r * ((table[V, 1] - best) - rest)
        grad[V, 1] += e[size] * r
    return loss


@njit(cache=True, nogil=True)
def _loss_and_residual(f: Floats, target: float, weight: float, residual: Floats) -> float:
    """The loss of one row's logits f (K,), and dloss/df: logistic for K = 1, softmax above."""
    K = len(f)
    if K == 1:
        margin = target * f[0]
        residual[0] = -weight * target * _sigmoid(-margin)
        return weight * _log1pexp(-margin)
    high = f.max()
    total = 0.0
    for k in range(K):
        residual[k] = np.exp(f[k] - high)
        total += residual[k]
    label = int(target)
    for k in range(K):
        residual[k] *= weight / total
    residual[label] -= weight
    return weight * (high + np.log(total) - f[label])


@njit(cache=True, nogil=True)
def _general_block(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lo: int,
    hi: int,
    table: Floats,
    shared: bool,
    pairs: Ints,
    bias: Floats,
    target: Floats,
    weight: Floats,
    f: Floats,
    grad: Floats,
) -> float:
    """Several maps and outputs: weights of every map, then logits, then both gradients."""
    V, P, K = len(table) - 1, pairs.shape[1], len(bias)
    M = table.shape[1] - P
    grad[:] = 0.0
    e = np.empty((M, _longest(indptr, lo, hi) + 1))
    total, top = np.empty(M), np.empty(M, np.int64)
    best, rest, residual = np.empty(P), np.empty(P), np.empty(K)
    loss = 0.0
    for i in range(lo, hi):
        start, size = indptr[i], indptr[i + 1] - indptr[i]
        columns, counts = indices[start : start + size], data[start : start + size]
        for m in range(M):
            total[m], top[m] = _weigh(columns, counts, table, m, shared, e[m])
        f[i] = bias
        for p in range(P):
            m, k = pairs[0, p], pairs[1, p]
            if not total[m] > 0.0:
                continue
            s = columns[top[m]] if top[m] < size else V
            best[p], rest[p] = table[s, M + p], 0.0
            for j in range(size + 1):
                s = columns[j] if j < size else V
                rest[p] += e[m, j] * (table[s, M + p] - best[p])
            rest[p] /= total[m]
            f[i, k] += best[p] + rest[p]
        if weight[i] == 0.0:
            continue
        loss += _loss_and_residual(f[i], target[i], weight[i], residual)
        for p in range(P):
            m, k = pairs[0, p], pairs[1, p]
            if not total[m] > 0.0:
                continue
            r = residual[k] / total[m]
            for j in range(size + 1):
                s = columns[j] if j < size else V
                pull = e[m, j] * r
                grad[s, m] += pull * ((table[s, M + p] - best[p]) - rest[p])
                grad[s, M + p] += pull
    return loss


def pooled(rows: Rows, a: Floats, b: Floats, n_jobs: int | None = None) -> Floats:
    """f[i, k] = b_top + sum_s w[i, s] (b[k, s] - b_top), 0 without tokens. (n, K)"""
    table, shared = exponentiate(np.column_stack([a, b.T]), 1)
    out = np.zeros((rows.n, len(b)))

    def block(k: int) -> None:
        _pool_block(rows.indptr, rows.indices, rows.data, *rows.blocks[k], table, shared, out)

    run_blocks(block, len(rows.blocks), n_jobs)
    return out


@njit(cache=True, nogil=True)
def _pool_block(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lo: int,
    hi: int,
    table: Floats,
    shared: bool,
    out: Floats,
) -> None:
    V = len(table) - 1
    e = np.empty(_longest(indptr, lo, hi) + 1)
    for i in range(lo, hi):
        start, size = indptr[i], indptr[i + 1] - indptr[i]
        columns = indices[start : start + size]
        total, top = _weigh(columns, data[start : start + size], table, 0, shared, e)
        if not total > 0.0:
            continue
        heavy = columns[top] if top < size else V
        for k in range(out.shape[1]):
            best, rest = table[heavy, 1 + k], 0.0
            for j in range(size + 1):
                s = columns[j] if j < size else V
                rest += e[j] * (table[s, 1 + k] - best)
            out[i, k] = best + rest / total


def attention_weights(rows: Rows, a: Floats) -> tuple[Floats, Floats]:
    """w[i, s] = N_i(s) e^{a_s - max_i} / Z_i for the non-zeros (nnz,), and for <cls> (n,)."""
    table, shared = exponentiate(a[:, None].copy(), 1)
    weights, cls = np.zeros(len(rows.data)), np.zeros(rows.n)
    _weight_block(rows.indptr, rows.indices, rows.data, table, shared, weights, cls)
    return weights, cls


@njit(cache=True, nogil=True)
def _weight_block(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    table: Floats,
    shared: bool,
    weights: Floats,
    cls: Floats,
) -> None:
    n = len(indptr) - 1
    e = np.empty(_longest(indptr, 0, n) + 1)
    for i in range(n):
        start, stop = indptr[i], indptr[i + 1]
        total, _ = _weigh(indices[start:stop], data[start:stop], table, 0, shared, e)
        if total > 0.0:
            weights[start:stop] = e[: stop - start] / total
            cls[i] = e[stop - start] / total
