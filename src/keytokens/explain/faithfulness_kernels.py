"""The compiled passes behind faithfulness: one text after the other, every bin at once."""

from typing import Any

import numpy as np
from numba import njit

from keytokens._checks import Floats


@njit(cache=True, nogil=True)
def _logits_of(log_w: Floats, value: Floats, bias: Floats, keep: Any, out: Floats) -> None:
    """bias + sum_m of the mean of value under softmax(log_w) over what is kept. (K,)"""
    M, size = log_w.shape
    out[:] = bias
    for m in range(M):
        top = -1
        for j in range(size):
            if keep[j] and log_w[m, j] > -np.inf and (top < 0 or log_w[m, j] > log_w[m, top]):
                top = j
        if top < 0:
            continue
        total = 0.0
        rest = np.zeros(len(out))
        for j in range(size):
            if keep[j]:
                e = np.exp(log_w[m, j] - log_w[m, top])
                total += e
                for k in range(len(out)):
                    rest[k] += e * (value[m, k, j] - value[m, k, top])
        for k in range(len(out)):
            out[k] += value[m, k, top] + rest[k] / total


@njit(cache=True, nogil=True)
def _gather(columns: Any, data: Floats, attention: Floats, value: Floats) -> tuple[Floats, Floats]:
    """One text's log weights (M, F+1) and values (M, K, F+1), <cls> last."""
    M, K, V = value.shape[0], value.shape[1], value.shape[2] - 1
    F = len(columns)
    log_w, b = np.empty((M, F + 1)), np.empty((M, K, F + 1))
    for j in range(F + 1):
        s = columns[j] if j < F else V
        more = np.log(data[j]) if j < F else 0.0
        for m in range(M):
            log_w[m, j] = attention[m, s] + more
            for k in range(K):
                b[m, k, j] = value[m, k, s]
    return log_w, b


@njit(cache=True, nogil=True)
def _size_of(share: float, F: int) -> int:
    """How many of F tokens a bin takes: at least one of any, none for share 0."""
    return min(F, int(np.ceil(share * F - 1e-9)))


@njit(cache=True, nogil=True)
def subset_logits(
    indptr: Any,
    indices: Any,
    data: Floats,
    attention: Floats,
    value: Floats,
    bias: Floats,
    ranking: Floats,
    shares: Floats,
) -> tuple[Floats, Floats]:
    """Logits without the top share of the ranking, and with it alone. (n, B, K) each"""
    n, B, K = len(indptr) - 1, len(shares), len(bias)
    removed, kept = np.empty((n, B, K)), np.empty((n, B, K))
    for i in range(n):
        lo, hi = indptr[i], indptr[i + 1]
        log_w, b = _gather(indices[lo:hi], data[lo:hi], attention, value)
        order = np.argsort(-ranking[lo:hi], kind="mergesort")
        for q in range(B):
            top = order[: _size_of(shares[q], hi - lo)]
            keep = np.ones(hi - lo + 1, np.bool_)
            keep[top] = False
            _logits_of(log_w, b, bias, keep, removed[i, q])
            keep[:] = False
            keep[top] = True
            keep[hi - lo] = True
            _logits_of(log_w, b, bias, keep, kept[i, q])
    return removed, kept


@njit(cache=True, nogil=True)
def leave_one_out(
    indptr: Any,
    indices: Any,
    data: Floats,
    attention: Floats,
    value: Floats,
    bias: Floats,
) -> Floats:
    """logit_k - logit_k without the token, (K, nnz): w_t (b_t - f) / (1 - w_t) in one map.

    1 - w_t is summed from the others, not subtracted; for the heaviest token all is redone.
    """
    K, M = len(bias), len(attention)
    change = np.zeros((K, len(indices)))
    for i in range(len(indptr) - 1):
        lo, hi = indptr[i], indptr[i + 1]
        F = hi - lo
        log_w, b = _gather(indices[lo:hi], data[lo:hi], attention, value)
        keep = np.ones(F + 1, np.bool_)
        with_, without = np.empty(K), np.empty(K)
        for m in range(M):
            top = np.argmax(log_w[m])
            e = np.exp(log_w[m] - log_w[m, top])
            total = e.sum()
            one, bs, none = log_w[m : m + 1], b[m : m + 1], np.zeros(K)
            _logits_of(one, bs, none, keep, with_)
            for j in range(F):
                if j == top or e[j] > 0.5 * total:
                    keep[j] = False
                    _logits_of(one, bs, none, keep, without)
                    keep[j] = True
                    change[:, lo + j] += with_ - without
                else:
                    change[:, lo + j] += e[j] * (b[m, :, j] - with_) / (total - e[j])
    return change


