"""The n-grams a counter knows: a tree whose first nodes are tokens, kept as plain arrays."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keytokens.errors import raise_input
from keytokens.text.hashing import Words, compiled, empty_table, find_key, put, unify
from keytokens.text.ngrams import Level

_HALF = np.uint64(32)
_FIELDS = {"bytes": "u1", "offsets": "i8", "parent": "i4", "token": "i4", "column": "i4"}


@dataclass(frozen=True)
class Vocabulary:
    """V tokens and G longer n-grams as nodes of a tree.

    Node k < V is the token bytes[offsets[k] : offsets[k + 1]] (UTF-8); node V + g is the n-gram of
    node parent[g] with token token[g] added. column[k] is node k's column, -1 when it has none.
    """

    bytes: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    parent: NDArray[np.int32]
    token: NDArray[np.int32]
    column: NDArray[np.int32]

    @property
    def size(self) -> int:
        """V, the number of tokens."""
        return self.offsets.size - 1

    @cached_property
    def width(self) -> int:
        """The number of columns."""
        return int(self.column.max(initial=-1)) + 1

    @cached_property
    def tokens(self) -> list[str]:
        data = self.bytes.tobytes()
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(self.offsets)]

    @cached_property
    def code(self) -> dict[str, int]:
        """Each token's node."""
        return {token: k for k, token in enumerate(self.tokens)}

    @cached_property
    def ngrams(self) -> list[str]:
        """Each column's n-gram, its tokens joined by one space."""
        names = list(self.tokens)
        for parent, token in zip(self.parent.tolist(), self.token.tolist(), strict=True):
            names.append(f"{names[parent]} {names[token]}")
        result = [""] * self.width
        for name, column in zip(names, self.column.tolist(), strict=True):
            if column >= 0:
                result[column] = name
        return result

    @cached_property
    def words(self) -> Words:
        return Words(self.bytes, self.offsets[:-1], np.diff(self.offsets))

    @cached_property
    def word_table(self) -> NDArray[np.uint64]:
        return unify(self.words)[0]

    @cached_property
    def tree_table(self) -> NDArray[np.uint64]:
        return _tree_table(self.parent, self.token, self.size)

    def columns_at(self, codes: NDArray[np.int32], low: int, high: int) -> NDArray[np.int32]:
        """The column of the n-gram of low, ..., high tokens that begins at each position, or -1.

        `codes` (N,) ends with -1. (high - low + 1, N)
        """
        result = np.full((high - low + 1, codes.size), -1, np.int32)
        _walk(codes, self.tree_table, self.column, low, high, result)
        return result

    def selected(self, columns: NDArray[np.int64]) -> "Vocabulary":
        """Only the given columns, in the given order."""
        new = np.full(self.width + 1, -1, np.int32)
        new[columns] = np.arange(len(columns), dtype=np.int32)
        new[-1] = -1
        return replace(self, column=new[self.column]).pruned()

    def pruned(self) -> "Vocabulary":
        """Without the nodes that lead to no column."""
        needed = self.column >= 0
        for g in _levels_from_the_longest(self.parent, self.size):
            g = g[needed[self.size + g]]
            needed[self.parent[g]] = needed[self.token[g]] = True
        if needed.all():
            return self
        number = np.cumsum(needed, dtype=np.int32) - 1
        kept = needed[self.size :]
        data, words = self.bytes.tobytes(), np.flatnonzero(needed[: self.size])
        spelled = [data[self.offsets[k] : self.offsets[k + 1]] for k in words]
        parent, token = number[self.parent[kept]], number[self.token[kept]]
        return Vocabulary(*spelling(spelled), parent, token, self.column[needed])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a file: offsets take half the room where they can."""
        short = np.int32 if self.bytes.size < 2**31 else np.int64
        return {name: getattr(self, name) for name in _FIELDS} | {
            "offsets": self.offsets.astype(short)
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Vocabulary":
        """Checked, for compiled code will trust every index."""
        if set(arrays) != set(_FIELDS):
            raise_input("vocabulary arrays", f"be {', '.join(_FIELDS)}", ", ".join(arrays))
        if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in arrays.values()):
            raise_input("vocabulary arrays", "hold integers along one axis", "others")
        self = cls(*(np.ascontiguousarray(arrays[name], kind) for name, kind in _FIELDS.items()))
        if not (self._spelled() and self._grown()):
            raise_input("vocabulary arrays", "describe a tree of n-grams", "inconsistent ones")
        return self

    def _spelled(self) -> bool:
        """Whether the offsets cut the bytes into UTF-8 words."""
        inner = self.offsets[:-1]
        if self.offsets.size == 0 or self.offsets[0] != 0 or self.offsets[-1] != self.bytes.size:
            return False
        if (np.diff(self.offsets) <= 0).any() or ((self.bytes[inner] & 0xC0) == 0x80).any():
            return False
        try:
            self.bytes.tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return False
        return True

    def _grown(self) -> bool:
        """Whether every node's parent comes before it and every column has one node."""
        own = np.arange(self.size, self.size + self.parent.size)
        if self.token.size != own.size or self.column.size != self.size + own.size:
            return False
        inside = (self.parent >= 0) & (self.parent < own) & (self.token >= 0)
        if not (inside & (self.token < self.size)).all() or self.column.min(initial=-1) < -1:
            return False
        used = np.sort(self.column[self.column >= 0])
        return np.array_equal(used, np.arange(used.size))


