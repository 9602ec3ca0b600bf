"""Norms other than l2: by hand, duality, linear programs, a norm of one's own, bad cases."""

from dataclasses import replace

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, minimize

import keytokens as kt
from keytokens.svm.norms import Cones, Norm, named


def one_row(row: list[float]) -> kt.TokenProblem:
    return kt.TokenProblem([[row, [0.0] * len(row)]], [1], [1.0] * len(row))


@pytest.mark.parametrize("q", [1.1, 1.75, 2.0, 3.0, 8.0])
def test_one_row_by_hand(q: float) -> None:
    g = np.array([3.0, -4.0, 0.5])
    found = kt.att_svm(one_row([3.0, -4.0, 0.5]), [0], norm=q)
    dual = q / (q - 1)  # w_j = sign(g_j) |g_j|^(q'-1) / ||g||_q'^q'
    expected = np.sign(g) * np.abs(g) ** (dual - 1) / (np.abs(g) ** dual).sum()
    assert np.allclose(found.direction, expected, atol=1e-12)
    assert found.margin == pytest.approx(np.linalg.norm(g, dual), rel=1e-12)


@pytest.mark.parametrize(("q", "margin"), [(1, 4.0), (np.inf, 7.5)])
def test_one_row_in_the_polyhedral_norms(q: float, margin: float) -> None:
    assert kt.att_svm(one_row([3.0, -4.0, 0.5]), [0], norm=q).margin == pytest.approx(margin)


def test_nuclear_of_one_row_is_its_spectral_margin() -> None:
    problem = kt.TokenProblem([[[3.0, 4.0], [0.0, 0.0]]], [1], [1.0, 0.0], query=[[0.0, 2.0]])
    found = kt.att_svm(problem, [0], over="W", norm="nuclear")
    assert found.margin == pytest.approx(10.0, rel=1e-8)  # rank one: spectral = Frobenius
    assert np.allclose(found.direction, np.outer([3, 4], [0, 2]) / 100, atol=1e-8)


def test_nuclear_of_orthonormal_blocks() -> None:
    """W = sum_i c_i z_i^T with orthonormal z: the l2 answer is optimal for no norm but l2."""
    rng = np.random.default_rng(0)
    X = np.stack([np.linalg.qr(rng.standard_normal((4, 4)))[0][:3] for _ in range(2)])
    query = np.linalg.qr(rng.standard_normal((4, 4)))[0][:2]
    problem = kt.TokenProblem(X, [1, 1], np.ones(4), query=query)
    flat, low = (kt.att_svm(problem, [0, 0], over="W", norm=norm) for norm in ("l2", "nuclear"))
    size = np.linalg.norm(flat.direction, "nuc")
    assert np.linalg.norm(low.direction, "nuc") < size * (1 - 1e-3)
    assert np.linalg.norm(low.direction) > np.linalg.norm(flat.direction) * (1 + 1e-6)


@pytest.mark.parametrize(("norm", "size"), [("spectral", 1.0), ("l2", 2**0.5), ("nuclear", 2.0)])
def test_two_orthogonal_rows_of_rank_one_by_hand(norm: str, size: float) -> None:
    """W_11 >= 1 and W_22 >= 1: the identity, in each of three norms."""
    one, two = np.eye(2)
    problem = kt.TokenProblem([[one, 0 * one], [two, 0 * two]], [1, 1], one, query=[one, two])
    found = kt.att_svm(problem, [0, 0], over="W", norm=norm)
    assert np.allclose(found.direction, np.eye(2), atol=1e-8)
    assert 1 / found.margin == pytest.approx(size, rel=1e-8)


