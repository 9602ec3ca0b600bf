"""Every problem of a batch at once: rows, certificates and Farkas checks vectorised.

Only DAQP itself is called one problem at a time.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats
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
    is_exact: bool = True  # False where an interior point answered


def solve_rows(rows: Rows, norm: Any = None) -> Answers:
    """Max-margin directions of all problems, each verified or proved impossible.

    Whether there is one does not depend on the norm: `norm` (None: l2) only moves directions.
    """
    scale = dense.power_of_two(rows.lengths.max(axis=(1, 2), initial=0.0))
    scaled = replace(rows, differences=rows.differences / _on(scale, 4))
    answers = _solve_scaled(scaled)
    if norm is not None:
        _change_norm(scaled, answers, norm)
    answers.direction /= _on(scale, answers.direction.ndim)
    answers.multipliers /= _on(scale, 3) ** 2
    found = answers.certificate
    found = replace(found, primal=found.primal / scale**2, dual=found.dual / scale**2)
    answers.certificate = found
    return answers


def _solve_scaled(rows: Rows) -> Answers:
    direction, multipliers = _first_answers(rows)
    found, solved = _verified(rows, direction, multipliers)
    verdicts = [Verdict.SOLVED] * len(direction)
    answers = Answers(direction, multipliers, np.zeros_like(multipliers), verdicts, found)
    if not solved.all():
        _decide(rows, answers, np.flatnonzero(~solved))
        answers.certificate = _certificate(rows, answers)
    return answers


def _first_answers(rows: Rows) -> tuple[Floats, Floats]:
    """DAQP's directions and multipliers, in the smaller of two spaces.

    With more columns than rows it sees L of the Gram matrix G G^T = L L^T, whose rows have the
    same inner products; then p = G^T lambda. Rows that depend on each other have no such L.
    """
    if rows.columns <= rows.h[0].size:
        return _direct_answers(rows)
    try:
        _, multipliers = _loop(rows, _gram_factors)
    except np.linalg.LinAlgError:
        return _direct_answers(rows)
    direction = rows.combine(multipliers)
    _, solved = _verified(rows, direction, multipliers)
    if not solved.all():
        direction[~solved], multipliers[~solved] = _direct_answers(take(rows, ~solved))
    return direction, multipliers


def _verified(rows: Rows, direction: Floats, multipliers: Floats) -> tuple[Certificate, Any]:
    """The certificates, and which answers stand. (B,)"""
    found = certify_answers(rows, direction, multipliers)
    short = certify.shortfalls(rows.apply(direction), rows.h, rows.equal)
    return found, dense.is_solved(found, short.max(axis=(1, 2), initial=0.0))


def _direct_answers(rows: Rows) -> tuple[Floats, Floats]:
    p, multipliers = _loop(rows, Rows.matrix)
    return rows.shaped(p), multipliers


def _gram_factors(rows: Rows, block: slice) -> Floats:
    """L with L L^T = G G^T of the problems in `block`. (b, n S, n S)"""
    factors: Any = np.linalg.cholesky(rows.gram(block))
    return factors


def _decide(rows: Rows, answers: Answers, open_: Any) -> None:
    """Farkas vectors of the problems left open; the few that remain one by one."""
    part = take(rows, open_)
    _, u = _loop(part, _elastic)
    u = dense.farkas_candidate(*_flat(u, part.h, part.equal)).reshape(u.shape)
    proved = _proved(part, u)
    weak = ~proved & (np.count_nonzero(u, axis=(1, 2)) == rows.columns + 1)
    if weak.any():
        u[weak] = _sharpened(take(part, weak), u[weak])
        proved[weak] = _proved(take(part, weak), u[weak])
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


def _proved(rows: Rows, u: Floats) -> Any:
    """Which conflicts are beyond doubt: more rows than columns, or a sum that is exactly zero."""
    residual, _ = farkas_of(rows, u)
    gain, count = (rows.h * u).sum(axis=(1, 2)), np.count_nonzero(u, axis=(1, 2))
    sure = (residual == 0) | (count > rows.columns)
    return certify.is_farkas_proof(residual, gain, count) & sure


def _sharpened(rows: Rows, u: Floats) -> Floats:
    """u solved for once more: k + 1 rows of G and h make G^T u = 0, h^T u = 1 a square system."""
    G = _elastic(rows, slice(None))
    flat, h, equal = _flat(u, rows.h, rows.equal)
    named = np.argsort(-np.abs(flat), axis=1)[:, : G.shape[-1]]
    A = np.take_along_axis(G, named[..., None], axis=1).swapaxes(-1, -2)
    try:
        sharp = np.linalg.solve(A, np.eye(G.shape[-1])[:, -1:])[..., 0]
    except np.linalg.LinAlgError:
        return u
    full = np.zeros_like(flat)
    np.put_along_axis(full, named, sharp, axis=1)
    return dense.farkas_candidate(full, h, equal).reshape(u.shape)


def _certificate(rows: Rows, answers: Answers) -> Certificate:
    """Without a direction: infinite primal and dual, no gap."""
    found = certify_answers(rows, answers.direction, answers.multipliers)
    lost = [verdict is not Verdict.SOLVED for verdict in answers.verdicts]
    for name, value in (("primal", np.inf), ("dual", np.inf), ("gap", np.nan)):
        getattr(found, name)[lost] = value
    return found


def _settle_one(row: Rows, u: Floats, answers: Answers, k: int) -> Verdict:
    here = row.present[0].ravel()
    p, multipliers, verdict = dense.settle(*bare(row), u.ravel()[here])
    target = answers.multipliers if verdict is Verdict.SOLVED else answers.farkas
    full = np.zeros(here.size)
    full[here] = multipliers
    target[k] = full.reshape(target[k].shape)
    answers.direction[k] = p.reshape(answers.direction[k].shape)
    return verdict


def _change_norm(rows: Rows, answers: Answers, norm: Any) -> None:
    """The same problems in another norm, one by one, from their l2 directions."""
    from keytokens.svm.norms import minimise

    answers.is_exact = False
    for k, verdict in enumerate(answers.verdicts):
        if verdict is not Verdict.SOLVED or not rows.h[k].any():
            continue
        start = answers.direction[k]
        w, full, found = minimise(*bare(take(rows, [k])), start, norm)
        answers.direction[k] = w
        answers.multipliers[k][rows.present[k]] = full
        for name in ("primal", "dual", "gap", "violation"):
            getattr(answers.certificate, name)[k] = getattr(found, name)
        if not (abs(found.gap) <= 1e-6 and found.violation <= 1e-9):
            answers.verdicts[k] = Verdict.LOOSE


def bare(row: Rows) -> tuple[Floats, Floats, Booleans]:
    """G, h, equal of a single problem without its absent rows."""
    here = row.present[0].ravel()
    G = row.matrix(slice(0, 1))[0][here]
    return G, row.h[0].ravel()[here], row.equal[0].ravel()[here]


def take(rows: Rows, index: Any) -> Rows:
    """The rows of some problems of the batch."""
    names = ("differences", "h", "present", "equal", "tokens")
    parts = {name: getattr(rows, name)[index] for name in names}
    query = None if rows.query is None else rows.query[index]
    return Rows(query=query, T=rows.T, **parts)


def _elastic(rows: Rows, block: slice) -> Floats:
    """[G h] of the problems in `block`."""
    G = rows.matrix(block)
    return dense.with_margins(G, rows.h[block].reshape(G.shape[:2]))


def _loop(rows: Rows, matrix: Callable[[Rows, slice], Floats]) -> tuple[Floats, Floats]:
    """DAQP on every problem: p (B, columns) and lambda (B, n, S), 0 on absent rows."""
    h, equal, present = _flat(rows.h, rows.equal, rows.present)
    limits = (h, *dense.bounds(h, equal))
    whole = present.all(axis=1).tolist()
    parts = zip(whole, present, _matrices(rows, matrix), *limits, strict=True)
    p, multipliers = zip(*(_one(*part) for part in parts), strict=True)
    return np.array(p), np.array(multipliers).reshape(rows.h.shape)


def _one(
    whole: bool, present: Booleans, G: Floats, h: Floats, upper: Floats, sense: Any
) -> tuple[Floats, Floats]:
    """DAQP on one problem's present rows."""
    if whole:
        return dense.call_daqp(G, h, upper, sense)
    multipliers, p = np.zeros(len(h)), np.zeros(G.shape[1])
    if present.any():
        limits = (x[present] for x in (h, upper, sense))
        p, multipliers[present] = dense.call_daqp(G[present], *limits)
    return p, multipliers


