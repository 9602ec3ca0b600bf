"""One reader a file format: each yields the rows of a file as (text, label), and nothing else.

A new format is one function here and its line in `READERS`.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from keytokens.errors import FileError, raise_input

Column = str | int
Row = tuple[Any, Any]


class Source(NamedTuple):
    """A file's column names, its rows (label None unless asked for), and whether labels have a
    type there (in formats of plain text, "1" may mean a number)."""

    columns: tuple[str, ...]
    rows: Iterator[Row]
    typed: bool


class Wanted(NamedTuple):
    """The columns to read; label False: none."""

    text: Column
    label: Column | bool


def source(path: Path, wanted: Wanted) -> Source:
    """The reader for this file, by its name's ending; a folder holds one folder per class."""
    if not path.exists():
        raise FileError(f"{path} must exist; got: no such file or folder.")
    if path.is_dir():
        return _folder(path, wanted)
    suffix = path.suffix.lower()
    if suffix not in READERS and _is_labelled(path):
        suffix = ".txt"
    if suffix not in READERS:
        rule = f"end in {', '.join(READERS)}, or be a folder, or begin with __label__"
        raise_input(str(path), rule, repr(path.name))
    return READERS[suffix](path, wanted)


@contextmanager
def _opened(path: Path, newline: str = "") -> Iterator[TextIO]:
    """The file as UTF-8, with or without a byte-order mark; only `newline` ends a line."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        came = f"byte 0x{error.object[error.start]:02x} ({error.reason}); convert it first"
        raise_input(str(path), "be encoded in UTF-8", came)
    except OSError as error:
        raise FileError(f"{path} must be readable; got: {error.strerror or error}.") from error


def _place(path: Path, columns: tuple[str, ...], name: str, column: Column, hint: str = "") -> int:
    """The position of a column given by name."""
    if column not in columns:
        listed = ", ".join(map(repr, columns))
        raise_input(name, f"name a column of {path}, which has {listed}", f"{column!r}{hint}")
    return columns.index(str(column))


def _delimited(path: Path, wanted: Wanted, delimiter: str, quoting: Any) -> Source:
    """Rows of fields. Positions (0, 1, ...) instead of names: the file has no header line."""
    # A text may be longer than the csv module's limit, which is one for the whole process.
    csv.field_size_limit(2**31 - 1)
    asked = [wanted.text] if wanted.label is False else [wanted.text, wanted.label]
    header = _header(path, delimiter, quoting)
    for other in ";\t":  # as spreadsheets write csv where the comma is a decimal point
        if not set(asked) <= set(header) and set(asked) <= set(_header(path, other, quoting)):
            header, delimiter = _header(path, other, quoting), other
    bare = not set(asked) <= set(header) and all(str(column).isdecimal() for column in asked)
    if bare:
        _check_bare(path, asked, header)
    columns = tuple(map(str, range(len(header)))) if bare else header
    hint = " (a file without a header line: give positions, 0 for the first column)"
    places = [
        _place(path, columns, name, str(column), hint)
        for name, column in zip(("text", "label"), asked, strict=False)
    ]
    rows = _fields(path, delimiter, quoting, len(header), skip=not bare)
    return Source(columns, ((row[places[0]], _at(row, places[1:])) for row in rows), False)


def _check_bare(path: Path, asked: Sequence[Any], header: tuple[str, ...]) -> None:
    """Positions are for files without a header line; one that says "text" there has it."""
    for name, place in zip(("text", "label"), map(int, asked), strict=False):
        if place < len(header) and header[place].strip().lower() == name:
            rule = f"name a column of {path}, which has a header line"
            raise_input(name, rule, f"position {place}, where that line says {header[place]!r}")


def _header(path: Path, delimiter: str, quoting: Any) -> tuple[str, ...]:
    """The fields of the first line."""
    with _opened(path) as file:
        header = tuple(next(csv.reader(file, delimiter=delimiter, quoting=quoting), ()))
    if not header:
        raise_input(str(path), "hold rows", "an empty file")
    return header


def _at(row: list[str], place: list[int]) -> str | None:
    return row[place[0]] if place else None


def _fields(
    path: Path, delimiter: str, quoting: Any, width: int, skip: bool
) -> Iterator[list[str]]:
    """Every row's fields, all rows equally many. Where there is one column a blank line is its
    empty field; where there are more it is skipped."""
    with _opened(path) as file:
        reader = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
        number = -skip
        try:
            for row in reader:
                if not row and width > 1:
                    continue
                row, number = row or [""], number + 1
                if len(row) != width:
                    raise_input(f"{path}, row {number}", f"have {width} fields", len(row))
                if number:
                    yield row
        except csv.Error as error:
            raise_input(f"{path}, row {number + 1}", "be well-formed", str(error))


def _csv(path: Path, wanted: Wanted) -> Source:
    return _delimited(path, wanted, ",", csv.QUOTE_MINIMAL)


def _tsv(path: Path, wanted: Wanted) -> Source:
    """Tabs and line ends separate; a quotation mark is a character like any other."""
    return _delimited(path, wanted, "\t", csv.QUOTE_NONE)


def _jsonl(path: Path, wanted: Wanted) -> Source:
    """One JSON object a line. The columns are the first one's keys."""
    first = next(_objects(path), None)
    if first is None:
        raise_input(str(path), "hold one JSON object a line", "none")
    columns = tuple(first)
    for name, column in zip(("text", "label"), wanted, strict=True):
        if column is not False:
            _place(path, columns, name, column)
    rows = ((row.get(wanted.text), row.get(wanted.label)) for row in _objects(path))
    return Source(columns, rows, True)


