"""The report page in a real browser, from a file: filters, side by side, downloads, keyboard."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from posenc.figures.catalogue import FIGURES
from posenc.report import links
from posenc.report.page_pictures import contrast
from tests.budget import PATIENCE
from tests.unit.test_page import DRAWN, make, write_study
from tests.unit.test_page_tables import unpacked

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
)
# Without the last ones, Chromium calls its maker's hosts at each start.
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
SLOWEST_MS = 5000
MOST_ROWS = 500
"""Of a table that is drawn more than once: 20,000 rows of all tables take a browser a while."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The page of a made-up study."""
    root = tmp_path_factory.mktemp("page")
    written, inputs = write_study(root)
    make(root, written["study"], inputs)
    return root / "data/studies/default/index.html"


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS, timeout=1000 * PATIENCE
        )
        yield chromium
        chromium.close()


def tables_of(path) -> dict[str, list[dict]]:
    """The rows by table that the step wrote, read here."""
    text = path.read_text(encoding="utf-8")
    return unpacked(json.loads(text.split('id="numbers">')[1].split("</script>")[0]))


def context_of(browser, **options):
    """A window of its own, which waits as long as all tests do."""
    context = browser.new_context(**options)
    context.set_default_timeout(1000 * PATIENCE)
    return context


def address(tab) -> str:
    """Where a page stands by its own word: the browser tells its address later."""
    return tab.evaluate("location.href")


class Opened:
    """A page that is open, and what it said and asked for."""

    def __init__(self, browser, url: str, **options) -> None:
        self.context = context_of(browser, **options)
        self.tab = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(url)

    def draw(self, largest: int = 10**9) -> None:
        """Open the tables of at most that many rows, which they get then."""
        self.tab.evaluate(
            "largest => document.querySelectorAll('.numbers').forEach(one => {"
            "if (Number(one.querySelector('.count').dataset.total) <= largest) one.open = true})",
            largest,
        )
        self.tab.wait_for_function(
            "[...document.querySelectorAll('.numbers[open]')].every(one => one.querySelectorAll("
            "'tbody tr').length === Number(one.querySelector('.count').dataset.total))"
        )

    def visible(self) -> int:
        """Rows of all tables that are not hidden, as the page counts them for its readers."""
        counts = self.tab.locator(".numbers .count").all_text_contents()
        return sum(int(count.split()[0]) for count in counts)

    def names(self, column: int) -> set[str]:
        """Names in a column of these rows, in tables that draw quickly."""
        self.draw(MOST_ROWS)
        script = (
            "column => [...document.querySelectorAll('.numbers[open]')].map(one =>"
            " [parseInt(one.querySelector('.count').textContent),"
            " [...one.querySelectorAll('tbody tr:not([hidden])')]"
            ".map(row => row.cells[column].dataset.name)])"
        )
        tables = self.tab.evaluate(script, column)
        assert all(len(names) == count for count, names in tables)
        return {name for _, names in tables for name in names}


@pytest.fixture
def opened(browser, path):
    """The page at 1280 pixels; it must say nothing, and ask for nothing but itself."""
    page = Opened(browser, path.as_uri(), viewport={"width": 1280, "height": 900})
    yield page
    page.context.close()
    assert page.said == []
    assert [url for url in page.requests if not url.startswith(("file://", "data:", "blob:"))] == []


def choose(opened: Opened, filter_: str, name: str) -> None:
    """Tick a name of a filter, as a reader does."""
    panel = opened.tab.locator(f".filter[data-filter={filter_}]")
    if panel.get_attribute("open") is None:
        panel.locator("summary").click()
    panel.locator(f"input[value={name}]").check()


