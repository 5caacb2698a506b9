"""Order of pairs: planted tables, brute force, and the library's own log-probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from posenc.artifacts.files import write_sealed
from posenc.conditions.section import Condition
from posenc.measurements.joint_order import measure as step
from posenc.metrics.bootstrap import ratio_bootstrap
from posenc.metrics.joint_order import likeness, order_of
from posenc.models.load import load

from .runs import made_of_weights
from .small_models import saved
from .test_score_parts_measurement import llama
from .test_swaps import CONDITIONS, write_text

TEXTS = ["the film was not dull but the plot was slow", "too short", "a b a b a b a b c",
         "the plot was dull again"]  # fmt: skip
PARAMETERS = {"documents": 9, "tokens": 4, "candidates": 5, "conditions": list(CONDITIONS),
              "bootstrap_samples": 100, "confidence": 0.9, "seed": 3}  # fmt: skip
SIZES = st.integers(2, 6)
SEEDS = st.integers(0, 10**6)


def drawn(seed: int, words: int, spread: float = 2.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(words, words)) * spread


def joint(logs: np.ndarray) -> np.ndarray:
    return np.exp(logs) / np.exp(logs).sum()


def different(logs: np.ndarray) -> dict[tuple[int, int], float]:
    """Probabilities of pairs of different words, among these."""
    table = np.exp(logs)
    pairs = list(itertools.permutations(range(len(logs)), 2))
    whole = sum(table[pair] for pair in pairs)
    return {pair: table[pair] / whole for pair in pairs}


@given(SEEDS, SIZES)
def test_a_product_of_marginals_has_no_order_of_pairs(seed, words):
    first, second = drawn(seed, words)[:2]
    result = order_of(first[:, None] + second)
    for part in ("dependence", "interaction"):
        assert result[part] == pytest.approx(0, abs=1e-12)
    assert result["places"] == pytest.approx(float(result["order"]), rel=1e-9)
    assert result["additive"] == pytest.approx(1, abs=1e-9)
    bag = order_of(first[:, None] + first)
    for part in ("dependence", "order", "places", "interaction", "divergence", "log_ratio"):
        assert bag[part] == pytest.approx(0, abs=1e-12)


@given(SEEDS, SIZES)
def test_places_that_may_be_exchanged_depend_without_order(seed, words):
    """Pólya's urn: each word drawn adds one more of it. Its draws may be exchanged."""
    balls = np.random.default_rng(seed).uniform(0.2, 4, words)
    again = balls + np.eye(words)  # [first, words]
    logs = np.log(balls)[:, None] + np.log(again / again.sum(axis=1, keepdims=True))
    result = order_of(logs)
    for part in ("order", "places", "interaction", "divergence"):
        assert result[part] == pytest.approx(0, abs=1e-12)
    assert result["dependence"] > 1e-4


def test_words_in_a_circle_have_order_that_no_places_give():
    result = order_of(np.log([[1.0, 4.0, 1.0], [1.0, 1.0, 4.0], [4.0, 1.0, 1.0]]))
    assert result["order"] == pytest.approx(0.6) == result["interaction"]
    assert result["log_ratio"] == pytest.approx(np.log(4))
    for part in ("places", "additive"):
        assert result[part] == pytest.approx(0, abs=1e-12)
    one_way = order_of(np.array([[0.0, 0.0], [-40.0, 0.0]]))
    assert one_way["order"] == pytest.approx(1)
    assert one_way["divergence"] == pytest.approx(np.log(2))


