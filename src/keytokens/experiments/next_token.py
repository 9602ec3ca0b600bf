"""Next-token prediction: strongly connected tokens stay together, the others are separated."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.attention import attention_weights, logits_of_W
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.kept_tokens import finite_part
from keytokens.experiments.tools import direction_gap, slope
from keytokens.experiments.verdict import Verdict, at_least, at_most

VOCABULARY, WIDTH, INPUTS, LENGTH, LASTS = 8, 10, 9, 4, 3
BLOCK = 10
NORM = 50.0


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Along the flow: 1 - correlation with W_fin + R W_svm and with W_svm, and the mass inside."""
    rows = []
    for k in range(BLOCK):
        problem = drawn(rng)
        same = components(problem)
        trained: Any = kt.train(problem, over="W", method=kt.GradientFlow(norm=NORM), steps=5000)
        rows += [{"problem": k, **row} for row in _rows(problem, same, trained)]
    return rows


def drawn(rng: np.random.Generator) -> kt.NextTokenProblem:
    """Random inputs over 8 tokens that end in one of 3; the label is a token of the input."""
    tokens = rng.integers(VOCABULARY, size=(INPUTS, LENGTH))
    tokens[:, -1] = rng.integers(LASTS, size=INPUTS)
    label = tokens[np.arange(INPUTS), rng.integers(LENGTH, size=INPUTS)]
    E = rng.standard_normal((VOCABULARY, WIDTH))
    return kt.NextTokenProblem(tokens, label, E / np.linalg.norm(E, axis=1, keepdims=True))


def components(problem: kt.NextTokenProblem) -> Any:
    """Whether each position's token is strongly connected with the label. (n, T)

    The graph of a last token: edges label -> other tokens, over the inputs that end in it.
    """
    from scipy.sparse.csgraph import connected_components

    same = np.zeros(problem.tokens.shape, bool)
    for last in np.unique(problem.last):
        inputs = np.flatnonzero(problem.last == last)
        edges = np.zeros((VOCABULARY, VOCABULARY))
        for i in inputs:
            edges[problem.label[i], problem.tokens[i]] = 1
        parts = connected_components(edges, connection="strong")[1]
        same[inputs] = parts[problem.tokens[inputs]] == parts[problem.label[inputs], None]
    return same


def _rows(problem: kt.NextTokenProblem, same: Any, trained: Any) -> list[dict[str, Any]]:
    """W_svm: equality inside a component, >= 1 from it to the tokens it dominates."""
    as_tokens = kt.TokenProblem(problem.X, np.ones(INPUTS), problem.embedding[0], problem.query)
    label_at = problem.is_label.argmax(axis=1)
    equal = same & ~problem.is_label
    W_svm: Any = kt.att_svm(as_tokens, label_at, over="W", equal=equal).direction
    if W_svm is None or not W_svm.any():
        return []
    fin = [finite_part(as_tokens, W, label_at, equal) for W in trained.path]
    size = float(np.linalg.norm(fin[-1]))
    rows = []
    for norm, W, W_fin in zip(trained.norms, trained.path, fin, strict=True):
        if norm == 0:
            continue
        R = np.sum((W - W_fin) * W_svm) / np.sum(W_svm * W_svm)
        whole = W_fin + R * W_svm
        s = attention_weights(logits_of_W(as_tokens.X, W, as_tokens.query))
        rows.append({"norm": norm, "whole_gap": direction_gap(W, whole, axes=2),
                     "svm_gap": direction_gap(W, W_svm, axes=2),
                     "finite_norm": np.linalg.norm(W_fin),
                     "finite_moves": np.linalg.norm(W_fin - fin[-1]) / max(size, 1e-300),
                     "log_outside": np.log((s * ~same).sum(1).max()),
                     "outside_law": -norm / np.linalg.norm(W_svm),
                     "cyclic": size > 1e-6})  # fmt: skip
    return rows


def verdicts(rows: Any) -> list[Verdict]:
    """A growing direction, a finite part that settles, and all mass inside the components."""
    end = rows.filter(rows["norm"] > 0.99 * NORM)
    cyclic = end.filter(end["cyclic"])
    late = rows.filter((rows["norm"] > 0.3 * NORM) & rows["cyclic"])
    return [
        at_most("The attention mass outside the label's strongly connected component vanishes like "
                "exp(-|W| / |W_svm|).", "median relative distance of its logarithm at norm 50",
                (end["log_outside"] / end["outside_law"] - 1).abs().median(), 0.2,
                "prefactors: log 3 beside an exponent of 10"),
        at_most("W approaches W_fin + R W_svm like the norm to the power -2.",
                "distance from -2 of the median log-log slope of 1 - correlation, norms 15 to 50",
                _law(rows), 0.5, "logarithmic corrections over half a decade"),
        at_most("So W is W_fin + R W_svm.", "median 1 - correlation at norm 50",
                end["whole_gap"].median(), 1e-2,
                "the norm is some 10 times that of W_svm: (1/10)^2"),
        at_most("The finite part settles.",
                "median relative change of W_fin from norm 15 on (graphs with cycles)",
                late["finite_moves"].median(), 1e-2, "what leaks outside is exponentially small"),
        at_least("With cycles, W_fin is part of W: W_svm alone fits worse.",
                 "share of problems at norm 50",
                 (cyclic["whole_gap"] <= cyclic["svm_gap"]).mean(), 0.95,
                 "W_fin is orthogonal to W_svm, so it can only help"),
    ]  # fmt: skip


def _law(rows: Any) -> float:
    """How far the median exponent is from -2."""
    late = rows.filter(rows["norm"] > 0.3 * NORM)
    slopes = [
        slope(np.log(path["norm"]), np.log(path["whole_gap"]))
        for _, path in late.group_by("seed", "problem", maintain_order=True)
    ]
    return abs(float(np.median(slopes)) + 2)


def draw(rows: Any) -> Any:
    """Three curves against the norm, a line a problem."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.2))
    for _, path in rows.group_by("seed", "problem", maintain_order=True):
        axes[0].loglog(path["norm"], path["whole_gap"], color="C0", lw=0.8)
        axes[0].loglog(path["norm"], path["svm_gap"], color="C1", lw=0.8)
        axes[1].semilogx(path["norm"], path["finite_norm"], color="C2", lw=0.8)
        axes[2].plot(path["norm"], path["log_outside"], color="C3", lw=0.8)
    axes[0].plot([], [], "C0", label="W$_{fin}$ + R W$_{svm}$")
    axes[0].plot([], [], "C1", label="W$_{svm}$")
    axes[0].legend()
    labels = ("1 − correlation of W", "‖W$_{fin}$‖", "log mass outside the component")
    for axis, label in zip(axes, labels, strict=True):
        axis.set(xlabel="‖W‖", ylabel=label)
    return figure


EXPERIMENT = Experiment(
    name="next-token",
    title="Next-token graphs and their strongly connected components",
    run=run,
    seeds=lambda quick: 1 if quick else 3,
    verdicts=verdicts,
    draw=draw,
    left_out="20 of 30 problems",
    look=(
        "Random inputs of 4 tokens out of 8, ending in one of 3 tokens; each last token has a "
        "graph label -> other tokens. Gradient flow on W from 0. Left: W approaches W_fin + "
        "R W_svm, where W_svm has equality inside strongly connected components and >= 1 across. "
        "Middle: the finite part settles. Right: mass outside the label's component vanishes."
    ),
)
