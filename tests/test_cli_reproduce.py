"""keytokens reproduce: lists, runs, resumes, and says what it found."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from keytokens import experiments
from keytokens.cli.reproduce import command


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def test_list_names_every_experiment_with_its_title() -> None:
    done = call("--list")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == [*experiments.EXPERIMENTS]
    assert all(len(line.split()) > 2 for line in done.output.splitlines())


def test_one_figure_end_to_end_and_again_without_computing(tmp_path: Path) -> None:
    first = call("one-input", "--quick", "--out", tmp_path)
    assert first.exit_code == 0, first.output
    assert len(re.findall(r"^holds +one-input: ", first.output, re.MULTILINE)) == 5
    assert first.output.splitlines()[-1] == str(tmp_path / "report.html")
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    cells = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("cells/*.json")}
    second = call("one-input", "--quick", "--out", tmp_path)
    assert second.output == first.output
    assert {p: p.read_bytes() for p in files} == files
    assert {p: p.stat().st_mtime_ns for p in cells} == cells


def test_a_missing_extra_is_named_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
    done = call("one-input", "--quick", "--out", tmp_path)
    assert "pip install 'keytokens[lab]'" in str(done.exception)
    assert not any(tmp_path.iterdir())


def test_a_failure_leaves_the_page_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(params: Any, rng: Any) -> Any:
        raise ZeroDivisionError("no")

    good = experiments.Experiment("good", lambda params, rng: [{"x": 1}], title="The good one")
    found = {"good": good, "bad": experiments.Experiment("bad", run)}
    monkeypatch.setattr(experiments, "EXPERIMENTS", dict.fromkeys(found, ""))
    monkeypatch.setattr(experiments, "experiment", found.__getitem__)
    done = call("--out", tmp_path)
    assert done.exit_code == 1
    assert "bad must run" in str(done.exception)
    assert "The good one" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one-input",), "--out DIR must be given"),
        (("one-input", "--out", "x", "--workers", "0"), "--workers"),
        (("one-input", "--out", "x", "--data", "missing.csv"), "missing.csv"),
    ],
)
def test_bad_options_are_named(arguments: tuple[str, ...], message: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_an_unknown_experiment_is_named(tmp_path: Path) -> None:
    done = call("no-such", "--out", tmp_path)
    assert done.exit_code == 1
    assert "NAME must be one of one-input," in str(done.exception)


def test_experiments_on_text_say_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYTOKENS_DATA", raising=False)
    needy = [n for n in experiments.EXPERIMENTS if experiments.experiment(n).needs_data]
    done = call(needy[0], "counterexample", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert f"{needy[0]}: left out, it needs --data FILE" in done.output
    nothing = call(needy[0], "--out", tmp_path / "new")
    assert nothing.exit_code == 2
    assert "--data FILE must be given for these experiments; got nothing." in nothing.output
