"""The evaluation: by hand where a hand can, and every explainer on the same ground."""

import json
from pathlib import Path

import numpy as np
import pytest
from explaining import TEXTS, Model, model

from keytokens.errors import InputError
from keytokens.explain import explain
from keytokens.explain.evaluate import calibration, evaluate
from keytokens.explain.evaluation_formats import write_html
from keytokens.explain.explainers import Case, mask_logits

LABELS = np.array(["pos", "neg", "neg", "pos", "neg", "pos", "neg"])


class Fitted(Model):
    """The small model with probabilities."""

    def predict_proba(self, texts: list[str]) -> np.ndarray:
        return explain(self, texts).probabilities


def fitted(**how: object) -> Fitted:
    one = model(**how)  # type: ignore[arg-type]
    return Fitted(one.scores_, one.classes_, one.counter_)


def test_calibration_by_hand() -> None:
    p = np.array([[0.1, 0.9], [0.05, 0.95], [0.4, 0.6], [0.7, 0.3]])
    found = calibration(p, np.array([1, 0, 1, 0]))
    assert found.expected_error == pytest.approx(
        2 / 4 * abs(0.5 - 0.925) + 1 / 4 * 0.4 + 1 / 4 * 0.3
    )
    assert [n for _, _, n in found.curve] == [1, 1, 2]


def test_ours_is_first_where_exactness_decides() -> None:
    human = [np.arange(len(t.split())) == 0 for t in TEXTS]
    found = evaluate(fitted(), TEXTS, LABELS, human, (TEXTS, LABELS))
    by_name = {score.explainer: score for score in found.scores}
    assert by_name["leave-one-out"].leave_one_out_agreement == pytest.approx(1.0)
    ours, chance = by_name["leave-one-out"], by_name["random"]
    assert ours.comprehensiveness > chance.comprehensiveness
    assert ours.sufficiency < chance.sufficiency
    for score in found.scores:
        assert 0 <= score.comprehensiveness_normalised <= 1
        assert score.human is not None
    decided = np.asarray(explain(fitted(), TEXTS).labels)
    assert found.accuracy == pytest.approx((decided == LABELS).mean())
    assert found.left_out == ("LIME, SHAP: ask for them with a number of texts",)
    assert {"TF-IDF + LR", "frequency", "attention", "contribution"} <= by_name.keys()


def test_three_classes_have_no_bounds_and_say_so() -> None:
    found = evaluate(fitted(outputs=3), TEXTS, list("abcabca"))
    assert all(np.isnan(score.comprehensiveness_normalised) for score in found.scores)
    assert "TF-IDF + LR: needs a training set" in found.left_out
    assert " - " in str(found)
    assert any(reason.startswith("0-1:") for reason in found.left_out)


def test_mask_logits_are_the_models() -> None:
    one = fitted(outputs=3, maps=2)
    counts = one.counter_.transform(TEXTS)
    bag = Case(one.scores_, counts, None, 0).bags()[0]
    masks = np.random.default_rng(0).random((20, bag.size)) < 0.5
    slow = np.array([bag.kept_logits(mask) for mask in masks])
    assert np.allclose(mask_logits(bag, masks), slow, rtol=0, atol=1e-12)


def test_lime_and_shap_on_the_same_model() -> None:
    pytest.importorskip("lime", reason="the bench extra brings lime")
    pytest.importorskip("shap", reason="the bench extra brings shap")
    from keytokens.explain import explainers

    one = fitted(ngrams=(1, 1))
    case = Case(one.scores_, one.counter_.transform(TEXTS[1:2]), None, 0)
    ours = explainers.leave_one_out(case)
    for peer in (explainers.lime, explainers.shap):
        assert np.corrcoef(peer(case), ours)[0, 1] > 0.5


def test_without_the_bench_extra_a_word_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "lime.lime_text", None)
    monkeypatch.setitem(sys.modules, "shap", None)
    found = evaluate(fitted(), TEXTS, LABELS, sampled=2)
    assert found.explained == 2
    assert any("LIME: lime.lime_text must be installed" in reason for reason in found.left_out)


def test_page_and_json(tmp_path: Path) -> None:
    found = evaluate(fitted(), TEXTS, LABELS)
    write_html(found, tmp_path / "e.html")
    assert "Expected calibration error" in (tmp_path / "e.html").read_text()
    assert json.loads(json.dumps(found.to_dict()))["texts"] == len(TEXTS)


def test_unknown_labels_are_named() -> None:
    with pytest.raises(InputError, match="labels must be one of 'neg', 'pos'; got 'good'"):
        evaluate(fitted(), TEXTS, ["good"] * 7)
    with pytest.raises(InputError, match=r"labels must have shape \(n,\) = \(7,\); got \(2,\)"):
        evaluate(fitted(), TEXTS, ["pos", "neg"])
