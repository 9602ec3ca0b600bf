"""The runner: cells named by what they depend on, kept whole, computed once, the same anywhere."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

import keytokens as kt
from keytokens.experiments import (
    Experiment,
    at_least,
    basins,
    one_input,
    run_experiment,
    run_experiments,
)
from keytokens.experiments.cells import Cell, as_columns
from keytokens.experiments.fingerprint import fingerprint
from keytokens.experiments.verdict import at_most


class Calls:
    made = 0


def draw_numbers(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, float]]:
    Calls.made += 1
    return [{"value": params["scale"] * x} for x in rng.standard_normal(3)]


def toy(**changes: Any) -> Experiment:
    scales = [{"scale": 1.0}, {"scale": 10.0}]
    return Experiment(**(dict(name="toy", run=draw_numbers, params=scales, seeds=2) | changes))


@pytest.fixture(autouse=True)
def no_calls() -> None:
    Calls.made = 0


def test_rows_carry_parameters_and_seed(tmp_path: Path) -> None:
    rows = run_experiment(toy(), tmp_path)
    assert rows.columns == ["scale", "seed", "value"]
    assert rows["scale"].to_list() == [1.0] * 6 + [10.0] * 6
    assert rows["seed"].to_list() == [0, 0, 0, 1, 1, 1] * 2
    assert len(set(rows["value"].to_list())) == 12


def test_a_seed_comes_from_the_names_alone(tmp_path: Path) -> None:
    both = run_experiment(toy(), tmp_path / "a")
    one = run_experiment(toy(params=[{"scale": 10.0}], seeds=1), tmp_path / "b")
    assert both.filter(both["scale"] == 10.0)["value"][:3].equals(one["value"])
    cells = [Cell("toy", {"a": 1, "b": 2}, 0, ""), Cell("toy", {"b": 2, "a": 1}, 0, "")]
    assert cells[0].identity == cells[1].identity
    assert Cell("other", {"a": 1, "b": 2}, 0, "").identity != cells[0].identity


def test_finished_cells_are_not_computed_again(tmp_path: Path) -> None:
    first = run_experiment(toy(seeds=1), tmp_path)
    assert Calls.made == 2
    second = run_experiment(toy(seeds=3), tmp_path)
    assert Calls.made == 6
    assert second.filter(second["seed"] == 0).equals(first)
    run_experiment(toy(seeds=3), tmp_path, force=True)
    assert Calls.made == 12


def test_a_torn_or_foreign_cell_is_computed_again(tmp_path: Path) -> None:
    expected = run_experiment(toy(), tmp_path)
    first, second, *_ = sorted((tmp_path / "toy" / "cells").glob("*.json"))
    first.write_text(first.read_text()[:40])
    record = json.loads(second.read_text())
    second.write_text(json.dumps(record | {"code": "another"}))
    Calls.made = 0
    assert run_experiment(toy(), tmp_path).equals(expected)
    assert Calls.made == 2


def test_other_code_has_another_fingerprint() -> None:
    space: dict[str, Any] = {"__name__": "somewhere"}
    exec("def helper(x): return x + 1\ndef run(p, r): return helper(1)", space)
    one = fingerprint(space["run"])
    assert one == fingerprint(space["run"])
    exec("def helper(x): return x + 2", space)
    assert fingerprint(space["run"]) != one


def test_a_neighbouring_module_s_constants_belong_to_the_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = fingerprint(basins.run)
    monkeypatch.setattr(one_input, "POINTS", [[[-0.2, 1.0], [1.0, 0.0], [0.0, 0.0]]])
    assert fingerprint(basins.run) != one


def test_the_package_s_mathematics_belongs_to_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fingerprint(draw_numbers)
    monkeypatch.setattr("keytokens.experiments.fingerprint.mathematics", lambda: "another")
    assert fingerprint(draw_numbers) != one


TABLE = {"double": lambda x: 2 * x}
MIDDLE = np.zeros(2000)


def uses_a_table(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, float]]:
    return [{"value": TABLE["double"](1.0) + MIDDLE[1000]}]


def with_scale(scale: float, params: Any, rng: Any) -> list[dict[str, float]]:
    return [{"value": scale}]


def test_tables_arrays_and_partials_belong_to_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    one = fingerprint(uses_a_table)
    monkeypatch.setitem(TABLE, "double", lambda x: 3 * x)
    two = fingerprint(uses_a_table)
    assert two != one
    monkeypatch.setattr(sys.modules[__name__], "MIDDLE", np.eye(1, 2000, 1000)[0])
    assert fingerprint(uses_a_table) != two
    assert fingerprint(partial(with_scale, 1.0)) != fingerprint(partial(with_scale, 2.0))


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    script = (
        "from keytokens.experiments import experiment; "
        "from keytokens.experiments.fingerprint import fingerprint as f; "
        "print(*(f(experiment(n).run) for n in ('rates', 'counterexample', 'vit')))"
    )
    told = [
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout
        for _ in range(2)
    ]
    assert told[0] == told[1]


def test_versions_are_those_the_cells_ran_on(tmp_path: Path) -> None:
    run_experiment(toy(), tmp_path)
    first, *_ = sorted((tmp_path / "toy" / "cells").glob("*.json"))
    record = json.loads(first.read_text())
    record["versions"]["numpy"] = "0.1"
    first.write_text(json.dumps(record))
    run_experiment(toy(), tmp_path)
    told = json.loads((tmp_path / "toy" / "experiment.json").read_text())["versions"]
    assert told["numpy"] == f"0.1 and {np.__version__}"
    kept = polars.read_parquet_metadata(tmp_path / "toy" / "rows.parquet")
    assert kept["experiment"] == "toy"
    assert kept["numpy"] == told["numpy"]


def test_rows_do_not_depend_on_workers(tmp_path: Path) -> None:
    alone = run_experiment(toy(), tmp_path / "one")
    spread = run_experiment(toy(), tmp_path / "two", workers=2)
    assert alone.equals(spread)
    for name in ("rows.csv", "rows.parquet", "experiment.json"):
        one, two = ((tmp_path / k / "toy" / name).read_bytes() for k in ("one", "two"))
        assert one == two, name


def test_rows_do_not_depend_on_a_dask_scheduler(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    alone = run_experiment(toy(), tmp_path / "one")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        spread = run_experiment(toy(), tmp_path / "two", scheduler=cluster.scheduler_address)
    assert alone.equals(spread)


def sometimes(params: dict[str, Any], rng: np.random.Generator) -> list[dict[str, float]]:
    if params["scale"] == 1.0:
        raise ZeroDivisionError("no")
    return draw_numbers(params, rng)


def test_one_bad_cell_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    bad = toy(name="bad", run=sometimes, seeds=1)
    with pytest.raises(kt.KeytokensError, match=r"bad must run; cell scale=1.0.*ZeroDivision.*no"):
        run_experiments([bad, toy()], tmp_path)
    assert len(list((tmp_path / "bad" / "cells").glob("*.json"))) == 1
    assert not (tmp_path / "bad" / "experiment.json").exists()
    assert (tmp_path / "toy" / "experiment.json").exists()


def test_every_failure_is_named(tmp_path: Path) -> None:
    bad = [toy(name=name, run=sometimes, seeds=1) for name in ("one", "two")]
    with pytest.raises(kt.KeytokensError, match=r"(?s)experiment one must.*experiment two must"):
        run_experiments([*bad, toy()], tmp_path)
    assert (tmp_path / "toy" / "experiment.json").exists()


KILLER = """
import os, signal, sys
from pathlib import Path
from keytokens import KeytokensError
from keytokens.experiments import Experiment, run_experiments

