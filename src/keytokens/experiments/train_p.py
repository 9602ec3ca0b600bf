"""After the step, gradient flow on p: which tokens softmax selects, and in which direction p goes.

Stage two of the trained-embedding model on drawn corpora: E is frozen after one step, p follows
the flow from 0. The limit is held against the Att-SVM of the selection it made: tokens of equal
value keep a finite split of the weight, and are kept together there.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import keytokens as kt
from keytokens.dynamics.trajectory import Reason
from keytokens.embedding.frequencies import posterior_difference, signed_frequency
from keytokens.experiments.corpora import COLOURS, Corpus, drawn
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap, slope, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.problem import unit

NORM = 1e5
DECIDED = 0.999  # every sentence's heaviest token, or those tied with it, hold this much
KEPT = 1e-3  # a weight above is selected: weights fall like e^-norm, or stay
TIED = 1e-9  # values this close, relative to the largest, are one value
CASES: dict[str, dict[str, Any]] = {
    "one important": {"important": 1, "partly": 0},
    "three important": {"important": 3, "partly": 0},
    "uneven frequencies": {"important": 1, "partly": 0, "uneven": True},
    "uneven, paired": {"important": 1, "partly": 0, "uneven": True, "paired": True},
    "partly predictive": {"important": 1, "partly": 6},
    "partly, uneven": {"important": 1, "partly": 6, "uneven": True},
}
PURE = ("one important", "three important", "uneven frequencies", "uneven, paired")
REACH = 3.0  # the largest value after the step
EQUAL = ("one important", "three important")
CORPORA = 5
STYLES = {(0, True): ("C0", "-"), (256, True): ("C1", "--"), (256, False): ("0.5", ":")}
RUN = ["case", "d", "step", "text"]
PANELS = {
    "mass": "mass on important tokens",
    "predictive": "select their most\npredictive token",
    "gap": "1 − cos(p, p$^{mm}$)",
    "margin": "margin / best margin",
}


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The tokens at the end, and the selection and the direction along the way.

    Corpus, E0 and v come from the corpus' number: all widths share the corpus, and with and
    without the step share E0, too.
    """
    rng = np.random.default_rng(params["text"])
    corpus = drawn(rng, n=120, **CASES[params["case"]])
    problem = stage_two(corpus, params["d"], REACH * params["step"], rng)
    flow = kt.train(problem, over="p", method=kt.GradientFlow(norm=NORM))
    if not isinstance(flow.params, np.ndarray) or not flow.params.any():
        return []
    kept = _weights(corpus.counts.toarray(), problem.embedding @ flow.params) > KEPT
    svm = kt.corpus_att_svm(corpus.counts, kept, embedding=problem.embedding)
    return _path(corpus, problem, flow, svm, kept) + _tokens(corpus, problem, flow)


def stage_two(
    corpus: Corpus, d: int, reach: float, rng: np.random.Generator
) -> kt.EmbeddingProblem:
    """The problem of p once E has made its step; d = 0 is the infinite width.

    eta makes the largest |<E1 - E0, v>| `reach`, 0 being no step: 3 is well above the noise of
    E0 v, of order d^-1/2.
    """
    V = corpus.counts.shape[1]
    if d:
        E, v = rng.standard_normal((V, d)) / np.sqrt(d), unit(rng.standard_normal(d))
    else:  # rows orthonormal, and orthogonal to v
        *rows, v = np.linalg.qr(rng.standard_normal((V + 1, V + 1)))[0]
        E = np.array(rows)
    problem = kt.EmbeddingProblem(corpus.counts, corpus.y, E, v)
    if not reach:
        return problem
    eta = 2 * reach / np.abs(signed_frequency(corpus.counts, corpus.y)).max()
    stepped = kt.train(problem, over="E", method=kt.GradientDescent(eta), steps=1)
    return kt.EmbeddingProblem(corpus.counts, corpus.y, stepped.params, v)  # type: ignore[arg-type]


def _path(corpus: Corpus, problem: Any, flow: Any, svm: Any, kept: Any) -> list[dict[str, Any]]:
    """Selection, loss and distance from the Att-SVM direction at every saved point."""
    counts, values = corpus.counts.toarray(), problem.embedding @ problem.v
    rules = {"frequent": signed_frequency(corpus.counts, corpus.y),
             "predictive": posterior_difference(corpus.counts, corpus.y)}  # fmt: skip
    rests = flow.reason in (Reason.CONVERGED, Reason.CANCELLED)
    ends = {"rests": rests, "feasible": svm.direction is not None,
            "certified": svm.certificate.gap}  # fmt: skip
    own = np.where(corpus.y[:, None] > 0, corpus.kinds == "positive", corpus.kinds == "negative")
    rows = []
    for norm, loss, p in zip(flow.norms, flow.losses, flow.path, strict=True):
        if norm == 0:
            continue
        weights = _weights(counts, problem.embedding @ p)
        selected = np.argmax(weights, axis=1)
        row = {"what": "path", "norm": norm, "loss": loss, "mass": (weights * own).sum(1).mean(),
               "certain": certain(weights, values)}  # fmt: skip
        row |= {name: follows(counts, corpus.y, s, selected) for name, s in rules.items()}
        rows.append(row | _against(counts, kept, problem.embedding @ p, p, svm) | ends)
    return rows