def test_the_page_renders_from_a_file(opened):
    tab = opened.tab
    assert tab.locator("h1").is_visible()
    assert tab.locator("#glance article").count() == 2, "the study measures no third finding"
    took = tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    print(f"load event after {took:.0f} ms")
    assert tab.locator("table.long tbody tr").count() == 0, "tables have rows once they are opened"
    # Figures are drawn when a reader comes near them, and when the browser has time.
    tab.wait_for_function(f"document.querySelectorAll('.plate svg').length === {len(DRAWN)}")
    assert 0 < took < SLOWEST_MS
    moved = tab.evaluate(
        "new Promise(done => new PerformanceObserver(list => done(list.getEntries()"
        ".reduce((sum, entry) => sum + entry.value, 0)))"
        ".observe({type: 'layout-shift', buffered: true}) || setTimeout(() => done(0), 300))"
    )
    assert moved < 0.01


def filter_by(tab, words: str) -> None:
    """Search, and choose the last result: filter the tables by these words."""
    tab.get_by_label("Search figures").fill(words)
    tab.locator("#search[aria-expanded=true]").wait_for()
    tab.keyboard.press("ArrowUp")
    tab.keyboard.press("Enter")
    tab.wait_for_function(
        "words => new URLSearchParams(location.hash.slice(1)).get('search') === words", arg=words
    )


def test_filters_leave_rows_of_what_is_chosen(opened):
    before = opened.visible()
    opened.draw()
    choose(opened, "models", "decoder")
    assert opened.names(0) == {"decoder"}
    choose(opened, "conditions", "zero")
    choose(opened, "conditions", "mean")
    assert opened.names(2) == {"zero", "mean"}
    left = opened.visible()
    assert 0 < left < before
    filter_by(opened.tab, "token cosine")
    assert 0 < opened.visible() < left
    assert re.fullmatch(r"\d+ of \d+ rows", opened.tab.locator("#status").inner_text())
    opened.tab.get_by_role("button", name="Clear").click()
    opened.tab.wait_for_function("!location.hash.includes('models')")
    assert opened.visible() == before


def test_a_view_is_in_its_address(browser, path, opened):
    choose(opened, "models", "decoder")
    choose(opened, "data-sets", "sample_questions")
    filter_by(opened.tab, "perplexity")
    # Contents do not lose it.
    opened.tab.locator("nav a[href='#further']").click()
    opened.tab.wait_for_function("location.hash.includes('at=further')")
    again = Opened(browser, address(opened.tab))
    assert again.visible() == opened.visible()
    assert again.names(0) == {"decoder"} and again.names(1) == {"sample_questions"}
    assert again.tab.get_by_label("Search figures").input_value() == "perplexity"
    assert again.said == []
    again.context.close()


def test_a_wrong_address_shows_the_whole_page(browser, path, opened):
    whole = opened.visible()
    for wrong in ("#models=nothing", "#%", "#compare=a,b,c,d", "#at=nowhere&x=1"):
        other = Opened(browser, path.as_uri() + wrong)
        assert other.visible() == whole
        assert other.said == []
        other.context.close()


def test_two_conditions_stand_side_by_side(path, opened):
    tab = opened.tab
    tab.locator("nav a[href='#compare']").click()
    tab.locator("#compare-model").select_option("decoder")
    tab.locator("#compare-dataset").select_option("sample_reviews")
    tab.locator("#compare-a").select_option("intact")
    tab.locator("#compare-b").select_option("zero")
    row = tab.locator("#compared tr[data-q='perplexity.perplexity']")
    a, b, change = (row.locator("td.n").nth(index).inner_text() for index in range(3))
    raw = {
        row["condition"]: row["value"]
        for row in itertools.chain(*tables_of(path).values())
        if (row["model"], row["data_set"]) == ("decoder", "sample_reviews")
        and (row["measurement"], row["quantity"]) == ("perplexity", "perplexity")
    }
    assert float(a.split(" ")[0]) == pytest.approx(raw["intact"], rel=0.01)
    assert float(b.split(" ")[0]) == pytest.approx(raw["zero"], rel=0.01)
    assert change.startswith("+")
    assert float(change) == pytest.approx(raw["zero"] - raw["intact"], rel=0.01)
    assert "compare=decoder,sample_reviews,intact,zero" in address(tab)


