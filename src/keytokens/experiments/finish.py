"""What a complete experiment leaves beside its cells: rows, verdicts, figures.

out/NAME/rows.parquet     all cells' rows, parameters and seed first; rows.csv is the same
out/NAME/experiment.json  title, versions, verdicts, figures: what the page reads
out/NAME/figure.svg, .png
"""

import json
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.errors import FileError
from keytokens.experiments.cells import Cell, Columns, versions
from keytokens.experiments.experiment import Experiment


def finish(experiment: Experiment, cells: list[Cell], folder: Path, quick: bool) -> None:
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
