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
from keytokens.experiments.corpora import by_corpus, column, parts, train_and_test
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.reviews import above
from keytokens.experiments.reviews_figures import panel
from keytokens.experiments.reviews_flow import MOST_STEPS
from keytokens.experiments.tools import worst
from keytokens.experiments.verdict import Verdict, at_least, at_most
from keytokens.text import Counter, Table, read_table

MOST, NORM = 600, 16.0
STAGES = ONE, BOTH, JOINT = "after one step", "after both stages", "joint training"
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
    fitted = {ONE: train_one_step(labelled, options).scores,
              BOTH: train_two_stage(labelled, options).scores,
              JOINT: SelectionClassifier().fit(counts, labels).scores_}  # fmt: skip
    law = np.abs(fitted[ONE].value[0, :, :-1] - eta * moved).max()
    rows: list[dict[str, Any]] = [
        {"what": "model", "law": law, "largest": np.bincount(truth).max() / len(truth),
         "train": len(labels), "test": len(truth)}
    ]  # fmt: skip
    often = frequency(counts) >= FREQUENT
    for stage, scores in fitted.items():
        a, values = scores.attention[0, :-1], scores.value[0, :, :-1]
        right = float(np.mean(logits(scores, held).argmax(axis=1) == truth))
        rows.append({"what": "stage", "stage": stage, "accuracy": right,
                     "lift": lift(a, counts, labels)})  # fmt: skip
        if stage == BOTH:
            values = np.tile(a / max(a[often].std(), 1e-300), (5, 1))
        rows += of_classes(stage, values, counts, labels, words)
    return rows


def lift(a: Any, counts: sparse.csr_array, labels: Any) -> float | None:
    """Share of pairs with the telling token above: largest P(k|s) > .5 against < .3."""
    phi = frequency(counts)
    likely = np.max([frequency(counts[labels == k]) * np.mean(labels == k) for k in range(5)], 0)
    likely, often = likely / np.maximum(phi, 1e-300), phi >= FREQUENT
    return above(a[often & (likely > 0.5)], a[often & (likely < 0.3)])


def stars(path: str, rng: np.random.Generator) -> Any:
    """(counts, class 0-4) of train and test, and the words; None without five classes.

    The split is the file's, as for two classes; three-star reviews of NAME_3star beside it, which
    have none, are split at random in the same shares. In training, rows of a class beyond the
    rarest class's number are dropped, so that P(k|s) = 1/5 for an idle token; test keeps all.
    """
    own, more = rated(Path(path)), rated(Path(path).with_stem(f"{Path(path).stem}_3star"))
    if own is None:
        return None
    table, classes = own
    texts, (train, test) = list(table.texts), train_and_test(path, table, classes)
    if more is not None:
        drawn = rng.random(len(more[1])) < test.sum() / (train.sum() + test.sum())
        texts, classes = texts + list(more[0].texts), np.append(classes, more[1])
        train, test = np.append(train, ~drawn), np.append(test, drawn)
    if not set(classes) == set(classes[train]) == set(range(5)):
        return None
    return counted(texts, classes, evened(classes, train, rng), np.flatnonzero(test))


def rated(path: Path) -> tuple[Table, Any] | None:
    """The texts and their classes 0-4; None without a file, or without numbers called `stars`."""
    given = column(str(path), "stars") if path.exists() else None
    if given is None or given.dtype.kind not in "if":
        return None
    return read_table(path, "text", label=False), given.astype(int) - 1


def evened(classes: Any, train: Any, rng: np.random.Generator) -> Any:
    """Training rows, as many of every class, drawn at random."""
    least = np.bincount(classes[train]).min()
    rows = (np.flatnonzero(train & (classes == k)) for k in range(5))
    return np.concatenate([rng.permutation(mine)[:least] for mine in rows])


