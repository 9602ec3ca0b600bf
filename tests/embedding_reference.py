"""Slow, obvious references for the count kernels, and small corpora to hold them against."""

import numpy as np
from scipy import sparse

from keytokens.embedding.corpus import Corpus
from keytokens.embedding.kernels import CountLoss, Layout, Rows


def dense_f(theta, counts, layout, bias):
    """f[i, k] = bias_k + sum_pairs sum_s w_is b_s, one input at a time. (n, K)"""
    N = np.column_stack([counts.toarray(), np.ones(counts.shape[0])])
    f = np.tile(np.asarray(bias, dtype=float), (len(N), 1))
    for p, (m, k) in enumerate(zip(layout.pair_map, layout.pair_out, strict=True)):
        for i, row in enumerate(N):
            on = (row > 0) & np.isfinite(theta[:, m])
            if on.any():
                e = row[on] * np.exp(theta[on, m] - theta[on, m].max())
                f[i, k] += e @ theta[on, layout.n_maps + p] / e.sum()
    return f


def dense_loss(theta, counts, target, weight, layout, bias):
    """The weighted mean of log(1 + e^{-yf}), or of -log softmax."""
    f = dense_f(theta, counts, layout, bias)
    if f.shape[1] == 1:
        losses = np.log1p(np.exp(-target * f[:, 0]))
    else:
        shifted = f - f.max(axis=1, keepdims=True)
        chosen = shifted[np.arange(len(f)), target.astype(int)]
        losses = np.log(np.exp(shifted).sum(axis=1)) - chosen
    return weight @ losses / weight.sum()


def dense_gradient(theta, counts, target, weight, layout, bias):
    """dL/da = sum_i w r (b - sum_u w b), dL/db = sum_i w r, in the plain form."""
    N = np.column_stack([counts.toarray(), np.ones(counts.shape[0])])
    f = dense_f(theta, counts, layout, bias)
    share = weight / weight.sum()
    if f.shape[1] == 1:
        r = (-share * target / (1 + np.exp(target * f[:, 0])))[:, None]
    else:
        e = np.exp(f - f.max(axis=1, keepdims=True))
        r = share[:, None] * (e / e.sum(axis=1, keepdims=True))
        r[np.arange(len(f)), target.astype(int)] -= share
    gradient = np.zeros_like(theta)
    for p, (m, k) in enumerate(zip(layout.pair_map, layout.pair_out, strict=True)):
        b = theta[:, layout.n_maps + p]
        for i, row in enumerate(N):
            on = (row > 0) & np.isfinite(theta[:, m])
            if on.any():
                w = np.zeros(len(row))
                w[on] = row[on] * np.exp(theta[on, m] - theta[on, m].max())
                w /= w.sum()
                gradient[:, m] += r[i, k] * w * (b - w @ b)
                gradient[:, layout.n_maps + p] += r[i, k] * w
    return gradient


def random_counts(n=12, V=9, seed=0, density=0.4, binary=False):
    """Small counts; the third row is empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 2 if binary else 4, (n, V)) * (rng.random((n, V)) < density)
    counts[2 % n] = 0
    return sparse.csr_array(counts.astype(float))


def random_case(outputs=1, heads=1, per_class=False, seed=0, scale=1.0, cls=True):
    """(loss, theta, everything the references want)."""
    rng = np.random.default_rng(seed)
    counts = random_counts(seed=seed)
    n, V = counts.shape
    layout = Layout.of(outputs, heads, per_class)
    theta = scale * rng.standard_normal((V + 1, layout.width))
    if not cls:
        theta[-1, : layout.n_maps] = -np.inf
    target = rng.choice([-1.0, 1.0], n) if outputs == 1 else rng.integers(0, outputs, n) * 1.0
    weight, bias = rng.random(n), rng.standard_normal(outputs)
    loss = CountLoss(Rows.of(counts), target, weight, layout, bias)
    return loss, theta, (counts, target, weight, layout, bias)


def planted(n=80, V=30, classes=2, seed=0, length=8):
    """A corpus whose first tokens speak for their class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    draws = rng.integers(classes, V, (n, length))
    draws[:, 0] = np.where(rng.random(n) < 0.9, labels, rng.integers(0, classes, n))
    counts = sparse.lil_array((n, V))
    for i, row in enumerate(draws):
        for s in row:
            counts[i, s] = 1.0
    return Corpus(sparse.csr_array(counts), labels, classes, np.ones(n))
