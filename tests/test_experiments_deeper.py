"""Two layers and several heads: what the compared models share, and how their logits are read."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tiny_reviews import written

from keytokens.experiments import deeper
from keytokens.experiments.corpora import drawn


def test_a_head_s_offset_changes_no_logit() -> None:
    a = np.array([[0.0, 5.0], [2.0, 1.0], [1.0, 0.0]])
    assert deeper.largest(a).tolist() == [3.0, 1.0, 0.0]
    np.testing.assert_allclose(deeper.largest(a + [0, 100]), deeper.largest(a))


def test_compared_models_train_on_the_same_sentences() -> None:
    rng = np.random.default_rng(0)
    train, held = (drawn(rng, n=n, T=6) for n in (100, 40))
    rows = pl.DataFrame(deeper.rows_of(train, held, 2, rng), infer_schema_length=None)
    token, model = (rows.filter(pl.col("what") == what) for what in ("token", "model"))
    seen = [part["posterior"].to_list() for _, part in token.group_by("model")]
    assert len(seen) == len(deeper.MODELS)
    assert all(one == seen[0] for one in seen)
    assert set(np.round(model["held_out"] * 40, 9)) <= set(range(41))


def test_accuracy_counts_every_sentence_once() -> None:
    """E is the value itself: f is the mean of a sentence's two tokens."""
    weights = {"E": np.array([[1.0], [-3.0]]), "p": np.zeros((1, 1)), "v": np.ones((1, 1))}
    ids = np.tile([[0, 0], [0, 1]], (150, 1))
    y = np.tile([1.0, 1.0], 150)
    assert deeper.accuracy(weights, (ids, np.ones(ids.shape, bool), y)) == 0.5


def test_words_that_no_training_review_has_are_left_out(tmp_path: Path, monkeypatch: Any) -> None:
    """Half of the training reviews say `rare`; a subset of ten common ones does not know it."""
    monkeypatch.setattr(deeper, "SENTENCES", 10)
    monkeypatch.setattr(deeper, "rows_of", lambda *given: given)
    text = ["good film", "bad film"] * 5 + ["good rare", "bad rare"] * 5 + ["rare", "good rare"] * 2
    split = ["train"] * 20 + ["test"] * 4
    path = written(tmp_path / "file.csv", text=text, label=[1, 0] * 12, split=split)
    given: Any = deeper.run_reviews({}, InOrder(), path)  # type: ignore[arg-type]
    for corpus, n in zip(given[:2], (10, 2), strict=True):
        assert set(corpus.words) == {"good", "bad", "film"}
        assert len(corpus.y) == n


class InOrder:
    """A generator that leaves everything where it is."""

    def permutation(self, n: int) -> Any:
        return np.arange(n)