def test_spectral_agrees_with_a_slow_ascent_of_its_dual() -> None:
    """max h^T lambda s.t. ||sum lambda_r G_r||_* <= 1, lambda >= 0, is 1 over the margin."""
    problem = kt.random_problem(n=2, T=3, d=4, seed=5)
    selected = kt.optimal_tokens(problem)
    kept = problem.X[np.arange(2), selected]
    pairs = [(i, t) for i in (0, 1) for t in range(3) if t != selected[i]]
    G = np.array([np.outer(kept[i] - problem.X[i, t], problem.query[i]) for i, t in pairs])
    found = kt.att_svm(problem, selected, over="W", norm="spectral")

    def nuclear(x: np.ndarray) -> float:
        return float(np.linalg.norm(np.tensordot(x, G, 1), "nuc"))

    total = {"type": "eq", "fun": lambda x: x.sum() - 1}
    least = minimize(
        nuclear, np.full(4, 0.25), bounds=[(0, None)] * 4, constraints=total, tol=1e-12
    )
    assert found.margin == pytest.approx(least.fun, rel=1e-5)


@pytest.mark.parametrize("norm", ["nuclear", "spectral", 1.0, 1.75, 3.0, np.inf])
def test_random_problems_close_their_gap(norm: object) -> None:
    problem = kt.random_problem(n=6, T=8, d=10, seed=1, batch=3)
    selected = kt.optimal_tokens(problem)
    found = kt.att_svm(problem, selected, over="W", norm=norm)
    assert np.abs(found.certificate.gap).max() <= (1e-12 if norm in (1.75, 3) else 1e-8)
    assert found.certificate.violation.max() <= 1e-12
    assert found.is_locally_optimal.all()
    assert all(status.startswith("Solved") for status in found.status)
    sizes = [named(norm).size(W) for W in found.direction]
    assert np.allclose(found.margin * sizes, 1, rtol=1e-12)


def test_nuclear_answers_have_a_clear_rank() -> None:
    problem = kt.random_problem(n=5, T=5, d=10, seed=3, batch=3)
    found = kt.att_svm(problem, kt.optimal_tokens(problem), over="W", norm="nuclear")
    sizes = np.linalg.svd(found.direction, compute_uv=False)
    share = sizes / sizes[:, :1]
    assert not ((share > 1e-8) & (share < 1e-3)).any()
    assert ((share >= 1e-3).sum(axis=1) < 5).all()  # queries alone would allow rank 5


def test_l1_agrees_with_a_linear_program() -> None:
    problem = kt.random_problem(n=3, T=4, d=12, seed=2)
    selected = kt.optimal_tokens(problem)
    kept = problem.X[np.arange(3), selected]
    G = (kept[:, None] - problem.X)[np.arange(4) != selected[:, None]]
    reference = linprog(np.ones(24), A_ub=np.hstack([-G, G]), b_ub=-np.ones(9)).fun
    assert 1 / kt.att_svm(problem, selected, norm=1).margin == pytest.approx(reference, rel=1e-8)


def test_l3_agrees_with_a_general_optimiser() -> None:
    problem = kt.random_problem(n=2, T=3, d=6, seed=3)
    selected = kt.optimal_tokens(problem)
    kept = problem.X[np.arange(2), selected]
    G = (kept[:, None] - problem.X)[np.arange(3) != selected[:, None]]
    found = kt.att_svm(problem, selected, norm=3)
    rows = {"type": "ineq", "fun": lambda w: G @ w - 1, "jac": lambda w: G}
    start = kt.att_svm(problem, selected).direction
    reference = minimize(lambda w: (np.abs(w) ** 3).sum(), start, constraints=rows, tol=1e-12)
    assert 1 / found.margin == pytest.approx(reference.fun ** (1 / 3), rel=1e-6)


def test_q_near_two_is_near_l2_and_two_is_l2() -> None:
    problem = kt.random_problem(n=3, T=4, d=12, seed=4)
    selected = kt.optimal_tokens(problem)
    exact, same, near = (kt.att_svm(problem, selected, norm=q) for q in ("l2", 2, 2.0001))
    assert np.array_equal(exact.direction, same.direction)
    assert np.allclose(exact.direction, near.direction, atol=1e-3)


