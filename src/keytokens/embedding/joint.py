"""Joint training (infinite width): attention a and values b together, from token statistics.

    minimise over x (V+1, M+P):  L(offset + scale x) + 1/2 sum ridge x^2,  (a, b) = offset + scale x

Logits are free (scale 1, offset 0). A value is b_s = (prior T + S x_s) r_s with r_s the naive-Bayes
log-ratio of s, where one step on the embedding would send it, and T the mean length of the texts,
which attention averages over: x = 0 is a cautious naive Bayes, and a token without evidence stays
there. Large data stop on held-out loss, then all of it is trained for that many iterations; small
data are trained to convergence.
"""

from dataclasses import dataclass, replace

import numpy as np
from numba import njit

from keytokens._checks import Floats
from keytokens.embedding.corpus import Corpus, Fitted, from_scores, to_scores
from keytokens.embedding.frequencies import log_ratio, posterior_difference
from keytokens.embedding.heldout import HeldOut, Watch, held_out_rows
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.embedding.lbfgs import Minimum, minimise
from keytokens.embedding.scores import AttentionScores

_CONTINUED = 30  # iterations on further rows


@dataclass(frozen=True)
class JointOptions:
    """The recipe's numbers. Ridges are per total weight of the rows."""

    prior: float = 0.045
    value_scale: float = 1.0
    least_ratio: float = 0.3
    attention_ridge: float = 1.0
    value_ridge: float = 2.0
    iterations: int = 1000
    tolerance: float = 1e-8
    held_out_from: int = 10_000
    seed: int = 0
    cls_token: bool = True
    selectivity: float = 0.0
    heads: int = 1
    per_class: bool = False


def mean_length(corpus: Corpus) -> float:
    """Distinct tokens in a text, on average; at least 1."""
    lengths = np.diff(corpus.counts.indptr)
    return max(float(corpus.weight @ lengths / corpus.weight.sum()), 1.0)


def tokens_per_text(corpus: Corpus) -> float:
    """Tokens seen in training per unit of weight: how little there is to learn each one from."""
    seen = np.count_nonzero(corpus.counts.T @ corpus.weight)
    return max(seen, 1) / corpus.weight.sum()


def token_ratios(corpus: Corpus) -> Floats:
    """The naive-Bayes log-ratio r_s for every token and output. (V, K)"""
    ratios = [log_ratio(corpus.counts, column, corpus.weight) for column in corpus.positive.T]
    return np.column_stack(ratios)


def selective_logits(corpus: Corpus, selectivity: float) -> Floats:
    """a_s = kappa log(.05 + max_k |Delta_sk|), kappa = 4 selectivity / (1 - selectivity). (V+1,)

    Delta is shrunk for rare tokens; <cls> gets the average. At 1 one token holds all the weight.
    """
    counts, weight = corpus.counts, corpus.weight
    often = counts.T @ weight
    delta = posterior_difference(counts, 2 * corpus.positive - 1, weight)
    shrunk = np.abs(delta).max(axis=1) * often / (often + 3)
    kappa = min(4 * selectivity / max(1 - selectivity, 1e-300), 1e5)
    logits = kappa * np.log(0.05 + shrunk)
    return np.append(logits, often @ logits / max(often.sum(), 1e-300))


class JointProblem:
    """The regularised loss as a function of the flat vector x."""

    def __init__(self, loss: CountLoss, offset: Floats, scale: Floats, ridge: Floats) -> None:
        self.loss, self.offset, self.scale, self.ridge = loss, offset, scale, ridge

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """L(offset + scale x) + 1/2 sum ridge x^2 and its gradient."""
        x = x.reshape(self.scale.shape)
        value, gradient = self.loss(self.theta(x))
        pulled = np.empty_like(gradient)
        value += _pull_back(gradient, self.scale, self.ridge, x, pulled)
        return value, pulled.ravel()

    def theta(self, x: Floats) -> Floats:
        """theta = offset + scale x. (V+1, M+P)"""
        return self.offset + self.scale * x.reshape(self.scale.shape)


@njit(cache=True)
def _pull_back(gradient: Floats, scale: Floats, ridge: Floats, x: Floats, out: Floats) -> float:
    """out = scale dL/dtheta + ridge x; returns 1/2 sum ridge x^2."""
    total = 0.0
    for s in range(x.shape[0]):
        for j in range(x.shape[1]):
            pull = ridge[j] * x[s, j]
            out[s, j] = gradient[s, j] * scale[s, j] + pull
            total += 0.5 * pull * x[s, j]
    return total


