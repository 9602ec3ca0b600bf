"""Three inputs of seven tokens: the direction, the softmax probability and the norm."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.attention import attention_weights, logits_of_p
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.one_input import draw_limit
from keytokens.experiments.tools import (
    direction_gap,
    plane_problem,
    repeated,
    slope,
    textbook_descent,
    worst,
)
from keytokens.experiments.verdict import Verdict, at_least, at_most

# N(0, 0.2^2) tokens plus the shifts (1, 0), 3 x (-1, 1), 3 x (-.5, -.5); token 0 is the best.
POINTS = [
    [(0.774832, -0.230472), (-1.086776, 1.169742), (-1.063203, 0.576956), (-1.252667, 1.069997),
     (-0.476032, -0.252468), (-0.549456, -0.770531), (-0.386670, -0.341298)],
    [(0.688981, -0.068272), (-0.849962, 0.882900), (-0.963304, 1.277873), (-0.810740, 0.831265),
     (-0.493681, -0.598535), (-0.412061, -0.477518), (-0.411769, -0.520462)],
    [(0.942066, 0.010501), (-0.539559, 0.706221), (-1.113850, 1.183994), (-0.742025, 0.704365),
     (-0.594624, -0.234945), (-0.609949, -0.595967), (-0.713396, -0.277012)],
]  # fmt: skip
SCORES = [[1.0] + [0.5] * 6] * 3
STARTS = (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)  # p(0) = (x, 0)
STEPS = 1000
METHODS = {"normalised": 0.1, "plain": 1.0}  # name: step


def problem() -> kt.TokenProblem:
    """The published tokens."""
    return plane_problem(POINTS, SCORES)


def run_directions(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The path from every start, safe and as notebooks compute it, against p^mm(opt)."""
    three = problem()
    limit: Any = kt.att_svm(three, kt.optimal_tokens(three)).direction
    starts = np.array([[x, 0.0] for x in STARTS])
    run: Any = kt.train(
        repeated(three, len(STARTS)), over="p", method=kt.NormalizedDescent(0.1), steps=STEPS,
        start=starts,
    )  # fmt: skip
    rows = []
    for k, start in enumerate(STARTS):
        book = textbook_descent(three.keys, np.array(SCORES), starts[k], STEPS)[run.steps]
        for name, path in (("safe float64", run.path[k]), ("textbook float32", book)):
            common = {"arithmetic": name, "start": start, "best": int((run.selected[k] == 0).sum()),
                      "svm1": limit[0], "svm2": limit[1]}  # fmt: skip
            gaps = direction_gap(path, limit)
            rows += [
                common | {"step": step, "p1": p[0], "p2": p[1], "gap": gap}
                for step, p, gap in zip(run.steps, path, gaps, strict=True)
            ]
    return rows


def verdicts_directions(rows: Any) -> list[Verdict]:
    """All starts reach the best tokens; the distance keeps falling."""
    import polars as pl

    end = rows.filter(pl.col("step") == STEPS)
    safe = end.filter(pl.col("arithmetic") == "safe float64")
    book = end.filter(pl.col("arithmetic") == "textbook float32")
    return [
        at_least("Every start selects the best token of every input.",
                 "least number of inputs, of 3", worst(safe["best"], np.min), 3,
                 "the other scores are equal in each input, and the figure shows no exception"),
        at_most("The direction converges to the Att-SVM of the best tokens.",
                "largest 1 - cos at step 1,000", worst(safe["gap"]), 1e-3,
                "1 - cos falls like 1/norm^2, and the norm is about 100"),
        at_least("In float32 the textbook form has stopped far from where the safe form is.",
                 "ratio of the largest 1 - cos, textbook to safe, at step 1,000",
                 worst(book["gap"]) / worst(safe["gap"]), 2,
                 "its gradient is exactly 0 from about step 430: less than half the norm, so more "
                 "than twice the distance"),
    ]  # fmt: skip


