"""One fused pass over the counts: f, the loss, and its gradients in a and b.

    w_is = N_i(s) e^{a_s - max_i} / Z_i,   f_i = b_top + sum_s w_is (b_s - b_top)
    dL/db_s = sum_i w_is r_i
    dL/da_s = sum_i w_is r_i [(b_s - b_top(i)) - sum_u w_iu (b_u - b_top(i))]

top(i) is the heaviest token of input i: this form keeps its relative precision when one token
holds all the weight. Rows are cut into blocks that depend on the counts alone; each block has its
own gradient buffer and the buffers are added in one order: same bits whatever the threads.
"""

from dataclasses import dataclass

import numpy as np

from keytokens._checks import Floats
from keytokens.embedding.passes import (
    binary_block,
    general_block,
    pool_block,
    shared_block,
    weight_block,
)
from keytokens.embedding.rows import Rows, add_blocks, run_blocks, tree_sum

_SPAN = 600.0  # logits closer than this share one exponent without under- or overflow
_UNROLLED = 8  # outputs up to which a pass is compiled for their number


@dataclass(frozen=True)
class Layout:
    """Which value belongs to which map and output. theta (V+1, M+P): M logits, then P values."""

    n_maps: int
    n_outputs: int
    pair_map: tuple[int, ...]
    pair_out: tuple[int, ...]

    @classmethod
    def of(cls, n_outputs: int, heads: int = 1, per_class: bool = False) -> "Layout":
        """`heads` maps read by every output, or that many maps for each output alone."""
        if not per_class:
            pairs = [(m, k) for m in range(heads) for k in range(n_outputs)]
        else:
            pairs = [(k * heads + h, k) for k in range(n_outputs) for h in range(heads)]
        maps = heads * (n_outputs if per_class else 1)
        return cls(maps, n_outputs, tuple(m for m, _ in pairs), tuple(k for _, k in pairs))

    @property
    def n_pairs(self) -> int:
        """P: values per token."""
        return len(self.pair_map)

    @property
    def width(self) -> int:
        """M + P numbers per token."""
        return self.n_maps + self.n_pairs


class CountLoss:
    """Mean loss of theta over weighted rows, with its gradient; f of every row on the way.

    Rows of weight 0 only get their f: held-out rows ride along for free.
    """

    def __init__(
        self,
        rows: Rows,
        target: Floats,
        weight: Floats,
        layout: Layout,
        bias: Floats,
        n_jobs: int | None = None,
    ) -> None:
        self.rows, self.layout, self.n_jobs = rows, layout, n_jobs
        self.target = np.ascontiguousarray(target, dtype=np.float64)
        self.weight = np.ascontiguousarray(weight / weight.sum(), dtype=np.float64)
        self.bias = np.ascontiguousarray(bias, dtype=np.float64)
        self.f = np.zeros((rows.n, layout.n_outputs))
        self._grads = np.empty((len(rows.blocks), rows.n_features + 1, layout.width))
        self._table = np.empty(self._grads.shape[1:])
        self._pairs = np.array([layout.pair_map, layout.pair_out], dtype=np.int64)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """(L, dL/dtheta) at theta (V+1, M+P); the gradient is a buffer the next call reuses."""
        table, shared = exponentiate(theta, self.layout.n_maps, self._table)
        losses = run_blocks(lambda k: self._block(k, table, shared), len(self._grads), self.n_jobs)
        return tree_sum(losses), add_blocks(self._grads)

    def _block(self, k: int, table: Floats, shared: bool) -> float:
        lo, hi = self.rows.blocks[k]
        rows, grad = self.rows, self._grads[k]
        common = (rows.indptr, rows.indices, rows.data, lo, hi, table, shared)
        if self.layout.width == 2:
            return binary_block(*common, self.bias[0], self.target, self.weight, self.f[:, 0], grad)
        if self.layout.n_maps == 1:
            bias = tuple(self.bias) if len(self.bias) <= _UNROLLED else self.bias
            return shared_block(*common, bias, self.target, self.weight, self.f, grad)
        return general_block(
            *common, self._pairs, self.bias, self.target, self.weight, self.f, grad
        )


def exponentiate(theta: Floats, n_maps: int, out: Floats | None = None) -> tuple[Floats, bool]:
    """Replace the logits by e^{a - c} where all of them fit one exponent c. (V+1, M+P)

    The common factor cancels in the weights, and the exponential is taken once per token
    instead of once per non-zero. Where they do not fit, the kernels shift row by row.
    """
    table = np.empty(theta.shape) if out is None else out
    table[:] = theta
    a = theta[:, :n_maps]
    finite = a[np.isfinite(a)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    shared = bool(high - low <= _SPAN)
    if shared:
        table[:, :n_maps] = np.exp(a - (low + high) / 2)
    return table, shared


def pooled(rows: Rows, a: Floats, b: Floats, n_jobs: int | None = None) -> Floats:
    """f[i, k] = b_top + sum_s w[i, s] (b[k, s] - b_top), 0 without tokens. (n, K)"""
    table, shared = exponentiate(np.column_stack([a, b.T]), 1)
    out = np.zeros((rows.n, len(b)))

    def block(k: int) -> None:
        pool_block(rows.indptr, rows.indices, rows.data, *rows.blocks[k], table, shared, out)

    run_blocks(block, len(rows.blocks), n_jobs)
    return out


def attention_weights(rows: Rows, a: Floats) -> tuple[Floats, Floats]:
    """w[i, s] = N_i(s) e^{a_s - max_i} / Z_i for the non-zeros (nnz,), and for <cls> (n,)."""
    table, shared = exponentiate(a[:, None].copy(), 1)
    weights, cls = np.zeros(len(rows.data)), np.zeros(rows.n)
    weight_block(rows.indptr, rows.indices, rows.data, table, shared, weights, cls)
    return weights, cls
