"""Model files: the same bits come back; what is unknown, missing or misshapen is refused."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import keytokens as kt
from keytokens import model_file
from keytokens.text import Tokenizer

TEXTS = ["a good film", "so good !", "a bad film", "so bad !"]
LABELS = ["yes", "yes", "no", "no"]


@cache
def saved() -> bytes:
    """A model's file."""
    with tempfile.TemporaryDirectory() as folder:
        kt.KeyTokenClassifier().fit(TEXTS, LABELS).save(Path(folder, "m.kt"))
        return Path(folder, "m.kt").read_bytes()


@pytest.fixture(scope="module")
def model() -> kt.KeyTokenClassifier:
    return kt.KeyTokenClassifier(class_weight={"no": 1.0, "yes": 2.0}).fit(TEXTS, LABELS)


@pytest.mark.parametrize("name", ["model.kt", "model"])
def test_the_same_bits_come_back(model, tmp_path, name: str) -> None:
    model.save(tmp_path / name)
    again = kt.load(tmp_path / name)
    assert again.decision_function(TEXTS).tobytes() == model.decision_function(TEXTS).tobytes()
    assert again.vocabulary_ == model.vocabulary_
    assert again.get_params() == model.get_params()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.core_.reason_ == model.core_.reason_
    for part in ("signed_frequency_", "posterior_difference_"):
        assert np.array_equal(getattr(again, part), getattr(model, part))


def test_only_a_model_is_written_over(model, tmp_path) -> None:
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(kt.FileError, match=r"or that of a model; got: .* such as 'notes.txt'"):
        model.save(tmp_path / "model")
    assert (tmp_path / "model" / "notes.txt").read_text() == "mine"
    (tmp_path / "letter").write_text("mine")
    with pytest.raises(kt.FileError, match=r"must be a folder \(no suffix\); got: a file"):
        model.save(tmp_path / "letter")
    (tmp_path / "folder.kt").mkdir()
    with pytest.raises(kt.FileError, match="must be a file; got: a folder of that name"):
        model.save(tmp_path / "folder.kt")


def test_a_file_of_something_else_is_never_written_over(model, tmp_path) -> None:
    other = {"x": np.zeros(2)}
    save_file(other, tmp_path / "weights.kt", metadata={"keytokens": '{"kind": "trajectory"}'})
    save_file(other, tmp_path / "bare.kt")
    (tmp_path / "thesis.docx").write_text("years of work")
    (tmp_path / "link.kt").symlink_to(tmp_path / "thesis.docx")
    os.mkfifo(tmp_path / "pipe.kt")
    before = {name: (tmp_path / name).lstat() for name in os.listdir(tmp_path)}
    for name in before:
        with pytest.raises(kt.FileError, match="must be a new file or a model; got: a file of"):
            model.save(tmp_path / name)
    assert before == {name: (tmp_path / name).lstat() for name in os.listdir(tmp_path)}
    (tmp_path / "weights").mkdir()
    save_file(other, tmp_path / "weights" / "model.safetensors")  # of another program
    with pytest.raises(kt.FileError, match=r"such as 'model.safetensors'"):
        model.save(tmp_path / "weights")


def test_a_model_behind_a_link_and_an_empty_file_are_written_over(model, tmp_path) -> None:
    (tmp_path / "m.kt").touch()  # as mktemp leaves it
    (tmp_path / "link.kt").symlink_to(tmp_path / "m.kt")
    for _ in range(2):
        model.save(tmp_path / "link.kt")
    assert (tmp_path / "link.kt").is_symlink()
    assert kt.load(tmp_path / "m.kt").vocabulary_ == model.vocabulary_


