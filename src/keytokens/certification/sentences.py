"""What a certificate says, sentence by sentence."""

import math
from typing import Any

import numpy as np

from keytokens.certification.certificate import Certificate
from keytokens.svm.solution import Solution

SHOWN = 12  # inputs listed one by one


def sentences(case: Any, solution: Solution | None, cert: Certificate) -> tuple[str, ...]:
    """The referee's paragraph."""
    parts = [_selection(cert), _saturation(case), _ending(case)]
    if cert.optimality == "finite":
        return (*filter(None, parts), _finite(case))
    assert solution is not None
    if solution.direction is None:
        return (*filter(None, parts), _infeasible(solution))
    parts += [_optimality(case, cert), _svm(cert), _agreement(cert), _finite_part(cert)]
    return tuple(filter(None, parts))


def _selection(cert: Certificate) -> str:
    n = len(cert.selected)
    several = int((cert.kept.sum(axis=-1) > 1).sum())
    names = [_kept(row) for row in cert.kept[:SHOWN]]
    more = f" and so on for {n} inputs" if n > SHOWN else ""
    tail = f"; {several} of {n} inputs keep several tokens tied" if several else ""
    return f"Selected tokens, input by input: {', '.join(names)}{more}{tail}."


def _kept(row: Any) -> str:
    tokens = [str(int(t)) for t in np.flatnonzero(row)]
    return tokens[0] if len(tokens) == 1 else "{" + ", ".join(tokens) + "}"


def _saturation(case: Any) -> str:
    spread = case.heavy & ~case.kept & ~case.copies & case.mask
    if spread.any() and not case.is_finite:
        most = float(np.exp(np.where(spread, case.log_s, -math.inf).max()))
        return (
            f"Attention is not saturated (a weight of {most:.2g} stands elsewhere): the answer is "
            "judged by its direction."
        )
    if not math.isfinite(case.left):
        return ""
    doubt = math.log(case.threshold) - case.left < math.log(1e3)
    note = ", too close to the threshold to be sure of the selection" if doubt else ""
    return f"No other token has a weight above 1e{case.left / math.log(10):.1f}{note}."


def _ending(case: Any) -> str:
    reason = case.answer.reason
    return f"The run ended here: {reason}." if reason is not None else ""


def _finite(case: Any) -> str:
    if not case.answer.weight.any():
        return "The answer is zero: attention is uniform, and there is no direction to judge."
    if not case.left_behind.any():
        return "Every token of every input is kept: no constraint is left, and no direction grows."
    number = "" if case.balance is None else f" to {case.balance:.2g} of their size"
    return (
        f"The inputs' pulls cancel{number}: training rests at a finite point, and no max-margin "
        "direction belongs to it."
    )


def _infeasible(solution: Solution) -> str:
    return (
        f"No direction separates this selection: {solution.conflict} It is not locally optimal "
        "and cannot be a limit of training."
    )


def _optimality(case: Any, cert: Certificate) -> str:
    if cert.optimality == "global":
        return str(case.says_optimal)
    if cert.optimality == "local":
        return (
            "The selection is locally optimal, not globally: every selected token outscores its "
            f"{int(cert.support.sum())} support tokens, though not all tokens."
        )
    shown = "; ".join(map(str, cert.offenders[:3]))
    more = f" and {len(cert.offenders) - 3} more" if len(cert.offenders) > 3 else ""
    return f"The selection is not locally optimal: {shown}{more}."


def _svm(cert: Certificate) -> str:
    has = "here allows an effective margin of" if cert.over == "vp" else "has margin"
    return (
        f"The Att-SVM of this selection ({_norm(cert.norm)} norm) {has} {cert.best_margin:.6g}, "
        f"certified by weak duality to a relative gap of {max(cert.gap, 0.0):.1g} "
        f"(violation {cert.violation:.1g})."
    )


def _norm(name: str) -> str:
    """l2, nuclear, or l3 of 3.0."""
    return name if name in ("l2", "nuclear") else f"l{float(name):g}"


def _agreement(cert: Certificate) -> str:
    if not math.isfinite(cert.margin):
        return ""
    return (
        f"The answer agrees with it to 1 - correlation = {cert.misalignment:.3g} and has "
        f"{cert.margin_ratio:.6g} of its margin."
    )


def _finite_part(cert: Certificate) -> str:
    if cert.finite_part is None:
        return ""
    size = float(np.linalg.norm(cert.finite_part))
    return (
        f"The finite part that keeps the tied tokens' log-ratios has norm {size:.4g}; it was taken "
        "away before the comparison."
    )
