"""An Explanation as HTML: a page of its own, or a piece for a notebook."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from keytokens import _files
from keytokens.explain.explanation import Explanation, Token
from keytokens.explain.formats import storable
from keytokens.explain.terminal import level, percent, quoted, sentences, shown, top_features
from keytokens.pages import Markup, Section, fragment, json_text, render, resource, table

_PACKAGE = "keytokens.explain"
SIZE = 20_000_000
_DETAIL = Markup('<p class="muted small no-print" role="status"></p>')
_CONTROLS = """{{ told }} <span class="controls no-print" id="tools" hidden>
<label>Marks show <select id="layers"><option>contribution</option><option>attention</option>
<option>value</option></select></label>
{% if several %}<label>Order <select id="sort"><option value="given">as given</option>
<option value="uncertain">most uncertain first</option>
<option value="certain">most certain first</option></select></label>
<label>Decision <select id="filter"><option value="">all</option>
{% for label in labels %}<option value="{{ loop.index0 }}">{{ label }}</option>{% endfor %}
</select></label>
<label>Search <input id="search" type="search" autocomplete="off" placeholder="words"></label>
<span id="count" class="muted small" role="status"></span>{% endif %}
<button type="button" id="save">Save as JSON</button></span>"""


def write_html(
    whys: Iterable[Explanation], path: str | Path, total: int | None = None, size: int = SIZE
) -> None:
    """One self-contained page of explanations; as many as fit `size` bytes, the first always."""
    _files.write_text(path, page(whys, total, size))


def page(whys: Iterable[Explanation], total: int | None = None, size: int = SIZE) -> str:
    """Each text a section: the decision, the marked text, the tokens that carry it.

    total: how many texts there were; the page says how many of them it shows.
    """
    bodies, data, title, classes = _fitting(whys, size)
    several = len(bodies) > 1
    told = f"The first {len(bodies)} of {total} texts. " if total and total > len(bodies) else ""
    told += "Each contribution is attention × value; with the bias they sum to the logit."
    sections = [
        Section(f"Text {k + 1}: {one['label']}" if several else title, body, f"text-{k + 1}")
        for k, (body, one) in enumerate(zip(bodies, data, strict=True))
    ]
    return render(
        "Why the model decided so",
        sections,
        lead=fragment(_CONTROLS, told=told, several=several, labels=classes),
        data=data,
        style=resource(_PACKAGE, "highlight.css") + resource(_PACKAGE, "explanations.css"),
        script=resource(_PACKAGE, "marks.js") + resource(_PACKAGE, "layers.js"),
    )


def _fitting(
    whys: Iterable[Explanation], size: int
) -> tuple[list[Markup], list[dict[str, Any]], str, list[str]]:
    """Bodies and data until they fill `size` bytes; the first one's title, and the classes."""
    bodies: list[Markup] = []
    data: list[dict[str, Any]] = []
    title, classes, left = "No texts", [], size
    for why in whys:
        body, numbers = section(why), _numbers(why)
        left -= len(body.encode("utf-8")) + len(json_text(numbers).encode("utf-8"))
        if bodies and left < 0:
            break
        title, classes = (
            (title if bodies else "The text"),
            [str(c) for c in why.classes],
        )
        bodies.append(body)
        data.append(numbers)
    return bodies, data, title, classes


def _numbers(why: Explanation) -> dict[str, Any]:
    """What the page saves as JSON: `to_dict` in short."""
    rows = [[t.start, t.end, t.attention, t.contribution] for t in why.tokens]
    return {
        "text": why.text,
        "label": str(why.label),
        "place": why.classes.index(why.label),
        "explained_class": str(why.explained_class),
        "logit": why.logit,
        "bias": why.bias,
        "probabilities": [
            {"label": str(label), "probability": p} for label, p in why.probabilities.items()
        ],
        "tokens": rows,
    }


def section(why: Explanation) -> Markup:
    """What stands under one text's heading."""
    sure = sorted(why.probabilities.values())
    parts = (verdict(why), legend(why), marked(why), _DETAIL, remarks(why), token_table(why))
    return Markup('<div class="one" data-sure="{}">{}</div>').format(
        repr(sure[-1] - sure[-2]), Markup().join([*parts, class_table(why)])
    )


