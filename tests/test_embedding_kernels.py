"""The fused pass: by hand, against the slow reference, finite differences, and in the limit."""

import numpy as np
import pytest
from embedding_reference import dense_f, dense_gradient, dense_loss, random_case, random_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from keytokens.embedding import kernels, passes, rows
from keytokens.embedding.kernels import CountLoss, Layout, Rows

SHAPES = {
    "binary": dict(),
    "no cls": dict(cls=False),
    "three classes": dict(outputs=3),
    "ten classes": dict(outputs=10),
    "one map a class": dict(outputs=3, per_class=True),
    "two heads": dict(heads=2),
    "two heads, three classes": dict(outputs=3, heads=2),
    "two heads a class": dict(outputs=3, heads=2, per_class=True),
}


def test_two_tokens_by_hand() -> None:
    counts = sparse.csr_array([[1.0, 2.0]])
    theta = np.array([[np.log(2.0), 3.0], [0.0, -1.0], [-np.inf, 0.0]])
    loss = CountLoss(Rows.of(counts), np.array([1.0]), np.ones(1), Layout.of(1), np.zeros(1))
    value, gradient = loss(theta)
    # e^a N = 2 and 2, so w = 1/2 each, f = 1, r = -1 / (1 + e)
    r = -1 / (1 + np.e)
    assert loss.f[0, 0] == pytest.approx(1, abs=1e-15)
    assert value == pytest.approx(np.log1p(np.exp(-1)), abs=1e-15)
    assert gradient[:, 1] == pytest.approx([r / 2, r / 2, 0], abs=1e-15)
    assert gradient[:, 0] == pytest.approx([r, -r, 0], abs=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_slow_reference_agrees(shape: str) -> None:
    for seed in range(3):
        loss, theta, case = random_case(seed=seed, **SHAPES[shape])
        value, gradient = loss(theta)
        counts, _, _, layout, bias = case
        assert value == pytest.approx(dense_loss(theta, *case), rel=1e-12)
        assert np.abs(loss.f - dense_f(theta, counts, layout, bias)).max() <= 1e-12
        assert np.abs(gradient - dense_gradient(theta, *case)).max() <= 1e-12


@pytest.mark.parametrize("shape", SHAPES)
def test_finite_differences_agree(shape: str) -> None:
    loss, theta, _ = random_case(**SHAPES[shape])
    gradient = loss(theta)[1].copy()
    for place in np.argwhere(np.isfinite(theta)):
        step = np.zeros_like(theta)
        step[tuple(place)] = 1e-5
        rise = (loss(theta + step)[0] - loss(theta - step)[0]) / 2e-5
        assert gradient[tuple(place)] == pytest.approx(rise, abs=1e-7)


def test_the_unrolled_pass_is_the_general_one() -> None:
    loss, theta, _ = random_case()
    value, gradient = loss(theta)
    gradient = gradient.copy()
    lo, hi = loss.rows.blocks[0]
    table, shared = kernels.exponentiate(theta, 1)
    other = np.empty_like(gradient)
    f = np.empty_like(loss.f)
    again = passes.general_block(
        *(loss.rows.indptr, loss.rows.indices, loss.rows.data, lo, hi, table, shared),
        *(loss._pairs, loss.bias, loss.target, loss.weight, f, other),
    )
    assert again == pytest.approx(value, rel=1e-14)
    assert np.allclose(other, gradient, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("scale", [40.0, 2000.0])
def test_saturated_gradients_keep_their_relative_precision(scale: float) -> None:
    """Pairwise: dL/da_s = r w_s sum_u w_u (b_s - b_u); the plain form would be noise here."""
    rng = np.random.default_rng(1)
    a, b = scale * np.array([0.0, -0.02, -1.0, -1.01]), rng.standard_normal(4)
    b[1] = b[0]
    counts = sparse.csr_array(np.ones((1, 4)))
    theta = np.vstack([np.column_stack([a, b]), [-np.inf, 0]])
    loss = CountLoss(Rows.of(counts), np.ones(1), np.ones(1), Layout.of(1), np.zeros(1))
    gradient = loss(theta)[1][:-1, 0]
    w = np.exp(a - np.logaddexp.reduce(a))
    r = -1 / (1 + np.exp(loss.f[0, 0]))
    pairwise = r * w * ((b[:, None] - b[None]) @ w)
    shown = np.abs(pairwise) > 1e-300
    assert shown.sum() >= (4 if scale < 100 else 0)
    assert np.allclose(gradient[shown], pairwise[shown], rtol=1e-12, atol=0)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("scale", [40.0, 2000.0])
def test_saturated_gradients_of_three_classes_keep_it_too(scale: float) -> None:
    """Pairwise again, each class by itself: their sum is of one size here."""
    rng = np.random.default_rng(2)
    a, b = scale * np.array([0.0, -0.02, -1.0, -1.01]), rng.standard_normal((4, 3))
    theta = np.vstack([np.column_stack([a, b]), [-np.inf, 0, 0, 0]])
    counts = sparse.csr_array(np.ones((1, 4)))
    loss = CountLoss(Rows.of(counts), np.zeros(1), np.ones(1), Layout.of(3), np.zeros(3))
    gradient = loss(theta)[1][:-1, 0]
    w = np.exp(a - np.logaddexp.reduce(a))
    r = np.exp(loss.f[0]) / np.exp(loss.f[0]).sum() - [1, 0, 0]
    pairwise = w * (((b[:, None] - b[None]) @ r) @ w)
    shown = np.abs(pairwise) > 1e-300
    assert shown.any()
    assert np.allclose(gradient[shown], pairwise[shown], rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [1e3, 1e4])
@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "no cls"])
def test_a_wide_span_takes_the_row_by_row_shift(shape: str, scale: float) -> None:
    loss, theta, case = random_case(**SHAPES[shape])
    theta[:, : case[3].n_maps] *= scale
    assert kernels.exponentiate(theta, case[3].n_maps)[1] is False
    value, gradient = loss(theta)
    assert value == pytest.approx(dense_loss(theta, *case), rel=1e-12)
    assert np.abs(gradient - dense_gradient(theta, *case)).max() <= 1e-12


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.floats(-300, 300))
def test_laws_hold(seed: int, shift: float) -> None:
    """A common shift of the logits changes nothing; sum_s dL/da_s = 0."""
    loss, theta, _ = random_case(seed=seed)
    value, gradient = loss(theta)
    assert abs(gradient[:, 0].sum()) <= 1e-14
    moved = theta + np.array([shift, 0.0])
    assert loss(moved)[0] == pytest.approx(value, rel=1e-11)


