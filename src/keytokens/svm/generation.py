"""The Att-SVM of a selection graph in d dimensions, by constraint generation.

Of tens of thousands of edges at most d hold the direction: keep a working set, solve it exactly,
add the worst violated edge of every source, drop what is slack. The norm only grows, so no
working set returns; edges stay once dropping has had its chance.
"""

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.svm import dense
from keytokens.svm.graph import SelectionGraph

_ROUNDS = 400
_DROPPING = 100  # rounds in which slack edges may leave
_SHORT = 1e-11  # an edge this close to its right-hand side is met


def generate(F: Floats, graph: SelectionGraph) -> dense.Answer:
    """min ||p||^2 / 2 s.t. <p, F_s - F_t> >= 1 on every edge; multipliers (E,). F (C, d)"""
    sources, targets = graph.sources, graph.targets
    multipliers, working = np.zeros(len(targets)), np.zeros(len(targets), bool)
    short = -_margins(F, sources, targets, _first_guess(F, graph))
    for k in range(_ROUNDS):
        new = _worst(short, sources, limit=F.shape[1])
        if not len(new):
            break
        working[new] = True
        rows = np.flatnonzero(working)
        found = dense.solve(F[sources[rows]] - F[targets[rows]], np.ones(len(rows)))
        multipliers[:] = 0.0
        multipliers[rows] = found.multipliers
        if np.isnan(found.p).any():
            break
        margins = _margins(F, sources, targets, found.p)
        if k < _DROPPING:
            working &= (margins < 1.5) | (multipliers > 0)
        short = np.where(working | (margins >= 1 - _SHORT), -np.inf, 1 - margins)
    return found._replace(multipliers=multipliers)


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
