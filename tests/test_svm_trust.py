"""No solver is trusted: lying solvers, tampered answers, numbers at the ends of float64."""

from collections.abc import Callable

import numpy as np
import pytest
from arrays import problem_of
from hypothesis import given, settings
from hypothesis import strategies as st

import keytokens as kt
from keytokens.svm import dense, rescue
from keytokens.svm.rows import build_rows

Lie = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
LIES: dict[str, Lie] = {
    "too long": lambda p, m: (1.1 * p, m),
    "not a number": lambda p, m: (np.nan * p, m),
    "infinite": lambda p, m: (np.full_like(p, np.inf), m),
    "zero": lambda p, m: (0 * p, 0 * m),
    "nearly right": lambda p, m: (p + 1e-6, m + 1e-6),
    "backwards": lambda p, m: (-p, -m),
}
BATCH = kt.random_problem(n=4, T=5, d=8, seed=5, batch=30)
SELECTED = kt.optimal_tokens(BATCH)


# solvers that lie


@pytest.mark.parametrize("over", ["p", "W"])
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("alone", [False, True], ids=["all others", "Clarabel alone"])
def test_a_lying_first_solver_changes_no_answer(
    monkeypatch: pytest.MonkeyPatch, over: str, lie: str, alone: bool
) -> None:
    truth, daqp = kt.att_svm(BATCH, SELECTED, over), dense.call_daqp
    monkeypatch.setattr(dense, "call_daqp", lambda *rows: LIES[lie](*daqp(*rows)))
    if alone:
        monkeypatch.setattr(rescue, "_nnls", lambda A, target, free: np.zeros(len(free)))
    found = kt.att_svm(BATCH, SELECTED, over)
    assert np.array_equal(found.is_feasible, truth.is_feasible)
    solved = truth.is_feasible
    assert np.allclose(found.direction[solved], truth.direction[solved], rtol=1e-10, atol=1e-10)
    assert np.abs(found.certificate.gap[solved]).max() <= 1e-12
    assert all(found.conflict[k].is_proof for k in np.flatnonzero(~solved))
    assert solved.all() == (over == "W")  # over p some have no direction


# tampered answers


def test_an_answer_of_anybody_by_hand() -> None:
    problem = problem_of([[[3.0, 4.0], [0.0, 0.0]]])
    right = kt.svm_certificate(problem, [0], [0.12, 0.16], [[0.0, 0.04]])
    figures = (right.primal, right.dual, right.gap, right.violation)
    assert figures == pytest.approx((0.02, 0.02, 0.0, 0.0), abs=1e-15)
    longer = kt.svm_certificate(problem, [0], [0.24, 0.32])
    assert (longer.gap, longer.violation) == pytest.approx((0.75, 0.0), abs=1e-15)
    short = kt.svm_certificate(problem, [0], [0.06, 0.08])
    assert (short.gap, short.violation) == pytest.approx((-3.0, 0.5), abs=1e-15)


@pytest.mark.parametrize("norm", ["l2", "nuclear", 3])
def test_the_certificate_of_a_solution_is_reproduced_from_its_answer(norm: object) -> None:
    part = kt.random_problem(n=3, T=4, d=5, seed=1, batch=4)
    selected = kt.optimal_tokens(part)
    found = kt.att_svm(part, selected, "W", norm)
    again = kt.svm_certificate(
        part, selected, found.direction, found.multipliers, over="W", norm=norm
    )
    for name in ("primal", "dual", "gap", "violation"):
        one, other = getattr(found.certificate, name), getattr(again, name)
        assert one == pytest.approx(other, rel=1e-12, abs=1e-13)


def test_relaxed_and_equal_rows_are_checked_as_such() -> None:
    problem = problem_of([[[0.0, 2.0], [0.0, 0.0], [9.0, 0.0]]])
    how = dict(equal=[[False, False, True]])
    found = kt.att_svm(problem, [0], **how)
    kept = kt.svm_certificate(problem, [0], found.direction, found.multipliers, **how)
    assert abs(kept.gap) < 1e-14
    assert kept.violation < 1e-15
    assert kt.svm_certificate(problem, [0], found.direction).violation > 0.1  # <g, p> = 0 < 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 999), st.floats(-9, 0), st.sampled_from(["p", "W"]))
