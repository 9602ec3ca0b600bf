"""The selection graph: edges, reduction, cycles and forests against slow references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keytokens.svm import graph as graphs
from keytokens.svm.entries import read_corpus
from keytokens.svm.forest import flows, potentials, spanning_forest
from keytokens.svm.sparse import NodeMetric, solve_graph


def random_graph(seed: int, acyclic: bool, V: int = 12, n: int = 15) -> graphs.SelectionGraph:
    rng = np.random.default_rng(seed)
    counts = (rng.random((n, V)) < 0.3).astype(float)
    counts[np.arange(n), rng.integers(V, size=n)] = 1
    score = rng.random(V) if acyclic else rng.random((n, V))
    return graphs.selection_graph(read_corpus(counts, (counts * score).argmax(axis=1)))


def adjacency(graph: graphs.SelectionGraph) -> np.ndarray:
    matrix = np.zeros((graph.n_nodes, graph.n_nodes), bool)
    matrix[graph.sources, graph.targets] = True
    return matrix


def reach(matrix: np.ndarray) -> np.ndarray:
    """Reachable in one step or more, by squaring."""
    for _ in range(len(matrix)):
        matrix = matrix | (matrix @ matrix)
    return matrix


def test_edges_by_hand() -> None:
    corpus = read_corpus([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], [0, 0, 2, 0])
    graph = graphs.selection_graph(corpus)
    edges = list(zip(graph.sources, graph.targets, corpus.row[graph.entry], strict=True))
    assert edges == [(0, 1, 0), (0, 2, 0), (2, 3, 2)]


def test_nodes_by_hand() -> None:
    corpus = read_corpus([[1, 1, 0, 1, 0], [0, 1, 1, 0, 1]], [[0, 1], [1, 2]])
    graph = graphs.selection_graph(corpus)
    assert graph.node[0] == graph.node[1] == graph.node[2]
    assert sorted(graph.size) == [1, 1, 3]
    assert len(graph.targets) == 2


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6))
def test_the_reduction_is_the_least_graph_with_the_same_paths(seed: int) -> None:
    graph = random_graph(seed, acyclic=True)
    rank = graphs.topological_rank(graph)
    assert (rank[graph.sources] < rank[graph.targets]).all()
    less = graphs.reduced(graph, rank)
    full, least = adjacency(graph), adjacency(less)
    assert np.array_equal(reach(least), reach(full))
    longer = full @ reach(full)  # two steps or more
    assert np.array_equal(least, full & ~longer)
    corpus_edges = set(zip(graph.entry, graph.sources, graph.targets, strict=True))
    assert set(zip(less.entry, less.sources, less.targets, strict=True)) <= corpus_edges


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6))
def test_cycles_are_found_and_are_shortest(seed: int) -> None:
    graph = random_graph(seed, acyclic=False)
    rank = graphs.topological_rank(graph)
    matrix = adjacency(graph)
    power, length = matrix, 1
    while not power.diagonal().any() and length <= graph.n_nodes:
        power, length = power @ matrix, length + 1
    assert (rank < 0).any() == (length <= graph.n_nodes)
    if (rank < 0).any():
        cycle = graphs.shortest_cycle(graph, rank)
        assert len(cycle) == length
        assert np.array_equal(graph.targets[cycle], np.roll(graph.sources[cycle], -1))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6))
def test_forests_prefer_and_balance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    C, E = 9, 12
    sources, targets = rng.integers(C, size=(2, E))
    preferred = rng.permutation(E)
    forest = spanning_forest(sources, targets, preferred, C)
    incidence = np.zeros((E, C))
    np.add.at(incidence, (np.arange(E), sources), 1)
    np.add.at(incidence, (np.arange(E), targets), -1)
    chosen = np.sort(forest.edge[forest.edge >= 0])
    greedy: list[int] = []
    for e in preferred:
        if np.linalg.matrix_rank(incidence[[*greedy, e]]) > len(greedy):
            greedy.append(int(e))
    assert chosen.tolist() == sorted(greedy)
    assert np.array_equal(incidence[chosen] @ potentials(forest), np.ones(len(chosen)))
    excess = incidence[chosen].T @ rng.normal(size=len(chosen))
    flow = flows(forest, excess, E)
    assert np.allclose(incidence.T @ flow, excess)
    assert not flow[np.setdiff1d(np.arange(E), chosen)].any()


@pytest.mark.parametrize("c", [0.0, 0.3, 1e4])
def test_a_metric_and_its_inverse(c: float) -> None:
    rng = np.random.default_rng(0)
    metric = NodeMetric(rng.integers(1, 5, size=7).astype(float), rng.normal(size=7), c)
    K = np.diag(1 / metric.m) + c * np.outer(metric.b, metric.b)
    g = rng.normal(size=7)
    assert np.allclose(metric.push(g), K @ g)
    assert np.allclose(metric.pull(K @ g), g)


@pytest.mark.parametrize("c", [0.0, 1.0, 100.0])
def test_the_vertex_is_exact(c: float) -> None:
    for seed in range(10):
        graph = random_graph(seed, acyclic=True, V=60, n=200)
        graph = graphs.reduced(graph, graphs.topological_rank(graph))
        metric = NodeMetric(graph.size, np.random.default_rng(seed).normal(size=60), c)
        u, multipliers = solve_graph(graph, metric)
        fall = u[graph.sources] - u[graph.targets]
        assert fall.min() >= 1 - 1e-12
        g = graph.incidence().T @ multipliers
        assert u @ metric.pull(u) == pytest.approx(multipliers.sum() ** 2 / (g @ metric.push(g)))
        assert multipliers[fall > 1 + 1e-9].max(initial=0) <= 1e-9
