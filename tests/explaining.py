"""Small models for the tests of explanations: real counters, random scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens.embedding.scores import AttentionScores
from keytokens.text import Counter

TEXTS = [
    "A good film, a really GOOD film!",
    "Not good. Not at all good, and so long...",
    "It’s bad, it's so bad that I laughed <br /> twice",
    "unknown words only: xyzzy plugh",
    "",
    "naïve café — 日本 🎬 good film",
    "long film, bad film, good",
]


@dataclass
class Model:
    """What explanations ask of a model, without any training."""

    scores_: AttentionScores
    classes_: Any
    counter_: Any


def random_scores(
    size: int, maps: int = 1, outputs: int = 1, seed: int = 0, cls: bool = True, scale: float = 1.0
) -> AttentionScores:
    """Gaussian attention, values and bias."""
    rng = np.random.default_rng(seed)
    attention = scale * rng.standard_normal((maps, size + 1))
    if not cls:
        attention[:, -1] = -np.inf
    value = 3 * rng.standard_normal((maps, outputs, size + 1))
    return AttentionScores(attention, value, 0.3 * rng.standard_normal(outputs))


def model(
    ngrams: tuple[int, int] = (1, 2), binary: bool = True, outputs: int = 1, **how: Any
) -> Model:
    """A model over TEXTS with random scores."""
    counter = Counter(ngrams=ngrams, min_count=1, binary=binary)
    counter.fit_transform(TEXTS[:3] + TEXTS[5:])
    scores = random_scores(len(counter.vocabulary_), outputs=outputs, **how)
    classes = np.array(["neg", "pos"] if outputs == 1 else ["a", "b", "c"])
    return Model(scores, classes, counter)
