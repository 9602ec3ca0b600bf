"""keytokens certify: what a model selects in a file's texts, and the proof."""

from pathlib import Path

import click

from keytokens.cli._columns import Data

_FILE = click.Path(exists=True, dir_okay=True, path_type=Path)


@click.command()
@click.argument("model", type=_FILE)
@click.argument("data", type=Data())
@click.option("--text", "column", metavar="COLUMN", help="The column that holds the texts.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(model: Path, data: Path, column: str | None, as_json: bool) -> None:
    """Certify the tokens that MODEL selects in the texts of DATA."""
    import keytokens as kt
    from keytokens.cli._columns import table
    from keytokens.cli._json import dumps

    found = kt.load(model).certify(table(data, column).texts)
    if as_json:
        click.echo(dumps(found.to_dict(), ensure_ascii=False))
    else:
        click.echo("\n".join(found.sentences))
