"""The Att-SVM of a selection graph in d dimensions, by constraint generation.

Of tens of thousands of edges at most d hold the direction: keep a working set, solve it exactly
from the last multipliers, add the shortest edge of every source, drop slack edges when there are
many. The norm only grows, so no working set returns.
"""

import daqp
import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.svm import dense
from keytokens.svm.certificate import certify_rows, euclidean
from keytokens.svm.graph import SelectionGraph

_ROUNDS = 400
_DROPPING = 100  # rounds in which slack edges may leave
_CROWDED = 4  # working edges per dimension above which they do
_SHORT = 1e-11  # an edge this close to its right-hand side is met
_VERIFIED = 1e-9


def generate(F: Floats, graph: SelectionGraph) -> dense.Answer:
    """min ||p||^2 / 2 s.t. <p, F_s - F_t> >= 1 on every edge; multipliers (E,). F (C, d)"""
    sources, targets = graph.sources, graph.targets
    multipliers, working = np.zeros(len(targets)), np.zeros(len(targets), bool)
    p = _first_guess(F, graph)
    short = -_margins(F, sources, targets, p)
    for k in range(_ROUNDS):
        new = _worst(short, sources, limit=F.shape[1])
        if not len(new):
            break
        working[new] = True
        rows = np.flatnonzero(working)
        found = _solve(F[sources[rows]] - F[targets[rows]], multipliers[rows], euclidean(p))
        p, verdict = found.p, found.verdict
        multipliers[:] = 0.0
        multipliers[rows] = found.multipliers
        if np.isnan(p).any():
            break
        margins = _margins(F, sources, targets, p)
        if len(rows) > _CROWDED * F.shape[1] and k < _DROPPING:
            working &= (margins < 2) | (multipliers > 0)
        short = np.where(working | (margins >= 1 - _SHORT), -np.inf, 1 - margins)
    return dense.Answer(p, multipliers, verdict)


def _solve(G: Floats, start: Floats, size: float) -> dense.Answer:
    """The working set at the last direction's scale, so that DAQP sees lengths near 1.

    What does not verify goes to the slower program that settles doubtful rows.
    """
    unit = size or 1.0
    h, free = np.full(len(G), 1 / unit), np.full(len(G), np.inf)
    p, _, flag, info = daqp.solve(
        None, None, G, free, h, None, primal_tol=1e-12, dual_tol=1e-12, dual_start=-start
    )
    p, multipliers = p * unit, np.maximum(-info["lam"], 0.0) * unit
    if flag == 1:
        found = certify_rows(G, np.ones(len(G)), None, p, multipliers)
        if abs(found.gap) <= _VERIFIED and (G @ p).min() >= 1 - _VERIFIED:
            return dense.Answer(p, multipliers, dense.Verdict.SOLVED)
    return dense.solve(G, np.ones(len(G)))


def _margins(F: Floats, sources: Integers, targets: Integers, p: Floats) -> Floats:
    """<p, F_s - F_t> of every edge. (E,)"""
    a = F @ p
    return a[sources] - a[targets]


def _first_guess(F: Floats, graph: SelectionGraph) -> Floats:
    """The mean difference, sum over edges of F_s - F_t: a direction most edges agree with."""
    return F.T @ (graph.incidence().T @ np.ones(len(graph.targets)))


def _worst(short: Floats, sources: Integers, limit: int) -> Integers:
    """The shortest edge of every source, at most `limit` of them, the shortest first."""
    edges = np.flatnonzero(short > -np.inf)
    edges = edges[np.lexsort((-short[edges], sources[edges]))]
    first = np.diff(sources[edges], prepend=-1) != 0
    worst = edges[first]
    return worst[np.argsort(-short[worst], kind="stable")][:limit]


def null_space(ties: Floats) -> Floats:
    """An orthonormal basis of the directions that no tie sees, or one zero column where every
    direction sees one. ties (k, d) -> (d, d - rank)"""
    R = np.linalg.qr(ties, mode="r")  # the same row space, at most d rows
    _, sizes, axes = np.linalg.svd(R, full_matrices=True)
    smallest = sizes.max(initial=0.0) * max(ties.shape) * np.finfo(np.float64).eps
    free = axes[np.count_nonzero(sizes > smallest) :].T
    return free if free.size else np.zeros((ties.shape[1], 1))
