"""A step rule of the user's own: one small class, as good as the built-in ones."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import keytokens as kt
from keytokens.dynamics import descent, fast
from keytokens.dynamics.steps import joint_norm, norm, unit

problem = kt.random_problem(n=3, T=4, d=5, seed=3)
TWO = kt.TokenProblem([[[1.0, 0.0], [0.0, 1.0]]], [1], [1.0, 0.0])


@dataclass(frozen=True)
class Sign:
    """w <- w - step sign(grad)"""

    step: float = 0.1
    runner: ClassVar[str] = "descent"

    def change(self, blocks, G, e, k, excess):
        return {b: -self.step * jnp.sign(g) for b, g in G.items()}


@dataclass(frozen=True)
class Unit(Sign):
    """Normalised descent, said again."""

    def change(self, blocks, G, e, k, excess):
        return {b: -self.step * unit(g) for b, g in G.items()}


@dataclass(frozen=True)
class Cubed(Unit):
    """Mirror descent of q = 3, said again."""

    def change(self, blocks, G, e, k, excess):
        return {b: -self.step * unit(g, 1.5) for b, g in G.items()}

    def to_mirror(self, w):
        return jnp.sign(w) * w**2

    def from_mirror(self, theta):
        return jnp.sign(theta) * jnp.sqrt(jnp.abs(theta))


@dataclass(frozen=True)
class Polyak(Sign):
    """The Polyak step, said again."""

    def change(self, blocks, G, e, k, excess):
        length = joint_norm({b: jnp.exp(e[b]) * g for b, g in G.items()})
        return {b: -jnp.exp(excess() + e[b]) * g / length**2 for b, g in G.items()}


@dataclass(frozen=True)
class Weighted(Sign):
    """A step for each coordinate; truth values and words are fixed, not traced."""

    weights: Any = field(default_factory=lambda: np.arange(5.0))
    backward: bool = False
    word: str = ""

    def change(self, blocks, G, e, k, excess):
        sign = 1.0 if self.backward else -1.0
        return {b: sign * self.weights * jnp.sign(g) for b, g in G.items()}


def test_sign_descent_by_hand():
    run = kt.train(TWO, "p", Sign(0.5), steps=4)
    assert run.path.tolist() == [[0.5 * k, -0.5 * k] for k in range(5)]
    assert run.reason is kt.Reason.STEPS


@pytest.mark.parametrize("over", ["p", "W", "KQ", "vp"])
@pytest.mark.parametrize(
    ("own", "ours"),
    [(Unit(0.2), kt.NormalizedDescent(0.2)), (Cubed(0.2), kt.MirrorDescent(3.0, 0.2))],
)
def test_rules_said_again_run_alike(over, own, ours, monkeypatch):
    monkeypatch.setattr(fast, "serves", lambda job: False)
    again, known = (kt.train(problem, over, method, steps=50) for method in (own, ours))
    assert np.allclose(again.losses, known.losses, rtol=1e-12)
    assert np.array_equal(again.selected, known.selected)


def test_excess_is_the_log_of_what_is_above_the_best_loss():
    again, known = (kt.train(problem, "W", m, steps=20) for m in (Polyak(), kt.PolyakDescent()))
    assert np.allclose(again.path, known.path, rtol=1e-9, atol=1e-12)


def test_a_batch_of_problems_and_other_kinds_take_the_rule_too():
    batch = kt.random_problem(n=3, T=4, d=5, seed=3, batch=2)
    runs = kt.train(batch, "p", Sign(), steps=30)
    assert np.array_equal(runs.path[0], kt.train(problem, "p", Sign(), steps=30).path)
    corpus = kt.embedding_problem(n=8, T=4, d=6)[0]
    assert kt.train(corpus, "Ep", Sign(), steps=3).reason is kt.Reason.STEPS
    assert kt.certify(problem, kt.train(problem, "p", Sign(), steps=300)).gap < 1e-9


def test_another_number_is_no_new_compilation_and_other_fields_are_fixed():
    before = descent._loop._cache_size()
    kt.train(problem, "p", Weighted(), steps=3)
    one = kt.train(problem, "p", Weighted(weights=np.ones(5)), steps=3)
    assert descent._loop._cache_size() == before + 1
    back = kt.train(problem, "p", Weighted(weights=np.ones(5), backward=True), steps=3)
    assert np.array_equal(np.sign(one.path[1]), -np.sign(back.path[1]))


def test_the_built_in_rules_by_hand_on_numpy_arrays():
    w = {"p": np.array([3.0, -4.0])}
    G, e = {"p": np.array([0.0, 2.0])}, {"p": np.asarray(np.log(0.5))}
    none = ()
    assert np.allclose(kt.GradientDescent(3.0).change(w, G, e, 0, none)["p"], [0, -3])
    assert np.allclose(kt.NormalizedDescent(3.0).change(w, G, e, 0, none)["p"], [0, -3])
    step = kt.NormalizedDescent(lambda k, size: k * size)
    assert np.allclose(step.change(w, G, e, 2, none)["p"], [0, -10])
    polyak = kt.PolyakDescent().change(w, G, e, 0, lambda: np.asarray(np.log(5.0)))
    assert np.allclose(polyak["p"], [0, -5])
    mirror = kt.MirrorDescent(3.0)
    assert np.allclose(mirror.to_mirror(w["p"]), [9, -16])
    assert np.allclose(mirror.from_mirror(mirror.to_mirror(w["p"])), w["p"])
    assert norm(np.array([3e-200, 4e-200])) == pytest.approx(5e-200, rel=1e-14)


def rule(base: type = Sign, frozen: bool = True, **members: Any) -> Any:
    return dataclass(frozen=frozen)(type("Mine", (base,) if frozen else (), members))


def changing(function: Any) -> Any:
    return rule(change=lambda self, blocks, G, e, k, excess: function(G, k, excess))()


def lopsided() -> Any:
    return rule(Cubed, from_mirror=lambda self, theta: theta + 1)()


BAD = {
    "method must be one of GradientDescent": lambda: Sign,
    "or a step rule of your own with runner": lambda: kt.NormalizedDescent,
    "method must be a frozen dataclass; got the class Mine": lambda: rule(
        frozen=False, runner="descent", change=Sign.change
    )(),
    "method must have change(blocks, G, e, k, excess)": lambda: rule(change=None)(),
    "method must have both to_mirror and from_mirror": lambda: rule(to_mirror=lambda s, w: w)(),
    "method.from_mirror must undo to_mirror; got p off by 1 at the start": lopsided,
    "method.weights must be a number, an array or hashable": lambda: Weighted(weights=[1.0]),
    "method.change must return a dict of shapes {'p': (5,)}; got {'p': ()}": lambda: changing(
        lambda G, k, excess: {"p": jnp.sum(G["p"])}
    ),
    "method.change must be pure and written with jax.numpy": lambda: changing(
        lambda G, k, excess: {b: g if k > 3 else -g for b, g in G.items()}
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_rule_is_named_before_compilation(message, monkeypatch):
    monkeypatch.setattr("keytokens.dynamics.training._runner", lambda job: 1 / 0)
    with pytest.raises(kt.InputError) as caught:
        kt.train(problem, "p", BAD[message]())
    assert message in str(caught.value)


def test_a_rule_without_best_loss_cannot_ask_for_the_excess_over_vp():
    with pytest.raises(kt.InputError, match="best_loss must be given but for a linear head"):
        kt.train(problem, "vp", Polyak())
