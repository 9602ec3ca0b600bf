"""Next-token problems: the selected token is the label, and a graph of labels says what is tied.

Per last token, an edge label -> other token for every input. Tokens of one strongly connected
component stay together (equality), across components the label leads by at least 1:
W ~ W_fin + R W_svm.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.certification.answers import Answer
from keytokens.certification.case import Case
from keytokens.certification.certificate import Certificate
from keytokens.certification.dense import judge
from keytokens.certification.theorems import QUOTED, Assumption, Theorem
from keytokens.problem import NextTokenProblem, TokenProblem
from keytokens.svm.solution import Solution


def judge_next(problem: NextTokenProblem, answer: Answer, threshold: float) -> Certificate:
    """The certificate over W (or K, Q), for the labels as selected tokens."""
    tokens, norm = _as_tokens(problem), _norm(answer)
    return judge(NextCase(tokens, answer, threshold, norm, None, None, asked=problem))


def _norm(answer: Answer) -> str:
    return "nuclear" if answer.over == "KQ" else "l2"


def _as_tokens(problem: NextTokenProblem) -> TokenProblem:
    """The same geometry with a head that is never read."""
    y, v = np.ones(problem.n), np.ones(problem.d)
    return TokenProblem(problem.X, y, v, problem.query, problem.mask)


@dataclass(frozen=True, eq=False)
class NextCase(Case):
    """A case whose selection is given by the labels."""

    asked: Any = None  # the NextTokenProblem

    says_optimal: ClassVar[str] = (
        "The selected tokens are the labels, in braces with the tokens of their component."
    )

    @cached_property
    def selected(self) -> Integers:
        """The first position of the label. (n,)"""
        return self.asked.is_label.argmax(axis=-1)

    @cached_property
    def kept(self) -> Booleans:
        """The label and the tokens of its component. (n, T)"""
        same = components(self.asked)
        kept = np.stack([part[row] == part[lab] for part, row, lab in zip(
            same, self.asked.tokens, self.asked.label, strict=True)])  # fmt: skip
        return (kept & self.mask & ~self.copies) | self.chosen

    @cached_property
    def scores(self) -> Floats:
        """1 for the label and what is tied to it, 0 for the rest. (n, T)"""
        return np.where(self.mask, (self.kept | self.copies).astype(float), -np.inf)

    @cached_property
    def tied(self) -> Booleans:
        """No head, no scores that could tie."""
        return np.zeros_like(self.mask)

    @cached_property
    def is_finite(self) -> bool:
        """Every token is tied to the label of its input: nothing grows."""
        return not self.left_behind.any()

    def theorems(self, solution: Solution | None, cert: Any) -> tuple[Theorem, ...]:
        if solution is None or solution.direction is None:
            return super().theorems(solution, cert)
        return (_theorem(self, cert),)


def components(problem: NextTokenProblem) -> Any:
    """Strongly connected components of the graph of each input's last token. (n, V)"""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    V = problem.embedding.shape[0]
    mask = np.ones(problem.tokens.shape, bool) if problem.mask is None else problem.mask
    found = {}
    for last in np.unique(problem.last):
        here = problem.last == last
        i, t = np.nonzero(mask & here[:, None])
        edges = (problem.label[i], problem.tokens[i, t])
        graph = coo_array((np.ones(len(i)), edges), shape=(V, V))
        found[last] = connected_components(graph, directed=True, connection="strong")[1]
    return [found[last] for last in problem.last]


def _theorem(case: NextCase, cert: Certificate) -> Theorem:
    """The graph form, feasible or not."""
    tied = int((case.kept.sum(axis=-1) > 1).sum())
    parts = (
        Assumption(
            "the graph's Att-SVM is feasible", cert.direction is not None, cert.best_margin,
            f"{tied} inputs keep tokens tied, margin",
        ),
        Assumption(
            "labels lead every token of other components", cert.margin > 0, cert.margin, "margin"
        ),
    )  # fmt: skip
    says = "W ~ W_fin + R W_svm: equality inside strongly connected components, >= 1 across."
    return Theorem("Next-token attention", says, QUOTED, parts)