def _against(counts: Any, kept: Any, a: Any, p: Any, svm: Any) -> dict[str, Any]:
    """1 - cos(p, p^mm), and the margin of p / |p| over the best margin."""
    if svm.direction is None:
        return {"gap": None, "margin": None}
    lowest = np.where(kept, a, np.inf).min(axis=1)
    highest = np.where((counts > 0) & ~kept, a, -np.inf).max(axis=1)
    margin = (lowest - highest).min() / np.linalg.norm(p)
    return {"gap": direction_gap(p, svm.direction), "margin": margin / svm.margin}


def certain(weights: Any, values: Any) -> float:
    """The smallest weight that a sentence gives its heaviest token and those of its value."""
    top = values[np.argmax(weights, axis=1)][:, None]
    tied = np.abs(values - top) <= TIED * np.abs(values).max()
    return float((weights * tied).sum(axis=1).min())


def follows(counts: Any, y: Any, score: Any, selected: Any) -> float:
    """Share of sentences whose selected token has the largest y_i score_s, or ties with it."""
    ranked = np.where(counts > 0, y[:, None] * score, -np.inf)
    mine = ranked[np.arange(len(y)), selected]
    return float(np.mean(mine >= ranked.max(axis=1) - TIED * np.abs(score).max()))


def _weights(counts: Any, a: Any) -> Any:
    """w_is = N_i(s) e^{a_s - max_i} / Z_i. (n, V)"""
    logits = np.where(counts > 0, a, -np.inf)
    weights = counts * np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _tokens(corpus: Corpus, problem: Any, flow: Any) -> list[dict[str, Any]]:
    """alpha, Delta, E v and E p / |p| of every token."""
    alpha = signed_frequency(corpus.counts, corpus.y)
    columns = {"alpha": alpha, "posterior": posterior_difference(corpus.counts, corpus.y),
               "value": problem.embedding @ problem.v,
               "logit": problem.embedding @ flow.params / np.linalg.norm(flow.params)}  # fmt: skip
    return [
        {"what": "token", "word": str(corpus.words[s]), "kind": str(corpus.kinds[s])}
        | {name: column[s] for name, column in columns.items()}
        for s in range(len(alpha))
    ]


def verdicts(rows: Any) -> list[Verdict]:
    """Selection, ablation, floor, frequency; then whether softmax decides, and which way p goes."""
    import polars as pl

    path = rows.filter(pl.col("what") == "path")
    last = path.group_by(RUN, maintain_order=True).last()
    tokens = rows.filter((pl.col("what") == "token") & (pl.col("d") == 0))
    return [*_of_selection(last, tokens), *_of_the_limit(path, last)]