def test_the_largest_differences_stand_first_where_a_reader_wants_that(browser, opened):
    tab = opened.tab
    tab.locator("nav a[href='#compare']").click()
    header, button = tab.locator("#head-difference"), tab.locator("#compare-order")
    measured = tab.locator("#compared tbody tr").evaluate_all("rows => rows.map(r => r.dataset.q)")
    assert header.get_attribute("aria-sort") is None
    button.focus()
    tab.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    shown = tab.locator("#compared tbody tr td:last-child").all_inner_texts()
    texts = [text for text in shown if text != "–"]
    assert len(texts) > 20 and shown == [*texts, *["–"] * (len(shown) - len(texts))]
    changes = [abs(float(text.replace("−", "-"))) for text in texts]
    # As shown: rounded, some of them to whole numbers.
    halves = [0.5 * 0.1 ** len(text.partition(".")[2]) for text in texts]
    rounded = list(zip(changes, halves, strict=True))
    assert changes[0] > 10 * changes[-1]
    for (before, half), (after, other) in itertools.pairwise(rounded):
        assert before + half + 1e-3 * before >= after - other
    tab.wait_for_function("location.hash.includes('order=difference')")
    again = Opened(browser, address(tab))
    assert again.tab.locator("#head-difference").get_attribute("aria-sort") == "descending"
    again.context.close()
    tab.keyboard.press("Space")
    assert header.get_attribute("aria-sort") is None
    tab.wait_for_function("!location.hash.includes('order')")
    rows = tab.locator("#compared tbody tr").evaluate_all("rows => rows.map(r => r.dataset.q)")
    assert rows == measured


@pytest.mark.parametrize("words", ["minilm", "sample_questions", "no positions sample_questions"])
def test_a_search_finds_rows_by_the_names_of_what_they_are_of(opened, words):
    filter_by(opened.tab, words)
    assert opened.visible() > 20
    if words == "minilm":
        assert opened.names(0) == {"minilm"}
    else:
        assert opened.names(1) == {"sample_questions"}


def test_a_table_shows_words_and_the_name_beside_them(opened):
    tab = opened.tab

    filter_by(tab, "control: one mask per layer")
    assert "placebo_mean" in opened.names(2) and "zero" not in opened.names(2)
    filter_by(tab, "placebo_mean")
    opened.draw()
    assert opened.names(2) == {"", "placebo_mean"}, "rows of what is learned are of no condition"
    details = tab.locator("#figure-condition-costs ~ .numbers").first
    cell = details.locator("tbody tr:not([hidden])").first.locator("td").nth(2)
    cell.locator("code").wait_for()
    assert cell.inner_text().split("\n") == ["control: one mask per layer", "placebo_mean"]
    # Names still key everything else.
    assert opened.names(2) == {"", "placebo_mean"}
    panel = tab.locator(".filter[data-filter=conditions]")
    panel.locator("summary").click()
    assert panel.get_by_label("no positions zero").get_attribute("value") == "zero"
    tab.locator("nav a[href='#compare']").click()
    tab.locator("#compare-model").select_option("decoder")
    assert "no positions (zero)" in tab.locator("#compare-a option").all_inner_texts()


def test_downloads_hold_the_rows_that_are_shown(opened, tmp_path):
    choose(opened, "models", "decoder")
    choose(opened, "data-sets", "sample_reviews")
    opened.tab.locator("h2").first.click()  # closes the filter
    details = opened.tab.locator("#figure-perplexity ~ .numbers").first
    details.locator("summary").click()
    saved = {}
    for kind in ("CSV", "JSON"):
        with opened.tab.expect_download() as download:
            details.get_by_role("button", name=f"Download {kind}").click()
        assert download.value.suggested_filename == f"perplexity.{kind.lower()}"
        saved[kind] = tmp_path / kind
        download.value.save_as(saved[kind])
    records = json.loads(saved["JSON"].read_text(encoding="utf-8"))
    with saved["CSV"].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(records) == details.locator("tbody tr:not([hidden])").count() > 10
    for row, record in zip(rows, records, strict=True):
        assert row["model"] == record["model"] == "decoder"
        assert row["data_set"] == record["data_set"] == "sample_reviews"
        assert row["file"].endswith(".json")
        assert float(row["value"]) == record["value"]
    (intact,) = [r for r in records if (r["condition"], r["quantity"]) == ("intact", "perplexity")]
    assert intact["value"] == 39.71234 and intact["low"] < intact["value"] < intact["high"]


