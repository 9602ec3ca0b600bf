"""Joint training of v and p: the label SVM, the relaxed Att-SVM, and the order of limits.

With ||v|| <= r and ||p|| <= R both large the direction of p maximises
    min_i (r m_i + R p^.Delta_i)   subject to   p^.Delta_i >= 0,
m_i = y_i <v^mm, x_i,sel> / ||v^mm|| and p^.Delta_i = min_t <p^, k_i,sel - k_it>. From r/R = rho* on
this is the relaxed Att-SVM; towards r/R = 0 it is the full one; between, it moves continuously.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keytokens._checks import Floats
from keytokens.certification.case import Case
from keytokens.certification.certificate import misalignment
from keytokens.certification.speaking import converse
from keytokens.certification.theorems import DERIVED, QUOTED, Assumption, Theorem
from keytokens.dynamics.steps import norm
from keytokens.svm.dense import solve
from keytokens.svm.label import JointSolution, joint_svm
from keytokens.svm.solution import Solution

CLOSE = 1e-3  # relative distance of r/R to a boundary that counts as beyond it


@dataclass(frozen=True, eq=False)
class JointCase(Case):
    """A case over v and p: its program and its limit depend on the ratio of the norms."""

    @cached_property
    def svm(self) -> JointSolution:
        """The label SVM and the relaxed Att-SVM of the selected tokens."""
        return joint_svm(self.problem, self.selected)

    @cached_property
    def single(self) -> Solution:
        return self.svm.attention

    @cached_property
    def program(self) -> Solution:
        return self.svm.attention

    @cached_property
    def balance(self) -> None:
        """p and v move together: not computed."""
        return None

    @property
    def ratio(self) -> float:
        """r / R = ||v|| / ||p|| of the answer."""
        blocks = self.answer.blocks
        return float(norm(blocks["v"]) / norm(blocks["p"]))

    @property
    def regime(self) -> str:
        """full: every input supports v^mm; relaxed: r/R >= rho*; between: below it."""
        if self.svm.label.direction is None or self.svm.support_inputs.all():
            return "full"
        return "relaxed" if self.ratio >= self.svm.step_ratio * (1 - CLOSE) else "between"

    @cached_property
    def limit(self) -> Floats | None:
        """Where p goes in this regime, scaled to margin-1 rows (between: to unit norm)."""
        relaxed = self.svm.attention.direction
        if self.regime != "between" or relaxed is None:
            return relaxed
        return direction_at(self, self.svm, self.ratio)

    @property
    def best_margin(self) -> float:
        return self.margin(self.limit)  # type: ignore[arg-type]

    def margin(self, weight: Floats) -> float:
        """min_i ((r/R)(m_i - Gamma) + p^.Delta_i): what the limit maximises."""
        margins = label_margins(self, self.svm)
        rows, owner = _rows(self)
        slack = self.ratio * (margins - margins.min())[owner]
        return float((slack + rows @ (weight / norm(weight))).min())

    def theorems(self, solution: Solution | None, cert: Any) -> tuple[Theorem, ...]:
        if solution is None or solution.direction is None:
            return super().theorems(solution, cert)
        first = (converse(self, solution, cert),) if cert.optimality == "none" else ()
        return (*first, joint_theorem(self))


def label_margins(case: Any, svm: JointSolution) -> Floats:
    """m_i = y_i <v^mm, x_i,sel> / ||v^mm||. (n,)"""
    v = svm.label.direction
    if v is None:
        return np.zeros(case.problem.n)
    chosen = case.problem.X[np.arange(case.problem.n), case.selected]
    return case.problem.y * (chosen @ v) / np.linalg.norm(v)


def _rows(case: Any) -> tuple[Floats, Any]:
    """k_i,sel - k_it of every token that is neither the selected one nor a copy, and its input."""
    keys = case.problem.keys
    chosen = keys[np.arange(len(keys)), case.selected]
    owner, token = np.nonzero(case.mask & ~case.copies & ~case.chosen)
    return chosen[owner] - keys[owner, token], owner


def direction_at(case: Any, svm: JointSolution, ratio: float) -> Floats:
    """argmax over ||p|| <= 1 of min_i (ratio m_i + p.Delta_i) s.t. p.Delta_i >= 0.

    The least-norm p that reaches the value tau has right-hand sides (tau - ratio m_i)_+; its norm
    grows with tau, and tau is where it is 1.
    """
    from scipy.optimize import brentq

    rows, owner = _rows(case)
    margins = ratio * label_margins(case, svm)[owner]

    def least_norm(tau: float) -> Floats:
        return solve(rows, np.maximum(tau - margins, 0.0)).p

    low = float(margins.min())
    high = low + float(svm.attention.margin)  # the rows of the support inputs alone ask for 1 here
    tau = brentq(lambda t: np.linalg.norm(least_norm(t)) - 1.0, low, high, xtol=1e-15)
    return least_norm(tau)


_LIMITS = {
    "full": "every input supports v^mm, so p goes to the full Att-SVM",
    "relaxed": "p goes to the relaxed Att-SVM: >= 1 on support inputs of v^mm, >= 0 on the rest",
    "between": "r/R lies below rho*, where p goes to a direction between the full and the relaxed "
    "Att-SVM, the maximiser of min_i (r m_i + R p.Delta_i)",
}


def joint_theorem(joint: JointCase) -> Theorem:
    """Which regime, with the number rho* that decides it."""
    label = joint.svm.label
    apart = np.nan
    if label.direction is not None:
        apart = misalignment(joint.answer.blocks["v"], label.direction)
    parts = [
        Assumption(
            "the label SVM on the selected tokens is feasible", label.direction is not None,
            float(label.margin), "label margin",
        ),
        Assumption(
            "v is close to v^mm", apart < 1e-2, apart, "1 - correlation",
        ),
    ]  # fmt: skip
    if joint.regime != "full":
        beyond = joint.regime == "relaxed"
        parts.append(
            Assumption(
                f"r/R = {joint.ratio:.4g} is {'at least' if beyond else 'below'} rho*",
                True, float(joint.svm.step_ratio), "rho* =",
            )
        )  # fmt: skip
    source = f"{QUOTED} in its constraints, the order of limits {DERIVED}"
    says = f"{_LIMITS[joint.regime]}."
    return Theorem("Joint convergence of v and p", says, source, tuple(parts))
