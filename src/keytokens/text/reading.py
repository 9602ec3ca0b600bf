"""Tables of labelled texts from files."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import keytokens._checks as check
from keytokens.errors import raise_input
from keytokens.text.formats import Column, Row, Source, Wanted, source
from keytokens.text.spooling import spooled

_BATCH_CHARACTERS = 1 << 25  # a batch of long texts is cut here, whatever its number of rows
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d*)?([eE][+-]?\d{1,2})?")


@dataclass(frozen=True)
class Table:
    """Texts and, where asked for, their labels; `columns` are the names the file has."""

    texts: list[str]
    labels: NDArray[Any] | None
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def read_table(
    path: str | Path, text: Column | None = None, label: Column | bool | None = None
) -> Table:
    """The texts and labels of a whole file, or of a folder with one folder per class.

    `text` and `label` name the columns, "text" and "label" if not given; label=False reads texts
    alone. A csv or tsv without a header line has positions for names: text=0, label=1.
    """
    wanted, path = _wanted(text, label), spooled(path)
    found = source(path, wanted)
    rows = list(_checked(found.rows, path, wanted))
    if not rows:
        raise_input(str(path), "hold at least one text", "none")
    return _table(rows, found, wanted, _reading_of(found, (label for _, label in rows)))


def read_batches(
    path: str | Path,
    text: Column | None = None,
    label: Column | bool | None = False,
    rows: int = 10_000,
) -> Iterator[Table]:
    """The same in tables of at most `rows` rows, one at a time: for files of any size."""
    check.integer("rows", rows, least=1)
    wanted, path = _wanted(text, label), spooled(path)
    reading: Callable[[Any], Any] = _same
    if wanted.label is not False:  # a first pass, since the last label may say what "1" means
        first = source(path, wanted)
        reading = _reading_of(first, (label for _, label in _checked(first.rows, path, wanted)))
    found = source(path, wanted)
    for batch in _batches(_checked(found.rows, path, wanted), rows):
        yield _table(batch, found, wanted, reading)


def _wanted(text: Column | None, label: Column | bool | None) -> Wanted:
    named = "label" if label is None or label is True else label
    return Wanted("text" if text is None else text, named)


def _checked(rows: Iterator[Row], path: str | Path, wanted: Wanted) -> Iterator[Row]:
    """Every row has a text and, where asked for, a label. Rows count from 1."""
    for number, (text, label) in enumerate(rows, 1):
        if not isinstance(text, str):
            raise_input(f"{path}, row {number}", "have a string as text", f"{text!r:.60}")
        if wanted.label is not False and not _is_label(label):
            raise_input(f"{path}, row {number}", "have a label", f"{label!r:.60}")
        yield text, label


def _is_label(label: Any) -> bool:
    """One value, neither missing nor empty; NaN is the one that differs from itself."""
    if isinstance(label, str):
        return label != ""
    return label is not None and not hasattr(label, "__len__") and label == label


def _batches(rows: Iterator[Row], most: int) -> Iterator[list[Row]]:
    batch, characters = [], 0
    for row in rows:
        batch.append(row)
        characters += len(row[0])
        if len(batch) == most or characters > _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _table(rows: list[Row], found: Source, wanted: Wanted, reading: Callable[[Any], Any]) -> Table:
    texts = [text for text, _ in rows]
    labels = None if wanted.label is False else _array([reading(label) for _, label in rows])
    return Table(texts, labels, found.columns)


def _reading_of(found: Source, labels: Iterator[Any]) -> Callable[[Any], Any]:
    """How to read the labels of a plain-text format: as numbers if all of them are."""
    if found.typed:
        return _same
    distinct = {label for label in labels if label is not None}
    for pattern, kind in ((_WHOLE, int), (_DECIMAL, float)):
        if distinct and all(pattern.fullmatch(label) for label in distinct):
            return kind
    return _same


def _same(label: Any) -> Any:
    return label


def _array(labels: list[Any]) -> NDArray[Any]:
    """Labels of one type: numbers and booleans as such, everything else as objects."""
    kinds = {type(label) for label in labels}
    if kinds <= {int} or kinds <= {bool} or kinds <= {int, float}:
        return np.array(labels)
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise_input("labels", "all be of one type", names)
    array = np.empty(len(labels), object)
    array[:] = labels
    return array
