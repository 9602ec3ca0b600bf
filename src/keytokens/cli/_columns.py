"""Columns and places named on the command line."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keytokens.text import Table


def column(name: str | None) -> str | int | None:
    """A name, or a position (in a file without a header line) where it is a number."""
    return int(name) if name is not None and name.isdecimal() else name


def table(path: Path, text: str | None, label: str | bool | None = False) -> "Table":
    """The texts and labels of a file; label=False reads texts alone."""
    from keytokens.text import read_table

    wanted = column(label) if isinstance(label, str) else label
    return read_table(path, text=column(text), label=wanted)


def kept(out: Path | None, *given: Path | None) -> None:
    """Refuse to write over what is read."""
    from keytokens.errors import raise_input

    for path in given:
        if out is not None and path is not None and out.exists() and out.samefile(path):
            raise_input("--out", "be another place than what is read", repr(str(out)))
