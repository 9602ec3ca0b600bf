"""TokenProblem(X, y, v, ...): frozen, checked once; one leading batch axis allowed."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.attention import token_scores as _token_scores
from keytokens.errors import raise_input
from keytokens.problem.checked import Checked, one_per_input


@dataclass(frozen=True, eq=False)
class TokenProblem(Checked):
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

    kind: ClassVar[str] = "tokens"
    _lead: ClassVar[str] = "X"
    _axes: ClassVar[int] = 3

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

    def _check_content(self) -> None:
        if 0 in self.X.shape:
            raise_input(
                "X", "hold at least one input, token and dimension", f"shape {self.X.shape}"
            )
        check.signs("y", self.y)
        if self.mask is not None:
            one_per_input("mask", self.mask, "keep at least one token per input")

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
