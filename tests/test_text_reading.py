"""Every format gives the same table; what is wrong is named with its file and row."""

import gc
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import keytokens as kt
from keytokens.text import Table, read_batches, read_table

TEXTS = ['It is "good", isn\'t it?', "bad", "line one; line two <br />", "ñandú 👍"]
LABELS = ["pos", "neg", "neg", "pos"]


def write_csv(folder: Path, texts: list[str], labels: list[Any]) -> Path:
    pl.DataFrame({"id": range(len(texts)), "text": texts, "label": labels}).write_csv(
        folder / "data.csv"
    )
    return folder / "data.csv"


def write_tsv(folder: Path, texts: list[str], labels: list[Any]) -> Path:
    lines = [
        "text\tlabel",
        *(f"{text}\t{label}" for text, label in zip(texts, labels, strict=True)),
    ]
    return written(folder / "data.tsv", "\r\n".join(lines))


def write_jsonl(folder: Path, texts: list[str], labels: list[Any]) -> Path:
    rows = ({"label": label, "text": text} for text, label in zip(texts, labels, strict=True))
    return written(folder / "data.jsonl", "\n".join(map(json.dumps, rows)))


def write_parquet(folder: Path, texts: list[str], labels: list[Any]) -> Path:
    pl.DataFrame({"text": texts, "label": labels}).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


def write_lines(folder: Path, texts: list[str], labels: list[Any]) -> Path:
    lines = (f"__label__{label} {text}\n" for text, label in zip(texts, labels, strict=True))
    return written(folder / "data.txt", "".join(lines))


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


WRITERS = [write_csv, write_tsv, write_jsonl, write_parquet, write_lines]
every_format = pytest.mark.parametrize("write", WRITERS)
Writer = Callable[[Path, list[str], list[Any]], Path]


@every_format
def test_every_format_gives_the_same_table(write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, TEXTS, LABELS)
    table = read_table(path)
    assert table.texts == TEXTS
    assert table.labels is not None
    assert table.labels.tolist() == LABELS
    assert {"text", "label"} <= set(table.columns)
    alone = read_table(path, label=False)
    assert (alone.texts, alone.labels) == (TEXTS, None)


@every_format
def test_batches_are_the_table_in_pieces(write: Writer, tmp_path: Path) -> None:
    path = write(tmp_path, TEXTS, [1, 2, 2, 1])
    batches = list(read_batches(path, rows=3))
    assert [batch.texts for batch in batches] == [TEXTS[:3], TEXTS[3:]]
    assert all(batch.labels is None for batch in batches)
    labelled = list(read_batches(path, label="label", rows=1))
    assert [batch.labels.tolist() for batch in labelled if batch.labels is not None] == [
        [1], [2], [2], [1],
    ]  # fmt: skip


@every_format
@pytest.mark.parametrize(
    ("labels", "kind"), [([0, 1, 1], "i"), ([0.5, 1.0, -2.0], "f"), (["01", "02", "1"], "O")]
)
def test_labels_keep_their_type(
    write: Writer, labels: list[Any], kind: str, tmp_path: Path
) -> None:
    found = read_table(write(tmp_path, ["a", "b", "c"], labels)).labels
    assert found is not None
    assert found.dtype.kind == kind
    assert found.tolist() == labels


def test_one_odd_label_makes_all_of_them_strings_in_every_batch(tmp_path: Path) -> None:
    path = write_csv(tmp_path, ["a", "b", "c"], ["1", "2", "x"])
    found = [batch.labels[0] for batch in read_batches(path, label=True, rows=1)]  # type: ignore[index]
    assert found == ["1", "2", "x"]


def test_booleans_stay_booleans(tmp_path: Path) -> None:
    for write in (write_jsonl, write_parquet):
        labels = read_table(write(tmp_path, ["a", "b"], [True, False])).labels
        assert labels is not None
        assert labels.dtype == bool


def test_a_folder_of_class_folders(tmp_path: Path) -> None:
    for name, label, text in (("2", "pos", "good"), ("10", "pos", "fine"), ("1", "neg", "bad")):
        (tmp_path / label).mkdir(exist_ok=True)
        written(tmp_path / label / f"{name}.txt", "\ufeff" + text)
    written(tmp_path / ".hidden", "x")
    table = read_table(tmp_path)
    assert table.texts == ["bad", "fine", "good"]
    assert table.labels is not None
    assert table.labels.tolist() == ["neg", "pos", "pos"]
    assert read_table(tmp_path / "pos", label=False).texts == ["fine", "good"]


def test_columns_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "stars,review\n5,great\n1,awful\n")
    assert read_table(path, "review", "stars") == Equal(["great", "awful"], [5, 1])
    message = f"text must name a column of {path}, which has 'stars', 'review'; got 'text'"
    with pytest.raises(kt.InputError) as caught:
        read_table(path)
    assert message in str(caught.value)


