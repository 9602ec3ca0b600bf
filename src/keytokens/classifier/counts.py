"""SelectionClassifier: the attention model as a scikit-learn estimator on token counts."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    check_non_negative,
    validate_data,
)

from keytokens._checks import Floats
from keytokens.classifier.choices import training_of
from keytokens.embedding import frequencies
from keytokens.embedding.corpus import Corpus, Fitted, retempered
from keytokens.embedding.heldout import temperature
from keytokens.embedding.joint import continue_joint, mean_length
from keytokens.embedding.kernels import Layout
from keytokens.embedding.rows import one_blas_thread
from keytokens.embedding.scores import logits
from keytokens.errors import InputError, raise_input

_MOST_CLASSES = 100  # more than this, and nearly one label a row, is a column read by mistake
_MOST_NUMBERS = 2**25  # (tokens + 1) x (1 + outputs): 256 MB, and training holds about thirty such


@contextmanager
def as_input_errors() -> Iterator[None]:
    """What scikit-learn's checks refuse, in its words, under our base class."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def check_labels(y: np.ndarray) -> None:
    """Labels are classes that repeat, not measurements and not row numbers."""
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise_input("y", "hold finite labels", f"{y[~np.isfinite(y)][0]:g}")
    with warnings.catch_warnings():  # too many classes are refused below, in our words
        warnings.simplefilter("ignore", UserWarning)
        try:
            check_classification_targets(y)
        except ValueError as error:
            rule = "hold classes: whole numbers, strings or booleans"
            raise_input("y", rule, str(error).split(". ")[0])
    K = len(np.unique(y))
    if K > _MOST_CLASSES and len(y) < 2 * K:
        raise_input("y", "hold classes that repeat", f"{K} distinct labels in {len(y)} rows")


def canonical(X: Any) -> sparse.csr_array:
    """One entry a token, and none of them zero: a text is the tokens it holds. X stays as it is."""
    counts = sparse.csr_array(X)
    if not counts.has_canonical_format or not counts.data.all():
        counts = counts.copy()
        counts.sum_duplicates()
        counts.eliminate_zeros()
    return counts


