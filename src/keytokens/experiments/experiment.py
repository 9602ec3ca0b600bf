"""An experiment is data: parameters x seeds, a function to rows, verdicts and a figure of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keytokens import _checks as check
from keytokens.errors import raise_input
from keytokens.experiments.cells import Cell, fingerprint
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
    needs_data: bool = False  # run(params, rng, data=path) with the file given by --data

    def __post_init__(self) -> None:
        plain = self.name.replace("-", "").replace("_", "")
        if not (plain.isascii() and plain.isalnum()):
            raise_input("name", "be letters, digits, - and _", repr(self.name))

    def cells(self, quick: bool = False) -> list[Cell]:
        """Every parameter set with every seed, in order."""
        params = self.params(quick) if callable(self.params) else self.params
        seeds = self.seeds(quick) if callable(self.seeds) else self.seeds
        check.integer("seeds", seeds, least=1)
        mark = fingerprint(self.run)
        cells = [Cell(self.name, dict(p), seed, mark) for p in params for seed in range(seeds)]
        if len({cell.name for cell in cells}) < len(cells):
            raise_input("params", "be distinct", "the same parameters twice")
        return cells