class Equal:
    """A table's texts and labels, to compare with."""

    def __init__(self, texts: list[str], labels: list[Any]) -> None:
        self.texts, self.labels = texts, labels

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Table)
        assert other.labels is not None
        return (other.texts, other.labels.tolist()) == (self.texts, self.labels)


READABLE = {
    "a.csv": ('\ufefftext,label\r\n"a, ""b""\r\nc",1\r\n\r\n,2\r\n', ['a, "b"\r\nc', ""], [1, 2]),
    "b.csv": ("text,label\na\0b,x\n1984,y", ["a\0b", "1984"], ["x", "y"]),
    "c.TSV": ('label\ttext\n1\t"he" said "5\n1\t "', ['"he" said "5', ' "'], [1, 1]),
    "d.jsonl": ('\n{"text": "\\ud800", "label": "x"}\n\n', ["\ud800"], ["x"]),
    "e.ndjson": ('{"text": "a", "label": 1}\n{"label": 1.5, "text": ""}', ["a", ""], [1, 1.5]),
    "f.txt": ("__label__a  x __label__ y\r\n__label__b\n", ["x __label__ y", ""], ["a", "b"]),
}


@pytest.mark.parametrize("name", READABLE)
def test_unusual_but_fine(name: str, tmp_path: Path) -> None:
    content, texts, labels = READABLE[name]
    assert read_table(written(tmp_path / name, content)) == Equal(texts, labels)


def test_no_header_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "good,1\nbad,0\n")
    assert read_table(path, text=0, label=1) == Equal(["good", "bad"], [1, 0])
    assert read_table(path, text="0", label="1") == Equal(["good", "bad"], [1, 0])
    with pytest.raises(kt.InputError, match="give positions, 0 for the first column"):
        read_table(path)
    with pytest.raises(kt.InputError, match="which has '0', '1'; got '2'"):
        read_table(path, text=2, label=1)


def test_positions_are_not_for_a_file_with_a_header_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Text,label\ngood,1\nbad,0\n")
    message = "text must name a column of .*, which has a header line; got position 0, where that"
    with pytest.raises(kt.InputError, match=message):
        next(read_batches(path, text=0))
    other = written(tmp_path / "b.csv", "kind,review\ntext,1\n")  # "text" may be a value
    assert read_table(other, text=1, label=False).texts == ["review", "1"]


