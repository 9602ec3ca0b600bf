"""Every problem of a batch at once: rows, certificates and Farkas checks vectorised.

Only DAQP itself is called one problem at a time.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats
from keytokens.errors import raise_input
from keytokens.svm import certificate as certify
from keytokens.svm import dense
from keytokens.svm.dense import Verdict
from keytokens.svm.rows import Rows
from keytokens.svm.solution import Certificate

_BLOCK = 2**20  # numbers of G held at once: 8 MB
_SHORTEST = 1e-4  # 1 - s of the longest direction taken from the elastic program
_LEAST_PRIMAL = 1e-306  # below, squared lengths lose digits
_CLEAR = 1e-9  # a conflict's rows that weigh less than this share leave room for doubt
Found = tuple[Floats, Floats, Floats | None]  # direction, lambda, and u of the elastic program
Attempt = Callable[[Rows], Found]


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
    scaled, units = _scaled(rows)
    answers = _solve_scaled(scaled)
    if norm is not None:
        _change_norm(scaled, answers, norm)
    with np.errstate(over="ignore"):
        for unit in units:
            _unscale(answers, unit)
    _refuse_overflow(answers)
    return answers


def _scaled(rows: Rows) -> tuple[Rows, list[Floats]]:
    """Rows whose longest differences and queries are near 1, and what they were divided by."""
    names = ("differences",) if rows.query is None else ("differences", "query")
    sizes = [certify.euclidean(getattr(rows, name)) for name in names]
    if not all(np.isfinite(size).all() for size in sizes):
        raise_input("problem", "have tokens whose differences are finite", "infinite ones")
    units = [certify.power_of_two(_flat(size)[0].max(axis=1, initial=0.0)) for size in sizes]
    parts = {name: getattr(rows, name) for name in names}
    parts = {k: x / _on(unit, x.ndim) for (k, x), unit in zip(parts.items(), units, strict=True)}
    scaled = replace(rows, **parts)
    zero = (scaled.lengths == 0) & rows.present
    if zero.any() and (zero & _are_nonzero(rows)).any():
        rule = "have tokens whose differences are of comparable size"
        raise_input("problem", rule, f"some that vanish beside one {rows.lengths.max():.0e} long")
    return scaled, units


def _are_nonzero(rows: Rows) -> Any:
    """Which rows are not exactly zero, however small. (B, n, S)"""
    nonzero: Any = rows.differences.any(axis=-1)
    return nonzero if rows.query is None else nonzero & rows.query.any(axis=-1, keepdims=True)


def _unscale(answers: Answers, unit: Floats) -> None:
    """From rows divided by `unit` to the rows themselves."""
    answers.direction /= _on(unit, answers.direction.ndim)
    answers.multipliers /= _on(unit, 3)
    answers.multipliers /= _on(unit, 3)
    found = answers.certificate
    primal, dual = (x / unit / unit for x in (found.primal, found.dual))
    answers.certificate = replace(found, primal=primal, dual=dual)


def _refuse_overflow(answers: Answers) -> None:
    """A squared length that float64 cannot hold would be an infinite or zero margin."""
    length = certify.euclidean(*_flat(answers.direction))
    primal = answers.certificate.primal
    lost = (length > 0) & ((primal < _LEAST_PRIMAL) | np.isinf(primal))
    if lost.any():
        came = f"a direction {length[lost][0]:.0e} long: scale the tokens"
        raise_input("problem", "have tokens whose squares float64 can hold", came)


def _solve_scaled(rows: Rows) -> Answers:
    """The cheapest program first; what it leaves open goes to the next, at last one by one."""
    answers = _nothing_known(rows)
    open_: Any = np.arange(len(rows.h))
    wide = rows.columns > rows.h[0].size
    for attempt in (_gram, _direct, _elastic) if wide else (_elastic, _direct):
        if len(open_):
            open_ = open_[~_attempt(rows, answers, open_, attempt)]
    if len(open_):
        _decide(rows, answers, open_)
    return answers


def _nothing_known(rows: Rows) -> Answers:
    B = len(rows.h)
    figures = (np.full(B, value) for value in (np.inf, np.inf, np.nan, np.nan))
    direction = rows.shaped(np.full((B, rows.columns), np.nan))
    unknown = [Verdict.UNDECIDED] * B
    multipliers, farkas = np.zeros_like(rows.h), np.zeros_like(rows.h)
    return Answers(direction, multipliers, farkas, unknown, Certificate(*figures))


@np.errstate(over="ignore", invalid="ignore")  # what overflows does not verify
def _attempt(rows: Rows, answers: Answers, open_: Any, attempt: Attempt) -> Booleans:
    """Record what one program finds of the open problems; which of them that settles."""
    part = rows if len(open_) == len(rows.h) else take(rows, open_)
    direction, multipliers, u = attempt(part)
    found = certify_answers(part, direction, multipliers)
    short = certify.shortfalls(part.apply(direction), part.h, part.equal)
    solved: Booleans = dense.is_solved(found, short.max(axis=(1, 2), initial=0.0))
    _record(answers, open_, solved, direction, multipliers, found)
    if u is None:
        return solved
    u = dense.farkas_candidate(*_flat(u, part.h, part.equal)).reshape(u.shape)
    answers.farkas[open_[~solved]] = u[~solved]
    refuted = ~solved & _proved(part, u) & _is_clear(part, u)
    for k in open_[refuted]:
        answers.verdicts[k] = Verdict.INFEASIBLE
    return solved | refuted


def _record(
    answers: Answers,
    index: Any,
    solved: Booleans,
    direction: Floats,
    multipliers: Floats,
    found: Certificate,
) -> None:
    where = index[solved]
    answers.direction[where] = direction[solved]
    answers.multipliers[where] = multipliers[solved]
    for field in fields(Certificate):
        getattr(answers.certificate, field.name)[where] = getattr(found, field.name)[solved]
    for k in where:
        answers.verdicts[k] = Verdict.SOLVED


def _gram(rows: Rows) -> Found:
    """DAQP on L of the Gram matrix G G^T = L L^T, which has fewer columns; then p = G^T lambda.

    Rows that depend on each other have no such L: then nothing is found.
    """
    try:
        _, multipliers = _loop(rows, _gram_factors)
    except np.linalg.LinAlgError:
        multipliers = np.full_like(rows.h, np.nan)
    return rows.combine(multipliers), multipliers, None


def _gram_factors(rows: Rows, block: slice) -> Floats:
    """L with L L^T = G G^T of the problems in `block`. (b, n S, n S)"""
    factors: Any = np.linalg.cholesky(rows.gram(block))
    return factors


def _direct(rows: Rows) -> Found:
    """DAQP on the rows as they are."""
    p, multipliers = _loop(rows, Rows.matrix)
    return rows.shaped(p), multipliers, None


def _elastic(rows: Rows) -> Found:
    """DAQP on the program that always has an answer (see dense.py): p / (1 - s), or u.

    1 - s = ||p||^2 / s keeps its relative precision where s is near 1.
    """
    x, u = _loop(rows, _with_margins)
    p, s = x[:, :-1], x[:, -1]
    left = np.divide((p * p).sum(axis=1), s, out=np.ones_like(s), where=s > 0)
    left[left < _SHORTEST] = np.nan
    return rows.shaped(p / left[:, None]), u / _on(left, 3), u


def _with_margins(rows: Rows, block: slice) -> Floats:
    """[G h] of the problems in `block`."""
    G = rows.matrix(block)
    return dense.with_margins(G, rows.h[block].reshape(G.shape[:2]))


def _decide(rows: Rows, answers: Answers, open_: Any) -> None:
    """Farkas vectors of the problems left open; the few that remain one by one."""
    part, u = take(rows, open_), answers.farkas[open_]
    proved = _proved(part, u)
    weak = ~proved & (np.count_nonzero(u, axis=(1, 2)) == rows.columns + 1)
    if weak.any():
        u[weak] = _sharpened(take(part, weak), u[weak])
        proved[weak] = _proved(take(part, weak), u[weak])
    for where, k in enumerate(open_):
        if proved[where]:
            answers.farkas[k], answers.verdicts[k] = u[where], Verdict.INFEASIBLE
        else:
            _settle_one(take(part, [where]), u[where], answers, k)


def _proved(rows: Rows, u: Floats) -> Any:
    """Which conflicts are beyond doubt: more rows than columns, or a sum that is exactly zero."""
    residual, _ = farkas_of(rows, u)
    gain, count = (rows.h * u).sum(axis=(1, 2)), np.count_nonzero(u, axis=(1, 2))
    sure = (residual == 0) | (count > rows.columns)
    return certify.is_farkas_proof(residual, gain, count) & sure


def _is_clear(rows: Rows, u: Floats) -> Any:
    """Whether every row of a conflict weighs in: a tiny weight may hide a long direction."""
    weight = np.abs(u) * rows.lengths
    least = np.where(weight > 0, weight, np.inf).min(axis=(1, 2), initial=np.inf)
    return least >= _CLEAR * weight.max(axis=(1, 2), initial=0.0)


def _sharpened(rows: Rows, u: Floats) -> Floats:
    """u solved for once more: k + 1 rows of G and h make G^T u = 0, h^T u = 1 a square system."""
    G = _with_margins(rows, slice(None))
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


def _settle_one(row: Rows, u: Floats, answers: Answers, k: int) -> None:
    here = row.present[0].ravel()
    p, multipliers, verdict = dense.settle(*bare(row), u.ravel()[here])
    full = np.zeros((1, here.size))
    full[0, here] = multipliers
    full = full.reshape(row.h.shape)
    answers.verdicts[k] = verdict
    if verdict is not Verdict.SOLVED:
        answers.farkas[k] = full[0]
        return
    direction = row.shaped(p[None])
    found = certify_answers(row, direction, full)
    _record(answers, np.array([k]), np.array([True]), direction, full, found)


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