def test_weight_zero_rows_only_get_their_f() -> None:
    loss, theta, (counts, target, weight, layout, bias) = random_case()
    weight = weight.copy()
    weight[::2] = 0
    part = CountLoss(Rows.of(counts), target, weight, layout, bias)
    value, gradient = part(theta)
    loss(theta)
    rest = np.flatnonzero(weight)
    small = CountLoss(Rows.of(counts[rest]), target[rest], weight[rest], layout, bias)
    assert np.array_equal(part.f, loss.f)
    assert value == pytest.approx(small(theta)[0], rel=1e-14)
    assert np.allclose(gradient, small(theta)[1], rtol=1e-12, atol=1e-17)


@pytest.mark.parametrize("outputs", [1, 3])
def test_same_bits_whatever_the_threads(outputs: int) -> None:
    rng = np.random.default_rng(0)
    counts = sparse.random_array((6000, 400), density=0.1, rng=rng, format="csr")
    layout, bias = Layout.of(outputs), np.zeros(outputs)
    rows, theta = Rows.of(counts), rng.standard_normal((401, layout.width))
    assert len(rows.blocks) == 4
    target, weight = (
        rng.choice([-1.0, 1.0] if outputs == 1 else [0.0, 1, 2], 6000),
        rng.random(6000),
    )
    answers = [CountLoss(rows, target, weight, layout, bias, jobs)(theta) for jobs in (1, 2, 3, 4)]
    assert len({value for value, _ in answers}) == 1
    assert len({gradient.tobytes() for _, gradient in answers}) == 1


def test_an_empty_row_without_cls_says_the_bias() -> None:
    loss, theta, _ = random_case(cls=False)
    loss(theta)
    assert loss.f[2, 0] == loss.bias[0]


def test_tree_sum_is_the_sum() -> None:
    for size in range(1, 9):
        parts = list(np.arange(1.0, size + 1))
        buffers = np.array(parts)[:, None].copy()
        assert rows.tree_sum(parts) == sum(parts)
        assert rows.add_blocks(buffers)[0] == sum(parts)


def test_blocks_cover_all_rows_once() -> None:
    counts = random_counts(n=50, V=20)
    rows = Rows.of(counts)
    assert [lo for lo, _ in rows.blocks] + [rows.n] == [0] + [hi for _, hi in rows.blocks]