def verdict(why: Explanation) -> Markup:
    """The label, its probability, and the sum that makes the logit."""
    return Markup(
        '<p class="verdict">Decision: <strong>{}</strong> {}</p>'
        '<p class="muted small">logit for {}: {}{}</p>'
    ).format(
        why.label,
        percent(why.probabilities[why.label]),
        why.explained_class,
        signed(why.logit),
        f" = tokens {signed(why.logit - why.bias)} + bias {signed(why.bias)}"
        if why.bias
        else ", the sum of all contributions",
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
    text, layers = storable(why.text), _layers(words)
    largest = [max((abs(part) for part in layer), default=0.0) for layer in layers]
    pieces, last = [], 0
    for word, *amounts in zip(words, *layers, strict=True):
        pieces += [Markup.escape(text[last : word.start]), _mark(word, amounts, largest)]
        last = word.end
    pieces.append(Markup.escape(text[last:]))
    return Markup(
        '<div class="marked" tabindex="0" role="group" aria-label="The text, marked">{}</div>'
    ).format(Markup().join(pieces))


def _layers(words: Sequence[Token]) -> list[list[float]]:
    """What each layer shows of each word: contribution, attention, value."""
    return [[getattr(w, name) for w in words] for name in ("contribution", "attention", "value")]


def _mark(word: Token, amounts: list[float], largest: list[float]) -> Markup:
    levels = [level(amount, most) for amount, most in zip(amounts, largest, strict=True)]
    if not any(levels):
        return Markup.escape(storable(word.text))
    signs = ["p" if amounts[0] > 0 else "n", "w", "p" if amounts[2] > 0 else "n"]
    told = f"contribution {signed(word.contribution)}, attention {shown(word.attention)}"
    return Markup('<mark class="t {}" data-k="{}" data-layers="{}" title="{}">{}</mark>').format(
        signs[0],
        levels[0],
        " ".join(f"{sign}{k}" for sign, k in zip(signs, levels, strict=True)),
        told,
        storable(word.text),
    )


def remarks(why: Explanation) -> Markup:
    """How concentrated it is, what suffices, what flips it."""
    items = Markup().join(Markup("<li>{}</li>").format(line) for line in sentences(why)[1:])
    return Markup('<ul class="small">{}</ul>').format(items)


def token_table(why: Explanation) -> Markup:
    """The tokens that carry most: attention, value, and their product."""
    rows = [
        (
            storable(f.text),
            (shown(f.attention), f.attention),
            (signed(f.value), f.value),
            (signed(f.contribution), f.contribution),
        )
        for f in top_features(why)
    ]
    header = ["token", "attention", "value", "contribution"]
    return table(header, rows, "The tokens that carry most")


def class_table(why: Explanation) -> Markup:
    """With more than two classes: what speaks for and against each."""
    if len(why.classes) <= 2:
        return Markup()
    rows = [
        (
            str(side.label),
            (percent(why.probabilities[side.label]), why.probabilities[side.label]),
            (signed(side.logit), side.logit),
            storable(", ".join(quoted(name) for name, _ in side.for_it)),
            storable(", ".join(quoted(name) for name, _ in side.against)),
        )
        for side in why.sides()
    ]
    header = ["class", "probability", "logit", "most for it", "most against it"]
    return table(header, rows, "For and against each class")


def signed(number: float) -> str:
    """A number that always shows its sign; the true minus."""
    return ("−" if number < 0 else "+") + shown(abs(number)).replace("-", "−")


def notebook(why: Explanation) -> str:
    """A piece of HTML for a notebook: no script, no id, and a style that touches nothing else.

    Its colours are mid-tones: a notebook's theme is not the system's, so both must do.
    """
    style = Markup(".keytokens {{ {} {} }}").format(
        Markup("--pos: 40 125 225; --neg: 222 110 20; --muted: inherit; max-width: 60rem;"),
        Markup(resource(_PACKAGE, "highlight.css")),
    )
    body = verdict(why) + legend(why) + marked(why) + remarks(why)
    return str(Markup('<div class="keytokens"><style>{}</style>{}</div>').format(style, body))


def notebook_of(whys: Iterable[Explanation], total: int) -> str:
    """A few of many for a notebook."""
    shown_ = [notebook(why) for why in whys]
    more = f"<p>The first {len(shown_)} of {total} texts.</p>" if total > len(shown_) else ""
    return "<hr>".join(shown_) + more
