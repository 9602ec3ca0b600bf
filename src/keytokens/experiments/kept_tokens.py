"""Several kept tokens: W is a finite part plus a growing direction (ReLU head, next-token graphs).

W ~ W_fin + R W_dir: W_fin reproduces the finite log-ratios among the tokens an input keeps, W_dir
has equality among them and >= 1 against the rest.
"""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import direction_gap
from keytokens.experiments.verdict import Verdict, at_least, at_most

DIMENSIONS = (4, 6, 8, 10)
BLOCK = 20  # problems a cell; they share the head, so that it is compiled once
STEP = 10.0
KEPT, GONE = 1e-3, 1e-6  # softmax above the one: kept; between the two: undecided


def params(quick: bool) -> list[dict[str, Any]]:
    """Plain descent grows like a logarithm: more steps decide more runs."""
    return [{"d": d, "steps": 200_000 if quick else 800_000} for d in DIMENSIONS]


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """1 - correlation of the last W with W_fin + R W_dir, W_dir and the one-token SVM."""
    problems = _problems(params["d"], rng)
    A = rng.standard_normal((params["d"], params["d"]))
    head = kt.ReluHead(A / np.linalg.norm(A))
    trained = kt.train(problems, over="W", method=kt.GradientDescent(STEP), head=head,
                       steps=params["steps"], save=1)  # fmt: skip
    pooled = np.einsum("bnt,bntd->bnd", trained.attention, problems.X)
    rows = []
    for k, s in enumerate(trained.attention):
        row = {"problem": k, "kept": int((s > KEPT).sum()), "norm": trained.norms[k, -1],
               "unclear": int(((s > GONE) & (s <= KEPT)).sum()),
               "flat": int((pooled[k] @ A.T <= 0).all(axis=-1).sum())}  # fmt: skip
        rows.append(row | compare(problems[k], trained.params[k], s > KEPT))
    return rows


def _problems(d: int, rng: np.random.Generator) -> kt.TokenProblem:
    """n = 3, T = 4, unit-norm Gaussian tokens and queries, at least one label -1."""
    drawn = kt.random_problem(3, 4, d, seed=int(rng.integers(2**31)), batch=BLOCK)
    y = drawn.y.copy()
    y[(y > 0).all(axis=1), 0] = -1
    return kt.TokenProblem(drawn.X, y, drawn.v, drawn.query)


def compare(problem: kt.TokenProblem, W: Any, kept: Any) -> dict[str, Any]:
    """How far W is from each of the three predictions; None where it does not exist."""
    top = np.argmax(np.einsum("ntd,de,ne->nt", problem.X, W, problem.query), axis=-1)
    equal = kept.copy()
    equal[np.arange(problem.n), top] = False
    finite = finite_part(problem, W, top, equal)
    toward = kt.att_svm(problem, top, over="W", equal=equal).direction
    single = kt.att_svm(problem, top, over="W").direction
    goals: dict[str, Any] = {"toward": toward, "single": single}
    if toward is not None and toward.any():
        R = np.sum((W - finite) * toward) / np.sum(toward * toward)
        goals["whole"] = finite + R * toward
    gaps = {name: goals.get(name) for name in ("whole", "toward", "single")}
    return {
        f"{name}_gap": None if goal is None or not goal.any() else direction_gap(W, goal, axes=2)
        for name, goal in gaps.items()
    }


