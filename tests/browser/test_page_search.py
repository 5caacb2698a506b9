"""The page's search in a real browser: what is typed, what is found, and where it leads."""

from __future__ import annotations

import itertools
import json
import re

import pytest

from .test_page_in_chromium import (  # noqa: F401
    CHROMIUM,
    Opened,
    address,
    browser,
    opened,
    path,
    pytestmark,
    tables_of,
)  # fmt: skip

MOST = 13
"""Results that are shown at once, and the filter of the tables."""
SLOWEST_MS = 1500
"""Of one search in all numbers, on a busy machine: people wait a tenth of it on an idle one."""


def type_in(tab, words: str) -> list[str]:
    """Type, and wait for what the search says.

    The words come at once: key by key, on a busy machine, the search would answer half a word.
    """
    field = tab.locator("#search")
    field.fill("")
    tab.wait_for_function(
        "document.querySelector('#search').getAttribute('aria-expanded') === 'false'"
        " && document.querySelector('#told').textContent === ''"
    )
    field.fill(words)
    tab.wait_for_function(
        "document.querySelector('#search').getAttribute('aria-expanded') === 'true'"
        " || document.querySelector('#told').textContent !== ''"
    )
    return [
        " ".join(text.split()) for text in tab.locator("#found [role=option]").all_inner_texts()
    ]


def shown_rows(path) -> list[dict]:  # noqa: F811
    """Every row of every table, once."""
    every = itertools.chain(*tables_of(path).values())
    return list({json.dumps(row): row for row in every}.values())


def figure_number(tab, name: str) -> int:
    """The number of a figure, by its caption."""
    caption = tab.locator(f"[data-figure={name}] figcaption b").inner_text()
    return int(re.findall(r"\d+", caption)[0])


def test_a_value_is_found_as_it_is_shown_and_leads_to_its_row(path, opened):  # noqa: F811
    tab = opened.tab
    (row,) = (
        row
        for row in shown_rows(path)
        if (row["model"], row["data_set"], row["condition"])
        == ("decoder", "sample_reviews", "zero")
        and (row["measurement"], row["quantity"]) == ("perplexity", "perplexity")
    )
    found = type_in(tab, row["shown"])
    assert len(found) <= MOST
    assert tab.locator("#found mark").first.inner_text() == row["shown"]
    same = [one for one in found if one.startswith(f"{row['shown']} [{row['shown_low']}")]
    assert same and "decoder · sample reviews" in same[0]
    # With the words of its key there is one.
    found = type_in(tab, f"{row['shown']} decoder.sample_reviews.zero.perplexity.perplexity")
    assert len(found) == 2 and row["shown"] in found[0] and "no positions" in found[0]
    tab.keyboard.press("Enter")
    here = tab.locator("tr.arrived")
    here.wait_for()
    assert here.locator("td").nth(3).inner_text() == row["shown"]
    assert here.get_attribute("data-q") == "perplexity.perplexity"
    assert tab.evaluate("document.activeElement.tagName") == "TR"
    box = here.bounding_box()
    assert 0 < box["y"] < 900
    assert tab.locator("#search[aria-expanded=false]").count() == 1
    tab.wait_for_function("location.hash.includes('at=figure-')")
    tab.wait_for_function("document.querySelectorAll('.arrived').length === 0")


def test_numbers_are_found_in_the_forms_that_people_type(path, opened):  # noqa: F811
    rows = shown_rows(path)
    for form, typed in [
        (r"0\.9\d00", "{0:.2f}"), (r"0\.\d{4}", "{0:.2f}"), (r"0\.\d{4}", "{1:.0f} %"),
        (r"[1-9]\d{3}", "{0:,.0f}"), (r"−0\.\d{3}", "{0:.3f}"),
    ]:  # fmt: skip
        row = next(row for row in rows if re.fullmatch(form, row["shown"]))
        number = float(row["shown"].replace("−", "-"))
        found = type_in(opened.tab, typed.format(number, 100 * number))
        values = [float(re.match(r"[−\d.]+", one)[0].replace("−", "-")) for one in found[:-1]]
        about = pytest.approx(number, abs=0.0051 if "." in form else 0)
        # Further down stand numbers of which an end of the interval is typed.
        is_meant = [value == about for value in values]
        assert is_meant[0] and is_meant == sorted(is_meant, reverse=True), (typed, found)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_figure_is_found_by_its_number_and_no_other_one(browser, path, language):  # noqa: F811
    made = Opened(browser, path.as_uri() + f"#lang={language}")
    number = "図 7." if language == "ja" else "Figure 7."
    for typed in ("Figure 7", "figure 7", "fig. 7", "図7", "図 7", "Ｆｉｇｕｒｅ　７"):
        found = type_in(made.tab, typed)
        assert found[0].startswith(number)
        assert [one for one in found[1:] if re.match(r"(Figure|図) \d", one)] == []
        mark = made.tab.locator("#found mark").first.inner_text()
        assert number.startswith(mark) and mark.endswith("7")
    made.tab.locator("#found [role=option]").first.click()
    arrived = made.tab.locator("figure.arrived")
    arrived.wait_for()
    assert arrived.locator("figcaption b").inner_text() == number
    assert abs(arrived.bounding_box()["y"]) < 150
    assert f"at={arrived.get_attribute('id')}" in address(made.tab)
    assert made.said == []
    made.context.close()