def _of_selection(last: Any, tokens: Any) -> list[Verdict]:
    import polars as pl

    wide = last.filter((pl.col("d") == 0) & pl.col("step"))
    equal = last.filter(pl.col("case").is_in(EQUAL) & pl.col("step"))
    ablated = last.filter(pl.col("case").is_in(EQUAL) & ~pl.col("step"))
    beside, far = equal.filter(pl.col("d") > 0), equal.filter(pl.col("d") == 0)
    mixed = wide.filter(~pl.col("case").is_in(PURE))
    floor = tokens.filter(pl.col("case").is_in(EQUAL) & (pl.col("kind") == "irrelevant"))

    def mass(case: str) -> Any:
        return wide.filter(pl.col("case") == case)["mass"]

    why = f"the flow has reached norm {NORM:,.0f}: what is left is not selected"
    return [
        at_least("With equal frequencies every sentence selects a token that occurs under its "
                 "label alone.", "smallest attention mass on those tokens, infinite width",
                 worst(far["mass"], np.min), 0.99, why),
        at_least("With unequal ones, too.", "smallest attention mass on those tokens, infinite "
                 "width", worst(mass("uneven frequencies"), np.min), 0.99, why),
        at_least("Where irrelevant tokens are so exactly, it does, and unequal frequencies change "
                 "nothing.", "the same mass, sentences of opposite labels sharing their irrelevant "
                 "tokens", worst(mass("uneven, paired"), np.min), 0.99, why),
        at_least("It is the most predictive token of its sentence.",
                 "smallest share of sentences whose selected token has the largest y Delta, or "
                 "ties, equal frequencies", worst(far["predictive"], np.min), 0.99,
                 "all, but for one sentence in a hundred"),
        at_least("The embedding step is what makes it work: without it the same flow selects by "
                 "the noise of E0 v.", "loss of that mass, mean over the corpora at d = 256",
                 beside["mass"].mean() - ablated["mass"].mean(), 0.3,
                 "a sentence of 12 positions has 1 or 3 such tokens: by noise alone, .9 or .75 "
                 "would be lost"),
        at_most("Irrelevant tokens sink to a negative floor.",
                "largest mean of E_s p / |p| over the irrelevant tokens of a corpus",
                worst(floor.group_by("case", "text").agg(pl.col("logit").mean())["logit"]), 0,
                "the logits' gradient sums to zero, and the important ones rise"),
        at_least("Where tokens of mixed meaning are common, the selection follows the signed "
                 "frequency rather than the posterior difference.",
                 "share of sentences that select the token of largest y alpha, minus the same for "
                 "y Delta", float(mixed["frequent"].mean() - mixed["predictive"].mean()), 0.1,
                 "one sentence in ten: values after one step are eta/2 alpha, not Delta"),
    ]  # fmt: skip


def _of_the_limit(path: Any, last: Any) -> list[Verdict]:
    import polars as pl

    last = last.filter(pl.col("step"))
    decided = last.filter(pl.col("certain") > DECIDED)
    pure = last.filter(pl.col("case").is_in(PURE))
    mixed = last.filter(~pl.col("case").is_in(PURE))
    measure = "smallest weight of a sentence's heaviest token and those of the same value"
    return [
        at_least("Where every sentence has a token of its label alone, softmax decides.",
                 measure, worst(pure["certain"], np.min), DECIDED,
                 "all but a thousandth of the weight; tokens of equal value keep a finite split"),
        at_least("With tokens of mixed meaning it does, too.", measure,
                 worst(mixed["certain"], np.min), DECIDED,
                 "the same"),
        *_of_rest(mixed.filter(pl.col("certain") <= DECIDED)),
        at_most("The direction of p converges to the Att-SVM of the selection it made.",
                f"largest 1 - cos at norm {NORM:,.0f} (corpora whose softmax has decided)",
                worst(decided["gap"]), 1e-5, "1 - cos falls like 1/norm^2; rare sentences slow it"),
        at_most("That Att-SVM is solved exactly.", "largest certified relative gap, same corpora",
                worst(np.abs(decided["certified"].to_numpy())), 1e-8,
                "weak duality over every row of every sentence"),
        at_least("So its margin is the largest for that selection.",
                 "smallest margin over the best margin, same corpora",
                 worst(decided["margin"], np.min), 0.99, "the margin falls short like 1/norm"),
        at_most("It falls short of it like 1/norm.",
                "largest |fitted exponent + 1| beyond norm 1,000, same corpora",
                worst(np.abs(np.array(list(shortfalls(path, decided))) + 1)), 0.05,
                "p = norm times the Att-SVM direction plus a bounded rest"),
    ]  # fmt: skip


def _of_rest(undecided: Any) -> list[Verdict]:
    """Of corpora whose softmax does not decide, if there are any."""
    if not undecided.height:
        return []
    return [
        at_least("Where it does not, sentences that contradict each other have come to a balance.",
                 "share of those corpora where Newton's step vanishes, or all pulls cancel to "
                 "rounding", undecided["rests"].mean(), 1,
                 "the one other way to end: a minimum at finite p, of all or of some tokens"),
    ]  # fmt: skip


def shortfalls(path: Any, decided: Any) -> Iterator[float]:
    """For each decided run, the power of the norm by which 1 - margin / best falls."""
    import polars as pl

    far = path.join(decided.select(RUN), on=RUN, how="semi").filter(pl.col("norm") > 1e3)
    for _, run in far.group_by(RUN, maintain_order=True):
        yield slope(np.log(run["norm"].to_numpy()), np.log(1 - run["margin"].to_numpy()))


def draw(rows: Any) -> dict[str, Any]:
    """Tokens, then the way there."""
    return {
        "Attention logits and values against the posterior difference": _draw_tokens(rows),
        "Selection and direction along training": _draw_path(rows),
    }


