"""Constraint rows of a selection, for a whole batch at once.

Input i has a row for every token t other than the selected one (S = T - 1 slots):
    over p:  <p, k_i,sel - k_it> >= h_it            row (k_sel - k_t)            k = m
    over W:  (x_sel - x_t)^T W z_i >= h_it          row (x_sel - x_t) z_i^T      k = d d
h = 1, or 0 where relaxed or kept together with the selected token (then an equality).
A masked token and a copy of the selected one have no row: present is False.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.problem import TokenProblem
from keytokens.svm.certificate import euclidean


@dataclass(frozen=True, eq=False)
class Rows:
    """differences (B, n, S, m), query (B, n, d) or None, the other fields (B, n, S)."""

    differences: Floats
    query: Floats | None
    h: Floats
    present: Booleans
    equal: Booleans
    tokens: Integers
    T: int
    keys: Floats | None = None  # (B, n, T, m), where a row sees nothing but the two tokens

    @cached_property
    def lengths(self) -> Floats:
        """||g|| of every row; 0 where there is none. (B, n, S)"""
        lengths: Floats = euclidean(self.differences)
        return lengths if self.query is None else lengths * euclidean(self.query)[..., None]

    def matrix(self, block: slice) -> Floats:
        """G of the problems in `block`, absent rows included. (b, n S, k)"""
        D = self.differences[block]
        if self.query is not None:
            D = D[..., :, None] * self.query[block][:, :, None, None, :]
        b, n, S = D.shape[:3]
        return np.ascontiguousarray(D).reshape(b, n * S, self.columns)

    def gram(self, block: slice) -> Floats:
        """G G^T, the differences' Gram matrix times the queries'; absent rows are unit vectors.

        (b, n S, n S)
        """
        D = self.differences[block]
        b, n, S, m = D.shape
        D = D.reshape(b, n * S, m)
        K = D @ D.swapaxes(-1, -2)
        if self.query is not None:
            z = self.query[block]
            K.reshape(b, n, S, n, S)[...] *= (z @ z.swapaxes(-1, -2))[:, :, None, :, None]
        diagonal = np.einsum("bkk->bk", K)
        diagonal[~self.present[block].reshape(b, -1)] = 1.0
        return K

    @property
    def columns(self) -> int:
        """k: numbers in a direction."""
        return self.differences.shape[-1] * (1 if self.query is None else self.query.shape[-1])

    def shaped(self, directions: Floats) -> Floats:
        """Directions (B, k) as p (B, m) or W (B, d, d)."""
        d = self.differences.shape[-1]
        return directions if self.query is None else directions.reshape(len(directions), d, -1)

    def apply(self, direction: Floats) -> Floats:
        """G p, slot by slot; directions are p (B, m) or W (B, d, d). (B, n, S)"""
        if self.query is None:
            return (self.differences @ direction[:, None, :, None])[..., 0]
        along = self.query @ direction.swapaxes(-1, -2)
        return (self.differences @ along[..., None])[..., 0]

    def combine(self, multipliers: Floats) -> Floats:
        """G^T lambda: (B, m), or sum_it lambda_it (x_sel - x_it) z_i^T: (B, d, d)."""
        each = (multipliers[..., None, :] @ self.differences)[..., 0, :]
        return each.sum(axis=1) if self.query is None else each.swapaxes(-1, -2) @ self.query

    def spread(self, values: Any, elsewhere: float = 0) -> Any:
        """Values of slots (B, n, S) at their tokens (B, n, T)."""
        full = np.full((*values.shape[:-1], self.T), elsewhere, values.dtype)
        np.put_along_axis(full, self.tokens, values, axis=-1)
        return full


def build_rows(
    problem: TokenProblem, selected: Integers, over: str, relax: Booleans, equal: Booleans
) -> Rows:
    """Rows of a batch: selected (B, n), relax and equal (B, n, T)."""
    X, keys, mask, query = _batched(problem)
    tokens = _other_tokens(selected, X.shape[-2])
    kept, other = _split(X, selected, tokens)
    present = _differ(kept, other)
    if over == "p" and problem.W is not None:
        kept, other = _split(keys, selected, tokens)
    if mask is not None:
        present &= np.take_along_axis(mask, tokens, axis=-1)
    equal = np.take_along_axis(equal, tokens, axis=-1) & present
    relax = np.take_along_axis(relax, tokens, axis=-1)
    h = (present & ~relax & ~equal).astype(np.float64)
    with np.errstate(over="ignore"):  # the solver refuses what is infinite
        differences = kept - other
    differences[~present] = 0.0
    parts = (h, present, equal, tokens, X.shape[-2])
    if over == "W":
        return Rows(differences, query, *parts)
    return Rows(differences, None, *parts, keys=keys)


def _batched(problem: TokenProblem) -> tuple[Floats, Floats, Booleans | None, Floats | None]:
    parts = (problem.X, problem.keys, problem.mask, problem.query)
    if problem.batch is not None:
        return parts
    return tuple(None if part is None else part[None] for part in parts)  # type: ignore[return-value]


def _other_tokens(selected: Integers, T: int) -> Integers:
    """The T - 1 tokens other than the selected one, in order. (B, n, T - 1)"""
    slots = np.arange(T - 1)
    return slots + (slots >= selected[..., None])


def _split(X: Floats, selected: Integers, tokens: Integers) -> tuple[Floats, Floats]:
    """The selected token (B, n, 1, m) and the others (B, n, S, m)."""
    B, n, T, m = X.shape
    first = (np.arange(B * n) * T).reshape(B, n, 1)
    flat = X.reshape(-1, m)  # taking whole rows is several times faster than take_along_axis
    return np.take(flat, first + selected[..., None], axis=0), np.take(flat, first + tokens, axis=0)


def _differ(one: Floats, other: Floats) -> Booleans:
    """Whether two tokens differ anywhere. (B, n, S)"""
    differ: Booleans = one[..., 0] != other[..., 0]
    return differ if differ.all() else (one != other).any(axis=-1)
