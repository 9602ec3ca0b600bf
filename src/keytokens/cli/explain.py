"""keytokens explain: which tokens a decision rests on."""

import sys
from pathlib import Path
from typing import Any

import click

from keytokens.cli._columns import Data

_FILE = click.Path(exists=True, dir_okay=True, path_type=Path)
_OUT = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("text", required=False)
@click.option("--file", "data", type=Data(), help="Explain the texts of a file instead.")
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--html", type=_OUT, help="Write one self-contained page.")
@click.option("--json", "json_out", type=_OUT, help="Write one JSON document a line.")
@click.option("--eraser", type=_OUT, help="Write ERASER predictions, one a line.")
@click.option("--id", "names", metavar="COLUMN", help="ERASER's annotation ids.")
@click.option("--limit", type=click.IntRange(1), default=200, help="Texts shown at most.")
def command(
    model: Path,
    text: str | None,
    data: Path | None,
    column: str | None,
    html: Path | None,
    json_out: Path | None,
    eraser: Path | None,
    names: str | None,
    limit: int,
) -> None:
    """Explain what MODEL decides on TEXT, or on the texts of a file ("-" reads standard input)."""
    import keytokens as kt
    from keytokens.text.spooling import spooled

    if (text is None) == (data is None):
        raise click.UsageError(
            'a TEXT ("-": standard input) or --file DATA must be given; got both or neither.'
        )
    fitted = kt.load(model)
    data = None if data is None else spooled(data)  # it may be read twice
    whys = fitted.explain(_texts(text, data, column))
    if html:
        whys.to_html(html, limit)
        click.echo(f"{html}: {html.stat().st_size / 1e6:.2f} MB")
    if json_out or eraser:
        _write_lines(whys, json_out, eraser, _names(data, column, names))
    if not (html or json_out or eraser):
        _print(whys[:limit])
        if len(whys) > limit:
            click.echo(f"the first {limit} of {len(whys)} texts; --limit shows more.", err=True)


def _texts(text: str | None, data: Path | None, column: str | None) -> list[str]:
    from keytokens.cli._columns import table

    if data is not None:
        return list(table(data, column).texts)
    return [sys.stdin.read() if text == "-" else str(text)]


def _names(data: Path | None, column: str | None, names: str | None) -> list[str] | None:
    """The texts' names, read as if they were labels."""
    from keytokens.cli._columns import table

    if names is None:
        return None
    if data is None:
        raise click.UsageError("--id needs --file DATA.")
    labels = table(data, column, names).labels
    assert labels is not None
    return [str(name) for name in labels.tolist()]


def _write_lines(
    whys: Any, json_out: Path | None, eraser: Path | None, names: list[str] | None
) -> None:
    from keytokens import _files
    from keytokens.explain.formats import to_json, write_eraser

    if json_out:
        _files.write_text(json_out, "".join(f"{to_json(why)}\n" for why in whys))
    if eraser:
        write_eraser(whys, eraser, names)


def _print(whys: Any) -> None:
    from rich.console import Console

    from keytokens.explain.terminal import show

    console = Console()
    for place, why in enumerate(whys):
        if place:
            console.print()
        show(why, console)
