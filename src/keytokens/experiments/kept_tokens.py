"""Several kept tokens: W is a finite part plus a growing direction (ReLU head, next-token graphs).

W ~ W_fin + R W_dir: W_fin reproduces the finite log-ratios among the tokens an input keeps, W_dir
has equality among them and >= 1 against the rest.
"""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens._extras import require
from keytokens.attention import logits_of_W
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap
from keytokens.experiments.verdict import Verdict, at_least, at_most

DIMENSIONS = (4, 6, 8, 10)
CASES = {
    "published": "ReLU head, 2,000 normalised steps as published",
    "relu": "ReLU head, gradient flow",
    "softplus": "softplus head, gradient flow",
}
BLOCK = 10  # problems a cell; they share the head, so that it is compiled once
NORM = 50.0
# The smooth head is sum_k log(1 + e^(sharp <V_k, x>)) / sharp. At 100 it is the ReLU head with its
# kinks rounded by log(2) / 100 a unit, which lets a flow slide along them; at 5 a head of its own.
SHARP = {"relu": 100.0, "softplus": 5.0}
KEPT, GONE = 1e-3, 1e-6  # softmax above the one: kept; between the two: undecided
ENOUGH = 10  # decided runs with several kept tokens, below which nothing is decided


def params(quick: bool) -> list[dict[str, Any]]:
    """Every case in every dimension; fewer dimensions when quick."""
    dims = DIMENSIONS[::3] if quick else DIMENSIONS
    return [{"case": case, "d": d} for case in CASES for d in dims]


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """1 - correlation of the last W with W_fin + R W_dir, W_dir and the one-token SVM."""
    problems = _problems(params["d"], rng)
    V = rng.standard_normal((params["d"], params["d"]))
    V /= np.linalg.norm(V)
    case = params["case"]
    if case == "published":
        method: Any = kt.NormalizedDescent(0.1)
        head: Any = kt.ReluHead(V)
    else:
        method, head = kt.GradientFlow(norm=NORM), softplus(V, SHARP[case])
    trained: Any = kt.train(problems, over="W", method=method, head=head, steps=2000, save=2)
    pooled = np.einsum("bnt,bntd->bnd", trained.attention, problems.X)
    rows = []
    for k, s in enumerate(trained.attention):
        is_flat = case != "softplus" and bool((pooled[k] @ V.T <= 0).all(axis=-1).any())
        row = {"problem": k, "kept": int((s > KEPT).sum()), "norm": trained.norms[k, -1],
               "unclear": int(((s > GONE) & (s <= KEPT)).sum()), "flat": is_flat}  # fmt: skip
        rows.append(row | compare(problems[k], trained.params[k], s > KEPT))
    return rows


def softplus(V: Any, sharp: float) -> Any:
    """psi(x) = sum_k log(1 + e^(sharp <V_k, x>)) / sharp."""
    jax = require("jax", "lab")
    return lambda x: jax.numpy.sum(jax.nn.softplus(sharp * (V @ x))) / sharp


def _problems(d: int, rng: np.random.Generator) -> kt.TokenProblem:
    """n = 3, T = 4, unit-norm Gaussian tokens and queries, at least one label -1."""
    drawn = kt.random_problem(3, 4, d, seed=int(rng.integers(2**31)), batch=BLOCK)
    y = drawn.y.copy()
    y[(y > 0).all(axis=1), 0] = -1
    return kt.TokenProblem(drawn.X, y, drawn.v, drawn.query)


