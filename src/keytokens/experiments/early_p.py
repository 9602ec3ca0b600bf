"""The first step of p after the embedding step: the V over alpha, its floor, and when it tilts."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import frequency, posterior_difference
from keytokens.experiments.corpora import Corpus, by_corpus, drawn, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.one_step import name_extremes
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

# eta |alpha|_max / 2 after the step: small, moderate and large values. On reviews, eta itself.
REACH = (0.01, 0.1, 1.0, 10.0)
ETAS = (10.0, 100.0, 800.0, 8000.0)
MOST = 1500


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One small step of p on a drawn corpus, beside the law."""
    corpus = drawn(rng, n=400, uneven=params["uneven"])
    rows = []
    for reach in REACH:
        alpha = kt.early_law(corpus.counts, corpus.y, 1.0).alpha
        rows += rows_of(corpus, 2 * reach / np.abs(alpha).max(), reach)
    return rows


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """The same on the training reviews."""
    corpus = reviews(data)[0]
    return [row for eta in ETAS for row in rows_of(corpus, eta, eta)]


def rows_of(corpus: Corpus, eta: float, level: float) -> list[dict[str, Any]]:
    """The law for one eta: the share of the tilt, and the tokens."""
    law = kt.early_law(corpus.counts, corpus.y, eta)
    phi, posterior = frequency(corpus.counts), posterior_difference(corpus.counts, corpus.y)
    common = {"level": level, "tilt": law.tilt_share,
              "even": _even(law.attention, law.alpha)}  # fmt: skip
    rows: list[dict[str, Any]] = [{"what": "law"} | common]
    scale = np.abs(law.attention).max()
    for s in np.sort(np.argsort(-phi, kind="stable")[:MOST]):
        rows.append({"what": "token", "level": level, "word": str(corpus.words[s]),
                     "alpha": law.alpha[s], "posterior": posterior[s],
                     "logit": law.attention[s] / scale})  # fmt: skip
    return rows


def _even(attention: Any, alpha: Any) -> float:
    """Correlation of E p with |alpha| minus that with alpha: 1 is a V, -1 a line."""
    return float(
        np.corrcoef(attention, np.abs(alpha))[0, 1] - abs(np.corrcoef(attention, alpha)[0, 1])
    )


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """The floor, the V, and the tilt at both ends of eta."""
    import polars as pl

    law = rows.filter(pl.col("what") == "law")
    low, high = (law.filter(pl.col("level") == f()) for f in (law["level"].min, law["level"].max))
    token = rows.filter((pl.col("what") == "token") & (pl.col("posterior").abs() < 0.1))
    small = token.filter(pl.col("level") == law["level"].min())
    return [
        at_most("Tokens that say little (|Delta| < .1) go down first: the floor is negative.",
                "their mean E_s p after a small step, over the largest |E_s p|",
                small["logit"].mean(), 0, "the logits' gradient sums to zero over the tokens"),
        at_least("For small eta the curve over alpha is even: both signs rise.",
                 "smallest correlation of E p with |alpha| minus that with alpha",
                 worst(low["even"], np.min), 0,
                 "below 0 a line would describe it better than a V"),
        at_most("The tilt, linear in alpha, is negligible for small eta.",
                "largest |tilt| / |dL/da| at the smallest eta", worst(low["tilt"]), 0.05,
                "it grows like eta squared"),
        at_least("For large eta it dominates.", "smallest |tilt| / |dL/da| at the largest eta",
                 worst(high["tilt"], np.min), 1, "above 1 the curve is more tilted than even"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """E p against alpha, one column an eta, one row a corpus."""
    import polars as pl
    from matplotlib import pyplot

    key = "corpus" if "corpus" in rows.columns else "uneven"
    tokens = rows.filter(pl.col("what") == "token")
    names, levels = tokens[key].unique(maintain_order=True), sorted(set(tokens["level"]))
    figure, axes = pyplot.subplots(
        len(names), len(levels), figsize=(9.6, 2.4 * len(names)), squeeze=False, sharey=True
    )
    for line, name in zip(axes, names, strict=True):
        for axis, level in zip(line, levels, strict=True):
            part = tokens.filter((pl.col(key) == name) & (pl.col("level") == level))
            axis.axhline(0, color="0.8", lw=0.8)
            axis.plot(part["alpha"], part["logit"], ".", ms=3)
            letter = "η" if key == "corpus" else "η max|α| / 2"
            axis.set(title=f"{letter} = {level:g}", xlabel="α$_s$")
            axis.locator_params(axis="x", nbins=4)
            if key == "corpus":
                name_extremes(axis, part, "alpha", "logit", count=2)
        words = name if key == "corpus" else ("uneven" if name else "even") + " frequencies"
        line[0].set(ylabel=f"{words}\n⟨E$_s$, p⟩, scaled")
    return figure


LOOK = (
    "Each token's attention logit after one small step of p from 0, against its signed frequency. "
    "For small η a V, or a parabola, around a negative floor; the term linear in α, of order η², "
    "tilts it, until for large η the line is all there is."
)
EXPERIMENT = Experiment(
    name="early-p",
    title="The first step of p: a V around a negative floor, which tilts",
    run=run,
    params=[{"uneven": False}, {"uneven": True}],
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
)
REVIEWS = Experiment(
    name="early-p-reviews",
    title="The first step of p, on real reviews",
    run=run_reviews,
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    needs_data=True,
)
