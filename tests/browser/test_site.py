"""The documentation as a site: built strictly without a network, whole, searched from a file."""

from __future__ import annotations

import html
import os
import re
import runpy
import subprocess
import sys

import pytest
from mkdocs.commands.build import build as mkdocs_build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort
from mkdocs.structure.files import Files

from posenc.api import PLACES
from posenc.figures.catalogue import FIGURES, module_of
from posenc.study.layers import Layers
from tests.browser.test_page_in_chromium import CHROMIUM, browser, context_of  # noqa: F401
from tests.copies import ROOT

NOWHERE = "http://127.0.0.1:9"
"""Whatever asks the network is refused."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built once: a page of docs/ missing from the nav, or a dead link, stops it."""
    folder = tmp_path_factory.mktemp("site")
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, **proxies, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


def text(path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_page_of_docs_is_there(site):
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}
    built = {"index.html", "index.ja.html", "contributing.html", "changelog.html", "notebook.html",
            "api.html", "gallery.html"}  # fmt: skip
    assert pages | built <= {path.name for path in site.glob("*.html")}


def test_a_page_that_is_not_in_the_nav_stops_the_build(tmp_path, caplog):
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    for part in config.nav:
        for pages in part.values():
            pages[:] = [page for page in pages if page != {"Models": "models.md"}]
    with pytest.raises(Abort):
        mkdocs_build(config)
    (said,) = (record.getMessage() for record in caplog.records if "nav" in record.getMessage())
    assert said.splitlines()[1:] == ["  - models.md"]


def test_the_api_has_every_public_name_and_no_sphinx_role(site):
    page = text(site / "api.html")
    for name, place in PLACES.items():
        assert f'id="{place}.{name}"' in page, name
    assert ":func:" not in page and "Raises" in page and "Parameters" in page


def test_the_gallery_has_every_figure_with_its_command_and_code(site):
    page = html.unescape(re.sub(r"<[^>]+>", "", text(site / "gallery.html")))
    for name in FIGURES:
        assert re.search(rf"snakemake --cores 8.* -- data/studies/\w+/figures/{name}\.pdf", page)
        assert f"workflow/{module_of(name).replace('.', '/')}.py" in page
        assert re.sub(r"\*", "", FIGURES[name].caption)[:60] in page


def test_the_gallery_shows_what_was_drawn_here_where_no_page_has_a_picture(tmp_path):
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"))
    pages = runpy.run_path(str(ROOT / "docs/pages.py"))
    module = tmp_path / f"workflow/{module_of('spectra').replace('.', '/')}.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    pages["entry"].__globals__["ROOT"] = tmp_path
    config.plugins._current_plugin = "hooks"  # as MkDocs sets it before it calls one
    files = Files([])

    def pictures() -> list[str]:
        said = pages["entry"]("spectra", "mine", ["mine", "other"], files, config)
        return re.findall(r"!\[.*?\]\((.+)\)", "\n".join(said))

    assert pictures() == [] and not list(files)
    drawn = tmp_path / "data/studies/mine/figures/spectra.svg"
    drawn.parent.mkdir(parents=True)
    drawn.write_text('<svg viewBox="0 0 1 1"></svg>')
    assert pictures() == [file.src_uri for file in files] == ["images/mine_spectra.svg"]
    recorded = tmp_path / "docs/images/other_spectra.png"
    recorded.parent.mkdir(parents=True)
    recorded.write_bytes(b"")
    assert pictures() == ["images/other_spectra.png"]


def test_every_condition_mask_and_study_has_its_sentence(site):
    page = html.unescape(re.sub(r"<[^>]+>", "", text(site / "built-in.html")))
    layers = Layers(ROOT / "params.yaml")
    assert {name for _, name in layers.about} >= layers.value["conditions"].keys()
    for said in (
        *layers.about.values(),
        *(study["asks"] for study in layers.value["studies"].values()),
    ):
        assert said.replace("`", "") in page


def test_marks_of_numbers_do_not_show(site):
    for path in site.glob("*.html"):
        assert "<!--=" not in text(path) and "&lt;!--=" not in text(path), path.name


def test_both_glossaries_have_the_same_words():
    rows = {
        name: re.findall(r"(?m)^\| (.+?) \| (.+?) \| .+ \|$", text(ROOT / f"docs/{name}"))[2:]
        for name in ("glossary.md", "glossary.ja.md")
    }
    english, japanese = rows.values()
    assert len(english) > 30 and english == [row[::-1] for row in japanese]


def test_the_language_of_a_page_is_said_and_leads_to_the_other(site):
    for name, language, other in (("tutorial", "en", "ja"), ("glossary", "en", "ja")):
        page, translation = text(site / f"{name}.html"), text(site / f"{name}.ja.html")
        assert f'<html lang="{language}"' in page and f'<html lang="{other}"' in translation
        assert f'href="{name}.ja.html" hreflang="{other}"' in page
        assert f'href="{name}.html" hreflang="{language}"' in translation
    assert "hreflang" not in text(site / "rotary.html")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize(
    ("word", "page"), [("placebo", "tutorial.html"), ("較正用テキスト", "glossary.ja.html")]
)
@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_searched_from_a_file_in_both_languages(site, browser, word, page, width):  # noqa: F811
    context = context_of(browser, viewport={"width": width, "height": 800})
    tab, asked, errors = context.new_page(), [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((site / "tutorial.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.wait_for_function("globalThis.document$ !== undefined")  # the theme's script has begun
    tab.locator(".md-search__input").focus()
    tab.keyboard.insert_text(word)
    tab.keyboard.press("End")  # it looks when a key goes up
    links = tab.locator(".md-search-result__link")
    links.first.wait_for()
    assert any(page in link.get_attribute("href") for link in links.all())
    assert errors == [] and {url.partition(":")[0] for url in asked} <= {"file", "data", "about"}
    context.close()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("page", "width"), [("tutorial.ja", 390), ("api", 1280)])
def test_a_page_is_for_everybody(site, browser, page, width, scheme):  # noqa: F811
    from axe_playwright_python.sync_playwright import Axe

    context = context_of(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto((site / f"{page}.html").as_uri())
    tab.wait_for_function("globalThis.document$ !== undefined")
    # Colours fade in slowly; a half-faded one has another contrast.
    tab.add_style_tag(content="*, ::before, ::after {transition: none !important}")
    tab.wait_for_function("document.getAnimations().length === 0")
    result = Axe().run(tab, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]})
    context.close()
    problems = [
        (violation["id"], [node["target"] for node in violation["nodes"][:3]])
        for violation in result.response["violations"]
    ]
    assert problems == []
