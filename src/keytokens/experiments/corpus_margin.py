"""A drawn corpus of thousands of sentences: p along training against the Att-SVM of its selection.

Every sentence has one token of its label alone, so training decides them all, and the limit can
be reached: what `reviews_margin` measures on real text, where it cannot. Infinite width, on both
sides of the tilt: `reach` is the largest value after the step, eta max|alpha| / 2.
"""

from itertools import product
from typing import Any

import numpy as np

import keytokens as kt
from keytokens.embedding.frequencies import posterior_difference, signed_frequency
from keytokens.embedding.one_step import StageOptions
from keytokens.experiments.corpora import drawn
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews_flow import stages, step_size
from keytokens.experiments.reviews_margin import along, heaviest
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most

NORMS = (1.0, 4.0, 16.0, 64.0, 256.0)
LAST = 1000.0  # the flow ends with the step that passes it
CORPUS = 0  # the seed of both corpora: small and large steps on E meet the same one
SENTENCES, SCALE = 20_000, 10  # SCALE times 38 tokens
NAMES = {False: "equal frequencies", True: "unequal frequencies"}
SMALL, LARGE = REACH = (0.1, 3.0)  # a tilt of a hundredth of the gradient; one that rules it
PANELS = {
    "right": "sentences that select\ntheir most predictive token",
    "undecided": "undecided (no weight of .9)",
    "gap": "1 − cos(p, p$^{mm}$)",
    "margin": "margin / best margin",
}


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """At each norm: the selection, its Att-SVM over the whole corpus, and how p stands to it."""
    corpus = drawn(
        np.random.default_rng(CORPUS), n=SENTENCES, T=16, partly=0, uneven=params["uneven"],
        scale=SCALE,
    )  # fmt: skip
    eta = params["reach"] * step_size(corpus)
    options = StageOptions(None, eta, norm=LAST, steps=20_000, tolerance=0.0)
    space, points = stages(corpus, options, NORMS)
    gram = kt.RankOne(signed_frequency(corpus.counts, corpus.y), eta)
    posterior = posterior_difference(corpus.counts, corpus.y)
    rows = along(corpus, space, points, gram)
    for row, point in zip(rows, points, strict=True):
        right = corpus.y * posterior[heaviest(corpus, point.logits)] == 1
        row["right"] = right.mean()
        row["worse"] = min(right[corpus.y == sign].mean() for sign in (1, -1))
    return rows


def verdicts(rows: Any) -> list[Verdict]:
    """Selection on both sides of the tilt, and the limit."""
    last = rows.group_by("uneven", "reach", maintain_order=True).last()
    small, large = (last.filter(last["reach"] == reach) for reach in REACH)
    parts = [(name, small.filter(small["uneven"] == uneven)) for uneven, name in NAMES.items()]
    certified, end = worst(np.abs(rows["certified"].to_numpy())), _reached(small)
    return [
        *(at_least(f"With {name} and a small step on E every sentence selects its most predictive "
                   f"token.", f"share of sentences at {_reached(part)}", worst(part["right"]), 0.99,
                   "all but one in a hundred") for name, part in parts),
        at_least("Every sentence is decided.", f"share with a token of weight .9 at {end}, "
                 "small step", 1 - worst(small["undecided"]), 0.99,
                 "all but one in a hundred"),
        at_most("The Att-SVM of the selection of a whole corpus is solved exactly, at every stage.",
                "largest certified relative gap", certified, 1e-8,
                "weak duality over every row of every sentence"),
        at_most("The direction of p converges to it.",
                f"largest 1 - cos at {end}, small step", worst(small["gap"]), 1e-3,
                "half the square of a bounded rest, logarithms of weights, over the norm"),
        at_least("So its margin is the largest for that selection.",
                 f"smallest margin over the best margin at {end}, small step",
                 worst(small["margin"], np.min), 0.95,
                 "it falls short like a bounded rest over the norm"),
        *(_of_the_tilt(rows.filter(rows["reach"] == LARGE), large) if large.height else []),
    ]  # fmt: skip


def _of_the_tilt(rows: Any, last: Any) -> list[Verdict]:
    """After a large step on E."""
    turned = [_turning(part) for _, part in rows.group_by("uneven", maintain_order=True)]
    return [
        at_most("A large step tilts the picture: sentences of one label select common tokens that "
                "say little.", "largest share of sentences, of the worse label, that select their "
                f"most predictive token; eta max|alpha| / 2 = {LARGE:g}", worst(last["worse"]), 0.5,
                "fewer than half of them: it is no longer the rule"),
        at_most("Its direction, too, turns to the Att-SVM of what it selects.",
                "1 - cos at the last point over the one at a quarter of that norm",
                worst(turned), 0.5, "well below one; with a bounded rest it would be 1/16"),
        at_least("By then its margin, too, is the largest for that selection.",
                 f"smallest margin over the best margin at {_reached(last)}, large step",
                 worst(last["margin"], np.min), 0.95, "as after a small step"),
    ]  # fmt: skip


def _reached(last: Any) -> str:
    """The norm at the last point, in words: the flow ends somewhat beyond `LAST`."""
    low, high = (f"{norm:,.0f}" for norm in (last["length"].min(), last["length"].max()))
    return f"norm {low}" if low == high else f"norm {low} and {high}"


def _turning(rows: Any) -> float:
    """The last 1 - cos over the one before."""
    before, end = rows.sort("length")["gap"].tail(2)
    return float(end / before)


def draw(rows: Any) -> Any:
    """What is selected, who is undecided, the angle, the margin."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9.6, 5.6), sharex=True)
    for (uneven, reach), part in rows.group_by("uneven", "reach", maintain_order=True):
        label = f"{NAMES[uneven]}, η max|α| / 2 = {reach:g}"
        style, colour = ("o-", "s--")[reach == LARGE], f"C{int(uneven)}"
        for axis, (name, words) in zip(axes.flat, PANELS.items(), strict=True):
            axis.plot(part["length"], part[name], style, color=colour, ms=4, label=label)
            axis.set(xscale="log", ylabel=words)
    for axis in (axes[0, 0], axes[0, 1], axes[1, 1]):
        axis.set(ylim=(-0.03, 1.03))
    for axis in axes[1]:
        axis.set(xlabel="‖p‖")
    axes[1, 0].set(yscale="log")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=2, loc="outside upper center")
    return figure


EXPERIMENT = Experiment(
    name="corpus-margin",
    title="A whole drawn corpus: every sentence decided, at the largest margin",
    run=run,
    params=lambda quick: [
        {"uneven": uneven, "reach": reach}
        for uneven, reach in product(NAMES, REACH)
        if reach == SMALL or not quick
    ],
    verdicts=verdicts,
    draw=draw,
    look=(
        "20,000 sentences, 380 tokens, 16 to a sentence, one of them pure. Above: how many "
        "sentences select it, and how many are still undecided. Below: the distance of p from the "
        "Att-SVM direction of what is selected by then, and its margin over the best. Each SVM is "
        "solved over every row of every sentence and certified. After a large step on E (dashed) "
        "one label is lost to the tilt of the early law, by which p first moves along the sum of "
        "α_s E_s: up for one sign, down for the other. No source names the scales of E, v and "
        "p = 0, η, vocabulary, length and number of sentences: those here are our choice."
    ),
    left_out="the large step on E",
)