def test_all_is_reached_by_keyboard(opened):
    tab = opened.tab
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    assert tab.locator(".skip").is_visible()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('.filter').dataset.filter") == "models"
    width = tab.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert width == "3px"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert tab.evaluate("document.activeElement.checked")
    assert len(opened.names(0)) == 1
    tab.keyboard.press("Escape")
    assert tab.locator(".filter[open]").count() == 0
    assert tab.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_figures_are_told_in_japanese_too(opened):
    tab = opened.tab
    told = FIGURES["induction"]
    figure = tab.locator("#figure-induction")
    drawn = figure.locator("svg")
    before = tab.locator("#section-c6-heads h2").inner_text()
    tab.get_by_role("button", name="日本語").click()
    caption = figure.locator("figcaption")
    assert "最もよくコピーするモデル" in caption.inner_text()
    assert caption.locator(".t").last.get_attribute("lang") == "ja"
    assert tab.locator("nav a[href='#section-c6-heads']").inner_text() == "C6 ヘッド"
    # Figures that are drawn after the language is chosen, too.
    caption.scroll_into_view_if_needed()
    drawn.wait_for()
    assert drawn.get_attribute("aria-label").startswith("区間付きの点。条件ごとに一行。")
    # Search finds what a reader sees.
    tab.locator("#search").fill("最もよくコピーするモデル")
    shown = tab.locator("#found [role=option]").first
    shown.wait_for()
    assert "最もよくコピーするモデル" in shown.inner_text()
    tab.locator("#search").fill("")
    tab.get_by_role("button", name="EN").click()
    assert caption.inner_text().endswith(told.caption)
    assert drawn.get_attribute("aria-label") == told.alt
    assert tab.locator("#section-c6-heads h2").inner_text() == before == "C6 heads"


def test_fixed_words_are_said_in_japanese_too(browser, path, opened):
    tab = opened.tab
    english = tab.locator("h1").inner_text()
    rows, numbers = opened.visible(), tab.locator(".value").all_inner_texts()
    tab.get_by_role("button", name="日本語").focus()
    tab.keyboard.press("Enter")
    assert tab.locator("h1").inner_text().startswith("位置情報")
    assert tab.locator("h1 .t").get_attribute("lang") == "ja"
    assert tab.get_by_role("button", name="日本語").get_attribute("aria-pressed") == "true"
    assert tab.locator("#search").get_attribute("placeholder") == "検索"
    assert (opened.visible(), tab.locator(".value").all_inner_texts()) == (rows, numbers)
    tab.wait_for_function("location.hash.includes('lang=ja')")
    choose(opened, "models", "decoder")
    assert re.fullmatch(r"\d+ 行中 \d+ 行", tab.locator("#status").inner_text())
    again = Opened(browser, address(tab))
    assert again.tab.locator("h1").inner_text().startswith("位置情報")
    assert again.names(0) == {"decoder"} and again.said == []
    again.tab.locator("nav a[href='#heads']").click()
    again.tab.wait_for_selector("#pattern-zero td[data-at]")
    layer, head = (again.tab.locator(f"#head-{name}").input_value() for name in ("layer", "head"))
    assert f"層 {layer}、ヘッド {head}" in again.tab.locator("#heads h3").first.inner_text()
    again.tab.get_by_role("button", name="EN").click()
    assert again.tab.locator("h1").inner_text() == english
    assert f"layer {layer}, head {head}" in again.tab.locator("#heads h3").first.inner_text()
    assert "lang" not in address(again.tab)
    again.context.close()


