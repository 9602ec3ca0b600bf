"""Explanation: which tokens a decision rests on, exactly."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens.explain import sets
from keytokens.explain.bag import Bag
from keytokens.explain.spans import Occurrences, share_on_words

CLS = "<cls>"


@dataclass(frozen=True)
class Token:
    """text[start:end] of the original text (code points), with what it adds to the logit.

    contribution = attention * value. With several maps the attention is their mean and the value
    their weighted sum. The constant <cls> token stands nowhere: start == end.
    """

    text: str
    start: int
    end: int
    attention: float
    value: float
    contribution: float

    @property
    def is_constant(self) -> bool:
        """Is this the <cls> token that every text has?"""
        return self.start == self.end and self.text == CLS


class Feature(NamedTuple):
    """A distinct n-gram of the text (all its places together), or <cls>."""

    text: str
    attention: float
    value: float
    contribution: float


@dataclass(frozen=True)
class Side:
    """One class: its logit, and what speaks most for it and most against it, strongest first."""

    label: Any
    logit: float
    for_it: list[tuple[str, float]]
    against: list[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the model decided as it did on one text.

    `tokens` are the known n-grams at their places, and <cls>: their contributions and `bias` sum
    to `logit`. `words` carry the same sum, each n-gram's share divided among its words.
    With two classes positive speaks for classes[1]; with more, for classes[output].
    """

    text: str
    classes: tuple[Any, ...]
    counter: Any
    bag: Bag
    occurrences: Occurrences
    word_spans: Integers
    output: int = 0

    def of_class(self, label: Any) -> "Explanation":
        """The same text, explained for another class: what speaks for and against it."""
        check.one_of("label", label, self.classes)
        if len(self.bag.bias) == 1:
            return self
        return replace(self, output=self.classes.index(label))

    @property
    def label(self) -> Any:
        """The class the model decides for."""
        return self.classes[self.bag.decide(self.bag.logits)]

    @property
    def explained_class(self) -> Any:
        """The class that positive contributions speak for."""
        return self.classes[1] if len(self.bag.bias) == 1 else self.classes[self.output]

    @property
    def logit(self) -> float:
        """The raw logit that the contributions and the bias sum to."""
        return float(self.bag.logits[self.output])

    @property
    def bias(self) -> float:
        """The part of the logit that no token carries."""
        return float(self.bag.bias[self.output])

    @cached_property
    def probabilities(self) -> dict[Any, float]:
        """P(class), in the order of the classes."""
        return dict(
            zip(self.classes, probabilities(self.bag.logits[None])[0].tolist(), strict=True)
        )

    @cached_property
    def tokens(self) -> list[Token]:
        """Every known n-gram at its place in the text, then <cls> where the model has one."""
        where = self.occurrences
        attention = where.split(self._attention[:-1])
        credit = where.split(self._credit[:-1])
        found = self._listed(where.starts, where.ends, attention, credit, where.feature)
        return found + self._constant()

    @cached_property
    def words(self) -> list[Token]:
        """Every word of the text, unknown ones included, then <cls> where the model has one."""
        attention, credit = (
            share_on_words(self.occurrences, self.occurrences.split(part[:-1]), self.word_spans)
            for part in (self._attention, self._credit)
        )
        starts, ends = self.word_spans.T
        return self._listed(starts, ends, attention, credit) + self._constant()

    @property
    def word_contributions(self) -> Floats:
        """The contributions of `words` as an array, <cls> left out. (N,)"""
        credit = self.occurrences.split(self._credit[:-1])
        return share_on_words(self.occurrences, credit, self.word_spans)

    @property
    def features(self) -> list[Feature]:
        """The distinct n-grams and <cls>, largest |contribution| first; they sum as `tokens` do."""
        size = len(self._credit) if self._has_constant else len(self._credit) - 1
        order = np.argsort(-np.abs(self._credit[:size]), kind="stable").tolist()
        columns = (self._attention, self._value, self._credit)
        return [Feature(self.name(s), *(float(column[s]) for column in columns)) for s in order]

    def sides(self, limit: int = 5) -> list[Side]:
        """What speaks for and against each class, at most `limit` n-grams a side."""
        check.integer("limit", limit, least=1)
        credit = self.bag.contributions
        if len(credit) == 1:  # the one logit speaks for classes[1], and as much against classes[0]
            return [
                self._side(label, sign * self.logit, sign * credit[0], limit)
                for label, sign in zip(self.classes, (-1.0, 1.0), strict=True)
            ]
        rows = zip(self.classes, self.bag.logits.tolist(), credit, strict=True)
        return [self._side(label, logit, row, limit) for label, logit, row in rows]

    def _side(self, label: Any, logit: float, credit: Floats, limit: int) -> Side:
        def listed(sign: float) -> list[tuple[str, float]]:
            order = np.argsort(-sign * credit, kind="stable")[:limit].tolist()
            return [(self.name(s), float(credit[s])) for s in order if sign * credit[s] > 0]

        return Side(label, logit, listed(1.0), listed(-1.0))

    def name(self, place: int) -> str:
        """The n-gram at this place among the text's distinct ones; <cls> stands last."""
        if place == self.bag.size:
            return CLS
        return str(self.counter.vocabulary_[int(self.bag.columns[place])])

    @cached_property
    def effective_tokens(self) -> float:
        """(sum_s w_s)^2 / sum_s w_s^2: over how many of the text's tokens attention is spread.

        <cls> stands aside.
        """
        own = self._attention[:-1]
        squares = float((own**2).sum())
        return float(own.sum()) ** 2 / squares if squares > 0 else 0.0

    def tokens_carrying(self, share: float = 0.8) -> int:
        """How many distinct tokens carry this share of the sum of |contribution|."""
        sizes = np.sort(np.abs(self._credit))[::-1]
        if not sizes.any():
            return 0
        reached = np.cumsum(sizes) >= share * sizes.sum() * (1 - 1e-12)
        return int(np.argmax(reached)) + 1

    @cached_property
    def sufficient(self) -> sets.TokenSet:
        """The smallest set of distinct tokens that alone keeps the decision."""
        return sets.sufficient_set(self.bag)

    @cached_property
    def flipping(self) -> sets.TokenSet | None:
        """The smallest set of distinct tokens whose removal changes the decision, or None."""
        return sets.flipping_set(self.bag)

    def names(self, found: sets.TokenSet | None) -> list[str]:
        """The n-grams of a set."""
        return [] if found is None else [self.name(place) for place in found.places]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        from keytokens.explain.formats import to_dict

        return to_dict(self)

    def to_frame(self) -> Any:
        """A polars DataFrame, one row a token."""
        from keytokens.explain.formats import to_frame

        return to_frame([self])

    def to_html(self, path: str | Path) -> None:
        """One self-contained page."""
        from keytokens.explain.html import write_html

        write_html([self], path)

    def _repr_html_(self) -> str:
        from keytokens.explain.html import notebook

        return notebook(self)

    def __str__(self) -> str:
        from keytokens.explain.terminal import plain

        return plain(self)

    def __repr__(self) -> str:
        size = len(self.occurrences.feature)
        return f"Explanation(label={self.label!r}, logit={self.logit:.4g}, {size} tokens)"

    @cached_property
    def _attention(self) -> Floats:
        """The mean weight over the maps. (F+1,)"""
        return self.bag.weights.mean(axis=0)

    @cached_property
    def _credit(self) -> Floats:
        """The contribution to the explained class. (F+1,)"""
        return self.bag.contributions[self.output]

    def _listed(
        self,
        starts: Integers,
        ends: Integers,
        attention: Floats,
        credit: Floats,
        feature: Integers | None = None,
    ) -> list[Token]:
        if feature is None:  # a word has parts of several n-grams: the mean value of them
            values = _ratio(credit, attention)
        else:
            values = self._value[feature]
        columns = (starts, ends, attention, values, credit)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Token(self.text[row[0] : row[1]], *row) for row in rows]

    @cached_property
    def _value(self) -> Floats:
        """b_s; with several maps their mean by weight. (F+1,)"""
        if len(self.bag.attention) == 1:
            return self.bag.value[0, self.output]
        return _ratio(self._credit, self._attention)

    @property
    def _has_constant(self) -> bool:
        return bool(np.isfinite(self.bag.attention[:, -1]).any())

    def _constant(self) -> list[Token]:
        if not self._has_constant:
            return []
        numbers = (float(part[-1]) for part in (self._attention, self._value, self._credit))
        return [Token(CLS, len(self.text), len(self.text), *numbers)]


def _ratio(credit: Floats, attention: Floats) -> Floats:
    """credit / attention, 0 where there is no attention."""
    return np.divide(credit, attention, out=np.zeros_like(credit), where=attention > 0)


def probabilities(logits: Floats) -> Floats:
    """Sigmoid of one output, softmax of several. (n, K) -> (n, classes)"""
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    raw = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raw / raw.sum(axis=1, keepdims=True)
