"""A corpus's selection as a graph: tokens are nodes, and s -> t says "s above t in some input".

Tokens that some input keeps together share a node. The constraints a_s - a_t >= 1 can be met if
and only if the graph has no cycle; an edge that a longer path implies is implied as a constraint
(every right-hand side is 1), so the transitive reduction is the same problem.
Kernels take int64 arrays; a graph is stored by source: targets[start[s]:start[s + 1]].
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components

from keytokens._checks import Floats, Integers
from keytokens.svm.entries import Corpus


@dataclass(frozen=True, eq=False)
class SelectionGraph:
    """Edges source -> target between nodes; `entry` is one entry of the corpus that asks for each.

    node (V,) the node of every token, size (C,) tokens per node.
    """

    start: Integers
    targets: Integers
    entry: Integers
    node: Integers
    size: Floats

    @property
    def n_nodes(self) -> int:
        return len(self.size)

    @property
    def sources(self) -> Integers:
        return np.repeat(np.arange(self.n_nodes), np.diff(self.start))

    def incidence(self) -> Any:
        """B[e, source] = 1, B[e, target] = -1. (E, C)"""
        edges = np.arange(len(self.targets))
        rows = np.concatenate([edges, edges])
        columns = np.concatenate([self.sources, self.targets])
        values = np.repeat([1.0, -1.0], len(edges))
        return sp.csr_array((values, (rows, columns)), shape=(len(edges), self.n_nodes))


def selection_graph(corpus: Corpus) -> SelectionGraph:
    """Every edge once, with the first input that asks for it. O(non-zeros)"""
    node = nodes_of(corpus)
    full = corpus.first >= 0
    source = np.where(full, node[corpus.first], -1)
    order = np.argsort(source, kind="stable")[np.count_nonzero(~full) :]
    size = np.bincount(node, minlength=1).astype(np.float64)
    start, entry = _edges(order, source, corpus.indptr, corpus.tokens, node, len(size))
    return SelectionGraph(start, node[corpus.tokens[entry]], entry, node, size)


def nodes_of(corpus: Corpus) -> Integers:
    """Number the classes of tokens that are kept together, directly or in a chain. (V,)"""
    together = corpus.is_kept & (corpus.tokens != corpus.first[corpus.row])
    if not together.any():
        return np.arange(corpus.n_tokens)
    pairs = (corpus.first[corpus.row[together]], corpus.tokens[together])
    links = sp.coo_array((np.ones(len(pairs[0])), pairs), shape=(corpus.n_tokens,) * 2)
    return connected_components(links, directed=False)[1].astype(np.int64)


def clashing_entries(corpus: Corpus, node: Integers) -> Integers:
    """Entries that must lie below a token they are tied to: no direction can do both."""
    same = node[corpus.tokens] == node[corpus.first[corpus.row]]
    return np.flatnonzero(same & ~corpus.is_kept)


def topological_rank(graph: SelectionGraph) -> Integers:
    """A rank that grows along every edge; -1 on nodes that are on a cycle or behind one. (C,)"""
    return _rank(graph.start, graph.targets)


def shortest_cycle(graph: SelectionGraph, rank: Integers) -> Integers:
    """The edges of a shortest cycle, in order; `rank` as `topological_rank` gave it. (k,)"""
    parts = connected_components(
        sp.csr_array(
            (np.ones(len(graph.targets)), graph.targets, graph.start), shape=(graph.n_nodes,) * 2
        ),
        directed=True,
        connection="strong",
    )[1].astype(np.int64)
    return _cycle(graph.start, graph.targets, parts, rank < 0)


def reduced(graph: SelectionGraph, rank: Integers) -> SelectionGraph:
    """The transitive reduction: the edges that no longer path implies."""
    order = np.argsort(rank, kind="stable")[::-1].copy()
    keep = _reduction(graph.start, graph.targets, rank, order)
    degree = np.bincount(graph.sources[keep], minlength=graph.n_nodes)
    start = np.concatenate([[0], np.cumsum(degree)])
    return replace(graph, start=start, targets=graph.targets[keep], entry=graph.entry[keep])


@njit(cache=True)
def _edges(order, source, indptr, tokens, node, n_nodes):  # type: ignore[no-untyped-def]
    """Walk the inputs grouped by source; a stamp per target keeps the first of equal edges."""
    stamp = np.full(n_nodes, -1)
    start = np.zeros(n_nodes + 1, np.int64)
    entry = np.empty(len(tokens), np.int64)
    count = 0
    for i in order:
        s = source[i]
        for k in range(indptr[i], indptr[i + 1]):
            t = node[tokens[k]]
            if t != s and stamp[t] != s:
                stamp[t] = s
                entry[count] = k
                count += 1
                start[s + 1] += 1
    return np.cumsum(start), entry[:count].copy()


@njit(cache=True)
def _rank(start, targets):  # type: ignore[no-untyped-def]
    """Kahn's algorithm: take nodes that nothing unranked points at."""
    n_nodes = len(start) - 1
    waiting = np.zeros(n_nodes, np.int64)
    for t in targets:
        waiting[t] += 1
    queue = np.empty(n_nodes, np.int64)
    rank = np.full(n_nodes, -1)
    tail = 0
    for s in range(n_nodes):
        if waiting[s] == 0:
            queue[tail] = s
            tail += 1
    head = 0
    while head < tail:
        s = queue[head]
        rank[s] = head
        head += 1
        for e in range(start[s], start[s + 1]):
            t = targets[e]
            waiting[t] -= 1
            if waiting[t] == 0:
                queue[tail] = t
                tail += 1
    return rank


