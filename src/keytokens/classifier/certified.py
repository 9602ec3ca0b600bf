"""What a fitted model selects in given texts, and the max-margin certificate of it."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from keytokens._checks import Floats, Integers
from keytokens.embedding.concentration import effective_tokens
from keytokens.embedding.scores import AttentionScores, logits, weights
from keytokens.errors import raise_input
from keytokens.svm.corpus import corpus_att_svm
from keytokens.svm.solution import Solution


@dataclass(frozen=True, eq=False)
class SelectionCertificate:
    """The selection of n texts (the heaviest token of each) and its Att-SVM.

    selected (n,): columns, -1 for a text without known tokens; weight: mean attention on them;
    effective: mean effective tokens; optimal: share of texts whose selected token speaks most for
    the decision; correlation of a with the max-margin logits; solution: the Att-SVM itself.
    """

    selected: Integers
    weight: float
    effective: float
    optimal: float
    correlation: float
    solution: Solution

    @property
    def is_feasible(self) -> bool:
        """Is there a direction that selects exactly these tokens?"""
        return bool(self.solution.is_feasible)

    @property
    def optimality(self) -> str:
        """global: every selected token is the optimal one; infeasible: no limit selects these."""
        if not self.is_feasible:
            return "infeasible"
        return "global" if self.optimal == 1.0 else "none"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings, with their numbers."""
        n, distinct = int((self.selected >= 0).sum()), len(set(self.selected.tolist()) - {-1})
        said = [
            f"{n:,} texts select {distinct:,} distinct tokens.",
            f"The selected token holds {self.weight:.1%} of the attention on average "
            f"({self.effective:.1f} effective tokens).",
            f"It is the token that speaks most for the decision in {self.optimal:.1%} of them.",
        ]
        if not self.is_feasible:
            return (*said, f"No logits select these tokens in every text: {self.solution.status}.")
        proof = self.solution.certificate
        return (
            *said,
            f"The max-margin logits of this selection have margin {self.solution.margin:.4g} "
            f"(relative gap {max(proof.gap, 0.0):.1e}, worst violation {proof.violation:.1e}).",
            f"The model's logits correlate {self.correlation:.4f} with them.",
        )

    def to_dict(self) -> dict[str, object]:
        """For JSON: None stands for what is not a number, such as a margin without a bound."""
        feasible, proof = self.is_feasible, self.solution.certificate
        return {
            "texts": len(self.selected),
            "distinct": len(set(self.selected.tolist()) - {-1}),
            "attention_on_selected": self.weight,
            "effective_tokens": self.effective,
            "optimal": self.optimal,
            "optimality": self.optimality,
            "feasible": feasible,
            "margin": _number(self.solution.margin) if feasible else None,
            "gap": _number(proof.gap) if feasible else None,
            "violation": _number(proof.violation) if feasible else None,
            "correlation": _number(self.correlation) if feasible else None,
            "sentences": list(self.sentences),
        }

    def __str__(self) -> str:
        return " ".join(self.sentences)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def certify_selection(scores: AttentionScores, counts: sparse.csr_array) -> SelectionCertificate:
    """Certify what one attention map selects in these counts."""
    if scores.n_maps > 1:
        raise_input("model", "have one attention map to be certified", f"{scores.n_maps}")
    counts = sparse.csr_array(counts)
    counts.sort_indices()
    weight = weights(scores, counts)[0][0]
    place = heaviest(counts.indptr, weight)
    known = place >= 0
    if not known.any():
        raise_input("texts", "hold at least one known token", "none")
    selected = np.where(known, counts.indices[place], -1)
    solution = corpus_att_svm(counts[known], selected[known])
    a = scores.attention[0, :-1]
    return SelectionCertificate(
        selected,
        float(weight[place[known]].mean()),
        float(effective_tokens(scores, counts).mean()),
        _optimal_share(scores, counts, place, known),
        _cosine(a, solution.direction),
        solution,
    )


def heaviest(indptr: Integers, weight: Floats) -> Integers:
    """The place of each row's largest entry; the first one where several tie; -1: empty. (n,)"""
    lengths = np.diff(indptr)
    place = np.full(len(lengths), -1)
    full = np.flatnonzero(lengths)
    top = np.maximum.reduceat(weight, indptr[full]) if len(full) else np.empty(0)
    row = np.repeat(np.arange(len(full)), lengths[full])
    hits = np.flatnonzero(weight[indptr[0] :] == top[row])
    rows, first = np.unique(row[hits], return_index=True)
    place[full[rows]] = hits[first]
    return place


def _optimal_share(
    scores: AttentionScores, counts: sparse.csr_array, place: Integers, known: np.ndarray
) -> float:
    """How often the selected token's value, signed by the decision, is the row's largest."""
    raw = logits(scores, counts)
    b = scores.value[0, :, :-1]
    if len(b) == 1:
        sign = np.where(raw[:, 0] > 0, 1.0, -1.0)
        gamma = np.repeat(sign, np.diff(counts.indptr)) * b[0, counts.indices]
    else:
        decided = np.repeat(raw.argmax(axis=1), np.diff(counts.indptr))
        gamma = b[decided, counts.indices]
    full = np.flatnonzero(known)
    best = np.maximum.reduceat(gamma, counts.indptr[full])
    return float((gamma[place[full]] == best).mean())


def _cosine(a: Floats, direction: Floats | None) -> float:
    """Correlation where the direction moves; logits have no origin, so a is centred there."""
    if direction is None:
        return float("nan")
    on = np.flatnonzero(direction)
    if not len(on):
        return float("nan")
    a, p = a[on] - a[on].mean(), direction[on] - direction[on].mean()
    size = np.sqrt((a @ a) * (p @ p))
    return float(a @ p / size) if size > 0 else float("nan")
