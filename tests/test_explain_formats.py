"""The same explanation in every format, and what people marked, measured by hand."""

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from explaining import TEXTS, model

from keytokens.errors import InputError
from keytokens.explain import explain
from keytokens.explain import rationales as human
from keytokens.explain.formats import to_eraser, to_json, write_eraser
from keytokens.explain.html import notebook, page
from keytokens.explain.terminal import highlighted, percent, show

ATTACK = "</script><img src=x onerror=alert(1)> good film"


def test_to_dict_is_json_and_sums_to_the_logit() -> None:
    why = explain(model(), TEXTS[0])
    told = json.loads(to_json(why))
    assert told == json.loads(json.dumps(why.to_dict()))
    total = sum(token["contribution"] for token in told["tokens"]) + told["bias"]
    assert total == pytest.approx(told["logit"], abs=1e-12)
    assert told["smallest_sufficient_set"]["tokens"] == why.names(why.sufficient)


def test_frame_has_one_row_a_token() -> None:
    many = explain(model(), TEXTS)
    frame = many.to_frame()
    assert frame.height == sum(len(why.tokens) for why in many)
    second = frame.filter(frame["document"] == 1)
    assert second["contribution"].to_list() == [t.contribution for t in many[1].tokens]


def test_plain_in_a_pipe_and_marked_on_a_terminal() -> None:
    from rich.console import Console

    why = explain(model(), ATTACK)
    for terminal in (False, True):
        console = Console(force_terminal=terminal, width=80, record=True, file=StringIO())
        show(why, console)
        text = console.export_text(styles=terminal)
        assert ("\x1b[" in text) == terminal
        assert "[" not in str(why).splitlines()[0]
        assert str(why.label) in text


def test_percentages_never_claim_certainty() -> None:
    assert percent(0.99999) == percent(1.0) == "> 99.9 %"
    assert percent(0.00001) == percent(0.0) == "< 0.1 %"
    assert percent(0.5) == "50.0 %"


def test_the_printed_column_sums_to_the_printed_logit() -> None:
    long = explain(model(ngrams=(1, 3), outputs=3, maps=2), " ".join(TEXTS))
    for why in [*explain(model(), TEXTS), long]:
        table = [line for line in str(why).splitlines() if line.startswith("  ")]
        table = table[1 : 1 + next(k for k, line in enumerate(table) if "(logit for" in line)]
        numbers = [float(line.split()[-1]) for line in table]
        assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=1e-3)
        assert numbers[-1] == pytest.approx(why.logit, abs=1e-4)
    assert any("more)" in line for line in str(long).splitlines())


def test_for_and_against_each_class() -> None:
    for outputs in (1, 3):
        why = explain(model(outputs=outputs), TEXTS[0])
        for side in why.sides(1000):
            told = [*side.for_it, *side.against]
            assert all(c > 0 for _, c in side.for_it)
            assert all(c < 0 for _, c in side.against)
            bias = why.of_class(side.label).bias * (-1 if side.label == "neg" else 1)
            assert sum(c for _, c in told) + bias == pytest.approx(side.logit, abs=1e-12)
            assert [abs(c) for _, c in side.for_it] == sorted((c for _, c in side.for_it))[::-1]
        assert all(len(side.for_it) <= 2 for side in why.sides(2))
        assert ("for and against each class" in str(why)) == (outputs == 3)
        assert ("For and against each class" in page([why])) == (outputs == 3)


