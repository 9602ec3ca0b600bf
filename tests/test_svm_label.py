"""The label SVM, the joint pair, local selections and the kinds of limits."""

import numpy as np
import pytest

import keytokens as kt
from keytokens.svm.selections import LIMITS, limits, shares


def joint_figure(third: list[float]) -> kt.TokenProblem:
    """Two tokens an input, token 0 at the origin; labels +, -, +."""
    X = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], third]]
    return kt.TokenProblem(X, [1, -1, 1], [0.0, 1.0])


def test_all_inputs_support() -> None:
    found = kt.joint_svm(joint_figure([0.5, 1.0]), [1, 1, 1])
    assert np.allclose(found.label.direction, [0, 1], atol=1e-15)
    assert found.label_margin == pytest.approx(1.0)
    assert found.support_inputs.tolist() == [True, True, True]
    full = kt.att_svm(joint_figure([0.5, 1.0]), [1, 1, 1])
    assert np.array_equal(found.attention.direction, full.direction)
    assert found.step_ratio == 0


def test_third_input_does_not_support() -> None:
    problem = joint_figure([0.5, 1.5])
    found = kt.joint_svm(problem, [1, 1, 1])
    assert found.support_inputs.tolist() == [True, True, False]
    assert np.allclose(found.attention.direction, [1, 0], atol=1e-14)
    assert not np.allclose(kt.att_svm(problem, [1, 1, 1]).direction, [1, 0], atol=0.1)
    assert found.step_ratio == pytest.approx(1.0, rel=1e-12)


def test_over_W_with_one_query_is_over_p() -> None:
    plain = joint_figure([0.5, 1.5])
    problem = kt.TokenProblem(plain.X, plain.y, plain.v, query=np.tile([2.0, 0.0], (3, 1)))
    found = kt.joint_svm(problem, [1, 1, 1], over="W")
    assert np.allclose(found.attention.direction, [[0.5, 0], [0, 0]], atol=1e-14)
    # logits are <W z, x>, W of norm 1/2: the same leads, twice the margin
    assert found.attention.margin == pytest.approx(2.0)


def test_labels_that_cannot_be_told_apart() -> None:
    X = [[[1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]]]
    problem = kt.TokenProblem(X, [1, -1], [1.0, 0.0])
    found = kt.joint_svm(problem, [0, 0])
    assert found.label.direction is None
    assert str(found.label.conflict) == "Inputs 0, 1 cannot be given their labels by one v."
    assert found.attention.direction is not None
    assert np.isnan(found.step_ratio)


def test_a_batch_is_its_problems() -> None:
    problem = kt.random_problem(n=4, T=3, d=6, seed=1, batch=12)
    selected = kt.optimal_tokens(problem)
    many = kt.joint_svm(problem, selected)
    for k in range(12):
        one = kt.joint_svm(problem[k], selected[k])
        assert np.array_equal(one.support_inputs, many.support_inputs[k])
        assert one.label_margin == pytest.approx(many.label_margin[k], rel=1e-12)
        assert one.step_ratio == pytest.approx(many.step_ratio[k], rel=1e-9, nan_ok=True)
        assert one.attention.margin == pytest.approx(many.attention.margin[k], rel=1e-12)


def test_label_margin_is_that_of_the_dual() -> None:
    problem = kt.random_problem(n=5, T=3, d=7, seed=2)
    found = kt.label_svm(problem, kt.optimal_tokens(problem))
    kept = problem.X[np.arange(5), kt.optimal_tokens(problem)] * problem.y[:, None]
    assert np.allclose(kept.T @ found.multipliers, found.direction, atol=1e-12)
    assert (kept @ found.direction).min() == pytest.approx(1.0)
    assert found.is_locally_optimal is None


def test_all_local_selections_by_brute_force() -> None:
    problem = kt.random_problem(n=2, T=3, d=4, seed=3)
    found = kt.local_selections(problem)
    expected = {}
    for one in range(3):
        for two in range(3):
            solution = kt.att_svm(problem, [one, two])
            if solution.is_locally_optimal:
                expected[one, two] = solution.margin
    assert dict(zip(map(tuple, found.selected.tolist()), found.margins, strict=True)) == (
        pytest.approx(expected)
    )
    assert found.is_complete
    assert (found.tried, found.is_global.sum()) == (9, 1)
    assert (np.diff(found.margins) <= 0).all()


def test_copies_and_masked_tokens_are_not_selections() -> None:
    X = [[[1.0, 0.0], [1.0, 0.0], [0.0, -0.0], [0.0, 0.0], [7.0, 7.0]]]
    problem = kt.TokenProblem(X, [1], [1.0, 0.0], mask=[[True] * 4 + [False]])
    found = kt.local_selections(problem)
    assert found.tried == 2
    assert found.selected.tolist() == [[0]]
    assert found.is_global.tolist() == [True]


def test_large_problems_are_sampled_with_a_seed() -> None:
    problem = kt.random_problem(n=6, T=5, d=20)
    one, two, other = (kt.local_selections(problem, limit=200, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.selected, two.selected)
    assert one.tried == 200
    assert not one.is_complete
    assert not np.array_equal(one.selected, other.selected)


def test_more_selections_than_float64_can_count() -> None:
    problem = kt.TokenProblem(np.ones((400, 8, 1)) * np.arange(8)[:, None], np.ones(400), [1.0])
    found = kt.local_selections(problem, limit=5)
    assert (found.tried, found.is_complete) == (5, False)


def test_kinds_of_limits() -> None:
    problem = kt.random_problem(n=2, T=3, d=6, seed=3, batch=4)
    best = kt.optimal_tokens(problem)
    worst = kt.token_scores(problem).argmin(axis=-1)
    selected = np.stack([best[0], worst[1], best[2], best[3]])
    kinds = limits(problem, selected, finite=[False, False, False, True])
    assert kinds == ["global", "non-local", "global", "finite"]
    assert list(shares(kinds)) == list(LIMITS)
    assert shares(kinds)["global"] == 0.5


def test_bad_input_is_named() -> None:
    with pytest.raises(kt.InputError, match="problem must be a single problem; got a batch of 2"):
        kt.local_selections(kt.random_problem(batch=2))
    with pytest.raises(kt.InputError, match="limit must be at least 1; got 0"):
        kt.local_selections(kt.random_problem(), limit=0)
    with pytest.raises(kt.InputError, match="problem must be a batch, one problem a run"):
        limits(kt.random_problem(), [0] * 6)
