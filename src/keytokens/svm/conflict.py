"""Why a selection has no direction: the Farkas vector, in words."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

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
    """Breadth first, from each edge that asks for a margin, back to where it starts.

    look (n, T): equal numbers for tokens with equal keys.
    """
    graph: dict[int, list[tuple[int, Edge]]] = {}
    for i, t in np.argwhere(~np.isnan(rows)).tolist():
        edge = Edge(i, int(selected[i]), t)
        graph.setdefault(int(look[i, selected[i]]), []).append((int(look[i, t]), edge))
    cycles = [
        [edge, *path]
        for node, edges in graph.items()
        for other, edge in edges
        if rows[edge.input, edge.other] == 1 and (path := _path(graph, other, node)) is not None
    ]
    return min(cycles, key=len, default=[])


def _path(graph: dict[int, list[tuple[int, Edge]]], start: int, end: int) -> list[Edge] | None:
    """The edges of a shortest path; None if there is none."""
    arrived: dict[int, tuple[int, Edge] | None] = {start: None}
    queue = deque([start])
    while queue and end not in arrived:
        node = queue.popleft()
        for other, edge in graph.get(node, []):
            if other not in arrived:
                arrived[other] = (node, edge)
                queue.append(other)
    if end not in arrived:
        return None
    path = []
    while (step := arrived[end]) is not None:
        end, edge = step
        path.append(edge)
    return path[::-1]
