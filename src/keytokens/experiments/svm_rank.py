"""The rank of the Att-SVM over W, Frobenius and nuclear, against d, n and T."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

DIMENSIONS = (1, 2, 3, 4, 5, 10, 15, 20)
SIZES = (5, 10, 15)
SHAPES = [(n, 5) for n in SIZES] + [(5, T) for T in SIZES[1:]]
TOLERANCE = 1e-7
DRAWS = 100  # a draw whose program is infeasible is replaced, up to this many in all


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The ranks of one feasible random problem; how many draws it took."""
    n, T, d = params["n"], params["T"], params["d"]
    for draw in range(1, DRAWS + 1):
        problem = kt.random_problem(n, T, d, seed=int(rng.integers(2**31)))
        best = kt.optimal_tokens(problem)
        plain: Any = kt.att_svm(problem, best, over="W")
        if plain.is_feasible:
            nuclear: Any = kt.att_svm(problem, best, over="W", norm="nuclear")
            return [{"draws": draw, "found": True, "frobenius": rank(plain.direction),
                     "nuclear": rank(nuclear.direction)}]  # fmt: skip
    return [{"draws": DRAWS, "found": False, "frobenius": None, "nuclear": None}]


def rank(W: Any) -> int:
    """Singular values above 1e-7 of the largest."""
    values = np.linalg.svd(W, compute_uv=False)
    return int((values > TOLERANCE * values[0]).sum())


def params(quick: bool) -> list[dict[str, int]]:
    """Every d with every shape."""
    return [{"n": n, "T": T, "d": d} for n, T in SHAPES for d in DIMENSIONS]


def verdicts(rows: Any) -> list[Verdict]:
    """Rank bounds, and the nuclear norm's low rank."""
    import polars as pl

    found = rows.filter(pl.col("found"))
    wide = found.filter(pl.col("d") == 20)
    excess = found["frobenius"] - found.select(pl.min_horizontal("n", "d")).to_series()
    return [
        at_most("The Frobenius solution sum_i (sum_t lambda_it (x_i,sel - x_it)) z_i^T has rank "
                "at most min(n, d).", "largest excess over it", worst(excess), 0,
                "each input adds one rank-one term"),
        at_least("Once d is large the Frobenius rank is all of min(n, d).",
                 "share of problems with d = 20",
                 (wide["frobenius"] == wide.select(pl.min_horizontal("n", "d")).to_series()).mean(),
                 0.95, "generic queries are independent, and an input may go without support"),
        at_most("The nuclear solution has lower rank.",
                "mean nuclear rank over mean Frobenius rank, d = 20",
                wide["nuclear"].mean() / wide["frobenius"].mean(), 0.75,
                "the published curves differ by a third and more"),
        at_least("Draws with d >= 5 are feasible.", "share of first draws",
                 (rows.filter(pl.col("d") >= 5)["draws"] == 1).mean(), 0.5,
                 "d^2 unknowns exceed the 20 rows of the smallest shape from d = 5 on"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """As printed: rank against d, one panel for n and one for T; below, the infeasible share."""
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(8.2, 5), sharex=True, sharey="row",
                                   height_ratios=(3, 1.2))  # fmt: skip
    for column, name in enumerate(("n", "T")):
        other = "T" if name == "n" else "n"
        for k, size in enumerate(SIZES):
            part = rows.filter((pl.col(name) == size) & (pl.col(other) == 5))
            lost = (1 - pl.len() / pl.col("draws").sum()).alias("lost")
            at = part.group_by("d").agg(pl.col("frobenius", "nuclear").mean(), lost).sort("d")
            for norm, ls in (("frobenius", "-o"), ("nuclear", "--s")):
                axes[0, column].plot(at["d"], at[norm], ls, color=f"C{k}", ms=4,
                                     label=f"{name} = {size}, {norm.capitalize()}")  # fmt: skip
            axes[1, column].plot(at["d"], at["lost"], "-", color=f"C{k}", ms=4)
        axes[0, column].set(title=f"{other} = 5")
        axes[0, column].legend(fontsize=7)
        axes[1, column].set(xlabel="d", ylim=(-0.05, 1.05), xticks=(1, 3, 5, 10, 15, 20))
    axes[0, 0].set(ylabel="rank of W")
    axes[1, 0].set(ylabel="infeasible draws")
    return figure


EXPERIMENT = Experiment(
    name="svm-rank",
    title="Rank of the Att-SVM solution",
    run=run,
    params=params,
    seeds=lambda quick: 2 if quick else 40,
    verdicts=verdicts,
    draw=draw,
    left_out="38 of 40 problems for each d, n and T",
    look=(
        "Mean rank (singular values above 1e-7 of the largest) of the W that separates the "
        "optimal tokens, unit-norm Gaussian data. The Frobenius rank grows to min(n, d); the "
        "nuclear one stays below. Below: the share of draws whose program is infeasible and which "
        "were drawn again."
    ),
)
