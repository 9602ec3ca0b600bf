"""One problem and one answer to it, with everything the judgement is made of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from keytokens._checks import Booleans, Floats, Integers
from keytokens._extras import require
from keytokens.attention import token_scores
from keytokens.certification.answers import Answer, attended, logits_of
from keytokens.certification.theorems import Theorem
from keytokens.dynamics.steps import norm as norm_of
from keytokens.dynamics.trajectory import Reason
from keytokens.problem import TokenProblem
from keytokens.svm.att import att_svm, tied_tokens
from keytokens.svm.solution import Solution

TIED = 0.1  # a token below this share of the best margin has not been left behind
CANCELLED = 1e-6  # pulls of all inputs that cancel to this share of their size: at rest


@dataclass(frozen=True, eq=False)
class Case:
    """What `certify` judges.

    Where inputs are counts over a vocabulary: log_counts (n, T), how often each distinct token
    stands in its input, and ids (n, T), its column.
    """

    problem: TokenProblem
    answer: Answer
    threshold: float
    norm: Any
    loss: Any
    head: Any
    log_counts: Floats | None = None
    ids: Integers | None = None
    vocabulary: int = 0

    says_optimal: ClassVar[str] = (
        "The selection is globally optimal: every input keeps its best-scoring token."
    )

    @cached_property
    def logits(self) -> Floats:
        return logits_of(self.problem, self.answer)

    @cached_property
    def log_s(self) -> Floats:
        return attended(self.logits, self.log_counts)

    @cached_property
    def mask(self) -> Booleans:
        shape = (self.problem.n, self.problem.T)
        return np.ones(shape, bool) if self.problem.mask is None else self.problem.mask

    @cached_property
    def v(self) -> Floats:
        """The linear head: trained, or the problem's."""
        return self.answer.blocks.get("v", self.problem.v)

    @cached_property
    def scores(self) -> Floats:
        """gamma[i, t] = y_i <grad psi(pooled_i), x_it>, psi linear unless given; masked: -inf."""
        X, y = self.problem.X, self.problem.y
        if self.head is None:
            gamma = token_scores(X, y, self.v)
        else:
            with require("jax", "lab").enable_x64(True):
                jax = require("jax", "lab")
                slopes = np.asarray(jax.vmap(jax.grad(self.head))(self.pooled))
            gamma = y[:, None] * (X @ slopes[..., None])[..., 0]
        return np.where(self.mask, gamma, -np.inf)

    @cached_property
    def pooled(self) -> Floats:
        """What attention hands to the head. (n, d)"""
        return (np.exp(self.log_s)[:, None, :] @ self.problem.X)[:, 0]

    @cached_property
    def selected(self) -> Integers:
        """The heaviest token of each input. (n,)"""
        return self.logits.argmax(axis=-1)

    @cached_property
    def heavy(self) -> Booleans:
        """Tokens whose weight is above the threshold, the selected one always. (n, T)"""
        heavy = self.log_s > np.log(self.threshold)
        np.put_along_axis(heavy, self.selected[:, None], True, axis=-1)
        return heavy

    @cached_property
    def single(self) -> Solution:
        """The Att-SVM of one token per input."""
        return self.solve(np.zeros((self.problem.n, self.problem.T), bool))

    @cached_property
    def ties(self) -> Booleans:
        """Tokens kept together with the selected one, itself left out. (n, T)"""
        return self.kept & ~self.chosen

    @cached_property
    def tied(self) -> Booleans:
        """Tokens of exactly the selected one's score: their rows ask for >= 0, not 1. (n, T)"""
        if self.head is not None:
            return np.zeros((self.problem.n, self.problem.T), bool)
        return tied_tokens(self.problem, self.selected) & ~self.copies

    @cached_property
    def left_behind(self) -> Booleans:
        """Tokens that the program asks to leave behind by a margin. (n, T)"""
        return self.mask & ~self.kept & ~self.copies & ~self.tied

    @cached_property
    def program(self) -> Solution:
        """The Att-SVM that speaks about this answer."""
        return self.solve(self.ties) if self.ties.any() else self.single

    @property
    def limit(self) -> Floats | None:
        """Where the direction should be; None where no direction separates the selection."""
        return self.program.direction

    @property
    def best_margin(self) -> float:
        """The largest margin any direction has."""
        return float(self.program.margin)

    def margin(self, weight: Floats) -> float:
        """min over tokens left behind of <w/||w||, k_sel - k_it>, in the norm of the program."""
        one = Answer(self.answer.geometry, {self.answer.geometry: weight}, None, None)
        a = logits_of(self.problem, one) / size(self.norm, weight)
        lead = np.take_along_axis(a, self.selected[:, None], axis=-1) - a
        return float(np.where(self.left_behind, lead, np.inf).min())

    def theorems(self, solution: Solution | None, cert: Any) -> tuple[Theorem, ...]:
        """The theorems that speak about this answer, the most direct one first."""
        from keytokens.certification.speaking import theorems

        return theorems(self, solution, cert)

    def solve(self, equal: Booleans) -> Solution:
        over, relax = self.answer.geometry, self.tied & ~equal
        return att_svm(self.problem, self.selected, over, self.norm, relax, equal)

    @cached_property
    def kept(self) -> Booleans:
        """The selected token and those that stay tied to it.

        With a nonlinear head or at a finite limit: the heavy ones. A linear head keeps no two
        tokens of different scores for good: there, only heavy ones of equal score, or hardly left
        behind, by less than TIED times what the best direction of this length gives. So an
        unsaturated answer is judged by its direction, not by its length.
        """
        if self.is_finite or self.head is not None or not self.single.is_feasible:
            return (self.heavy & ~self.copies) | self.chosen
        lead = np.take_along_axis(self.logits, self.selected[:, None], axis=-1) - self.logits
        margin = self.single.margin
        best = norm_of(self.answer.weight) * (margin if np.isfinite(margin) else 0.0)
        kept = self.heavy & (self.tied | (lead < TIED * best))
        return (kept & ~self.copies) | self.chosen

    @cached_property
    def chosen(self) -> Booleans:
        return np.arange(self.problem.T) == self.selected[:, None]

    @cached_property
    def copies(self) -> Booleans:
        """Exact copies of the selected token need no constraint to stay tied."""
        X = self.problem.X
        chosen = np.take_along_axis(X, self.selected[:, None, None], axis=1)
        return (chosen == X).all(axis=-1) & self.mask

    @cached_property
    def left(self) -> float:
        """log of the largest weight on a token that is neither heavy nor masked."""
        rest = np.where(self.heavy | ~self.mask, -np.inf, self.log_s)
        return float(rest.max())

    def named(self, tokens: Integers) -> Integers:
        """Tokens of each input in the user's numbering. (n,)"""
        if self.ids is None:
            return tokens
        return np.take_along_axis(self.ids, tokens[:, None], axis=-1)[:, 0]

    def spread(self, flags: Booleans) -> Booleans:
        """Flags of each input's tokens in the user's numbering. (n, T) or (n, V)"""
        if self.ids is None:
            return flags
        full = np.zeros((self.problem.n, self.vocabulary), bool)
        np.put_along_axis(full, self.ids, flags & self.mask, axis=-1)
        return full

    @cached_property
    def balance(self) -> float | None:
        """|sum of the inputs' pulls| over their size: 0 at a finite limit. None: not computed."""
        from keytokens.dynamics.flow_fields import balance_of

        if self.head is not None:
            return None
        weight, over = self.answer.weight, self.answer.geometry
        found = balance_of(self.problem, weight, over, self.loss, self.log_counts)
        return 0.0 if found is not None and np.isnan(found) else found  # no pull at all

    @cached_property
    def is_finite(self) -> bool:
        """At rest: the pulls cancel; where tokens are tied, far below the weight left to move.

        Zero has no direction, whatever it is.
        """
        if self.balance == 0 or not self.answer.weight.any():
            return True
        if self.balance is None:
            return self.answer.reason is Reason.CONVERGED
        small, several = max(self.balance, 1e-300), self.heavy.sum() > self.problem.n
        left = self.left if several and np.isfinite(self.left) else 0.0
        return small < CANCELLED and np.log(small) < left + np.log(1e-2)


def size(norm: Any, weight: Floats) -> float:
    """||w|| in the norm of the program, no square over- or underflowing."""
    top = float(np.abs(weight).max(initial=0.0))
    if norm == "nuclear":
        return top * float(np.linalg.norm(weight / (top or 1.0), ord="nuc"))
    if norm == np.inf:
        return top
    return float(norm_of(weight, 2.0 if norm == "l2" else float(norm)))