def _matrices(rows: Rows, matrix: Callable[[Rows, slice], Floats]) -> Iterator[Floats]:
    """The matrix of every problem in turn, built for many problems at a time."""
    B, n, S = rows.h.shape
    step = max(1, _BLOCK // max(1, n * S * max(rows.columns, n * S)))
    for start in range(0, B, step):
        yield from matrix(rows, slice(start, start + step))


def certify_answers(rows: Rows, direction: Floats, multipliers: Floats) -> Certificate:
    """The certificate of every problem. Each field (B,)"""
    multipliers = certify.feasible_multipliers(multipliers, rows.equal)
    parts = (rows.apply(direction), rows.combine(multipliers), rows.lengths, rows.h, rows.equal)
    return certify.certificate(*_flat(*parts, direction, multipliers))


def farkas_of(rows: Rows, u: Floats) -> tuple[Any, Any]:
    """(residual, least norm) of every problem's Farkas vector. Each (B,)"""
    return certify.farkas_residual(*_flat(rows.combine(u), rows.lengths, rows.h, rows.equal, u))


def _flat(*arrays: Any) -> tuple[Any, ...]:
    """Every (B, ...) as (B, -1)."""
    return tuple(x.reshape(len(x), math.prod(x.shape[1:])) for x in arrays)


def _on(scale: Floats, ndim: int) -> Floats:
    return scale.reshape(-1, *[1] * (ndim - 1))
