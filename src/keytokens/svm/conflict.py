"""Why a selection has no direction: the Farkas vector, in words."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from keytokens._checks import Floats, Integers
from keytokens.svm.solution import Conflict

_SHOWN = 6


class Edge(NamedTuple):
    """Input `input` puts token `selected` above token `other`."""

    input: int
    selected: int
    other: int

    def __str__(self) -> str:
        return f"input {self.input} puts token {self.selected} above token {self.other}"


@dataclass(frozen=True, eq=False, repr=False)
class TokenConflict(Conflict):
    """The conflict of a token problem; vector (n, T), or (n,) where an input has one row.

    keys (n, T, m): what a row sees of a token; None where it sees more (over W: the query too).
    rows (n, T): h, NaN where there is no row.
    """

    keys: Floats | None = None
    rows: Floats | None = None

    @property
    def pairs(self) -> list[tuple[int, int, int]]:
        """(input, its selected token, the other token) of every row that takes part."""
        return [] if self.vector.ndim == 1 else super().pairs

    @property
    def inputs(self) -> list[int]:
        """The inputs that take part."""
        return np.unique(np.nonzero(self.vector)[0]).tolist()

    @cached_property
    def shortest_cycle(self) -> list[Edge]:
        """Of the token graph, through a row that asks for a margin; empty if there is none.

        An edge leads from the selected token of an input to each other token of it. Along a
        cycle every token would have to stand above itself.
        """
        if self.keys is None or self.rows is None:
            return []
        keys = self.keys.reshape(-1, self.keys.shape[-1])
        look = np.unique(keys, axis=0, return_inverse=True)[1].reshape(self.rows.shape)
        return _shortest_cycle(self.rows, self.selected, look)

    def __str__(self) -> str:
        if not self.is_proof:
            return f"No proof, but a direction would be at least {self.least_norm:.1e} long."
        if self.vector.ndim == 1:
            return f"Inputs {_list(self.inputs)} cannot be given their labels by one v."
        if len(self.shortest_cycle or self.pairs) == 1:
            edge = self.shortest_cycle[0] if self.shortest_cycle else Edge(*self.pairs[0])
            return _sentence([edge], "but the two look the same")
        if self.shortest_cycle:
            return _sentence(
                self.shortest_cycle, "a cycle, so that a token would stand above itself"
            )
        return _sentence(_grouped(self.pairs), "a weighted sum of these differences is zero")


def _sentence(parts: Sequence[Any], why: str) -> str:
    text = _list(parts, "; ")
    return f"{text[0].upper()}{text[1:]}: {why}."


def _grouped(pairs: list[tuple[int, int, int]]) -> list[str]:
    """One part for every input, whatever the number of its tokens that take part."""
    others: dict[tuple[int, int], list[int]] = {}
    for i, s, t in pairs:
        others.setdefault((i, s), []).append(t)
    return [
        str(Edge(i, s, t[0]))
        if len(t) == 1
        else f"input {i} puts token {s} above tokens {_list(t)}"
        for (i, s), t in others.items()
    ]


def _list(items: Sequence[Any], between: str = ", ") -> str:
    shown = between.join(map(str, items[:_SHOWN]))
    return shown + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")


def _shortest_cycle(rows: Floats, selected: Integers, look: Integers) -> list[Edge]:
    """A shortest way from a token back to it with an edge that asks for a margin; by input.

    look (n, T): equal numbers for tokens with equal keys.
    """
    graph: dict[int, list[tuple[int, Edge]]] = {}
    for i, t in np.argwhere(~np.isnan(rows)).tolist():
        edge = Edge(i, int(selected[i]), t)
        graph.setdefault(int(look[i, selected[i]]), []).append((int(look[i, t]), edge))
    trips = (_round_trip(graph, node, rows) for node in _on_cycles(graph))
    cycle = min(filter(None, trips), key=len, default=[])
    first = cycle.index(min(cycle)) if cycle else 0
    return cycle[first:] + cycle[:first]


def _on_cycles(graph: dict[int, list[tuple[int, Edge]]]) -> list[int]:
    """The nodes that a cycle may start from: an edge leads to their own strong component."""
    ends = [(node, other) for node, edges in graph.items() for other, _ in edges]
    size = max(map(max, ends), default=-1) + 1
    links = sparse.csr_array((np.ones(len(ends)), tuple(zip(*ends, strict=True))), (size, size))
    component = connected_components(links, directed=True, connection="strong")[1]
    return sorted({a for a, b in ends if component[a] == component[b]})


def _round_trip(
    graph: dict[int, list[tuple[int, Edge]]], node: int, rows: Floats
) -> list[Edge] | None:
    """Breadth first from a node until it is met again; None if it is not."""
    asking = [(other, edge) for other, edge in graph[node] if rows[edge.input, edge.other] == 1]
    arrived = {other: (node, edge) for other, edge in reversed(asking)}
    queue = deque(dict.fromkeys(other for other, _ in asking))
    while queue and node not in arrived:
        here = queue.popleft()
        for other, edge in graph.get(here, []):
            if other not in arrived:
                arrived[other] = (here, edge)
                queue.append(other)
    if node not in arrived:
        return None
    at, edge = arrived[node]
    path = [edge]
    while at != node:
        at, edge = arrived[at]
        path.append(edge)
    return path[::-1]
