"""The pieces a section is made of. Each takes plain values and gives safe HTML."""

import base64
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from keytokens.pages.build import environment


def fragment(source: str, **names: object) -> Markup:
    """A small jinja2 template of the caller's own, escaped like the page itself.

    >>> fragment("<b>{{ word }}</b>", word="<i>")
    Markup('<b>&lt;i&gt;</b>')
    """
    return Markup(environment().from_string(source).render(**names))


def paragraphs(*texts: str) -> Markup:
    """Each text a paragraph."""
    return Markup().join(Markup("<p>{}</p>").format(text) for text in texts)


def note(text: str | Markup, kind: str = "plain") -> Markup:
    """A boxed remark; kind: plain, good or bad (each with a sign of its own, not colour alone)."""
    return Markup('<div class="note {}"><p>{}</p></div>').format(kind, text)


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and values, side by side."""
    rows = Markup().join(
        Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(name, _shown(value))
        for name, value in pairs
    )
    return Markup('<dl class="facts">{}</dl>').format(rows)


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str = "",
    sortable: bool = True,
    more: str = "",
) -> Markup:
    """A table; numbers stand right-aligned, and a click on a head sorts by it.

    A cell that is a pair (shown, key) shows the first and sorts by the second.
    """
    listed = [[_cell(value) for value in row] for row in rows]
    first = listed[0] if listed else [Markup()] * len(header)
    head = Markup().join(map(_head, header, first))
    body = Markup().join(Markup("<tr>{}</tr>").format(Markup().join(row)) for row in listed)
    classes = " ".join(filter(None, ["sortable" if sortable else "", more]))
    return Markup(
        '<div class="scroll" tabindex="0" role="group" aria-label="{}"><table class="{}">'
        "{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(caption or "table", classes, _caption(caption), head, body)


def _head(name: str, cell: Markup) -> Markup:
    """A column's head, aligned as the cells under it."""
    numeric = ' class="number"' if cell.startswith('<td class="number"') else ""
    return Markup('<th scope="col"{}>{}</th>').format(Markup(numeric), name)


def figure(image: str | bytes, caption: str | Markup = "", alt: str = "") -> Markup:
    """An SVG (str) or a PNG (bytes) as an image inside the file.

    As an image an SVG runs no script and keeps its own styles, which the page's policy would
    refuse to SVG written straight into it.
    """
    kind, raw = ("svg+xml", image.encode()) if isinstance(image, str) else ("png", image)
    source = f"data:image/{kind};base64,{base64.b64encode(raw).decode('ascii')}"
    words = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup('<figure><img src="{}" alt="{}">{}</figure>').format(
        source, alt or str(Markup(caption).striptags()), words
    )


def _caption(text: str) -> Markup:
    return Markup("<caption>{}</caption>").format(text) if text else Markup()


def _cell(value: object) -> Markup:
    shown, key = value if isinstance(value, tuple) else (value, None)
    numeric = isinstance(key if key is not None else shown, (int, float))
    return Markup("<td{}{}>{}</td>").format(
        Markup(' class="number"') if numeric else "",
        "" if key is None else Markup(' data-key="{}"').format(repr(key) if numeric else key),
        _shown(shown),
    )


def _shown(value: object) -> Markup:
    if isinstance(value, float):
        return escape(f"{value:.4g}")
    return escape(value)
