"""Fixtures that several rooms share."""

import os
from pathlib import Path

import pytest

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
