"""Run experiments: cells, resume, rows, verdicts, figures. Everything lands in one folder.

out/NAME/cells/*.json     one file per finished cell; a rerun computes only the missing ones
out/NAME/rows.parquet     all cells' rows, parameters and seed first; rows.csv is the same
out/NAME/experiment.json  title, parameters, versions, verdicts, figures: what the page reads
out/NAME/figure.svg, .png
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keytokens import _checks as check
from keytokens import _files
from keytokens._progress import progress
from keytokens.errors import FileError, KeytokensError
from keytokens.experiments.cells import Cell, Columns, versions
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.spread import Job, spread


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    quick: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    force: bool = False,
    data: Sequence[str | Path] = (),
) -> Any:
    """Run what is missing of one experiment; return all its rows as a polars DataFrame."""
    run_experiments(
        [experiment], out, quick=quick, workers=workers, scheduler=scheduler, force=force, data=data
    )
    return read_rows(Path(out) / experiment.name)


def run_experiments(
    experiments: Sequence[Experiment],
    out: str | Path,
    *,
    quick: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    force: bool = False,
    data: Sequence[str | Path] = (),
) -> None:
    """Run what is missing of several experiments, each finished as soon as its cells are."""
    check.integer("workers", workers, least=1)
    out = Path(out)
    cells = {e.name: e.cells(quick, [str(path) for path in data]) for e in experiments}
    jobs = [
        Job(cell, e.run, {} if cell.data is None else {"data": cell.data})
        for e in experiments
        for cell in cells[e.name]
        if force or cell.read(out / e.name) is None
    ]
    failures = _compute(jobs, out, workers, scheduler)
    for e in experiments:
        if e.name not in failures:
            _finish(e, cells[e.name], out / e.name, quick)
    _raise_first(failures)


def _compute(
    jobs: list[Job], out: Path, workers: int, scheduler: str | None
) -> dict[str, tuple[Cell, Exception]]:
    """Write each cell as it finishes; return the first failure of each experiment."""
    failures: dict[str, tuple[Cell, Exception]] = {}
    with progress("cells", len(jobs)) as advance:
        for job, outcome in spread(jobs, workers, scheduler):
            name = job.cell.experiment
            if isinstance(outcome, Exception):
                failures.setdefault(name, (job.cell, outcome))
            else:
                job.cell.write(out / name, outcome)
            advance(1)
    return failures


def _raise_first(failures: dict[str, tuple[Cell, Exception]]) -> None:
    for name, (cell, error) in failures.items():
        what = f"{type(error).__name__}: {error}"
        raise KeytokensError(
            f"experiment {name} must run; cell {cell.name} got {what} (finished cells are kept)."
        ) from error


def _finish(experiment: Experiment, cells: list[Cell], folder: Path, quick: bool) -> None:
    """Rows, verdicts and figures of a complete experiment."""
    rows = _gather(cells, folder)
    with _files.replacing(folder / "rows.parquet") as temporary:
        rows.write_parquet(temporary)
    _files.write_text(folder / "rows.csv", rows.write_csv())
    found = experiment.verdicts(rows) if experiment.verdicts else []
    record = {
        "name": experiment.name,
        "title": experiment.title or experiment.name,
        "look": experiment.look,
        "quick": quick,
        "left_out": experiment.left_out if quick else "",
        "versions": versions(),
        "cells": len(cells),
        "rows": rows.height,
        "verdicts": [verdict.as_dict() for verdict in found],
        "figures": _draw(experiment, rows, folder),
    }
    _files.write_text(folder / "experiment.json", json.dumps(record, indent=1) + "\n")


def _draw(experiment: Experiment, rows: Any, folder: Path) -> list[dict[str, str]]:
    if experiment.draw is None:
        return []
    from keytokens.report import figures

    with figures.style():
        return figures.save(experiment.draw(rows), folder)


def _gather(cells: list[Cell], folder: Path) -> Any:
    """All rows in the cells' order, whichever finished first."""
    import polars as pl

    frames = [_frame(cell, columns) for cell in cells if (columns := cell.read(folder))]
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def _frame(cell: Cell, columns: Columns) -> Any:
    import polars as pl

    height = len(next(iter(columns.values())))
    fixed = {k: v if isinstance(v, (int, float, str)) else str(v) for k, v in cell.params.items()}
    repeated = {key: [value] * height for key, value in {**fixed, "seed": cell.seed}.items()}
    return pl.DataFrame(repeated | columns, strict=False, infer_schema_length=None)


def read_rows(folder: str | Path) -> Any:
    """The rows of a finished experiment, as a polars DataFrame."""
    import polars as pl

    path = Path(folder) / "rows.parquet"
    if not path.exists():
        raise FileError(f"{path} must exist; got nothing there: run the experiment first.")
    return pl.read_parquet(path)
