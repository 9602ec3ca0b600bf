"""The commonest job, compiled by Numba: p or W, linear head, a fixed step.

The loop lives in logit space. With rows r_it = x_it z_i^T, logits <r_it, W>, a step along the
gradient sum_it da_it r_it moves them by -step Gram da: no d in it, and no matrix but the Gram
matrix of the rows. W itself is start - sum_it coefficient_it r_it, recovered where it is saved.
p is the case of one query entry, 1. Problems do not meet, so threads cannot change a bit.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from keytokens._checks import Booleans, Floats, Integers
from keytokens.dynamics.job import Job, Outcome
from keytokens.dynamics.steps import GradientDescent, NormalizedDescent
from keytokens.dynamics.trajectory import Reason
from keytokens.losses import LOSSES

RUNNING, STATIONARY, STALLED, NOT_FINITE = 0, 1, 2, 3
REASONS = (Reason.STEPS, Reason.STATIONARY, Reason.STALLED, Reason.NOT_FINITE)
LOGISTIC, EXPONENTIAL, LINEAR = 0, 1, 2
_LOSS_CODES = {"logistic": LOGISTIC, "exponential": EXPONENTIAL, "linear": LINEAR}
_MOST_ROWS = 512  # beyond, the Gram matrix costs more than the rows
_LARGEST = 1e308  # of logits
_ORDINARY = 1e30  # sizes within its inverse and it: squares of products stay in range


def serves(job: Job) -> bool:
    """Whether this loop knows the job."""
    return (
        job.kind == "tokens"
        and job.model.over in ("p", "W")
        and type(job.method) in (GradientDescent, NormalizedDescent)
        and not callable(job.method.step)
        and job.head is None
        and LOSSES.get(job.loss.name) is job.loss
        and job.data["X"].shape[1] * job.data["X"].shape[2] <= _MOST_ROWS
        and _has_ordinary_sizes(job)
    )


def _has_ordinary_sizes(job: Job) -> bool:
    """Tokens, queries and scores whose Gram matrix neither over- nor underflows."""
    names = ("X", "v", "query") if job.model.over == "W" else ("X", "v", "keys")
    sizes = np.array([np.abs(job.data[name]).max() for name in names])
    return bool(((sizes == 0) | (sizes > 1 / _ORDINARY) & (sizes < _ORDINARY)).all())


def run(job: Job) -> Outcome:
    """Train every problem of the batch, in as many threads as there are cores."""
    (over,) = job.start
    X, z, mask, start = _arrays(job, over)
    scores = job.data["y"][..., None] * (X_dot(job.data["X"], job.data["v"]))
    B, n, T = scores.shape
    K = len(job.stops)
    path, norms, losses = np.empty((B, K, *start.shape[1:])), np.empty((B, K)), np.empty((B, K))
    attention, codes = np.empty((B, n, T)), np.zeros(B, dtype=np.int64)
    rule = (isinstance(job.method, NormalizedDescent), float(job.method.step))
    fixed = (X, z, mask, scores, start, job.stops, *rule, _LOSS_CODES[job.loss.name])
    found = (path, norms, losses, attention, codes)
    _in_threads(B, lambda lo, hi: _block(lo, hi, *fixed, *found))
    shaped = path if over == "W" else path[..., 0]
    reasons = tuple(REASONS[c] for c in codes)
    return Outcome({over: shaped}, job.stops, reasons, norms, losses, attention)


def X_dot(X: Floats, v: Floats) -> Floats:
    """<X[b, i, t], v[b]>, each a sum in a fixed order. (B, n, T)"""
    return np.einsum("bitd,bd->bit", X, v)


def _arrays(job: Job, over: str) -> tuple[Floats, Floats, Booleans, Floats]:
    """Rows (B, n, T, d), queries (B, n, m), mask (B, n, T), start (B, d, m)."""
    X = job.data["X"] if over == "W" else job.data["keys"]
    z = job.data["query"] if over == "W" else np.ones((*X.shape[:2], 1))
    mask = job.data.get("mask", np.ones(X.shape[:3], dtype=bool))
    start = job.start[over] if over == "W" else job.start[over][..., None]
    # Copies: Numba compiles once more for read-only arrays.
    return tuple(np.array(a, order="C") for a in (X, z, mask, start))  # type: ignore[return-value]


def _in_threads(B: int, work: Any) -> None:
    """work(lo, hi) over blocks of problems; the blocks do not depend on the machine."""
    edges = list(range(0, B, max(1, -(-B // 64)))) + [B]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, len(edges) - 1)) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))


@njit(cache=True, nogil=True, error_model="numpy")
def _block(
    lo: int, hi: int, X: Floats, z: Floats, mask: Booleans, scores: Floats, start: Floats,
    stops: Integers, normalized: bool, step: float, loss: int,
    path: Floats, norms: Floats, losses: Floats, attention: Floats, codes: Integers,
) -> None:  # fmt: skip
    """Problems lo to hi, one after the other."""
    for b in range(lo, hi):
        codes[b] = _problem(
            X[b], z[b], mask[b], scores[b], start[b], stops, normalized, step, loss,
            path[b], norms[b], losses[b], attention[b],
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _problem(
    X: Floats, z: Floats, mask: Booleans, scores: Floats, start: Floats,
    stops: Integers, normalized: bool, step: float, loss: int,
    path: Floats, norms: Floats, losses: Floats, attention: Floats,
) -> int:  # fmt: skip
    """One run; returns why it ended."""
    n, T = scores.shape
    gram, gamma = _gram(X, z), scores.ravel()
    coefficients, da, change = np.zeros(n * T), np.empty(n * T), np.empty(n * T)
    a, bits, m, reach = np.empty(n * T), np.empty(n * T, np.int64), np.empty(n), np.empty(n)
    tops, code, k = np.empty(n, np.int64), RUNNING, 0
    for stop in range(len(stops)):
        _logits(X, z, mask, start, coefficients, path[stop], a)  # afresh: no rounding piles up
        while k < stops[stop] and code == RUNNING:
            exponent = _slopes(a, gamma, loss, bits, da, m, reach, tops)
            code = _move(gram, da, exponent, normalized, step, a, coefficients, change)
            k += 1
        norms[stop] = _logits(X, z, mask, start, coefficients, path[stop], a)
        _slopes(a, gamma, loss, bits, da, m, reach, tops)
        losses[stop] = _mean_loss(m, loss)
    _weights(a, attention)
    return code


@njit(cache=True, nogil=True, error_model="numpy")
def _gram(X: Floats, z: Floats) -> Floats:
    """<r_it, r_ju> = <x_it, x_ju> <z_i, z_j>. (nT, nT)"""
    n, T, d = X.shape
    flat = X.reshape(n * T, d)
    gram = np.empty((n * T, n * T))
    for r in range(n * T):
        for c in range(r + 1):
            x, q = 0.0, 0.0
            for e in range(d):
                x += flat[r, e] * flat[c, e]
            for e in range(z.shape[1]):
                q += z[r // T, e] * z[c // T, e]
            gram[r, c] = gram[c, r] = x * q
    return gram


@njit(cache=True, nogil=True, error_model="numpy")
def _logits(
    X: Floats, z: Floats, mask: Booleans, start: Floats, coefficients: Floats, W: Floats, a: Floats
) -> float:
    """W = start - sum_it coefficient_it x_it z_i^T, a_it = <x_it, W z_i> or -inf; ||W||_F."""
    n, T, d = X.shape
    W[:] = start
    for e in range(d):
        for i in range(n):
            total = 0.0
            for t in range(T):
                total += coefficients[i * T + t] * X[i, t, e]
            for f in range(z.shape[1]):
                W[e, f] -= total * z[i, f]
    for i in range(n):
        for t in range(T):
            a[i * T + t] = 0.0 if mask[i, t] else -np.inf
        for e in range(d):
            u = 0.0
            for f in range(z.shape[1]):
                u += W[e, f] * z[i, f]
            for t in range(T):
                a[i * T + t] += X[i, t, e] * u
    return _norm(W)


@njit(cache=True, nogil=True, error_model="numpy")
def _norm(W: Floats) -> float:
    """||W||_F, divided by its largest entry first so that no square overflows."""
    top, total = 0.0, 0.0
    for w in W.flat:
        top = max(top, abs(w))
    if top == 0.0:
        return 0.0
    for w in W.flat:
        total += (w / top) ** 2
    return top * np.sqrt(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _slopes(
    a: Floats, gamma: Floats, loss: int, bits: Integers, da: Floats, m: Floats, reach: Floats,
    tops: Integers,
) -> float:  # fmt: skip
    """da, relative to e^exponent, and the margins m; returns the exponent.

    da_it = l'(m_i)/n s_it [delta_it - sum_u s_iu delta_iu], delta relative to the heaviest token;
    each input's exponent is its largest a_t - a_top over tokens whose score differs.
    """
    n = len(m)
    T = len(a) // n
    for i in range(n):
        tops[i], reach[i] = _shift(i * T, (i + 1) * T, a, gamma, da)
    _exp(da, bits)
    exponent = -np.inf
    for i in range(n):
        m[i] = _input_slopes(i * T, (i + 1) * T, gamma, gamma[tops[i]], reach[i], da)
        reach[i] += _log_slope(m[i], loss)
        exponent = max(exponent, reach[i])
    if exponent == -np.inf:
        da[:] = 0.0
        return 0.0
    for i in range(n):
        factor = -np.exp(reach[i] - exponent) / n
        for t in range(i * T, (i + 1) * T):
            da[t] *= factor
    return exponent


@njit(cache=True, nogil=True, error_model="numpy")
def _shift(lo: int, hi: int, a: Floats, gamma: Floats, x: Floats) -> tuple[int, float]:
    """x_t = a_t - a_top - shift where the score differs, a_t - a_top where not; (top, shift).

    Choices instead of branches, and bounds instead of slices: three times as fast.
    """
    top = lo
    for t in range(lo + 1, hi):
        top = t if a[t] > a[top] else top
    highest, best, shift = a[top], gamma[top], -np.inf
    for t in range(lo, hi):
        x[t] = a[t] - highest
        shift = x[t] if gamma[t] != best and x[t] > shift else shift
    if shift > -np.inf:
        for t in range(lo, hi):
            x[t] -= shift if gamma[t] != best else 0.0
    return top, shift


@njit(cache=True, nogil=True, error_model="numpy")
def _input_slopes(lo: int, hi: int, gamma: Floats, best: float, shift: float, g: Floats) -> float:
    """From g = e^x to g_t = s_t [delta_t - sum_u s_u delta_u] / e^shift of one input; its m."""
    scale, tied, others, total = np.exp(shift), 0.0, 0.0, 0.0
    for t in range(lo, hi):
        delta = gamma[t] - best
        tied += g[t] if delta == 0.0 else 0.0
        others += g[t] if delta != 0.0 else 0.0
        total += g[t] * delta
    share = 1.0 / (tied + scale * others)
    total *= share
    for t in range(lo, hi):
        delta = gamma[t] - best
        g[t] *= share * (-total if delta == 0.0 else delta - scale * total)
    return best + scale * total


@njit(cache=True, nogil=True, error_model="numpy")
def _exp(x: Floats, bits: Integers) -> None:
    """x <- e^x for x <= 0 in place, 0 below -708: e^x = 2^k e^r, |r| <= ln(2)/2, in a form that
    the compiler turns into vector instructions; relative error ~ 2e-16."""
    as_float = bits.view(np.float64)
    for j in range(len(x)):
        as_float[j] = max(x[j], -708.0) * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52
    for j in range(len(x)):
        k = as_float[j] - 6755399441055744.0
        y = max(x[j], -708.0)
        r = (y - k * 0.6931471803691238) - k * 1.9082149292705877e-10
        p = 1.0 / 6227020800.0
        for c in (
            1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
            1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0,
        ):  # fmt: skip
            p = p * r + c
        x[j] = p if x[j] >= -708.0 else 0.0
    for j in range(len(x)):
        bits[j] = (bits[j] + 1023) << 52
    for j in range(len(x)):
        x[j] *= as_float[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _move(
    gram: Floats, da: Floats, exponent: float, normalized: bool, step: float,
    a: Floats, coefficients: Floats, change: Floats,
) -> int:  # fmt: skip
    """One step in logit space; nothing moves where it would not be finite."""
    _times(gram, da, change)
    square, total = 0.0, 0.0
    for r in range(len(da)):
        square += da[r] * change[r]
        total += abs(da[r])
    if total == 0.0 or (normalized and square <= 0.0):
        return STATIONARY
    size = step / np.sqrt(square) if normalized else step * np.exp(exponent)
    wild = 0  # counted, not searched for: the compiler makes vector instructions of it
    for r in range(len(da)):
        wild += (abs(a[r] - size * change[r]) >= _LARGEST) & (a[r] > -np.inf)
    if wild or not np.isfinite(size * total):
        return NOT_FINITE
    moved = 0
    for r in range(len(da)):
        new = coefficients[r] + size * da[r]
        moved += new != coefficients[r]
        coefficients[r] = new
    for r in range(len(da)):
        a[r] -= size * change[r]
    return RUNNING if moved else STALLED


@njit(cache=True, nogil=True, error_model="numpy")
def _times(gram: Floats, da: Floats, change: Floats) -> None:
    """change = gram da, four rows of the symmetric matrix at a time."""
    N = len(da)
    whole = N - N % 4
    change[:] = 0.0
    for r in range(0, whole, 4):
        g0, g1, g2, g3 = da[r], da[r + 1], da[r + 2], da[r + 3]
        for c in range(N):
            low = g0 * gram[r, c] + g1 * gram[r + 1, c]
            change[c] += low + (g2 * gram[r + 2, c] + g3 * gram[r + 3, c])
    for r in range(whole, N):
        for c in range(N):
            change[c] += da[r] * gram[r, c]


@njit(cache=True, nogil=True, error_model="numpy")
def _log_slope(m: float, loss: int) -> float:
    """log|l'(m)|"""
    if loss == LOGISTIC:
        return -(max(m, 0.0) + np.log1p(np.exp(-abs(m))))
    return -m if loss == EXPONENTIAL else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _mean_loss(m: Floats, loss: int) -> float:
    """mean_i l(m_i)"""
    total = 0.0
    for margin in m:
        if loss == LOGISTIC:
            total += max(-margin, 0.0) + np.log1p(np.exp(-abs(margin)))
        else:
            total += np.exp(-margin) if loss == EXPONENTIAL else -margin
    return total / len(m)


@njit(cache=True, nogil=True, error_model="numpy")
def _weights(a: Floats, s: Floats) -> None:
    """s = softmax(a). (n, T)"""
    n, T = s.shape
    for i in range(n):
        top, total = -np.inf, 0.0
        for t in range(T):
            top = max(top, a[i * T + t])
        for t in range(T):
            s[i, t] = np.exp(a[i * T + t] - top)
            total += s[i, t]
        for t in range(T):
            s[i, t] /= total
