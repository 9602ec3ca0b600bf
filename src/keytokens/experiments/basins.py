"""Which start ends at which selection: a map over the plane."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments import counterexample, joint, one_input, several_inputs
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import plane_problem, repeated
from keytokens.experiments.verdict import Verdict, at_least

REACH = 4.0  # starts in [-4, 4]^2
STEPS = 2000
SHADES = ("#cfe3f3", "#e8914a", "#9bcf95", "#b9b5d8")  # told apart in grey print too
LINES = ("#08519c", "#5a1d00", "#00441b", "#3f007d")
PROBLEMS = ("one input, global", "one input, local", "three inputs", "two inputs, counterexample")
JOINT = {"joint, ‖v‖/‖p‖ → 1": 1.0, "joint, ‖v‖/‖p‖ → 0.1": 0.1}  # its step ratios


def problem(name: str) -> kt.TokenProblem:
    """The figures' problems in the plane."""
    if name.startswith("one input"):
        return plane_problem(one_input.POINTS, one_input.SCORES[name.split(", ")[1]])
    return (
        several_inputs.problem() if name == "three inputs" else counterexample.problem((1.0, 1.0))
    )


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """One row a start: where normalised descent ends, and what the Att-SVM says of it."""
    side = np.linspace(-REACH, REACH, params["grid"])
    starts = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    if params["problem"] in JOINT:
        return _joint_rows(starts, JOINT[params["problem"]])
    one = problem(params["problem"])
    ends: Any = kt.train(repeated(one, len(starts)), over="p", method=kt.NormalizedDescent(0.1),
                    steps=STEPS, start=starts, save=1)  # fmt: skip
    return _rows(starts, ends.selected, lambda end: _kind(one, end))


def _joint_rows(starts: Any, ratio: float) -> list[dict[str, Any]]:
    """The joint problem with its third input off the label margin: every p(0), one v(0)."""
    one = joint.problem("third does not")
    v = np.broadcast_to(joint.START["v"], starts.shape)
    many, method = repeated(one, len(starts)), kt.NormalizedDescent(0.1, ratio)
    start = {"v": v, "p": starts}
    ends: Any = kt.train(many, over="vp", method=method, steps=STEPS, start=start, save=1)
    return _rows(starts, ends.selected, lambda end: _joint_kind(one, end))


def _rows(starts: Any, selected: Any, kind_of: Any) -> list[dict[str, Any]]:
    ends = [tuple(map(int, s)) for s in selected]
    kinds = {end: kind_of(end) for end in set(ends)}
    return [
        {"x": x, "y": y, "selected": "-".join(map(str, end)), **kinds[end]}
        for (x, y), end in zip(starts, ends, strict=True)
    ]


def _joint_kind(one: kt.TokenProblem, end: tuple[int, ...]) -> dict[str, Any]:
    """Whether a head separates the labels on these tokens; and where p goes if one does."""
    svm: Any = kt.joint_svm(one, end)
    if svm.label.direction is None:
        return {"kind": "not separable", "svm1": None, "svm2": None}
    p = svm.attention.direction
    return {"kind": "separable", "svm1": p[0], "svm2": p[1]}


def _kind(one: kt.TokenProblem, end: tuple[int, ...]) -> dict[str, Any]:
    """global, local, or neither; and the direction the theory sends such starts to."""
    svm: Any = kt.att_svm(one, end)
    if svm.direction is None:
        return {"kind": "infeasible", "svm1": None, "svm2": None}
    is_best = end == tuple(map(int, kt.optimal_tokens(one)))
    kind = "global" if is_best else "local" if svm.is_locally_optimal else "neither"
    return {"kind": kind, "svm1": svm.direction[0], "svm2": svm.direction[1]}


