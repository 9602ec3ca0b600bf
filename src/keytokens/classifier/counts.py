"""SelectionClassifier: the attention model as a scikit-learn estimator on token counts."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from keytokens._checks import Floats
from keytokens.embedding import frequencies, joint
from keytokens.embedding.scores import AttentionScores, logits


class SelectionClassifier(ClassifierMixin, BaseEstimator):
    """Softmax attention over the tokens of a count matrix (n, V), trained exactly.

    Learned: `classes_`, `scores_` (the AttentionScores), `attention_` and `value_` (its token
    part, (V,) where there is one map and one output), `signed_frequency_`,
    `posterior_difference_`, `n_iter_`, `reason_`.
    """

    def __init__(
        self,
        training: str = "joint",
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.training = training
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from counts X (n, V), non-negative, dense or sparse, and labels y (n,)."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_non_negative(X, "SelectionClassifier")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes; got one: {self.classes_[0]!r}.")
        weight = self._weights(X, y, sample_weight)
        counts = sparse.csr_array(X)
        self.scores_, found = joint.train_joint(
            counts, labels, len(self.classes_), weight, joint.JointOptions(), self.n_jobs
        )
        self.n_iter_, self.reason_ = found.iterations, found.reason
        signs = 2 * joint.outputs(labels, len(self.classes_)) - 1
        self._describe(counts, signs, weight)
        return self

    def _weights(self, X: Any, y: np.ndarray, sample_weight: Any) -> Floats:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
        return weight

    def _describe(self, counts: sparse.csr_array, signs: Floats, weight: Floats) -> None:
        signs = signs[:, 0] if signs.shape[1] == 1 else signs
        self.signed_frequency_ = frequencies.signed_frequency(counts, signs, weight)
        self.posterior_difference_ = frequencies.posterior_difference(counts, signs, weight)

    @property
    def attention_(self) -> Floats:
        """a: (V,) for one map, else (M, V)."""
        a = self.scores_.attention[:, :-1]
        return a[0] if len(a) == 1 else a

    @property
    def value_(self) -> Floats:
        """b: (V,) for one map and one output, (K, V) for one map, else (M, K, V)."""
        b = self.scores_.value[:, :, :-1]
        return b[0, 0] if b.shape[:2] == (1, 1) else b[0] if len(b) == 1 else b

    def decision_function(self, X: Any) -> Floats:
        """The raw logits: (n,) for two classes, else (n, K)."""
        check_is_fitted(self, "scores_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        check_non_negative(X, "SelectionClassifier")
        raw = logits(self.scores_, sparse.csr_array(X), self.n_jobs)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every row. (n,)"""
        raw = self.decision_function(X)
        return self.classes_[(raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """P(class) of every row. (n, classes)"""
        raw = self.decision_function(X)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return softmax(raw, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


__all__ = ["AttentionScores", "SelectionClassifier"]
