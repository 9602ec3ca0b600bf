"""Text becomes HTML, and data becomes script data, without ever becoming code."""

import base64
import hashlib
import json
import re
from importlib.resources import files

from markupsafe import Markup, escape

from keytokens.errors import raise_input

__all__ = ["Markup", "escape", "inline", "json_text", "resource", "source_hash"]

# A JSON string may hold these characters as escapes only, once it lives inside <script>.
_UNSAFE = re.compile("[<>&\u2028\u2029]")
_LONE = re.compile("[\ud800-\udfff]")


def json_text(data: object) -> Markup:
    r"""JSON that cannot leave the <script> element it stands in; still JSON, byte for byte.

    Lone surrogates are written as escapes, since no UTF-8 file can hold them.

    >>> str(json_text("</script><b>"))
    '"\\u003c/script\\u003e\\u003cb\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if _LONE.search(text):
        text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def inline(name: str, source: str) -> Markup:
    """Script or style that stands in the page as it is; it must not be able to end its element."""
    lowered = source.lower()
    if any(end in lowered for end in ("</script", "</style", "<!--")):
        raise_input(name, "hold no closing tag and no HTML comment", "one")
    return Markup(source.replace("\r\n", "\n"))


def source_hash(source: str) -> str:
    """The Content-Security-Policy source that allows exactly this inline text."""
    digest = hashlib.sha256(source.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def resource(package: str, name: str) -> str:
    """A text file that lives inside a package: a script, a style sheet, a template."""
    return (files(package) / name).read_text(encoding="utf-8")
