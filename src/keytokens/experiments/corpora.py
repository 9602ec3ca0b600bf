"""Corpora for the experiments on trained embeddings: drawn ones, and files of labelled reviews.

A drawn sentence of length T has `important` tokens that occur under its label alone, and T -
important others; how the experiments draw them is our choice, no paper's setting.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from keytokens._checks import Booleans, Floats
from keytokens.embedding.frequencies import signed_frequency
from keytokens.errors import raise_input
from keytokens.experiments.verdict import Verdict
from keytokens.text import Counter, Table, read_table

COLOURS = {"positive": "C0", "negative": "C1", "partly": "C2", "irrelevant": "0.6"}  # of kinds


@dataclass(frozen=True, eq=False)
class Corpus:
    """counts (n, V), y (n,) +-1, a name and a kind for each token (V,); the texts, if any (n,)."""

    counts: sparse.csr_array
    y: Floats
    words: Any
    kinds: Any
    texts: Sequence[str] = ()

    @property
    def lengths(self) -> Floats:
        """T_i = sum_s N_i(s). (n,)"""
        return np.asarray(self.counts.sum(axis=1), dtype=float).ravel()

    def rows(self, keep: Booleans) -> "Corpus":
        """The sentences that `keep` picks."""
        texts = [self.texts[i] for i in np.flatnonzero(keep).tolist()] if self.texts else ()
        return Corpus(self.counts[keep], self.y[keep], self.words, self.kinds, texts)


def drawn(
    rng: np.random.Generator,
    n: int = 200,
    T: int = 12,
    important: int = 1,
    partly: int = 6,
    uneven: bool = False,
    scale: int = 1,
    paired: bool = False,
) -> Corpus:
    """n sentences: 4 completely positive, 4 completely negative, `partly` partly predictive tokens
    (P(+|s) = .2, .8, .3, .7, ...), the rest of 38 irrelevant. uneven: token k of its kind is drawn
    with weight 1 / (1 + k // 2), so that two tokens of opposite signs stay equally frequent.
    scale: so many times the tokens, but for the partly predictive ones. paired: sentences 2k and
    2k + 1, of opposite labels, share their irrelevant tokens, whose alpha is then exactly 0.
    """
    sizes = {"positive": 4 * scale, "negative": 4 * scale, "partly": partly,
             "irrelevant": 30 * scale - partly}  # fmt: skip
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
        if paired and i % 2:
            idle = kinds == "irrelevant"
            counts[i, idle] = counts[i - 1, idle]
    words = [f"{kind} {k}" for kind, k in zip(kinds, rank, strict=True)]
    return Corpus(sparse.csr_array(counts), y, np.array(words), kinds)


def reviews(path: str, min_count: int = 5) -> tuple[Corpus, Corpus]:
    """(train, test) of a file with columns text and label (two of them, words or numbers).

    The label that sorts last is +1. A column `split` is kept to: its rows "train" and "test", no
    others; without one, every fourth row of either label is test. Where a column `balanced` marks
    a half-and-half part of the training rows, that part is the training. Word unigrams in at least
    `min_count` training texts, counted; texts without any are left out.
    """
    status = os.stat(path)
    return _reviews(path, min_count, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _reviews(path: str, min_count: int, *version: int) -> tuple[Corpus, Corpus]:
    """As above; `version` tells two states of one file apart."""
    table = read_table(path, "text", "label")
    y = _signs(path, table.labels)
    train, test = train_and_test(path, table, y)
    counter = Counter(ngrams=(1, 1), min_count=min_count, binary=False)
    seen, unseen = (_texts(table, part) for part in (train, test))
    counts, held = counter.fit_transform(seen), counter.transform(unseen)
    words = np.asarray(counter.vocabulary_)
    kinds = _kinds(counts, y[train])
    both = (
        _filled(Corpus(counts, y[train], words, kinds, seen)),
        _filled(Corpus(held, y[test], words, kinds, unseen)),
    )
    _check_content(Path(path).name, *both)
    return both


def _check_content(name: str, train: Corpus, test: Corpus) -> None:
    """Something to learn, and something to try it on."""
    if not len(test.y):
        raise_input(name, "have test rows with a word of the training rows", "none")
    if not np.abs(signed_frequency(train.counts, train.y)).max() > 1e-12:
        raise_input(name, "have a word that stands more often under one label", "none")


def column(path: str, name: str) -> Any:
    """A column of the file; None without it. (n,)"""
    if name not in read_table(path, "text", label=False).columns:
        return None
    return read_table(path, "text", name).labels


def train_and_test(path: str, table: Table, labels: Any) -> tuple[Booleans, Booleans]:
    """Which rows are training, and which are test; see `reviews`. (n,) both"""
    split = column(path, "split") if "split" in table.columns else None
    if split is None:
        test = np.zeros(len(labels), bool)
        for label in np.unique(labels):
            test[np.flatnonzero(labels == label)[3::4]] = True
        train = ~test
    else:
        train, test = split == "train", split == "test"
    if "balanced" in table.columns:
        train &= np.array([str(b).lower() in ("true", "1") for b in column(path, "balanced")])
    if not (train.any() and test.any()):
        came = f"{train.sum()} and {test.sum()}"
        raise_input(Path(path).name, "have training rows and test rows", came)
    return train, test


def _texts(table: Table, part: Booleans) -> list[str]:
    return [table.texts[i] for i in np.flatnonzero(part)]


def _signs(path: str, labels: Any) -> Floats:
    """-1 for the first of two sorted labels, +1 for the second. (n,)"""
    classes, index = np.unique(labels, return_inverse=True)
    if len(classes) != 2:
        raise_input(f"{Path(path).name}: label", "have two values", f"{len(classes)}")
    return np.where(index == 1, 1.0, -1.0)


def _kinds(counts: sparse.csr_array, y: Floats) -> Any:
    """Where a token occurs: under + only, under - only, or both."""
    plus, minus = (np.asarray(counts.T @ (y == s).astype(float)) for s in (1, -1))
    return np.select([minus == 0, plus == 0], ["positive", "negative"], "both")


def _filled(corpus: Corpus) -> Corpus:
    return corpus.rows(corpus.lengths > 0)


def parts(rows: Any) -> list[tuple[str, Any]]:
    """(name, rows) of each file; all rows at once where no file was read."""
    if "corpus" not in rows.columns:
        return [("drawn corpus", rows)]
    return [(name, part) for (name,), part in rows.group_by("corpus", maintain_order=True)]


def by_corpus(verdicts: Callable[[Any], list[Verdict]]) -> Callable[[Any], list[Verdict]]:
    """Decide every claim for each file by itself: one may have what another lacks."""

    @wraps(verdicts)
    def each(rows: Any) -> list[Verdict]:
        if "corpus" not in rows.columns:
            return verdicts(rows)
        return [
            replace(verdict, claim=f"{name}: {verdict.claim}")
            for name, part in parts(rows)
            for verdict in verdicts(part)
        ]

    return each
