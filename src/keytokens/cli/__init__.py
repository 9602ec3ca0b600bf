"""The command line: parse, call, print, exit code.

One file and one line a command: `cli/NAME.py` holds a click command called `command`, and the
list below names it. Each command imports what it needs when it runs, so that `keytokens --help`
is instant.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

import click

from keytokens import __version__
from keytokens.errors import KeytokensError

_COMMANDS: list[str] = ["certify", "evaluate", "explain", "fit", "page", "predict", "reproduce"]


class _Commands(click.Group):
    """The group looks its commands up by module name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return _COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return import_module(f"keytokens.cli.{cmd_name}").command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="keytokens")
def commands() -> None:
    """Which tokens does attention select, and can you prove it?"""


def main() -> None:
    """Run the command line: an error a user can cause is one line on stderr and exit code 2."""
    try:
        with _tidied_when_terminated():
            code = commands.main(prog_name="keytokens", standalone_mode=False)
            sys.stdout.flush()  # a full disk may show here only
    except _Terminated:
        _stop("terminated", 143)
    except (click.Abort, KeyboardInterrupt):
        _stop("interrupted", 130)
    except click.ClickException as error:
        _stop(error.format_message(), error.exit_code)
    except KeytokensError as error:
        _stop(str(error), 2)
    except BrokenPipeError:  # the reader of our output went away: not an error of ours
        _drop_output()
        sys.exit(0)
    except OSError as error:
        _drop_output()
        place = error.filename or "the output"
        _stop(f"{place} must be usable; got: {error.strerror or error}.", 2)
    sys.exit(code if isinstance(code, int) else 0)


class _Terminated(BaseException):
    """As KeyboardInterrupt, for `kill`."""


def _terminate(*_: object) -> NoReturn:
    raise _Terminated


@contextmanager
def _tidied_when_terminated() -> Iterator[None]:
    """`kill`, as a scheduler or `timeout` sends it, leaves no temporary file either."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _drop_output() -> None:
    """What is still in the buffer of standard output goes nowhere: it would only fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stop(message: str, code: int) -> None:
    click.echo(f"keytokens: {' '.join(message.split())}", err=True)
    sys.exit(code)
