"""Texts to a sparse matrix of n-gram counts."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from keytokens.errors import raise_input
from keytokens.text.tokenizer import Tokenizer


class Counter:
    """Counts n-grams. Columns run from the n-gram in most texts to the one in fewest; ties: fewer
    tokens first, then by the columns' order of their tokens."""

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 1),
        min_count: int = 2,
        max_features: int | None = None,
        binary: bool = True,
        tokenizer: Tokenizer | Callable[[str], list[str]] | None = None,
    ) -> None:
        self.ngrams, self.min_count, self.max_features = ngrams, min_count, max_features
        self.binary, self.tokenizer = binary, tokenizer or Tokenizer()

    def _grams(self, tokens: list[str]) -> list[tuple[str, ...]]:
        low, high = self.ngrams
        return [
            tuple(tokens[i : i + k])
            for k in range(low, high + 1)
            for i in range(len(tokens) - k + 1)
        ]

    def fit_transform(self, texts: Iterable[str]) -> sparse.csr_array:
        bags = [self._grams(self.tokenizer(text)) for text in texts]
        seen = Tally(gram for bag in bags for gram in set(bag))
        kept = [gram for gram, count in seen.items() if count >= self.min_count]
        kept.sort(key=lambda g: (-seen[g], len(g), g))
        if not kept:
            raise_input("texts", f"share n-grams (min_count={self.min_count})", "none")
        self._column = {g: j for j, g in enumerate(kept[: self.max_features])}
        self.vocabulary_ = [" ".join(g) for g in self._column]
        return self._rows(bags)

    def transform(self, texts: Iterable[str]) -> sparse.csr_array:
        return self._rows([self._grams(self.tokenizer(text)) for text in texts])

    def _rows(self, bags: list[list[tuple[str, ...]]]) -> sparse.csr_array:
        rows = [
            sorted(Tally(self._column[g] for g in b if g in self._column).items()) for b in bags
        ]
        indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
        indices = np.array([j for row in rows for j, _ in row], np.int32)
        data = np.array([1.0 if self.binary else c for row in rows for _, c in row], np.float64)
        return sparse.csr_array((data, indices, indptr), (len(rows), len(self._column)))

    def spans(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """Columns, starts and ends (code points) of the n-grams found in `text`, in order."""
        tokens = self.tokenizer.tokens(text)  # type: ignore[union-attr]
        low, high = self.ngrams
        found = [
            (self._column[gram], tokens[i][1], tokens[i + k - 1][2])
            for i in range(len(tokens))
            for k in range(low, high + 1)
            if (gram := tuple(t for t, _, _ in tokens[i : i + k])) in self._column
            and len(gram) == k
        ]
        columns, starts, ends = np.array(found, np.int64).reshape(-1, 3).T
        return columns.astype(np.int32), starts, ends

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON-able options for the model file."""
        grams = ["\n".join(g).encode() for g in self._column]
        offsets = np.cumsum([0, *map(len, grams)])
        options = dict(ngrams=list(self.ngrams), min_count=self.min_count, binary=self.binary)
        return {"bytes": np.frombuffer(b"".join(grams), np.uint8), "offsets": offsets}, options

    @classmethod
    def from_state(
        cls,
        arrays: dict[str, NDArray[Any]],
        options: dict[str, Any],
        tokenizer: Callable[[str], list[str]] | None = None,
    ) -> "Counter":
        """The counter that `state` described; a tokeniser of your own must be given again."""
        self = cls(**options | {"ngrams": tuple(options["ngrams"]), "tokenizer": tokenizer})
        data, offsets = arrays["bytes"].tobytes(), arrays["offsets"]
        grams = [data[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        self._column = {tuple(g.split("\n")): j for j, g in enumerate(grams)}
        self.vocabulary_ = [" ".join(g) for g in self._column]
        return self
