"""Drawn corpora and files of reviews, as the experiments on trained embeddings read them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tiny_reviews import WORDS, tiny_reviews, written

import keytokens as kt
from keytokens.embedding.frequencies import signed_frequency
from keytokens.experiments import at_most
from keytokens.experiments.corpora import by_corpus, drawn
from keytokens.experiments.corpora import reviews as read_reviews


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_reviews(tmp_path_factory.mktemp("data"))


def test_drawn_sentences_hold_what_was_asked() -> None:
    corpus = drawn(np.random.default_rng(1), n=60, T=10, important=2, uneven=True)
    counts, plus = corpus.counts.toarray(), corpus.y > 0
    assert (corpus.lengths == 10).all()
    assert (counts[plus][:, corpus.kinds == "positive"].sum(1) == 2).all()
    assert counts[~plus][:, corpus.kinds == "positive"].sum() == 0
    assert counts[plus][:, corpus.kinds == "negative"].sum() == 0


def test_paired_sentences_leave_irrelevant_tokens_without_a_sign() -> None:
    for uneven in (False, True):
        corpus = drawn(np.random.default_rng(1), n=40, T=8, partly=0, uneven=uneven, paired=True)
        alpha = signed_frequency(corpus.counts, corpus.y)
        assert (corpus.lengths == 8).all()
        assert np.abs(alpha[corpus.kinds == "irrelevant"]).max() < 1e-15
        assert (alpha[corpus.kinds == "positive"] > 0).sum() > 1


def test_reviews_are_split_and_empty_texts_left_out(data: Path) -> None:
    train, test = read_reviews(str(data))
    assert (len(train.y), len(test.y)) == (119, 40)
    assert set(WORDS[1]) <= set(train.words[train.kinds == "positive"])
    assert set(WORDS[0]) <= set(train.words[train.kinds == "negative"])
    assert [len(corpus.texts) for corpus in (train, test)] == [119, 40]


def test_the_split_and_the_balanced_part_are_kept_to(tmp_path: Path) -> None:
    split = ["train"] * 24 + ["test"] * 4 + ["validation"] * 4
    balanced = [True] * 16 + [False] * 16
    path = written(tmp_path / "parts.csv", split=split, balanced=balanced)
    train, test = read_reviews(path)
    assert (len(train.y), len(test.y)) == (16, 4)
    train, test = read_reviews(written(tmp_path / "whole.csv", other=[0] * 20))
    assert (len(train.y), len(test.y), test.y.sum()) == (16, 4, 0)


def test_a_file_without_training_or_test_rows_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "no_test.csv", split=["train", "dev"] * 4)
    with pytest.raises(kt.InputError, match=r"no_test.csv must have training rows and test rows"):
        read_reviews(path)


BARREN = {
    r"stands more often under one label; got none": {"text": ["the same"] * 40},
    r"test rows with a word of the training rows; got none": {
        "text": ["good film", "bad film"] * 15 + ["unseen", "unknown"] * 5,
        "split": ["train"] * 30 + ["test"] * 10,
    },
}


@pytest.mark.parametrize("message", BARREN)
def test_files_that_teach_or_try_nothing_are_refused(message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "barren.csv", label=[0, 1] * 20, **BARREN[message])
    with pytest.raises(kt.InputError, match=message):
        read_reviews(path)


def test_four_labels_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "three.csv", label=["a", "b", "c", "d"] * 3)
    with pytest.raises(kt.InputError, match=r"three.csv: label must have two values; got 4"):
        read_reviews(path)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "file.csv", other=[0] * 20)
    assert len(read_reviews(path)[0].y) == 16
    written(tmp_path / "file.csv", other=[0] * 40)
    assert len(read_reviews(path)[0].y) == 30


def test_claims_are_decided_file_by_file() -> None:
    decide = by_corpus(lambda rows: [at_most("Small.", "largest", rows["x"].max(), 1, "so")])
    rows = pl.DataFrame({"corpus": ["a", "b", "a"], "x": [0, 2, 1]})
    assert [(v.claim, v.outcome) for v in decide(rows)] == [
        ("a: Small.", "holds"),
        ("b: Small.", "does not hold"),
    ]
    assert [v.claim for v in decide(rows.drop("corpus"))] == ["Small."]


def test_a_file_without_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    pl.DataFrame({"text": ["a"], "stars": [1]}).write_csv(path)
    with pytest.raises(kt.InputError, match=r"label must name a column of .*bare.csv"):
        read_reviews(str(path))
