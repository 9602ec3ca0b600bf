"""Agreement with human rationales: which words did people mark, which does the explanation?

Tokens are those of `text.split()`, as ERASER counts them; a rationale is a boolean mask over them.
"""

import re

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.explain.explanation import Explanation
from keytokens.explain.spans import share_on_words

_TOKEN = re.compile(r"\S+")


def split_spans(text: str) -> Integers:
    """Start and end (code points) of every token of `text.split()`. (T, 2)"""
    return np.array([m.span() for m in _TOKEN.finditer(text)], np.int64).reshape(-1, 2)


def split_scores(why: Explanation) -> Floats:
    """How much each token of `text.split()` speaks for the decision. (T,)"""
    return split_credit(why, _for_decision(why))


def rationale_scores(why: Explanation, credit: Floats | None = None) -> Floats:
    """A rationale as people give it: phrases that speak for the decision. (T,)

    Only n-grams that speak for it count, by `credit` (F,) or by their contribution; then each
    token takes part in what its neighbours and its sentence say.
    """
    own = _for_decision(why) if credit is None else credit
    return phrase_scores(why.text, split_credit(why, np.maximum(own, 0.0)))


def _for_decision(why: Explanation) -> Floats:
    """The contributions of the distinct n-grams to the class decided for. (F,)"""
    credit = why.bag.contributions[:, :-1]
    place = why.bag.decide(why.bag.logits)
    return credit[place] if len(credit) > 1 else credit[0] * (1.0 if place else -1.0)


def split_credit(why: Explanation, credit: Floats) -> Floats:
    """Credit of the distinct n-grams (F,) on the tokens of `text.split()`. (T,)"""
    where = why.occurrences
    words = share_on_words(where, where.split(credit), why.word_spans)
    return on_split(why.text, why.word_spans, words)


def on_split(text: str, words: Integers, credit: Floats) -> Floats:
    """Word credits summed onto the whitespace token each word begins in. (T,)"""
    spans = split_spans(text)
    place = np.searchsorted(spans[:, 0], words[:, 0], side="right") - 1
    return np.bincount(place, weights=credit, minlength=len(spans)).astype(np.float64)


def phrase_scores(text: str, scores: Floats, reach: float = 3.0) -> Floats:
    """sum_u e^{-|t - u| / reach} scores_u, normalised, plus the mean of t's sentence. (T,)

    People mark phrases, often whole sentences, not single words. The only place where neighbours
    matter: the exact explanation has one number a token. The form and the reach were chosen on
    ERASER's training texts.
    """
    if not len(scores):
        return scores
    far = int(6 * reach)
    kernel = np.exp(-np.abs(np.arange(-far, far + 1)) / reach)
    near = np.convolve(scores, kernel / kernel.sum())[far : far + len(scores)]
    sentence = _sentences(text)
    means = np.bincount(sentence, weights=scores) / np.bincount(sentence)
    return near + means[sentence]


def _sentences(text: str) -> Integers:
    """The number of the sentence that each token of `text.split()` stands in. (T,)"""
    ends = np.array([token[-1] in ".!?" for token in text.split()])
    return np.concatenate([[0], np.cumsum(ends)[:-1]])


def mask_of(starts: object, ends: object, size: int) -> Booleans:
    """Spans (end exclusive) as a mask over tokens. (T,)"""
    mask = np.zeros(size, bool)
    for start, end in zip(starts, ends, strict=True):  # type: ignore[call-overload]
        mask[start:end] = True
    return mask


def top(scores: Floats, size: int) -> Booleans:
    """The `size` highest scores; ties go to the first. (T,)"""
    mask = np.zeros(len(scores), bool)
    mask[np.argsort(-scores, kind="stable")[:size]] = True
    return mask


def hard_spans(scores: Floats, size: int) -> list[tuple[int, int]]:
    """Runs (start, end exclusive) of the `size` highest scores."""
    return runs(top(scores, size))


def runs(mask: Booleans) -> list[tuple[int, int]]:
    """Runs of true (start, end exclusive)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def precision_recall_f1(marked: Booleans, human: Booleans) -> tuple[float, float, float]:
    """Of the tokens marked, how many did people mark; of those people marked, how many; F1."""
    both = float((marked & human).sum())
    precision = both / marked.sum() if marked.any() else 0.0
    recall = both / human.sum() if human.any() else 0.0
    return precision, recall, 2 * both / max(float(marked.sum() + human.sum()), 1.0)


def average_precision(scores: Floats, human: Booleans) -> float:
    """AUPRC: sum over thresholds of precision times the recall gained; equal scores together."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(human[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    precision = hits[last] / (last + 1)
    gained = np.diff(hits[last], prepend=0)
    return float((precision * gained).sum() / max(int(human.sum()), 1))


def span_iou(marked: Booleans, human: Booleans, threshold: float = 0.5) -> float:
    """F1 over spans, where a span counts as found once it overlaps one by `threshold` (IOU)."""
    ours, theirs = runs(marked), runs(human)
    if not ours or not theirs:
        return 0.0
    found = sum(any(_iou(a, b) >= threshold for b in theirs) for a in ours)
    met = sum(any(_iou(a, b) >= threshold for b in ours) for a in theirs)
    precision, recall = found / len(ours), met / len(theirs)
    return 2 * precision * recall / (precision + recall) if found else 0.0


def _iou(a: tuple[int, int], b: tuple[int, int]) -> float:
    inside = min(a[1], b[1]) - max(a[0], b[0])
    return max(inside, 0) / (max(a[1], b[1]) - min(a[0], b[0])) if inside > 0 else 0.0