def test_a_text_cannot_steer_the_terminal() -> None:
    from rich.console import Console

    why = explain(model(), "good \x1b[2J\x07 film\r\nbad \x9b31m film")
    console = Console(force_terminal=True, width=80, file=StringIO())
    show(why, console)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b[2J" not in written
    assert "\x9b" not in written
    assert "\x07" not in written
    assert "\u241b[2J" in written
    where = highlighted(why)  # and the marks still stand on their words
    spans = {where.plain[span.start : span.end] for span in where.spans}
    assert spans <= {"good", "film", "bad"}


def test_half_characters_are_written_somehow(tmp_path: Path) -> None:
    why = explain(model(), "good \ud800 film")
    why.to_html(tmp_path / "w.html")
    assert "\ufffd" in (tmp_path / "w.html").read_text(encoding="utf-8")
    assert json.loads(to_json(why).encode("utf-8"))["text"] == why.text
    write_eraser([why], tmp_path / "e.jsonl")
    assert why.to_frame().height == len(why.tokens)
    assert "\ufffd" in notebook(why)


def test_a_page_of_many_stops_at_its_size(tmp_path: Path) -> None:
    many = explain(model(), TEXTS * 20)
    many.to_html(tmp_path / "all.html")
    full = (tmp_path / "all.html").stat().st_size
    many.to_html(tmp_path / "some.html", size=full // 4)
    html = (tmp_path / "some.html").read_text(encoding="utf-8")
    shown = html.count('class="one"')
    assert 5 < shown < 60
    assert f"The first {shown} of 140 texts." in html
    many.to_html(tmp_path / "one.html", size=1)
    assert "The first 1 of 140 texts." in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_a_notebook_shows_a_few_and_its_style_stays_its_own() -> None:
    many = explain(model(), TEXTS)
    assert "The first 5 of 7 texts." in many._repr_html_()
    assert many[:2]._repr_html_().count('<div class="keytokens">') == 2
    style = notebook(many[0]).split("<style>")[1].split("</style>")[0]
    assert style.startswith(".keytokens {")  # every rule is nested in the one
    assert style.count("{") == style.count("}")
    assert "prefers-color-scheme" not in style


def test_what_is_not_text_is_named() -> None:
    for bad, name in ((None, "NoneType"), (3, "int"), (b"good", "bytes")):
        with pytest.raises(InputError, match=f"texts must be a text or several texts; got {name}"):
            explain(model(), bad)  # type: ignore[arg-type]


def test_html_holds_the_original_text_and_no_markup_of_its_own() -> None:
    from keytokens.pages import Markup

    why = explain(model(), ATTACK)
    for html in (page([why]), notebook(why)):
        assert "<img" not in html
        marked = html.split('<div class="marked"')[1].split(">", 1)[1].split("</div>")[0]
        assert str(Markup(marked).striptags()) == ATTACK
    assert "<script" not in notebook(why)
    assert page([why]) == page([why])


def test_to_html_says_how_many_it_shows(tmp_path: Path) -> None:
    many = explain(model(), TEXTS)
    many.to_html(tmp_path / "all.html")
    assert "The first" not in (tmp_path / "all.html").read_text()
    many.to_html(tmp_path / "some.html", limit=2)
    assert "The first 2 of 7 texts." in (tmp_path / "some.html").read_text()
    many[0].to_html(tmp_path / "one.html")
    assert (tmp_path / "one.html").read_text().startswith("<!doctype html>")


def test_eraser_lines(tmp_path: Path) -> None:
    many = explain(model(), TEXTS)
    write_eraser(many, tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert [line["annotation_id"] for line in lines] == [str(k) for k in range(len(TEXTS))]
    for text, line in zip(TEXTS, lines, strict=True):
        soft = line["rationales"][0]["soft_rationale_predictions"]
        assert len(soft) == len(text.split())
    assert lines[0] == to_eraser(many[0], "0")


def test_agreement_with_people_by_hand() -> None:
    marked = np.array([True, True, False, False])
    people = np.array([False, True, True, True])
    assert human.precision_recall_f1(marked, people) == pytest.approx((1 / 2, 1 / 3, 2 / 5))
    assert human.span_iou(marked, people) == 0.0  # 1 of 4 tokens in common
    assert human.span_iou(people, people) == 1.0
    assert human.average_precision(np.array([4.0, 3, 2, 1]), marked) == 1.0
    assert human.average_precision(np.array([1.0, 2, 3, 4]), marked) == pytest.approx(5 / 12)
    assert human.average_precision(np.zeros(4), people) == pytest.approx(3 / 4)  # ties: the share
    assert human.top(np.array([1.0, 3, 3, 0]), 2).tolist() == [False, True, True, False]
    assert human.runs(people) == [(1, 4)]
    assert human.mask_of([0, 3], [2, 4], 5).tolist() == [True, True, False, True, False]


def test_average_precision_agrees_with_scikit_learn() -> None:
    from sklearn.metrics import average_precision_score

    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, mask = rng.integers(0, 5, 30).astype(float), rng.random(30) < 0.3
        mask[0] = True
        ours = human.average_precision(scores, mask)
        assert ours == pytest.approx(average_precision_score(mask, scores))


def test_phrases_are_the_plain_sum_over_neighbours_and_sentence() -> None:
    scores = np.random.default_rng(1).standard_normal(40)
    tokens = ["so"] * 40
    tokens[9], tokens[25] = "so.", "!"
    sentence = [0] * 10 + [1] * 16 + [2] * 14
    norm = np.exp(-np.abs(np.arange(-18, 19)) / 3.0).sum()
    slow = [
        sum(scores[u] * np.exp(-abs(t - u) / 3.0) for u in range(40) if abs(t - u) <= 18) / norm
        + np.mean([scores[u] for u in range(40) if sentence[u] == sentence[t]])
        for t in range(40)
    ]
    assert np.allclose(human.phrase_scores(" ".join(tokens), scores), slow)
    assert human.phrase_scores("one", scores[:1]).shape == (1,)
    assert human.phrase_scores("", scores[:0]).shape == (0,)


def test_a_rationale_counts_only_what_speaks_for_the_decision() -> None:
    for outputs in (1, 3):
        for why in explain(model(outputs=outputs), TEXTS):
            side = next(side for side in why.sides(100) if side.label == why.label)
            speaking = sum(c for name, c in side.for_it if name != "<cls>")
            credit = np.maximum(human._for_decision(why), 0)
            assert credit.sum() == pytest.approx(speaking, abs=1e-12)
            expected = human.phrase_scores(why.text, human.split_credit(why, credit))
            assert np.array_equal(human.rationale_scores(why), expected)


def test_split_scores_keep_the_sum_toward_the_decision() -> None:
    for outputs in (1, 3):
        for why in explain(model(outputs=outputs), TEXTS):
            decided = why.of_class(why.label)
            own = decided.word_contributions.sum()
            sign = -1 if outputs == 1 and why.logit <= 0 else 1
            scores = human.split_scores(why)
            assert len(scores) == len(why.text.split())
            assert scores.sum() == pytest.approx(sign * own)
