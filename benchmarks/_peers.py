"""The text classifiers we are measured against: fit(texts, y) -> predict, settings as published."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

Predict = Callable[[list[str]], np.ndarray]
WORDS = r"\w+|[!?,.;]"


def tfidf(texts: list[str], y: np.ndarray) -> Predict:
    """TF-IDF and logistic regression, scikit-learn's defaults."""
    return make_pipeline(TfidfVectorizer(), LogisticRegression(max_iter=1000)).fit(texts, y).predict


def tuned_tfidf(texts: list[str], y: np.ndarray) -> Predict:
    """Uni- and bigrams, sublinear, C by three-fold cross-validation on the training texts."""
    counts = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    X = counts.fit_transform(texts)
    model = LogisticRegression(max_iter=300, solver="liblinear", tol=1e-3)
    grid = {"C": [1, 4, 16, 64]}
    if len(np.unique(y)) > 2:  # minutes already
        model, grid = LogisticRegression(max_iter=300, tol=1e-3), {"C": [1, 4, 16]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    return lambda texts: search.predict(counts.transform(texts))


def nbsvm(order: int) -> Callable[[list[str], np.ndarray], Predict]:
    """Naive-Bayes log-ratios on binary n-grams into a linear SVM, interpolated by a quarter."""

    def fit(texts: list[str], y: np.ndarray) -> Predict:
        vectorizer = CountVectorizer(ngram_range=(1, order), binary=True, token_pattern=WORDS)
        X = vectorizer.fit_transform(texts).astype(np.float64)
        p, q = (np.asarray(X[y == k].sum(axis=0)).ravel() + 1 for k in (1, 0))
        r = sparse.diags(np.log((p / p.sum()) / (q / q.sum())))
        svm = LinearSVC(C=1.0, dual=True, max_iter=1000).fit(X @ r, y)
        w = svm.coef_[0]
        w = 0.75 * np.abs(w).mean() + 0.25 * w
        return lambda texts: ((vectorizer.transform(texts) @ r) @ w + svm.intercept_ > 0) * 1

    return fit


def fasttext(order: int, epochs: int = 5) -> Callable[[list[str], np.ndarray], Predict]:
    """fastText, 10 dimensions, its own defaults otherwise, two threads."""

    def fit(texts: list[str], y: np.ndarray) -> Predict:
        import fasttext as package

        def clean(text: str) -> str:
            return " ".join(text.replace("<br />", " ").lower().split())

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            rows = (f"__label__{k} {clean(t)}" for k, t in zip(y, texts, strict=True))
            path.write_text("\n".join(rows))
            model = package.train_supervised(
                str(path), dim=10, epoch=epochs, wordNgrams=order, lr=0.5, thread=2, verbose=0
            )
        kind = np.asarray(y).dtype.type

        def predict(texts: list[str]) -> np.ndarray:
            # the binding's own predict breaks on NumPy 2; its inner call does not
            told = [model.f.predict(clean(t) + "\n", 1, 0.0, "strict")[0][1] for t in texts]
            return np.array([kind(label.removeprefix("__label__")) for label in told])

        return predict

    return fit


def wabbit(order: int, passes: int = 1) -> Callable[[list[str], np.ndarray], Predict]:
    """Vowpal Wabbit, n-grams of its own, 24 bits, text normalised in Python."""

    def fit(texts: list[str], y: np.ndarray) -> Predict:
        import re

        from vowpalwabbit import Workspace

        found = re.compile(WORDS)

        def line(text: str, label: str = "") -> str:
            return f"{label} | " + " ".join(found.findall(text.replace("<br />", " ").lower()))

        grams = f"--ngram {order}" if order > 1 else ""
        vw = Workspace(f"--loss_function logistic -b 24 {grams} --quiet")
        order_of = np.random.default_rng(0).permutation(len(texts))
        for _ in range(passes):
            for i in order_of:
                vw.learn(line(texts[i], "1" if y[i] else "-1"))
        return lambda texts: np.array([vw.predict(line(t)) > 0 for t in texts]) * 1

    return fit
