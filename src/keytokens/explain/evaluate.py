"""How right, how calibrated and how faithful a model is, beside other explainers."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from keytokens import _checks as check
from keytokens._checks import Booleans, Floats
from keytokens.errors import MissingExtra, raise_input
from keytokens.explain import explainers, rationales
from keytokens.explain import faithfulness as faith
from keytokens.explain.batch import Explanations, explain
from keytokens.explain.explainers import Case, Explainer


@dataclass(frozen=True)
class Agreement:
    """With human rationales, over the tokens of `text.split()`; all are means over texts.

    precision_at_budget: of as many tokens as people marked, the share that people marked.
    precision, recall, f1, iou_f1: of the mean human share of each text. auprc: over all shares.
    """

    auprc: float
    precision_at_budget: float
    precision: float
    recall: float
    f1: float
    iou_f1: float


@dataclass(frozen=True)
class Score:
    """One explainer. The normalised figures run from 0 (worst sets) to 1 (best sets).

    comprehensiveness_at, sufficiency_at: at each share of `Evaluation.bins`; the AOPC, which has
    no ending of its own, is their mean.
    """

    explainer: str
    seconds_per_text: float
    comprehensiveness_at: tuple[float, ...]
    sufficiency_at: tuple[float, ...]
    comprehensiveness: float
    sufficiency: float
    comprehensiveness_normalised: float
    sufficiency_normalised: float
    leave_one_out_agreement: float
    human: Agreement | None = None


@dataclass(frozen=True)
class Calibration:
    """expected_error: sum over bins of n_b / n |accuracy_b - confidence_b|. curve: the bins."""

    expected_error: float
    curve: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True)
class Evaluation:
    """All of it; `left_out` says what was not measured, and why."""

    texts: int
    accuracy: float
    log_loss: float
    calibration: Calibration
    explained: int
    bins: tuple[float, ...]
    scores: tuple[Score, ...]
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        from keytokens.explain.evaluation_formats import plain

        return plain(self)


def evaluate(
    model: Any,
    texts: Sequence[str],
    labels: Any,
    human: Sequence[Booleans] | None = None,
    train: tuple[Sequence[str], Any] | None = None,
    sampled: int = 0,
    seed: int = 0,
) -> Evaluation:
    """Evaluate on labelled texts.

    human: a mask over `text.split()` for each text. train: texts and labels for TF-IDF + LR.
    sampled: with LIME and SHAP (the bench extra) on that many texts. Every explainer is measured on
    the same texts: all of them, or those first `sampled`.
    """
    listed = list(texts)
    right = np.asarray(labels)
    if not listed:
        raise_input("texts", "hold at least one text", "none")
    check.shape("labels", right, (len(listed),), "(n,)")
    places = check_labels(model, right)
    p = np.asarray(model.predict_proba(listed))
    size = min(sampled, len(listed)) or len(listed)
    whys = explain(model, listed[:size])
    assert isinstance(whys, Explanations)
    scores, left_out = _compare(whys, human, train, bool(sampled), seed)
    return Evaluation(
        len(listed),
        float((p.argmax(axis=1) == places).mean()),
        float(-np.log(np.maximum(p[np.arange(len(p)), places], 1e-300)).mean()),
        calibration(p, places),
        size,
        faith.BINS,
        tuple(scores),
        tuple(left_out),
    )


def check_labels(model: Any, labels: Any) -> Any:
    """Labels as places among the model's classes."""
    names = {str(label): k for k, label in enumerate(model.classes_)}
    for label in labels.tolist():
        check.one_of("labels", str(label), list(names))
    return np.array([names[str(label)] for label in labels.tolist()])