@njit(cache=True)
def _reduction(start, targets, rank, order):  # type: ignore[no-untyped-def]
    """Keep s -> t unless t is below an earlier child of s. Sources last to first, so that what is
    below a child is found along edges that are already reduced; children first to last."""
    n_nodes = len(start) - 1
    stamp = np.full(n_nodes, -1)
    stack = np.empty(n_nodes, np.int64)
    keep = np.zeros(len(targets), np.bool_)
    kept = np.empty(len(targets), np.int64)  # reduced children of s: kept[start[s]:stop[s]]
    stop = start[:-1].copy()
    for s in order:
        children = np.arange(start[s], start[s + 1])
        for e in children[np.argsort(rank[targets[start[s] : start[s + 1]]], kind="mergesort")]:
            if stamp[targets[e]] == s:
                continue
            keep[e] = True
            kept[stop[s]] = targets[e]
            stop[s] += 1
            stack[0] = targets[e]
            stamp[targets[e]] = s
            height = 1
            while height > 0:
                height -= 1
                u = stack[height]
                for k in range(start[u], stop[u]):
                    if stamp[kept[k]] != s:
                        stamp[kept[k]] = s
                        stack[height] = kept[k]
                        height += 1
    return keep


@njit(cache=True)
def _cycle(start, targets, part, candidate):  # type: ignore[no-untyped-def]
    """Breadth-first from every candidate inside its strong component, never deeper than needed."""
    n_nodes = len(start) - 1
    via = np.empty(n_nodes, np.int64)  # the edge that reached a node
    origin = np.empty(n_nodes, np.int64)  # and the node it left
    depth = np.empty(n_nodes, np.int64)
    stamp = np.full(n_nodes, -1)
    queue = np.empty(n_nodes, np.int64)
    best = np.empty(0, np.int64)
    shortest = n_nodes + 1
    for root in range(n_nodes):
        if not candidate[root] or shortest == 2:
            continue
        queue[0], stamp[root], depth[root] = root, root, 0
        head, tail = 0, 1
        while head < tail and depth[queue[head]] + 1 < shortest:
            s = queue[head]
            head += 1
            for e in range(start[s], start[s + 1]):
                t = targets[e]
                if t == root:
                    shortest = depth[s] + 1
                    best = np.empty(shortest, np.int64)
                    best[shortest - 1] = e
                    while s != root:
                        best[depth[s] - 1] = via[s]
                        s = origin[s]
                    tail = head
                    break
                if part[t] == part[root] and stamp[t] != root:
                    stamp[t], depth[t], via[t], origin[t] = root, depth[s] + 1, e, s
                    queue[tail] = t
                    tail += 1
    return best