def verdicts(rows: Any) -> list[Verdict]:
    """Every end is a locally optimal selection; each has a basin."""
    import polars as pl

    fixed = rows.filter(~pl.col("problem").is_in(list(JOINT)))
    optimal = fixed["kind"].is_in(["global", "local"])
    easy = rows.filter(pl.col("problem").is_in(["one input, global", "three inputs"]))
    cones = rows.filter(pl.col("kind") == "local")
    return [
        at_least("With a fixed head every start ends at a locally optimal selection.",
                 "share of starts",
                 optimal.mean(), 1, "the theory leaves no other infinite limit"),
        at_least("Where no other selection is locally optimal, every start ends at the best.",
                 "share of starts", (easy["kind"] == "global").mean(), 1,
                 "one input, and three inputs whose other scores are equal"),
        at_least("Where another one is, it has a basin of its own.",
                 "smallest share of starts that end there, over two problems",
                 cones.height and cones.group_by("problem").len()["len"].min()
                 / rows.group_by("problem").len()["len"][0] * (cones["problem"].n_unique() == 2),
                 0.01, "a cone far out always belongs to it: more than single points of the grid"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """One map a problem; dashed: the Att-SVM direction of each selection."""
    from matplotlib import pyplot
    from matplotlib.colors import ListedColormap

    figure, axes = pyplot.subplots(2, 3, figsize=(9.6, 7.6), sharex=True, sharey=True)
    for axis, name in zip(axes.T.flat, (*PROBLEMS, *JOINT), strict=True):
        part = rows.filter(rows["problem"] == name)
        ends = part["selected"].unique(maintain_order=True).to_list()
        best = ("global", "separable")
        ends.sort(key=lambda end: part.filter(part["selected"] == end)["kind"][0] not in best)
        side = int(np.sqrt(part.height))
        codes = np.array([ends.index(end) for end in part["selected"]]).reshape(side, side)
        shades = ListedColormap(SHADES[: len(ends)])
        axis.imshow(codes, origin="lower", extent=(-REACH, REACH) * 2, cmap=shades,
                    vmin=-0.5, vmax=len(ends) - 0.5, interpolation="nearest")  # fmt: skip
        _draw_ends(axis, part, ends)
        axis.set_title(name, pad=6 + 13 * len(ends))
        axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    for axis in axes[1]:
        axis.set(xlabel="$p_1(0)$")
    for axis in axes[:, 0]:
        axis.set(ylabel="$p_2(0)$")
    return figure


def _draw_ends(axis: Any, part: Any, ends: list[str]) -> None:
    for k, end in enumerate(ends):
        first = part.filter(part["selected"] == end).row(0, named=True)
        colour = LINES[k]
        axis.plot([], [], "s", color=SHADES[k], mec=colour, ms=8,
                  label=f"{'tokens' if '-' in end else 'token'} {end}: {first['kind']}",
                  )  # fmt: skip
        if first["svm1"] is not None:
            x, y = np.array([first["svm1"], first["svm2"]]) / np.hypot(first["svm1"], first["svm2"])
            axis.plot([0, 9 * x], [0, 9 * y], "--", color=colour, lw=1.2)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 0.99))


def params(quick: bool) -> list[dict[str, Any]]:
    """A coarser grid when quick."""
    return [{"problem": name, "grid": 33 if quick else 81} for name in (*PROBLEMS, *JOINT)]


EXPERIMENT = Experiment(
    name="basins",
    title="Basins: which start ends where",
    run=run,
    params=params,
    verdicts=verdicts,
    draw=draw,
    left_out="the fine grid (33 x 33 starts of 81 x 81 are run)",
    look=(
        "Each point is a start p(0) of normalised descent (2,000 steps of 0.1), coloured by the "
        "tokens it ends at; dashed, the Att-SVM direction of those tokens. The local selections' "
        "basins open as cones around their directions. Right: the joint problem whose third input "
        "is off the label margin, from v(0) = (-1, 0); where v is slow beside p, many starts end "
        "on tokens whose labels no head separates."
    ),
)
