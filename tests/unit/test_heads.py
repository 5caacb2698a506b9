"""Attention mass by offset and types of heads: loops, planted heads, the step and its figure."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.special import softmax

from posenc.artifacts.activations import INDEX, SCHEMA, ActivationStore, shard_name
from posenc.artifacts.files import ArtifactError, sha256_file, write_json
from posenc.artifacts.tables import write_table
from posenc.drawing.command import read_measurements
from posenc.figures import head_offsets as figure
from posenc.measurements.heads import measure as step
from posenc.measurements.heads.declaration import Heads
from posenc.metrics import heads as measures
from posenc.metrics.patterns import attention_pattern

from . import synthetic
from .damage import call
from .runs import result_of
from .test_figures import check_texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = Heads(
    documents=None, offsets=4, types=3, bootstrap_samples=100, confidence=0.9, seed=0
)
LENGTHS = [[9, 14, 6], [11, 3]]  # documents of two shards
D_HEAD = 16
KINDS = ("previous", "next", "self", "first", "broad")
INTACT = {"position": "intact", "embeddings": "intact", "mask": None, "segments": None}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def planted(kind: str, length: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys [tokens, d_head] of a head that looks at one place, or everywhere."""
    angle = np.arange(length)[:, None] * 2 * np.pi / np.array([3, 5, 7, 11, 13, 17, 19, 23])
    turned = {
        shift: np.hstack([np.cos(angle + shift * angle[1]), np.sin(angle + shift * angle[1])])
        for shift in (-1, 0, 1)
    }  # [tokens, d_head] each
    noise = 0.05 * rng.normal(size=(2, length, D_HEAD))
    if kind == "broad":
        return tuple(noise)
    if kind == "first":
        keys = np.zeros((length, D_HEAD))
        keys[0] = 10
        return np.ones((length, D_HEAD)) + noise[0], keys
    shift = {"previous": -1, "next": 1, "self": 0}[kind]
    return 20 * turned[shift] + noise[0], turned[0] + noise[1]


def write_store(folder, condition="intact", spec=None, causal=False, model="toy", scale=1.0):
    """A store whose heads are KINDS, reversed in the second layer."""
    folder.mkdir(parents=True)
    rng, files = generator(5), []
    for number, lengths in enumerate(LENGTHS):
        # [2, layers, heads, tokens, d_head]
        both = np.concatenate(
            [
                [[np.stack([planted(kind, n, rng) for kind in order], axis=1)
                  for order in (KINDS, KINDS[::-1])]]
                for n in lengths
            ],
            axis=4,
        )[0].swapaxes(0, 1)  # fmt: skip
        special = np.zeros(sum(lengths), bool)
        special[np.cumsum(lengths) - 1] = special[np.cumsum(lengths) - lengths] = True
        name = shard_name(number)
        with np.errstate(over="ignore"):
            queries, keys = (np.ascontiguousarray(vectors, np.float16) for vectors in scale * both)
        save_file({"queries": queries, "keys": keys, "special_mask": special}, folder / name)
        files.append({"file": name, "sha256": sha256_file(folder / name)})
    flat = [length for lengths in LENGTHS for length in lengths]
    index = pa.table(
        {
            "document_id": [f"d{number}" for number in range(len(flat))],
            "shard": np.repeat([0, 1], [len(lengths) for lengths in LENGTHS]),
            "start": np.concatenate([np.cumsum(lengths) - lengths for lengths in LENGTHS]),
            "length": pa.array(flat, pa.int32()),
        }
    )
    metadata = {
        "schema": SCHEMA, "run": {"model": model, "dataset": "sample", "condition": condition},
        "is_decoder": causal, "n_layers": 2, "n_heads": len(KINDS), "n_shards": 2, "files": files,
        "condition": spec or INTACT, "precision": {"mode": "exact"},
    }  # fmt: skip
    write_table(index, folder / INDEX, metadata)
    return ActivationStore(folder)


@pytest.mark.parametrize("causal", [True, False])
def test_patterns_are_softmax_of_scaled_scores(causal):
    # [heads, tokens, d_head] each
    q, k = generator(1).normal(size=(2, 3, 9, 4)).astype(np.float32)
    pattern = attention_pattern(q, k, causal=causal)
    scores = q @ k.swapaxes(1, 2) / 2
    if causal:
        scores += np.triu(np.full((9, 9), -np.inf), 1)
    np.testing.assert_allclose(pattern, softmax(scores, axis=-1), atol=1e-6)
    assert pattern.dtype == np.float32
    if causal:
        assert not np.triu(pattern, 1).any()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.integers(1, 6), st.booleans(), st.integers(0, 1000))
