"""Slow, obvious references: one formula a line, loops, the pairwise form of the gradient."""

import numpy as np

LOSSES = {
    "logistic": (lambda m: np.log1p(np.exp(-m)), lambda m: -1 / (1 + np.exp(m))),
    "exponential": (lambda m: np.exp(-m), lambda m: -np.exp(-m)),
    "linear": (lambda m: -m, lambda m: -np.ones_like(m)),
    "own": (lambda m: (1 - m) ** 2, lambda m: -2 * (1 - m)),
}


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


def heads(d):
    """name -> (a NumPy psi(x), its gradient); the linear one is made by the caller."""
    rng = np.random.default_rng(5)
    A, b, u = rng.standard_normal((4, d)), rng.standard_normal(4), rng.standard_normal(4)
    own = (lambda x: np.sin(x).sum() + 0.5 * x @ x, lambda x: np.cos(x) + x)
    relu = (lambda x: np.maximum(A @ x, 0).sum(), lambda x: A.T @ (A @ x > 0))
    mlp = (lambda x: u @ np.tanh(A @ x + b), lambda x: A.T @ (u / np.cosh(A @ x + b) ** 2))
    return {"relu": relu, "mlp": mlp, "own": own}, (A, b, u)


def pairwise(s, gamma, K):
    """K^T S'(a) gamma = 1/2 sum_tu s_t s_u (gamma_t - gamma_u) (k_t - k_u)"""
    total = np.zeros(K.shape[1])
    for t in range(len(s)):
        for u in range(len(s)):
            total += 0.5 * s[t] * s[u] * (gamma[t] - gamma[u]) * (K[t] - K[u])
    return total


def token_gradient(over, blocks, problem, loss, psi):
    """The gradient of L over p, W, KQ or vp, an input at a time. psi: (value, gradient) or None."""
    X, y, z = problem.X, problem.y, problem.query
    v = blocks.get("v", problem.v)
    value, slope = psi or ((lambda x: v @ x), (lambda x: v))
    grads = {name: np.zeros_like(w) for name, w in blocks.items()}
    for i in range(problem.n):
        keep = np.ones(problem.T, bool) if problem.mask is None else problem.mask[i]
        tokens = X[i][keep]
        K = problem.keys[i][keep]
        if over in ("W", "KQ"):
            W = blocks["W"] if over == "W" else blocks["K"] @ blocks["Q"].T
            K, w = np.einsum("td,e->tde", tokens, z[i]).reshape(len(tokens), -1), W.ravel()
        else:
            w = blocks["p"]
        s = softmax(K @ w)
        pooled = s @ tokens
        c = LOSSES[loss][1](y[i] * value(pooled)) / problem.n
        g = c * pairwise(s, y[i] * (tokens @ slope(pooled)), K)
        if over in ("p", "vp"):
            grads["p"] += g
        if over == "vp":
            grads["v"] += c * y[i] * pooled
        if over in ("W", "KQ"):
            G = g.reshape(len(tokens[0]), -1)
            parts = {"W": G} if over == "W" else {"K": G @ blocks["Q"], "Q": G.T @ blocks["K"]}
            for name, part in parts.items():
                grads[name] += part
    return grads


def count_gradient(blocks, problem, loss, psi):
    """The gradient of L with respect to E and p, each sentence written out token by token."""
    E, p = blocks.get("E", problem.embedding), blocks.get("p", problem.p)
    v, n = problem.v, problem.n
    grads = {"E": np.zeros_like(problem.embedding), "p": np.zeros(problem.d)}
    value, slope = psi or ((lambda x: v @ x), (lambda x: v))
    for i in range(n):
        ids = np.repeat(np.arange(problem.V), problem.counts[i].astype(int))
        s = softmax(E[ids] @ p)
        pooled = s @ E[ids]
        c = LOSSES[loss][1](problem.y[i] * value(pooled)) * problem.y[i] / n
        u = slope(pooled)
        da = s * (E[ids] @ u - u @ pooled)
        grads["p"] += c * E[ids].T @ da
        for t, token in enumerate(ids):
            grads["E"][token] += c * (da[t] * p + s[t] * u)
    return {name: grads[name] for name in blocks}


def next_gradient(blocks, problem):
    """The gradient of -mean log(attention mass on the label)."""
    grads = {name: np.zeros_like(w) for name, w in blocks.items()}
    W = blocks["W"] if "W" in blocks else blocks["K"] @ blocks["Q"].T
    for i in range(problem.n):
        x, z, own = problem.X[i], problem.query[i], problem.is_label[i]
        s = softmax(x @ W @ z)
        da = s - own * s / s[own].sum()
        G = np.outer(x.T @ da, z) / problem.n
        parts = {"W": G} if "W" in blocks else {"K": G @ blocks["Q"], "Q": G.T @ blocks["K"]}
        for name, part in parts.items():
            grads[name] += part
    return grads
