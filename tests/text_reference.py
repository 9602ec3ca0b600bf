"""Tokens and counts the slow, obvious way: character by character, tuple by tuple."""

import unicodedata
from collections import Counter as Tally

Token = tuple[str, int, int]


def is_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character == "_"


def tokens(text: str, punctuation: bool = True) -> list[Token]:
    """A run of word characters with inner apostrophes, or a mark; breaks are stepped over."""
    found, i = [], 0
    while i < len(text):
        if is_word(text[i]):
            end = word_end(text, i)
            found.append((text[i:end].lower(), i, end))
            i = end
        elif text[i] in "!?,.;" and punctuation:
            found.append((text[i], i, i + 1))
            i += 1
        else:
            i += break_length(text[i:]) if text[i] == "<" else 1
    return found


def word_end(text: str, i: int) -> int:
    while i < len(text):
        joined = text[i] in "'’" and i + 1 < len(text) and is_word(text[i + 1])
        if not (is_word(text[i]) or joined):
            break
        i += 1
    return i


def break_length(rest: str) -> int:
    """The length of a <br>, <br/> or <br /> that `rest` begins with, or 1."""
    if rest[:3].lower() != "<br" or not rest[1:3].isascii():
        return 1
    tail = rest[3:].lstrip(" \t\r\n").removeprefix("/")
    return len(rest) - len(tail) + 1 if tail.startswith(">") else 1


def grams(words: list[str], low: int, high: int) -> list[tuple[str, ...]]:
    return [
        tuple(words[i : i + k]) for k in range(low, high + 1) for i in range(len(words) - k + 1)
    ]


def vocabulary(
    bags: list[list[tuple[str, ...]]], min_count: int, most: int | None
) -> list[tuple[str, ...]]:
    texts = Tally(gram for bag in bags for gram in set(bag))
    kept = [gram for gram, count in texts.items() if count >= min_count]
    return sorted(kept, key=lambda gram: (-texts[gram], len(gram), gram))[:most]


def counts(
    bags: list[list[tuple[str, ...]]], columns: list[tuple[str, ...]], binary: bool
) -> list[list[float]]:
    tallies = [Tally(bag) for bag in bags]
    return [[float(min(t[c], 1) if binary else t[c]) for c in columns] for t in tallies]