FULL = """
import pathlib, resource, sys, keytokens as kt
model = kt.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    model.save(sys.argv[2])
except kt.FileError as error:
    sys.exit(str(error) == f"{sys.argv[2]} must be writable; got: File too large (os error 27).")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system's words on a file too large")
@pytest.mark.parametrize("name", ["new.kt", "new"])
def test_a_file_that_does_not_fit_is_one_clear_line(model, tmp_path, name: str) -> None:
    model.save(tmp_path / "m.kt")
    words = [sys.executable, "-c", FULL, str(tmp_path / "m.kt"), str(tmp_path / name)]
    assert subprocess.run(words).returncode == 1
    assert os.listdir(tmp_path) == ["m.kt"]


def test_numpys_scalars_are_parameters(tmp_path) -> None:
    params = dict(
        max_iter=np.int64(50), selectivity=np.float32(0.25), binary=np.bool_(True),
        ngrams=(np.int64(1), np.int64(2)), options={"prior": np.float32(0.5)},
        class_weight={np.int64(0): np.float32(1), np.int64(1): np.float64(2)},
    )  # fmt: skip
    fitted = kt.KeyTokenClassifier(**params).fit(TEXTS, [1, 1, 0, 0])
    fitted.save(tmp_path / "m.kt")
    again = kt.load(tmp_path / "m.kt")
    assert again.get_params() == fitted.get_params()
    assert type(again.max_iter) is int
    with pytest.raises(kt.InputError, match="must be numbers, strings or lists; got <object"):
        fitted.set_params(random_state=object()).save(tmp_path / "m.kt")


def test_saving_again_gives_the_same_file(model, tmp_path) -> None:
    model.save(tmp_path / "one.kt")
    kt.load(tmp_path / "one.kt").save(tmp_path / "two.kt")
    assert (tmp_path / "one.kt").read_bytes() == (tmp_path / "two.kt").read_bytes()


@pytest.mark.parametrize("labels", [[1, 2, 3, 1], [True, False, True, False], ["é", "b", "c", "é"]])
def test_labels_keep_their_type(tmp_path, labels) -> None:
    fitted = kt.KeyTokenClassifier().fit(TEXTS, labels)
    fitted.save(tmp_path / "m.kt")
    again = kt.load(tmp_path / "m.kt")
    assert again.classes_.dtype == fitted.classes_.dtype
    assert again.predict(TEXTS).tolist() == fitted.predict(TEXTS).tolist()


def test_a_loaded_model_learns_on_and_explains(model, tmp_path) -> None:
    model.save(tmp_path / "m.kt")
    again = kt.load(tmp_path / "m.kt")
    assert again.explain("good").logit == model.explain("good").logit
    again.partial_fit(["good"], ["no"])
    assert again.decision_function(["good"]) < model.decision_function(["good"])


def test_a_tokeniser_of_your_own_is_asked_for(tmp_path) -> None:
    fitted = kt.KeyTokenClassifier(tokenizer=str.split).fit(TEXTS, LABELS)
    fitted.save(tmp_path / "m.kt")
    with pytest.raises(kt.InputError, match="tokenizer must be given again"):
        kt.load(tmp_path / "m.kt")
    again = kt.load(tmp_path / "m.kt", tokenizer=str.split)
    assert np.array_equal(again.decision_function(TEXTS), fitted.decision_function(TEXTS))


def test_a_tokeniser_of_the_package_needs_no_code(model, tmp_path) -> None:
    fitted = kt.KeyTokenClassifier(tokenizer=Tokenizer(punctuation=False)).fit(TEXTS, LABELS)
    fitted.save(tmp_path / "m.kt")
    params = model_file.read(tmp_path / "m.kt")[1]["params"]
    again = kt.load(tmp_path / "m.kt")
    assert again.get_params() == fitted.get_params()
    assert "!" not in again.vocabulary_
    kt.load(tmp_path / "m.kt", tokenizer=Tokenizer(punctuation=False))
    changed(fitted, tmp_path / "older.kt", params=params | {"tokenizer": "custom"})
    assert kt.load(tmp_path / "older.kt").tokenizer == Tokenizer(punctuation=False)


def test_a_tokeniser_that_would_be_ignored_is_refused(model, tmp_path) -> None:
    model.save(tmp_path / "m.kt")
    for other in (str.split, Tokenizer(punctuation=False)):
        with pytest.raises(kt.InputError, match=r"tokenizer must be left out: the model has Tok"):
            kt.load(tmp_path / "m.kt", tokenizer=other)


def test_a_parameter_younger_than_the_file_is_at_its_default(model, tmp_path) -> None:
    model.save(tmp_path / "m.kt")
    params = model_file.read(tmp_path / "m.kt")[1]["params"]
    del params["calibrate"]
    changed(model, tmp_path / "m.kt", params=params)
    assert kt.load(tmp_path / "m.kt").get_params() == model.get_params()


def test_numbers_of_a_cut_model_take_four_bytes(model, tmp_path) -> None:
    small = model.cut(200)
    small.save(tmp_path / "small.kt")
    stored = load_file(tmp_path / "small.kt")
    assert {stored[name].dtype for name in ("attention", "value")} == {np.dtype(np.float32)}
    model.save(tmp_path / "m.kt")
    assert load_file(tmp_path / "m.kt")["value"].dtype == np.float64
    again = kt.load(tmp_path / "small.kt")
    assert again.decision_function(TEXTS).tobytes() == small.decision_function(TEXTS).tobytes()
    for name in ("attention_", "value_", "posterior_difference_"):
        assert getattr(again, name).dtype == np.float64
        assert getattr(again, name).tobytes() == getattr(small, name).tobytes()


def changed(model, path, arrays=None, drop=(), **meta) -> None:
    """Save the model, then write it again with parts replaced."""
    model.save(path)
    with safe_open(path, "numpy") as file:
        told = json.loads(file.metadata()["keytokens"])
    parts = {k: v for k, v in load_file(path).items() if k not in drop} | (arrays or {})
    told = {k: v for k, v in (told | meta).items() if k not in drop}
    save_file(parts, path, metadata={"keytokens": json.dumps(told)})


BROKEN = {
    "must be of version 1; got version 99": dict(version=99),
    "must be of version 1; got version None": dict(version=None),
    "must be a keytokens model; got the description of something else": dict(format="other"),
    "must hold no unknown description; got extra": dict(extra=1),
    "must hold the description reason; got none": dict(drop=["reason"]),
    "must hold no unknown arrays; got virus": dict(arrays={"virus": np.zeros(3)}),
    "must hold the arrays value; got none": dict(drop=["value"]),
    "value must have shape (M, K, V+1)": dict(arrays={"value": np.zeros((1, 1, 3))}),
    "signed_frequency must have": dict(arrays={"signed_frequency": np.zeros(1)}),
    "bias must be finite": dict(arrays={"bias": np.array([np.nan])}),
    "classes must fit the model's outputs; got 3": dict(classes=["a", "b", "c"]),
    "iterations must be of its own type; got str": dict(iterations="12"),
    "classes must fit the model's outputs; got 1": dict(classes=["yes"]),
    "classes must be distinct and sorted; got ['yes', 'no']": dict(classes=["yes", "no"]),
    "class_kind must hold the classes; got '<U1'": dict(class_kind="<U1"),
    "temperature must be positive; got -1": dict(temperature=-1.0),
    "must hold the values of a model; got one that breaks it (data type 'x'": dict(class_kind="x"),
    "must hold the values of a model; got one that breaks it (HeldOut": dict(held_out={"a": 1}),
}


@pytest.mark.parametrize("message", BROKEN)
def test_broken_files_are_named(model, tmp_path, message: str) -> None:
    changed(model, tmp_path / "m.kt", **BROKEN[message])
    with pytest.raises(kt.InputError) as caught:
        kt.load(tmp_path / "m.kt")
    assert message in str(caught.value)


def test_unknown_parameters_are_named(model, tmp_path) -> None:
    model.save(tmp_path / "m.kt")
    params = model_file.read(tmp_path / "m.kt")[1]["params"]
    changed(model, tmp_path / "m.kt", params=params | {"tomorrow": 1})
    with pytest.raises(kt.InputError, match="must hold no unknown parameters; got tomorrow"):
        kt.load(tmp_path / "m.kt")


NONSENSE = [None, -1, 1e308, float("nan"), 10**30, "x", [], {}, [[1]], [None], True, {"a": 1}]


def places(told, path=()):
    """Every key of a nested description."""
    items = told.items() if isinstance(told, dict) else enumerate(told)
    for key, value in list(items):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def test_nonsense_anywhere_is_refused_or_harmless(model, tmp_path) -> None:
    """Whatever one value becomes, loading and asking end in an answer or in an error of ours."""
    model.save(tmp_path / "m.kt")
    arrays, meta = model_file.read(tmp_path / "m.kt")
    refused = 0
    for path in places(meta):
        for value in NONSENSE:
            told = json.loads(json.dumps(meta))
            inner = told
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            model_file.write(tmp_path / "broken.kt", arrays, told)
            try:
                kt.load(tmp_path / "broken.kt").predict_proba(TEXTS)
            except kt.KeytokensError:
                refused += 1
    assert refused >= 200


@settings(max_examples=200, deadline=None)
@given(places=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=9))
def test_changed_bytes_are_refused_or_harmless(places) -> None:
    data = bytearray(saved())
    for place, byte in places:
        data[int(place * (len(data) - 1))] = byte
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "m.kt").write_bytes(data)
        with suppress(kt.KeytokensError):
            kt.load(Path(folder, "m.kt")).predict_proba(TEXTS)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle", b"\xff" * 100])
def test_other_files_are_refused(tmp_path, content: bytes) -> None:
    (tmp_path / "m.kt").write_bytes(content)
    with pytest.raises(kt.InputError, match="must be a keytokens model"):
        kt.load(tmp_path / "m.kt")


def test_a_truncated_file_is_refused(model, tmp_path) -> None:
    model.save(tmp_path / "m.kt")
    data = (tmp_path / "m.kt").read_bytes()
    (tmp_path / "m.kt").write_bytes(data[: len(data) - 5])
    with pytest.raises(kt.InputError, match="must be a keytokens model"):
        kt.load(tmp_path / "m.kt")


def test_missing_files_are_named(model, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(kt.FileError, match="must be a file or a folder; got: a pipe or a device"):
        kt.load(tmp_path / "pipe")
    with pytest.raises(kt.FileError, match="must be a readable model"):
        kt.load(tmp_path / "none.kt")
    model.save(tmp_path / "folder")
    (tmp_path / "folder" / "model.json").unlink()
    with pytest.raises(kt.FileError, match="must be a readable model"):
        kt.load(tmp_path / "folder")
    shutil.rmtree(tmp_path / "folder")


def test_a_large_vocabulary_loads_faster_than_it_is_split(model, tmp_path) -> None:
    """300,000 n-grams: reading is not a pass in Python per n-gram."""
    words = [f"word{k} and{k % 1000}" for k in range(150_000)]
    large = kt.KeyTokenClassifier(min_count=1, max_iter=1).fit(
        [*words, *words[:2]], [0, 1] * 75_001
    )
    large.save(tmp_path / "large.kt")
    assert len(large.vocabulary_) > 300_000
    kt.load(tmp_path / "large.kt")
    spent = []
    for job in (lambda: kt.load(tmp_path / "large.kt"), lambda: sorted(large.vocabulary_)):
        start = time.perf_counter()
        job()
        spent.append(time.perf_counter() - start)
    assert spent[0] < 5 * spent[1]
