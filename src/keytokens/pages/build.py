"""Title and sections become one file."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, StrictUndefined, Template

from keytokens.pages.escape import Markup, inline, json_text, resource, source_hash

_PACKAGE = "keytokens.pages"


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it: a `str` is escaped, `Markup` stands as it is."""

    title: str
    body: str | Markup
    id: str = ""

    @property
    def anchor(self) -> str:
        """The section's address inside the page; made from the title where none is given."""
        words = "".join(c if c.isalnum() else " " for c in self.title.lower()).split()
        return self.id or "-".join(words) or "section"


def environment() -> Environment:
    """Autoescape always, and a misspelt name is an error, not an empty string."""
    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def _template() -> Template:
    return environment().from_string(resource(_PACKAGE, "page.html.j2"))


def render(
    title: str,
    sections: Iterable[Section],
    *,
    lead: str | Markup = "",
    data: object = None,
    script: str = "",
    style: str = "",
    footer: str | Markup = "",
    language: str = "en",
) -> str:
    """One HTML file that stands alone. The script finds `data` as JSON in the element #data.

    Sections with equal titles get numbered addresses. A `style` attribute has no effect under
    the page's policy: use classes, or set properties from the script.
    """
    full_script = inline("script", "\n".join((resource(_PACKAGE, "page.js"), script)))
    full_style = inline("style", "\n".join((resource(_PACKAGE, "page.css"), style)))
    return _template().render(
        title=title,
        sections=list(_numbered(sections)),
        lead=lead,
        data=None if data is None else json_text(data),
        script=full_script,
        style=full_style,
        policy=_policy(full_script, full_style),
        footer=footer,
        language=language,
    )


def _policy(script: str, style: str) -> str:
    """Nothing but our own script, our own style and images that are inside the file."""
    return (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _numbered(sections: Iterable[Section]) -> Iterable[Section]:
    """The sections, each with an address of its own."""
    seen: set[str] = set()
    for section in sections:
        anchor, number = section.anchor, 2
        while anchor in seen:
            anchor, number = f"{section.anchor}-{number}", number + 1
        seen.add(anchor)
        yield Section(section.title, section.body, anchor)
