"""Each kind of problem: what can be trained in it, its arrays, and where training starts.

Adding a kind of problem is one function here and one line in `KINDS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.dynamics.models import CountModel, NextTokenModel, TokenModel
from keytokens.problem import EmbeddingProblem, NextTokenProblem, TokenProblem

Blocks = dict[str, Floats]
Problem = TokenProblem | EmbeddingProblem | NextTokenProblem


@dataclass(frozen=True)
class Kind:
    """What `train` must know of a kind of problem; arrays have the problem's own axes."""

    overs: tuple[str, ...]
    model: Callable[[str], Any]
    data: Callable[[Any, str], dict[str, Any]]
    start: Callable[[Any, str], dict[str, Any]]  # a missing block is drawn: see starts.py


def _token_data(problem: TokenProblem, over: str) -> dict[str, Any]:
    names = ("X", "y", "v", "mask", "query" if over in ("W", "KQ") else "keys")
    return {name: getattr(problem, name) for name in names}


def _token_start(problem: TokenProblem, over: str) -> dict[str, Any]:
    *lead, _, _, d = problem.X.shape
    p = np.zeros((*lead, problem.keys.shape[-1]))
    pair = np.zeros((*lead, d, d))
    return {"p": {"p": p}, "vp": {"v": problem.v, "p": p}, "W": {"W": pair}, "KQ": _factors(pair)}[
        over
    ]


def _factors(like: Floats) -> Blocks:
    """K, Q with deviation 0.1, since K = Q = 0 is stationary; problem k's do not depend on B."""
    flat = like.reshape(-1, *like.shape[-2:])
    rngs = [np.random.default_rng((0, k)) for k in range(len(flat))]
    drawn = np.array([0.1 * rng.standard_normal((2, *flat.shape[1:])) for rng in rngs])
    return {"K": drawn[:, 0].reshape(like.shape), "Q": drawn[:, 1].reshape(like.shape)}


def _count_data(problem: EmbeddingProblem, over: str) -> dict[str, Any]:
    present = problem.counts > 0
    p = np.zeros(problem.v.shape) if problem.p is None else problem.p
    log_counts = np.log(np.where(present, problem.counts, 1.0))
    given = {"E": problem.embedding, "p": p, "v": problem.v, "y": problem.y}
    return {"mask": present, "log_counts": log_counts, **given}


def _count_start(problem: EmbeddingProblem, over: str) -> dict[str, Any]:
    p = np.zeros(problem.v.shape) if problem.p is None else problem.p
    blocks = {"E": problem.embedding, "p": p}
    return {name: blocks[name] for name in over}


def _next_data(problem: NextTokenProblem, over: str) -> dict[str, Any]:
    names = ("X", "query", "mask", "is_label")
    return {name: getattr(problem, name) for name in names}


def _next_start(problem: NextTokenProblem, over: str) -> dict[str, Any]:
    *lead, _, d = problem.embedding.shape
    pair = np.zeros((*lead, d, d))
    return {"W": pair} if over == "W" else _factors(pair)


KINDS = {
    "tokens": Kind(("p", "W", "KQ", "vp"), TokenModel, _token_data, _token_start),
    "counts": Kind(("p", "E", "Ep"), CountModel, _count_data, _count_start),
    "next": Kind(("W", "KQ"), NextTokenModel, _next_data, _next_start),
}


def with_batch(arrays: dict[str, Any], batch: int | None) -> dict[str, Any]:
    """A batch axis in front of each array; absent ones are left out."""
    found = {name: np.asarray(a) for name, a in arrays.items() if a is not None}
    return found if batch is not None else {name: a[None] for name, a in found.items()}
