"""What the figures of reviews show: words in their places, names apart, text that stays text."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from keytokens.experiments import reviews, reviews_figures, words
from keytokens.experiments.words import name_extremes
from keytokens.report import figures


def test_a_word_is_shown_where_it_stands_by_itself() -> None:
    assert reviews.passage("A candle and a can.", "can") == "A candle and a [can]."
    assert reviews.passage("Oh. No", ".") == "Oh[.] No"
    assert reviews.passage("nothing", "else") == "nothing"


def test_names_of_points_do_not_cover_each_other() -> None:
    from matplotlib import pyplot
    from matplotlib.text import Text

    figure, axis = pyplot.subplots(figsize=(3, 3))
    rows = pl.DataFrame({"x": [0.9] * 4 + [0.1], "y": [1.0, 1.0, 1.001, 0.999, 0.0],
                         "word": ["one", "two", "three $", "four", "."]})  # fmt: skip
    axis.plot(rows["x"], rows["y"], ".")
    name_extremes(axis, rows, "x", "y", count=4)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [Text.get_window_extent(text, renderer) for text in axis.texts]  # no arrows
    assert len(boxes) == 5
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])
    assert axis.texts[-1].get_text() == "“.”"
    pyplot.close(figure)


def test_what_a_review_says_is_text_in_the_figure(tmp_path: Path) -> None:
    """Neither element nor the end of a comment: svg goes into the page as it is."""
    evil = "--><script>alert(1)</script> $\\frac{x$ <img src=x onerror=alert(2)>"
    common = {"what": "review", "label": 1.0, "logit": 0.5, "begins": evil, "word": evil}
    rows = pl.DataFrame([common | {"stage": stage, "d": reviews_figures.SHOWN.get(stage, 0),
                                   "index": k, "passage": f"[{evil}]"}
                         for k in range(2) for stage in reviews.STAGES])  # fmt: skip
    with figures.style():
        figures.save(reviews_figures.read(rows, reviews.STAGES), tmp_path)
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "alert(1)" in drawn  # as a comment beside the letters' outlines
    assert not re.search(r"<(script|img)|-->\s*<script|--&gt;", drawn.replace("- -&gt;", ""))


def test_marks_stand_in_quotation_marks() -> None:
    assert [words.marked(w) for w in (".", "don't", "7")] == ["“.”", "don't", "7"]


def test_the_heaviest_tokens_fit_their_column() -> None:
    assert (
        reviews_figures.fitting("good 0.50  bad 0.25  dull 0.25", most=22) == "good 0.50  bad 0.25"
    )
    assert reviews_figures.fitting("unbelievable 1.00", most=5) == "unbelievable 1.00"


@pytest.mark.parametrize(("scale", "middle"), [("linear", 21.8), ("symlog", 3.0)])
def test_a_few_large_values_are_not_what_is_typical_on_a_logarithmic_axis(
    scale: str, middle: float
) -> None:
    found, low, high = reviews_figures._typical(np.array([1.0, 2.0, 3.0, 4.0, 99.0]), scale)
    assert found == pytest.approx(middle)
    assert low < found < high
