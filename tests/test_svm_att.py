"""att_svm: answers by hand, a slow reference, two routes, laws, bad input."""

import numpy as np
import pytest
from arrays import problem_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import keytokens as kt
from keytokens.svm.norms import spectral

ONE = problem_of([[[0.0, 2.0], [0.0, 0.0], [9.0, 0.0]]])


def test_one_row_by_hand() -> None:
    found = kt.att_svm(problem_of([[[3.0, 4.0], [0.0, 0.0]]]), [0])
    assert np.allclose(found.direction, [3 / 25, 4 / 25], atol=1e-15)
    assert found.margin == pytest.approx(5.0, rel=1e-15)
    assert found.multipliers == pytest.approx(np.array([[0.0, 1 / 25]]), rel=1e-14)
    assert found.support.tolist() == [[False, True]]
    assert found.is_locally_optimal
    assert found.certificate.primal == pytest.approx(0.5 / 25, rel=1e-14)
    assert found.status.startswith("Solved: relative gap")


def test_locally_optimal_looks_at_support_tokens_only() -> None:
    X = np.array([[[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]])
    for scores, expected in (((2, 1, 5), True), ((2, 3, 1), False), ((2, 2, 1), False)):
        tokens = np.concatenate([X, np.reshape(scores, (1, 3, 1))], axis=2)
        problem = kt.TokenProblem(tokens, [1], [0, 0, 1], W=np.diag([1.0, 1.0, 0.0]))
        found = kt.att_svm(problem, [0])
        assert found.support.tolist() == [[False, True, False]]
        assert found.is_locally_optimal is expected


def test_known_answer_for_orthonormal_tokens_and_queries() -> None:
    rng = np.random.default_rng(0)
    n, T, d = 3, 4, 5
    X = np.stack([np.linalg.qr(rng.standard_normal((d, d)))[0][:T] for _ in range(n)])
    query = np.linalg.qr(rng.standard_normal((d, d)))[0][:n]
    found = kt.att_svm(problem_of(X, query=query), [0, 1, 2], over="W")
    selected = X[np.arange(n), [0, 1, 2]]
    W = np.einsum("ia,ib->ab", selected - X.mean(axis=1), query)
    assert np.allclose(found.direction, W, atol=1e-14)
    assert found.certificate.primal == pytest.approx(n * (T - 1) / (2 * T), rel=1e-13)
    assert np.allclose(found.multipliers[found.multipliers > 0], 1 / T, atol=1e-13)


def test_constraints_live_on_distinct_tokens() -> None:
    plain = kt.att_svm(problem_of([[[1.0, 2.0], [0.0, 1.0]]]), [0])
    copies = kt.att_svm(problem_of([[[1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [0.0, 1.0]]]), [2])
    assert np.allclose(plain.direction, copies.direction, atol=1e-15)
    assert copies.support.tolist() == [[False, True, False, True]]
    assert copies.multipliers.sum() == pytest.approx(plain.multipliers.sum(), rel=1e-14)


@pytest.mark.parametrize(
    "problem",
    [
        problem_of([[[1.0, 2.0]]]),
        problem_of([[[1.0, 2.0], [1.0, 2.0]]]),
        problem_of([[[1.0, 2.0], [5.0, 5.0]]], mask=[[True, False]]),
    ],
    ids=["T = 1", "copies", "masked"],
)
def test_no_rows_at_all(problem: kt.TokenProblem) -> None:
    found = kt.att_svm(problem, [0])
    assert found.direction.tolist() == [0.0, 0.0]
    assert found.margin == np.inf
    assert found.certificate.gap == 0
    assert found.certificate.violation == 0
    assert found.is_locally_optimal
    assert found.status == "No row asks for a margin: the direction is 0 and the margin infinite."


def test_masked_tokens_ask_for_nothing() -> None:
    problem = problem_of([[[0.0, 2.0], [0.0, 0.0], [9.0, 0.0]]], mask=[[True, True, False]])
    assert np.allclose(kt.att_svm(problem, [0]).direction, [0, 0.5], atol=1e-15)


def test_relaxed_rows_ask_for_zero() -> None:
    X = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 2.0], [0.0, 0.0]]]
    assert np.allclose(kt.att_svm(problem_of(X), [0, 0]).direction, [1, 1])
    found = kt.att_svm(problem_of(X), [0, 0], relax=[False, True])
    assert np.allclose(found.direction, [1, 0.5])
    assert found.support.tolist() == [[False, True], [False, True]]
    by_token = kt.att_svm(problem_of(X), [0, 0], relax=[[False, False], [False, True]])
    assert np.array_equal(found.direction, by_token.direction)


