"""Two layers and several heads, which the authors leave open: do values and logits still order?

Trained end to end by Adam from scratch (our choice). One layer: f = <X^T softmax(X p), v>. Two:
the same on X + softmax(X W X^T) X. Heads: a sum over h of <X^T softmax(X p_h), v_h>.
"""

from typing import Any

import numpy as np

from keytokens._extras import require
from keytokens.dynamics.training import float64
from keytokens.embedding.frequencies import frequency, posterior_difference
from keytokens.experiments.corpora import Corpus, by_corpus, drawn, parts, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews_figures import panel
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least

MODELS = {"one layer": (1, False), "two layers": (1, True), "four heads": (4, False)}
WIDTH, RATE, BATCH = 32, 0.02, 50
LONGEST, SENTENCES, EPOCHS = 96, 2000, 4


def run(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """A drawn corpus with partly predictive tokens."""
    return rows_of(drawn(rng, n=600, T=16), params["model"], 12, rng)


def run_reviews(
    params: dict[str, Any], rng: np.random.Generator, data: str
) -> list[dict[str, Any]]:
    """A subset of the training reviews."""
    train = reviews(data)[0]
    keep = np.zeros(len(train.y), bool)
    keep[rng.permutation(len(train.y))[:SENTENCES]] = True
    return rows_of(train.rows(keep), params["model"], EPOCHS, rng)


def rows_of(
    corpus: Corpus, model: str, epochs: int, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Train; then values, logits and rank correlations."""
    with float64():
        weights, accuracy = train(corpus, *MODELS[model], epochs, rng)
    seen = frequency(corpus.counts) > 0
    posterior = posterior_difference(corpus.counts, corpus.y)[seen]
    E = weights["E"][seen]
    value, logit = E @ weights["v"].sum(axis=1), (E @ weights["p"]).max(axis=1)
    often = np.asarray((corpus.counts > 0).sum(axis=0)).ravel()[seen] >= 20
    rows: list[dict[str, Any]] = [
        {"what": "model", "accuracy": accuracy, "value_rank": _rank(value[often], posterior[often]),
         "logit_rank": _rank(logit[often], np.abs(posterior[often]))}
    ]  # fmt: skip
    words = corpus.words[seen]
    for s in np.flatnonzero(often):
        rows.append({"what": "token", "word": str(words[s]), "posterior": posterior[s],
                     "value": value[s], "logit": logit[s] - logit[often].mean()})  # fmt: skip
    return rows


def _rank(x: Any, y: Any) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)


def train(
    corpus: Corpus, heads: int, two: bool, epochs: int, rng: np.random.Generator
) -> tuple[dict[str, Any], float]:
    """Adam over shuffled batches; the final weights and the training accuracy."""
    jax = require("jax", "lab")
    ids, mask = padded(corpus, rng)
    weights = start(corpus.counts.shape[1], heads, two, rng)
    zeros = jax.tree.map(np.zeros_like, weights)
    state = (weights, zeros, zeros, np.float64(0))
    epoch = jax.jit(_epoch)
    for _ in range(epochs):
        order = rng.permutation(len(corpus.y) // BATCH * BATCH).reshape(-1, BATCH)
        state = epoch(state, ids[order], mask[order], corpus.y[order])
    f = np.concatenate([np.asarray(forward(state[0], ids[k : k + 200], mask[k : k + 200]))
                        for k in range(0, len(corpus.y), 200)])  # fmt: skip
    return {k: np.asarray(w) for k, w in state[0].items()}, float(np.mean(np.sign(f) == corpus.y))


def padded(corpus: Corpus, rng: np.random.Generator) -> tuple[Any, Any]:
    """Token ids (n, T) and which are tokens; of longer sentences LONGEST tokens drawn at random.

    The order of tokens does not matter: the models have no positions.
    """
    T = int(min(LONGEST, corpus.lengths.max()))
    ids, mask = np.zeros((len(corpus.y), T), np.int32), np.zeros((len(corpus.y), T), bool)
    for i in range(len(corpus.y)):
        row = corpus.counts[[i]]
        tokens = np.repeat(row.indices, row.data.astype(int))
        tokens = rng.permutation(tokens)[:T]
        ids[i, : len(tokens)], mask[i, : len(tokens)] = tokens, True
    return ids, mask


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

    tokens = rows.filter((pl.col("what") == "token") & (pl.col("seed") == 0))
    figure, axes = pyplot.subplots(2, len(MODELS), figsize=(9.6, 4.8), sharex=True)
    for column, model in zip(axes.T, MODELS, strict=True):
        part = tokens.filter(pl.col("model") == model)
        for axis, name in zip(column, ("value", "logit"), strict=True):
            panel(axis, part, name)
        column[0].set(title=model)
        column[1].set(xlabel="posterior difference Δ$_s$")
    axes[0, 0].set(ylabel="⟨E$_s$, v⟩")
    axes[1, 0].set(ylabel="⟨E$_s$, p⟩, centred")
    return figure


LOOK = (
    "The same figure as for one layer in theory: values against the posterior difference above, "
    "attention logits (the largest over heads) below, after training everything together; points "
    "are tokens, the line binned means with their spread."
)
EXPERIMENT = Experiment(
    name="deeper",
    title="Two layers and several heads",
    run=run,
    params=[{"model": name} for name in MODELS],
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
    params=[{"model": name} for name in MODELS],
    verdicts=verdicts,
    draw=draw,
    look=LOOK,
    needs_data=True,
)
