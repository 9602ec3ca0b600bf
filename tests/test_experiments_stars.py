"""Five classes: which reviews are training and which are test."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tiny_reviews import written

from keytokens.experiments import five_stars

RATED = np.repeat([1, 2, 4, 5], 40)
TEST = np.tile([False] * 3 + [True], 40)  # a fourth of every class


def two_files(folder: Path, count: int = 400) -> str:
    """A rated and split file that names its split in the texts; three stars beside it."""
    split = np.where(TEST, "test", "train")
    texts = [f"{word} film {word}{stars}" for word, stars in zip(split, RATED, strict=True)]
    beside = {"text": ["three film"] * count, "stars": [3] * count}
    pl.DataFrame(beside).write_csv(folder / "own_3star.csv")
    return written(folder / "own.csv", text=texts, label=RATED > 3, stars=RATED, split=split)


def test_the_file_s_split_is_kept_to(tmp_path: Path) -> None:
    path = two_files(tmp_path)
    (counts, labels), (held, truth), words = five_stars.stars(path, np.random.default_rng(0))
    assert np.bincount(labels).tolist() == [30] * 5
    assert "test" not in words
    assert counts[:, words == "train"].sum() == (labels != 2).sum()
    assert held[:, words == "train"].sum() == 0
    assert np.bincount(truth)[[0, 1, 3, 4]].tolist() == [10] * 4


def test_three_stars_are_split_by_seed_in_the_same_shares(tmp_path: Path) -> None:
    path = two_files(tmp_path, count=4000)
    sizes: dict[int, int] = {}
    for seed in (0, 0, 1):
        found = five_stars.stars(path, np.random.default_rng(seed))
        size = int((found[1][1] == 2).sum())
        assert sizes.setdefault(seed, size) == size
        assert size / 4000 == pytest.approx(1 / 4, abs=0.03)
    assert sizes[0] != sizes[1]


def test_rows_outside_the_balanced_part_do_not_train(tmp_path: Path) -> None:
    two_files(tmp_path)
    balanced = np.tile([True, True, False, True], 40)
    table = pl.read_csv(tmp_path / "own.csv").with_columns(balanced=pl.Series(balanced))
    table.write_csv(tmp_path / "own.csv")
    (_, labels), (_, truth), _ = five_stars.stars(
        str(tmp_path / "own.csv"), np.random.default_rng(0)
    )
    assert np.bincount(labels).tolist() == [20] * 5
    assert np.bincount(truth)[[0, 1, 3, 4]].tolist() == [10] * 4


def test_without_five_classes_there_is_nothing_to_train(tmp_path: Path) -> None:
    path = two_files(tmp_path)
    (tmp_path / "own_3star.csv").unlink()
    assert five_stars.stars(path, np.random.default_rng(0)) is None
    bare = written(tmp_path / "bare.csv", other=[0] * 8)
    assert five_stars.stars(bare, np.random.default_rng(0)) is None
