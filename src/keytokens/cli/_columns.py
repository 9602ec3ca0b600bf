"""Columns and places named on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keytokens.text import Table

_MOST_CLASSES = 100  # more fractions than these are measurements


class Data(click.Path):
    """A file or a folder of texts; "-" is standard input."""

    def __init__(self) -> None:
        super().__init__(exists=True, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return super().convert("/dev/stdin" if value == "-" else value, param, ctx)


def column(name: str | None) -> str | int | None:
    """A name, or a position (in a file without a header line) where it is a number."""
    return int(name) if name is not None and name.isdecimal() else name


def table(path: Path, text: str | None, label: str | bool | None = False) -> "Table":
    """The texts and labels of a file; label=False reads texts alone."""
    from dataclasses import replace

    from keytokens.text import read_table

    wanted = column(label) if isinstance(label, str) else label
    found = read_table(path, text=column(text), label=wanted)
    return replace(found, labels=_named(found.labels))


def _named(labels: Any) -> Any:
    """Fractions that repeat, such as half stars, are the names of classes."""
    import numpy as np

    if labels is None or labels.dtype.kind != "f" or not np.isfinite(labels).all():
        return labels
    distinct = len(np.unique(labels))
    if (labels == np.floor(labels)).all() or distinct > _MOST_CLASSES or 2 * distinct > len(labels):
        return labels
    return np.array([str(label) for label in labels.tolist()], object)


def kept(out: Path | None, *given: Path | None) -> None:
    """Refuse to write over what is read."""
    from keytokens.errors import raise_input

    for path in given:
        if out is not None and path is not None and out.exists() and out.samefile(path):
            raise_input("--out", "be another place than what is read", repr(str(out)))
