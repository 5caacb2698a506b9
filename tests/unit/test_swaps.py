"""Swapped words: by hand, in planted cases, and against the library's own losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.artifacts.files import (
    ArtifactError,
    sha256_file,
    write_sealed,
)
from posenc.artifacts.tables import write_table
from posenc.conditions.section import Condition
from posenc.datasets.documents import write_documents
from posenc.measurements.of_models import texts_of
from posenc.measurements.swaps import measure as step
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.swaps import exchanged, places, preferred
from posenc.models.load import load
from posenc.tokens.tokenized import Tokens

from .raw_files import content
from .runs import made_of_weights
from .small_models import saved
from .test_score_parts_measurement import llama

PARAMETERS = {
    "every": 1, "tokens": 14, "swaps": 2, "distances": [1, 3], "bootstrap_samples": 100,
    "confidence": 0.9, "seed": 3,
}  # fmt: skip
CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "single_token": {"position": "zero", "segments": 1},
    "zero_alibi": {
        "position": "zero",
        "mask": {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.3}},
    },
}
TEXTS = ["the film was not dull but the plot was slow", "too short", "a b a b a b a b c"]
WORDS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=9)


def laid_out(contents: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ids and words of a text between two special tokens."""
    numbers = [number for number, word in enumerate(contents) for _ in word]
    ids = [90, *(token for word in contents for token in word), 91]
    return np.array(ids), np.array([-1, *numbers, -1])


@given(WORDS, st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True))
def test_places_are_inner_words_that_differ(contents, distances):
    numbers = places(*laid_out(contents), distances).tolist()
    last = len(contents) - 1
    assert numbers == [
        place
        for place in range(len(contents))
        if place >= 1
        and all(place + d < last and contents[place] != contents[place + d] for d in distances)
    ]


@given(WORDS, st.data())
def test_a_swap_keeps_words_whole_and_undoes_itself(contents, data):
    ids, words = laid_out(contents)
    if len(contents) < 2:
        with pytest.raises(ValueError, match="are no two of 1 in order"):
            exchanged(words, 0, 1)
        return
    second = data.draw(st.integers(1, len(contents) - 1))
    first = data.draw(st.integers(0, second - 1))
    order = exchanged(words, first, second)
    swapped = [*contents]
    swapped[first], swapped[second] = swapped[second], swapped[first]
    expected, words_after = laid_out(swapped)
    np.testing.assert_array_equal(ids[order], expected)
    np.testing.assert_array_equal(order[exchanged(words_after, first, second)], range(len(ids)))


def test_a_bag_of_words_is_right_half_of_the_time():
    ids, words = laid_out([[0], [1, 2], [3], [1], [2]])
    costs = np.random.default_rng(0).uniform(5, 9, 100).astype(np.float32)  # [types]
    margins = [
        costs[ids[exchanged(words, first, second)]].sum() - costs[ids].sum()
        for first, second in ((0, 1), (1, 2), (1, 3))
    ]
    assert preferred(margins).tolist() == [0.5] * 3
    assert preferred([0.2, -0.2]).tolist() == [1, 0]


def write_text(folder: Path, texts: list[str]) -> tuple[Tokens, Path]:
    """One token a word, with the space before it; the token 2 begins each document."""
    ids, starts, ends = [], [], []
    types = {word: 3 + number for number, word in enumerate(dict.fromkeys(" ".join(texts).split()))}
    for text in texts:
        edges = np.cumsum([0, *(len(word) + 1 for word in text.split())]) - 1
        edges[0] = 0
        ids.append([2, *(types[word] for word in text.split())])
        starts.append([0, *edges[:-1].tolist()])
        ends.append([0, *edges[1:].tolist()])
    special = [[True, *[False] * (len(document) - 1)] for document in ids]
    names = [f"test/{number}" for number in range(len(texts))]
    source = folder / "documents" / "text.parquet"
    source.parent.mkdir(parents=True)
    rows = [
        {"document_id": name, "text": text, "split": "test"}
        for name, text in zip(names, texts, strict=True)
    ]
    write_documents(rows, source, content("imdb"), {"raw": "0" * 64})
    columns = {"document_id": names, "input_ids": ids, "starts": starts, "ends": ends,
               "special": special}  # fmt: skip
    metadata = {"bos": True, "inputs": {"documents": sha256_file(source)},
                "evaluation": {"split": "test"}}  # fmt: skip
    (folder / "tokens").mkdir()
    write_table(pa.table(columns), folder / "tokens/text.parquet", metadata)
    return Tokens(folder / "tokens/text.parquet"), source


@pytest.fixture
def text(tmp_path) -> tuple[Tokens, Path]:
    return write_text(tmp_path, TEXTS)


def job(family: str = "gpt2", max_tokens: int = 40, **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "conditions": CONDITIONS,
         "reading": {"family": family, "max_tokens": max_tokens}}
    )  # fmt: skip


