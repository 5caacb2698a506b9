"""The mask in closed form against measured scores: by hand, by its identities, and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from scipy.special import softmax

from posenc.architectures import attention
from posenc.artifacts.files import (
    ArtifactError,
)
from posenc.artifacts.tables import write_table
from posenc.capture.closed_form import HeadMeans
from posenc.capture.content import with_and_without
from posenc.measurements.of_models import CellsJob
from posenc.measurements.score_parts import measure as step
from posenc.measurements.score_parts.declaration import ScoreParts
from posenc.measurements.score_parts.measure import TERMS
from posenc.metrics import closed_form
from posenc.metrics.bootstrap import median_bootstrap, ratio_bootstrap, sums_bootstrap
from posenc.metrics.mask_placebos import shuffled_over_heads, shuffled_within_layers
from posenc.metrics.position_means import Curves, PositionMeans, Turn
from posenc.metrics.score_parts import correlation, moments, shares, split, with_mask
from posenc.models.load import load
from posenc.tokens.tokenized import Tokens

from .runs import made_of_weights
from .small_models import saved

PARAMETERS = ScoreParts(
    documents=3, tokens=9, placebo_draws=2, bootstrap_samples=100, confidence=0.9, seed=1
)
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 12}  # fmt: skip


def llama(
    rotation: dict | None = None, biases: bool = False, d_model: int = 16
) -> transformers.LlamaForCausalLM:
    """With grouped heads, and rotation that shows within a few tokens."""
    torch.manual_seed(0)
    attention.register()
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=40, hidden_size=d_model, intermediate_size=32, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=48,
            rope_parameters=rotation or {"rope_type": "default", "rope_theta": 100.0},
            attention_bias=biases, attn_implementation=attention.NAME,
        )
    )  # fmt: skip
    for name, weight in model.named_parameters():
        if "norm" not in name:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def network(kind: str, folder: Path) -> torch.nn.Module:
    if kind == "llama":
        return llama()
    if kind == "yarn":
        # Heads are wider than they are many, so that mixing the two up shows.
        return llama(YARN, d_model=32)
    return load(saved(kind, folder), kind)


@pytest.fixture
def text(tmp_path) -> Tokens:
    """Eight documents of 3 to 12 tokens, two of which are too short; all begin with token 2."""
    rng = np.random.default_rng(5)
    ids = [[2, *rng.integers(3, 40, length - 1).tolist()] for length in (12, 3, 9, 5, 11, 7, 2, 8)]
    return write(tmp_path / "text.parquet", ids)


def write(path: Path, ids: list[list[int]]) -> Tokens:
    write_table(pa.table({"input_ids": ids}), path, {})
    return Tokens(path)


def mask_by_hand(model, calibration: list, documents: list, layer: int, head: int) -> dict:
    """A head's closed form for each pair of positions: by its formula, in its terms."""
    runs = [with_and_without(model, [ids]) for ids in calibration]
    causal, n = hasattr(model, "lm_head"), max(map(len, documents))

    def vectors(name: str) -> list[np.ndarray]:
        return [getattr(run, name)[layer][0, head].double().numpy() for run in runs]

    q, k = vectors("content_queries"), vectors("content_keys")  # [tokens, d_head] each
    mean_q, mean_k = (np.concatenate([document[1:] for document in x]).mean(axis=0) for x in (q, k))
    first_q, first_k = (np.mean([document[0] for document in x], axis=0) for x in (q, k))
    mask = {}
    for i, j in np.ndindex(n, n):
        if causal and j > i:
            continue
        at_k = mean_k if j else first_k
        if hasattr(getattr(model, "model", None), "rotary_emb"):
            stacked = torch.tensor(np.stack([mean_q, at_k]))[None, None]
            products = []
            for places in ([[i, j]], [[0, 0]]):
                cos, sin = model.model.rotary_emb(torch.zeros(1, 2, 4), torch.tensor(places))
                scale = model.model.rotary_emb.attention_scaling  # of the recorded vectors too
                turn = transformers.models.llama.modeling_llama.apply_rotary_pos_emb
                turned = turn(stacked, stacked, cos.double() / scale, sin.double() / scale)[0][0, 0]
                products.append(float(turned[0] @ turned[1]))
            mask[i, j] = (products[0] - products[1]) / np.sqrt(len(mean_q))
            continue
        u, v = (
            np.mean(
                [intact[place] - zero[place] for intact, zero in zip(vectors(name), x, strict=True)
                 if len(intact) > place], axis=0,
            )
            for name, x, place in (("queries", q, i), ("keys", k, j))
        )  # fmt: skip
        at_q = mean_q if i else first_q
        mask[i, j] = ((at_q + u) @ (at_k + v) - at_q @ at_k) / np.sqrt(len(u))
    return mask


