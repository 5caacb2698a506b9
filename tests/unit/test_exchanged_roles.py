"""Sentences with exchanged names: well formed, and one vector where order is not seen."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from posenc.config.labels import display
from posenc.datasets.generated import roles
from posenc.datasets.generated.roles import sentences
from posenc.measurements.exchanged_roles import figure as figure
from posenc.measurements.exchanged_roles import measure as step
from posenc.measurements.exchanged_roles import quantities as numbers
from posenc.measurements.exchanged_roles.declaration import ExchangedRoles
from posenc.models.section import Reading

from . import synthetic_experiments as made_up
from .test_effective_keys import bert, gpt2
from .test_figures import SECTIONS, STYLE, texts

LANGUAGES = tuple(roles.PATTERNS)
PARAMETERS = ExchangedRoles(
    languages=["english"], sentences=6, bootstrap_samples=100, confidence=0.9, seed=0
)
LETTERS = "abcdefghijklmnopqrstuvwxyzTAPCMRB "


def job(family: str = "bert", **changes) -> SimpleNamespace:
    """A job of 6 sentences."""
    reading = Reading(family=family, max_tokens=64)
    return SimpleNamespace(parameters=PARAMETERS.model_copy(update=changes), reading=reading)


def tokenizer_of(letters: str) -> Tokenizer:
    """A token for each letter, and one for all others."""
    vocabulary = {"?": 0, "<|endoftext|>": 1, **{letter: 2 + n for n, letter in enumerate(letters)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return tokenizer


@pytest.mark.parametrize("language", LANGUAGES)
def test_exchanged_names_are_the_same_words_in_another_order(language):
    drawn_sentences = sentences(language, 60, seed=1)
    assert len({sentence.text for sentence in drawn_sentences}) == 60
    every = [*roles.CITIES[language].split(), *roles.PEOPLE[language].split()]
    for sentence in drawn_sentences:
        assert sentence.text != sentence.exchanged
        assert Counter(sentence.text) == Counter(sentence.exchanged)
        names = [name for name in every if name in sentence.text]
        assert len(names) == 2
        assert all(name in sentence.paraphrase for name in names)
        assert not any(name in sentence.unrelated for name in names)
        assert not any(sentence.text.startswith(name) for name in names)


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_follow_the_seed_and_there_are_no_more_than_there_are(language):
    assert sentences(language, 5, seed=0) == sentences(language, 5, seed=0)
    assert sentences(language, 5, seed=0) != sentences(language, 5, seed=1)
    names = len(roles.CITIES[language].split())
    assert len(sentences(language, 10**6, 0)) == len(roles.PATTERNS[language]) * names * (names - 1)


def test_an_encoder_without_positions_cannot_tell_them_apart():
    intact, without = conditions(step.measure(job(), bert(64), tokenizer_of(LETTERS)).as_json())
    assert intact["exchanged"]["value"] < 1 - 1e-6
    for end in ("value", "low", "high"):
        assert without["exchanged"][end] == pytest.approx(1, abs=1e-9)
    assert without["nearer"] == 1
    assert without["paraphrase"]["value"] < 1 - 1e-6


def test_a_causal_decoder_without_positions_still_sees_order():
    _, without = conditions(step.measure(job("gpt2"), gpt2(64), tokenizer_of(LETTERS)).as_json())
    assert without["exchanged"]["value"] < 1 - 1e-6


def conditions(measured: dict) -> list[dict]:
    """Those of the first language."""
    return measured["languages"][0]["conditions"]


def test_a_sentence_is_the_mean_of_its_last_states():
    model, ids = bert(), [[3, 1, 2], [5, 4, 4, 9]]
    vectors = step.vectors_of(model, ids, step.Condition.model_validate({"position": "intact"}))
    for row, tokens in zip(vectors, ids, strict=True):
        with torch.inference_mode():
            expected = model(torch.tensor([tokens])).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(row, expected.numpy(), atol=2e-6)


def test_cosines_by_hand(monkeypatch):
    vectors = np.array([[0, 0], [1, 0], [1, 1], [3, 4], [0, 2], [2, 0]], float)
    monkeypatch.setattr(
        step, "vectors_of", lambda network, ids, condition: vectors[[token for (token,) in ids]]
    )
    kinds = ("text", "exchanged", "paraphrase", "unrelated")
    ids = dict(zip(kinds, ([[1], [1]], [[2], [4]], [[3], [3]], [[4], [4]]), strict=True))
    similarities = step.similarities(PARAMETERS, None, ids, "intact", {"position": "intact"})
    assert similarities.exchanged.value == pytest.approx(0.5**0.5 / 2)
    assert similarities.paraphrase.value == pytest.approx(0.6)
    assert similarities.unrelated.value == 0
    assert similarities.nearer == 0.5  # .71 and 0 against .6


def test_names_that_a_tokenizer_does_not_know_are_left_out():
    known = tokenizer_of(LETTERS)
    result = step.measure(job(languages=["japanese", "english"]), bert(64), known).as_json()
    japanese, english = result["languages"]
    assert (japanese["status"], english["status"]) == ("not run", "measured")
    assert (english["pairs"], english["left_out"]) == (6, 0)
    assert result["documents"] == 6
    only = step.measure(job(languages=["japanese"]), bert(64), known).as_json()
    assert only["status"] == "not run"
    assert "the names of no language" in only["reason"]


def test_sentences_that_are_cut_are_left_out():
    short = job()
    short.reading = Reading(family="bert", max_tokens=8)
    measured = step.measure(short, bert(), tokenizer_of(LETTERS)).as_json()
    assert measured["status"] == "not run"


def test_numbers_by_language_and_condition():
    measurement = made_up.exchanged_roles("minilm", False)
    quantities = numbers.QUANTITIES.read(measurement)
    assert set(quantities) == set(numbers.QUANTITIES.names)
    assert quantities["english.zero.exchanged"].value == 1
    assert quantities["english.intact.exchanged"].value == pytest.approx(0.98)
    assert quantities["japanese.zero.unrelated"].value == pytest.approx(0.3 - 0.012)
    assert quantities["japanese.intact.nearer"].value == pytest.approx(0.96)
    assert quantities["japanese.pairs"].value == 198
    measurement["languages"][1] |= {"conditions": [], "reason": "unknown names"}
    assert numbers.QUANTITIES.read(measurement)["japanese.intact.nearer"].reason == "unknown names"
    measurement["languages"] = measurement["languages"][:1]
    assert "no such sentences" in numbers.QUANTITIES.read(measurement)["japanese.pairs"].reason


def test_the_figure_shows_what_was_measured():
    measurement = made_up.exchanged_roles("minilm", False)
    drawn = figure.draw([measurement], SECTIONS.exchanged_roles, STYLE)
    lines = {line.get_label(): list(line.get_xdata()) for line in drawn.axes[0].lines}
    for language in measurement["languages"]:
        for condition in language["conditions"]:
            label = f"{language['language'].title()}, {display(condition['condition'])}"
            assert lines[label] == [condition[kind]["value"] for kind in figure.ROWS]
    nothing = {**measurement, "status": "not run", "reason": "no names"}
    drawn = figure.draw([nothing], SECTIONS.exchanged_roles, STYLE)
    assert "no names" in "\n".join(each.get_text() for each in texts(drawn))
