"""The two ways from texts to token codes: the compiled scanner, or a function of the user's."""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from keytokens.errors import raise_input
from keytokens.text.hashing import Words, find_words, unify
from keytokens.text.scanning import as_list, encoded, scan
from keytokens.text.tokenizer import Tokenizer
from keytokens.text.vocabulary import Vocabulary

Codes = tuple[NDArray[np.int32], NDArray[np.int64]]
Places = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]


class Cut(NamedTuple):
    """Texts as codes of the distinct tokens: one text after the other, a -1 after each.

    starts (n + 1,): text i is codes[starts[i] : starts[i + 1] - 1]; `spell` gives tokens' UTF-8.
    """

    codes: NDArray[np.int32]
    starts: NDArray[np.int64]
    size: int
    spell: Callable[[NDArray[np.int64]], list[bytes]]


class Cutter(Protocol):
    def cut(self, texts: Iterable[str], threads: int) -> Cut: ...

    def known(self, texts: Iterable[str], vocabulary: Vocabulary, threads: int) -> Codes:
        """The vocabulary's codes (-1: not there) and the texts' starts."""

    def placed(self, text: str, vocabulary: Vocabulary) -> Places:
        """One text's codes, and each token's start and end in code points."""


class CompiledCutter:
    """Tokens as `Tokenizer` defines them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.punctuation = tokenizer.punctuation

    def cut(self, texts: Iterable[str], threads: int) -> Cut:
        found = scan(*encoded(texts), self.punctuation, threads)
        _, numbers, first = unify(found.words)
        data, start, length = found.words
        distinct = Words(data, start[first], length[first])
        codes = found.numbered(numbers, threads)
        return Cut(codes, found.starts, first.size, distinct.spelled)

    def known(self, texts: Iterable[str], vocabulary: Vocabulary, threads: int) -> Codes:
        found = scan(*encoded(texts), self.punctuation, threads)
        numbers = find_words(vocabulary.word_table, vocabulary.words, found.words)
        return found.numbered(numbers, threads), found.starts

    def placed(self, text: str, vocabulary: Vocabulary) -> Places:
        data, bounds = encoded([text])
        found = scan(data, bounds, self.punctuation, placed=True)
        numbers = find_words(vocabulary.word_table, vocabulary.words, found.words)
        # A code point is a byte that does not continue another one's.
        points = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
        starts, ends = points[found.places].T
        return found.numbered(numbers, 1), starts, ends


class FunctionCutter:
    """Tokens from the user's function: text -> list of strings."""

    def __init__(self, function: Callable[[str], list[str]]) -> None:
        self.function = function

    def cut(self, texts: Iterable[str], threads: int) -> Cut:
        seen: dict[str, int] = {}
        rows = [
            [seen.setdefault(token, len(seen)) for token in self._tokens(text, i)]
            for i, text in enumerate(as_list(texts))
        ]
        tokens = [token.encode("utf-8", "surrogatepass") for token in seen]
        return Cut(*_in_a_row(rows), len(tokens), lambda wanted: [tokens[k] for k in wanted])

    def known(self, texts: Iterable[str], vocabulary: Vocabulary, threads: int) -> Codes:
        rows = [
            [vocabulary.code.get(token, -1) for token in self._tokens(text, i)]
            for i, text in enumerate(as_list(texts))
        ]
        return _in_a_row(rows)

    def placed(self, text: str, vocabulary: Vocabulary) -> Places:
        """A token stands where it is next found, in its own case or in lower case; one that is
        not found (a stem) has an empty place where the search stands."""
        tokens = self._tokens(text, 0)
        codes, _ = _in_a_row([[vocabulary.code.get(token, -1) for token in tokens]])
        small = text.lower() if len(text.lower()) == len(text) else text
        places, after = [], 0
        for token in tokens:
            start = text.find(token, after)
            start = small.find(token, after) if start < 0 else start
            places.append((after, after) if start < 0 else (start, start + len(token)))
            after = places[-1][1]
        starts, ends = np.array(places, np.int64).reshape(-1, 2).T
        return codes, starts, ends

    def _tokens(self, text: str, i: int) -> list[str]:
        if not isinstance(text, str):
            raise_input("texts", "hold strings", f"{text!r:.60} at index {i}")
        tokens = self.function(text)
        if not isinstance(tokens, (list, tuple)) or not all(
            isinstance(token, str) and token for token in tokens
        ):
            raise_input(
                "tokenizer", "return a list of non-empty strings", f"{tokens!r:.60} for text {i}"
            )
        return list(tokens)


def _in_a_row(rows: list[list[int]]) -> Codes:
    starts = np.cumsum([0, *(len(row) + 1 for row in rows)], dtype=np.int64)
    codes = np.full(starts[-1], -1, np.int32)
    for row, start in zip(rows, starts, strict=False):
        codes[start : start + len(row)] = row
    return codes, starts
