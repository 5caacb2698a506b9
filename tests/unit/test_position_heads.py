"""Scores of positions alone: the nearest mask by distance, files with some tensors, the step."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from ruamel.yaml import YAML
from safetensors.numpy import save_file
from scipy.special import softmax
from transformers import GPT2Config, GPT2LMHeadModel

from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, write_checksums
from posenc.artifacts.numbers import NotRun, Number
from posenc.measurements.of_tables import Job
from posenc.measurements.position_heads import figure as figure
from posenc.measurements.position_heads import measure as step
from posenc.measurements.position_heads.declaration import PositionHeads
from posenc.measurements.position_heads.quantities import POSITION_HEADS, QUANTITIES
from posenc.measurements.position_heads.result import Head, PositionScores
from posenc.measurements.relative_attention.result import Profile
from posenc.metrics.null_tables import NULLS, gaussian_rows, null_tables, shuffled_rows, spread
from posenc.metrics.position_scores import distance_parts
from posenc.models.heads import HeadFile
from posenc.models.matrices import PathMatrix
from posenc.models.section import Reading

from . import synthetic
from .test_figures import check_texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = PositionHeads(rows=24, offsets=3, near=2, null_draws=2, seed=0)
LAYERS, HEADS, D, POSITIONS = 2, 3, 12, 32


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def pairs(n: int, causal: bool) -> list[tuple[int, int]]:
    """Where a mask by distance is fitted."""
    return [(i, j) for i in range(n) for j in range(1, n) if j <= i or not causal]


@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_is_that_of_least_squares(causal):
    n, scores = 9, generator().normal(size=(2, 9, 9))
    seen = pairs(n, causal)
    distances = sorted({i - j for i, j in seen})
    design = np.zeros((len(seen), len(distances) + n))
    for row, (i, j) in enumerate(seen):
        design[row, distances.index(i - j)] = design[row, len(distances) + i] = 1
    parts = distance_parts(scores, causal=causal)
    for head, own in enumerate(scores):
        values = np.array([own[pair] for pair in seen])
        fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
        means = {i: np.mean([own[i, j] for k, j in seen if k == i]) for i, _ in seen}
        total = sum((own[i, j] - means[i]) ** 2 for i, j in seen)
        assert parts.share[head] == pytest.approx(1 - np.sum((values - fitted) ** 2) / total)
        assert parts.deviation[head] == pytest.approx(np.sqrt(total / len(seen)))
        # What differs between keys of a query is fitted alike; what all of a query have is free.
        by_query: dict[int, list[float]] = {}
        for (i, j), value in zip(seen, fitted, strict=True):
            mask = parts.curve[head, distances.index(i - j)]
            by_query.setdefault(i, []).append(value - mask)
        for differences in by_query.values():
            np.testing.assert_allclose(differences, differences[0], atol=1e-10)
        assert np.mean([parts.curve[head, distances.index(i - j)] for i, j in seen]) == (
            pytest.approx(0, abs=1e-12)
        )


@pytest.mark.parametrize("causal", [True, False])
def test_a_mask_is_found_under_what_softmax_does_not_see(causal):
    n, rng = 20, generator(1)
    curve = rng.normal(size=2 * n)
    distance = np.arange(n)[:, None] - np.arange(n)
    scores = curve[distance + n] + 9 * rng.normal(size=(n, 1))
    with_first = scores.copy()
    with_first[:, 0] += 3
    parts = distance_parts(np.stack([scores, with_first]), causal=causal)
    np.testing.assert_allclose(parts.share, 1, atol=1e-12)
    np.testing.assert_allclose(parts.first, [0, 3], atol=1e-10)
    low = 0 if causal else 1 - n
    planted = curve[low + n : low + n + parts.curve.shape[1]]
    for own in parts.curve:
        np.testing.assert_allclose(np.ptp(own - planted), 0, atol=1e-10)
    # In exact arithmetic, the pattern of the mask and the first key is that of the scores.
    mask = parts.curve[1][distance.clip(low, parts.curve.shape[1] + low - 1) - low]
    mask[:, 0] += parts.first[1]
    blocked = np.where((distance < 0) & causal, -np.inf, 0)
    last = slice(1, n - 1)  # b is not known at the distance that the first key alone has
    np.testing.assert_allclose(
        softmax(mask + blocked, axis=1)[last],
        softmax(with_first + blocked, axis=1)[last],
        atol=1e-10,
    )


def test_scores_that_know_no_distance_or_no_position():
    scores = generator(2).normal(size=(3, 60, 60))
    scores[2] = generator(3).normal(size=(60, 1))
    parts = distance_parts(scores, causal=True)
    np.testing.assert_allclose(parts.share[:2], 2 / 60, atol=0.02)
    assert np.isnan(parts.share[2]) and parts.deviation[2] == pytest.approx(0, abs=1e-12)
    with pytest.raises(ValueError, match="too few"):
        distance_parts(scores[:, :3, :3], causal=True)
    # A causal head's future is not read; what it sees must be finite.
    scores[0, 0, 5] = np.inf
    distance_parts(scores, causal=True)
    scores[0, 5, 1] = np.nan
    with pytest.raises(ValueError, match="finite"):
        distance_parts(scores, causal=True)


@pytest.mark.filterwarnings("error")
def test_each_head_has_its_own_unit():
    scores = generator(4).normal(size=(4, 12, 12))
    units = np.array([1.0, 1e-100, 1e40, 0.0])[:, None, None]
    parts, alone = (
        distance_parts(attention_scores, causal=True)
        for attention_scores in (scores * units, scores)
    )
    np.testing.assert_allclose(parts.share[:3], alone.share[:3], rtol=1e-9)
    assert np.isnan(parts.share[3]) and parts.deviation[3] == 0
    np.testing.assert_allclose(parts.curve, alone.curve * units[:, 0], rtol=1e-9)


def test_the_steepest_heads_are_those_whose_mask_varies_most():
    heads = [
        Head.model_construct(head=number, deviation=deviation, distance_share=share)
        for number, (deviation, share) in enumerate([(4, 0.25), (9, None), (3, 0.81), (1, 1)])
    ]
    result = PositionScores.model_construct(heads=heads)
    assert [head.head for head in result.steepest(3)] == [2, 0, 3]


def test_the_nearest_heads_are_of_the_first_layer_and_look_nearest():
    heads = [
        Head.model_construct(
            head=number, layer=layer, profile=Profile.model_construct(mean_offset=offset)
        )
        for number, (layer, offset) in enumerate(
            [(0, -3.0), (0, None), (0, 1.0), (1, 0.0), (0, -0.5)]
        )
    ]
    result = PositionScores.model_construct(heads=heads)
    assert [(offset, head.head) for offset, head in result.nearest(2)] == [(-0.5, 4), (1.0, 2)]
    assert [head.head for _, head in result.nearest(9)] == [4, 2, 0]


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=7, n_positions=POSITIONS, n_embd=D, n_layer=LAYERS, n_head=HEADS,
        attn_implementation="eager",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.6)
        model.transformer.wte.weight.zero_()
    return model


def parts_of(network) -> dict[str, np.ndarray]:
    """The tensors that the shared partial checkpoint has."""
    state = {name: value.numpy() for name, value in network.transformer.state_dict().items()}
    tensors = {"wpe.weight": state["wpe.weight"]}
    for layer in range(LAYERS):
        for kind in ("weight", "bias"):
            tensors[f"h.{layer}.ln_1.{kind}"] = state[f"h.{layer}.ln_1.{kind}"]
            split = np.split(state[f"h.{layer}.attn.c_attn.{kind}"], 3, axis=-1)
            for name, value in zip(("query", "key"), split, strict=False):
                tensors[f"h.{layer}.attn.{name}.{kind}"] = np.ascontiguousarray(value)
    return tensors


def section(path, **changed) -> PathMatrix:
    options = {"tensor": "wpe.weight", "n_heads": HEADS, **changed}
    return PathMatrix(kind="path", path=str(path), sha256=sha256_file(path), **options)


def measured(folder, matrix=None, reading=None, weights=None, parameters=PARAMETERS) -> dict:
    """The measurement of a subject, through its command."""
    job = Job[PositionHeads](parameters=parameters, reading=reading, matrix=matrix)
    (folder / "config.json").write_text(job.model_dump_json())
    step.main("it", folder / "config.json", folder / "it.json", weights)
    return read_sealed(folder / "it.json")


@pytest.fixture
def file(network, tmp_path):
    path = tmp_path / "part.safetensors"
    save_file(parts_of(network), path)
    return path


def test_heads_look_where_those_of_the_library_do(network, file, tmp_path):
    measurement = measured(tmp_path, section(file))
    with torch.no_grad():
        ids = torch.zeros(1, PARAMETERS.rows, dtype=torch.long)
        patterns = network(ids, output_attentions=True).attentions[0][0].double().numpy()
    t = PARAMETERS.offsets
    for head, pattern in zip(measurement["heads"], patterns, strict=False):  # of the first layer
        assert head["layer"] == 0
        assert head["first_mass"] == pytest.approx(pattern[:, 0].mean(), abs=1e-6)
        mass = [pattern.diagonal(-back)[t - back :].mean() for back in range(t, -1, -1)]
        mean = np.dot(range(-t, 1), mass) / np.sum(mass)
        assert head["profile"]["mean_offset"] == pytest.approx(mean, abs=1e-5)


def test_each_head_by_hand(network, file, tmp_path):
    measurement, tensors, n = measured(tmp_path, section(file)), parts_of(network), PARAMETERS.rows
    assert (measurement["n_layers"], measurement["n_heads"], measurement["rows"]) == (
        LAYERS, HEADS, n
    )  # fmt: skip
    assert measurement["is_causal"] and measurement["run"] == {"matrix": "it"}
    for head in measurement["heads"]:
        stem, own = f"h.{head['layer']}", slice(4 * head["head"], 4 * head["head"] + 4)
        x = tensors["wpe.weight"][:n].astype(float)
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        x = x * tensors[f"{stem}.ln_1.weight"] + tensors[f"{stem}.ln_1.bias"]
        query, key = (
            x @ tensors[f"{stem}.attn.{kind}.weight"] + tensors[f"{stem}.attn.{kind}.bias"]
            for kind in ("query", "key")
        )
        parts = distance_parts((query[:, own] @ key[:, own].T / 2)[None], causal=True)
        assert head["deviation"] == pytest.approx(parts.deviation[0])
        assert head["distance_share"] == pytest.approx(parts.share[0])
        assert head["first_score"] == pytest.approx(parts.first[0])
        np.testing.assert_allclose(head["distances"]["bias"], parts.curve[0], atol=6e-4)
        assert head["distances"]["from"] == 0


def test_null_tables_have_what_a_table_has_but_its_order():
    table = generator().normal([3, 200, -50], [0.1, 1, 10], (4000, 3))
    shuffled, gaussian = shuffled_rows(table, 1), gaussian_rows(table, 1)
    assert (shuffled != table).any()
    np.testing.assert_array_equal(np.unique(shuffled, axis=0), np.unique(table, axis=0))
    np.testing.assert_allclose(gaussian.mean(axis=0), [3, 200, -50], atol=5 * 10 / 4000**0.5)
    np.testing.assert_allclose(gaussian.std(axis=0), [0.1, 1, 10], rtol=0.05)
    together = np.hstack([table[:, :1], 2 * table[:, :1]])
    assert abs(np.corrcoef(gaussian_rows(together, 1).T)[0, 1]) < 0.06
    drawn = null_tables(table, 3, 0)
    assert tuple(drawn) == NULLS
    tables = [table for of in drawn.values() for table in of]
    assert len({table.tobytes() for table in tables}) == 6
    again = [table for of in null_tables(table, 3, 0).values() for table in of]
    np.testing.assert_array_equal(tables, again)
    assert spread([1, np.nan, 4]) == {"mean": 2.5, "least": 1, "most": 4}
    assert spread([np.nan]) is None


def test_a_null_is_the_measurement_of_another_table(network, file, tmp_path):
    """Each statistic is that of a file with the drawn table."""
    measurement = measured(tmp_path, section(file))
    table = parts_of(network)["wpe.weight"][: PARAMETERS.rows].astype(float)
    for name, tables in null_tables(table, PARAMETERS.null_draws, PARAMETERS.seed).items():
        draws = []
        for number, drawn in enumerate(tables):
            path = tmp_path / f"{name}{number}.safetensors"
            save_file({**parts_of(network), "wpe.weight": drawn}, path)
            draws.append(measured(tmp_path, section(path))["heads"])
        for place, head in enumerate(measurement["heads"]):
            offsets = [heads[place]["profile"]["mean_offset"] for heads in draws]
            shares = [heads[place]["distance_share"] for heads in draws]
            waves = [heads[place]["pairs"][0]["share"] for heads in draws]
            mass = np.mean([heads[place]["profile"]["mass"] for heads in draws], axis=0)
            np.testing.assert_allclose(head["nulls"][name]["mass"], mass, atol=2e-6)
            for key, values in (
                ("mean_offset", offsets),
                ("distance_share", shares),
                ("wave_share", waves),
            ):
                expected = {"mean": np.mean(values), "least": min(values), "most": max(values)}
                assert head["nulls"][name][key] == pytest.approx(expected)
        null = measurement["near"]["nulls"][name]
        offsets = [[head["profile"]["mean_offset"] for head in heads] for heads in draws]
        near = [sum(abs(offset) <= PARAMETERS.near for offset in own) for own in offsets]
        assert null["heads"] == {"mean": np.mean(near), "least": min(near), "most": max(near)}
        nearest = [min(own[:HEADS], key=abs) for own in offsets]
        assert null["nearest"]["mean"] == pytest.approx(np.mean(nearest))
        waves = [np.median([head["pairs"][0]["share"] for head in heads]) for heads in draws]
        assert measurement["waves"]["nulls"][name]["least"] == pytest.approx(min(waves))
        medians = [np.median([head["distance_share"] for head in heads]) for heads in draws]
        assert null["distance_share"]["most"] == pytest.approx(max(medians))


def test_a_head_that_reads_the_order_is_near_by_its_table_alone(network, tmp_path):
    """Waves of positions whose keys are turned by one token: the previous token is found.

    They are fast, so that a position is not like its neighbours, nor a turned key like its query:
    a head that looks at its own position does so with any table.
    """
    tensors, angle = parts_of(network), np.arange(POSITIONS)[:, None] * 2 * np.pi / [3, 4, 5]
    tensors["wpe.weight"] = np.zeros((POSITIONS, D), np.float32)
    tensors["wpe.weight"][:, :6:2], tensors["wpe.weight"][:, 1:6:2] = np.cos(angle), np.sin(angle)
    turn = np.eye(6)
    for n, period in enumerate((3, 4, 5)):
        c, s = np.cos(2 * np.pi / period), np.sin(2 * np.pi / period)
        turn[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = [[c, s], [-s, c]]
    for layer in range(LAYERS):
        tensors[f"h.{layer}.ln_1.weight"] = np.ones(D, np.float32)
        tensors[f"h.{layer}.ln_1.bias"] = np.zeros(D, np.float32)
        for kind, planted in (("query", np.eye(6)), ("key", turn)):
            weight = np.zeros((D, D), np.float32)
            weight[:6, :6] = 9 * planted
            tensors[f"h.{layer}.attn.{kind}.weight"] = weight
            tensors[f"h.{layer}.attn.{kind}.bias"] = np.zeros(D, np.float32)
    path = tmp_path / "planted.safetensors"
    save_file(tensors, path)
    wide = PARAMETERS.model_copy(update={"offsets": 8})
    measurement = measured(tmp_path, section(path, n_heads=1), parameters=wide)
    assert [head["profile"]["peak"] for head in measurement["heads"]] == [-1] * LAYERS
    assert all(head["distance_share"] > 0.9 for head in measurement["heads"])
    assert measurement["near"]["heads"] == LAYERS
    assert measurement["near"]["nearest"] == measurement["heads"][0]["profile"]["mean_offset"]
    for null in measurement["near"]["nulls"].values():
        assert null["heads"]["most"] == 0
        assert null["distance_share"]["most"] < 0.3


def test_a_pair_of_waves_that_is_shifted_is_found_with_its_lag(network, tmp_path):
    """W^Q W^K⊤ of one wave and the same wave two tokens later; by hand from the whole product."""
    period, shift, rows = 6, 2, 30
    tensors, angle = parts_of(network), 2 * np.pi * np.arange(POSITIONS) / period
    table = np.zeros((POSITIONS, D), np.float32)
    # With their negatives, so that they stay waves when normalised.
    table[:, 0], table[:, 1] = np.cos(angle), np.sin(angle)
    table[:, 2:4] = -table[:, :2]
    tensors["wpe.weight"] = table
    turn = 2 * np.pi * shift / period
    for layer in range(LAYERS):
        tensors[f"h.{layer}.ln_1.weight"] = np.ones(D, np.float32)
        tensors[f"h.{layer}.ln_1.bias"] = np.zeros(D, np.float32)
        for kind, (x, y) in (("query", (1, 0)), ("key", (np.cos(turn), -np.sin(turn)))):
            weight = np.zeros((D, D), np.float32)
            weight[0, 0], weight[1, 0] = x, y
            tensors[f"h.{layer}.attn.{kind}.weight"] = weight
            tensors[f"h.{layer}.attn.{kind}.bias"] = np.zeros(D, np.float32)
    path = tmp_path / "shifted.safetensors"
    save_file(tensors, path)
    parameters = PARAMETERS.model_copy(update={"rows": rows})
    measurement = measured(tmp_path, section(path, n_heads=1), parameters=parameters)
    for head in measurement["heads"]:
        pair = head["pairs"][0]
        # cos(a + turn) of the key: the wave of the query, as it is two tokens later.
        assert pair["frequency"] == pytest.approx(1 / period, rel=1e-3)
        assert pair["lag"] == pytest.approx(-shift, rel=1e-3) and pair["share"] > 0.95
    assert measurement["waves"] == {
        "period": pytest.approx(period, rel=1e-3), "lag": pytest.approx(-shift, rel=1e-3),
        "share": measurement["heads"][0]["pairs"][0]["share"],
        "nulls": measurement["waves"]["nulls"],
        "lags": LAYERS * (abs(pair["lag"]) <= 2), "lags_chance": pytest.approx(LAYERS * 4 / 6),
    }  # fmt: skip
    assert measurement["waves"]["nulls"]["shuffled"]["most"] < 0.7


def test_a_whole_model_gives_the_same_rows(network, file, tmp_path):
    """A file in the form of the hub, queries, keys and values in one tensor, and a folder."""
    part = measured(tmp_path, section(file))["heads"]
    folder = tmp_path / "model"
    network.save_pretrained(folder)
    write_checksums(folder / "checksums.json", "model.safetensors", "config.json")
    whole = folder / "model.safetensors"
    same = section(whole, tensor="transformer.wpe.weight")
    assert measured(tmp_path, same)["heads"] == part
    reading = Reading(family="gpt2", max_tokens=POSITIONS)
    model = measured(tmp_path, reading=reading, weights=folder)
    assert model["heads"] == part and model["run"] == {"model": "it"}


def test_of_an_encoder_both_sides_are_kept(tmp_path):
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=7, hidden_size=D, num_hidden_layers=1, num_attention_heads=HEADS,
        intermediate_size=8, max_position_embeddings=POSITIONS,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "model")
    write_checksums(tmp_path / "model/checksums.json", "model.safetensors", "config.json")
    reading = Reading(family="bert", max_tokens=POSITIONS)
    measurement = measured(tmp_path, reading=reading, weights=tmp_path / "model")
    assert not measurement["is_causal"]
    n = PARAMETERS.rows
    distances = measurement["heads"][0]["distances"]
    assert distances["from"] == 1 - n and len(distances["bias"]) == 2 * n - 2


def test_a_table_alone_is_not_run(file, tmp_path):
    measurement = measured(tmp_path, section(file, n_heads=None))
    assert measurement["status"] == "not run" and "query and key maps" in measurement["reason"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"h.1.attn.key.weight": None}, "has no tensor 'h.1.attn.key.weight'"),
        ({"h.0.ln_1.bias": None}, "has no tensor 'h.0.ln_1.bias'"),
        ({"h.1.attn.query.bias": np.ones(5, np.float32)}, r"attn.query.bias .* \[5\], not \[12\]"),
        ({"h.1.ln_1.weight": np.full(D, np.nan, np.float32)}, "h.1.ln_1.weight .* not finite"),
        ({"h.1.attn.key.bias": np.ones(D, np.int64)}, "h.1.attn.key.bias .* type I64"),
        ({"h.0.ln_1.weight": np.ones((D, 1), np.float32)}, "h.0.ln_1.weight .* 1 dimensions"),
    ],
)
def test_a_wrong_tensor_is_one_line_that_names_it(network, tmp_path, change, message):
    tensors = {**parts_of(network), **change}
    path = tmp_path / "part.safetensors"
    save_file({name: value for name, value in tensors.items() if value is not None}, path)
    with pytest.raises(ArtifactError, match=message) as error:
        measured(tmp_path, section(path))
    assert "matrices.it" in str(error.value) and "\n" not in str(error.value)


def test_what_does_not_fit_the_heads_is_refused(network, file, tmp_path):
    with pytest.raises(ArtifactError, match=r"matrices.it.n_heads: 5 heads cannot share .* 12"):
        measured(tmp_path, section(file, n_heads=5))
    save_file({"wpe.weight": parts_of(network)["wpe.weight"]}, tmp_path / "table.safetensors")
    with pytest.raises(ArtifactError, match=r"no tensors h\.0"):
        measured(tmp_path, section(tmp_path / "table.safetensors"))
    with pytest.raises(ArtifactError, match=r"too few .*position_heads.offsets"):
        few = PARAMETERS.model_copy(update={"offsets": 12})
        measured(tmp_path, section(file), parameters=few)
    (tmp_path / "broken.safetensors").write_bytes(b"nothing")
    with pytest.raises(ArtifactError, match=r"matrices.it.path: .* cannot be read"):
        HeadFile(tmp_path / "broken.safetensors", HEADS, "matrices.it")
    with pytest.raises(ValueError, match=r"n_heads is of a \.safetensors file"):
        PathMatrix(kind="path", path="a.npy", sha256="0" * 64, n_heads=2)


def test_numbers_name_the_heads_worth_a_look(file, tmp_path):
    measurement = measured(tmp_path, section(file))
    numbers = QUANTITIES.read(measurement)
    assert tuple(numbers) == POSITION_HEADS
    shares = [head["distance_share"] for head in measurement["heads"]]
    assert numbers["distance_share"] == Number(float(np.median(shares)))
    assert numbers["distance_share.least"] == Number(min(shares))
    first = [head for head in measurement["heads"] if head["layer"] == 0]
    near = min(first, key=lambda head: abs(head["profile"]["mean_offset"]))
    assert numbers["near.1.head"] == Number(near["head"])
    best = max(
        measurement["heads"], key=lambda head: head["deviation"] ** 2 * head["distance_share"]
    )
    assert numbers["steep.1.layer"] == Number(best["layer"])
    assert numbers["steep.1.deviation"] == Number(best["deviation"])
    null = measurement["heads"][near["head"]]["nulls"]["gaussian"]["mean_offset"]
    expected = Number(null["mean"], null["least"], null["most"])
    assert numbers["null_gaussian.near.1.offset"] == expected
    pair = measurement["heads"][near["head"]]["pairs"][0]
    assert numbers["near.1.lag"] == Number(pair["lag"])
    assert numbers["near.1.period"] == Number(1 / pair["frequency"])
    lags = [head["pairs"][0]["lag"] for head in measurement["heads"]]
    assert numbers["waves.lags"] == Number(sum(abs(lag) <= PARAMETERS.near for lag in lags))
    expected = sum(
        min(1, 2 * PARAMETERS.near * head["pairs"][0]["frequency"]) for head in measurement["heads"]
    )
    assert numbers["waves.lags_chance"].value == pytest.approx(expected)
    assert numbers["near.1.distance_share"] == Number(near["distance_share"])
    assert numbers["near.heads"] == Number(measurement["near"]["heads"])
    flat = [{**head, "distance_share": None} for head in measurement["heads"][:2]]
    fewer = QUANTITIES.read({**measurement, "heads": flat})
    assert fewer["near.3.head"] == NotRun("there are fewer heads")
    assert fewer["distance_share"] == NotRun("no head tells positions apart")


def test_the_figure_shows_what_has_the_most_heads(file, tmp_path):
    measurement = measured(tmp_path, section(file))
    lacking = measured(tmp_path, section(file, n_heads=None))
    small = {
        **measurement,
        "n_layers": 1,
        "n_heads": 1,
        "heads": measurement["heads"][:1],
        "subject": "small",
    }
    made = figure.draw([lacking, small, measurement], SECTIONS.position_heads, SECTIONS.style)
    check_texts(made)
    near = [axes for axes in made.axes if "layer 0, head" in axes.get_title()]
    panels = [axes for axes in made.axes if axes.lines and axes not in near]
    assert (
        len(panels) == LAYERS * HEADS and "it" in made.subfigs[0].legends[0].get_title().get_text()
    )
    result = PositionScores.of(measurement)
    for axes, (_, head) in zip(near, result.nearest(3), strict=True):
        assert f"head {head.head}:" in axes.get_title()
        own, shuffled, uniform = (line.get_ydata() for line in axes.lines)
        seen = PARAMETERS.offsets + 1
        assert list(own) == head.profile.mass[:seen]
        assert list(shuffled) == head.nulls["shuffled"].mass[:seen]
        assert list(uniform) == measurement["uniform"][:seen]
    for axes, head in zip(panels, measurement["heads"], strict=True):
        curve = axes.lines[-1].get_ydata() * head["deviation"]
        np.testing.assert_allclose(curve, head["distances"]["bias"], atol=1e-9)
    marked = {head.layer * HEADS + head.head for head in result.steepest(3)}
    colours = [axes.lines[-1].get_color() for axes in panels]
    _, steep, own, *_ = SECTIONS.style.palette
    assert {n for n, colour in enumerate(colours) if colour == steep} == marked
    looking = {head.head for _, head in result.nearest(3)}
    assert {n for n, colour in enumerate(colours) if colour == own} == looking - marked
    said = [text.get_text() for text in made.subfigs[0].legends[0].get_texts()]
    assert said == [
        "steepest",
        "mean offset nearest 0",
        "explains 0.25",
        "explains 0.5",
        "explains 1",
    ]
    assert not any(axes.texts for axes in panels)
    shares = [head["distance_share"] for head in measurement["heads"]]
    shades = {share: axes.lines[-1].get_alpha() for share, axes in zip(shares, panels, strict=True)}
    unmarked = sorted(share for share, shade in shades.items() if shade < 1)
    assert [shades[share] for share in unmarked] == sorted(shades[share] for share in unmarked)
    empty = figure.draw([lacking], SECTIONS.position_heads, SECTIONS.style)
    assert "not run" in empty.axes[0].texts[0].get_text()


def test_the_shared_axis_holds_the_curves_of_all_panels(file, tmp_path):
    """Planted: the head that comes first has the lowest curve, and the last the highest."""
    one = measured(tmp_path, section(file))
    for peak, (_, near) in zip((0.1, 0.3, 0.9), PositionScores.of(one).nearest(3), strict=True):
        head = one["heads"][near.head]
        head["profile"]["mass"] = [peak for _ in head["profile"]["mass"]]
        head["nulls"]["shuffled"]["mass"] = [0.0 for _ in head["nulls"]["shuffled"]["mass"]]
    made = figure.draw([one], SECTIONS.position_heads, SECTIONS.style)
    near = [axes for axes in made.axes if "layer 0, head" in axes.get_title()]
    assert len(near) == 3
    for axes in near:
        bottom, top = axes.get_ylim()
        assert bottom == 0 and all(max(line.get_ydata()) <= top for line in axes.lines)


def test_the_recipe_for_a_part_of_a_checkpoint_is_read(file, tmp_path):
    page = (synthetic.PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    ((block,),) = [re.findall(r"(?s)```yaml\n(own_part.*?)```", page)]
    (shown,) = YAML(typ="safe").load(block).values()
    assert shown["sha256"] == "CHECKSUM"
    shown |= {"path": str(file), "sha256": sha256_file(file), "n_heads": HEADS}
    assert len(measured(tmp_path, PathMatrix(**shown))["heads"]) == LAYERS * HEADS
