"""A page stands alone: escaped, its policy allows its own code only, the same bytes again."""

import base64
import hashlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keytokens.errors import InputError
from keytokens.pages import Markup, Section, facts, figure, fragment, json_text, render, table

NASTY = "</script><img src=x onerror=alert(1)>'\"&<!--"


def test_escaping_by_hand() -> None:
    assert json_text("</script>&") == r'"\u003c/script\u003e\u0026"'
    assert table(["a"], [["<b>"]]).count("&lt;b&gt;") == 1
    assert '<td class="number">0.5</td>' in table(["a"], [[0.5]])
    assert '<td class="number" data-key="0.05">5 %</td>' in table(["a"], [[("5 %", 0.05)]])


@given(st.recursive(st.text() | st.integers() | st.none(), lambda s: st.lists(s), max_leaves=5))
def test_script_data_is_the_same_json_and_never_a_tag(data: object) -> None:
    written = json_text(data)
    assert json.loads(written) == data
    assert not set("<>&\u2028\u2029") & set(written)
    assert written.encode("utf-8")


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    cell = fragment("<p>{{ text }}</p>", text=text)
    assert cell.count("<") == 2
    assert Markup(cell).unescape() == f"<p>{text}</p>"


def test_nasty_text_everywhere_stays_text() -> None:
    sections = [Section(NASTY, NASTY), Section("t", table([NASTY], [[NASTY]], NASTY))]
    sections.append(Section("f", facts([(NASTY, NASTY)]) + figure("<svg/>", NASTY)))
    page = render(NASTY, sections, lead=NASTY, data=[NASTY], footer=NASTY)
    assert "<img src=x" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert json.loads(re.findall(r'id="data">(.*?)</script>', page, re.S)[0]) == [NASTY]


def test_the_policy_allows_exactly_what_is_in_the_page() -> None:
    page = render("t", [Section("s", "b")], script="let a = 1 < 2;", style="p > b { color: red }")
    policy = re.findall(r'Security-Policy" content="(.*?)"', page)[0].replace("&#39;", "'")
    for tag in ("script", "style"):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_no_network_and_the_same_bytes() -> None:
    first, second = (render("t", [Section("s", "b")], data={"b": 1, "a": 2}) for _ in range(2))
    assert first == second
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", first)
    assert "http://" not in first
    assert "https://" not in first


def test_equal_titles_get_addresses_of_their_own() -> None:
    page = render("t", [Section("Same one", "a"), Section("Same one", "b")])
    assert 'id="same-one"' in page
    assert 'id="same-one-2"' in page


@pytest.mark.parametrize("bad", ["x = '</SCRIPT>'", "// <!-- "])
def test_script_that_could_end_its_element_is_refused(bad: str) -> None:
    with pytest.raises(InputError, match="script must hold no closing tag"):
        render("t", [], script=bad)
