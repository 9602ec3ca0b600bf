"""After the step, gradient flow on p: which tokens softmax selects, and in which direction p goes.

Stage two of the trained-embedding model on drawn corpora: E is frozen after one step, p follows
the flow from 0. The limit is held against the Att-SVM of the selection it made.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import posterior_difference, signed_frequency
from keytokens.experiments.corpora import Corpus, drawn
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap, slope, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.problem import unit

NORM = 1e5
DECIDED = 0.999  # every sentence's heaviest token holds this much
CASES: dict[str, dict[str, Any]] = {
    "one important": {"important": 1, "partly": 0},
    "three important": {"important": 3, "partly": 0},
    "partly predictive": {"important": 1, "partly": 6},
    "uneven frequencies": {"important": 1, "partly": 6, "uneven": True},
}
EQUAL = ("one important", "three important")
COLOURS = {"positive": "C0", "negative": "C1", "partly": "C2", "irrelevant": "0.6"}


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The tokens at the end, and the selection and the direction along the way."""
    corpus = drawn(rng, n=120, **CASES[params["case"]])
    problem = stage_two(corpus, params["d"], params["step"], rng)
    flow = kt.train(problem, over="p", method=kt.GradientFlow(norm=NORM))
    if not isinstance(flow.params, np.ndarray) or not flow.params.any():
        return []
    svm = kt.corpus_att_svm(corpus.counts, flow.selected, embedding=problem.embedding)
    return _path(corpus, problem, flow, svm) + _tokens(corpus, problem, flow)


def stage_two(corpus: Corpus, d: int, step: bool, rng: np.random.Generator) -> kt.EmbeddingProblem:
    """The problem of p once E has made its step; d = 0 is the infinite width.

    eta makes the largest |<E1 - E0, v>| three: well above the noise of E0 v, of order d^-1/2.
    """
    V = corpus.counts.shape[1]
    if d:
        E, v = rng.standard_normal((V, d)) / np.sqrt(d), unit(rng.standard_normal(d))
    else:  # rows orthonormal, and orthogonal to v
        *rows, v = np.linalg.qr(rng.standard_normal((V + 1, V + 1)))[0]
        E = np.array(rows)
    problem = kt.EmbeddingProblem(corpus.counts, corpus.y, E, v)
    if not step:
        return problem
    eta = 6 / np.abs(signed_frequency(corpus.counts, corpus.y)).max()
    stepped = kt.train(problem, over="E", method=kt.GradientDescent(eta), steps=1)
    return kt.EmbeddingProblem(corpus.counts, corpus.y, stepped.params, v)  # type: ignore[arg-type]


def _path(corpus: Corpus, problem: Any, flow: Any, svm: Any) -> list[dict[str, Any]]:
    """Selection, loss and distance from the Att-SVM direction at every saved point."""
    counts = corpus.counts.toarray()
    alpha = signed_frequency(corpus.counts, corpus.y)
    posterior = posterior_difference(corpus.counts, corpus.y)
    picks = {"best": _pick(counts, corpus.y, problem.embedding @ problem.v),
             "frequent": _pick(counts, corpus.y, alpha),
             "predictive": _pick(counts, corpus.y, posterior)}  # fmt: skip
    own = np.where(corpus.y[:, None] > 0, corpus.kinds == "positive", corpus.kinds == "negative")
    rows = []
    for norm, loss, p in zip(flow.norms, flow.losses, flow.path, strict=True):
        if norm == 0:
            continue
        weights = _weights(counts, problem.embedding @ p)
        selected = np.argmax(weights, axis=1)
        row = {"what": "path", "norm": norm, "loss": loss, "mass": (weights * own).sum(1).mean(),
               "certain": weights.max(1).min()}  # fmt: skip
        row |= {name: np.mean(selected == pick) for name, pick in picks.items()}
        rows.append(row | _against(corpus, problem, p, svm))
    return rows