def run(params, rng):
    if params["k"] == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [{"value": rng.random()}]

if __name__ == "__main__":
    both = [Experiment(name, run, [{"k": k} for k in ks])
            for name, ks in (("bad", range(3)), ("good", range(3, 6)))]
    try:
        run_experiments(both, sys.argv[1], workers=2)
    except KeytokensError as error:
        print(error)
"""


def test_a_killed_process_is_named_and_costs_only_its_cell(tmp_path: Path) -> None:
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    told = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, check=True
    ).stdout
    assert "experiment bad must run; cell k=1" in told
    assert "BrokenProcessPool" in told
    assert (tmp_path / "good" / "experiment.json").exists()
    assert len(list((tmp_path / "bad" / "cells").glob("*.json"))) == 2


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "a:b:c"])
def test_a_scheduler_out_of_reach_is_named(tmp_path: Path, address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(kt.InputError, match=f"scheduler must be the address .*'{address}'"):
        run_experiment(toy(), tmp_path, scheduler=address)


def test_a_terminal_shows_which_experiment_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    quiet = run_experiment(toy(), tmp_path / "pipe")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run_experiment(toy(), tmp_path / "terminal")
    out, err = capsys.readouterr()
    assert "toy, 4 of 4 cells left" in err
    assert out == ""
    assert shown.equals(quiet)


def test_a_bad_figure_is_named_and_costs_only_itself(tmp_path: Path) -> None:
    bad = toy(name="bad", draw=lambda rows: rows["no such column"])
    with pytest.raises(kt.KeytokensError, match="bad must run; its verdicts or figure got"):
        run_experiments([bad, toy()], tmp_path)
    assert (tmp_path / "bad" / "rows.parquet").exists()
    assert (tmp_path / "toy" / "experiment.json").exists()


SLOW = """
import sys, time
from keytokens.experiments import Experiment, run_experiment

