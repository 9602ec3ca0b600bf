"""Draw the picture of docs/att-svm.md, docs/att-svm.png: its first example."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot

import keytokens as kt
from keytokens.report import figures

X = np.array([[[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [[1.0, -1.0], [0.0, 1.0], [-1.0, 0.0]]])
SELECTED = [0, 1]
COLOURS = ("#0072b2", "#d55e00")


def main() -> None:
    """Tokens of each input; the level lines of p^mm through the selected and 1 below."""
    solution = kt.att_svm(kt.TokenProblem(X, [1, 1], [1.0, 1.0]), SELECTED)
    with figures.style():
        figure, panels = pyplot.subplots(1, 2, figsize=(8.2, 3.7), sharex=True, sharey=True)
        for i, axes in enumerate(panels):
            draw_input(axes, i, solution)
        figure.savefig(Path(__file__).with_name("att-svm.png"), metadata={"Software": None})


def draw_input(axes: Any, i: int, solution: kt.Solution) -> None:
    """One input: what is selected, what holds the direction, and the gap of 1 between them."""
    p: Any = solution.direction
    tokens, selected, support = X[i], SELECTED[i], solution.support[i]
    top = tokens[selected] @ p
    grid = np.linspace(-3, 4, 2)
    for level, line in ((top, "-"), (top - 1, "--")):
        axes.plot(grid, (level - p[0] * grid) / p[1], line, color="0.5", lw=1)
    axes.plot(*tokens.T, "o", color=COLOURS[i], ms=7)
    axes.plot(*tokens[selected], "*", color=COLOURS[i], ms=17, label="selected")
    axes.plot(*tokens[support].T, "o", ms=14, mfc="none", color="black", label="support token")
    start = np.array([-1.3, -1.3])
    axes.annotate("", start + p, start, arrowprops={"arrowstyle": "->", "lw": 2})
    axes.text(*(start + p + [0.05, 0.1]), "p$^{mm}$")
    axes.set(title=f"input {i}", xlim=(-1.7, 2.7), ylim=(-1.7, 1.9), aspect="equal")
    axes.legend(loc="upper right", markerscale=0.6)


if __name__ == "__main__":
    main()
