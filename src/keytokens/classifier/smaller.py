"""Cutting a model: the most important n-grams that fit a number of bytes."""

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.frequencies import frequency_behind
from keytokens.embedding.scores import AttentionScores
from keytokens.errors import raise_input

if TYPE_CHECKING:
    from keytokens.classifier.texts import KeyTokenClassifier


def cut(model: "KeyTokenClassifier", budget: int) -> "KeyTokenClassifier":
    """The model on the n-grams it gains most from, within `budget` bytes; numbers in float32.

    An n-gram costs its text and four bytes for each of its numbers. Those left out took part of
    the attention; values shrink by the share that stays, so that logits keep their size.
    """
    core = model.core_
    kept = _kept(model, budget)
    if not len(kept):
        raise_input("bytes", "leave room for one n-gram", budget)
    small, small_core = copy(model), copy(core)
    small.counter_ = model.counter_.select(kept)
    small_core.scores_ = _selected(core.scores_, kept, _share(model, kept))
    small_core.n_features_in_ = len(kept)
    for name in ("signed_frequency_", "posterior_difference_", "importance_"):
        setattr(small_core, name, getattr(core, name)[kept])
    small.core_ = small_core
    return small


def _kept(model: "KeyTokenClassifier", budget: int) -> np.ndarray:
    """Columns by falling importance until the bytes run out, in column order."""
    scores = model.scores_
    numbers = 4 * scores.n_maps * (1 + scores.n_outputs)
    cost = np.array([len(gram.encode()) + 4 for gram in model.vocabulary_]) + numbers
    order = np.argsort(-model.core_.importance_, kind="stable")
    return np.sort(order[np.cumsum(cost[order]) <= budget])


def _share(model: "KeyTokenClassifier", kept: np.ndarray) -> np.ndarray:
    """The share of the attention that the kept n-grams have, over the training texts. (M,)"""
    often = frequency_behind(model.signed_frequency_, model.posterior_difference_)
    a = model.scores_.attention[:, :-1]
    weight = often * np.exp(a - a.max(axis=1, keepdims=True))
    return weight[:, kept].sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-300)


def _selected(scores: AttentionScores, kept: np.ndarray, share: np.ndarray) -> AttentionScores:
    columns = np.append(kept, scores.n_features)
    value = scores.value[:, :, columns].copy()
    value[:, :, :-1] *= share[:, None, None]
    attention = scores.attention[:, columns]
    return AttentionScores(_rounded(attention), _rounded(value), scores.bias)


def _rounded(array: Floats) -> Floats:
    """To the nearest float32."""
    return array.astype(np.float32).astype(np.float64)
