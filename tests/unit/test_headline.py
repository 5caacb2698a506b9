"""The picture that README opens with shows the numbers of the record."""

from __future__ import annotations

import importlib.util

from .synthetic import PROJECT

SPEC = importlib.util.spec_from_file_location("headline", PROJECT / "docs/headline.py")
headline = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(headline)


def test_the_picture_shows_what_is_recorded(monkeypatch):
    monkeypatch.chdir(PROJECT)
    picture = headline.PICTURE.read_text(encoding="utf-8")
    recorded = {key: one["value"] for key, one in headline.numbers().items()}
    assert headline.drawn(picture) == recorded, "draw it again: python docs/headline.py"
    assert len(recorded) == 10
    for key, value in recorded.items():
        assert f"{100 * value:.0f} %" in picture, key


def test_other_numbers_give_another_picture(monkeypatch):
    monkeypatch.chdir(PROJECT)
    found = headline.numbers()
    key = next(iter(found))
    changed = {**found, key: {**found[key], "value": 0.5}}
    assert headline.drawn(headline.draw(changed))[key] == 0.5
    assert headline.draw(found) == headline.draw(found) != headline.draw(changed)
