"""Which code computed a cell: other code, other rows."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

import keytokens

# They show and ask; nothing in them changes a row. The experiments' own code is read by name.
NO_ROWS = {"cli", "experiments", "explain", "pages", "report"}
Plain = (int, float, str, tuple, list, dict, bool, np.ndarray)


def fingerprint(run: Callable[..., Any]) -> str:
    """A hash of the function, of all it uses of its own folder, and of the package's mathematics.

    Verdicts and figures are left out: they are made again from the rows every time.
    """
    parts = [keytokens.__version__, mathematics(), *_sources(run, {})]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def mathematics() -> str:
    """A hash of every module of the package that can change a number."""
    root = Path(keytokens.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in NO_ROWS:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(thing: Any, seen: dict[int, Any]) -> Iterable[str]:
    """The source of a function or class and, depth first, of its neighbours that it mentions."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    if isinstance(thing, partial):
        yield _shown([thing.args, thing.keywords])
        yield from _sources(thing.func, seen)
        return
    function = inspect.unwrap(thing)
    if not isinstance(function, FunctionType):
        yield _text(thing)
        return
    yield _text(function)
    names = sorted(_names(function.__code__))
    for name, value in _mentioned(names, function):
        if isinstance(value, Plain):
            yield f"{name}={_shown(value)}"
        for inner in _inside(value):
            if _neighbours(getattr(inner, "__module__", None), function.__module__):
                yield from _sources(inner, seen)


def _mentioned(names: list[str], function: FunctionType) -> Iterable[tuple[str, Any]]:
    """The globals it names; of a neighbouring module, what it names of that."""
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and _neighbours(value.__name__, function.__module__):
            yield from ((inner, getattr(value, inner, None)) for inner in names)
        else:
            yield name, value


def _inside(value: Any) -> Iterable[Any]:
    """What a table of functions holds; anything else is itself."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, (tuple, list)) else [value]


def _shown(value: Any) -> str:
    """The same in every process, and all of it: the repr of a large array omits its middle."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _neighbours(one: str | None, other: str) -> bool:
    """The same module, or two of one folder."""
    folder = other.rpartition(".")[0]
    return one == other or bool(one and folder and one.rpartition(".")[0] == folder)


def _names(code: CodeType) -> set[str]:
    """Every name the code mentions, nested functions included."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _text(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):  # typed at a prompt, or made by a call
        code = getattr(thing, "__code__", None)
        return type(thing).__name__ if code is None else code.co_code.hex() + repr(code.co_consts)
