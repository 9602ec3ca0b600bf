"""The gradient field of a linear head, in logit space and in the log domain, compiled.

Letters: K (n, T, D) keys in the span of their differences, divided by their size `scale`,
y (D,) the parameter there, logits a = scale K y + offsets, s = softmax(a), gamma (n, T) token
scores, m[i] = <s[i], gamma[i]>, c[i] = -loss'(m[i]) > 0,
delta[i, t] = s[i, t] (gamma[i, t] - m[i]) = dm[i]/da[i, t].

  -grad L = scale G / n,   G = sum_it c[i] delta[i, t] K[i, t]
  f = sqrt(1 + |y|^2) G / N,   N^2 = |G|^2 + EASE^2 sum_it (c[i] delta[i, t])^2

Every product c delta carries the common factor e^-M, M its largest exponent: f does not change,
and nothing underflows, at any norm. The second term of N is a matter of speed alone: the path is
that of the gradient flow, but a finite limit is approached smoothly.
"""

import numpy as np
from numba import njit

from keytokens._checks import Floats

EASE = 1e-3
LOGISTIC, EXPONENTIAL, LINEAR = range(3)


@njit(cache=True, nogil=True, error_model="numpy")
def _logits(y: Floats, K: Floats, offsets: Floats, scale: float) -> Floats:
    """a[i, t] = scale <K[i, t], y> + offsets[i, t]. (n, T)"""
    a = offsets.copy()
    for i in range(a.shape[0]):
        for t in range(a.shape[1]):
            for j in range(len(y)):
                a[i, t] += K[i, t, j] * (scale * y[j])
    return a


@njit(cache=True, nogil=True, error_model="numpy")
def _log_slope(loss: int, m: float) -> tuple[float, float]:
    """log c = log(-loss'(m)), and loss''(m) / c."""
    if loss == LOGISTIC:
        e = np.exp(-abs(m))
        return -np.log1p(e) - max(m, 0.0), (1.0 if m > 0 else e) / (1.0 + e)
    if loss == EXPONENTIAL:
        return -m, 1.0
    return 0.0, 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _softmax(a: Floats) -> tuple[int, float, Floats]:
    """The heaviest token, log of the sum of exp(a - a_top), and s. (T,)"""
    top = int(np.argmax(a))
    s = np.exp(a - a[top])
    total = s.sum()
    return top, np.log(total), s / total


@njit(cache=True, nogil=True, error_model="numpy")
def _relative(a: Floats, scores: Floats) -> tuple[Floats, Floats, float, float]:
    """Of one input: s and delta e^-e (T,), e the largest log(s_t |gamma_t - gamma_top|), and m.

    delta_t = s_t [(gamma_t - gamma_top) - sum_u s_u (gamma_u - gamma_top)].
    """
    top, log_total, s = _softmax(a)
    rise, log_s = scores - scores[top], a - a[top] - log_total
    e = -np.inf
    for t in range(len(a)):
        if rise[t] != 0.0:
            e = max(e, log_s[t] + np.log(abs(rise[t])))
    if e == -np.inf:  # all scores equal: nothing to gain from this input
        return s, np.zeros(len(a)), e, scores[top]
    terms = np.zeros(len(a))
    for t in range(len(a)):
        if rise[t] != 0.0:  # the heaviest token's own exponent may overflow
            terms[t] = rise[t] * np.exp(log_s[t] - e)
    mean = terms.sum()
    return s, terms - s * mean, e, scores[top] + mean * np.exp(e)


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(a: Floats, scores: Floats, loss: int) -> tuple[Floats, Floats, Floats]:
    """s (n, T); d[i, t] = c delta e^-M (n, T); bend[i, t] = (loss''/c) delta (n, T)."""
    n, T = a.shape
    s, d, bend, height = np.empty((n, T)), np.empty((n, T)), np.empty((n, T)), np.empty(n)
    for i in range(n):
        s[i], d[i], e, m = _relative(a[i], scores[i])
        log_c, curvature = _log_slope(loss, m)
        height[i], bend[i] = e + log_c, d[i] * (curvature * np.exp(e))
    M = height.max()
    for i in range(n):
        d[i] *= np.exp(height[i] - M) if height[i] > -np.inf else 0.0
    return s, d, bend


@njit(cache=True, nogil=True, error_model="numpy")
def _pull(d: Floats, K: Floats) -> Floats:
    """g[i] = sum_t d[i, t] K[i, t]. (n, D)"""
    g = np.zeros((K.shape[0], K.shape[2]))
    for i in range(K.shape[0]):
        for t in range(K.shape[1]):
            if d[i, t] != 0.0:
                g[i] += d[i, t] * K[i, t]
    return g


@njit(cache=True, nogil=True, error_model="numpy")
def field(
    y: Floats, K: Floats, offsets: Floats, scores: Floats, loss: int, scale: float
) -> tuple[Floats, float]:
    """f (D,), and how far the pulls are from cancelling: |G| / sqrt(sum (c delta)^2)."""
    _, d, _ = _weigh(_logits(y, K, offsets, scale), scores, loss)
    G, size = _pull(d, K).sum(axis=0), (d * d).sum()
    length = (G * G).sum()
    speed = np.sqrt((1.0 + (y * y).sum()) / (length + EASE * EASE * size))
    return speed * G, np.sqrt(length / size)


@njit(cache=True, nogil=True, error_model="numpy")
def _curve(K: Floats, s: Floats, d: Floats, bend: Floats) -> tuple[Floats, Floats]:
    """H = dG/dy / scale (D, D) and w = half the gradient of sum_it (c delta)^2, / scale (D,).

    M is fixed. H = sum_it d K K^T - sum_i (g kbar^T + kbar g^T + h g^T),
    d(d_t)/dy = scale [d_t (K_t - kbar) - (s_t + bend_t) g],  kbar[i] = sum_t s K, h = sum_t bend K.
    """
    n, T, D = K.shape
    g, kbar, h = _pull(d, K), _pull(s, K), _pull(bend, K)
    H, w = np.zeros((D, D)), np.zeros(D)
    for i in range(n):
        along = 0.0
        for t in range(T):
            square = d[i, t] * d[i, t]
            along += (s[i, t] + bend[i, t]) * d[i, t]
            w += square * (K[i, t] - kbar[i])
            if d[i, t] != 0.0:
                for j in range(D):
                    H[j] += (d[i, t] * K[i, t, j]) * K[i, t]
        w -= along * g[i]
        for j in range(D):
            H[j] -= g[i, j] * kbar[i] + (kbar[i, j] + h[i, j]) * g[i]
    return H, w


@njit(cache=True, nogil=True, error_model="numpy")
def jacobian(
    y: Floats, K: Floats, offsets: Floats, scores: Floats, loss: int, scale: float
) -> Floats:
    """df/dy. (D, D)"""
    s, d, bend = _weigh(_logits(y, K, offsets, scale), scores, loss)
    H, w = _curve(K, s, d, bend)
    G = _pull(d, K).sum(axis=0)
    square = (G * G).sum() + EASE * EASE * (d * d).sum()
    speed = np.sqrt((1.0 + (y * y).sum()) / square)
    slope = y / (1.0 + (y * y).sum()) - scale * ((H @ G + EASE * EASE * w) / square)
    for j in range(len(y)):
        H[j] = speed * (scale * H[j] + G[j] * slope)
    return H