@pytest.mark.parametrize("kind", ["llama", "yarn", "gpt2", "bert"])
def test_a_head_pair_by_pair(kind, tmp_path, text):
    model = network(kind, tmp_path / "model")
    result = step.measure(PARAMETERS, model, text).as_json()
    assert (result["is_causal"], result["is_rotary"]) == (kind != "bert", kind in ("llama", "yarn"))
    calibration, documents = step.drawn(PARAMETERS, text)
    assert max(map(len, calibration)) >= max(map(len, documents)) == 9
    layer, head = 1, 1
    by_hand = mask_by_hand(model, calibration, documents, layer, head)
    runs = [with_and_without(model, [ids]) for ids in documents]
    scores, content = (
        [getattr(run, name)(layer)[0, head].double().numpy() for run in runs]
        for name in ("scores", "content")
    )
    (entry,) = (
        candidate
        for candidate in result["heads"]
        if (candidate["layer"], candidate["head"]) == (layer, head)
    )
    pairs = [
        (which, i, j)
        for which, ids in enumerate(documents)
        for i, j in np.ndindex(len(ids), len(ids))
        if (i, j) in by_hand
    ]
    added = {pair: scores[pair[0]][pair[1:]] - content[pair[0]][pair[1:]] for pair in pairs}
    curve, rows = {}, []
    for side in ("past", "future") if kind == "bert" else ("past",):
        for distance in range(9):
            chosen = [
                (which, i, j)
                for which, i, j in pairs
                if j
                and distance == (i - j if side == "past" else j - i)
                and (distance or side == "past")
            ]
            measured = entry["measured"][side][distance]
            if not chosen:
                assert measured is None
                continue
            expected = np.mean([added[pair] for pair in chosen])
            curve[side, distance] = np.mean([by_hand[pair[1:]] for pair in chosen])
            rows += [(expected, curve[side, distance])] * len(chosen)
            assert measured == pytest.approx(expected, abs=6e-5)
            shown = entry["closed_form"][side][distance]
            assert shown == pytest.approx(curve[side, distance], abs=6e-5)
    measured, closed = np.array(rows).T
    r2 = 1 - ((measured - closed) ** 2).sum() / ((measured - measured.mean()) ** 2).sum()
    assert entry["r2"] == pytest.approx(r2, rel=1e-6)
    for query in range(9):
        with_it = [pair for pair in pairs if pair[1:] == (query, 0)]
        expected = np.mean([added[pair] for pair in with_it])
        assert entry["measured"]["first_key"][query] == pytest.approx(expected, abs=6e-5)
        shown = entry["closed_form"]["first_key"][query]
        assert shown == pytest.approx(by_hand[query, 0], abs=6e-5)
    mask = [
        by_hand[i, j] if j == 0 else curve["past" if i >= j else "future", abs(i - j)]
        for _, i, j in pairs
    ]
    c, z = (
        np.array([values[which][i, j] for which, i, j in pairs]) for values in (content, scores)
    )
    parts = np.array([c, mask, z - c - mask])
    covariance = np.cov(parts) / np.cov(z)
    expected = [*np.diag(covariance), *(2 * covariance[[0, 0, 1], [1, 2, 2]])]
    assert list(entry["shares"].values()) == pytest.approx(expected, abs=1e-6)
    assert entry["correlation"] == pytest.approx(np.corrcoef(z, c + mask)[0, 1], rel=1e-6)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_parts_sum_to_the_scores_and_intervals_hold_the_values(kind, tmp_path, text):
    result = step.measure(PARAMETERS, network(kind, tmp_path / "model"), text).as_json()
    assert len(result["shares"]) == 4
    for entry in result["shares"]:
        for row in (entry["all"], *entry["layers"]):
            assert sum(row[name]["value"] for name in TERMS) == pytest.approx(1)
        assert entry["all"]["mask"]["low"] <= entry["all"]["mask"]["value"]
        assert -1 <= entry["correlation"]["value"] <= 1
    (pairs,) = (e for e in result["shares"] if e["weights"] == "pairs" and not e["within_query"])
    for name in TERMS:
        own = [head["shares"][name] for head in result["heads"]]
        assert pairs["all"][name]["value"] == pytest.approx(np.mean(own))
    r2 = [head["r2"] for head in result["heads"]]
    assert result["r2"]["median"]["value"] == pytest.approx(np.median(r2))
    assert result["r2"]["high_share"]["value"] == np.mean(np.array(r2) >= step.HIGH)
    learning = result["r2"]["learning"]
    assert [point["documents"] for point in learning] == [1, 2, 3]
    assert learning[-1]["median"] == result["r2"]["median"]
    calibration, documents = step.drawn(PARAMETERS, text)
    assert learning[-1]["tokens"] == sum(map(len, calibration))
    assert result["tokens"] == sum(map(len, documents))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_a_placebo_is_content_with_the_mask_of_another_head(kind, tmp_path, text):
    """Pair by pair, and Pearson's correlation over all documents."""
    model = network(kind, tmp_path / "model")
    result = step.measure(PARAMETERS, model, text).as_json()
    causal, (calibration, documents) = kind != "bert", step.drawn(PARAMETERS, text)
    means = HeadMeans(model, max(map(len, calibration)))
    for heads in step.recorded(model, calibration, "calibration"):
        means.add(heads)
    mask = means.curves(closed_form.visible_pairs(list(map(len, documents)), causal=causal))
    runs = list(step.recorded(model, documents, "scores"))
    n_layers, n_heads = mask.first.shape[:2]
    shuffles = {"heads": shuffled_over_heads, "layers": shuffled_within_layers}
    seeds = np.random.SeedSequence(PARAMETERS.seed).spawn(PARAMETERS.placebo_draws)
    for entry in result["shares"]:
        if entry["within_query"]:
            assert entry["placebo"] == {}
            continue
        of_content, medians = [], {}
        for name, shuffled in shuffles.items():
            for seed in seeds:
                relative, first = (shuffled(curve, seed) for curve in mask)
                correlations = []
                for layer, head in np.ndindex(n_layers, n_heads):
                    rows = []
                    for run in runs:
                        z, c = (
                            part(layer)[0, head].double().numpy()
                            for part in (run.scores, run.content)
                        )
                        seen = np.tri(len(z)) if causal else np.ones_like(z)
                        w = softmax(np.where(seen > 0, z, -np.inf), axis=-1)
                        w = w if entry["weights"] == "attention" else seen
                        b = closed_form.by_pair(relative[layer, head], first[layer, head], len(z))
                        rows.append(np.stack([z, c + b, c, w])[:, seen > 0])
                    z, both, c, w = np.concatenate(rows, axis=1)
                    covariance = np.cov([z, both, c], aweights=w)
                    scale = np.sqrt(np.diag(covariance))
                    correlations.append(covariance[0, 1] / scale[0] / scale[1])
                    of_content.append(covariance[0, 2] / scale[0] / scale[2])
                medians.setdefault(name, []).append(np.median(correlations))
        assert entry["placebo"].keys() == shuffles.keys()
        for name, values in medians.items():
            assert entry["placebo"][name]["value"] == pytest.approx(np.mean(values), rel=1e-6)
        assert entry["content_correlation"]["value"] == pytest.approx(np.median(of_content))


