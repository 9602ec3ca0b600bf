"""Fixtures that several rooms share."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Open

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
ROOT = Path(__file__).resolve().parents[1]
# Tests that start a new process import this tree, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real reviews; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("KEYTOKENS_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "imdb.parquet").exists():
        pytest.skip("real reviews are not here: set KEYTOKENS_TEST_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="the dev extra brings playwright")
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium here: install it or set CHROMIUM to its path")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from a file, offline; any word on the console and any request fails the test."""
    said: list[str] = []
    contexts: list[Any] = []

    def open_(html: str, **how: Any) -> Any:
        context = browser.new_context(offline=True, **how)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda r: said.append(r.url) if not _own(r.url) else None)
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page.goto(path.as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def _own(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))
