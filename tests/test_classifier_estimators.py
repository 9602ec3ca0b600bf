"""The two estimators: scikit-learn's contract, options, weights, parts, edge inputs in words."""

from datetime import date
from decimal import Decimal
from enum import Enum

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import keytokens as kt

GOOD = ["a good film", "very good", "so good !", "what a treat", "good, very good treat"]
BAD = ["a bad film", "very bad", "so bad !", "what a bore", "bad, very bad bore"]
TEXTS, LABELS = GOOD + BAD, ["yes"] * 5 + ["no"] * 5


@parametrize_with_checks([kt.SelectionClassifier()])
def test_scikit_learns_checks_pass(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def model() -> kt.KeyTokenClassifier:
    return kt.KeyTokenClassifier().fit(TEXTS, LABELS)


def test_it_learns_and_names_its_classes(model) -> None:
    assert model.predict(TEXTS).tolist() == LABELS
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.predict_proba(TEXTS).sum(axis=1) == pytest.approx(np.ones(10))
    good, bad = (model.vocabulary_.index(word) for word in ("good", "bad"))
    assert model.value_[good] > 0 > model.value_[bad]
    assert model.posterior_difference_[good] == 1
    assert model.signed_frequency_[bad] < 0
    assert model.attention_.shape == model.value_.shape == (len(model.vocabulary_),)


def test_logits_are_those_of_the_scores(model) -> None:
    from keytokens.embedding.scores import logits

    expected = logits(model.scores_, model.counts(TEXTS))[:, 0]
    assert np.array_equal(model.decision_function(TEXTS), expected)
    assert model.predict_proba(TEXTS)[:, 1] == pytest.approx(1 / (1 + np.exp(-expected)))


def test_it_works_where_scikit_learn_is_used() -> None:
    search = GridSearchCV(kt.KeyTokenClassifier(), {"ngrams": [(1, 1), (1, 2)]}, cv=2)
    assert search.fit(TEXTS, LABELS).best_score_ > 0.6
    assert cross_val_score(kt.KeyTokenClassifier(), TEXTS, LABELS, cv=2).mean() > 0.6
    again = clone(kt.KeyTokenClassifier(selectivity=0.5, options={"prior": 0.1}))
    assert (again.selectivity, again.options) == (0.5, {"prior": 0.1})
    line = make_pipeline(CountVectorizer(), kt.SelectionClassifier())
    assert line.fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1
    assert make_pipeline(kt.KeyTokenClassifier()).fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1


def test_the_same_fit_twice_is_the_same_bits(model) -> None:
    again = clone(model).fit(TEXTS, LABELS)
    assert again.scores_.value.tobytes() == model.scores_.value.tobytes()
    assert again.scores_.attention.tobytes() == model.scores_.attention.tobytes()


def test_an_empty_text_has_an_answer(model) -> None:
    empty, unknown = model.predict_proba(["", "xyzzy plugh"])
    assert np.array_equal(empty, unknown)
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, 2)


def test_a_very_long_text_has_an_answer(model) -> None:
    assert model.predict(["good film " * 500_000]).tolist() == ["yes"]


