"""KeyTokenClassifier: from texts to labels, with a reason for each."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from keytokens._checks import Floats
from keytokens.classifier.counts import SelectionClassifier
from keytokens.embedding.scores import AttentionScores
from keytokens.text import Counter


class KeyTokenClassifier(ClassifierMixin, BaseEstimator):
    """A text classifier that shows which tokens carry each decision.

    It counts n-grams (`counter_`) and trains a SelectionClassifier on them (`core_`).
    """

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int = 2,
        max_features: int | None = None,
        binary: bool = True,
        tokenizer: Any = None,
        training: str = "joint",
        class_weight: dict[Any, float] | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.ngrams = ngrams
        self.min_count = min_count
        self.max_features = max_features
        self.binary = binary
        self.tokenizer = tokenizer
        self.training = training
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from texts X (n,) and labels y (n,)."""
        self.counter_ = self._counter()
        counts = self.counter_.fit_transform(X)
        self.core_ = self._core().fit(counts, y, sample_weight)
        return self

    def _counter(self) -> Counter:
        return Counter(
            ngrams=self.ngrams,
            min_count=self.min_count,
            max_features=self.max_features,
            binary=self.binary,
            tokenizer=self.tokenizer,
        )

    def _core(self) -> SelectionClassifier:
        names = SelectionClassifier().get_params()
        return SelectionClassifier(**{k: v for k, v in self.get_params().items() if k in names})

    def counts(self, X: Any) -> Any:
        """The texts as the model sees them. CSR (n, V)"""
        check_is_fitted(self, "core_")
        return self.counter_.transform(X)

    def decision_function(self, X: Any) -> Floats:
        """The raw logits: (n,) for two classes, else (n, K)."""
        return self.core_.decision_function(self.counts(X))

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every text. (n,)"""
        return self.core_.predict(self.counts(X))

    def predict_proba(self, X: Any) -> Floats:
        """P(class) of every text. (n, classes)"""
        return self.core_.predict_proba(self.counts(X))

    def explain(self, X: Any) -> Any:
        """Why: an Explanation of one text, or Explanations of many."""
        from keytokens.explain import explain

        check_is_fitted(self, "core_")
        return explain(self, X)

    def save(self, path: str | Path) -> None:
        """Write the model to one file (or a folder, where `path` has no suffix)."""
        from keytokens.classifier.stored import save

        save(self, path)

    @property
    def scores_(self) -> AttentionScores:
        """The fitted AttentionScores."""
        return self.core_.scores_

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        return self.core_.classes_

    @property
    def vocabulary_(self) -> Any:
        """The n-grams, in column order."""
        return self.counter_.vocabulary_

    @property
    def attention_(self) -> Floats:
        """a: (V,) for one map, else (M, V)."""
        return self.core_.attention_

    @property
    def value_(self) -> Floats:
        """b: (V,) for one map and one output, (K, V) for one map, else (M, K, V)."""
        return self.core_.value_

    @property
    def signed_frequency_(self) -> Floats:
        """alpha_s on the training texts. (V,) or (V, K)"""
        return self.core_.signed_frequency_

    @property
    def posterior_difference_(self) -> Floats:
        """Delta_s on the training texts. (V,) or (V, K)"""
        return self.core_.posterior_difference_
