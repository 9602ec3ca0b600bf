"""TokenProblem: checked once at the door, in a message that says name, rule and what came."""

import numpy as np
import pytest

import keytokens as kt

X = np.zeros((2, 3, 4))
y = np.array([1.0, -1.0])
v = np.ones(4)


def test_token_scores_by_hand() -> None:
    tokens = np.array([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.0, -1.0]]])
    problem = kt.TokenProblem(tokens, [1, -1], [3.0, 1.0])
    assert kt.token_scores(problem).tolist() == [[3.0, 2.0], [-4.0, 1.0]]
    assert kt.optimal_tokens(problem).tolist() == [0, 1]


def test_masked_tokens_are_never_optimal() -> None:
    tokens = np.array([[[5.0], [1.0]]])
    problem = kt.TokenProblem(tokens, [1], [1.0], mask=[[False, True]])
    assert kt.optimal_tokens(problem).tolist() == [1]


BAD = {
    "X must have 3 or 4 axes; got 2": dict(X=X[0]),
    "X must be finite; got nan at index (0, 0, 0)": dict(X=X * np.nan),
    "X must hold real numbers; got dtype complex128": dict(X=X + 1j),
    "X must hold at least one input": dict(X=X[:, :0]),
    "y must have shape (n) = (2,); got (3,)": dict(y=[1, 1, 1]),
    "y must hold labels +1 or -1; got 0.0 at index (1,)": dict(y=[1, 0]),
    "v must have shape (d) = (4,); got (5,)": dict(v=np.ones(5)),
    "query must have shape (n, d) = (2, 4); got (2, 3)": dict(query=np.ones((2, 3))),
    "W must have shape (d, m) = (4, 2); got (3, 2)": dict(W=np.ones((3, 2))),
    "mask must have shape (n, T) = (2, 3); got (2, 2)": dict(mask=np.ones((2, 2), bool)),
    "mask must keep at least one token per input; got none at input (0,)": dict(
        mask=np.zeros((2, 3), bool)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(kt.InputError) as caught:
        kt.TokenProblem(**(dict(X=X, y=y, v=v) | BAD[message]))
    assert message in str(caught.value)


def test_problems_are_frozen() -> None:
    problem = kt.random_problem()
    with pytest.raises(ValueError):
        problem.X[0, 0, 0] = 1.0


def test_batches_extend_each_other() -> None:
    one, three, five = (kt.random_problem(seed=3, batch=b) for b in (None, 3, 5))
    assert np.array_equal(one.X, three.X[0])
    assert np.array_equal(three.query, five.query[:3])
    assert np.array_equal(five[4].X, five.X[4])
    assert np.allclose(np.linalg.norm(five.X, axis=-1), 1)


def test_a_batch_is_walked_through_and_indexed_from_either_end() -> None:
    batch = kt.random_problem(seed=3, batch=3)
    assert [np.array_equal(one.X, X) for one, X in zip(batch, batch.X, strict=True)] == [True] * 3
    assert np.array_equal(batch[-1].X, batch[2].X)
    for k in (3, -4):
        with pytest.raises(kt.InputError, match="index must"):
            batch[k]
    with pytest.raises(kt.InputError, match="seed must be at least 0"):
        kt.random_problem(seed=-1)


def test_keys_are_what_attention_sees() -> None:
    W = np.eye(4)[:, :2]
    tokens = np.arange(24.0).reshape(2, 3, 4)
    problem = kt.TokenProblem(tokens, y, v, W=W)
    assert np.array_equal(problem.keys, tokens[..., :2])
