"""Two inputs whose score gaps are C and 1: one limit for every loss, different ways to it."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap, plane_problem, stacked, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

GAPS = (1.0, 1.5, *map(float, range(2, 11)), 100.0)  # the scores C
LOSSES = ("linear", "logistic", "exponential")
STEPS = 1000


def problem(C: float) -> kt.TokenProblem:
    """{(0,0; 0), (1,1; C)} and {(0,0; 0), (1,-1; 1)}: p^mm = (1, 0)."""
    return plane_problem([[(0, 0), (1, 1)], [(0, 0), (1, -1)]], [[0, C], [0, 1.0]])


def final_offset(C: float, loss: str) -> float:
    """Where p_2 settles: C |l'(C)| e^(-p1-p2) = |l'(1)| e^(-p1+p2), so p_2 = log(...) / 2."""
    log_slope = {
        "linear": lambda m: 0.0,
        "exponential": lambda m: -m,
        "logistic": lambda m: -np.logaddexp(0.0, m),
    }[loss]
    return 0.5 * (np.log(C) + log_slope(C) - log_slope(1.0))


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The path of p from 0 for every C under one loss."""
    problems = [problem(C) for C in GAPS]
    limit: Any = kt.att_svm(problems[0], [1, 1]).direction
    method = kt.NormalizedDescent(0.1)
    trained: Any = kt.train(
        stacked(problems), over="p", method=method, steps=STEPS, loss=params["loss"]
    )
    return [
        {"C": C, "step": step, "p1": p[0], "p2": p[1], "gap": gap,
         "offset": final_offset(C, params["loss"])}
        for C, path in zip(GAPS, trained.path, strict=True)
        for step, p, gap in zip(trained.steps, path, direction_gap(path, limit), strict=True)
    ]  # fmt: skip


def verdicts(rows: Any) -> list[Verdict]:
    """One limit; which side of it each loss takes on the way."""
    import polars as pl

    end = rows.filter(pl.col("step") == STEPS)
    moved = rows.filter((pl.col("step") > 0) & (pl.col("C") > 1))
    linear = moved.filter(pl.col("loss") == "linear")
    tails = moved.filter(pl.col("loss") != "linear")
    logistic = moved.filter(pl.col("loss") == "logistic")
    return [
        at_most("The limit direction is (1, 0) for all three losses.",
                "largest 1 - cos at step 1,000 over C up to 10",
                worst(end.filter(pl.col("C") <= 10)["gap"]), 5e-3,
                "p_2 settles at 3.4 in size at most, and 3.4/100 makes 1 - cos = 6e-4"),
        at_most("p_2 settles where the two inputs' slopes balance, log(C l'(C) / l'(1)) / 2.",
                "largest |p_2 - prediction| at step 1,000",
                worst(np.abs(end["p2"] - end["offset"])), 0.1, "one step of 0.1"),
        at_least("The linear loss favours the high-score input all the way, for every C > 1.",
                 "smallest p_2 along the way", worst(linear["p2"], np.min), 0.0,
                 "the claim is a sign"),
        at_most("Logistic and exponential loss favour the low-score input for C >= 5.",
                "largest p_2 after the first step", worst(
                    tails.filter((pl.col("C") >= 5) & (pl.col("step") > 1))["p2"]), 0.0,
                "the claim is a sign"),
        at_least("With C = 1.5 the logistic loss never favours the low-score input.",
                 "smallest p_2 along the way",
                 worst(logistic.filter(pl.col("C") == 1.5)["p2"], np.min), 0.0,
                 "the claim is a sign"),
        at_least("With C = 2, 3, 4 the logistic loss changes sides on the way.",
                 "runs with both signs of p_2, of 3", _changes(logistic), 3, "the claim is a sign"),
    ]  # fmt: skip


def _changes(rows: Any) -> int:
    parts = [rows.filter(rows["C"] == C)["p2"] for C in (2.0, 3.0, 4.0)]
    return sum(p.min() < 0 < p.max() for p in parts)


def draw(rows: Any) -> Any:
    """One panel a loss: paths of p, coloured by C; below: the angle over time."""
    from matplotlib import colormaps, pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(8.6, 5.4), sharex="row", sharey="row")
    shades = dict(zip(GAPS, colormaps["viridis"](np.linspace(0, 0.9, len(GAPS))), strict=True))
    for (loss,), part in rows.group_by("loss", maintain_order=True):
        plane, angle = axes[:, LOSSES.index(loss)]
        plane.set(title=f"{loss} loss", xlabel="$p_1$", xlim=(0, 6), ylim=(-4, 3))
        for (C,), path in part.group_by("C", maintain_order=True):
            ls = ":" if C in (1.5, 100.0) else "-"  # told from its neighbours' shades
            plane.plot(path["p1"], path["p2"], color=shades[C], lw=1.2, ls=ls)
            degrees = np.degrees(np.arctan2(path["p2"], path["p1"]))
            angle.semilogx(path["step"][1:], degrees[1:], color=shades[C], lw=1.2, ls=ls,
                           label=f"{C:g}")  # fmt: skip
        for axis in (plane, angle):
            axis.axhline(0, color="black", ls="--", lw=0.8)
        angle.set(xlabel="step")
    axes[0, 0].set(ylabel="$p_2$")
    axes[1, 0].set(ylabel="angle to the Att-SVM, degrees")
    figure.legend(*angle.get_legend_handles_labels(), title="C", loc="outside right center")
    return figure


EXPERIMENT = Experiment(
    name="losses",
    title="Losses: one limit, different transients",
    run=run,
    params=[{"loss": loss} for loss in LOSSES],
    verdicts=verdicts,
    draw=draw,
    look=(
        "Two inputs, score gaps C (up) and 1 (down), from p(0) = 0. The dashed line is the common "
        "limit (1, 0). The linear loss stays above it, on the side of the high score; logistic "
        "and exponential loss go below when C is large, start above and cross it for C = 2 to 4."
    ),
)
