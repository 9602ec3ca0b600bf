"""The experiments on trained embeddings: corpora, measures by hand, and a run of each kind."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from tiny_reviews import tiny_reviews, written

import keytokens as kt
from keytokens.embedding.corpus import Fitted
from keytokens.embedding.frequencies import signed_frequency
from keytokens.embedding.one_step import StageOptions, bare_loss, embed
from keytokens.embedding.p_training import Space
from keytokens.embedding.scores import AttentionScores
from keytokens.experiments import (
    assumptions,
    corpus_margin,
    early_p,
    experiment,
    five_stars,
    one_step,
    reviews,
    reviews_band,
    reviews_margin,
    run_experiment,
    train_p,
)
from keytokens.experiments.corpora import Corpus, drawn
from keytokens.experiments.reviews_flow import Point, flow, labelled
from keytokens.experiments.reviews_margin import heaviest

# Tiny files have no frequent token above the noise of a random embedding.
NEED_MORE = {"tiny: Those whose value is above that noise do."}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_reviews(tmp_path_factory.mktemp("data"))


def small(y: Any, counts: Any) -> Corpus:
    words = np.array(["a", "b", "c"])
    return Corpus(sparse.csr_array(np.array(counts, float)), np.array(y, float), words, words)


def test_one_step_moves_by_half_the_signed_frequency_at_infinite_width() -> None:
    corpus = small([1, -1], [[1, 1, 0], [0, 1, 1]])
    step = one_step.first_step(corpus, 0, False, np.random.default_rng(0))
    assert step["moved"].tolist() == [0.125, 0.0, -0.125]
    assert one_step.residuals(corpus, 2 * step["moved"], step)["slope"] == 0.5


@pytest.mark.parametrize("random", [False, True])
def test_one_step_agrees_with_the_embedding_itself(random: bool) -> None:
    """The drawn a and b stand for E0: the same step taken on an E0 that has them."""
    rng = np.random.default_rng(2)
    corpus = drawn(rng, n=20, T=6)
    V = corpus.counts.shape[1]
    step = one_step.first_step(corpus, 256, random, rng)
    along, off = step["p"]
    other = (step["a"] - along * step["b"]) / off if random else rng.standard_normal(V)
    E = np.column_stack([step["b"], other, rng.standard_normal((V, 2))])
    problem = kt.EmbeddingProblem(corpus.counts, corpus.y, E, [1.0, 0, 0, 0], [along, off, 0, 0])
    moved = kt.train(problem, over="E", method=kt.GradientDescent(1.0), steps=1).params - E
    assert np.allclose(moved[:, 0], step["moved"], atol=1e-15)
    assert np.allclose(moved[:, 1], step["off"], atol=1e-15)
    assert step["off"].any() == random
    assert np.abs(moved[:, 2:]).max() == 0


def test_the_optimal_token_is_found_and_ties_are_counted() -> None:
    corpus = small([1, -1, 1], [[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    best, ties = assumptions.optimal(corpus, np.array([2.0, 1.0, 1.0]))
    assert best.tolist() == [0, 1, 1]
    assert ties == pytest.approx(1 / 3)


def test_a_contradiction_is_told_in_words() -> None:
    corpus = small([1, -1], [[1, 1, 0], [1, 1, 0]])
    told = assumptions.report(corpus, "signed frequency")
    assert told["feasible"] in (0.0, 1.0)
    opposed = small([1, -1, 1], [[2, 1, 0], [1, 2, 0], [1, 0, 0]])
    told = assumptions.report(opposed, "signed frequency")
    assert told["feasible"] == 0.0
    assert "“a”" in told["conflict"]
    assert "“b”" in told["conflict"]


def test_heaviest_equals_a_loop() -> None:
    corpus = drawn(np.random.default_rng(3), n=30, T=8)
    a = np.random.default_rng(4).standard_normal(corpus.counts.shape[1])
    dense = np.where(corpus.counts.toarray() > 0, a, -np.inf)
    assert heaviest(corpus, a).tolist() == dense.argmax(1).tolist()


def test_pairs_above_by_hand() -> None:
    assert reviews.above(np.array([1.0, 3.0]), np.array([2.0, 1.0])) == (0.5 + 0 + 1 + 1) / 4


def test_cycles_are_counted_by_hand() -> None:
    """Sentences 1 and 2 put a above b and b above a; the third puts c above b."""
    corpus = small([1, -1, 1], [[1, 1, 0], [1, 1, 0], [0, 1, 1]])
    found = assumptions.cycles(corpus, np.array([0, 1, 2]))
    assert found == {
        "best tokens on a cycle": 2,
        "sentences that take part in one": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize("uneven", [False, True])
def test_selecting_pure_tokens_never_contradicts_itself(uneven: bool) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        corpus = drawn(rng, n=60, T=6, important=2, partly=0, uneven=uneven)
        told = assumptions.report(corpus, "posterior difference")
        assert told["sentences whose best token is pure"] == 1
        assert (told["feasible"], told["best tokens on a cycle"]) == (1, 0)


def test_a_real_step_of_p_at_infinite_width_is_the_early_law() -> None:
    corpus = drawn(np.random.default_rng(6), n=50, T=8)
    labels = labelled(corpus)
    loss = bare_loss(labels)
    found = early_p.first_step_of_p(loss, embed(labels, loss, StageOptions(eta=30.0)))
    assert found == pytest.approx(kt.early_law(corpus.counts, corpus.y, 30.0).attention, abs=1e-14)


def test_the_margin_falls_short_like_the_power_that_is_fitted() -> None:
    keys = {"case": "x", "d": 0, "step": True, "text": 0}
    norm = np.geomspace(1e2, 1e5, 20)
    path = pl.DataFrame([keys | {"norm": r, "margin": 1 - 3 * r**-1.5} for r in norm])
    (fitted,) = train_p.shortfalls(path, path.tail(1))
    assert fitted == pytest.approx(-1.5)


def test_with_and_without_the_step_p_meets_the_same_corpus_and_embedding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever generator the cell hands over; without the step E is E0."""
    met = []

    def meet(corpus: Any, d: int, reach: float, rng: Any) -> Any:
        met.append((corpus.counts.toarray(), stage_two(corpus, d, 0, rng).embedding))
        raise StopIteration

    stage_two = train_p.stage_two
    monkeypatch.setattr(train_p, "stage_two", meet)
    for k, step in enumerate((True, False)):
        cell = {"case": "one important", "d": 16, "step": step, "text": 3}
        with pytest.raises(StopIteration):
            train_p.run(cell, np.random.default_rng(k))
    for with_step, without in zip(*met, strict=True):
        assert np.array_equal(with_step, without)


