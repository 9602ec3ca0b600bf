"""Real reviews: both stages at one width, p saved each time its norm has doubled."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus as Labelled
from keytokens.embedding.corpus import Fitted, to_scores
from keytokens.embedding.frequencies import signed_frequency
from keytokens.embedding.one_step import StageOptions, bare_loss, embed, without_cls
from keytokens.embedding.p_training import Space, follow, velocity
from keytokens.embedding.rows import one_blas_thread
from keytokens.experiments.corpora import Corpus, reviews

NORMS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
MOST_STEPS = 5000


@dataclass(frozen=True, eq=False)
class Point:
    """The model where ||p|| first passed a norm, or where the flow ended."""

    norm: float
    fitted: Fitted

    @property
    def logits(self) -> Floats:
        """a = E p. (V,)"""
        return self.fitted.scores.attention[0, :-1]


def step_size(corpus: Corpus) -> float:
    """eta = 2 / max|alpha|, our choice: the largest |<E1_s - E0_s, v>| is one."""
    return 2 / float(np.abs(signed_frequency(corpus.counts, corpus.y)).max())


def labelled(corpus: Corpus) -> Labelled:
    """The sentences as the embedding room takes them: label 1 for +1."""
    labels = (corpus.y > 0).astype(int)
    return Labelled(corpus.counts, labels, 2, np.ones(len(labels)))


def flow(data: str, d: int, seed: int, last: float) -> tuple[Space, tuple[Point, ...]]:
    """Both stages on the training reviews, to norm `last`; d = 0 is the infinite width.

    Two experiments follow the infinite width: its flows are kept.
    """
    if d:
        return _flow(data, d, seed, last)
    status = os.stat(data)
    return _infinite(data, last, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _infinite(data: str, last: float, *version: int) -> tuple[Space, tuple[Point, ...]]:
    """`version` tells two states of one file apart."""
    return _flow(data, 0, 0, last)


def _flow(data: str, d: int, seed: int, last: float) -> tuple[Space, tuple[Point, ...]]:
    train = reviews(data)[0]
    eta = step_size(train)
    options = StageOptions(d or None, eta, seed=seed, norm=last, steps=MOST_STEPS, tolerance=0.0)
    return stages(train, options)


def stages(
    train: Corpus, options: StageOptions, norms: Sequence[float] = NORMS
) -> tuple[Space, tuple[Point, ...]]:
    """Both stages on any corpus; points where ||p|| first passed one of `norms`, and the end."""
    corpus, last = labelled(train), options.norm
    loss = bare_loss(corpus)
    embedded = embed(corpus, loss, options)
    space, points, steps = Space(embedded), [], 0

    def keep(p: Floats, norm: float, reason: str) -> None:
        theta = without_cls(space.logits(p), embedded.b)
        fitted = Fitted(to_scores(theta, loss.layout, loss.bias), steps, reason)
        points.append(Point(norm, fitted))

    def watch(p: Floats, norm: float) -> None:
        nonlocal steps
        steps += 1
        if len(points) < len(norms) and norms[len(points)] <= norm < last:
            keep(p, norm, "on the way")

    with one_blas_thread():
        end = follow(velocity(loss, space, embedded.b), space, embedded.p0, options, watch)
        keep(end.p, end.norm, end.reason)
    return space, tuple(points)