@given(SEEDS, SIZES)
def test_order_by_brute_force(seed, words):
    logs = drawn(seed, words)
    table, pairs, result = joint(logs), different(logs), order_of(logs)
    first, second = table.sum(axis=1), table.sum(axis=0)
    assert result["repeats"] == pytest.approx(sum(table[a, a] for a in range(words)))
    assert result["dependence"] == pytest.approx(
        sum(
            table[a, b] * np.log(table[a, b] / first[a] / second[b])
            for a in range(words)
            for b in range(words)
        )
    )
    assert result["order"] == pytest.approx(
        sum(abs(own - pairs[b, a]) for (a, b), own in pairs.items()) / 2
    )
    assert result["divergence"] == pytest.approx(
        sum(own * np.log(2 * own / (own + pairs[b, a])) for (a, b), own in pairs.items())
    )
    assert result["log_ratio"] == pytest.approx(
        sum(own * abs(np.log(own / pairs[b, a])) for (a, b), own in pairs.items())
    )
    product = np.outer(first, second)
    whole = sum(table[pair] for pair in pairs)
    for part, each in (("places", product), ("interaction", table - product)):
        assert result[part] == pytest.approx(
            sum(abs(each[a, b] - each[b, a]) for a, b in pairs) / 2 / whole
        )
    assert result["order"] <= result["places"] + result["interaction"] + 1e-12
    # Scores by weighted least squares on the list of pairs.
    roots = np.sqrt([own + pairs[b, a] for (a, b), own in pairs.items()])
    ratios = np.array([np.log(own / pairs[b, a]) for (a, b), own in pairs.items()])
    design = np.zeros((len(pairs), words))
    for row, (a, b) in enumerate(pairs):
        design[row, a], design[row, b] = 1, -1
    fitted = design @ np.linalg.lstsq(design * roots[:, None], ratios * roots, rcond=None)[0]
    rest = ((ratios - fitted) * roots) ** 2
    assert result["additive"] == pytest.approx(1 - rest.sum() / ((ratios * roots) ** 2).sum())


@given(SEEDS, SIZES)
def test_names_of_words_scale_and_direction_do_not_matter(seed, words):
    logs, other = drawn(seed, words), drawn(seed + 1, words)
    order = np.random.default_rng(seed).permutation(words)
    moved, moved_other = (each[np.ix_(order, order)] - 3 for each in (logs, other))
    for result, again in (
        (order_of(logs), order_of(moved)),
        (order_of(logs), order_of(logs.T)),
        (likeness(logs, other), likeness(moved, moved_other)),
    ):
        assert again == {
            part: pytest.approx(float(number), abs=1e-9) for part, number in result.items()
        }
    stacked = order_of(np.stack([logs, other]))
    for place, each in enumerate((logs, other)):
        for part, value in order_of(each).items():
            assert stacked[part][place] == pytest.approx(float(value), abs=1e-12)


@given(SEEDS, SIZES)
def test_what_is_lost_of_pairs_is_words_and_their_order(seed, words):
    ours, theirs = drawn(seed, words), drawn(seed + 1, words)
    pairs, other, result = different(ours), different(theirs), likeness(ours, theirs)
    lost = sum(own * np.log(own / pairs[pair]) for pair, own in other.items())
    assert result["words_lost"] + result["order_lost"] == pytest.approx(lost)
    sets = [
        {pair: table[pair] + table[pair[::-1]] for pair in itertools.combinations(range(words), 2)}
        for table in (pairs, other)
    ]
    of_sets = sum(own * np.log(own / sets[0][pair]) for pair, own in sets[1].items())
    assert result["words_lost"] == pytest.approx(of_sets, abs=1e-12)
    same = sum(
        own
        for (a, b), own in other.items()
        if (pairs[a, b] > pairs[b, a]) == (other[a, b] > other[b, a])
    )
    assert result["agreement"] == pytest.approx(same)


@given(SEEDS, SIZES)
def test_correlations_by_brute_force(seed, words):
    tables = drawn(seed, words), drawn(seed + 1, words)
    pairs, result = different(tables[1]), likeness(*tables)
    weights = [own + pairs[b, a] for (a, b), own in pairs.items()]
    whole = [joint(table) for table in tables]
    beyond = [
        probabilities / np.outer(probabilities.sum(axis=1), probabilities.sum(axis=0))
        for probabilities in whole
    ]
    for part, both in (("correlation", whole), ("interaction_correlation", beyond)):
        ratios = [
            [np.log(probabilities[a, b] / probabilities[b, a]) for a, b in pairs]
            for probabilities in both
        ]
        (ours, mixed), (_, theirs) = np.cov(ratios, aweights=weights)
        assert result[part] == pytest.approx(mixed / np.sqrt(ours * theirs))


