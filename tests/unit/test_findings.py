"""Numbers in README and docs/ are those recorded of studies, each by its key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posenc.artifacts.files import ArtifactError
from posenc.report import comparison, findings

from .pages import pages

ROOT = Path(__file__).parents[2]
PAGES, SOURCES = pages(), findings.sources(ROOT)
INTERVAL = re.compile(r"\[[-−.\d]+, [-−.\d]+\]")
NUMBERS = {
    "model.loss": {"value": -1234.5678, "low": -1300.0, "high": 0.005, "shown": "-1234.57"},
    "model.share": {"value": 0.996, "shown": "0.996"},
    "model.many": {"value": 1_758_840, "low": 1.2e6, "high": 2e6, "shown": "1758840"},
    "model.other": {"not_run": "no such model"},
}


RECORDS = {"default": NUMBERS, "other": {"model.loss": {"value": 0.25, "low": 0.2, "high": 0.3}}}


@pytest.fixture(scope="module")
def records() -> dict:
    return comparison.all_recorded(ROOT / comparison.RECORDS)


@pytest.mark.parametrize("page", SOURCES, ids=lambda path: path.name)
def test_a_page_is_its_template_with_what_is_recorded(page, records):
    said = f"edit {SOURCES[page]}; `posenc pages` writes {page.name}"
    assert page.read_text(encoding="utf-8") == findings.written(SOURCES[page], records), said


def test_marks_are_in_templates_alone():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<!--=|\{\{[\w.:]+ 0", text), f"{page.name}: put it in a template"


def test_findings_of_the_default_study_are_named_by_key():
    count = 0
    for page in SOURCES.values():
        text = page.read_text(encoding="utf-8")
        count += len(findings.MARKED.findall(text))
        blocks = findings.MARKED.sub("", text).split("\n\n")
        for block, after in zip(blocks, [*blocks[1:], ""], strict=True):
            if "default study" in block:
                table = after if after.startswith("|") else ""
                assert not INTERVAL.search(block + table), f"{page.name}: {block[:200]}"
    assert count > 80


def test_a_number_has_the_form_of_its_mark():
    def filled(mark: str) -> str:
        return findings.fill(f"{{{{{mark}}}}}", RECORDS)

    assert filled("model.loss 0") == "−1,235"
    assert filled("model.loss 0.0 []") == "−1,234.6 [−1,300.0, 0.0]"
    assert filled("model.loss 0.000 []") == "−1,234.568 [−1,300.000, 0.005]"
    assert filled("model.share 0.00") == "1.00"
    assert filled("model.share 0.0 %") == "99.6 %"
    assert filled("other:model.loss 0 % []") == "25 % [20, 30]"
    assert filled("model.many 0.0 million") == "1.8 million"
    assert filled("model.many 0 万 []") == "176 万 [120, 200]"


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
    templates = tmp_path / findings.TEMPLATES
    templates.mkdir(parents=True)
    (templates / "README.md").write_text("{{model.share 0.0}}")
    (templates / "b.md").write_text(f"{{{{{key} 0.0}}}}")
    with pytest.raises(ArtifactError, match=rf"templates/b\.md: .*{said}"):
        findings.fill_pages(RECORDS, tmp_path)
    assert not (tmp_path / "README.md").exists()


def test_pages_that_say_so_already_are_left_alone(tmp_path):
    page, template = tmp_path / "README.ja.md", tmp_path / findings.TEMPLATES / "README.ja.md"
    template.parent.mkdir(parents=True)
    template.write_text("a {{model.share 0.0}} b")
    assert findings.fill_pages(RECORDS, tmp_path) == [page]
    assert (
        page.read_text().startswith("a 1.0 b\n")
        and "docs/templates/README.ja.md" in page.read_text()
    )
    assert findings.fill_pages(RECORDS, tmp_path) == []


def test_the_paper_has_marks_of_its_own():
    text = "a \\recorded{other:model.loss}{7 \\% [1, 2]}, \\recorded{model.share}{0.1}"
    shown = "a \\recorded{other:model.loss}{25 \\% [20, 30]}, \\recorded{model.share}{1.0}"
    assert findings.fill(text, RECORDS) == shown
    assert findings.fill(shown, RECORDS) == shown
    with pytest.raises(ArtifactError, match=r"no number .model\.lost"):
        findings.fill("\\recorded{model.lost}{1}", RECORDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    """GitHub shows a table whose second row has fewer cells than its first as plain text."""
    for block in page.read_text(encoding="utf-8").split("\n\n"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        # A bar in code, or behind a backslash, parts no cells.
        cells = {re.sub(r"`[^`]*`|\\\|", "", row).count("|") for row in rows}
        assert len(cells) <= 1, f"{rows[0]}: {cells}"