def test_contradicting_labels_end_in_even_odds() -> None:
    torn = kt.KeyTokenClassifier().fit(["the same"] * 4, [0, 1, 0, 1])
    assert torn.predict_proba(["the same"])[0] == pytest.approx([0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("labels", [[3, 1, 2] * 4, ["c", "a", "b"] * 4, [True, False] * 6])
def test_labels_of_any_type_come_back(labels) -> None:
    texts = [f"{label} word here" for label in labels]
    fitted = kt.KeyTokenClassifier().fit(texts, labels)
    assert fitted.predict(texts).tolist() == labels


def test_series_are_texts_too() -> None:
    fitted = kt.KeyTokenClassifier().fit(pl.Series(TEXTS), pl.Series(LABELS))
    assert fitted.predict(np.array(TEXTS)).tolist() == LABELS


def test_a_single_column_of_a_table_is_its_texts(model) -> None:
    fitted = kt.KeyTokenClassifier().fit(pl.DataFrame({"t": TEXTS}), pl.DataFrame({"l": LABELS}))
    assert fitted.predict(pl.DataFrame({"t": TEXTS})).tolist() == LABELS


class Answer(str, Enum):  # noqa: UP042 (str() of a StrEnum would hide what is tested)
    """As many programs keep their classes."""

    YES = "yes"
    NO = "no"


@pytest.mark.parametrize(
    ("given", "meant"), [([np.int64(1), 2], [1, 2]), ([Answer.YES, Answer.NO], ["yes", "no"])]
)
def test_labels_of_several_wrappings_are_one_type(given, meant) -> None:
    fitted = kt.KeyTokenClassifier().fit(["good", "bad"] * 3, given * 3)
    assert fitted.predict(["good", "bad"]).tolist() == meant


REFUSED = [
    dict(y=["a"] * 10),
    dict(y=LABELS, sample_weight=[-1.0] * 10),
    dict(y=LABELS, sample_weight=[1.0] * 9),
]


def tried(model, how: str, **given) -> None:
    with pytest.raises(kt.InputError):
        getattr(model, how)(["other words", "more"] * 5, **given)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("given", REFUSED)
def test_a_refused_call_changes_nothing(warm: bool, how: str, given) -> None:
    fitted = kt.KeyTokenClassifier(warm_start=warm).fit(TEXTS, LABELS)
    before, words = fitted.predict_proba(TEXTS), fitted.vocabulary_
    fitted.random_state = 7
    tried(fitted, how, **given)
    assert fitted.vocabulary_ == words
    assert np.array_equal(fitted.predict_proba(TEXTS), before)
    assert fitted.core_.random_state == 0


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("given", REFUSED)
def test_a_refused_first_call_leaves_no_vocabulary(model, how: str, given) -> None:
    fitted = kt.KeyTokenClassifier(warm_start=True)
    tried(fitted, how, **given)
    with pytest.raises(NotFittedError):
        fitted.predict(TEXTS)
    assert getattr(fitted, how)(TEXTS, LABELS).vocabulary_ == model.vocabulary_


@pytest.mark.parametrize("training", ["joint", "one_step", "two_stage", "network"])
def test_every_training_says_how_it_ended(training: str) -> None:
    fitted = kt.KeyTokenClassifier(training=training).fit(TEXTS, LABELS)
    assert fitted.score(TEXTS, LABELS) >= 0.9
    assert isinstance(fitted.core_.reason_, str)


def test_class_weights_move_the_decision() -> None:
    texts, labels = ["same word"] * 10, [0] * 7 + [1] * 3
    plain = kt.KeyTokenClassifier().fit(texts, labels)
    other = kt.KeyTokenClassifier(class_weight={0: 1, 1: 10}).fit(texts, labels)
    even = kt.KeyTokenClassifier(class_weight="balanced").fit(texts, labels)
    assert plain.predict(["same"])[0] == 0
    assert other.predict(["same"])[0] == 1
    assert even.predict_proba(["same word"])[0] == pytest.approx([0.5, 0.5], abs=1e-3)


def test_sample_weights_count_rows() -> None:
    weight = np.array([2, 1, 1, 1, 1, 3, 1, 1, 1, 1])
    twice = np.repeat(np.arange(10), weight)
    fixed = dict(min_count=1)
    one = kt.KeyTokenClassifier(**fixed).fit(TEXTS, LABELS, weight)
    two = kt.KeyTokenClassifier(**fixed).fit([TEXTS[i] for i in twice], [LABELS[i] for i in twice])
    assert one.decision_function(TEXTS) == pytest.approx(two.decision_function(TEXTS), rel=1e-6)


def test_learning_goes_on_with_new_texts() -> None:
    parts = kt.KeyTokenClassifier().partial_fit(TEXTS, LABELS)
    before = parts.predict_proba(["what a film"])[0, 1]
    parts.partial_fit(["what a film"] * 5, ["yes"] * 5)
    assert parts.predict_proba(["what a film"])[0, 1] > before
    assert parts.predict(TEXTS).tolist() == LABELS
    with pytest.raises(kt.InputError, match="y must hold known classes"):
        parts.partial_fit(["a"], ["perhaps"])


def test_a_warm_start_keeps_the_vocabulary_and_needs_fewer_steps() -> None:
    warm = kt.KeyTokenClassifier(warm_start=True).fit(TEXTS, LABELS)
    first, words = warm.core_.n_iter_, warm.vocabulary_
    warm.fit(TEXTS, LABELS)
    assert warm.core_.n_iter_ < first
    assert warm.vocabulary_ == words


def test_a_cut_model_keeps_what_matters(model) -> None:
    small = model.cut(200)
    assert 0 < len(small.vocabulary_) < len(model.vocabulary_)
    assert {"good", "bad"} <= set(small.vocabulary_)
    assert small.score(TEXTS, LABELS) >= 0.8
    assert len(model.cut(10**6).vocabulary_) == len(model.vocabulary_)
    for array in (small.scores_.attention, small.scores_.value):
        assert np.array_equal(array, array.astype(np.float32))
    assert len(model.vocabulary_) == model.scores_.n_features  # the model itself is as it was
    with pytest.raises(kt.InputError, match="bytes must leave room for one n-gram; got 3"):
        model.cut(3)


def test_explanations_sum_to_the_logit(model) -> None:
    why = model.explain("so good , not bad")
    total = sum(token.contribution for token in why.tokens) + why.bias
    assert total == pytest.approx(model.decision_function(["so good , not bad"])[0], abs=1e-12)


def test_the_selection_is_certified(model) -> None:
    found = model.certify(TEXTS)
    w = kt.KeyTokenClassifier(selectivity=0.9).fit(TEXTS, LABELS).certify(TEXTS)
    assert found.is_feasible
    assert abs(found.solution.certificate.gap) <= 1e-8
    assert w.weight > found.weight
    assert found.selected.shape == (10,)
    assert len(found.to_dict()["sentences"]) == len(found.sentences) == 5


def test_heaviest_tokens_by_hand() -> None:
    from keytokens.classifier.certified import heaviest

    counts = sparse.csr_array([[1.0, 3, 2], [0, 0, 0], [0, 2, 2], [0, 0, 1]])
    places = heaviest(counts.indptr, counts.data)
    assert places.tolist() == [1, -1, 3, 5]


class Unknown:
    """As pandas.NA: equal to nothing, unequal to nothing, and not a truth value."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self):
        return "<NA>"


NAN = float("nan")
WRONG = {
    "y must hold at least two classes; got one class: 'yes'": dict(y=["yes"] * 10),
    "X must hold texts; got nan at row 9": dict(X=[*TEXTS[:9], NAN]),
    "X must hold texts; got None at row 0": dict(X=[None, *TEXTS[1:]]),
    "X must hold several texts; got one text": dict(X="good"),
    "X must be a sequence of texts; got dict": dict(X=dict.fromkeys(map(str, range(10)))),
    "X must be a sequence of texts; got set": dict(X=set("0123456789")),
    "X must be one column of texts; got a table of 2 columns": dict(
        X=pl.DataFrame({"text": TEXTS, "id": TEXTS})
    ),
    "X must hold at least one text; got none": dict(X=[], y=[]),
    "y must hold no missing label; got nan at row 9": dict(y=[*LABELS[:9], NAN]),
    "y must hold no missing label; got None at row 0": dict(y=[None, *LABELS[1:]]),
    "y must hold no missing label; got <NA> at row 9": dict(y=[*LABELS[:9], Unknown()]),
    "y must hold finite labels; got -inf": dict(y=[1.0, float("-inf")] * 5),
    "y must hold labels of one type; got int and str": dict(y=[1, *LABELS[1:]]),
    "got b'a' at row 0; if these are classes, convert them to strings": dict(y=[b"a", b"b"] * 5),
    "got Decimal('2') at row 1; if these": dict(y=[1, Decimal(2)] * 5),
    "got datetime.date(2026, 1, 2) at row 0; if": dict(y=[date(2026, 1, 2)] * 10),
    "got 1.5 at row 1; if these are classes, convert them to strings": dict(y=[1, 1.5] * 5),
    "y must have one label for each of 10 texts; got 3 labels": dict(y=LABELS[:3]),
    "y must hold classes that repeat; got 300 distinct labels in 300 rows": dict(
        X=[f"word {k}" for k in range(300)], y=list(range(300))
    ),
    "training must be one of 'joint', 'network', 'one_step', 'two_stage'": dict(training="best"),
    "selectivity must be between 0 and 1; got 2": dict(selectivity=2),
    "selectivity must be 0.0 with training='one_step'; got 0.5": dict(
        selectivity=0.5, training="one_step"
    ),
    "heads must be at least 1; got 0": dict(heads=0),
    "got nonsense": dict(options={"nonsense": 1}),
    "options must be a dictionary; got [1]": dict(options=[1]),
    "options['prior'] must be a number; got 'x'": dict(options={"prior": "x"}),
    "options['value_ridge'] must be zero or positive; got -1": dict(options={"value_ridge": -1}),
    "options['width'] must be at least 1; got 0": dict(training="network", options={"width": 0}),
    "options['optimiser'] must be one of 'adam', 'descent'; got 'sgd'": dict(
        training="network", options={"optimiser": "sgd"}
    ),
    "options['rate'] must be small enough for the numbers to stay finite; got 1e+300": dict(
        training="network", options={"rate": 1e300}
    ),
    "n_jobs must be at least 1; got 0": dict(n_jobs=0),
    "y must be a sequence of labels; got NoneType": dict(y=None),
    "y must hold classes: whole numbers, strings or booleans": dict(y=[0.5, 1.5] * 5),
    "The classes, ['no'], are not in class_weight": dict(class_weight={"yes": 2, "maybe": 3}),
}


@pytest.mark.parametrize("message", WRONG)
def test_bad_input_is_named(message: str) -> None:
    given = dict(X=TEXTS, y=LABELS) | WRONG[message]
    data = [given.pop(name) for name in ("X", "y")]
    with pytest.raises(kt.InputError) as caught:
        kt.KeyTokenClassifier(**given).fit(*data)
    assert message in str(caught.value)


@pytest.mark.parametrize("weight", [[-1.0] * 10, [float("nan")] * 10, [0.0] * 10, [1.0] * 9])
def test_wrong_weights_are_input_errors(weight) -> None:
    with pytest.raises(kt.InputError, match="weight"):
        kt.KeyTokenClassifier().fit(TEXTS, LABELS, weight)


def test_a_wrong_parameter_is_told_before_any_text_is_counted() -> None:
    def never(text: str) -> list[str]:
        raise AssertionError("counted")

    for wrong in (dict(selectivity=2), dict(training="best"), dict(n_jobs=0)):
        with pytest.raises(kt.InputError):
            kt.KeyTokenClassifier(tokenizer=never, **wrong).fit(TEXTS, LABELS)
    with pytest.raises(kt.InputError, match="repeat"):
        kt.KeyTokenClassifier(tokenizer=never).fit(["a"] * 300, list(range(300)))


def test_questions_before_the_fit_are_refused() -> None:
    for ask in ("predict", "predict_proba", "decision_function", "explain", "certify"):
        with pytest.raises(NotFittedError):
            getattr(kt.KeyTokenClassifier(), ask)(["a"])


def test_real_reviews_are_learned(shared_data) -> None:
    table = pl.read_parquet(shared_data / "yelp.parquet").filter(pl.col("balanced"))
    train, test = (table.filter(pl.col("split") == part) for part in ("train", "test"))
    fitted = kt.KeyTokenClassifier().fit(train["text"], train["label"])
    assert fitted.score(test["text"].to_list(), test["label"].to_numpy()) > 0.93
    assert fitted.core_.held_out_ is not None


def test_short_texts_are_not_as_sure_as_long_ones() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 1], 100)
    odds = np.where(labels[:, None] == 1, np.linspace(1, 3, 40), np.linspace(3, 1, 40))
    words = [rng.choice(40, 60, p=p / p.sum()) for p in odds]
    fitted = kt.KeyTokenClassifier().fit([" ".join(f"w{k}" for k in one) for one in words], labels)
    assert fitted.predict_proba([""])[0, 1] == pytest.approx(2 / 3, abs=0.1)
    long = " ".join(f"w{k}" for k in range(20, 40))
    sizes = fitted.decision_function(["", "w39", "w37 w38 w39", long])
    assert (np.diff(sizes) > 0).all()