def joint_problem(corpus: Corpus, rows: Rows, options: JointOptions) -> JointProblem:
    """Scales, ridges and the <cls> token for these rows."""
    layout = Layout.of(corpus.positive.shape[1], options.heads, options.per_class)
    M, total = layout.n_maps, corpus.weight.sum()
    ratios, length = token_ratios(corpus)[:, list(layout.pair_out)], mean_length(corpus)
    S = options.value_scale * length * max(tokens_per_text(corpus), 1.0) ** (1 / 3)
    scale = np.ones((len(ratios) + 1, layout.width))
    scale[:-1, M:] = S * np.sqrt(ratios**2 + options.least_ratio**2)
    scale[-1, M:] = S
    offset = np.zeros_like(scale)
    offset[:, :M] = selective_logits(corpus, options.selectivity)[:, None]
    offset[:-1, M:] = options.prior * length / options.heads * ratios
    if not options.cls_token:
        offset[-1, :M], scale[-1] = -np.inf, 0.0
    ridge = np.full(layout.width, options.value_ridge / total)
    ridge[:M] = options.attention_ridge / total
    return JointProblem(corpus.loss(rows, layout), offset, scale, ridge)


def train_joint(corpus: Corpus, options: JointOptions) -> Fitted:
    """Fit a and b."""
    rows = Rows.of(corpus.counts)
    held_out, iterations = None, options.iterations
    if len(corpus.labels) > options.held_out_from:
        held_out = _try_held_out(corpus, rows, options)
        iterations = held_out.iterations
    problem = joint_problem(corpus, rows, options)
    found = minimise(problem, _start(problem, options), iterations, options.tolerance)
    scores = to_scores(problem.theta(found.x), problem.loss.layout, problem.loss.bias)
    return Fitted(scores, found.iterations, _reason(found, held_out), held_out)


def continue_joint(
    corpus: Corpus, options: JointOptions, start: AttentionScores, seen: float
) -> Fitted:
    """Train on from `start`; ridges pull towards it, by the weight seen so far.

    seen = 0 only begins there: the loss and the ridges are those of a new fit. Rows unlike the
    ones before should not undo them, so with seen > 0 the offset moves to `start` and the ridges
    grow by 1 + seen / new.
    """
    problem = joint_problem(corpus, Rows.of(corpus.counts), options)
    theta = from_scores(start, problem.loss.layout)
    iterations, x = options.iterations, np.zeros_like(problem.scale)
    if seen > 0:
        iterations = min(iterations, _CONTINUED)
        problem.offset = theta
        problem.ridge = problem.ridge * (1 + seen / corpus.weight.sum())
        problem.loss.bias = start.bias
    else:
        moved = np.where(
            np.isfinite(theta), theta - np.where(np.isfinite(theta), problem.offset, 0), 0
        )
        np.divide(moved, problem.scale, out=x, where=problem.scale != 0)
    found = minimise(problem, x.ravel(), iterations, options.tolerance)
    scores = to_scores(problem.theta(found.x), problem.loss.layout, problem.loss.bias)
    return Fitted(scores, found.iterations, found.reason)


def _reason(found: Minimum, held_out: HeldOut | None) -> str:
    if held_out is not None and found.iterations == held_out.iterations:
        return f"trained for {found.iterations} iterations, where held-out loss was lowest"
    return found.reason


def _start(problem: JointProblem, options: JointOptions) -> Floats:
    """0, except that further heads begin apart: equal heads would stay equal."""
    x = np.zeros_like(problem.scale)
    M = problem.loss.layout.n_maps
    if options.heads > 1:
        x[:-1, :M] = np.random.default_rng(options.seed).standard_normal((len(x) - 1, M))
    return x.ravel()


def _try_held_out(corpus: Corpus, rows: Rows, options: JointOptions) -> HeldOut:
    """Train on nine tenths and watch the loss of the rest: how many iterations are best?"""
    held = held_out_rows(corpus.labels, options.seed)
    inside = replace(corpus, weight=np.where(held, 0.0, corpus.weight))
    problem = joint_problem(inside, rows, options)
    watch = Watch(problem.loss, corpus.target, np.where(held, corpus.weight, 0.0))
    minimise(problem, _start(problem, options), options.iterations, options.tolerance, watch=watch)
    return watch.answer()