def compare(problem: kt.TokenProblem, W: Any, kept: Any) -> dict[str, Any]:
    """How far W is from each of the three predictions; None where it does not exist."""
    top = np.argmax(logits_of_W(problem.X, W, problem.query), axis=-1)
    equal = kept.copy()
    equal[np.arange(problem.n), top] = False
    finite = finite_part(problem, W, top, equal)
    toward: Any = kt.att_svm(problem, top, over="W", equal=equal).direction
    single: Any = kt.att_svm(problem, top, over="W").direction
    goals: dict[str, Any] = {"toward": toward, "single": single}
    if toward is not None and toward.any():
        R = np.sum((W - finite) * toward) / np.sum(toward * toward)
        goals["whole"] = finite + R * toward
    gaps = {name: goals.get(name) for name in ("whole", "toward", "single")}
    return {
        f"{name}_gap": None if goal is None or not goal.any() else direction_gap(W, goal, axes=2)
        for name, goal in gaps.items()
    }


def finite_part(problem: Any, W: Any, top: Any, equal: Any) -> Any:
    """The smallest W_fin with (x_it - x_i,top)^T W_fin z_i = log s_it / s_i,top for kept t."""
    rows = [
        np.outer(problem.X[i, t] - problem.X[i, top[i]], problem.query[i]).ravel()
        for i, t in np.argwhere(equal)
    ]
    if not rows:
        return np.zeros_like(W)
    G = np.array(rows)
    return (np.linalg.pinv(G) @ (G @ W.ravel())).reshape(W.shape)


def verdicts(rows: Any) -> list[Verdict]:
    """The decomposition explains W where neither direction alone does."""
    import polars as pl

    cases = {case: rows.filter(pl.col("case") == case) for case in CASES}
    why = "1 - cos falls like the norm to the power -2, and the norm is 10 times W_dir's"
    found = []
    for case, name in (("softplus", "Smooth head"), ("relu", "ReLU head, flow")):
        clear, several = decided(cases[case]), several_kept(cases[case])
        whole, toward = several["whole_gap"], several["toward_gap"]
        single = several["single_gap"].fill_null(2.0)  # infeasible: as far as can be
        found += [
            at_least(f"{name}: inputs often keep more than one token.",
                     "share of decided runs that do", several.height / max(1, clear.height), 0.1,
                     "otherwise the figure shows nothing"),
            at_most(f"{name}: W is W_fin + R W_dir.", "median 1 - correlation over such runs",
                    _enough(whole, whole.median()), 1e-2, why),
            at_least(f"{name}: it is closer to W_fin + R W_dir than to W_dir.",
                     "share of such runs", _enough(whole, (whole <= toward).mean()), 0.9,
                     "W_fin is orthogonal to W_dir"),
            at_least(f"{name}: the SVM that keeps one token an input is further off than W_dir.",
                     "share of such runs (infeasible ones count)",
                     _enough(whole, (toward <= single).mean()), 0.9,
                     "it separates what the run keeps together"),
        ]  # fmt: skip
    relu = several_kept(cases["published"])["whole_gap"]
    return [
        *found,
        at_most("ReLU head, 2,000 normalised steps as published: W is W_fin + R W_dir.",
                f"median 1 - correlation over decided runs with several kept tokens ({relu.len()})",
                _enough(relu, relu.median()), 2e-2,
                f"larger for shorter runs; fewer than {ENOUGH} such runs decide nothing"),
    ]  # fmt: skip


def _enough(gaps: Any, number: float) -> float | None:
    return number if gaps.len() >= ENOUGH else None


def decided(rows: Any) -> Any:
    """Runs that dropped a token, with no softmax in between, with a W_dir, and where the head has
    a slope at every pooled token: where all relus are off, tokens mix at no cost.
    """
    import polars as pl

    clear = (pl.col("unclear") == 0) & ~pl.col("flat")
    return rows.filter(clear & pl.col("whole_gap").is_not_null())


def several_kept(rows: Any) -> Any:
    """Decided runs in which some input keeps more than one of its tokens (n = 3)."""
    clear = decided(rows)
    return clear.filter(clear["kept"] > 3)