def test_tokens_kept_together() -> None:
    found = kt.att_svm(ONE, [0], equal=[[False, False, True]])
    assert np.allclose(found.direction, [1 / 9, 1 / 2], atol=1e-15)
    assert found.multipliers[0, 2] < 0  # free on equalities
    assert found.support.tolist() == [[False, True, False]]
    assert abs(found.certificate.gap) < 1e-14


def test_dependent_equalities_are_no_trouble() -> None:
    X = [[[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]]
    equal = [[False, False, True, True, True]]
    found = kt.att_svm(problem_of(X), [0], equal=equal)
    assert np.allclose(found.direction, [0, 1], atol=1e-14)
    assert abs(found.certificate.gap) < 1e-12


def test_tied_tokens_are_named_for_the_caller_to_relax() -> None:
    X = np.array([[[1.0, 0.1], [0.0, 0.1], [0.5, -0.2], [1.0, 0.1]]])
    problem = kt.TokenProblem(X, [1], [0.0, 1.0], mask=[[True, True, True, False]])
    assert kt.tied_tokens(problem, [0]).tolist() == [[False, True, False, False]]


# a slow reference and two routes


def least_distance(G: np.ndarray) -> np.ndarray | None:
    """p by non-negative least squares (Lawson and Hanson); None where infeasible."""
    A = np.concatenate([G, np.ones((len(G), 1))], axis=1).T
    target = np.zeros(len(A))
    target[-1] = 1.0
    u, _ = nnls(A, target)
    r = A @ u - target
    return None if np.abs(r).max() < 1e-9 else -r[:-1] / r[-1]


@pytest.mark.parametrize("over", ["p", "W"])
def test_agrees_with_non_negative_least_squares(over: str) -> None:
    problem = kt.random_problem(n=4, T=4, d=5, seed=5, batch=100)
    selected = kt.optimal_tokens(problem)
    found = kt.att_svm(problem, selected, over)
    for k in range(100):
        G = rows(problem[k], selected[k], over)
        reference = least_distance(G)
        assert (reference is None) == (found[k].direction is None)
        if reference is not None:
            error = np.linalg.norm(found.direction[k].ravel() - reference)
            assert error <= 1e-9 * np.linalg.norm(reference)


def rows(problem: kt.TokenProblem, selected: np.ndarray, over: str) -> np.ndarray:
    """Constraint vectors, written as the definition reads."""
    G = []
    for i, s in enumerate(selected):
        for t in range(problem.T):
            if t != s:
                difference = problem.X[i, s] - problem.X[i, t]
                one = difference if over == "p" else np.outer(difference, problem.query[i])
                G.append(one.ravel())
    return np.array(G)


def test_certificate_of_many_random_problems() -> None:
    problem = kt.random_problem(n=6, T=8, d=10, seed=2, batch=400)
    selected = kt.optimal_tokens(problem)
    for over in ("p", "W"):
        found = kt.att_svm(problem, selected, over)
        solved = found.is_feasible
        assert np.abs(found.certificate.gap[solved]).max() <= 1e-12
        assert found.certificate.violation[solved].max() <= 1e-12
        assert found.is_locally_optimal[solved].all()
        assert all(found.conflict[k].is_proof for k in np.flatnonzero(~solved))


def test_stationarity_and_complementary_slackness() -> None:
    problem = kt.random_problem(n=5, T=6, d=20, seed=3)
    selected = kt.optimal_tokens(problem)
    found = kt.att_svm(problem, selected)
    kept = problem.X[np.arange(5), selected]
    differences = kept[:, None] - problem.X
    rebuilt = np.einsum("it,itd->d", found.multipliers, differences)
    assert np.allclose(rebuilt, found.direction, rtol=0, atol=1e-12)
    slack = differences @ found.direction - 1
    assert np.abs(slack[found.multipliers > 0]).max() < 1e-12
    assert np.array_equal(found.support, (np.abs(slack) < 1e-9))


def test_over_p_and_over_W_agree_when_all_share_a_query() -> None:
    base = kt.random_problem(n=4, T=5, d=8, seed=4)
    u = base.query[0]
    shared = kt.TokenProblem(base.X, base.y, base.v, query=np.tile(u, (4, 1)))
    selected = kt.optimal_tokens(base)
    p = kt.att_svm(base, selected).direction
    W = kt.att_svm(shared, selected, over="W").direction
    assert np.allclose(W, np.outer(p, u) / (u @ u), atol=1e-12)


def test_a_batch_is_its_problems() -> None:
    problem = kt.random_problem(n=5, T=6, d=7, seed=6, batch=30)
    selected = kt.optimal_tokens(problem)
    many = kt.att_svm(problem, selected)
    for k in range(30):
        one, part = kt.att_svm(problem[k], selected[k]), many[k]
        assert (one.direction is None) == (part.direction is None)
        assert np.array_equal(one.support, part.support)
        assert one.status.split(":")[0] == part.status.split(":")[0]
        if one.direction is not None:
            assert np.allclose(one.direction, part.direction, rtol=1e-12, atol=0)


@pytest.mark.parametrize("over", ["p", "W"])
def test_a_batch_may_mix_masks_copies_and_conflicts(over: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3, 4, 5))
    X[::3, :, 1] = X[::3, :, 0]  # copies
    X[::4, 1] = -X[::4, 0]  # conflicts over p
    mask = rng.random((40, 3, 4)) < 0.7
    mask[..., 0] = True
    problem = problem_of(X, query=rng.standard_normal((40, 3, 5)), mask=mask)
    selected = np.zeros((40, 3), int)
    many = kt.att_svm(problem, selected, over)
    for k in range(40):
        one, part = kt.att_svm(problem[k], selected[k], over), many[k]
        assert np.array_equal(one.support, part.support)
        assert one.status.split(":")[0] == part.status.split(":")[0]
        assert (one.direction is None) == (part.direction is None)
        if one.direction is not None:
            assert close(part.direction, one.direction)
            assert not part.multipliers[~mask[k]].any()