def _draw_tokens(rows: Any) -> Any:
    """Above E_s v, below E_s p, a column a case; infinite width, all corpora."""
    import polars as pl
    from matplotlib import pyplot

    tokens = rows.filter((pl.col("what") == "token") & (pl.col("d") == 0))
    figure, axes = pyplot.subplots(2, len(CASES), figsize=(10.8, 4.9), sharex=True)
    for column, case in zip(axes.T, CASES, strict=True):
        part = tokens.filter(pl.col("case") == case)
        for (kind,), group in part.group_by("kind", maintain_order=True):
            for axis, name in zip(column, ("value", "logit"), strict=True):
                axis.plot(group["posterior"], group[name], "o", ms=3, color=COLOURS[kind],
                          label=kind, alpha=0.5, mew=0)  # fmt: skip
        column[0].set_title(case, fontsize=8.5)
        column[1].axhline(0, color="0.8", lw=0.8, zorder=0)
        column[1].set(xlabel="Δ$_s$")
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩ / ‖p‖")
    figure.legend(*axes[0, -1].get_legend_handles_labels(), ncols=4, loc="outside upper center")
    return figure


def _draw_path(rows: Any) -> Any:
    """A column a case, a row a quantity, a line a corpus; a dot where a run came to rest."""
    import polars as pl
    from matplotlib import pyplot

    path = rows.filter(pl.col("what") == "path")
    figure, axes = pyplot.subplots(
        len(PANELS), len(CASES), figsize=(10.8, 7.6), sharex=True, sharey="row"
    )
    for (case, d, step, _), run in path.group_by(RUN, maintain_order=True):
        column = axes[:, list(CASES).index(case)]
        for axis, name in zip(column, PANELS, strict=True):
            if step or name in ("mass", "predictive"):
                _line(axis, run, name, *STYLES[d, step])
    _label(axes)
    figure.legend(handles=_handles(), ncols=4, loc="outside upper center")
    return figure


def _line(axis: Any, run: Any, name: str, colour: str, style: str) -> None:
    axis.plot(run["norm"], run[name], style, color=colour, lw=0.9, alpha=0.8)
    if run["rests"][-1]:
        axis.plot(run["norm"][-1], run[name][-1], "o", color=colour, ms=4)


def _label(axes: Any) -> None:
    for axis, words in zip(axes[:, 0], PANELS.values(), strict=True):
        axis.set(ylabel=words)
    for axis, case in zip(axes[0], CASES, strict=True):
        axis.set_title(case, fontsize=8.5)
    for axis in axes[-1]:
        axis.set(xscale="log", xlabel="‖p‖")
    for row in axes[:2]:
        row[0].set(ylim=(-0.05, 1.05))
    axes[2, 0].set(yscale="log")
    axes[3, 0].set(ylim=(-0.1, 1.05))


def _handles() -> list[Any]:
    """A colour and a style for each width, with and without the step; a dot."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=colour, ls=style, lw=1.3,
               label=(f"d = {d}" if d else "infinite width") + ("" if step else ", no step"))
        for (d, step), (colour, style) in STYLES.items()
    ]  # fmt: skip
    return [*lines, Line2D([], [], color="k", marker="o", ms=4, ls="", label="came to rest")]


def params(quick: bool) -> list[dict[str, Any]]:
    """Every case on each of its corpora; a quick run takes one at finite width."""
    widths = {case: list(STYLES) if case in EQUAL else [(0, True)] for case in CASES}
    return [
        {"case": case, "d": d, "step": step, "text": text}
        for case in CASES
        for d, step in widths[case]
        for text in range(1 if quick and d else CORPORA)
    ]


EXPERIMENT = Experiment(
    name="train-p",
    title="Training p after the step: the important tokens, at the largest margin",
    run=run,
    params=params,
    verdicts=verdicts,
    draw=draw,
    look=(
        "Five corpora of 120 sentences a case, all drawn. First figure: after the step, values "
        "rise with the posterior difference; after training p, both ends are lifted and "
        "irrelevant tokens sit on a negative floor. Where frequencies or tokens of mixed meaning "
        "interfere, points leave the V; a rare pure token that meets few others need not rise at "
        "all. Second figure, a line a corpus: the mass on important tokens and the share of "
        "sentences that select their most predictive one, the distance of p from the Att-SVM "
        "direction of its own selection, and its margin over the best. A line that ends in a dot "
        "has come to rest at a finite p: sentences contradict each other. Where the mass ends "
        "below one in the first three cases at infinite width, the other sentences select "
        "irrelevant tokens that happen to stand more often under one label. Paired: sentences of "
        "opposite labels share their irrelevant tokens, so that none does. No source names "
        "vocabulary, sentence length, the scales of E, v and p = 0, or η: those here are our "
        "choice."
    ),
    left_out="4 of 5 corpora at d = 256",
)
