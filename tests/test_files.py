"""Files are written whole or not at all."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import keytokens as kt
from keytokens import _files


def test_the_new_text_takes_the_old_ones_place(tmp_path: Path) -> None:
    page = tmp_path / "new folder" / "page.html"
    _files.write_text(page, "old")
    _files.write_text(page, "né\n")
    assert page.read_bytes() == "né\n".encode()
    assert os.listdir(page.parent) == ["page.html"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(kt.FileError, match="must be writable; got: No space left"):
        fill_the_disk(page)
    assert page.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def fill_the_disk(page: Path) -> None:
    with _files.replacing(page) as temporary:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_ctrl_c_leaves_the_old_file(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c(page)
    assert page.read_text() == "old"
    assert os.listdir(tmp_path) == ["page.html"]


def press_ctrl_c(page: Path) -> None:
    with _files.replacing(page) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(kt.FileError, match=r"file/page.html must be writable; got: "):
        _files.write_text(tmp_path / "file" / "page.html", "new")


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    model = tmp_path / "model"
    for word in ("old", "new"):
        with _files.replacing_folder(model) as temporary:
            (temporary / word).write_text(word)
    assert os.listdir(model) == ["new"]
    with pytest.raises(KeyboardInterrupt), _files.replacing_folder(model):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["model"]
    assert os.listdir(model) == ["new"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    for name in ("page.html", "new.html"):  # the second link has no target yet
        (tmp_path / name).symlink_to(tmp_path / "kept" / name)
    (tmp_path / "kept" / "page.html").write_text("old")
    for name in ("page.html", "new.html"):
        _files.write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "kept" / name).read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["kept", "new.html", "page.html"]
    assert sorted(os.listdir(tmp_path / "kept")) == ["new.html", "page.html"]


def test_a_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "model").symlink_to(tmp_path / "kept")
    with _files.replacing_folder(tmp_path / "model") as temporary:
        (temporary / "new").write_text("new")
    assert (tmp_path / "model").is_symlink()
    assert os.listdir(tmp_path / "kept") == ["new"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    _files.write_text(pipe, "new" * 100_000)
    assert pipe.is_fifo()
    reader.join(10)
    assert read == ["new" * 100_000]
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no such name here")
def test_an_output_that_is_open_is_added_to(tmp_path: Path) -> None:
    script = "from keytokens import _files; _files.write_text('/dev/stdout', 'new')"
    with (tmp_path / "log").open("w") as log:
        log.write("old, ")
        log.flush()
        subprocess.run([sys.executable, "-c", script], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "old, new"
