"""One gradient step: embeddings move along v in proportion to the signed frequency of the token.

From p = 0, E1_s = E0_s + eta alpha~_s v with
    alpha~_s = (1/n) sum_i y_i sigma(-y_i f_i) N_i(s)/T_i
             = alpha_s / 2 - (1/4)(1/n) sum_i f_i N_i(s)/T_i + O(f^3),   f = O(d^{-1/2}).
E0 (V, d) is Gaussian with variance 1/d and enters through a = E0 p and b = E0 v alone, so these
are drawn instead of it: any d, any vocabulary. From a random p, N(0, I/d), a is of order d^{-1/2},
too, and changes the weights N_i(s)/T_i by as much; at infinite width it is 0, as p were.
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
CORPUS = 0  # the seed of the drawn corpus
STARTS = {"zero": "p = 0", "random": "random p"}
RESIDUALS = {"first": "first order", "second": "second order", "off_v": "part off v"}
COLOURS = {"zero": "C0", "random": "C1"}
LINES: tuple[tuple[str, str, dict[str, Any]], ...] = (  # the three from a random p lie close
    ("zero", "first", {"color": "C0"}),
    ("zero", "second", {"color": "C0", "ls": "--"}),
    ("random", "first", {"color": "C1", "lw": 4, "alpha": 0.5}),
    ("random", "second", {"color": "k", "ls": "--", "lw": 1}),
    ("random", "off_v", {"color": "C2", "lw": 1}),
)
AXES = {"alpha": "signed frequency α$_s$", "posterior": "posterior difference Δ$_s$"}
MOST = 1500  # tokens kept for the figure: the most frequent and the most extreme


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One step on a drawn corpus, the same at all widths; once with the embedding itself."""
    corpus = drawn(np.random.default_rng(CORPUS), n=400, T=16, uneven=True)
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
    if params["d"] == SHOWN:
        rows += tokens(corpus, alpha, step)
    return rows


def first_step(corpus: Corpus, d: int, random: bool, rng: np.random.Generator) -> dict[str, Any]:
    """a = E0 p0, b = E0 v, f, and the step / eta, off v and along it; d = 0: the infinite width.

    With p0 = 0: a = 0. Random p0 ~ N(0, I/d): a = <p0, v> b + |p0 off v| N(0, I/d). The step on E_s
    is -eta (dL/db_s v + dL/da_s p0).
    """
    V = corpus.counts.shape[1]
    b = rng.standard_normal(V) / np.sqrt(d) if d else np.zeros(V)
    a, along, off = np.zeros(V), 0.0, 0.0  # <p0, v> and |p0 off v|
    if random and d:
        off = np.sqrt(rng.chisquare(d - 1) / d)
        along = rng.standard_normal() / np.sqrt(d)
        a = along * b + off * rng.standard_normal(V) / np.sqrt(d)
    theta = np.column_stack([np.append(a, -np.inf), np.append(b, 0.0)])
    n = len(corpus.y)
    loss = CountLoss(Rows.of(corpus.counts), corpus.y, np.ones(n), Layout.of(1), np.zeros(1))
    da, db = -loss(theta)[1][:-1].T
    return {"a": a, "b": b, "p": (along, off), "f": loss.f[:, 0],
            "moved": db + along * da, "off": off * da}  # fmt: skip


def residuals(corpus: Corpus, alpha: Any, step: dict[str, Any]) -> dict[str, float]:
    """The slope of alpha~ on alpha, what each order of the law leaves, and the part off v."""
    half, size = alpha / 2, np.linalg.norm
    second = half - corpus.counts.T @ (step["f"] / corpus.lengths) / (4 * len(corpus.y))
    return {
        "slope": step["moved"] @ alpha / (alpha @ alpha),
        "first": size(step["moved"] - half) / size(half),
        "second": size(step["moved"] - second) / size(half),
        "off_v": size(step["off"]) / size(step["moved"]),
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
         "after": step["b"][s] + eta * step["moved"][s]}
        for s in np.union1d(order, extreme)
    ]  # fmt: skip


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """Slope and the order of both residuals, from p = 0 and from a random p."""
    import polars as pl

    law = rows.filter(pl.col("what") == "law")
    zero = law.filter((pl.col("p0") == "zero") & (pl.col("d") > 0))
    infinite = law.filter(pl.col("d") == 0)
    return [
        _slope(rows.filter(rows["p0"] == "zero"), "One step from p = 0"),
        at_most("At infinite width the proportionality is exact.", "largest relative residual",
                worst(infinite["first"]), 1e-12, "rounding of one sum over the corpus"),
        at_most("The first-order residual shrinks like d^-1/2.",
                "|fitted exponent + 1/2|", abs(exponent(zero, "first") + 0.5), 0.15,
                "a power law over a factor 64 in d"),
        at_most("The second-order residual shrinks like d^-3/2.",
                "|fitted exponent + 3/2|", abs(exponent(zero, "second") + 1.5), 0.3,
                "the next term of the sigmoid is of third order in f"),
        *_of_the_whole(rows.filter(pl.col("what") == "whole")),
        _slope(rows.filter(rows["p0"] == "random"), "A step from a random p, too,"),
        *_of_a_random_start(law.filter(pl.col("p0") == "random")),
    ]  # fmt: skip