def calibration(p: Floats, places: Any, bins: int = 10) -> Calibration:
    """Confidence against accuracy, in equal bins of the probability of the class decided for."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == places
    where = np.minimum((sure * bins).astype(int), bins - 1)
    curve, error = [], 0.0
    for b in np.unique(where):
        chosen = where == b
        confidence, accuracy = float(sure[chosen].mean()), float(right[chosen].mean())
        curve.append((confidence, accuracy, int(chosen.sum())))
        error += chosen.mean() * abs(accuracy - confidence)
    return Calibration(float(error), tuple(curve))


def _compare(
    whys: Explanations, human: Any, train: Any, sampled: bool, seed: int
) -> tuple[list[Score], list[str]]:
    """Every explainer on the same texts, and a word on those left out."""
    model, left_out = whys.model, []
    chosen = explainers.OURS | explainers.BASELINES
    if train is None:
        left_out.append("TF-IDF + LR: needs a training set")
    else:
        chosen |= explainers.TRAINED
        train = (model.counter_.transform(list(train[0])), np.asarray(train[1]))
    if sampled:
        chosen |= explainers.SAMPLED
    else:
        left_out.append("LIME, SHAP: ask for them with a number of texts")
    bench = _Bench(Case(model.scores_, whys.counts, train, seed), whys, human)
    if bench.bounds is None:
        left_out.append("0-1: the best and worst sets are exact for one map and two classes")
    found: list[Score] = []
    for name, explainer in chosen.items():
        try:
            found += bench.measure(name, explainer)
        except MissingExtra as missing:
            left_out.append(f"{name}: {missing}")
    return found, left_out


class _Bench:
    """What all explainers are held against, computed once."""

    def __init__(self, case: Case, whys: Explanations, human: Any) -> None:
        self.case = case
        self.bounds = faith.bounds(case.scores, case.counts)
        self.exact = faith.leave_one_out(case.scores, case.counts)
        self.human = None if human is None else [np.asarray(mask, bool) for mask in human]
        self.whys = [] if human is None else list(whys)
        self._warm_up()

    def _warm_up(self) -> None:
        """Compile before the clock runs."""
        for explainer in explainers.OURS.values():
            explainer(replace(self.case, counts=self.case.counts[:1]))

    def measure(self, name: str, explainer: Explainer) -> list[Score]:
        """The explainer's score; with people to compare to, its phrases' too."""
        start = time.perf_counter()
        ranking = explainer(self.case)
        seconds = (time.perf_counter() - start) / max(self.case.counts.shape[0], 1)
        found = faith.faithfulness(self.case.scores, self.case.counts, ranking)
        normalised = self.bounds.normalised(found) if self.bounds else (float("nan"),) * 2
        agreement = _spearman(ranking, self.exact, self.case.counts.indptr)
        score = Score(name, seconds, *found.by_bin, *found.aopc, *normalised, agreement)
        if self.human is None:
            return [score]
        pairs = [(why, self._credit(ranking, i)) for i, why in enumerate(self.whys)]
        words = [rationales.split_credit(*pair) for pair in pairs]
        phrases = [rationales.rationale_scores(*pair) for pair in pairs]
        return [
            replace(score, human=_agreement(words, self.human)),
            replace(score, explainer=f"{name}, phrases", human=_agreement(phrases, self.human)),
        ]

    def _credit(self, ranking: Floats, i: int) -> Floats:
        """One text's part of the ranking. (F,)"""
        lo, hi = self.case.counts.indptr[i : i + 2]
        return ranking[lo:hi]


def _agreement(scores: list[Floats], human: list[Booleans]) -> Agreement:
    """Means over the texts that people marked anything in."""
    pairs = [(s, h) for s, h in zip(scores, human, strict=False) if h.any()]
    share = float(np.mean([h.mean() for _, h in pairs]))
    rows = [_agreement_of(s, h, share) for s, h in pairs]
    return Agreement(*np.mean(rows, axis=0).tolist())


def _agreement_of(scores: Floats, human: Booleans, share: float) -> tuple[float, ...]:
    budget = rationales.top(scores, int(human.sum()))
    marked = rationales.top(scores, max(1, round(share * len(scores))))
    return (
        rationales.average_precision(scores, human),
        rationales.precision_recall_f1(budget, human)[0],
        *rationales.precision_recall_f1(marked, human),
        rationales.span_iou(marked, human),
    )


def _spearman(ranking: Floats, exact: Floats, indptr: Any) -> float:
    """Mean over texts of the rank correlation with the exact leave-one-out."""
    from scipy.stats import rankdata

    found = []
    for lo, hi in pairwise(indptr):
        a, b = rankdata(ranking[lo:hi]), rankdata(exact[lo:hi])
        if hi - lo > 1 and np.ptp(a) > 0 and np.ptp(b) > 0:
            found.append(np.corrcoef(a, b)[0, 1])
    return float(np.mean(found)) if found else float("nan")