def test_a_quick_run_leaves_out_corpora_at_finite_width_alone() -> None:
    quick, whole = train_p.params(True), train_p.params(False)
    assert all(cell in whole for cell in quick)
    assert all(cell["d"] and cell["text"] for cell in whole if cell not in quick)


def test_tokens_of_one_value_are_selected_together_by_hand() -> None:
    """The second sentence splits its weight between two tokens of value 1: that is decided."""
    weights = np.array([[1.0, 0, 0], [0.4, 0.6, 0], [0.0, 0.1, 0.9]])
    assert train_p.certain(weights[:2], np.array([1.0, 1.0, -1.0])) == pytest.approx(1)
    assert train_p.certain(weights[:2], np.array([1.0, 0.9, -1.0])) == pytest.approx(0.6)
    assert train_p.certain(weights, np.array([1.0, 1.0, -1.0])) == pytest.approx(0.9)


def test_a_tie_with_the_best_token_counts_as_the_best() -> None:
    counts, y = np.array([[1.0, 1, 1], [1, 1, 0], [0, 1, 1]]), np.array([1.0, -1, 1])
    score = np.array([1.0, 1.0, -1.0])
    assert train_p.follows(counts, y, score, np.array([1, 0, 1])) == 1
    assert train_p.follows(counts, y, score, np.array([2, 1, 2])) == pytest.approx(1 / 3)


def test_tokens_kept_together_have_an_att_svm_of_their_own_by_hand() -> None:
    """Sentences abd and cd, free logits: min |x|^2 with a = b >= d + 1 and c >= d + 1 has

    a = b = c = 1/4 and d = -3/4, where a alone would have to stand above b, too.
    """
    counts, E = np.array([[1.0, 1, 0, 1], [0, 0, 1, 1]]), np.eye(4)
    kept = np.array([[True, True, False, False], [False, False, True, False]])
    p = 100 * np.array([0.25, 0.25, 0.25, -0.75])
    svm = kt.corpus_att_svm(counts, kept, embedding=E)
    found = train_p._against(counts, kept, p, p, svm)
    assert (found["gap"], found["margin"]) == (pytest.approx(0), pytest.approx(1))
    alone = kt.corpus_att_svm(counts, [0, 2], embedding=E)
    assert train_p._against(counts, kept, p, p, alone)["gap"] > 1e-2


def test_a_small_step_on_unequal_frequencies_selects_what_a_large_one_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_margin, "SENTENCES", 1000)
    monkeypatch.setattr(corpus_margin, "SCALE", 2)
    cells = [{"uneven": uneven, "reach": r} for uneven in (False, True) for r in (0.1, 3.0)]
    rows = pl.concat(
        pl.DataFrame([cell | row for row in corpus_margin.run(cell, np.random.default_rng(0))])
        for cell in cells
    )
    outcomes = {v.claim: v for v in corpus_margin.verdicts(rows)}
    end = rows.group_by("uneven", "reach", maintain_order=True).last()
    assert end.filter(end["reach"] == 0.1)["right"].to_list() == [1, 1]
    assert len(outcomes) == 9
    assert outcomes["The direction of p converges to it."].outcome == "holds"
    small = rows.filter(rows["reach"] == 0.1)
    assert len(corpus_margin.verdicts(small)) == 6