def test_quantities_are_said_in_japanese_too(opened):
    """In tables that are open before the language is chosen, and in the comparison."""
    tab = opened.tab
    opened.draw()
    said = tab.locator("table.long th.quantity")
    english = said.all_text_contents()
    assert any(label.endswith("linear CKA with intact") for label in english)
    tab.get_by_role("button", name="日本語").click()
    japanese = said.all_text_contents()
    place = english.index("block 1 · linear CKA with intact")
    assert japanese[place] == "ブロック 1 · 元のモデルとの線形 CKA"
    assert said.nth(place).get_attribute("lang") == "ja"
    tab.locator("#compare").scroll_into_view_if_needed()
    tab.wait_for_selector("#compared tbody tr")
    assert "元のモデル" in "".join(tab.locator("#compared th.quantity").all_text_contents())
    tab.get_by_role("button", name="EN").click()
    assert said.all_text_contents() == english
    assert said.nth(place).get_attribute("lang") is None


def test_no_column_is_lost_on_a_telephone(browser, path):
    page = Opened(browser, path.as_uri(), viewport={"width": 390, "height": 800})
    tab = page.tab
    tab.locator("#compare").scroll_into_view_if_needed()
    tab.wait_for_selector("#compared tbody tr")
    page.draw()
    tables = "[...document.querySelectorAll('#compared, table.long, table.plain')]"
    gone = tab.evaluate(
        f"{tables}.flatMap(table => [...table.rows].slice(0, 3).flatMap(row => [...row.cells]))"
        ".filter(cell => cell.closest('section').offsetWidth && !cell.closest('[hidden]'))"
        ".filter(cell => !cell.offsetWidth).map(cell => cell.textContent)"
    )
    assert gone == []
    # The comparison is seen whole; what is wider scrolls in its own region.
    assert tab.evaluate("document.querySelector('#compared').scrollWidth") <= 390
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


PLATE = "#figure-perplexity .plate"
SCALE = f"""
(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)
(document.querySelector('{PLATE} svg'))
"""


def values_of_perplexity(path) -> list[float]:
    """Of the measurement files, in all digits."""
    rows = itertools.chain(*tables_of(path).values())
    selected = [row for row in rows if (row["measurement"], row["quantity"]) == ("perplexity",) * 2]
    return [row["value"] for row in selected if row["value"] is not None]


def test_a_point_of_a_figure_says_its_value_under_the_pointer_and_by_keyboard(path, opened):
    tab, tip = opened.tab, opened.tab.locator("#tip")
    plate = tab.locator(PLATE)
    plate.scroll_into_view_if_needed()
    plate.locator("svg").wait_for()
    # Where the first point lies, in the units of the picture, and the number that it stands for.
    _, _, points = json.loads(plate.locator("metadata").text_content())["series"][0]
    x, y, value, row = points[0][:4]
    exact = min(values_of_perplexity(path), key=lambda number: abs(number - float(value)))
    assert float(value) == pytest.approx(exact, rel=1e-3)
    box = plate.locator("svg").bounding_box()
    scale = tab.evaluate(SCALE)
    tab.mouse.move(box["x"] + scale * x / 10 + 3, box["y"] + scale * y / 10)
    tip.wait_for()
    assert f"perplexity: {value} [" in tip.inner_text() and row in tip.inner_text()
    tab.mouse.move(box["x"] + 2, box["y"] + 2)
    tip.wait_for(state="hidden")
    # The same by keyboard: the first one first, the next series below, and out again.
    plate.focus()
    tab.keyboard.press("ArrowRight")
    assert f"perplexity: {value} [" in tip.inner_text()
    first = tip.inner_text()
    tab.keyboard.press("ArrowDown")
    assert tip.is_visible() and tip.inner_text() != first
    assert tip.get_attribute("role") == "status"
    tab.keyboard.press("Escape")
    assert tip.is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_figures_stand_out_from_the_paper(browser, path, scheme):
    page = Opened(browser, path.as_uri(), color_scheme=scheme)
    plate = page.tab.locator(PLATE)
    plate.scroll_into_view_if_needed()
    plate.locator("svg").wait_for()
    fill, paper = page.tab.evaluate(
        f"[getComputedStyle(document.querySelector('{PLATE} text')).fill,"
        " getComputedStyle(document.body).backgroundColor]"
    )
    channels = [re.findall(r"\d+", colour)[:3] for colour in (fill, paper)]
    colours = ["#" + "".join(f"{int(c):02x}" for c in rgb) for rgb in channels]
    assert contrast(*colours) >= 12
    page.context.close()


