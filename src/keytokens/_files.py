"""Files are written whole or not at all: to a temporary neighbour first, then renamed.

Only a regular file is replaced. A link stays and its target is replaced; a pipe, a device or an
output that is already open is written through, once all that goes there is known.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keytokens.errors import FileError

_OPEN = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; on success it takes the place of `path`.

    On any failure (a full disk, an unwritable folder, Ctrl-C) the old file stays as it was.
    """
    target = Path(path)
    with _told(target):
        if is_stream(target):
            with _sent_to(target) as temporary:
                yield temporary
            return
        real = Path(os.path.realpath(target))
        real.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(f".{real.name}.", real.parent) as temporary:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            os.replace(temporary, real)


def is_stream(path: str | Path) -> bool:
    """Is there a pipe, a device, or an output of this process, which no file may replace?"""
    target = Path(path)
    if not target.exists():
        return False
    return str(target).startswith(_OPEN) or not (target.is_file() or target.is_dir())


@contextmanager
def _sent_to(target: Path) -> Iterator[Path]:
    """A temporary file whose content goes to the stream in the end."""
    with _temporary("keytokens.", None) as temporary:
        yield temporary
        handle = os.open(target, os.O_WRONLY | os.O_APPEND)
        with temporary.open("rb") as content, os.fdopen(handle, "wb") as stream:
            shutil.copyfileobj(content, stream)


@contextmanager
def _temporary(prefix: str, folder: Path | None) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=prefix, dir=folder)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it takes the place of `path`."""
    target = Path(os.path.realpath(path))
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
    target = Path(os.path.realpath(path))
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
