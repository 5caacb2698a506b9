"""A page on a telephone: nothing is cut, figures are enlarged by a tap or by keyboard."""

from __future__ import annotations

import json

import pytest

from .test_page_in_chromium import PLATE, SCALE, Opened, browser, path, pytestmark  # noqa: F401

TELEPHONE = {"viewport": {"width": 390, "height": 800}, "has_touch": True}
FIGURE = "#figure-perplexity"
CUT = """
parts => parts.filter(part => part.offsetWidth && part.scrollWidth > part.clientWidth)
  .map(part => part.closest('[id]').id)
"""


@pytest.fixture
def telephone(browser, path):  # noqa: F811
    """The page, with all that is drawn late; it must say nothing."""
    made = Opened(browser, path.as_uri(), **TELEPHONE)
    for part, drawn in (("#compare", "#compared tbody tr"), ("#heads", "#offsets tbody tr")):
        made.tab.locator(part).scroll_into_view_if_needed()
        made.tab.wait_for_selector(drawn)
    made.tab.wait_for_function(
        "document.querySelectorAll('.plate svg').length"
        " === document.querySelectorAll('.plate').length"
    )
    yield made
    made.context.close()
    assert made.said == []


def width_of(tab, selector: str) -> float:
    return tab.locator(selector).bounding_box()["width"]


def test_figures_are_seen_as_a_whole(telephone):
    plates = telephone.tab.locator(".plate, .drawing")
    assert plates.count() > 20
    assert plates.evaluate_all(CUT) == []
    drawn = telephone.tab.locator(".plate svg").evaluate_all(
        "all => all.map(one => [one.getBoundingClientRect(), one.closest('.plate')"
        ".getBoundingClientRect()].map(box => [box.left, box.right]))"
    )
    assert all(plate[0] <= one[0] < one[1] <= plate[1] <= 390 for one, plate in drawn)


def test_a_table_that_is_wider_than_its_frame_says_so(telephone):
    tab = telephone.tab
    tab.evaluate(f"document.querySelector('{FIGURE} ~ .numbers').open = true")
    frame = tab.locator(f"{FIGURE} ~ .numbers .scroll")
    tab.wait_for_function(
        f"document.querySelector('{FIGURE} ~ .numbers .scroll').dataset.hint !== undefined"
    )
    shown = (
        "frame => [getComputedStyle(frame, '::before').content,"
        " getComputedStyle(frame, '::before').position]"
    )
    assert frame.evaluate(shown) == ['"The table is wider: move it sideways →"', "sticky"]
    # Every frame, and its caption is within it.
    for one in tab.locator(".scroll:visible").all():
        wide, hint, caption, width = one.evaluate(
            "frame => [frame.scrollWidth > frame.clientWidth, frame.dataset.hint !== undefined,"
            " frame.querySelector('caption').offsetWidth, frame.clientWidth]"
        )
        assert wide == hint and caption <= width
    for name in ("#compared", "#offsets"):
        assert not tab.locator(name).evaluate("table => table.parentElement.dataset.hint")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("button", name="日本語").click()
    assert "横に" in frame.evaluate(shown)[0]
    tab.set_viewport_size({"width": 1280, "height": 800})
    tab.wait_for_function("document.querySelector('#published .scroll').dataset.hint === undefined")


def test_a_tap_enlarges_a_figure_and_a_tap_on_a_point_says_its_value(telephone):
    tab = telephone.tab
    tab.locator(PLATE).scroll_into_view_if_needed()
    small = width_of(tab, f"{PLATE} svg")
    height = tab.evaluate("document.documentElement.scrollHeight")
    tab.locator(PLATE).tap()
    dialog = tab.locator("#large")
    dialog.wait_for()
    assert "Figure" in dialog.locator(".hint").inner_text()
    svg = dialog.locator(".plate svg")
    assert svg.bounding_box()["width"] > 1.5 * small
    assert tab.evaluate("document.documentElement.scrollHeight") == height
    x, y, value = json.loads(dialog.locator("metadata").text_content())["series"][0][2][0][:3]
    scale = tab.evaluate(SCALE.replace(PLATE, "#large .plate"))
    dialog.locator(".room").evaluate(
        "(room, [x, y]) => room.scrollTo(x - 150, y - 150)", [scale * x / 10, scale * y / 10]
    )
    box = svg.bounding_box()
    tab.touchscreen.tap(box["x"] + scale * x / 10, box["y"] + scale * y / 10)
    tip = tab.locator("#tip")
    tip.wait_for()
    assert f"{value} [" in tip.inner_text()
    within = tip.bounding_box()
    assert within["x"] >= 0 and within["x"] + within["width"] <= 390
    dialog.get_by_role("button", name="Close").tap()
    dialog.wait_for(state="hidden")
    assert tip.is_hidden()
    assert width_of(tab, f"{PLATE} svg") == small
    assert tab.evaluate("document.documentElement.scrollHeight") == height


@pytest.mark.parametrize("width", [390, 1280])
def test_a_figure_is_enlarged_and_put_back_by_keyboard(browser, path, width):  # noqa: F811
    made = Opened(browser, path.as_uri(), viewport={"width": width, "height": 800})
    tab, dialog = made.tab, made.tab.locator("#large")
    button = tab.locator(f"{FIGURE} .larger")
    for leave in (["Escape"], ["Enter"]):
        button.focus()
        tab.keyboard.press("Enter")
        dialog.wait_for()
        assert dialog.locator(".plate svg").count() == 1
        assert tab.evaluate("document.activeElement.textContent") == "Close"
        # Its values are reached here too, and the rest of the page is not.
        dialog.locator(".plate").focus()
        tab.keyboard.press("ArrowRight")
        assert tab.locator("#tip").is_visible()
        dialog.get_by_role("button", name="Close").focus()
        for key in leave:
            tab.keyboard.press(key)
        dialog.wait_for(state="hidden")
        assert tab.locator("#tip").is_hidden()
        tab.locator(f"{PLATE} svg").wait_for()
        assert tab.evaluate("document.activeElement.className") == "larger"
    made.context.close()
    assert made.said == []


def test_a_click_on_a_wide_screen_enlarges_nothing(browser, path):  # noqa: F811
    made = Opened(browser, path.as_uri(), viewport={"width": 1280, "height": 800})
    made.tab.locator(PLATE).click()
    assert made.tab.locator("#large").is_hidden()
    made.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_an_enlarged_figure_and_wide_tables_are_accessible(browser, path, scheme, width):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    made = Opened(
        browser, path.as_uri(), viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    tab = made.tab
    # Rows of a table are alike.
    tab.evaluate(f"document.querySelector('{FIGURE} ~ .numbers').open = true")
    tab.wait_for_selector(f"{FIGURE} ~ .numbers tbody tr")
    tab.locator("#heads").scroll_into_view_if_needed()
    tab.wait_for_selector("#pattern-masked td[data-at]")
    tab.evaluate(
        "document.querySelectorAll('tbody').forEach("
        "body => [...body.rows].slice(6).forEach(row => row.remove()))"
    )
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
    assert Axe().run(tab, options=rules).response["violations"] == []
    tab.locator(f"{FIGURE} .larger").click()
    tab.locator("#large .plate svg").wait_for()
    assert Axe().run(tab, options=rules).response["violations"] == []
    made.context.close()
