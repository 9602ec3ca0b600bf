"""The two figures of benchmarks/text.py, from the rows it measured."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

Rows = list[tuple[Any, ...]]
INK, SIGNS = ("#0072b2", "#d55e00", "#009e73"), ("o", "s", "^")


def growth(rows: Rows, path: Path) -> None:
    """Seconds against reviews, (n, order, seconds); the dotted line has slope 1."""
    figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
    for order, colour, sign in zip((1, 2, 3), INK, SIGNS, strict=True):
        n, seconds = np.array([(n, s) for n, k, s in rows if k == order]).T
        axes.loglog(n, seconds, sign + "-", color=colour, label=f"n-grams of up to {order}")
        axes.loglog(n, seconds[-1] * n / n[-1], ":", color=colour, lw=1)
    axes.set(xlabel="IMDB reviews", ylabel="seconds from raw texts to a fitted model")
    axes.set_xticks(n, [f"{int(k):,}" for k in n])
    axes.minorticks_off()
    axes.legend(frameon=False)
    _save(figure, path)


def frontier(rows: Rows, path: Path) -> None:
    """Accuracy against effective tokens, (order, dial, effective, carrying, accuracy)."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    names = "effective tokens, (Σ s)² / Σ s²", "tokens that carry 80 % of the contributions"
    for column, (axes, name) in enumerate(zip(panels, names, strict=True), start=2):
        for order, colour, sign in zip((1, 2, 3), INK, SIGNS, strict=True):
            own = [row for row in rows if row[0] == order]
            if own:
                x, accuracy = [row[column] for row in own], [row[4] for row in own]
                axes.semilogx(x, accuracy, sign + "-", color=colour, label=f"up to {order}-grams")
        axes.set_xlabel(name)
        axes.set_xticks([1, 2, 5, 10, 20, 50, 100, 200, 500], [1, 2, 5, 10, 20, 50, 100, 200, 500])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].axhline(0.885, color="grey", lw=0.8, ls="--")
    panels[0].axvline(10, color="grey", lw=0.8, ls="--")
    panels[0].set_ylabel("accuracy on the IMDB test reviews")
    panels[1].legend(frameon=False, loc="lower right")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"drawn: {path}")
