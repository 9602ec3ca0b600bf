"""Figures and page: files in, the same bytes out, nothing executed, nothing recomputed."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import Open

import keytokens as kt
from keytokens.experiments import Experiment, at_least, at_most, run_experiment
from keytokens.report import figures
from keytokens.report.page import write_report

CLAIM = "<script>alert('claim')</script>"


def line(params: dict[str, Any], rng: Any) -> list[dict[str, float]]:
    return [{"x": float(k), "y": params["slope"] * k} for k in range(4)]


def drawn(rows: Any) -> Any:
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(3, 2))
    axis.plot(rows["x"], rows["y"])
    axis.set_title("a <b>title</b>")
    return figure


def judged(rows: Any) -> list[Any]:
    return [
        at_most(CLAIM, "largest y", rows["y"].max(), 10, "no reason"),
        at_least("It is large.", "largest y", rows["y"].max(), 10, "none"),
        at_least("It is measured.", "nothing", None, 10, "none"),
    ]


def experiment(name: str = "line", **changes: Any) -> Experiment:
    parts: dict[str, Any] = dict(
        name=name, run=line, params=[{"slope": 2.0}], title="A & B", look="Look <here>.",
        verdicts=judged, draw=drawn, left_out="half of it",
    )  # fmt: skip
    return Experiment(**(parts | changes))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    run_experiment(experiment(), tmp_path)
    return tmp_path


def test_the_page_says_everything_and_escapes_it(out: Path) -> None:
    page = write_report(out).read_text(encoding="utf-8")
    assert CLAIM not in page
    assert "&lt;script&gt;alert" in page
    assert "A &amp; B" in page
    assert "Look &lt;here&gt;." in page
    for outcome in ("✓ holds", "✗ does not hold", "? cannot be decided here"):
        assert outcome in page
    assert "keytokens reproduce line --out out</pre>" in page


def test_rows_travel_inside_the_page(out: Path) -> None:
    page = write_report(out).read_text(encoding="utf-8")
    (data,) = re.findall(r'href="data:text/csv;base64,([^"]+)"', page)
    assert base64.b64decode(data) == (out / "line" / "rows.csv").read_bytes()


def test_many_rows_travel_compressed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keytokens.report.page.PLAIN", 10)
    page = write_report(out).read_text(encoding="utf-8")
    (data,) = re.findall(
        r'download="line.csv.gz" href="data:application/gzip;base64,([^"]+)"', page
    )
    assert gzip.decompress(base64.b64decode(data)) == (out / "line" / "rows.csv").read_bytes()
    assert write_report(out).read_text(encoding="utf-8") == page


def test_large_rows_stay_beside_the_page(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keytokens.report.page.PLAIN", 10)
    monkeypatch.setattr("keytokens.report.page.EMBED", 10)
    assert 'href="line/rows.csv"' in write_report(out).read_text(encoding="utf-8")


def test_a_rerun_gives_the_same_bytes(out: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = tmp_path_factory.mktemp("again")
    run_experiment(experiment(), again)
    write_report(out)
    write_report(again)
    names = sorted(p.relative_to(out) for p in out.rglob("*") if p.is_file())
    assert len(names) == 7
    for name in names:
        assert (out / name).read_bytes() == (again / name).read_bytes(), name


def test_a_figure_is_redrawn_from_rows_without_computing(out: Path) -> None:
    before = (out / "line" / "figure.svg").read_bytes()
    (out / "line" / "figure.svg").unlink()
    run_experiment(experiment(run=line), out)
    assert (out / "line" / "figure.svg").read_bytes() == before


def test_files_hold_no_date_and_no_version(out: Path) -> None:
    svg = (out / "line" / "figure.svg").read_text(encoding="utf-8")
    assert "<dc:date>" not in svg
    assert "Matplotlib v" not in svg
    assert b"Software" not in (out / "line" / "figure.png").read_bytes()


def test_quick_runs_say_what_they_left_out(tmp_path: Path) -> None:
    run_experiment(experiment(), tmp_path, quick=True)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "This is a quick run" in page
    assert "Left out: A &amp; B: half of it." in page
    assert "--out out --quick</pre>" in page


def test_a_page_of_quick_and_full_runs_says_so(out: Path) -> None:
    run_experiment(experiment("other"), out, quick=True)
    page = write_report(out).read_text(encoding="utf-8")
    assert "Some of these are quick runs." in page
    assert "--out out</pre>" in page


def test_the_command_names_the_data_it_needs(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("text,label\n")
    needy = experiment(run=lambda params, rng, data: line({"slope": 1.0}, rng), needs_data=True)
    run_experiment(needy, tmp_path, data=[tmp_path / "some.csv"])
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "keytokens reproduce line --out out --data FILE</pre>" in page


def test_sections_stand_in_the_registry_s_order(tmp_path: Path) -> None:
    for name in ("aa", "bb", "cc"):
        run_experiment(experiment(name), tmp_path)
    page = write_report(tmp_path, order=["cc", "missing", "aa"]).read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', page) == ["overview", "cc", "aa", "bb"]


def test_several_figures_keep_their_captions(tmp_path: Path) -> None:
    two = experiment(draw=lambda rows: {"first": drawn(rows), "second <i>": drawn(rows)})
    run_experiment(two, tmp_path)
    record = json.loads((tmp_path / "line" / "experiment.json").read_text())
    assert [f["file"] for f in record["figures"]] == ["figure", "figure-2"]
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "second &lt;i&gt;" in page
    assert page.count("<figure>") == 2


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(kt.FileError, match="must hold a finished experiment; got none"):
        write_report(tmp_path)


def test_style_is_left_behind(tmp_path: Path) -> None:
    import matplotlib

    before = matplotlib.rcParams["font.size"]
    with figures.style():
        assert matplotlib.rcParams["svg.hashsalt"] == "keytokens"
    assert matplotlib.rcParams["font.size"] == before


def wide(rows: Any) -> Any:
    figure = drawn(rows)
    figure.set_size_inches(9, 3)
    return figure


def test_in_a_browser_the_figure_is_legible_and_the_rows_can_be_saved(
    tmp_path: Path, opened: Open
) -> None:
    run_experiment(experiment(draw=wide), tmp_path)
    html = write_report(tmp_path).read_text()
    for width, least in ((380, 600), (1200, 800)):
        page = opened(html, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        image = "document.querySelector('figure img')"
        assert page.evaluate(f"{image}.complete && {image}.width") > least
        with page.expect_download() as saved:
            page.click("a[download]")
        assert saved.value.path().read_bytes() == (tmp_path / "line" / "rows.csv").read_bytes()
