"""A corpus and its selection, entry by entry.

Entry k of the sparse counts is "token t occurs in input i". With s = first[i], a kept token of
input i, its row is  a_s - a_t >= 1,  or  a_s - a_t = 0  where t is kept too (no row for s itself).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.errors import raise_input


@dataclass(frozen=True, eq=False)
class Corpus:
    """The distinct tokens of each input, ascending, and which of them are kept.

    indptr (n + 1,), tokens (nnz,); first (n,) the lowest kept token, -1 where the input is empty;
    is_kept (nnz,).
    """

    indptr: Integers
    tokens: Integers
    first: Integers
    is_kept: Booleans
    n_tokens: int

    @cached_property
    def row(self) -> Integers:
        """The input of each entry. (nnz,)"""
        return np.repeat(np.arange(len(self.first)), np.diff(self.indptr))

    @cached_property
    def tied(self) -> Integers:
        """Entries that ask for equality."""
        kept = np.flatnonzero(self.is_kept)
        return kept[self.tokens[kept] != self.first[self.row[kept]]]

    @cached_property
    def h(self) -> Floats:
        """Right-hand sides: 1 above tokens that are not kept. (nnz,)"""
        return np.where(self.is_kept, 0.0, 1.0)

    def ends(self, entries: Integers) -> tuple[Integers, Integers]:
        """(s, t) of the given entries."""
        return self.first[self.row[entries]], self.tokens[entries]

    def margins(self, a: Floats) -> Floats:
        """a_s - a_t of every entry. (nnz,)"""
        return a[self.first][self.row] - a[self.tokens]

    def combine(self, multipliers: Floats) -> Floats:
        """G^T lambda = sum_k lambda_k (e_s - e_t), over columns. (V,)"""
        entries = np.flatnonzero(multipliers)
        weights = multipliers[entries]
        above, below = self.ends(entries)
        gained = np.bincount(above, weights, self.n_tokens).astype(np.float64, copy=False)
        return gained - np.bincount(below, weights, self.n_tokens)

    def matrix(self, values: Any) -> Any:
        """Values of entries as a sparse (n, V) matrix without its zeros."""
        entries = np.flatnonzero(values)
        places = (self.row[entries], self.tokens[entries])
        shape = (len(self.first), self.n_tokens)
        return sp.coo_array((values[entries], places), shape=shape).tocsr()


def read_corpus(counts: Any, selected: Any) -> Corpus:
    """Check the user's counts and selection."""
    counts = _counts(counts)
    n, V = counts.shape
    indptr, tokens = counts.indptr.astype(np.int64), counts.indices.astype(np.int64)
    rows, kept = _kept(selected, np.diff(indptr) > 0, V)
    keys = np.repeat(np.arange(n), np.diff(indptr)) * V + tokens
    entries = _found(keys, rows, kept, V)
    is_kept = np.zeros(len(tokens), bool)
    is_kept[entries] = True
    first = np.full(n, -1)
    first[rows[::-1]] = kept[::-1]
    lacking = np.flatnonzero((np.diff(indptr) > 0) & (first < 0))
    if len(lacking):
        rule = "keep at least one token of every input that has any"
        raise_input("selected", rule, f"none at input {lacking[0]}")
    return Corpus(indptr, tokens, first, is_kept, V)


def _counts(counts: Any) -> Any:
    """Canonical CSR without stored zeros; only where tokens occur matters, not how often."""
    if not sp.issparse(counts):
        counts = check.float_array("counts", counts, 2)
    elif counts.ndim != 2 or counts.dtype.kind not in "fiub":
        raise_input("counts", "be a sparse matrix of real numbers", f"{counts!r}")
    counts = sp.csr_array(counts)
    if 0 in counts.shape:
        raise_input("counts", "have at least one row and column", f"shape {counts.shape}")
    bad = np.flatnonzero(~(counts.data >= 0))
    if len(bad):
        raise_input("counts", "be zero or positive", f"{counts.data[bad[0]]}")
    if not counts.has_canonical_format or not counts.data.all():
        counts = counts.copy()  # the caller's matrix stays as it came
        counts.sum_duplicates()
        counts.eliminate_zeros()
    return counts


def _kept(selected: Any, full: Booleans, V: int) -> tuple[Integers, Integers]:
    """(input, token) of every kept token, sorted, whatever form the selection came in."""
    n = len(full)
    if not (sp.issparse(selected) or np.iterable(selected)):
        raise_input("selected", "have one entry per input, or be a boolean matrix", repr(selected))
    if sp.issparse(selected) or getattr(selected, "ndim", 1) == 2:
        matrix = sp.coo_array(sp.csr_array(selected).astype(bool))
        check.shape("selected", matrix, (n, V), "(n, V)")
        rows, kept = (x.astype(np.int64) for x in matrix.coords)
    elif len(selected) != n:
        raise_input("selected", f"have one entry per input ({n})", f"{len(selected)}")
    elif all(np.ndim(one) == 1 for one in selected):
        sizes = [len(one) for one in selected]
        rows = np.repeat(np.arange(n), sizes)
        kept = np.concatenate([np.asarray(one) for one in selected if len(one)] or [rows])
    elif any(np.ndim(one) for one in selected):
        raise_input("selected", "hold a column per input, or a set of columns per input", "both")
    else:
        rows, kept = np.flatnonzero(full), np.asarray(selected)[full]
    bad = kept.dtype.kind not in "iu"
    kept = check.indices("selected", kept, V if not bad else 0, "column", "kept token")
    order = np.lexsort((kept, rows))
    return rows[order], kept[order]


def _found(keys: Integers, rows: Integers, kept: Integers, V: int) -> Integers:
    """The entries of the kept tokens; all of them must occur in their inputs."""
    wanted = rows * V + kept
    entries = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    missing = np.flatnonzero(keys[entries] != wanted) if len(keys) else np.arange(len(wanted))
    if len(missing):
        k = missing[0]
        came = f"column {kept[k]} at input {rows[k]}, where it does not occur"
        raise_input("selected", "hold columns that occur in their input", came)
    return entries
