"""Contextual data: relevant tokens q_k + y w among noise, one or several contexts under one p."""

from typing import Any

import numpy as np

import keytokens as kt
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.tools import bands, direction_gap, worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

CONTEXTS = (1, 2, 4)
RELEVANT = 0.3
BLOCK, STEPS = 20, 5000


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Attention on the relevant tokens, and directions, along runs of p from 0."""
    contexts = params["contexts"]
    problems = kt.contextual_problem(n=24, T=10, d=20, contexts=contexts, relevant=RELEVANT,
                                     seed=int(rng.integers(2**31)), batch=BLOCK)  # fmt: skip
    trained: Any = kt.train(problems, over="p", method=kt.NormalizedDescent(0.1), steps=STEPS)
    svm: Any = kt.att_svm(problems, kt.optimal_tokens(problems))
    best = trained.selected < np.ceil(RELEVANT * problems.T)
    rows = []
    for k in range(BLOCK):
        one, path = problems[k], trained.path[k]
        signal = np.sum([one.X[i, 0] - one.y[i] * one.v for i in range(contexts)], axis=0)
        mass = relevant_mass(one, path)
        gaps = direction_gap(path, svm.direction[k]), direction_gap(path, signal)
        rows += [
            {"problem": k, "step": step, "mass": mass[j], "svm_gap": gaps[0][j],
             "signal_gap": gaps[1][j], "inputs_right": best[k].mean()}
            for j, step in enumerate(trained.steps)
        ]  # fmt: skip
    return rows


def relevant_mass(one: kt.TokenProblem, path: Any) -> Any:
    """The least attention mass on relevant tokens over the inputs. (K,)"""
    logits = np.einsum("ntd,kd->knt", one.keys, path)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights[..., : int(np.ceil(RELEVANT * one.T))].sum(-1).min(-1)


def verdicts(rows: Any) -> list[Verdict]:
    """The relevant tokens win, in every context, and p is their common direction."""
    end = rows.filter(rows["step"] == STEPS)
    return [
        at_least("All attention goes to the relevant tokens, in every context.",
                 "least mass on them over all inputs", worst(end["mass"], np.min), 0.999,
                 "the softmax saturates exponentially in the norm"),
        at_most("The direction is the Att-SVM of the relevant tokens.",
                "median 1 - cos at step 5,000", end["svm_gap"].median(), 1e-3,
                "the norm is 500, the solution's between 1 and 4"),
        at_most("It is close to the sum of the context vectors q_k.",
                "median 1 - cos at step 5,000", end["signal_gap"].median(), 0.1,
                "without noise it is that sum; noise of norm .3 turns it by about a fifth"),
    ]  # fmt: skip


def draw(rows: Any) -> Any:
    """Mass on relevant tokens and both distances, median and quartiles."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(9.6, 3.2))
    for k, contexts in enumerate(CONTEXTS):
        part = rows.filter((rows["contexts"] == contexts) & (rows["step"] > 0))
        label = f"{contexts} context{'s' if contexts > 1 else ''}"
        for axis, column in zip(axes, ("mass", "svm_gap", "signal_gap"), strict=True):
            bands(axis, part, "step", column, f"C{k}", label)
    axes[0].set(xscale="log", xlabel="step", ylabel="least mass on relevant tokens")
    axes[1].set(xscale="log", yscale="log", xlabel="step", ylabel="1 − cos(p, p$^{mm}$)")
    axes[2].set(xscale="log", yscale="log", xlabel="step", ylabel="1 − cos(p, Σ q$_k$)")
    axes[0].legend()
    return figure


EXPERIMENT = Experiment(
    name="contextual",
    title="Contextual data: one p serves several contexts",
    run=run,
    params=[{"contexts": k} for k in CONTEXTS],
    seeds=lambda quick: 1 if quick else 5,
    verdicts=verdicts,
    draw=draw,
    left_out="80 of 100 problems for each number of contexts",
    look=(
        "24 inputs of 10 tokens, of which 3 are relevant (q_k + y w) and the others point the "
        "other way with noise; head w. From 0, normalised descent moves all attention to the "
        "relevant tokens of every context (left), along the Att-SVM (middle), which is nearly "
        "the sum of the q_k (right)."
    ),
)
