"""What the theory of trained embeddings assumes of a corpus, and whether this one has it."""

import re
from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import frequency, posterior_difference, signed_frequency
from keytokens.experiments.corpora import Corpus, by_corpus, drawn, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

RULES = ("signed frequency", "posterior difference")


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """A drawn corpus with one important token a sentence."""
    return [report(drawn(rng, n=400, partly=params["partly"]), rule) for rule in RULES]


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """The training reviews."""
    corpus = reviews(data)[0]
    return [report(corpus, rule) for rule in RULES]


def report(corpus: Corpus, rule: str) -> dict[str, Any]:
    """Completely predictive tokens, frequencies, and the graph of the optimal selection."""
    alpha, phi = signed_frequency(corpus.counts, corpus.y), frequency(corpus.counts)
    pure = np.isin(corpus.kinds, ("positive", "negative"))
    score = alpha if rule == RULES[0] else posterior_difference(corpus.counts, corpus.y)
    best, ties = optimal(corpus, score)
    svm = kt.corpus_att_svm(corpus.counts, best)
    return {
        "rule": rule,
        "sentences": len(corpus.y),
        "tokens": len(phi),
        "pure tokens": int(pure.sum()),
        "pure mass": float(phi[pure].sum()),
        "sentences with a pure token": float(np.mean(corpus.counts @ pure.astype(float) > 0)),
        "frequency spread": float(phi.max() / phi[phi > 0].min()),
        "balance": float(abs(corpus.y.mean())),
        "length spread": float(corpus.lengths.std() / corpus.lengths.mean()),
        "ties": ties,
        "feasible": float(svm.direction is not None),
        "conflict": "" if svm.conflict is None else in_words(str(svm.conflict), corpus),
        "gap": float(svm.certificate.gap) if svm.direction is not None else None,
    }


def in_words(conflict: str, corpus: Corpus) -> str:
    """The conflict with the tokens' words for their numbers."""
    return re.sub(r"token (\d+)", lambda m: f"“{corpus.words[int(m[1])]}”", conflict)


def optimal(corpus: Corpus, score: Any) -> tuple[Any, float]:
    """The token of largest y_i score_s in each sentence, and the share where two tie. (n,)"""
    counts = corpus.counts
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    value = corpus.y[row] * score[counts.indices]
    high = np.full(counts.shape[0], -np.inf)
    np.maximum.at(high, row, value)
    is_best = value == high[row]
    first = np.flatnonzero(is_best)
    rows, where = np.unique(row[first], return_index=True)
    best = np.zeros(counts.shape[0], dtype=np.int64)
    best[rows] = counts.indices[first[where]]
    return best, float(np.mean(np.bincount(row[first], minlength=counts.shape[0]) > 1))


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """Each assumption as a claim about the corpora at hand."""
    frequent = rows.filter(rows["rule"] == RULES[0])
    return [
        at_least("Every sentence has a completely predictive token.",
                 "smallest share of sentences that have one",
                 worst(frequent["sentences with a pure token"], np.min), 1,
                 "the cleanest setting of the theory (our reading) has one in each"),
        at_most("Tokens have similar frequencies.", "largest frequency over smallest",
                worst(frequent["frequency spread"]), 10, "within a factor of ten"),
        at_most("Labels are balanced.", "largest |mean label|", worst(frequent["balance"]), 0.02,
                "one per cent off half and half"),
        at_most("The optimal token of a sentence (largest y alpha) is unique.",
                "largest share of sentences with a tie", worst(frequent["ties"]), 0,
                "the max-margin theorem is stated for unique optimal tokens"),
        at_least("Selecting the token of largest y alpha in every sentence is feasible: the "
                 "selection graph has no cycle.", "smallest of the answers (1: yes)",
                 worst(frequent["feasible"], np.min), 1, "it is yes or no, with a proof"),
        at_least("So is selecting the token of largest y Delta.",
                 "smallest of the answers (1: yes)",
                 worst(rows.filter(rows["rule"] == RULES[1])["feasible"], np.min), 1,
                 "it is yes or no, with a proof"),
    ]  # fmt: skip


def draw(rows: Any) -> dict[str, Any]:
    """The numbers as a table; the conflicts in words below it."""
    from matplotlib import pyplot

    part = rows.filter(rows["rule"] == RULES[0])
    facts = rows.columns[rows.columns.index("sentences") : rows.columns.index("ties") + 1]
    body = [[f"{value:,.5g}" for value in part[name]] for name in facts]
    body += [list(map(_answer, rows.filter(rows["rule"] == r)["feasible"])) for r in RULES]
    figure, axis = pyplot.subplots(figsize=(9.6, 0.25 * (len(body) + 1)))
    axis.axis("off")
    labels = [*facts, *(f"select the largest y · {rule}" for rule in RULES)]
    place: Any = (0.3, 0, 0.7, 1)
    cells = axis.table(body, rowLabels=labels, colLabels=list(_names(part)), cellLoc="center",
                       edges="horizontal", bbox=place)  # fmt: skip
    cells.auto_set_font_size(False)
    return {" ".join(filter(None, part["conflict"])): figure}


def _names(rows: Any) -> Any:
    """What a column of the table is about."""
    if "corpus" in rows.columns:
        return rows["corpus"]
    return (f"drawn, {partly} partly predictive tokens" for partly in rows["partly"])


def _answer(feasible: float) -> str:
    return "feasible, certified" if feasible else "infeasible, with a proof"


EXPERIMENT = Experiment(
    name="assumptions",
    title="What the theory of trained embeddings assumes of a corpus",
    run=run,
    params=[{"partly": 0}, {"partly": 6}],
    verdicts=verdicts,
    draw=draw,
    look="The drawn corpora: without partly predictive tokens they are the theory's clean case.",
)
REVIEWS = Experiment(
    name="assumptions-reviews",
    title="The assumptions on real reviews",
    run=run_reviews,
    verdicts=verdicts,
    draw=draw,
    look=(
        "Real reviews break most assumptions: few tokens are completely predictive, frequencies "
        "spread over orders of magnitude, and the tokens that are best in their own sentence "
        "contradict each other across sentences."
    ),
    needs_data=True,
)