def test_the_norm_that_was_reached_is_told() -> None:
    assert corpus_margin._reached(pl.DataFrame({"length": [1332.7]})) == "norm 1,333"
    both = pl.DataFrame({"length": [1332.7, 1095.1]})
    assert corpus_margin._reached(both) == "norm 1,095 and 1,333"


def test_the_same_selection_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small([1, -1], [[1, 1, 0], [0, 1, 1]])
    asked: list[list[int]] = []
    solve = kt.corpus_att_svm

    def counted(counts: Any, selected: Any, embedding: Any = None) -> Any:
        asked.append(selected.tolist())
        return solve(counts, selected, embedding)

    monkeypatch.setattr(reviews_margin.kt, "corpus_att_svm", counted)
    labels = labelled(corpus)
    space = Space(embed(labels, bare_loss(labels), StageOptions(eta=1.0)))
    points = []
    for a in ([3.0, 0, 3], [6.0, 0, 6], [0.0, 3, 0]):
        theta = AttentionScores([[*a, -np.inf]], [[[1.0, 0, -1, 0]]], [0.0])
        points.append(Point(space.norm(np.array(a)), Fitted(theta, 1, "")))
    rows = reviews_margin.along(corpus, space, points, kt.RankOne(np.zeros(3), 1.0))
    assert asked == [[0, 2], [1, 1]]
    assert [row["moved"] for row in rows] == [None, 0, 1]
    assert [row["undecided"] for row in rows] == [0, 0, 0]


def test_pure_tokens_are_selected_where_there_are_some_by_hand() -> None:
    """a is positive, b negative, c both; then c is above a in no sentence that has a pure one."""
    corpus = small([1, -1, 1, -1], [[1, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1]])
    alpha = signed_frequency(corpus.counts, corpus.y)
    assert assumptions.pure_feasible(corpus, alpha, np.array([True, True, False])) == 1
    assert assumptions.pure_feasible(corpus, alpha, np.zeros(3, bool)) is None
    opposed = small([1, -1], [[2, 1, 0], [1, 2, 0]])  # called pure, though they are not
    alpha = signed_frequency(opposed.counts, opposed.y)
    assert assumptions.pure_feasible(opposed, alpha, np.array([True, True, False])) == 0


def test_the_lift_of_either_label_by_hand() -> None:
    """Token 0 tells of one label, 1 and 2 of the other, 3 and 4 idle; .2 tells too little."""
    posterior = np.array([1.0, -0.8, -0.6, 0.0, 0.05, 0.2])
    logit = np.array([2.0, 0.5, -3.0, 0.0, 1.0, 9.0])
    assert reviews.lifts(logit, posterior) == (1.0, 0.25)
    assert reviews.worse(*reviews.lifts(logit, posterior)) == 0.25
    assert reviews.lifts(logit[1:], posterior[1:]) == (None, 0.25)
    assert reviews.worse(None, 0.25) is None


def test_the_early_verdicts_take_the_label_that_fares_worse() -> None:
    low = pl.DataFrame({"lift_plus": [1.0, 0.6], "lift_minus": [0.2, None]})
    plus, minus = early_p._lifts(low)
    assert np.minimum(plus, minus)[0] == 0.2
    assert np.isnan(np.minimum(plus, minus)[1])


def test_the_lift_of_five_classes_by_hand() -> None:
    """Token 0 tells class 0, tokens 1 and 2 are idle: one of the two pairs has it above."""
    counts = sparse.csr_array(np.array([[1.0, 1, 1]] + [[0.0, 1, 1]] * 4))
    a = np.array([0.5, 1.0, 0.0])
    assert five_stars.lift(a, counts, np.arange(5)) == 0.5
    assert five_stars.lift(a[1:], counts[:, 1:], np.arange(5)) is None


def test_the_three_points_of_a_cell_are_told_apart() -> None:
    model = pl.DataFrame({"band": [True] * 3 + [False] * 3, "reach": [1.0] * 6,
                          "length": [0.0, 4.1, 16.2, 0.0, 4.3, 17.0]})  # fmt: skip
    assert [reviews_band.at(model, k)["length"].to_list() for k in range(3)] == [
        [0.0, 0.0], [4.1, 4.3], [16.2, 17.0]
    ]  # fmt: skip