def test_wide_and_narrow_programs_agree() -> None:
    """Zeros appended to every token change no inner product, but more columns than rows do."""
    base = kt.random_problem(n=3, T=4, d=5, seed=8, batch=20)
    wide = kt.TokenProblem(np.pad(base.X, [(0, 0)] * 3 + [(0, 15)]), base.y, np.ones((20, 20)))
    selected = kt.optimal_tokens(base)
    one, other = kt.att_svm(base, selected), kt.att_svm(wide, selected)
    solved = one.is_feasible
    assert np.array_equal(solved, other.is_feasible)
    assert np.allclose(one.direction[solved], other.direction[solved, :5], rtol=1e-9, atol=1e-9)
    assert not other.direction[solved, 5:].any()


def test_rows_of_very_different_lengths_are_not_nearly_infeasible() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 3, 3, 12)) * 10.0 ** rng.uniform(-4, 4, (20, 3, 3, 1))
    found = kt.att_svm(
        kt.TokenProblem(X, np.ones((20, 3)), np.ones((20, 12))), np.zeros((20, 3), int)
    )
    assert all(status.startswith("Solved:") for status in found.status)
    assert found.certificate.violation.max() <= 1e-12


def test_same_bits_twice() -> None:
    problem = kt.random_problem(batch=20)
    one, two = (kt.att_svm(problem, kt.optimal_tokens(problem)) for _ in range(2))
    assert np.array_equal(one.direction, two.direction, equal_nan=True)


# laws


@st.composite
def solvable(draw: st.DrawFn) -> tuple[kt.TokenProblem, np.ndarray]:
    n, T = draw(st.integers(1, 4)), draw(st.integers(2, 5))
    problem = kt.random_problem(
        n, T, n * (T - 1) + draw(st.integers(0, 3)), draw(st.integers(0, 999))
    )
    return problem, draw(st.just(kt.optimal_tokens(problem)))


