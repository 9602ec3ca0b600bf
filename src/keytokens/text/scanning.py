"""Texts to token codes: one pass over the UTF-8 bytes in compiled code.

What a token is, is said in tokenizer.py; this is the same in fast (tests tie the two). Python sees
each distinct token once, not each occurrence, and only where lower-casing needs more than ASCII.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keytokens.errors import raise_input
from keytokens.text._threads import mapped, row_blocks
from keytokens.text.characters import (
    APOSTROPHE,
    BREAK,
    MARK,
    MARKS,
    SEPARATOR,
    WORD,
    class_table,
)
from keytokens.text.hashing import (
    Words,
    compiled,
    doubled,
    empty_table,
    find_word,
    inlined,
    longer,
    longest,
    lower,
    put,
    word_key,
)

_SMALL = 200_000  # bytes: below this a second thread costs more than it brings


class Scan(NamedTuple):
    """Texts cut into tokens.

    codes: per block of texts, its tokens' numbers, a -1 after each text.
    starts: text i's tokens are at starts[i] : starts[i + 1] - 1 of all codes in a row. (n + 1,)
    words: the lower-cased tokens that the numbers mean, equal ones perhaps several times.
    base: the first word of each block: number c of block k is word base[k] + c.
    places: first and last-plus-one byte of each token, where asked for. (N, 2)
    """

    codes: list[NDArray[np.int32]]
    starts: NDArray[np.int64]
    words: Words
    base: NDArray[np.int64]
    places: NDArray[np.int64]

    def numbered(self, numbers: NDArray[np.int32], threads: int) -> NDArray[np.int32]:
        """All codes in a row, where word w is now called numbers[w]. (N,)"""
        result = np.empty(self.starts[-1], np.int32)
        ends = np.cumsum([part.size for part in self.codes])
        outs = [result[end - part.size : end] for part, end in zip(self.codes, ends, strict=True)]
        mapped(
            renumber,
            zip(self.codes, (numbers[b:] for b in self.base), outs, strict=True),
            threads,
        )
        return result


def encoded(texts: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The texts' UTF-8 in one array, and where each begins and ends in it. (n + 1,)

    A lone surrogate, which UTF-8 does not have, takes three bytes and separates words.
    """
    rows = as_list(texts)
    try:
        parts = [str.encode(text, "utf-8", "surrogatepass") for text in rows]
    except TypeError:
        k = next(k for k, text in enumerate(rows) if not isinstance(text, str))
        raise_input("texts", "hold strings", f"{rows[k]!r:.60} at index {k}")
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=bounds[1:])
    return np.frombuffer(b"".join(parts), np.uint8), bounds


def as_list(texts: Iterable[str]) -> list[str]:
    """A list from any collection of texts: a tuple, a NumPy array, a column of a table."""
    if isinstance(texts, (str, bytes)):
        raise_input("texts", "be a list of strings", f"one {type(texts).__name__}")
    if isinstance(texts, list):
        return texts
    for name in ("to_list", "tolist"):
        if hasattr(texts, name):
            return getattr(texts, name)()
    if not isinstance(texts, Iterable):
        raise_input("texts", "be a list of strings", f"{texts!r:.60}")
    return list(texts)


def scan(
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    punctuation: bool = True,
    threads: int = 1,
    placed: bool = False,
) -> Scan:
    """Cut the texts data[bounds[i] : bounds[i + 1]] into tokens."""
    classes = _classes(punctuation)
    blocks = row_blocks(bounds, threads if data.size > _SMALL else 1)
    parts = mapped(_scan, ((data, bounds[a : b + 1], classes, placed) for a, b in blocks), threads)
    codes, starts, first, length, places = zip(*parts, strict=True)
    base = np.cumsum([0, *(part.size for part in first)])
    words = Words(data, np.concatenate(first), np.concatenate(length))
    shifts = np.cumsum([0, *(part.size for part in codes)])
    all_starts = [part[1:] + shift for part, shift in zip(starts, shifts, strict=False)]
    return Scan(
        list(codes),
        np.concatenate([[0], *all_starts]),
        lower_cased(words),
        base[:-1],
        np.concatenate(places),
    )


def _classes(punctuation: bool) -> NDArray[np.uint8]:
    table = class_table()
    if not punctuation:
        table = table.copy()
        table[[ord(mark) for mark in MARKS]] = SEPARATOR
    return table


def lower_cased(words: Words) -> Words:
    """The words in lower case, bytes side by side; Python's str.lower sees those beyond ASCII."""
    data, start, foreign = _gathered(words)
    length = words.length.copy()
    changed = {}
    for k in np.flatnonzero(foreign):
        word = data[start[k] : start[k] + length[k]].tobytes()
        if (small := word.decode().lower().encode()) != word:
            changed[k] = small
    rows = np.array([*changed], np.int64)
    length[rows] = [len(word) for word in changed.values()]
    start[rows] = data.size + np.cumsum([0, *length[rows]])[:-1]
    return Words(
        np.append(data, np.frombuffer(b"".join(changed.values()), np.uint8)), start, length
    )


@compiled
def _gathered(words: Any) -> tuple[Any, Any, Any]:
    """The words' bytes side by side, ASCII in lower case; whether a word has other bytes too."""
    start, foreign = np.zeros(words.start.size, np.int64), np.zeros(words.start.size, np.bool_)
    data = np.empty(words.length.sum(), np.uint8)
    t = 0
    for k in range(words.start.size):
        start[k] = t
        for p in range(words.start[k], words.start[k] + words.length[k]):
            data[t] = lower(words.data[p])
            foreign[k] |= data[t] >= 0x80
            t += 1
    return data, start, foreign


