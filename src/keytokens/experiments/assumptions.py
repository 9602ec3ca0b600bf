"""What the theory of trained embeddings assumes of a corpus, and whether this one has it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

import keytokens as kt
from keytokens.embedding.frequencies import frequency, posterior_difference, signed_frequency
from keytokens.experiments.corpora import Corpus, by_corpus, drawn, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

RATIOS = (
    "largest frequency over smallest",
    "95th percentile of frequency over the 5th",
    "|mean label|",
    "spread of lengths over their mean",
)
PURE = "select a pure token where there is one"
FEASIBLE = "feasible, 1, or not, 0"
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
    delta = posterior_difference(corpus.counts, corpus.y)
    pure = np.isin(corpus.kinds, ("positive", "negative"))
    best, ties = optimal(corpus, alpha if rule == RULES[0] else delta)
    svm = kt.corpus_att_svm(corpus.counts, best)
    low, high = np.quantile(phi[phi > 0], (0.05, 0.95))
    return {
        "rule": rule,
        "sentences": len(corpus.y),
        "tokens": len(phi),
        "completely positive tokens": int(np.sum(corpus.kinds == "positive")),
        "completely negative tokens": int(np.sum(corpus.kinds == "negative")),
        "positions that pure tokens hold": float(phi[pure].sum()),
        "tokens with |Δ| < .1": float(np.mean(np.abs(delta) < 0.1)),
        "positions that they hold": float(phi[np.abs(delta) < 0.1].sum()),
        "sentences with a pure token": float(np.mean(corpus.counts @ pure.astype(float) > 0)),
        "largest frequency over smallest": float(phi.max() / phi[phi > 0].min()),
        "95th percentile of frequency over the 5th": float(high / low),
        "|mean label|": float(abs(corpus.y.mean())),
        "spread of lengths over their mean": float(corpus.lengths.std() / corpus.lengths.mean()),
        "sentences whose best token is not unique": ties,
        "sentences whose best token is pure": float(np.mean(pure[best])),
        "distinct best tokens": len(np.unique(best)),
        **cycles(corpus, best),
        "feasible": float(svm.direction is not None),
        "conflict": "" if svm.conflict is None else in_words(str(svm.conflict), corpus),
        "gap": float(svm.certificate.gap) if svm.direction is not None else None,
        "pure feasible": pure_feasible(corpus, alpha, pure),
    }


def pure_feasible(corpus: Corpus, alpha: Any, pure: Any) -> float | None:
    """May every sentence that has a pure token select its pure token of largest y alpha? 1 or 0.

    The other sentences are left out; None where there is no such sentence.
    """
    having = corpus.rows(corpus.counts @ pure.astype(float) > 0)
    if not len(having.y):
        return None
    best, _ = optimal(having, np.where(pure, alpha, 0.0))
    return float(kt.corpus_att_svm(having.counts, best).direction is not None)


def cycles(corpus: Corpus, best: Any) -> dict[str, float]:
    """Of the selection graph: best tokens on a cycle, and sentences that ask for an edge of one."""
    row = np.repeat(np.arange(len(best)), np.diff(corpus.counts.indptr))
    source, target = best[row], corpus.counts.indices
    V = corpus.counts.shape[1]
    edges = sparse.coo_array((np.ones(len(row)), (source, target)), shape=(V, V)).tocsr()
    part = connected_components(edges, connection="strong")[1]
    inside = (part[source] == part[target]) & (source != target)
    return {
        "best tokens on a cycle": len(np.unique(source[inside])),
        "sentences that take part in one": float(len(np.unique(row[inside])) / len(best)),
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
    """Each assumption as a claim about the corpus at hand; those of drawn corpora by kind."""
    if "corpus" in rows.columns:
        return _of_a_corpus(rows)
    parts = [(name, rows.filter(rows["partly"] == k)) for k, name in DRAWN.items()]
    found = [(name, verdict) for name, part in parts for verdict in _of_a_corpus(part)]
    return [replace(v, claim=f"{name}: {v.claim}") for name, v in found]


def _of_a_corpus(rows: Any) -> list[Verdict]:
    frequent, predictive = (rows.filter(rows["rule"] == rule) for rule in RULES)

    def one(name: str, of: Any = frequent) -> float:
        return worst(of[name])

    return [
        at_least("Every sentence has a completely predictive token.",
                 "share of sentences that have one", one("sentences with a pure token"), 1,
                 "the cleanest setting of the theory (our reading) has one in each"),
        at_least("The token of largest y alpha is one of them.",
                 "share of sentences", one("sentences whose best token is pure"), 1, "as above"),
        at_most("Tokens have similar frequencies.", "largest frequency over smallest",
                one("largest frequency over smallest"), 10, "within a factor of ten"),
        at_most("Labels are balanced.", "|mean label|", one("|mean label|"), 0.02,
                "one per cent off half and half"),
        at_most("The optimal token of a sentence (largest y alpha) is unique.",
                "share of sentences with a tie",
                one("sentences whose best token is not unique"), 0,
                "the max-margin theorem is stated for unique optimal tokens"),
        at_least("Selecting the token of largest y alpha in every sentence is feasible: the "
                 "selection graph has no cycle.", FEASIBLE, one("feasible"), 1,
                 "it is yes or no, with a proof" + _why_not(frequent)),
        at_least("So is selecting the token of largest y Delta.", FEASIBLE,
                 one("feasible", predictive), 1,
                 "it is yes or no, with a proof" + _why_not(predictive)),
        at_least("Selecting a completely predictive token, in the sentences that have one, is "
                 "feasible.", FEASIBLE + "; that of largest y alpha", one("pure feasible"), 1,
                 "along a path of its graph the label stays the same and y alpha falls"),
    ]  # fmt: skip


def _why_not(rows: Any) -> str:
    """The contradiction of an infeasible selection."""
    if rows["feasible"].min() == 1:
        return ""
    return f": {rows['conflict'][0]} A token of mixed meaning is best under one label only"


DRAWN = {0: "Drawn, pure and irrelevant tokens", 6: "Drawn, with 6 tokens of mixed meaning"}


def draw(rows: Any) -> dict[str, Any]:
    """The numbers as a table; the conflicts in words below it."""
    from matplotlib import pyplot

    part = rows.filter(rows["rule"] == RULES[0])
    facts = rows.columns[rows.columns.index("sentences") : rows.columns.index("feasible")]
    body = [[_figure(name, value) for value in part[name]] for name in facts]
    body += [list(map(_answer, rows.filter(rows["rule"] == r)["feasible"])) for r in RULES]
    body.append([_answer(value) for value in part["pure feasible"]])
    figure, axis = pyplot.subplots(figsize=(9.6, 0.22 * (len(body) + 1)))
    axis.axis("off")
    labels = [*facts, *(f"select the largest y · {rule}" for rule in RULES), PURE]
    place: Any = (0.38, 0, 0.62, 1)
    cells = axis.table(body, rowLabels=labels, colLabels=list(_names(part)), cellLoc="center",
                       edges="horizontal", bbox=place)  # fmt: skip
    cells.auto_set_font_size(False)
    for cell in cells.get_celld().values():
        cell.set(lw=0.3)
    return {_caption(rows): figure}


def _caption(rows: Any) -> str:
    """What is best in the table is best by y alpha; and every contradiction."""
    names = list(_names(rows))
    told = [f"{name}, {rule}: {conflict}" for name, rule, conflict in
            zip(names, rows["rule"], rows["conflict"], strict=True) if conflict]  # fmt: skip
    return " ".join(["Best: of the largest y · signed frequency.", *told])


def _names(rows: Any) -> Any:
    """What each row is about."""
    return rows["corpus"] if "corpus" in rows.columns else [DRAWN[k] for k in rows["partly"]]


def _figure(name: str, value: float) -> str:
    """A count, a ratio, or a share in per cent."""
    if isinstance(value, int):
        return f"{value:,}"
    if name not in RATIOS:
        return f"{value:.2%}"
    return f"{value:,.0f}" if value > 1e3 else f"{value:.3g}"


def _answer(feasible: float | None) -> str:
    if feasible is None:
        return "there is none"
    return "feasible, certified" if feasible else "infeasible, with a proof"


EXPERIMENT = Experiment(
    name="assumptions",
    title="What the theory of trained embeddings assumes of a corpus",
    run=run,
    params=[{"partly": 0}, {"partly": 6}],
    verdicts=verdicts,
    draw=draw,
    look=(
        "Two drawn corpora. With pure and irrelevant tokens alone it is the theory's clean case. "
        "The other breaks it on purpose: a token that stands under both labels is the best of one "
        "sentence and among the worst of another, so two of them can each be put above the other. "
        "Which assumptions the theory makes, and the thresholds, are our reading."
    ),
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
        "contradict each other across sentences. Which assumptions the theory makes, and the "
        "thresholds, are our reading."
    ),
    needs_data=True,
)
