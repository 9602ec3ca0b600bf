"""The key inequality <grad L(p), p^mm(opt)> < 0: why descent cannot rest short of the Att-SVM."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.verdict import Verdict, at_least, at_most


def run(params: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """cos(grad L(p), p^mm(opt)) at 200 random p; token 0 is the best of each input."""
    n, T, d = 3, 4, 12
    others = rng.uniform(-1, 0.9, (n, 1 if params["others"] == "equal" else T - 1))
    scores = np.hstack([np.ones((n, 1)), np.broadcast_to(others, (n, T - 1))])
    X = np.dstack([rng.standard_normal((n, T, d)), scores])
    v, W = np.eye(d + 1)[d], np.eye(d + 1)[:, :d]  # coordinate d is the score, hidden from p
    problem = kt.TokenProblem(X, np.ones(n), v, W=W)
    p = rng.standard_normal((200, d)) * np.geomspace(0.03, 3, 200)[:, None]
    limit: Any = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
    return {"norm": np.linalg.norm(p, axis=1), "cos": kt.key_inequality(problem, p, limit)}


def verdicts(rows: Any) -> list[Verdict]:
    """It holds where the other scores of an input are equal, and not in general."""
    equal, unequal = (rows.filter(rows["others"] == o)["cos"].max() for o in ("equal", "unequal"))
    return [
        at_most("With equal non-optimal scores in each input, every p moves towards p^mm(opt).",
                "largest cos(grad L(p), p^mm)", equal, 0, "the inequality allows no exception"),
        at_least("With unequal ones, some p moves away from it.",
                 "largest cos(grad L(p), p^mm)", unequal, 0.01, "well above rounding"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """Each p is a point: how far out it is, and which way it is pulled."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8.2, 3.2), sharey=True)
    for axis, others in zip(axes, ("equal", "unequal"), strict=True):
        part = rows.filter(rows["others"] == others)
        axis.semilogx(part["norm"], part["cos"], ".", ms=3)
        axis.axhline(0, color="black", lw=0.8)
        axis.set(title=f"non-optimal scores {others}", xlabel="‖p‖")
    axes[0].set(ylabel="cos(∇L(p), p$^{mm}$)")
    return figure


EXPERIMENT = Experiment(
    name="key-inequality",
    title="The inequality behind global convergence",
    run=run,
    params=[{"others": "equal"}, {"others": "unequal"}],
    seeds=lambda quick: 5 if quick else 20,
    verdicts=verdicts,
    draw=draw,
    look="A point above the line is a p from which descent moves away from the Att-SVM direction.",
    left_out="15 of 20 seeds",
)
