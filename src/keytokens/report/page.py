"""The folder an experiment run left behind -> one self-contained report.html."""

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.errors import FileError
from keytokens.pages import Markup, Section, facts, figure, note, paragraphs, render, table

Record = dict[str, Any]
PLAIN = 100_000  # bytes of csv that travel inside the page as they are; larger ones compressed
EMBED = 1_500_000  # compressed bytes beyond which the data stay beside the page
LEAD = (
    "Which tokens does attention select, and which way does training go? Each claim is decided by "
    "one number against a threshold, with the reason for it."
)
SIGNS = {"holds": "✓", "does not hold": "✗", "cannot be decided here": "?"}
KINDS = {"holds": "good", "does not hold": "bad", "cannot be decided here": "plain"}


def write_report(out: str | Path, order: Sequence[str] = ()) -> Path:
    """report.html over every finished experiment in `out`, those named in `order` first."""
    out = Path(out)
    records = [_read(path) for path in _finished(out, order)]
    if not records:
        raise FileError(f"{out} must hold a finished experiment; got none.")
    sections = [_overview(records), *(_section(record, out) for record in records)]
    path = out / "report.html"
    _files.write_text(path, render("Token selection: the experiments", sections, lead=LEAD))
    return path


def _finished(out: Path, order: Sequence[str]) -> list[Path]:
    """experiment.json files: the registry's order, then the others by name."""
    found = {path.parent.name: path for path in sorted(out.glob("*/experiment.json"))}
    names = [name for name in order if name in found]
    return [found[name] for name in [*names, *(n for n in found if n not in names)]]


def _read(path: Path) -> Record:
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    return record


def _overview(records: Sequence[Record]) -> Section:
    verdicts = [verdict for record in records for verdict in record["verdicts"]]
    counts = [(word, sum(v["outcome"] == word for v in verdicts)) for word in SIGNS]
    rows = [
        (_link(record), v["claim"], _number(v["number"]), (_bound(v), v["threshold"]), _outcome(v))
        for record in records
        for v in record["verdicts"]
    ]
    claims = table(["experiment", "claim", "number", "threshold", "verdict"], rows)
    body = facts([("experiments", len(records)), *counts]) + _left_out(records) + claims
    return Section("Overview", body, "overview")


def _link(record: Record) -> Markup:
    return Markup('<a href="#{}">{}</a>').format(record["name"], record["title"])


def _left_out(records: Sequence[Record]) -> Markup:
    """What a quick run does not show, said at the top."""
    quick = [record for record in records if record["quick"]]
    if not quick:
        return Markup()
    whole = len(quick) == len(records)
    words = "This is a quick run, with fewer seeds." if whole else "Some of these are quick runs."
    parts = [f"{r['title'].partition(':')[0]}: {r['left_out']}" for r in quick if r["left_out"]]
    return note(f"{words} Left out: {'; '.join(parts)}." if parts else words)


def _section(record: Record, out: Path) -> Section:
    folder = out / record["name"]
    body = Markup().join(
        (
            paragraphs(*filter(None, [record["look"]])),
            *_figures(record, folder),
            *map(_verdict, record["verdicts"]),
            _remake(record, folder),
        )
    )
    return Section(record["title"], body, record["name"])


def _figures(record: Record, folder: Path) -> Iterable[Markup]:
    for drawn in record["figures"]:
        image = (folder / f"{drawn['file']}.svg").read_text(encoding="utf-8")
        yield figure(image, drawn["caption"], alt=drawn["caption"] or record["title"])


def _verdict(verdict: Record) -> Markup:
    text = Markup("<strong>{}</strong> {} <em>{}</em>: {} ({}: {}).").format(
        f"{verdict['outcome'].capitalize()}.",
        verdict["claim"],
        verdict["measure"],
        _number(verdict["number"])[0],
        _bound(verdict),
        verdict["why"],
    )
    return note(text, KINDS[verdict["outcome"]])


def _number(number: float | None) -> tuple[str, float]:
    """As shown, and as sorted."""
    return ("not measured", float("inf")) if number is None else (f"{number:.4g}", number)


def _bound(verdict: Record) -> str:
    sign = "≤" if verdict["side"] == "at most" else "≥"
    return f"{sign} {verdict['threshold']:.3g}"


def _outcome(verdict: Record) -> tuple[Markup, str]:
    """As shown, and as sorted."""
    word = verdict["outcome"]
    shown = Markup('<span class="{}">{} {}</span>').format(KINDS[word], SIGNS[word], word)
    return shown, word


def _remake(record: Record, folder: Path) -> Markup:
    """The rows to take away, the command that makes the figure again, and what it ran on."""
    options = " --data FILE" * record["needs_data"] + " --quick" * record["quick"]
    return Markup('<p class="small">{} · {} rows of {} cells · {}</p><pre>{}</pre>').format(
        _download(record, folder),
        record["rows"],
        record["cells"],
        ", ".join(f"{name} {version}" for name, version in record["versions"].items()),
        f"keytokens reproduce {record['name']} --out out{options}",
    )


def _download(record: Record, folder: Path) -> Markup:
    """The rows as csv: inside the page, compressed where they are many; beside it at worst."""
    data, name, kind = (folder / "rows.csv").read_bytes(), f"{record['name']}.csv", "text/csv"
    if len(data) > PLAIN:
        data, name, kind = gzip.compress(data, mtime=0), f"{name}.gz", "application/gzip"
    if len(data) > EMBED:
        return Markup('<a href="{0}/rows.csv">{0}.csv (beside this page)</a>').format(
            record["name"]
        )
    text = base64.b64encode(data).decode("ascii")
    return Markup('<a download="{0}" href="data:{1};base64,{2}">{0}</a>').format(name, kind, text)
