"""NextTokenProblem(tokens, label, embedding): predict a token that stands in the input."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.errors import raise_input
from keytokens.problem.checked import Checked, one_per_input


@dataclass(frozen=True, eq=False)
class NextTokenProblem(Checked):
    """n inputs of T token ids; the label of each is a token of it, read off by attention.

    tokens (n, T) ids in [0, V), label (n,) ids that occur in their input, embedding (V, d),
    mask (n, T) or None. The query is the last token: loss_i = -log of the attention mass on the
    positions that hold label_i, logits <E[tokens_it], W E[last_i]>.
    A batch of B problems has B in front of every shape.
    """

    tokens: Integers
    label: Integers
    embedding: Floats
    mask: Booleans | None = None

    kind: ClassVar[str] = "next"
    _lead: ClassVar[str] = "tokens"
    _axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        E = check.float_array("embedding", self.embedding, (2, 3))
        tokens = check.indices("tokens", self.tokens, E.shape[-2], "vocabulary", "index")
        check.axes("tokens", tokens, (E.ndim,))
        object.__setattr__(self, "tokens", tokens)
        *lead, n, _ = tokens.shape
        self._set("embedding", E, (*lead, *E.shape[-2:]), "(V, d)")
        label = check.indices("label", self.label, E.shape[-2], "vocabulary")
        self._set("label", label, (*lead, n), "(n,)")
        if self.mask is not None:
            self._set("mask", check.boolean_array("mask", self.mask), tokens.shape, "(n, T)")
            one_per_input("mask", self.mask, "keep at least one token per input")
        if 0 in tokens.shape:
            raise_input("tokens", "hold at least one input and one token", f"shape {tokens.shape}")
        one_per_input("label", self.is_label, "occur in its input")

    @property
    def is_label(self) -> Booleans:
        """Whether the position holds the label. (n, T)"""
        same = self.tokens == self.label[..., None]
        return same if self.mask is None else same & self.mask

    @property
    def X(self) -> Floats:
        """x[i, t] = E[tokens[i, t]]. (n, T, d)"""
        return self._embedded(self.tokens)

    @property
    def last(self) -> Integers:
        """The id of the last token of each input. (n,)"""
        at = np.full(self.label.shape, self.T - 1)
        if self.mask is not None:
            at = self.T - 1 - np.argmax(self.mask[..., ::-1], axis=-1)
        return np.take_along_axis(self.tokens, at[..., None], axis=-1)[..., 0]

    @property
    def query(self) -> Floats:
        """z[i] = the embedding of the last token of input i. (n, d)"""
        return self._embedded(self.last)

    def _embedded(self, ids: Integers) -> Floats:
        if self.batch is None:
            return self.embedding[ids]
        return np.stack([E[i] for E, i in zip(self.embedding, ids, strict=True)])

    @property
    def n(self) -> int:
        """Inputs per problem."""
        return self.tokens.shape[-2]

    @property
    def T(self) -> int:
        """Tokens per input, masked ones included."""
        return self.tokens.shape[-1]

    @property
    def d(self) -> int:
        """Embedding dimension."""
        return self.embedding.shape[-1]

    def __repr__(self) -> str:
        batch = f"batch={self.batch}, " if self.batch is not None else ""
        V = self.embedding.shape[-2]
        return f"NextTokenProblem({batch}n={self.n}, T={self.T}, V={V}, d={self.d})"
