"""The Att-SVM on a selection graph: one sparse QP by Clarabel, then its exact vertex.

Node values u (C,), edges e = (s -> t), lambda (E,) >= 0:
  min N(u)^2 / 2  s.t.  u_s - u_t >= 1,  N(u)^2 = u^T K^-1 u,  K = diag(1/m) + c b b^T
with m tokens in a node; c = 0 is the identity Gram. At the optimum u = K B^T lambda.
"""

from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from keytokens._checks import Booleans, Floats
from keytokens.svm.forest import Forest, flows, potentials, spanning_forest
from keytokens.svm.graph import SelectionGraph
from keytokens.svm.interior import settings

_EXCHANGES = 20
_SHORT = 1e-6  # left to the exchanges
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class NodeMetric:
    """K = diag(1/m) + c b b^T on the nodes. m, b (C,)"""

    m: Floats
    b: Floats
    c: float

    def pull(self, u: Floats) -> Floats:
        """K^-1 u = m (u - c b (m b)^T u / (1 + c b^T m b)). (C,)"""
        beta = self.m * self.b
        return self.m * u - beta * (self.c * (beta @ u) / (1 + self.c * (beta @ self.b)))

    def push(self, g: Floats) -> Floats:
        """K g = g / m + c b (b^T g). (C,)"""
        return g / self.m + self.b * (self.c * (self.b @ g))


def solve_graph(graph: SelectionGraph, metric: NodeMetric) -> tuple[Floats, Floats]:
    """u (C,) and lambda (E,): the interior point's answer, or a vertex near it that is better.

    A wrongly tight edge shows as a negative multiplier, a wrongly slack one as a short edge: a
    few exchanges, as in an active-set method, usually end at the exact optimum.
    """
    B = graph.incidence()
    u, multipliers = best = _generate(graph, B, metric)
    error, tight = _error(B, metric, *best), multipliers > np.maximum(B @ u - 1, 0.0)
    for _ in range(_EXCHANGES):
        exact, flow = _vertex(graph, B, metric, multipliers, tight)
        found = exact, np.maximum(flow, 0.0)
        new = _error(B, metric, *found)
        best, error = (found, new) if new < error else (best, error)
        tight = (tight & (flow >= -_ROUNDING)) | (B @ exact < 1 - _ROUNDING)
        if error <= _ROUNDING:
            break
    return best


def _generate(graph: SelectionGraph, B: Any, metric: NodeMetric) -> tuple[Floats, Floats]:
    """The interior point over the edges among sources, and into bare targets as they fall short.

    A target below many sources ties them all to each other in the factorisation: with thousands
    of sources that is what costs. Few targets are pressed down at all, and mostly by one source.
    """
    targets = graph.targets
    working = np.diff(graph.start)[targets] > 0
    u, few = np.zeros(graph.n_nodes), np.zeros(0)
    while True:
        if working.any():
            u, few = _interior(B[np.flatnonzero(working)], metric)
        fall = B @ u
        short = np.flatnonzero((fall < 1 - _SHORT) & ~working)
        if not len(short):
            break
        short = short[np.lexsort((fall[short], targets[short]))]
        working[short[np.diff(targets[short], prepend=-1) != 0]] = True  # the worst of each
    multipliers = np.zeros(len(targets))
    multipliers[working] = few
    return u, multipliers


def _interior(B: Any, metric: NodeMetric) -> tuple[Floats, Floats]:
    """Clarabel on (u, tau): min sum m (u - sqrt(c) b tau)^2 / 2 + tau^2 / 2, an arrow-shaped QP.

    Minimising over tau gives u^T K^-1 u without the dense rank-one term. A node without edges
    costs nothing at u = sqrt(c) b tau, so it is left out.
    """
    E, C = B.shape
    live = np.flatnonzero(np.bincount(B.indices, minlength=C))
    m, b, root = metric.m[live], metric.b[live], np.sqrt(metric.c)
    corner = np.array([[1 + metric.c * (m @ b**2)]])
    arrow = (-root * m * b)[:, None]
    P = sp.block_array([[sp.diags_array(m), arrow], [None, corner]], format="csc")
    A = sp.block_array([[-B[:, live], sp.csr_array((E, 1))]], format="csc")
    cones = [clarabel.NonnegativeConeT(E)]
    zero = np.zeros(len(live) + 1)
    answer = clarabel.DefaultSolver(P, zero, A, -np.ones(E), cones, _settings()).solve()
    *values, tau = answer.x
    u = root * metric.b * tau
    u[live] = values
    return u, np.maximum(answer.z, 0.0)


def _settings() -> Any:
    chosen = settings(1e-9)
    chosen.direct_solve_method = "qdldl"  # twice as fast here as the supernodal one
    return chosen


def _vertex(
    graph: SelectionGraph, B: Any, metric: NodeMetric, multipliers: Floats, tight: Booleans
) -> tuple[Floats, Floats]:
    """The optimum if exactly the tight edges are: values (C,), and multipliers (E,) of any sign.

    Along tight edges values fall by exactly 1, so each tree of them has whole-number levels and
    one free offset; the offsets are a small least-norm problem, and lambda is repaired along the
    trees (largest multipliers first) until B^T lambda = K^-1 u.
    """
    kept = np.where(tight, multipliers, 0.0)
    best_first = np.flatnonzero(tight)
    best_first = best_first[np.argsort(-kept[best_first], kind="stable")]
    forest = spanning_forest(graph.sources, graph.targets, best_first, graph.n_nodes)
    exact = _offset(potentials(forest), forest, metric)
    excess = metric.pull(exact) - B.T @ kept
    return exact, kept + flows(forest, excess, len(kept))


def _offset(level: Floats, forest: Forest, metric: NodeMetric) -> Floats:
    """level + o[tree], with the o that minimises the norm: S^T K^-1 (level + S o) = 0. (C,)

    S^T K^-1 S is diagonal plus rank one, so Sherman-Morrison solves it.
    """
    weight, lean = (np.bincount(forest.tree, w) for w in (metric.m, metric.m * metric.b))
    right = -np.bincount(forest.tree, metric.pull(level))
    inside = metric.b - (lean / weight)[forest.tree]
    scale = metric.c / (1 + metric.c * (metric.m @ inside**2))
    offset = right / weight + lean / weight * (scale * (lean @ (right / weight)))
    return level + offset[forest.tree]


def _error(B: Any, metric: NodeMetric, u: Floats, multipliers: Floats) -> float:
    """Relative gap of u scaled to satisfy every edge, infinite where no scale does."""
    least = (B @ u).min(initial=np.inf)
    if not least > 0.5:
        return np.inf
    g = B.T @ multipliers
    u = u / min(least, 1.0)
    dual = multipliers.sum() ** 2 / (g @ metric.push(g) or 1.0)
    return float(1 - dual / (u @ metric.pull(u) or 1.0))
