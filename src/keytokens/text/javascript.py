"""The tokeniser for a browser, written from the tables and the expression that Python uses.

`JAVASCRIPT` defines `tokenize(text, punctuation = true)`, which returns a list of {text, start,
end} with places in code points, as `Tokenizer.tokens` does, and the same places as a browser
slices (`from`, `until`). A browser's own Unicode version never enters: the word characters stand in
the expression, the small letters in a table.
"""

from keytokens.text.characters import word_ranges
from keytokens.text.tokenizer import expression

_TEMPLATE = r"""
const tokenize = (() => {
  const expression = /EXPRESSION/gu;
  const small = new Map("SMALL".split(" ").map((pair) => {
    const [capital, ...rest] = pair;
    return [capital, rest.join("")];
  }));
  // A capital sigma is written otherwise at a word's end; the engine knows what ends a word.
  const sigma = (token, at) => {
    const [before, after] = [token.slice(0, at), token.slice(at + 1)].map(
      (part) => part.replaceAll("\u03a3", "\u03c3"));
    return (before + "\u03a3" + after).toLowerCase()[before.toLowerCase().length];
  };
  const lower = (token) => {
    let result = "", at = 0;
    for (const character of token) {
      result += character === "\u03a3" ? sigma(token, at) : small.get(character) ?? character;
      at += character.length;
    }
    return result;
  };
  const points = (text) => {
    let count = 0;
    for (const _ of text) count += 1;
    return count;
  };
  return (text, punctuation = true) => {
    const found = [];
    let start = 0, seen = 0;
    for (const match of text.matchAll(expression)) {
      start += points(text.slice(seen, match.index));
      const end = start + points(match[0]);
      if (match[1] !== undefined || (punctuation && match[2] !== undefined)) {
        const until = match.index + match[0].length;
        found.push({ text: lower(match[0]), start, end, from: match.index, until });
      }
      start = end;
      seen = match.index + match[0].length;
    }
    return found;
  };
})();
"""


def _small_letters() -> str:
    """Every word character but sigma that str.lower changes, before what it becomes."""
    points = (point for first, last in word_ranges() for point in range(first, last + 1))
    pairs = ((chr(point), chr(point).lower()) for point in points if point != 0x3A3)
    return " ".join(a + b for a, b in pairs if a != b)


def _javascript() -> str:
    code = _TEMPLATE.lstrip().replace("EXPRESSION", expression(r"\u{%x}").replace("/", r"\/"))
    return code.replace("SMALL", _small_letters())


JAVASCRIPT = _javascript()