def test_words_outside_the_band_and_reviews_without_others_go(monkeypatch: Any) -> None:
    corpus = small([1, -1, 1], [[1, 0, 0], [1, 1, 0], [2, 0, 1]])
    monkeypatch.setattr(reviews_band, "BAND", (0.2, 0.5))
    keep = reviews_band.band(corpus)
    cut = reviews_band.restricted(corpus, keep)
    assert keep.tolist() == [1, 2]
    assert (cut.counts.toarray().tolist(), cut.y.tolist()) == ([[1, 0], [0, 1]], [-1, 1])
    assert cut.words.tolist() == ["b", "c"]
    monkeypatch.setattr(reviews_band, "BAND", (2, 3))
    assert reviews_band.band(corpus).tolist() == [0, 1, 2]


def test_undecided_sentences_are_told_apart_by_hand() -> None:
    """a = (0, 0, 9): the first sentence wavers between its two tokens, the others select c."""
    corpus = small([1, 1, -1], [[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    theta = AttentionScores([[0, 0, 9, -np.inf]], [[[1.0, 2, -1, 0]]], [0.0])
    rows = reviews_margin.undecided(corpus, Point(9.0, Fitted(theta, 1, "")))
    kinds = {row["open"]: row for row in rows if row["what"] == "kind"}
    assert kinds[True]["share"] == pytest.approx(1 / 3)
    assert (kinds[True]["accuracy"], kinds[False]["accuracy"]) == (1, 0.5)
    assert [(row["word"], row["share"]) for row in rows if row["what"] == "pair"] == [("a / b", 1)]
    assert {row["index"] for row in rows if row["what"] == "sentence"} == {0}


def test_two_experiments_share_one_flow_until_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    texts = [f"good the film {k % 3}" if k % 2 else f"bad the film {k % 3}" for k in range(40)]
    written(path, text=texts, label=[0, 1] * 20)
    first, again = (flow(str(path), 0, seed, 2.0) for seed in (1, 2))
    assert first is again
    assert [round(point.norm) for point in first[1]] == [1, 2]
    written(path, text=texts[::-1], label=[0, 1] * 20)
    assert flow(str(path), 0, 1, 2.0) is not first


def test_the_early_curve_is_even_for_a_symmetric_corpus() -> None:
    corpus = drawn(np.random.default_rng(5), n=2000, T=8, partly=0)
    alpha = signed_frequency(corpus.counts, corpus.y)
    law = kt.early_law(corpus.counts, corpus.y, eta=0.1 / np.abs(alpha).max())
    key = np.isin(corpus.kinds, ("positive", "negative"))
    assert law.attention[key].min() > law.attention[~key].max()
    assert early_p._even(law.attention, alpha) > 0.5


@pytest.mark.parametrize("name", ["one-step", "early-p", "assumptions"])
def test_drawn_experiments_decide_every_claim(name: str, tmp_path: Path) -> None:
    rows = run_experiment(experiment(name), tmp_path, quick=True)
    decided = experiment(name).verdicts(rows)
    assert len(decided) >= 4
    assert all(v.outcome != "cannot be decided here" for v in decided)
    assert (tmp_path / name / "figure.svg").exists()


@pytest.mark.parametrize(
    "name",
    [
        "one-step-reviews",
        "early-p-reviews",
        "assumptions-reviews",
        "five-stars",
        "reviews",
        "reviews-band",
        "reviews-margin",
    ],
)
def test_experiments_on_a_file_decide_every_claim(name: str, data: Path, tmp_path: Path) -> None:
    rows = run_experiment(experiment(name), tmp_path, quick=True, data=[data])
    assert set(rows["corpus"]) == {"tiny"}
    decided = experiment(name).verdicts(rows)
    assert all(v.claim.startswith("tiny: ") for v in decided)
    open_ = {v.claim for v in decided if v.outcome == "cannot be decided here"}
    assert not open_ - NEED_MORE
    assert list((tmp_path / name).glob("figure*.svg"))


def test_other_data_under_the_same_name_is_computed_again(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / data.name
    copy.write_bytes(data.read_bytes())
    first = experiment("one-step-reviews").cells(True, [str(copy)])
    copy.write_bytes(data.read_bytes() + b"good again,pro,5,train\n")
    again = experiment("one-step-reviews").cells(True, [str(copy)])
    assert [c.name for c in first] == [c.name for c in again]
    assert {c.mark for c in first}.isdisjoint({c.mark for c in again})


@pytest.mark.parametrize("stage", ["one_step", "two_stage", "network", "joint"])
def test_every_stage_learns_what_the_words_say(stage: str, data: Path) -> None:
    params = {"stage": stage, "d": 0 if stage != "network" else 32, "norm": 4.0, "epochs": 60}
    rows = reviews.run(params, np.random.default_rng(0), str(data))
    assert rows[-1]["what"] == "review"
    assert max(row.get("train", 0) for row in rows) > 0.85
    seen = {row["what"] for row in rows} - {"path"}
    assert seen == {"model", "token", "selected", "review"}
