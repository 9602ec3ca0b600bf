"""The regularisation path: global, in a cone, with a nonlinear head; and the order of limits."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments import joint, one_input, several_inputs
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap, plane_problem, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

ANGLE = 0.05  # half-opening of the cones, radians: every other token stays below tokens 1 and 2
RADII = np.geomspace(8, 800, 25)
# Selected token and scores of the one-input problem: the cone around p^mm of token 1.
CONES = {"locally optimal": (0.9, 0.0), "outscored by a support token": (0.5, 1.0)}
HEADS = 6  # random problems under a nonlinear head

RATIOS = (0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0)
REACHES = (4.0, 8.0, 16.0, 32.0)


def run_paths(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """1 - cos between the path and the Att-SVM, at every radius."""
    if params["case"] == "three inputs":
        three = several_inputs.problem()
        method = kt.RegularizationPath(RADII)
        return _path_rows(three, method, kt.optimal_tokens(three), 0)
    if params["case"] == "relu head":
        return _head_rows(rng)
    return _cone_rows(params["case"])


def _cone_rows(case: str) -> list[dict[str, Any]]:
    """Within ANGLE of p^mm of token 1, from norm 8 on; token 1's only support token is token 2."""
    scores = [[1.0, *CONES[case]]] if case == "locally optimal" else [[0.0, *CONES[case]]]
    one = plane_problem(one_input.POINTS, scores)
    axis: Any = kt.att_svm(one, [1]).direction
    method = kt.RegularizationPath(RADII, axis=axis, angle=ANGLE, least=float(RADII[0]))
    return _path_rows(one, method, [1], 0)


def _head_rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    """psi = sum relu(A .) is convex: under y = +1, mixing tokens costs at least linearly."""
    rows = []
    head = kt.ReluHead(rng.standard_normal((8, 8)) / 8)  # one for all: it is compiled once
    for k in range(HEADS):
        drawn = kt.random_problem(3, 4, 8, seed=int(rng.integers(2**31)))
        one = kt.TokenProblem(drawn.X, np.ones(3), drawn.v)
        best = [[float(head(x)) for x in tokens] for tokens in one.X]
        method = kt.RegularizationPath(RADII)
        rows += _path_rows(one, method, np.argmax(best, axis=1), k, head)
    return rows


def _path_rows(
    problem: kt.TokenProblem, method: Any, selected: Any, k: int, head: Any = None
) -> list[dict[str, Any]]:
    svm: Any = kt.att_svm(problem, selected)
    size = np.linalg.norm(svm.direction)
    start = None if head is None else RADII[0] * svm.direction / size
    found: Any = kt.train(problem, over="p", method=method, head=head, start=start)
    return [
        {"problem": k, "radius": R, "gap": direction_gap(p, svm.direction), "svm_norm": size,
         "settled": str(found.reason), "as_selected": bool((found.selected == selected).all())}
        for R, p in zip(found.steps, found.path, strict=True)
    ]  # fmt: skip


def verdicts_paths(rows: Any) -> list[Verdict]:
    """Each path goes where the theory sends it."""
    end = rows.filter(rows["radius"] > 0.99 * RADII[-1])
    at = {case: end.filter(end["case"] == case)["gap"] for case in end["case"].unique()}
    why = "1 - cos falls like the radius to the power -2, from about .1 at radius 10"
    return [
        at_most("The regularisation path goes to the Att-SVM of the optimal tokens.",
                "1 - cos at radius 800", worst(at["three inputs"]), 1e-4, why),
        at_most("In a narrow cone around a locally optimal direction it goes to that direction.",
                "1 - cos at radius 800", worst(at["locally optimal"]), 1e-5,
                "well inside the cone, whose edge is at .00125"),
        at_least("Where a support token outscores the selected one it leaves for the cone's edge.",
                 f"1 - cos at radius 800 (the edge: {1 - np.cos(ANGLE):.5f})",
                 worst(at["outscored by a support token"]), 0.9 * (1 - np.cos(ANGLE)),
                 "nine tenths of the way"),
        at_most("Convex nonlinear head, y = +1: it goes to the Att-SVM of the best tokens.",
                "largest 1 - cos at radius 800", worst(at["relu head"]), 1e-3,
                "the same law; in 8 dimensions solutions are longer"),
    ]  # fmt: skip


def draw_paths(rows: Any) -> Any:
    """1 - cos against the radius, one colour a case."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.2, 4))
    for k, ((case,), part) in enumerate(rows.group_by("case", maintain_order=True)):
        for j, (_, path) in enumerate(part.group_by("problem", maintain_order=True)):
            axis.loglog(path["radius"], path["gap"], color=f"C{k}",
                        label=case if j == 0 else None)  # fmt: skip
    axis.axhline(1 - np.cos(ANGLE), color="black", ls=":", lw=1, label="edge of the cone")
    axis.set(xlabel="radius R", ylabel="1 − cos(p(R), p$^{mm}$)", ylim=(1e-12, 1))
    axis.legend(loc="lower left")
    return figure


def run_order(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The angle of p at ||v|| <= r, ||p|| <= R, and where the theory puts it as R grows."""
    three = joint.problem("third does not")
    selected = [1, 1, 1]
    both: Any = kt.joint_svm(three, selected)
    full: Any = kt.att_svm(three, selected)
    start = {"v": both.label.direction, "p": full.direction}
    rows = []
    for ratio in RATIOS:
        path: Any = kt.train(three, over="vp", method=kt.RegularizationPath(REACHES, ratio=ratio),
                        start=start)  # fmt: skip
        predicted = predicted_angle(three, selected, both.label, ratio)
        rows += [
            {"ratio": ratio, "R": R, "angle": np.degrees(np.arctan2(p[1], p[0])),
             "predicted": predicted, "settled": str(path.reason), "rho": both.step_ratio,
             "full": _degrees(full.direction), "relaxed": _degrees(both.attention.direction)}
            for R, p in zip(path.steps, path.path["p"], strict=True)
        ]  # fmt: skip
    return rows


