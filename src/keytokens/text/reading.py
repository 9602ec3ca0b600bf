"""Tables of labelled texts from files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keytokens.errors import raise_input


@dataclass(frozen=True)
class Table:
    """Texts and, where asked for, their labels. `columns` are the names the file has."""

    texts: list[str]
    labels: NDArray[Any] | None
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.texts)


def read_table(path: str | Path, text: str | None = None, label: str | bool | None = None) -> Table:
    """A whole file. `text` and `label` name columns ("text" and "label" unless told otherwise);
    label=False reads texts alone."""
    import polars as pl

    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}
    frame = readers[Path(path).suffix](path)
    columns = tuple(frame.columns)
    text, label = text or "text", "label" if label is None else label
    for name, column in (("text", text), ("label", label)):
        if column is not False and column not in columns:
            raise_input(name, f"name a column of {path} ({', '.join(columns)})", repr(column))
    labels = None if label is False else np.asarray(frame[str(label)].to_list())
    return Table(frame[text].to_list(), labels, columns)


def read_batches(
    path: str | Path, text: str | None = None, label: str | bool | None = False, rows: int = 10_000
) -> Iterator[Table]:
    """The same in tables of at most `rows` rows, for files of any size."""
    table = read_table(path, text, label)
    for k in range(0, len(table), rows):
        labels = None if table.labels is None else table.labels[k : k + rows]
        yield Table(table.texts[k : k + rows], labels, table.columns)
