"""A pipe can be read only once, and readers begin again: they read a copy of it."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path, PosixPath

from keytokens.errors import FileError


class Spooled(PosixPath):
    """A pipe's own name, under which every reader opens its copy."""

    copy: str

    def __fspath__(self) -> str:
        return self.copy


def spooled(path: str | Path) -> Path:
    """The path; for a pipe or a device, one whose content is a temporary file's."""
    given = path if isinstance(path, Path) else Path(path)
    if not given.exists() or given.is_file() or given.is_dir():
        return given
    try:
        return _copied(given)
    except OSError as error:
        raise FileError(f"{given} must be readable; got: {error.strerror or error}.") from error


def _copied(pipe: Path) -> Spooled:
    """The copy is removed with the last reference to the path, and at exit."""
    handle, name = tempfile.mkstemp(prefix="keytokens.")
    result = Spooled(pipe)
    result.copy = name
    weakref.finalize(result, os.unlink, name)
    with os.fdopen(handle, "wb") as copy, pipe.open("rb") as content:
        shutil.copyfileobj(content, copy)
    return result
