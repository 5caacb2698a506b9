"""Probes find planted positions, and nothing where there is none."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from sklearn.model_selection import GroupKFold

from posenc.artifacts.activations import INDEX, SCHEMA, ActivationStore, shard_name
from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    read_sealed,
    sha256_file,
    unbundled,
    write_checksums,
    write_json,
    write_sealed,
)
from posenc.artifacts.tables import write_table
from posenc.drawing import common
from posenc.figures import position_probes
from posenc.measurements.probes import measure as probes
from posenc.measurements.probes.declaration import Probes
from posenc.measurements.scheme_probes import measure as scheme_probes
from posenc.metrics import probes as measures
from posenc.metrics.probes import order_errors, position_errors, token_pairs
from posenc.models.files import CONFIG
from posenc.models.references import WEIGHTS
from posenc.tokens.tokenized import Tokens

from . import synthetic, synthetic_positions
from .test_figures import check_texts, texts

OPTIONS = {"folds": 3, "hidden_units": 16, "epochs": 20, "seed": 0}
SMALL = Probes(
    tokens=300, pairs=200, folds=3, hidden=8, epochs=10,
    bootstrap_samples=100, confidence=0.9, seed=0,
)  # fmt: skip
FIGURES = synthetic.params_of().figures
D_MODEL, N_LAYERS, DOCUMENTS, LENGTH = 12, 2, 12, 24


def text(documents: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and documents of the tokens of documents of one length."""
    return np.tile(np.arange(length), documents), np.repeat(np.arange(documents), length)


