"""Model files: arrays in safetensors, everything else in JSON; nothing in them can run code.

One file (the JSON stands in the safetensors header), or a folder of `model.safetensors` and
`model.json` where the path has no suffix.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keytokens._files import check_writable, replacing, replacing_folder
from keytokens.errors import FileError, raise_input

FORMAT, VERSION = "keytokens", 1
_ARRAYS, _META = "model.safetensors", "model.json"  # the files of a model's folder
Arrays = dict[str, np.ndarray]


def check_target(path: str | Path) -> None:
    """May a model be written here? A new one takes an old one's place, and nothing else's."""
    target = Path(path)
    check_writable(target)
    if target.suffix and target.is_dir():
        raise FileError(f"{target} must be a file; got: a folder of that name.")
    if target.suffix and target.exists() and not _is_replaceable(target):
        raise FileError(f"{target} must be a new file or a model; got: a file of something else.")
    if not target.suffix and target.exists():
        if not target.is_dir():
            raise FileError(f"{target} must be a folder (no suffix); got: a file of that name.")
        _check_folder(target)


def _is_replaceable(path: Path) -> bool:
    """A file that holds a model, of any version, or nothing at all."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "numpy") as file:
            told = json.loads((file.metadata() or {}).get(FORMAT, ""))
    except (SafetensorError, ValueError):
        return path.stat().st_size == 0
    except OSError as error:
        raise FileError(f"{path} must be readable; got: {error.strerror or error}.") from error
    return isinstance(told, dict) and told.get("format") == FORMAT


def _check_folder(target: Path) -> None:
    """Only a model's two files may be in the way."""
    names = {entry.name for entry in target.iterdir()}
    others = sorted(names - {_ARRAYS, _META} if _META in names else names)
    if others:
        came = f"a folder with other things in it, such as {others[0]!r}"
        raise FileError(f"{target} must be a new folder or that of a model; got: {came}.")


def write(path: str | Path, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Write arrays and JSON-able `meta`, whole or not at all."""
    target = Path(path)
    check_target(target)
    described = {"format": FORMAT, "version": VERSION, **meta}
    text = json.dumps(described, sort_keys=True, default=_plain)
    arrays = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    with _told(target):
        if target.suffix:
            with replacing(target) as temporary:
                save_file(arrays, temporary, metadata={FORMAT: text})
            return
        with replacing_folder(target) as folder:
            save_file(arrays, folder / _ARRAYS)
            (folder / _META).write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """NumPy's scalars are numbers to JSON too."""
    if not isinstance(value, np.generic):
        raise_input("a model's parameters", "be numbers, strings or lists", f"{value!r:.60}")
    return value.item()


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn safetensors' word on a failed write into ours."""
    try:
        yield
    except SafetensorError as error:
        reason = str(error).split("I/O error: ")[-1]
        raise FileError(f"{target} must be writable; got: {reason}.") from error


def read(path: str | Path) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the meta of a model file, format and version checked."""
    source = Path(path)
    folder = source.is_dir()
    if source.exists() and not (folder or source.is_file()):
        raise FileError(f"{source} must be a file or a folder; got: a pipe or a device.")
    try:
        with safe_open(source / _ARRAYS if folder else source, "numpy") as file:
            text = (
                (source / _META).read_text(encoding="utf-8")
                if folder
                else (file.metadata() or {}).get(FORMAT)
            )
            meta = _meta(source, text)
            return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118
    except SafetensorError as error:
        raise_input(str(source), "be a keytokens model", f"no safetensors file ({error})")
    except UnicodeDecodeError:
        raise_input(str(source), "be a keytokens model", "a model.json that is not UTF-8")
    except OSError as error:
        reason = error.strerror or "no such file"
        raise FileError(f"{source} must be a readable model; got: {reason}.") from error


def _meta(source: Path, text: str | None) -> dict[str, Any]:
    if text is None:
        raise_input(str(source), "be a keytokens model", "a safetensors file of something else")
    try:
        meta = json.loads(text)
    except ValueError:
        raise_input(str(source), "describe itself in JSON", "something else")
    if not isinstance(meta, dict) or meta.pop("format", None) != FORMAT:
        raise_input(str(source), "be a keytokens model", "the description of something else")
    version = meta.pop("version", None)
    if version != VERSION:
        raise_input(str(source), f"be of version {VERSION}", f"version {version!r}")
    return meta


def take(source: object, meta: dict[str, Any], expected: dict[str, type | tuple[type, ...]]) -> Any:
    """The meta again, after checking that its keys and their types are the expected ones."""
    keys_agree(source, "description", set(meta), set(expected))
    for name, kind in expected.items():
        if not isinstance(meta[name], kind):
            raise_input(f"{source}: {name}", "be of its own type", f"{type(meta[name]).__name__}")
    return meta


def keys_agree(
    source: object, what: str, got: set[str], expected: set[str], partly: bool = False
) -> None:
    """Nothing unknown and, unless `partly`, nothing missing."""
    if unknown := sorted(got - expected):
        raise_input(f"{source}", f"hold no unknown {what}", ", ".join(unknown))
    if not partly and (missing := sorted(expected - got)):
        raise_input(f"{source}", f"hold the {what} {', '.join(missing)}", "none")
