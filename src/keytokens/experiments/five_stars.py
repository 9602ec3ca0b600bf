"""More than two classes, which the authors leave open: five-star reviews, one value per class.

One step on E from p = 0 moves E_s by eta sum_k (1/n) sum_i (1[y_i = k] - 1/K) N_i(s)/T_i v_k at
infinite width: along each v_k in proportion to the class's own signed frequency.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from keytokens.classifier import SelectionClassifier
from keytokens.embedding.corpus import Corpus as Labelled
from keytokens.embedding.frequencies import frequency
from keytokens.embedding.one_step import StageOptions, train_one_step
from keytokens.embedding.p_training import train_two_stage
from keytokens.embedding.scores import logits
from keytokens.experiments.corpora import by_corpus, column, parts
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews import above
from keytokens.experiments.reviews_flow import MOST_STEPS
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.experiments.words import name_extremes
from keytokens.text import Counter, read_table

MOST, NORM = 600, 16.0
BOTH = "after both stages"
FREQUENT = 5e-5


def run(params: dict[str, Any], rng: np.random.Generator, data: str) -> list[dict[str, Any]]:
    """Values of every class, and logits, against Delta_k; accuracy after every stage."""
    found = stars(data, rng)
    if found is None:
        return [{"what": "absent"}]
    (counts, labels), (held, truth), words = found
    labelled = Labelled(counts, labels, 5, np.ones(len(labels)))
    moved = expected(counts, labels)
    eta = 1 / np.abs(moved).max()  # the largest value is then one
    options = StageOptions(eta=eta, norm=NORM, steps=MOST_STEPS, tolerance=0.0)
    fitted = {"after one step": train_one_step(labelled, options).scores,
              BOTH: train_two_stage(labelled, options).scores,
              "joint training": SelectionClassifier().fit(counts, labels).scores_}  # fmt: skip
    law = np.abs(fitted["after one step"].value[0, :, :-1] - eta * moved).max()
    majority = float(np.mean(truth == np.bincount(labels).argmax()))
    rows: list[dict[str, Any]] = [{"what": "model", "law": law, "majority": majority}]
    for stage, scores in fitted.items():
        a = scores.attention[0, :-1]
        right = float(np.mean(logits(scores, held).argmax(axis=1) == truth))
        rows.append({"what": "stage", "stage": stage, "accuracy": right,
                     "lift": lift(a, counts, labels)})  # fmt: skip
        shown = (
            np.tile(a / max(a.std(), 1e-300), (5, 1)) if stage == BOTH else scores.value[0, :, :-1]
        )
        rows += of_classes(stage, shown, counts, labels, words)
    return rows


def lift(a: Any, counts: sparse.csr_array, labels: Any) -> float | None:
    """Share of pairs with the telling token above: largest P(k|s) > .5 against < .3."""
    phi = frequency(counts)
    likely = np.max([frequency(counts[labels == k]) * np.mean(labels == k) for k in range(5)], 0)
    likely, often = likely / np.maximum(phi, 1e-300), phi >= FREQUENT
    return above(a[often & (likely > 0.5)], a[often & (likely < 0.3)])


def stars(path: str, rng: np.random.Generator) -> Any:
    """(counts, class 0-4) of train and test, and the words; None without a column `stars`.

    Three-star reviews come from NAME_3star beside the file, where it exists. The split is not
    kept to, since those have none: rows of a class beyond the rarest class's number are dropped,
    and every fifth of the rest is test.
    """
    beside = Path(path).with_name(f"{Path(path).stem}_3star{Path(path).suffix}")
    files = [path, str(beside)] if beside.exists() else [path]
    rated = [column(file, "stars") for file in files]
    if any(given is None or given.dtype.kind not in "if" for given in rated):
        return None
    texts = [text for file in files for text in read_table(file, "text", label=False).texts]
    classes = np.concatenate(rated).astype(int) - 1
    if set(classes) != set(range(5)):
        return None
    least = np.bincount(classes).min()
    kept = np.concatenate([rng.permutation(np.flatnonzero(classes == k))[:least] for k in range(5)])
    test = np.arange(len(kept)) % 5 == 0
    counter = Counter(ngrams=(1, 1), min_count=5, binary=True)
    counts = counter.fit_transform([texts[i] for i in kept[~test]])
    held = counter.transform([texts[i] for i in kept[test]])
    parts = (counts, classes[kept[~test]]), (held, classes[kept[test]])
    return *parts, np.asarray(counter.vocabulary_)


def expected(counts: sparse.csr_array, labels: Any) -> Any:
    """(1/n) sum_i (1[y_i = k] - 1/K) N_i(s)/T_i: the step for eta = 1 and unit v_k. (K, V)"""
    length = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1)
    signs = (labels[:, None] == np.arange(5)) - 0.2
    return (counts.T @ (signs / length[:, None])).T / len(labels)


def of_classes(
    stage: str, values: Any, counts: sparse.csr_array, labels: Any, words: Any
) -> list[dict[str, Any]]:
    """For each class: rank correlation of value and Delta_k, and the most frequent tokens."""
    from scipy.stats import spearmanr

    phi = frequency(counts)
    often = np.flatnonzero(phi >= FREQUENT)
    rows: list[dict[str, Any]] = []
    for k in range(5):
        share = frequency(counts[labels == k]) * np.mean(labels == k)
        posterior = 2 * share / phi - 1  # P(k|s) - P(not k|s)
        common = {"stage": stage, "class": k + 1}
        rank = float(spearmanr(values[k][often], posterior[often]).statistic)
        rows.append({"what": "class", "rank": rank} | common)
        rows += [
            {"what": "token", "word": str(words[s]), "posterior": posterior[s],
             "value": values[k][s]} | common
            for s in np.argsort(-phi, kind="stable")[:MOST]
        ]  # fmt: skip
    return rows


@by_corpus
def verdicts(rows: Any) -> list[Verdict]:
    """The one-step law per class, the order of values, and accuracy."""
    import polars as pl

    if set(rows["what"]) == {"absent"}:
        return [at_least("Five-star reviews.", "files with a column stars of 1 to 5", None, 1,
                         "the experiment needs five classes")]  # fmt: skip
    model, ranks = rows.filter(pl.col("what") == "model"), rows.filter(pl.col("what") == "class")
    stage = {
        name: part for (name,), part in rows.filter(pl.col("what") == "stage").group_by("stage")
    }
    right = {name: part["accuracy"].to_numpy() for name, part in stage.items()}
    gain = right["joint training"] - model["majority"].to_numpy()
    return [
        at_most("At infinite width one step moves E_s along v_k by the class's own signed "
                "frequency, exactly.", "largest deviation", worst(model["law"]), 1e-12,
                "rounding of a sum over the corpus"),
        at_least("In every class, values after one step rise with the posterior difference.",
                 "smallest rank correlation, frequent tokens",
                 worst(ranks.filter(pl.col("stage") == "after one step")["rank"], np.min), 0.5,
                 "clearly ordered; frequency spreads it"),
        at_least("Training p after the step makes the classifier better.",
                 f"smallest gain in test accuracy, norm {NORM:g}",
                 worst(right[BOTH] - right["after one step"], np.min), 0.02,
                 "more than a standard error on these test sets"),
        at_least("It lifts the tokens that predict a class over those that do not.",
                 "smallest share of pairs (largest P(k|s) > .5, < .3) with the first above",
                 worst(stage[BOTH]["lift"], np.min), 0.75,
                 "three pairs of four; half is no effect. All words and a large step, as for two "
                 "classes, where similar frequencies bring it back"),
        at_least("After joint training, values rise with the posterior difference in every class.",
                 "smallest rank correlation",
                 worst(ranks.filter(pl.col("stage") == "joint training")["rank"], np.min), 0.5,
                 "clearly ordered"),
        at_least("Attention with one value per class classifies five stars.",
                 "smallest accuracy above the share of one class", worst(gain, np.min), 0.2,
                 "twice the accuracy of guessing"),
    ]  # fmt: skip


def draw(rows: Any) -> dict[str, Any]:
    """Values against Delta_k, a column a class, a row a stage."""
    import polars as pl

    tokens = rows.filter(pl.col("what") == "token")
    return {f"{name}: five classes": _draw_corpus(part) for name, part in parts(tokens)}


def _draw_corpus(tokens: Any) -> Any:
    import polars as pl
    from matplotlib import pyplot

    stages = tokens["stage"].unique(maintain_order=True)
    figure, axes = pyplot.subplots(
        len(stages), 5, figsize=(9.6, 2.1 * len(stages)), sharex=True, sharey="row"
    )
    for line, stage in zip(axes, stages, strict=True):
        for k, axis in enumerate(line):
            part = tokens.filter((pl.col("stage") == stage) & (pl.col("class") == k + 1))
            axis.axhline(0, color="0.85", lw=0.8, zorder=0)
            axis.axvline(-0.6, color="0.85", lw=0.8, zorder=0)
            axis.plot(part["posterior"], part["value"], ".", ms=2.5, rasterized=True)
            name_extremes(axis, part, "posterior", "value", count=2)
        letters = "⟨E$_s$, p⟩ / deviation" if stage == BOTH else "⟨E$_s$, v$_k$⟩"
        line[0].set(ylabel=f"{letters},\n{stage}")
    for k, axis in enumerate(axes[0]):
        axis.set(title=f"{k + 1} star" + "s" * (k > 0))
    axes[-1, 2].set(xlabel="posterior difference of the class")
    return figure


EXPERIMENT = Experiment(
    name="five-stars",
    title="Five classes: the same law for each",
    run=run,
    verdicts=verdicts,
    draw=draw,
    look=(
        "Each token's value for each number of stars against how much more often than not it "
        "stands in a review of that many stars, after one step on the embeddings and after joint "
        "training; between them each token's attention logit, one for all classes. An idle token "
        "has P(k|s) = 1/5, a posterior difference of −.6: the grey line."
    ),
    needs_data=True,
)
