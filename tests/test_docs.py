"""Every code block of the README and the docs runs, in order, in an empty folder.

`python` blocks of one file share a namespace. `console` blocks: each `$ ` line is run by bash.
`text` blocks are shown, not run; `make` targets that are named must exist.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from keytokens.text import formats

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "console", "text", "make"}


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(language, body) for language, body in FENCE.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {language for language, _ in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "READERS", formats.READERS.copy())  # what a page adds ends with it
    namespace: dict[str, object] = {"__name__": page.stem}
    for language, body in blocks(page):
        if language == "python":
            exec(compile(body, str(page), "exec"), namespace)
        elif language == "console":
            run_console(body, tmp_path)


def run_console(body: str, folder: Path) -> None:
    """Run the lines behind `$ `; `keytokens` is this interpreter's."""
    lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
    start = f'set -e\nkeytokens() {{ "{sys.executable}" -m keytokens "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", start + "\n".join(lines)], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"


def test_the_two_commands_are_named_and_every_target_exists() -> None:
    text = (ROOT / "README.md").read_text("utf-8") + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", text))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert {"reproduce", "test"} <= named <= targets


def test_links_inside_the_project_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_shown_experiment_is_the_real_one() -> None:
    shown = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    real = (ROOT / "src/keytokens/experiments/key_inequality.py").read_text("utf-8")
    assert f"```python\n{real}```" in shown
