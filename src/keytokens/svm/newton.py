"""From an interior point's l_q direction to one that is exact to rounding."""

import numpy as np

from keytokens._checks import Booleans, Floats

_TIGHT = 1e-6
_STEPS = 30


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # it is verified afterwards
def newton_polish(
    G: Floats, h: Floats, equal: Booleans, w: Floats, multipliers: Floats, q: float
) -> tuple[Floats, Floats]:
    """w = phi(G_A^T mu) with G_A w = h_A on the tight rows A; w and multipliers of ||w||_q^2 / 2.

    phi(u) = sign(u) |u|^(q'-1) inverts the gradient of ||w||_q^q / q, and the equation is the
    gradient of the convex ||G_A^T mu||_q'^q' / q' - h_A^T mu: damped Newton steps, started from
    the interior point's multipliers.
    """
    tight = equal | (G @ w - h <= _TIGHT)
    A, b = G[tight], h[tight]
    size = np.linalg.norm(w, q)
    mu = _newton(A, b, multipliers[tight] * size ** (q - 2), q / (q - 1))
    w = _phi(A.T @ mu, q / (q - 1))
    full = np.zeros(len(h))
    full[tight] = mu * np.linalg.norm(w, q) ** (2 - q)
    return w, np.where(equal, full, np.maximum(full, 0.0))


def _phi(u: Floats, dual: float) -> Floats:
    """sign(u) |u|^(q'-1)."""
    return np.sign(u) * np.abs(u) ** (dual - 1)


def _newton(A: Floats, b: Floats, mu: Floats, dual: float) -> Floats:
    """mu with A phi(A^T mu) = b, as far as halving the step still shrinks the residual."""
    residual = A @ _phi(A.T @ mu, dual) - b
    for _ in range(_STEPS):
        u = np.abs(A.T @ mu)
        slope = (dual - 1) * np.maximum(u, 1e-12 * u.max(initial=1e-300)) ** (dual - 2)
        curvature = (A * slope) @ A.T
        if not (np.isfinite(curvature).all() and np.isfinite(residual).all()):
            break
        step = np.linalg.lstsq(curvature, residual, rcond=None)[0]
        for length in 0.5 ** np.arange(12):
            trial = mu - length * step
            new = A @ _phi(A.T @ trial, dual) - b
            if np.abs(new).max(initial=0.0) < np.abs(residual).max(initial=0.0):
                mu, residual = trial, new
                break
        else:
            break
    return mu
