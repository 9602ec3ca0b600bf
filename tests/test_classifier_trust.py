"""What a careful user relies on, however data are stored and ordered, on any number of cores."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from embedding_reference import planted
from scipy import sparse

import keytokens as kt
from keytokens.classifier.findings import suspects
from keytokens.embedding.heldout import row_losses
from keytokens.embedding.joint import JointOptions, train_joint
from keytokens.embedding.scores import logits


def drawn(n: int = 60, V: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Poisson counts, half of them zero, and labels that the first token knows."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n, V)).astype(float)
    return X, (X[:, 0] > X[:, 1]).astype(int)


def test_zeros_that_are_stored_are_no_tokens() -> None:
    X, y = drawn()
    full = sparse.csr_array(np.ones_like(X))
    full.data = X.ravel().copy()
    dense, stored = (kt.SelectionClassifier().fit(Z, y) for Z in (X, full))
    assert np.array_equal(dense.decision_function(X), stored.decision_function(full))
    assert full.nnz == X.size  # and the user's matrix is as it was


def test_an_entry_in_two_parts_is_one_count() -> None:
    X, y = drawn()
    columns = np.concatenate([np.tile(np.flatnonzero(x), 2) for x in X])
    data = np.concatenate([np.tile(x[x > 0] / 2, 2) for x in X])
    ends = np.append(0, np.cumsum(2 * (X > 0).sum(axis=1)))
    halves = sparse.csr_array((data, columns.astype(np.int32), ends.astype(np.int32)), X.shape)
    one, two = (kt.SelectionClassifier().fit(Z, y) for Z in (sparse.csr_array(X), halves))
    assert np.array_equal(one.decision_function(X), two.decision_function(X))
    assert np.array_equal(one.decision_function(X), one.decision_function(halves))


@pytest.mark.parametrize("dial", [0.1, 0.2])
def test_a_turn_of_the_dial_makes_no_surer(dial: float) -> None:
    """The even model is right on all its rows, so any scale would fit them."""
    corpus, other = planted(n=200, V=400, length=12), planted(n=400, V=400, length=12, seed=1)
    losses, sure = [], []
    for selectivity in (0.0, dial):
        scores = train_joint(corpus, JointOptions(selectivity=selectivity)).scores
        f = logits(scores, other.counts)
        losses.append(row_losses(f, other.target).mean())
        sure.append(np.abs(f).mean())
    assert losses[1] < 1.2 * losses[0]
    assert sure[1] < 1.5 * sure[0]


def test_wrong_labels_are_found_by_who_has_not_learned_them() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(200)]
    texts = [
        " ".join(rng.choice(words, 12)) + (" good fine", " bad dull")[k % 2] for k in range(600)
    ]
    labels = np.arange(600) % 2
    wrong = rng.choice(600, 12, replace=False)
    labels[wrong] = 1 - labels[wrong]
    model = kt.KeyTokenClassifier(ngrams=(1, 1)).fit(texts, labels)
    found = suspects(model, texts, labels)
    assert len(found) >= 6
    assert np.isin(found, wrong).mean() >= 0.9


def test_few_texts_of_a_class_are_not_suspected() -> None:
    texts = ["a good film"] * 25 + ["a bad film"] * 19
    labels = ["yes"] * 25 + ["no"] * 19
    labels[3] = "no"
    labels[30] = "yes"
    model = kt.KeyTokenClassifier().fit(texts, labels)
    assert len(suspects(model, texts[:40], labels[:40])) == 0


FIT = """
import numpy as np, keytokens as kt
rng = np.random.default_rng(0)
X = rng.poisson(.3, (11_000, 30)).astype(float)
y = (X[:, 0] + X[:, 1] > X[:, 2] + X[:, 3]).astype(int)
for how in ({"selectivity": .4}, {"training": "one_step"}, {}):
    model = kt.SelectionClassifier(**how).fit(X, y, rng.random(len(y)))
    for array in (model.scores_.attention, model.scores_.value, model.importance_):
        print(array.tobytes().hex())
"""


def test_weights_and_the_dial_have_the_same_bits_on_one_core_and_two() -> None:
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        pytest.skip("one core only")
    said = []
    for own in (cores[:1], cores[:2]):
        script = f"import os\nos.sched_setaffinity(0, {own!r})\n{FIT}"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]


def test_where_the_cores_cannot_be_asked_for_it_trains_too(monkeypatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    X, y = drawn()
    assert kt.SelectionClassifier().fit(X, y).score(X, y) > 0.9


def test_a_warm_start_of_another_shape_begins_anew() -> None:
    X, y = drawn()
    model = kt.SelectionClassifier(warm_start=True).fit(X, y)
    model.set_params(heads=2).fit(X, y)
    assert model.attention_.shape == (2, 12)
    assert model.fit(X[:, :8], y).attention_.shape == (2, 8)
    model.set_params(heads=1)
    with pytest.raises(kt.KeytokensError, match="heads must stay as they were"):
        model.partial_fit(X[:, :8], y)


@pytest.mark.parametrize(
    ("training", "options"),
    [("two_stage", {"width": 2.5}), ("one_step", {"width": 0}), ("joint", {"selectivity": 5})],
)
def test_options_are_checked(training: str, options: dict) -> None:
    X, y = drawn()
    with pytest.raises(kt.KeytokensError, match="options"):
        kt.SelectionClassifier(training=training, options=options).fit(X, y)


@pytest.mark.parametrize("how", [dict(), dict(binary=False), dict(max_features=1000)])
def test_reviews_in_the_files_order_are_learned_however_counted(shared_data, how: dict) -> None:
    """Held-out loss rises before it falls: who stops at once loses three points and more."""
    table = pl.read_parquet(shared_data / "imdb.parquet")
    train, test = (table.filter(pl.col("split") == part) for part in ("train", "test"))
    model = kt.KeyTokenClassifier(ngrams=(1, 1), **how)
    model.fit(train["text"].to_list(), train["label"].to_list())
    right = model.score(test["text"].to_list(), test["label"].to_list())
    assert right >= (0.855 if "max_features" in how else 0.88)
