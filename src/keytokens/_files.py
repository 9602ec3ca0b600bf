"""Files are written whole or not at all: to a temporary neighbour first, then renamed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keytokens.errors import FileError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; on success it takes the place of `path`.

    On any failure (a full disk, an unwritable folder, Ctrl-C) the old file stays as it was.
    """
    target = Path(path)
    with _told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it takes the place of `path`."""
    target = Path(path)
    with _told(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            _swap(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_writable(path: str | Path) -> None:
    """Told before long work instead of after it: may something be written at `path`?"""
    target = Path(path).absolute()
    above = next(folder for folder in target.parents if folder.exists())
    if not above.is_dir():
        raise FileError(f"{path} must be writable; got: {above} is not a folder.")
    if not os.access(above, os.W_OK | os.X_OK):
        raise FileError(f"{path} must be writable; got: no permission to write in {above}.")


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write bytes, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _swap(temporary: Path, target: Path) -> None:
    """Put the new folder in the old one's place; the old one returns if that fails."""
    if not target.exists():
        os.replace(temporary, target)
        return
    old = temporary.with_name(temporary.name + ".old")
    os.replace(target, old)
    try:
        os.replace(temporary, target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _told(target: Path) -> Iterator[None]:
    """Turn the system's word on a failed write into ours."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"{target} must be writable; got: {reason}.") from error
