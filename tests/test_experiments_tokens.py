"""The experiments on token problems: each helper against an answer derived by hand, each rule at
its edge.
"""

import re
from typing import Any

import numpy as np
import polars as pl
import pytest

import keytokens as kt
from keytokens.attention import attention_weights, logits_of_W
from keytokens.experiments import (
    EXPERIMENTS,
    counterexample,
    experiment,
    joint,
    kept_tokens,
    limits,
    losses,
    mirror,
    next_token,
    one_input,
    percentages,
    several_inputs,
    svm_rank,
)
from keytokens.experiments.tools import direction_gap, textbook_descent


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_what_it_shows_and_what_quick_leaves_out(name: str) -> None:
    found = experiment(name)
    assert found.name == name
    assert all((found.title, found.look, found.verdicts, found.draw))
    if not found.needs_data:
        quick, full = len(found.cells(quick=True)), len(found.cells())
        other = found.params(True) != found.params(False) if callable(found.params) else False
        assert quick <= full
        assert bool(found.left_out) == (quick < full or other)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_quick_leaves_out_is_counted_right(name: str) -> None:
    found = experiment(name)
    told = re.match(r"(\d+) of (\d+)", found.left_out)
    if told is None or not callable(found.seeds):
        return
    quick, full = found.seeds(True), found.seeds(False)
    assert int(told[1]) / int(told[2]) == pytest.approx(1 - quick / full)


def test_the_published_sizes_are_those_of_the_full_run() -> None:
    def values(name: str, key: str) -> set[Any]:
        return {cell.params[key] for cell in experiment(name).cells()}

    assert len(experiment("random-w").cells()) * 20 == 100
    assert values("svm-rank", "d") == {1, 2, 3, 4, 5, 10, 15, 20}
    shapes = {(c.params["n"], c.params["T"]) for c in experiment("svm-rank").cells()}
    assert shapes == {(5, 5), (10, 5), (15, 5), (5, 10), (5, 15)}
    assert values("percentages", "d") == {2, 4, 8, 16, 32, 64}
    assert values("kept-tokens", "d") == {4, 6, 8, 10}
    assert values("mirror", "q") == {1.75, 2.0, 3.0}
    assert {*range(1, 11), 100} <= {*losses.GAPS}


def test_the_direction_gap_is_exact_where_a_cosine_would_round() -> None:
    assert direction_gap(np.array([1.0, 1e-9]), np.array([5.0, 0.0])) == pytest.approx(5e-19)
    assert np.isnan(direction_gap(np.zeros(2), np.ones(2)))


def test_the_textbook_form_agrees_with_ours_before_saturation_and_only_then() -> None:
    three = several_inputs.problem()
    book = textbook_descent(three.keys, np.array(several_inputs.SCORES), [0.5, 0.0], 1000)
    ours: Any = kt.train(three, over="p", method=kt.NormalizedDescent(0.1), steps=1000,
                         start=np.array([0.5, 0.0]), save=[0, 100, 1000])  # fmt: skip
    np.testing.assert_allclose(book[100], ours.path[1], rtol=1e-3)
    assert np.linalg.norm(book[1000]) < 0.6 * np.linalg.norm(ours.path[2])


def test_the_losses_settle_where_the_slopes_balance() -> None:
    assert losses.final_offset(10.0, "linear") == pytest.approx(np.log(10) / 2)
    assert losses.final_offset(3.0, "exponential") == pytest.approx((np.log(3) - 2) / 2)
    for loss in losses.LOSSES:
        assert losses.final_offset(1.0, loss) == 0


def test_the_order_of_limits_meets_the_two_solutions_at_its_ends() -> None:
    three = joint.problem("third does not")
    both: Any = kt.joint_svm(three, [1, 1, 1])
    assert both.step_ratio == pytest.approx(1)
    full: Any = kt.att_svm(three, [1, 1, 1]).direction
    at = [limits.predicted_angle(three, [1, 1, 1], both.label, r) for r in (1e-6, 1.0, 5.0)]
    assert at[0] == pytest.approx(np.degrees(np.arctan2(full[1], full[0])), abs=1e-3)
    assert at[1:] == pytest.approx([0, 0], abs=1e-3)