def test_masses_are_those_of_a_loop_and_sum_to_one(tokens, k, causal, seed):
    rng = generator(seed)
    scores = rng.normal(0, 3, (2, tokens, tokens))
    if causal:
        scores += np.triu(np.full((tokens, tokens), -np.inf), 1)
    pattern, special = softmax(scores, axis=-1), rng.random(tokens) < 0.2
    masses, columns = measures.mass_by_offset(pattern, k, special), measures.layout(k)
    expected = np.zeros_like(masses)

    def add(head, prefix, offset, mass):
        where = columns[{"": "mass", "text_": "text"}[prefix]].start + offset + k
        if abs(offset) > k:
            where = columns[prefix + ("before" if offset < 0 else "after")].start
        expected[head, where] += mass

    for head in range(2):
        for i in range(tokens):
            for j in range(tokens):
                add(head, "", j - i, pattern[head, i, j])
                if j == 0 or special[j]:
                    name = "first" if j == 0 else "special"
                    expected[head, columns[name]] += pattern[head, i, j]
                else:
                    add(head, "text_", j - i, pattern[head, i, j])
    np.testing.assert_allclose(masses, expected, atol=1e-12)
    split = columns["first"].start
    np.testing.assert_allclose(masses[:, :split].sum(axis=1), tokens, rtol=1e-12)
    np.testing.assert_allclose(masses[:, split:].sum(axis=1), tokens, rtol=1e-12)
    if causal:
        assert masses[:, columns["after"]].max() == 0


@pytest.mark.parametrize("causal", [True, False])
def test_a_uniform_head_has_no_excess_and_no_preference(causal):
    special = np.arange(30) == 29
    uniform = measures.uniform_by_offset(30, 5, causal, special)
    pattern = attention_pattern(np.zeros((1, 30, 2)), np.zeros((1, 30, 2)), causal=causal)
    np.testing.assert_allclose(measures.mass_by_offset(pattern, 5, special)[0], uniform, rtol=1e-5)
    for t in range(1, 6):
        by_hand = sum(1 / (i + 1) for i in range(t, 30)) if causal else (30 - t) / 30
        assert uniform[5 - t] == pytest.approx(by_hand)
    window = uniform[:11]
    for function in (measures.excess_over_uniform, measures.preference):
        values = function(0.3 * window, window)
        assert np.isnan(values).sum() == (5 if causal else 0)
        np.testing.assert_allclose(values[~np.isnan(values)], 0, atol=1e-12)


def test_peaks_and_means():
    assert measures.peak_offset([[0, 1, 0, 0, 0], [2, 0, 1, 0, 2]]).tolist() == [-1, -2]
    assert measures.peak_offset([np.nan, np.nan, -1, 5, np.nan]) == 1
    assert measures.peak_offset([1.0, 1.0, 1.0]) == 0
    assert measures.mean_offset([0.1, 0, 0.3]) == pytest.approx(0.5)
    assert np.isnan(measures.mean_offset([0.0, 0, 0]))


def profile(k: int, **places: float) -> np.ndarray:
    """A profile with masses at named columns, ``m1`` being offset -1; the rest is spread."""
    masses = np.zeros(2 * k + 5)
    for name, mass in places.items():
        offset = {"m1": -1, "p1": 1, "at": 0, "p3": 3}.get(name)
        masses[{"first": 0, "special": 1}.get(name) if offset is None else 2 + k + offset] = mass
    return masses + (1 - masses.sum()) / len(masses)


def test_planted_types_are_found_and_named():
    k, rng, profiles = 4, generator(3), []
    kinds = ["m1"] * 5 + ["p1"] * 4 + ["at"] * 3 + ["p3"] * 2
    for kind in kinds:
        profiles.append(profile(k, **{kind: 0.6 + 0.05 * rng.random()}))
    profiles += [profile(k, first=0.98), profile(k, first=0.985)]
    uniform = measures.uniform_by_offset(60, k, False)[measures.layout(k)["first"].start :] / 60
    profiles += [uniform, uniform * 1.001 / np.sum(uniform * 1.001)]
    types = measures.head_types(profiles, uniform, k, 6, seed=0)
    expected = ["previous token", "next token", "self", "offset +3", "first token", "broad"]
    assert types.names == expected
    labels = [0] * 5 + [1] * 4 + [2] * 3 + [3] * 2 + [4] * 2 + [5] * 2
    assert types.labels.tolist() == labels
    assert types.explained > 0.99
    for seed in (1, 2):  # the order is not the seed's
        assert measures.head_types(profiles, uniform, k, 6, seed).labels.tolist() == labels
    np.testing.assert_allclose(types.centroids[0], np.mean(profiles[:5], axis=0))


