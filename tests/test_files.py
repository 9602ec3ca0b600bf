"""Files are written whole or not at all."""

import errno
import os
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
