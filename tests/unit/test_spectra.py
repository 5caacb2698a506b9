"""Signals along the sequence: identities of the transform, planted signals, stores by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy import signal
from scipy.special import softmax

from posenc.artifacts.activations import INDEX, SCHEMA, ActivationStore, shard_name
from posenc.artifacts.files import ArtifactError, sha256_file, write_json
from posenc.artifacts.tables import write_table
from posenc.drawing.command import read_measurements
from posenc.figures import band_pass as band_figure
from posenc.measurements.spectra import figure as spectra_figure
from posenc.measurements.spectra import measure as step
from posenc.measurements.spectra.declaration import Spectra
from posenc.metrics import spectra as maths
from posenc.metrics.patterns import attention_pattern, uniform_pattern

from . import synthetic
from .runs import result_of
from .test_figures import check_texts

LAYERS, HEADS, D_HEAD = 2, 2, 4
D_MODEL = HEADS * D_HEAD
WINDOW = 16
PARAMETERS = Spectra(
    documents=None, window=WINDOW, bands=[0.1, 0.3], bootstrap_samples=100, confidence=0.9, seed=1
)
SECTIONS = synthetic.params_of().figures
QUICK = settings(deadline=None, max_examples=40)
tokens = st.integers(2, 70)
seeds = st.integers(0, 2**32 - 1)


def signals(seed: int, n: int, columns: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(rng.normal(), 3, (2, n, columns))  # [2, n, columns]


def write_store(
    folder: Path,
    lengths: list[list[int]],
    condition: str = "intact",
    is_decoder: bool = False,
    spec: dict | None = None,
    dataset: str = "sample",
    model: str = "toy",
    wave: float = 0.0,
) -> ActivationStore:
    """A store with random signals, plus a wave of period 4 over positions in all columns.

    A document's first token is special; so is its last, for an encoder.
    """
    folder.mkdir(parents=True)
    files = []
    for number, of_shard in enumerate(lengths):
        rng = np.random.default_rng(number)
        n = sum(of_shard)
        ends = np.cumsum(of_shard)
        special = np.zeros(n, bool)
        special[ends - of_shard] = True
        special[ends - 1] |= not is_decoder
        position = np.concatenate([np.arange(length) for length in of_shard])
        moved = wave * np.cos(np.pi * position / 2)[:, None]  # [n, 1]
        shapes = {
            "hidden_states": (LAYERS + 1, n, D_MODEL),
            "queries": (LAYERS, HEADS, n, D_HEAD),
            "keys": (LAYERS, HEADS, n, D_HEAD),
        }
        arrays = {
            name: (rng.normal(size=shape) + moved).astype(np.float16)
            for name, shape in shapes.items()
        }
        save_file({**arrays, "special_mask": special}, folder / shard_name(number))
        name = shard_name(number)
        files.append({"file": name, "sha256": sha256_file(folder / name)})
    flat = [length for of_shard in lengths for length in of_shard]
    index = pa.table(
        {
            "document_id": [f"document-{number}" for number in range(len(flat))],
            "shard": np.repeat(np.arange(len(lengths)), [len(shard) for shard in lengths]),
            "start": np.concatenate([np.cumsum(shard) - shard for shard in lengths]),
            "length": pa.array(flat, pa.int32()),
        }
    )
    metadata = {
        "schema": SCHEMA,
        "run": {"model": model, "dataset": dataset, "condition": condition},
        "is_decoder": is_decoder,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "d_model": D_MODEL,
        "precision": {"mode": "exact"},
        "condition": {"mask": None, "segments": None, **(spec or {})},
        "n_shards": len(lengths),
        "files": files,
    }
    write_table(index, folder / INDEX, metadata)
    return ActivationStore(folder)


LENGTHS = [[18, 40, 12], [17, 35, 18, 50]]


@QUICK
@given(tokens, seeds)
def test_power_sums_to_the_mean_square(n, seed):
    x = signals(seed, n)
    power = maths.power_spectrum(x)
    assert power.shape == (2, n // 2 + 1, 3)
    np.testing.assert_allclose(power.sum(axis=1), np.square(x).mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(power[:, 0], x.mean(axis=1) ** 2, atol=1e-12)


@QUICK
@given(tokens, seeds)
def test_power_agrees_with_a_periodogram(n, seed):
    x = signals(seed, n)
    f, expected = signal.periodogram(x, axis=1, detrend=False, scaling="spectrum")
    np.testing.assert_allclose(maths.power_spectrum(x), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(maths.frequencies(n), f)
    np.testing.assert_allclose(maths.amplitude_spectrum(x), np.abs(np.fft.rfft(x, axis=1)))


@QUICK
@given(tokens, st.data())
def test_a_pure_sine_lands_in_one_bin(n, data):
    k = data.draw(st.integers(0, n // 2))
    amplitude, phase = data.draw(st.floats(0.5, 9)), data.draw(st.floats(0, 6))
    edge = k in (0, n / 2)  # where sine and cosine do not both exist
    phase = 0.0 if edge else phase
    x = amplitude * np.cos(2 * np.pi * k * np.arange(n) / n + phase)[:, None]
    expected = np.zeros(n // 2 + 1)
    expected[k] = amplitude**2 / (1 if edge else 2)
    np.testing.assert_allclose(maths.power_spectrum(x)[:, 0], expected, atol=1e-10)
    assert maths.frequencies(n)[k] == pytest.approx(k / n)


@QUICK
@given(st.integers(8, 70), seeds)
def test_bands_part_the_signal(n, seed):
    x = signals(seed, n)
    masks = maths.band_masks(n, [1.5 / n, 3.5 / n])
    np.testing.assert_array_equal(masks.sum(axis=0), 1)
    assert masks[0, 0] and masks[-1, -1]
    parts = maths.band_pass(x, masks)
    np.testing.assert_allclose(parts.sum(axis=0), x, atol=1e-11)
    np.testing.assert_allclose(
        maths.band_pass(x, np.ones((1, n // 2 + 1)))[0], x, atol=1e-11, err_msg="full band"
    )
    for number, part in enumerate(parts):
        again = maths.band_pass(part, masks)
        np.testing.assert_allclose(again[number], part, atol=1e-11)
        np.testing.assert_allclose(np.delete(again, number, axis=0), 0, atol=1e-11)
        # An orthogonal projection: what is kept is at right angles to what is not.
        np.testing.assert_allclose(np.sum(part * (x - part), axis=1), 0, atol=1e-8)
    along = maths.band_pass(np.moveaxis(x, 1, 0), masks, axis=0)
    np.testing.assert_allclose(np.moveaxis(along, 1, 2), parts, atol=1e-11)


def test_limits_belong_to_the_band_above():
    masks = maths.band_masks(8, [0.125, 0.375])
    np.testing.assert_array_equal(masks.argmax(axis=0), [0, 1, 1, 2, 2])
    masks = maths.band_masks(8, [0.25])
    np.testing.assert_array_equal(masks, [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])


def test_what_has_no_power_shares_nothing():
    shares = maths.locked_share([0.0, 2.0, 2.0, 2.0], [0.0, 2.0, 0.5, 0.0], 4)
    assert shares.tolist() == pytest.approx([0, 1, 0, -1 / 3])


@QUICK
@given(st.integers(2, 9), st.booleans(), seeds)
def test_attention_is_a_softmax_row_by_row(n, causal, seed):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(0, 3, (2, 2, n, 5))  # [2, n, 5] each
    pattern = attention_pattern(q, k, causal=causal)
    for head in range(2):
        for i in range(n):
            last = i + 1 if causal else n
            row = softmax([q[head, i] @ k[head, j] / 5**0.5 for j in range(last)])
            np.testing.assert_allclose(pattern[head, i, :last], row, atol=1e-12)
            np.testing.assert_array_equal(pattern[head, i, last:], 0)
    level = attention_pattern(0 * q, k, causal=causal)
    np.testing.assert_allclose(level[0], uniform_pattern(n, causal=causal), atol=1e-12)


@QUICK
@given(st.integers(2, 9), seeds)
def test_distance_is_a_metric_between_0_and_1(n, seed):
    p, q, r = np.random.default_rng(seed).dirichlet(np.ones(n) / 3, (3, n))  # [n, n] each
    distance = maths.pattern_distance
    assert distance(p, p) == 0
    assert 0 < distance(p, q) <= 1
    assert distance(p, q) == pytest.approx(distance(q, p))
    assert distance(p, r) <= distance(p, q) + distance(q, r) + 1e-12
    # The largest difference over sets of keys, by trying them all.
    sets = (np.arange(2**n)[:, None] >> np.arange(n)) & 1  # [sets, n]
    assert distance(p, q) == pytest.approx(np.mean((sets @ (p - q).T).max(axis=0)))
    assert distance(np.eye(n), np.roll(np.eye(n), 1, axis=0)) == 1


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
def test_a_planted_locked_share_is_recovered(share):
    rng = np.random.default_rng(0)
    n, length, columns = 50, 32, 200
    common = rng.normal(size=(length, columns))  # [length, columns]
    own = rng.normal(size=(n, length, columns))  # [n, length, columns]
    x = share**0.5 * common + (1 - share) ** 0.5 * own
    power = maths.power_spectrum(x).mean(axis=(0, 2))  # [frequencies]
    of_mean = maths.power_spectrum(x.mean(axis=0)).mean(axis=1)  # [frequencies]
    shares = maths.locked_share(power, of_mean, n)
    assert shares.mean() == pytest.approx(share, abs=0.01)
    # Without the correction, windows that share nothing seem to share one part in n.
    if share == 0:
        assert np.mean(of_mean / power) == pytest.approx(1 / n, rel=0.05)


def test_bad_input_is_refused():
    x = signals(0, 16)
    for call, match in (
        (lambda: maths.frequencies(1), "no frequency"),
        (lambda: maths.power_spectrum(x[:, :1]), "fewer than 2"),
        (lambda: maths.power_spectrum(np.where(x > 2, np.inf, x)), "finite"),
        (lambda: maths.band_masks(16, [0.2, 0.1]), "rise"),
        (lambda: maths.band_masks(16, [0.5]), "rise"),
        (lambda: maths.band_masks(16, [0.1, 0.3, 0.5]), "rise"),
        (lambda: maths.band_masks(16, [0.2, 0.2]), "rise"),
        (lambda: maths.band_masks(16, [0.0, 0.2]), "rise"),
        (lambda: maths.band_masks(16, []), "rise"),
        (lambda: maths.band_masks(8, [0.13, 0.2]), "holds no frequency"),
        (lambda: maths.band_pass(x, np.ones((1, 5))), "do not fit"),
        (lambda: attention_pattern(x, x[:, 1:], causal=True), "same"),
        (lambda: attention_pattern(x * np.nan, x, causal=True), "finite"),
        (lambda: maths.pattern_distance(x[0], x[0, 1:]), "shapes"),
        (lambda: maths.locked_share([1.0], [1.0], 1), "from 2 on"),
        (lambda: maths.locked_share([1.0], [-1.0], 3), "negative"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    store = write_store(tmp_path_factory.mktemp("store") / "intact", LENGTHS, wave=1.5)
    return store, result_of(step, PARAMETERS, store)


def test_the_step_agrees_with_a_loop_over_windows(measured):
    store, result = measured
    json.dumps(result, allow_nan=False)
    assert result["catalogue"] == ["C1", "C2"]
    assert (result["documents"], result["windows"], result["tokens"]) == (5, 9, 9 * WINDOW)
    assert result["first_tokens"] == [1]
    bands = maths.band_masks(WINDOW, PARAMETERS.bands)
    for layer in range(LAYERS):
        power, locked = [], []
        for number, of_shard in enumerate(LENGTHS):
            start = 0
            for length in of_shard:
                # Without the special tokens at either end.
                text = store.keys(number)[layer, :, start + 1 : start + length - 1].astype(float)
                for begin in range(0, length - 2 - WINDOW + 1, WINDOW):
                    window = text[:, begin : begin + WINDOW]  # [heads, WINDOW, d_head]
                    power.append(maths.power_spectrum(window).mean(axis=2))
                    if begin == 0:
                        locked.append(window)
                start += length
        spectra = result["quantities"]["keys"]
        mean = np.mean(power, axis=(0, 1))  # [frequencies]
        np.testing.assert_allclose(spectra["power"][layer], mean, rtol=1e-5)
        np.testing.assert_allclose(spectra["heads"][layer], np.mean(power, axis=0), rtol=1e-5)
        varying = mean[1:].sum()
        np.testing.assert_allclose(spectra["relative_power"][layer], mean[1:] / varying, rtol=1e-5)
        assert spectra["constant_to_varying"][layer] == pytest.approx(mean[0] / varying, rel=1e-5)
        assert spectra["constant"][layer]["value"] == pytest.approx(mean[0] / mean.sum(), rel=1e-5)
        for band, estimate in zip(bands, spectra["band_shares"][layer], strict=True):
            assert estimate["value"] == pytest.approx(mean[1:][band[1:]].sum() / varying, rel=1e-5)
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
        first = maths.power_spectrum(np.array(locked)).mean(axis=(0, 1, 3))
        of_mean = maths.power_spectrum(np.mean(locked, axis=0)).mean(axis=(0, 2))
        expected = maths.locked_share(first, of_mean, 5)
        np.testing.assert_allclose(spectra["locked"][layer], expected, rtol=1e-4, atol=1e-5)
        # The wave of period 4 is locked to position, and the largest of all.
        assert np.argmax(spectra["power"][layer]) == WINDOW // 4
        assert spectra["locked"][layer][WINDOW // 4] > 0.8
    assert len(result["quantities"]["hidden_states"]["power"]) == LAYERS + 1
    assert "heads" not in result["quantities"]["hidden_states"]


@pytest.mark.parametrize("is_decoder", [False, True])
def test_distances_agree_with_a_loop_over_heads(tmp_path, is_decoder):
    store = write_store(tmp_path / "intact", LENGTHS, is_decoder=is_decoder, wave=1.0)
    result = result_of(step, PARAMETERS, store)["band_pass"]
    assert result["status"] == "measured"
    assert 0 <= result["all_frequencies"] < 1e-5
    masks = maths.band_masks(WINDOW, PARAMETERS.bands)
    spare = 1 if is_decoder else 2
    for layer in range(LAYERS):
        for head in range(HEADS):
            distances = []
            for number, of_shard in enumerate(LENGTHS):
                for start, length in zip(np.cumsum(of_shard) - of_shard, of_shard, strict=True):
                    if length - spare < WINDOW:
                        continue
                    q, k = (
                        array(number)[layer, head, start : start + WINDOW].astype(float)
                        for array in (store.queries, store.keys)
                    )
                    whole = attention_pattern(q, k, causal=is_decoder)
                    row = []
                    for mask in [*masks, *~masks]:
                        parts = [maths.band_pass(vectors, mask[None])[0] for vectors in (q, k)]
                        pattern = attention_pattern(*parts, causal=is_decoder)
                        row.append(maths.pattern_distance(pattern, whole))
                    level = uniform_pattern(WINDOW, causal=is_decoder)
                    distances.append([*row, maths.pattern_distance(level, whole)])
            mean = np.mean(distances, axis=0)  # [2 bands + 1]
            heads = result["heads"]
            np.testing.assert_allclose(heads["kept"][layer][head], mean[:3], rtol=1e-4)
            np.testing.assert_allclose(heads["left_out"][layer][head], mean[3:6], rtol=1e-4)
            assert heads["uniform"][layer][head] == pytest.approx(mean[6], rel=1e-4)
        for name in ("kept", "left_out"):
            of_heads = np.mean(result["heads"][name][layer], axis=0)
            for estimate, expected in zip(result[name][layer], of_heads, strict=True):
                assert estimate["value"] == pytest.approx(expected, rel=1e-5)
                assert estimate["low"] <= estimate["value"] <= estimate["high"]
        assert result["uniform"][layer]["value"] == pytest.approx(
            np.mean(result["heads"]["uniform"][layer]), rel=1e-5
        )


def test_documents_are_the_first_ones_and_shards_do_not_matter(tmp_path, measured):
    store, _ = measured
    result = result_of(step, PARAMETERS.model_copy(update={"documents": 4}), store)
    assert result["documents"] == 2  # the third has no window, nor has the fourth
    assert result["windows"] == 3


def test_what_cannot_be_measured_says_why(tmp_path):
    short = write_store(tmp_path / "short", [[9, 15]])
    result = result_of(step, PARAMETERS, short)
    assert (result["status"], result["documents"]) == ("not run", 0)
    assert "16 tokens of text; the longest document has 15" in result["reason"]
    for spec in ({"mask": {"semantics": "additive"}}, {"segments": 4}):
        store = write_store(tmp_path / next(iter(spec)), LENGTHS, spec=spec)
        result = result_of(step, PARAMETERS, store)
        assert result["status"] == "measured"
        assert result["band_pass"].keys() == {"status", "reason"}
        assert result["band_pass"]["status"] == "not run"
    empty = PARAMETERS.model_copy(update={"bands": [0.13, 0.14]})
    with pytest.raises(ArtifactError, match=r"measurements\.spectra of params.yaml: band 1"):
        result_of(step, empty, store)


def test_the_command_writes_a_run_of_each_condition(tmp_path):
    for condition in ("intact", "zero"):
        write_store(tmp_path / "activations/sample" / condition, LENGTHS, condition)
    job = {"datasets": ["sample"], "conditions": ["intact", "zero"]}
    write_json(tmp_path / "job.json", {"parameters": PARAMETERS.model_dump(), **job})
    step.main(tmp_path / "job.json", tmp_path / "activations", tmp_path / "measured")
    runs = read_measurements(sorted((tmp_path / "measured").rglob("*.json")))
    assert [run["run"]["condition"] for run in runs] == ["intact", "zero"]
    store = ActivationStore(tmp_path / "activations/sample/zero")
    expected = json.loads(json.dumps(result_of(step, PARAMETERS, store)))
    assert {key: runs[1][key] for key in expected} == expected
    assert set(runs[1]["provenance"]["versions"]) == {"numpy", "scipy"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Runs of two models on two data sets, one with documents that are too short."""
    root, runs = tmp_path_factory.mktemp("study"), []
    for model, is_decoder in (("minilm", False), ("decoder", True)):
        for dataset, lengths in (("sample_reviews", LENGTHS), ("sample_questions", [[9, 9]])):
            for condition, wave in (("intact", 2.0), ("zero", 0.0)):
                folder = root / model / dataset / condition
                options = {"dataset": dataset, "model": model, "is_decoder": is_decoder}
                store = write_store(folder, lengths, condition, wave=wave, **options)
                runs.append(result_of(step, PARAMETERS, store))
    return runs


