"""An experiment is data: parameters x seeds, a function to rows, verdicts and a figure of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keytokens import _checks as check
from keytokens.errors import raise_input
from keytokens.experiments.cells import Cell, file_digest
from keytokens.experiments.fingerprint import fingerprint
from keytokens.experiments.verdict import Verdict

Params = Mapping[str, Any]
Rows = Any  # a polars DataFrame


@dataclass(frozen=True, eq=False)
class Experiment:
    """`run(params, rng)` gives the rows of one cell: a list of dicts, or a dict of columns.

    One cell is one entry of `params` with one seed; its generator depends on the experiment's
    name, the parameters and the seed alone. `params` and `seeds` are values, or functions of
    `quick`. `verdicts(rows)` and `draw(rows)` see the polars DataFrame of all cells, which has
    the parameters and `seed` as its first columns; `draw` returns a matplotlib figure, or
    several by caption.
    """

    name: str
    run: Callable[..., Any]
    params: Sequence[Params] | Callable[[bool], Sequence[Params]] = ({},)
    seeds: int | Callable[[bool], int] = 1
    title: str = ""
    look: str = ""  # what to look at in the figure
    left_out: str = ""  # what a quick run leaves out
    verdicts: Callable[[Rows], list[Verdict]] | None = None
    draw: Callable[[Rows], Any] | None = None
    needs_data: bool = False  # run(params, rng, data=path), once a file; params["corpus"] names it

    def __post_init__(self) -> None:
        plain = self.name.replace("-", "").replace("_", "")
        if not (plain.isascii() and plain.isalnum()):
            raise_input("name", "be letters, digits, - and _", repr(self.name))

    def cells(self, quick: bool = False, data: Sequence[str] = ()) -> list[Cell]:
        """Every parameter set with every seed, in order; where data is needed, for every file."""
        if self.needs_data:
            return distinct([cell for path in data for cell in self._cells(quick, path)])
        return distinct(self._cells(quick))

    def _cells(self, quick: bool, data: str | None = None) -> list[Cell]:
        params = self.params(quick) if callable(self.params) else self.params
        seeds = self.seeds(quick) if callable(self.seeds) else self.seeds
        check.integer("seeds", seeds, least=1)
        mark = fingerprint(self.run) + ("" if data is None else file_digest(data))
        corpus = {} if data is None else {"corpus": Path(data).stem}
        return [
            Cell(self.name, {**corpus, **p}, seed, mark, data)
            for p in params
            for seed in range(seeds)
        ]


def distinct(cells: list[Cell]) -> list[Cell]:
    """The cells, unless two have one name."""
    if len({cell.name for cell in cells}) < len(cells):
        raise_input("params and data files", "be distinct", "the same twice")
    return cells
