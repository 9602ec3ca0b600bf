"""The public names: one sorted list, lazily imported, visible to dir() and to editors."""

import ast
import statistics
import subprocess
import sys
import time
from pathlib import Path

import keytokens

INIT = Path(keytokens.__file__)
HEAVY = ["jax", "diffrax", "scipy", "polars", "numba", "sklearn", "matplotlib", "rich", "jinja2"]


def test_names_are_sorted_and_all_resolve() -> None:
    assert keytokens.__all__ == sorted(keytokens.__all__)
    for name in keytokens.__all__:
        assert getattr(keytokens, name) is not None
    assert set(keytokens.__all__) <= set(dir(keytokens))


def test_editors_see_the_same_list() -> None:
    imports = [
        node for node in ast.walk(ast.parse(INIT.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    seen = {
        alias.asname: node.module
        for node in imports
        for alias in node.names
        if (node.module or "").startswith("keytokens.")
    }
    assert seen == {name: f"keytokens.{home}" for name, home in keytokens._HOME.items()}


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(keytokens, "no_such_name")


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_and_help_load_nothing_heavy() -> None:
    code = (
        "import sys, keytokens, keytokens.cli\n"
        "try: keytokens.cli.commands.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert run(code).splitlines()[-1] == "[]"


def seconds(code: str) -> float:
    start = time.perf_counter()
    run(code)
    return time.perf_counter() - start


def median_ratio(code: str, reference: str, rounds: int = 7) -> float:
    """Median over rounds of code's time in units of the reference's, run side by side."""
    run(code), run(reference)
    return statistics.median(seconds(code) / seconds(reference) for _ in range(rounds))


def test_import_is_instant() -> None:
    assert median_ratio("import keytokens", "import numpy") <= 2.5


def test_help_is_instant() -> None:
    code = "import sys; sys.argv = ['keytokens', '--help']; import keytokens.cli as c\n"
    assert median_ratio(code + "c.main()", "import numpy") <= 2.5
