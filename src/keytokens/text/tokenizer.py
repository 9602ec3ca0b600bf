"""Words and punctuation marks with their places, defined once for Python and JavaScript.

A token is a run of word characters, with apostrophes (' or ’) kept inside it, or one of the marks
! ? , . ; on its own. It is cut out of the original text and then lower-cased by itself, so its
place in the text is exact. HTML line breaks (<br>, <br />) separate and are dropped. Scripts
written without spaces (Chinese, Japanese, Thai) are not segmented: a run of letters is one token.
"""

import re
from dataclasses import dataclass
from functools import cached_property

from keytokens.text.characters import MARKS, word_class

_BREAK = r"<[bB][rR][ \t\r\n]*/?>"


@dataclass(frozen=True)
class Tokenizer:
    """Cuts one text into tokens.

    >>> Tokenizer().tokens("It’s GOOD!<br />Ok")
    [('it’s', 0, 4), ('good', 5, 9), ('!', 9, 10), ('ok', 16, 18)]
    >>> Tokenizer(punctuation=False)("It’s GOOD!")
    ['it’s', 'good']
    """

    punctuation: bool = True

    def tokens(self, text: str) -> list[tuple[str, int, int]]:
        """Each token's lower-cased text, start and end (code points of the original text)."""
        found = self._expression.finditer(text)
        return [(m[1].lower(), *m.span(1)) for m in found if m[1] is not None]

    def __call__(self, text: str) -> list[str]:
        return [token for token, _, _ in self.tokens(text)]

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(expression("\\U%08x", self.punctuation))


def expression(escape: str, punctuation: bool) -> str:
    """Group 1 is a token; a match without it is a line break."""
    word = f"[{word_class(escape)}]+"
    marks = f"|[{MARKS}]" if punctuation else ""
    return f"{_BREAK}|({word}(?:['’]{word})*{marks})"
