"""Optional dependencies: imported when used, and named when missing."""

from importlib import import_module
from types import ModuleType

from keytokens.errors import MissingExtra


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    >>> require("no_such_module", "lab")
    Traceback (most recent call last):
    keytokens.errors.MissingExtra: no_such_module must be installed for this; \
get it with: pip install 'keytokens[lab]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{module} must be installed for this; get it with: pip install 'keytokens[{extra}]'"
        ) from error
