"""Joint training (infinite width): attention a and values b together, from token statistics.

    minimise over x (V+1, M+P):  L(scale x) + 1/2 sum ridge x^2,   theta = scale x = (a, b)

Logits are free (scale 1). A value is b_s = S r_s x_s with r_s the naive-Bayes log-ratio of s: where
one step on the embedding would send it. Starting from 0, few steps go where the data is clear.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from keytokens._checks import Floats
from keytokens.embedding.frequencies import log_ratio
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.lbfgs import Minimum, minimise
from keytokens.embedding.scores import AttentionScores


@dataclass(frozen=True)
class JointOptions:
    """The recipe's numbers."""

    value_scale: float = 300.0
    attention_ridge: float = 1e-5
    value_ridge: float = 1e-3
    iterations: int = 1000
    tolerance: float = 1e-9


def outputs(labels: np.ndarray, n_classes: int) -> Floats:
    """Which label is positive for each output: column k, or class 1 of two. (n, K) in {0, 1}"""
    columns = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return (labels[:, None] == columns).astype(np.float64)


def prior_logits(positive: Floats, weight: Floats) -> Floats:
    """The logits of the label shares: what a model without tokens says. (K,)"""
    share = weight @ positive / weight.sum()
    return np.log(share / (1 - share)) if len(share) == 1 else np.log(share) - np.log(share).mean()


def value_scales(counts: sparse.csr_array, positive: Floats, weight: Floats, S: float) -> Floats:
    """S r_s for every token and output; for <cls>, S. (V+1, K)"""
    ratios = [log_ratio(counts, column, weight) for column in positive.T]
    return S * np.vstack([np.column_stack(ratios), np.ones(positive.shape[1])])


class JointProblem:
    """The regularised loss as a function of the flat vector x."""

    def __init__(self, loss: CountLoss, scale: Floats, ridge: Floats) -> None:
        self.loss, self.scale, self.ridge = loss, scale, ridge

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """L(scale x) + 1/2 sum ridge x^2 and its gradient."""
        x = x.reshape(self.scale.shape)
        value, gradient = self.loss(self.theta(x))
        pull = self.ridge * x
        value += 0.5 * float((pull * x).sum())
        return value, (gradient * self.scale + pull).ravel()

    def theta(self, x: Floats) -> Floats:
        """theta = scale x, -inf logit for an absent <cls>."""
        theta = self.scale * x.reshape(self.scale.shape)
        absent = np.isinf(self.scale[-1])
        theta[-1, absent] = -np.inf
        return theta


def train_joint(
    counts: sparse.csr_array,
    labels: np.ndarray,
    n_classes: int,
    sample_weight: Floats,
    options: JointOptions,
    n_jobs: int | None = None,
) -> tuple[AttentionScores, Minimum]:
    """Fit a and b to labels (n,) in [0, n_classes)."""
    positive = outputs(labels, n_classes)
    layout = Layout.of(positive.shape[1])
    bias = prior_logits(positive, sample_weight)
    target = 2.0 * labels - 1 if n_classes == 2 else labels
    loss = CountLoss(Rows.of(counts), target, sample_weight, layout, bias, n_jobs)
    values = value_scales(counts, positive, sample_weight, options.value_scale)
    scale = np.hstack([np.ones((len(values), layout.n_maps)), values[:, list(layout.pair_out)]])
    ridge = np.empty(layout.width)
    ridge[: layout.n_maps] = options.attention_ridge
    ridge[layout.n_maps :] = options.value_ridge
    problem = JointProblem(loss, scale, ridge)
    found = minimise(problem, np.zeros(scale.size), options.iterations, options.tolerance)
    return to_scores(problem.theta(found.x), layout, bias), found


def to_scores(theta: Floats, layout: Layout, bias: Floats) -> AttentionScores:
    """The canonical model of theta (V+1, M+P)."""
    value = np.zeros((layout.n_maps, layout.n_outputs, len(theta)))
    for p, (m, k) in enumerate(zip(layout.pair_map, layout.pair_out, strict=True)):
        value[m, k] = theta[:, layout.n_maps + p]
    return AttentionScores(theta[:, : layout.n_maps].T.copy(), value, bias)
