"""One definition of a token: slow reference, `re`, compiled scanner and JavaScript agree."""

import json
import shutil
import subprocess
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import text_reference
from hypothesis import given, settings
from hypothesis import strategies as st

from keytokens.text import Counter, Tokenizer
from keytokens.text.characters import _SWITCHES, UNICODE, switches_of_this_python, word_ranges
from keytokens.text.javascript import JAVASCRIPT
from keytokens.text.tokenizer import Token

NASTY = [
    "",
    "It's 'quoted' rock'n'roll' ''x'' a'’b a’b’’c '’' d'",
    "<br><BR/><br />x<Br \t\n/>y<br /z><br<br>a<brr>b<br / >c <br",
    "नमस्ते दुनिया, हिन्दी में",
    "e\u0301te\u0301 cafe\u0301 \u0301lone a\u200db",
    "½ ²x x² Ⅷ ① ١٢٣",
    "İstanbul IĞDIR ıI K ſ ẞ Straße STRASSE ǅ ŉ",
    "ΟΔΟΣ ΟΔΟΣ. ΣΑΣ'Σ Σ ΑΣ5Σ ΑΣ\u0301 ΑΣ_Σ ΣΣΣ 5Σ Σ'Σ AΣ’Σ",
    "👩‍👩‍👧 ok👍🏽ok 🇩🇪 x\ufe0fy",
    "𝔘nicode 𐐀𐐨𐐁 𞤀𞤁 𠀀𠀁 \U0010ffff",
    "日本語のテキスト ภาษาไทย 中文",
    "NUL\0in\0side \x85 \u2028 \ufeffbom \ufffd \x7f",
    "a_b __ _ 3.5, 1,000! ?;:…。",
    "Ꭰꭰ Ა ა ᲀ Ⅰ ⓐ Ａａ ﬀ ǆ",
]
text = st.one_of(
    st.text(max_size=40),
    st.text(
        alphabet=st.sampled_from(list("aAé É'’Σσ_<bBrR/> \t.!?,;½İ́👍\0日\U00010400") + ["\ud800"]),
        max_size=30,
    ),
    st.lists(st.sampled_from([*NASTY, "<br />", "<br", "'", "’", "x"]), max_size=5).map("".join),
)
oldest = pytest.mark.skipif(unicodedata.unidata_version != UNICODE, reason="another Unicode")


def test_by_hand() -> None:
    found = Tokenizer().tokens("It’s GOOD!<br />Ok, 'no'")
    assert found == [
        ("it’s", 0, 4), ("good", 5, 9), ("!", 9, 10), ("ok", 16, 18), (",", 18, 19), ("no", 21, 23),
    ]  # fmt: skip
    assert Tokenizer(punctuation=False)("a, b.c") == ["a", "b", "c"]


@oldest
def test_the_table_is_what_this_unicode_version_says() -> None:
    assert _SWITCHES.split() == switches_of_this_python().split()


@oldest
@settings(deadline=None)  # the first call compiles
@given(text, st.booleans())
def test_expression_equals_the_reference(text: str, punctuation: bool) -> None:
    assert Tokenizer(punctuation).tokens(text) == text_reference.tokens(text, punctuation)


def scanned(text: str, punctuation: bool = True) -> list[Token]:
    """The compiled scanner's tokens, from the spans of a counter that knows all of the text's."""
    counter = Counter(min_count=1, tokenizer=Tokenizer(punctuation)).fit(["zzz", text])
    columns, starts, ends = counter.spans(text)
    names = [counter.vocabulary_[k] for k in columns]
    return list(zip(names, starts.tolist(), ends.tolist(), strict=True))


@pytest.mark.parametrize("text", NASTY)
def test_scanner_equals_the_expression_on_nasty_texts(text: str) -> None:
    assert scanned(text) == Tokenizer().tokens(text)


@settings(deadline=None)  # the first call compiles
@given(text, st.booleans())
def test_scanner_equals_the_expression(text: str, punctuation: bool) -> None:
    assert scanned(text, punctuation) == Tokenizer(punctuation).tokens(text)


@settings(deadline=None)  # the first call compiles
@given(text)
def test_spans_slice_the_original_text(text: str) -> None:
    for token, start, end in Tokenizer().tokens(text):
        assert text[start:end].lower() == token


def test_every_character_alone_is_classed_alike() -> None:
    """One text with every code point between two letters: the scanner decodes all of them."""
    every = " ".join(f"a{chr(c)}b" for c in range(1, 0x110000, 7) if chr(c) not in "Σ")
    assert scanned(every) == Tokenizer().tokens(every)


def test_scanner_equals_the_expression_on_real_reviews(shared_data: Path) -> None:
    for name in ("imdb", "yelp"):
        for review in pl.read_parquet(shared_data / f"{name}.parquet")["text"].to_list()[::500]:
            assert scanned(review) == Tokenizer().tokens(review)


def javascript_tokens(texts: list[str], punctuation: bool) -> list[list[Token]]:
    """Node runs what the page will run; texts and tokens travel as ASCII JSON."""
    call = f"JSON.parse(line).map((text) => tokenize(text, {str(punctuation).lower()}))"
    code = f"{JAVASCRIPT}\nconst line = require('fs').readFileSync(0, 'utf8');\n"
    code += f"process.stdout.write(JSON.stringify({call}));"
    done = subprocess.run(
        ["node", "-e", code], input=json.dumps(texts).encode(), capture_output=True, check=True
    )
    return [[(t["text"], t["start"], t["end"]) for t in one] for one in json.loads(done.stdout)]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
@pytest.mark.parametrize("punctuation", [True, False])
def test_javascript_equals_python(punctuation: bool) -> None:
    rng = np.random.default_rng(0)
    pieces = list("".join(NASTY)) + ["Σ", "'", "’", "<br />", " "]
    mixed = ["".join(rng.choice(pieces, 40)) for _ in range(300)]
    edges = [c + d for pair in word_ranges().tolist() for c in pair for d in (-1, 0, 1)]
    capitals = [c for c in range(0x1F000) if chr(c).lower() != chr(c)]
    every = "".join(f"a{chr(c)}b " for c in edges + capitals)
    texts = [*NASTY, *mixed, every, "lone \ud800 and \udc00x"]
    expected = [Tokenizer(punctuation).tokens(text) for text in texts]
    assert javascript_tokens(texts, punctuation) == expected


def test_javascript_fits_into_a_script_element() -> None:
    assert "</" not in JAVASCRIPT
    assert "<!--" not in JAVASCRIPT
