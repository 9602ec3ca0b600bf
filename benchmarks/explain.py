"""Explanations: texts a second, and beside LIME and SHAP on what people marked.

python benchmarks/explain.py [folder with imdb.parquet and eraser_movies.parquet] [texts for LIME]
Bars: 25,000 reviews explained in under 3 s; at least 1,000 times LIME's speed; on ERASER movies the
phrases of our contributions agree with people (AUPRC, precision at the human budget) more than
every other explainer's words or phrases.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

import keytokens as kt
from keytokens.explain.evaluate import Evaluation, evaluate
from keytokens.explain.rationales import mask_of

DATA = Path(os.environ.get("KEYTOKENS_TEST_DATA", "../shared/data"))


def main() -> None:
    """Print the tables and fail where a bar is missed."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    sampled = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    if not (data / "imdb.parquet").exists():
        print(f"{data} is not here: name a folder with imdb.parquet and eraser_movies.parquet")
        return
    seconds = reviews(data / "imdb.parquet")
    found = people(data / "eraser_movies.parquet", sampled)
    missed = [name for name, held in bars(seconds, found).items() if not held]
    print(f"missed: {', '.join(missed) or 'nothing'}")
    sys.exit(bool(missed))


def reviews(path: Path) -> float:
    """Seconds for the explanation of 25,000 reviews: from texts to every contribution."""
    rows = pl.read_parquet(path)
    train, texts = rows.filter(pl.col("split") == "train"), rows["text"].to_list()[:25_000]
    model = kt.KeyTokenClassifier().fit(train["text"].to_list(), train["label"].to_list())
    columns(model, texts[:10])  # compile
    before = time.process_time()
    seconds = min(columns(model, texts) for _ in range(3))
    busy = (time.process_time() - before) / 3
    print(
        f"{len(texts)} reviews explained in {seconds:.2f} s ({len(texts) / seconds:,.0f} a "
        f"second), {busy:.2f} s of processor time"
    )
    return seconds


def columns(model: Any, texts: list[str]) -> float:
    """Seconds until attention, contribution, logit, label and concentration of all are there."""
    start = time.perf_counter()
    many = model.explain(texts)
    _ = many.attention, many.contributions, many.labels, many.effective_tokens
    return time.perf_counter() - start


def people(path: Path, sampled: int) -> Evaluation:
    """The model trained on ERASER's training texts, explained on its validation texts."""
    rows = pl.read_parquet(path)
    train, val = (rows.filter(pl.col("split") == name) for name in ("train", "val"))
    known = train["text"].to_list(), train["label"].to_numpy()
    model = kt.KeyTokenClassifier().fit(*known)
    texts = val["text"].to_list()
    spans = zip(texts, val["ev_start"], val["ev_end"], strict=True)
    human = [mask_of(first, last, len(text.split())) for text, first, last in spans]
    found = evaluate(model, texts, val["label"].to_numpy(), human, known, sampled)
    print(found)
    return found


def bars(seconds: float, found: Evaluation) -> dict[str, bool]:
    """Each bar and whether it holds."""
    scores = {score.explainer: score for score in found.scores}
    ours, mine = scores["contribution"], scores["contribution, phrases"].human
    others = [s for name, s in scores.items() if not name.startswith(("contribution", "leave"))]
    assert mine is not None
    held = {
        "25,000 reviews in 3 s": seconds < 3,
        "AUPRC above all": all(s.human and mine.auprc > s.human.auprc for s in others),
        "precision at the human budget above all": all(
            s.human and mine.precision_at_budget > s.human.precision_at_budget for s in others
        ),
    }
    if "LIME" in scores:
        times = scores["LIME"].seconds_per_text / ours.seconds_per_text
        print(f"{times:,.0f} times LIME's speed")
        held["1,000 times LIME's speed"] = times >= 1000
    return held


if __name__ == "__main__":
    main()