def planted(positions: np.ndarray, noise: float, seed: int = 0) -> np.ndarray:
    """Hidden states with the position along one random direction, [tokens, 16]."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=16)
    return positions[:, None] * direction + noise * rng.normal(size=(len(positions), 16)) + 5


def by_pairs(hidden, positions, documents, pairs=800, **changes):
    """Order errors of random pairs of tokens."""
    i, j = token_pairs(documents, pairs, 7)
    later = positions[i] > positions[j]
    return order_errors(hidden[i], hidden[j], later, documents[i], **{**OPTIONS, **changes})


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8).filter(lambda x: max(x) > 1),
    seed=st.integers(0, 100),
)
def test_pairs_are_different_tokens_of_one_document(lengths, seed):
    documents = np.repeat(np.arange(len(lengths)), lengths)  # [tokens]
    documents = np.random.default_rng(seed).permutation(documents)
    i, j = token_pairs(documents, 50, seed)
    assert np.all(documents[i] == documents[j]) and np.all(i != j)


def test_every_pair_is_drawn_as_its_tokens_are():
    documents = np.array([0, 1, 0, 1, 1, 2])
    i, j = token_pairs(documents, 40_000, 0)
    counts = np.zeros((6, 6))
    np.add.at(counts, (i, j), 1)
    same = (documents[:, None] == documents) & ~np.eye(6, dtype=bool)
    others = np.maximum(same.sum(axis=1), 1)[:, None]
    expected = 40_000 * same / others / 5  # 5 tokens have another one
    np.testing.assert_allclose(counts, expected, atol=6 * np.sqrt(40_000 / 10))
    assert np.all(counts[~same] == 0)
    with pytest.raises(ValueError, match="two tokens"):
        token_pairs([1, 2, 3], 10, 0)


def test_a_planted_position_is_read_back():
    positions, documents = text(30, 40)
    errors = position_errors(planted(positions, 0.0), positions, documents, **OPTIONS)
    assert errors["ridge"].max() < 0.2  # what the penalty takes
    assert errors["relu"].mean() < 1
    assert errors["constant"].mean() == pytest.approx(10)  # of the median of 0 ... 39
    order = by_pairs(planted(positions, 0.0), positions, documents)
    assert order["logistic"].mean() < 0.01 and order["relu"].mean() < 0.03


def test_a_bent_position_needs_the_relu_probe():
    positions, documents = text(40, 41)
    line = np.repeat(positions[:, None], 3, axis=1)  # [tokens, 3]
    # |p - 20| of p: the best line is flat.
    bent = position_errors(line, np.abs(positions - 20), documents, **{**OPTIONS, "epochs": 60})
    assert bent["ridge"].mean() > 4 and bent["relu"].mean() < 1.5
    # The reverse: no probe can tell the side from |p - 20|.
    lost = position_errors(np.abs(line - 20), positions, documents, **OPTIONS)
    assert lost["ridge"].mean() > 9 and lost["relu"].mean() > 9


def test_independent_states_and_shuffled_labels_are_at_chance():
    positions, documents = text(60, 40)
    rng = np.random.default_rng(2)
    noise = position_errors(rng.normal(size=(2400, 8)), positions, documents, **OPTIONS)
    chance = noise["constant"].mean()
    for name, errors in noise.items():
        assert errors.mean() > chance - 0.1, name
        assert errors.mean() < 1.08 * chance, name
    seen = position_errors(planted(positions, 0.0), positions, documents, **OPTIONS)
    for name in ("ridge_control", "relu_control"):
        assert chance - 0.2 < seen[name].mean() < 1.08 * chance
    for order in (
        by_pairs(rng.normal(size=(2400, 8)), positions, documents),
        by_pairs(planted(positions, 0.0), positions, documents),
    ):
        # Five standard deviations of 800 coins.
        assert abs(order["logistic_control"].mean() - 0.5) < 0.09
        assert abs(order["relu_control"].mean() - 0.5) < 0.09
    order = by_pairs(rng.normal(size=(2400, 8)), positions, documents)
    assert abs(order["logistic"].mean() - 0.5) < 0.09 and abs(order["relu"].mean() - 0.5) < 0.09


def test_order_error_is_one_half_exactly_without_information_and_blind_to_presentation():
    positions, documents = text(20, 30)
    same = np.ones((600, 5))
    order = by_pairs(same, positions, documents)
    assert all(np.all(errors == 0.5) for errors in order.values())
    hidden = planted(positions, 60.0)
    i, j = token_pairs(documents, 400, 3)
    later = positions[i] > positions[j]
    there = order_errors(hidden[i], hidden[j], later, documents[i], **OPTIONS)
    turn = later  # the second token always comes later
    first, second = np.where(turn, j, i), np.where(turn, i, j)
    always = np.zeros(400, bool)
    back = order_errors(hidden[first], hidden[second], always, documents[i], **OPTIONS)
    # Every pair looks reversed to the logistic probe at first: it is fitted to the same.
    np.testing.assert_array_equal(there["logistic"], back["logistic"])
    assert back["relu"].mean() == pytest.approx(there["relu"].mean(), abs=0.05)


def test_what_a_document_shares_is_not_learnt_across_folds():
    # The hidden state names the document, so it tells its only position but no other's.
    rng = np.random.default_rng(4)
    documents = np.repeat(np.arange(60), 10)
    positions = rng.integers(0, 50, 60)[documents].astype(float)
    names = np.eye(60)[documents]
    errors = position_errors(names, positions, documents, **OPTIONS)
    for name in ("ridge", "relu"):
        assert errors[name].mean() > 0.95 * errors["constant"].mean()


def test_ridge_agrees_with_the_normal_equations():
    rng = np.random.default_rng(5)
    hidden, documents = rng.normal(size=(90, 4)) * [1, 5, 0.1, 2] + 3, np.repeat(np.arange(9), 10)
    positions = rng.integers(0, 30, 90)
    expected, constant = np.empty(90), np.empty(90)
    folds = GroupKFold(3, shuffle=True, random_state=0)
    for train, test in folds.split(hidden, groups=documents):
        mean, sd = hidden[train].mean(axis=0), hidden[train].std(axis=0)
        x, unseen = (hidden[train] - mean) / sd, (hidden[test] - mean) / sd
        y = positions[train]
        w = np.linalg.solve(x.T @ x + np.eye(4), x.T @ (y - y.mean()))
        guess = np.clip(unseen @ w + y.mean(), y.min(), y.max())
        expected[test] = np.abs(guess - positions[test])
        constant[test] = np.abs(np.median(y) - positions[test])
    errors = position_errors(hidden, positions, documents, **OPTIONS, relu_control=False)
    np.testing.assert_allclose(errors["ridge"], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(errors["constant"], constant)
    assert "relu_control" not in errors
    # The control is the same probe, fitted and tested on permuted labels.
    shuffled = np.random.default_rng((0, 1)).permutation(positions)
    control = position_errors(hidden, shuffled, documents, **OPTIONS, relu_control=False)
    np.testing.assert_allclose(errors["ridge_control"], control["ridge"], rtol=1e-9, atol=1e-9)


def test_predictions_stay_in_the_range_of_the_positions():
    positions, documents = text(12, 20)
    hidden = planted(positions, 3.0)
    hidden[documents == 5] *= 1e4  # a line through the others leaves the document there
    errors = position_errors(hidden, positions, documents, **OPTIONS)
    assert all(values.max() <= 19 for values in errors.values())


def test_the_seed_alone_decides():
    positions, documents = text(12, 20)
    hidden = planted(positions, 30.0)
    first, again, other = (
        position_errors(hidden, positions, documents, **{**OPTIONS, "seed": seed})
        for seed in (1, 1, 2)
    )
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["relu"], other["relu"])


def test_a_line_that_is_not_done_after_all_steps_is_taken_without_a_warning(monkeypatch):
    monkeypatch.setattr(measures, "_LOGISTIC_STEPS", 1)
    x = np.random.default_rng(0).normal(size=(40, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (scores,) = measures._logistic_scores(x, x[:, 0] > 0, x)
    assert ((scores > 0) == (x[:, 0] > 0)).mean() > 0.7


@pytest.mark.parametrize(
    ("hidden", "positions", "documents", "message"),
    [
        (np.ones(9), np.arange(9), np.arange(9), "shapes"),
        (np.ones((9, 2)), np.arange(8), np.arange(9), "positions for"),
        (np.ones((9, 2)), np.arange(9), np.arange(8), "shapes"),
        (np.full((9, 2), np.inf), np.arange(9), np.arange(9), "finite"),
        (np.ones((9, 2)), np.ones(9), np.arange(9), "all the same"),
        (np.ones((9, 2)), np.arange(9), np.arange(9) % 2, "groups"),
    ],
)
def test_what_can_not_be_probed_is_refused(hidden, positions, documents, message):
    with pytest.raises(ValueError, match=message):
        position_errors(hidden, positions, documents, **OPTIONS)


def test_pairs_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        order_errors(np.ones((6, 2)), np.ones((6, 3)), np.ones(6), np.arange(6), **OPTIONS)


def states(condition: str) -> np.ndarray:
    """float16 [n_layers + 1, tokens, d_model]: intact tells position, zero from layer 1 on."""
    rng = np.random.default_rng(len(condition))
    position = np.tile(np.arange(LENGTH), DOCUMENTS)
    hidden = rng.normal(size=(N_LAYERS + 1, len(position), D_MODEL))
    hidden[1 if condition == "zero" else 0 :, :, 0] = position / 5
    return hidden.astype(np.float16)


def write_store(folder: Path, condition: str, model: str = "toy", broken: bool = False) -> Path:
    """A store in two shards, each document with a special token at its begin and its end."""
    folder.mkdir(parents=True)
    half, hidden = DOCUMENTS // 2, states(condition)
    if broken:
        hidden[1, 5] = np.inf
    special = np.tile(np.isin(np.arange(LENGTH), (0, LENGTH - 1)), half)
    files = []
    for number, part in enumerate(np.split(hidden, 2, axis=1)):
        name = shard_name(number)
        tensors = {"hidden_states": np.ascontiguousarray(part), "special_mask": special}
        save_file(tensors, folder / name)
        files.append({"file": name, "sha256": sha256_file(folder / name)})
    index = pa.table(
        {
            "document_id": [f"document-{n}" for n in range(DOCUMENTS)],
            "shard": np.repeat([0, 1], half),
            "start": np.tile(LENGTH * np.arange(half), 2),
            "length": pa.array([LENGTH] * DOCUMENTS, pa.int32()),
        }
    )
    metadata = {
        "schema": SCHEMA,
        "run": {"model": model, "dataset": "sample", "condition": condition},
        "is_decoder": False,
        "n_layers": N_LAYERS,
        "d_model": D_MODEL,
        "precision": {"mode": "exact"},
        "n_shards": 2,
        "files": files,
    }
    write_table(index, folder / INDEX, metadata)
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The measurements of a model's two runs, by condition, made by the command."""
    root = tmp_path_factory.mktemp("probes")
    for condition in ("intact", "zero"):
        write_store(root / "activations/sample" / condition, condition)
    job = {"parameters": SMALL.model_dump(), "datasets": ["sample"]}
    write_json(root / "config.json", {**job, "conditions": ["intact", "zero"]})
    probes.main(root / "config.json", root / "activations", root / "out")
    files = sorted((root / "out").rglob("*.json"))
    runs = [measurement for path in files for measurement in unbundled(read_sealed(path))]
    return {measurement["run"]["condition"]: measurement for measurement in runs}


