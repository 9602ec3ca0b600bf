"""What a word character is: one table, for the compiled scanner, Python's `re` and the page.

A word character is a letter, a mark, a number or the underscore: [\\p{L}\\p{M}\\p{N}_]. Languages
disagree about these classes and each of their releases follows another Unicode version, so the
class is frozen here, from Unicode 14: a model cuts a text the same way under every Python and in
every browser. Characters newer than that separate words.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

UNICODE = "14.0.0"
SEPARATOR, WORD, MARK, APOSTROPHE, BREAK = range(5)  # a break may begin at "<"
MARKS = "!?,.;"
APOSTROPHES = "'\u2019"

# Where the class switches on, off, on, ...: distances in base 36 from one switch to the next.
_SWITCHES = """
1c a 7 q 4 1 1 q 1b 1 7 2 1 1 3 2 1 3 1 n 1 v 1 cq 4 c e 5 7 1 1 1 h 39 1 2 2 4 1 1 6 1 1 3 1 1 1
k 1 2b 1 3v 1 4t 1 12 2 1 6 15 8 19 1 1 1 2 1 2 1 1 8 r 4 4 t b 5 22 4 2u 1 8 2 a 1 j 2 1 g 1n 2
2t e 1i 4 1 2 1 2 1a i s 4 b 5 o 1 6 9 22 1 3l 2 a 1 j 1 8 2 2 2 m 1 7 1 1 3 4 2 9 2 2 2 4 8 1 4 2
1 5 2 c 2 6 2 1 1 1 2 3 1 6 4 2 2 m 1 7 1 2 1 2 1 2 2 1 1 5 4 2 2 3 3 1 7 4 1 1 7 g b 3 1 9 1 3 1
m 1 7 1 2 1 5 2 a 1 3 1 3 2 1 f 4 2 a 9 7 1 3 1 8 2 2 2 m 1 7 1 2 1 5 2 9 2 2 2 3 7 3 4 2 1 5 2 a
1 7 a 2 1 6 3 3 1 4 3 2 1 1 1 2 3 2 3 3 3 c 4 5 3 3 1 4 2 1 6 1 e d d d 1 3 1 n 1 g 2 9 1 3 1 4 7
2 1 3 2 1 2 4 2 a 8 7 1 4 1 8 1 3 1 n 1 a 1 5 2 9 1 3 1 4 7 2 6 2 1 4 2 a 1 2 d d 1 3 1 1f 1 3 1 5
5 g 2 j 1 6 1 3 1 i 3 o 1 9 1 1 2 7 3 1 4 6 1 1 1 8 6 a 2 2 d 1m 5 f 1 a 13 2 1 1 1 5 1 o 1 1 1 n
2 5 1 1 1 6 2 a 2 4 w 1 n 2 6 k 1 1 1 1 1 1 4 a 1 10 4 k 1 i 1 10 9 1 1l 22 6 26 2 12 1 1 5 1 2 17
1 99 1 4 2 7 1 1 1 4 2 15 1 4 2 x 1 4 2 7 1 1 1 4 2 f 1 1l 1 4 2 1v 2 3 9 k 3 g g 2e 2 6 3 h8 2 h
1 q 5 23 3 b 7 m 9 m b k c d 1 3 1 2 c 2c 3 1 4 2 2 a 6 a h 3 1 b 6 2h 7 17 5 1y a v 1 c 4 c a 14
2 5 b 18 4 q 6 b 11 s 4 1r 1 t 2 b 6 a d 1 8 v 1d 25 3 a h 9 c 38 c 1k 8 a 3 1d 2 9 7 17 2 3 g 3 1
13 5 eu 2 6 2 12 2 6 2 8 1 1 1 1 1 1 1 v 2 1h 1 7 1 1 3 3 1 7 3 4 2 6 4 d 5 3 1 7 37 2 2 6 5 b 6 d
1f x h 1 4 1 2 a 1 1 3 5 6 1 1 1 1 1 1 4 1 b 2 4 5 5 4 1 1 1m k6 1o 26 m hi u vg 6d 6 9 9 1 2 12 1
1 5 1 2 1k 7 1 f o 9 7 1 7 1 7 1 7 1 7 1 7 1 7 1 7 1 w 1b 1 d1 3 p f 1 5 2 5 4 2e 2 2 2 3 1 2i 1 4
5 17 1 2m 3 4 a w 1c g w a u 8 1 f w a 13 f 8w 534 1s h3h 1v 1a 2 7h 3 s k 1f 1 a 1 37 11 9 2 2v 2
1s 5 2 1 1 1 5 o 1i 4 1 3 6 a 1g c 1y a a 6 o 3 1 1 1d 2 10 c t 3 1t e b 6 v 1 1j 9 e 2 a 6 n 3 21
o 3 2 g 2 5 a 6 2 6 2 6 9 7 1 7 1 17 1 e 6 3f 1 2 2 a 6 8mc c n 4 1d 6is a6 2 2y 12 7 c 5 5 c 1 d
1 5 1 1 1 2 1 2 1 30 x a3 i 1s 2 1i 14 c 4 g g g 1s 5 1 3r j a 7 q 6 q b 2h 3 6 2 6 2 6 2 3 z c 1
q 1 j 1 2 1 f 2 e y 3f c 19 c 1l h 2 35 1 3m t 3 1d f s 4 10 9 u 5 17 5 u 2 10 4 8 1 5 16 4e 2 a 6
10 4 10 4 14 8 1g c b 1 f 1 7 1 2 1 b 1 f 1 7 1 2 1v 8n 9 m a 8 o 6 1 16 1 9 1x 6 2 1 1 18 1 2 3 1
2 n 2 v 2 12 8 9 1c j 1 2 5 x 4 q 1y 1k 4 k 2 1e 1 2 5 8 1 3 1 t 2 3 4 a n v 1 w w 8 1 u 4 5 g 1i
a m 2 r 5 q n 7 28 21 1j 1f d 1f 7 1a 8 a 86 v 1 16 1 2 3 2 26 14 8 11 r m 16 s k n 9 1z b 10 9 1o
7 1 d p 7 a 6 1h 1 a 4 4 8 10 2 1 9 1x 4 4 1 d 1 1 4 k b i 1 11 6 1 1t 7 1 1 1 4 1 f 1 a 7 1n 5 a
6 4 1 8 2 2 2 m 1 7 1 2 1 5 1 a 2 2 2 3 2 1 6 1 5 7 2 7 3 5 3v 23 5 a 4 4 u 1y 1 1 8 a 4m 1i 2 9 n
6 y 1t 3 1 b a 12 1l 7 a 1i r 2 f 4 c 4 7 55 1n 2t 2b c 8 2 1 2 8 1 2 1 u 1 2 2 9 c a 1y 8 2 1a 2
8 1 2 r 1r 8 1 8 22 3 1 i 21 7b 9 1 19 1 9 f t 5 u 2 m 1 e 21 7 1 2 1 18 3 1 1 2 1 9 8 a 6 6 1 2 1
11 1 2 1 6 7 a 8m n 55 1 f l 17 pm 2u 33 h 5g 218 2p f tr 34h g7 6nt ft 7 v 1 a 6 27 1 a 6 u 2 5 b
1j 9 4 c a 1 7 1 l 5 j j4 2f 2x 23 4 1l 7 h 1s 2 1 2 b 2 e 4qg 8 ye 16 9 6w7 4 1 7 1 2 1 83 19 3 h
4 8 b0 1s4 2z 5 d 3 9 7 a 3 2 3mp 1a 2 n f2 5 3 6 8 8 2 7 u 4 44 3 4b k 30 p 3r 2d 1 1z 1 2 2 1 2
2 2 4 1 c 1 1 1 7 1 1t 1 4 2 8 1 7 1 s 1 4 1 5 1 1 3 7 1 9g 2 p 1 p 1 v 1 p 1 v 1 p 1 v 1 p 1 v 1
p 1 8 2 1e e8 1j 4 1e 8 1 e 1 m 5 1 f uo v 69 7 1 h 2 7 1 2 1 5 5x 19 3 e 2 a 4 1 8x v h 1m yu 7 1
4 1 2 1 f 1 5h 2 g 15 24 4 a lz 1n 1 3 1 4 24 19 1 f 5e 4 1 r 1 2 1 1 2 1 1 a 1 4 1 1 1 1 6 1 4 1
1 1 1 1 1 3 1 2 1 1 2 1 1 1 1 1 1 1 1 1 1 2 1 1 2 4 1 7 1 4 1 4 1 1 1 a 1 h 5 3 1 5 1 h g4 d 25f a
sm wyo w 37d 7 66 2 4g2 e 5rl 2e7 f2 15u 3t7 fcmt 6o
"""


def switches_of_this_python() -> str:
    """The table as the running Python's Unicode version draws it; ours is UNICODE's."""
    word = [unicodedata.category(chr(c))[0] in "LMN" or c == 95 for c in range(0x110000)]
    edges = np.flatnonzero(np.diff(np.array([False, *word, False])))
    return " ".join(np.base_repr(step, 36).lower() for step in np.diff(edges, prepend=0))


@cache
def word_ranges() -> NDArray[np.int64]:
    """First and last code point of every run of word characters. (R, 2)"""
    edges = np.cumsum([int(step, 36) for step in _SWITCHES.split()]).reshape(-1, 2)
    return edges - [0, 1]


@cache
def class_table() -> NDArray[np.uint8]:
    """The class of every code point. (0x110000,)"""
    table = np.full(0x110000, SEPARATOR, np.uint8)
    for first, last in word_ranges():
        table[first : last + 1] = WORD
    for characters, kind in ((MARKS, MARK), (APOSTROPHES, APOSTROPHE), ("<", BREAK)):
        table[[ord(c) for c in characters]] = kind
    return table


def word_class(escape: str) -> str:
    """The word characters inside a regular expression's brackets; `escape` writes a code point."""
    return "".join(f"{escape % first}-{escape % last}" for first, last in word_ranges())
