"""Classifiers on real reviews, side by side: seconds from raw texts to a fitted model, accuracy.

python benchmarks/text.py [kernel imdb yelp stars rate growth frontier]       (all parts if none)
Bars: a gradient >= 500x the embedding-gather network's and within 3x of streaming the counts
twice; IMDB unigrams >= .885 in half of TF-IDF + LR's time, bigrams >= .913 and trigrams >= .918
in a quarter of NB-SVM's; Yelp at or above tuned TF-IDF + LR and fastText, and faster;
prediction at 25,000 reviews/s; at most 1.5 GB; models load in .2 s. Figures go to out/.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _peers as peers
import numpy as np
import polars as pl

import keytokens as kt
from keytokens.embedding.concentration import carrying, effective_tokens
from keytokens.embedding.kernels import CountLoss, Layout, Rows
from keytokens.text import Counter

DATA = Path(os.environ.get("KEYTOKENS_TEST_DATA", "../shared/data"))
OUT = Path("out")
Texts = tuple[list[str], np.ndarray]


def imdb() -> tuple[Texts, Texts]:
    """Training and test reviews, 25,000 and 12,500."""
    return split(pl.read_parquet(DATA / "imdb.parquet"), "label")


def yelp() -> tuple[Texts, Texts]:
    """The balanced part, two classes."""
    return split(pl.read_parquet(DATA / "yelp.parquet").filter(pl.col("balanced")), "label")


def stars(seed: int) -> tuple[Texts, Texts]:
    """Five classes; the three-star reviews are split as the others are, by seed."""
    four = pl.read_parquet(DATA / "yelp.parquet").select("text", "stars", "split")
    third = pl.read_parquet(DATA / "yelp_3star.parquet").select("text", "stars")
    held = np.random.default_rng(seed).random(len(third)) < 0.07
    part = pl.Series("split", np.where(held, "test", "train"))
    return split(pl.concat([four, third.with_columns(part)]), "stars")


def split(table: pl.DataFrame, label: str) -> tuple[Texts, Texts]:
    """The rows of either split, shuffled once."""
    parts = []
    for name in ("train", "test"):
        rows = table.filter(pl.col("split") == name).sample(fraction=1, shuffle=True, seed=0)
        parts.append((rows["text"].to_list(), rows[label].to_numpy().astype(int)))
    return parts[0], parts[1]


def ours(order: int, **how: Any) -> Callable[[list[str], np.ndarray], peers.Predict]:
    """KeyTokenClassifier with its defaults."""
    return lambda texts, y: kt.KeyTokenClassifier(ngrams=(1, order), **how).fit(texts, y).predict


def measured(fit: Any, train: Texts, test: Texts) -> tuple[float, float]:
    """(seconds to fit, accuracy)"""
    start = time.perf_counter()
    predict = fit(*train)
    seconds = time.perf_counter() - start
    return seconds, float((predict(test[0]) == test[1]).mean())


def show(name: str, seconds: float, accuracy: float, rows: int, peer: float | None = None) -> None:
    """One line of the table."""
    error = np.sqrt(accuracy * (1 - accuracy) / rows)
    ratio = "" if peer is None else f"   {seconds / peer:.2f} of the peer's time"
    print(f"{name:34} {seconds:7.2f} s   {accuracy:.4f} ± {error:.4f}{ratio}", flush=True)


def warm_up() -> None:
    """Compile, or load what is compiled."""
    texts = [f"a {w} film, {w} indeed" for w in ("good", "bad")] * 20_000
    for order in (1, 2, 3):
        kt.KeyTokenClassifier(ngrams=(1, order)).fit(texts, [1, 0] * 20_000).predict(texts)


def part_imdb() -> None:
    """Each of our models right after the peer it is compared with."""
    train, test = imdb()
    groups = {
        1: {"TF-IDF + LR, defaults": peers.tfidf, "NB-SVM uni": peers.nbsvm(1)},
        2: {"NB-SVM uni+bi": peers.nbsvm(2), "Vowpal Wabbit bi": peers.wabbit(2)},
        3: {"NB-SVM uni+bi+tri": peers.nbsvm(3)},
    }
    groups[2] |= {"fastText bi": peers.fasttext(2)}
    for order, group in groups.items():
        first = None
        for name, fit in group.items():
            seconds, accuracy = measured(fit, train, test)
            first = first or seconds
            show(name, seconds, accuracy, len(test[1]))
        seconds, accuracy = measured(ours(order), train, test)
        show(f"keytokens up to {order}-grams", seconds, accuracy, len(test[1]), first)
    print(f"peak memory, peers included: {peak_memory():.2f} GB")


def part_yelp() -> None:
    """Two classes, five seeds."""
    train, test = yelp()
    seconds, accuracy = measured(peers.tuned_tfidf, train, test)
    show("tuned TF-IDF + LR", seconds, accuracy, len(test[1]))
    spread("keytokens", lambda seed: (train, test), seconds)
    in_turn("fastText bi", peers.fasttext(2), train, test)


def part_stars() -> None:
    """Five classes, five seeds (of the three-star split and of our held-out rows)."""
    train, test = stars(0)
    seconds, accuracy = measured(peers.tuned_tfidf, train, test)
    show("tuned TF-IDF + LR", seconds, accuracy, len(test[1]))
    spread("keytokens", stars, seconds)
    in_turn("fastText bi", peers.fasttext(2), train, test)


def in_turn(name: str, peer: Any, train: Texts, test: Texts) -> None:
    """Where the times are close: the peer and ours in turn, five times, and the medians."""
    runs = [[measured(fit, train, test) for fit in (peer, ours(2))] for _ in range(5)]
    (theirs, accuracy), (seconds, own) = np.median(runs, axis=0)
    show(name, theirs, accuracy, len(test[1]))
    show("keytokens, in turn with it", seconds, own, len(test[1]), theirs)


def spread(name: str, data: Callable[[int], tuple[Texts, Texts]], peer: float) -> None:
    """Mean over five seeds, and their standard deviation."""
    runs = [measured(ours(2, random_state=k), *data(k)) for k in range(5)]
    seconds, accuracy = np.mean(runs, axis=0)
    show(f"{name}, mean of 5 seeds", seconds, accuracy, len(data(0)[1][1]), peer)
    print(f"{'':34} spread over seeds {np.std([a for _, a in runs], ddof=1):.4f}")


def part_kernel() -> None:
    """One full gradient on IMDB unigrams, beside streaming the counts and beside PyTorch."""
    (texts, y), _ = imdb()
    counts = Counter(min_count=2, binary=False).fit_transform(texts)
    rows, n = Rows.of(counts), len(y)
    theta = 0.1 * np.random.default_rng(0).standard_normal((rows.n_features + 1, 2))
    for jobs in (1, None):
        loss = CountLoss(rows, 2.0 * y - 1, np.ones(n), Layout.of(1), np.zeros(1), jobs)
        ratio, seconds = np.median([_against(loss, theta, counts) for _ in range(9)], axis=0)
        who = "1 thread" if jobs else "all cores"
        print(f"gradient, {who}: {1e3 * seconds:.1f} ms, {ratio:.2f} of streaming twice (1 thread)")
    try:
        print(f"PyTorch embedding-gather, d = 128: {_gather(texts, y) / seconds:.0f} times as long")
    except ImportError:
        print("PyTorch is not installed")


def _against(loss: CountLoss, theta: np.ndarray, counts: Any) -> tuple[float, float]:
    start = time.perf_counter()
    loss(theta)
    middle = time.perf_counter()
    for _ in range(2):
        counts.data.sum(), counts.indices.sum()
    return (middle - start) / (time.perf_counter() - middle), middle - start


def _gather(texts: list[str], y: np.ndarray, share: int = 20) -> float:
    """Seconds of one full gradient, from a twentieth of the reviews in batches of 32."""
    import torch

    counter = Counter(min_count=2, binary=False)
    counts = counter.fit_transform(texts)[::share]
    tokens = [
        np.repeat(r.indices, r.data.astype(int)) for r in map(counts.__getitem__, _each(counts))
    ]
    E = torch.randn(counts.shape[1] + 1, 128, requires_grad=True)
    p, v = torch.randn(128, requires_grad=True), torch.randn(128)
    labels = torch.tensor(2.0 * y[::share] - 1)
    start = time.perf_counter()
    for i in range(0, len(tokens), 32):
        ids = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(t) for t in tokens[i : i + 32]], True, counts.shape[1]
        )
        X = E[ids]
        s = torch.softmax((X @ p).masked_fill(ids == counts.shape[1], -1e9), dim=1)
        f = (s * (X @ v)).sum(dim=1)
        torch.nn.functional.softplus(-labels[i : i + 32] * f).sum().backward()
    return (time.perf_counter() - start) * share


def _each(counts: Any) -> list[list[int]]:
    return [[i] for i in range(counts.shape[0])]


def part_rate() -> None:
    """Per order, in a process of its own: peak memory of fit, reviews/s, seconds to load."""
    for order in (1, 2, 3):
        subprocess.run([sys.executable, __file__, f"fresh{order}"], check=True)


def fresh(order: int) -> None:
    """One row of `rate`."""
    train, test = imdb()
    model = kt.KeyTokenClassifier(ngrams=(1, order)).fit(*train)
    peak = peak_memory()
    rate = len(test[0]) / median_seconds(lambda: model.predict(test[0]))
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / "model.kt")
        loading = median_seconds(lambda: kt.load(path))
        same = np.array_equal(
            kt.load(path).decision_function(test[0]), model.decision_function(test[0])
        )
    print(
        f"up to {order}-grams: peak of fit {peak:.2f} GB, {rate:,.0f} reviews/s, "
        f"{len(model.vocabulary_):,} n-grams load in {loading:.3f} s, same bits: {same}",
        flush=True,
    )


def peak_memory() -> float:
    """GB this process has held at most. (getrusage would also count who started it.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def median_seconds(job: Callable[[], Any]) -> float:
    """Of five, after one to warm up."""
    spent = []
    for _ in range(6):
        start = time.perf_counter()
        job()
        spent.append(time.perf_counter() - start)
    return float(np.median(spent[1:]))


def part_growth() -> None:
    """Seconds against the number of reviews, drawn."""
    (texts, y), test = imdb()
    rows = []
    for order in (1, 2, 3):
        for n in (1000, 2500, 5000, 10_000, 15_000, 25_000):
            seconds, accuracy = measured(ours(order), (texts[:n], y[:n]), test)
            rows.append((n, order, seconds))
            each = 1e6 * seconds / n
            print(
                f"{order}-grams {n:6,} reviews {seconds:6.2f} s {each:5.0f} µs each {accuracy:.4f}"
            )
    drawing().growth(rows, OUT / "growth.png")


def part_frontier() -> None:
    """Accuracy against effective tokens along the dial, drawn."""
    train, test = imdb()
    rows = []
    for order in (1, 2, 3):
        for dial in (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.63, 0.65, 0.8, 1.0):
            model = kt.KeyTokenClassifier(ngrams=(1, order), selectivity=dial).fit(*train)
            counts = model.counts(test[0])
            right = float((model.core_.predict(counts) == test[1]).mean())
            effective = effective_tokens(model.scores_, counts).mean()
            carry = carrying(model.scores_, counts).mean()
            seen = effective_tokens(model.scores_, model.counts(train[0][:3000])).mean()
            rows.append((order, dial, effective, carry, right))
            print(
                f"{order}-grams  dial {dial:.2f}  {effective:6.1f} effective "
                f"({seen:5.1f} in training)  {carry:6.1f} carry 80 %  {right:.4f}",
                flush=True,
            )
    drawing().frontier(rows, OUT / "frontier.png")


def drawing() -> Any:
    """The figures need matplotlib, which the table does without."""
    import _drawing

    return _drawing


PARTS = {name.removeprefix("part_"): job for name, job in globals().items() if "part_" in name[:5]}


def main() -> None:
    """Run the named parts."""
    if not (DATA / "imdb.parquet").exists():
        print(f"no reviews in {DATA}: set KEYTOKENS_TEST_DATA to their folder")
        return
    warm_up()
    if sys.argv[1:] and sys.argv[1].startswith("fresh"):
        fresh(int(sys.argv[1][-1]))
        return
    for name in sys.argv[1:] or PARTS:
        print(f"-- {name}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main()
