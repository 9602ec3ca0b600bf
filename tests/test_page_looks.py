"""The pages as people meet them: any theme, any width, on paper, by keys, in any script."""

import pytest
from browsing import Open, wait
from explaining import TEXTS, model

from keytokens.explain import explain
from keytokens.explain.html import page as static_page
from keytokens.explain.model_page import build_page


def test_a_printed_text_is_marked_to_its_end(opened: Open) -> None:
    page = opened(build_page(model()))
    page.evaluate("text => trial.load(text)", "good bad film\n" * 2000)
    waiting = "document.querySelectorAll('#marked .passage:not(:has(mark, span))').length"
    assert page.evaluate(waiting) > 0
    page.pdf()
    assert page.evaluate(waiting) == 0


def test_right_to_left_text_runs_from_the_right(opened: Open) -> None:
    page = opened(build_page(model()))
    where = """() => { const mark = document.querySelector("#marked :is(mark, span)");
        const box = document.getElementById("marked").getBoundingClientRect();
        return mark.getBoundingClientRect().left - (box.left + box.width / 2); }"""
    for text, right in (("שלום good", True), ("good שלום", False)):
        page.locator("#text").fill(text)
        wait(page, "#marked", to_have_text=text)
        assert (page.evaluate(where) > 0) == right


def test_everything_can_be_reached_by_keys(opened: Open) -> None:
    page = opened(build_page(model(outputs=3), TEXTS, list("abcabca")))
    for _ in range(200):
        page.keyboard.press("Tab")
        page.evaluate("document.activeElement.dataset.tabbed = 1")
    missed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, a, .marked')]
        .filter(e => e.checkVisibility() && !e.disabled && !e.dataset.tabbed)
        .map(e => e.outerHTML)"""
    )
    assert missed == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1200])
def test_no_sideways_scrolling_and_every_control_has_a_name(
    opened: Open, scheme: str, width: int
) -> None:
    how = dict(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = opened(build_page(model(outputs=7), TEXTS, list("abcdefg")), **how)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea')]
        .filter(e => !(e.labels && e.labels.length) && !e.textContent.trim()
                     && !e.getAttribute('aria-label')).map(e => e.outerHTML)"""
    )
    assert nameless == []


NAMES = """() => ({
  unsaid: [...document.querySelectorAll("button[aria-label]")]
    .filter(e => !e.ariaLabel.includes(e.textContent.trim())).map(e => e.outerHTML),
  headings: [...document.querySelectorAll(":is(h1, h2, h3)[role]")].map(e => e.outerHTML),
  landmarks: [...document.querySelectorAll("[role=region], section, nav")]
    .map(e => e.ariaLabel || e.ariaLabelledByElements[0].textContent),
})"""


def test_a_screen_reader_says_what_is_seen(opened: Open) -> None:
    """A control's name holds its words, a heading stays one, no two landmarks have one name."""
    fitted, labels = model(), ["pos", "neg"] * 3 + ["pos"]
    for html in (build_page(fitted, TEXTS, labels), static_page(list(explain(fitted, TEXTS)))):
        found = opened(html).evaluate(NAMES)
        assert found["unsaid"] == found["headings"] == []
        assert len(set(found["landmarks"])) == len(found["landmarks"]) > 3


CONTRASTS = """() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => {
    const a = top[3] === undefined ? 1 : top[3];
    return [0, 1, 2].map(i => a * top[i] + (1 - a) * under[i]);
  };
  const ground = e => {
    const own = parts(getComputedStyle(e).backgroundColor);
    return over(own, e.parentElement ? ground(e.parentElement) : [255, 255, 255]);
  };
  const light = c => c.slice(0, 3).map(x => x / 255)
    .map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility()) continue;
    if (e.closest(":disabled, option")) continue;
    const under = ground(e), ink = over(parts(getComputedStyle(e).color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), e.outerHTML.slice(0, 80)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(opened: Open, scheme: str) -> None:
    fitted, labels = model(), ["pos", "neg"] * 3 + ["pos"]
    for html in (build_page(fitted, TEXTS, labels), static_page(list(explain(fitted, TEXTS)))):
        page = opened(html, color_scheme=scheme)
        for button in page.locator("#vocabulary-rows button").all()[:1]:
            button.click()
        found = page.evaluate(CONTRASTS)
        assert len(found) > 100
        assert found[0][0] >= 4.5, found[:5]


def test_the_places_of_a_token_come_into_view(opened: Open) -> None:
    for width in (380, 1280):
        page = opened(build_page(model(), TEXTS), viewport={"width": width, "height": 600})
        page.locator("#vocabulary-rows button").first.click()
        page.wait_for_function(
            """() => { const { top } = byId("contexts-title").getBoundingClientRect();
            return top >= 0 && top < 600; }"""
        )


def test_the_theme_can_be_chosen(opened: Open) -> None:
    page = opened(build_page(model()), color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    for _ in range(2):
        page.locator("#theme").click()
    assert page.evaluate(ground) != light


def test_print_keeps_the_marks_and_drops_the_controls(opened: Open) -> None:
    page = opened(build_page(model(), TEXTS, ["pos", "neg"] * 3 + ["pos"]))
    page.emulate_media(media="print")
    assert not page.locator("#save").is_visible()
    assert page.locator("#marked mark").first.is_visible()
    assert not page.locator("#contexts-title").is_visible()
    assert page.locator("#documents button").count() == len(TEXTS)
    for part in ("#documents button", "#confusion button"):
        assert page.locator(part).first.is_visible()