@pytest.mark.parametrize(("scheme", "view"), [("light", ""), ("dark", "#lang=ja")])
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_is_accessible_and_fits(browser, path, scheme, view, width):
    from axe_playwright_python.sync_playwright import Axe

    page = Opened(
        browser, path.as_uri() + view, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    page.tab.evaluate("document.querySelector('.numbers').open = true")
    page.tab.evaluate("document.querySelector('#studies').open = true")
    page.tab.locator("#compare").scroll_into_view_if_needed()
    page.tab.wait_for_selector("#compared tbody tr")
    page.tab.locator("#heads").scroll_into_view_if_needed()
    page.tab.wait_for_selector("#pattern-masked td[data-at]")
    page.tab.locator(PLATE).focus()
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
    # All rows of a table are alike.
    page.tab.evaluate(
        "document.querySelectorAll('tbody').forEach("
        "body => [...body.rows].slice(6).forEach(row => row.remove()))"
    )
    result = Axe().run(
        page.tab, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"]}
    )
    problems = [
        (violation["id"], [node["target"] for node in violation["nodes"][:3]])
        for violation in result.response["violations"]
    ]
    page.context.close()
    assert problems == []


def test_the_page_is_whole_without_scripts(browser, path):
    page = Opened(browser, path.as_uri(), java_script_enabled=False)
    assert page.tab.locator("#filters").is_hidden()
    assert not any(part.is_visible() for part in page.tab.locator(".interactive").all())
    for told in page.tab.locator("noscript p").all():
        assert told.is_visible()
    assert page.tab.locator(".findings .value").first.is_visible()
    # Tables cannot be drawn, and what has all numbers is named.
    assert not page.tab.locator(".numbers").first.is_visible()
    assert "data/studies/default/numbers.json" in page.tab.locator("header noscript").inner_text()
    assert page.tab.locator(f"{PLATE} svg text").first.is_visible()
    page.context.close()


def test_the_browser_draws_the_rows_of_the_step(path, opened):
    """Every cell of every table, in order, from the numbers that the step wrote."""
    opened.draw()
    drawn = opened.tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('table.long')].map(table =>"
        " [table.dataset.name, [...table.tBodies[0].rows].map(row =>"
        " [...row.cells].map(cell => cell.dataset.name ?? cell.textContent))]))"
    )
    expected = {
        name: [
            [
                *(row["model"], row["data_set"], row["condition"], row["label"]),
                *(
                    [f"not run: {row['reason']}"]
                    if row["reason"]
                    else [row["shown"], row["shown_low"], row["shown_high"]]
                ),
                row["file"],
            ]
            for row in rows
        ]
        for name, rows in tables_of(path).items()
        if rows
    }
    assert drawn == expected and sum(map(len, drawn.values())) > 1000


def test_filters_and_search_leave_the_figures_that_they_are_about(path, opened):
    tab = opened.tab
    shown = tab.locator("figure:visible")
    all_of_them = shown.count()
    assert all_of_them == len(DRAWN)

    def search(words: str) -> set[str]:
        tab.goto(f"{path.as_uri()}#search={words}")
        tab.wait_for_function(
            "words => document.querySelector('#search').value === words", arg=words
        )
        return set(shown.evaluate_all("figures => figures.map(figure => figure.id)"))

    # By words of its caption that no row has; and without any row at all.
    assert "figure-mask-semantics" in search("mask_semantics")
    assert len(search("mask_semantics")) < all_of_them
    assert search("no such words") == set()
    assert tab.locator("section > .none:visible").count() > 3
    assert len(search("")) == all_of_them
    assert tab.locator("section > .none:visible").count() == 0
    choose(opened, "models", "decoder")
    left = set(shown.evaluate_all("figures => figures.map(figure => figure.id)"))
    assert "figure-perplexity" in left and "figure-mask-semantics" not in left
    for name in left:
        count = tab.locator(f"#{name} ~ .numbers .count").inner_text()
        assert not count.startswith("0 of"), name


