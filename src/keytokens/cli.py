"""The command line: parse, call, print, exit code.

Each command imports what it needs when it runs, so that `keytokens --help` is instant.
"""

import sys

import click

from keytokens import __version__
from keytokens.errors import KeytokensError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="keytokens")
def commands() -> None:
    """Which tokens does attention select, and can you prove it?"""


def main() -> None:
    """Run the command line: an error a user can cause is one line on stderr and exit code 2."""
    try:
        code = commands.main(prog_name="keytokens", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeytokensError as error:
        _stop(str(error), 2)
    except BrokenPipeError:  # the reader of our output went away: not an error of ours
        sys.stderr.close()
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def _stop(message: str, code: int) -> None:
    click.echo(f"keytokens: {' '.join(message.split())}", err=True)
    sys.exit(code)