def test_special_tokens_are_left_out_and_rows_are_the_right_ones(measured, tmp_path):
    assert measured["zero"]["tokens"] == DOCUMENTS * (LENGTH - 2)
    assert measured["zero"]["positions"] == LENGTH - 1  # the last, of the end, is left out
    # By hand: all tokens but the special ones, in the order of the store.
    position, document = text(DOCUMENTS, LENGTH)
    inside = (position > 0) & (position < LENGTH - 1)
    options = {"folds": 3, "hidden_units": 8, "epochs": 10, "seed": 0}
    for condition, measurement in measured.items():
        for state, layer in enumerate(measurement["layers"]):
            errors = position_errors(
                states(condition)[state, inside], position[inside], document[inside], **options
            )
            for name in ("ridge", "relu", "ridge_control"):
                estimate = layer["position"][name]
                assert estimate["value"] == pytest.approx(errors[name].mean(), rel=1e-9)
                assert estimate["low"] <= estimate["value"] <= estimate["high"]
            gain = layer["position"]["gain"]["ridge"]["value"]
            assert gain == pytest.approx((errors["constant"] - errors["ridge"]).mean(), rel=1e-6)
        assert measurement["chance"]["position"]["value"] == pytest.approx(
            errors["constant"].mean()
        )


def test_planted_layers_are_found_and_controls_are_at_chance(measured):
    for condition, measurement in measured.items():
        chance = measurement["chance"]["position"]["value"]
        assert measurement["chance"]["order"] == 0.5
        for layer in measurement["layers"]:
            tells = condition == "intact" or layer["layer"] > 0
            ridge, order = layer["position"]["ridge"]["value"], layer["order"]["logistic"]["value"]
            assert (ridge < 0.3 * chance) == tells and (order < 0.15) == tells
            assert layer["position"]["ridge_control"]["value"] > 0.93 * chance
            assert 0.35 < layer["order"]["logistic_control"]["value"] < 0.65
            ends = layer["layer"] in measurement["relu_control_layers"]
            for quantity in ("position", "order"):
                assert (layer[quantity]["relu_control"] is not None) == ends
        if condition == "zero":
            gain = measurement["layers"][0]["position"]["gain"]["ridge"]
            assert gain["value"] < 0.05 * chance


