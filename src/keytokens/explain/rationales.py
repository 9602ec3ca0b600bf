"""Agreement with human rationales: which words did people mark, which does the explanation?

Tokens are those of `text.split()`, as ERASER counts them; a rationale is a boolean mask over them.
"""

import re

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.explain.explanation import Explanation

_TOKEN = re.compile(r"\S+")


def split_spans(text: str) -> Integers:
    """Start and end (code points) of every token of `text.split()`. (T, 2)"""
    return np.array([m.span() for m in _TOKEN.finditer(text)], np.int64).reshape(-1, 2)


def split_scores(why: Explanation) -> Floats:
    """How much each token of `text.split()` speaks for the decision. (T,)"""
    decided = why.of_class(why.label)
    against = len(why.bag.bias) == 1 and why.bag.logits[0] <= 0
    credit = -decided.word_contributions if against else decided.word_contributions
    return on_split(why.text, why.word_spans, credit)


def on_split(text: str, words: Integers, credit: Floats) -> Floats:
    """Word credits summed onto the whitespace token each word begins in. (T,)"""
    spans = split_spans(text)
    place = np.searchsorted(spans[:, 0], words[:, 0], side="right") - 1
    return np.bincount(place, weights=credit, minlength=len(spans)).astype(np.float64)


def phrase_scores(scores: Floats, reach: float = 4.0) -> Floats:
    """sum_u e^{-|t - u| / reach} scores_u, normalised: people mark phrases, not single words. (T,)

    The only place where neighbours matter: the exact explanation has one number a token.
    """
    far = int(6 * reach)
    kernel = np.exp(-np.abs(np.arange(-far, far + 1)) / reach)
    if not len(scores):
        return scores
    return np.convolve(scores, kernel / kernel.sum())[far : far + len(scores)]


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
