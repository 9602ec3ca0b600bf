"""What several experiments share: angles, repeated problems, and the textbook descent."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.problem import TokenProblem

# Attention sees coordinates 1 and 2 of a token; coordinate 3 is its score (v = e3).
PLANE = np.eye(3)[:, :2]


def direction_gap(a: Any, b: Any, axes: int = 1) -> Any:
    """1 - cos(a, b) = |a/|a| - b/|b||^2 / 2 over the last `axes` axes, exact near 0.

    NaN where one of them is zero: it has no direction.
    """
    last = tuple(range(-axes, 0))
    with np.errstate(invalid="ignore"):
        a, b = (x / np.sqrt(np.sum(x * x, axis=last, keepdims=True)) for x in (a, b))
    return 0.5 * np.sum((a - b) ** 2, axis=last)


def repeated(problem: TokenProblem, batch: int) -> TokenProblem:
    """The same problem `batch` times, so that many starts train at once."""
    parts = (problem.X, problem.y, problem.v, problem.query, problem.mask, problem.W)
    return TokenProblem(
        *(None if part is None else np.broadcast_to(part, (batch, *part.shape)) for part in parts)  # type: ignore[arg-type]
    )


def stacked(problems: list[TokenProblem]) -> TokenProblem:
    """Problems of one shape as one batch."""
    names = ("X", "y", "v", "query", "mask", "W")
    first = problems[0]
    return TokenProblem(
        *(
            None if getattr(first, name) is None else np.stack([getattr(p, name) for p in problems])  # type: ignore[arg-type]
            for name in names
        )
    )


def plane_problem(points: Any, scores: Any, y: Any = None) -> TokenProblem:
    """Tokens (n, T, 2) in the plane with scores (n, T) = y * coordinate 3."""
    points, scores = np.asarray(points, float), np.asarray(scores, float)
    y = np.ones(len(points)) if y is None else np.asarray(y, float)
    X = np.concatenate([points, (scores * y[:, None])[..., None]], axis=-1)
    return TokenProblem(X, y, np.array([0.0, 0.0, 1.0]), W=PLANE)


def textbook_descent(
    keys: Floats, scores: Floats, start: Any, steps: int, rate: float = 0.1, dtype: Any = np.float32
) -> Floats:
    """Normalised descent as notebooks write it, logistic loss. (steps + 1, d)

    grad L = -mean_i sigma(-m_i) K_i^T (diag s_i - s_i s_i^T) gamma_i: once one token holds all
    the weight, this is rounding noise, and dividing by its norm makes the noise a full step.
    """
    keys, scores, p = (np.asarray(a, dtype) for a in (keys, scores, start))
    path = [p]
    for _ in range(steps):
        gradient = _textbook_gradient(keys, scores, p)
        norm = np.sqrt(np.sum(gradient * gradient))
        if norm > 0:
            p = p - dtype(rate) * gradient / norm
        path.append(p)
    return np.array(path, dtype=float)


def _textbook_gradient(keys: Any, scores: Any, p: Any) -> Any:
    logits = keys @ p
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    margin = (weights * scores).sum(-1, keepdims=True)
    slope = -1 / (1 + np.exp(margin)) / margin.dtype.type(len(keys))
    return np.einsum("nt,ntd->d", slope * weights * (scores - margin), keys)


def stops(steps: int, *marks: int) -> list[int]:
    """About 130 log-spaced iterations up to `steps`, and the marks a verdict asks for."""
    spaced = np.unique(np.round(np.geomspace(1, steps, 160)).astype(int))
    return [int(k) for k in np.unique(np.concatenate([[0, steps], spaced, marks]))]


def worst(values: Any, pick: Callable[[Any], Any] = np.max) -> float:
    """The deciding number of a column; NaN when nothing was measured."""
    array = np.asarray([v for v in values if v is not None], dtype=float)
    return float(pick(array)) if array.size and np.isfinite(array).all() else float("nan")


def slope(x: Any, y: Any) -> float:
    """The least-squares slope of y against x."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return float(np.polyfit(x - x.mean(), y, 1)[0])


def bands(axis: Any, rows: Any, x: str, y: str, color: str, label: str = "", ls: str = "-") -> None:
    """The median of y against x, between its quartiles."""
    import polars as pl

    column = pl.col(y)
    at = rows.group_by(x).agg(
        column.median().alias("middle"),
        column.quantile(0.25, "linear").alias("low"),
        column.quantile(0.75, "linear").alias("high"),
    )
    at = at.sort(x)
    axis.plot(at[x], at["middle"], color=color, label=label or None, ls=ls)
    axis.fill_between(at[x], at["low"], at["high"], color=color, alpha=0.2, lw=0)
