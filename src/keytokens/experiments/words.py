"""Words in figures: the extreme points named, without one name on another."""

from functools import lru_cache
from typing import Any

SIZE = 6.5  # points
HEIGHT, WIDTH = 1.45 * SIZE, 0.62 * SIZE  # of a line, and of a letter
Box = tuple[float, float, float, float]


def shown(text: str) -> str:
    """The text with an empty box for what the figure's font has no shape for."""
    return "".join(c if ord(c) in _shapes() else "□" for c in text)


@lru_cache(maxsize=1)
def _shapes() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont("DejaVu Sans")).get_charmap())


def marked(word: str) -> str:
    """A mark in quotation marks: a bare full stop looks like one more point."""
    return word if any(c.isalnum() for c in word) else f"“{word}”"


def quoted(word: str) -> str:
    """The same, as a figure can show it."""
    return shown(marked(word))


def name_extremes(axis: Any, rows: Any, x: str, y: str, count: int = 3) -> None:
    """Write the words of the lowest and highest y beside their points.

    A name that would cover another moves towards the middle, with a thin line to its point.
    """
    order = rows.sort(y)
    taken: list[Box] = []
    high = order.tail(count).reverse()
    low = order.head(min(count, order.height - high.height))
    for part, down in ((high, -1), (low, 1)):
        for row in part.iter_rows(named=True):
            _name(axis, quoted(row["word"]), (row[x], row[y]), down, taken)


def _name(axis: Any, word: str, at: tuple[float, float], way: int, taken: list[Box]) -> None:
    """One name, `way` (+1 up, -1 down) being where it gives way to."""
    from matplotlib.patheffects import withStroke

    left, right = axis.get_xlim()
    leftwards = at[0] > (left + right) / 2
    scale = 72 / axis.figure.dpi
    place_x, place_y = axis.transData.transform(at) * scale
    start = place_x - 3 - WIDTH * len(word) if leftwards else place_x + 3
    shift = 0.0
    while any(_overlap((start, place_y + shift, len(word) * WIDTH, HEIGHT), box) for box in taken):
        shift += way * HEIGHT / 4
    taken.append((start, place_y + shift, len(word) * WIDTH, HEIGHT))
    line = {"arrowstyle": "-", "lw": 0.4, "color": "0.5", "shrinkA": 0, "shrinkB": 1}
    axis.annotate(
        word, at, (-3 if leftwards else 3, shift), textcoords="offset points", fontsize=SIZE,
        ha="right" if leftwards else "left", va="center", parse_math=False,
        arrowprops=line if abs(shift) > HEIGHT / 2 else None,
        path_effects=[withStroke(linewidth=1.5, foreground="white")],
    )  # fmt: skip


def _overlap(one: Box, other: Box) -> bool:
    """Do two boxes (x, y, width, height) share a point?"""
    return all(one[k] < other[k] + other[k + 2] and other[k] < one[k] + one[k + 2] for k in (0, 1))
