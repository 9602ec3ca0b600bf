"""Corpora for the experiments on trained embeddings: drawn ones, and files of labelled reviews.

A drawn sentence of length T has `important` tokens that occur under its label alone, and T -
important others; how the experiments draw them is our choice, no paper's setting.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from keytokens._checks import Booleans, Floats
from keytokens.errors import raise_input
from keytokens.text import Counter


@dataclass(frozen=True, eq=False)
class Corpus:
    """counts (n, V), y (n,) +-1, a name and a kind for each token (V,)."""

    counts: sparse.csr_array
    y: Floats
    words: Any
    kinds: Any

    @property
    def lengths(self) -> Floats:
        """T_i = sum_s N_i(s). (n,)"""
        return np.asarray(self.counts.sum(axis=1), dtype=float).ravel()

    def rows(self, keep: Booleans) -> "Corpus":
        """The sentences that `keep` picks."""
        return Corpus(self.counts[keep], self.y[keep], self.words, self.kinds)


def drawn(
    rng: np.random.Generator,
    n: int = 200,
    T: int = 12,
    important: int = 1,
    partly: int = 6,
    uneven: bool = False,
) -> Corpus:
    """n sentences: 4 completely positive, 4 completely negative, `partly` partly predictive tokens
    (P(+|s) = .2, .8, .3, .7, ...), the rest of 38 irrelevant. uneven: token k of its kind is drawn
    with weight 1 / (1 + k // 2), so that two tokens of opposite signs stay equally frequent.
    """
    sizes = {"positive": 4, "negative": 4, "partly": partly, "irrelevant": 30 - partly}
    kinds = np.repeat(list(sizes), list(sizes.values()))
    rank = np.concatenate([np.arange(size) for size in sizes.values()])
    weight = 1 / (1.0 + rank // 2) if uneven else np.ones(len(kinds))
    posterior = np.where(kinds == "irrelevant", 0.5, 0.0)  # P(+ | s) of the filling tokens
    posterior[kinds == "partly"] = 0.5 + 0.3 * (-1.0) ** (1 + np.arange(partly)) * (
        1 - np.arange(partly) // 2 / 3
    )
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    counts = np.zeros((n, len(kinds)))
    for i, label in enumerate(y):
        key = weight * (kinds == ("positive" if label > 0 else "negative"))
        fill = weight * (posterior if label > 0 else (posterior > 0) * (1 - posterior))
        for chance, size in ((key, important), (fill, T - important)):
            np.add.at(counts[i], rng.choice(len(kinds), size=size, p=chance / chance.sum()), 1.0)
    words = [f"{kind} {k}" for kind, k in zip(kinds, rank, strict=True)]
    return Corpus(sparse.csr_array(counts), y, np.array(words), kinds)


@lru_cache(maxsize=2)
def reviews(path: str, min_count: int = 5) -> tuple[Corpus, Corpus]:
    """(train, test) of a file with columns text and label (two of them).

    A column `split` (train, test) is kept to; without one, every fourth row is test. Where a
    column `balanced` marks a half-and-half part of the training rows, that part is the training.
    Word unigrams in at least `min_count` texts, counted; empty texts are left out.
    """
    frame = table(path, ("text", "label"))
    test = _is_test(frame)
    train = ~test
    if "balanced" in frame.columns:
        train &= frame["balanced"].to_numpy()
    y = _signs(path, frame["label"])
    texts = frame["text"].to_list()
    counter = Counter(ngrams=(1, 1), min_count=min_count, binary=False)
    counts = counter.fit_transform([texts[i] for i in np.flatnonzero(train)])
    held = counter.transform([texts[i] for i in np.flatnonzero(test)])
    words = np.asarray(counter.vocabulary_)
    kinds = _kinds(counts, y[train])
    return _filled(Corpus(counts, y[train], words, kinds)), _filled(
        Corpus(held, y[test], words, kinds)
    )


def table(path: str, columns: tuple[str, ...]) -> Any:
    """The file as a polars DataFrame that has the columns."""
    import polars as pl

    readers: dict[str, Any] = {
        ".parquet": pl.read_parquet,
        ".csv": pl.read_csv,
        ".jsonl": pl.read_ndjson,
    }
    suffix = Path(path).suffix
    if suffix not in readers:
        raise_input("data", f"be a file of {', '.join(readers)}", repr(Path(path).name))
    frame = readers[suffix](path)
    for name in columns:
        if name not in frame.columns:
            raise_input(Path(path).name, f"have a column {name}", ", ".join(frame.columns))
    return frame


def _is_test(frame: Any) -> Booleans:
    if "split" in frame.columns:
        return (frame["split"] == "test").to_numpy()
    return np.arange(frame.height) % 4 == 3


def _signs(path: str, labels: Any) -> Floats:
    """-1 for the first of two sorted labels, +1 for the second. (n,)"""
    classes, index = np.unique(labels.to_numpy(), return_inverse=True)
    if len(classes) != 2:
        raise_input(f"{Path(path).name}: label", "have two values", f"{len(classes)}")
    return np.where(index == 1, 1.0, -1.0)


def _kinds(counts: sparse.csr_array, y: Floats) -> Any:
    """Where a token occurs: under + only, under - only, or both."""
    plus, minus = (np.asarray(counts.T @ (y == s).astype(float)) for s in (1, -1))
    return np.select([minus == 0, plus == 0], ["positive", "negative"], "both")


def _filled(corpus: Corpus) -> Corpus:
    return corpus.rows(corpus.lengths > 0)