def test_one_head_has_no_placebo():
    curves = Curves(np.zeros((1, 1, 1, 3)), np.zeros((1, 1, 3)))
    sums = step.Sums(2, np.tri(3), curves, causal=True)
    assert step.placebo_moments(PARAMETERS, sums, "pairs") == {}


def test_another_mask_leaves_content_and_scores():
    rng = np.random.default_rng(0)
    scores, content, mask, other = rng.normal(size=(4, 2, 6, 6))
    weights = np.tri(6) * rng.uniform(0.5, 2, size=(2, 6, 6))
    products = [
        (weights * other * factor).sum(axis=(1, 2)) for factor in (1, content, scores, other)
    ]
    swapped = with_mask(moments(split(scores, content, mask), weights), np.stack(products, axis=-1))
    np.testing.assert_allclose(swapped, moments(split(scores, content, other), weights), atol=1e-10)
    alone = correlation(swapped, 1)
    for h in range(2):
        pair = np.cov(content[h].ravel(), scores[h].ravel(), aweights=weights[h].ravel())
        assert alone[h] == pytest.approx(pair[0, 1] / np.sqrt(pair[0, 0] * pair[1, 1]))


def test_constant_queries_and_keys_are_their_mask(text):
    model = llama(biases=True)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.zero_()
            layer.self_attn.k_proj.weight.zero_()
    result = step.measure(PARAMETERS, model, text).as_json()
    for head in result["heads"]:
        assert head["r2"] == pytest.approx(1, abs=1e-6)
        assert head["shares"]["mask"] == pytest.approx(1, abs=1e-5)
        assert head["shares"]["interaction"] == pytest.approx(0, abs=1e-5)
    assert result["r2"]["high_share"]["value"] == 1
    (pairs,) = (e for e in result["shares"] if e["weights"] == "pairs" and not e["within_query"])
    assert pairs["correlation"]["value"] == pytest.approx(1, abs=1e-6)
    assert max(null["high"] for null in pairs["placebo"].values()) < 0.9
    assert result["r2"]["shuffled"]["value"] < 0.5
    for point in result["r2"]["learning"]:
        assert point["median"]["value"] == pytest.approx(1, abs=1e-6)