def test_no_rows_conflicts_equalities_and_scale() -> None:
    assert kt.att_svm(one_row([0.0, 0.0]), [0], norm=3).margin == np.inf
    X = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]]
    assert kt.att_svm(kt.TokenProblem(X, [1, 1], [1.0, 0.0]), [0, 0], norm=3).conflict.is_proof
    three = kt.TokenProblem([[[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0])
    tied = kt.att_svm(three, [0], norm=3, equal=[[False, False, True]])
    assert np.allclose(tied.direction, [0, 1], atol=1e-7)
    small = kt.TokenProblem(three.X * 1e-9, [1], [1.0, 0.0])
    one, other = (kt.att_svm(problem, [0], norm=3) for problem in (three, small))
    assert np.allclose(one.direction, [1, 0], atol=1e-12)
    assert np.allclose(other.direction * 1e-9, [1, 0], atol=1e-12)


# a norm of one's own


def weighted_l1(cost: np.ndarray) -> Norm:
    """sum_j c_j |w_j|, and max_j |g_j| / c_j: w = a - b with a, b >= 0."""
    k, one = len(cost), sparse.eye_array(len(cost), format="csr")

    def cones(shape: tuple[int, ...]) -> Cones:
        assert shape == (k,)
        A = -sparse.eye_array(2 * k, format="csc")
        pick = sparse.hstack([one, -one], format="csr")
        return Cones(np.tile(cost, 2), A, np.zeros(2 * k), [clarabel.NonnegativeConeT(2 * k)], pick)

    return Norm(lambda w: cost @ abs(w), lambda g: (abs(g) / cost).max(), cones)


def test_a_norm_of_ones_own_agrees_with_a_linear_program() -> None:
    problem = kt.random_problem(n=3, T=4, d=12, seed=2, batch=4)
    selected = kt.optimal_tokens(problem)
    cost = np.random.default_rng(0).uniform(0.2, 5, 12)
    found = kt.att_svm(problem, selected, norm=weighted_l1(cost))
    assert np.abs(found.certificate.gap).max() <= 1e-8
    for k in range(4):
        kept = problem.X[k, np.arange(3), selected[k]]
        G = (kept[:, None] - problem.X[k])[np.arange(4) != selected[k][:, None]]
        reference = linprog(np.tile(cost, 2), A_ub=np.hstack([-G, G]), b_ub=-np.ones(9)).fun
        assert 1 / found.margin[k] == pytest.approx(reference, rel=1e-8)


def test_a_norm_whose_parts_do_not_fit_is_not_certified() -> None:
    """The gap is computed from N and N* alone, so cones that minimise another norm show."""
    problem = kt.random_problem(n=3, T=4, d=12, seed=2)
    right = weighted_l1(np.linspace(0.5, 2, 12))
    wrong = replace(right, size=lambda w: abs(w).sum(), dual_size=lambda g: abs(g).max())
    found = kt.att_svm(problem, kt.optimal_tokens(problem), norm=wrong)
    assert found.status.startswith("Not closed")
    assert found.certificate.gap > 1e-3


# laws


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 999), st.sampled_from(["nuclear", "spectral", 1.75, 3]), st.floats(-6, 6))
def test_permuting_and_scaling_in_other_norms(seed: int, norm: object, power: float) -> None:
    """The margin scales with the tokens; the direction too, where it is the only one."""
    problem = kt.random_problem(n=3, T=3, d=4, seed=seed)
    selected = kt.optimal_tokens(problem)
    rng = np.random.default_rng(seed)
    i, t, c = (rng.permutation(k) for k in (3, 3, 4))
    scaled = 10.0**power * problem.X
    moved = kt.TokenProblem(
        scaled[i][:, t][:, :, c], problem.y[i], problem.v[c], problem.query[i][:, c]
    )
    old = kt.att_svm(problem, selected, "W", norm)
    new = kt.att_svm(moved, np.argsort(t)[selected][i], "W", norm)
    assert old.certificate.gap <= 1e-7
    assert new.margin == pytest.approx(10.0**power * old.margin, rel=1e-7)
    if isinstance(norm, float | int):  # strictly convex: one direction
        expected = old.direction[np.ix_(c, c)]
        assert np.allclose(10.0**power * new.direction, expected, rtol=1e-6, atol=1e-6)