def test_what_is_beyond_the_window_or_on_special_tokens_tells_no_types_apart():
    same = np.array([0.1, 0.1, 0.3, 0.1, 0.1, 0.2, 0.1])
    profiles = np.stack([same, same[[0, 1, 2, 3, 4, 6, 5]], same, same])
    profiles[2, :2], profiles[3, 5:] = [0.2, 0.0], 0.15
    types = measures.head_types(profiles, np.full(7, 1 / 7), 1, 3, seed=0)
    assert len(types.names) == 1 and types.explained == 1
    np.testing.assert_allclose(types.centroids[0], profiles.mean(axis=0))


def test_fewer_different_heads_than_types_and_names_that_come_again():
    uniform = np.full(7, 1 / 7)
    same = np.tile(profile(1, m1=0.7), (4, 1))
    types = measures.head_types(same, uniform, 1, 3, seed=0)
    assert types.names == ["previous token"] and types.labels.tolist() == [0] * 4
    two = [profile(1, m1=0.9), profile(1, m1=0.91), profile(1, m1=0.4)]
    types = measures.head_types(two, uniform, 1, 2, seed=0)
    assert types.names == ["previous token", "previous token 2"]
    assert types.labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("places", "name"),
    [
        ({"special": 0.51}, "special token"), ({"first": 0.51}, "first token"),
        ({"first": 0.5}, "broad"), ({"special": 0.4, "first": 0.4}, "broad"),
        ({"first": 0.7, "p3": 0.2}, "offset +3"), ({"p3": 0.19}, "broad"),
    ],
)  # fmt: skip
def test_a_type_has_the_name_of_the_place_with_the_mass(places, name):
    masses = np.zeros(13)
    for place, mass in places.items():
        masses[{"first": 0, "special": 1, "p3": 2 + 4 + 3}[place]] = mass
    masses[-2:] = (1 - masses.sum()) / 2  # beyond the window
    assert measures.type_name(masses, np.full(13, 1 / 13), 4) == name


@pytest.mark.parametrize(("share", "name"), [(0.74, "near"), (0.66, "broad")])
def test_a_head_is_near_if_its_window_has_a_fifth_more_than_a_uniform_one(share, name):
    # Of the mass on text, not of all: half of it rests on the first token.
    masses = np.array([0.5, 0, *np.full(5, share / 10), (1 - share) / 2, 0])
    uniform = np.array([0.1, 0, *np.full(5, 0.09), 0.2, 0.25])  # half of its text is within
    assert measures.type_name(masses, uniform, 2) == name


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="shapes"):
        attention_pattern(np.ones((1, 3, 2)), np.ones((1, 4, 2)), causal=True)
    with pytest.raises(ValueError, match="finite"):
        attention_pattern(*np.full((2, 1, 3, 2), 1e30, np.float32), causal=True)
    with pytest.raises(ValueError, match="do not fit"):
        measures.head_types(np.ones((3, 7)), np.ones(9), 1, 2, seed=0)
    with pytest.raises(ValueError, match="negative"):
        measures.head_types(-np.ones((3, 7)), np.ones(7), 1, 2, seed=0)


@pytest.mark.parametrize("causal", [True, False])
def test_the_step_finds_constructed_heads(tmp_path, causal):
    store = write_store(tmp_path / "s", causal=causal)
    measurement = result_of(step, PARAMETERS, store)
    assert (measurement["documents"], measurement["tokens"]) == (5, 43)
    heads = {(head["layer"], head["head"]): head for head in measurement["heads"]}
    for layer, order in enumerate((KINDS, KINDS[::-1])):
        kinds = {kind: heads[layer, index] for index, kind in enumerate(order)}
        assert kinds["previous"]["peak"]["offset"] == -1
        assert kinds["previous"]["peak"]["stability"] == 1
        assert kinds["self"]["peak"]["offset"] == 0 and kinds["self"]["self"]["value"] > 0.9
        assert kinds["first"]["first"]["value"] > 0.9
        assert kinds["previous"]["previous"]["value"] > 0.8
        assert (kinds["next"]["peak"]["offset"] == 1) != causal
        assert (kinds["next"]["next"]["value"] > 0.8) != causal
        # The broad head is at the control's level: what a uniform pattern has.
        broad = np.array(kinds["broad"]["text"])
        np.testing.assert_allclose(broad, measurement["uniform"]["text"], atol=0.01)
    for head in measurement["heads"]:
        total = sum(head["mass"]) + head["before"] + head["after"]
        assert total == pytest.approx(1, abs=3e-5)
        parts = [head[name] for name in ("text_before", "text_after")]
        parts += [head[name]["value"] for name in ("first", "special")]
        assert sum(head["text"]) + sum(parts) == pytest.approx(1, abs=3e-5)
        for name in ("previous", "self", "next", "first", "special"):
            assert head[name]["low"] <= head[name]["value"] <= head[name]["high"]
    assert heads[0, 0]["type"] == heads[1, 4]["type"]
    assert sum(head_type["heads"] for head_type in measurement["types"]) == 10
    strongest = measurement["strongest"]["previous"]
    assert strongest["value"] == max(head["previous"]["value"] for head in measurement["heads"])
    json.dumps(measurement, allow_nan=False)
    assert measurement == result_of(step, PARAMETERS, store)


