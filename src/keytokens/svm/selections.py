"""All locally optimal selections of a small problem; shares of limits over many problems."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats, Integers
from keytokens.errors import raise_input
from keytokens.problem import TokenProblem, optimal_tokens
from keytokens.svm.att import att_svm, check_problem

_BLOCK = 2048  # selections solved in one call
_SHOWN = 10
LIMITS = ("global", "local", "non-local", "finite")


@dataclass(frozen=True, eq=False)
class LocalSelections:
    """Locally optimal selections, widest margin first.

    selected (K, n), margins (K,), is_global (K,): every input selects its optimal token.
    tried selections were looked at, feasible of them have a direction; is_complete: all were.
    """

    selected: Integers
    margins: Floats
    is_global: Booleans
    tried: int
    feasible: int
    is_complete: bool

    def __len__(self) -> int:
        return len(self.margins)

    def __str__(self) -> str:
        """How many there are, then a line for each of the widest."""
        which = "All" if self.is_complete else f"Of {self.tried} drawn,"
        text = f"{which} {len(self)} locally optimal selections ({self.feasible} are feasible):"
        rows = zip(self.selected[:_SHOWN], self.margins, self.is_global, strict=False)
        lines = [f"{s}  margin {m:.4g}{'  global' if g else ''}" for s, m, g in rows]
        more = [f"and {len(self) - _SHOWN} more"] if len(self) > _SHOWN else []
        return "\n".join([text, *lines, *more])


def local_selections(
    problem: TokenProblem,
    over: str = "p",
    norm: Any = "l2",
    limit: int = 10_000,
    seed: int = 0,
) -> LocalSelections:
    """Every locally optimal selection, if there are at most `limit` selections to look at.

    Otherwise `limit` of them, drawn uniformly with `seed` (each at most once). Tokens that
    occur twice in an input count once, masked ones not at all.
    """
    check_problem(problem)
    if problem.batch is not None:
        raise_input("problem", "be a single problem", f"a batch of {problem.batch}")
    check.integer("limit", limit, least=1)
    choices = _choices(problem)
    total = math.prod(map(len, choices))
    drawn: Iterator[Any] = product(*choices) if total <= limit else _draws(choices, limit, seed)
    kept, margins, tried, feasible = [], [], 0, 0
    while len(block := np.array(list(islice(drawn, _BLOCK)), dtype=np.int64)):
        found = att_svm(_repeated(problem, len(block)), block, over, norm)
        kept.append(block[found.is_locally_optimal])
        margins.append(found.margin[found.is_locally_optimal])
        tried, feasible = tried + len(block), feasible + int(found.is_feasible.sum())
    counts = {"tried": tried, "feasible": feasible, "is_complete": total <= limit}
    return _ranked(problem, np.concatenate(kept), np.concatenate(margins), counts)


def _ranked(
    problem: TokenProblem, selected: Integers, margins: Floats, counts: dict[str, Any]
) -> LocalSelections:
    order = np.argsort(-margins, kind="stable")
    selected, margins = selected[order], margins[order]
    return LocalSelections(selected, margins, is_optimal(problem, selected), **counts)


def _choices(problem: TokenProblem) -> list[list[int]]:
    """The distinct unmasked tokens of every input, each by its first occurrence."""
    mask = np.ones((problem.n, problem.T), bool) if problem.mask is None else problem.mask
    choices = []
    for X, here in zip(problem.X, mask, strict=True):
        first: dict[bytes, int] = {}
        for t in np.flatnonzero(here):
            first.setdefault((X[t] + 0.0).tobytes(), int(t))  # + 0.0: -0.0 is 0.0
        choices.append(list(first.values()))
    return choices


def _draws(choices: list[list[int]], limit: int, seed: int) -> Iterator[tuple[int, ...]]:
    """`limit` different selections, uniformly."""
    rng = np.random.default_rng(seed)
    seen: set[tuple[int, ...]] = set()
    while len(seen) < limit:
        draw = tuple(c[rng.integers(len(c))] for c in choices)
        if draw not in seen:
            seen.add(draw)
            yield draw


def _repeated(problem: TokenProblem, times: int) -> TokenProblem:
    """The same problem as a batch."""
    parts = (problem.X, problem.y, problem.v, problem.query, problem.mask, problem.W)
    many = (None if x is None else np.broadcast_to(x, (times, *x.shape)) for x in parts)
    return TokenProblem(*many)  # type: ignore[arg-type]


def is_optimal(problem: TokenProblem, selected: Any) -> Any:
    """Whether every input selects its optimal token, or a copy of it. (K,), or a bool"""
    selected = np.asarray(selected)
    X = np.broadcast_to(problem.X, (*selected.shape, *problem.X.shape[-2:]))
    best = np.broadcast_to(optimal_tokens(problem), selected.shape)
    one, other = (np.take_along_axis(X, t[..., None, None], axis=-2) for t in (selected, best))
    return (one == other).all(axis=(-3, -2, -1))


def limits(
    problem: TokenProblem, selected: Any, finite: Any = None, over: str = "p", norm: Any = "l2"
) -> list[str]:
    """What kind of limit each run of a batch reached: global, local, non-local or finite.

    selected (B, n): the tokens the runs ended on; finite (B,): runs whose attention stayed
    spread over several tokens. local: the selection is locally optimal; non-local: it is not,
    or has no direction at all.
    """
    check_problem(problem)
    if problem.batch is None:
        raise_input("problem", "be a batch, one problem a run", "a single problem")
    found = att_svm(problem, selected, over, norm)
    finite = (
        np.zeros(problem.batch, bool) if finite is None else check.boolean_array("finite", finite)
    )
    best = is_optimal(problem, found.selected)
    local = np.where(found.is_locally_optimal, "local", "non-local")
    return np.where(finite, "finite", np.where(best, "global", local)).tolist()


def shares(kinds: list[str]) -> dict[str, float]:
    """The share of each kind of limit.

    >>> shares(["global", "local", "global", "finite"])
    {'global': 0.5, 'local': 0.25, 'non-local': 0.0, 'finite': 0.25}
    """
    return {kind: kinds.count(kind) / len(kinds) for kind in LIMITS}
