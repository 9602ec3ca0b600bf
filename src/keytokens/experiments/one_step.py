"""One gradient step: embeddings move along v in proportion to the signed frequency of the token.

From p = 0, E1_s = E0_s + eta alpha~_s v with
    alpha~_s = (1/n) sum_i y_i sigma(-y_i f_i) N_i(s)/T_i
             = alpha_s / 2 - (1/4)(1/n) sum_i f_i N_i(s)/T_i + O(f^3),   f = O(d^{-1/2}).
E0 (V, d) is Gaussian with variance 1/d and enters through a = E0 p and b = E0 v alone, so these
are drawn instead of it: any d, any vocabulary.
"""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import frequency, posterior_difference, signed_frequency
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.experiments.corpora import Corpus, by_corpus, drawn, parts, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews_flow import step_size
from keytokens.experiments.tools import slope, worst
from keytokens.experiments.verdict import Verdict, at_most
from keytokens.experiments.words import name_extremes
from keytokens.problem import unit

WIDTHS = (64, 256, 1024, 4096)
SHOWN = 1024  # the width whose tokens are drawn
AXES = {"alpha": "signed frequency α$_s$", "posterior": "posterior difference Δ$_s$"}
MOST = 1500  # tokens kept for the figure: the most frequent and the most extreme


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One step on a drawn corpus; once with the embedding itself, by the trainer."""
    corpus = drawn(rng, n=400, T=16, uneven=True)
    rows = rows_of(corpus, params, rng)
    if params["d"]:
        rows.append({"what": "whole"} | whole(corpus, params["d"], params["p0"] == "random", rng))
    return rows


def whole(corpus: Corpus, d: int, random: bool, rng: np.random.Generator) -> dict[str, float]:
    """E1 - E0 of a whole embedding: its part off v over its part along v, and the slope."""
    E = rng.standard_normal((corpus.counts.shape[1], d)) / np.sqrt(d)
    v, p = unit(rng.standard_normal(d)), rng.standard_normal(d) / np.sqrt(d)
    problem = kt.EmbeddingProblem(corpus.counts, corpus.y, E, v, p if random else None)
    moved = kt.train(problem, over="E", method=kt.GradientDescent(1.0), steps=1).params - E
    along, alpha = moved @ v, signed_frequency(corpus.counts, corpus.y)
    return {
        "slope": along @ alpha / (alpha @ alpha),
        "off_v": float(np.linalg.norm(moved - np.outer(along, v)) / np.linalg.norm(along)),
    }


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """One step on the training reviews."""
    return rows_of(reviews(data)[0], params, rng)


def rows_of(corpus: Corpus, params: dict[str, Any], rng: np.random.Generator) -> Any:
    """The laws' residuals for many draws of E0; the tokens of one, at the width that is shown."""
    alpha = signed_frequency(corpus.counts, corpus.y)
    rows = []
    for draw in range(params["draws"]):
        step = first_step(corpus, params["d"], params["p0"] == "random", rng)
        rows.append({"what": "law", "draw": draw} | residuals(corpus, alpha, step))
    if params["d"] == SHOWN and params["p0"] == "zero":
        rows += tokens(corpus, alpha, step)
    return rows


def first_step(corpus: Corpus, d: int, random: bool, rng: np.random.Generator) -> dict[str, Any]:
    """a = E0 p0, b = E0 v, f, and -dL/da, -dL/db at them; d = 0 is the infinite width.

    With p0 = 0: a = 0. Random p0 ~ N(0, I/d): a = <p0, v> b + |p0 off v| N(0, I/d).
    """
    V = corpus.counts.shape[1]
    b = rng.standard_normal(V) / np.sqrt(d) if d else np.zeros(V)
    a, off = np.zeros(V), 0.0
    if random and d:
        off = np.sqrt(rng.chisquare(d - 1) / d)
        a = rng.standard_normal() / np.sqrt(d) * b + off * rng.standard_normal(V) / np.sqrt(d)
    theta = np.column_stack([np.append(a, -np.inf), np.append(b, 0.0)])
    n = len(corpus.y)
    loss = CountLoss(Rows.of(corpus.counts), corpus.y, np.ones(n), Layout.of(1), np.zeros(1))
    _, gradient = loss(theta)
    return {"b": b, "off": off, "f": loss.f[:, 0], "da": -gradient[:-1, 0], "db": -gradient[:-1, 1]}


def residuals(corpus: Corpus, alpha: Any, step: dict[str, Any]) -> dict[str, float]:
    """The slope of alpha~ on alpha, what each order of the law leaves, and the part off v."""
    half, size = alpha / 2, np.linalg.norm
    second = half - corpus.counts.T @ (step["f"] / corpus.lengths) / (4 * len(corpus.y))
    return {
        "slope": step["db"] @ alpha / (alpha @ alpha),
        "first": size(step["db"] - half) / size(half),
        "second": size(step["db"] - second) / size(half),
        "off_v": step["off"] * size(step["da"]) / size(step["db"]),
    }