@njit(cache=True, nogil=True)
def _extreme(log_w: Floats, signed: Floats, k: int) -> float:
    """max over kept sets of k tokens (and <cls>) of the weighted mean of `signed`; Dinkelbach.

    The mean is held as signed[ref] + mu, ref the heaviest kept token and mu by sign and logarithm:
    so the next round still sees what a token that holds all the weight hides.
    """
    F = len(log_w) - 1
    keep = np.zeros(F + 1, np.bool_)
    keep[:k] = True
    keep[F] = True
    ref, sign, log_mu = _relative(log_w, signed, keep)
    for _ in range(100):
        order = np.argsort(_keys(log_w, signed, ref, sign, log_mu), kind="mergesort")
        keep[:F] = False
        keep[order[:k]] = True
        ref2, sign2, log_mu2 = _relative(log_w, signed, keep)
        if ref2 == ref:
            more = (sign2, sign2 * log_mu2) > (sign, sign * log_mu)
        else:
            more = _value(signed, ref2, sign2, log_mu2) > _value(signed, ref, sign, log_mu)
        if not more:
            break
        ref, sign, log_mu = ref2, sign2, log_mu2
    return _value(signed, ref, sign, log_mu)


@njit(cache=True, nogil=True)
def _value(signed: Floats, ref: int, sign: float, log_mu: float) -> float:
    """signed[ref] + mu; 0 where nothing is kept."""
    if ref < 0:
        return 0.0
    return signed[ref] + (sign * np.exp(log_mu) if sign != 0.0 else 0.0)


@njit(cache=True, nogil=True)
def _relative(log_w: Floats, signed: Floats, keep: Any) -> tuple[int, float, float]:
    """The heaviest kept token, and the mean of what is kept relative to it: sign and logarithm."""
    ref, second = -1, -np.inf
    for s in range(len(log_w)):
        if keep[s] and log_w[s] > -np.inf and (ref < 0 or log_w[s] > log_w[ref]):
            ref = s
    for s in range(len(log_w)):
        if keep[s] and s != ref:
            second = max(second, log_w[s])
    if second == -np.inf:
        return ref, 0.0, 0.0
    pull, total = 0.0, 0.0
    for s in range(len(log_w)):
        if keep[s] and s != ref:
            e = np.exp(log_w[s] - second)
            pull += e * (signed[s] - signed[ref])
            total += e
    if pull == 0.0:
        return ref, 0.0, 0.0
    gap = second - log_w[ref]
    log_mu = gap + np.log(abs(pull)) - np.log1p(np.exp(gap) * total)
    return ref, 1.0 if pull > 0 else -1.0, log_mu


@njit(cache=True, nogil=True)
def _keys(log_w: Floats, signed: Floats, ref: int, sign: float, log_mu: float) -> Floats:
    """Sorts ascending by -z_s (signed_s - mean), in a scale of logarithms. (F,)"""
    F = len(log_w) - 1
    keys, signs = np.zeros(F), np.zeros(F)
    base = signed[ref] if ref >= 0 else 0.0
    mu = sign * np.exp(log_mu) if sign != 0.0 else 0.0
    low = np.inf
    for s in range(F):
        d = signed[s] - base
        if d == 0.0:
            signs[s], keys[s] = -sign, log_w[s] + log_mu
        elif d != mu:
            signs[s], keys[s] = np.sign(d - mu), log_w[s] + np.log(abs(d - mu))
        if signs[s] != 0.0:
            low = min(low, keys[s])
    for s in range(F):
        keys[s] = -signs[s] * (keys[s] - low + 1.0)
    return keys


@njit(cache=True, nogil=True)
def extremes(
    indptr: Any,
    indices: Any,
    data: Floats,
    attention: Floats,
    value: Floats,
    bias: float,
    sign: Floats,
    shares: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Signed logits (n, B): lowest, highest without k tokens; lowest, highest with k alone."""
    n, B = len(indptr) - 1, len(shares)
    low_rest, high_rest = np.empty((n, B)), np.empty((n, B))
    low_kept, high_kept = np.empty((n, B)), np.empty((n, B))
    for i in range(n):
        lo, hi = indptr[i], indptr[i + 1]
        log_w, b = _gather(indices[lo:hi], data[lo:hi], attention, value)
        s, a, own = sign[i], log_w[0], b[0, 0]
        for q in range(B):
            k = _size_of(shares[q], hi - lo)
            low_rest[i, q] = s * bias - _extreme(a, -s * own, hi - lo - k)
            high_rest[i, q] = s * bias + _extreme(a, s * own, hi - lo - k)
            low_kept[i, q] = s * bias - _extreme(a, -s * own, k)
            high_kept[i, q] = s * bias + _extreme(a, s * own, k)
    return low_rest, high_rest, low_kept, high_kept
