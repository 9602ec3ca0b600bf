"""Mirror descent with potential |.|_q^q / q goes to the l_q-norm Att-SVM."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import bands
from keytokens.experiments.verdict import Verdict, at_least, at_most

STEP = {1.75: 0.1, 2.0: 0.1, 3.0: 1.0}  # |w|_q grows like (step t)^(1 / (q - 1)): slow for q = 3
BLOCK = 10


def params(quick: bool) -> list[dict[str, Any]]:
    """Each geometry, as long as time allows."""
    return [{"q": q, "steps": 10_000 if quick else 40_000} for q in STEP]


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Directional Bregman divergence of W to the l_q Att-SVM of its selection, for every q."""
    q, steps = params["q"], params["steps"]
    problems = kt.random_problem(n=6, T=8, d=10, seed=int(rng.integers(2**31)), batch=BLOCK)
    start = rng.standard_normal((BLOCK, 10, 10))
    run: Any = kt.train(problems, over="W", method=kt.MirrorDescent(q, STEP[q]), steps=steps,
                   start=start, save=60)  # fmt: skip
    rows = []
    for goal in STEP:
        svm: Any = kt.att_svm(problems, run.selected, over="W", norm="l2" if goal == 2 else goal)
        for k in range(BLOCK):
            if not svm.is_feasible[k]:
                continue
            far = divergence(svm.direction[k].ravel(), run.path[k].reshape(-1, 100), goal)
            norms = np.sum(np.abs(run.path[k]) ** q, axis=(1, 2)) ** (1 / q)
            rows += [
                {"goal": goal, "problem": k, "step": s, "divergence": f, "norm": n}
                for s, f, n in zip(run.steps, far, norms, strict=True)
                if s
            ]
    return rows


def divergence(goal: Any, path: Any, q: float) -> Any:
    """D(g, w) = psi(g) - psi(w) - <grad psi(w), g - w>, both of l_q norm 1, psi = |.|_q^q / q."""
    g = goal / np.sum(np.abs(goal) ** q) ** (1 / q)
    w = path / np.sum(np.abs(path) ** q, axis=-1, keepdims=True) ** (1 / q)
    return 1 - np.sum(np.sign(w) * np.abs(w) ** (q - 1) * g, axis=-1)


def verdicts(rows: Any) -> list[Verdict]:
    """Each geometry is nearest to its own solution."""
    import polars as pl

    end = rows.filter(pl.col("step") == pl.col("steps"))
    own = end.filter(pl.col("q") == pl.col("goal"))
    found = [
        at_most(f"With q = {q:g} the direction converges to the l_q Att-SVM.",
                "median directional Bregman divergence at the end",
                own.filter(pl.col("q") == q)["divergence"].median(), bar, why)
        for q, bar, why in (
            (1.75, 1e-2, "norms of several hundred times the solution's"),
            (2.0, 1e-2, "it is 1 - cos here, at norms of several hundred"),
            (3.0, 5e-2, "the norm grows only like the square root of the steps"),
        )
    ]  # fmt: skip
    wide = end.pivot("goal", index=["q", "seed", "problem"], values="divergence").drop_nulls()
    nearest = wide.select(str(q) for q in STEP).to_numpy().argmin(axis=1)
    return [
        *found,
        at_least("Each geometry is nearer to its own solution than to the others'.",
                 "share of runs", (np.array(list(STEP))[nearest] == wide["q"].to_numpy()).mean(),
                 0.9, "the solutions of neighbouring q can be close to each other"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """As printed: one panel a potential, one curve a solution."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(STEP), figsize=(9.6, 3.2), sharey=True)
    for axis, q in zip(axes, STEP, strict=True):
        for k, goal in enumerate(STEP):
            part = rows.filter((rows["q"] == q) & (rows["goal"] == goal))
            bands(axis, part, "step", "divergence", f"C{k}", f"ℓ$_{{{goal:g}}}$ Att-SVM")
        axis.set(title=f"mirror descent, q = {q:g}, step {STEP[q]:g}", xlabel="step",
                 xscale="log", yscale="log")  # fmt: skip
    axes[0].set(ylabel="directional Bregman divergence")
    axes[0].legend(loc="lower left")
    return figure


EXPERIMENT = Experiment(
    name="mirror",
    title="Mirror descent and the ℓ_q Att-SVM",
    run=run,
    params=params,
    seeds=lambda quick: 1 if quick else 3,
    verdicts=verdicts,
    draw=draw,
    left_out="20 of 30 problems and three quarters of the steps",
    look=(
        "Random problems (n = 6, T = 8, d = 10), W from N(0, 1) entries. Median and quartiles of "
        "the directional Bregman divergence to the l_q Att-SVM of the selected tokens, each in "
        "its own potential. In every panel the curve of the panel's own q falls furthest."
    ),
)
