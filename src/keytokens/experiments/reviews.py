"""Real reviews after one step, after both stages, and after joint training.

One step and two stages are the theory's order: one gradient step on E, then the flow on p. The
usual network trains E and p together by Adam, at the same finite widths. Joint training (our own)
is its counterpart at infinite width (d = 0): attention and values, exactly.
"""

import re
from typing import Any

import numpy as np

from keytokens.classifier import SelectionClassifier
from keytokens.embedding.concentration import effective_tokens
from keytokens.embedding.corpus import Fitted
from keytokens.embedding.finite import FiniteOptions, train_finite
from keytokens.embedding.frequencies import frequency, posterior_difference, signed_frequency
from keytokens.embedding.one_step import StageOptions, train_one_step
from keytokens.embedding.scores import AttentionScores, logits, weights
from keytokens.experiments.corpora import Corpus, by_corpus, parts, reviews
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews_flow import flow, labelled, step_size
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.experiments.words import marked

STAGES = {
    "one_step": "after one step",
    "two_stage": "after both stages",
    "network": "E and p by Adam",
    "joint": "our joint training",
}
WIDTHS = (128, 512, 2048, 0)
FREQUENT = 2e-5  # tokens at least this frequent are measured: about 100 occurrences on IMDB
LOUD = 2.0  # values this many times the noise of E0 v, of order d^-1/2, are above it
MOST, TOP, READ, HEAVY = 1200, 12, 10, 4
LIFT = "share of pairs (|Delta| > .5, < .1) with the first above, of the label that fares worse"
RATE = 0.01  # Adam's, at the smallest width: our choice


def run(params: dict[str, Any], rng: np.random.Generator, data: str) -> list[dict[str, Any]]:
    """Train, then measure: accuracy, concentration, tokens, and ten reviews."""
    train, test = reviews(data)
    seed, d = int(rng.integers(2**31)), params["d"]
    rows = []
    if params["stage"] == "two_stage":
        points = flow(data, d, seed, params["norm"])[1]
        rows = [
            {"what": "path", "length": p.norm} | summary(p.fitted, train, test, d) for p in points
        ]
        found = points[-1].fitted
    else:
        found = fit(train, params, seed)
    rows += [{"what": "model"} | summary(found, train, test, d)]
    rows += tokens(found.scores, train)
    if d == 0 or params["stage"] != "one_step":
        rows += selections(found.scores, test)
    return rows


def fit(corpus: Corpus, params: dict[str, Any], seed: int) -> Fitted:
    """The trained model of one of the other stages."""
    if params["stage"] == "joint":
        core = SelectionClassifier().fit(corpus.counts, (corpus.y > 0).astype(int))
        return Fitted(core.scores_, core.n_iter_, core.reason_)
    if params["stage"] == "network":
        d, epochs = params["d"], params["epochs"]
        rate = RATE * (WIDTHS[0] / d) ** 0.5  # E0's entries shrink like that
        adam = FiniteOptions(width=d, rate=rate, epochs=epochs, seed=seed)
        return train_finite(labelled(corpus), adam)
    return train_one_step(
        labelled(corpus), StageOptions(width=params["d"] or None, eta=step_size(corpus), seed=seed)
    )


def summary(found: Fitted, train: Corpus, test: Corpus, d: int) -> dict[str, Any]:
    """Accuracy on both parts, how attention is spread, and what the values and logits follow."""
    _, weight, _ = _attention(found.scores, test)
    row, n = _rows(test), len(test.y)
    effective = effective_tokens(found.scores, test.counts)
    heaviest = np.zeros(n)
    np.maximum.at(heaviest, row, weight)
    a, b, alpha, posterior, often = _measured(found.scores, train)
    loud = often & (step_size(train) / 2 * np.abs(alpha) > LOUD / np.sqrt(d or np.inf))
    plain, lift = often & (np.abs(posterior) < 0.1), lifts(a[often], posterior[often])
    spread = max(float(a[often].std()), 1e-300)
    return {
        "train": accuracy(found.scores, train), "test": accuracy(found.scores, test),
        "effective": float(np.median(effective)), "undecided": float(np.mean(heaviest < 0.9)),
        "value_rank": _rank(b[often], posterior[often]),
        "loud_rank": _rank(b[loud], posterior[loud]), "loud": float(loud.sum() / often.sum()),
        "lift": worse(*lift), "lift_plus": lift[0], "lift_minus": lift[1],
        "floor": float(np.median(a[plain])) / spread if plain.any() else None,
        "iterations": found.iterations, "reason": found.reason,
    }  # fmt: skip


def accuracy(scores: AttentionScores, corpus: Corpus) -> float:
    """Share of sentences whose logit has the sign of the label."""
    return float(np.mean(np.sign(logits(scores, corpus.counts)[:, 0]) == corpus.y))


