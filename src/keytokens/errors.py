"""One base class for everything a user can cause.

Every message has one shape: the name, the rule, what came.

>>> raise_input("step", "be positive", -1)
Traceback (most recent call last):
keytokens.errors.InputError: step must be positive; got -1.
"""

from typing import NoReturn


class KeytokensError(Exception):
    """Base of every error that a user can cause; the command line prints it as one line."""


class InputError(KeytokensError, ValueError):
    """An argument, a column, a text or a file's content breaks a rule."""


class FileError(KeytokensError, OSError):
    """A file cannot be read or written."""

    def __str__(self) -> str:  # OSError would print its errno tuple
        return str(self.args[0]) if self.args else ""


class MissingExtra(KeytokensError, ImportError):
    """An optional dependency is not installed."""


def raise_input(name: str, rule: str, came: object) -> NoReturn:
    """Raise `InputError` in the one shape all messages have."""
    raise InputError(f"{name} must {rule}; got {came}.")