@given(SEEDS, SIZES)
def test_a_table_is_like_itself_and_unlike_its_transpose(seed, words):
    logs = drawn(seed, words)
    itself, turned = likeness(logs, logs), likeness(logs.T, logs)
    assert itself["agreement"] == itself["correlation"] == pytest.approx(1)
    assert itself["words_lost"] == itself["order_lost"] == 0
    assert turned["agreement"] == pytest.approx(0, abs=1e-12)
    assert turned["correlation"] == pytest.approx(-1) == turned["interaction_correlation"] or (
        turned["interaction_correlation"] == 0
    )
    assert turned["words_lost"] == pytest.approx(0, abs=1e-12)
    coin = likeness(logs + logs.T, logs)
    assert coin["agreement"] == 0.5 and coin["correlation"] == 0
    assert coin["order_lost"] == pytest.approx(float(order_of(logs)["divergence"]), abs=1e-12)


@pytest.mark.parametrize("logs", [[[0.0]], [[0.0, -np.inf], [0.0, 0.0]]])
def test_what_is_no_table_is_refused(logs):
    with pytest.raises(ValueError, match="two words at least, and finite"):
        order_of(logs)


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path, TEXTS)[0]


def job(family: str = "gpt2", max_tokens: int = 40, **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "conditions": CONDITIONS,
         "reading": {"family": family, "max_tokens": max_tokens}}
    )  # fmt: skip


def network(family: str, tmp_path):
    return llama() if family == "llama" else load(saved(family, tmp_path / "model"), family)


def logs_of(model, ids: list[int]) -> np.ndarray:
    """The library's own log-probabilities, [tokens, vocabulary]."""
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].double().log_softmax(-1).numpy()


def test_contexts_are_beginnings_of_documents_that_are_long_enough(text):
    contexts = step.contexts_of(job().parameters, text, 40)
    assert [len(context.ids) for context in contexts] == [5, 5, 3]  # the second has three tokens
    for context, number in zip(contexts, (0, 2, 3), strict=True):
        assert [*context.ids, *context.following] == list(text.ids[number])[: len(context.ids) + 2]
    assert [len(context.ids) for context in step.contexts_of(job().parameters, text, 6)] == [
        4, 4, 3,
    ]  # fmt: skip
    assert len(step.contexts_of(job(documents=2).parameters, text, 40)) == 2


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_pairs_have_the_library_s_probabilities(tmp_path, text, family):
    model, one_job = network(family, tmp_path), job(family)
    measurement = step.measure(one_job, model, text, {}).as_json()
    contexts = step.contexts_of(one_job.parameters, text, 40)
    near, far, chosen = [], [], []
    for context in contexts:
        ids, (true, between) = context.ids, context.following
        after = logs_of(model, [*ids, true])[-2:].max(axis=0)  # [vocabulary]
        chosen.append(np.argsort(-after)[:5])
        near.append([]), far.append([])
        for a in chosen[-1].tolist():
            logs = logs_of(model, [*ids, a, between])[-3:]  # [places, vocabulary]
            near[-1].append(logs[0, a] + logs[1, chosen[-1]])
            far[-1].append(logs[0, a] + logs[1, between] + logs[2, chosen[-1]])
    intact, other = measurement["conditions"][0], measurement["other"]

    def same(estimate: dict, values: list) -> None:
        expected = ratio_bootstrap(values, [1] * len(values), 100, 0.9, 3).as_json()
        assert estimate == pytest.approx(expected, abs=2e-5)

    same(intact["mass"], [np.exp(table).sum() for table in near])
    same(
        intact["mass_first"],
        [
            np.exp(logs_of(model, context.ids)[-1, own]).sum()
            for context, own in zip(contexts, chosen, strict=True)
        ],
    )
    for place, tables in enumerate((near, far)):
        for part in ("order", "interaction", "dependence", "log_ratio"):
            values = [float(order_of(table)[part]) for table in tables]
            same(intact["distances"][place][part], values)
    # The control: the same pairs after the beginning of the next document.
    turned = [
        [(logs := logs_of(model, [*there.ids, a])[-2:])[0, a] + logs[1, own] for a in own.tolist()]
        for there, own in zip([*contexts[1:], contexts[0]], chosen, strict=True)
    ]
    same(other["mass"], [np.exp(table).sum() for table in turned])
    lost = [float(likeness(*both)["order_lost"]) for both in zip(turned, near, strict=True)]
    same(other["distances"][0]["order_lost"], lost)


