"""The statistics of the theory: how often a token stands in texts of either sign.

A text is drawn uniformly (or by its weight), then a position in it uniformly: T_i = sum_s N_i(s).
"""

import numpy as np
from scipy import sparse

from keytokens._checks import Floats
from keytokens.embedding.scores import AttentionScores


def signed_frequency(
    counts: sparse.csr_array, y: Floats, sample_weight: Floats | None = None
) -> Floats:
    """alpha_s = (1/n) sum_i y_i N_i(s) / T_i; y (n,) +-1, or (n, K) one column an output.

    >>> signed_frequency(sparse.csr_array([[1.0, 1.0], [0.0, 2.0]]), np.array([1.0, -1.0]))
    array([ 0.25, -0.25])
    """
    y = np.asarray(y, dtype=np.float64)
    share = _share(counts, sample_weight)
    return counts.T @ (share * y if y.ndim == 1 else share[:, None] * y)


def frequency(counts: sparse.csr_array, sample_weight: Floats | None = None) -> Floats:
    """phi_s = (1/n) sum_i N_i(s) / T_i. (V,)"""
    return counts.T @ _share(counts, sample_weight)


def posterior_difference(
    counts: sparse.csr_array, y: Floats, sample_weight: Floats | None = None
) -> Floats:
    """Delta_s = P(+|s) - P(-|s) = alpha_s / phi_s; 0 for tokens never seen. (V,) or (V, K)"""
    return difference(signed_frequency(counts, y, sample_weight), frequency(counts, sample_weight))


def difference(alpha: Floats, phi: Floats) -> Floats:
    """alpha_s / phi_s, 0 where phi_s = 0. (V,) or (V, K)"""
    phi = phi if alpha.ndim == 1 else phi[:, None]
    return np.divide(alpha, phi, out=np.zeros_like(alpha), where=phi > 0)


def importance(scores: AttentionScores, phi: Floats, length: float) -> Floats:
    """sqrt(p_s (1 - p_s)) sum_m e^{a_ms} max_k |b_mks - mean b_mk|, up to a factor. (V,)

    How much s moves logits apart: a token in every text (p = 1) moves them all the same way.
    """
    return np.abs(pulls(scores, phi, length)).max(axis=1).sum(axis=0)


def pulls(scores: AttentionScores, phi: Floats, length: float) -> Floats:
    """sqrt(p_s (1 - p_s)) e^{a_ms} (b_mks - mean b_mk): which way s moves logits. (M, K, V)

    p_s = min(1, T phi_s) is the share of texts that hold s, T their mean number of tokens.
    """
    p = np.minimum(1.0, length * phi)
    a, b = scores.attention[:, :-1], scores.value[:, :, :-1]
    pull = np.exp(a - a.max(axis=1, keepdims=True))
    share = phi * pull
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
    return np.sqrt(p * (1 - p)) * pull[:, None, :] * (b - (b @ share[:, :, None]))


def frequency_behind(alpha: Floats, delta: Floats) -> Floats:
    """phi_s = alpha_s / Delta_s again, 0 where both are. (V,)"""
    phi = np.divide(alpha, delta, out=np.zeros_like(alpha), where=delta != 0)
    return phi if phi.ndim == 1 else phi.max(axis=1)


def _share(counts: sparse.csr_array, sample_weight: Floats | None) -> Floats:
    """weight_i / T_i, weights summing to 1; 0 for a text without tokens. (n,)"""
    n = counts.shape[0]
    weight = np.full(n, 1 / n) if sample_weight is None else sample_weight / sample_weight.sum()
    length = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
    return np.divide(weight, length, out=np.zeros(n), where=length > 0)


def log_ratio(
    counts: sparse.csr_array, positive: Floats, sample_weight: Floats, smoothing: float = 1.0
) -> Floats:
    """r_s = log of (smoothed share of s among tokens under +) / (the same under -). (V, K)

    The naive-Bayes log-ratio, a cousin of the posterior difference; positive (n, K) in {0, 1}, a
    column an output.
    """
    seen = counts.T @ (sample_weight[:, None] * np.column_stack([positive, np.ones(len(positive))]))
    plus, minus = seen[:, :-1] + smoothing, seen[:, -1:] - seen[:, :-1] + smoothing
    return np.log(plus / plus.sum(axis=0)) - np.log(minus / minus.sum(axis=0))
