"""One self-contained HTML file: escaping, layout, the one template. Knows nothing of what it shows.

    page = render("A title", [Section("Results", table(["name", "value"], rows))])

The file needs no network and forbids it (a Content-Security-Policy lists the hashes of its own
script and style), every string is escaped unless it is already `Markup`, and the same input gives
the same bytes: no clock, no random ids.
"""

from keytokens.pages.build import Section, render
from keytokens.pages.escape import Markup, escape, json_text, resource
from keytokens.pages.parts import facts, figure, fragment, note, paragraphs, table

__all__ = [
    "Markup",
    "Section",
    "escape",
    "facts",
    "figure",
    "fragment",
    "json_text",
    "note",
    "paragraphs",
    "render",
    "resource",
    "table",
]
