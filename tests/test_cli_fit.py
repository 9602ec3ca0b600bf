"""keytokens fit, predict and certify: from files to a model and back to files."""

import csv
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import keytokens as kt
from keytokens.classifier.findings import key_tokens
from keytokens.cli import commands
from keytokens.cli._json import dumps
from keytokens.text import read_table

GOOD = ["a good film", "very good", "so good !", "what a treat", "good, very good treat"] * 8
BAD = ["a bad film", "very bad", "so bad !", "what a bore", "bad, very bad bore"] * 8


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    with path.open("w", newline="") as file:
        rows = [("text", "label"), *((t, "yes") for t in GOOD), *((t, "no") for t in BAD)]
        csv.writer(file).writerows(rows)
    return path


def run(*words: object) -> str:
    done = CliRunner().invoke(commands, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_fit_prints_a_readable_summary(data, tmp_path) -> None:
    out = run("fit", data, "--out", tmp_path / "m.kt")
    assert "data        80 texts: no 40, yes 40" in out
    assert "accuracy    " in out
    assert "95 % interval" in out
    assert "by a first model on a tenth held out" in out
    assert "effective of" in out
    assert "for yes" in out
    assert "careful     70 texts repeat an earlier one." in out
    assert kt.load(tmp_path / "m.kt").predict(["so good"]).tolist() == ["yes"]


def test_fit_measures_on_a_test_file_and_sees_shared_texts(data, tmp_path) -> None:
    out = run("fit", data, "--out", tmp_path / "m.kt", "--test", data, "--json")
    told = json.loads(out)
    assert told["accuracy"]["accuracy"] == 1
    assert told["accuracy"]["rows"] == 80
    assert told["accuracy"]["low"] < 0.99 < told["accuracy"]["high"]
    assert "80 of the test texts are among the training texts." in told["warnings"]
    assert told["classes"] == {"no": 40, "yes": 40}
    assert told["key_tokens"]["yes"][0] in ("good", "very good", "treat")
    assert told["effective_tokens"] <= told["tokens_per_text"]


def test_fit_sees_texts_under_two_labels(data, tmp_path) -> None:
    with data.open("a", newline="") as file:
        csv.writer(file).writerow((GOOD[0], "no"))
    told = json.loads(run("fit", data, "--out", tmp_path / "m.kt", "--json"))
    assert "1 repeat it under another label: rows 1 and 81." in told["warnings"]


def test_fit_passes_its_options_on(data, tmp_path) -> None:
    run(
        *("fit", data, "--out", tmp_path / "folder", "--ngrams", 1, "--min-count", 1),
        *("--selectivity", 0.5, "--balanced", "--max-features", 5),
    )
    model = kt.load(tmp_path / "folder")
    assert (model.ngrams, model.selectivity, model.class_weight) == ((1, 1), 0.5, "balanced")
    assert len(model.vocabulary_) == 5


def test_predict_writes_csv_and_jsonl(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    model = kt.load(tmp_path / "m.kt")
    lines = list(csv.DictReader(run("predict", tmp_path / "m.kt", data).splitlines()))
    assert [line["label"] for line in lines] == ["yes"] * 40 + ["no"] * 40
    expected = model.predict_proba(GOOD[:1])[0].tolist()
    assert [float(lines[0][f"P({name})"]) for name in ("no", "yes")] == expected
    run("predict", tmp_path / "m.kt", data, "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == [line["label"] for line in lines]
    assert list(rows[0]["probabilities"].values()) == expected


def test_certify_tells_people_and_machines(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    out = run("certify", tmp_path / "m.kt", data)
    assert "80 texts select" in out
    told = json.loads(run("certify", tmp_path / "m.kt", data, "--json"))
    assert told["feasible"] is True
    assert told["margin"] > 0
    assert told["sentences"] == out.splitlines()


def test_json_has_null_where_there_is_no_number(tmp_path) -> None:
    """Texts of one token leave nothing to separate: no margin, no correlation."""
    (tmp_path / "a.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    run("fit", tmp_path / "a.csv", "--out", tmp_path / "m.kt", "--ngrams", 1)
    out = run("certify", tmp_path / "m.kt", tmp_path / "a.csv", "--json")
    told = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert told["feasible"] is True
    assert told["margin"] is told["correlation"] is None
    found = kt.load(tmp_path / "m.kt").certify(["good", "bad"]).to_dict()
    json.dumps(found, allow_nan=False)


def test_every_commands_json_is_json() -> None:
    told = dumps({"a": [float("nan"), (1.5, float("inf"))], "b": {"c": -float("inf")}, "d": "NaN"})
    assert told == '{"a": [null, [1.5, null]], "b": {"c": null}, "d": "NaN"}'


def test_test_labels_are_those_of_the_model(data, tmp_path, capsys, monkeypatch) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    (tmp_path / "same.jsonl").write_text('{"text": "good", "label": "1"}\n')
    fit = ["fit", tmp_path / "train.csv", "--out", tmp_path / "m.kt", "--test"]
    assert json.loads(run(*fit, tmp_path / "same.jsonl", "--json"))["accuracy"]["accuracy"] == 1
    (tmp_path / "m.kt").unlink()
    (tmp_path / "odd.csv").write_text("text,label\ngood,1\nbad,0\nbad,unsure\n")
    assert said(capsys, monkeypatch, *fit, tmp_path / "odd.csv") == (
        "keytokens: labels must be one of '0', '1'; got 'unsure'.\n"
    )
    assert not (tmp_path / "m.kt").exists()


def said(capsys, monkeypatch, *words: object) -> str:
    """What a command that is refused says."""
    from keytokens.cli import main

    monkeypatch.setattr(sys, "argv", ["keytokens", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_model_takes_the_place_of_no_document(data, tmp_path, capsys, monkeypatch) -> None:
    thesis = tmp_path / "thesis.docx"
    thesis.write_text("years of work")
    told = said(capsys, monkeypatch, "fit", data, "--out", thesis)
    assert "thesis.docx must be a new file or a model; got: a file of something else." in told
    assert thesis.read_text() == "years of work"


@pytest.mark.parametrize("name", ["out.tsv", "out.parquet", "out.txt"])
def test_predictions_are_csv_or_jsonl(data, tmp_path, name, capsys, monkeypatch) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    told = said(capsys, monkeypatch, "predict", tmp_path / "m.kt", data, "--out", tmp_path / name)
    assert "--out must end in .csv, or in .jsonl for JSON lines; got" in told
    assert not (tmp_path / name).exists()


def test_a_pipe_is_labelled_and_pipes_take_the_answers(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    read, write = tmp_path / "texts", tmp_path / "answers"
    answers: list[str] = []
    for pipe in (read, write):
        os.mkfifo(pipe)
    for job in (lambda: read.write_text("__label__a so good !\n"),
                lambda: answers.append(write.read_text())):  # fmt: skip
        threading.Thread(target=job, daemon=True).start()
    run("predict", tmp_path / "m.kt", read, "--out", write)
    assert write.is_fifo()
    for _ in range(100):
        answers or time.sleep(0.1)
    assert answers[0].splitlines()[1].startswith("yes,")


def test_standard_input_is_a_file_too(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    words = [sys.executable, "-m", "keytokens", "predict", tmp_path / "m.kt"]
    for name in ("-", "/dev/stdin"):
        done = subprocess.run(
            [*words, name], input="__label__no so good !\n", capture_output=True, text=True
        )
        assert done.stdout.splitlines()[1].startswith("yes,"), done.stderr
        done = subprocess.run([*words, name], input="text\n", capture_output=True, text=True)
        assert "/dev/stdin must end in .csv, " in done.stderr


def test_half_stars_are_classes_and_measurements_are_not(tmp_path, capsys, monkeypatch) -> None:
    stars, prices, out = tmp_path / "stars.csv", tmp_path / "prices.csv", tmp_path / "m.kt"
    stars.write_text("text,label\n" + "good,4.5\nso so,2.0\nbad,0.5\n" * 4)
    prices.write_text("text,label\n" + "".join(f"good,{k}.25\n" for k in range(300)) * 2)
    told = json.loads(run("fit", stars, "--out", out, "--test", stars, "--json"))
    assert told["classes"] == {"0.5": 4, "2.0": 4, "4.5": 4}
    assert told["accuracy"]["accuracy"] == 1
    assert "accuracy" in run("evaluate", out, stars)
    refused = said(capsys, monkeypatch, "fit", prices, "--out", out)
    assert "if these are classes, convert them to strings." in refused


def test_a_pages_examples_may_be_a_pipe(data, tmp_path) -> None:
    """Looked at for labels first, and then for texts alone."""
    run("fit", data, "--out", tmp_path / "m.kt")
    os.mkfifo(tmp_path / "pipe.csv")
    job = threading.Thread(target=(tmp_path / "pipe.csv").write_text, args=("text\nso good\n",))
    job.start()
    page = tmp_path / "page.html"
    run("page", tmp_path / "m.kt", "--out", page, "--examples", tmp_path / "pipe.csv")
    assert "so good" in page.read_text()
    job.join()


def test_a_pipe_has_texts_and_their_names(data, tmp_path) -> None:
    """--id reads the file again."""
    run("fit", data, "--out", tmp_path / "m.kt")
    pipe, out = tmp_path / "pipe.csv", tmp_path / "out.jsonl"
    os.mkfifo(pipe)
    content = "text,id\nso good,first\n"
    threading.Thread(target=pipe.write_text, args=(content,), daemon=True).start()
    run("explain", tmp_path / "m.kt", "--file", pipe, "--id", "id", "--eraser", out)
    assert json.loads(out.read_text())["annotation_id"] == "first"


def test_terminating_leaves_no_temporary_file(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    folder, texts = tmp_path / "out", tmp_path / "endless.csv"
    os.mkfifo(texts)
    words = ["predict", tmp_path / "m.kt", texts, "--out", folder / "a.csv"]
    env = os.environ | {"TMPDIR": str(tmp_path / "copies")}
    (tmp_path / "copies").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "keytokens", *map(str, words)], stderr=subprocess.PIPE, env=env
    ) as going:
        with texts.open("w"):  # opens when it is read, and stays open
            while not list((tmp_path / "copies").iterdir()):
                time.sleep(0.05)
            assert list(folder.iterdir())
            going.terminate()
            assert going.wait(60) == 143
        assert going.stderr is not None
        assert going.stderr.read() == b"keytokens: terminated\n"
    assert list(folder.iterdir()) == list((tmp_path / "copies").iterdir()) == []


WRONG = {
    "fit {data} --out {out} --label nope": "nope",
    "fit {data} --out {out} --text nope": "nope",
    "fit {data} --out {out} --training best": "training must be one of",
    "fit {data} --out {out} --selectivity 2": "selectivity must be between 0 and 1; got 2.",
    "predict {data} {data}": "must be a keytokens model",
    "certify nowhere.kt {data}": "does not exist",
    "fit {data} --out {data}": "--out must be another place than what is read; got ",
    "fit {data} --out {out} --label id": "label must name a column of",
    "fit {data} --out {data}/m.kt": "must be writable; got: ",
}


@pytest.mark.parametrize("words", WRONG)
def test_mistakes_are_one_line(words: str, data, tmp_path, capsys, monkeypatch) -> None:
    from keytokens.cli import main

    line = words.format(data=data, out=tmp_path / "m.kt").split()
    monkeypatch.setattr(sys, "argv", ["keytokens", *line])
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2
    assert WRONG[words] in said
    assert said.count("\n") == 1


def test_a_folder_of_texts_is_never_written_over(tmp_path, capsys, monkeypatch) -> None:
    from keytokens.cli import main

    for name, text in (("yes/1.txt", "good"), ("no/1.txt", "bad")):
        (tmp_path / "texts" / name).parent.mkdir(parents=True)
        (tmp_path / "texts" / name).write_text(text)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    for out, said in (("texts", "another place"), ("other", "such as 'thesis.txt'")):
        line = ["keytokens", "fit", str(tmp_path / "texts"), "--out", str(tmp_path / out)]
        monkeypatch.setattr(sys, "argv", line)
        with pytest.raises(SystemExit):
            main()
        assert said in capsys.readouterr().err
    assert (tmp_path / "texts" / "yes" / "1.txt").read_text() == "good"
    assert (tmp_path / "other" / "thesis.txt").exists()


def test_predictions_are_not_written_over_their_texts(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    for out in (data, tmp_path / "m.kt"):
        before = out.read_bytes()
        with pytest.raises(kt.InputError, match="--out must be another place"):
            run("predict", tmp_path / "m.kt", data, "--out", out)
        assert out.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_output_is_one_line(data, tmp_path) -> None:
    run("fit", data, "--out", tmp_path / "m.kt")
    words = [sys.executable, "-m", "keytokens", "predict", tmp_path / "m.kt", data]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "keytokens: the output must be usable; got: No space left on device.\n"


def test_labels_keep_their_type_in_json(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 4)
    run("fit", tmp_path / "a.csv", "--out", tmp_path / "m.kt")
    out = run("predict", tmp_path / "m.kt", tmp_path / "a.csv", "--json")
    assert [json.loads(line)["label"] for line in out.splitlines()[:2]] == [1, 0]


def test_one_row_is_a_clear_error(tmp_path, capsys, monkeypatch) -> None:
    from keytokens.cli import main

    (tmp_path / "one.csv").write_text("text,label\na film,yes\n")
    line = ["keytokens", "fit", str(tmp_path / "one.csv"), "--out", str(tmp_path / "m.kt")]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit):
        main()
    assert "y must hold at least two classes; got one class: 'yes'." in capsys.readouterr().err
    assert not (tmp_path / "m.kt").exists()


def test_key_tokens_speak_for_their_own_class(tmp_path) -> None:
    texts = ["awful place", "so so place", "great place"] * 20
    model = kt.KeyTokenClassifier(ngrams=(1, 1)).fit(texts, [1, 3, 5] * 20)
    told = key_tokens(model, 2.5)
    assert [words[0] for words in told.values()] == ["awful", "so", "great"]
    assert all("awful" not in told[other] and "place" not in told[other] for other in "35")


def test_a_carriage_return_inside_a_line_is_no_line_end(tmp_path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"__label__1 good\r food\r\n__label__0 bad food\n")
    table = read_table(path)
    assert table.texts == ["good\r food", "bad food"]
    assert table.labels.tolist() == [1, 0]