def _slope(rows: Any, start: str) -> Verdict:
    """At the largest width, all draws; where the trainer made the step, that step, too."""
    wide = rows.filter(rows["d"] == rows["d"].max())["slope"].drop_nulls().to_numpy()
    return at_most(f"{start} moves E_s along v by eta/2 times the signed frequency.",
                   f"largest |slope / (1/2) - 1| at d = {rows['d'].max()}",
                   worst(np.abs(2 * wide - 1)), 0.1,
                   "the first-order error is of order d^-1/2: a few per cent there")  # fmt: skip


def _of_a_random_start(random: Any) -> list[Verdict]:
    """Three residuals of one order."""
    claims = {
        "first": "From a random p the first-order residual shrinks like d^-1/2.",
        "second": "The second-order law gains no order there: its residual, too, shrinks like "
                  "d^-1/2.",
        "off_v": "From a random p a part along p appears, shrinking like d^-1/2.",
    }  # fmt: skip
    return [
        at_most(claim, "|fitted exponent + 1/2|", abs(exponent(random, column) + 0.5), 0.15,
                "a power law over a factor 64 in d")
        for column, claim in claims.items()
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

    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.5))
    tokens = rows.filter(pl.col("what") == "token")
    for axis, (column, label) in zip(axes, AXES.items(), strict=False):
        _draw_tokens(axis, tokens, column)
        axis.set(xlabel=label, ylabel="⟨E$_s$, v⟩")
    alpha = np.abs(tokens["alpha"].to_numpy()).max()
    axes[0].axline((0, 0), slope=1 / alpha, color="0.4", lw=0.8)
    axes[0].legend(loc="upper left", fontsize=6.5)
    _draw_laws(axes[2], rows.filter((pl.col("what") == "law") & (pl.col("d") > 0)))
    return figure


def _draw_tokens(axis: Any, tokens: Any, column: str) -> None:
    """Before and after the step, from either start."""
    axis.plot(tokens[column], tokens["before"], ".", color="0.75", ms=3, label="before the step")
    for p0, start in reversed(STARTS.items()):
        part = tokens.filter(tokens["p0"] == p0)
        axis.plot(part[column], part["after"], ".", color=COLOURS[p0], ms=3,
                  label=f"after it, {start}")  # fmt: skip
    name_extremes(axis, tokens.filter(tokens["p0"] == "zero"), column, "after")


def _draw_laws(axis: Any, laws: Any) -> None:
    for p0, column, style in LINES:
        part = laws.filter(laws["p0"] == p0)
        mean = part.group_by("d").agg(_geometric(column)).sort("d")
        axis.loglog(part["d"], part[column], ".", color=style["color"], ms=2, alpha=0.2)
        axis.loglog(mean["d"], mean[column], label=f"{RESIDUALS[column]}, {STARTS[p0]}", **style)
        if p0 == "zero":
            law = (mean["d"] / WIDTHS[0]) ** (-0.5 if column == "first" else -1.5)
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
    "the line of slope η/2, at d = 1024; grey: before the step. Middle: the same against the "
    "posterior difference P(+|s) − P(−|s), where frequent tokens move further than rare ones of "
    "the same posterior. Right: what the first- and second-order laws leave, against the width, "
    "with the geometric mean over the draws of E. At infinite width a random p is no other start "
    "than p = 0: the entries of E0 p are of order d^-1/2 and vanish. No source names the scales of "
    "E, v and p, η, the vocabulary or the drawn sentences: those here are our choice."
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
