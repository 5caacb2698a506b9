"""Numbers in README and docs/: those of the records of studies, each by its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posenc.artifacts.files import ArtifactError
from posenc.report import comparison, findings

ROOT = Path(__file__).parents[2]
PAGES = findings.pages(ROOT)
INTERVAL = re.compile(r"\[[-−.\d]+, [-−.\d]+\]")
NUMBERS = {
    "model.loss": {"value": -1234.5678, "low": -1300.0, "high": 0.005, "shown": "-1234.57"},
    "model.share": {"value": 0.996, "shown": "0.996"},
    "model.other": {"not_run": "no such model"},
}


RECORDS = {"default": NUMBERS, "other": {"model.loss": {"value": 0.25, "low": 0.2, "high": 0.3}}}


@pytest.fixture(scope="module")
def records() -> dict:
    return comparison.all_recorded(ROOT / comparison.RECORDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_show_what_is_recorded(page, records):
    text = page.read_text(encoding="utf-8")
    assert findings.fill(text, records) == text, "`posenc record` fills the pages in"


def test_findings_of_the_default_study_are_named_by_key():
    found = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += len(findings.MARKED.findall(text))
        blocks = findings.MARKED.sub("", text).split("\n\n")
        for block, after in zip(blocks, [*blocks[1:], ""], strict=True):
            if "default study" in block:
                table = after if after.startswith("|") else ""
                assert not INTERVAL.search(block + table), f"{page.name}: {block[:200]}"
    assert found > 80


def test_a_number_keeps_the_form_that_it_has_in_the_page():
    def filled(key: str, shown: str) -> str:
        (text,) = re.findall(r"-->(.*?)<", findings.fill(f"<!--={key}-->{shown}<!--/-->", RECORDS))
        return text

    assert filled("model.loss", "7") == "−1,235"
    assert filled("model.loss", "7.0 [") == "−1,234.6 [−1,300.0, 0.0]"
    assert filled("model.loss", "−0.123 [−1, 2]") == "−1,234.568 [−1,300.000, 0.005]"
    assert filled("model.share", "0.00") == "1.00"
    assert filled("model.share", "0.0 %") == "99.6 %"
    assert filled("other:model.loss", "7 % [") == "25 % [20, 30]"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("model.lost", "no number 'model.lost' was recorded of the study 'default'"),
        ("other:model.share", "no number 'model.share' was recorded of the study 'other'"),
        ("third:model.share", "no number 'model.share' was recorded of the study 'third'"),
        ("model.other", "was not run: no such model"),
    ],
)
def test_what_was_not_recorded_is_not_shown(tmp_path, key, said):
    whole, page = "<!--=model.share-->0.1<!--/-->", f"<!--={key}-->1.0<!--/-->"
    (tmp_path / "README.md").write_text(whole)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/b.md").write_text(page)
    with pytest.raises(ArtifactError, match=rf"b\.md: .*{said}"):
        findings.fill_pages(RECORDS, tmp_path)
    assert (tmp_path / "README.md").read_text() == whole


def test_pages_that_say_so_already_are_left_alone(tmp_path):
    page = tmp_path / "README.ja.md"
    page.write_text("a <!--=model.share-->0.1<!--/--> b")
    assert findings.fill_pages(RECORDS, tmp_path) == [page]
    assert page.read_text() == "a <!--=model.share-->1.0<!--/--> b"
    assert findings.fill_pages(RECORDS, tmp_path) == []


def test_the_paper_has_marks_of_its_own():
    text = "a \\recorded{other:model.loss}{7 \\% [1, 2]}, \\recorded{model.share}{0.1}"
    shown = "a \\recorded{other:model.loss}{25 \\% [20, 30]}, \\recorded{model.share}{1.0}"
    assert findings.fill(text, RECORDS) == shown
    assert findings.fill(shown, RECORDS) == shown
    with pytest.raises(ArtifactError, match=r"no number .model\.lost"):
        findings.fill("\\recorded{model.lost}{1}", RECORDS)


@pytest.mark.parametrize("page", findings.pages(ROOT), ids=lambda page: page.name)
def test_no_line_of_a_page_begins_with_a_mark(page):
    """There a comment begins a block of HTML, which ends the paragraph and shows no links."""
    assert not re.findall("^<!--=.*$", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", findings.pages(ROOT), ids=lambda page: page.name)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    """GitHub shows a table whose second row has fewer cells than its first as plain text."""
    for block in page.read_text(encoding="utf-8").split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        # A bar in code, or behind a backslash, parts no cells.
        cells = {re.sub(r"`[^`]*`|\\\|", "", row).count("|") for row in rows}
        assert len(cells) <= 1, f"{rows[0]}: {cells}"
