"""Figures of the experiment on real reviews."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keytokens.experiments.words import name_extremes, quoted, shown

SHOWN = {"network": 128}  # widths; the other stages at infinite width
AFTER = {
    "one_step": "after one step",
    "two_stage": "after both stages",
    "network": "E and p together",
}
OURS = "our joint training"
BINS = np.linspace(-1, 1, 17)


def phenomenology(rows: Any, stages: Mapping[str, str]) -> Any:
    """Values above, logits below, against Delta; a column a stage."""
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(stages), figsize=(9.6, 5.4), sharex=True)
    for column, (stage, title) in zip(axes.T, stages.items(), strict=True):
        part = rows.filter((pl.col("what") == "token") & (pl.col("stage") == stage))
        part = part.filter(pl.col("d") == SHOWN.get(stage, 0))
        if stage != "one_step":
            column[1].set_yscale("symlog", linthresh=1)
            column[1].yaxis.set_major_formatter("{x:g}")
        for axis, name in zip(column, ("value", "logit"), strict=True):
            panel(axis, part, name)
        column[0].set(title=title)
        column[1].set(xlabel="posterior difference Δ$_s$")
        if stage == "one_step":
            column[1].text(0.5, 0.55, "p has not moved yet", ha="center", fontsize=8, color="0.4",
                           transform=column[1].transAxes)  # fmt: skip
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩, in standard deviations")
    return figure


def panel(axis: Any, part: Any, name: str, count: int = 3) -> None:
    """Tokens against Delta, what is typical of a bin of Delta, and the extreme ones named."""
    axis.axhline(0, color="0.85", lw=0.8, zorder=0)
    axis.plot(part["posterior"], part[name], ".", ms=2, color="0.7", rasterized=True)
    _binned(axis, part["posterior"].to_numpy(), part[name].to_numpy())
    if part[name].std() > 0:
        name_extremes(axis, part, "posterior", name, count)


def by_width(rows: Any, above: tuple[str, str], below: tuple[str, str]) -> Any:
    """Two (stage, measure) against Delta, a column a width; beside the network, our model."""
    import polars as pl
    from matplotlib import pyplot

    tokens = rows.filter(pl.col("what") == "token")
    widths = _widths(tokens)
    alike: Any = "row" if above[0] != "network" else False  # ours has larger values
    figure, axes = pyplot.subplots(
        2, len(widths), figsize=(9.6, 5.4), sharex=True, sharey=alike, squeeze=False
    )
    for axis in axes[1]:
        axis.set_yscale("symlog", linthresh=1)  # before the names: they are placed on the paper
        axis.yaxis.set_major_formatter("{x:g}")
    for column, d in zip(axes.T, widths, strict=True):
        for axis, (stage, name) in zip(column, (above, below), strict=True):
            panel(axis, _at(tokens, stage, d), name, count=2)
        ours = above[0] == "network" and not d
        column[0].set(title=f"d = {d}" if d else OURS if ours else "infinite width")
        column[1].set(xlabel="posterior difference Δ$_s$")
    axes[0, 0].set(ylabel=f"⟨E$_s$, v⟩, {AFTER[above[0]]}")
    axes[1, 0].set(ylabel=f"⟨E$_s$, p⟩, in standard deviations,\n{AFTER[below[0]]}")
    return figure


def _widths(rows: Any) -> list[int]:
    """The widths of the flow, the infinite one (0) last."""
    return sorted(set(rows.filter(rows["stage"] == "two_stage")["d"]), key=lambda d: d or 1e9)


def _at(rows: Any, stage: str, d: int) -> Any:
    """The rows of a stage at a width; at infinite width joint training stands for the network."""
    named = "joint" if stage == "network" and d == 0 else stage
    return rows.filter((rows["stage"] == named) & (rows["d"] == d))


def selected_by_width(rows: Any, count: int = 8) -> Any:
    """Which token is heaviest in how many test reviews; above both stages, below the network."""
    import polars as pl
    from matplotlib import pyplot

    chosen = rows.filter(pl.col("what") == "selected")
    widths = _widths(chosen)
    figure, axes = pyplot.subplots(2, len(widths), figsize=(9.6, 5.0), squeeze=False)
    for column, d in zip(axes.T, widths, strict=True):
        for axis, stage in zip(column, ("two_stage", "network"), strict=True):
            _bars(axis, _at(chosen, stage, d).head(count))
        norm = _at(chosen, "two_stage", d)["norm"][0]
        column[0].set(title=(f"d = {d}" if d else "infinite width") + f", ‖p‖ = {norm:.0f}")
        column[1].set(title=f"d = {d}, Adam" if d else OURS)
        column[1].set(xlabel="share of test reviews")
    for axis, stage in zip(axes[:, 0], ("two_stage", "network"), strict=True):
        axis.set(ylabel=AFTER[stage])
    return figure


def _bars(axis: Any, part: Any) -> None:
    """A bar a token."""
    names = [quoted(word) for word in part["word"]]
    axis.barh(range(len(names)), part["share"], color="C0")
    axis.set_yticks(range(len(names)), names, parse_math=False)
    axis.invert_yaxis()


def _binned(axis: Any, x: Any, y: Any) -> None:
    """Mean and standard deviation of y in bins of x that hold five points; on a logarithmic axis,
    where a few large values would be all of a mean, the median and the quartiles."""
    place = np.digitize(x, BINS)
    full = [k for k in np.unique(place) if (place == k).sum() >= 5]
    if not full:
        return
    inside = [y[place == k] for k in full]
    middle, low, high = np.transpose([_typical(part, axis.get_yscale()) for part in inside])
    axis.errorbar([x[place == k].mean() for k in full], middle, [middle - low, high - middle],
                  fmt="o-", color="C0", ms=3, lw=1, capsize=2)  # fmt: skip


def _typical(y: Any, scale: str) -> tuple[Any, Any, Any]:
    """The middle of y, and from where to where most of it lies."""
    if scale == "linear":
        return y.mean(), y.mean() - y.std(), y.mean() + y.std()
    low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
    return middle, low, high


def selected(rows: Any, stages: Mapping[str, str]) -> Any:
    """Above: which token is heaviest in how many test reviews. Below: accuracy; undecided."""
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(9.6, 5.6))
    for axis, stage in zip(axes[0], list(stages)[1:], strict=True):
        part = rows.filter((pl.col("what") == "selected") & (pl.col("stage") == stage))
        _bars(axis, part.filter(pl.col("d") == SHOWN.get(stage, 0)))
        axis.set(title=stages[stage], xlabel="share of test reviews")
    path = rows.filter(pl.col("what") == "path")
    _by_width(axes[1, 0], rows.filter(pl.col("what") == "model"), path, stages)
    _along(axes[1, 1:], path)
    return figure


def _by_width(axis: Any, model: Any, path: Any, stages: Mapping[str, str]) -> None:
    """Test accuracy of every stage against the width; of the flow at a norm that all reached."""
    import polars as pl

    reached = path.group_by("d").agg(pl.col("length").max())["length"].min()
    flow = path.filter(pl.col("length") < 1.2 * reached).group_by("d").last()
    place = pl.when(pl.col("d") == 0).then(8192).otherwise(pl.col("d"))
    model = pl.concat([model.filter(pl.col("stage") != "two_stage"), flow], how="diagonal_relaxed")
    model = model.with_columns(place=place).sort("place")
    for stage, title in stages.items():
        part = model.filter(pl.col("stage") == stage)
        at = f", norm {reached:.0f}" if stage == "two_stage" else ""
        axis.plot(part["place"], part["test"], "o-", ms=4, label=title + at)
    places = sorted(set(model["place"]))
    axis.set(xscale="log", xlabel="width d", ylabel="test accuracy")
    axis.set_xticks(places, ["∞" if p == 8192 else str(p) for p in places])
    axis.minorticks_off()
    axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncol=2)


def _along(axes: Any, path: Any) -> None:
    """Test accuracy and undecided reviews along the flow, a line a width."""
    for k, d in enumerate(sorted(set(path["d"]), key=lambda d: d or 1e9)):
        part = path.filter(path["d"] == d)
        for axis, column in zip(axes, ("test", "undecided"), strict=True):
            axis.plot(part["length"], part[column], "o-", ms=3, color=f"C{k}",
                      label=f"d = {d}" if d else "infinite width")  # fmt: skip
    for axis, words in zip(axes, ("test accuracy", "undecided (no weight of .9)"), strict=True):
        axis.set(xscale="log", xlabel="‖p‖", ylabel=words)
        axis.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
        axis.minorticks_off()
    axes[1].set(ylim=(0, 1.02))
    axes[0].legend(fontsize=7)


def read(rows: Any, stages: Mapping[str, str]) -> Any:
    """Ten reviews: how each begins, and a line a stage. Blue: the label's sign, red: the other."""
    import polars as pl
    from matplotlib import pyplot

    shown_at = pl.col("stage").replace_strict(SHOWN, default=0, return_dtype=pl.Int64)
    reviews = rows.filter((pl.col("what") == "review") & (pl.col("d") == shown_at))
    indices = reviews["index"].unique(maintain_order=True).to_list()
    lines = len(indices) * (len(stages) + 1.5)
    figure, axis = pyplot.subplots(figsize=(9.6, 0.18 * lines))
    axis.axis("off")
    axis.set(xlim=(0, 1), ylim=(lines, 0))
    for k, index in enumerate(indices):
        top = k * (len(stages) + 1.5) + 0.5
        part = reviews.filter(pl.col("index") == index)
        sign = "+" if part["label"][0] > 0 else "−"
        _line(axis, 0, top, f"{sign}  {part['begins'][0]} …", weight="bold")
        for j, row in enumerate(part.iter_rows(named=True), 1):
            right = row["label"] * row["logit"] > 0
            _line(axis, 0.02, top + j, stages[row["stage"]])
            _line(axis, 0.155, top + j, f"{row['logit']:+.2f}", color="C0" if right else "C1")
            _line(axis, 0.21, top + j, fitting(row["word"]))
            _line(axis, 0.57, top + j, row["passage"])
    return figure


def fitting(words: str, most: int = 54) -> str:
    """As many of the heaviest tokens as the column holds; at least one."""
    kept = words.split("  ")
    while len("  ".join(kept)) > most and len(kept) > 1:
        kept.pop()
    return "  ".join(kept)


def _line(axis: Any, x: float, y: float, text: str, **kind: Any) -> None:
    plain = shown(text.replace("<br />", " ").replace("\n", " "))
    axis.text(x, y, plain, fontsize=7, va="center", parse_math=False, **kind)
