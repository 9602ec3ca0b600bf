"""An Evaluation as text and as a page."""

import math
from pathlib import Path

from keytokens import _files
from keytokens.explain.evaluate import Evaluation, Score
from keytokens.pages import Markup, Section, facts, figure, note, paragraphs, render, table

_FAITHFUL = (
    "comprehensiveness",
    "sufficiency",
    "comprehensiveness_normalised",
    "sufficiency_normalised",
    "leave_one_out_agreement",
)
_SHORT = ("comp.", "suff.", "comp. 0-1", "suff. 0-1", "loo rank")
_DROPS = (
    ("comprehensiveness without the top share of a text's tokens:", "comprehensiveness_at"),
    ("sufficiency with the top share alone:", "sufficiency_at"),
)
_HUMAN = ("auprc", "precision_at_budget", "precision", "recall", "f1", "iou_f1")
_HUMAN_SHORT = ("AUPRC", "P at budget", "P", "R", "F1", "IOU F1")
_EXPLAINED = (
    "Comprehensiveness (high is good) is the fall of the decision's probability without the top "
    "1, 5, 10, 20 and 50 % of the tokens, sufficiency (low is good) with them alone; both exact, "
    "averaged over these shares. 0-1: between the exact worst (0) and best (1) sets of those sizes."
)
_PEOPLE = (
    "Over whitespace tokens. P at budget: among as many tokens as people marked. P, R, F1 and IOU "
    "F1: at the mean share people mark. Phrases: what speaks for the decision, with its neighbours "
    "and its sentence, for every explainer alike; that is what the ERASER format holds."
)


def plain(found: Evaluation) -> str:
    """Tables for a terminal or a pipe."""
    lines = [
        f"{found.texts} texts: accuracy {found.accuracy:.4f}, log-loss {found.log_loss:.4f}, "
        f"expected calibration error {found.calibration.expected_error:.4f}",
        "calibration (confidence: accuracy, texts): " + _curve(found),
        f"explainers on {found.explained} texts:",
        _lines(["explainer", *_SHORT, "s a text"], [_faithful(s) for s in _words(found)]),
        *(line for name, at in _DROPS for line in _by_share(found, name, at)),
    ]
    if any(score.human for score in found.scores):
        rows = [[s.explainer, *_human(s)] for s in found.scores if s.human]
        lines += ["agreement with people:", _lines(["explainer", *_HUMAN_SHORT], rows)]
    return "\n".join(lines + [f"left out: {reason}" for reason in found.left_out])


def _curve(found: Evaluation) -> str:
    return "; ".join(f"{c:.2f}: {a:.2f}, {n}" for c, a, n in found.calibration.curve)


def _shares(found: Evaluation) -> list[str]:
    return [f"{100 * q:g} %" for q in found.bins]


def _by_share(found: Evaluation, name: str, at: str) -> list[str]:
    rows = [[s.explainer, *map(_number, getattr(s, at))] for s in _words(found)]
    return [name, _lines(["explainer", *_shares(found)], rows)]


def _words(found: Evaluation) -> list[Score]:
    """One row an explainer: phrases only matter beside people."""
    return [score for score in found.scores if not score.explainer.endswith(", phrases")]


def _faithful(score: Score) -> list[str]:
    numbers = [getattr(score, name) for name in _FAITHFUL]
    return [score.explainer, *map(_number, numbers), f"{score.seconds_per_text:.2g}"]


def _human(score: Score) -> list[str]:
    return [_number(getattr(score.human, name)) for name in _HUMAN]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _lines(header: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    )


def write_html(found: Evaluation, path: str | Path) -> None:
    """One self-contained page."""
    sections = [
        Section("How right", _right(found)),
        Section("How faithful", paragraphs(_EXPLAINED) + _faithful_table(found)),
    ]
    if any(score.human for score in found.scores):
        sections.append(Section("Agreement with people", paragraphs(_PEOPLE) + _people(found)))
    _files.write_text(path, render("Evaluation", sections))


def _right(found: Evaluation) -> Markup:
    body = facts(
        [
            ("Texts", found.texts),
            ("Accuracy", f"{100 * found.accuracy:.2f} %"),
            ("Log-loss", f"{found.log_loss:.4f}"),
            ("Expected calibration error", f"{found.calibration.expected_error:.4f}"),
        ]
    )
    curve = table(
        ["mean confidence", "accuracy", "texts"],
        [((f"{c:.3f}", c), (f"{a:.3f}", a), n) for c, a, n in found.calibration.curve],
        "Calibration",
        sortable=False,
    )
    words = "Calibration: accuracy against confidence; the diagonal is perfect."
    return body + figure(_drawn(found), words) + curve


def _drawn(found: Evaluation) -> str:
    """The calibration curve as SVG."""
    points = [(40 + 240 * c, 260 - 240 * a) for c, a, _ in found.calibration.curve]
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1c5fb0"/>' for x, y in points)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 300" width="300" height="300" '
        'font-family="sans-serif" font-size="11"><rect width="300" height="300" fill="#fff"/>'
        '<path d="M40 20V260H280" fill="none" stroke="#666"/>'
        '<path d="M40 260L280 20" stroke="#999" stroke-dasharray="4 4"/>'
        f'<polyline points="{line}" fill="none" stroke="#1c5fb0" stroke-width="2"/>{dots}'
        '<text x="160" y="285" text-anchor="middle">confidence</text>'
        '<text x="12" y="140" text-anchor="middle" transform="rotate(-90 12 140)">accuracy</text>'
        '<text x="36" y="264" text-anchor="end">0</text><text x="36" y="24" text-anchor="end">1'
        '</text><text x="280" y="274" text-anchor="middle">1</text></svg>'
    )


def _faithful_table(found: Evaluation) -> Markup:
    rows = [
        [score.explainer, *(_cell(getattr(score, name)) for name in _FAITHFUL)]
        + [(f"{score.seconds_per_text:.2g}", score.seconds_per_text)]
        for score in _words(found)
    ]
    caption = f"On {found.explained} texts, each explainer on the same ones"
    body = table(["explainer", *_SHORT, "seconds a text"], rows, caption)
    for name, at in _DROPS:
        drops = [[s.explainer, *map(_cell, getattr(s, at))] for s in _words(found)]
        body += table(["explainer", *_shares(found)], drops, name[0].upper() + name[1:-1])
    return body + Markup().join(note(f"Left out: {reason}") for reason in found.left_out)


def _people(found: Evaluation) -> Markup:
    rows = [
        [s.explainer, *(_cell(getattr(s.human, name)) for name in _HUMAN)]
        for s in found.scores
        if s.human
    ]
    return table(["explainer", *_HUMAN_SHORT], rows, "Means over texts")


def _cell(value: float) -> tuple[str, float]:
    return (_number(value), -1.0 if math.isnan(value) else value)
