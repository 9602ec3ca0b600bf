"""An Explanation as HTML: a page of its own, or a piece for a notebook."""

from collections.abc import Sequence
from pathlib import Path

from keytokens import _files
from keytokens.explain.explanation import Explanation, Token
from keytokens.explain.terminal import level, percent, sentences, top_lines
from keytokens.pages import Markup, Section, render, resource, table

_PACKAGE = "keytokens.explain"
_NOTEBOOK = """
.keytokens { --pos: 22 104 196; --neg: 204 88 0; --muted: #667; max-width: 60rem; }
@media (prefers-color-scheme: dark) { .keytokens { --pos: 84 160 255; --neg: 255 150 54; } }
"""


def write_html(whys: Sequence[Explanation], path: str | Path, total: int | None = None) -> None:
    """One self-contained page of explanations."""
    _files.write_text(path, page(whys, total))


def page(whys: Sequence[Explanation], total: int | None = None) -> str:
    """Each text a section: the decision, the marked text, the tokens that carry it."""
    sections = [
        Section(_title(why, k, len(whys)), section(why), f"text-{k + 1}")
        for k, why in enumerate(whys)
    ]
    shown = f"The first {len(whys)} of {total} texts. " if total and total > len(whys) else ""
    lead = f"{shown}Each contribution is attention × value; with the bias they sum to the logit."
    style, script = resource(_PACKAGE, "highlight.css"), resource(_PACKAGE, "layers.js")
    return render(
        "Why the model decided so", sections, lead=_lead(lead), style=style, script=script
    )


def _lead(text: str) -> Markup:
    return Markup(
        '{} <label class="no-print" hidden id="layers">Marks show <select>'
        "<option>contribution</option><option>attention</option><option>value</option>"
        "</select></label>"
    ).format(text)


def _title(why: Explanation, place: int, count: int) -> str:
    return f"{why.label}" if count == 1 else f"Text {place + 1}: {why.label}"


def section(why: Explanation) -> Markup:
    """What stands under one text's heading."""
    return verdict(why) + legend(why) + marked(why) + remarks(why) + token_table(why)


def verdict(why: Explanation) -> Markup:
    """The label, its probability, and the sum that makes the logit."""
    tokens = why.logit - why.bias
    return Markup(
        '<p class="verdict"><strong>{}</strong> {}</p>'
        '<p class="muted small">logit for {}: {} = tokens {} + bias {}</p>'
    ).format(
        why.label,
        percent(why.probabilities[why.label]),
        why.explained_class,
        signed(why.logit),
        signed(tokens),
        signed(why.bias),
    )


def legend(why: Explanation) -> Markup:
    """What the marks mean."""
    return Markup(
        '<p class="legend">'
        '<span class="signs"><mark class="t p" data-k="6">solid blue</mark> speaks for {}</span>'
        '<span class="signs"><mark class="t n" data-k="6">dotted orange</mark> against it</span>'
        "<span>stronger: thicker and darker</span></p>"
    ).format(why.explained_class)


def marked(why: Explanation) -> Markup:
    """The original text, each word marked by the credit it carries; a script changes the layer."""
    words = [word for word in why.words if not word.is_constant]
    largest = [max((abs(part) for part in layer), default=0.0) for layer in _layers(words)]
    pieces, last = [], 0
    for word, *amounts in zip(words, *_layers(words), strict=True):
        pieces += [Markup.escape(why.text[last : word.start]), _mark(word, amounts, largest)]
        last = word.end
    pieces.append(Markup.escape(why.text[last:]))
    return Markup('<div class="marked">{}</div>').format(Markup().join(pieces))


def _layers(words: Sequence[Token]) -> list[list[float]]:
    """What each layer shows of each word: contribution, attention, value."""
    return [[getattr(w, name) for w in words] for name in ("contribution", "attention", "value")]


def _mark(word: Token, amounts: list[float], largest: list[float]) -> Markup:
    levels = [level(amount, most) for amount, most in zip(amounts, largest, strict=True)]
    if not any(levels):
        return Markup.escape(word.text)
    signs = ["p" if amounts[0] > 0 else "n", "w", "p" if amounts[2] > 0 else "n"]
    told = f"contribution {signed(word.contribution)}, attention {word.attention:.4f}"
    return Markup('<mark class="t {}" data-k="{}" data-layers="{}" title="{}">{}</mark>').format(
        signs[0],
        levels[0],
        " ".join(f"{sign}{k}" for sign, k in zip(signs, levels, strict=True)),
        told,
        word.text,
    )


def remarks(why: Explanation) -> Markup:
    """How concentrated it is, what suffices, what flips it."""
    items = Markup().join(Markup("<li>{}</li>").format(line) for line in sentences(why)[1:])
    return Markup('<ul class="small">{}</ul>').format(items)


def token_table(why: Explanation) -> Markup:
    """The tokens that carry most: attention, value, and their product."""
    rows = [(name, (f"{w:.4f}", w), _value(w, c), (signed(c), c)) for name, w, c in top_lines(why)]
    header = ["token", "attention", "value", "contribution"]
    return table(header, rows, "The tokens that carry most")


def _value(weight: float, credit: float) -> tuple[str, float]:
    """b = contribution / attention, as shown and as sorted."""
    return (signed(credit / weight), credit / weight) if weight > 0 else ("–", 0.0)


def signed(number: float) -> str:
    """A number that always shows its sign; the true minus."""
    return f"{number:+.4f}".replace("-", "−")


def notebook(why: Explanation) -> str:
    """A piece of HTML for a notebook: no script, no id, its own style."""
    style = Markup(_NOTEBOOK + resource(_PACKAGE, "highlight.css"))
    body = verdict(why) + legend(why) + marked(why) + remarks(why)
    return str(Markup('<div class="keytokens"><style>{}</style>{}</div>').format(style, body))
