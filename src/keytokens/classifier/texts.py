"""KeyTokenClassifier: from texts to labels, with a reason for each."""

from collections.abc import Callable, Mapping, Set
from copy import copy
from enum import Enum
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from keytokens import _checks as check
from keytokens._checks import Floats
from keytokens.classifier.choices import training_of
from keytokens.classifier.counts import SelectionClassifier, as_input_errors, check_labels
from keytokens.embedding.scores import AttentionScores
from keytokens.errors import raise_input
from keytokens.text import Counter


class KeyTokenClassifier(ClassifierMixin, BaseEstimator):
    """A text classifier that shows which tokens carry each decision.

    ngrams: shortest and longest n-gram. min_count: texts an n-gram must occur in; "auto" is 1
        below 100 texts, 2 below 10,000 and 3 above. max_features: at most so many n-grams.
    binary: whether an n-gram occurs, instead of how often. tokenizer: your own function.
    class_weight: None, "balanced" or a dictionary.
    The other parameters are SelectionClassifier's.

    Learned: `counter_` (counts n-grams), `core_` (the SelectionClassifier), and what it learned:
    `classes_`, `vocabulary_`, `scores_`, `attention_`, `value_`, `signed_frequency_`,
    `posterior_difference_`.

    >>> texts = ["a good film", "a bad film", "good, very good", "very bad"]
    >>> model = KeyTokenClassifier().fit(texts, ["yes", "no", "yes", "no"])
    >>> model.predict(["good!", "so bad"]).tolist()
    ['yes', 'no']
    """

    counter_: Counter
    core_: SelectionClassifier

    def __init__(
        self,
        ngrams: tuple[int, int] = (1, 2),
        min_count: int | str = "auto",
        max_features: int | None = None,
        binary: bool = True,
        tokenizer: Callable[[str], list[str]] | None = None,
        class_weight: dict[Any, float] | str | None = None,
        training: str = "joint",
        selectivity: float = 0.0,
        heads: int = 1,
        attention_per_class: bool = False,
        cls_token: bool = True,
        calibrate: bool = True,
        warm_start: bool = False,
        max_iter: int = 1000,
        random_state: int = 0,
        options: dict[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.ngrams = ngrams
        self.min_count = min_count
        self.max_features = max_features
        self.binary = binary
        self.tokenizer = tokenizer
        self.class_weight = class_weight
        self.training = training
        self.selectivity = selectivity
        self.heads = heads
        self.attention_per_class = attention_per_class
        self.cls_token = cls_token
        self.calibrate = calibrate
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.random_state = random_state
        self.options = options
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from texts X (n,) and labels y (n,). A warm start keeps the vocabulary."""
        texts, labels = _texts(X), _labels(y)
        _same_length(texts, labels)
        again = self.warm_start and hasattr(self, "core_")
        fresh = self._core()
        core = copy(self.core_).set_params(**fresh.get_params()) if again else fresh
        counter, counts = self._counted(texts, again)
        core.fit(counts, labels, self._weights(labels, sample_weight))
        self.counter_, self.core_ = counter, core
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further texts; the first call's vocabulary stays."""
        texts, labels = _texts(X), _labels(y)
        _same_length(texts, labels)
        again = hasattr(self, "core_")
        core = copy(self.core_) if again else self._core()
        counter, counts = self._counted(texts, again)
        core.partial_fit(counts, labels, classes, self._weights(labels, sample_weight))
        self.counter_, self.core_ = counter, core
        return self

    def _counted(self, texts: list[str], again: bool) -> tuple[Counter, Any]:
        """The counter, a new one unless `again`, and its counts. A refused call must change
        nothing, so learning keeps neither before it has succeeded."""
        if again:
            return self.counter_, self.counter_.transform(texts)
        counter = self._counter(len(texts))
        return counter, counter.fit_transform(texts)

    def _counter(self, n: int) -> Counter:
        automatic = 1 if n < 100 else 2 if n < 10_000 else 3
        return Counter(
            ngrams=self.ngrams,
            min_count=automatic if self.min_count == "auto" else self.min_count,  # type: ignore[arg-type]
            max_features=self.max_features,
            binary=self.binary,
            tokenizer=self.tokenizer,
            threads=self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else None,
        )

    def _core(self) -> SelectionClassifier:
        names = SelectionClassifier().get_params()
        core = SelectionClassifier(**{k: v for k, v in self.get_params().items() if k in names})
        training_of(core.get_params())  # a wrong parameter is told before the texts are counted
        return core

    def _weights(self, labels: np.ndarray, sample_weight: Any) -> Any:
        if self.class_weight is None:
            return sample_weight
        with as_input_errors():
            weight = _check_sample_weight(sample_weight, labels[:, None], dtype=np.float64)
            return weight * compute_sample_weight(self.class_weight, labels)

    def counts(self, X: Any) -> Any:
        """The texts as the model sees them. CSR (n, V)"""
        check_is_fitted(self, "core_")
        return self.counter_.transform(_texts(X))

    def decision_function(self, X: Any) -> Floats:
        """The logits: (n,) for two classes, else (n, K)."""
        return self._ask("decision_function", X)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every text. (n,)"""
        return self._ask("predict", X)

    def predict_proba(self, X: Any) -> Floats:
        """P(class) of every text. (n, classes)"""
        return self._ask("predict_proba", X)

    def _ask(self, question: str, X: Any) -> Any:
        """The core's answer on the texts' counts; no texts, no answers."""
        counts = self.counts(X)
        if counts.shape[0]:
            return getattr(self.core_, question)(counts)
        return getattr(self.core_, question)(type(counts)((1, counts.shape[1])))[:0]

    def explain(self, X: Any) -> Any:
        """Which tokens carry the decision: an Explanation of one text, or of each of many."""
        from keytokens.explain import explain

        check_is_fitted(self, "core_")
        return explain(self, X)

    def certify(self, X: Any) -> Any:
        """The tokens these texts select, and the Att-SVM certificate of that selection."""
        counts = self.counts(X)
        return self.core_.certify(counts)

    def cut(self, bytes: int) -> "KeyTokenClassifier":
        """A smaller model of about so many bytes: the most important n-grams, float32 numbers."""
        from keytokens.classifier.smaller import cut

        check_is_fitted(self, "core_")
        return cut(self, check.integer("bytes", bytes, least=1))

    def save(self, path: str | Path) -> None:
        """Write the model to one file (a folder, where `path` has no suffix)."""
        from keytokens.classifier.stored import save

        check_is_fitted(self, "core_")
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
    def vocabulary_(self) -> list[str]:
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

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "core_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags


def _texts(X: Any) -> list[str]:
    """A list of strings; anything else is named with its place."""
    if isinstance(X, (str, bytes)):
        raise_input("X", "hold several texts", "one text; put it in a list")
    texts = _listed("X", X, "texts")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise_input("X", "hold texts", f"{text!r:.40} at row {row}")
    return texts


def _labels(y: Any) -> np.ndarray:
    """An array of labels, none of them missing."""
    listed = [_plain(label) for label in _listed("y", y, "labels")]
    for row, label in enumerate(listed):
        _check_label(label, row)
    kinds = {type(label).__name__ for label in listed}
    if len(kinds) > 1 and not kinds <= {"int", "float"}:
        raise_input("y", "hold labels of one type", " and ".join(sorted(kinds)))
    labels = np.asarray(listed)
    if len(labels):
        check_labels(labels)
    return labels


def _listed(name: str, values: Any, what: str) -> list[Any]:
    """The values in their order; a table's single column, but never its columns' names."""
    if hasattr(values, "columns") and hasattr(values, "shape"):
        if values.shape[1] != 1:
            raise_input(name, f"be one column of {what}", f"a table of {values.shape[1]} columns")
        values = values[values.columns[0]]
    if isinstance(values, (Mapping, Set)):
        raise_input(name, f"be a sequence of {what}", type(values).__name__)
    try:
        return values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise_input(name, f"be a sequence of {what}", type(values).__name__)


def _plain(label: Any) -> Any:
    """Python's value for a NumPy scalar, or for an enumeration's string or number."""
    if isinstance(label, Enum) and isinstance(label, (str, int)):
        return label.value
    return label.item() if isinstance(label, np.generic) else label


def _check_label(label: Any, row: int) -> None:
    """One string, number or boolean."""
    if isinstance(label, (list, tuple, np.ndarray)):
        raise_input("y", "have 1 axis", f"{label!r:.40} at row {row}")
    if _is_missing(label):
        raise_input("y", "hold no missing label", f"{label!r} at row {row}")
    fraction = isinstance(label, float) and np.isfinite(label) and not label.is_integer()
    if fraction or not isinstance(label, (str, int, float)):
        came = f"{label!r:.40} at row {row}; if these are classes, convert them to strings"
        raise_input("y", "hold classes: whole numbers, strings or booleans", came)


def _is_missing(label: Any) -> bool:
    """None, or what does not equal itself: NaN, and pandas' NA, whose answer is neither."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _same_length(texts: list[str], labels: np.ndarray) -> None:
    if not texts:
        raise_input("X", "hold at least one text", "none")
    if len(texts) != len(labels):
        rule = f"have one label for each of {len(texts)} texts"
        raise_input("y", rule, f"{len(labels)} labels")