def _against(corpus: Corpus, problem: Any, p: Any, svm: Any) -> dict[str, Any]:
    """1 - cos(p, p^mm), and the margin of p / |p| over the best margin."""
    if svm.direction is None:
        return {"gap": None, "margin": None}
    counts, a = corpus.counts.toarray(), problem.embedding @ p / np.linalg.norm(p)
    others = (counts > 0) & (np.arange(len(a)) != np.asarray(svm.selected)[:, None])
    margins = np.where(others, a[svm.selected][:, None] - a, np.inf).min()
    return {"gap": direction_gap(p, svm.direction), "margin": margins / svm.margin}


def _pick(counts: Any, y: Any, score: Any) -> Any:
    """argmax over the sentence's tokens of y_i score_s. (n,)"""
    return np.argmax(np.where(counts > 0, y[:, None] * score, -np.inf), axis=1)


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
    """Selection, ablation, floor, frequency and margin."""
    import polars as pl

    path = rows.filter(pl.col("what") == "path")
    last = path.group_by("case", "d", "step", "seed", maintain_order=True).last()
    equal = last.filter(pl.col("case").is_in(EQUAL) & pl.col("step"))
    decided = last.filter((pl.col("certain") > DECIDED) & pl.col("step"))
    ablated = last.filter(pl.col("case").is_in(EQUAL) & ~pl.col("step"))
    beside = equal.filter(pl.col("d") > 0)
    mixed = last.filter(~pl.col("case").is_in(EQUAL) & (pl.col("d") == 0))
    tokens = rows.filter((pl.col("what") == "token") & (pl.col("d") == 0))
    floor = tokens.filter(pl.col("case").is_in(EQUAL) & (pl.col("kind") == "irrelevant"))
    return [
        at_least("With equal frequencies every sentence selects a token that occurs under its "
                 "label alone.", "smallest attention mass on those tokens, infinite width",
                 worst(equal.filter(pl.col("d") == 0)["mass"], np.min), 0.99,
                 f"the flow has reached norm {NORM:,.0f}: what is left is not selected"),
        at_least("The embedding step is what makes it work: without it the same flow selects by "
                 "the noise of E0 v.", "loss of that mass, mean over the corpora at d = 256",
                 beside["mass"].mean() - ablated["mass"].mean(), 0.3,
                 "a sentence of 12 positions has 1 or 3 such tokens"),
        at_most("Irrelevant tokens sink to a negative floor.",
                "largest mean of E_s p / |p| over the irrelevant tokens of a corpus",
                worst(floor.group_by("case", "seed").agg(pl.col("logit").mean())["logit"]), 0,
                "the logits' gradient sums to zero, and the important ones rise"),
        at_least("Between tokens of unlike frequency, the selection follows the signed frequency "
                 "rather than the posterior difference.",
                 "share of sentences that select the token of largest y alpha, minus the same for "
                 "y Delta", float(mixed["frequent"].mean() - mixed["predictive"].mean()), 0.1,
                 "values after one step are eta/2 alpha: a partly predictive token that is common "
                 "outweighs a rare one that is certain"),
        at_least("With equal frequencies softmax decides every sentence.",
                 "smallest weight of a sentence's heaviest token",
                 worst(equal["certain"], np.min), DECIDED, "all but a thousandth of the weight"),
        at_least("With tokens of mixed meaning it does, too.",
                 "smallest weight of a sentence's heaviest token",
                 worst(mixed["certain"], np.min), DECIDED,
                 "the same; where sentences contradict each other the loss has a minimum at a "
                 "finite p, and the flow comes to rest there"),
        at_most("The direction of p converges to the Att-SVM of the selection it made.",
                f"largest 1 - cos at norm {NORM:,.0f} (corpora whose softmax has decided)",
                worst(decided["gap"]), 1e-5, "1 - cos falls like 1/norm^2; rare sentences slow it"),
        at_least("So its margin is the largest for that selection.",
                 "smallest margin over the best margin, same corpora",
                 worst(decided["margin"], np.min), 0.99, "the margin falls short like 1/norm"),
        at_most("It falls short of it like 1/norm.",
                "largest |fitted exponent + 1| beyond norm 1,000, same corpora",
                worst(np.abs(np.array(list(shortfalls(path, decided))) + 1)), 0.05,
                "p = norm times the Att-SVM direction plus a bounded rest"),
    ]  # fmt: skip


