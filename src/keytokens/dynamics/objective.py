"""Losses as functions of the trained blocks, and their gradients with the exponent kept apart.

The gradient of one problem with respect to a block is e^exponent * mantissa, mantissa ~ 1: its
direction outlives the underflow of every softmax weight and of the loss's slope. It is made of

    da[i, t] = l'(m_i) (1/n) s_it [delta_it - sum_u s_iu delta_iu],

pulled back through the logits, and dm[i] = l'(m_i) / n pulled back through the pooled tokens.
delta_it = gamma_it - gamma_top is relative to the heaviest token, and gamma_it =
y_i <x_it, grad psi(pooled_i)>, which is the token score for the linear head.
All functions here take one problem (no batch axis): `jax.vmap` gives the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keytokens._extras import require
from keytokens.attention import log_abs, log_weights, relative_scores
from keytokens.dynamics.models import Model
from keytokens.losses import Loss

jax = require("jax", "lab")
jnp = jax.numpy
Array = Any
Blocks = dict[str, Array]


@dataclass(frozen=True)
class Objective:
    """L(blocks) for a model, a loss and a head (None: linear). Hashable: compiled once."""

    model: Model
    loss: Loss
    head: Callable[[Array], Array] | None = None

    def logits(self, blocks: Blocks, data: Blocks) -> Array:
        """a, masked tokens -inf. (n, T)"""
        a = self.model.logits(blocks, data)
        return jnp.where(data["mask"], a, -jnp.inf) if "mask" in data else a

    def margins(self, blocks: Blocks, data: Blocks) -> Array:
        """m[i] = y_i f(X_i). (n,)"""
        return self._read(self.logits(blocks, data), blocks, data)[1]

    def value(self, blocks: Blocks, data: Blocks) -> Array:
        """L = mean_i l(m_i)."""
        return jnp.mean(self.loss.value(self.margins(blocks, data)))

    @property
    def floor_is_zero(self) -> bool:
        """Whether L has the infimum 0, or may have it, and `log_value` is known."""
        return self.loss.log_value is not None and self.head is None

    def log_value(self, blocks: Blocks, data: Blocks) -> Array:
        """log L, past the underflow of L. ()"""
        assert self.loss.log_value is not None
        logs = self.loss.log_value(self.margins(blocks, data))
        return jax.scipy.special.logsumexp(logs) - jnp.log(1.0 * len(logs))

    def attention(self, blocks: Blocks, data: Blocks) -> Array:
        """s. (n, T)"""
        return jnp.exp(log_weights(self.logits(blocks, data)))

    def gradient(self, blocks: Blocks, data: Blocks) -> tuple[Blocks, Blocks]:
        """(mantissas, exponents), a block each: grad L = e^exponent * mantissa."""
        a, through_logits = jax.vjp(lambda b: self.logits(b, data), blocks)
        delta, m = self._read(a, blocks, data)
        sign, log_slope = self.loss.slope(m)
        log_slope = log_slope - jnp.log(1.0 * m.shape[0])
        da, exponent = _logit_slopes(a, delta, sign, log_slope)
        parts = {name: (g, exponent) for name, g in through_logits(da)[0].items()}
        for name in self.model.valued & blocks.keys():
            parts[name] = _sum(parts[name], self._through_values(name, a, blocks, data, m))
        return ({k: g for k, (g, _) in parts.items()}, {k: e for k, (_, e) in parts.items()})

    def log_excess(self, blocks: Blocks, data: Blocks) -> Array:
        """log(L - L*), L* = mean_i l(max_t gamma_it), linear head: without cancellation. ()

        L* holds where the run can reach the optimal selection: over p, W, and K, Q.
        """
        scores = self.model.scores(blocks, data)
        if "mask" in data:
            scores = jnp.where(data["mask"], scores, -jnp.inf)
        best = jnp.max(scores, axis=-1)
        log_s = log_weights(self.logits(blocks, data))
        missing = jnp.where(log_s == -jnp.inf, 0.0, best[:, None] - scores)
        idle = jnp.all(missing == 0, axis=-1)  # all scores equal: derivatives of log 0 are NaN
        terms = jnp.where(idle[:, None], 0.0, log_s + log_abs(missing))
        gaps = jnp.where(idle, -jnp.inf, jax.scipy.special.logsumexp(terms, axis=-1))
        return _log_mean_rise(gaps, best, self.loss)

    def _read(self, a: Array, blocks: Blocks, data: Blocks) -> tuple[Array, Array]:
        """(delta, m): scores relative to the heaviest token, and margins. (n, T), (n,)"""
        if self.head is None:
            delta, best = relative_scores(a, self.model.scores(blocks, data))
            return delta, best + jnp.sum(jnp.exp(log_weights(a)) * delta, axis=-1)
        pooled = self._pooled(a, blocks, data)
        psi, slope = jax.vmap(jax.value_and_grad(self.head))(pooled)
        scores = data["y"][:, None] * self.model.tokens_times(blocks, data, slope)
        return relative_scores(a, scores)[0], data["y"] * psi

    def _pooled(self, a: Array, blocks: Blocks, data: Blocks) -> Array:
        """x_top + sum_t s_t (x_t - x_top). (n, d)"""
        return self.model.pooled(blocks, data, jnp.exp(log_weights(a)), jnp.argmax(a, axis=-1))

    def _through_values(
        self, name: str, a: Array, blocks: Blocks, data: Blocks, m: Array
    ) -> tuple[Array, Array]:
        """The part of the gradient that goes through the pooled tokens, at fixed attention."""
        sign, log_slope = self.loss.slope(m)
        exponent = jax.lax.stop_gradient(jnp.max(log_slope))
        exponent = jnp.where(jnp.isfinite(exponent), exponent, 0.0)
        dm = sign * jnp.exp(log_slope - exponent) / m.shape[0]
        back = jax.vjp(lambda b: self._frozen_margins(a, {**blocks, name: b}, data), blocks[name])
        return back[1](dm)[0], exponent

    def _frozen_margins(self, a: Array, blocks: Blocks, data: Blocks) -> Array:
        head = self.head
        pooled = self._pooled(a, blocks, data)
        if head is not None:
            return data["y"] * jax.vmap(head)(pooled)
        return data["y"] * (pooled @ self.model.v(blocks, data))


def _logit_slopes(a: Array, delta: Array, sign: Array, log_slope: Array) -> tuple[Array, Array]:
    """da as (mantissa, exponent): entries at most ~1, whatever has underflowed. (n, T), ()

    Each input's terms are divided by its own largest |s delta| first, e^e_i; the exponents are
    constants to automatic differentiation: the direction does not depend on them.
    """
    log_s = log_weights(a)
    e = jax.lax.stop_gradient(jnp.max(log_s + log_abs(delta), axis=-1))
    idle = e == -jnp.inf  # all scores equal: nothing to gain from this input
    e = jnp.where(idle, 0.0, e)
    terms = delta * jnp.exp(jnp.where(delta == 0, -jnp.inf, log_s - e[:, None]))
    terms = terms - jnp.exp(log_s) * jnp.sum(terms, axis=-1, keepdims=True)
    reach = jnp.where(idle, -jnp.inf, e + log_slope)
    exponent = jax.lax.stop_gradient(jnp.max(reach))
    exponent = jnp.where(exponent == -jnp.inf, 0.0, exponent)
    return (sign * jnp.exp(reach - exponent))[:, None] * terms, exponent


def _sum(one: tuple[Array, Array], two: tuple[Array, Array]) -> tuple[Array, Array]:
    """e^e1 g1 + e^e2 g2 as (mantissa, exponent); a part that is exactly zero has no say."""
    (g1, e1), (g2, e2) = one, two
    e1 = jnp.where(jnp.any(g1 != 0), e1, -jnp.inf)
    e2 = jnp.where(jnp.any(g2 != 0), e2, -jnp.inf)
    top = jax.lax.stop_gradient(jnp.maximum(e1, e2))
    top = jnp.where(top == -jnp.inf, 0.0, top)
    return g1 * jnp.exp(e1 - top) + g2 * jnp.exp(e2 - top), top


def _log_mean_rise(gaps: Array, best: Array, loss: Loss) -> Array:
    """log mean_i [l(m_i) - l(best_i)] of the log-gaps log(best_i - m_i). ()

    l(best - g) - l(best) = g int_0^1 -l'(best - x g) dx by Gauss-Legendre, exact to rounding for
    the gaps of interest, and in logs: it survives the underflow of the gaps themselves.
    """
    nodes, weights = (jnp.asarray(z) for z in _gauss())
    m = best[:, None] - nodes * jnp.exp(gaps)[:, None]
    sign, log_slope = loss.slope(m)
    total, _ = jax.scipy.special.logsumexp(
        log_slope + jnp.log(weights), b=-sign, axis=-1, return_sign=True
    )
    return jax.scipy.special.logsumexp(gaps + total) - jnp.log(1.0 * len(gaps))


def _gauss(points: int = 20) -> tuple[Any, Any]:
    import numpy as np

    x, w = np.polynomial.legendre.leggauss(points)
    return (x + 1) / 2, w / 2


@dataclass(frozen=True)
class NextTokenObjective(Objective):
    """L = -mean_i log(attention mass on the positions that hold the label of input i).

    With r = logsumexp(a of the others) - logsumexp(a of the label's), l = log(1 + e^r) and
    da_t = s_t for the others, -(1 - mass) q_t for the label's, q = softmax among them; over n.
    """

    def value(self, blocks: Blocks, data: Blocks) -> Array:
        """-mean_i log mass_i, to full precision where the mass is 1 to within rounding."""
        a = self.logits(blocks, data)
        return jnp.mean(jnp.logaddexp(0.0, _log_odds_against(a, data["is_label"])))

    def log_value(self, blocks: Blocks, data: Blocks) -> Array:
        """log L, past the underflow of 1 - mass: l -> e^r. ()"""
        r = _log_odds_against(self.logits(blocks, data), data["is_label"])
        small = jnp.log(jnp.logaddexp(0.0, jnp.maximum(r, -40.0)))
        logs = jnp.where(r < -40, r, small)
        return jax.scipy.special.logsumexp(logs) - jnp.log(1.0 * len(logs))

    def gradient(self, blocks: Blocks, data: Blocks) -> tuple[Blocks, Blocks]:
        """(mantissas, exponents), a block each: grad L = e^exponent * mantissa."""
        a, through_logits = jax.vjp(lambda b: self.logits(b, data), blocks)
        da, exponent = _mass_slopes(a, data["is_label"])
        grads = through_logits(da)[0]
        return grads, dict.fromkeys(grads, exponent)


def _log_odds_against(a: Array, is_label: Array) -> Array:
    """r = logsumexp(others) - logsumexp(label's); -inf where there are no others. (n,)"""
    lse = jax.scipy.special.logsumexp
    return lse(a, axis=-1, where=~is_label) - lse(a, axis=-1, where=is_label)


def _mass_slopes(a: Array, is_label: Array) -> tuple[Array, Array]:
    """da as (mantissa, exponent). (n, T), ()"""
    r = _log_odds_against(a, is_label)
    log_rest = -jnp.logaddexp(0.0, -r)  # log(1 - mass)
    exponent = jax.lax.stop_gradient(jnp.max(log_rest))
    exponent = jnp.where(exponent == -jnp.inf, 0.0, exponent)
    log_s = log_weights(a)
    among = log_weights(jnp.where(is_label, a, -jnp.inf))
    others = jnp.exp(jnp.where(is_label, -jnp.inf, log_s - exponent))
    own = jnp.exp(jnp.where(is_label, among + log_rest[:, None] - exponent, -jnp.inf))
    return (others - own) / a.shape[0], exponent


OBJECTIVES = {"tokens": Objective, "counts": Objective, "next": NextTokenObjective}
