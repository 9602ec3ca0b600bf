"""keytokens predict: labels and probabilities for a file of any size."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from keytokens.cli._columns import Data
from keytokens.errors import raise_input

_ENDINGS = ("", ".csv", ".jsonl", ".ndjson", ".json")
_FILE = click.Path(exists=True, dir_okay=True, path_type=Path)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=Data())
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Instead of stdout.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, instead of csv.")
def command(model: Path, data: Path, column: str | None, out: Path | None, as_json: bool) -> None:
    """Write the label and the probabilities of every text of DATA, a batch at a time."""
    import keytokens as kt
    from keytokens._progress import progress
    from keytokens.cli._columns import column as position
    from keytokens.cli._columns import kept
    from keytokens.text import read_batches

    kept(out, data, model)
    as_json = _is_json(out) or as_json
    fitted = kt.load(model)
    write = _jsonl if as_json else _csv
    done = 0
    with _opened(out) as file, progress("texts labelled:") as advance:
        put = write(file, fitted.classes_.tolist())
        for batch in read_batches(data, text=position(column)):
            for row in fitted.predict_proba(batch.texts).tolist():
                put(row)
            done += len(batch)
            advance(len(batch))
    if out is not None:
        click.echo(f"{done:,} texts labelled: {out}", err=True)


def _is_json(out: Path | None) -> bool:
    """JSON lines or csv, by the name's ending; other formats are not written."""
    suffix = "" if out is None else out.suffix.lower()
    if suffix not in _ENDINGS:
        raise_input("--out", "end in .csv, or in .jsonl for JSON lines", repr(str(out)))
    return suffix not in ("", ".csv")


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[str]]:
    """Standard output, or a file that is written whole or not at all."""
    from keytokens._files import replacing

    if out is None:
        yield sys.stdout
        return
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file


def _csv(file: IO[str], classes: list[Any]) -> Callable[[list[float]], Any]:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["label", *(f"P({name})" for name in classes)])

    def put(row: list[float]) -> None:
        writer.writerow([classes[row.index(max(row))], *row])

    return put


def _jsonl(file: IO[str], classes: list[Any]) -> Callable[[list[float]], Any]:
    """Labels keep their type; the names of probabilities are strings, as JSON wants."""
    names = [str(label) for label in classes]

    def put(row: list[float]) -> None:
        told = {
            "label": classes[row.index(max(row))],
            "probabilities": dict(zip(names, row, strict=True)),
        }
        file.write(json.dumps(told, ensure_ascii=False) + "\n")

    return put
