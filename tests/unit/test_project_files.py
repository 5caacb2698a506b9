"""Hooks are the linters of `make test`; citation, Japanese README and links keep up."""

from __future__ import annotations

import re
import tomllib

import pytest
from ruamel.yaml import YAML

from posenc.report import findings

from .pages import anchors, pages
from .synthetic import PROJECT

HOOKS = YAML(typ="safe").load((PROJECT / ".pre-commit-config.yaml").read_text())["repos"]
PAGES = [*pages(), PROJECT / "CONTRIBUTING.md"]
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())


def linters() -> set[str]:
    """Commands of `make test` before the tests, as a hook writes them: of a commit's files."""
    target = re.search(r"(?m)^lint:.*\n((?:\t.+\n)+)", (PROJECT / "Makefile").read_text())[1]
    commands = re.findall(r"\$\(BIN\)/([^&\n]+)", target)
    plain = {re.sub(r" --check\b| \.$| Snakefile workflow/rules", "", c.strip()) for c in commands}
    return {command for command in plain if "pytest" not in command}


def test_hooks_are_the_linters_of_make_test_and_need_no_network():
    assert [repository["repo"] for repository in HOOKS] == ["local"]
    hooks = HOOKS[0]["hooks"]
    assert {hook["entry"].removesuffix(" --force-exclude") for hook in hooks} == linters()
    assert len(linters()) == 5
    assert {hook["language"] for hook in hooks} == {"system"}


@pytest.mark.parametrize(
    ("path", "is_checked"),
    [
        ("Snakefile", True),
        ("workflow/rules/data.smk", True),
        ("workflow/rules/data.py", False),
        ("docs/Snakefile.md", False),
    ],
)
def test_snakefmt_sees_rules_alone(path, is_checked):
    (hook,) = (hook for hook in HOOKS[0]["hooks"] if hook["id"] == "snakefmt")
    assert bool(re.search(hook["files"], path)) == is_checked


def test_what_make_test_runs_is_installed():
    extra = " ".join(PYPROJECT["project"]["optional-dependencies"]["test"])
    locked = (PROJECT / "requirements.lock").read_text()
    for name in ("mypy", "ruff", "snakefmt"):
        assert re.search(rf"\b{name}\b", extra), f"pyproject.toml: the extra test lacks {name}"
        assert re.search(rf"(?m)^{name}==", locked), f"requirements.lock lacks {name}"


def test_the_citation_is_of_this_version():
    citation = YAML(typ="safe").load((PROJECT / "CITATION.cff").read_text())
    assert str(citation["version"]) == PYPROJECT["project"]["version"]
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == [{"name": "The posenc developers"}]
    assert {"title", "message", "type", "abstract"} <= citation.keys()


def commands(text: str) -> list[str]:
    """Lines of shell blocks, without their comments, which are in the page's language."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize(
    "page", ["README.md", "docs/contents.md", "docs/results.md", "docs/running.md"]
)
def test_a_page_in_both_languages_has_the_same_commands_numbers_and_pages(page):
    path = PROJECT / page
    other = path.with_suffix(".ja.md")
    english, japanese = (file.read_text(encoding="utf-8") for file in (path, other))
    assert commands(english) == commands(japanese)
    templates = [PROJECT / findings.TEMPLATES / file.name for file in (path, other)]
    keys = [
        sorted(
            mark["key"] for mark in findings.MARKED.finditer(template.read_text(encoding="utf-8"))
        )
        for template in templates
        if template.is_file()
    ]
    assert keys[:1] == keys[1:]
    pages = r"(?m)^\| \[([\w.-]+)\]\("
    assert re.findall(pages, english) == re.findall(pages, japanese)
    assert f"]({other.name})" in english and f"]({path.name})" in japanese


def test_the_readme_is_short_and_has_few_numbers():
    """It is read in an editor, and has to be remembered."""
    for name in ("README.md", "README.ja.md"):
        text = (PROJECT / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 80
        template = (PROJECT / findings.TEMPLATES / name).read_text(encoding="utf-8")
        assert len(list(findings.MARKED.finditer(template))) <= 8


def test_every_page_is_in_the_list_of_pages():
    listed = set(re.findall(r"\]\(([\w.-]+\.md)\)", (PROJECT / "docs/contents.md").read_text()))
    pages = {path.name for path in (PROJECT / "docs").glob("*.md") if ".ja" not in path.suffixes}
    assert pages - {"contents.md"} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    for target, _, anchor in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", text):
        if not target.startswith("https://"):
            linked = page.parent / target if target else page
            assert linked.exists(), target
            assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"
