"""A cell: one parameter set with one seed. Its file is written whole or not at all."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keytokens import __version__, _files
from keytokens.errors import FileError, raise_input

Columns = dict[str, list[Any]]


@dataclass(frozen=True, eq=False)
class Cell:
    """Named by experiment, parameters and seed; `mark` tells which code computed it."""

    experiment: str
    params: Mapping[str, Any]
    seed: int
    mark: str
    data: str | None = None  # the file it reads; its content is part of the mark

    def __post_init__(self) -> None:
        try:
            json.dumps(self.params, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise_input("params", "hold numbers, strings, booleans, lists", f"{error}")

    @property
    def identity(self) -> str:
        """The canonical sentence the seed comes from."""
        return json.dumps([self.experiment, self.params, self.seed], sort_keys=True)

    @property
    def name(self) -> str:
        """Readable first, then a hash that keeps it unique and safe as a file name."""
        words = [f"{key}={value}" for key, value in self.params.items()]
        readable = re.sub(r"[^\w.+=,-]+", "_", ",".join([*words, f"seed={self.seed}"]))[:80]
        return f"{readable}-{hashlib.sha256(self.identity.encode()).hexdigest()[:8]}"

    def rng(self) -> np.random.Generator:
        """A generator that depends on the cell's identity alone."""
        digest = hashlib.sha256(self.identity.encode()).digest()
        return np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))

    def path(self, folder: Path) -> Path:
        """Where its rows are kept."""
        return folder / "cells" / f"{self.name}.json"

    def write(self, folder: Path, columns: Columns) -> None:
        """Keep the rows, with what they depend on."""
        record = {
            "experiment": self.experiment,
            "params": self.params,
            "seed": self.seed,
            "code": self.mark,
            "versions": versions(),
            "columns": columns,
        }
        _files.write_text(self.path(folder), json.dumps(record) + "\n")

    def read(self, folder: Path) -> dict[str, Any] | None:
        """What `write` kept, or None when it is missing or another code computed it."""
        try:
            record: dict[str, Any] = json.loads(self.path(folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record if record.get("code") == self.mark else None


def compute(
    run: Callable[..., Any], params: Mapping[str, Any], rng: np.random.Generator, extra: Any
) -> Columns:
    """The rows of one cell, as columns of plain values."""
    return as_columns(run(dict(params), rng, **extra))


def as_columns(rows: Any) -> Columns:
    """A list of dicts, or a dict of equally long columns, as columns of plain values."""
    if isinstance(rows, Mapping):
        columns = {str(key): [_plain(v) for v in column] for key, column in rows.items()}
    else:
        columns = _from_dicts(list(rows))
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise_input("rows", "have columns of one length", lengths)
    return columns


def _from_dicts(rows: Sequence[Mapping[str, Any]]) -> Columns:
    keys = list(dict.fromkeys(key for row in rows for key in row))
    return {str(key): [_plain(row.get(key)) for row in rows] for key in keys}


def _plain(value: Any) -> Any:
    """A number, string or boolean without NumPy around it."""
    if hasattr(value, "item"):
        value = value.item()
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise_input("rows", "hold numbers, strings, booleans or None", type(value).__name__)
    return value


def file_digest(path: str) -> str:
    """A hash of a file's content: other reviews, other rows."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        raise FileError(f"{path} must be a readable file; got: {error.strerror}.") from error


def versions() -> dict[str, str]:
    """What the rows may depend on besides parameters and seed."""
    from importlib import metadata

    found = {"keytokens": __version__}
    for name in ("numpy", "scipy", "jax", "daqp", "clarabel"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
