"""What layer normalisation does to an added position: exact parts, planted cases, controls."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.stats import norm

from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    sha256_file,
    write_checksums,
    write_json,
)
from posenc.artifacts.tables import write_table
from posenc.figures import layer_norm as figure
from posenc.measurements import layer_norm as step
from posenc.measurements.layer_norm import LayerNorm
from posenc.metrics.normalisation import (
    amplitudes,
    jackknife,
    of_normalisation,
    parts,
    scale_spread,
    scaled_spectrum,
    share_between_positions,
    split,
    variance_shares,
)
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.store.activations import INDEX, SCHEMA, shard_name
from posenc.study.params import load

from . import synthetic
from .test_figures import check_texts

SECTIONS = load(synthetic.PROJECT / "params.yaml").figures
PARAMETERS = LayerNorm(tokens=400, confidence=0.9, seed=2)


def test_a_normalisation_is_measured_without_position_0():
    rng = np.random.default_rng(3)
    lengths = [4, 6, 6, 9]
    document = np.repeat(np.arange(4), lengths)
    position = np.concatenate([np.arange(n) for n in lengths])
    table, gain, bias = rng.normal(size=(9, 5)), rng.normal(size=5), rng.normal(size=5)
    x = rng.normal(size=(25, 5)) + table[position]
    options = {"gain": gain, "bias": bias, "eps": 1e-5, "confidence": 0.9}
    found = of_normalisation(x, table, position, document, **options)
    scale = 1 / np.sqrt(x.var(axis=1) + 1e-5)  # [tokens]
    assert found["scale_at_first"] == pytest.approx(scale[position == 0].mean())
    assert found["scale"]["mean"]["value"] == pytest.approx(scale[position > 0].mean())
    # Half of the documents have 5 tokens after the first; one has only 3.
    assert (found["window"], found["windows"]) == (5, 3)
    moved = x.copy()
    moved[position == 0] *= 7
    again = of_normalisation(moved, table, position, document, **options)
    assert again["shares"] == found["shares"] and again["spectrum"] == found["spectrum"]
    assert sum(share["value"] for share in found["shares"].values()) == pytest.approx(1)


def text(documents, length):
    """Positions and documents of the tokens of documents of one length."""
    return np.tile(np.arange(length), documents), np.repeat(np.arange(documents), length)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 40),
    st.sampled_from([1e-12, 1e-5, 0.3]), st.sampled_from([0.01, 1.0, 30.0]),
)  # fmt: skip
def test_the_parts_make_torch_s_layer_norm_and_its_split_is_exact(seed, tokens, d, eps, scale):
    rng = np.random.default_rng(seed)
    rest, position = rng.normal(2, scale, (tokens, d)), rng.normal(-1, scale, (tokens, d))
    gain, bias = rng.normal(size=d), rng.normal(size=d)
    x = rest + position
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(x), (d,), torch.from_numpy(gain), torch.from_numpy(bias), eps
    ).numpy()
    found = parts(x, gain, bias, eps)
    np.testing.assert_allclose(found.output, expected, rtol=0, atol=1e-10)
    # S (I - 11'/d) x L + b, as matrices: the tokens are rows.
    matrices = np.diag(found.scale) @ x @ (np.eye(d) - np.ones((d, d)) / d) @ np.diag(gain) + bias
    np.testing.assert_allclose(found.output, matrices, rtol=0, atol=1e-10)
    of_rest, of_position, spread = split(rest, position, gain, bias, eps)
    np.testing.assert_allclose(of_rest + of_position, expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(spread, found.scale)
    np.testing.assert_allclose(spread, 1 / np.sqrt(x.var(axis=1) + eps), rtol=1e-9)


def test_the_identity_holds_to_a_trillionth():
    rng = np.random.default_rng(0)
    rest, position = rng.normal(size=(500, 64)), rng.normal(size=(500, 64))
    gain, bias = rng.normal(size=64), rng.normal(size=64)
    tensors = [torch.from_numpy(one) for one in (rest + position, gain, bias)]
    expected = torch.nn.functional.layer_norm(tensors[0], (64,), *tensors[1:], 1e-5).numpy()
    x = rest + position
    direct = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias
    of_rest, of_position, _ = split(rest, position, gain, bias, 1e-5)
    for reference in (expected, direct):
        assert np.abs(parts(x, gain, bias, 1e-5).output - reference).max() < 1e-12
        assert np.abs(of_rest + of_position - reference).max() < 1e-12
    # A constant that is added to all of d_model is taken away, and position alone is linear.
    again = split(rest, position + 7, gain, bias, 1e-5)[1]
    np.testing.assert_allclose(again, of_position, rtol=0, atol=1e-12)


def test_what_has_no_layer_norm_is_refused():
    with pytest.raises(ValueError, match="constant"):
        parts(np.ones((2, 4)), np.ones(4), np.ones(4), 0.0)
    with pytest.raises(ValueError, match="negative"):
        parts(np.eye(4), np.ones(4), np.ones(4), -1.0)
    with pytest.raises(ValueError, match="d_model"):
        parts(np.eye(4), np.ones(3), np.ones(4), 1e-5)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    rng = np.random.default_rng(1)
    values = rng.normal(3, 2, 40)
    sums = np.stack([np.ones(40), values], axis=1)
    found = jackknife(lambda sums: sums[:, 1:] / sums[:, :1], sums, 0.95)
    half = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(40)
    np.testing.assert_allclose(found.value, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.high - found.value, half, rtol=1e-12)
    with pytest.raises(ValueError, match="two documents"):
        jackknife(lambda sums: sums, sums[:1], 0.95)


def test_the_spread_of_the_scale_is_that_of_its_numbers():
    rng = np.random.default_rng(2)
    position, document = text(30, 40)
    scale = 5 + 0.03 * position + rng.gamma(2, 0.3, len(position))
    found = scale_spread(scale, position, document, 0.95)
    assert found["mean"]["value"] == pytest.approx(scale.mean(), rel=1e-12)
    assert found["sd"] == pytest.approx(scale.std(), rel=1e-12)
    assert found["variation"]["value"] == pytest.approx(scale.std() / scale.mean(), rel=1e-12)
    expected = np.corrcoef(scale, position)[0, 1]
    assert found["correlation"]["value"] == pytest.approx(expected, rel=1e-12)
    assert found["quantiles"]["0.5"] == np.median(scale)
    assert found["correlation"]["low"] < expected < found["correlation"]["high"]
    # Leaving a document out by hand.
    left = [np.corrcoef(scale[document != n], position[document != n])[0, 1] for n in range(30)]
    half = norm.ppf(0.975) * np.sqrt(29 * np.var(left))
    assert found["correlation"]["high"] == pytest.approx(expected + half, rel=1e-9)
    left = [scale[document != n].std() / scale[document != n].mean() for n in range(30)]
    half = norm.ppf(0.975) * np.sqrt(29 * np.var(left))
    assert found["variation"]["high"] - found["variation"]["value"] == pytest.approx(half, rel=1e-9)


def test_an_unrelated_scale_has_no_correlation_and_a_constant_one_none():
    rng = np.random.default_rng(3)
    position, document = text(60, 50)
    found = scale_spread(rng.uniform(1, 2, 3000), position, document, 0.99)["correlation"]
    assert found["low"] < 0 < found["high"] and found["high"] - found["low"] < 0.12
    constant = scale_spread(np.full(3000, 0.1), position, document, 0.99)
    assert constant["correlation"] is None
    assert constant["variation"]["value"] == pytest.approx(0, abs=1e-12)


def test_shares_of_variance_are_those_of_the_columns():
    rng = np.random.default_rng(4)
    position, rest = rng.normal(9, 1, (600, 8)), rng.normal(-7, 3, (600, 8))
    rest[:, :4] += position[:, :4]
    document = np.repeat(np.arange(20), 30)
    found = variance_shares(rest, position, document, 0.95)
    whole = (rest + position).var(axis=0).sum()
    assert found["position"]["value"] == pytest.approx(position.var(axis=0).sum() / whole, rel=1e-9)
    assert found["rest"]["value"] == pytest.approx(rest.var(axis=0).sum() / whole, rel=1e-9)
    assert sum(one["value"] for one in found.values()) == pytest.approx(1, rel=1e-12)
    keep = document != 3
    fewer = variance_shares(rest[keep], position[keep], document[keep], 0.95)
    assert abs(fewer["rest"]["value"] - found["rest"]["value"]) < 0.05


def by_hand(states, position):
    """Eta squared of each column by the definition, corrected, and its mean."""
    found = []
    for column in states.T:
        groups = [column[position == p] for p in np.unique(position)]
        within = sum(((g - g.mean()) ** 2).sum() for g in groups)
        between = sum(len(g) * (g.mean() - column.mean()) ** 2 for g in groups)
        n, k = len(column), len(groups)
        found.append((between - (k - 1) * within / (n - k)) / (between + within))
    return np.mean(found)


def test_the_share_between_positions_and_its_jackknife_are_those_by_hand():
    rng = np.random.default_rng(5)
    lengths = rng.integers(3, 25, 18)
    document = np.repeat(np.arange(18), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    states = rng.normal(size=(len(position), 5)) + 0.1 * position[:, None] + 100
    order = rng.permutation(len(position))  # tokens may come in any order
    found = share_between_positions(states[order], position[order], document[order] * 7, 0.95)
    assert found.value == pytest.approx(by_hand(states, position), rel=1e-9)
    left = [by_hand(states[document != n], position[document != n]) for n in range(18)]
    half = norm.ppf(0.975) * np.sqrt(17 * np.var(left))
    assert found.high - found.value == pytest.approx(half, rel=1e-7)


def test_half_of_the_variance_is_planted_between_positions():
    rng = np.random.default_rng(6)
    position, document = text(40, 100)
    between = rng.normal(size=(100, 64))  # of unit variance over positions
    between = (between - between.mean(axis=0)) / between.std(axis=0)
    states = between[position] + rng.normal(size=(4000, 64))
    found = share_between_positions(states.astype(np.float32), position, document, 0.95)
    assert found.value == pytest.approx(0.5, abs=0.01)
    only = share_between_positions(between[position], position, document, 0.95)
    assert only.value == pytest.approx(1, abs=1e-12)


def test_the_share_of_unrelated_positions_is_at_chance():
    # Two tokens a position: without the correction the share would be about one half.
    rng = np.random.default_rng(7)
    position, document = text(3, 400)
    shares = share_between_positions(rng.normal(size=(1200, 100)), position, document, 0.99)
    assert abs(shares.value) < 0.02
    assert shares.low < 0.01 and shares.high > -0.01


def test_states_without_a_share_are_refused():
    position, document = text(1, 30)
    with pytest.raises(ValueError, match="two tokens"):
        share_between_positions(np.eye(30), position, document, 0.95)
    position, document = text(5, 6)
    with pytest.raises(ValueError, match="no variance"):
        share_between_positions(np.ones((30, 4)), position, document, 0.95)


def test_a_pure_sine_is_one_line_of_the_spectrum():
    t = np.arange(48)
    signal = np.stack([3 * np.sin(2 * np.pi * 5 * t / 48), 3 * np.cos(2 * np.pi * 5 * t / 48)], 1)
    found = amplitudes(signal)
    assert found[5] == pytest.approx(1.5) and np.delete(found, 5).max() < 1e-12


def test_a_constant_scale_leaves_the_spectrum_and_another_convolves_it():
    rng = np.random.default_rng(8)
    position, gain = rng.normal(size=(32, 6)), rng.normal(size=6)
    same = scaled_spectrum(np.full((5, 32), 0.7), position, gain, 0.95)
    np.testing.assert_allclose(
        [one["value"] for one in same["scaled"]], same["position"], rtol=1e-12
    )
    assert same["frequency"] == list(np.arange(17) / 32)
    carried = (position - position.mean(1, keepdims=True)) * gain
    np.testing.assert_allclose(same["position"], 0.7 * amplitudes(carried), rtol=1e-12)
    scale = rng.uniform(0.5, 2, size=(5, 32))
    found = scaled_spectrum(scale, position, gain, 0.95)
    # The transform of a product is the circular convolution of the transforms.
    expected = np.zeros(17)
    for row in scale:
        s, p = np.fft.fft(row), np.fft.fft(carried, axis=0)
        for k in range(17):
            total = sum(s[(k - j) % 32] * p[j] for j in range(32)) / 32
            expected[k] += np.abs(total).mean() / 32 / 5
    np.testing.assert_allclose([one["value"] for one in found["scaled"]], expected, rtol=1e-9)


LENGTHS = [[9, 14, 12], [20, 7, 2, 16]]  # documents of two shards
N_LAYERS, D = 2, 10


def write_run(root, family, seed=0):
    """A model, its tokens and its store, in their real formats; the embedding is computed."""
    rng = np.random.default_rng(seed)
    weights, tokens, store = root / "model", root / "tokens", root / "stores/sample/intact"
    for folder in (weights, tokens, store):
        folder.mkdir(parents=True)
    is_decoder = family == "gpt2"
    padding = 2 if family == "roberta" else 0
    table, places = rng.normal(size=(30, D)), rng.normal(size=(20 + padding, D))
    kind = 4 * rng.normal(size=(2, D))
    norms = rng.normal(1, 0.1, (N_LAYERS, 2, D))
    if is_decoder:
        made = {"transformer.wte.weight": table, "transformer.wpe.weight": places}
        for layer, (gain, bias) in enumerate(norms):
            made |= {f"transformer.h.{layer}.ln_1.weight": gain}
            made |= {f"transformer.h.{layer}.ln_1.bias": bias}
    else:
        made = {f"bert.embeddings.{name}_embeddings.weight": value for name, value in
                (("word", table), ("position", places), ("token_type", kind))}  # fmt: skip
        # The names of older files.
        made |= {"bert.embeddings.LayerNorm.gamma": norms[0, 0]}
        made |= {"bert.embeddings.LayerNorm.beta": norms[0, 1]}
    made = {name: value.astype(np.float32) for name, value in made.items()}
    save_file(made, weights / "model.safetensors")
    write_json(weights / "config.json", {} if is_decoder else {"layer_norm_eps": 1e-3})
    write_checksums(weights / "checksums.json", "config.json", "model.safetensors")
    flat = [length for part in LENGTHS for length in part]
    ids = [rng.integers(30, size=length) for length in flat]
    names = [f"document-{number}" for number in range(len(flat))]
    written = pa.table({"document_id": names, "input_ids": pa.array([list(i) for i in ids])})
    write_table(written, tokens / "sample.parquet", {"schema": 1})
    files, done = [], 0
    for number, lengths in enumerate(LENGTHS):
        ours = ids[done : done + len(lengths)]
        done += len(lengths)
        x = np.concatenate([table[i] + places[padding : padding + len(i)] for i in ours])
        if not is_decoder:
            x = torch.nn.functional.layer_norm(
                torch.from_numpy(x + kind[0]), (D,), *map(torch.from_numpy, norms[0]), 1e-3
            ).numpy()
        states = np.stack([x, *(2 * x + rng.normal(size=x.shape) for _ in range(N_LAYERS))])
        special = np.zeros(len(x), bool)
        path = store / shard_name(number)
        save_file({"hidden_states": states.astype(np.float16), "special_mask": special}, path)
        files.append({"file": path.name, "sha256": sha256_file(path)})
    index = pa.table(
        {
            "document_id": names,
            "shard": np.repeat([0, 1], [len(part) for part in LENGTHS]),
            "start": np.concatenate([np.cumsum(part) - part for part in LENGTHS]),
            "length": pa.array(flat, pa.int32()),
        }
    )
    metadata = {
        "schema": SCHEMA, "run": {"model": "toy", "dataset": "sample", "condition": "intact"},
        "is_decoder": is_decoder, "n_layers": N_LAYERS, "d_model": D, "n_shards": 2,
        "precision": {"mode": "exact"}, "files": files,
        "inputs": {"tokens": sha256_file(tokens / "sample.parquet"), **model_digests(weights)},
    }  # fmt: skip
    write_table(index, store / INDEX, metadata)
    return made, ids


def call(root, family, model="toy", dataset="sample"):
    """Run the step, and read what it wrote."""
    config = root / "job.json"
    reading = Reading(family=family, max_tokens=20).model_dump()
    job = {"parameters": PARAMETERS.model_dump(), "reading": reading, "datasets": [dataset]}
    config.write_text(json.dumps(job))
    step.main(
        model=model, config=config, weights=root / "model", tokens=root / "tokens",
        activations=root / "stores", output=root / "out",
    )  # fmt: skip
    return read_sealed(root / "out" / f"{dataset}.json")


def test_the_step_measures_a_decoder_before_each_block(tmp_path):
    made, ids = write_run(tmp_path, "gpt2")
    found = call(tmp_path, "gpt2")
    assert found["run"] == {"model": "toy", "dataset": "sample"} and found["catalogue"] == ["C5"]
    assert (found["documents"], found["tokens"], found["eps"]) == (7, 80 - 7, 1e-5)
    assert [one["layer"] for one in found["norms"]] == [0, 1]
    assert found["placement"] == "before" and "second normalisation" in found["not_run"]["reason"]
    assert found["embedding_error"] < 1e-3
    # Without position 0, from the weights by hand.
    table, places = made["transformer.wte.weight"], made["transformer.wpe.weight"]
    x = np.concatenate([(table[i] + places[: len(i)])[1:] for i in ids])
    scale = found["norms"][0]["scale"]
    assert scale["mean"]["value"] == pytest.approx(np.mean(1 / x.std(axis=1)), rel=2e-3)
    first = np.stack([table[i[0]] + places[0] for i in ids])
    expected = np.mean(1 / first.std(axis=1))
    assert found["norms"][0]["scale_at_first"] == pytest.approx(expected, rel=2e-3)
    for one in found["norms"]:
        # The median length is 12: eleven tokens after the first.
        assert (one["window"], one["windows"]) == (11, 4)
        assert len(one["spectrum"]["scaled"]) == len(one["spectrum"]["frequency"]) == 6
        assert sum(s["value"] for s in one["shares"].values()) == pytest.approx(1, abs=1e-9)
    assert [one["state"] for one in found["states"]] == [0, 1, 2]
    assert found["states"][0]["between_positions"]["value"] > 0.3
    for one in found["states"]:
        assert abs(one["shuffled"]["value"]) < 0.3
    assert call(tmp_path, "gpt2") == found


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_step_measures_an_encoder_s_embedding_and_says_what_it_cannot(tmp_path, family):
    write_run(tmp_path, family)
    found = call(tmp_path, family)
    assert [one["name"] for one in found["norms"]] == ["embedding"]
    assert found["not_run"]["status"] == "not run" and "not cached" in found["not_run"]["reason"]
    # With eps, gain, bias, token type and padding rows the stored output is met.
    assert found["eps"] == 1e-3 and found["embedding_error"] < 1e-3
    assert len(found["states"]) == N_LAYERS + 1


def test_documents_are_drawn_whole_and_by_the_seed(tmp_path):
    write_run(tmp_path, "gpt2")
    text = step.Tokens(tmp_path / "tokens/sample.parquet")
    store = step.ActivationStore(tmp_path / "stores/sample/intact")
    draws = [step.draw(text, store, 20, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0].ids, draws[1].ids)
    assert not np.array_equal(draws[0].document, draws[2].document)
    for one in draws:
        chosen = np.unique(one.document)
        assert 3 <= len(chosen) < 7
        np.testing.assert_array_equal(np.bincount(one.document)[chosen], text.lengths[chosen])
        np.testing.assert_array_equal(
            one.ids, np.concatenate([np.asarray(text.ids[document]) for document in chosen])
        )


def test_too_few_documents_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "LENGTHS", [[9, 1], [20]])
    write_run(tmp_path, "gpt2")
    with pytest.raises(ArtifactError, match="three documents of two tokens"):
        call(tmp_path, "gpt2")
    monkeypatch.setitem(globals(), "LENGTHS", [[9, 1, 2], [20]])
    write_run(tmp_path / "enough", "gpt2")
    assert call(tmp_path / "enough", "gpt2")["norms"][0]["windows"] == 2


def test_a_store_of_other_weights_is_refused(tmp_path):
    write_run(tmp_path, "gpt2")
    path = tmp_path / "model/config.json"
    write_json(path, {"layer_norm_epsilon": 1e-2})
    write_checksums(tmp_path / "model/checksums.json", "config.json", "model.safetensors")
    with pytest.raises(ArtifactError, match="other tokens or weights"):
        call(tmp_path, "gpt2")


def test_the_figure_shows_scale_spectrum_and_share(tmp_path):
    measured = []
    for index, (name, family) in enumerate(
        (("one", "bert"), ("two", "gpt2"), ("three", "gpt2"), ("four", "roberta"))
    ):
        write_run(tmp_path / name, family, index)
        found = call(tmp_path / name, family, model=name)
        for dataset in ("sample_reviews", "sample_questions", "another"):
            run = {"model": name, "dataset": dataset}
            measured.append({**found, "run": run})
    absent = {**measured[0], "status": "not run", "reason": "the weights are absent"}
    for shown in (measured[:1], measured[:2], measured[3:5], measured, [absent], [*measured[:3],
                  {**absent, "run": measured[3]["run"]}]):  # fmt: skip
        drawn = figure.draw(shown, SECTIONS.layer_norm, SECTIONS.style)
        check_texts(drawn)
        if shown[0] is absent:
            continue
        lines = [list(line.get_ydata()) for axes in drawn.axes for line in axes.get_lines()]
        one = shown[0]
        assert [state["between_positions"]["value"] for state in one["states"]] in lines
        assert one["norms"][0]["spectrum"]["position"][1:] in lines
        assert [norm["scale"]["quantiles"]["0.5"] for norm in one["norms"]] in lines
