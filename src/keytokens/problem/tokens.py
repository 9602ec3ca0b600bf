"""TokenProblem(X, y, v, ...): frozen, checked once; one leading batch axis allowed."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.attention import token_scores as _token_scores
from keytokens.errors import raise_input


@dataclass(frozen=True, eq=False)
class TokenProblem:
    """n inputs of T tokens in d dimensions, each with a label and, if asked for, a query.

    X (n, T, d), y (n,) +-1, v (d,), query (n, d) or None, mask (n, T) or None (True: a token).
    W (d, m) or None (the identity) is the key-query matrix that stays fixed while p is trained.
    A batch of B problems has B in front of every shape.
    """

    X: Floats
    y: Floats
    v: Floats
    query: Floats | None = None
    mask: Booleans | None = None
    W: Floats | None = None

    def __post_init__(self) -> None:
        X = check.float_array("X", self.X, (3, 4))
        object.__setattr__(self, "X", X)
        *lead, _, d = X.shape
        self._set("y", check.float_array("y", self.y), tuple(lead), "(n,)")
        self._set("v", check.float_array("v", self.v), (*lead[:-1], d), "(d,)")
        if self.query is not None:
            self._set("query", check.float_array("query", self.query), (*lead, d), "(n, d)")
        if self.mask is not None:
            self._set("mask", check.boolean_array("mask", self.mask), X.shape[:-1], "(n, T)")
        if self.W is not None:
            W = check.float_array("W", self.W, len(lead) + 1)
            self._set("W", W, (*lead[:-1], d, W.shape[-1]), "(d, m)")
        self._check_content()

    def _set(self, name: str, array: Any, shape: tuple[int, ...], letters: str) -> None:
        batch = "(B, " + letters[1:] if self.X.ndim == 4 else letters
        check.shape(name, array, shape, batch.replace(",)", ")"))
        object.__setattr__(self, name, array)

    def _check_content(self) -> None:
        if 0 in self.X.shape:
            raise_input(
                "X", "hold at least one input, token and dimension", f"shape {self.X.shape}"
            )
        check.signs("y", self.y)
        if self.mask is not None and not self.mask.any(axis=-1).all():
            where = tuple(int(i) for i in np.argwhere(~self.mask.any(axis=-1))[0])
            raise_input("mask", "keep at least one token per input", f"none at input {where}")

    @property
    def batch(self) -> int | None:
        """The number of problems, None when there is no batch axis."""
        return self.X.shape[0] if self.X.ndim == 4 else None

    @property
    def n(self) -> int:
        """Inputs per problem."""
        return self.X.shape[-3]

    @property
    def T(self) -> int:
        """Tokens per input, masked ones included."""
        return self.X.shape[-2]

    @property
    def d(self) -> int:
        """Embedding dimension."""
        return self.X.shape[-1]

    @property
    def keys(self) -> Floats:
        """k[i, t] = W^T X[i, t], so that the logits of p-training are <k[i, t], p>. (n, T, m)"""
        return self.X if self.W is None else self.X @ self.W[..., None, :, :]

    def __len__(self) -> int:
        return self.batch if self.batch is not None else 1

    def __getitem__(self, k: int) -> "TokenProblem":
        """The k-th problem of a batch."""
        if self.batch is None:
            raise_input("problem", "have a batch axis to be indexed", f"X of shape {self.X.shape}")
        index = check.indices("index", k, self.batch, "problem")
        parts = (self.X, self.y, self.v, self.query, self.mask, self.W)
        return TokenProblem(*(None if part is None else part[index] for part in parts))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        batch = f"batch={self.batch}, " if self.batch is not None else ""
        extras = "".join(f", {k}" for k in ("query", "mask", "W") if getattr(self, k) is not None)
        return f"TokenProblem({batch}n={self.n}, T={self.T}, d={self.d}{extras})"


def token_scores(X: Any, y: Any = None, v: Any = None) -> Floats:
    """gamma[i, t] = y[i] <X[i, t], v>; of arrays, or of a problem (masked tokens: -inf). (n, T)"""
    if not isinstance(X, TokenProblem):
        return _token_scores(np.asarray(X), np.asarray(y), np.asarray(v))
    scores = _token_scores(X.X, X.y, X.v)
    return scores if X.mask is None else np.where(X.mask, scores, -np.inf)


def optimal_tokens(problem: TokenProblem) -> Integers:
    """opt[i] = argmax_t gamma[i, t]; the first one where several tie. (n,)"""
    return np.argmax(token_scores(problem), axis=-1)


def random_problem(
    n: int = 6, T: int = 8, d: int = 10, seed: int = 0, batch: int | None = None
) -> TokenProblem:
    """Unit-norm Gaussian tokens, head and queries, labels +-1.

    Problem k of a batch depends on (seed, k) alone, so a larger batch begins with the smaller
    one, and the unbatched problem is problem 0.
    """
    for name, value in (("n", n), ("T", T), ("d", d), ("batch", batch or 1)):
        check.integer(name, value, least=1)
    drawn = [_draw(n, T, d, (seed, k)) for k in range(batch or 1)]
    if batch is None:
        return TokenProblem(*drawn[0])
    return TokenProblem(*(np.stack(parts) for parts in zip(*drawn, strict=True)))


def _draw(n: int, T: int, d: int, seed: tuple[int, int]) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    X, v, query = (unit(rng.standard_normal(s)) for s in ((n, T, d), (d,), (n, d)))
    return X, rng.choice([-1.0, 1.0], size=n), v, query


def unit(array: Floats) -> Floats:
    """Rows of norm one."""
    return array / np.linalg.norm(array, axis=-1, keepdims=True)
