"""Spanning forests: potentials that fall by one along every tree edge, flows that meet a demand."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from keytokens._checks import Floats, Integers


@dataclass(frozen=True, eq=False)
class Forest:
    """visit (C,) nodes, parents first; edge (C,) towards the parent, -1 at roots; parent (C,);
    sign (C,) is +1 where that edge leaves the node; tree (C,) numbers the trees."""

    visit: Integers
    edge: Integers
    parent: Integers
    sign: Integers
    tree: Integers


def spanning_forest(
    sources: Integers, targets: Integers, preferred: Integers, n_nodes: int
) -> Forest:
    """A forest of the edges `preferred`, earlier ones first (Kruskal)."""
    chosen = _kruskal(sources, targets, preferred, n_nodes)
    return Forest(*_walk(sources[chosen], targets[chosen], chosen, n_nodes))


def potentials(forest: Forest) -> Floats:
    """u with u_source - u_target = 1 on every tree edge, 0 at the roots. (C,)"""
    return _potentials(forest.visit, forest.parent, forest.sign)


def flows(forest: Forest, excess: Floats, n_edges: int) -> Floats:
    """The flow on tree edges whose out minus in is `excess` (which sums to 0 per tree). (E,)"""
    return _flows(forest.visit, forest.edge, forest.parent, forest.sign, excess, n_edges)


@njit(cache=True)
def _kruskal(sources, targets, preferred, n_nodes):  # type: ignore[no-untyped-def]
    root = np.arange(n_nodes)
    chosen = np.empty(min(len(preferred), n_nodes), np.int64)
    count = 0
    for e in preferred:
        s, t = sources[e], targets[e]
        while root[s] != s:
            root[s] = root[root[s]]
            s = root[s]
        while root[t] != t:
            root[t] = root[root[t]]
            t = root[t]
        if s != t:
            root[s] = t
            chosen[count] = e
            count += 1
    return chosen[:count]


@njit(cache=True)
def _walk(sources, targets, chosen, n_nodes):  # type: ignore[no-untyped-def]
    """Breadth-first over the chosen edges."""
    start = np.zeros(n_nodes + 1, np.int64)
    for k in range(len(chosen)):
        start[sources[k] + 1] += 1
        start[targets[k] + 1] += 1
    start = np.cumsum(start)
    fill = start[:-1].copy()
    beside = np.empty(2 * len(chosen), np.int64)
    for k in range(len(chosen)):
        for node in (sources[k], targets[k]):
            beside[fill[node]] = k
            fill[node] += 1
    visit, edge = np.empty(n_nodes, np.int64), np.full(n_nodes, -1)
    parent, sign, tree = np.full(n_nodes, -1), np.zeros(n_nodes, np.int64), np.full(n_nodes, -1)
    tail = trees = 0
    for root in range(n_nodes):
        if tree[root] >= 0:
            continue
        head = tail
        visit[tail], tree[root] = root, trees
        tail += 1
        while head < tail:
            node = visit[head]
            head += 1
            for j in range(start[node], start[node + 1]):
                k = beside[j]
                leaves = targets[k] == node  # the edge leaves the child for this node
                child = sources[k] if leaves else targets[k]
                if tree[child] < 0:
                    visit[tail], tree[child], parent[child] = child, trees, node
                    edge[child], sign[child] = chosen[k], 1 if leaves else -1
                    tail += 1
        trees += 1
    return visit, edge, parent, sign, tree


@njit(cache=True)
def _potentials(visit, parent, sign):  # type: ignore[no-untyped-def]
    u = np.zeros(len(visit))
    for node in visit:
        if parent[node] >= 0:
            u[node] = u[parent[node]] + sign[node]
    return u


@njit(cache=True)
def _flows(visit, edge, parent, sign, excess, n_edges):  # type: ignore[no-untyped-def]
    """Leaves first: what a node needs passes over the edge to its parent."""
    need = excess.copy()
    flow = np.zeros(n_edges)
    for node in visit[::-1]:
        if parent[node] >= 0:
            flow[edge[node]] = sign[node] * need[node]
            need[parent[node]] += need[node]
    return flow
