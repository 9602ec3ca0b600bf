"""Small files of labelled sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

WORDS = {1: ["good", "fine", "warm"], 0: ["bad", "dull", "cold"]}
ODD = ["", "$5 or $10", "", "\U0001f600", "", "東京 _x^2", "", "<br />\nso & so"]
FILLER = ["the", "a", "film", "was", "so", "very", "and", "plot"]


def tiny_reviews(folder: Path) -> Path:
    """80 pairs of sentences that differ in one telling word, labelled in words; a fourth is test.

    The first is empty; others hold what figures stumble over: dollars, emoji, a script unknown to
    the font, markup.
    """
    rng = np.random.default_rng(0)
    filler = [" ".join(rng.choice(FILLER, 6)) for _ in range(80)]
    pair, label = np.divmod(np.arange(160), 2)
    texts = [f"{WORDS[y][k % 3]} {filler[k]}" for k, y in zip(pair, label, strict=True)]
    frame = {
        "text": ["", *(f"{text} {ODD[k % 8]}" for k, text in enumerate(texts[1:]))],
        "label": np.where(label > 0, "pro", "contra"),
        "stars": np.where(pair % 10 == 9, 3, np.where(label > 0, 4 + pair % 2, 1 + pair % 2)),
        "split": np.where(pair % 4 == 3, "test", "train"),
    }
    path = folder / "tiny.csv"
    pl.DataFrame(frame).write_csv(path)
    return path


def written(path: Path, **columns: Any) -> str:
    """A file of two kinds of texts, other columns as given; its path."""
    n = len(next(iter(columns.values())))
    frame = {"text": ["a b c", "c d e"] * (n // 2), "label": [0, 1] * (n // 2)} | columns
    pl.DataFrame(frame).write_csv(path)
    return str(path)