def _degrees(p: Any) -> float:
    return float(np.degrees(np.arctan2(p[1], p[0])))


def predicted_angle(problem: kt.TokenProblem, selected: Any, label: Any, ratio: float) -> float:
    """argmax over unit p of min_i (ratio m_i + <p, Delta_i>) s.t. <p, Delta_i> >= 0, in degrees.

    m_i = y_i <v^mm, x_i,sel> / ||v^mm||; two tokens an input, so Delta_i is one vector.
    """
    inputs = np.arange(problem.n)
    best = problem.X[inputs, selected]
    Delta = best - problem.X[inputs, 1 - np.asarray(selected)]
    m = problem.y * (best @ label.direction) * label.margin
    angles = np.linspace(-np.pi, np.pi, 1_440_001)
    leads = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ Delta.T
    worth = np.where((leads >= -1e-12).all(axis=1), (ratio * m + leads).min(axis=1), -np.inf)
    return float(np.degrees(angles[np.argmax(worth)]))


def verdicts_order(rows: Any) -> list[Verdict]:
    """The angle follows the theory's curve; its two ends are the full and the relaxed Att-SVM."""
    end = rows.filter(rows["R"] == REACHES[-1])
    error = np.abs(end["angle"] - end["predicted"]).to_numpy()
    curve = rows.filter(rows["R"] == REACHES[0])
    first = np.abs(curve["angle"] - curve["predicted"]).to_numpy()
    beyond = end.filter(end["ratio"] >= end["rho"])
    return [
        at_most("At norms r, R the direction of p maximises min_i (r m_i + R <p, Delta_i>) subject "
                "to <p, Delta_i> >= 0.", "largest distance from it in degrees, R = 32",
                worst(error), 1.8, "corrections of size 1/R: 1/32 is 1.8 degrees"),
        at_most("The distance falls as R grows.",
                "largest distance at R = 32 over that at R = 4", worst(error) / worst(first),
                0.25, "corrections of size 1/R give .125"),
        at_most("From r/R = rho* on it is the relaxed Att-SVM.",
                "largest distance from it in degrees there, R = 32",
                worst(np.abs(beyond["angle"] - beyond["relaxed"])), 1.8, "as above"),
        at_most("As r/R falls it becomes the full Att-SVM.",
                "distance from it in degrees at r/R = .03, R = 32",
                worst(np.abs(end["angle"] - end["full"])[:1]), 1.8, "as above"),
    ]  # fmt: skip


def draw_order(rows: Any) -> Any:
    """Angle of p against r/R, one curve for each R, over the theory's."""
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.2, 4))
    for k, R in enumerate(REACHES):
        part = rows.filter(rows["R"] == R)
        axis.plot(part["ratio"], part["angle"], "o-", ms=3, lw=1, color=f"C{k}", label=f"R = {R:g}")
    axis.plot(part["ratio"], part["predicted"], "k--", lw=1.2, label="limit in theory")
    for name in ("full", "relaxed"):
        axis.axhline(rows[name][0], color="0.6", lw=0.8, ls=":")
        right = name == "full"  # the other corner is where the curves end
        axis.text(RATIOS[-1 if right else 0], rows[name][0], f"{name} Att-SVM", color="0.4",
                  ha="right" if right else "left", va="bottom")  # fmt: skip
    axis.axvline(rows["rho"][0], color="0.6", lw=0.8, ls=":")
    axis.set(xscale="log", xlabel="r / R = ‖v‖ / ‖p‖", ylabel="angle of p, degrees")
    axis.legend()
    return figure


PATHS = Experiment(
    name="regularisation-path",
    title="Regularisation path: global, in a cone, nonlinear head",
    run=run_paths,
    params=[{"case": case} for case in ("three inputs", *CONES, "relu head")],
    verdicts=verdicts_paths,
    draw=draw_paths,
    look=(
        "argmin of the loss over ||p|| <= R. Free, it goes to the Att-SVM of the optimal tokens; "
        "kept in a narrow cone (.05 radians), to a locally optimal direction; but where a support "
        "token outscores the selected one, the best direction at norm R is at the cone's edge. The "
        "last curves have a relu head instead of a linear one; the solver, which finds local "
        "minima, starts on their side."
    ),
)
ORDER = Experiment(
    name="order-of-limits",
    title="Order of limits in the joint problem",
    run=run_order,
    verdicts=verdicts_order,
    draw=draw_order,
    look=(
        "The joint problem whose third input is off the label margin, at ||v|| <= r, ||p|| <= R. "
        "With v small beside p, p is the full Att-SVM's direction; from r/R = rho* = 1 on, the "
        "relaxed one's; continuous between."
    ),
)