def draw(rows: Any) -> Any:
    """1 - correlation with each prediction against d, and what share of runs decides."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 2, figsize=(8.6, 8.4), width_ratios=(2, 1), sharex=True)
    for (left, right), case in zip(axes, CASES, strict=True):
        part = rows.filter(rows["case"] == case)
        _draw_gaps(left, several_kept(part), CASES[case])
        _draw_undecided(left, part)
        _draw_shares(right, part)
    names = [axis.get_legend_handles_labels() for axis in axes[0]]
    handles, labels = ([*left, *right] for left, right in zip(*names, strict=True))
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
    for axis in axes[-1]:
        axis.set(xticks=range(len(DIMENSIONS)), xticklabels=DIMENSIONS, xlabel="d")
    return figure


def _draw_gaps(axis: Any, rows: Any, title: str) -> None:
    names = {"whole": "W$_{fin}$ + R W$_{dir}$", "toward": "W$_{dir}$", "single": "one token"}
    for k, (name, label) in enumerate(names.items()):
        axis.plot([], [], ".", color=f"C{k}", label=label)
        for at, d in enumerate(DIMENSIONS):
            gaps = rows.filter(rows["d"] == d)[f"{name}_gap"].drop_nulls().to_numpy()
            spots = at + 0.25 * (k - 1) + np.linspace(-0.08, 0.08, len(gaps))
            axis.semilogy(spots, gaps, ".", color=f"C{k}", ms=4)
    axis.set(title=title, ylabel="1 − correlation of W", ylim=(1e-5, 2))


def _draw_undecided(axis: Any, rows: Any) -> None:
    """W_fin + R W_dir of the runs that decide nothing, hollow."""
    keys = ["d", "seed", "problem"]
    rest = rows.join(decided(rows), on=keys, how="anti").drop_nulls("whole_gap")
    at = [DIMENSIONS.index(d) - 0.25 for d in rest["d"]]
    axis.semilogy(at, rest["whole_gap"], "o", color="0.7", mfc="none", ms=4,
                  label="W$_{fin}$ + R W$_{dir}$, undecided")  # fmt: skip


def _draw_shares(axis: Any, rows: Any) -> None:
    """Stacked: one token an input kept, several kept, undecided."""
    clear, base = decided(rows), np.zeros(len(DIMENSIONS))
    count = np.array([max(1, rows.filter(rows["d"] == d).height) for d in DIMENSIONS])
    for label, part in (("one kept", clear.filter(clear["kept"] == 3)),
                        ("several kept", several_kept(rows))):  # fmt: skip
        share = 100 / count * [part.filter(part["d"] == d).height for d in DIMENSIONS]
        axis.bar(range(len(DIMENSIONS)), share, bottom=base, label=label)
        base += share
    rest = np.array([100.0 if (rows["d"] == d).any() else 0.0 for d in DIMENSIONS]) - base
    axis.bar(range(len(DIMENSIONS)), rest, bottom=base, color="0.8", label="undecided")
    axis.set(ylabel="per cent of runs", ylim=(0, 100))


EXPERIMENT = Experiment(
    name="kept-tokens",
    title="Several kept tokens under a nonlinear head",
    run=run,
    params=params,
    seeds=lambda quick: 1 if quick else 4,
    verdicts=verdicts,
    draw=draw,
    left_out="30 of 40 problems for each d, and d = 6 and 8",
    look=(
        "n = 3, T = 4, W from 0; a token is kept when its softmax exceeds 1e-3. Top: the published "
        "head 1^T relu(V x) and 2,000 normalised steps. Its kinks make descent zigzag and the norm "
        "crawl, so that nearly every run has a softmax between 1e-6 and 1e-3, or sits where the "
        "head is flat: undecided. Middle: the same head followed by the gradient flow to norm 50, "
        "its kinks rounded by .007 so that the flow can slide along them: now most runs decide. "
        "Bottom: a smooth head. Where inputs keep several tokens, W is a finite part plus a "
        "growing direction, which the SVM that keeps one token an input misses."
    ),
)