def test_a_tampered_direction_is_rejected(seed: int, way: int, power: float, over: str) -> None:
    """Whatever is added to the one optimum either breaks a row or is longer than it need be."""
    problem = kt.random_problem(n=3, T=3, d=8, seed=seed)
    selected = kt.optimal_tokens(problem)
    found = kt.att_svm(problem, selected, over)
    noise = np.random.default_rng(way).standard_normal(found.direction.shape)
    noise *= 10.0**power * np.linalg.norm(found.direction) / np.linalg.norm(noise)
    off = kt.svm_certificate(
        problem, selected, found.direction + noise, found.multipliers, over=over
    )
    honest = found.certificate
    bad = max(off.gap - abs(honest.gap), off.violation - honest.violation)
    assert bad > 1e-3 * 10.0 ** (2 * power) - 1e-15


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(0, 999))
def test_no_multipliers_claim_more_than_the_optimum(seed: int, way: int) -> None:
    problem = kt.random_problem(n=3, T=3, d=8, seed=seed)
    selected = kt.optimal_tokens(problem)
    best = kt.att_svm(problem, selected)
    guess = np.random.default_rng(way).standard_normal(best.multipliers.shape)
    found = kt.svm_certificate(problem, selected, best.direction, best.multipliers + guess)
    assert found.dual <= best.certificate.primal * (1 + 1e-12)


BAD = {
    "direction must have shape that of the problem = (2,); got (3,)": dict(direction=[1, 2, 3]),
    "direction must be finite; got nan at index (0,)": dict(direction=[np.nan, 0]),
    "multipliers must have shape that of the problem = (1, 2)": dict(multipliers=[1.0]),
    "over must be one of 'p', 'W'; got 'KQ'": dict(over="KQ"),
    "problem must have a query to be solved over W; got none": dict(over="W"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_answers_are_named(message: str) -> None:
    problem = problem_of([[[3.0, 4.0], [0.0, 0.0]]])
    with pytest.raises(kt.InputError) as caught:
        kt.svm_certificate(problem, [0], **(dict(direction=[1.0, 0.0]) | BAD[message]))
    assert message in str(caught.value)


# the ends of float64


@pytest.mark.parametrize("size", [1e-150, 1e-9, 1e9, 1e150])
def test_very_small_and_large_tokens(size: float) -> None:
    problem = problem_of(size * np.array([[[3.0, 4.0], [0.0, 0.0]]]), query=[[2.0, 0.0]])
    found = kt.att_svm(problem, [0])
    assert np.allclose(found.direction * size, [0.12, 0.16], rtol=1e-14)
    assert found.margin == pytest.approx(5 * size, rel=1e-14)
    over_W = kt.att_svm(problem, [0], over="W")
    assert np.allclose(over_W.direction * size, [[0.06, 0], [0.08, 0]], rtol=1e-14)


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 1e307])
@pytest.mark.parametrize("over", ["p", "W"])
def test_what_float64_cannot_hold_is_refused_and_never_called_infeasible(
    size: float, over: str
) -> None:
    problem = problem_of(size * np.array([[[3.0, 4.0], [0.0, 0.0]]]), query=[[1.0, 1.0]])
    with pytest.raises(kt.InputError, match="problem must have tokens whose squares float64"):
        kt.att_svm(problem, [0], over)


def test_tokens_too_far_apart_for_a_difference() -> None:
    problem = problem_of([[[1.7e308, 0.0], [-1.7e308, 0.0]]])
    with pytest.raises(kt.InputError, match="problem must have tokens whose differences are fin"):
        kt.att_svm(problem, [0])


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_proofs_do_not_depend_on_the_size(size: float) -> None:
    X = size * np.array([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]])
    found = kt.att_svm(problem_of(X), [0, 0])
    assert found.conflict.is_proof
    assert np.allclose(found.conflict.vector, [[0, 0.5], [0, 0.5]])


@pytest.mark.parametrize("apart", [1e2, 1e8, 1e30])
def test_rows_of_very_different_lengths_by_hand(apart: float) -> None:
    X = [[[1 / apart, 0.0], [0.0, 0.0]], [[0.0, apart], [0.0, 0.0]]]
    found = kt.att_svm(problem_of(X), [0, 0])
    assert np.allclose(found.direction, [apart, 1 / apart], rtol=1e-14, atol=0)
    assert found.status.startswith("Solved:")


