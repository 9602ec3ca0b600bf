"""Counting: slow reference, fit and transform agree; laws; hard inputs; the model file's state."""

import json
from collections import Counter as Tally
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import text_reference
from hypothesis import given, settings
from hypothesis import strategies as st

import keytokens as kt
from keytokens.text import Counter, Tokenizer

words = st.sampled_from(["a", "b", "B", "c", "ß", "longer-than-eight", "É", "é", "!", "<br>"])
texts = st.lists(st.lists(words, max_size=12).map(" ".join), min_size=1, max_size=12)
few = st.integers(1, 3)
ranges = st.sampled_from([(1, 1), (1, 2), (2, 2), (1, 3), (2, 4), (3, 3)])


def bags_of(texts: list[str], ngrams: tuple[int, int]) -> list[list[tuple[str, ...]]]:
    return [
        text_reference.grams([t for t, _, _ in text_reference.tokens(text)], *ngrams)
        for text in texts
    ]


def test_by_hand() -> None:
    counter = Counter(ngrams=(1, 2), binary=False)
    counts = counter.fit_transform(["Good, good film", "good film!", ""])
    assert counter.vocabulary_ == ["film", "good", "good film"]
    assert counts.toarray().tolist() == [[1, 2, 1], [1, 1, 1], [0, 0, 0]]
    assert counts.data.dtype == np.float64
    assert counts.indices.dtype == np.int32
    assert Counter().fit_transform(["a a", "a"]).toarray().tolist() == [[1], [1]]


def test_ngrams_run_over_marks_and_never_across_texts() -> None:
    counter = Counter(ngrams=(2, 2), min_count=1).fit(["a b", "c, d"])
    assert counter.vocabulary_ == [", d", "a b", "c ,"]


@settings(deadline=None)  # the first call compiles
@given(texts, ranges, few, st.booleans(), st.sampled_from([None, 1, 3]), few)
def test_equals_the_reference(
    texts: list[str],
    ngrams: tuple[int, int],
    min_count: int,
    binary: bool,
    most: int | None,
    threads: int,
) -> None:
    bags = bags_of(texts, ngrams)
    columns = text_reference.vocabulary(bags, min_count, most)
    counter = Counter(ngrams, min_count, most, binary, threads=threads)
    if not columns:
        with pytest.raises(kt.InputError, match="at least min_count"):
            counter.fit_transform(texts)
        return
    counts = counter.fit_transform(texts)
    assert counter.vocabulary_ == [" ".join(gram) for gram in columns]
    assert counts.toarray().tolist() == text_reference.counts(bags, columns, binary)
    assert same(counter.transform(texts), counts)
    other = ["b a", "É c b B a", "unseen", *texts[:2]]
    expected = text_reference.counts(bags_of(other, ngrams), columns, binary)
    assert counter.transform(other).toarray().tolist() == expected


def same(one: Any, other: Any) -> bool:
    parts = ("indptr", "indices", "data")
    return one.shape == other.shape and all(
        np.array_equal(getattr(one, part), getattr(other, part)) for part in parts
    )


@settings(deadline=None)  # the first call compiles
@given(texts, st.randoms())
def test_the_order_of_texts_only_orders_the_rows(texts: list[str], random: Any) -> None:
    order = list(range(len(texts)))
    random.shuffle(order)
    one, other = (Counter(ngrams=(1, 3), min_count=1, binary=False) for _ in range(2))
    texts = [*texts, "a b"]
    order.append(len(texts) - 1)
    rows = one.fit_transform(texts)
    shuffled = other.fit_transform([texts[i] for i in order])
    assert one.vocabulary_ == other.vocabulary_
    assert same(rows[order], shuffled)


@settings(deadline=None)  # the first call compiles
@given(texts, ranges)
def test_spans_are_the_occurrences(texts: list[str], ngrams: tuple[int, int]) -> None:
    counter = Counter(ngrams, min_count=1, binary=False)
    counts = counter.fit_transform([*texts, "a b c a b"])
    for i, text in enumerate(texts):
        columns, starts, ends = counter.spans(text)
        assert np.array_equal(
            np.bincount(columns, minlength=counts.shape[1]), counts[[i]].toarray()[0]
        )
        for k, start, end in zip(columns, starts, ends, strict=True):
            found = " ".join(Tokenizer()(text[start:end]))
            assert found == counter.vocabulary_[k]


@pytest.fixture(scope="module")
def reviews(shared_data: Path) -> list[str]:
    return pl.read_parquet(shared_data / "imdb.parquet")["text"].to_list()[::25]


def test_real_reviews_equal_the_reference(reviews: list[str]) -> None:
    bags = bags_of(reviews, (1, 3))
    columns = text_reference.vocabulary(bags, 2, None)
    place = {gram: j for j, gram in enumerate(columns)}
    counter = Counter(ngrams=(1, 3), binary=False)
    counts = counter.fit_transform(reviews)
    assert counter.vocabulary_ == [" ".join(gram) for gram in columns]
    for i, bag in enumerate(bags):
        tally = Tally(place[gram] for gram in bag if gram in place)
        row = counts[[i]]
        assert dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)) == tally