def test_all_tokens_have_all_the_probability(tmp_path, text):
    measurement = step.measure(job(candidates=60), network("gpt2", tmp_path), text, {}).as_json()
    assert measurement["candidates"] == 40  # the vocabulary
    for entry in (*measurement["conditions"], measurement["other"]):
        for part in ("mass", "mass_first"):
            assert entry[part]["value"] == pytest.approx(1, abs=1e-5)


def test_places_apart_are_independent_for_what_only_sees_the_token_before(tmp_path, text):
    """It expects b after x and x after a, whatever else stands there: a product of marginals."""
    measurement = step.measure(job(), network("gpt2", tmp_path), text, {}).as_json()
    by_name = {entry["condition"]: entry["distances"] for entry in measurement["conditions"]}
    near, far = by_name["single_token"]
    for part in ("dependence", "interaction"):
        assert far[part]["value"] == pytest.approx(0, abs=1e-5) and near[part]["value"] > 1e-3
        assert by_name["zero"][1][part]["value"] > 1e-4 < by_name["intact"][1][part]["value"]
    assert far["additive"]["value"] == pytest.approx(1, abs=1e-4)
    for distance in (0, 1):
        itself, without = by_name["intact"][distance], by_name["zero"][distance]
        assert itself["agreement"]["value"] == 1 and itself["order_lost"]["value"] == 0
        assert without["order_lost"]["low"] > 0
        assert itself["recovered"]["value"] == 1 and without["recovered"]["value"] == 0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"family": "bert"}, "no language-model head"),
        ({"texts": ["too short", "a b c d e f"]}, "too few documents have 6 tokens"),
    ],
)
def test_what_cannot_be_measured_says_why(tmp_path, text, changed, reason):
    own = changed.pop("texts", None)
    if own:
        text = write_text(tmp_path / "own", own)[0]
    measurement = step.measure(job(**changed), None, text, {}).as_json()
    assert measurement["status"] == "not run" and measurement["reason"] == reason


def test_conditions_are_compared_with_the_intact_model():
    with pytest.raises(ValidationError, match="intact is not among them"):
        job(conditions=["zero"])


def test_the_file_says_what_it_is_made_of(tmp_path, text):
    masks = tmp_path / "masks"
    masks.mkdir()
    write_sealed(masks / "masks.json", {"masks": {"other": "1" * 64}})
    measurement = made_of_weights(step, tmp_path, text, job(), masks)
    assert [entry["condition"] for entry in measurement["conditions"]] == list(CONDITIONS)
    assert Condition.model_validate(measurement["conditions"][1]["spec"]) == Condition(
        position="zero"
    )
    for entry in measurement["conditions"]:
        assert [row["distance"] for row in entry["distances"]] == [1, 2]
        for row in entry["distances"]:
            for part in ("order", "agreement", "repeats"):
                assert 0 <= row[part]["low"] <= row[part]["value"] <= row[part]["high"] <= 1
