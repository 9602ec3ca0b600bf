"""The label SVM on the selected tokens, and the pair (v^mm, p^mm) of joint training."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens.problem import TokenProblem
from keytokens.svm.assemble import assemble
from keytokens.svm.att import att_svm, checked_selection
from keytokens.svm.batch import solve_rows
from keytokens.svm.rows import Rows
from keytokens.svm.solution import Solution


@dataclass(frozen=True, eq=False)
class JointSolution:
    """v^mm of the selected tokens and the p (or W) that training goes to beside it.

    label: the label SVM; its margin is the label margin Gamma, its support the inputs S.
    attention: the Att-SVM with >= 1 for the inputs of S and >= 0 for the rest; where the label
    SVM is infeasible there is no S, and attention is the full Att-SVM.
    step_ratio: rho*, the ratio r / R of the norms of v and p from which on this relaxed
    direction is the limit; 0 where every input is a support input.
    """

    label: Solution
    attention: Solution
    step_ratio: Any

    @property
    def label_margin(self) -> Any:
        """Gamma = 1 / ||v^mm||."""
        return self.label.margin

    def __str__(self) -> str:
        return f"Labels. {self.label}\nAttention. {self.attention}"

    @property
    def support_inputs(self) -> Booleans:
        """S: inputs whose label constraint is tight. (n,)"""
        return self.label.support


def label_svm(problem: TokenProblem, selected: Any) -> Solution:
    """v^mm = argmin ||v|| s.t. y_i <v, x_i,sel> >= 1 for all i.

    multipliers and support are (n,), one row an input; is_locally_optimal has no meaning: None.
    """
    selected = checked_selection(problem, selected).reshape(-1, problem.n)
    rows = _label_rows(problem, selected)
    found = assemble(rows, solve_rows(rows), selected)
    conflicts = tuple(c and replace(c, vector=c.vector[..., 0], rows=None) for c in found.conflict)
    solution = replace(
        found,
        multipliers=found.multipliers[..., 0],
        support=found.support[..., 0],
        conflict=conflicts,
    )
    return solution if problem.batch is not None else solution[0]


def _label_rows(problem: TokenProblem, selected: Integers) -> Rows:
    """One row y_i x_i,sel for every input, at token slot 0."""
    X, y = problem.X.reshape(-1, *problem.X.shape[-3:]), problem.y.reshape(-1, problem.n)
    kept = np.take_along_axis(X, selected[..., None, None], axis=-2)
    shape = (*selected.shape, 1)
    yes, no = np.ones(shape, bool), np.zeros(shape, bool)
    tokens = np.zeros(shape, np.int64)
    return Rows(y[..., None, None] * kept, None, np.ones(shape), yes, no, tokens, 1)


def joint_svm(
    problem: TokenProblem, selected: Any, over: str = "p", norm: Any = "l2"
) -> JointSolution:
    """v^mm and the relaxed p^mm: rows >= 1 on the support inputs of v^mm, >= 0 elsewhere."""
    label = label_svm(problem, selected)
    feasible = np.asarray(label.is_feasible)[..., None]
    attention = att_svm(problem, selected, over, norm, relax=feasible & ~label.support)
    ratio = _step_ratio(problem, label, attention, over)
    return JointSolution(label, attention, ratio if problem.batch is not None else float(ratio))


def _step_ratio(problem: TokenProblem, label: Solution, attention: Solution, over: str) -> Any:
    """rho* = max over i not in S of (1/||p|| - min_t <p^, k_sel - k_it>) / (m_i - Gamma)."""
    if label.direction is None or attention.direction is None:
        return np.nan
    lead = _smallest_lead(problem, attention, over) * np.asarray(attention.margin)[..., None]
    kept = np.take_along_axis(problem.X, label.selected[..., None, None], axis=-2)[..., 0, :]
    values = problem.y * (kept @ label.direction[..., None])[..., 0]
    gamma = np.asarray(label.margin)[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (np.asarray(attention.margin)[..., None] - lead) / (values * gamma - gamma)
    return np.where(label.support, 0.0, ratio).max(axis=-1, initial=0.0)


def _smallest_lead(problem: TokenProblem, attention: Solution, over: str) -> Floats:
    """min_t <p, k_i,sel - k_it> over the tokens distinct from the selected one. (n,)"""
    p = attention.direction
    assert p is not None
    if over == "p":
        logits = (problem.keys @ p[..., None, :, None])[..., 0]
    else:
        assert problem.query is not None
        along = (p[..., None, :, :] @ problem.query[..., None])[..., 0]
        logits = (problem.X @ along[..., None])[..., 0]
    at = attention.selected[..., None]
    kept = np.take_along_axis(problem.X, at[..., None], axis=-2)
    others = (kept != problem.X).any(axis=-1)
    if problem.mask is not None:
        others &= problem.mask
    lead = np.take_along_axis(logits, at, axis=-1) - logits
    return np.where(others, lead, np.inf).min(axis=-1)