def close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other))


@settings(max_examples=40, deadline=None)
@given(solvable(), st.sampled_from(["p", "W"]), st.integers(0, 99))
def test_permuting_inputs_tokens_and_coordinates_permutes_the_answer(
    case: tuple[kt.TokenProblem, np.ndarray], over: str, seed: int
) -> None:
    problem, selected = case
    rng = np.random.default_rng(seed)
    i, t, c = (rng.permutation(k) for k in (problem.n, problem.T, problem.d))
    moved = kt.TokenProblem(
        problem.X[i][:, t][:, :, c], problem.y[i], problem.v[c], problem.query[i][:, c]
    )
    old = kt.att_svm(problem, selected, over)
    new = kt.att_svm(moved, np.argsort(t)[selected][i], over)
    expected = old.direction[c] if over == "p" else old.direction[np.ix_(c, c)]
    assert close(new.direction, expected)
    assert np.array_equal(new.support, old.support[i][:, t])


@settings(max_examples=40, deadline=None)
@given(solvable(), st.sampled_from(["p", "W"]), st.floats(-12, 12))
def test_scaling_tokens_by_c_scales_the_answer_by_one_over_c(
    case: tuple[kt.TokenProblem, np.ndarray], over: str, power: float
) -> None:
    problem, selected = case
    c = 10.0**power
    scaled = kt.TokenProblem(c * problem.X, problem.y, problem.v, problem.query)
    old, new = (kt.att_svm(each, selected, over) for each in (problem, scaled))
    assert close(c * new.direction, old.direction)
    assert abs(new.certificate.gap) <= 1e-12
    assert np.array_equal(new.support, old.support)


@settings(max_examples=40, deadline=None)
@given(solvable(), st.floats(1, 3), st.floats(0, 3))
def test_an_implied_row_changes_nothing(
    case: tuple[kt.TokenProblem, np.ndarray], a: float, b: float
) -> None:
    problem, selected = case
    kept = problem.X[np.arange(problem.n), selected]
    one, other = (problem.X[:, t] for t in (0, problem.T - 1))
    implied = kept - a * (kept - one) - b * (kept - other)
    more = np.concatenate([problem.X, implied[:, None]], axis=1)
    old = kt.att_svm(problem, selected)
    clear = np.isin(selected, (0, problem.T - 1))  # their own difference is zero: no help there
    new = kt.att_svm(
        problem_of(np.where(clear[:, None, None], more[:, [*range(problem.T), 0]], more)), selected
    )
    assert close(new.direction, old.direction)


# bad input


BAD = {
    "selected must have shape (n) = (1,); got (2,)": dict(selected=[0, 0]),
    "selected must hold token indices in [0, 3); got 3 at input 0": dict(selected=[3]),
    "over must be one of 'p', 'W'; got 'KQ'": dict(over="KQ"),
    "problem must have a query to be solved over W; got none": dict(over="W"),
    "norm must be 'l2', 'nuclear', 'spectral', a number q >= 1 or a Norm; got 'l1'": dict(
        norm="l1"
    ),
    "a number q >= 1 or a Norm; got 0.5": dict(norm=0.5),
    "a number q >= 1 or a Norm; got nan": dict(norm=float("nan")),
    "a number q >= 1 or a Norm; got [2]": dict(norm=[2]),
    "norm must be a norm of vectors over p; got 'nuclear'": dict(norm="nuclear"),
    "norm must be a norm of vectors over p; got one of matrices": dict(norm=spectral()),
    "relax must have shape (n) = (1,); got (2,)": dict(relax=[True, False]),
    "equal must have shape (n, T) = (1, 3); got (1,)": dict(equal=[True]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(kt.InputError) as caught:
        kt.att_svm(ONE, **(dict(selected=[0]) | BAD[message]))
    assert message in str(caught.value)


def test_a_masked_token_cannot_be_selected() -> None:
    problem = problem_of([[[1.0], [0.0]]], mask=[[True, False]])
    with pytest.raises(kt.InputError, match="selected must hold tokens that are not masked"):
        kt.att_svm(problem, [1])