def _objects(path: Path) -> Iterator[dict[Any, Any]]:
    with _opened(path, "\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise_input(f"{path}, line {number}", "be a JSON object", str(error))
            if not isinstance(row, dict):
                raise_input(f"{path}, line {number}", "be a JSON object", f"{row!r:.40}")
            yield row


def _lines(path: Path, wanted: Wanted) -> Source:
    """One text a line, with its label before it where it has one: `__label__NAME the text`."""
    for name, column in zip(("text", "label"), wanted, strict=True):
        if column is not False:
            _place(path, ("text", "label"), name, column)
    return Source(("text", "label"), _labelled_lines(path), False)


def _is_labelled(path: Path) -> bool:
    """Does it begin as fastText's files do, whatever its name?"""
    try:
        with path.open("rb") as file:
            return file.read(12).removeprefix(b"\xef\xbb\xbf").startswith(b"__label__")
    except OSError:
        return False


def _labelled_lines(path: Path) -> Iterator[Row]:
    with _opened(path, "\n") as file:
        for number, line in enumerate(file, 1):
            label, text = None, line.rstrip("\r\n")
            if match := re.match(r"__label__(\S+)\s*", text):
                label, text = match[1], text[match.end() :]
            if label and text.startswith("__label__"):
                raise_input(f"{path}, line {number}", "have one label", f"{line!r:.60}")
            yield text, label


def _folder(path: Path, wanted: Wanted) -> Source:
    """One folder per class, one file per text; files beside the folders when no label is asked."""
    folders = [folder for folder in _visible(path) if folder.is_dir()]
    pairs = ((file, folder.name) for folder in folders for file in _visible(folder))
    if not folders and wanted.label is False:
        pairs = ((file, "") for file in _visible(path))
    first = next(pairs, None)
    if first is None:
        raise_input(str(path), "hold one folder per class with the texts as files", "none")
    rows = ((_whole(file), label) for file, label in chain([first], pairs) if file.is_file())
    return Source(("text", "label"), rows, False)


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _whole(path: Path) -> str:
    with _opened(path) as file:
        return file.read()


def _parquet(path: Path, wanted: Wanted) -> Source:
    import polars as pl

    with _told(path):
        table = pl.scan_parquet(path)
        columns = tuple(table.collect_schema().names())
    names = [wanted.text] if wanted.label is False else list(wanted)
    for name, column in zip(("text", "label"), names, strict=False):
        _place(path, columns, name, column)
    return Source(columns, _parquet_rows(path, table.select([str(name) for name in names])), True)


def _parquet_rows(path: Path, table: Any) -> Iterator[Row]:
    """Batch after batch where this polars can, so that a file may be larger than memory."""
    stream = hasattr(table, "collect_batches")
    with _told(path):
        batches = table.collect_batches(maintain_order=True) if stream else [table.collect()]
        for batch in batches:
            text, *label = (batch[name].to_list() for name in batch.columns)
            yield from zip(text, label[0] if label else [None] * len(text), strict=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn polars' word on a file into ours."""
    from polars.exceptions import PolarsError

    try:
        yield
    except PolarsError as error:
        raise_input(str(path), "be a Parquet file", f"{error!s:.100}")


READERS: dict[str, Callable[[Path, Wanted], Source]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
    ".txt": _lines,
}
