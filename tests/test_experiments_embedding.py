"""The experiments on trained embeddings: corpora, measures by hand, and a run of each kind."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import keytokens as kt
from keytokens.embedding.frequencies import signed_frequency
from keytokens.experiments import (
    assumptions,
    early_p,
    experiment,
    one_step,
    reviews,
    run_experiment,
)
from keytokens.experiments.corpora import Corpus, drawn
from keytokens.experiments.corpora import reviews as read_reviews
from keytokens.experiments.reviews_margin import heaviest

WORDS = {1: ["good", "fine", "warm"], 0: ["bad", "dull", "cold"]}
FILLER = ["the", "a", "film", "was", "so", "very", "and", "plot"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """80 pairs of sentences that differ in one telling word, the first empty; a fourth is test."""
    rng = np.random.default_rng(0)
    filler = [" ".join(rng.choice(FILLER, 6)) for _ in range(80)]
    pair, label = np.divmod(np.arange(160), 2)
    texts = [f"{WORDS[y][k % 3]} {filler[k]}" for k, y in zip(pair, label, strict=True)]
    frame = {
        "text": ["", *texts[1:]],
        "label": label,
        "stars": np.where(pair % 10 == 9, 3, np.where(label > 0, 4 + pair % 2, 1 + pair % 2)),
        "split": np.where(pair % 4 == 3, "test", "train"),
    }
    path = tmp_path_factory.mktemp("data") / "tiny.csv"
    pl.DataFrame(frame).write_csv(path)
    return path


def small(y: Any, counts: Any) -> Corpus:
    words = np.array(["a", "b", "c"])
    return Corpus(sparse.csr_array(np.array(counts, float)), np.array(y, float), words, words)


def test_drawn_sentences_hold_what_was_asked() -> None:
    corpus = drawn(np.random.default_rng(1), n=60, T=10, important=2, uneven=True)
    counts, plus = corpus.counts.toarray(), corpus.y > 0
    assert (corpus.lengths == 10).all()
    assert (counts[plus][:, corpus.kinds == "positive"].sum(1) == 2).all()
    assert counts[~plus][:, corpus.kinds == "positive"].sum() == 0
    assert counts[plus][:, corpus.kinds == "negative"].sum() == 0


def test_reviews_are_split_and_empty_texts_left_out(data: Path) -> None:
    train, test = read_reviews(str(data))
    assert (len(train.y), len(test.y)) == (119, 40)
    assert set(train.words[train.kinds == "positive"]) == set(WORDS[1])


def test_one_step_moves_by_half_the_signed_frequency_at_infinite_width() -> None:
    corpus = small([1, -1], [[1, 1, 0], [0, 1, 1]])
    step = one_step.first_step(corpus, 0, False, np.random.default_rng(0))
    assert step["db"].tolist() == [0.125, 0.0, -0.125]
    assert one_step.residuals(corpus, 2 * step["db"], step)["slope"] == 0.5


def test_one_step_agrees_with_the_embedding_itself() -> None:
    """The drawn a and b stand for E0: the same step taken on an E0 that has them."""
    rng = np.random.default_rng(2)
    corpus = drawn(rng, n=20, T=6)
    V = corpus.counts.shape[1]
    step = one_step.first_step(corpus, 256, False, rng)
    E = np.column_stack([step["b"], rng.standard_normal((V, 3))])
    problem = kt.EmbeddingProblem(corpus.counts, corpus.y, E, [1.0, 0, 0, 0])
    moved = kt.train(problem, over="E", method=kt.GradientDescent(1.0), steps=1).params - E
    assert np.allclose(moved[:, 0], step["db"], atol=1e-15)
    assert np.abs(moved[:, 1:]).max() == 0


def test_the_optimal_token_is_found_and_ties_are_counted() -> None:
    corpus = small([1, -1, 1], [[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    best, ties = assumptions.optimal(corpus, np.array([2.0, 1.0, 1.0]))
    assert best.tolist() == [0, 1, 1]
    assert ties == pytest.approx(1 / 3)


def test_a_contradiction_is_told_in_words() -> None:
    corpus = small([1, -1], [[1, 1, 0], [1, 1, 0]])
    told = assumptions.report(corpus, "signed frequency")
    assert told["feasible"] in (0.0, 1.0)
    opposed = small([1, -1, 1], [[2, 1, 0], [1, 2, 0], [1, 0, 0]])
    told = assumptions.report(opposed, "signed frequency")
    assert told["feasible"] == 0.0
    assert "“a”" in told["conflict"]
    assert "“b”" in told["conflict"]


def test_heaviest_equals_a_loop() -> None:
    corpus = drawn(np.random.default_rng(3), n=30, T=8)
    a = np.random.default_rng(4).standard_normal(corpus.counts.shape[1])
    dense = np.where(corpus.counts.toarray() > 0, a, -np.inf)
    assert heaviest(corpus, a).tolist() == dense.argmax(1).tolist()


def test_pairs_above_by_hand() -> None:
    assert reviews._above(np.array([1.0, 3.0]), np.array([2.0, 1.0])) == (0.5 + 0 + 1 + 1) / 4


def test_the_early_curve_is_even_for_a_symmetric_corpus() -> None:
    corpus = drawn(np.random.default_rng(5), n=2000, T=8, partly=0)
    alpha = signed_frequency(corpus.counts, corpus.y)
    law = kt.early_law(corpus.counts, corpus.y, eta=0.1 / np.abs(alpha).max())
    key = np.isin(corpus.kinds, ("positive", "negative"))
    assert law.attention[key].min() > law.attention[~key].max()
    assert early_p._even(law.attention, alpha) > 0.5


@pytest.mark.parametrize("name", ["one-step", "early-p", "assumptions"])
def test_drawn_experiments_decide_every_claim(name: str, tmp_path: Path) -> None:
    rows = run_experiment(experiment(name), tmp_path, quick=True)
    decided = experiment(name).verdicts(rows)
    assert len(decided) >= 4
    assert all(v.outcome != "cannot be decided here" for v in decided)
    assert (tmp_path / name / "figure.svg").exists()


@pytest.mark.parametrize(
    "name", ["one-step-reviews", "early-p-reviews", "assumptions-reviews", "five-stars"]
)
def test_experiments_on_a_file_decide_every_claim(name: str, data: Path, tmp_path: Path) -> None:
    rows = run_experiment(experiment(name), tmp_path, quick=True, data=[data])
    assert set(rows["corpus"]) == {"tiny"}
    decided = experiment(name).verdicts(rows)
    assert all(v.outcome != "cannot be decided here" for v in decided)


def test_other_data_under_the_same_name_is_computed_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / data.name
    copy.write_bytes(data.read_bytes())
    first = experiment("one-step-reviews").cells(True, [str(copy)])
    copy.write_bytes(data.read_bytes() + b"good again,1,5,train\n")
    again = experiment("one-step-reviews").cells(True, [str(copy)])
    assert [c.name for c in first] == [c.name for c in again]
    assert {c.mark for c in first}.isdisjoint({c.mark for c in again})


@pytest.mark.parametrize("stage", ["one_step", "two_stage", "network", "joint"])
def test_every_stage_learns_what_the_words_say(stage: str, data: Path) -> None:
    params = {"stage": stage, "d": 0 if stage != "network" else 32, "steps": 40, "epochs": 60}
    rows = reviews.run(params, np.random.default_rng(0), str(data))
    assert rows[0]["train"] > 0.9
    assert {row["what"] for row in rows} == {"model", "token", "selected", "review"}


def test_a_file_without_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    pl.DataFrame({"text": ["a"], "stars": [1]}).write_csv(path)
    with pytest.raises(kt.InputError, match=r"bare.csv must have a column label; got text, stars"):
        read_reviews(str(path))
