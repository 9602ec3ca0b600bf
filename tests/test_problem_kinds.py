"""The other kinds of problem and the synthetic ones: what they promise, and bad input."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import keytokens as kt
from keytokens.svm.att import att_svm


def test_orthonormal_problem_knows_its_answer():
    problem, W = kt.orthonormal_problem(n=4, T=5, d=7, seed=2)
    opt = kt.optimal_tokens(problem)
    logits = np.einsum("itd,de,ie->it", problem.X, W, problem.query)
    gaps = logits[np.arange(4), opt][:, None] - logits
    assert np.allclose(np.sort(gaps, axis=1)[:, 1:], 1)
    assert 0.5 * (W**2).sum() == pytest.approx(4 * 4 / (2 * 5))
    assert np.allclose(att_svm(problem, opt, over="W").direction, W, atol=1e-10)


def test_contextual_problem_is_what_it_says():
    problem = kt.contextual_problem(n=6, T=8, d=9, contexts=2, relevant=0.25, noise=0.0, seed=1)
    w = problem.v
    assert np.linalg.norm(w) == pytest.approx(1)
    assert np.allclose(problem.X[:, :2] @ w, problem.y[:, None])
    assert np.allclose(problem.X[:, 2:] @ w, -0.2 * problem.y[:, None])
    q = problem.X[:, 0] - problem.y[:, None] * w
    assert np.allclose(q @ q.T, np.tile(np.eye(2), (3, 3)), atol=1e-12)
    batch = kt.contextual_problem(batch=3, seed=4)
    assert np.array_equal(batch[1].X, kt.contextual_problem(batch=2, seed=4).X[1])


def test_embedding_problem_is_what_it_says():
    problem, ids, kinds = kt.embedding_problem(n=400, T=10, seed=3)
    assert ids.shape == (400, 10)
    for i in (0, 7):
        assert np.array_equal(problem.counts[i], np.bincount(ids[i], minlength=problem.V))
    positive, negative = problem.y > 0, problem.y < 0
    assert positive.sum() == negative.sum()
    assert not problem.counts[negative][:, kinds == "positive"].any()
    assert not problem.counts[positive][:, kinds == "negative"].any()
    share = problem.counts[positive].sum(0) / problem.counts.sum(0)
    assert np.allclose(share[kinds == "irrelevant"], 0.5, atol=0.15)
    assert np.allclose(share[kinds == "partly"], [0.2, 0.4, 0.6, 0.8], atol=0.15)


def test_infinite_width_is_orthonormal():
    problem, _, _ = kt.embedding_problem(n=20, d=None)
    E, v = problem.embedding, problem.v
    assert np.allclose(E @ E.T, np.eye(problem.V), atol=1e-12)
    assert np.allclose(E @ v, 0, atol=1e-12)


def test_one_step_on_E_is_along_v():
    """From p = 0: E1 = E0 + eta alpha~ v^T, alpha~_s = mean_i y_i sigma(-y_i f_i) N_i(s) / T_i;
    at infinite width alpha~ is half the average signed frequency, exactly."""
    for width in (50, None):
        problem, _, _ = kt.embedding_problem(n=60, T=8, d=width)
        E = kt.train(problem, "E", kt.GradientDescent(3.0), steps=1).params
        share = problem.counts / problem.counts.sum(1, keepdims=True)
        f = share @ problem.embedding @ problem.v
        pull = problem.y / (1 + np.exp(problem.y * f))
        alpha = (pull[:, None] * share).mean(axis=0)
        expected = problem.embedding + 3.0 * np.outer(alpha, problem.v)
        assert np.allclose(E, expected, atol=1e-13)
    assert np.allclose(alpha, (problem.y[:, None] * share).mean(axis=0) / 2, atol=1e-14)


def test_two_stages_select_the_completely_predictive_tokens():
    """One step on E, then p: attention to the important tokens rises, to the irrelevant falls."""
    problem, _, kinds = kt.embedding_problem(n=200, T=12, d=None, seed=1)
    E = kt.train(problem, "E", kt.GradientDescent(50.0), steps=1).params
    second = kt.EmbeddingProblem(problem.counts, problem.y, E, problem.v)
    run = kt.train(second, "p", kt.NormalizedDescent(0.1), steps=100)
    a = E @ run.params
    important = np.isin(kinds, ["positive", "negative"])
    assert a[important].min() > a[kinds == "irrelevant"].max()
    assert run.losses[-1] < run.losses[0]
    joint = kt.train(second, "Ep", steps=20)
    assert set(joint.params) == {"E", "p"}
    assert joint.losses[-1] < run.losses[0]


def test_counts_are_repeated_tokens():
    """A sentence as counts is the same sentence as tokens."""
    problem, ids, _ = kt.embedding_problem(n=10, T=6, d=5, partly=2, irrelevant=4)
    tokens = kt.TokenProblem(problem.embedding[ids], problem.y, problem.v)
    for method in (kt.GradientDescent(1.0), kt.NormalizedDescent(0.1)):
        a, b = (kt.train(one, "p", method, steps=50) for one in (problem, tokens))
        assert np.allclose(a.path, b.path, atol=1e-10)
        assert np.allclose(a.losses, b.losses, atol=1e-12)


def test_sparse_counts_and_batches_are_welcome():
    dense, sparse = (
        kt.EmbeddingProblem(wrap([[1, 2], [0, 1]]), [1, -1], np.eye(2), [1.0, 0.0])
        for wrap in (np.array, csr_matrix)
    )
    assert np.array_equal(dense.counts, sparse.counts)
    two = [np.stack([a, a]) for a in (dense.counts, dense.y, dense.embedding, dense.v)]
    run = kt.train(kt.EmbeddingProblem(*two), "Ep", steps=5)
    alone = kt.train(dense, "Ep", steps=5)
    assert np.allclose(run.params["E"][1], alone.params["E"])


def test_next_token_training_finds_the_label():
    """Last token 0: label 1 against 2, 3; last token 3: label 2 against 3."""
    E = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))[0]
    problem = kt.NextTokenProblem([[1, 2, 3, 0], [2, 2, 3, 3]], [1, 2], E)
    assert np.array_equal(problem.query, E[[0, 3]])
    run = kt.train(problem, "W", steps=3000)
    assert run.losses[-1] < 1e-30
    assert run.attention[0].argmax() == 0
    assert np.allclose(run.attention[1], [0.5, 0.5, 0, 0], atol=1e-12)
    two = kt.NextTokenProblem([problem.tokens] * 2, [problem.label] * 2, [E, E])
    assert np.allclose(
        kt.train(two, "W", steps=50).params[1], kt.train(problem, "W", steps=50).params
    )


def test_the_last_token_is_the_last_kept_one():
    E = np.eye(3)
    mask = [[True, True, False], [True, True, True]]
    problem = kt.NextTokenProblem([[0, 1, 2], [0, 1, 2]], [0, 1], E, mask)
    assert problem.last.tolist() == [1, 2]


PROBLEMS = {
    "tokens": lambda: kt.random_problem(batch=2),
    "counts": lambda: kt.embedding_problem(n=5)[0],
    "next": lambda: kt.NextTokenProblem([[0, 1]], [0], np.eye(2)),
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_problems_save_and_load(kind, tmp_path):
    problem = PROBLEMS[kind]()
    problem.save(tmp_path / "problem")
    back = type(problem).load(tmp_path / "problem")
    for name, array in vars(problem).items():
        assert np.array_equal(getattr(back, name), array), name


def test_strange_files_are_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing of ours")
    with pytest.raises(kt.FileError, match="must be a readable keytokens tokens problem"):
        kt.TokenProblem.load(tmp_path / "x")
    with pytest.raises(kt.FileError, match="must be a readable"):
        kt.TokenProblem.load(tmp_path / "absent")


I2 = np.eye(2)
BAD = {
    "counts must be zero or positive; got -1": lambda: kt.EmbeddingProblem(
        [[-1, 2]], [1], I2, I2[0]
    ),
    "counts must hold at least one token per sentence; got none at input (1,)": lambda: (
        kt.EmbeddingProblem([[1, 0], [0, 0]], [1, 1], I2, I2[0])
    ),
    "y must hold labels +1 or -1": lambda: kt.EmbeddingProblem([[1, 0]], [0], I2, I2[0]),
    "embedding must have shape (V, d) = (3, 2); got (2, 2)": lambda: kt.EmbeddingProblem(
        [[1, 0, 1]], [1], I2, I2[0]
    ),
    "tokens must hold vocabulary indices in [0, 2); got 2": lambda: kt.NextTokenProblem(
        [[0, 2]], [0], I2
    ),
    "label must occur in its input; got none at input (0,)": lambda: kt.NextTokenProblem(
        [[0, 0]], [1], I2
    ),
    "d must be at least max(n, T) = 5; got 4": lambda: kt.orthonormal_problem(n=5, T=3, d=4),
    "relevant must lie in (0, 1]; got 0": lambda: kt.contextual_problem(relevant=0),
    "d must be at least contexts + 1 = 4; got 3": lambda: kt.contextual_problem(contexts=3, d=3),
    "the vocabulary must hold tokens for both labels": lambda: kt.embedding_problem(
        negative=0, partly=0, irrelevant=0
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(kt.InputError) as caught:
        BAD[message]()
    assert message in str(caught.value)
