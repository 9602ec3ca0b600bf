"""Figures of the experiment on real reviews."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keytokens.experiments.one_step import name_extremes

BINS = np.linspace(-1, 1, 17)


def phenomenology(rows: Any, stages: Mapping[str, str]) -> Any:
    """Values above, logits below, against Delta; a column a stage."""
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(stages), figsize=(9.6, 5.4), sharex=True)
    for column, (stage, title) in zip(axes.T, stages.items(), strict=True):
        part = rows.filter((pl.col("what") == "token") & (pl.col("stage") == stage))
        for axis, name in zip(column, ("value", "logit"), strict=True):
            axis.axhline(0, color="0.85", lw=0.8, zorder=0)
            axis.plot(part["posterior"], part[name], ".", ms=2, color="0.7", rasterized=True)
            _binned(axis, part["posterior"].to_numpy(), part[name].to_numpy())
            if part[name].std() > 0:
                name_extremes(axis, part, "posterior", name)
        column[0].set(title=title)
        column[1].set_yscale("symlog", linthresh=1)
        column[1].set(xlabel="posterior difference Δ$_s$")
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩, in standard deviations")
    return figure


def _binned(axis: Any, x: Any, y: Any) -> None:
    """Mean and standard deviation of y in bins of x that hold five points."""
    place = np.digitize(x, BINS)
    full = [k for k in np.unique(place) if (place == k).sum() >= 5]
    middle = [x[place == k].mean() for k in full]
    mean, spread = ([f(y[place == k]) for k in full] for f in (np.mean, np.std))
    axis.errorbar(middle, mean, spread, fmt="o-", color="C0", ms=3, lw=1, capsize=2)


def selected(rows: Any, stages: Mapping[str, str]) -> Any:
    """Left: which token is heaviest in how many test reviews. Right: accuracy against width."""
    import polars as pl
    from matplotlib import pyplot

    shown = [stage for stage in stages if stage != "one_step"]
    figure, axes = pyplot.subplots(1, 4, figsize=(9.6, 3))
    for axis, stage in zip(axes, shown, strict=False):
        part = rows.filter((pl.col("what") == "selected") & (pl.col("stage") == stage))
        axis.barh(part["word"].to_list()[::-1], part["share"].to_list()[::-1], color="C0")
        axis.set(title=stages[stage], xlabel="share of test reviews")
    model = rows.filter(pl.col("what") == "model").with_columns(
        place=pl.when(pl.col("d") == 0).then(8192).otherwise(pl.col("d"))
    )
    for (stage,), part in model.sort("place").group_by("stage", maintain_order=True):
        axes[3].plot(part["place"], part["test"], "o-", label=stages[stage])
    places = sorted(set(model["place"]))
    axes[3].set(xscale="log", xlabel="width d", ylabel="test accuracy")
    axes[3].set_xticks(places, ["∞" if p == 8192 else str(p) for p in places])
    axes[3].minorticks_off()
    axes[3].legend(fontsize=7)
    return figure


def read(rows: Any, stages: Mapping[str, str]) -> Any:
    """Ten reviews as lines of text: label, logit, heaviest tokens with their weights."""
    import polars as pl
    from matplotlib import pyplot

    shown = [stage for stage in stages if stage != "one_step"]
    figure, axes = pyplot.subplots(len(shown), 1, figsize=(9.6, 6.6))
    for axis, stage in zip(axes, shown, strict=True):
        part = rows.filter((pl.col("what") == "review") & (pl.col("stage") == stage))
        axis.axis("off")
        axis.set_title(stages[stage], loc="left")
        for k, row in enumerate(part.iter_rows(named=True)):
            y = 1 - (k + 0.5) / part.height
            right = row["label"] * row["logit"] > 0
            label = "+" if row["label"] > 0 else "−"
            axis.text(0, y, f"{label}  {row['logit']:+.2f}", color="C0" if right else "C1",
                      family="DejaVu Sans Mono", fontsize=7.5, va="center")  # fmt: skip
            axis.text(0.12, y, row["word"], fontsize=7.5, va="center")
    return figure