def test_threads_do_not_change_a_bit(reviews: list[str]) -> None:
    one, two, five = (Counter(ngrams=(1, 3), threads=k) for k in (1, 2, 5))
    counts = one.fit_transform(reviews)
    for other in (two, five):
        assert same(counts, other.fit_transform(reviews))
        assert one.vocabulary_ == other.vocabulary_
        assert same(counts, other.transform(reviews))


def test_scikit_learn_counts_the_same_tokens(reviews: list[str]) -> None:
    from sklearn.feature_extraction.text import CountVectorizer

    peer = CountVectorizer(tokenizer=Tokenizer(), lowercase=False, token_pattern=None, min_df=3)
    counts = Counter(min_count=3, binary=False).fit(reviews)
    theirs = peer.fit_transform(reviews)
    order = [peer.vocabulary_[token] for token in counts.vocabulary_]
    assert (counts.transform(reviews) != theirs[:, order]).nnz == 0


LONG = 50_000
HARD = {
    "empty": "",
    "only markup": "<br /><br />",
    "one endless word": "x" * LONG,
    "one endless line": "word " * LONG,
    "many different words": " ".join(f"w{i}" for i in range(LONG)),
    "words alike in their first bytes": " ".join(f"the-same-beginning{i}" for i in range(9999)),
    "NUL bytes": "a\0b \0 a",
    "lone surrogates": "a\ud800b \udfff a",
    "beyond the basic plane": "𝔘 𝔘𝔙 👍",
}


@pytest.mark.parametrize("name", HARD)
def test_hard_texts(name: str) -> None:
    found = Tally(token for token, _, _ in text_reference.tokens(HARD[name]))
    counter = Counter(min_count=1, binary=False).fit(["end", HARD[name]])
    counts = counter.transform([HARD[name], "end"])
    row = counts[[0]]
    names = [counter.vocabulary_[j] for j in row.indices]
    assert dict(zip(names, row.data, strict=True)) == found
    assert counts[[1]].nnz == 1


def test_a_million_words() -> None:
    text = "to be or not " * 250_000
    counter = Counter(ngrams=(1, 2), min_count=1, binary=False)
    counts = counter.fit_transform([text])
    names = dict(zip(counter.vocabulary_, counts.toarray()[0].tolist(), strict=True))
    assert names["be"] == 250_000
    assert names["not to"] == 249_999


def test_no_texts_have_no_rows() -> None:
    counter = Counter(min_count=1).fit(["a b"])
    assert counter.transform([]).shape == (0, 2)
    assert counter.transform(["", "zzz"]).nnz == 0
    assert [part.size for part in counter.spans("")] == [0, 0, 0]


def test_any_collection_of_texts() -> None:
    expected = Counter().fit_transform(["a b", "b a"])
    for texts in (("a b", "b a"), np.array(["a b", "b a"]), pl.Series(["a b", "b a"]),
                  np.array(["a b", "b a"], object), iter(["a b", "b a"])):  # fmt: skip
        assert same(Counter().fit_transform(texts), expected)


def test_places_of_all_tokens_known_or_not() -> None:
    counter = Counter(min_count=1).fit(["known"])
    assert counter.places("Nö, 👍 known").tolist() == [[0, 2], [2, 3], [6, 11]]
    assert counter.places("").shape == (0, 2)


def test_your_own_tokeniser() -> None:
    counter = Counter(ngrams=(1, 2), min_count=1, binary=False, tokenizer=str.split)
    counts = counter.fit_transform(["A-b  c", "A-b"])
    assert counter.vocabulary_ == ["A-b", "c", "A-b c"]
    assert counts.toarray().tolist() == [[1, 1, 1], [1, 0, 0]]
    assert same(counter.transform(["A-b  c", "A-b"]), counts)
    assert [part.tolist() for part in counter.spans("x A-b  c")] == [
        [0, 2, 1],
        [2, 2, 7],
        [5, 8, 8],
    ]
    stems = Counter(min_count=1, tokenizer=lambda text: [w.lower()[:4] for w in text.split()])
    assert [part.tolist() for part in stems.fit(["Filming rats"]).spans("Filming rats")] == [
        [0, 1], [0, 8], [4, 12],
    ]  # fmt: skip


def test_characters_as_tokens() -> None:
    counter = Counter(ngrams=(1, 2), min_count=1, binary=False, tokenizer=list).fit(["a  b", "\0"])
    arrays, options = counter.state()
    again = Counter.from_state(arrays, options, tokenizer=list)
    assert counter.vocabulary_ == again.vocabulary_
    assert same(counter.transform(["  \0a"]), again.transform(["  \0a"]))


