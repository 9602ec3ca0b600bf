"""Laws of the theory as functions of a user's own run: predicted beside measured.

Each takes what a run leaves behind and says what the theory expects of it; none trains anything.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens.attention import log_weights
from keytokens.dynamics.flow_span import features
from keytokens.dynamics.methods import GradientFlow
from keytokens.dynamics.steps import (
    GradientDescent,
    MirrorDescent,
    NormalizedDescent,
    PolyakDescent,
)
from keytokens.dynamics.trajectory import Trajectory
from keytokens.errors import raise_input
from keytokens.losses import loss_of
from keytokens.problem import TokenProblem


def equivalent_W(p: Any, u: Any, W0: Any = None, p0: Any = None) -> Floats:
    """W_t = W_0 + (p_t - p_0) u^T / ||u||^2: what W-training with logits X W u does. (..., d, d)

    p (..., d) is any number of saved points of a p-run from p0 (None: 0), W0 (d, d) (None: 0)
    must satisfy W0 u = p0. The W-run takes the steps of `equivalent_method`.

    >>> equivalent_W([3.0, 4.0], u=[2.0, 0.0])
    array([[1.5, 0. ],
           [2. , 0. ]])
    """
    p, u = check.float_array("p", p), check.float_array("u", u, 1)
    start = np.zeros(p.shape[-1]) if p0 is None else check.float_array("p0", p0, 1)
    W = np.zeros((p.shape[-1], len(u))) if W0 is None else check.float_array("W0", W0, 2)
    if not u.any():
        raise_input("u", "differ from zero", "all zeros")
    if not np.allclose(W @ u, start, rtol=1e-9, atol=1e-12):
        raise_input("W0", "satisfy W0 u = p0", f"W0 u = {W @ u}, p0 = {start}")
    return W + (p - start)[..., :, None] * (u / (u @ u))


def equivalent_method(method: Any, u: Any) -> Any:
    """The method of W-training that follows p-training by `method`, for the shared query u.

    Gradient descent: step / ||u||^2; normalised: step / ||u||; Polyak and the flow: unchanged.
    """
    length = float(np.linalg.norm(check.float_array("u", u, 1)))
    powers = {GradientDescent: 2, NormalizedDescent: 1, PolyakDescent: 0, GradientFlow: 0}
    if type(method) not in powers:
        rule = "be gradient, normalised or Polyak descent, or the flow (l_q geometry mixes p and u)"
        raise_input("method", rule, repr(method))
    power = powers[type(method)]
    if power and callable(method.step):
        raise_input("step", "be a number here", "a function")
    return replace(method, step=method.step / length**power) if power else method


def key_inequality(
    problem: TokenProblem, p: Any, direction: Any, loss: str = "logistic", over: str = "p"
) -> Floats:
    """cos(grad L(p_k), p^mm(opt)) at each point p (k, d): below 0 for every finite p, always,

    when each input's non-optimal scores are equal; else it may fail. `direction` is p^mm(opt),
    from `att_svm`. At saturation the gradient is far below the least float: its cosine is not.
    """
    from keytokens.dynamics.flow_fields import linear_field

    phi = _features(problem, over)
    shape = problem.keys.shape[-1:] if over == "p" else 2 * problem.X.shape[-1:]
    points, goal = check.float_array("p", p), check.float_array("direction", direction)
    check.shape("direction", goal, shape)
    check.shape("points of p", points[(0,) * (points.ndim - len(shape))], shape)
    points, goal = points.reshape(-1, phi.shape[-1]), goal.ravel()
    data: dict[str, Any] = {"X": problem.X, "y": problem.y, "v": problem.v}
    data |= {} if problem.mask is None else {"mask": problem.mask}
    field, _ = linear_field(phi, data, loss_of(loss))
    pulls = np.stack([field(point)[0] for point in points])
    with np.errstate(invalid="ignore"):
        return -(pulls @ goal) / (np.linalg.norm(pulls, axis=-1) * np.linalg.norm(goal))


@dataclass(frozen=True, eq=False)
class Law:
    """A law beside a run: predicted and measured (K,), and the ratio at the end."""

    predicted: Floats
    measured: Floats

    @property
    def ratio(self) -> float:
        """measured / predicted at the last point; 1 where the leading order is exact."""
        return float(self.measured[..., -1].mean() / self.predicted[..., -1].mean())

    def __repr__(self) -> str:
        return f"Law(measured / predicted = {self.ratio:.4g} at the end)"


def growth_law(run: Trajectory, method: Any, margin: float | None = None) -> Law:
    """||w_t||: log(t) / margin for constant-step descent (margin of the Att-SVM), step * t for

    normalised descent, (step * t)^(1 / (q - 1)) for mirror descent (the l_q norm). Leading order.
    """
    if callable(getattr(method, "step", None)):
        raise_input("step", "be a number here", "a function")
    t = np.maximum(np.asarray(run.steps, dtype=np.float64), 1.0)
    if isinstance(method, NormalizedDescent):
        return Law(method.step * t, run.norms)
    if isinstance(method, MirrorDescent):
        norms = np.linalg.norm(_flat(run), ord=method.q, axis=-1)
        return Law((method.step * t) ** (1 / (method.q - 1)), norms)
    if not isinstance(method, GradientDescent):
        raise_input("method", "be normalised, mirror or constant-step descent", repr(method))
    return Law(np.log(t) / check.positive("margin", margin), run.norms)


def saturation_law(problem: TokenProblem, run: Trajectory, margin: float) -> Law:
    """log(1 - s_selected) of the slowest input ~ -||w|| margin, in logs: no underflow. (K,)"""
    check.positive("margin", margin)
    phi = _features(problem, run.over)
    points = _flat(run)
    a = np.einsum("itk,jk->jit", phi, points)
    a = a if problem.mask is None else np.where(problem.mask, a, -np.inf)
    return Law(-run.norms * margin, log_rest(a, np.asarray(run.selected)).max(axis=-1))


def log_rest(a: Floats, selected: Integers) -> Floats:
    """log(1 - s_selected) of logits a (..., n, T), without underflow or cancellation. (..., n)"""
    others = np.where(np.arange(a.shape[-1]) == selected[..., None], -np.inf, log_weights(a))
    top = others.max(axis=-1, keepdims=True)
    top = np.where(top == -np.inf, 0.0, top)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(others - top).sum(axis=-1)) + top[..., 0]


def _features(problem: TokenProblem, over: str) -> Floats:
    """phi[i, t] of one problem, with logits <phi, w>. (n, T, k)"""
    check.one_of("over", over, ("p", "W"))
    if problem.batch is not None:
        raise_input("problem", "be one problem", f"a batch of {problem.batch}")
    if over == "W" and problem.query is None:
        raise_input("problem", "have queries over W", "query=None")
    return features(problem.keys) if over == "p" else features(problem.X, problem.query)


def _flat(run: Trajectory) -> Floats:
    """The path as rows. (K, k)"""
    if run.batch is not None or run.over not in ("p", "W"):
        raise_input("run", "be one problem's run over p or W", repr(run))
    return np.asarray(run.path).reshape(len(run.norms), -1)


@dataclass(frozen=True, eq=False)
class EarlyLaw:
    """One step of step size eta on E, one of size delta on p, at infinite width. Each (V,).

    value = E v = (eta/2) |v|^2 alpha;  attention = E p = -delta [da + tilt], where
    tilt = (eta^2/4) |v|^2 alpha <alpha, da>, linear in alpha;  alpha: average signed frequency.
    """

    value: Floats
    attention: Floats
    alpha: Floats
    da: Floats
    tilt: Floats

    def __repr__(self) -> str:
        return f"EarlyLaw(V={len(self.alpha)}, tilt_share={self.tilt_share:.3g})"

    @property
    def tilt_share(self) -> float:
        """||tilt|| / ||da||: near 0 the curve is even in alpha, near 1 and above it is tilted."""
        size = float(np.linalg.norm(self.da))
        return float(np.linalg.norm(self.tilt)) / size if size > 0 else 0.0


def early_law(counts: Any, y: Any, eta: float, delta: float = 1.0, v_norm: float = 1.0) -> EarlyLaw:
    """Logistic loss, p from 0, embeddings orthonormal and orthogonal to v (infinite width).

    counts (n, V), dense or sparse; with w_is = N_i(s) / T_i and b = (eta/2) |v|^2 alpha,
    da_s = (1/n) sum_i -y_i sigma(-y_i f_i) w_is (b_s - f_i), f_i = sum_s w_is b_s. sum_s da_s = 0.
    """
    from scipy.sparse import csr_array

    N, y = csr_array(counts, dtype=np.float64), check.float_array("y", y, 1)
    check.shape("y", y, (N.shape[0],), "(n,)")
    check.signs("y", y)
    check.positive("eta", eta)
    check.number("delta", delta)
    check.positive("v_norm", v_norm)
    if (N.data < 0).any() or (N.sum(axis=1) <= 0).any():
        raise_input("counts", "be zero or positive, with a token in every sentence", "a bad row")
    w = N.multiply(1 / np.asarray(N.sum(axis=1))[:, None]).tocsr()
    alpha = w.T @ y / len(y)
    value = eta / 2 * v_norm**2 * alpha
    f = w @ value
    r = -y / (1 + np.exp(y * f)) / len(y)
    da = value * (w.T @ r) - w.T @ (r * f)
    tilt = eta**2 / 4 * v_norm**2 * alpha * (alpha @ da)
    return EarlyLaw(value, -delta * (da + tilt), alpha, da, tilt)
