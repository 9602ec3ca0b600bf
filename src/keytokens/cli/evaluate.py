"""keytokens evaluate: accuracy, calibration, faithfulness beside other explainers."""

from pathlib import Path
from typing import Any

import click

from keytokens.cli._columns import Data

_FILE = click.Path(exists=True, dir_okay=True, path_type=Path)
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=Data())
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--label", metavar="COLUMN", help="The column that holds the labels.")
@click.option("--split", help='Only the rows whose column "split" is this (parquet).')
@click.option("--train", type=Data(), help="Labelled texts to train TF-IDF + LR on, to compare.")
@click.option("--train-split", help="The same file's rows of this split, to train TF-IDF + LR on.")
@click.option(
    "--sampled", type=click.IntRange(0), default=0, help="Also LIME and SHAP, on so many texts."
)
@click.option("--json", "json_out", type=_OUT, help="Write everything as JSON.")
@click.option("--html", type=_OUT, help="Write one self-contained page.")
def command(
    model: Path,
    data: Path,
    column: str | None,
    label: str | None,
    split: str | None,
    train: Path | None,
    train_split: str | None,
    sampled: int,
    json_out: Path | None,
    html: Path | None,
) -> None:
    """Measure MODEL on labelled DATA.

    Human rationales are read from a parquet file's columns ev_start and ev_end (spans over
    text.split(), end exclusive).
    """
    import keytokens as kt
    from keytokens import _files
    from keytokens.cli._json import dumps
    from keytokens.explain.evaluate import evaluate
    from keytokens.explain.evaluation_formats import write_html
    from keytokens.text.spooling import spooled

    data = spooled(data)  # it may be read twice
    texts, labels, human = _read(data, column, label, split)
    trained = None
    if train is not None or train_split is not None:
        trained = _read(train or data, column, label, train_split)[:2]
    found = evaluate(kt.load(model), texts, labels, human, trained, sampled)
    if json_out:
        _files.write_text(json_out, dumps(found.to_dict(), indent=1) + "\n")
    if html:
        write_html(found, html)
    click.echo(str(found))


def _read(path: Path, text: str | None, label: str | None, split: str | None) -> tuple[Any, ...]:
    """Texts, labels and, where the file has them, rationales as masks."""
    from keytokens.cli._columns import table as read

    if path.suffix == ".parquet":
        return _read_parquet(path, text or "text", label or "label", split)
    if split is not None:
        raise click.UsageError("--split needs a parquet file.")
    table = read(path, text, label)
    return table.texts, table.labels, None


def _read_parquet(path: Path, text: str, label: str, split: str | None) -> tuple[Any, ...]:
    import polars as pl

    from keytokens import _checks as check
    from keytokens.explain.rationales import mask_of

    frame = pl.read_parquet(path)
    for name, column in (("text", text), ("label", label)):
        check.one_of(name, column, frame.columns)
    if split is not None:
        check.one_of("split", split, frame["split"].unique().sort().to_list())
        frame = frame.filter(pl.col("split") == split)
    texts, human = frame[text].to_list(), None
    if {"ev_start", "ev_end"} <= set(frame.columns):
        spans = zip(texts, frame["ev_start"], frame["ev_end"], strict=True)
        human = [mask_of(starts, ends, len(t.split())) for t, starts, ends in spans]
    return texts, frame[label].to_numpy(), human
