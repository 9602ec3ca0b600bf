"""Every problem of a batch at once: rows, certificates and Farkas checks vectorised.

Only DAQP itself is called one problem at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.svm import certificate as certify
from keytokens.svm import dense
from keytokens.svm.dense import Verdict
from keytokens.svm.rows import Rows
from keytokens.svm.solution import Certificate

_BLOCK = 2**20  # numbers of G held at once: 8 MB


@dataclass(eq=False)
class Answers:
    """What is known of B problems: direction (B, ...), multipliers and farkas (B, n, S)."""

    direction: Floats
    multipliers: Floats
    farkas: Floats
    verdicts: list[Verdict]
    certificate: Certificate


def solve_rows(rows: Rows) -> Answers:
    """Max-margin directions of all problems, each verified or proved impossible."""
    scale = dense.power_of_two(rows.lengths.max(axis=(1, 2), initial=0.0))
    answers = _solve_scaled(replace(rows, differences=rows.differences / _on(scale, 4)))
    answers.direction /= _on(scale, answers.direction.ndim)
    answers.multipliers /= _on(scale, 3) ** 2
    found = answers.certificate
    found = replace(found, primal=found.primal / scale**2, dual=found.dual / scale**2)
    answers.certificate = found
    return answers


def _solve_scaled(rows: Rows) -> Answers:
    p, multipliers = _loop(rows, dense.call_daqp, (rows.columns,))
    direction = _shaped(p, rows)
    found = certify_answers(rows, direction, multipliers)
    solved = dense.is_solved(found)
    farkas = np.zeros_like(multipliers)
    verdicts = [Verdict.SOLVED] * len(p)
    answers = Answers(direction, multipliers, farkas, verdicts, found)
    if not solved.all():
        _decide(rows, answers, np.flatnonzero(~solved))
    return answers


def _decide(rows: Rows, answers: Answers, open_: Any) -> None:
    """Farkas vectors of the problems left open; the few that remain one by one."""
    part = take(rows, open_)
    (u,) = _loop(part, lambda *row: (dense.call_elastic(*row),), ())
    u = certify.feasible_multipliers(u, part.equal)
    residual, _ = farkas_of(part, u)
    gain, count = (part.h * u).sum(axis=(1, 2)), np.count_nonzero(u, axis=(1, 2))
    proved = certify.is_farkas_proof(residual, gain, count)
    for where, k in enumerate(open_):
        verdict = Verdict.INFEASIBLE
        if not proved[where]:
            verdict = _settle_one(take(part, [where]), u[where], answers, k)
        else:
            answers.farkas[k] = u[where]
        answers.verdicts[k] = verdict
    lost = [k for k in open_ if answers.verdicts[k] is not Verdict.SOLVED]
    answers.direction[lost] = np.nan
    answers.multipliers[lost] = 0.0
    answers.certificate = certify_answers(rows, answers.direction, answers.multipliers)
    for name, value in (("primal", np.inf), ("dual", np.inf), ("gap", np.nan)):
        getattr(answers.certificate, name)[lost] = value


def _settle_one(row: Rows, u: Floats, answers: Answers, k: int) -> Verdict:
    here = row.present[0].ravel()
    G = row.matrix(slice(0, 1))[0][here]
    h, equal = row.h[0].ravel()[here], row.equal[0].ravel()[here]
    p, multipliers, verdict = dense.settle(G, h, equal, u.ravel()[here])
    target = answers.multipliers if verdict is Verdict.SOLVED else answers.farkas
    full = np.zeros(here.size)
    full[here] = multipliers
    target[k] = full.reshape(target[k].shape)
    answers.direction[k] = p.reshape(answers.direction[k].shape)
    return verdict


def take(rows: Rows, index: Any) -> Rows:
    """The rows of some problems of the batch."""
    names = ("differences", "h", "present", "equal", "tokens")
    parts = {name: getattr(rows, name)[index] for name in names}
    query = None if rows.query is None else rows.query[index]
    return Rows(query=query, T=rows.T, **parts)


def _loop(rows: Rows, call: Any, first: tuple[int, ...]) -> tuple[Floats, ...]:
    """`call(G, h, equal)` on every problem; its last result lives on rows, absent ones 0."""
    B, n, S = rows.h.shape
    out = [np.zeros((B, k)) for k in first] + [np.zeros((B, n * S))]
    h, equal, present = (x.reshape(B, -1) for x in (rows.h, rows.equal, rows.present))
    whole = present.all(axis=1)
    for k, G in _matrices(rows):
        if whole[k]:
            results = call(G, h[k], equal[k])
            out[-1][k] = results[-1]
        elif present[k].any():
            here = present[k]
            results = call(G[here], h[k][here], equal[k][here])
            out[-1][k, here] = results[-1]
        else:
            continue
        for target, result in zip(out[:-1], results, strict=False):
            target[k] = result
    return *out[:-1], out[-1].reshape(B, n, S)


def _matrices(rows: Rows) -> Iterator[tuple[int, Floats]]:
    """(k, G of problem k), built for many problems at a time."""
    B, n, S = rows.h.shape
    step = max(1, _BLOCK // max(1, n * S * rows.columns))
    for start in range(0, B, step):
        for offset, G in enumerate(rows.matrix(slice(start, start + step))):
            yield start + offset, G


def certify_answers(rows: Rows, direction: Floats, multipliers: Floats) -> Certificate:
    """The certificate of every problem. Each field (B,)"""
    B = len(direction)
    multipliers = certify.feasible_multipliers(multipliers, rows.equal)
    parts = (rows.apply(direction), rows.combine(multipliers), rows.lengths, rows.h, rows.equal)
    Gp, GTlambda, lengths, h, equal = (x.reshape(B, -1) for x in parts)
    flat = direction.reshape(B, -1)
    return certify.certificate(Gp, GTlambda, lengths, h, equal, flat, multipliers.reshape(B, -1))


def farkas_of(rows: Rows, u: Floats) -> tuple[Any, Any]:
    """(residual, least norm) of every problem's Farkas vector. Each (B,)"""
    B = len(u)
    parts = (rows.combine(u), rows.lengths, rows.h, rows.equal, u)
    return certify.farkas_residual(*(x.reshape(B, -1) for x in parts))


def _shaped(p: Floats, rows: Rows) -> Floats:
    return p if rows.query is None else p.reshape(len(p), -1, rows.query.shape[-1])


def _on(scale: Floats, ndim: int) -> Floats:
    return scale.reshape(-1, *[1] * (ndim - 1))
