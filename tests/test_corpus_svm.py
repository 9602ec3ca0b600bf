"""The Att-SVM of a corpus: by hand, against least-distance programming, and as laws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, nnls

import keytokens as kt


def rows_of(counts: np.ndarray, kept: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """G and h over columns, written out: >= 1 above the others, = 0 (h = 0) among the kept."""
    G, h = [np.zeros((0, counts.shape[1]))], [np.zeros(0)]
    unit = np.eye(counts.shape[1])
    for present, chosen in zip(counts > 0, kept, strict=True):
        for s in chosen:
            others = np.flatnonzero(present)
            others = others[others != s]
            G.append(unit[s] - unit[others])
            h.append((~np.isin(others, chosen)).astype(float))
    return np.concatenate(G), np.concatenate(h)


def least_distance(G: np.ndarray, h: np.ndarray) -> np.ndarray | None:
    """argmin ||p|| s.t. Gp >= h by non-negative least squares; None where there is none."""
    if not len(h):  # scipy's nnls aborts the process on no columns
        return np.zeros(G.shape[1])
    A = np.vstack([G.T, h])
    u, _ = nnls(A, np.eye(len(A))[-1])
    r = A @ u - np.eye(len(A))[-1]
    return None if np.linalg.norm(r) < 1e-7 else -r[:-1] / r[-1]


@st.composite
def corpora(draw: Any, most_kept: int = 1) -> tuple[np.ndarray, list[list[int]]]:
    """A small corpus, empty inputs and repeated tokens included, with kept tokens."""
    n, V = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    counts = np.array(
        draw(st.lists(st.lists(st.integers(0, 2), min_size=V, max_size=V), min_size=n, max_size=n)),
        dtype=float,
    )
    kept = []
    for row in counts:
        present = np.flatnonzero(row).tolist()
        size = draw(st.integers(1, max(1, min(most_kept, len(present)))))
        kept.append(sorted(draw(st.permutations(present))[:size]))
    return counts, kept


def test_a_chain_by_hand() -> None:
    answer = kt.corpus_att_svm([[1, 2, 0], [0, 1, 1], [0, 0, 0]], [0, 1, -1])
    assert np.allclose(answer.direction, [1, 0, -1], atol=1e-15)
    assert answer.margin == pytest.approx(2**-0.5)
    assert np.allclose(answer.multipliers.toarray(), [[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert np.array_equal(answer.support.toarray(), answer.multipliers.toarray() > 0)


def test_the_rank_one_gram_by_hand() -> None:
    # a = (u, u - 1), K = I + 2 (1, 0)(1, 0)^T: minimise u^2 / 3 + (u - 1)^2 at u = 3/4
    answer = kt.corpus_att_svm([[1, 1]], [0], kt.RankOne([1.0, 0.0], eta=2 * 2**0.5))
    assert np.allclose(answer.direction, [0.75, -0.25], atol=1e-14)
    assert answer.margin == pytest.approx(2.0)


def test_two_dimensions_by_hand() -> None:
    E = np.array([[2.0, 0.0], [0.0, 0.0], [2.0, 5.0]])
    answer = kt.corpus_att_svm([[1, 1, 0]], [0], E)
    assert np.allclose(answer.direction, [0.5, 0], atol=1e-15)


def test_nothing_to_separate() -> None:
    for embedding in (None, kt.RankOne([1, 1], 3.0), np.ones((2, 5))):
        answer = kt.corpus_att_svm([[3, 0], [0, 1], [0, 0]], [0, 1, 0], embedding)
        assert not answer.direction.any()
        assert answer.margin == np.inf
        assert answer.certificate.gap == 0
        assert answer.status.startswith("No row asks")


def test_a_cycle_is_told_with_an_input_for_each_edge() -> None:
    counts = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    answer = kt.corpus_att_svm(counts, [0, 1, 2, 0])
    assert answer.direction is None
    assert answer.margin == 0
    assert answer.conflict.is_proof
    assert answer.conflict.residual == 0
    assert answer.conflict.pairs == [(0, 0, 1), (1, 1, 2), (2, 2, 0)]
    assert answer.conflict.inputs == [0, 1, 2]
    assert str(answer.conflict) == (
        "Input 0 puts token 0 above token 1; input 1 puts token 1 above token 2; "
        "input 2 puts token 2 above token 0: no logits do all of this."
    )


def test_a_cycle_through_tokens_kept_together() -> None:
    counts = [[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]  # 0 = 1 and 1 = 2, yet 0 above 2
    for embedding in (None, np.eye(4)):
        conflict = kt.corpus_att_svm(counts, [[0, 1], [1, 2], [0]], embedding).conflict
        assert conflict.is_proof
        expected = [[0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 1, 0]]
        assert np.array_equal(conflict.vector.toarray(), expected)
        assert "Input 2 puts token 0 above token 2; input 1 keeps tokens 1 and 2" in str(conflict)


def test_equal_embeddings_cannot_be_told_apart() -> None:
    conflict = kt.corpus_att_svm([[1, 1, 1]], [0], np.ones((3, 4))).conflict
    assert conflict.is_proof
    assert "Input 0 (token 0 over token" in str(conflict)


def test_a_contradiction_without_a_cycle() -> None:
    E = np.array([[1.0], [0.0], [-1.0]])  # 0 above 1 asks p > 0, 2 above 1 asks p < 0
    counts = [[1, 1, 0], [0, 1, 1]]
    assert kt.corpus_att_svm(counts, [0, 2]).direction is not None
    answer = kt.corpus_att_svm(counts, [0, 2], E)
    assert answer.conflict.is_proof
    assert np.allclose(answer.conflict.vector.toarray(), [[0, 0.5, 0], [0, 0.5, 0]])


def test_ties_that_leave_no_direction() -> None:
    counts, kept = [[1, 1, 0, 0], [0, 0, 1, 1]], [[0, 1], [2]]
    answer = kt.corpus_att_svm(counts, kept, np.array([[3.0], [-3.0], [2.0], [1.0]]))
    assert answer.conflict.is_proof
    assert np.allclose(answer.conflict.vector.toarray(), [[0, -1 / 6, 0, 0], [0, 0, 0, 1]])


@pytest.mark.parametrize("kind", ["free", "one step", "finite"])
@settings(max_examples=60, deadline=None)
@given(corpora(most_kept=3), st.integers(0, 99))
def test_against_least_distance_programming(
    kind: str, corpus: tuple[np.ndarray, list[list[int]]], seed: int
) -> None:
    counts, kept = corpus
    rng = np.random.default_rng(seed)
    V = counts.shape[1]
    alpha = rng.normal(size=V)
    E = {
        "free": np.eye(V),
        "one step": np.column_stack([np.eye(V), 1.5 * alpha]),  # E E^T = I + c alpha alpha^T
        "finite": rng.integers(-2, 3, size=(V, 3)).astype(float),
    }[kind]
    embedding = {"free": None, "one step": kt.RankOne(alpha, 3.0), "finite": E}[kind]
    answer = kt.corpus_att_svm(counts, kept, embedding)
    G, h = rows_of(counts, kept)
    G = G @ E
    p = least_distance(G, h)
    feasible = linprog(np.zeros(E.shape[1]), A_ub=-G, b_ub=-h, bounds=(None, None)).status == 0
    assert (answer.direction is not None) == feasible == (p is not None)
    if p is None:
        assert answer.conflict.is_proof
        return
    a = E @ p if kind != "finite" else p
    assert np.allclose(answer.direction, a, atol=1e-7)
    assert abs(answer.certificate.gap) <= 1e-12
    assert answer.certificate.violation <= 1e-12


@settings(max_examples=40, deadline=None)
@given(corpora(most_kept=3), st.integers(0, 99))
def test_multipliers_alone_reproduce_the_bound(
    corpus: tuple[np.ndarray, list[list[int]]], seed: int
) -> None:
    counts, kept = corpus
    E = np.random.default_rng(seed).normal(size=(counts.shape[1], 4))
    for embedding, K in ((None, np.eye(len(E))), (E, E @ E.T)):
        answer = kt.corpus_att_svm(counts, kept, embedding)
        if answer.direction is None or not answer.direction.any():
            continue
        g, gain = np.zeros(len(E)), 0.0
        for i, t, value in zip(*sp.find(answer.multipliers), strict=True):
            g[min(kept[i])] += value
            g[t] -= value
            gain += value * (t not in kept[i])
            assert value >= 0 or t in kept[i]
        assert gain**2 / (2 * g @ K @ g) == pytest.approx(answer.certificate.dual, rel=1e-9)


def random_selection(seed: int, n: int = 60, V: int = 40) -> tuple[Any, np.ndarray]:
    """A corpus whose selection is the argmax of hidden logits, hence feasible."""
    rng = np.random.default_rng(seed)
    counts = (rng.random((n, V)) < 0.2).astype(float)
    counts[np.arange(n), rng.integers(V, size=n)] = 1
    hidden = rng.permutation(V)
    return sp.csr_matrix(counts), np.where(counts > 0, hidden, -1).argmax(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_corpus_and_dense_routes_agree(seed: int) -> None:
    counts, selected = random_selection(seed)
    n, V = counts.shape
    E = np.random.default_rng(seed).normal(size=(V, 60))
    problem = kt.TokenProblem(
        np.broadcast_to(E, (n, V, 60)), np.ones(n), np.ones(60), mask=counts.toarray() > 0
    )
    dense, corpus = kt.att_svm(problem, selected), kt.corpus_att_svm(counts, selected, E)
    assert np.allclose(dense.direction, corpus.direction, atol=1e-9)
    assert np.array_equal(dense.support, corpus.support.toarray())


@pytest.mark.parametrize("seed", range(5))
def test_orthonormal_rows_are_the_free_logits(seed: int) -> None:
    counts, selected = random_selection(seed)
    E = np.linalg.qr(np.random.default_rng(seed).normal(size=(50, 50)))[0][:40]
    finite, free = kt.corpus_att_svm(counts, selected, E), kt.corpus_att_svm(counts, selected)
    assert np.allclose(E @ finite.direction, free.direction, atol=1e-10)
    assert finite.margin == pytest.approx(free.margin, rel=1e-12)
    assert np.array_equal(finite.support.toarray(), free.support.toarray())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["free", "one step", "finite"]))
def test_laws(seed: int, kind: str) -> None:
    counts, selected = random_selection(seed, n=20, V=15)
    rng = np.random.default_rng(seed)
    E, alpha = rng.normal(size=(15, 20)), rng.normal(size=15)

    def solve(counts: Any, selected: Any, rows: Any = slice(None), unit: float = 1.0) -> Any:
        gram = {"free": None, "one step": kt.RankOne(alpha[rows], 2.0), "finite": unit * E[rows]}
        return kt.corpus_att_svm(counts, selected, gram[kind])

    answer = solve(counts, selected)
    inputs, columns = rng.permutation(20), rng.permutation(15)
    moved = solve(counts[inputs][:, columns], np.argsort(columns)[selected[inputs]], columns)
    expected = answer.direction if kind == "finite" else answer.direction[columns]
    assert np.allclose(moved.direction, expected, atol=1e-9)
    a = E @ answer.direction if kind == "finite" else answer.direction
    order = np.argsort(-a)[[0, -1]]
    if answer.margin < np.inf and a[order[0]] - a[order[1]] >= 1:
        implied = np.zeros((1, 15))
        implied[0, order] = 1
        more = solve(sp.vstack([counts, implied]), np.append(selected, order[0]))
        assert np.allclose(more.direction, answer.direction, atol=1e-9)
    if kind == "finite":
        scaled = solve(counts, selected, unit=1e3)
        assert np.allclose(1e3 * scaled.direction, answer.direction, atol=1e-9)


def test_every_form_of_the_selection_means_the_same() -> None:
    counts, selected = random_selection(3)
    mask = np.zeros(counts.shape, bool)
    mask[np.arange(len(selected)), selected] = True
    expected = kt.corpus_att_svm(counts, selected).direction
    same = [sp.csr_array(mask), mask, [np.array([s]) for s in selected], selected.tolist()]
    for form in same:
        assert np.array_equal(kt.corpus_att_svm(counts, form).direction, expected)
    doubled = sp.csr_matrix((counts.toarray() * 2).astype(int))
    assert np.array_equal(kt.corpus_att_svm(doubled, selected).direction, expected)


def test_the_callers_matrix_stays_as_it_came() -> None:
    counts = sp.csr_matrix(([1.0, 0.0, 2.0, 3.0], [1, 0, 2, 1], [0, 2, 4]), shape=(2, 3))
    answer = kt.corpus_att_svm(counts, [1, 1])  # unsorted, with a stored zero
    assert counts.indices.tolist() == [1, 0, 2, 1]
    assert np.allclose(answer.direction, [0, 0.5, -0.5])


BAD = {
    "selected must hold columns that occur in their input; got column 2 at input 0": ([2, 1], None),
    "selected must hold column indices in [0, 3); got 3 at kept token 1": ([0, 3], None),
    "selected must have one entry per input (2); got 1": ([0], None),
    "selected must hold column indices (integers); got dtype float64": ([0.5, 1.0], None),
    "selected must keep at least one token of every input that has any; got none at input 1": (
        [[0], []],
        None,
    ),
    "embedding must have shape (V, d) = (3, 2); got (4, 2)": ([0, 1], np.ones((4, 2))),
    "embedding must be finite": ([0, 1], np.full((3, 2), np.nan)),
    "alpha must have shape (V,) = (3,); got (2,)": ([0, 1], kt.RankOne([1, 2], 1.0)),
    "selected must have shape (n, V) = (2, 3); got (2, 2)": (np.eye(2, dtype=bool), None),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    selected, embedding = BAD[message]
    with pytest.raises(kt.InputError) as caught:
        kt.corpus_att_svm([[1, 1, 0], [0, 1, 1]], selected, embedding)
    assert message in str(caught.value)


def test_bad_counts_are_named() -> None:
    with pytest.raises(kt.InputError, match="counts must be zero or positive; got -1"):
        kt.corpus_att_svm([[1, -1]], [0])
    with pytest.raises(kt.InputError, match="eta must be zero or positive"):
        kt.RankOne([1.0], -1.0)


def test_real_reviews(shared_data: Path) -> None:
    counts, labels = reviews(shared_data / "imdb.parquet", 1500)
    shares = sp.diags_array(1 / counts.sum(axis=1)) @ counts
    difference = (shares.T @ labels) / shares.sum(axis=0)
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    weight = np.abs(difference) * documents / (documents + 20)
    selected = best_of(counts, weight)
    rng = np.random.default_rng(0)
    E = rng.normal(size=(counts.shape[1], 64))
    seen = best_of(counts, E @ rng.normal(size=64))
    for choice, embedding in ((selected, None), (selected, kt.RankOne(difference, 1.0)), (seen, E)):
        answer = kt.corpus_att_svm(counts, choice, embedding)
        assert abs(answer.certificate.gap) <= 1e-9
        assert answer.certificate.violation <= 1e-12


def best_of(counts: Any, score: np.ndarray) -> list[int]:
    """The token of the highest score in every input."""
    inputs = np.split(counts.indices, counts.indptr[1:-1])
    return [int(tokens[score[tokens].argmax()]) for tokens in inputs]


def reviews(path: Path, n: int) -> tuple[Any, np.ndarray]:
    """Unigram counts of every k-th review and its label as +-1."""
    import polars as pl

    table = pl.read_parquet(path, columns=["text", "label"]).gather_every(25)[:n]
    words = table.select(pl.col("text").str.to_lowercase().str.extract_all(r"\w+")).with_row_index()
    words = words.explode("text").with_columns(pl.col("text").rank("dense").alias("column") - 1)
    places = (words["index"].to_numpy(), words["column"].to_numpy())
    counts = sp.coo_array((np.ones(len(words)), places)).tocsr()
    return counts, np.where(table["label"].to_numpy() == 1, 1.0, -1.0)
