"""How often training from 0 ends at the global, a local, a non-local or a finite limit."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap
from keytokens.experiments.verdict import Verdict, at_least, at_most

DIMENSIONS = (2, 4, 8, 16, 32, 64)
SETTINGS = {"p": [(4, 5)], "W": [(5, 5), (6, 8)]}
BLOCK = 100  # problems a cell: one compiled batch
STEPS = 20_000
SETTING = ("over", "n", "T", "d")
KINDS = ("global", "local", "non-local", "undecided", "finite")
COLOURS = ("C0", "C5", "C1", "white", "0.75")
SATURATED = 1e-3  # largest 1 - s_selected of a run that has chosen
# A diverging run doubles its norm in the second half of its steps; one that circles a finite
# minimiser, however far out (norm 70 is seen), keeps it.
GROWN = 1.2


def params(quick: bool) -> list[dict[str, Any]]:
    """Every parameter, shape and dimension."""
    dims = DIMENSIONS[::2] if quick else DIMENSIONS
    return [
        {"over": over, "n": n, "T": T, "d": d}
        for over, shapes in SETTINGS.items()
        for n, T in shapes
        for d in dims
    ]


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One row a random problem: its kind, from the run and the Att-SVM of what it selects."""
    n, T, d, over = (params[k] for k in ("n", "T", "d", "over"))
    problems = kt.random_problem(n, T, d, seed=int(rng.integers(2**31)), batch=BLOCK)
    method, save = kt.NormalizedDescent(0.1), [STEPS // 2, STEPS]
    ends: Any = kt.train(problems, over=over, method=method, steps=STEPS, save=save)
    svm: Any = kt.att_svm(problems, ends.selected, over=over)
    best = (ends.selected == kt.optimal_tokens(problems)).all(axis=-1)
    missing = 1 - ends.attention.max(axis=-1).min(axis=-1)
    grew = has_grown(ends.norms)
    rows = []
    for k in range(BLOCK):
        gap = direction_gap(ends.params[k].ravel(), svm.direction[k].ravel())
        chosen = bool(missing[k] <= SATURATED and svm.is_feasible[k])
        kind = _kind(grew[k], chosen, best[k], svm.is_locally_optimal[k])
        rows.append({"problem": k, "kind": kind, "missing": missing[k], "gap": gap,
                     "half_norm": ends.norms[k, -2], "norm": ends.norms[k, -1]})  # fmt: skip
    return rows


def has_grown(norms: Any) -> Any:
    """Whether the norm at the end exceeds the one half-way. norms (..., 2)"""
    return norms[..., -1] > GROWN * norms[..., -2]


def _kind(grew: bool, chosen: bool, best: bool, locally_optimal: bool) -> str:
    if not grew:
        return "finite"
    if not chosen:
        return "undecided"
    return "global" if best else "local" if locally_optimal else "non-local"


def verdicts(rows: Any) -> list[Verdict]:
    """Infinite limits are locally optimal; the global share grows with d."""
    import polars as pl

    chosen = rows.filter(~pl.col("kind").is_in(["finite", "undecided"]))
    top = rows["d"].max()
    wide, narrow = rows.filter(pl.col("d") == top), rows.filter(pl.col("d") == 2)
    return [
        at_most("Runs that diverge go to locally optimal selections.",
                "share of non-local ones among them",
                (chosen["kind"] == "non-local").mean(), 0.02,
                "none in theory; where two tokens nearly tie, 20,000 steps are too few for some"),
        at_most("In large dimension every limit is infinite.",
                f"share of finite or undecided limits, d = {top}",
                wide["kind"].is_in(["finite", "undecided"]).mean(), 0.02,
                "d >= n (T - 1) makes every selection of p feasible, and a W has d^2 entries"),
        at_least("Finite limits belong to small dimension.",
                 f"share of finite limits at d = 2 less that at d = {top}, training p",
                 _share(narrow) - _share(wide), 0.3, "a change the eye sees in the figure"),
        at_most("The direction is the Att-SVM's where a run diverges.",
                f"median 1 - cos, d = {top}",
                wide.join(chosen, on=[*SETTING, "seed", "problem"], how="semi")["gap"].median(),
                1e-2, "norms are 50 to 100 times the solution's, or more"),
    ]  # fmt: skip


def _share(rows: Any) -> float:
    part = rows.filter(rows["over"] == "p")
    return float((part["kind"] == "finite").mean())


def draw(rows: Any) -> Any:
    """As printed: stacked shares against d, one panel a setting."""
    from matplotlib import pyplot

    panels = [(over, n, T) for over, shapes in SETTINGS.items() for n, T in shapes]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(9.2, 3.2), sharey=True)
    for axis, (over, n, T) in zip(axes, panels, strict=True):
        part = rows.filter((rows["over"] == over) & (rows["n"] == n) & (rows["T"] == T))
        dims = part["d"].unique().sort().to_list()
        base = np.zeros(len(dims))
        for k, kind in enumerate(KINDS):
            share = [
                100 * float((part.filter(part["d"] == d)["kind"] == kind).mean()) for d in dims
            ]
            axis.bar(range(len(dims)), share, bottom=base, label=kind, width=0.8,
                     color=COLOURS[k], edgecolor="0.5",
                     hatch="///" if kind == "undecided" else None)  # fmt: skip
            base += share
        axis.set(title=f"{over}: n = {n}, T = {T}", xlabel="d", xticks=range(len(dims)),
                 xticklabels=dims)  # fmt: skip
    axes[0].set(ylabel="per cent of problems")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


EXPERIMENT = Experiment(
    name="percentages",
    title="Percentages of global, local and finite limits",
    run=run,
    params=params,
    seeds=lambda quick: 1 if quick else 5,
    verdicts=verdicts,
    draw=draw,
    left_out="400 of 500 problems in each setting, and d = 4, 16, 64",
    look=(
        "20,000 normalised steps from 0 on unit-norm Gaussian data. A run whose norm stops growing "
        "has a finite limit; one that grows and saturates is global (the optimal tokens), local "
        "(another locally optimal selection) or non-local; one that grows and has not yet chosen, "
        "as many in two dimensions, is undecided. After few steps undecided runs pass for finite."
    ),
)
