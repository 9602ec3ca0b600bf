"""Explanations add up: by hand, against the scores' own logits, in batch, over words."""

import numpy as np
import pytest
from explaining import TEXTS, Model, model

from keytokens.embedding.scores import AttentionScores, logits
from keytokens.errors import InputError
from keytokens.explain import explain
from keytokens.explain.explanation import probabilities
from keytokens.explain.spans import Occurrences, share_on_words
from keytokens.text import Counter

MODELS = {
    "unigrams": dict(ngrams=(1, 1)),
    "bigrams": dict(ngrams=(1, 2)),
    "trigrams alone": dict(ngrams=(3, 3)),
    "counts": dict(binary=False),
    "no cls": dict(cls=False),
    "three classes": dict(outputs=3),
    "two maps": dict(maps=2),
    "two maps, three classes, saturated": dict(maps=2, outputs=3, scale=300.0),
    "one token holds all": dict(scale=2000.0),
}


def by_hand() -> Model:
    """good: a = log 3, b = 2; film: a = 0, b = -1; no cls; bias 0.5."""
    counter = Counter(ngrams=(1, 1), min_count=1)
    counter.fit_transform(["good good film", "good"])
    assert list(counter.vocabulary_) == ["good", "film"]
    attention = np.array([[np.log(3.0), 0.0, -np.inf]])
    scores = AttentionScores(attention, np.array([[[2.0, -1.0, 0.0]]]), np.array([0.5]))
    return Model(scores, np.array(["neg", "pos"]), counter)


def test_by_hand() -> None:
    why = explain(by_hand(), "Good film, GOOD!")
    good, film, again = why.tokens
    assert (good.text, good.start, good.end) == ("Good", 0, 4)
    assert (film.text, again.text, again.start) == ("film", "GOOD", 11)
    assert [t.attention for t in why.tokens] == pytest.approx([3 / 8, 1 / 4, 3 / 8])
    assert [t.value for t in why.tokens] == [2.0, -1.0, 2.0]
    assert [t.contribution for t in why.tokens] == pytest.approx([0.75, -0.25, 0.75])
    assert why.logit == pytest.approx(1.75)
    assert (why.label, why.explained_class, why.bias) == ("pos", "pos", 0.5)
    assert why.probabilities["pos"] == pytest.approx(1 / (1 + np.exp(-1.75)))
    assert why.effective_tokens == pytest.approx(1 / (9 / 16 + 1 / 16))
    assert why.tokens_carrying(0.8) == 1  # |1.5| of 1.75
    assert why.names(why.sufficient) == []  # the bias alone says pos
    assert why.names(why.flipping) == ["good"]
    assert why.flipping is not None
    assert why.flipping.exact
    assert why.flipping.logits == pytest.approx([-0.5])


def test_n_grams_share_on_words_by_hand() -> None:
    words = np.array([[0, 3], [4, 8], [9, 12]])
    where = Occurrences(np.array([0, 1]), np.array([0, 4]), np.array([8, 12]))
    shared = share_on_words(where, np.array([1.0, 3.0]), words)
    assert shared.tolist() == [0.5, 2.0, 1.5]


@pytest.mark.parametrize("kind", MODELS)
def test_contributions_and_bias_sum_to_the_logit(kind: str) -> None:
    fitted = model(**MODELS[kind])
    expected = logits(fitted.scores_, fitted.counter_.transform(TEXTS))
    for text, row in zip(TEXTS, expected, strict=True):
        why = explain(fitted, text)
        assert np.allclose(why.bag.logits, row, rtol=0, atol=1e-12)
        for k, label in enumerate(why.classes if len(row) > 1 else why.classes[:1]):
            one = why.of_class(label)
            assert one.logit == pytest.approx(row[k], abs=1e-12)
            for parts in (one.tokens, one.words):
                assert sum(t.contribution for t in parts) + one.bias == pytest.approx(
                    one.logit, abs=1e-12
                )


@pytest.mark.parametrize("kind", MODELS)
def test_batch_and_single_agree(kind: str) -> None:
    fitted = model(**MODELS[kind])
    many = explain(fitted, TEXTS)
    assert len(many) == len(TEXTS)
    for k, text in enumerate(TEXTS):
        one = explain(fitted, text)
        row = slice(*many.counts.indptr[k : k + 2])
        assert many.counts.indices[row].tolist() == one.bag.columns.tolist()
        assert np.allclose(many.contributions[:, row], one.bag.contributions[:, :-1], atol=1e-12)
        assert np.allclose(many.logits[k], one.bag.logits, rtol=0, atol=1e-11)
        assert many.labels[k] == one.label == many[k].label
        assert many.effective_tokens[k] == pytest.approx(one.effective_tokens)
        assert np.allclose(many.probabilities[k], list(one.probabilities.values()), atol=1e-12)


def test_tokens_point_into_the_original_text() -> None:
    fitted = model(ngrams=(1, 2))
    for text in TEXTS:
        why = explain(fitted, text)
        for token in why.tokens:
            if not token.is_constant:
                assert token.text == text[token.start : token.end]
                assert token.contribution == pytest.approx(token.attention * token.value)
        found = {t.text.lower() for t in why.words if not t.is_constant}
        assert found == set(fitted.counter_.tokenizer(text))


def test_for_and_against_each_class() -> None:
    why = explain(model(outputs=3), TEXTS[0])
    assert why.explained_class == why.label
    seen = [why.of_class(label).logit for label in why.classes]
    assert why.classes[int(np.argmax(seen))] == why.label
    with pytest.raises(InputError, match="label must be one of 'a', 'b', 'c'; got 'd'"):
        why.of_class("d")


def test_probabilities_sum_to_one_in_the_limit() -> None:
    for raw in (np.array([[800.0], [-800.0]]), np.array([[900.0, -900.0, 0.0]])):
        assert np.allclose(probabilities(raw).sum(axis=1), 1)


def test_what_is_not_a_text_is_named() -> None:
    with pytest.raises(InputError, match="texts must hold strings; got None at input 1"):
        explain(model(), ["a", None])


def test_slices_stay_columns() -> None:
    many = explain(model(), TEXTS)
    part = many[1:4]
    assert np.allclose(part.logits, many.logits[1:4])
    assert [why.text for why in part] == TEXTS[1:4]
    assert many[-1].text == TEXTS[-1]
