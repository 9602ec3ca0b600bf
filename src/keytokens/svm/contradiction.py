"""A cycle of the selection graph as a Farkas vector and in words.

Going round a cycle of "s above t" (and "t kept together with s'") the differences sum to zero
exactly, while the right-hand sides sum to the number of "above"s.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.svm.certificate import farkas_residual, is_farkas_proof
from keytokens.svm.entries import Corpus
from keytokens.svm.forest import Forest, spanning_forest
from keytokens.svm.solution import Conflict


@dataclass(frozen=True, eq=False, repr=False)
class CorpusConflict(Conflict):
    """A conflict whose vector is sparse (n, V) and whose tokens are columns; str() tells it.

    selected (n,): the column each input's rows compare with, -1 where the input is empty.
    """

    @property
    def pairs(self) -> list[tuple[int, int, int]]:
        """(input, its selected column, the other column) of every row, the heaviest first."""
        vector: Any = self.vector.tocoo()  # type: ignore[attr-defined]
        rows, columns = vector.coords
        order = np.argsort(-np.abs(vector.data), kind="stable")
        inputs = rows[order]
        triples = np.column_stack([inputs, self.selected[inputs], columns[order]])
        return [(i, s, t) for i, s, t in triples.tolist()]

    def __str__(self) -> str:
        if not self.is_proof:
            return f"No proof, but a direction would be at least {self.least_norm:.1e} long."
        said = self.cycle or self._in_words()
        return said[0].upper() + said[1:]

    def _in_words(self, shown: int = 6) -> str:
        """The heaviest rows by name; the others by their number."""
        pairs = self.pairs
        named = [f"input {i} (token {s} over token {t})" for i, s, t in pairs[:shown]]
        more = f" and {len(pairs) - shown} more" if len(pairs) > shown else ""
        if len(pairs) == 1:
            return f"{named[0]} asks two tokens that look the same to differ."
        return f"{', '.join(named)}{more}: a weighted sum of these differences is zero."


def conflict_of(
    corpus: Corpus, u: Floats, GTu: Floats, lengths: Floats, is_sure: bool, cycle: str = ""
) -> Conflict:
    """Check u (nnz,) and scale it to h^T u = 1; a proof only if the solver is sure of it too."""
    gain = float(corpus.h @ u)
    unit = gain if gain > 0 else 1.0
    u, GTu = u / unit, GTu / unit
    residual, least = farkas_residual(GTu, lengths, corpus.h, corpus.is_kept, u)
    proof = is_sure and bool(is_farkas_proof(residual, gain, np.count_nonzero(u)))
    matrix = corpus.matrix(u)
    return CorpusConflict(matrix, corpus.first, float(residual), float(least), proof, cycle)


def cycle_vector(corpus: Corpus, cycle: Integers) -> tuple[Floats, str]:
    """u (nnz,) and the sentence of a cycle whose "above" entries are `cycle`, in order."""
    forest, ties = tie_forest(corpus)
    u = np.zeros(len(corpus.tokens))
    above, below = corpus.ends(cycle)
    said = []
    for k, s, t, onward in zip(cycle, above, below, np.roll(above, -1), strict=True):
        u[k] += 1.0
        said.append(f"input {corpus.row[k]} puts token {s} above token {t}")
        for tie, sign in _path(forest, int(t), int(onward)):
            entry = ties[tie]
            u[entry] += sign
            one, other = (int(x[0]) for x in corpus.ends(entry[None]))
            said.append(f"input {corpus.row[entry]} keeps tokens {one} and {other} together")
    return u, "; ".join(said) + ": no logits do all of this."


def tie_forest(corpus: Corpus) -> tuple[Forest, Integers]:
    """A spanning forest of the tokens kept together; its edges number the returned entries."""
    ties = corpus.tied
    return spanning_forest(*corpus.ends(ties), np.arange(len(ties)), corpus.n_tokens), ties


def _path(forest: Forest, source: int, target: int) -> list[tuple[int, float]]:
    """Edges from source to target in the forest; +1 where one is walked from its source end."""
    up, down = _climb(forest, source), _climb(forest, target)
    while up and down and up[-1] == down[-1]:  # the common way to the root
        up.pop(), down.pop()
    return up + [(edge, -sign) for edge, sign in reversed(down)]


def _climb(forest: Forest, node: int) -> list[tuple[int, float]]:
    """Edges from a node to its root."""
    steps = []
    while forest.parent[node] >= 0:
        steps.append((int(forest.edge[node]), float(forest.sign[node])))
        node = int(forest.parent[node])
    return steps
