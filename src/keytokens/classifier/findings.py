"""What the data look like, and how good a model is on them, in figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from keytokens.classifier.counts import SelectionClassifier
from keytokens.embedding.concentration import carrying, effective_tokens
from keytokens.embedding.frequencies import frequency_behind, pulls
from keytokens.embedding.heldout import held_out_rows

if TYPE_CHECKING:
    from keytokens.classifier.texts import KeyTokenClassifier

_SAMPLE = 1000  # texts on which concentration is measured
_SURE = 0.99  # a label this improbable is a likely error
_JUDGED = 20  # texts of every class below which labels are not judged


@dataclass(frozen=True)
class Accuracy:
    """Right answers of n, with a 95 % interval (Wilson) and the standard error."""

    rows: int
    accuracy: float
    low: float
    high: float
    error: float

    def __str__(self) -> str:
        return (
            f"{self.accuracy:.2%} ± {self.error:.2%} on {self.rows:,} texts "
            f"(95 % interval {self.low:.2%} to {self.high:.2%})"
        )


def accuracy_of(share: float, rows: int) -> Accuracy:
    """The Wilson score interval: defined at 0 and 1 and for few rows.

    >>> print(accuracy_of(0.9, 100))
    90.00% ± 3.00% on 100 texts (95 % interval 82.56% to 94.48%)
    """
    z = 1.959963984540054
    centre = (share + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * sqrt(share * (1 - share) / rows + z * z / (4 * rows * rows))
    error = sqrt(share * (1 - share) / rows)
    return Accuracy(rows, share, max(centre - half, 0.0), min(centre + half, 1.0), error)


def duplicates(texts: Sequence[str], labels: Sequence[Any]) -> tuple[int, list[tuple[int, int]]]:
    """How many texts repeat an earlier one, and the pairs (earlier, later) with other labels."""
    first: dict[str, int] = {}
    repeated, opposite = 0, []
    for row, text in enumerate(texts):
        earlier = first.setdefault(text, row)
        if earlier != row:
            repeated += 1
            if labels[earlier] != labels[row]:
                opposite.append((earlier, row))
    return repeated, opposite


def shared(texts: Sequence[str], others: Sequence[str]) -> int:
    """How many of `others` stand among `texts`."""
    known = set(texts)
    return sum(text in known for text in others)


def suspects(model: "KeyTokenClassifier", texts: Sequence[str], labels: Any) -> np.ndarray:
    """Rows whose label is very improbable, the least probable first.

    Each half of the texts is judged by a model of the other half: who has seen a wrong label has
    learned it. Small classes are not judged.
    """
    counts, labels = model.counts(texts), np.asarray(labels)
    _, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    own, half = np.ones(len(labels)), held_out_rows(index, seed=0, every=2)
    for part in (half, ~half) if sizes.min() >= _JUDGED else ():
        judge = SelectionClassifier(n_jobs=model.n_jobs).fit(counts[~part], labels[~part])
        probability = judge.predict_proba(counts[part])
        own[part] = probability[np.arange(len(probability)), index[part]]
    rows = np.flatnonzero(own < 1 - _SURE)
    return rows[np.argsort(own[rows], kind="stable")]


def warnings_of(
    model: "KeyTokenClassifier", texts: list[str], labels: Any, test: list[str] | None
) -> list[str]:
    """What a careful person would want to know before trusting the figures."""
    repeated, opposite = duplicates(texts, labels)
    found = []
    if repeated:
        found.append(f"{repeated:,} texts repeat an earlier one.")
    if opposite:
        pairs = ", ".join(f"{i + 1} and {j + 1}" for i, j in opposite[:3])
        found.append(f"{len(opposite):,} repeat it under another label: rows {pairs}.")
    if test is not None and (common := shared(texts, test)):
        found.append(f"{common:,} of the test texts are among the training texts.")
    if len(wrong := suspects(model, texts, labels)):
        rows = ", ".join(str(row + 1) for row in wrong[:5])
        found.append(f"{len(wrong):,} labels look wrong; the least likely: rows {rows}.")
    return found


def key_tokens(model: "KeyTokenClassifier", length: float, size: int = 8) -> dict[str, list[str]]:
    """The n-grams that move texts of this mean length furthest towards each class."""
    vocabulary = model.vocabulary_
    phi = frequency_behind(model.signed_frequency_, model.posterior_difference_)
    towards = pulls(model.scores_, phi, length).sum(axis=0)
    both = len(towards) == 1
    towards = np.vstack([-towards, towards]) if both else towards - towards.mean(axis=0)
    told = {}
    for label, pull in zip(model.classes_.tolist(), towards, strict=True):
        order = np.argsort(-pull, kind="stable")[:size]
        told[str(label)] = [vocabulary[s] for s in order if pull[s] > 0]
    return told


def summary(
    model: "KeyTokenClassifier",
    texts: list[str],
    labels: Any,
    accuracy: Accuracy | None,
    how: str,
    test: list[str] | None = None,
) -> dict[str, Any]:
    """Everything `fit` reports, for people and machines."""
    step = max(1, len(texts) // _SAMPLE)
    counts = model.counts(texts[::step])
    length = float(np.diff(counts.indptr).mean())
    classes, sizes = np.unique(labels, return_counts=True)
    return {
        "texts": len(texts),
        "classes": {str(c): int(k) for c, k in zip(classes.tolist(), sizes, strict=True)},
        "vocabulary": len(model.vocabulary_),
        "ngrams": list(model.ngrams),
        "training": model.training,
        "selectivity": model.selectivity,
        "iterations": model.core_.n_iter_,
        "reason": model.core_.reason_,
        "accuracy": None if accuracy is None else asdict(accuracy) | {"measured": how},
        "tokens_per_text": length,
        "effective_tokens": float(effective_tokens(model.scores_, counts).mean()),
        "tokens_carrying_80": float(carrying(model.scores_, counts).mean()),
        "key_tokens": key_tokens(model, length),
        "warnings": warnings_of(model, texts, labels, test),
    }