def counted(texts: list[str], classes: Any, train: Any, test: Any) -> Any:
    """Words of at least 5 training reviews, each counted once a review."""
    counter = Counter(ngrams=(1, 1), min_count=5, binary=True)
    counts = counter.fit_transform([texts[i] for i in train])
    held = counter.transform([texts[i] for i in test])
    return (counts, classes[train]), (held, classes[test]), np.asarray(counter.vocabulary_)


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
    right = {name: worst(part["accuracy"], np.min) for name, part in stage.items()}
    one, both, joint = (right[name] for name in STAGES)
    floor = worst(model["largest"])
    return [
        at_most("At infinite width one step moves E_s along v_k by the class's own signed "
                "frequency, exactly.", "largest deviation", worst(model["law"]), 1e-12,
                "rounding of a sum over the corpus"),
        at_least("In every class, values after one step rise with the posterior difference.",
                 "smallest rank correlation, frequent tokens",
                 worst(ranks.filter(pl.col("stage") == ONE)["rank"], np.min), 0.5,
                 "clearly ordered"),
        at_least("Training p after the step makes the classifier better.",
                 f"test accuracy {both:.3f} at norm {NORM:g} less {one:.3f} after one step",
                 both - one, 0.02, "more than a standard error on these test sets"),
        at_least("It lifts the tokens that predict a class over those that do not.",
                 "smallest share of pairs (largest P(k|s) > .5, < .3) with the first above",
                 worst(stage[BOTH]["lift"], np.min), 0.75,
                 "three pairs of four; half is no effect"),
        at_least("After joint training, by our classifier, whose values begin at naive-Bayes "
                 "log-ratios, values rise with the posterior difference in every class.",
                 "smallest rank correlation",
                 worst(ranks.filter(pl.col("stage") == JOINT)["rank"], np.min), 0.5,
                 "clearly ordered"),
        at_least("That classifier, attention with one value per class, tells five stars.",
                 f"test accuracy {joint:.3f} less {floor:.3f}, the share of the largest class",
                 joint - floor, 0.2, "as much again as guessing one of five"),
    ]  # fmt: skip


def draw(rows: Any) -> dict[str, Any]:
    """Values against Delta_k, a column a class, a row a stage; accuracy at each stage."""
    import polars as pl

    drawn = {}
    for name, part in parts(rows.filter(pl.col("what") != "absent")):
        drawn[f"{name}: five classes"] = _draw_tokens(part.filter(pl.col("what") == "token"))
        drawn[f"{name}: test accuracy at each stage"] = _draw_accuracy(part)
    return drawn


def _draw_tokens(tokens: Any) -> Any:
    import polars as pl
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 5, figsize=(9.6, 6.9), sharex=True, sharey="row")
    for line, stage in zip(axes, STAGES, strict=True):
        part = tokens.filter(pl.col("stage") == stage)
        if stage == BOTH:
            line[0].set_yscale("symlog", linthresh=1)
            line[0].yaxis.set_major_formatter("{x:g}")
        line[0].plot(part["posterior"], part["value"], ls="none")  # room for all, before the names
        for k, axis in enumerate(line):
            axis.axvline(-0.6, color="0.85", lw=0.8, zorder=0)
            panel(axis, part.filter(pl.col("class") == k + 1), "value", count=2)
        letters = "⟨E$_s$, p⟩, in standard\ndeviations" if stage == BOTH else "⟨E$_s$, v$_k$⟩"
        line[0].set(ylabel=f"{letters},\n{stage}")
    for k, axis in enumerate(axes[0]):
        axis.set(title=f"{k + 1} star" + "s" * (k > 0))
    axes[-1, 2].set(xlabel="posterior difference of the class")
    return figure


def _draw_accuracy(rows: Any) -> Any:
    """A bar a stage, and the share of the largest class."""
    import polars as pl
    from matplotlib import pyplot

    stages = rows.filter(pl.col("what") == "stage")
    floor = rows.filter(pl.col("what") == "model")["largest"][0]
    figure, axis = pyplot.subplots(figsize=(6.4, 1.8))
    bars = axis.barh(stages["stage"], stages["accuracy"], color="C0")
    axis.bar_label(bars, fmt="%.3f", padding=3)
    axis.axvline(floor, color="k", ls=":", label=f"the largest class: {floor:.3f}")
    axis.invert_yaxis()
    axis.set(xlim=(0, 1), xlabel="share of test reviews whose stars are right")
    axis.legend(loc="upper right")
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
        "training; between them each token's attention logit, one for all classes, in standard "
        "deviations over the frequent tokens, on a scale that is linear to 1 and logarithmic "
        "beyond. Grey points are tokens, the line binned means with their spread (medians and "
        "quartiles in the middle row). An idle token "
        "has P(k|s) = 1/5, a posterior difference of −.6: the grey line. Joint training is our "
        "classifier: its values begin at naive-Bayes log-ratios. The step on E is large and words "
        "of all frequencies are kept; reviews-band asks, for two classes, what similar frequencies "
        "change. The vocabulary, the infinite width, v_k of length 1, p⁰ = 0, η (the largest value "
        "is one), as many training reviews of every class "
        "and the last norm are our choice."
    ),
    needs_data=True,
)