def test_form_of_the_measurement(measured):
    measurement = measured["zero"]
    assert measurement["run"] == {"model": "toy", "dataset": "sample", "condition": "zero"}
    assert (measurement["status"], measurement["reason"], measurement["catalogue"]) == (
        "measured", None, ["B4"]
    )  # fmt: skip
    assert [layer["name"] for layer in measurement["layers"]] == ["embedding", "block 1", "last"]
    assert measurement["relu_control_layers"] == [0, N_LAYERS]
    json.dumps(measurement, allow_nan=False)


def test_few_tokens_are_sampled_the_same_in_all_runs():
    position, document = text(50, 20)
    few = SMALL.model_copy(update={"tokens": 100})
    first, second = (probes.Sample.draw(few, document, position) for _ in range(2))
    for name in ("tokens", "first", "second"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert len(np.unique(first.tokens)) == 100 and len(first.first) == SMALL.pairs
    with pytest.raises(ArtifactError, match="2 documents for 3 folds"):
        probes.Sample.draw(SMALL, *reversed(text(2, 20)))
    with pytest.raises(ArtifactError, match="longer documents"):
        probes.Sample.draw(SMALL, *reversed(text(20, 1)))


def test_a_state_that_overflowed_is_named_with_the_way_out(tmp_path):
    broken = ActivationStore(write_store(tmp_path / "broken", "zero", broken=True))
    with pytest.raises(ArtifactError, match=r"block 1: .* float32"):
        probes.measure(SMALL, broken, broken)


@pytest.fixture(scope="module")
def scheme(tmp_path_factory):
    """Folder of a small decoder and of its tokens."""
    import torch
    from safetensors.torch import save_file as save
    from transformers import GPT2Config, GPT2LMHeadModel

    root = tmp_path_factory.mktemp("scheme")
    (root / "model").mkdir()
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=60, n_positions=LENGTH, n_embd=16, n_layer=2, n_head=2)
    network = GPT2LMHeadModel(config).eval()
    tensors = {k: v.contiguous() for k, v in network.state_dict().items() if k != "lm_head.weight"}
    save(tensors, root / "model" / WEIGHTS, metadata={"format": "pt"})
    write_json(root / "model" / CONFIG, config.to_diff_dict() | {"model_type": "gpt2"})
    write_checksums(root / "model" / CHECKSUMS, CONFIG, WEIGHTS)
    rng = np.random.default_rng(0)
    lengths = rng.integers(6, LENGTH, DOCUMENTS)
    ids = [[0, *rng.integers(1, 60, n - 1).tolist()] for n in lengths]
    table = pa.table(
        {
            "document_id": [f"document-{n}" for n in range(DOCUMENTS)],
            "input_ids": pa.array(ids, pa.list_(pa.int32())),
            "special": [[True] + [False] * (n - 1) for n in lengths],
            "bytes": pa.array(4 * lengths),
        }
    )
    write_table(table, root / "tokens/sample.parquet", {"bos": True})
    return root, network, ids