def test_rows_that_cannot_stand_side_by_side() -> None:
    def answer(apart: float) -> kt.Solution:
        rows = [[[1 / apart, 0.0], [0.0, 0.0]], [[0.0, apart], [0.0, 0.0]]]
        return kt.att_svm(problem_of(rows), [0, 0])

    found = answer(1e100)
    assert found.status.startswith("Nearly infeasible")
    assert not found.conflict.is_proof
    assert found.conflict.least_norm == pytest.approx(1e100)
    with pytest.raises(kt.InputError, match="problem must have tokens whose differences are of c"):
        answer(1e200)


def test_printed_solutions() -> None:
    solved = kt.att_svm(problem_of([[[3.0, 4.0], [0.0, 0.0]], [[6.0, 8.0], [0.0, 0.0]]]), [0, 0])
    assert str(solved).endswith("\nMargin 5, 1 tight row, locally optimal.")
    refused = kt.att_svm(problem_of([[[1.0], [0.0]], [[-1.0], [0.0]]]), [0, 0])
    assert str(refused).splitlines() == [
        "Infeasible: the conflict holds the proof.",
        "Input 0 puts token 0 above token 1; input 1 puts token 0 above token 1: "
        "a weighted sum of these differences is zero.",
    ]
    assert str(kt.att_svm(BATCH, SELECTED, "W")) == "30 problems, 30 of them with a direction."


def test_rows_are_those_of_the_definition() -> None:
    """The certificate looks at the rows that the definition names, whatever built them."""
    flags = np.zeros((30, 4, 5), bool)
    G = build_rows(BATCH, SELECTED, "W", flags, flags).matrix(slice(None))
    s = SELECTED[3, 2]
    other = [t for t in range(5) if t != s]
    expected = [np.outer(BATCH.X[3, 2, s] - BATCH.X[3, 2, t], BATCH.query[3, 2]) for t in other]
    assert np.array_equal(G[3].reshape(4, 4, 8, 8)[2], expected)


# a corpus


def two_rows(slope: float) -> kt.Solution:
    """Token 0 above tokens 1 and 2, whose embeddings are nearly opposite."""
    E = np.array([[0.0, 0.0], [1.0, slope], [-1.0, slope]])
    return kt.corpus_att_svm([[1, 1, 0], [1, 0, 1]], [0, 0], embedding=E)


def test_a_nearly_infeasible_corpus_is_never_rounded() -> None:
    for slope in 10.0 ** -np.arange(2, 17):
        found = two_rows(slope)
        if found.direction is None:
            assert slope < 1e-13
            assert found.status.startswith("Nearly infeasible")
            assert not found.conflict.is_proof
            assert str(found.conflict).startswith("No proof, but a direction would be at least")
            assert found.conflict.least_norm == pytest.approx(1 / slope, rel=1e-6)
            continue
        assert found.margin == pytest.approx(slope, rel=1e-9)
        assert ("nearly infeasible" in found.status) == (slope < 1.5e-6)
    assert two_rows(0.0).conflict.is_proof


@pytest.mark.parametrize("embedding", [None, np.eye(6), np.eye(6)[:, :5]], ids=["free", "E", "low"])
def test_a_tampered_corpus_direction_is_seen_by_the_last_check(
    monkeypatch: pytest.MonkeyPatch, embedding: np.ndarray | None
) -> None:
    """The last check looks at every row: a solver that forgets one is found out."""
    from keytokens.svm import corpus

    counts = np.array([[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 1]])
    honest = kt.corpus_att_svm(counts, [0, 1, 2], embedding=embedding)
    assert honest.status.startswith("Solved")
    reduced = corpus.reduced

    def forgetful(*graph: object) -> object:
        """The reduction without the last of its edges."""
        from dataclasses import replace

        kept = reduced(*graph)
        start = np.minimum(kept.start, len(kept.targets) - 1)
        return replace(kept, start=start, targets=kept.targets[:-1], entry=kept.entry[:-1])

    monkeypatch.setattr(corpus, "reduced", forgetful)
    found = kt.corpus_att_svm(counts, [0, 1, 2], embedding=embedding)
    assert found.status.startswith("Not certified")
    assert found.certificate.violation > 0.1


def test_a_lying_solver_under_constraint_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    import daqp

    rng = np.random.default_rng(0)
    counts = (rng.random((60, 20)) < 0.3) * 1.0
    counts[:, 0] = 1
    rank = rng.permutation(20)
    selected = [max(np.flatnonzero(row), key=rank.__getitem__) for row in counts]
    E = rng.standard_normal((20, 15))
    truth, solve = kt.corpus_att_svm(counts, selected, embedding=E), daqp.solve

    def lie(*rows: object, **more: object) -> object:
        p, value, flag, info = solve(*rows, **more)
        return 1.1 * p, value, flag, info

    monkeypatch.setattr(daqp, "solve", lie)
    found = kt.corpus_att_svm(counts, selected, embedding=E)
    assert truth.status.startswith("Solved")
    assert np.allclose(found.direction, truth.direction, rtol=1e-9, atol=1e-12)