def _rank(x: Any, y: Any) -> float:
    """Spearman's rank correlation."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)


def above(x: Any, y: Any) -> float | None:
    """The share of pairs in which x is above y, ties counting half."""
    if not (len(x) and len(y)):
        return None
    y = np.sort(y)
    below = np.searchsorted(y, x, side="left") + np.searchsorted(y, x, side="right")
    return float(np.mean(below) / (2 * len(y)))


def lifts(a: Any, posterior: Any) -> tuple[float | None, float | None]:
    """Share of pairs (Delta > .5, |Delta| < .1) with the first above; the same of Delta < -.5."""
    plain = a[np.abs(posterior) < 0.1]
    return above(a[posterior > 0.5], plain), above(a[posterior < -0.5], plain)


def worse(plus: float | None, minus: float | None) -> float | None:
    """The label that fares worse: the mean of both would hide that one is lost."""
    return None if plus is None or minus is None else min(plus, minus)


def _attention(scores: AttentionScores, corpus: Corpus) -> tuple[Any, Any, Any]:
    """a (V,), the weights of the non-zeros, and those of <cls>."""
    weight, cls = weights(scores, corpus.counts)
    return scores.attention[0, :-1], weight[0], cls[0]


def _rows(corpus: Corpus) -> Any:
    """The sentence of every non-zero."""
    return np.repeat(np.arange(corpus.counts.shape[0]), np.diff(corpus.counts.indptr))


def _measured(scores: AttentionScores, corpus: Corpus) -> tuple[Any, Any, Any, Any, Any]:
    """a, b, alpha, Delta of every token, and which tokens are frequent enough. (V,) each"""
    alpha = signed_frequency(corpus.counts, corpus.y)
    a, b = scores.attention[0, :-1], scores.value[0, 0, :-1]
    posterior = posterior_difference(corpus.counts, corpus.y)
    return a, b, alpha, posterior, frequency(corpus.counts) >= FREQUENT


def tokens(scores: AttentionScores, corpus: Corpus) -> list[dict[str, Any]]:
    """The most frequent tokens, with value and logit (logits in units of their spread)."""
    a, b, alpha, posterior, often = _measured(scores, corpus)
    spread = max(float(a[often].std()), 1e-300)
    order = np.argsort(-frequency(corpus.counts), kind="stable")[:MOST]
    return [
        {"what": "token", "word": str(corpus.words[s]), "alpha": alpha[s],
         "posterior": posterior[s], "value": b[s], "logit": a[s] / spread}
        for s in np.sort(order)
    ]  # fmt: skip


def selections(scores: AttentionScores, corpus: Corpus) -> list[dict[str, Any]]:
    """The tokens that are heaviest in most test reviews, and ten reviews' heaviest tokens."""
    _, weight, _ = _attention(scores, corpus)
    row, columns = _rows(corpus), corpus.counts.indices
    order = np.lexsort((columns, -weight, row))
    heaviest = columns[order[np.searchsorted(row, np.arange(len(corpus.y)))]]
    which, count = np.unique(heaviest, return_counts=True)
    top = np.argsort(-count, kind="stable")[:TOP]
    rows: list[dict[str, Any]] = [
        {"what": "selected", "word": str(corpus.words[which[k]]), "share": count[k] / len(corpus.y)}
        for k in top
    ]
    f = logits(scores, corpus.counts)[:, 0]
    for i in np.linspace(0, len(corpus.y) - 1, READ).astype(int):
        mine = order[row[order] == i][:HEAVY]
        names = [str(corpus.words[columns[k]]) for k in mine]
        words = "  ".join(
            f"{marked(name)} {weight[k]:.2f}" for name, k in zip(names, mine, strict=True)
        )
        rows.append({"what": "review", "index": int(i), "word": words, "label": corpus.y[i],
                     "logit": f[i], "begins": corpus.texts[i][:120],
                     "passage": passage(corpus.texts[i], names[0])})  # fmt: skip
    return rows


