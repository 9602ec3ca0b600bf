"""AttentionScores: what they say of counts, and which arrays they refuse; the statistics beside."""

import numpy as np
import pytest
from embedding_reference import random_counts
from scipy import sparse

import keytokens as kt
from keytokens.embedding.concentration import carrying, effective_tokens
from keytokens.embedding.frequencies import (
    frequency,
    log_ratio,
    posterior_difference,
    signed_frequency,
)
from keytokens.embedding.scores import logits, weights


def scores(M: int = 2, K: int = 3, V: int = 9, seed: int = 0) -> kt.AttentionScores:
    rng = np.random.default_rng(seed)
    draw = rng.standard_normal
    return kt.AttentionScores(draw((M, V + 1)), draw((M, K, V + 1)), draw(K))


def test_logits_are_weighted_values() -> None:
    counts, model = random_counts(), scores()
    w, cls = weights(model, counts)
    assert w.shape == (2, counts.nnz)
    expected = np.tile(model.bias, (counts.shape[0], 1))
    for m in range(2):
        dense = sparse.csr_array((w[m], counts.indices, counts.indptr), counts.shape).toarray()
        assert np.allclose(dense.sum(axis=1) + cls[m], 1, atol=1e-14)
        expected += dense @ model.value[m, :, :-1].T + cls[m][:, None] * model.value[m, :, -1]
    assert np.abs(logits(model, counts) - expected).max() <= 1e-12


def test_one_thread_and_two_agree_to_the_bit() -> None:
    counts = sparse.random_array((3000, 300), density=0.3, rng=np.random.default_rng(0)).tocsr()
    model = scores(V=300)
    assert np.array_equal(logits(model, counts, 1), logits(model, counts, 2))


BAD = {
    "attention must have 2 axes": (np.zeros(3), np.zeros((1, 1, 3)), np.zeros(1)),
    "value must have shape (M, K, V+1) = (1, 1, 3); got (1, 2, 3)": (
        np.zeros((1, 3)),
        np.zeros((1, 2, 3)),
        np.zeros(1),
    ),
    "attention must be finite but for <cls>": (
        np.array([[np.inf, 0, 0]]),
        np.zeros((1, 1, 3)),
        np.zeros(1),
    ),
    "bias must be finite": (np.zeros((1, 3)), np.zeros((1, 1, 3)), np.array([np.nan])),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrays_are_named(message: str) -> None:
    with pytest.raises(kt.InputError) as caught:
        kt.AttentionScores(*BAD[message])
    assert message in str(caught.value)


def test_counts_of_another_vocabulary_are_refused() -> None:
    with pytest.raises(kt.InputError, match="counts must have 9 columns; got 4"):
        logits(scores(), random_counts(V=4))


def test_effective_tokens_by_hand() -> None:
    absent = np.append(np.zeros(4), -np.inf)[None]
    model = kt.AttentionScores(absent, np.array([[[8.0, 1.0, 1.0, 0.0, 0.0]]]), np.zeros(1))
    counts = sparse.csr_array([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
    assert effective_tokens(model, counts).tolist() == [4.0, 1.0]
    heavy = kt.AttentionScores(np.append(np.zeros(4), 9.0)[None], model.value, np.zeros(1))
    assert np.allclose(effective_tokens(heavy, counts), [4.0, 1.0])  # <cls> stands aside
    assert carrying(model, counts, 0.8).tolist() == [1, 1]
    assert carrying(model, counts, 0.95).tolist() == [3, 1]


def test_statistics_by_hand() -> None:
    counts = sparse.csr_array([[1.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    y = np.array([1.0, -1.0, 1.0])
    assert signed_frequency(counts, y) == pytest.approx([1 / 6, 1 / 6 - 1 / 4, -1 / 12])
    assert frequency(counts) == pytest.approx([1 / 6, 1 / 6 + 1 / 4, 1 / 12])
    assert posterior_difference(counts, y) == pytest.approx([1, -0.2, -1])


def test_weight_two_is_a_row_twice() -> None:
    counts, y = random_counts(), np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    weight = np.where(np.arange(12) < 4, 2.0, 1.0)
    twice = np.repeat(np.arange(12), weight.astype(int))
    one = posterior_difference(counts, y, weight)
    assert one == pytest.approx(posterior_difference(counts[twice], y[twice]), abs=1e-14)
    positive = np.column_stack([y > 0, y < 0]) * 1.0
    ratios = log_ratio(counts, positive, weight)
    again = log_ratio(counts[twice], positive[twice], np.ones(len(twice)))
    assert ratios == pytest.approx(again, abs=1e-14)
    assert ratios[:, 1] == pytest.approx(-ratios[:, 0], abs=1e-14)


def test_a_token_of_one_class_has_difference_one() -> None:
    counts = sparse.csr_array(np.eye(3))
    assert posterior_difference(counts, np.array([1.0, -1.0, 1.0])).tolist() == [1, -1, 1]
    unseen = sparse.csr_array(np.diag([1.0, 1.0, 0.0]))
    assert posterior_difference(unseen, np.array([1.0, -1.0, 1.0])).tolist() == [1, -1, 0]
