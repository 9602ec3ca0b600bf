"""What a complete experiment leaves beside its cells: rows, verdicts, figures.

out/NAME/rows.parquet     all cells' rows, parameters and seed first; rows.csv is the same
out/NAME/experiment.json  title, versions, verdicts, figures: what the page reads
out/NAME/figure.svg, .png
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.errors import FileError
from keytokens.experiments.cells import Cell, Columns
from keytokens.experiments.experiment import Experiment


def finish(experiment: Experiment, cells: list[Cell], folder: Path, quick: bool) -> None:
    """Rows, verdicts and figures of a complete experiment."""
    records = [(cell, kept) for cell in cells if (kept := cell.read(folder))]
    rows = _gather(records)
    ran_on = _versions(kept["versions"] for _, kept in records)
    with _files.replacing(folder / "rows.parquet") as temporary:
        rows.write_parquet(temporary, metadata={"experiment": experiment.name, **ran_on})
    _files.write_text(folder / "rows.csv", rows.write_csv())
    found = experiment.verdicts(rows) if experiment.verdicts else []
    record = {
        "name": experiment.name,
        "title": experiment.title or experiment.name,
        "look": experiment.look,
        "quick": quick,
        "left_out": experiment.left_out if quick else "",
        "needs_data": experiment.needs_data,
        "versions": ran_on,
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


def _versions(found: Iterable[dict[str, str]]) -> dict[str, str]:
    """What the cells ran on; where they differ, all of it: an upgrade between two runs shows."""
    seen: dict[str, list[str]] = {}
    for versions in found:
        for name, version in versions.items():
            known = seen.setdefault(name, [])
            known += [version] * (version not in known)
    return {name: " and ".join(sorted(versions)) for name, versions in seen.items()}


def _gather(records: Iterable[tuple[Cell, dict[str, Any]]]) -> Any:
    """All rows in the cells' order, whichever finished first."""
    import polars as pl

    frames = [_frame(cell, kept["columns"]) for cell, kept in records]
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
