"""What is trained: how logits, scores and pooled tokens follow from the blocks.

A model is a value without arrays (it is hashable, so that a training loop is compiled once);
the arrays of a problem come as `data`, those being trained as `blocks`, one problem at a time.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from keytokens.attention import logits_of_p, logits_of_W, token_scores

Array = Any
Blocks = dict[str, Array]


class Model(Protocol):
    """What an objective asks of a model."""

    valued: ClassVar[frozenset[str]]  # blocks that change the values, not the logits alone

    @property
    def over(self) -> str:
        """What is trained."""

    def logits(self, blocks: Blocks, data: Blocks) -> Array:
        """a. (n, T)"""

    def v(self, blocks: Blocks, data: Blocks) -> Array:
        """The linear head. (d,)"""

    def scores(self, blocks: Blocks, data: Blocks) -> Array:
        """gamma of the linear head. (n, T)"""

    def tokens_times(self, blocks: Blocks, data: Blocks, u: Array) -> Array:
        """<x[i, t], u[i]>. (n, T)"""

    def pooled(self, blocks: Blocks, data: Blocks, s: Array, top: Array) -> Array:
        """x_top + sum_t s_t (x_t - x_top). (n, d)"""


@dataclass(frozen=True)
class TokenModel:
    """f(X_i) = psi(X_i^T softmax(a_i)), tokens X (n, T, d) given."""

    over: str
    valued: ClassVar[frozenset[str]] = frozenset({"v"})

    def logits(self, blocks: Blocks, data: Blocks) -> Array:
        """a. (n, T)"""
        return _LOGITS[self.over](blocks, data)

    def v(self, blocks: Blocks, data: Blocks) -> Array:
        """The linear head, trained or given. (d,)"""
        return blocks.get("v", data["v"])

    def scores(self, blocks: Blocks, data: Blocks) -> Array:
        """gamma of the linear head. (n, T)"""
        return token_scores(data["X"], data["y"], self.v(blocks, data))

    def tokens_times(self, blocks: Blocks, data: Blocks, u: Array) -> Array:
        """<X[i, t], u[i]>. (n, T)"""
        return (data["X"] @ u[..., None])[..., 0]

    def pooled(self, blocks: Blocks, data: Blocks, s: Array, top: Array) -> Array:
        """x_top + sum_t s_t (x_t - x_top). (n, d)"""
        X = data["X"]
        best = X.__array_namespace__().take_along_axis(X, top[:, None, None], axis=1)
        return best[:, 0] + (s[:, None, :] @ (X - best))[:, 0]


def _logits_of_keys(blocks: Blocks, data: Blocks) -> Array:
    """a[i, t] = <k[i, t], p>. (n, T)"""
    return logits_of_p(data["keys"], blocks["p"])


def _logits_of_W(blocks: Blocks, data: Blocks) -> Array:
    """a[i, t] = <X[i, t], W z[i]>. (n, T)"""
    return logits_of_W(data["X"], blocks["W"], data["query"])


def _logits_of_KQ(blocks: Blocks, data: Blocks) -> Array:
    """a[i, t] = <K^T X[i, t], Q^T z[i]>: W = K Q^T, K and Q (d, m). (n, T)"""
    keys, queries = data["X"] @ blocks["K"], data["query"] @ blocks["Q"]
    return (keys @ queries[..., None])[..., 0]


_LOGITS = {"p": _logits_of_keys, "vp": _logits_of_keys, "W": _logits_of_W, "KQ": _logits_of_KQ}


@dataclass(frozen=True)
class CountModel:
    """f_i = psi(sum_s w_is E_s), w_is ~ N_i(s) e^{a_s}, a = E p: tokens are vocabulary entries."""

    over: str
    valued: ClassVar[frozenset[str]] = frozenset({"E"})

    def logits(self, blocks: Blocks, data: Blocks) -> Array:
        """a_s + log N_i(s): the count is a shift of the logit. (n, V)"""
        return _E(blocks, data) @ blocks.get("p", data["p"]) + data["log_counts"]

    def v(self, blocks: Blocks, data: Blocks) -> Array:
        """The linear head, given. (d,)"""
        return data["v"]

    def scores(self, blocks: Blocks, data: Blocks) -> Array:
        """y_i b_s, b = E v. (n, V)"""
        return data["y"][:, None] * (_E(blocks, data) @ data["v"])

    def tokens_times(self, blocks: Blocks, data: Blocks, u: Array) -> Array:
        """<E_s, u[i]>. (n, V)"""
        return u @ _E(blocks, data).T

    def pooled(self, blocks: Blocks, data: Blocks, s: Array, top: Array) -> Array:
        """sum_s w_is E_s. (n, d)"""
        return s @ _E(blocks, data)


def _E(blocks: Blocks, data: Blocks) -> Array:
    return blocks.get("E", data["E"])


@dataclass(frozen=True)
class NextTokenModel:
    """The attention mass on the positions that hold the label; logits as for W or K, Q."""

    over: str
    valued: ClassVar[frozenset[str]] = frozenset()

    def logits(self, blocks: Blocks, data: Blocks) -> Array:
        """a. (n, T)"""
        return _LOGITS[self.over](blocks, data)
