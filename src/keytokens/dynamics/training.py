"""`train`: check, choose the module that runs the method, and put its outcome into words."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Floats, Integers
from keytokens._extras import require
from keytokens.dynamics.job import Job, Outcome, log_spaced
from keytokens.dynamics.kinds import KINDS, Problem, with_batch
from keytokens.dynamics.methods import METHODS, Method, RegularizationPath
from keytokens.dynamics.starts import blocks_at_start
from keytokens.dynamics.steps import NormalizedDescent, PolyakDescent
from keytokens.dynamics.trajectory import Parameters, Reason, Trajectory, bare
from keytokens.errors import raise_input
from keytokens.heads import Head, check_head
from keytokens.losses import Loss, loss_of


def train(
    problem: Problem,
    over: str = "p",
    method: Method | None = None,
    steps: int = 2000,
    loss: str | Loss | Callable[[Any], Any] | None = None,
    head: Head | None = None,
    start: Parameters | None = None,
    save: int | Sequence[int] = 200,
) -> Trajectory:
    """Train one problem, or every problem of a batch, and say why each run ended.

    over: p, W, KQ or vp of a TokenProblem; p, E or Ep of an EmbeddingProblem; W or KQ of a
    NextTokenProblem. method: NormalizedDescent(0.1) unless given. loss: logistic (the default),
    exponential, linear or your own function of one margin; a NextTokenProblem has its own.
    head: None is the linear v; any differentiable function of the pooled token. start: zeros
    unless given (v and E: the problem's; K, Q: Gaussian with deviation 0.1). save: at most that
    many points, log-spaced from 0 to `steps`, or the iterations themselves.
    """
    method = NormalizedDescent() if method is None else method
    stops = _stops(check.integer("steps", steps, least=1), save)
    _check(problem, over, method, loss, head)
    job = _job(problem, over, method, loss_of(loss or "logistic"), head, start, stops)
    if not isinstance(method, METHODS):
        _check_own(job)
    runner = _runner(job)
    with nullcontext() if runner == "fast" else float64():
        outcome = import_module(f"keytokens.dynamics.{runner}").run(job)
        return _trajectory(job, outcome, problem.batch)


def float64() -> Any:
    """The context in which jax keeps float64, and outside of which the user's setting stays."""
    return require("jax", "lab").enable_x64(True)


def _check(problem: Problem, over: str, method: Method, loss: object, head: Head | None) -> None:
    if getattr(problem, "kind", None) not in KINDS:
        raise_input("problem", "be a TokenProblem, EmbeddingProblem or NextTokenProblem", problem)
    check.one_of("over", over, KINDS[problem.kind].overs)
    _check_kind(method)
    if over in ("W", "KQ") and problem.query is None:  # type: ignore[union-attr]
        raise_input("problem", f"have queries to train {over}", "query=None")
    if over == "vp" and head is not None:
        raise_input("head", "be None over vp, where the linear v is trained", repr(head))
    if problem.kind == "next" and not (loss is None and head is None):
        raise_input("loss and head", "be left out for a NextTokenProblem", f"{loss!r}, {head!r}")
    check_head(head, problem.d)
    _check_method(problem, over, method, head)


def _check_kind(method: Any) -> None:
    """One of ours, or a step rule: see steps.py."""
    if isinstance(method, METHODS):
        return
    if isinstance(method, type) or getattr(method, "runner", None) != "descent":
        names = ", ".join(m.__name__ for m in METHODS)
        rule = f'be one of {names}, or a step rule of your own with runner = "descent"'
        raise_input("method", rule, repr(method))


def _check_method(problem: Problem, over: str, method: Method, head: Head | None) -> None:
    known = problem.kind == "tokens" and over != "vp" and head is None
    if isinstance(method, PolyakDescent) and method.best_loss is None and not known:
        raise_input("best_loss", "be given but for a linear head over p, W or KQ", "None")
    if isinstance(method, RegularizationPath):
        method.check_over(over)
    step = getattr(method, "step", None)
    if callable(step):
        _check_step(step)


def _check_step(step: Callable[[Any, Any], Any]) -> None:
    """Trace the step (nothing is compiled) to see that it makes one number of (k, norm)."""
    jax = require("jax", "lab")
    try:
        with float64():
            out = jax.eval_shape(step, *(jax.ShapeDtypeStruct((), t) for t in ("int64", "float64")))
    except Exception as error:
        rule = "be a function of (k, norm), in plain arithmetic or jax.numpy"
        raise_input("step", rule, str(error).splitlines()[0])
    if getattr(out, "shape", ()) != ():
        raise_input("step", "return one number for one (k, norm)", f"shape {out.shape}")


def _stops(steps: int, save: int | Sequence[int]) -> Integers:
    """The iterations to save: the last is always among them."""
    if isinstance(save, (int, np.integer)):
        return log_spaced(steps, check.integer("save", save, least=1))
    stops = check.indices("save", save, steps + 1, "iteration", "place")
    check.axes("save", stops, (1,))
    return np.unique(np.append(stops, steps))


def _job(
    problem: Problem, over: str, method: Any, loss: Loss, head: Any, start: Any, stops: Any
) -> Job:
    kind = KINDS[problem.kind]
    data = with_batch(kind.data(problem, over), problem.batch)
    default = with_batch(kind.start(problem, over), problem.batch)
    blocks = blocks_at_start(default, over, start, problem.batch)
    return Job(problem.kind, kind.model(over), loss, head, data, method, blocks, stops)


def _runner(job: Job) -> str:
    """The method's own module, or the compiled loop for the commonest descent."""
    if job.method.runner != "descent":
        return job.method.runner
    from keytokens.dynamics import fast

    return "fast" if fast.serves(job) else "descent"


def _check_own(job: Job) -> None:
    from keytokens.dynamics.rules import check_rule

    with float64():
        check_rule(job)


def _trajectory(job: Job, outcome: Outcome, batch: int | None) -> Trajectory:
    """Norms, losses and final attention of the saved points; the batch axis only if asked for."""
    over, path = job.model.over, outcome.path
    losses, attention = _measured(job, outcome)
    lost = [bool(np.isnan(row).any()) for row in losses]
    reasons = tuple(
        Reason.UNDEFINED if nan else r for nan, r in zip(lost, outcome.reasons, strict=True)
    )
    drop: Callable[[Any], Any] = (lambda a: a) if batch is not None else (lambda a: a[0])
    return Trajectory(
        over=over,
        params=bare(over, {name: drop(a[:, -1]) for name, a in path.items()}),
        path=bare(over, {name: drop(a) for name, a in path.items()}),
        steps=outcome.steps,
        norms=drop(joint_norms(path) if outcome.norms is None else outcome.norms),
        losses=drop(losses),
        attention=drop(attention),
        selected=drop(attention.argmax(axis=-1)),
        reason=reasons if batch is not None else reasons[0],
    )


def joint_norms(path: dict[str, Floats]) -> Floats:
    """The Euclidean norm of all blocks together, no square overflowing. (B, K)"""
    flat = [a.reshape(*a.shape[:2], -1) for a in path.values()]
    top = np.maximum.reduce([np.abs(a).max(axis=-1) for a in flat])
    safe = np.where(top == 0, 1.0, top)
    return top * np.sqrt(sum(((a / safe[..., None]) ** 2).sum(axis=-1) for a in flat))


def _measured(job: Job, outcome: Outcome) -> tuple[Floats, Floats]:
    """(losses (B, K), attention (B, n, T)), from the runner where it has them."""
    if outcome.losses is not None and outcome.attention is not None:
        return outcome.losses, outcome.attention
    from keytokens.dynamics.measures import losses_and_attention

    return losses_and_attention(job.objective, outcome.path, job.data)
