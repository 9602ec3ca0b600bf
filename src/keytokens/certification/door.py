"""`certify`: read the problem, read the answer, judge."""

from dataclasses import replace
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens.certification.answers import Answer, read_answer
from keytokens.certification.case import Case
from keytokens.certification.certificate import Certificate
from keytokens.certification.dense import judge
from keytokens.dynamics.trajectory import Trajectory
from keytokens.errors import raise_input
from keytokens.heads import check_head
from keytokens.problem import EmbeddingProblem, NextTokenProblem, TokenProblem


def certify(
    problem: Any,
    answer: Any,
    over: str | None = None,
    threshold: float = 1e-3,
    norm: Any = None,
    loss: Any = "logistic",
    head: Any = None,
) -> Any:
    """Judge a run, or an answer that anybody found, from the problem and the answer alone.

    answer: a `Trajectory`; an array p (d,) or W (d, d); {"K", "Q"} (d, m) each, as in a trained
    network's head; {"v", "p"}; {"E", "p"}. threshold: the weight above which a token may count as
    kept. norm: of the Att-SVM; l2 unless given, nuclear for K and Q, q for mirror descent. loss and
    head: those of the training; they decide what is at rest. A batch gives a tuple.

    The key and query matrices of a trained network's head, brought as arrays with the tokens,
    labels and read-out that it saw (a score is y <v, x>; the logits are <K^T x, Q^T z>):

    >>> import numpy as np, keytokens as kt
    >>> X = np.array([[[1.0, 0], [0, 1]], [[0, 1], [-1, 0]]])
    >>> problem = kt.TokenProblem(X, y=[1, 1], v=[1.0, 0], query=[[1.0, 0], [1, 0]])
    >>> K, Q = np.array([[5.0], [0.0]]), np.array([[3.0], [1.0]])
    >>> verdict = kt.certify(problem, {"K": K, "Q": Q})
    >>> verdict.selected.tolist(), verdict.optimality
    ([0, 0], 'global')
    >>> round(verdict.best_margin, 6), round(verdict.margin_ratio, 6)
    (1.0, 0.948683)
    """
    threshold = check.positive("threshold", threshold)
    if threshold >= 0.5:
        raise_input("threshold", "be below 1/2", f"{threshold:g}")
    if not isinstance(problem, (TokenProblem, EmbeddingProblem, NextTokenProblem)):
        raise_input(
            "problem", "be a token, embedding or next-token problem", type(problem).__name__
        )
    check_head(head, problem.d)
    options = {"over": over, "threshold": threshold, "norm": norm, "loss": loss, "head": head}
    if problem.batch is None:
        return _one(problem, answer, **options)
    _check_batch(answer, problem.batch)
    return tuple(_one(problem[k], _pick(answer, k), **options) for k in range(problem.batch))


def _check_batch(answer: Any, batch: int) -> None:
    """One answer for each problem."""
    if isinstance(answer, Trajectory):
        lengths = [answer.batch or 1]
    else:
        arrays = answer.values() if isinstance(answer, dict) else [answer]
        lengths = [len(np.atleast_1d(a)) for a in arrays]
    if any(length != batch for length in lengths):
        raise_input("answer", f"hold one answer for each of {batch} problems", f"{lengths[0]}")


def _pick(answer: Any, k: int) -> Any:
    """The k-th answer of a batch."""
    if isinstance(answer, dict):
        return {name: np.asarray(a)[k] for name, a in answer.items()}
    return answer[k]


def _one(problem: Any, answer: Any, over: str | None, **options: Any) -> Certificate:
    return _READERS[type(problem)](problem, answer, over, **options)


def _token(problem: TokenProblem, answer: Any, over: str | None, **options: Any) -> Certificate:
    d = problem.d
    shapes = {"p": problem.keys.shape[-1:], "W": (d, d), "v": (d,)}
    found = read_answer(answer, over, shapes)
    if found.over != "vp":
        return judge(Case(problem, found, **_with_norm(options, found)))
    from keytokens.certification.joint import JointCase

    trained = replace(problem, v=found.blocks["v"])
    return judge(JointCase(trained, found, **_with_norm(options, found)))


def _with_norm(options: dict[str, Any], answer: Answer) -> dict[str, Any]:
    if options["norm"] is None:
        options["norm"] = "nuclear" if answer.over == "KQ" else "l2"
    return options


def _embedding(
    problem: EmbeddingProblem, answer: Any, over: str | None, **options: Any
) -> Certificate:
    """Tokens of a sentence are its distinct ones, each with the log of its count."""
    shapes = {"p": (problem.d,), "W": (0,), "E": problem.embedding.shape}
    found = read_answer(answer, over, shapes)
    if found.over not in ("p", "Ep"):
        raise_input("over", "be 'p' or 'Ep' for an embedding problem", repr(found.over))
    E = found.blocks.get("E", problem.embedding)
    most = int((problem.counts > 0).sum(axis=-1).max())
    order = np.argsort(problem.counts == 0, axis=-1, kind="stable")[:, :most]
    counts = np.take_along_axis(problem.counts, order, axis=-1)
    tokens = TokenProblem(E[order], problem.y, problem.v, mask=counts > 0)
    log_counts = np.log(np.where(counts > 0, counts, 1.0))
    bare = Answer("p", {"p": found.blocks["p"]}, None, found.reason)
    place: dict[str, Any] = {"log_counts": log_counts, "ids": order, "vocabulary": problem.V}
    return judge(Case(tokens, bare, **_with_norm(options, bare), **place))


def _next(problem: NextTokenProblem, answer: Any, over: str | None, **options: Any) -> Certificate:
    from keytokens.certification.next_token import judge_next

    found = read_answer(answer, over, {"W": (problem.d, problem.d), "p": (0,)})
    return judge_next(problem, found, options["threshold"])


_READERS: dict[type, Any] = {
    TokenProblem: _token,
    EmbeddingProblem: _embedding,
    NextTokenProblem: _next,
}
