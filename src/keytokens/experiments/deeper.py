"""Two layers and several heads, which the authors leave open: do values and logits still order?

Trained end to end by Adam from scratch (our choice). One layer: f = <X^T softmax(X p), v>. Two:
the same on X + softmax(X W X^T) X. Heads: a sum over h of <X^T softmax(X p_h), v_h>.
"""

from typing import Any

import numpy as np

from keytokens._extras import require
from keytokens.dynamics.training import float64
from keytokens.embedding.frequencies import posterior_difference
from keytokens.experiments.corpora import COLOURS, Corpus, by_corpus, drawn, parts, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews_band import restricted
from keytokens.experiments.reviews_figures import panel
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least

MODELS = {"one layer": (1, False), "two layers": (1, True), "four heads": (4, False)}
WIDTH, RATE, BATCH = 32, 0.02, 50
LONGEST, SENTENCES, EPOCHS = 96, 2000, 4
Read = tuple[Any, Any, Any]  # token ids, which are tokens, labels


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """A drawn corpus with partly predictive tokens; as many sentences more are held out."""
    corpus, held = (drawn(rng, n=600, T=16) for _ in range(2))
    return rows_of(corpus, held, 12, rng)


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """A subset of the training reviews and its words; all test reviews are held out."""
    whole, test = reviews(data)
    keep = np.zeros(len(whole.y), bool)
    keep[rng.permutation(len(whole.y))[:SENTENCES]] = True
    train = whole.rows(keep)
    seen = np.flatnonzero(train.counts.sum(axis=0))
    return rows_of(restricted(train, seen), restricted(test, seen), EPOCHS, rng)


