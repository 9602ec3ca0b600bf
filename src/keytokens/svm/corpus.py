"""corpus_att_svm: the max-margin direction of a selection of a whole corpus, certified."""

from typing import Any

import numpy as np

from keytokens._checks import Floats, Integers
from keytokens.svm.certificate import certificate
from keytokens.svm.contradiction import conflict_of, cycle_vector
from keytokens.svm.dense import NEARLY, Answer, Verdict
from keytokens.svm.entries import Corpus, read_corpus
from keytokens.svm.grams import ColumnGram, EmbeddingGram, RankOne, gram_of
from keytokens.svm.graph import (
    SelectionGraph,
    clashing_entries,
    reduced,
    selection_graph,
    shortest_cycle,
    topological_rank,
)
from keytokens.svm.solution import Certificate, Solution

__all__ = ["RankOne", "corpus_att_svm"]
Gram = ColumnGram | EmbeddingGram
_TIGHT = 1e-9
_GAP = 1e-8  # what a certified answer may lack


def corpus_att_svm(counts: Any, selected: Any, embedding: Any = None) -> Solution:
    """min N(a) s.t. a_s - a_t >= 1 for every input, s selected in it and t any other of its tokens.

    counts (n, V), sparse: only where tokens occur matters. selected: a column per input (n,), or
    the columns an input keeps together, as a boolean (n, V) matrix or a list of index arrays
    (equality among them). An input without tokens asks for nothing.
    embedding: None for free logits, N(a) = ||a||; RankOne(alpha, eta) for the one-step Gram;
    E (V, d) for logits a = E p, N = ||p||: the direction is then p (d,), otherwise a (V,).

    The answer is checked against every row of every input. multipliers and support are sparse
    (n, V); is_locally_optimal is None, since no token scores are given.
    """
    corpus = read_corpus(counts, selected)
    gram = gram_of(embedding, corpus.n_tokens)
    graph = selection_graph(corpus)
    cycle = _cycle(corpus, graph)
    if len(cycle):
        return _contradicted(corpus, gram, selected, cycle)
    if not len(graph.targets):
        zero = np.zeros(gram.width)
        free = Answer(zero, np.zeros(len(corpus.tokens)), Verdict.SOLVED)
        return _solved(corpus, gram, selected, free)
    answer = gram.solve(corpus, reduced(graph, topological_rank(graph)))
    if np.isnan(answer.p).any():
        return _refused(corpus, gram, selected, answer)
    return _solved(corpus, gram, selected, answer)


def _cycle(corpus: Corpus, graph: SelectionGraph) -> Integers:
    """Entries of a shortest way round, empty where there is none."""
    clash = clashing_entries(corpus, graph.node)
    if len(clash):
        return clash[:1]
    rank = topological_rank(graph)
    return graph.entry[shortest_cycle(graph, rank)] if (rank < 0).any() else clash


def _solved(corpus: Corpus, gram: Gram, selected: Any, answer: Answer) -> Solution:
    """Scale the direction until the shortest of all rows is met, then certify."""
    margins = corpus.margins(gram.logits(answer.p))
    least = margins[~corpus.is_kept].min(initial=1.0)
    scale = 1 / least if 0.5 < least < 1 else 1.0
    p, margins = answer.p * scale, margins * scale
    multipliers = np.where(corpus.is_kept, answer.multipliers, np.maximum(answer.multipliers, 0))
    found = _certificate(corpus, gram, p, margins, multipliers)
    share = gram.closeness(corpus, p, multipliers) if p.any() else np.inf
    return Solution(
        direction=p,
        margin=1 / float(gram.norm(p)) if p.any() else np.inf,
        multipliers=corpus.matrix(multipliers),
        support=corpus.matrix(~corpus.is_kept & (margins <= 1 + _TIGHT)),
        is_locally_optimal=None,
        certificate=found,
        status=_sentence(corpus, found, share),
        conflict=None,
        selected=selected,
    )


def _certificate(
    corpus: Corpus, gram: Gram, p: Floats, margins: Floats, multipliers: Floats
) -> Certificate:
    """Over every row of every input; only rows that fall short need their lengths."""
    lengths = np.ones(len(margins))
    off = np.flatnonzero(np.where(corpus.is_kept, margins != 0, margins < 1))
    lengths[off] = gram.lengths(corpus, off)
    GTlambda = gram.combine(corpus, multipliers)
    rows = (lengths, corpus.h, corpus.is_kept)
    return certificate(margins, GTlambda, *rows, p, multipliers, gram.norm, gram.dual_norm)


def _sentence(corpus: Corpus, found: Certificate, share: float) -> str:
    if corpus.is_kept.all():
        return "No row asks for a margin: the direction is 0 and the margin infinite."
    figures = f"relative gap {found.gap:.0e}, worst violation {found.violation:.0e}"
    if abs(found.gap) <= _GAP and found.violation <= _GAP:
        near = f", but nearly infeasible (margin {share:.0e} at unit rows)"
        solved = "Solved" + (near if share < NEARLY else "")
        count = np.count_nonzero(~corpus.is_kept)
        return f"{solved}: {figures}, over {'the one row' if count == 1 else f'all {count} rows'}."
    return f"Not certified: {figures}; the best direction found."


def _contradicted(corpus: Corpus, gram: Gram, selected: Any, cycle: Integers) -> Solution:
    """A cycle contradicts itself in every geometry."""
    u, said = cycle_vector(corpus, cycle)
    return _refused(corpus, gram, selected, Answer(u, u, Verdict.INFEASIBLE), said)


def _refused(corpus: Corpus, gram: Gram, selected: Any, answer: Answer, said: str = "") -> Solution:
    """No direction: the Farkas vector (nnz,), checked; no proof where rounding decides."""
    u = answer.multipliers
    lengths = np.zeros(len(u))
    taking_part = np.flatnonzero(u)
    lengths[taking_part] = gram.lengths(corpus, taking_part)
    is_sure = answer.verdict is Verdict.INFEASIBLE
    conflict = conflict_of(corpus, u, gram.combine(corpus, u), lengths, is_sure, said)
    status = "Infeasible: the conflict holds the proof."
    if not conflict.is_proof:
        status = "Nearly infeasible: rounding decides; the conflict says how long a direction is."
    return Solution(
        direction=None,
        margin=0.0 if conflict.is_proof else np.nan,
        multipliers=corpus.matrix(np.zeros(len(u))),
        support=corpus.matrix(np.zeros(len(u), bool)),
        is_locally_optimal=None,
        certificate=Certificate(np.inf, np.inf, np.nan, np.nan),
        status=status,
        conflict=conflict,
        selected=selected,
    )
