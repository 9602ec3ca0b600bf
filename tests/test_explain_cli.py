"""explain, page and evaluate on the command line, from a saved model to files and tables."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import keytokens as kt
from keytokens.cli import commands

TEXTS = ["a good film", "good, so good!", "a bad film", "bad and so bad"] * 6
LABELS = ["pos", "pos", "neg", "neg"] * 6


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    kt.KeyTokenClassifier(ngrams=(1, 2)).fit(TEXTS, LABELS).save(folder / "model.kt")
    spans = [[1]] * len(TEXTS)
    ends = [[2]] * len(TEXTS)
    split = ["train"] * 16 + ["val"] * 8
    columns = dict(text=TEXTS, label=LABELS, split=split, ev_start=spans, ev_end=ends)
    pl.DataFrame(columns).write_parquet(folder / "data.parquet")
    pl.DataFrame({"text": TEXTS}).write_csv(folder / "texts.csv")
    return folder


def run(*arguments: object) -> Any:
    return CliRunner().invoke(commands, [str(a) for a in arguments], catch_exceptions=False)


def test_explain_one_text(saved: Path) -> None:
    result = run("explain", saved / "model.kt", "a good film")
    assert result.exit_code == 0
    assert result.output.startswith("decision: pos (")
    assert "whose removal changes it" in result.output


def test_explain_standard_input_in_a_pipe(saved: Path) -> None:
    command = [sys.executable, "-m", "keytokens", "explain", str(saved / "model.kt"), "-"]
    done = subprocess.run(command, input="bad film", capture_output=True, text=True, check=True)
    assert done.stdout.startswith("decision: neg (")
    assert "\x1b" not in done.stdout


def test_explain_a_file_in_every_format(saved: Path, tmp_path: Path) -> None:
    names = {"--html": "w.html", "--json": "w.jsonl", "--eraser": "e.jsonl"}
    options = [part for name, file in names.items() for part in (name, tmp_path / file)]
    result = run("explain", saved / "model.kt", "--file", saved / "texts.csv", *options)
    assert result.exit_code == 0
    page = tmp_path / "w.html"
    assert result.output == f"{page}: {page.stat().st_size / 1e6:.2f} MB\n"
    lines = (tmp_path / "w.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == TEXTS
    assert len((tmp_path / "e.jsonl").read_text().splitlines()) == len(TEXTS)
    assert "Text 24: neg" in (tmp_path / "w.html").read_text()


def test_eraser_ids_come_from_a_column(saved: Path, tmp_path: Path) -> None:
    names = [f"doc{k}" for k in range(len(TEXTS))]
    pl.DataFrame({"text": TEXTS, "doc": names}).write_csv(tmp_path / "d.csv")
    options = ["--eraser", tmp_path / "e.jsonl", "--id", "doc"]
    assert run("explain", saved / "model.kt", "--file", tmp_path / "d.csv", *options).exit_code == 0
    lines = (tmp_path / "e.jsonl").read_text().splitlines()
    assert [json.loads(line)["annotation_id"] for line in lines] == names
    bad = CliRunner().invoke(
        commands, ["explain", str(saved / "model.kt"), "x", *map(str, options)]
    )
    assert "--id needs --file DATA" in bad.output


def test_no_more_than_the_limit_and_a_word_on_the_rest(saved: Path) -> None:
    result = run("explain", saved / "model.kt", "--file", saved / "texts.csv", "--limit", 2)
    assert result.output.count("(logit for pos)") == 2
    assert f"the first 2 of {len(TEXTS)} texts" in result.output


def test_explain_needs_one_of_two(saved: Path) -> None:
    result = CliRunner().invoke(commands, ["explain", str(saved / "model.kt")])
    assert result.exit_code == 2
    assert 'a TEXT ("-": standard input) or --file DATA must be given' in result.output


def test_page_with_and_without_labels(saved: Path, tmp_path: Path) -> None:
    for examples in ("data.parquet", "texts.csv"):
        out = tmp_path / "page.html"
        more = ["--examples", saved / examples, "--out", out]
        result = run("page", saved / "model.kt", *more)
        assert result.output.startswith(f"{out}: 0.")
        html = out.read_text()
        assert ("Accuracy, cut model" in html) == (examples == "data.parquet")
        assert "Decisions the cut left as they were" in html


def test_page_with_certificate(saved: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    more = ["--examples", saved / "data.parquet", "--certify", "--out", out]
    assert run("page", saved / "model.kt", *more).exit_code == 0
    assert "<h3>Certificate of the uncut model on the examples</h3>" in out.read_text()


def test_a_smaller_page_holds_a_smaller_model_and_says_so(tmp_path: Path) -> None:
    words = [f"word{k} other{k}" for k in range(4000)]
    model = kt.KeyTokenClassifier(min_count=1).fit(words, ["a", "b"] * 2000)
    from keytokens.explain.model_page import write_page

    path = write_page(model, tmp_path / "small.html", size=250_000)
    assert path.stat().st_size <= 250_000
    html = path.read_text()
    assert "of 12,000 n-grams" in html
    assert "The cost of the cut is not known" in html
    with pytest.raises(kt.InputError, match="size must be at least 100000; got 5"):
        write_page(model, tmp_path / "no.html", size=5)


def test_a_tokeniser_of_ones_own_cannot_run_in_a_page(tmp_path: Path) -> None:
    from keytokens.explain.model_page import write_page

    model = kt.KeyTokenClassifier(tokenizer=str.split, min_count=1).fit(TEXTS, LABELS)
    with pytest.raises(kt.InputError, match="model must use the built-in tokeniser"):
        write_page(model, tmp_path / "no.html")
    why = model.explain("a good film")
    assert sum(t.contribution for t in why.tokens) + why.bias == pytest.approx(why.logit)
    assert [w.text for w in why.words if not w.is_constant] == ["a", "good", "film"]


def test_evaluate_with_people_and_a_training_split(saved: Path, tmp_path: Path) -> None:
    files = ["--json", tmp_path / "e.json", "--html", tmp_path / "e.html"]
    chosen = ["--split", "val", "--train-split", "train"]
    result = run("evaluate", saved / "model.kt", saved / "data.parquet", *chosen, *files)
    assert "8 texts: accuracy 1.0000" in result.output
    assert "agreement with people" in result.output
    told = json.loads((tmp_path / "e.json").read_text())
    names = [score["explainer"] for score in told["scores"]]
    assert "TF-IDF + LR" in names
    assert (tmp_path / "e.html").read_text().startswith("<!doctype html>")
    with pytest.raises(kt.InputError, match="split must be one of 'train', 'val'; got 'valid'"):
        run("evaluate", saved / "model.kt", saved / "data.parquet", "--split", "valid")
