"""What is trained on, and what comes out."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from keytokens._checks import Floats
from keytokens.embedding.heldout import HeldOut
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.scores import AttentionScores


@dataclass(frozen=True)
class Fitted:
    """A trained model, how the search ended, and what held-out rows said of it."""

    scores: AttentionScores
    iterations: int
    reason: str
    held_out: HeldOut | None = None


@dataclass(frozen=True, eq=False)
class Corpus:
    """Counts (n, V), labels (n,) in [0, n_classes), weights (n,), and the loss over them."""

    counts: sparse.csr_array
    labels: np.ndarray
    n_classes: int
    weight: Floats
    n_jobs: int | None = None

    @property
    def positive(self) -> Floats:
        """Which label is positive for each output: column k, or class 1 of two. (n, K)"""
        columns = np.arange(self.n_classes) if self.n_classes > 2 else np.array([1])
        return (self.labels[:, None] == columns).astype(np.float64)

    @property
    def target(self) -> Floats:
        """+-1 for two classes, else the class."""
        return 2.0 * self.labels - 1 if self.n_classes == 2 else self.labels.astype(np.float64)

    def loss(self, rows: Rows, layout: Layout) -> CountLoss:
        """The mean loss, with the bias of the label shares."""
        bias = prior_logits(self.positive, self.weight)
        return CountLoss(rows, self.target, self.weight, layout, bias, self.n_jobs)


def prior_logits(positive: Floats, weight: Floats) -> Floats:
    """The logits of the label shares, lightly smoothed: what no token at all says. (K,)"""
    K = positive.shape[1]
    share = (weight @ positive + 0.5) / (weight.sum() + 0.5 * max(K, 2))
    return np.log(share / (1 - share)) if K == 1 else np.log(share) - np.log(share).mean()


def to_scores(theta: Floats, layout: Layout, bias: Floats) -> AttentionScores:
    """The canonical model of theta (V+1, M+P)."""
    value = np.zeros((layout.n_maps, layout.n_outputs, len(theta)))
    for p, (m, k) in enumerate(zip(layout.pair_map, layout.pair_out, strict=True)):
        value[m, k] = theta[:, layout.n_maps + p]
    return AttentionScores(theta[:, : layout.n_maps].T.copy(), value, bias)


def from_scores(scores: AttentionScores, layout: Layout) -> Floats:
    """theta (V+1, M+P) of a model."""
    pairs = zip(layout.pair_map, layout.pair_out, strict=True)
    return np.column_stack([*scores.attention, *(scores.value[m, k] for m, k in pairs)])


def retempered(scores: AttentionScores, tau: float) -> AttentionScores:
    """The same model with every logit divided by tau."""
    return AttentionScores(scores.attention, scores.value / tau, scores.bias / tau)