def test_a_blank_line_of_a_single_column_is_an_empty_text(tmp_path: Path) -> None:
    for name in ("a.csv", "a.tsv"):
        path = written(tmp_path / name, "text\r\none\r\n\r\ntwo\r\n")
        assert read_table(path, label=False).texts == ["one", "", "two"]
    bare = written(tmp_path / "bare.csv", "one\n\ntwo\n")
    assert read_table(bare, text=0, label=False).texts == ["one", "", "two"]


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], Path]:
    """A named pipe into which the content is written once; copies of it go to `copies`."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no named pipes here")
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))

    def filled(name: str, content: bytes) -> Path:
        path = tmp_path / name
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
        return path

    return filled


@every_format
@pytest.mark.parametrize("rows", [None, 3])
def test_a_pipe_is_read_once_and_whole(
    write: Writer, rows: int | None, pipe: Callable[[str, bytes], Path], tmp_path: Path
) -> None:
    file = write(tmp_path, TEXTS, LABELS)
    path = pipe(f"pipe{file.suffix}", file.read_bytes())
    tables = [read_table(path)] if rows is None else list(read_batches(path, label=True, rows=rows))
    assert [text for table in tables for text in table.texts] == TEXTS
    assert [label for table in tables for label in table.labels] == LABELS  # type: ignore[union-attr]
    gc.collect()
    assert os.listdir(tmp_path / "copies") == []


def test_a_pipe_without_an_ending(pipe: Callable[[str, bytes], Path]) -> None:
    assert read_table(pipe("63", b"__label__a good\n")).texts == ["good"]
    with pytest.raises(
        kt.InputError, match=r"64 must end in .*, or begin with __label__; got '64'"
    ):
        read_table(pipe("64", b"text,label\ngood,1\n"))


def test_a_pipe_has_its_own_name_in_errors(pipe: Callable[[str, bytes], Path]) -> None:
    path = pipe("some.csv", b"text,label\ngood,1\nbad\n")
    with pytest.raises(kt.InputError) as caught:
        read_table(path)
    assert str(caught.value) == f"{path}, row 2 must have 2 fields; got 1."


def test_a_text_of_a_million_characters(tmp_path: Path) -> None:
    for write in WRITERS:
        assert read_table(write(tmp_path, ["x" * 10**6], ["a"])).texts == ["x" * 10**6]


def test_long_texts_make_small_batches(tmp_path: Path) -> None:
    path = write_lines(tmp_path, ["x" * (1 << 24)] * 4, ["a"] * 4)
    assert [len(batch) for batch in read_batches(path)] == [3, 1]


def test_plain_lines_are_texts(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\n\ntwo\n")
    assert read_table(path, label=False).texts == ["one", "", "two"]


def test_semicolons_where_they_part_the_columns_asked_for(tmp_path: Path) -> None:
    content = 'id;text;label\n1;"good; very, very good";1,5\n2;"bad, bad";0,5\n'
    table = read_table(written(tmp_path / "sheet.csv", content))
    assert table.texts == ["good; very, very good", "bad, bad"]
    assert table.labels.tolist() == ["1,5", "0,5"]
    lines = written(tmp_path / "lines.csv", "good; very good\nbad; so bad\n")
    assert read_table(lines, text=0, label=False).texts == ["good; very good", "bad; so bad"]


def test_fasttexts_lines_under_any_name(tmp_path: Path) -> None:
    path = written(tmp_path / "cooking.train", b"\xef\xbb\xbf__label__a one\n__label__b two\n")
    assert read_table(path).texts == ["one", "two"]
    assert read_table(path).labels.tolist() == ["a", "b"]


LATIN = "text,label\ncafé,1\n".encode("latin-1")
BAD = {
    "empty.csv": ("", "must hold rows; got an empty file"),
    "header.csv": ("text,label\n", "must hold at least one text; got none"),
    "wide.csv": ("text,label\na,1\nb,2,3\n", "row 2 must have 2 fields; got 3"),
    "narrow.csv": ("text,label\na\n", "row 1 must have 2 fields; got 1"),
    "open.csv": ('text,label\na,1\n"b,2\n', "row 2 must be well-formed; got unexpected end"),
    "unlabelled.csv": ("text,label\na,1\nb,\n", "row 2 must have a label; got ''"),
    "latin.csv": (LATIN, "latin.csv must be encoded in UTF-8; got byte 0xe9"),
    "utf16.csv": ("text,label\n".encode("utf-16"), "must be encoded in UTF-8; got byte 0xff"),
    "latin.txt": (b"__label__a caf\xe9", "must be encoded in UTF-8; got byte 0xe9"),
    "empty.jsonl": ("\n", "must hold one JSON object a line; got none"),
    "broken.jsonl": ('{"text": "a", "label": 1}\n{"text"', "line 2 must be a JSON object"),
    "deep.jsonl": ('{"text":' * 10**5, "line 1 must be a JSON object"),
    "list.jsonl": ("[1]", "line 1 must be a JSON object; got [1]"),
    "null.jsonl": ('{"text": null, "label": 1}', "row 1 must have a string as text; got None"),
    "number.jsonl": ('{"text": 3, "label": 1}', "row 1 must have a string as text; got 3"),
    "missing.jsonl": ('{"text": "a", "label": 1}\n{"text": "b"}', "row 2 must have a label; got N"),
    "nan.jsonl": ('{"text": "a", "label": NaN}', "row 1 must have a label; got nan"),
    "array.jsonl": ('{"text": "a", "label": [1]}', "row 1 must have a label; got [1]"),
    "mixed.jsonl": (
        '{"text": "a", "label": 1}\n{"text": "b", "label": "1"}',
        "labels must all be of one type; got int, str",
    ),
    "key.jsonl": ('{"body": "a", "label": 1}', "which has 'body', 'label'; got 'text'"),
    "bare.txt": ("__label__a x\nno label\n", "row 2 must have a label; got None"),
    "two.txt": ("__label__a __label__b x\n", "line 1 must have one label"),
    "bad.parquet": ("nonsense", "must be a Parquet file"),
    "a.docx": ("", "must end in .csv, .tsv, .jsonl, .ndjson, .parquet, .txt, or be a folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    path = written(tmp_path / name, content)
    with pytest.raises(kt.InputError) as caught:
        read_table(path)
    assert message in str(caught.value)
    assert name in str(caught.value) or name == "mixed.jsonl"


def test_bad_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({"text": [1, 2], "label": [1, None], "body": ["a", None]}).write_parquet(path)
    for text, label, message in (
        ("text", False, "row 1 must have a string as text; got 1"),
        ("body", False, "row 2 must have a string as text; got None"),
        ("title", False, "which has 'text', 'label', 'body'; got 'title'"),
        ("body", "stars", "label must name a column of"),
    ):
        with pytest.raises(kt.InputError, match=message):
            read_table(path, text, label)


def test_a_parquet_file_that_ends_early(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, [f"text {i}" for i in range(1000)], list(range(1000)))
    whole = path.read_bytes()
    written(path, whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pytest.raises(kt.InputError, match="must be a Parquet file"):
        read_table(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(kt.FileError, match=r"no\.csv must exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(kt.InputError, match="must hold one folder per class"):
        read_table(tmp_path)
    with pytest.raises(kt.InputError, match="rows must be at least 1"):
        next(read_batches(tmp_path, rows=0))


def test_real_reviews(shared_data: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(shared_data / "imdb.parquet").select("text", "label")[::20]
    texts, labels = frame["text"].to_list(), np.array(frame["label"].to_list())
    for write in (write_csv, write_jsonl, write_parquet):
        table = read_table(write(tmp_path, texts, labels.tolist()))
        assert table.texts == texts
        assert np.array_equal(table.labels, labels)  # type: ignore[arg-type]
