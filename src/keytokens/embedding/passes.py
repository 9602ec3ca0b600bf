"""The compiled passes over the rows of a block; kernels.py says what they compute."""

import numpy as np
from numba import njit

from keytokens._checks import Floats

Ints = np.ndarray


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
def binary_block(
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
def _sum_above(columns: Ints, table: Floats, p: int, best: float, e: Floats) -> float:
    """sum_j e_j (b_j - best), <cls> last in e."""
    size, V = len(columns), len(table) - 1
    total: float = e[size] * (table[V, p] - best)
    for j in range(size):
        total += e[j] * (table[columns[j], p] - best)
    return total


@njit(cache=True, nogil=True)
def _pull(
    columns: Ints,
    table: Floats,
    p: int,
    m: int,
    best: float,
    rest: float,
    r: float,
    e: Floats,
    da: Floats,
    grad: Floats,
) -> None:
    """Add one output's share of the gradients; that of the tokens' logits goes to da."""
    size, V = len(columns), len(table) - 1
    for j in range(size):
        s, pull = columns[j], e[j] * r
        da[j] += pull * ((table[s, p] - best) - rest)
        grad[s, p] += pull
    grad[V, m] += e[size] * r * ((table[V, p] - best) - rest)
    grad[V, p] += e[size] * r


@njit(cache=True, nogil=True)
def shared_block(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lo: int,
    hi: int,
    table: Floats,
    shared: bool,
    bias: tuple[float, ...] | Floats,
    target: Floats,
    weight: Floats,
    f: Floats,
    grad: Floats,
) -> float:
    """One map read by several outputs. With `bias` a tuple its length is known when this is
    compiled, and the loops over outputs, which are the inner ones, unroll."""
    V, K = len(table) - 1, len(bias)
    grad[:] = 0.0
    e = np.empty(_longest(indptr, lo, hi) + 1)
    best, rest, residual = np.empty(K), np.empty(K), np.empty(K)
    loss = 0.0
    for i in range(lo, hi):
        start, size = indptr[i], indptr[i + 1] - indptr[i]
        columns = indices[start : start + size]
        total, top = _weigh(columns, data[start : start + size], table, 0, shared, e)
        heavy = columns[top] if top < size else V
        for k in range(K):
            f[i, k] = bias[k]
            best[k] = table[heavy, 1 + k]
        if total > 0.0:
            _sums_above(columns, table, best, e, bias, rest)
            for k in range(K):
                rest[k] /= total
                f[i, k] += best[k] + rest[k]
        if weight[i] == 0.0:
            continue
        loss += _loss_and_residual(f[i], target[i], weight[i], residual)
        if total > 0.0:
            for k in range(K):
                residual[k] /= total
            _pulls(columns, table, best, rest, residual, e, bias, grad)
    return loss


@njit(cache=True, nogil=True)
def _sums_above(
    columns: Ints,
    table: Floats,
    best: Floats,
    e: Floats,
    outputs: tuple[float, ...] | Floats,
    rest: Floats,
) -> None:
    """rest_k = sum_j e_j (b_jk - best_k), <cls> last in e."""
    size, V, K = len(columns), len(table) - 1, len(outputs)
    for k in range(K):
        rest[k] = e[size] * (table[V, 1 + k] - best[k])
    for j in range(size):
        s, weight = columns[j], e[j]
        for k in range(K):
            rest[k] += weight * (table[s, 1 + k] - best[k])


@njit(cache=True, nogil=True)
def _pulls(
    columns: Ints,
    table: Floats,
    best: Floats,
    rest: Floats,
    r: Floats,
    e: Floats,
    outputs: tuple[float, ...] | Floats,
    grad: Floats,
) -> None:
    """Add this row's share of the gradients, all outputs of a token at once."""
    size, V, K = len(columns), len(table) - 1, len(outputs)
    mean = 0.0
    for k in range(K):
        mean += r[k] * rest[k]
        grad[V, 1 + k] += e[size] * r[k]
        grad[V, 0] += e[size] * r[k] * ((table[V, 1 + k] - best[k]) - rest[k])
    for j in range(size):
        s, weight = columns[j], e[j]
        pull = -mean
        for k in range(K):
            pull += r[k] * (table[s, 1 + k] - best[k])
            grad[s, 1 + k] += weight * r[k]
        grad[s, 0] += weight * pull


@njit(cache=True, nogil=True)
def general_block(
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
    longest = _longest(indptr, lo, hi)
    e, da = np.empty((M, longest + 1)), np.zeros((M, longest))
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
            best[p] = table[columns[top[m]] if top[m] < size else V, M + p]
            rest[p] = _sum_above(columns, table, M + p, best[p], e[m]) / total[m]
            f[i, k] += best[p] + rest[p]
        if weight[i] == 0.0:
            continue
        loss += _loss_and_residual(f[i], target[i], weight[i], residual)
        for p in range(P):
            m, k = pairs[0, p], pairs[1, p]
            if not total[m] > 0.0:
                continue
            r = residual[k] / total[m]
            _pull(columns, table, M + p, m, best[p], rest[p], r, e[m], da[m], grad)
        for m in range(M):
            for j in range(size):
                grad[columns[j], m] += da[m, j]
                da[m, j] = 0.0
    return loss


@njit(cache=True, nogil=True)
def pool_block(
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
        # Relative to the heaviest token where it holds most; elsewhere its value would only cancel.
        held = 2.0 * e[top] > total
        for k in range(out.shape[1]):
            best, rest = table[heavy, 1 + k] if held else 0.0, 0.0
            for j in range(size + 1):
                s = columns[j] if j < size else V
                rest += e[j] * (table[s, 1 + k] - best)
            out[i, k] = best + rest / total


@njit(cache=True, nogil=True)
def weight_block(
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
