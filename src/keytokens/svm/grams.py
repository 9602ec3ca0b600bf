"""The two geometries of a corpus's Att-SVM: free logits, and logits <p, E_s> of d dimensions.

Each solves a reduced graph and knows its logits, its norm and dual norm, and G^T lambda.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens.errors import raise_input
from keytokens.svm import dense
from keytokens.svm.certificate import euclidean
from keytokens.svm.contradiction import tie_forest
from keytokens.svm.dense import Answer, Verdict
from keytokens.svm.entries import Corpus
from keytokens.svm.forest import flows
from keytokens.svm.generation import generate, null_space
from keytokens.svm.graph import SelectionGraph
from keytokens.svm.sparse import NodeMetric, solve_graph

_ROUNDING = 1e-13
_LARGEST = 1e150  # squares of what is below, and above its inverse, fit into float64


@dataclass(frozen=True, eq=False)
class RankOne:
    """Gram of one-step embeddings at infinite width: I + c alpha alpha^T, c = (eta |v| / 2)^2.

    alpha (V,) the average signed frequencies, eta the step, v_norm the length of the head.
    """

    alpha: Floats
    eta: float
    v_norm: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", check.float_array("alpha", self.alpha, 1))
        object.__setattr__(self, "eta", check.non_negative("eta", self.eta))
        object.__setattr__(self, "v_norm", check.positive("v_norm", self.v_norm))
        if max(self.eta, self.v_norm, self.eta * self.v_norm) > _LARGEST:
            raise_input("eta", f"be below {_LARGEST:.0e}, times v_norm too", f"{self.eta:g}")

    @property
    def c(self) -> float:
        return (self.eta * self.v_norm / 2) ** 2


@dataclass(frozen=True, eq=False)
class ColumnGram:
    """Directions are the logits a (V,) themselves: N(a)^2 = a^T (I + c alpha alpha^T)^-1 a."""

    alpha: Floats
    c: float

    @property
    def width(self) -> int:
        """Numbers in a direction."""
        return len(self.alpha)

    def logits(self, a: Floats) -> Floats:
        return a

    def norm(self, a: Floats) -> Any:
        """Sums of squares at the best tau: ||a - sqrt(c) alpha tau||^2 + tau^2."""
        root = np.sqrt(self.c)
        tau = root * (self.alpha @ a) / (1 + self.c * (self.alpha @ self.alpha))
        return np.sqrt(euclidean(a - root * tau * self.alpha) ** 2 + tau**2)

    def dual_norm(self, g: Floats) -> Any:
        """sqrt(g^T (I + c alpha alpha^T) g)"""
        return np.sqrt(g @ g + self.c * (self.alpha @ g) ** 2)

    def combine(self, corpus: Corpus, multipliers: Floats) -> Floats:
        return corpus.combine(multipliers)

    def lengths(self, corpus: Corpus, entries: Integers) -> Any:
        return np.sqrt(2.0)

    def closeness(self, corpus: Corpus, p: Floats, multipliers: Floats) -> float:
        """Without a cycle there are logits, whatever the rounding: never nearly infeasible."""
        return np.inf

    def solve(self, corpus: Corpus, graph: SelectionGraph) -> Answer:
        """a (V,) and multipliers (nnz,), through one value per node."""
        mean = np.bincount(graph.node, self.alpha) / graph.size
        inside = self.alpha - mean[graph.node]
        metric = NodeMetric(graph.size, mean, self.c / (1 + self.c * float(inside @ inside)))
        u, edges = solve_graph(graph, metric)
        multipliers = np.zeros(len(corpus.tokens))
        multipliers[graph.entry] = edges
        if len(corpus.tied):
            reached = metric.push(graph.incidence().T @ edges)[graph.node]
            self._tie(corpus, multipliers, reached)
        return Answer(u[graph.node], multipliers, Verdict.SOLVED)

    def _tie(self, corpus: Corpus, multipliers: Floats, a: Floats) -> None:
        """Multipliers of equalities: what is missing to G^T lambda = (I + c alpha alpha^T)^-1 a."""
        forest, ties = tie_forest(corpus)
        ones = NodeMetric(np.ones(len(a)), self.alpha, self.c)
        missing = ones.pull(a) - corpus.combine(multipliers)
        multipliers[ties] = flows(forest, missing, len(ties))


@dataclass(frozen=True, eq=False)
class EmbeddingGram:
    """Directions are p (d,); logits a = E p. E (V, d)"""

    E: Floats

    @property
    def width(self) -> int:
        """Numbers in a direction."""
        return self.E.shape[1]

    def logits(self, p: Floats) -> Floats:
        return self.E @ p

    def norm(self, p: Floats) -> Any:
        return euclidean(p)

    dual_norm = norm

    def combine(self, corpus: Corpus, multipliers: Floats) -> Floats:
        """sum_k lambda_k (E_s - E_t), difference by difference. (d,)"""
        entries = np.flatnonzero(multipliers)
        return multipliers[entries] @ self.rows(corpus, entries)

    def lengths(self, corpus: Corpus, entries: Integers) -> Any:
        return euclidean(self.rows(corpus, entries))

    def closeness(self, corpus: Corpus, p: Floats, multipliers: Floats) -> float:
        """The margin over the longest row that holds p; where small, at rows of length one."""
        entries = np.flatnonzero(multipliers)
        share = float(1 / (euclidean(p) * self.lengths(corpus, entries).max(initial=1e-300)))
        if share >= dense.NEARLY:
            return share
        G = self.rows(corpus, entries)
        return dense.unit_margin(G, corpus.h[entries], corpus.is_kept[entries])

    def rows(self, corpus: Corpus, entries: Integers) -> Floats:
        """E_s - E_t of the given entries. (k, d)"""
        above, below = corpus.ends(entries)
        return self.E[above] - self.E[below]

    def solve(self, corpus: Corpus, graph: SelectionGraph) -> Answer:
        """p (d,) and multipliers (nnz,)."""
        if len(corpus.tied):
            return self._solve_tied(corpus, graph)
        multipliers = np.zeros(len(corpus.tokens))
        found = generate(self.E, graph)
        multipliers[graph.entry] = found.multipliers
        return found._replace(multipliers=multipliers)

    def _solve_tied(self, corpus: Corpus, graph: SelectionGraph) -> Answer:
        """Ties are met by leaving the directions they see; their multipliers by least squares."""
        forest, ties = tie_forest(corpus)
        ties = ties[forest.edge[forest.edge >= 0]]
        rows = self.rows(corpus, ties)
        basis = null_space(rows)
        token = np.zeros(graph.n_nodes, np.int64)
        token[graph.node] = np.arange(len(graph.node))  # any token stands for its node
        q, edges, verdict = generate(self.E[token] @ basis, graph)
        p = np.full(len(basis), np.nan) if np.isnan(q).any() else basis @ q
        multipliers = np.zeros(len(corpus.tokens))
        multipliers[graph.entry] = edges
        wanted = np.nan_to_num(p) - self.combine(corpus, multipliers)
        multipliers[ties] = np.linalg.lstsq(rows.T, wanted, rcond=None)[0]
        if np.isnan(p).any() or self._cancels(corpus, multipliers):
            return self._settle(corpus, multipliers, ties)
        return Answer(p, multipliers, verdict)

    def _cancels(self, corpus: Corpus, multipliers: Floats) -> bool:
        """Whether G^T lambda is no more than the rounding of its sum: p is noise."""
        entries = np.flatnonzero(multipliers)
        size = np.abs(multipliers[entries]) @ self.lengths(corpus, entries)
        return bool(euclidean(self.combine(corpus, multipliers)) <= _ROUNDING * size)

    def _settle(self, corpus: Corpus, multipliers: Floats, ties: Integers) -> Answer:
        """Judge the rows that take part where nothing was projected, so nothing was rounded."""
        entries = np.union1d(np.flatnonzero(multipliers), ties)
        G, h, equal = self.rows(corpus, entries), corpus.h[entries], corpus.is_kept[entries]
        u = np.zeros(len(multipliers))
        found = dense.solve(G, h, equal)
        u[entries] = found.multipliers
        verdict = Verdict.UNDECIDED if found.verdict is Verdict.SOLVED else found.verdict
        return Answer(np.full(G.shape[1], np.nan), u, verdict)


def gram_of(embedding: Any, V: int) -> ColumnGram | EmbeddingGram:
    """None: free logits; RankOne: the one-step Gram; an array (V, d): its rows."""
    if embedding is None:
        return ColumnGram(np.zeros(V), 0.0)
    if isinstance(embedding, RankOne):
        check.shape("alpha", embedding.alpha, (V,), "(V,)")
        return ColumnGram(embedding.alpha, embedding.c)
    E = check.float_array("embedding", embedding, 2)
    check.shape("embedding", E, (V, max(1, E.shape[1])), "(V, d)")
    size = np.abs(E).max()
    if size and not 1 / _LARGEST <= size <= _LARGEST:
        rule = f"have a largest entry between {1 / _LARGEST:.0e} and {_LARGEST:.0e}, or be zero"
        raise_input("embedding", rule, f"{size:.0e}")
    return EmbeddingGram(E)
