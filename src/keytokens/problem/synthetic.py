"""Problems drawn from a seed. Problem k of a batch depends on (seed, k) alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens.errors import raise_input
from keytokens.problem.embedding import EmbeddingProblem
from keytokens.problem.tokens import TokenProblem, optimal_tokens


def random_problem(
    n: int = 6, T: int = 8, d: int = 10, seed: int = 0, batch: int | None = None
) -> TokenProblem:
    """Unit-norm Gaussian tokens, head and queries, labels +-1.

    Problem k of a batch depends on (seed, k) alone, so a larger batch begins with the smaller
    one, and the unbatched problem is problem 0.
    """
    _at_least_one(n=n, T=T, d=d, batch=batch or 1)
    return _drawn(lambda rng: _random(rng, n, T, d), seed, batch)


def _random(rng: Any, n: int, T: int, d: int) -> tuple[Any, ...]:
    X, v, query = (unit(rng.standard_normal(s)) for s in ((n, T, d), (d,), (n, d)))
    return X, rng.choice([-1.0, 1.0], size=n), v, query


def contextual_problem(
    n: int = 12,
    T: int = 10,
    d: int = 20,
    contexts: int = 1,
    relevant: float = 0.3,
    delta_q: float = 0.2,
    delta_w: float = 0.2,
    noise: float = 0.3,
    seed: int = 0,
    batch: int | None = None,
) -> TokenProblem:
    """Contextual data: input i belongs to context k = i mod contexts.

    Its first ceil(relevant T) tokens are q_k + y_i w, the others -delta_q q_k - delta_w y_i w plus
    Gaussian noise of norm ~ `noise`; w and the q_k are orthonormal, the head is w.
    """
    _at_least_one(n=n, T=T, d=d, contexts=contexts, batch=batch or 1)
    if not 0 < check.number("relevant", relevant) <= 1:
        raise_input("relevant", "lie in (0, 1]", f"{relevant:g}")
    if d < contexts + 1:
        raise_input("d", f"be at least contexts + 1 = {contexts + 1}", d)
    check.number("delta_q", delta_q)
    check.number("delta_w", delta_w)
    level = check.non_negative("noise", noise) / np.sqrt(d)
    first = int(np.ceil(relevant * T))
    shape, sizes = (n, T, d, contexts, first), (delta_q, delta_w, level)
    return _drawn(lambda rng: _contextual(rng, *shape, *sizes), seed, batch)


def _contextual(
    rng: Any, n: int, T: int, d: int, contexts: int, first: int, dq: float, dw: float, level: float
) -> tuple[Any, ...]:
    w, *q = _orthonormal(rng, contexts + 1, d)
    y = rng.choice([-1.0, 1.0], size=n)
    q_of = np.array(q)[np.arange(n) % contexts]
    X = level * rng.standard_normal((n, T, d)) - (dq * q_of + dw * y[:, None] * w)[:, None]
    X[:, :first] = (q_of + y[:, None] * w)[:, None]
    return X, y, w


def orthonormal_problem(
    n: int = 4, T: int = 5, d: int = 10, seed: int = 0
) -> tuple[TokenProblem, Floats]:
    """A problem whose W-parameterised Att-SVM is known, and that answer for the optimal tokens.

    Tokens are orthonormal within each input and queries across inputs, d >= max(n, T):
    W = sum_i (x_{i opt_i} - mean_t x_it) z_i^T, with half its squared norm n (T - 1) / (2 T).
    """
    _at_least_one(n=n, T=T, d=d)
    if d < max(n, T):
        raise_input("d", f"be at least max(n, T) = {max(n, T)}", d)
    rng = np.random.default_rng((check.integer("seed", seed), 0))
    X = np.stack([_orthonormal(rng, T, d) for _ in range(n)])
    y, v = rng.choice([-1.0, 1.0], size=n), unit(rng.standard_normal(d))
    problem = TokenProblem(X, y, v, _orthonormal(rng, n, d))
    best = X[np.arange(n), optimal_tokens(problem)]
    return problem, (best - X.mean(axis=1)).T @ np.asarray(problem.query)


def embedding_problem(
    n: int = 200,
    T: int = 10,
    d: int | None = 64,
    positive: int = 2,
    negative: int = 2,
    partly: int = 4,
    irrelevant: int = 12,
    seed: int = 0,
) -> tuple[EmbeddingProblem, Integers, NDArray[np.str_]]:
    """A synthetic corpus: (problem, token ids (n, T), kind of each token (V,)).

    Under y, positions are drawn independently with probability proportional to P(y | s), which is
    1 or 0 for completely positive or negative tokens, 1/2 for irrelevant ones, and between for the
    partly predictive. Labels are balanced; E has rows of variance 1/d and ||v|| = 1. d = None is
    the infinite width: d = V + 1, rows of E orthonormal and orthogonal to v.
    """
    _at_least_one(n=n, T=T, d=1 if d is None else d)
    sizes = dict(positive=positive, negative=negative, partly=partly, irrelevant=irrelevant)
    for name, size in sizes.items():
        check.integer(name, size)
    if not (positive + partly + irrelevant and negative + partly + irrelevant):
        raise_input("the vocabulary", "hold tokens for both labels", sizes)
    rng = np.random.default_rng((check.integer("seed", seed), 0))
    posterior = _posteriors(**sizes)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    ids = np.stack([_sentence(rng, posterior if label > 0 else 1 - posterior, T) for label in y])
    counts = np.zeros((n, len(posterior)))
    np.add.at(counts, (np.arange(n)[:, None], ids), 1.0)
    kinds = np.repeat(list(sizes), list(sizes.values()))
    return EmbeddingProblem(counts, y, *_embedding(rng, len(posterior), d)), ids, kinds


def _posteriors(positive: int, negative: int, partly: int, irrelevant: int) -> Floats:
    """P(+ | s): 1, 0, evenly spread inside (0, 1), 1/2. (V,)"""
    inside = np.arange(1, partly + 1) / (partly + 1)
    return np.concatenate([np.ones(positive), np.zeros(negative), inside, np.full(irrelevant, 0.5)])


def _sentence(rng: Any, weights: Floats, T: int) -> Integers:
    return rng.choice(len(weights), size=T, p=weights / weights.sum())


def _embedding(rng: Any, V: int, d: int | None) -> tuple[Floats, Floats]:
    if d is None:
        *rows, v = _orthonormal(rng, V + 1, V + 1)
        return np.array(rows), v
    return rng.standard_normal((V, d)) / np.sqrt(d), unit(rng.standard_normal(d))


def _drawn(draw: Callable[[Any], tuple[Any, ...]], seed: int, batch: int | None) -> TokenProblem:
    """One problem, or a batch of them, from a generator each."""
    check.integer("seed", seed)
    parts = [draw(np.random.default_rng((seed, k))) for k in range(batch or 1)]
    if batch is None:
        return TokenProblem(*parts[0])
    return TokenProblem(*(np.stack(part) for part in zip(*parts, strict=True)))


def _orthonormal(rng: Any, rows: int, d: int) -> Floats:
    """Orthonormal rows, rows <= d. (rows, d)"""
    return np.linalg.qr(rng.standard_normal((d, rows)))[0].T


def _at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        check.integer(name, size, least=1)


def unit(array: Floats) -> Floats:
    """Rows of norm one."""
    return array / np.linalg.norm(array, axis=-1, keepdims=True)
