"""Classes of tokens by hand; effects by brute force and in planted cases; costs of the library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.config.labels import display
from posenc.measurements.token_classes import figure as figure
from posenc.measurements.token_classes import measure as step
from posenc.measurements.token_classes import quantities as numbers
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.class_effects import FEWEST, ClassSums, permuted_within
from posenc.metrics.ngram import KneserNey
from posenc.metrics.token_classes import (
    CONTENT,
    CONTINUATION,
    FUNCTION,
    NEVER,
    PUNCTUATION,
    in_sentence,
    last_seen,
    levels_of,
    word_classes,
)
from posenc.models.load import load

from . import synthetic_positions as made_up
from .small_models import saved
from .test_figures import SECTIONS, STYLE, texts
from .test_swaps import CONDITIONS, write_text

BOOTSTRAP = {"samples": 200, "confidence": 0.9, "seed": 2}


def spans(text: str, *pieces: str) -> tuple[list[int], list[int], list[bool]]:
    """Where pieces that make up a text begin and end; an empty one is a special token."""
    assert "".join(pieces) == text
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return [0, *ends[:-1]], ends, [piece == "" for piece in pieces]


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("The film", ("", "The", " film"), (-1, FUNCTION, CONTENT)),
        ("pre-like it.", ("pre", "-", "like", " it", "."),
         (CONTENT, PUNCTUATION, CONTENT, FUNCTION, PUNCTUATION)),
        ("dullness", ("dull", "ness"), (CONTENT, CONTINUATION)),
        ("can't been seen", ("can", "'t", " been", " seen"),
         (FUNCTION, CONTINUATION, FUNCTION, CONTENT)),
        ("He's isn't Kim's",
         ("He", "'s", " isn", "'t", " Kim", "'s"),
         (FUNCTION, CONTINUATION, FUNCTION, CONTINUATION, CONTENT, CONTINUATION)),
        (" \n (the", (" \n", " (", "the"), (PUNCTUATION, PUNCTUATION, FUNCTION)),
        ('"The', ('"The',), (FUNCTION,)),
        ("1984 映画", ("19", "84", " 映", "画"), (CONTENT, CONTINUATION, CONTENT, CONTINUATION)),
    ],
)  # fmt: skip
def test_words_by_hand(text, pieces, expected):
    assert word_classes(text, *spans(text, *pieces)).tolist() == list(expected)


@given(st.lists(st.integers(0, 3), max_size=12))
def test_the_last_occurrence_is_the_nearest_one_before(ids):
    expected = [
        min((j for j in range(1, i + 1) if ids[i - j] == ids[i]), default=NEVER)
        for i in range(len(ids))
    ]
    assert last_seen(ids).tolist() == expected


def test_sentences_end_with_marks_before_white_space_or_lines():
    text = 'It cost 3.5 now.. "No!" he\nsaid'
    pieces = (
        "",
        "It",
        " cost",
        " 3",
        ".",
        "5",
        " now",
        "..",
        ' "',
        "No",
        '!"',
        " he",
        "\n",
        "said",
    )
    places = in_sentence(text, *spans(text, *pieces)[1:]).tolist()
    assert places == [-1, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0, 1, 0]


def test_levels_begin_with_their_edge():
    assert levels_of([0, 1, 4, 5, 99], (1, 5)).tolist() == [0, 1, 1, 2, 2]


def drawn(documents: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes of two factors, and documents of many lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(6, 20, documents)
    document = np.repeat(np.arange(documents), lengths)
    first = generator.integers(0, 3, len(document))
    # The second follows the first.
    second = np.where(generator.random(len(document)) < 0.7, first > 0, first == 0).astype(int)
    return np.stack([first, second], axis=1), document


def test_effects_are_those_of_least_squares_with_a_column_per_document():
    codes, document = drawn(12)
    values = np.random.default_rng(1).normal(size=len(document)) + codes[:, 0] + document
    effects = ClassSums(codes, [3, 2], document).effects(values, **BOOTSTRAP)
    dummies = np.concatenate([codes[:, [f]] == np.arange(n) for f, n in ((0, 3), (1, 2))], axis=1)
    whole = np.concatenate([dummies, document[:, None] == np.arange(12)], axis=1).astype(float)
    slopes = np.linalg.lstsq(whole, values, rcond=None)[0]
    fitted = whole @ slopes
    within = values - (np.bincount(document, values) / np.bincount(document))[document]
    expected = 1 - np.square(values - fitted).sum() / np.square(within).sum()
    assert effects.explained == pytest.approx(expected, rel=1e-9)
    place = 0
    for factor, count in ((0, 3), (1, 2)):
        own = slopes[place : place + count]
        # Everything else as it is: all tokens, once with each class in turn.
        rest = values.mean() - own[codes[:, factor]].mean()
        np.testing.assert_allclose(effects.adjusted.value[place : place + count], own + rest)
        for level in range(count):
            chosen = codes[:, factor] == level
            assert effects.mean.value[place + level] == pytest.approx(values[chosen].mean())
            share = values[chosen].sum() / values.sum()
            assert effects.share.value[place + level] == pytest.approx(share)
        others = np.delete(whole, np.s_[place : place + count], axis=1)
        fitted = others @ np.linalg.lstsq(others, values, rcond=None)[0]
        less = 1 - np.square(values - fitted).sum() / np.square(within).sum()
        assert effects.unique[factor] == pytest.approx(expected - less, abs=1e-9)
        place += count
    assert effects.alone[0] == pytest.approx(effects.explained - effects.unique[1], abs=1e-9)


def test_intervals_are_those_of_resampled_documents():
    codes, document = drawn(15)
    values = np.random.default_rng(1).normal(size=len(document)) + codes[:, 0]
    sums = ClassSums(codes, [3, 2], document)
    effects = sums.effects(values, **BOOTSTRAP)
    for level in range(3):
        chosen = codes[:, 0] == level
        parts = (np.bincount(document, weights, 15) for weights in (values * chosen, chosen))
        expected = ratio_bootstrap(*parts, 200, 0.9, 2)
        assert effects.mean.low[level] == pytest.approx(expected.low)
        assert effects.mean.high[level] == pytest.approx(expected.high)
    # One document three times, one never: as if it had been written out.
    weights = np.ones(15)
    weights[[3, 7]] = 3, 0
    drawn_documents = np.repeat(np.arange(15), weights.astype(int))  # [resampled]
    rows = [np.flatnonzero(document == number) for number in drawn_documents]
    copies = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    rows = np.concatenate(rows)
    written_out = ClassSums(codes[rows], [3, 2], copies).effects(values[rows], **BOOTSTRAP)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "posenc.metrics.class_effects.resampling_counts",
            lambda *given: iter([weights[None].astype(int)]),
        )
        resampled = sums.effects(values, **BOOTSTRAP)
    for key in ("mean", "adjusted", "share"):
        np.testing.assert_allclose(getattr(resampled, key).low, getattr(written_out, key).value)


def test_a_class_is_not_blamed_for_what_it_shares_with_another_or_for_its_documents():
    codes, document = drawn(60, seed=4)
    generator = np.random.default_rng(5)
    # The first factor's classes cost 0, 1 and 2; the second's nothing. Documents differ widely.
    values = codes[:, 0] + 9 * np.sin(document) + generator.normal(scale=0.3, size=len(document))
    effects = ClassSums(codes, [3, 2], document).effects(values, **BOOTSTRAP)
    raw, adjusted = np.diff(effects.mean.value[3:])[0], np.diff(effects.adjusted.value[3:])[0]
    assert raw > 0.4 and abs(adjusted) < 0.1
    np.testing.assert_allclose(np.diff(effects.adjusted.value[:3]), 1, atol=0.1)
    assert effects.explained > 0.8 and effects.unique[0] > 0.5 > 0.01 > effects.unique[1]
    order = permuted_within(document, generator)
    permuted = ClassSums(codes[order], [3, 2], document).effects(values, **BOOTSTRAP)
    assert permuted.explained < 0.02
    assert ClassSums(codes[order], [3, 2], document).explained(values) == permuted.explained


def test_a_class_of_few_documents_is_not_spoken_of():
    codes, document = drawn(FEWEST + 3)
    codes[codes[:, 0] == 2, 0] = 1
    first = np.unique(document, return_index=True)[1]  # [documents]
    codes[first[: FEWEST - 1], 0] = 2
    sums = ClassSums(codes, [3, 2], document)
    assert sums.known.tolist() == [True, True, False, True, True]
    effects = sums.effects(np.ones(len(document)), **BOOTSTRAP)
    assert (
        np.isnan(effects.adjusted.low[2]) and np.isfinite(effects.adjusted.low[[0, 1, 3, 4]]).all()
    )
    assert effects.explained == 0
    with pytest.raises(ValueError, match="none of its factor's"):
        ClassSums(codes, [2, 2], document)


def test_permuted_tokens_stay_in_their_document():
    document = np.repeat([0, 1, 2], [40, 1, 30])
    order = permuted_within(document, np.random.default_rng(0))
    np.testing.assert_array_equal(document[order], document)
    np.testing.assert_array_equal(np.sort(order), np.arange(71))
    assert (order != np.arange(71)).sum() > 50


TEXTS = [
    "the film was not dull but the plot was slow",
    "it was dull. it was slow.",
    "a b a b c",
] * 4
PARAMETERS = {
    "every": 1, "tokens": 14, "conditions": list(CONDITIONS), "bootstrap_samples": 100,
    "confidence": 0.9, "seed": 3,
}  # fmt: skip


def job(family: str = "gpt2", **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "conditions": CONDITIONS,
         "reading": {"family": family, "max_tokens": 40}}
    )  # fmt: skip


def test_surprisal_is_of_a_trigram_that_saw_other_documents():
    generator = np.random.default_rng(0)
    ids = [generator.integers(0, 6, n) for n in (9, 7, 1, 8, 12)]
    surprisals = step.surprisals(ids, list(range(5)), 6)
    assert [len(values) for values in surprisals] == [8, 6, 0, 7, 11]
    odd = KneserNey(np.concatenate(ids[1::2]), [7, 8], 6, 3)
    np.testing.assert_allclose(surprisals[4], odd.token_nll(ids[4], [12]))
    even = KneserNey(np.concatenate(ids[::2]), [9, 1, 12], 6, 3)
    np.testing.assert_allclose(surprisals[3], even.token_nll(ids[3], [8]))
    np.testing.assert_array_equal(step.surprisals(ids, [4], 6)[0], surprisals[4])


def test_costs_are_differences_of_the_library_s_losses(tmp_path):
    tokens, _ = write_text(tmp_path, TEXTS)
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    result = step.measure(job(), model, tokens, TEXTS, {}).as_json()
    losses = {}
    for name, weight in (("intact", model.transformer.wpe.weight.detach().clone()), ("zero", None)):
        with torch.no_grad():
            kept = model.transformer.wpe.weight.clone()
            model.transformer.wpe.weight.copy_(weight if weight is not None else 0 * kept)
            rows = []
            for ids in tokens.ids:
                logits = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
                rows.append(-logits.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].numpy())
            model.transformer.wpe.weight.copy_(kept)
        losses[name] = np.concatenate(rows)
    cost = losses["zero"] - losses["intact"]
    assert result["documents"] == len(TEXTS) and result["tokens"] == len(cost)
    assert result["intact"]["value"] == pytest.approx(losses["intact"].mean(), abs=1e-5)
    assert [condition["condition"] for condition in result["conditions"]] == [*CONDITIONS][1:]
    zero = result["conditions"][0]
    assert zero["delta_nll"]["value"] == pytest.approx(cost.mean(), abs=1e-5)
    words = {level["class"]: level for level in zero["factors"][0]["classes"]}
    # One token a word: here the last words of sentences hold their full stops.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    known = np.array([w.strip(".") in ENGLISH_STOP_WORDS for text in TEXTS for w in text.split()])
    # "b" and "c" are content words, "a" is not.
    for name, chosen in (("function word", known), ("content word", ~known)):
        assert words[name]["tokens"] == chosen.sum()
        assert words[name]["mean"]["value"] == pytest.approx(cost[chosen].mean(), abs=1e-5)
    assert words["punctuation"]["mean"] is None and words["punctuation"]["tokens"] == 0
    seen = np.concatenate([last_seen(ids)[1:] for ids in tokens.ids])
    by_age = {level["class"]: level for level in zero["factors"][1]["classes"]}
    assert by_age["never"]["tokens"] == (seen == NEVER).sum()
    recent = (seen > 0) & (seen < 5)
    assert by_age["1 to 4 tokens ago"]["mean"]["value"] == pytest.approx(
        cost[recent].mean(), abs=1e-5
    )
    _, alike = step.results(
        job(), np.zeros((9, 5), int), np.repeat(range(3), 3), np.ones((9, len(CONDITIONS)))
    )
    levels = [level for factor in alike[0].factors for level in factor.classes]
    assert {level.share for level in levels} == {None}, "nothing is lost, of which to have a share"
    for factor in zero["factors"]:
        assert sum(level["tokens"] for level in factor["classes"]) == len(cost)
    assert zero["explained"] > zero["permuted"] > 0
    assert [len(f["classes"]) for f in zero["factors"]] == [len(c) for c in step.FACTORS.values()]


def test_documents_are_cut_and_left_out(tmp_path):
    tokens, _ = write_text(tmp_path, TEXTS)
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    result = step.measure(job(every=3, tokens=5), model, tokens, TEXTS, {}).as_json()
    assert (result["documents"], result["tokens"]) == (4, 20)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"family": "bert"}, "no language-model head"),
        ({"every": 99}, "too few documents have two tokens"),
    ],
)
def test_what_cannot_be_measured_says_why(tmp_path, changed, reason):
    tokens, _ = write_text(tmp_path, TEXTS)
    network = load(saved("gpt2", tmp_path / "model"), "gpt2")
    result = step.measure(job(**changed), network, tokens, TEXTS, {}).as_json()
    assert result["status"] == "not run" and result["reason"] == reason


def test_numbers_of_classes():
    specs = dict.fromkeys(("intact", "zero", "zero_closed"))
    measurement = made_up.token_classes("smollm2", "reviews", specs)
    zero = measurement["conditions"][0]
    zero["factors"][0]["classes"][0]["adjusted"] = made_up.estimate(0.7)
    zero["factors"][0]["classes"][3]["mean"] = None
    named = numbers.QUANTITIES.read(measurement)
    assert set(named) == set(numbers.QUANTITIES.names)
    assert named["zero.punctuation.adjusted"].value == 0.7
    assert named["zero.never.mean"].value == zero["factors"][1]["classes"][0]["mean"]["value"]
    assert named["zero_closed.delta_nll"].value == pytest.approx(0.2)
    assert named["zero.explained"].value == 0.03
    assert "too few documents" in named["zero.continuation.mean"].reason
    assert "does not evaluate" in named["zero_fitted.content.share"].reason
    factors = {name: set(classes) for name, classes in step.FACTORS.items()}
    assert all(level in factors[factor] for factor, level in numbers.CLASSES.values())


def test_the_figure_shows_both_means():
    specs = dict.fromkeys(("intact", "zero"))
    first = made_up.token_classes("smollm2", "sample_reviews", specs)
    other = made_up.token_classes("decoder", "sample_reviews", specs)
    third = made_up.token_classes("decoder_1", "sample_reviews", specs)
    first["conditions"][0]["factors"][1]["classes"][4] |= {"mean": None, "adjusted": None}
    drawn = figure.draw([other, first, third], SECTIONS.token_classes, STYLE)
    named = [display(name) for name in ("decoder", "smollm2")]
    assert [axes.get_title().split("\n")[0] for axes in drawn.axes] == named
    levels = [level for factor in first["conditions"][0]["factors"] for level in factor["classes"]]
    for key, label in (
        ("mean", "mean of the class"),
        ("adjusted", "adjusted for the other classes"),
    ):
        shown = [line.get_xdata()[0] for line in drawn.axes[1].lines if line.get_label() == label]
        assert shown == [level[key]["value"] for level in levels if level[key]]
    nothing = {**first, "status": "not run", "reason": "no language-model head"}
    drawn = figure.draw([nothing], SECTIONS.token_classes, STYLE)
    assert "no language-model head" in " ".join(text.get_text() for text in texts(drawn))