class SelectionClassifier(ClassifierMixin, BaseEstimator):
    """Softmax attention over the tokens of a count matrix (n, V), trained exactly.

    training: "joint" (attention and values together, the accurate one), "one_step" and
        "two_stage" (one gradient step on the embedding; then gradient flow on p), "network" (the
        usual E, p at a finite width, by descent or Adam). `options`: their further numbers.
    selectivity: from 0 (attention stays almost even) to 1 (one token holds all of it).
    heads, attention_per_class: several attention maps; one (or `heads`) for every class.
    cls_token: one constant token in every text, so that an empty one has an answer.
    calibrate: scale the logits so that held-out probabilities are honest (above 10,000 rows).
    warm_start: a further fit begins where the last one ended.
    n_jobs: threads; the result does not depend on it.

    Learned: `classes_`, `scores_` (the AttentionScores), `attention_` and `value_` (its token
    part), `signed_frequency_`, `posterior_difference_`, `importance_`, `held_out_`, `n_iter_`,
    `reason_` (why training ended), `temperature_`.
    """

    def __init__(
        self,
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
        """Learn from counts X (n, V), non-negative, dense or sparse, and labels y (n,)."""
        training, options = training_of(self.get_params())
        X, y = self._checked(X, y)
        classes, labels = np.unique(y, return_inverse=True)
        corpus = self._corpus(X, labels, classes, sample_weight)
        again = self.warm_start and hasattr(self, "scores_") and self.training == "joint"
        again = again and self.selectivity == 0
        with one_blas_thread():
            if again and np.array_equal(classes, self.classes_) and self._fits(corpus):
                found = continue_joint(corpus, options, self._raw_scores(), seen=0.0)
            else:
                found = training.run(corpus, options)
            self.classes_: np.ndarray = classes
            self.seen_ = float(corpus.weight.sum())
            return self._keep(corpus, found)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows, staying near what was learned, by as much as was seen."""
        first = not hasattr(self, "scores_")
        X, y = self._checked(X, y, reset=first)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
        if unknown := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise_input("y", f"hold known classes, {self.classes_.tolist()}", unknown)
        labels = np.searchsorted(self.classes_, y)
        corpus = self._corpus(X, labels, self.classes_, sample_weight)
        training, options = training_of(self.get_params())
        if not first and self.training != "joint":
            raise_input("training", "be 'joint' to learn in parts", repr(self.training))
        if not first and not self._fits(corpus):
            raise_input("heads", "stay as they were to learn in parts", f"{self.heads}")
        with one_blas_thread():
            if first:
                self.seen_ = 0.0
                found = training.run(corpus, options)
            else:
                found = continue_joint(corpus, options, self._raw_scores(), self.seen_)
            self.seen_ += float(corpus.weight.sum())
            return self._keep(corpus, found)

    def _fits(self, corpus: Corpus) -> bool:
        """Have the learned scores the shape that would be learned now?"""
        layout = Layout.of(corpus.positive.shape[1], self.heads, self.attention_per_class)
        learned = self.scores_.n_maps, self.scores_.n_outputs, self.scores_.n_features
        return learned == (layout.n_maps, layout.n_outputs, corpus.counts.shape[1])

    def _checked(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, np.ndarray]:
        how = dict(accept_sparse="csr", accept_large_sparse=False, dtype=np.float64, reset=reset)
        with as_input_errors():
            X, y = validate_data(self, X, y, **how)
            check_non_negative(X, "SelectionClassifier")
        check_labels(y)
        return X, y

    def _corpus(self, X: Any, labels: np.ndarray, classes: np.ndarray, weight: Any) -> Corpus:
        K, V = len(classes), X.shape[1]
        if K < 2:
            raise_input("y", "hold at least two classes", f"one class: {classes.tolist()[0]!r}")
        if (V + 1) * (1 + K) > _MOST_NUMBERS:
            raise_input("y", f"have fewer classes for {V} tokens", f"{K} classes")
        return Corpus(canonical(X), labels, K, self._weights(X, weight), self.n_jobs)

    def _weights(self, X: Any, sample_weight: Any) -> Floats:
        with as_input_errors():
            return _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )

    def _keep(self, corpus: Corpus, found: Fitted) -> Self:
        """Store what was learned and the theory's statistics beside it."""
        self.temperature_ = self._temperature(corpus, found) if self.calibrate else 1.0
        self.scores_ = retempered(found.scores, self.temperature_)
        self.n_iter_, self.reason_, self.held_out_ = found.iterations, found.reason, found.held_out
        signs = 2 * corpus.positive - 1
        signs = signs[:, 0] if signs.shape[1] == 1 else signs
        alpha = frequencies.signed_frequency(corpus.counts, signs, corpus.weight)
        phi = frequencies.frequency(corpus.counts, corpus.weight)
        self.signed_frequency_ = alpha
        self.posterior_difference_ = frequencies.difference(alpha, phi)
        self.importance_ = frequencies.importance(self.scores_, phi, mean_length(corpus))
        return self

    def _temperature(self, corpus: Corpus, found: Fitted) -> float:
        """From held-out rows; the theory's stages, whose scale is arbitrary, use their own rows."""
        if found.held_out is not None:
            return found.held_out.temperature
        if self.training == "joint":
            return 1.0
        raw = logits(found.scores, corpus.counts, self.n_jobs)
        return temperature(raw, corpus.target, corpus.weight / corpus.weight.sum())

    def _raw_scores(self) -> Any:
        return retempered(self.scores_, 1 / self.temperature_)

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

    @available_if(lambda self: hasattr(self, "scores_"))
    def decision_function(self, X: Any) -> Floats:
        """The logits: (n,) for two classes, else (n, K)."""
        return self._logits(X)

    def _logits(self, X: Any) -> Floats:
        counts = self._asked(X)
        raw = logits(self.scores_, counts, self.n_jobs)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every row. (n,)"""
        raw = self._logits(X)
        return self.classes_[(raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """P(class) of every row. (n, classes)"""
        raw = self._logits(X)
        if raw.ndim == 1:
            return np.column_stack([expit(-raw), expit(raw)])
        return softmax(raw, axis=1)

    def certify(self, X: Any) -> Any:
        """The tokens these rows select, and the Att-SVM certificate of that selection."""
        from keytokens.classifier.certified import certify_selection

        counts = self._asked(X)
        return certify_selection(self.scores_, counts)

    def _asked(self, X: Any) -> sparse.csr_array:
        """Counts to answer about, checked."""
        check_is_fitted(self, "scores_")
        with as_input_errors():
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
            check_non_negative(X, "SelectionClassifier")
        return canonical(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