def test_without_rotation_there_is_no_mask(text):
    model = llama()
    model.model.rotary_emb.inv_freq.zero_()
    result = step.measure(PARAMETERS, model, text).as_json()
    assert (result["r2"]["median"], result["r2"]["layers"]) == (None, [None, None])
    assert result["r2"]["high_share"]["value"] == 0
    for head in result["heads"]:
        assert head["r2"] is None
        for curves in (head["measured"], head["closed_form"]):
            assert {value for curve in curves.values() for value in curve} <= {0.0, None}
        assert head["shares"]["content"] == pytest.approx(1, abs=1e-9)
    assert result["shares"][0]["correlation"]["value"] == pytest.approx(1)


def test_positions_beyond_calibration_have_the_last_ones_means(tmp_path, text):
    model = network("gpt2", tmp_path / "model")
    short, long = [ids[:5] for ids in text.ids if len(ids) > 4], [max(text.ids, key=len)]
    means = HeadMeans(model, 5)
    for heads in step.recorded(model, short, "calibration"):
        means.add(heads)
    curves = means.curves(closed_form.visible_pairs([12], causal=True))
    by_hand = mask_by_hand(model, short, [ids[:5] for ids in long], 0, 1)
    first = curves.first[0, 1]
    assert first[:5] == pytest.approx([by_hand[i, 0] for i in range(5)])
    assert first[5:] == pytest.approx(first[4])
    # Pairs of a query at 11: keys 5 to 10 count as the one at 4, and so is the query.
    assert curves.relative[0, 1, 0, 10] == pytest.approx(by_hand[4, 1])


def test_halves_share_no_document_and_are_cut(text):
    calibration, documents = step.drawn(PARAMETERS, text)
    whole = [ids[:9] for ids in text.ids if len(ids) >= step.SHORTEST]
    assert sorted([*calibration, *documents]) == sorted(whole)
    assert step.drawn(PARAMETERS, text) == (calibration, documents)
    other = PARAMETERS.model_copy(update={"seed": 2})
    assert step.drawn(other, text) != (calibration, documents)


def test_too_few_documents_are_said_by_the_parameter(text):
    more = PARAMETERS.model_copy(update={"documents": 4})
    with pytest.raises(ArtifactError, match=r"6 documents of 4 tokens.*documents 4 takes 8: lower"):
        step.measure(more, None, text)


def test_the_file_says_what_it_is_made_of(tmp_path, text):
    reading = {"family": "gpt2", "max_tokens": 40}
    job = CellsJob[step.ScoreParts](parameters=PARAMETERS, reading=reading, datasets=["text"])
    made_of_weights(step, tmp_path, text, job)