def test_a_steep_rank_one_gram() -> None:
    """c |alpha|^2 = 8e12: the part of a along alpha is nearly free, and the gap still closes."""
    counts = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    alpha = np.array([0.3, -0.1, 0.5, 0.2])
    found = kt.corpus_att_svm(counts, [0, 1, 2], embedding=kt.RankOne(alpha, 1e7))
    assert abs(found.certificate.gap) < 1e-9
    assert found.certificate.violation == 0


CORPUS = {
    "selected must have one entry per input, or be a boolean matrix; got None": (None, None),
    "selected must hold a column per input, or a set of columns per input; got both": (
        [0, [1]],
        None,
    ),
    "embedding must have shape (V, d) = (3, 1); got (3, 0)": ([0, 1], np.zeros((3, 0))),
    "embedding must have a largest entry between 1e-150 and 1e+150, or be zero; got 1e+200": (
        [0, 1],
        np.full((3, 2), 1e200),
    ),
}


@pytest.mark.parametrize("message", CORPUS)
def test_bad_corpora_are_named(message: str) -> None:
    selected, embedding = CORPUS[message]
    with pytest.raises(kt.InputError) as caught:
        kt.corpus_att_svm([[1, 1, 0], [0, 1, 1]], selected, embedding=embedding)
    assert message in str(caught.value)


def test_a_step_whose_square_overflows_is_refused() -> None:
    with pytest.raises(kt.InputError, match="eta must be below 1e"):
        kt.RankOne([1.0], 1e200)


def test_many_tokens_of_an_input_are_told_together() -> None:
    X = [[[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0]], [[0.0, 0.0], [0.0, -1.0], [5.0, -9.0]]]
    said = str(kt.att_svm(problem_of(X), [0, 0]).conflict)
    assert said == (
        "Input 0 puts token 0 above tokens 1, 2; input 1 puts token 0 above token 1: "
        "a weighted sum of these differences is zero."
    )


@pytest.mark.parametrize("call", [kt.att_svm, kt.label_svm, kt.joint_svm, kt.tied_tokens])
def test_arrays_alone_are_no_problem(call: Callable[..., object]) -> None:
    with pytest.raises(kt.InputError, match="problem must be a TokenProblem"):
        call(np.zeros((2, 3, 4)), [0, 0])
    with pytest.raises(kt.InputError, match="problem must be a TokenProblem"):
        kt.local_selections(np.zeros((2, 3, 4)))


def test_selections_of_different_lengths_are_named() -> None:
    with pytest.raises(kt.InputError, match="selected must be a rectangular array of token indic"):
        kt.att_svm(problem_of(np.zeros((2, 3, 4))), [[0], [0, 1]])


@pytest.mark.parametrize("q", [1, 1.001, 1.1, 8, np.float32(40), 1e6, np.inf])
def test_every_power_from_one_to_infinity(q: float) -> None:
    """Also where powers over- or underflow; one row g has the margin ||g||_q*."""
    problem = kt.random_problem(n=3, T=4, d=6, seed=0, batch=3)
    found = kt.att_svm(problem, kt.optimal_tokens(problem), "W", norm=q)
    assert np.abs(found.certificate.gap).max() <= 1e-7
    assert found.certificate.violation.max() <= 1e-9
    one = kt.att_svm(problem_of([[[3.0, 4.0], [0.0, 0.0]]]), [0], norm=q)
    dual = q / (q - 1) if 1 < q < np.inf else {1: np.inf}.get(q, 1)
    assert one.margin == pytest.approx(4 * np.linalg.norm([0.75, 1.0], dual), rel=1e-6)


def test_printed_pairs_and_selections() -> None:
    problem = kt.random_problem(n=2, T=3, d=6, seed=0)
    text = str(kt.local_selections(problem)).splitlines()
    assert text[0].startswith("All ")
    assert "margin" in text[1]
    pair = str(kt.joint_svm(problem, [0, 0]))
    assert pair.startswith("Labels. Solved")
    assert "\nAttention. Solved" in pair
