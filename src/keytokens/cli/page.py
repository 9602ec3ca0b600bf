"""keytokens page: the model in one page that explains as you type, no server."""

from pathlib import Path
from typing import Any

import click

from keytokens.cli._columns import Data

_FILE = click.Path(exists=True, dir_okay=True, path_type=Path)


@click.command()
@click.argument("model", type=_FILE)
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--examples", type=Data(), help="Labelled texts to browse, and to measure the cut on."
)
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--label", metavar="COLUMN", help="The column that holds the labels.")
@click.option("--size", type=click.FloatRange(0.1), default=5.0, help="Megabytes at most.")
@click.option("--certify", "certified", is_flag=True, help="Add the selection's certificate.")
@click.option("--title", default="", help="The page's heading.")
@click.option(
    "--name", "names", multiple=True, metavar="LABEL=NAME", help="What the page calls a class."
)
def command(
    model: Path,
    out: Path,
    examples: Path | None,
    column: str | None,
    label: str | None,
    size: float,
    certified: bool,
    title: str,
    names: tuple[str, ...],
) -> None:
    """Write MODEL as one HTML file: it classifies and marks what you type, and needs no network."""
    import keytokens as kt
    from keytokens.explain.model_page import write_page

    fitted = kt.load(model)
    texts, labels = _examples(examples, column, label)
    certificate = fitted.certify(texts) if certified and texts else None
    write_page(fitted, out, texts, labels, int(size * 1e6), certificate, title, _named(names))
    click.echo(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def _named(names: tuple[str, ...]) -> dict[str, str]:
    """LABEL=NAME, split at the first sign of equality."""
    if bad := next((pair for pair in names if "=" not in pair), None):
        raise click.UsageError(f"--name must be LABEL=NAME; got {bad!r}.")
    return dict(pair.split("=", 1) for pair in names)


def _examples(path: Path | None, column: str | None, label: str | None) -> tuple[Any, Any]:
    """Texts and labels; a file without a label column gives texts alone."""
    from keytokens.cli._columns import table as read
    from keytokens.errors import InputError
    from keytokens.text.spooling import spooled

    if path is None:
        return None, None
    path = spooled(path)  # it may be read twice
    try:
        table = read(path, column, label)
    except InputError:
        if label is not None:
            raise
        table = read(path, column)
    return list(table.texts), table.labels
