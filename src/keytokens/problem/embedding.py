"""EmbeddingProblem(counts, y, embedding, v): sentences as counts over a vocabulary."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.errors import raise_input
from keytokens.problem.checked import Checked, one_per_input


@dataclass(frozen=True, eq=False)
class EmbeddingProblem(Checked):
    """n sentences over V tokens whose embeddings are trained too.

    counts (n, V) >= 0, a row sum above 0 (an array or a SciPy sparse matrix); y (n,) +-1;
    embedding (V, d): E at the start; v (d,); p (d,) or None (zeros): the prompt while E alone is
    trained. f_i = sum_s N_i(s) e^{a_s} b_s / Z_i with a = E p, b = E v.
    A batch of B problems has B in front of every shape.
    """

    counts: Floats
    y: Floats
    embedding: Floats
    v: Floats
    p: Floats | None = None

    kind: ClassVar[str] = "counts"
    _lead: ClassVar[str] = "counts"
    _axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        counts = check.float_array("counts", _dense(self.counts), (2, 3))
        object.__setattr__(self, "counts", counts)
        *lead, n, V = counts.shape
        E = check.float_array("embedding", self.embedding, counts.ndim)
        self._set("embedding", E, (*lead, V, E.shape[-1]), "(V, d)")
        self._set("y", check.float_array("y", self.y), (*lead, n), "(n,)")
        self._set("v", check.float_array("v", self.v), (*lead, E.shape[-1]), "(d,)")
        if self.p is not None:
            self._set("p", check.float_array("p", self.p), (*lead, E.shape[-1]), "(d,)")
        self._check_content()

    def _check_content(self) -> None:
        if 0 in self.counts.shape or 0 in self.embedding.shape:
            shapes = f"counts {self.counts.shape}, embedding {self.embedding.shape}"
            raise_input("counts and embedding", "not be empty", shapes)
        check.signs("y", self.y)
        if (self.counts < 0).any():
            raise_input("counts", "be zero or positive", f"{self.counts.min():g}")
        one_per_input("counts", self.counts > 0, "hold at least one token per sentence")

    @property
    def n(self) -> int:
        """Sentences per problem."""
        return self.counts.shape[-2]

    @property
    def V(self) -> int:
        """Vocabulary size."""
        return self.counts.shape[-1]

    @property
    def d(self) -> int:
        """Embedding dimension."""
        return self.embedding.shape[-1]

    def __repr__(self) -> str:
        batch = f"batch={self.batch}, " if self.batch is not None else ""
        return f"EmbeddingProblem({batch}n={self.n}, V={self.V}, d={self.d})"


def _dense(counts: Any) -> Any:
    return counts.toarray() if hasattr(counts, "toarray") else np.asarray(counts)
