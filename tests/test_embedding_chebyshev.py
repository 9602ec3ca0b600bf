"""Stabilised steps: their order, and how far they go where plain explicit steps must crawl."""

import numpy as np
import pytest

from keytokens.embedding.chebyshev import Chebyshev, coefficients

RATES = np.array([1.0, 30.0, 1e4])


class Decay:
    """dy/dt = -rates (y - 1), counting its calls."""

    def __init__(self, rates: np.ndarray) -> None:
        self.rates, self.calls = rates, 0

    def __call__(self, y: np.ndarray) -> tuple[np.ndarray, float]:
        self.calls += 1
        return -self.rates * (y - 1), 1.0


def norm(y: np.ndarray) -> float:
    return float(np.linalg.norm(y))


def at_one(speed: Decay, error: float) -> np.ndarray:
    """y(1) from y(0) = 0."""
    stepper, y, step, t = Chebyshev(speed, norm, error), np.zeros(3), 1e-4, 0.0
    now = speed(y)
    while t < 1:
        before = y
        y, now, following = stepper.advance(y, now, min(step, 1 - t))
        t += step if step < 1 - t else 1 - t
        assert not np.array_equal(before, y)
        step = following
    return y


@pytest.mark.parametrize("stages", [2, 3, 10, 57])
def test_a_step_is_of_second_order_and_damps_what_is_stiff(stages: int) -> None:
    """The stability polynomial R: 1 + z + z^2/2 near 0, and |R| < 1 up to .65 (s^2 - 1)."""

    def R(z: float) -> float:
        stepper = Chebyshev(lambda y: (z * y, 1.0), norm, np.inf)
        return float(stepper._step(np.ones(1), np.full(1, z), 1.0, stages)[0])

    for z in (-1e-3, -2e-3):
        assert R(z) == pytest.approx(1 + z + z * z / 2, abs=abs(z) ** 3)
    reach = 0.65 * (stages**2 - 1)
    assert max(abs(R(-z)) for z in np.linspace(0.05 * reach, reach, 400)) < 1


def test_coefficients_of_each_stage_agree_with_a_straight_line() -> None:
    """Every stage is exact for y' = 1: Y_j - p is then that stage's place in time, rising to 1."""
    first, rest = coefficients(8)
    before, place = 0.0, first
    for mu, nu, forward, backward in rest:
        before, place = place, mu * place + nu * before + forward + backward
        assert before < place
    assert place == pytest.approx(1, abs=1e-12)


def test_a_stiff_flow_is_followed_with_few_calls() -> None:
    speed = Decay(RATES)
    found = at_one(speed, 1e-4)
    assert found == pytest.approx(1 - np.exp(-RATES), abs=2e-3)
    assert speed.calls < RATES.max() / 2 / 3  # steps of 2 / rate are the most an Euler step can do


def test_less_error_is_asked_for_and_had() -> None:
    rates = np.array([1.0, 3.0, 10.0])
    off = [norm(at_one(Decay(rates), error) - 1 + np.exp(-rates)) for error in (1e-3, 1e-6)]
    assert off[1] < off[0] / 20