def forms(text: Tokens, **changed) -> list[step.Form]:
    return step.forms_of(job(**changed).parameters, text, TEXTS, 40)


def test_swaps_of_a_document_are_its_own(text):
    tokens, _ = text
    all_of_them = forms(tokens)
    assert {form.document for form in all_of_them} == {0, 2}  # the second has no two inner words
    assert forms(tokens, every=2) == all_of_them
    assert forms(tokens) == all_of_them and forms(tokens, seed=4) != all_of_them
    for form in all_of_them:
        original = np.array(tokens.ids[form.document])
        moved = np.flatnonzero(original != form.ids)
        if form.distance:
            assert len(moved) == 2 and moved[1] - moved[0] == form.distance
            assert moved[0] >= 2 and moved[1] < len(original) - 1  # neither end, nor the first word
            assert form.after == moved[1] + 1
        else:
            assert moved.size == 0
    assert all(len(form.ids) <= 9 for form in forms(tokens, tokens=8, distances=[1]))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_losses_of_the_intact_model_are_the_library_s(tmp_path, text, family):
    model = llama() if family == "llama" else load(saved(family, tmp_path / "model"), family)
    tokens, _ = text
    result = step.measure(job(family), model, tokens, TEXTS, {}).as_json()
    every = forms(tokens)

    def losses(ids: list[int]) -> np.ndarray:
        with torch.inference_mode():
            logits = model(torch.tensor([ids])).logits[0]
        targets = torch.tensor(ids[1:])[:, None]
        return -logits.log_softmax(-1)[:-1].gather(-1, targets)[:, 0].double().numpy()

    for place, distance in enumerate((1, 3)):
        margins, later = {0: [], 2: []}, {0: [], 2: []}
        for form in every:
            if form.distance == distance:
                change = losses(form.ids) - losses(tokens.ids[form.document])
                margins[form.document].append(change.sum())
                later[form.document].append(change[form.after :].sum())
        count = [len(of_document) for of_document in margins.values()]
        entry = result["conditions"][0]["distances"][place]
        wins = {
            name: [margin > 0 for margin in of_document] for name, of_document in margins.items()
        }
        for part, values in (("preference", wins), ("margin", margins), ("later", later)):
            sums = [sum(of_document) for of_document in values.values()]
            expected = ratio_bootstrap(sums, count, 100, 0.9, 3).as_json()
            assert entry[part] == pytest.approx(expected, abs=2e-5)
        assert result["swaps"] == sum(count)


def test_what_only_sees_the_token_before_cannot_tell_later_tokens(tmp_path, text):
    """Nor can one layer without positions: it knows which tokens stood before, in no order."""
    tokens, _ = text
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")

    def changes(network, name: str) -> np.ndarray:
        """Of each swap, the change of each later token's loss."""
        every = forms(tokens)
        units = {name: Condition.model_validate(CONDITIONS[name])}
        nll = step.losses(network, every, units, {})[:, 0]
        whole = {form.document: nll[row] for row, form in enumerate(every) if not form.distance}
        return np.concatenate(
            [
                (nll[row] - whole[form.document])[form.after : len(form.ids) - 1]
                for row, form in enumerate(every)
                if form.distance
            ]
        )

    assert np.abs(changes(model, "single_token")).max() < 1e-5
    # The second layer reads states of tokens that have themselves seen what stood before them.
    assert np.abs(changes(model, "zero")).max() > 1e-2
    del model.transformer.h[1:]
    model.config.num_hidden_layers = 1
    assert np.abs(changes(model, "zero")).max() < 1e-5
    assert np.abs(changes(model, "intact")).max() > 1e-2


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"family": "bert"}, "no language-model head"),
        ({"distances": [30]}, "too few documents have two words 30 apart to swap"),
    ],
)
def test_what_cannot_be_measured_says_why(text, changed, reason):
    result = step.measure(job(**changed), None, text[0], TEXTS, {}).as_json()
    assert result["status"] == "not run" and result["reason"] == reason


def test_tokens_of_other_documents_are_refused(tmp_path, text):
    _, other = write_text(tmp_path / "other", ["another film"])
    with pytest.raises(ArtifactError, match="was not made of"):
        texts_of(other, text[0])
    assert texts_of(text[1], text[0]) == TEXTS


def test_the_file_says_what_it_is_made_of(tmp_path, text):
    tokens, source = text
    masks = tmp_path / "masks"
    masks.mkdir()
    write_sealed(masks / "masks.json", {"masks": {"other": "1" * 64}})
    result = made_of_weights(step, tmp_path, tokens, job(), masks, source.parent)
    for entry in result["conditions"]:
        for of_distance in entry["distances"]:
            share = of_distance["preference"]
            assert 0 <= share["low"] <= share["value"] <= share["high"] <= 1