def test_the_finite_part_reproduces_the_log_ratios_of_kept_tokens() -> None:
    problem: Any = kt.random_problem(3, 4, 6, seed=1)
    W = np.random.default_rng(2).standard_normal((6, 6))
    s = attention_weights(logits_of_W(problem.X, W, problem.query))
    top, equal = np.array([0, 1, 2]), np.zeros((3, 4), bool)
    equal[0, 1] = equal[1, 3] = True
    fin = kept_tokens.finite_part(problem, W, top, equal)
    again = attention_weights(logits_of_W(problem.X, fin, problem.query))
    assert again[0, 1] / again[0, 0] == pytest.approx(s[0, 1] / s[0, 0])
    assert again[1, 3] / again[1, 1] == pytest.approx(s[1, 3] / s[1, 1])
    assert np.linalg.norm(fin) < np.linalg.norm(W)
    assert not kept_tokens.finite_part(problem, W, top, np.zeros((3, 4), bool)).any()


def kept_rows(case: str, count: int, **row: Any) -> Any:
    usual = dict(case=case, d=4, seed=0, kept=5, unclear=0, flat=False, whole_gap=1e-3,
                 toward_gap=2e-3, single_gap=None)  # fmt: skip
    return [{**usual, "problem": k, **row} for k in range(count)]


def test_kept_tokens_decide_only_on_clear_runs_and_on_enough_of_them() -> None:
    enough = kept_tokens.ENOUGH
    rows = pl.DataFrame(
        kept_rows("softplus", enough)
        + kept_rows("relu", enough - 1)
        + kept_rows("relu", 5, unclear=1, whole_gap=1.0)
        + kept_rows("relu", 5, flat=True, whole_gap=1.0)
        + kept_rows("published", enough, whole_gap=0.5),
        infer_schema_length=None,
    ).with_columns(pl.col("single_gap").cast(float))
    outcomes = [v.outcome for v in kept_tokens.verdicts(rows)]
    assert outcomes[:4] == ["holds"] * 4
    assert outcomes[5:8] == ["cannot be decided here"] * 3
    assert outcomes[8] == "does not hold"


def test_strong_components_of_a_next_token_graph_by_hand() -> None:
    """Ending in token 0: labels 1 and 2 each meet the other, 3 is only ever beaten."""
    tokens = np.array([[1, 2, 3, 0], [2, 1, 3, 0]])
    problem = kt.NextTokenProblem(tokens, np.array([1, 2]), np.eye(8))
    np.testing.assert_array_equal(next_token.components(problem), [[True, True, False, False]] * 2)


def test_the_bregman_divergence_is_one_minus_cosine_at_q_2() -> None:
    rng = np.random.default_rng(3)
    a, path = rng.standard_normal(9), rng.standard_normal((4, 9))
    cosine = path @ a / np.linalg.norm(a) / np.linalg.norm(path, axis=1)
    np.testing.assert_allclose(mirror.divergence(a, path, 2.0), 1 - cosine)
    np.testing.assert_allclose(mirror.divergence(a, 7 * a[None], 3.0), 0, atol=1e-12)


def test_rank_counts_singular_values_beside_the_largest() -> None:
    assert svm_rank.rank(np.diag([1e3, 1.0, 1e-5])) == 2


def test_the_counterexample_s_direction_is_locally_optimal_and_the_best_one_feasible() -> None:
    two = counterexample.problem((1.0, 1.0))
    local: Any = kt.att_svm(two, [0, 1])
    np.testing.assert_allclose(local.direction, [1, 0], atol=1e-12)
    assert local.is_locally_optimal
    assert kt.att_svm(two, [0, 0]).is_feasible


def test_kinds_of_limits() -> None:
    assert percentages._kind(False, True, True, True) == "finite"
    assert percentages._kind(True, False, True, True) == "undecided"
    assert percentages._kind(True, True, True, True) == "global"
    assert percentages._kind(True, True, False, True) == "local"
    assert percentages._kind(True, True, False, False) == "non-local"


def test_a_run_that_circles_a_far_minimiser_has_a_finite_limit() -> None:
    """One input under both labels: p = 0 is the minimiser, and normalised steps circle it."""
    one = kt.TokenProblem([[[1.0], [-1.0]], [[1.0], [-1.0]]], [1, -1], [1.0])
    run: Any = kt.train(
        one, "p", kt.NormalizedDescent(0.1), steps=400, start=[5.03], save=[200, 400]
    )
    assert not percentages.has_grown(run.norms)


def test_one_start_at_the_wrong_token_fails_the_claim() -> None:
    rows = one_input.run({"case": "local"}, np.random.default_rng(0))
    both = pl.DataFrame(
        [{"case": "local", **r} for r in rows] + [{"case": "global", **r} for r in rows]
    )
    by_claim = [v.outcome for v in one_input.verdicts(both)]
    assert by_claim[0] == "does not hold"  # two of the local starts end at token 1
    assert by_claim[1] == "holds"
