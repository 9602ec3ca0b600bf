"""The solver on bare rows, its certificate and its Farkas vectors; an LP decides who is right."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import keytokens as kt
from keytokens.svm.certificate import certify_rows, farkas_residual, is_farkas_proof, row_lengths
from keytokens.svm.dense import Verdict, solve
from keytokens.svm.rescue import EXACT, REDUNDANT, polish, rescue
from keytokens.svm.rows import build_rows

NO = np.zeros(2, bool)


def test_certificate_by_hand() -> None:
    G, h = np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones(2)
    exact = certify_rows(G, h, None, np.array([1.0, 0.5]), np.array([1.0, 0.25]))
    figures = (exact.primal, exact.dual, exact.gap, exact.violation)
    assert figures == pytest.approx((0.625, 0.625, 0.0, 0.0), abs=1e-15)
    short = certify_rows(G, h, None, np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    assert short.violation == 0.5  # 1 short of 1, over ||row|| ||p|| = 2
    assert short.dual == 0.5  # half the program is a lower bound of the whole


def test_any_multipliers_bound_from_below() -> None:
    rng = np.random.default_rng(0)
    G, h = rng.standard_normal((6, 9)), np.ones(6)
    best = certify_rows(G, h, None, *solve(G, h)[:2]).primal
    for _ in range(100):
        guess = certify_rows(G, h, None, np.zeros(9), rng.exponential(size=6))
        assert guess.dual <= best * (1 + 1e-12)
        assert guess.gap == np.inf  # p = 0 satisfies no row


def test_negative_multipliers_do_not_count() -> None:
    G, h = np.array([[1.0], [1.0]]), np.ones(2)
    found = certify_rows(G, h, None, np.ones(1), np.array([3.0, -2.0]))
    assert found.dual == 0.5
    free = certify_rows(
        np.array([[1.0], [-1.0]]), np.zeros(2), ~NO, np.ones(1), np.array([0.0, -1.0])
    )
    assert free.violation == 1.0


def test_sparse_rows_have_the_same_certificate() -> None:
    rng = np.random.default_rng(1)
    G = rng.standard_normal((5, 8)) * (rng.random((5, 8)) < 0.5)
    answer = solve(G, np.ones(5))
    dense = certify_rows(G, np.ones(5), None, *answer[:2])
    thin = certify_rows(sparse.csr_array(G), np.ones(5), None, *answer[:2])
    assert thin.primal == dense.primal
    assert thin.gap == pytest.approx(dense.gap, abs=1e-14)
    assert thin.violation == pytest.approx(dense.violation, abs=1e-15)


def test_not_a_number_is_never_certified() -> None:
    found = certify_rows(np.eye(2), np.ones(2), None, np.full(2, np.nan), np.ones(2))
    assert np.isnan(found.gap)
    assert np.isnan(found.violation)


def test_farkas_by_hand() -> None:
    G, h = np.array([[2.0], [-1.0]]), np.ones(2)
    answer = solve(G, h)
    assert answer.verdict is Verdict.INFEASIBLE
    assert np.allclose(answer.multipliers, [1 / 3, 2 / 3], atol=1e-15)
    residual, least = farkas_residual(G.T @ [1.0, 1.0], row_lengths(G), h, NO, np.ones(2))
    assert residual == pytest.approx(1 / 3)
    assert least == 2.0  # <1, p> = 2p - p >= 2 would need |p| >= 2
    assert not is_farkas_proof(residual, 2.0, 2)


def test_equalities_alone_can_conflict() -> None:
    G = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
    h, equal = np.array([1.0, 0.0, 0.0]), np.array([False, True, False])
    answer = solve(G, h, equal)
    assert answer.verdict is Verdict.INFEASIBLE
    assert np.allclose(G.T @ answer.multipliers, 0, atol=1e-15)
    assert h @ answer.multipliers == pytest.approx(1.0)
    assert answer.multipliers[1] < 0


def test_conflicts_beside_dependent_equalities() -> None:
    G, h = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 0.0, 0.0])
    answer = solve(G, h, np.array([False, True, True]))
    assert answer.verdict is Verdict.INFEASIBLE
    assert answer.multipliers.tolist() == [1.0, 0.0, 0.0]


def test_every_opinion_of_the_rescue_agrees_with_the_first_solver() -> None:
    rng = np.random.default_rng(2)
    G, h, equal = rng.standard_normal((12, 8)), np.ones(12), np.arange(12) < 2
    h[:4] = 0.0
    answer = solve(G, h, equal)
    assert answer.verdict is Verdict.SOLVED
    opinions = list(rescue(G, h, equal, answer.multipliers))
    assert len(opinions) == 5
    for p, multipliers, _ in opinions:
        assert np.allclose(p, answer.p, rtol=0, atol=1e-11)
        assert np.allclose(multipliers, answer.multipliers, rtol=0, atol=1e-10)


def test_polish_survives_rows_said_twice() -> None:
    G = np.repeat(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]), 3, axis=0)
    p, multipliers, _ = polish(G, np.ones(6), np.zeros(6, bool), np.ones(6), REDUNDANT)
    found = certify_rows(G, np.ones(6), None, p, multipliers)
    assert abs(found.gap) < 1e-14
    assert found.violation < 1e-15


def steep(rng: np.random.Generator, margin: float) -> np.ndarray:
    """30 rotated rows in R^8; a positive sum of the first few is `margin` times one axis."""
    k = rng.integers(2, 9)
    flat = rng.standard_normal((k, k - 1))
    flat[-1] = -(rng.random(k - 1) + 0.1) @ flat[:-1]
    core = np.hstack([flat, np.zeros((k, 8 - k)), np.full((k, 1), margin)])
    rest = rng.standard_normal((30 - k, 8))
    rest[:, -1] = np.abs(rest[:, -1]) + 5
    return np.concatenate([core, rest]) @ np.linalg.qr(rng.standard_normal((8, 8)))[0]


def test_nearly_infeasible_rows_in_general_position() -> None:
    rng = np.random.default_rng(3)
    for margin in 10.0 ** -np.arange(3, 14):
        for _ in range(10):
            answer = solve(steep(rng, margin), np.ones(30))
            assert answer.verdict is not Verdict.INFEASIBLE
            if answer.verdict is Verdict.SOLVED:
                error = abs(np.linalg.norm(answer.p) * margin - 1)
                assert error <= 1e-6 + 1e-15 / margin
            else:
                assert margin < 1e-8
    zero = [solve(steep(rng, 0.0), np.ones(30)) for _ in range(10)]
    assert all(answer.verdict is Verdict.INFEASIBLE for answer in zero)


def test_rounding_decides_where_a_direction_and_a_proof_both_stand() -> None:
    G = np.array([[1.0, 1e-16], [-1.0, 1e-16]])
    assert solve(G, np.ones(2)).verdict is Verdict.UNDECIDED
    p, _, u = polish(G, np.ones(2), NO, np.ones(2), EXACT)
    assert np.allclose(G @ p, 1)
    assert is_farkas_proof(*farkas_residual(G.T @ u, row_lengths(G), np.ones(2), NO, u), 2)


def integer_batch(rng: np.random.Generator, size: int) -> tuple[kt.TokenProblem, dict[str, object]]:
    """Small integer tokens: copies, ties, exact conflicts and degenerate optima abound."""
    n, T, d, top = (int(rng.integers(1, stop)) for stop in (5, 6, 5, 4))
    shape, flags = (size, n, T), ((0, 0.3), (0, 0.15, 0.5))
    selected, mask = rng.integers(T, size=shape[:2]), rng.random(shape) < 0.85
    np.put_along_axis(mask, selected[..., None], True, axis=2)
    X, query = (rng.integers(-top, top + 1, (*s, d)) for s in (shape, shape[:2]))
    relax, equal = (rng.random(shape) < rng.choice(odds) for odds in flags)
    problem = kt.TokenProblem(X, np.ones(shape[:2]), np.ones((size, d)), query, mask)
    return problem, dict(
        selected=selected, relax=relax, equal=equal, over=str(rng.choice(["p", "W"]))
    )


def is_feasible(G: np.ndarray, h: np.ndarray, equal: np.ndarray) -> bool:
    """By linear programming."""
    if not len(h):
        return True
    rows = dict(A_ub=-G[~equal], b_ub=-h[~equal], A_eq=G[equal], b_eq=h[equal])
    found = linprog(np.zeros(G.shape[1]), **rows, bounds=(None, None))
    assert found.status in (0, 2)
    return bool(found.status == 0)


def test_integer_problems_get_the_status_the_linear_program_gives() -> None:
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(40):
        problem, how = integer_batch(rng, 30)
        found = kt.att_svm(problem, **how)
        rows = build_rows(problem, *(how[name] for name in ("selected", "over", "relax", "equal")))
        G = rows.matrix(slice(None))
        for k in range(30):
            here = rows.present[k].ravel()
            h, equal = rows.h[k].ravel()[here], rows.equal[k].ravel()[here]
            expected = (
                ("Solved", "No row") if is_feasible(G[k][here], h, equal) else ("Infeasible",)
            )
            assert found.status[k].startswith(expected)
            seen.add(found.status[k].split()[0])
    assert seen == {"Solved:", "No", "Infeasible:"}
    solved = found.is_feasible
    assert np.abs(found.certificate.gap[solved]).max(initial=0) <= 1e-12
    assert found.certificate.violation[solved].max(initial=0) <= 1e-12
