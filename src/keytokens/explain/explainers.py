"""Explainers side by side: ours, plain baselines, and LIME and SHAP on the same model.

Each gives a score to every distinct known n-gram of every text (nnz,), higher speaking more for
the decision. LIME and SHAP get the closed form as their model: they pay for their samples, not for
tokenising; so their times here are the kindest there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keytokens import _extras
from keytokens._checks import Floats
from keytokens._progress import track
from keytokens.embedding.scores import AttentionScores
from keytokens.explain import faithfulness as faith
from keytokens.explain.bag import Bag
from keytokens.explain.batch import Explanations
from keytokens.explain.explanation import probabilities


@dataclass(frozen=True, eq=False)
class Case:
    """What an explainer gets: the model's scores, the texts' counts, and a training set's."""

    scores: AttentionScores
    counts: Any
    train: tuple[Any, Any] | None
    seed: int

    @property
    def sizes(self) -> Any:
        """Distinct tokens of each text. (n,)"""
        return np.diff(self.counts.indptr)

    def bags(self) -> list[Bag]:
        """Each text alone."""
        rows = zip(self.counts.indptr[:-1], self.counts.indptr[1:], strict=True)
        return [
            Bag.of(
                self.scores,
                self.counts.indices[lo:hi].astype(np.int64),
                self.counts.data[lo:hi].astype(np.float64),
            )
            for lo, hi in rows
        ]


Explainer = Callable[[Case], Floats]


def contribution(case: Case) -> Floats:
    """Ours: w_s b_s toward the class decided for."""
    # Only columns are asked for: no text is looked at again.
    columns = Explanations([], _Scored(case.scores), case.counts)
    return faith.toward_decision(case.scores, case.counts, columns.contributions)


def leave_one_out(case: Case) -> Floats:
    """Ours: what removing the token alone costs, exactly."""
    return faith.leave_one_out(case.scores, case.counts)


def attention(case: Case) -> Floats:
    """The attention weight, without the value."""
    return Explanations([], _Scored(case.scores), case.counts).attention


def at_random(case: Case) -> Floats:
    """No explanation at all."""
    return np.random.default_rng(case.seed).random(case.counts.nnz)


def frequency(case: Case) -> Floats:
    """In how many of these texts the token occurs."""
    seen = np.bincount(case.counts.indices, minlength=case.counts.shape[1])
    return seen[case.counts.indices].astype(np.float64)


def tfidf_regression(case: Case) -> Floats:
    """TF-IDF times the coefficient of a logistic regression trained on the same texts."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression

    assert case.train is not None
    counts, labels = case.train
    transformer = TfidfTransformer().fit(counts)
    fitted = LogisticRegression(max_iter=1000).fit(transformer.transform(counts), labels)
    rows = transformer.transform(case.counts).tocsr()
    rows.sort_indices()
    return faith.toward_decision(
        case.scores, case.counts, fitted.coef_[:, rows.indices] * rows.data
    )


def lime(case: Case) -> Floats:
    """LIME with its own settings (5,000 samples); every distinct token is one of its words."""
    module = _extras.require("lime.lime_text", "bench")
    explainer = module.LimeTextExplainer(random_state=case.seed, bow=True)
    return _each(case, lambda bag: _lime_of(explainer, bag), "LIME")


def _lime_of(explainer: Any, bag: Bag) -> Floats:
    if bag.size == 0:
        return np.zeros(0)
    decided = bag.decide(bag.logits)

    def predict(texts: list[str]) -> Floats:
        masks = np.zeros((len(texts), bag.size), bool)
        for row, text in enumerate(texts):
            masks[row, [int(word) for word in text.split()]] = True
        return probabilities(mask_logits(bag, masks))

    names = " ".join(map(str, range(bag.size)))
    found = explainer.explain_instance(names, predict, labels=(decided,), num_features=bag.size)
    credit = np.zeros(bag.size)
    for word, weight in found.as_list(label=decided):
        credit[int(word)] = weight
    return credit


def shap(case: Case) -> Floats:
    """SHAP's permutation explainer with its own settings, on the margin of the decision."""
    module = _extras.require("shap", "bench")
    return _each(case, lambda bag: _shap_of(module, bag, case.seed), "SHAP")


def _shap_of(module: Any, bag: Bag, seed: int) -> Floats:
    if bag.size == 0:
        return np.zeros(0)
    decided = bag.decide(bag.logits)

    def margin(masks: Floats) -> Floats:
        logits = mask_logits(bag, masks > 0.5)
        if logits.shape[1] == 1:
            return logits[:, 0] * (1.0 if decided else -1.0)
        return logits[:, decided] - np.delete(logits, decided, axis=1).mean(axis=1)

    explainer = module.PermutationExplainer(margin, np.zeros((1, bag.size)), seed=seed)
    budget = 10 * (2 * bag.size + 1)
    values = explainer(np.ones((1, bag.size)), max_evals=budget, silent=True).values[0]
    return np.asarray(values, np.float64)


def mask_logits(bag: Bag, masks: Any) -> Floats:
    """The logits of many kept sets at once. (S, F) -> (S, K)"""
    kept = np.hstack([masks, np.ones((len(masks), 1), bool)]).astype(np.float64)
    logits = np.tile(bag.bias, (len(masks), 1))
    for a, b in zip(bag.attention, bag.value, strict=True):
        e = np.exp(a - a.max())
        total = kept @ e
        pooled = kept @ (e * b).T
        logits += np.divide(
            pooled, total[:, None], out=np.zeros_like(pooled), where=total[:, None] > 0
        )
    return logits


def _each(case: Case, score: Callable[[Bag], Floats], label: str) -> Floats:
    parts = [score(bag) for bag in track(case.bags(), label)]
    return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Scores in the place of a model, for columns alone."""

    scores_: AttentionScores
    classes_: Any = ()
    counter_: Any = None


OURS: dict[str, Explainer] = {
    "contribution": contribution,
    "leave-one-out": leave_one_out,
}
BASELINES: dict[str, Explainer] = {
    "attention": attention,
    "frequency": frequency,
    "random": at_random,
}
TRAINED: dict[str, Explainer] = {"TF-IDF + LR": tfidf_regression}
SAMPLED: dict[str, Explainer] = {"LIME": lime, "SHAP": shap}
