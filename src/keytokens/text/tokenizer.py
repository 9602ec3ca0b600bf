"""Words and punctuation marks with their places, defined once for Python and JavaScript.

A token is a run of word characters, with apostrophes (' or ’) kept inside it, or one of the marks
! ? , . ; on its own. It is cut out of the original text and then lower-cased by itself, so its
place in the text is exact. HTML line breaks (<br>, <br />) separate and are dropped. Scripts
written without spaces (Chinese, Japanese, Thai) are not segmented: a run of letters is one token.
"""

import re
from dataclasses import dataclass
from functools import cache

from keytokens.text.characters import APOSTROPHES, MARKS, word_class

Token = tuple[str, int, int]
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

    def tokens(self, text: str) -> list[Token]:
        """Each token's lower-cased text, start and end (code points of the original text)."""
        groups = (1, 2) if self.punctuation else (1,)
        found = _compiled().finditer(text)
        return [(m[0].lower(), *m.span()) for m in found if m.lastindex in groups]

    def __call__(self, text: str) -> list[str]:
        return [token for token, _, _ in self.tokens(text)]


def expression(escape: str) -> str:
    """Group 1 is a word, group 2 a mark; a match without a group is a line break."""
    word = f"[{word_class(escape)}]+"
    return f"{_BREAK}|({word}(?:[{APOSTROPHES}]{word})*)|([{MARKS}])"


@cache
def _compiled() -> re.Pattern[str]:
    return re.compile(expression("\\U%08x"))
