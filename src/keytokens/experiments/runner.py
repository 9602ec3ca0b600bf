"""Run experiments: what is missing is computed, what is finished is kept. All in one folder.

out/NAME/cells/*.json holds one file per finished cell; see finish.py for what stands beside it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keytokens import _checks as check
from keytokens._progress import progress
from keytokens.errors import KeytokensError
from keytokens.experiments.cells import Cell, Columns
from keytokens.experiments.experiment import Experiment
from keytokens.experiments.finish import finish, read_rows
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
    book = _Book(experiments, cells, Counter(job.cell.experiment for job in jobs), out, quick)
    for name in cells:
        book.close(name)
    with progress(book.state, len(jobs)) as advance:
        for job, outcome in spread(jobs, workers, scheduler):
            book.take(job, outcome)
            advance(1, book.state)
    book.raise_failures()


@dataclass(eq=False)
class _Book:
    """Which experiments wait for how many cells; what went wrong costs the others nothing."""

    experiments: Sequence[Experiment]
    cells: dict[str, list[Cell]]
    left: Counter[str]
    out: Path
    quick: bool
    failures: dict[str, tuple[str, Exception]] = field(default_factory=dict)

    def take(self, job: Job, outcome: Columns | Exception) -> None:
        """Keep a cell's rows, or what it failed with."""
        name = job.cell.experiment
        if isinstance(outcome, Exception):
            self.failures.setdefault(name, (f"cell {job.cell.name}", outcome))
        else:
            job.cell.write(self.out / name, outcome)
        self.left[name] -= 1
        self.close(name)

    def close(self, name: str) -> None:
        """Rows, verdicts and figures, once every cell is there."""
        if self.left[name] or name in self.failures:
            return
        experiment = next(e for e in self.experiments if e.name == name)
        try:
            finish(experiment, self.cells[name], self.out / name, self.quick)
        except Exception as error:
            self.failures[name] = ("its verdicts or figure", error)

    @property
    def state(self) -> str:
        """What is being computed: the first experiment with cells left, and how many."""
        waits = next((name for name in self.cells if self.left[name]), "")
        return (
            f"{waits}, {self.left[waits]} of {len(self.cells[waits])} cells left" if waits else ""
        )

    def raise_failures(self) -> None:
        """Every experiment that failed, a line each; the first error is the cause."""
        told = [
            f"experiment {name} must run; {where} got {type(error).__name__}: {error} "
            "(finished cells are kept)."
            for name, (where, error) in self.failures.items()
        ]
        for _, error in self.failures.values():
            raise KeytokensError("\n".join(told)) from error