def run(params, rng):
    time.sleep(0.15)
    return [{"value": rng.random()}]

if __name__ == "__main__":
    run_experiment(Experiment("slow", run, seeds=12), sys.argv[1], workers=int(sys.argv[2]))
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_interrupted_runs_go_on_where_they_stopped(tmp_path: Path, workers: str) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    command = [sys.executable, str(script)]
    started = subprocess.Popen(
        [*command, str(tmp_path / "cut"), workers],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    cells = tmp_path / "cut" / "slow" / "cells"
    while len(list(cells.glob("*.json"))) < 2:
        assert started.poll() is None
        time.sleep(0.01)
    os.killpg(started.pid, signal.SIGINT)  # Ctrl-C reaches the whole group
    assert started.wait(timeout=30) != 0
    kept = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert 2 <= len(kept) < 12
    for folder in ("cut", "whole"):
        subprocess.run([*command, str(tmp_path / folder), "1"], check=True)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())
    cut, whole = ((tmp_path / f / "slow" / "rows.parquet").read_bytes() for f in ("cut", "whole"))
    assert cut == whole


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(kt.FileError, match=r"must be writable; got: Not a directory"):
        run_experiment(toy(), tmp_path / "file")


def test_a_full_disk_is_named_and_finished_cells_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Path.write_text

    def fill(path: Path, *args: Any, **kwargs: Any) -> int:
        if len(list(tmp_path.rglob("*.json"))) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", fill)
    with pytest.raises(kt.FileError, match="must be writable; got: No space left on device"):
        run_experiment(toy(), tmp_path)
    monkeypatch.undo()
    assert sorted(p.suffix for p in tmp_path.rglob("*") if p.is_file()) == [".json", ".json"]
    Calls.made = 0
    run_experiment(toy(), tmp_path)
    assert Calls.made == 2


def test_columns_or_dicts_and_gaps_become_none() -> None:
    assert as_columns([{"a": 1}, {"a": np.float64(2), "b": "x"}]) == {
        "a": [1, 2.0],
        "b": [None, "x"],
    }
    assert as_columns({"a": np.arange(2)}) == {"a": [0, 1]}


BAD = {
    "rows must have columns of one length; got {'a': 1, 'b': 2}": lambda: as_columns(
        {"a": [1], "b": [1, 2]}
    ),
    "rows must hold numbers, strings, booleans or None; got list": lambda: as_columns(
        [{"a": [1, 2]}]
    ),
    "params must hold numbers, strings, booleans, lists; got": lambda: Cell(
        "toy", {"a": object()}, 0, ""
    ),
    "params and data files must be distinct; got the same twice": lambda: toy(
        params=[{"scale": 1.0}] * 2
    ).cells(),
    "seeds must be at least 1; got 0": lambda: toy(seeds=0).cells(),
    "name must be letters, digits, - and _; got '../x'": lambda: toy(name="../x"),
    "workers must be at least 1; got 0": lambda: run_experiment(toy(), "unused", workers=0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(kt.InputError) as caught:
        BAD[message]()
    assert message in str(caught.value)


def test_verdicts_hold_fail_or_stay_open() -> None:
    assert at_most("c", "m", 1.0, 1.0, "w").outcome == "holds"
    assert at_most("c", "m", 1.1, 1.0, "w").outcome == "does not hold"
    assert at_least("c", "m", 0.9, 1.0, "w").outcome == "does not hold"
    for nothing in (None, float("nan")):
        verdict = at_least("c", "m", nothing, 1.0, "w")
        assert verdict.outcome == "cannot be decided here"
        assert verdict.as_dict()["number"] is None