def test_select_keeps_columns_in_the_order_given() -> None:
    texts = ["a b c d", "a b c", "b c a"]
    counter = Counter(ngrams=(1, 3), min_count=1, binary=False)
    counts = counter.fit_transform(texts)
    chosen = [counter.vocabulary_.index(gram) for gram in ("b c d", "a", "a b")]
    smaller = counter.select(chosen)
    assert smaller.vocabulary_ == ["b c d", "a", "a b"]
    assert same(smaller.transform(texts), counts[:, chosen].sorted_indices())
    assert smaller.state()[0]["bytes"].tobytes() == b"abcd"


def through_json(counter: Counter) -> Counter:
    arrays, options = counter.state()
    return Counter.from_state(arrays, json.loads(json.dumps(options)))


@settings(deadline=None)  # the first call compiles
@given(texts, ranges, st.booleans())
def test_the_state_says_everything(texts: list[str], ngrams: Any, binary: bool) -> None:
    texts = [*texts, "a b c a b"]
    counter = Counter(ngrams, 1, 5, binary, Tokenizer(punctuation=False)).fit(texts)
    again = through_json(counter)
    assert again.vocabulary_ == counter.vocabulary_
    assert same(again.transform(texts), counter.transform(texts))
    assert [*map(list, again.spans("a b c"))] == [*map(list, counter.spans("a b c"))]


def broken(name: str, change: Any) -> dict[str, Any]:
    arrays, _ = Counter(ngrams=(1, 2), min_count=1).fit(["a é a"]).state()
    return arrays | {name: change(arrays[name].copy())}


BROKEN = {
    "an offset beyond the bytes": broken("offsets", lambda a: a * 2),
    "no offsets": broken("offsets", lambda a: a[:0]),
    "offsets that cut a letter": broken("offsets", lambda a: a + (a == 1)),
    "bytes that are not UTF-8": broken("bytes", lambda a: a | 0xFF),
    "a parent after its child": broken("parent", lambda a: a + 9),
    "a negative parent": broken("parent", lambda a: a - 9),
    "an unknown token": broken("token", lambda a: a + 9),
    "a negative token": broken("token", lambda a: a - 9),
    "a column twice": broken("column", lambda a: a * 0),
    "a column below none": broken("column", lambda a: a - 9),
    "too few columns": broken("column", lambda a: a[:-1]),
    "too few parents": broken("parent", lambda a: a[:-1]),
    "numbers that are not whole": broken("column", lambda a: a.astype(float)),
    "two axes": broken("token", lambda a: a[None]),
    "another array": broken("bytes", lambda a: a) | {"more": np.zeros(1)},
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_state_is_refused(name: str) -> None:
    _, options = Counter(ngrams=(1, 2), min_count=1).fit(["a"]).state()
    with pytest.raises(kt.InputError, match="vocabulary arrays must"):
        Counter.from_state(BROKEN[name], options)


def test_an_unknown_state_is_refused() -> None:
    arrays, options = Counter(min_count=1).fit(["a"]).state()
    for change in ({"unicode": "99"}, {"stemming": True}, {"punctuation": None}, {"ngrams": 3}):
        with pytest.raises(kt.InputError):
            Counter.from_state(arrays, options | change)
    del options["binary"]
    with pytest.raises(kt.InputError):
        Counter.from_state(arrays, options)


def fitted() -> Counter:
    return Counter(min_count=1).fit(["a b"])


BAD = {
    "texts must be a list of strings; got one str": lambda: Counter().fit("abc"),
    "texts must be a list of strings; got None": lambda: Counter().fit(None),
    "texts must hold strings; got None at index 1": lambda: Counter().fit(["a", None]),
    "texts must hold strings; got nan at index 1": lambda: Counter().fit(["a", float("nan")]),
    "texts must hold strings; got 3 at index 0": lambda: Counter(tokenizer=str.split).fit([3]),
    "in at least min_count=2 of them; got none in 1 texts": lambda: Counter().fit(["a b a"]),
    "none in 2 texts with 0 distinct tokens": lambda: Counter().fit(["", "<br>"]),
    "ngrams must be a pair": lambda: Counter(ngrams=2),
    "ngrams must begin with the shorter length; got (2, 1)": lambda: Counter(ngrams=(2, 1)),
    "ngrams must be at least 1; got 0": lambda: Counter(ngrams=(0, 1)),
    "min_count must be at least 1; got 0": lambda: Counter(min_count=0),
    "max_features must be at least 1": lambda: Counter(max_features=0),
    "threads must be at least 1": lambda: Counter(threads=0),
    "counter must be fitted": lambda: Counter().transform(["a"]),
    "tokenizer must be a Tokenizer or a function": lambda: Counter(tokenizer="word"),
    "must return a list of non-empty strings": lambda: Counter(tokenizer=len).fit(["a"]),
    "columns must be distinct": lambda: fitted().select([0, 0]),
    "columns must hold column indices in [0, 2)": lambda: fitted().select([2]),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message: str) -> None:
    with pytest.raises(kt.InputError) as caught:
        BAD[message]()
    assert message in str(caught.value)
