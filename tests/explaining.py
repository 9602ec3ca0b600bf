"""Small models for the tests of explanations: real counters, random scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens.embedding.scores import AttentionScores
from keytokens.explain import explain
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

    def predict(self, texts: list[str]) -> Any:
        """The class of every text."""
        return explain(self, texts).labels

    def cut(self, bytes: int) -> "Model":
        """The same model with its numbers rounded to float32."""
        scores = self.scores_
        rounded = (scores.attention, scores.value)
        near = (array.astype(np.float32).astype(np.float64) for array in rounded)
        return Model(AttentionScores(*near, scores.bias), self.classes_, self.counter_)


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
    ngrams: tuple[int, int] = (1, 2),
    binary: bool = True,
    outputs: int = 1,
    counter: Any = None,
    **how: Any,
) -> Model:
    """A model over TEXTS (or a fitted counter's vocabulary) with random scores."""
    if counter is None:
        counter = Counter(ngrams=ngrams, min_count=1, binary=binary)
        counter.fit_transform(TEXTS[:3] + TEXTS[5:])
    scores = random_scores(len(counter.vocabulary_), outputs=outputs, **how)
    classes = np.array(["neg", "pos"] if outputs == 1 else list("abcdefgh")[:outputs])
    return Model(scores, classes, counter)
