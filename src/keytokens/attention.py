"""One-layer softmax attention, in the form that survives saturation.

Works on NumPy and jax arrays alike. Letters: X (n, T, d) tokens, y (n,) labels, v (d,) head,
s (n, T) attention weights, gamma (n, T) token scores. A batch has one more axis in front.
Masked tokens have logit -inf: weight 0.
"""

from typing import Any

Array = Any  # a NumPy or a jax array


def token_scores(X: Array, y: Array, v: Array) -> Array:
    """gamma[i, t] = y[i] <X[i, t], v>. (n, T)"""
    return y[..., None] * (X @ v[..., None, :, None])[..., 0]


def logits_of_p(X: Array, p: Array) -> Array:
    """a[i, t] = <X[i, t], p>. (n, T)"""
    return (X @ p[..., None, :, None])[..., 0]


def logits_of_W(X: Array, W: Array, query: Array) -> Array:
    """a[i, t] = <X[i, t], W z[i]>. (n, T)"""
    direction = (W[..., None, :, :] @ query[..., None])[..., 0]
    return (X @ direction[..., None])[..., 0]


def attention_weights(logits: Array) -> Array:
    """s = softmax(a), shifted by the largest logit. (n, T)"""
    xp = logits.__array_namespace__()
    weights = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def pooled_score(logits: Array, scores: Array) -> Array:
    """m[i] = gamma_top + sum_t s_t (gamma_t - gamma_top), top = the heaviest token. (n,)

    The plain sum_t s_t gamma_t is the same number, but its gradient is rounding noise once one
    token holds all the weight; this one keeps its relative precision, differentiated too.
    """
    xp = logits.__array_namespace__()
    top = xp.argmax(logits, axis=-1)[..., None]
    best = xp.take_along_axis(scores, top, axis=-1)
    return best[..., 0] + xp.sum(attention_weights(logits) * (scores - best), axis=-1)


def log_weights(logits: Array) -> Array:
    """log s = a - max a - log sum exp(a - max a); masked tokens: -inf. (n, T)"""
    xp = logits.__array_namespace__()
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))


def relative_scores(logits: Array, scores: Array) -> tuple[Array, Array]:
    """(delta[i, t] = gamma[i, t] - gamma_top, gamma_top), masked tokens 0. (n, T), (n,)"""
    xp = logits.__array_namespace__()
    top = xp.argmax(logits, axis=-1)[..., None]
    best = xp.take_along_axis(scores, top, axis=-1)
    return xp.where(logits == -xp.inf, 0.0, scores - best), best[..., 0]


def log_abs(x: Array) -> Array:
    """log|x|, -inf at 0, without a warning and differentiable elsewhere."""
    xp = x.__array_namespace__()
    return xp.where(x == 0, -xp.inf, xp.log(xp.abs(xp.where(x == 0, 1.0, x))))