def test_running_means_are_those_of_all_tokens():
    rng = np.random.default_rng(0)
    documents = [rng.normal(size=(2, 2, 3, tokens, 4)) for tokens in (5, 1, 7)]
    means = PositionMeans(2)
    for queries, keys in documents:
        means.add({"content_queries": queries, "content_keys": keys})
    theta, other = np.array([1.0, 0.1]), np.array([0.5])
    turns = [Turn(theta), Turn(other, "interleaved", 2)]  # the second turns its last two features
    curves = means.rotary(turns, 6, causal=False)
    queries, keys = (
        np.concatenate([document[which] for document in documents], axis=2) for which in (0, 1)
    )
    first = np.isin(np.arange(13), [0, 5, 6])
    for layer in range(2):
        query, key = (each[layer][:, ~first].mean(axis=1) for each in (queries, keys))
        first_key = keys[layer][:, first].mean(axis=1)

        def curve(k, distances, layer=layer, q=query):
            if layer == 0:
                return closed_form.rotary_curve(q, k, theta, distances)
            q, k = q[:, 2:], k[:, 2:]  # two features, of vectors of four
            return closed_form.rotary_curve(q, k, other, distances) / np.sqrt(2)

        past, future = (curve(key, sign * np.arange(6)) for sign in (1, -1))
        np.testing.assert_allclose(curves.relative[layer], np.stack([past, future], axis=1))
        np.testing.assert_allclose(curves.first[layer], curve(first_key, np.arange(6)))


@pytest.mark.parametrize("causal", [True, False])
def test_the_curves_of_a_mask_of_curves_are_its_curves(causal):
    rng = np.random.default_rng(0)
    relative, first = rng.normal(size=(3, 1 if causal else 2, 7)), rng.normal(size=(3, 7))
    relative[:, -1, 0] = relative[:, 0, 0]
    seen = np.tri(7) if causal else np.ones((7, 7))
    mask = closed_form.by_pair(relative, first, 7) * seen
    of_distance, of_first = closed_form.by_distance(mask, seen, causal=causal)
    there = np.isfinite(of_distance)
    assert (~there).sum() == 3  # the largest distance in the past has the first key only
    np.testing.assert_allclose(of_distance[there], relative[there])
    np.testing.assert_allclose(of_first, first)
    small = closed_form.by_pair(relative, first, 4)
    np.testing.assert_array_equal(small * seen[:4, :4], mask[:, :4, :4])


def test_the_correlation_is_pearson_s():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(3, 2, 6, 6))
    weights = np.tri(6) * rng.uniform(0.5, 2, size=(2, 6, 6))
    correlations = correlation(moments(parts, weights))
    for h in range(2):
        flat = parts[:, h].reshape(3, -1)
        pair = np.cov(flat.sum(axis=0), flat[:2].sum(axis=0), aweights=weights[h].ravel())
        assert correlations[h] == pytest.approx(pair[0, 1] / np.sqrt(pair[0, 0] * pair[1, 1]))
    assert np.isnan(correlation(moments(np.zeros_like(parts), weights))).all()


def test_a_bootstrap_of_sums_is_that_of_ratios():
    rng = np.random.default_rng(0)
    sums, counts = rng.normal(size=(20, 3)), rng.integers(1, 9, 20).astype(float)
    options = {"samples": 300, "confidence": 0.9, "seed": 4}
    estimate = sums_bootstrap([sums, counts], lambda s, n: s / n[:, None], **options)
    expected = ratio_bootstrap(sums, counts, **options)
    for name in ("value", "low", "high"):
        np.testing.assert_allclose(getattr(estimate, name), getattr(expected, name))


def test_a_bootstrap_of_medians():
    options = {"samples": 400, "confidence": 0.9, "seed": 4}
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        interval = median_bootstrap(rng.normal(size=(5, 8)), **options)
        hits += interval.low <= 0 <= interval.high
    assert 165 <= hits <= 195  # 180 are due, with a standard deviation of 4.2
    estimate = median_bootstrap([[1.0, np.nan], [2.0, 5.0]], **options)
    assert estimate.as_json() == {"value": 2.0, "low": 1.0, "high": 5.0}


def test_shares_of_many_resamples_at_once():
    drawn = np.random.default_rng(0).normal(size=(3, 2, 5, 5))
    head_moments = moments(drawn, np.tri(5))
    np.testing.assert_array_equal(
        shares(np.stack([head_moments, 2 * head_moments]))[0], shares(head_moments)
    )
