"""Bad input is named before anything is compiled."""

import jax
import numpy as np
import pytest

import keytokens as kt

problem = kt.random_problem(n=2, T=3, d=4)
bare = kt.TokenProblem(problem.X, problem.y, problem.v)
words = kt.NextTokenProblem([[0, 1]], [0], np.eye(2))
counts = kt.EmbeddingProblem([[1, 0], [0, 1]], [1, -1], np.eye(2), [1.0, 0.0])

BAD = {
    "over must be one of 'p', 'W', 'KQ', 'vp'; got 'q'": dict(over="q"),
    "over must be one of 'p', 'E', 'Ep'; got 'W'": dict(problem=counts, over="W"),
    "problem must be a TokenProblem, EmbeddingProblem or NextTokenProblem": dict(problem=3),
    "problem must have queries to train W; got query=None": dict(problem=bare, over="W"),
    "method must be one of GradientDescent": dict(method="gd"),
    "steps must be at least 1; got 0": dict(steps=0),
    "steps must be a whole number; got 2.5": dict(steps=2.5),
    "loss must be one of 'logistic', 'exponential', 'linear'": dict(loss="hinge"),
    "loss must return one number for one margin; got shape (2,)": dict(
        loss=lambda m: jax.numpy.stack([m, m])
    ),
    "loss must be a function of one margin, written with jax.numpy": dict(loss=lambda m: m.no),
    "loss must return a real number, differentiable in the margin; got int64": dict(
        loss=lambda m: (m < 0).astype(int)
    ),
    "head must return a real number, differentiable in the token; got int64": dict(
        head=lambda x: jax.numpy.argmax(x)
    ),
    "loss and head must be left out for a NextTokenProblem": dict(
        problem=words, over="W", loss="linear"
    ),
    "head must return one number for one pooled token; got shape (4,)": dict(head=lambda x: x),
    "head must accept a pooled token of shape (4,)": dict(head=kt.ReluHead(np.eye(3))),
    "head must be None (linear) or a function of the pooled token": dict(head=3),
    "head must be None over vp": dict(over="vp", head=lambda x: x[0]),
    "start must have shape (4,); got (3,)": dict(start=np.zeros(3)),
    "start must be finite; got nan": dict(start=[np.nan] * 4),
    "start must be a dict of v, p over vp; got an array": dict(over="vp", start=np.zeros(4)),
    "start must be a dict of p over p; got the names q": dict(start={"q": np.zeros(4)}),
    "start['K'] must have shape (4, 2); got (3, 2)": dict(over="KQ", start={"K": np.ones((3, 2))}),
    "start must have K and Q of one shape (d, m); got (4, 2) and (4, 4)": dict(
        over="KQ", start={"K": np.ones((4, 2))}
    ),
    "save must hold iteration indices in [0, 11)": dict(steps=10, save=[11]),
    "save must be at least 1; got 0": dict(save=0),
    "best_loss must be given but for a linear head over p, W or KQ": dict(
        over="vp", method=kt.PolyakDescent()
    ),
    "step must be a function of (k, norm)": dict(method=kt.NormalizedDescent(lambda k: 0.1)),
    "step must return one number for one (k, norm); got shape (2,)": dict(
        method=kt.NormalizedDescent(lambda k, norm: jax.numpy.ones(2))
    ),
    "radii must have 1 axis over p": dict(method=kt.RegularizationPath([[1.0, 2.0]])),
    "axis and least must be left out but for p and W": dict(
        over="KQ", method=kt.RegularizationPath([1.0], least=0.5)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named_before_compilation(message, monkeypatch):
    def compiled(*args, **kwargs):
        raise AssertionError("compiled before the input was checked")

    monkeypatch.setattr("keytokens.dynamics.training._runner", compiled)
    with pytest.raises(kt.InputError) as caught:
        kt.train(**(dict(problem=problem) | BAD[message]))
    assert message in str(caught.value)


METHODS = {
    "step must be positive; got -1": lambda: kt.GradientDescent(-1),
    "step must be positive; got 0": lambda: kt.NormalizedDescent(0.0),
    "ratio must be positive; got -2": lambda: kt.NormalizedDescent(0.1, -2),
    "q must be above 1; got 1": lambda: kt.MirrorDescent(1.0),
    "q must be a number; got '2'": lambda: kt.MirrorDescent("2"),
    "q must be finite; got inf": lambda: kt.MirrorDescent(np.inf),
    "norm must be positive; got 0": lambda: kt.GradientFlow(0),
    "radii must hold at least one number, all positive": lambda: kt.RegularizationPath([-1.0]),
    "radii must ascend": lambda: kt.RegularizationPath([2.0, 1.0]),
    "axis and angle must be given together": lambda: kt.RegularizationPath([1.0], angle=0.1),
    "angle must lie in (0, pi/2)": lambda: kt.RegularizationPath([1.0], 1.0, [1.0], 2.0),
    "least must be at most the first radius": lambda: kt.RegularizationPath([1.0], least=2.0),
    "best_loss must be finite": lambda: kt.PolyakDescent(np.nan),
}


@pytest.mark.parametrize("message", METHODS)
def test_bad_methods_are_named(message):
    with pytest.raises(kt.InputError) as caught:
        METHODS[message]()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "method", [kt.NormalizedDescent(0.1), kt.GradientFlow(norm=10.0), kt.RegularizationPath([1.0])]
)
def test_a_loss_that_is_not_a_number_is_said_to_be(method):
    run = kt.train(problem, "p", method, steps=3, loss=lambda m: jax.numpy.log(m - 10))
    assert run.reason is kt.Reason.UNDEFINED
    assert np.isfinite(run.params).all()


def test_the_users_own_precision_stays():
    before = jax.numpy.zeros(1).dtype
    kt.train(problem, "p", kt.PolyakDescent(), steps=2)
    assert jax.numpy.zeros(1).dtype == before
