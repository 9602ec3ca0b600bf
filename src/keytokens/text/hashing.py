"""Open-addressing hash tables in compiled code: byte strings and 64-bit keys to small numbers.

Exact: a string of at most eight bytes is its own 64-bit key; a longer one's key is a hash, marked
by a byte that UTF-8 never has, and its bytes are compared when the hashes agree.

A table is a uint64 array (size, 2), size a power of two: a key and the number it bears plus one,
side by side so that one look costs one cache miss; number 0 is an empty slot.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Small functions become part of their caller: passing arrays costs more than what they do.
inlined = njit(cache=True, nogil=True, forceinline=True)
compiled = njit(cache=True, nogil=True)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FOLD, _HALF = np.uint64(29), np.uint64(32)
_BYTE, _FULL = np.uint64(8), np.uint64(64)
_LONG = np.uint64(0xFF << 56)
_EMPTY, _ONE = np.uint64(0), np.uint64(1)


class Words(NamedTuple):
    """Byte strings: the k-th is data[start[k] : start[k] + length[k]]."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    length: NDArray[np.int64]

    def spelled(self, wanted: NDArray[np.int64]) -> list[bytes]:
        """The bytes of the wanted words, which lie close together."""
        data = self.data.tobytes()
        places = zip(self.start[wanted].tolist(), self.length[wanted].tolist(), strict=True)
        return [data[start : start + length] for start, length in places]


@inlined
def spread(key: Any) -> Any:
    """A key's bits, mixed; tables take the upper half's, partitions the uppermost."""
    key = (key ^ (key >> _FOLD)) * _GOLDEN
    return (key ^ (key >> _FOLD)) * _GOLDEN


@inlined
def slot_of(key: Any, size: int) -> Any:
    """Where a search for `key` begins."""
    return np.int64(spread(key) >> _HALF) & (size - 1)


@inlined
def lower(byte: Any) -> Any:
    return byte + np.uint8(32) if 65 <= byte <= 90 else byte


@inlined
def word_key(data: Any, start: int, length: int) -> Any:
    """Up to eight bytes themselves (ASCII in lower case), else a marked hash of all of them."""
    key, packed, place = np.uint64(0), np.uint64(0), np.uint64(0)
    for p in range(start, start + length):
        packed |= np.uint64(lower(data[p])) << place
        place += _BYTE
        if place == _FULL and length > 8:
            key = spread(key ^ packed)
            packed = place = np.uint64(0)
    return packed if length <= 8 else spread(key ^ packed) | _LONG


@inlined
def _same(words: Any, k: Any, data: Any, start: int, length: int) -> bool:
    """Whether the k-th word is data[start : start + length], ASCII case apart."""
    if words.length[k] != length:
        return False
    for i in range(length):
        if lower(words.data[words.start[k] + i]) != lower(data[start + i]):
            return False
    return True


@inlined
def find_word(table: Any, words: Any, key: Any, data: Any, start: int, length: int) -> Any:
    """The number of a word (-1: not there) and the slot where it is, or where it belongs."""
    slot = slot_of(key, table.shape[0])
    while table[slot, 1] != _EMPTY:
        if table[slot, 0] == key:
            k = np.int64(table[slot, 1]) - 1
            if length <= 8 or _same(words, k, data, start, length):
                return k, slot
        slot = (slot + 1) & (table.shape[0] - 1)
    return -1, slot


@inlined
def find_key(table: Any, key: Any) -> Any:
    """The number of a key (-1: not there) and the slot where it is, or where it belongs."""
    slot = slot_of(key, table.shape[0])
    while table[slot, 1] != _EMPTY:
        if table[slot, 0] == key:
            return np.int64(table[slot, 1]) - 1, slot
        slot = (slot + 1) & (table.shape[0] - 1)
    return -1, slot


@inlined
def put(table: Any, slot: int, key: Any, number: int) -> None:
    table[slot, 0] = key
    table[slot, 1] = np.uint64(number + 1)


@compiled
def empty_table(count: int) -> Any:
    """Room for `count` keys, at most half full."""
    size = 16
    while size < 2 * count:
        size *= 2
    return np.zeros((size, 2), np.uint64)


@compiled
def doubled(table: Any) -> Any:
    """The same keys and numbers in a table of twice the size."""
    result = np.zeros((2 * table.shape[0], 2), np.uint64)
    for old in range(table.shape[0]):
        if table[old, 1] != _EMPTY:
            slot = slot_of(table[old, 0], result.shape[0])
            while result[slot, 1] != _EMPTY:
                slot = (slot + 1) & (result.shape[0] - 1)
            result[slot, 0], result[slot, 1] = table[old, 0], table[old, 1]
    return result


@compiled
def longer(array: Any) -> Any:
    """The same array with room for twice as many."""
    result = np.empty(2 * array.size, array.dtype)
    result[: array.size] = array
    return result


@compiled
def longest(edges: Any) -> int:
    """The largest distance from one edge to the next."""
    size = 0
    for i in range(edges.size - 1):
        size = max(size, edges[i + 1] - edges[i])
    return size


@compiled
def unify(words: Any) -> tuple[Any, Any, Any]:
    """Number equal words alike: their table, each word's number, the first word of each number."""
    n = words.start.size
    table, numbers, first = empty_table(n), np.empty(n, np.int32), np.empty(n, np.int64)
    distinct = Words(words.data, np.empty(n, np.int64), np.empty(n, np.int64))
    count = 0
    for i in range(n):
        start, length = words.start[i], words.length[i]
        key = word_key(words.data, start, length)
        k, slot = find_word(table, distinct, key, words.data, start, length)
        if k < 0:
            k = count
            put(table, slot, key, k)
            distinct.start[k], distinct.length[k], first[k] = start, length, i
            count += 1
        numbers[i] = k
    return table, numbers, first[:count].copy()


@compiled
def find_words(table: Any, words: Any, sought: Any) -> Any:
    """The number of each sought word in the table, -1 where it is not there. (V,)"""
    numbers = np.empty(sought.start.size, np.int32)
    for i in range(sought.start.size):
        start, length = sought.start[i], sought.length[i]
        key = word_key(sought.data, start, length)
        numbers[i] = find_word(table, words, key, sought.data, start, length)[0]
    return numbers