def test_a_word_of_a_caption_finds_its_figure(opened):  # noqa: F811
    found = type_in(opened.tab, "PARAPHRASE names exchanged")
    number = figure_number(opened.tab, "exchanged_roles")
    assert found[0].startswith(f"Figure {number}.")
    marks = opened.tab.locator("#found [role=option]").first.locator("mark").all_inner_texts()
    assert {one.lower() for one in marks} <= {"paraphrase", "names", "exchanged"} and marks


@pytest.mark.parametrize("language", ["en", "ja"])
def test_japanese_words_are_found_in_both_languages(browser, path, language):  # noqa: F811
    """Words of the page, and of a caption."""
    made = Opened(browser, path.as_uri() + f"#lang={language}")
    tab = made.tab
    number = figure_number(tab, "exchanged_roles")
    found = type_in(tab, "言い換え")
    assert found[0].startswith((f"Figure {number}.", f"図 {number}.")) and "言い換え" in found[0]
    assert tab.locator("#found mark").first.inner_text() == "言い換え"
    found = type_in(tab, "線形 CKA")
    assert any(("線形 CKA" if language == "ja" else "linear CKA") in hit for hit in found)
    found = type_in(tab, "並べて")
    title = "並べて比べる" if language == "ja" else "Side by side"
    assert found[0].startswith(title) and "並べて比べる" in found[0]
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "compare"
    assert made.said == []
    made.context.close()


def test_the_list_is_used_by_keys_alone(opened):  # noqa: F811
    tab, field = opened.tab, opened.tab.locator("#search")
    field.focus()
    type_in(tab, "perplexity")
    options = tab.locator("#found [role=option]")
    count = options.count()

    def selected() -> int:
        (index,) = options.evaluate_all(
            "all => all.flatMap((one, at) => one.matches('[aria-selected=true]') ? [at] : [])"
        )
        assert field.get_attribute("aria-activedescendant") == options.nth(index).get_attribute(
            "id"
        )
        assert tab.evaluate("document.activeElement.id") == "search"
        return index

    assert 3 < count <= MOST and selected() == 0
    tab.keyboard.press("ArrowDown")
    assert selected() == 1
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("ArrowUp")
    assert selected() == count - 1
    tab.keyboard.press("ArrowDown")
    assert selected() == 0
    tab.keyboard.press("Escape")
    assert tab.locator("#found").is_hidden() and field.input_value() == "perplexity"
    assert field.get_attribute("aria-activedescendant") is None
    tab.keyboard.press("ArrowDown")
    assert tab.locator("#found").is_visible() and selected() == 0
    # The page stays as it is while somebody types; the last result filters the tables.
    assert "search" not in address(tab)
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    tab.wait_for_function("location.hash.includes('search=perplexity')")
    left = opened.visible()
    field.fill("figure 2")
    tab.wait_for_function("!location.hash.includes('search')")
    assert opened.visible() > left > 0


def test_what_filters_hide_is_shown_when_a_search_leads_there(opened):  # noqa: F811
    tab = opened.tab
    tab.locator(".filter[data-filter=models] summary").click()
    tab.locator(".filter[data-filter=models] input[value=decoder]").check()
    assert tab.locator("#figure-mask-semantics").is_hidden()
    number = tab.locator("#figure-mask-semantics b").text_content()
    type_in(tab, number)
    tab.keyboard.press("Enter")
    tab.locator("#figure-mask-semantics").wait_for()  # the form is reset first
    assert tab.locator(".filter input:checked").count() == 0


def test_nothing_found_says_what_can_be_searched(opened):  # noqa: F811
    assert type_in(opened.tab, "no such words") == []
    assert (
        opened.tab.locator("#told").inner_text().startswith("Nothing found. What can be searched")
    )
    assert opened.tab.locator("#search").get_attribute("aria-expanded") == "false"
    opened.tab.get_by_role("button", name="日本語").click()
    type_in(opened.tab, "figure 999")
    assert opened.tab.locator("#told").inner_text().startswith("該当なし。")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_accessible_and_fits(browser, path, scheme, width):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    made = Opened(
        browser, path.as_uri(), viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    tab = made.tab
    inner = tab.locator("#search").evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert inner[0] <= inner[1], "the placeholder is cut"
    found = type_in(tab, "perplexity")
    assert len(found) > 5
    panel = tab.locator(".panel").bounding_box()
    assert panel["x"] >= 0 and panel["x"] + panel["width"] <= width
    assert tab.locator("#told").inner_text().startswith("and ")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    result = Axe().run(
        tab, context="#filters",
        options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]},
    )  # fmt: skip
    problems = [
        (one["id"], [node["target"] for node in one["nodes"][:3]])
        for one in result.response["violations"]
    ]
    made.context.close()
    assert problems == []


def test_a_search_in_all_numbers_is_quick(opened):  # noqa: F811
    type_in(opened.tab, "cosine")
    took = opened.tab.evaluate(
        "words => words.map(word => { const field = document.querySelector('#search');"
        " field.value = word; field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}));"
        " const before = performance.now();"
        " field.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}));"
        " return performance.now() - before })",
        ["perplexity", "0.97", "Figure 7"],
    )
    print(f"searches in {opened.visible()} numbers took {[round(one) for one in took]} ms")
    assert max(took) < SLOWEST_MS