def test_a_mass_of_the_step_is_that_of_all_documents(tmp_path):
    store = write_store(tmp_path / "s")
    head = result_of(step, PARAMETERS, store)["heads"][6]  # layer 1, head 1: first
    total = np.zeros(9)
    for shard, lengths in enumerate(LENGTHS):
        ends = np.cumsum(lengths)
        for begin, end in zip(ends - lengths, ends, strict=True):
            q, k = (
                vectors[1, 1, begin:end].astype(float)
                for vectors in (store.queries(shard), store.keys(shard))
            )
            pattern = softmax(q @ k.T / np.sqrt(D_HEAD), axis=-1)
            total += [np.trace(pattern, t) for t in range(-4, 5)]
    np.testing.assert_allclose(head["mass"], total / 43, atol=1e-5)


def test_the_first_documents_alone(tmp_path):
    store = write_store(tmp_path / "s")
    few = PARAMETERS.model_copy(update={"documents": 4})
    measurement = result_of(step, few, store)
    assert (measurement["documents"], measurement["tokens"]) == (4, 40)


@pytest.mark.parametrize(
    ("changed", "runs"),
    [
        ({"mask": {"semantics": "log_mask"}}, False),
        ({"segments": 4}, False),
        ({"mask": {"semantics": "emb_mul"}}, True),
        ({"position": "zero"}, True),
    ],
)
def test_a_condition_that_changes_attention_itself_is_not_run(tmp_path, changed, runs):
    store = write_store(tmp_path / "s", "changed", {**INTACT, **changed})
    measurement = result_of(step, PARAMETERS, store)
    assert (measurement["status"] == "measured") == runs
    assert (measurement["reason"] is None) == runs
    if not runs:
        assert measurement["reason"].startswith("condition changed: ")
        canvas = figure.draw(
            [{**measurement, "run": {**measurement["run"], "condition": "zero"}}],
            SECTIONS.head_offsets,
            SECTIONS.style,
        )
        assert "not run" in canvas.axes[0].texts[0].get_text()


def test_scores_that_overflow_are_named(tmp_path):
    store = write_store(tmp_path / "s", scale=1e8)
    with pytest.raises(ArtifactError, match=r"layer 0, shard 0.*activations\.dtype"):
        result_of(step, PARAMETERS, store)


def test_the_command_and_the_figure(tmp_path):
    write_store(tmp_path / "a/sample/intact")
    write_store(tmp_path / "a/sample/zero", "zero", {**INTACT, "position": "zero"})
    config = tmp_path / "config.json"
    job = {"datasets": ["sample"], "conditions": ["intact", "zero"]}
    write_json(config, {"parameters": PARAMETERS.model_dump(), **job})
    done = call(
        "posenc.measurements.heads.measure",
        config=config,
        activations=tmp_path / "a",
        output=tmp_path / "out",
    )
    assert done.returncode == 0, done.stderr
    runs = read_measurements(sorted((tmp_path / "out").rglob("*.json")))
    assert [run["run"]["condition"] for run in runs] == ["intact", "zero"]
    assert runs[0]["catalogue"] == ["C6"] and runs[0]["schema"] == 1
    named = [
        {**run, "run": {**run["run"], "model": model}}
        for model in ("toy", "second_model", "third", "fourth")
        for run in runs
    ]
    check_texts(figure.draw(named, SECTIONS.head_offsets, SECTIONS.style))
    canvas = figure.draw(runs, SECTIONS.head_offsets, SECTIONS.style)
    check_texts(canvas)
    heat = [axes for axes in canvas.axes if axes.images and axes.get_xticks().size]
    for axes, run in zip(heat, runs, strict=True):
        shown = np.ma.getdata(axes.images[0].get_array())
        np.testing.assert_array_equal(shown, [head["text"] for head in run["heads"]])
    assert [text.get_text() for text in canvas.legends[0].get_texts()]
    half = [runs[0], {**runs[1], "status": "not run", "reason": "because"}]
    check_texts(figure.draw(half, SECTIONS.head_offsets, SECTIONS.style))
