"""`train`: check, choose the module that runs the method, and put its outcome into words."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens._extras import require
from keytokens.dynamics.job import Job, Outcome, log_spaced
from keytokens.dynamics.methods import Method, NormalizedDescent
from keytokens.dynamics.models import TokenModel, token_data
from keytokens.dynamics.starts import blocks_at_start
from keytokens.dynamics.trajectory import Parameters, Trajectory, bare
from keytokens.errors import raise_input
from keytokens.heads import Head, check_head
from keytokens.losses import Loss, loss_of
from keytokens.problem import TokenProblem, token_scores

_METHODS = Method.__args__  # type: ignore[attr-defined]


def train(
    problem: TokenProblem,
    over: str = "p",
    method: Method | None = None,
    steps: int = 2000,
    loss: str | Loss | Callable[[Any], Any] = "logistic",
    head: Head | None = None,
    start: Parameters | None = None,
    save: int | Sequence[int] = 200,
) -> Trajectory:
    """Train one problem, or every problem of a batch, and say why each run ended.

    over: p | W | KQ | vp. method: NormalizedDescent(0.1) unless given. loss: logistic,
    exponential, linear or your own function of one margin. head: None is the linear v; any
    differentiable function of the pooled token. start: zeros unless given (v: the problem's;
    K, Q: Gaussian with deviation 0.1). save: at most that many points, log-spaced from 0 to
    `steps`, or the iterations themselves.
    """
    method = NormalizedDescent() if method is None else method
    _check(problem, over, method, head)
    stops = _stops(check.integer("steps", steps, least=1), save)
    with float64():
        job = _job(problem, over, method, loss_of(loss), head, start, stops)
        outcome = import_module(f"keytokens.dynamics.{method.runner}").run(job)
        return _trajectory(job, outcome, over, problem.batch)


def float64() -> Any:
    """The context in which jax keeps float64, and outside of which the user's setting stays."""
    return require("jax", "lab").enable_x64(True)


def _check(problem: TokenProblem, over: str, method: Method, head: Head | None) -> None:
    check.one_of("over", over, ("p", "W", "KQ", "vp"))
    if not isinstance(method, _METHODS):
        names = ", ".join(m.__name__ for m in _METHODS)
        raise_input("method", f"be one of {names}", repr(method))
    if over in ("W", "KQ") and problem.query is None:
        raise_input("problem", f"have queries to train {over}", "query=None")
    if over == "vp" and head is not None:
        raise_input("head", "be None over vp, where the linear v is trained", repr(head))
    check_head(head, problem.d)


def _stops(steps: int, save: int | Sequence[int]) -> Integers:
    """The iterations to save: the last is always among them."""
    if isinstance(save, (int, np.integer)):
        return log_spaced(steps, check.integer("save", save, least=1))
    stops = check.indices("save", save, steps + 1, "iteration", "place")
    check.axes("save", stops, (1,))
    return np.unique(np.append(stops, steps))


def _job(
    problem: TokenProblem, over: str, method: Any, loss: Loss, head: Any, start: Any, stops: Any
) -> Job:
    from keytokens.dynamics.objective import Objective

    blocks = blocks_at_start(problem, over, start)
    best = token_scores(problem).max(axis=-1).reshape(-1, problem.n)
    objective = Objective(TokenModel(over), loss, head)
    return Job(objective, token_data(problem, over), method, blocks, stops, best)


def _trajectory(job: Job, outcome: Outcome, over: str, batch: int | None) -> Trajectory:
    """Norms, losses and final attention of the saved points; the batch axis only if asked for."""
    norms, losses, attention = measured(job, outcome.path)
    last = {name: a[:, -1] for name, a in outcome.path.items()}
    drop: Callable[[Floats], Floats] = (lambda a: a) if batch is not None else (lambda a: a[0])
    return Trajectory(
        over=over,
        params=bare(over, {name: drop(a) for name, a in last.items()}),
        path=bare(over, {name: drop(a) for name, a in outcome.path.items()}),
        steps=outcome.steps,
        norms=drop(norms),
        losses=drop(losses),
        attention=drop(attention),
        selected=drop(attention.argmax(axis=-1)),
        reason=outcome.reasons if batch is not None else outcome.reasons[0],
    )


def measured(job: Job, path: dict[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """(norms (B, K), losses (B, K), final attention (B, n, T)) of saved points (B, K, ...)."""
    from keytokens.dynamics.measures import losses_and_attention

    K = next(iter(path.values())).shape[1]
    squares = [np.linalg.norm(a.reshape(job.B, K, -1), axis=-1) for a in path.values()]
    norms = np.hypot.reduce(squares, axis=0)
    return norms, *losses_and_attention(job.objective, path, job.data)
