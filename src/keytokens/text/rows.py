"""From the column of every n-gram occurrence to the rows of a sparse matrix."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from keytokens.text._threads import mapped, row_blocks
from keytokens.text.hashing import compiled, inlined, longest

_SHORT = 32  # rows up to this length are sorted by insertion


def sparse_rows(
    columns: NDArray[np.int32], starts: NDArray[np.int64], width: int, binary: bool, threads: int
) -> sparse.csr_array:
    """The counts N[i, j] of column j among columns[:, starts[i] : starts[i + 1]]; 1 if `binary`.

    `columns` (L, N) may hold -1: no column. (n, width)
    """
    blocks = row_blocks(starts, 4 * threads)
    bits = max(1, (width - 1).bit_length())
    jobs = ((columns, starts[a : b + 1], bits, binary) for a, b in blocks)
    indices, counts, sizes = zip(*mapped(_rows, jobs, threads), strict=True)
    indptr = np.concatenate([[0], *sizes]).cumsum()
    kind = np.int32 if indptr[-1] < 2**31 else np.int64
    index = np.concatenate(indices).astype(kind, copy=False)
    data = np.ones(index.size) if binary else np.concatenate(counts).astype(np.float64)
    shape = (starts.size - 1, width)
    return _sorted_csr(data, index, indptr.astype(kind), shape)


def _sorted_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> sparse.csr_array:
    matrix = sparse.csr_array((data, indices, indptr), shape)
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


@compiled
def _rows(columns: Any, starts: Any, bits: int, binary: bool) -> tuple[Any, Any, Any]:
    """Each row's distinct columns in order, how often each occurs, and how many there are."""
    n, levels = starts.size - 1, columns.shape[0]
    room = levels * (starts[-1] - starts[0])
    size = levels * longest(starts)
    row, spare = np.empty(size, np.int32), np.empty(size, np.int32)
    indices, sizes = np.empty(room, np.int32), np.zeros(n, np.int64)
    counts = np.empty(0 if binary else room, np.int32)
    total = 0
    for i in range(n):
        m = _present(columns, starts[i], starts[i + 1], row)
        _sort(row, spare, m, bits)
        sizes[i] = _runs(row, m, indices[total:], counts[total:], binary)
        total += sizes[i]
    return indices[:total], counts[: 0 if binary else total], sizes


@inlined
def _present(columns: Any, first: int, last: int, row: Any) -> int:
    m = 0
    for level in range(columns.shape[0]):
        for t in range(first, last):
            row[m] = columns[level, t]
            m += columns[level, t] >= 0
    return m


@inlined
def _runs(row: Any, m: int, indices: Any, counts: Any, binary: bool) -> int:
    """Equal neighbours become one; returns how many are left."""
    size = 0
    for j in range(m):
        if j == 0 or row[j] != row[j - 1]:
            indices[size] = row[j]
            if not binary:
                counts[size] = 0
            size += 1
        if not binary:
            counts[size - 1] += 1
    return size


@compiled
def _sort(row: Any, spare: Any, m: int, bits: int) -> None:
    """row[:m] in increasing order: radix sort in an even number of passes, or by insertion."""
    if m <= _SHORT:
        for j in range(1, m):
            value, k = row[j], j
            while k > 0 and row[k - 1] > value:
                row[k] = row[k - 1]
                k -= 1
            row[k] = value
        return
    passes = 2 if bits <= 16 else 4
    digit = (bits + passes - 1) // passes
    for k in range(0, passes, 2):
        _pass(row, spare, m, k * digit, digit)
        _pass(spare, row, m, (k + 1) * digit, digit)


@compiled
def _pass(source: Any, target: Any, m: int, shift: int, digit: int) -> None:
    """Stable counting sort by `digit` bits from bit `shift`."""
    mask = (1 << digit) - 1
    heads = np.zeros(mask + 2, np.int32)
    for j in range(m):
        heads[((source[j] >> shift) & mask) + 1] += 1
    for k in range(mask):
        heads[k + 1] += heads[k]
    for j in range(m):
        k = (source[j] >> shift) & mask
        target[heads[k]] = source[j]
        heads[k] += 1