def tokens(corpus: Corpus, alpha: Any, step: dict[str, Any]) -> list[dict[str, Any]]:
    """E1 v of single tokens, for a step whose eta makes the largest |E1 v - E0 v| one."""
    eta = step_size(corpus)
    posterior = posterior_difference(corpus.counts, corpus.y)
    order = np.argsort(-frequency(corpus.counts), kind="stable")[: MOST // 2]
    extreme = np.argsort(-np.abs(alpha), kind="stable")[: MOST // 2]
    return [
        {"what": "token", "word": str(corpus.words[s]), "kind": str(corpus.kinds[s]),
         "alpha": alpha[s], "posterior": posterior[s], "before": step["b"][s],
         "after": step["b"][s] + eta * step["db"][s]}
        for s in np.union1d(order, extreme)
    ]  # fmt: skip


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """Slope, the order of both residuals, and what a random start adds."""
    import polars as pl

    law = rows.filter(pl.col("what") == "law")
    zero = law.filter((pl.col("p0") == "zero") & (pl.col("d") > 0))
    infinite = law.filter(pl.col("d") == 0)
    random = law.filter(pl.col("p0") == "random")
    wide = zero.filter(pl.col("d") == zero["d"].max())
    return [
        at_most("One step from p = 0 moves E_s along v by eta/2 times the signed frequency.",
                f"largest |slope / (1/2) - 1| at d = {wide['d'][0]}",
                worst(np.abs(2 * wide["slope"].to_numpy() - 1)), 0.1,
                "the first-order error is of order d^-1/2: a few per cent there"),
        at_most("At infinite width the proportionality is exact.", "largest relative residual",
                worst(infinite["first"]), 1e-12, "rounding of one sum over the corpus"),
        at_most("The first-order residual shrinks like d^-1/2.",
                "|fitted exponent + 1/2|", abs(exponent(zero, "first") + 0.5), 0.15,
                "a power law over a factor 64 in d"),
        at_most("The second-order residual shrinks like d^-3/2.",
                "|fitted exponent + 3/2|", abs(exponent(zero, "second") + 1.5), 0.3,
                "the next term of the sigmoid is of third order in f"),
        *_of_the_whole(rows.filter(pl.col("what") == "whole")),
        at_most("From a random p a part along p appears, shrinking like d^-1/2.",
                "|fitted exponent + 1/2|", abs(exponent(random, "off_v") + 0.5), 0.15,
                "a power law over a factor 64 in d"),
    ]  # fmt: skip


def _of_the_whole(rows: Any) -> list[Verdict]:
    """On drawn corpora, where the embedding itself makes the step."""
    if not rows.height:
        return []
    zero = rows.filter(rows["p0"] == "zero")
    return [
        at_most("From p = 0 nothing moves off v.", "largest part off v over part along v",
                worst(zero["off_v"]), 1e-12, "the gradient in E is a multiple of v exactly"),
    ]  # fmt: skip


def exponent(rows: Any, column: str) -> float:
    """The fitted power of d, over the draws' geometric means."""
    means = rows.group_by("d").agg(_geometric(column))
    return slope(np.log(means["d"].to_numpy()), np.log(means[column].to_numpy()))


def draw(rows: Any) -> dict[str, Any]:
    """One figure a corpus: tokens against alpha and Delta, and the residuals against d."""
    return {name: _draw_corpus(part) for name, part in parts(rows)}


def _draw_corpus(rows: Any) -> Any:
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.3))
    part = rows.filter(pl.col("what") == "token")
    for axis, (column, label) in zip(axes, AXES.items(), strict=False):
        axis.plot(part[column], part["before"], ".", color="0.75", ms=3, label="before the step")
        axis.plot(part[column], part["after"], ".", color="C0", ms=3, label="after it")
        axis.set(xlabel=label, ylabel="⟨E$_s$, v⟩")
        name_extremes(axis, part, column, "after")
    axes[0].axline((0, 0), slope=1 / np.abs(part["alpha"].to_numpy()).max(), color="0.4", lw=0.8)
    axes[0].legend(loc="upper left")
    _draw_laws(axes[2], rows.filter((pl.col("what") == "law") & (pl.col("d") > 0)))
    return figure


def _draw_laws(axis: Any, laws: Any) -> None:
    kinds = (("zero", "first", "first order, p = 0"), ("zero", "second", "second order, p = 0"),
             ("random", "off_v", "part off v, random p"))  # fmt: skip
    for k, (p0, column, label) in enumerate(kinds):
        part = laws.filter(laws["p0"] == p0)
        mean = part.group_by("d").agg(_geometric(column)).sort("d")
        axis.loglog(part["d"], part[column], ".", color=f"C{k}", ms=3, alpha=0.6)
        axis.loglog(mean["d"], mean[column], color=f"C{k}", label=label)
        law = (mean["d"] / WIDTHS[0]) ** (-1.5 if column == "second" else -0.5)
        axis.loglog(mean["d"], mean[column][0] * law, "k:", lw=0.8)
    axis.plot([], [], "k:", lw=0.8, label="d$^{-1/2}$, d$^{-3/2}$")
    axis.set(xlabel="width d", ylabel="relative residual")
    axis.legend(loc="lower left", fontsize=6.5)


def _geometric(column: str) -> Any:
    import polars as pl

    return pl.col(column).log().mean().exp()


def params(quick: bool) -> list[dict[str, Any]]:
    """Every width from both starts, and the infinite width (d = 0)."""
    draws = 20 if quick else 100
    kinds = [(d, p0) for p0 in ("zero", "random") for d in (*WIDTHS, 0) if d or p0 == "zero"]
    return [{"d": d, "p0": p0, "draws": draws if d else 1} for d, p0 in kinds]


LOOK = (
    "Left: each token's value ⟨E_s, v⟩ after one step against its average signed frequency, with "
    "the line of slope η/2; grey: before the step. Middle: the same against the posterior "
    "difference P(+|s) − P(−|s), where frequent tokens move further than rare ones of the same "
    "posterior. Right: what the first- and second-order laws leave, against the width."
)
EXPERIMENT = Experiment(
    name="one-step",
    title="One step on the embeddings: along v, in proportion to the signed frequency",
    run=run,
    params=params,
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    left_out="80 of 100 draws of E",
)
REVIEWS = Experiment(
    name="one-step-reviews",
    title="One step on the embeddings, on real reviews",
    run=run_reviews,
    params=params,
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    needs_data=True,
    left_out="80 of 100 draws of E",
)
