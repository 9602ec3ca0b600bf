"""The command line: one clear line on stderr, a non-zero exit code, no traceback."""

import subprocess
import sys

import click
import pytest

from keytokens import cli
from keytokens.errors import raise_input


def keytokens(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "keytokens", *words], capture_output=True, text=True, check=False
    )


def test_help_names_every_command() -> None:
    done = keytokens("--help")
    assert done.returncode == 0
    assert all(f"  {name}" in done.stdout for name in cli._COMMANDS)


def test_commands_are_sorted() -> None:
    assert sorted(cli._COMMANDS) == cli._COMMANDS


def test_an_unknown_command_is_one_line_and_code_2() -> None:
    done = keytokens("no-such-command")
    assert done.returncode == 2
    assert done.stderr == "keytokens: No such command 'no-such-command'.\n"


def interrupted() -> None:
    raise KeyboardInterrupt


def wrong() -> None:
    raise_input("step", "be positive", -1)


@pytest.mark.parametrize(
    ("callback", "code", "line"),
    [
        (interrupted, 130, "keytokens: interrupted\n"),
        (wrong, 2, "keytokens: step must be positive; got -1.\n"),
    ],
)
def test_what_users_cause_is_one_line(
    callback: object, code: int, line: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command = click.Command("it", callback=callback)  # type: ignore[arg-type]
    monkeypatch.setattr(cli.commands, "get_command", lambda ctx, name: command)
    monkeypatch.setattr(sys, "argv", ["keytokens", "it"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.out, printed.err.lstrip("\n")) == (code, "", line)