def named(runs: list[dict], names: dict[str, str]) -> list[dict]:
    """Copies of some models' runs under other names."""
    return [
        {**run, "run": {**run["run"], "model": new}}
        for old, new in names.items()
        for run in runs
        if run["run"]["model"] == old
    ]


@pytest.mark.parametrize("draw", [spectra_figure.draw, band_figure.draw])
@pytest.mark.parametrize("models", [1, 2, 4])
def test_figures_can_be_read(study, draw, models):
    name = draw.__module__.removesuffix(".figure").rsplit(".", 1)[1]
    runs = {
        1: named(study, {"decoder": "decoder"}),
        2: study,
        4: study + named(study, {"decoder": "decoder_imdb_1", "minilm": "decoder_imdb_2"}),
    }[models]
    check_texts(draw(runs, getattr(SECTIONS, name), SECTIONS.style))
    if models == 1:
        nothing = [run for run in study if run["status"] != "measured"]
        check_texts(draw(nothing, getattr(SECTIONS, name), SECTIONS.style))


def test_heat_maps_are_the_measured_spectra(study):
    figure = spectra_figure.draw(study, SECTIONS.spectra, SECTIONS.style)
    axes = [ax for ax in figure.axes if ax.get_xscale() == "log"][:-1]  # without a colour bar
    assert len(axes) == 16
    shown = [run for run in study if run["run"]["dataset"] == "sample_reviews"]
    for row, run in enumerate(shown):
        for column, (quantity, key) in enumerate(spectra_figure.COLUMNS):
            zero, others = (
                mesh.get_array().reshape(len(run["quantities"][quantity]["power"]), -1)
                for mesh in axes[4 * row + column].collections
            )
            spectra = run["quantities"][quantity]
            if key == "locked":
                np.testing.assert_array_equal(np.hstack([zero, others]), spectra["locked"])
            else:
                np.testing.assert_array_equal(zero[:, 0], spectra["constant_to_varying"])
                np.testing.assert_array_equal(others, spectra["relative_power"])


def test_lines_are_the_measured_distances(study):
    figure = band_figure.draw(study, SECTIONS.band_pass, SECTIONS.style)
    run = study[0]
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[0].get_lines()}
    assert list(lines[band_figure.UNIFORM]) == [
        estimate["value"] for estimate in run["band_pass"]["uniform"]
    ]
    for band in range(3):
        name = band_figure.band_name(run["bands"], band)
        for word, key in (("only", "kept"), ("all but", "left_out")):
            values = [layer[band]["value"] for layer in run["band_pass"][key]]
            assert list(lines[f"{word} {name}"]) == values
    assert not [axes for axes in figure.axes if "questions" in axes.get_title()], "not run"
    assert any("tokens of text" in text.get_text().replace("\n", " ") for text in figure.texts)
