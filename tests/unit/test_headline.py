"""The picture that README opens with shows the numbers of the record."""

from __future__ import annotations

import importlib.util
import re

import pytest

from .synthetic import PROJECT

SPEC = importlib.util.spec_from_file_location("headline", PROJECT / "docs/headline.py")
headline = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(headline)


def recorded() -> dict[str, dict]:
    return headline.numbers(headline.comparison.all_recorded()[headline.STUDY])


def test_the_picture_shows_what_is_recorded(monkeypatch):
    monkeypatch.chdir(PROJECT)
    picture = headline.PICTURE.read_text(encoding="utf-8")
    numbers = {key: number["value"] for key, number in recorded().items()}
    assert headline.drawn(picture) == numbers, "draw it again: python docs/headline.py"
    assert len(numbers) == 12
    for key, value in numbers.items():
        assert headline.percent(value) in picture, key


def test_a_share_is_written_as_a_reader_expects():
    assert headline.percent(0.777) == "78 %"
    assert headline.percent(-0.319) == "−32 %"


def test_other_numbers_give_another_picture(monkeypatch):
    monkeypatch.chdir(PROJECT)
    numbers = recorded()
    key = next(iter(numbers))
    changed = {**numbers, key: {**numbers[key], "value": 0.5}}
    assert headline.drawn(headline.draw(changed))[key] == 0.5
    assert headline.draw(numbers) == headline.draw(numbers) != headline.draw(changed)


@pytest.mark.parametrize("page", ["README.md", "README.ja.md"])
def test_what_the_readme_says_of_each_model_is_of_one_study(page):
    text = (PROJECT / "docs/templates" / page).read_text()
    assert studies_of(text) == {"smollm2": {"headline"}, "gemma3_270m": {"rotary_gemma"}}


def test_the_abstract_says_the_same():
    text = (PROJECT / "paper/paper.tex").read_text()
    abstract = text.partition("\\textbf{Abstract.}")[2].partition("\\end{minipage}")[0]
    assert studies_of(abstract) == {"smollm2": {"headline"}, "gemma3_270m": {"rotary_gemma"}}


def studies_of(text: str) -> dict[str, set[str]]:
    """Studies whose recorded numbers a text has, by model."""
    studies: dict[str, set[str]] = {}
    for study, model in re.findall(r"\{(\w+):(\w+)\.", text):
        studies.setdefault(model, set()).add(study)
    return studies
