"""Texts to a sparse matrix of n-gram counts."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import keytokens._checks as check
from keytokens.errors import raise_input
from keytokens.text._threads import available
from keytokens.text.characters import UNICODE
from keytokens.text.cutting import CompiledCutter, Cut, Cutter, FunctionCutter
from keytokens.text.ngrams import Level, document_frequency, extended
from keytokens.text.rows import sparse_rows
from keytokens.text.scanning import renumber
from keytokens.text.tokenizer import Tokenizer
from keytokens.text.vocabulary import Vocabulary, grown

Tokenize = Callable[[str], list[str]]
_LARGEST = 2**31 - 1
_LONGEST = 99  # each length is one more pass
_OPTIONS = {"ngrams", "min_count", "max_features", "binary", "punctuation", "unicode"}


class Counter:
    """Counts the n-grams of texts.

    ngrams: the shortest and the longest n-gram, in tokens. They run over punctuation marks, which
        are tokens, and never from one text into the next.
    min_count: the number of texts an n-gram must occur in to become a column.
    max_features: at most so many columns, the ones in the most texts.
    binary: 1 for an n-gram that occurs, instead of how often it does.
    tokenizer: a Tokenizer, or a function of yours from a text to its list of tokens.
    threads: all cores unless given; the result does not depend on it.

    Columns run from the n-gram in the most texts to that in the fewest; among equals, fewer tokens
    come first and then the order of the tokens' code points.

    >>> counter = Counter(ngrams=(1, 2), binary=False)
    >>> counter.fit_transform(["Good, good film", "good film!"]).toarray()
    array([[1., 2., 1.],
           [1., 1., 1.]])
    >>> counter.vocabulary_
    ['film', 'good', 'good film']
    """

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 1),
        min_count: int = 2,
        max_features: int | None = None,
        binary: bool = True,
        tokenizer: Tokenizer | Tokenize | None = None,
        threads: int | None = None,
    ) -> None:
        self.ngrams = _checked_ngrams(ngrams)
        self.min_count = check.integer("min_count", min_count, least=1)
        if max_features is not None:
            check.integer("max_features", max_features, least=1)
        self.max_features, self.binary = max_features, bool(binary)
        if not (tokenizer is None or callable(tokenizer)):
            raise_input("tokenizer", "be a Tokenizer or a function", repr(tokenizer))
        self.tokenizer = Tokenizer() if tokenizer is None else tokenizer
        self.threads = available() if threads is None else check.integer("threads", threads, 1)
        self._vocabulary: Vocabulary | None = None

    def fit(self, texts: Iterable[str]) -> "Counter":
        """Learn the columns from `texts`."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Iterable[str]) -> sparse.csr_array:
        """Learn the columns from `texts` and count them there. (n, columns)"""
        low, high = self.ngrams
        cut = self._cutter.cut(texts, self.threads)
        words, codes, tokens = self._frequent(cut)
        levels, nodes = [tokens], [codes]
        for order in range(1, high):
            level, longer = extended(
                nodes[-1], codes, cut.starts, order, self.min_count, self.threads
            )
            levels.append(level)
            nodes.append(longer)
        n = cut.starts.size - 1
        self._vocabulary, columns = grown(words, levels, n, low, self.max_features)
        if not self._vocabulary.width:
            _raise_empty(n, self.min_count, cut.size)
        for column, node in zip(columns, nodes[low - 1 :], strict=True):
            renumber(node, column, node)
        return self._rows(np.stack(nodes[low - 1 :]), cut.starts)

    def transform(self, texts: Iterable[str]) -> sparse.csr_array:
        """Count the known n-grams of other texts. (n, columns)"""
        codes, starts = self._cutter.known(texts, self._fitted, self.threads)
        return self._rows(self._fitted.columns_at(codes, *self.ngrams), starts)

    def spans(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Column, start and end of every known n-gram of one text, in the order they begin.

        Places are code points of the original text, so text[start:end] is the n-gram as written.
        """
        codes, starts, ends = self._cutter.placed(text, self._fitted)
        columns = self._fitted.columns_at(codes, *self.ngrams)
        place, order = np.nonzero(columns.T >= 0)
        last = place + order + self.ngrams[0] - 1
        return columns[order, place], starts[place], ends[last]

    def places(self, text: str) -> NDArray[np.int64]:
        """Start and end (code points) of every token of one text, known or not. (T, 2)"""
        codes, starts, ends = self._cutter.placed(text, self._fitted)
        return np.stack([starts, ends], axis=1)[: codes.size - 1]  # the last code ends the text

    @property
    def vocabulary_(self) -> list[str]:
        """Each column's n-gram, its tokens joined by one space."""
        return self._fitted.ngrams

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return self._fitted.width

    def select(self, columns: Any) -> "Counter":
        """A counter of the given columns alone, in the given order."""
        chosen = check.indices("columns", columns, self.n_features, "column", "place")
        if np.unique(chosen).size != chosen.size:
            raise_input("columns", "be distinct", "one of them twice")
        result = self._unfitted_copy()
        result._vocabulary = self._fitted.selected(chosen)
        return result

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able options, from which `from_state` builds the same counter."""
        own = self.tokenizer
        options = {
            "ngrams": list(self.ngrams),
            "min_count": self.min_count,
            "max_features": self.max_features,
            "binary": self.binary,
            "punctuation": own.punctuation if isinstance(own, Tokenizer) else None,
            "unicode": UNICODE,
        }
        return self._fitted.arrays(), options

    @classmethod
    def from_state(
        cls,
        arrays: dict[str, NDArray[Any]],
        options: dict[str, Any],
        tokenizer: Tokenize | None = None,
    ) -> "Counter":
        """The counter that `state` described; a tokeniser function must be given again."""
        if set(options) != _OPTIONS:
            raise_input("the counter's options", f"be {sorted(_OPTIONS)}", sorted(options))
        if options["unicode"] != UNICODE:
            rule = f"be those of Unicode {UNICODE}"
            raise_input("the counter's characters", rule, options["unicode"])
        if options["punctuation"] is not None:
            tokenizer = Tokenizer(options["punctuation"])
        elif tokenizer is None:
            raise_input("tokenizer", "be the function this counter was fitted with", "none")
        arguments = {name: options[name] for name in ("min_count", "max_features", "binary")}
        self = cls(options["ngrams"], tokenizer=tokenizer, **arguments)
        self._vocabulary = Vocabulary.from_arrays(arrays)
        return self

    @property
    def _fitted(self) -> Vocabulary:
        if self._vocabulary is None:
            raise_input("counter", "be fitted before use", "one that has seen no texts")
        return self._vocabulary

    @property
    def _cutter(self) -> Cutter:
        if isinstance(self.tokenizer, Tokenizer):
            return CompiledCutter(self.tokenizer)
        return FunctionCutter(self.tokenizer)

    def _unfitted_copy(self) -> "Counter":
        return Counter(
            self.ngrams,
            self.min_count,
            self.max_features,
            self.binary,
            self.tokenizer,
            self.threads,
        )

    def _frequent(self, cut: Cut) -> tuple[list[bytes], NDArray[np.int32], Level]:
        """The tokens in at least `min_count` texts, spelled and in order, and codes for them."""
        if cut.codes.size > _LARGEST:
            raise_input("texts", f"hold at most {_LARGEST} tokens together", cut.codes.size)
        frequency = document_frequency(cut.codes, cut.starts, cut.size, self.threads)
        kept = np.flatnonzero(frequency >= self.min_count)
        words = cut.spell(kept)
        order = sorted(range(kept.size), key=words.__getitem__)
        rank = np.full(cut.size, -1, np.int32)
        rank[kept[order]] = np.arange(kept.size, dtype=np.int32)
        renumber(cut.codes, rank, cut.codes)
        none = np.empty(0, np.int32)
        tokens = Level(none, none, frequency[kept[order]])
        return [words[k] for k in order], cut.codes, tokens

    def _rows(self, columns: NDArray[np.int32], starts: NDArray[np.int64]) -> sparse.csr_array:
        return sparse_rows(columns, starts, self.n_features, self.binary, self.threads)


def _checked_ngrams(ngrams: object) -> tuple[int, int]:
    if not isinstance(ngrams, (tuple, list)) or len(ngrams) != 2:
        raise_input("ngrams", "be a pair: shortest and longest", repr(ngrams))
    low, high = (check.integer("ngrams", k, least=1) for k in ngrams)
    if high > _LONGEST:
        raise_input("ngrams", f"be at most {_LONGEST} tokens long", repr(ngrams))
    if high < low:
        raise_input("ngrams", "begin with the shorter length", repr(ngrams))
    return low, high


def _raise_empty(texts: int, min_count: int, tokens: int) -> None:
    rule = f"have an n-gram that occurs in at least min_count={min_count} of them"
    raise_input("texts", rule, f"none in {texts} texts with {tokens} distinct tokens")