def finite_part(problem: kt.TokenProblem, W: Any, top: Any, equal: Any) -> Any:
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
    clear = decided(rows)
    several = clear.filter(clear["kept"] > 3)
    whole, toward = several["whole_gap"], several["toward_gap"]
    single = several["single_gap"].fill_null(2.0)  # infeasible: as far as can be
    return [
        at_least("More than one token of an input is often kept.", "share of decided runs",
                 clear.height and (clear["kept"] > 3).mean(), 0.1,
                 "otherwise the figure shows nothing"),
        at_most("W is W_fin + R W_dir.", "median 1 - correlation over such runs",
                whole.median(), 2e-2,
                "norms are about 5 times W_dir's, and a bounded rest leaves (1/5)^2 / 2"),
        at_least("It is closer to it than to W_dir alone.", "share of such runs", (whole <= toward).mean(), 0.9,
                 "where W_fin is nearly 0 the two are equal"),
        at_least("The SVM that keeps one token an input is further off than W_dir.",
                 "share of such runs (infeasible ones count)",
                 (toward <= single).mean(), 0.9,
                 "it separates what the run keeps together"),
    ]  # fmt: skip


def decided(rows: Any) -> Any:
    """Runs that dropped a token, with no softmax in between, with a W_dir, and where the head has
    a slope at every pooled token: where all relus are off, tokens mix at no cost.
    """
    import polars as pl

    clear = (pl.col("unclear") == 0) & (pl.col("flat") == 0)
    return rows.filter(clear & pl.col("whole_gap").is_not_null())


def draw(rows: Any) -> Any:
    """1 - correlation with each prediction against d; the share of undecided runs beside it."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8.2, 3.4), width_ratios=(2, 1))
    clear = decided(rows)
    several = clear.filter(clear["kept"] > 3)
    names = {"whole": "W$_{fin}$ + R W$_{dir}$", "toward": "W$_{dir}$", "single": "one token"}
    for k, (name, label) in enumerate(names.items()):
        for d in DIMENSIONS:
            gaps = several.filter(several["d"] == d)[f"{name}_gap"].drop_nulls().to_numpy()
            at = DIMENSIONS.index(d) + 0.25 * (k - 1)
            spots = at + np.linspace(-0.08, 0.08, len(gaps)) if len(gaps) else []
            left.semilogy(spots, np.maximum(gaps, 1e-16), ".", color=f"C{k}", ms=4,
                          label=label if d == DIMENSIONS[0] else None)  # fmt: skip
    left.set(xticks=range(len(DIMENSIONS)), xticklabels=DIMENSIONS, xlabel="d",
             ylabel="1 − correlation of W")  # fmt: skip
    left.legend(loc="lower left")
    _draw_shares(right, rows)
    return figure


def _draw_shares(axis: Any, rows: Any) -> None:
    """Stacked: one token an input kept, several kept, undecided or finite."""
    clear = decided(rows)
    base = np.zeros(len(DIMENSIONS))
    for label, keep in (("one kept", clear["kept"] == 3), ("several kept", clear["kept"] > 3)):
        part = clear.filter(keep)
        share = np.array([part.filter(part["d"] == d).height for d in DIMENSIONS], float)
        share *= 100 * len(DIMENSIONS) / rows.height
        axis.bar(range(len(DIMENSIONS)), share, bottom=base, label=label)
        base += share
    axis.bar(range(len(DIMENSIONS)), 100 - base, bottom=base, color="0.8", label="undecided")
    axis.set(xticks=range(len(DIMENSIONS)), xticklabels=DIMENSIONS, xlabel="d", ylabel="per cent")
    axis.legend(frameon=True)


EXPERIMENT = Experiment(
    name="kept-tokens",
    title="Several kept tokens under a ReLU head",
    run=run,
    params=params,
    seeds=lambda quick: 1 if quick else 5,
    verdicts=verdicts,
    draw=draw,
    left_out="20 of 100 problems for each d, and a quarter of the steps",
    look=(
        "Head 1^T relu(V x), n = 3, T = 4, plain descent (step 10) from W = 0; a token is kept "
        "when its softmax exceeds 1e-3. Runs with one between 1e-6 and 1e-3 are undecided, and so "
        "are those where the head is flat at some pooled token, so that mixing costs nothing. "
        "Left: where an input keeps several tokens, W is a finite part plus a growing direction; "
        "the direction alone, or the SVM that keeps one token an input, miss it. The head is "
        "shared by the 20 problems of a cell."
    ),
)
