"""Two inputs of two tokens: no start is safe, not even 0, once n >= 2."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap, plane_problem, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

# k_opt - k_other is (1, 0) and (-1.5, 0.3); the second token of each input sits at the origin.
POINTS = [[(1.0, 0.0), (0.0, 0.0)], [(-1.5, 0.3), (0.0, 0.0)]]
CASES: dict[str, Any] = {
    "equal scores, far start": {"best": (1.0, 1.0), "start": (3.0, 0.0),
                                "losses": ("linear", "logistic")},
    "unequal scores, from 0": {"best": (1.0, 0.05), "start": (0.0, 0.0),
                               "losses": ("linear", "logistic", "exponential")},
}  # fmt: skip
STEPS = 100_000
COLOURS = {"best": "C1", "local": "C0"}
STYLES = {"linear": "-", "logistic": "--", "exponential": ":"}


def problem(best: tuple[float, float]) -> kt.TokenProblem:
    """Scores (best_i, 0): token 0 is optimal in both inputs."""
    return plane_problem(POINTS, [[b, 0.0] for b in best])


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Plain gradient descent, its distance from the local and from the global direction."""
    case = CASES[params["case"]]
    two = problem(case["best"])
    best: Any = kt.att_svm(two, [0, 0])
    local: Any = kt.att_svm(two, [0, 1])
    trained: Any = kt.train(
        two, over="p", method=kt.GradientDescent(1.0), steps=STEPS, loss=params["loss"],
        start=np.array(case["start"]),
    )  # fmt: skip
    rows = []
    for step, p in zip(trained.steps, trained.path, strict=True):
        row = {"step": step, "p1": p[0], "p2": p[1], "norm": np.linalg.norm(p),
               "best1": best.direction[0], "best2": best.direction[1],
               "local1": local.direction[0], "local2": local.direction[1],
               "locally_optimal": bool(local.is_locally_optimal)}  # fmt: skip
        if row["norm"] > 0:
            row |= {"to_local": direction_gap(p, local.direction),
                    "to_best": direction_gap(p, best.direction)}  # fmt: skip
        rows.append(row)
    return rows


def verdicts(rows: Any) -> list[Verdict]:
    """Descent leaves the optimal direction for a locally optimal one."""
    end = rows.filter(rows["step"] == STEPS)
    return [
        at_least("The direction (1, 0), which gives up the second input, is locally optimal.",
                 "smallest of the solver's answers (1: yes)",
                 worst(end["locally_optimal"].cast(float), np.min), 1, "it is yes or no"),
        at_most("Plain descent goes to it, from (3, 0) and, with scores (1, .05), even from 0.",
                "largest 1 - cos to it at step 100,000", worst(end["to_local"]), 1e-2,
                "the norm grows like log t, to about 10: 1 - cos of order 1/100"),
        at_least("So it does not go to the Att-SVM of the optimal tokens, which is feasible.",
                 "smallest 1 - cos to that at step 100,000", worst(end["to_best"], np.min), 0.5,
                 "an angle of 60 degrees or more"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """One column a case: the plane, both directions, the runs; below, both distances."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(8.6, 6.4), sharey="row")
    for (plane, curve), name in zip(axes.T, CASES, strict=True):
        part = rows.filter((rows["case"] == name) & (rows["step"] > 0))
        for kind, colour in COLOURS.items():
            x, y = part[f"{kind}1"][0], part[f"{kind}2"][0]
            reach = 30 / np.hypot(x, y)
            plane.plot([0, reach * x], [0, reach * y], "--", color=colour, lw=1.2)
        for (loss,), path in part.group_by("loss", maintain_order=True):
            plane.plot(path["p1"], path["p2"], color="black", lw=1.2, ls=STYLES[str(loss)])
            for kind, colour in COLOURS.items():
                curve.loglog(path["step"], path[f"to_{kind}"], color=colour, ls=STYLES[str(loss)])
            curve.plot([], [], "black", ls=STYLES[str(loss)], label=f"{loss} loss")
        plane.plot(*CASES[name]["start"], "o", color="white", mec="black", zorder=5)
        plane.set(title=name, xlabel="$p_1$", xlim=(-1, 9.5), ylim=(-1, 6))
        curve.set(xlabel="step")
        curve.legend(loc="center right", bbox_to_anchor=(1, 0.72))
    for label, colour in (("optimal", "C1"), ("locally optimal", "C0")):
        plane.plot([], [], "--", color=colour, label=f"Att-SVM, {label} tokens")
    plane.legend(loc="upper right")
    axes[0, 0].set(ylabel="$p_2$")
    axes[1, 0].set(ylabel="1 − cos to each direction")
    return figure


EXPERIMENT = Experiment(
    name="counterexample",
    title="Global convergence is not unrestricted",
    run=run,
    params=[{"case": name, "loss": loss} for name in CASES for loss in CASES[name]["losses"]],
    verdicts=verdicts,
    draw=draw,
    look=(
        "Differences of the optimal to the other token: (1, 0) and (-1.5, 0.3). Plain gradient "
        "descent with step 1 goes along (1, 0), where the first input is solved and the second "
        "is given up, though the direction that solves both exists (orange). Below: 1 - cos to "
        "each of the two directions."
    ),
)