def passage(text: str, word: str, around: int = 32) -> str:
    """The text around the first place where the word stands by itself, the word in brackets."""
    before, after = (r"(?<!\w)", r"(?!\w)") if word[0].isalnum() else ("", "")
    found = re.search(f"{before}{re.escape(word)}{after}", text, re.IGNORECASE)
    if found is None:
        return text[: 2 * around]
    start, stop = found.span()
    left, right = text[max(start - around, 0) : start], text[stop : stop + around]
    return f"{left}[{text[start:stop]}]{right}"


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """What the theory says of real text, in order."""
    import polars as pl

    model = rows.filter(pl.col("what") == "model")
    stage = {name: model.filter(pl.col("stage") == name) for name in STAGES}
    wide = stage["one_step"].filter(pl.col("d") == model["d"].max())
    infinite = {name: part.filter(pl.col("d") == 0) for name, part in stage.items()}
    network = stage["network"]
    widths = "d = " + ", ".join(map(str, sorted(network["d"])))
    both = infinite["two_stage"]
    share = f"smallest {LIFT}"
    gain = both["test"].to_numpy() - infinite["one_step"]["test"].to_numpy()
    over = infinite["joint"]["test"].to_numpy() - both["test"].to_numpy()
    return [
        at_least("After one step, token values rise with the posterior difference, at finite "
                 "width too.", f"smallest rank correlation, frequent tokens, d = {wide['d'][0]}",
                 worst(wide["value_rank"], np.min), 0.5,
                 f"clearly ordered; {wide['loud'][0]:.0%} of them have eta |alpha| / 2 above twice "
                 "the noise of E0 v, d^-1/2"),
        at_least("Those whose value is above that noise do.", "smallest rank correlation, same d",
                 worst(wide["loud_rank"], np.min), 0.5, "clearly ordered"),
        at_least("At infinite width, where there is no noise, all do.",
                 "rank correlation, frequent tokens",
                 worst(infinite["one_step"]["value_rank"], np.min), 0.5, "clearly ordered"),
        at_least("Training p lifts the tokens that predict the label over those that do not.",
                 share,
                 worst(both["lift"], np.min), 0.75, "three pairs of four; half is no effect"),
        at_least("At finite width it does, too.", f"{share}, after both stages, finite widths",
                 worst(stage["two_stage"].filter(pl.col("d") > 0)["lift"], np.min), 0.75,
                 "as above; E0's random directions add their own"),
        at_most("Tokens that say little sink below zero.",
                "largest median logit of |Delta| < .1, in standard deviations",
                worst(both["floor"]), 0, "the floor of the early law is negative"),
        at_least("The usual network, E and p by Adam, orders its values in the same way.",
                 f"smallest rank correlation, frequent tokens, {widths}",
                 worst(network["value_rank"], np.min), 0.5, "clearly ordered"),
        at_least("And it lifts the tokens that predict the label.",
                 f"{share}, {widths}",
                 worst(network["lift"], np.min), 0.75, "three pairs of four; half is no effect"),
        at_least("Training p after the step makes the classifier better.",
                 "smallest gain in test accuracy", worst(gain, np.min), 0.02,
                 "two standard errors on these test sets; the theory speaks of the selection, and "
                 "one token alone may decide worse than the mean of all"),
        at_least("Our joint training of attention and values makes it better still.",
                 "smallest further gain", worst(over, np.min), 0.02, "as above"),
        at_most("Softmax ends by selecting one token a review.",
                "largest share of test reviews without a token of weight .9, after both stages",
                worst(both["undecided"]), 0.05,
                "the theory's limit; on real text no finite training reaches it"),
    ]  # fmt: skip


def params(quick: bool) -> list[dict[str, Any]]:
    """One step, both stages and the network at every width; joint training at infinite width."""
    norms = {128: 16.0, 0: 16.0} if quick else {128: 32.0, 512: 32.0, 2048: 32.0, 0: 64.0}
    one = [{"stage": "one_step", "d": d} for d in WIDTHS]
    two = [{"stage": "two_stage", "d": d, "norm": norm} for d, norm in norms.items()]
    adam = [{"stage": "network", "d": d, "epochs": 3} for d in norms if d]
    return [*one, *two, *adam, {"stage": "joint", "d": 0}]


def draw(rows: Any) -> dict[str, Any]:
    """For each corpus: tokens by stage, and the selected tokens and reviews."""
    from keytokens.experiments import reviews_figures as figures

    drawn = {}
    for name, part in parts(rows):
        drawn[f"{name}: values and attention logits against the posterior difference"] = (
            figures.phenomenology(part, STAGES)
        )
        drawn[f"{name}: the theory's two stages at every width"] = figures.by_width(
            part, ("one_step", "value"), ("two_stage", "logit")
        )
        drawn[f"{name}: embedding and attention trained together, at every width"] = (
            figures.by_width(part, ("network", "value"), ("network", "logit"))
        )
        drawn[f"{name}: the tokens selected most, at every width"] = figures.selected_by_width(part)
        drawn[f"{name}: the tokens selected most, and accuracy by width and along the flow"] = (
            figures.selected(part, STAGES)
        )
        drawn[f"{name}: ten test reviews: label, logit, heaviest tokens with their weights, and "
              "the heaviest in its place"] = figures.read(part, STAGES)  # fmt: skip
    return drawn


EXPERIMENT = Experiment(
    name="reviews",
    title="Real reviews: after one step, after both stages, after joint training",
    run=run,
    params=params,
    verdicts=verdicts,
    draw=draw,
    look=(
        "Columns: the stages, at infinite width but for the network (d = 128). Above, values "
        "⟨E_s, v⟩, below, attention logits ⟨E_s, p⟩ in standard deviations, against the posterior "
        "difference: one point a token, with binned means and their spread (on the logarithmic "
        "axis medians and quartiles). The network's logits make the V of the theory. The flow "
        "after one step tilts: at this η the tokens of one "
        "label rise and those of the other sink, and common tokens, whose signed frequency is "
        "large though they say little, rise with the former. Our joint training is not the "
        "network's limit: its values begin at naive-Bayes log-ratios, are regularised and stop "
        "on held-out rows. Vocabulary, η, scales, widths and Adam's numbers are our choice."
    ),
    needs_data=True,
    left_out="widths 512 and 2048 of the flow and the network, and the flow's way beyond norm 16",
)