def test_an_address_that_searches_leads_to_the_row(browser, path):
    """As the documents' numbers do."""
    place = "#models=decoder&data-sets=sample_reviews&conditions=zero&search=perplexity+delta_nll"
    page = Opened(browser, path.as_uri() + place, viewport={"width": 1280, "height": 900})
    row = page.tab.locator(".numbers[open] tbody tr:not([hidden])").first
    row.wait_for()
    assert row.get_attribute("data-q") == "perplexity.delta_nll"
    page.tab.wait_for_function("scrollY > 1000")
    assert page.tab.locator(".numbers[open]").count() == 1
    assert page.said == []
    page.context.close()


@pytest.mark.parametrize("by", ["data/studies/default/index.html", "report/index.html"])
def test_other_studies_are_reached_with_what_is_chosen_here(
    browser, tmp_path, path, monkeypatch, by
):
    """From the page itself and from the link to it; studies without a page are not offered."""
    monkeypatch.chdir(tmp_path)
    for study in ("default", "local"):
        copy = tmp_path / f"data/studies/{study}/index.html"
        copy.parent.mkdir(parents=True)
        shutil.copyfile(path, copy)
    (tmp_path / "data/studies/empty").mkdir()
    (tmp_path / "paper").mkdir()
    links.list_pages()
    links.link("default")
    page = Opened(browser, (tmp_path / by).as_uri() + "#models=decoder")
    page.tab.locator("#studies summary").focus()
    page.tab.keyboard.press("Enter")
    page.tab.locator("#studies a").first.wait_for()
    assert page.tab.locator("#studies a").all_inner_texts() == ["local"]
    page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_url("**/data/studies/local/index.html#models=decoder*")
    assert page.tab.locator(".filter[data-filter=models] input[value=decoder]").is_checked()
    assert page.said == []
    page.context.close()


@pytest.mark.parametrize("folder", ["data/studies/default", "report", "paper"])
def test_every_link_of_the_header_leads_to_a_file(browser, tmp_path, path, monkeypatch, folder):
    """From the page itself, and from the links to it."""
    monkeypatch.chdir(tmp_path)
    study = tmp_path / "data/studies/default"
    documents = [study / f"pdf/{name}.pdf" for name in ("paper", "supplement", "slides")]
    for file in (*documents, tmp_path / "site/index.html", tmp_path / "README.md"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    shutil.copyfile(path, study / "index.html")
    (tmp_path / "paper").mkdir()
    links.link("default")
    made = Opened(browser, (tmp_path / folder / "index.html").as_uri())
    leads_to = made.tab.locator(".ways a").evaluate_all("links => links.map(one => one.href)")
    made.context.close()
    assert [Path(unquote(urlsplit(one).path)).resolve() for one in leads_to] == [
        *documents, tmp_path / "site/index.html", tmp_path / "README.md"
    ]  # fmt: skip


def test_a_page_that_was_moved_says_that_no_other_studies_lie_beside_it(browser, tmp_path, path):
    shutil.copyfile(path, tmp_path / "sent.html")
    page = Opened(browser, (tmp_path / "sent.html").as_uri())
    assert len(page.requests) == 1, "nothing is asked for until a reader asks"
    page.tab.locator("#studies summary").click()
    told = page.tab.locator("#studies p")
    page.tab.wait_for_function("document.querySelector('#studies p').textContent !== ''")
    assert told.inner_text().startswith("No list of studies lies beside this page")
    page.tab.get_by_role("button", name="日本語").click()
    assert told.inner_text().startswith("このページのそばに")
    page.context.close()
