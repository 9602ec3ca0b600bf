"""Explanations of many texts at once: columns first, objects when they are looked at."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens.embedding.scores import AttentionScores, weights
from keytokens.errors import raise_input
from keytokens.explain.bag import Bag
from keytokens.explain.explanation import Explanation, probabilities
from keytokens.explain.spans import Occurrences

_IN_NOTEBOOK = 5


class Counting(Protocol):
    """What explanations need to know of the counter."""

    binary: bool
    vocabulary_: Any

    def transform(self, texts: Any) -> Any: ...

    def places(self, text: str) -> Any: ...

    def spans(self, text: str) -> tuple[Any, Any, Any]: ...


class Model(Protocol):
    """What explanations need to know of a fitted model."""

    @property
    def scores_(self) -> AttentionScores: ...

    @property
    def classes_(self) -> Any: ...

    @property
    def counter_(self) -> Any: ...


def explain(model: Model, texts: str | Iterable[str]) -> "Explanation | Explanations":
    """Explain one text, or many."""
    if isinstance(texts, str):
        return _one(model, texts)
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise_input("texts", "be a text or several texts", type(texts).__name__)
    listed = list(texts)
    if bad := next((k for k, text in enumerate(listed) if not isinstance(text, str)), None):
        raise_input("texts", "hold strings", f"{listed[bad]!r} at input {bad}")
    return Explanations(listed, model, model.counter_.transform(listed))


def _one(model: Model, text: str, output: int | None = None) -> Explanation:
    columns, starts, ends = model.counter_.spans(text)
    distinct, feature, times = np.unique(columns, return_inverse=True, return_counts=True)
    counts = np.ones(len(distinct)) if model.counter_.binary else times.astype(np.float64)
    bag = Bag.of(model.scores_, distinct.astype(np.int64), counts)
    if output is None:
        output = bag.decide(bag.logits) if len(bag.bias) > 1 else 0
    return Explanation(
        text,
        tuple(np.asarray(model.classes_).tolist()),
        model.counter_,
        bag,
        Occurrences(feature.reshape(-1), np.asarray(starts), np.asarray(ends)),
        np.asarray(model.counter_.places(text)),
        output,
    )


@dataclass(frozen=True, eq=False)
class Explanations(Sequence[Explanation]):
    """Columns over all texts; `explanations[i]` makes the i-th Explanation when asked.

    counts: CSR (n, V). Token columns are aligned with counts.indices (nnz,), text columns are (n,).
    """

    texts: list[str]
    model: Model
    counts: Any

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Explanations(self.texts[index], self.model, self.counts[index])
        place = range(len(self))[index]
        return _one(self.model, self.texts[place])

    def __iter__(self) -> Iterator[Explanation]:
        return (_one(self.model, text) for text in self.texts)

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        return weights(self.model.scores_, self.counts)

    @property
    def attention(self) -> Floats:
        """The mean weight over the maps. (nnz,)"""
        w = self._weights[0]
        return w[0] if len(w) == 1 else w.mean(axis=0)

    @cached_property
    def contributions(self) -> Floats:
        """sum_m w[m, i, s] b[m, k, s] for every token of every text. (K, nnz)"""
        value, columns = self.model.scores_.value, self.counts.indices
        credit = np.empty((value.shape[1], len(columns)))
        for k in range(len(credit)):
            credit[k] = sum(
                w * np.take(b[k], columns) for w, b in zip(self._weights[0], value, strict=True)
            )
        return credit

    @cached_property
    def constant(self) -> Floats:
        """What <cls> adds to each logit. (n, K)"""
        return np.einsum("mn,mk->nk", self._weights[1], self.model.scores_.value[:, :, -1])

    @cached_property
    def logits(self) -> Floats:
        """bias + <cls> + the sum of the contributions. (n, K)"""
        sums = [_row_sums(credit, self.counts.indptr) for credit in self.contributions]
        return self.model.scores_.bias + self.constant + np.stack(sums, axis=1)

    @property
    def probabilities(self) -> Floats:
        """P(class). (n, classes)"""
        return probabilities(self.logits)

    @property
    def labels(self) -> Any:
        """The class each text is decided for. (n,)"""
        logits = self.logits
        places = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(axis=1)
        return np.asarray(self.model.classes_)[places.astype(np.int64)]

    @cached_property
    def effective_tokens(self) -> Floats:
        """(sum_s w_s)^2 / sum_s w_s^2 of every text, <cls> aside. (n,)"""
        total = _row_sums(self.attention, self.counts.indptr)
        squares = _row_sums(self.attention**2, self.counts.indptr)
        return np.divide(total**2, squares, out=np.zeros_like(squares), where=squares > 0)

    def to_html(self, path: str | Path, limit: int = 200, size: int = 20_000_000) -> None:
        """One self-contained page of the first texts; the page says how many it shows.

        At most `limit` texts, and at most about `size` bytes.
        """
        from keytokens.explain.html import write_html

        check.integer("limit", limit, least=1)
        check.integer("size", size, least=1)
        write_html(self[:limit], path, len(self), size)

    def _repr_html_(self) -> str:
        from keytokens.explain.html import notebook_of

        return notebook_of(self[:_IN_NOTEBOOK], len(self))

    def to_frame(self) -> Any:
        """A polars DataFrame, one row a token."""
        from keytokens.explain.formats import to_frame

        return to_frame(self)

    def __repr__(self) -> str:
        return f"Explanations of {len(self)} texts, {len(self.counts.indices)} tokens"


def _row_sums(values: Floats, indptr: Integers) -> Floats:
    """The sum over each row of a CSR matrix, empty rows 0. (nnz,) -> (n,)"""
    sums = np.add.reduceat(np.append(values, 0.0), indptr[:-1]) if len(indptr) > 1 else np.zeros(0)
    return np.where(np.diff(indptr) > 0, sums, 0.0)