def draw_directions(rows: Any) -> Any:
    """Left: tokens and paths. Middle: all the steps. Right: 1 - cos over time."""
    from matplotlib import pyplot

    figure, (near, far, curve) = pyplot.subplots(1, 3, figsize=(10.2, 3.5), width_ratios=(4, 3, 4))
    _draw_tokens(near)
    safe = rows.filter(rows["arithmetic"] == "safe float64")
    for (start,), path in safe.group_by("start", maintain_order=True):
        first = path.filter(path["step"] <= 200)
        near.plot(first["p1"], first["p2"], color="C0", lw=1)
        near.plot(start, 0, "o", color="white", mec="black", ms=4, zorder=4)
    for name, colour, width in (("textbook float32", "C3", 2.4), ("safe float64", "C0", 0.9)):
        part = rows.filter((rows["arithmetic"] == name) & (rows["step"] > 0))
        for _, path in part.group_by("start", maintain_order=True):
            far.plot(path["p1"], path["p2"], color=colour, lw=width)
            curve.loglog(path["step"], path["gap"], color=colour, lw=width)
        curve.plot([], [], color=colour, lw=width, label=name)
    for axis, reach in ((near, 9), (far, 102)):
        draw_limit(axis, safe, reach)
        axis.set(xlabel="$p_1$", ylabel="$p_2$")
    near.set(xlim=(-2, 3), ylim=(-2.2, 2), aspect="equal", title="200 steps from (x, 0)")
    far.set(title=f"{STEPS:,} steps")
    curve.set(xlabel="step", ylabel="1 − cos(p, p$^{mm}$)", title="distance", ylim=(1e-8, 5))
    curve.legend(loc="lower left")
    return figure


def _draw_tokens(axis: Any) -> None:
    """A marker an input; the best token in orange."""
    for points, marker in zip(POINTS, "os^", strict=True):
        x, y = np.array(points).T
        axis.plot(x[1:], y[1:], marker, color="0.6", ms=5, ls="")
        axis.plot(x[0], y[0], marker, color="C1", ms=7, zorder=5)


def run_probability(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Softmax probability of the best token and ||p|| along a run from 0."""
    three = problem()
    kind = kt.NormalizedDescent if params["method"] == "normalised" else kt.GradientDescent
    run: Any = kt.train(three, over="p", method=kind(METHODS[params["method"]]), steps=STEPS)
    size = 1 / kt.att_svm(three, kt.optimal_tokens(three)).margin
    rows = []
    for step, p in zip(run.steps, run.path, strict=True):
        rest = attention_weights(logits_of_p(three.keys, p))[:, 1:].sum(-1)
        rows.append({"step": step, "norm": np.linalg.norm(p), "probability": (1 - rest).mean(),
                     "missing": rest.max(), "svm_norm": size})  # fmt: skip
    return rows


def verdicts_probability(rows: Any) -> list[Verdict]:
    """The two growth laws, to leading order."""
    import polars as pl

    size = rows["svm_norm"][0]
    late = rows.filter((pl.col("step") >= 100) & (pl.col("missing") > 1e-250))
    normal, plain = (late.filter(pl.col("method") == name) for name in METHODS)
    rate = -slope(normal["step"], np.log(normal["missing"])) * size / 0.1
    growth = slope(np.log(plain["step"]), plain["norm"]) / size
    return [
        at_most("Normalised descent saturates exponentially: 1 - s_opt is about "
                "exp(-0.1 t / |p_mm|).", "relative error of the fitted rate from step 100 on",
                abs(rate - 1), 0.05, "a leading-order law, ten times past its first step"),
        at_most("Plain descent grows like |p_mm| log t.",
                "relative error of the fitted slope from step 100 on", abs(growth - 1), 0.25,
                "log log t terms are still worth 1/log(1000) = 14 % at step 1,000"),
    ]  # fmt: skip


def draw_probability(rows: Any) -> Any:
    """As printed: probability and norm against the step."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8.2, 3.2))
    for (name,), path in rows.group_by("method", maintain_order=True):
        for axis, column in zip(axes, ("probability", "norm"), strict=True):
            axis.plot(path["step"], path[column], label=f"{name}, step {METHODS[name]:g}")
    axes[0].set(xlabel="step", ylabel="softmax probability of the best token", xlim=(0, 400))
    axes[1].set(xlabel="step", ylabel="‖p‖")
    axes[0].legend()
    return figure


DIRECTIONS = Experiment(
    name="several-inputs",
    title="Several inputs: every start reaches the Att-SVM direction",
    run=run_directions,
    verdicts=verdicts_directions,
    draw=draw_directions,
    look=(
        "Left: the tokens of three inputs (one marker each, best tokens in orange) and the first "
        "200 steps of p from six starts (x, 0); dashed, the Att-SVM direction. Middle: all the "
        "steps. Right: the distance from the dashed direction, which falls like the norm to the "
        "power -2 once the paths have crossed it (the dip, near step 300); the textbook form in "
        "float32 freezes where it has no gradient left."
    ),
)
PROBABILITY = Experiment(
    name="probability",
    title="Softmax probability and norm: normalised against plain descent",
    run=run_probability,
    params=[{"method": name} for name in METHODS],
    verdicts=verdicts_probability,
    draw=draw_probability,
    look=(
        "The same three inputs from p(0) = 0. Normalised descent gives the best token all the "
        "weight within a few hundred steps, its norm growing linearly; plain descent with step 1 "
        "grows like log t."
    ),
)