def spelling(words: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The words' bytes one after the other, and where each begins and ends."""
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    return np.frombuffer(b"".join(words), np.uint8), offsets


def grown(
    words: list[bytes],
    levels: list[Level],
    texts: int,
    low: int,
    max_features: int | None,
) -> tuple[Vocabulary, list[NDArray[np.int32]]]:
    """The vocabulary of the counted levels, and per level from `low` on the columns of its n-grams.

    Columns run from the n-gram in the most texts to that in the fewest; among equals, fewer tokens
    come first and then the order of the tokens' code points. `levels` begins with the tokens.
    """
    firsts = np.cumsum([0, *(level.frequency.size for level in levels)])
    frequency = np.concatenate([level.frequency for level in levels[low - 1 :]])
    column = np.full(firsts[-1], -1, np.int32)
    column[firsts[low - 1] :] = _ranked(frequency, texts, max_features)
    longer = zip(levels[1:], firsts[:-2], strict=True)
    parent = [level.parent + np.int32(first) for level, first in longer]
    token = [level.token for level in levels[1:]]
    vocabulary = Vocabulary(*spelling(words), _joined(parent), _joined(token), column)
    return vocabulary.pruned(), [column[a:b] for a, b in pairwise(firsts[low - 1 :])]


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate([np.empty(0, np.int32), *parts])


def _ranked(frequency: NDArray[np.int32], texts: int, most: int | None) -> NDArray[np.int32]:
    """Each n-gram's rank by decreasing frequency, then by number; -1 from rank `most` on."""
    number = np.arange(frequency.size, dtype=np.uint64)
    key = (texts - frequency.astype(np.int64)).astype(np.uint64) << _HALF | number
    order = (np.sort(key) & np.uint64(0xFFFFFFFF)).astype(np.int64)[:most]
    ranks = np.full(frequency.size, -1, np.int32)
    ranks[order] = np.arange(order.size, dtype=np.int32)
    return ranks


def _levels_from_the_longest(parent: NDArray[np.int32], size: int) -> list[NDArray[np.int64]]:
    """The nodes g grouped by the number of their tokens, longest n-grams first."""
    groups, left = [], np.arange(parent.size)
    below = np.zeros(size + parent.size, np.bool_)
    below[:size] = True
    while left.size:
        here = below[parent[left]]
        groups.append(left[here])
        below[:] = False
        below[size + left[here]] = True
        left = left[~here]
    return groups[::-1]


@compiled
def _tree_table(parent: Any, token: Any, size: int) -> Any:
    """(parent, token) of every longer n-gram to its node."""
    table = empty_table(parent.size)
    for g in range(parent.size):
        key = np.uint64(parent[g]) << _HALF | np.uint64(token[g])
        _, slot = find_key(table, key)
        put(table, slot, key, size + g)
    return table


@compiled
def _walk(codes: Any, table: Any, column: Any, low: int, high: int, result: Any) -> None:
    """Follow the tree from every position as far as it goes."""
    for t in range(codes.size):
        node, k = np.int64(codes[t]), 1
        while node >= 0:
            if k >= low:
                result[k - low, t] = column[node]
            if k == high or codes[t + k] < 0:
                break
            node, _ = find_key(table, np.uint64(node) << _HALF | np.uint64(codes[t + k]))
            k += 1