def rows_of(
    corpus: Corpus, held: Corpus, epochs: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Every model on the same sentences, from the same E0."""
    read, unread = padded(corpus, rng), padded(held, rng)
    seed = int(rng.integers(2**31))
    rows: list[dict[str, Any]] = []
    for model, kind in MODELS.items():
        start_ = start(corpus.counts.shape[1], *kind, np.random.default_rng(seed))
        with float64():
            weights = train(read, start_, epochs, np.random.default_rng(seed))
            right = {"accuracy": accuracy(weights, read), "held_out": accuracy(weights, unread)}
        rows += [{"model": model} | row for row in measured(weights, corpus, right)]
    return rows


def measured(weights: Any, corpus: Corpus, right: dict[str, float]) -> list[dict[str, Any]]:
    """Values, logits and rank correlations of the tokens that stand in 20 sentences."""
    often = np.flatnonzero((corpus.counts > 0).sum(axis=0) >= 20)
    posterior = posterior_difference(corpus.counts, corpus.y)[often]
    value = (weights["E"] @ weights["v"].sum(axis=1))[often]
    logit = largest((weights["E"] @ weights["p"])[often])
    ranks = {"value_rank": _rank(value, posterior), "logit_rank": _rank(logit, np.abs(posterior))}
    return [{"what": "model"} | right | ranks] + [
        {"what": "token", "word": str(corpus.words[s]), "kind": str(corpus.kinds[s]),
         "posterior": posterior[k], "value": value[k], "logit": logit[k]}
        for k, s in enumerate(often)
    ]  # fmt: skip


def largest(a: Any) -> Any:
    """Over heads, of logits (V, H) about each head's mean: softmax ignores a head's offset. (V,)"""
    return (a - a.mean(axis=0)).max(axis=1)


def _rank(x: Any, y: Any) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)


def train(read: Read, weights: Any, epochs: int, rng: np.random.Generator) -> dict[str, Any]:
    """Adam over shuffled batches; the final weights."""
    jax = require("jax", "lab")
    zeros = jax.tree.map(np.zeros_like, weights)
    state = (weights, zeros, zeros, np.float64(0))
    epoch = jax.jit(_epoch)
    for _ in range(epochs):
        order = rng.permutation(len(read[2]) // BATCH * BATCH).reshape(-1, BATCH)
        state = epoch(state, *(part[order] for part in read))
    return {k: np.asarray(w) for k, w in state[0].items()}


def accuracy(weights: Any, read: Read) -> float:
    """Share of sentences whose f has the sign of the label."""
    right = [np.sign(forward(weights, *(part[k : k + 200] for part in read[:2])))
             == read[2][k : k + 200] for k in range(0, len(read[2]), 200)]  # fmt: skip
    return float(np.mean(np.concatenate(right)))


def padded(corpus: Corpus, rng: np.random.Generator) -> Read:
    """Token ids (n, T), which are tokens, and y; of longer sentences LONGEST tokens at random.

    The order of tokens does not matter: the models have no positions.
    """
    T = int(min(LONGEST, corpus.lengths.max()))
    ids, mask = np.zeros((len(corpus.y), T), np.int32), np.zeros((len(corpus.y), T), bool)
    for i in range(len(corpus.y)):
        row = corpus.counts[[i]]
        tokens = np.repeat(row.indices, row.data.astype(int))
        tokens = rng.permutation(tokens)[:T]
        ids[i, : len(tokens)], mask[i, : len(tokens)] = tokens, True
    return ids, mask, corpus.y


def start(V: int, heads: int, two: bool, rng: np.random.Generator) -> dict[str, Any]:
    """E entries N(0, 1/d), small p_h and v_h, and W = 0 where there is a second layer."""
    weights = {"E": rng.standard_normal((V, WIDTH)) / np.sqrt(WIDTH),
               "p": 0.1 * rng.standard_normal((WIDTH, heads)),
               "v": rng.standard_normal((WIDTH, heads)) / np.sqrt(WIDTH * heads)}  # fmt: skip
    return weights | ({"W": np.zeros((WIDTH, WIDTH))} if two else {})


def forward(weights: Any, ids: Any, mask: Any) -> Any:
    """f. (n,)"""
    jax = require("jax", "lab")
    jnp = jax.numpy
    X = weights["E"][ids]
    if "W" in weights:
        scores = jnp.where(mask[:, None, :], X @ weights["W"] @ X.swapaxes(1, 2), -1e30)
        X = X + jax.nn.softmax(scores, axis=-1) @ X
    s = jax.nn.softmax(jnp.where(mask[..., None], X @ weights["p"], -1e30), axis=1)
    return (s * (X @ weights["v"])).sum((1, 2))


def _epoch(state: Any, ids: Any, mask: Any, y: Any) -> Any:
    """One pass of Adam."""
    jax = require("jax", "lab")
    jnp = jax.numpy

    def loss(weights: Any, batch: Any) -> Any:
        return jnp.logaddexp(0, -batch[2] * forward(weights, *batch[:2])).mean()

    def step(state: Any, batch: Any) -> Any:
        weights, mean, square, count = state
        gradient, count = jax.grad(loss)(weights, batch), count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        rate = RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        move = jax.tree.map(lambda m, s: rate * m / (jnp.sqrt(s) + 1e-8), mean, square)
        return (jax.tree.map(jnp.subtract, weights, move), mean, square, count), None

    return jax.lax.scan(step, state, (ids, mask, y))[0]


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """The phenomenology, model by model."""
    import polars as pl

    model = rows.filter(pl.col("what") == "model")
    deep = model.filter(pl.col("model") != "one layer")
    return [
        at_least("Every model learns its training sentences.", "smallest training accuracy",
                 worst(model["accuracy"], np.min), 0.85, "an untrained model says nothing"),
        at_least("And it classifies sentences it has not seen.", "smallest held-out accuracy",
                 worst(model["held_out"], np.min), 0.75, "midway between guessing and certainty"),
        at_least("Token values ⟨E_s, v⟩ rise with the posterior difference in one layer.",
                 "smallest rank correlation",
                 worst(model.filter(pl.col("model") == "one layer")["value_rank"], np.min), 0.5,
                 "clearly ordered"),
        at_least("They still do with two layers and with four heads.", "smallest rank correlation",
                 worst(deep["value_rank"], np.min), 0.5, "clearly ordered"),
        at_least("Attention logits ⟨E_s, p⟩ rise with the size of the posterior difference.",
                 "smallest rank correlation, all models", worst(model["logit_rank"], np.min), 0.2,
                 "ordered at all: trained together, values may carry the decision alone"),
    ]  # fmt: skip


def draw(rows: Any) -> dict[str, Any]:
    """Values above, logits below, a column a model; one figure a corpus."""
    return {name: _draw_corpus(part) for name, part in parts(rows)}


def _draw_corpus(rows: Any) -> Any:
    import polars as pl
    from matplotlib import pyplot

    rows = rows.filter(pl.col("seed") == 0)
    on_reviews = "corpus" in rows.columns
    figure, axes = pyplot.subplots(2, len(MODELS), figsize=(9.6, 5), sharex=True)
    for column, (model, part) in zip(axes.T, _models(rows), strict=True):
        tokens = part.filter(pl.col("what") == "token")
        for axis, name in zip(column, ("value", "logit"), strict=True):
            if on_reviews:
                panel(axis, tokens, name)
            else:
                _by_kind(axis, tokens, name)
        column[0].set_title(f"{model}\n{_right(part)}", fontsize=9)
        column[1].set(xlabel="posterior difference Δ$_s$")
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩, each head centred")
    if not on_reviews:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=4, loc="outside upper center")
    return figure


def _models(rows: Any) -> list[tuple[str, Any]]:
    return [(model, rows.filter(rows["model"] == model)) for model in MODELS]


def _right(rows: Any) -> str:
    """Accuracy, for a title."""
    row = rows.row(0, named=True)
    return f"{row['accuracy']:.1%} right in training, {row['held_out']:.1%} held out"


def _by_kind(axis: Any, tokens: Any, name: str) -> None:
    """A point a token, in the colour of its kind."""
    axis.axhline(0, color="0.85", lw=0.8, zorder=0)
    for (kind,), part in tokens.group_by("kind", maintain_order=True):
        axis.plot(part["posterior"], part[name], "o", ms=3.5, color=COLOURS[kind], label=kind)


LOOK = (
    "The same figure as for one layer in theory: values (the sum over heads) against the posterior "
    "difference above, attention logits (the largest over heads, each about its mean) below, after "
    "training everything together. Points are tokens that stand in 20 training sentences or more; "
    "for reviews the line is binned means with their spread. All models train on the same "
    "sentences, from the same E⁰. Width 32, E⁰ of unit rows, the scales of v and p⁰, W⁰ = 0, "
    "Adam's rate, batches and epochs, the number of sentences, their vocabulary and length are our "
    "choice."
)
EXPERIMENT = Experiment(
    name="deeper",
    title="Two layers and several heads",
    run=run,
    seeds=lambda quick: 1 if quick else 3,
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    left_out="2 of 3 corpora",
)
REVIEWS = Experiment(
    name="deeper-reviews",
    title="Two layers and several heads, on real reviews",
    run=run_reviews,
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    needs_data=True,
)
