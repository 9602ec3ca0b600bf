"""The first step of p after the embedding step: the V over alpha, its floor, and when it tilts."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import frequency, posterior_difference
from keytokens.embedding.kernels import CountLoss
from keytokens.embedding.one_step import Embedded, StageOptions, bare_loss, embed, without_cls
from keytokens.embedding.p_training import Space
from keytokens.experiments.corpora import COLOURS, Corpus, by_corpus, drawn, parts, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews import FREQUENT, LIFT, lifts
from keytokens.experiments.reviews_figures import panel
from keytokens.experiments.reviews_flow import labelled, step_size
from keytokens.experiments.tools import slope, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.experiments.words import name_extremes

REACH = (0.01, 0.1, 1.0, 10.0)  # eta max|alpha| / 2: small, moderate and large values
WIDTHS = (0, 128, 512, 2048)
MOST = 1500


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One small step of p on a drawn corpus, beside the law."""
    return _all(drawn(rng, n=400, uneven=params["uneven"]), params["draws"], rng)


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """The same on the training reviews."""
    return _all(reviews(data)[0], params["draws"], rng)


def _all(corpus: Corpus, draws: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    eta = step_size(corpus)
    rows = [row for reach in REACH for row in rows_of(corpus, eta * reach, reach)]
    return rows + steps(corpus, eta, draws, rng)


def rows_of(corpus: Corpus, eta: float, level: float) -> list[dict[str, Any]]:
    """The law for one eta: the share of the tilt, and the tokens."""
    law = kt.early_law(corpus.counts, corpus.y, eta)
    phi, posterior = frequency(corpus.counts), posterior_difference(corpus.counts, corpus.y)
    often = phi >= FREQUENT
    plus, minus = lifts(law.attention[often], posterior[often])
    common = {"level": level, "tilt": law.tilt_share, "even": _even(law.attention, law.alpha),
              "lift_plus": plus, "lift_minus": minus}  # fmt: skip
    rows: list[dict[str, Any]] = [{"what": "law"} | common]
    scale = np.abs(law.attention).max()
    for s in np.sort(np.argsort(-phi, kind="stable")[:MOST]):
        rows.append({"what": "token", "level": level, "word": str(corpus.words[s]),
                     "kind": str(corpus.kinds[s]), "alpha": law.alpha[s], "posterior": posterior[s],
                     "logit": law.attention[s] / scale})  # fmt: skip
    return rows


def steps(corpus: Corpus, eta: float, draws: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """|E p - law| / |law| after one real step on E and one on p, at several widths."""
    law = kt.early_law(corpus.counts, corpus.y, eta).attention
    labels = labelled(corpus)
    loss = bare_loss(labels)
    rows = []
    for d in WIDTHS:
        for _ in range(draws if d else 1):
            options = StageOptions(d or None, eta, seed=int(rng.integers(2**31)))
            found = first_step_of_p(loss, embed(labels, loss, options))
            off = float(np.linalg.norm(found - law) / np.linalg.norm(law))
            rows.append({"what": "width", "width": d, "off": off})
    return rows


def first_step_of_p(loss: CountLoss, embedded: Embedded) -> Any:
    """E p after p = 0 - dL/dp. (V,)"""
    a = np.zeros(len(embedded.b))
    space = Space(embedded)
    return space.logits(space.descent(loss(without_cls(a, embedded.b))[1][:-1, 0])[0])


def _even(attention: Any, alpha: Any) -> float:
    """Correlation of E p with |alpha| minus that with alpha: 1 is a V, -1 a line."""
    return float(
        np.corrcoef(attention, np.abs(alpha))[0, 1] - abs(np.corrcoef(attention, alpha)[0, 1])
    )


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """The floor, the V, and the tilt at both ends of eta."""
    import polars as pl

    law, width = (rows.filter(pl.col("what") == what) for what in ("law", "width"))
    low, high = (law.filter(pl.col("level") == f()) for f in (law["level"].min, law["level"].max))
    token = rows.filter((pl.col("what") == "token") & (pl.col("posterior").abs() < 0.1))
    small = token.filter(pl.col("level") == law["level"].min())
    return [
        at_most("Tokens that say little (|Delta| < .1) go down first: the floor is negative.",
                "their mean E_s p after a small step, over the largest |E_s p|",
                small["logit"].mean(), 0, "the logits' gradient sums to zero over the tokens"),
        at_least("For small eta the curve over alpha is rather a V than a line.",
                 "smallest correlation of E p with |alpha| minus that with alpha",
                 worst(low["even"], np.min), 0,
                 "below 0 a line would describe it better than a V"),
        at_least("So it is over Delta: tokens that predict a label rise above those that do not.",
                 f"smallest {LIFT}, small eta", worst(np.minimum(*_lifts(low)), np.min), 0.75,
                 "three pairs of four; half is none"),
        at_most("The tilt, linear in alpha, is negligible for small eta.",
                "largest |tilt| / |dL/da| at the smallest eta", worst(low["tilt"]), 0.05,
                "it grows like eta squared"),
        at_least("For large eta it dominates.", "smallest |tilt| / |dL/da| at the largest eta",
                 worst(high["tilt"], np.min), 1, "above 1 the curve is more tilted than even"),
        at_most("Then tokens of one label rise and those of the other sink.",
                "largest share of such pairs that says otherwise, of either label, large eta",
                worst(np.maximum(np.minimum(*_lifts(high)), 1 - np.maximum(*_lifts(high)))), 0.25,
                "three pairs of four rise for the one label and sink for the other"),
        at_most("At infinite width a step on E and one on p follow the law exactly.",
                "largest relative residual", worst(width.filter(pl.col("width") == 0)["off"]),
                1e-9, "rounding of sums over the corpus"),
        at_most("At finite width the noise of E0 covers it, less and less: like d^-1/2.",
                "|fitted exponent + 1/2|", abs(_exponent(width) + 0.5), 0.15,
                "a power law over a factor 16 in d"),
    ]  # fmt: skip


def _lifts(law: Any) -> tuple[Any, Any]:
    """The shares of pairs of either label, a number a corpus; NaN where there are none."""
    plus, minus = (law[name].cast(float).fill_null(np.nan) for name in ("lift_plus", "lift_minus"))
    return plus.to_numpy(), minus.to_numpy()


def _exponent(width: Any) -> float:
    """The fitted power of d."""
    finite = width.filter(width["width"] > 0)
    return slope(np.log(finite["width"].to_numpy()), np.log(finite["off"].to_numpy()))


def draw(rows: Any) -> dict[str, Any]:
    """Against alpha, against Delta, and how far from the law at finite width."""
    return {
        "Against the signed frequency": _draw_tokens(rows, "alpha", "α$_s$"),
        "Against the posterior difference": _draw_tokens(rows, "posterior", "Δ$_s$"),
        "The tilt, and the law at finite width": _draw_sizes(rows),
    }


def _corpora(rows: Any) -> list[tuple[str, Any]]:
    """(name, rows) of each corpus."""
    if "corpus" in rows.columns:
        return parts(rows)
    kinds = (("equal frequencies", False), ("uneven frequencies", True))
    return [(name, rows.filter(rows["uneven"] == uneven)) for name, uneven in kinds]


def _draw_tokens(rows: Any, x: str, label: str) -> Any:
    """E p, one column an eta, one row a corpus."""
    import polars as pl
    from matplotlib import pyplot

    corpora, on_reviews = _corpora(rows), "corpus" in rows.columns
    figure, axes = pyplot.subplots(
        len(corpora), len(REACH), figsize=(9.6, 2.4 * len(corpora)), squeeze=False, sharey=True
    )
    for line, (name, part) in zip(axes, corpora, strict=True):
        for axis, level in zip(line, REACH, strict=True):
            tokens = part.filter((pl.col("what") == "token") & (pl.col("level") == level))
            axis.axhline(0, color="0.8", lw=0.8)
            axis.set(title=f"η max|α| / 2 = {level:g}")
            axis.locator_params(axis="x", nbins=4)
            axis.margins(x=0.12)
            if on_reviews:
                _of_reviews(axis, tokens, x)
            else:
                _by_kind(axis, tokens, x)
        line[0].set(ylabel=f"{name}\n⟨E$_s$, p⟩, scaled")
    for axis in axes[-1]:
        axis.set(xlabel=label)
    if not on_reviews:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=4, loc="outside upper center")
    return figure


def _by_kind(axis: Any, tokens: Any, x: str) -> None:
    """A point a token, in the colour of its kind."""
    for (kind,), part in tokens.group_by("kind", maintain_order=True):
        axis.plot(part[x], part["logit"], "o", ms=3.5, color=COLOURS[kind], label=kind)


def _of_reviews(axis: Any, tokens: Any, x: str) -> None:
    """A point a token; over Delta their means, on a scale that shows the many small ones."""
    if x == "posterior":
        axis.set_yscale("symlog", linthresh=0.003)
        axis.set_yticks([-1, -0.1, -0.01, 0, 0.01, 0.1, 1])
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        panel(axis, tokens, "logit", count=2)
        return
    axis.plot(tokens[x], tokens["logit"], ".", ms=3)
    name_extremes(axis, tokens, x, "logit", count=2)


def _draw_sizes(rows: Any) -> Any:
    import polars as pl
    from matplotlib import pyplot
    from matplotlib.ticker import LogLocator

    figure, axes = pyplot.subplots(1, 2, figsize=(7.2, 2.8))
    for k, (name, part) in enumerate(_corpora(rows)):
        law, width = (part.filter(pl.col("what") == what) for what in ("law", "width"))
        finite = width.filter(pl.col("width") > 0)
        axes[0].loglog(law["level"], law["tilt"], "o-", color=f"C{k}", ms=3, label=name)
        axes[1].loglog(finite["width"], finite["off"], "o", color=f"C{k}", ms=3)
        mean = finite.group_by("width", maintain_order=True).agg(pl.col("off").mean())
        d = mean["width"].to_numpy()
        axes[1].loglog(d, mean["off"][0] * (d / d[0]) ** -0.5, ":", color=f"C{k}")
    axes[0].axhline(1, color="0.8", lw=0.8, zorder=0)
    axes[0].set(xlabel="η max|α| / 2", ylabel="‖tilt‖ / ‖∂a‖")
    axes[0].legend()
    axes[1].plot([], [], "k:", label="d$^{-1/2}$")
    axes[1].set(xlabel="width d", ylabel="relative distance from the law")
    axes[1].set_xticks(WIDTHS[1:], [str(d) for d in WIDTHS[1:]])
    axes[1].minorticks_off()
    axes[1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].legend()
    return figure


LOOK = (
    "Each token's attention logit after one small step of p from 0, against its signed frequency "
    "and against its posterior difference. For small η a V, or a parabola, around a negative "
    "floor, which lies the deeper the more common a token is; the term linear in α, of order η², "
    "tilts it (up or down, by the sign of ⟨α, ∂L/∂a⟩), until for large η the line is all there is. "
    "Last figure: the size of that term, and how far real steps at width d are from the law, which "
    "is the infinite width's."
)
EXPERIMENT = Experiment(
    name="early-p",
    title="The first step of p: a V around a negative floor, which tilts",
    run=run,
    params=[{"uneven": False, "draws": 5}, {"uneven": True, "draws": 5}],
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
)
REVIEWS = Experiment(
    name="early-p-reviews",
    title="The first step of p, on real reviews",
    run=run_reviews,
    params=[{"draws": 1}],
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    needs_data=True,
)
