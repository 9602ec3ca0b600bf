"""Figures as papers print them: svg and png, the same bytes on every run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keytokens import _extras, _files

# Okabe and Ito's colours: told apart by colour-blind readers and in grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLE = {
    "svg.hashsalt": "keytokens",  # element ids come from the content alone
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,  # inches: no title at the very edge
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same everywhere
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
}


def style() -> Any:
    """A context in which figures are drawn, without a screen, in the house's style."""
    matplotlib = _extras.require("matplotlib", "lab")
    matplotlib.use("agg")
    from cycler import cycler

    return matplotlib.rc_context(_STYLE | {"axes.prop_cycle": cycler(color=list(COLOURS))})


def save(drawn: Any, folder: Path) -> list[dict[str, str]]:
    """Write one figure, or several by caption; return their file names and captions."""
    figures = drawn if isinstance(drawn, Mapping) else {"": drawn}
    saved = []
    for k, (caption, figure) in enumerate(figures.items()):
        stem = "figure" if k == 0 else f"figure-{k + 1}"
        _write(figure, folder / stem)
        saved.append({"file": stem, "caption": caption})
    return saved


def _write(figure: Any, stem: Path) -> None:
    """svg and png without a date or a version in them."""
    from matplotlib import pyplot

    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        with _files.replacing(stem.with_suffix(f".{kind}")) as temporary:
            figure.savefig(temporary, format=kind, metadata=metadata)
    pyplot.close(figure)