@compiled
def renumber(codes: Any, numbers: Any, result: Any) -> None:
    """result[t] = numbers[codes[t]]; -1 stays."""
    for t in range(codes.size):
        result[t] = numbers[codes[t]] if codes[t] >= 0 else -1


@inlined
def _width(byte: int) -> int:
    """How many bytes the character that begins with `byte` has."""
    if byte < 0x80:
        return 1
    if byte < 0xE0:
        return 2
    return 3 if byte < 0xF0 else 4


@inlined
def _code_point(data: Any, p: int, width: int) -> Any:
    """The code point of the `width` > 1 bytes at p."""
    point = np.int64(data[p]) & (0x7F >> width)
    for k in range(1, width):
        point = point << 6 | (np.int64(data[p + k]) & 0x3F)
    return point


@inlined
def _break_end(data: Any, p: int, end: int) -> int:
    """The byte after a line break <br ... /> that begins at byte p, or p + 1: only a "<"."""
    q = p + 3
    if q >= end or lower(data[p + 1]) != 98 or lower(data[p + 2]) != 114:
        return p + 1
    while q < end and (data[q] == 32 or data[q] == 9 or data[q] == 10 or data[q] == 13):
        q += 1
    if q < end and data[q] == 47:
        q += 1
    return q + 1 if q < end and data[q] == 62 else p + 1


@inlined
def _kind(data: Any, p: int, width: int, classes: Any) -> int:
    return classes[data[p]] if width == 1 else classes[_code_point(data, p, width)]


@inlined
def _joins(data: Any, p: int, end: int, classes: Any) -> bool:
    """Whether a word character follows at byte p."""
    return p < end and _kind(data, p, _width(data[p]), classes) == WORD


@compiled
def _classify(data: Any, start: int, end: int, classes: Any, kinds: Any) -> None:
    """What each byte of one text is: part of a word, a mark or a separator. `kinds` is written."""
    p = start
    while p < end:
        kind = classes[data[p]] if data[p] < 0x80 else APOSTROPHE
        if kind <= MARK:
            kinds[p - start] = kind
            p += 1
            continue
        width = _width(data[p])
        kind, stop = _kind(data, p, width, classes), p + width
        if kind == APOSTROPHE:  # part of a word between two of its characters
            after = p > start and kinds[p - start - 1] == WORD
            kind = WORD if after and _joins(data, stop, end, classes) else SEPARATOR
        elif kind == BREAK:
            kind, stop = SEPARATOR, _break_end(data, p, end)
        for q in range(p, stop):
            kinds[q - start] = kind
        p = stop


@compiled
def _edges(kinds: Any, start: int, size: int, begins: Any, ends: Any) -> int:
    """Where tokens begin and end, without a branch per byte; returns how many there are."""
    tokens = ended = 0
    inside = False
    for p in range(size):
        word, mark = kinds[p] == WORD, kinds[p] == MARK
        ends[ended] = start + p
        ended += inside and not word
        ends[ended] = start + p + 1
        ended += mark
        begins[tokens] = start + p
        tokens += mark or (word and not inside)
        inside = word
    ends[ended] = start + size
    return tokens


@compiled
def _number(begins: Any, ends: Any, table: Any, words: Any, count: int, codes: Any) -> int:
    """The code of each token; new words are entered. Returns how many words there are now."""
    for j in range(codes.size):
        p, length = begins[j], ends[j] - begins[j]
        key = word_key(words.data, p, length)
        k, slot = find_word(table, words, key, words.data, p, length)
        if k < 0:
            k = count
            put(table, slot, key, k)
            words.start[k], words.length[k] = p, length
            count += 1
        codes[j] = k
    return count


@compiled
def _scan(data: Any, bounds: Any, classes: Any, placed: bool) -> tuple[Any, Any, Any, Any, Any]:
    """Codes in order of first appearance, texts' starts, the words' bytes and the places."""
    n, room = bounds.size - 1, bounds[-1] - bounds[0] + bounds.size
    size = longest(bounds)
    kinds = np.empty(size, np.uint8)
    begins, ends = np.empty(size + 2, np.int64), np.empty(size + 2, np.int64)
    codes, starts = np.empty(room, np.int32), np.zeros(n + 1, np.int64)
    places = np.empty((room if placed else 0, 2), np.int64)
    table, first, length = empty_table(2048), np.empty(2048, np.int64), np.empty(2048, np.int64)
    count = t = 0
    for i in range(n):
        _classify(data, bounds[i], bounds[i + 1], classes, kinds)
        tokens = _edges(kinds, bounds[i], bounds[i + 1] - bounds[i], begins, ends)
        while count + tokens > first.size:  # room now, so that the loop over tokens is simple
            table, first, length = doubled(table), longer(first), longer(length)
        words = Words(data, first, length)
        count = _number(begins, ends, table, words, count, codes[t : t + tokens])
        if placed:
            places[t : t + tokens, 0], places[t : t + tokens, 1] = begins[:tokens], ends[:tokens]
            places[t + tokens] = bounds[i + 1]
        codes[t + tokens] = -1
        t += tokens + 1
        starts[i + 1] = t
    return codes[:t], starts, first[:count], length[:count], places[: t if placed else 0]