def test_scheme_probes_read_the_library_s_hidden_states(scheme):
    import torch

    root, network, ids = scheme
    kept = [
        (d, p)
        for d, document_ids in enumerate(ids)
        for p in range(1, len(document_ids))
        if (d + p) % 3
    ]
    document, position = np.array(kept).T
    hidden = scheme_probes.hidden_states(
        network, Tokens(root / "tokens/sample.parquet"), document, position
    )
    assert hidden.shape == (3, len(kept), 16)
    with torch.inference_mode():
        for number in (0, 5, DOCUMENTS - 1):
            out = network(torch.tensor([ids[number]]), output_hidden_states=True)
            expected = torch.stack(out.hidden_states)[:, 0].numpy()  # [3, tokens, 16]
            here = document == number
            np.testing.assert_allclose(hidden[:, here], expected[:, position[here]], atol=1e-6)


def test_scheme_probes_end_to_end(scheme):
    root = scheme[0]
    job = {
        "parameters": SMALL.model_dump(),
        "reading": {"family": "gpt2", "max_tokens": LENGTH},
        "scheme": "learned",
        "datasets": ["sample"],
        "device": "cpu",
    }
    write_json(root / "config.json", job)
    learned = {"steps": 10, "tokens_seen": 80, "final_training_loss": 2.0,
               "final_validation_loss": 2.1}  # fmt: skip
    write_sealed(root / "summary.json", {**learned, "measurement": "training"})
    scheme_probes.main(
        "toy", root / "config.json", root / "model", root / "tokens", root / "summary.json",
        root / "out",
    )  # fmt: skip
    measurement = read_sealed(root / "out/sample.json")
    assert measurement["run"] == {"model": "toy", "dataset": "sample", "condition": "intact"}
    assert measurement["measurement"] == "scheme_probes" and measurement["scheme"] == "learned"
    assert measurement["training"] == learned
    # Position embeddings as large as the words' tell much as soon as they are added.
    first = measurement["layers"][0]["position"]["ridge"]["value"]
    assert first < 0.9 * measurement["chance"]["position"]["value"]
    assert len(measurement["layers"]) == 3
    json.dumps(measurement, allow_nan=False)


