"""Certificates: derived by hand, a stranger's answers, every kind of run, files and bad input."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import keytokens as kt
from keytokens._checks import Floats
from keytokens.certification import misalignment
from keytokens.certification.certificate import Offender
from keytokens.certification.theorems import Assumption

pytest.importorskip("jax")

# T = 2, differences (1, 0) and (-1.5, 0.3): the first input alone decides where (1, 0) leads
PAIR = kt.TokenProblem(
    [[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [[-1.5, 0.3, 1.0], [0.0, 0.0, 0.0]]],
    [1, 1],
    [0.0, 0.0, 1.0],
    W=np.eye(3)[:, :2],
)


def holds(cert: kt.Certificate, name: str, text: str) -> bool | None:
    """Whether an assumption of a theorem holds, by the beginnings of their names."""
    theorem = next(t for t in cert.theorems if t.name.startswith(name))
    return next(a.holds for a in theorem.assumptions if text in a.text)


def test_global_by_hand() -> None:
    """<p, (1, 0)> >= 1 and <p, (-1.5, 0.3)> >= 1: p^mm = (1, 25/3)."""
    cert = kt.certify(PAIR, [1.0, 25 / 3])
    assert cert.selected.tolist() == [0, 0]
    assert cert.optimality == "global"
    assert np.allclose(cert.direction, [1, 25 / 3])
    assert cert.misalignment < 1e-20
    assert cert.margin_ratio == pytest.approx(1)
    assert cert.best_margin == pytest.approx(1 / np.hypot(1, 25 / 3))
    assert holds(cert, "Global", "one input, or equal scores") is True  # one other token each
    assert cert.theorems[0].applies is True


def test_local_by_hand() -> None:
    """Towards (1, 0): input 1 gives up its optimal token; the margin is that of (1, 0) alone."""
    cert = kt.certify(PAIR, [1.0, 0.0])
    assert cert.selected.tolist() == [0, 1]
    assert cert.optimality == "local"
    assert np.allclose(cert.direction, [1, 0])
    assert cert.support.tolist() == [[False, True], [False, False]]
    assert not np.isnan(cert.margin)


def test_not_locally_optimal_names_the_token() -> None:
    cert = kt.certify(PAIR, [-1.0, 0.0])  # gives up input 0, whose only other token outscores it
    assert cert.optimality == "none"
    worst = cert.offenders[0]
    assert (worst.input, worst.token) == (0, 0)
    assert worst.lead == pytest.approx(-1.0)
    assert "token 0 of input 0 outscores" in " ".join(cert.sentences)
    assert cert.theorem is not None
    assert cert.theorem.name == "Converse"
    assert cert.theorem.applies is True


def test_infeasible_selection_comes_with_its_proof() -> None:
    """On a line, no direction puts the middle token above both its neighbours."""
    line = kt.NextTokenProblem([[0, 1, 2]], [0], [[0.0], [1.0], [-1.0]])
    cert = kt.certify(line, [[2.0]])
    assert cert.optimality == "none"
    assert cert.direction is None
    assert "No direction separates" in str(cert)
    assert "token 0 above tokens 1, 2" in " ".join(cert.sentences)
    assert cert.theorems[0].applies is False


def test_where_everything_is_tied_nothing_grows() -> None:
    problem = kt.TokenProblem([[[1.0, 0.0], [1.0, 2.0]]], [1], [1.0, 0.0])
    cert = kt.certify(problem, [3.0, 0.0])
    assert cert.kept.all()
    assert cert.optimality == "finite"
    assert "no direction grows" in " ".join(cert.sentences)


@pytest.mark.parametrize("over", ["p", "W"])
def test_a_run_and_its_bare_array_are_judged_alike(over: str) -> None:
    problem = kt.random_problem(4, 4, 8, seed=1)
    run = kt.train(problem, over, kt.GradientFlow())
    one, other = kt.certify(problem, run), kt.certify(problem, run.params)
    assert one.optimality == other.optimality
    assert one.misalignment == other.misalignment < 1e-7
    assert one.margin_ratio == pytest.approx(1, abs=1e-3)
    assert one.gap < 1e-9
    assert holds(one, "Local", "locally optimal") is True
    assert holds(one, "Local", "far out") is True
    assert "reached the norm" in str(one)


def test_a_direction_is_judged_whatever_its_length() -> None:
    problem = kt.random_problem(4, 4, 8, seed=2)
    goal = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
    short, long = kt.certify(problem, goal * 1e-3), kt.certify(problem, goal * 1e3)
    assert short.kept.tolist() == long.kept.tolist()
    assert short.optimality == long.optimality == "global"
    assert short.margin == pytest.approx(long.margin)
    assert "not saturated" in str(short)
    assert "not saturated" not in str(long)


def test_a_poor_answer_has_less_margin() -> None:
    problem = kt.random_problem(4, 4, 8, seed=2)
    goal = kt.att_svm(problem, kt.optimal_tokens(problem)).direction
    off = goal + 0.1 * np.linalg.norm(goal) * np.eye(8)[0]
    cert = kt.certify(problem, off)
    cosine = off @ goal / np.linalg.norm(off) / np.linalg.norm(goal)
    assert cert.correlation == pytest.approx(cosine)
    assert cert.margin_ratio < 0.999


def test_misalignment_has_no_cancellation() -> None:
    assert misalignment(np.array([1.0, 1e-12]), np.array([1.0, 0.0])) == pytest.approx(5e-25)


def test_a_finite_limit_is_said_to_be_one() -> None:
    tokens = [[1.0, 0.0], [0.0, 1.0]]
    problem = kt.TokenProblem([tokens, tokens], [1, -1], [1.0, -1.0])
    run = kt.train(problem, "p", kt.GradientFlow(), start=np.array([1.5, 0.0]))
    for answer in (run, run.params):
        cert = kt.certify(problem, answer)
        assert cert.optimality == "finite"
        assert cert.kept.all()
        assert cert.direction is None
        assert cert.theorem is not None
        assert cert.theorem.applies is False


def planted() -> tuple[kt.TokenProblem, Floats, Floats]:
    """Input 0 keeps two tokens of equal score at a log-ratio of 0.7, all else is left behind."""
    base = kt.random_problem(3, 4, 8, seed=4)
    X = base.X.copy()
    X[0, 1] -= (X[0, 1] - X[0, 0]) @ base.v / (base.v @ base.v) * base.v
    problem = kt.TokenProblem(X, base.y, base.v)
    equal = np.zeros((3, 4), bool)
    equal[0, 1] = True
    direction = kt.att_svm(problem, [0, 2, 3], equal=equal).direction
    apart = X[0, 1] - X[0, 0]
    return problem, direction, -0.7 * apart / (apart @ apart)


def test_kept_tokens_and_their_finite_part() -> None:
    problem, direction, finite = planted()
    cert = kt.certify(problem, 200 * direction + finite)
    assert cert.kept[0].tolist() == [True, True, False, False]
    assert cert.kept[1:].sum() == 2
    assert np.allclose(cert.finite_part, finite, atol=1e-10)
    assert cert.misalignment < 1e-12
    assert cert.margin_ratio == pytest.approx(1)
    assert "{0, 1}" in str(cert)


def test_an_exact_tie_asks_for_no_margin() -> None:
    """Tokens 0 and 1 of the first input score alike: p may go where 1 merely falls behind."""
    X = [[[1.0, 0.1, 1.0], [0.0, 0.2, 1.0], [0.0, 0.0, 0.0]]]
    problem = kt.TokenProblem(X, [1], [0.0, 0.0, 1.0], W=np.eye(3)[:, :2])
    strict = kt.att_svm(problem, [0]).direction
    cert = kt.certify(problem, [40.0, 0.0])
    assert cert.optimality == "global"
    assert cert.direction @ [1, 0.1] == pytest.approx(1)
    assert np.linalg.norm(cert.direction) <= np.linalg.norm(strict)
    assert cert.margin_ratio < 1


def test_factors_are_judged_in_the_nuclear_norm() -> None:
    problem = kt.random_problem(3, 3, 5, seed=5)
    W = kt.att_svm(problem, kt.optimal_tokens(problem), "W", "nuclear").direction
    U, s, V = np.linalg.svd(W)
    K, Q = U * np.sqrt(s), V.T * np.sqrt(s)
    cert = kt.certify(problem, {"K": K, "Q": Q})
    assert (cert.over, cert.norm) == ("KQ", "nuclear")
    assert cert.misalignment < 1e-12
    assert cert.margin_ratio == pytest.approx(1, abs=1e-6)
    plain = kt.certify(problem, W)
    assert plain.norm == "l2"
    assert plain.margin_ratio < 1


def joint(third: tuple[float, float]) -> kt.TokenProblem:
    X = np.array([[[0, 0], [1, 1]], [[0, 0], [1, -1]], [[0, 0], third]], float)
    return kt.TokenProblem(X, [1, -1, 1], [1.0, 1.0])


def test_joint_training_states_its_regime() -> None:
    """Third input (.5, 1.5): not a support input, rho* = 1; (.5, 1): all are support inputs."""
    v = np.array([0.0, 1.0])
    full = kt.certify(joint((0.5, 1.0)), {"v": v, "p": np.array([1.0, 0.25])})
    assert "every input supports" in str(full)
    wide = joint((0.5, 1.5))
    relaxed = kt.certify(wide, {"v": v, "p": np.array([1.0, 0.0])})
    assert "relaxed" in relaxed.theorems[0].says
    assert relaxed.misalignment < 1e-15
    assert relaxed.theorems[0].assumptions[-1].number == pytest.approx(1)
    assert relaxed.theorems[0].applies is True


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8])
def test_joint_flow_goes_where_the_order_of_limits_says(ratio: float) -> None:
    problem = joint((0.5, 1.5))
    start = {"v": np.array([0.0, 1.0]), "p": np.array([3.0, 0.1])}
    run = kt.train(problem, "vp", kt.GradientFlow(ratio=ratio), start=start)
    cert = kt.certify(problem, run)
    assert cert.theorems[0].says.startswith("r/R lies below rho*")
    assert cert.misalignment < 1e-9
    assert cert.margin_ratio == pytest.approx(1, abs=1e-4)


def test_mirror_descent_is_judged_in_its_norm() -> None:
    problem = kt.random_problem(3, 4, 6, seed=6)
    goal = kt.att_svm(problem, kt.optimal_tokens(problem), "p", 3.0).direction
    cert = kt.certify(problem, goal, norm=3.0)
    assert cert.misalignment < 1e-12
    assert cert.margin_ratio == pytest.approx(1, abs=1e-6)
    assert any(t.name == "Mirror descent" for t in cert.theorems)


def test_a_corpus_is_judged_by_its_columns() -> None:
    counts = np.array([[2.0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 3]])
    E = np.eye(5)[:4] + np.outer([0.5, -0.4, 0, 0.3], np.eye(5)[4])
    problem = kt.EmbeddingProblem(counts, [1, -1, 1], E, np.eye(5)[4])
    cert = kt.certify(problem, 50 * np.array([1.0, 1, -1, 1, 0]))
    assert cert.selected.tolist() == [0, 1, 3]
    assert cert.kept.shape == counts.shape
    assert cert.optimality == "global"
    assert np.allclose(cert.margin, 2 / 2)
    name = "Trained embeddings"
    assert holds(cert, name, "proportional") is True
    with_E = kt.certify(problem, {"E": E, "p": 50 * np.array([1.0, 1, -1, 1, 0])})
    assert with_E.misalignment == cert.misalignment


def test_next_token_components_stay_tied() -> None:
    """0 -> 1 in one input, 1 -> 0 in another, same last token: one component."""
    problem = kt.NextTokenProblem([[0, 1, 2], [1, 0, 2], [0, 3, 3]], [0, 1, 0], np.eye(4))
    run = kt.train(problem, "W", kt.GradientFlow())
    cert = kt.certify(problem, run)
    assert run.reason is kt.Reason.CANCELLED
    assert cert.kept.sum(axis=1).tolist() == [2, 2, 1]
    assert cert.misalignment < 0.01
    assert cert.theorems[0].name == "Next-token attention"
    assert cert.theorems[0].applies is True


def test_the_numbers_of_the_global_theorem() -> None:
    problem = kt.random_problem(3, 4, 8, seed=7)
    run = kt.train(problem, "p", kt.GradientFlow(norm=1e3))
    cert = kt.certify(problem, run)
    if cert.optimality != "global":
        pytest.skip("this seed is not global")
    gamma = np.sort(kt.token_scores(problem), axis=1)
    theorem = next(t for t in cert.theorems if t.name == "Global convergence")
    unique, feasible, equal, key = theorem.assumptions
    assert unique.number == pytest.approx((gamma[:, -1] - gamma[:, -2]).min())
    assert feasible.number == pytest.approx(cert.best_margin)
    assert equal.number == pytest.approx((gamma[:, -2] - gamma[:, 0]).max())
    assert equal.holds is False
    assert key.number < 1


def test_a_batch_gives_one_certificate_each() -> None:
    problem = kt.random_problem(3, 4, 8, seed=8, batch=3)
    run = kt.train(problem, "p", kt.GradientFlow(norm=1e3))
    certs = kt.certify(problem, run)
    assert len(certs) == 3
    assert str(certs[1]) == str(kt.certify(problem[1], run[1]))
    assert str(kt.certify(problem, run.params)[2]) == str(kt.certify(problem[2], run.params[2]))


def test_save_and_load(tmp_path: Path) -> None:
    problem, direction, finite = planted()
    tied = kt.certify(problem, 200 * direction + finite)
    for k, cert in enumerate([tied, kt.certify(PAIR, [-1.0, 0.0]), kt.certify(PAIR, [1.0, 9.0])]):
        cert.save(tmp_path / str(k))
        again = kt.Certificate.load(tmp_path / str(k))
        assert str(again) == str(cert)
        assert again.offenders == cert.offenders
        assert again.theorems == cert.theorems
        assert np.array_equal(again.direction, cert.direction)
        assert again.misalignment == cert.misalignment


def test_a_saved_description_is_json_whatever_its_numbers(tmp_path: Path) -> None:
    cert = kt.certify(PAIR, [-1.0, 0.0])
    theorem = replace(cert.theorems[0], assumptions=(Assumption("odd", None, -np.inf),))
    odd = replace(cert, theorems=(theorem,), offenders=(Offender(0, 1, -np.inf, 0.5),))
    odd.save(tmp_path / "odd")
    with safe_open(tmp_path / "odd", "numpy") as file:
        text = file.metadata()["keytokens"]
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    again = kt.Certificate.load(tmp_path / "odd")
    assert (again.theorems, again.offenders) == (odd.theorems, odd.offenders)


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    PAIR.save(tmp_path / "problem")
    with pytest.raises(kt.FileError, match="must hold a keytokens certificate"):
        kt.Certificate.load(tmp_path / "problem")


BAD = {
    "answer must be a dict of K and Q, v and p, or E and p; got ['K'].": ({"K": np.eye(2)}, {}),
    "answer must have shape that of p = (2,); got (3,).": ([1.0, 2.0, 3.0], {}),
    "answer must be finite; got nan at index (1,).": ([1.0, np.nan], {}),
    "answer must have finite logits; got logits that overflow float64; scale it down.": (
        [1.7e308, 0.0],
        {},
    ),
    "answer must be K and Q of one shape (d, m), d = 3; got (4, 2) and (4, 2).": (
        {"K": np.ones((4, 2)), "Q": np.ones((4, 2))},
        {},
    ),
    "answer['v'] must have shape (3,); got (2,).": ({"v": np.ones(2), "p": np.ones(2)}, {}),
    "over must be one of 'p', 'W'; got 'Z'.": ([1.0, 0.0], {"over": "Z"}),
    "over must be 'KQ' for this answer; got 'p'.": (
        {"K": np.eye(3), "Q": np.eye(3)},
        {"over": "p"},
    ),
    "threshold must be below 1/2; got 0.7.": ([1.0, 0.0], {"threshold": 0.7}),
    "problem must have queries for an answer over W; got query=None.": (np.eye(3), {}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    answer, options = BAD[message]
    with pytest.raises(kt.InputError) as caught:
        kt.certify(PAIR, answer, **options)
    assert str(caught.value) == message


def test_a_problem_must_be_one() -> None:
    with pytest.raises(kt.InputError, match="problem must be a token, embedding or next-token"):
        kt.certify("problem", [1.0])
