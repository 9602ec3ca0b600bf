"""The fitted model: attention logits a, values b and a bias, and what they say of counts.

    logit[i, k] = bias[k] + sum_m sum_s w[m, i, s] b[m, k, s],
    w[m, i, s] = N_i(s) e^{a[m, s]} / Z[m, i]

The last column V is one constant <cls> token that every text has once (a = -inf: it has none).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.embedding import kernels
from keytokens.embedding.rows import Rows
from keytokens.errors import raise_input


@dataclass(frozen=True, eq=False)
class AttentionScores:
    """attention a (M, V+1), value b (M, K, V+1), bias (K,): M maps, K outputs, V tokens + <cls>."""

    attention: Floats
    value: Floats
    bias: Floats

    def __post_init__(self) -> None:
        for name, letters in (("attention", 2), ("value", 3), ("bias", 1)):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            check.axes(name, array, (letters,))
            object.__setattr__(self, name, array)
        M, K, V = self.attention.shape[0], len(self.bias), self.attention.shape[1] - 1
        check.shape("value", self.value, (M, K, V + 1), "(M, K, V+1)")
        if not np.isfinite(self.attention[:, :-1]).all() or np.isnan(self.attention).any():
            raise_input("attention", "be finite but for <cls>", "an infinite or missing logit")
        for name in ("value", "bias"):
            check.finite(name, getattr(self, name))

    @property
    def n_maps(self) -> int:
        """M: attention maps."""
        return self.attention.shape[0]

    @property
    def n_outputs(self) -> int:
        """K: 1 for two classes, else the number of classes."""
        return len(self.bias)

    @property
    def n_features(self) -> int:
        """V: tokens, <cls> not counted."""
        return self.attention.shape[1] - 1

    @property
    def has_cls(self) -> bool:
        """Is there a constant token?"""
        return bool(np.isfinite(self.attention[:, -1]).any())


def logits(scores: AttentionScores, counts: sparse.csr_array, n_jobs: int | None = None) -> Floats:
    """logit[i, k] = bias[k] + sum_m sum_s w[m, i, s] b[m, k, s]. (n, K)"""
    rows = _rows(scores, counts)
    pooled = np.zeros((rows.n, scores.n_outputs))
    for a, b in zip(scores.attention, scores.value, strict=True):
        pooled += kernels.pooled(rows, a, b, n_jobs)
    return pooled + scores.bias


def weights(scores: AttentionScores, counts: sparse.csr_array) -> tuple[Floats, Floats]:
    """w[m, i, s], aligned with counts.data (M, nnz), and the weight of <cls> (M, n)."""
    rows = _rows(scores, counts)
    both = [kernels.attention_weights(rows, a) for a in scores.attention]
    return np.stack([w for w, _ in both]), np.stack([cls for _, cls in both])


def _rows(scores: AttentionScores, counts: sparse.csr_array) -> Rows:
    if counts.shape[1] != scores.n_features:
        raise_input("counts", f"have {scores.n_features} columns", counts.shape[1])
    return Rows.of(counts)
