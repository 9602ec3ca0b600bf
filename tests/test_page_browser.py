"""The model page in a real browser: it decides exactly as Python does, and nothing goes wrong."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import ATTACK, Open, wait
from explaining import TEXTS, model

import keytokens as kt
from keytokens.explain import explain
from keytokens.explain.html import page as static_page
from keytokens.explain.model_page import build_page
from keytokens.text import Counter

WORDS = (
    "good GOOD bad film not It’s it's don't' 'tis naïve cafe\u0301 日本 🎬 👩‍👩‍👧‍👦 "
    "İstanbul ΟΔΟΣ ΣΑΣ. ﬁlm Straße ẞ 𝒢𝑜𝑜𝒹 𐐀 ٣ "
    "<br <b> ! ?! ... ; — a_b C3PO _ x’’y ’ &amp; \\ ǅ ŉ ᏸ Ꭰ long"
)
PIECES = [*WORDS.split(" "), "<br />", "<BR>", "\u00a0", "\u200b", "\u2028", "\n\n", "\t"]


def nasty_texts(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    drawn = ["".join(rng.choice(PIECES, 12)) for _ in range(count // 2)]
    return drawn + [" ".join(rng.choice(PIECES, 20)) for _ in range(count - len(drawn))]


def compare(fitted: Any, page: Any, texts: list[str], budget: int = 5_000_000) -> None:
    """Same tokens at the same places, same logits to 1e-9, same label."""
    cut = fitted.cut(budget)
    found = json.loads(
        page.evaluate("texts => JSON.stringify(texts.map(window.keytokens.explain))", texts)
    )
    for text, theirs in zip(texts, found, strict=True):
        ours = explain(cut, text)
        assert np.allclose(theirs["logits"], ours.bag.logits, rtol=0, atol=1e-9), text
        assert theirs["label"] == str(ours.label)
        known = ours.tokens
        assert [(t["text"], t["start"], t["end"]) for t in theirs["tokens"]] == [
            (t.text, t.start, t.end) for t in known
        ], text
        for key in ("attention", "value", "contribution"):
            mine = [getattr(t, key) for t in known]
            assert np.allclose([t[key] for t in theirs["tokens"]], mine, rtol=0, atol=1e-9)


KINDS = {
    "bigrams": {},
    "counts": dict(binary=False, ngrams=(1, 3)),
    "three classes, two maps": dict(outputs=3, maps=2),
    "saturated, no cls": dict(scale=500.0, cls=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_decides_as_python_does(opened: Open, kind: str) -> None:
    fitted = model(**KINDS[kind])
    compare(fitted, opened(build_page(fitted)), [*TEXTS, ATTACK, *nasty_texts(60)])


def test_nasty_words_in_the_vocabulary_too(opened: Open) -> None:
    texts = nasty_texts(200)
    fitted = model(counter=Counter(ngrams=(1, 2), min_count=1).fit(texts))
    compare(fitted, opened(build_page(fitted)), texts)


def test_real_reviews(opened: Open, shared_data: Path) -> None:
    import polars as pl

    rows = pl.read_parquet(shared_data / "imdb.parquet").sample(3_000, seed=3)
    texts, labels = rows["text"].to_list(), rows["label"].to_list()
    fitted = kt.KeyTokenClassifier(ngrams=(1, 2)).fit(texts[:2_800], labels[:2_800])
    html = build_page(fitted, texts[2_800:], labels[2_800:], size=1_500_000)
    assert len(html.encode()) <= 1_500_000
    budget = int(re.search(r"model\.cut\((\d+)\)", html)[1])
    cut = fitted.cut(budget)
    assert cut.scores_.n_features < 0.8 * fitted.scores_.n_features
    compare(fitted, opened(html), texts[2_800:], budget)
    right = 100 * float((cut.predict(texts[2_800:]) == np.array(labels[2_800:])).mean())
    assert f"{right:.2f} %" in html


def test_typing_marks_the_text(opened: Open) -> None:
    page = opened(build_page(model()))
    page.get_by_label("Type or paste a text").fill("good film, so bad")
    wait(page, "#marked", to_have_text="good film, so bad")
    why = explain(model().cut(0), "good film, so bad")
    assert page.locator("#verdict strong").text_content() == why.label
    strongest = max((w for w in why.words if not w.is_constant), key=lambda w: abs(w.contribution))
    mark = page.locator('#marked mark[data-k="9"]').first
    assert mark.text_content() == strongest.text
    assert f"{abs(strongest.contribution):.3f}" in mark.get_attribute("title")
    remarks = page.locator("#remarks li").all_text_contents()
    assert f"over {why.effective_tokens:.1f} effective tokens" in remarks[0]
    if why.flipping is not None:
        assert ", ".join(f"“{name}”" for name in why.names(why.flipping)) in remarks[2]


def test_a_word_is_picked_by_keys_and_by_click(opened: Open) -> None:
    page = opened(build_page(model(), TEXTS))
    page.locator("#marked").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    picked = page.locator("#marked .picked")
    assert picked.text_content() == page.locator("#marked mark").nth(1).text_content()
    assert picked.get_attribute("title") in page.locator("#detail").text_content()
    page.locator("#marked mark").first.click()
    assert picked.count() == 1
    assert picked.text_content() == page.locator("#marked mark").first.text_content()


def test_layers_of_a_static_page(opened: Open) -> None:
    why = explain(model(), TEXTS[0])
    page = opened(static_page([why]))
    page.get_by_label("Marks show").select_option("attention")
    heaviest = max((w for w in why.words if not w.is_constant), key=lambda w: w.attention)
    marks = page.locator('.marked mark.w[data-k="9"]')
    assert heaviest.text in marks.all_text_contents()
    assert page.locator(".marked mark.p").count() == 0


def test_a_static_page_of_many_sorts_filters_searches(opened: Open) -> None:
    whys = list(explain(model(), TEXTS))
    page = opened(static_page(whys))
    heads = page.locator("section:not([hidden]) h2")
    gaps = [abs(np.diff(sorted(why.probabilities.values()))[-1]) for why in whys]
    page.get_by_label("Order").select_option("uncertain")
    order = [int(text.split(":")[0].split()[1]) - 1 for text in heads.all_text_contents()]
    assert order == np.argsort(gaps, kind="stable").tolist()
    page.get_by_label("Decision").select_option("neg")
    negative = sum(why.label == "neg" for why in whys)
    assert heads.count() == negative
    assert page.locator("#count").text_content() == f"{negative} of {len(TEXTS)}"
    page.get_by_label("Decision").select_option("all")
    page.get_by_label("Search").fill("FILM")
    assert heads.count() == sum("film" in text.lower() for text in TEXTS)
    page.get_by_label("Search").fill("laughed")
    assert heads.all_text_contents() == [f"Text 3: {whys[2].label}"]
    page.locator("section:not([hidden]) .marked").focus()
    page.keyboard.press("ArrowRight")
    picked = page.locator("section:not([hidden]) .picked")
    told = page.locator("section:not([hidden]) [role=status]").text_content()
    assert picked.get_attribute("title") in told


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_static_page_saves_what_python_says(opened: Open, outputs: int) -> None:
    whys = list(explain(model(outputs=outputs), [*TEXTS, ATTACK]))
    page = opened(static_page(whys), accept_downloads=True)
    with page.expect_download() as download:
        page.get_by_text("Save as JSON").click()
    saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    for why, theirs in zip(whys, saved, strict=True):
        ours = why.to_dict()
        for key in ("text", "label", "explained_class", "logit", "bias", "probabilities"):
            assert theirs[key] == ours[key]
        for a, b in zip(theirs["tokens"], ours["tokens"], strict=True):
            assert a.pop("value") == pytest.approx(b.pop("value"), rel=1e-12)
            assert a == b


def test_a_million_characters(opened: Open) -> None:
    long = " ".join(TEXTS) * 5000
    long = long[:1_000_000]
    fitted = model()
    page = opened(build_page(fitted))
    compare(fitted, page, [long])
    page.evaluate("text => trial.load(text)", long)
    region = page.locator("#marked")
    assert region.text_content() == long
    marked = "document.querySelectorAll('#marked .passage:has(mark, span)').length"
    assert 1 <= page.evaluate(marked) <= 10  # of some 500: the rest waits to be looked at
    page.evaluate("byId('marked').scrollTop = 1e9")
    page.locator("#marked .passage:last-child span").first.wait_for()
    assert page.evaluate(marked) <= 20
    assert region.text_content() == long


def test_arrow_keys_walk_on_where_a_passage_ends(opened: Open) -> None:
    # Three passages: the first two in a line of their own, the last cut between words.
    text = "good " * 399 + "bad\n" + "long film\n" + "unknown " * 700 + "film"
    page = opened(build_page(model(binary=False)))
    page.evaluate("text => trial.load(text)", text)
    ends = page.evaluate(
        "[...document.querySelectorAll('.passage')].map(part => part.textContent.slice(-1))"
    )
    assert ends == ["\n", " ", "m"]
    page.locator("#marked").focus()
    page.keyboard.press("ArrowRight")
    seen = []
    for _ in range(403):
        seen.append(page.locator("#marked .picked").text_content())
        page.keyboard.press("ArrowRight")
    assert seen == [word for word in text.split() if word != "unknown"]
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#marked .picked").text_content() == "good"


def test_no_text_at_all(opened: Open) -> None:
    for how in ({}, dict(cls=False), dict(outputs=3)):
        fitted = model(**how)
        page = opened(build_page(fitted, TEXTS))
        page.get_by_role("button", name="Clear").click()
        why = explain(fitted.cut(0), "")
        assert page.locator("#verdict strong").text_content() == why.label
        assert page.locator("#marked").text_content() == ""
        assert page.locator("#counted").text_content().startswith("0 tokens")


def test_sets_agree_with_python(opened: Open) -> None:
    for outputs, seed in itertools.product((1, 3), range(3)):
        fitted = model(outputs=outputs, seed=seed)
        page = opened(build_page(fitted))
        for text in TEXTS:
            found = page.evaluate(
                "text => { const why = model.explain(text);"
                " return model.smallest(why.seen, why.decision) }",
                text,
            )
            why = explain(fitted.cut(0), text)
            assert (found["flipping"] is None) == (why.flipping is None)
            assert len(found["flipping"] or []) == len(why.names(why.flipping))
            size = len(why.sufficient)
            if found["sufficient"] is None:  # several rivals, and no single token holds them off
                assert min(outputs, size) > 1
            else:
                assert len(found["sufficient"]) == size


def test_a_hostile_review_does_nothing(opened: Open) -> None:
    fitted = model()
    for html in (
        build_page(fitted, [ATTACK, *TEXTS], ["neg", "pos"] * 4),
        static_page([explain(fitted, ATTACK)]),
    ):
        page = opened(html)
        page.wait_for_timeout(100)
        assert page.title() != "broken"
        assert page.locator("img").count() == 0
        assert ATTACK in page.locator(".marked").first.text_content()


def test_examples_filter_sort_and_open(opened: Open) -> None:
    fitted = model()
    labels = ["pos", "neg", "neg", "pos", "neg", "pos", "neg"]
    page = opened(build_page(fitted, TEXTS, labels))
    decided = fitted.cut(0).predict(TEXTS)
    right = int((decided == np.array(labels)).sum())
    assert f"{right} of 7" in page.locator("#confusion-caption").text_content()
    page.locator("#documents-filter").select_option("wrong")
    assert page.locator("#documents li").count() == 7 - right
    page.locator("#documents-filter").select_option("all")
    cell = page.locator("#confusion button").first
    cell.click()
    assert cell.get_attribute("aria-pressed") == "true"
    expected = sum(a == b == "neg" for a, b in zip(labels, decided, strict=True))
    assert page.locator("#documents li").count() == expected
    cell.click()
    page.locator("#documents-sort").select_option("uncertain")
    sure = [max(w.probabilities.values()) for w in explain(fitted.cut(0), TEXTS)]
    page.locator("#documents button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    second = TEXTS[int(np.argsort(sure, kind="stable")[1])]
    assert page.locator("#text").input_value() == second


def test_vocabulary_search_and_contexts(opened: Open) -> None:
    page = opened(build_page(model(), TEXTS))
    page.locator("#search").fill("not good")
    wait(page, "#vocabulary-rows tr", to_have_count=1)
    page.locator("#vocabulary-rows button").click()
    assert page.locator("#contexts li").count() == 1
    assert page.locator("#contexts strong").text_content() == "Not good"


def test_the_explanation_is_saved_as_json(opened: Open) -> None:
    page = opened(build_page(model(), TEXTS), accept_downloads=True)
    with page.expect_download() as download:
        page.locator("#save").click()
    saved = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert saved["text"] == page.locator("#text").input_value()
    total = sum(token["contribution"] for token in saved["tokens"]) + saved["bias"]
    assert saved["logit"] != 0
    assert total == pytest.approx(saved["logit"], abs=1e-12)


def test_a_page_calls_the_classes_what_one_likes(opened: Open) -> None:
    fitted, names = model(), {"neg": "<b>panned</b>", "pos": "praised & <i>loved</i>"}
    page = opened(build_page(fitted, TEXTS, ["pos", "neg"] * 3 + ["pos"], names=names))
    label = fitted.cut(0).predict(TEXTS[:1])[0]
    page.locator("#text").fill(TEXTS[0])
    wait(page, "#verdict strong", to_have_text=names[label])
    assert page.locator("#confusion th").all_text_contents() == [
        f"labelled {name}" for name in names.values()
    ]
    assert page.locator("b, i").count() == 0
    with pytest.raises(kt.InputError, match=r"names must be one of 'neg', 'pos'; got 'bad'"):
        build_page(fitted, names={"bad": "x"})


def test_same_bytes_again() -> None:
    first, second = (build_page(model(), TEXTS) for _ in range(2))
    assert first == second
