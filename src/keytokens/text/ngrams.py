"""N-grams of token codes, counted in compiled code one length after the other.

A (k+1)-gram's key is the number of its first k tokens' k-gram in the upper half of 64 bits and its
last token's code in the lower half. An n-gram can only occur in `min_count` texts when both the
k-grams inside it do, so the longer ones are counted among what is left of the shorter ones.

The candidates are dealt into partitions by their hash. A partition's table fits into a core's
cache, and the partitions are independent of each other: any number of threads, one result.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keytokens.text._threads import mapped, row_blocks
from keytokens.text.hashing import compiled, empty_table, find_key, inlined, put, spread

_PARTITION = 1 << 14  # candidates a partition should have
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


class Level(NamedTuple):
    """The distinct n-grams of one length, in order of their tokens' codes.

    parent: the number of the n-gram without its last token. (G,)
    token: the code of its last token. (G,)
    frequency: the number of texts it occurs in. (G,)
    """

    parent: NDArray[np.int32]
    token: NDArray[np.int32]
    frequency: NDArray[np.int32]


def document_frequency(
    codes: NDArray[np.int32], starts: NDArray[np.int64], size: int, threads: int
) -> NDArray[np.int32]:
    """The number of texts each code occurs in. (size,)"""
    jobs = ((codes, starts[a : b + 1], size) for a, b in row_blocks(starts, threads))
    return np.sum(mapped(_document_frequency, jobs, threads), axis=0, dtype=np.int32)


@compiled
def _document_frequency(codes: Any, starts: Any, size: int) -> Any:
    frequency, last = np.zeros(size, np.int32), np.full(size, -1, np.int32)
    for i in range(starts.size - 1):
        for t in range(starts[i], starts[i + 1]):
            c = codes[t]
            if c >= 0 and last[c] != i:
                last[c] = i
                frequency[c] += 1
    return frequency


def extended(
    nodes: NDArray[np.int32],
    codes: NDArray[np.int32],
    starts: NDArray[np.int64],
    order: int,
    min_count: int,
    threads: int,
) -> tuple[Level, NDArray[np.int32]]:
    """The n-grams of `order` + 1 tokens that occur in at least `min_count` texts.

    `nodes` (N,) holds the number of the n-gram of `order` tokens that begins at each position, -1
    where there is none. Returns the level and the same for the longer n-grams.
    """
    bits = max(0, int(nodes.size // _PARTITION).bit_length())
    keys, entries, edges = _dealt(nodes, codes, starts, order, min(bits, 10), threads)
    spots = list(pairwise(edges))
    kept = mapped(_count, ((keys[a:b], entries[a:b], min_count) for a, b in spots), threads)
    found = np.concatenate([key for key, _ in kept])
    frequency = np.concatenate([count for _, count in kept])
    order_of = np.argsort(found)
    rank = np.empty(found.size, np.int32)
    rank[order_of] = np.arange(found.size, dtype=np.int32)
    first = np.cumsum([0, *(key.size for key, _ in kept)])
    longer = np.full(nodes.size, -1, np.int32)
    jobs = ((entries[a:b], rank[f:], longer) for (a, b), f in zip(spots, first, strict=False))
    mapped(_place, jobs, threads)
    found = found[order_of]
    parent, token = (found >> _HALF).astype(np.int32), (found & _LOW).astype(np.int32)
    return Level(parent, token, frequency[order_of]), longer


def _dealt(
    nodes: NDArray[np.int32],
    codes: NDArray[np.int32],
    starts: NDArray[np.int64],
    order: int,
    bits: int,
    threads: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]:
    """The candidates' keys and (position, text), partition after partition, and their edges."""
    blocks = row_blocks(starts, threads)
    jobs = [(nodes, codes, starts, order, bits, a, b) for a, b in blocks]
    sizes = np.array(mapped(_partition_sizes, jobs, threads))
    ends = np.cumsum(sizes.T).reshape(sizes.T.shape).T  # (blocks, partitions)
    total = int(ends[-1, -1])
    keys, entries = np.empty(total, np.uint64), np.empty((total, 2), np.int32)
    mapped(
        _deal,
        (
            (*job, keys, entries, end - size)
            for job, end, size in zip(jobs, ends, sizes, strict=True)
        ),
        threads,
    )
    return keys, entries, np.concatenate([[0], ends[-1]])


@inlined
def _key(nodes: Any, codes: Any, t: int, order: int) -> Any:
    return np.uint64(nodes[t]) << _HALF | np.uint64(codes[t + order])


@inlined
def _partition(key: Any, bits: int) -> Any:
    return np.int64(spread(key) >> np.uint64(54)) >> (10 - bits)


@compiled
def _partition_sizes(
    nodes: Any, codes: Any, starts: Any, order: int, bits: int, first: int, last: int
) -> Any:
    """How many candidates of the texts first : last fall into each partition."""
    sizes = np.zeros(1 << bits, np.int64)
    for t in range(starts[first], starts[last] - 1):
        if nodes[t] >= 0 and nodes[t + 1] >= 0:
            sizes[_partition(_key(nodes, codes, t, order), bits)] += 1
    return sizes


@compiled
def _deal(
    nodes: Any, codes: Any, starts: Any, order: int, bits: int, first: int, last: int,
    keys: Any, entries: Any, heads: Any,
) -> None:  # fmt: skip
    """Write the candidates of the texts first : last where their partitions' heads point."""
    heads = heads.copy()
    for i in range(first, last):
        for t in range(starts[i], starts[i + 1] - 1):
            if nodes[t] >= 0 and nodes[t + 1] >= 0:
                key = _key(nodes, codes, t, order)
                p = _partition(key, bits)
                keys[heads[p]] = key
                entries[heads[p], 0], entries[heads[p], 1] = t, i
                heads[p] += 1


@compiled
def _count(keys: Any, entries: Any, min_count: int) -> tuple[Any, Any]:
    """One partition's keys in at least `min_count` texts, and in how many.

    The texts in `entries` give way to the numbers of the keys kept, -1 for the others.
    """
    table = empty_table(keys.size)
    distinct, frequency = np.empty(keys.size, np.uint64), np.zeros(keys.size, np.int32)
    last = np.full(keys.size, -1, np.int32)
    count = 0
    for j in range(keys.size):
        k, slot = find_key(table, keys[j])
        if k < 0:
            k = count
            put(table, slot, keys[j], k)
            distinct[k] = keys[j]
            count += 1
        if last[k] != entries[j, 1]:
            last[k] = entries[j, 1]
            frequency[k] += 1
        entries[j, 1] = k
    return _keep(entries, distinct[:count], frequency[:count], last, min_count)


@inlined
def _keep(entries: Any, distinct: Any, frequency: Any, numbers: Any, min_count: int) -> Any:
    kept = 0
    for k in range(distinct.size):
        numbers[k] = -1
        if frequency[k] >= min_count:
            numbers[k] = kept
            distinct[kept], frequency[kept] = distinct[k], frequency[k]
            kept += 1
    for j in range(entries.shape[0]):
        entries[j, 1] = numbers[entries[j, 1]]
    return distinct[:kept].copy(), frequency[:kept].copy()


@compiled
def _place(entries: Any, rank: Any, nodes: Any) -> None:
    for j in range(entries.shape[0]):
        if entries[j, 1] >= 0:
            nodes[entries[j, 0]] = rank[entries[j, 1]]
