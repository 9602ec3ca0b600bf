"""Answers of every kind, read as one: a run, a stranger's array, a network head's factors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.attention import log_weights, logits_of_p, logits_of_W
from keytokens.dynamics.trajectory import Reason, Trajectory
from keytokens.errors import raise_input
from keytokens.problem import TokenProblem

LARGEST = 8e307  # of logits: so that their differences are finite
_BY_NAMES = {("K", "Q"): "KQ", ("p", "v"): "vp", ("E", "p"): "Ep"}


@dataclass(frozen=True, eq=False)
class Answer:
    """One answer to one problem: the trained blocks, where they started, and why the run ended.

    first and reason are None for an answer that is not a run. weight: the p or W that attention
    uses (K Q^T for factors).
    """

    over: str
    blocks: dict[str, Floats]
    path: dict[str, Floats] | None
    reason: Reason | None

    @property
    def weight(self) -> Floats:
        """p (d,) or W (d, d)."""
        return self._weight(self.blocks)

    @property
    def geometry(self) -> str:
        """p or W: which Att-SVM speaks about it."""
        return "W" if self.over in ("W", "KQ") else "p"

    @property
    def start(self) -> Floats | None:
        """The p or W that training started from."""
        if self.path is None:
            return None
        return self._weight({name: a[0] for name, a in self.path.items()})

    def _weight(self, blocks: dict[str, Floats]) -> Floats:
        if self.over == "KQ":
            return blocks["K"] @ blocks["Q"].T
        return blocks["W" if self.over == "W" else "p"]


def read_answer(answer: Any, over: str | None, shapes: dict[str, tuple[int, ...]]) -> Answer:
    """A `Trajectory`, an array p or W, or a dict of blocks, in the shapes the problem asks for."""
    if isinstance(answer, Trajectory):
        _same(over, answer.over)
        blocks, path = (_named(answer.over, w) for w in (answer.params, answer.path))
        _check_shapes(blocks, shapes)
        return Answer(answer.over, blocks, path, answer.reason)  # type: ignore[arg-type]
    if isinstance(answer, dict):
        found = _BY_NAMES.get(tuple(sorted(answer)))
        if found is None:
            raise_input("answer", "be a dict of K and Q, v and p, or E and p", f"{sorted(answer)}")
        _same(over, found)
        blocks = {name: check.float_array(f"answer[{name!r}]", a) for name, a in answer.items()}
        _check_shapes(blocks, shapes)
        return Answer(found, blocks, None, None)
    array = check.float_array("answer", answer)
    over = over or ("W" if array.ndim == 2 else "p")
    check.one_of("over", over, ("p", "W"))
    check.shape("answer", array, shapes[over], f"that of {over}")
    return Answer(over, {over: array}, None, None)


def _check_shapes(blocks: dict[str, Floats], shapes: dict[str, tuple[int, ...]]) -> None:
    """Those of the problem; K and Q are (d, m) for one m."""
    for name, block in blocks.items():
        if name in shapes:
            check.shape(f"answer[{name!r}]", block, shapes[name])
    if "K" in blocks:
        K, Q = blocks["K"], blocks["Q"]
        rule = f"be K and Q of one shape (d, m), d = {shapes['W'][0]}"
        if K.shape != Q.shape or K.ndim != 2 or K.shape[:1] != shapes["W"][:1]:
            raise_input("answer", rule, f"{K.shape} and {Q.shape}")


def _named(over: str, parameters: Any) -> dict[str, Floats]:
    return dict(parameters) if isinstance(parameters, dict) else {over: parameters}


def _same(asked: str | None, found: str) -> None:
    if asked is not None and asked != found:
        raise_input("over", f"be {found!r} for this answer", repr(asked))


def logits_of(problem: TokenProblem, answer: Answer) -> Floats:
    """a[i, t] of the answer; masked tokens -inf. (n, T)"""
    if answer.geometry == "W" and problem.query is None:
        raise_input("problem", "have queries for an answer over W", "query=None")
    with np.errstate(over="ignore", invalid="ignore"):
        if answer.geometry == "p":
            a = logits_of_p(problem.keys, answer.weight)
        else:
            a = logits_of_W(problem.X, answer.weight, np.asarray(problem.query))
    a = a if problem.mask is None else np.where(problem.mask, a, 0.0)
    if not (np.abs(a) < LARGEST).all():
        raise_input("answer", "have finite logits", "logits that overflow float64; scale it down")
    return a if problem.mask is None else np.where(problem.mask, a, -np.inf)


def attended(a: Floats, log_counts: Floats | None) -> Floats:
    """log s of logits a, tokens counted N times when their log-counts are given. (n, T)"""
    return log_weights(a if log_counts is None else a + log_counts)
