"""Which tokens does attention select, and can you prove it?

Every public name is imported when it is first used, so that `import keytokens` is instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

# The one list of public names, sorted, and the module each lives in.
_HOME = {
    "AttentionScores": "embedding.scores",
    "FileError": "errors",
    "InputError": "errors",
    "KeyTokenClassifier": "classifier",
    "KeytokensError": "errors",
    "MissingExtra": "errors",
    "SelectionClassifier": "classifier",
    "TokenProblem": "problem",
    "load": "classifier",
    "optimal_tokens": "problem",
    "random_problem": "problem",
    "token_scores": "problem",
}
__all__ = [*_HOME]

if TYPE_CHECKING:  # the same list for editors and type checkers
    from keytokens.embedding.scores import AttentionScores as AttentionScores
    from keytokens.errors import FileError as FileError
    from keytokens.errors import InputError as InputError
    from keytokens.classifier import KeyTokenClassifier as KeyTokenClassifier
    from keytokens.errors import KeytokensError as KeytokensError
    from keytokens.errors import MissingExtra as MissingExtra
    from keytokens.classifier import SelectionClassifier as SelectionClassifier
    from keytokens.problem import TokenProblem as TokenProblem
    from keytokens.classifier import load as load
    from keytokens.problem import optimal_tokens as optimal_tokens
    from keytokens.problem import random_problem as random_problem
    from keytokens.problem import token_scores as token_scores


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'keytokens' has no attribute {name!r}")
    value = getattr(import_module(f"keytokens.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