def study(measured, models, datasets, schemes):
    """Measurements of many models and data sets, all with the same numbers."""
    measurements = [
        {**measurement, "run": {"model": model, "dataset": dataset, "condition": condition}}
        for model in models
        for dataset in datasets
        for condition, measurement in measured.items()
    ]
    for name in schemes:
        for dataset in datasets:
            run = {"model": f"scheme_{name}", "dataset": dataset, "condition": "intact"}
            scheme = {"scheme": name, "training": synthetic_positions.TRAINED, "run": run}
            measurements.append({**measured["zero"], "measurement": "scheme_probes", **scheme})
    return measurements


SCHEMES = ("learned", "sinusoidal", "alibi", "rotary", "none")


@pytest.mark.parametrize(
    ("models", "datasets", "schemes"),
    [
        (["minilm"], ["sample_reviews"], []),
        (["minilm", "decoder"], ["sample_reviews", "sample_questions"], SCHEMES),
        (
            ["minilm", "decoder_imdb", "decoder_imdb_1", "decoder_imdb_2"],
            ["imdb_local", "truthfulqa_local", "sample_questions"],
            SCHEMES,
        ),
    ],
)
def test_the_figure_is_readable_for_any_study(measured, models, datasets, schemes):
    measurements = study(measured, models, datasets, schemes)
    figure = position_probes.draw(measurements, FIGURES.position_probes, FIGURES.style)
    check_texts(figure)
    assert len(figure.axes) == 1 + bool(schemes)
    named = ", ".join(map(common.display, (models[-1], "zero")))
    (line,) = (line for line in figure.axes[0].get_lines() if line.get_label() == named)
    layers = measured["zero"]["layers"]
    assert list(line.get_ydata()) == [layer["position"]["ridge"]["value"] for layer in layers]


def test_what_was_not_run_says_why(measured):
    measurements = study(measured, ["minilm"], ["sample"], [])
    absent = [
        {**measurement, "status": "not run", "reason": "too large"} for measurement in measurements
    ]
    figure = position_probes.draw(absent, FIGURES.position_probes, FIGURES.style)
    assert "too large" in texts(figure)[0].get_text()
    mixed = study(measured, ["minilm"], ["sample"], []) + [
        {**measurement, "run": {**measurement["run"], "model": "other"}} for measurement in absent
    ]
    figure = position_probes.draw(mixed, FIGURES.position_probes, FIGURES.style)
    check_texts(figure)
    assert any("other (too large)" in text.get_text() for text in texts(figure))


def test_a_relu_probe_reads_what_a_linear_one_reads_in_directions_of_little_variance():
    """Adam alone does not get there: without the linear reading its error is a multiple."""
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(120), 12)  # [tokens]
    positions = rng.integers(0, 100, len(documents))  # [tokens]
    noise = rng.normal(size=(len(documents), 3)) @ rng.normal(size=(3, 40)) * 10  # of rank 3
    little = (positions - 49.5)[:, None] * rng.normal(size=40) * 0.01
    hidden = noise + little + rng.normal(size=noise.shape) * 0.01  # [tokens, d_model]
    options = {"folds": 3, "hidden_units": 16, "epochs": 16, "seed": 0}
    errors = measures.position_errors(hidden, positions, documents, **options)
    ridge, relu = errors["ridge"].mean(), errors["relu"].mean()
    assert ridge < 6 < errors["constant"].mean() / 3
    assert relu < 1.5 * ridge
    later = positions[:-1] > positions[1:]  # neighbours, of one document or of two
    pairs = (hidden[:-1], hidden[1:], later, documents[:-1])
    order = measures.order_errors(*pairs, **options)
    assert order["relu"].mean() < order["logistic"].mean() + 0.03