def shortfalls(path: Any, decided: Any) -> Iterator[float]:
    """For each decided run, the power of the norm by which 1 - margin / best falls."""
    import polars as pl

    keys = ["case", "d", "step", "seed"]
    far = path.join(decided.select(keys), on=keys, how="semi").filter(pl.col("norm") > 1e3)
    for _, run in far.group_by(keys, maintain_order=True):
        yield slope(np.log(run["norm"].to_numpy()), np.log(1 - run["margin"].to_numpy()))


def draw(rows: Any) -> dict[str, Any]:
    """Tokens, then the way there."""
    return {
        "Attention logits and values against the posterior difference": _draw_tokens(rows),
        "Selection and direction along training": _draw_path(rows),
    }


def _draw_tokens(rows: Any) -> Any:
    """Above E_s v, below E_s p, a column a case; infinite width, first seed."""
    import polars as pl
    from matplotlib import pyplot

    tokens = rows.filter((pl.col("what") == "token") & (pl.col("d") == 0) & (pl.col("seed") == 0))
    figure, axes = pyplot.subplots(2, len(CASES), figsize=(9.6, 4.6), sharex=True)
    for column, case in zip(axes.T, CASES, strict=True):
        part = tokens.filter(pl.col("case") == case)
        for (kind,), group in part.group_by("kind", maintain_order=True):
            for axis, name in zip(column, ("value", "logit"), strict=True):
                axis.plot(group["posterior"], group[name], "o", ms=4, color=COLOURS[kind],
                          label=kind, alpha=0.8)  # fmt: skip
        column[0].set(title=case)
        column[1].axhline(0, color="0.8", lw=0.8, zorder=0)
        column[1].set(xlabel="Δ$_s$")
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩ / ‖p‖")
    axes[0, -1].legend(fontsize=6.5)
    return figure


def _draw_path(rows: Any) -> Any:
    """Mass on the important tokens with and without the step; distance; margin."""
    import polars as pl
    from matplotlib import pyplot

    path = rows.filter((pl.col("what") == "path") & (pl.col("seed") == 0))
    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.1), sharex=True)
    styles = {(0, True): "-", (256, True): "--", (256, False): ":"}
    for (case, d, step), part in path.group_by("case", "d", "step", maintain_order=True):
        colour = f"C{list(CASES).index(case)}"
        for axis, name in zip(axes, ("mass", "gap", "margin"), strict=True):
            if name == "mass" or step:
                axis.plot(part["norm"], part[name], styles[d, step], color=colour, lw=1.1)
    for k, case in enumerate(CASES):
        axes[0].plot([], [], color=f"C{k}", label=case)
    for (d, step), style in styles.items():
        words = f"d = {d}" if d else "infinite width"
        axes[1].plot([], [], style, color="k", label=words + ("" if step else ", no step"))
    axes[0].set(xscale="log", ylabel="attention mass on important tokens")
    axes[1].set(yscale="log", ylabel="1 − cos(p, p$^{mm}$)")
    axes[2].set(ylabel="margin / best margin", ylim=(-0.1, 1.05))
    for axis in axes:
        axis.set(xlabel="‖p‖")
    axes[0].legend(fontsize=6.5)
    axes[1].legend(fontsize=6.5)
    return figure


EXPERIMENT = Experiment(
    name="train-p",
    title="Training p after the step: the important tokens, at the largest margin",
    run=run,
    params=[{"case": case, "d": d, "step": step} for case in CASES
            for d, step in ((0, True), (256, True), (256, False)) if d == 0 or case in EQUAL],
    seeds=lambda quick: 1 if quick else 5,
    verdicts=verdicts,
    draw=draw,
    look=(
        "First figure: after the step, values rise with the posterior difference; after training "
        "p, both ends are lifted and irrelevant tokens sit on a negative floor. Where "
        "frequencies or tokens of mixed meaning interfere, points leave the V. Second figure: "
        "the mass on important tokens (dotted: without the embedding step), the distance of p "
        "from the Att-SVM direction of its own selection, and its margin."
    ),
    left_out="4 of 5 corpora",
)  # fmt: skip
