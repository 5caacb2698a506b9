"""Weights of any type, with unknown tensor names: what is read is what is run."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch

from posenc.architectures.needs import NotKnown
from posenc.artifacts.files import CHECKSUMS, read_sealed, write_checksums, write_json
from posenc.artifacts.tables import write_table
from posenc.capture.normalisations import normalisations, passed
from posenc.measurements.embedding_sums import measure as embedding_sums
from posenc.measurements.norms import measure as norms
from posenc.measurements.position_heads import measure as position_heads
from posenc.measurements.readback import measure as readback
from posenc.measurements.relative_attention import measure as relative_attention
from posenc.models.discovered import Discovered, tensors_of
from posenc.models.files import ModelError
from posenc.models.heads import HeadWeights
from posenc.models.load import load
from posenc.models.values import ValueWeights
from posenc.models.weights import Weights
from tests.parity.any_models import tiny

CLOSE = 1e-5
TABLES = {
    ("causal", "biogpt"): "biogpt.embed_positions",  # scales its token embeddings
    ("causal", "gpt_bigcode"): "transformer.wpe",  # one key for all heads
    ("causal", "bart"): "model.decoder.embed_positions",  # normalises after its blocks
    ("causal", "opt"): "model.decoder.embed_positions",  # scales its queries by itself
    ("masked", "electra"): "electra.embeddings.position_embeddings",
    ("masked", "xlm-roberta"): "roberta.embeddings.position_embeddings",  # rows after the padding
    ("masked", "distilbert"): "distilbert.embeddings.position_embeddings",  # no token types
    ("masked", "camembert"): "roberta.embeddings.position_embeddings",
}
"""The module of the table, by the library's name."""
ATTENTION = {
    ("causal", "gemma"): "model.layers.{}.self_attn",  # two heads share a key
    ("causal", "opt"): "model.decoder.layers.{}.self_attn",
    ("causal", "biogpt"): "biogpt.layers.{}.self_attn",
    ("causal", "bart"): "model.decoder.layers.{}.self_attn",
    ("masked", "electra"): "electra.encoder.layer.{}.attention.self",
    ("masked", "xlm-roberta"): "roberta.encoder.layer.{}.attention.self",
    ("masked", "distilbert"): "distilbert.transformer.layer.{}.attention",
}
PROJECTIONS = (("q_proj", "k_proj"), ("query", "key"), ("q_lin", "k_lin"))
ROTARY = {
    ("causal", "gemma"): "model.layers.{}.self_attn",  # gains are 1 and what is stored
    ("causal", "phi"): "model.layers.{}.self_attn",  # turns a part of each head
    ("causal", "starcoder2"): "model.layers.{}.self_attn",
    ("causal", "phi3"): "model.layers.{}.self_attn",  # one joint map
}
IDS = [5 + 7 * step % 89 for step in range(12)]


def saved(network, folder):
    """A model's folder as the workflow keeps one."""
    network.save_pretrained(folder)
    write_checksums(folder / CHECKSUMS, "config.json", "model.safetensors")
    return folder


def read(task, kind, folder):
    network = tiny(task, kind)
    return network, Discovered(saved(network, folder), kind)


@torch.inference_mode()
def library(network, ids, *modules):
    """Patterns of all layers and outputs of modules in the library's run of one document."""
    network.set_attn_implementation("eager")
    gave = {}
    hooks = [
        network.get_submodule(name).register_forward_hook(
            lambda module, given, output, name=name: gave.update(
                {name: output[0] if isinstance(output, tuple) else output}
            )
        )
        for name in modules
    ]
    text = torch.tensor([ids])
    output = network(
        text,
        attention_mask=torch.ones_like(text),
        output_attentions=True,
        output_hidden_states=True,
    )
    for hook in hooks:
        hook.remove()
    return output, gave


@pytest.mark.parametrize(("task", "kind"), TABLES)
@torch.inference_mode()
def test_tables_are_what_the_library_looks_up(tmp_path, task, kind):
    network, weights = read(task, kind, tmp_path)
    tokens, positions = weights.embeddings()
    every = torch.arange(len(tokens))
    np.testing.assert_array_equal(tokens, network.get_input_embeddings()(every).numpy())
    _, gave = library(network, (IDS * 9)[: len(positions)], TABLES[task, kind])
    rows = gave[TABLES[task, kind]].reshape(-1, positions.shape[1])  # [positions, d_model]
    np.testing.assert_array_equal(positions, rows.numpy())


@pytest.mark.parametrize(("task", "kind"), TABLES)
def test_patterns_of_the_first_layer_follow_from_what_is_read(tmp_path, task, kind):
    """Tokens, positions, constant, normalisation and maps give the library's own attention."""
    network, weights = read(task, kind, tmp_path)
    tokens, positions = (x.astype(np.float64) for x in weights.embeddings())
    x = tokens[IDS] + positions[: len(IDS)] + weights.token_type()  # [tokens, d_model]
    gain, bias = weights.input_norm(0)
    centred = x - x.mean(axis=1, keepdims=True)
    x = centred / np.sqrt(x.var(axis=1, keepdims=True) + weights.eps) * gain + bias
    query, key = weights.heads(0)  # [n_heads, d_model + 1, d_head] each
    x = np.hstack([x, np.ones((len(x), 1))])  # [tokens, d_model + 1]
    scores = (x @ query) @ np.swapaxes(x @ key, 1, 2) / math.sqrt(query.shape[2])
    if weights.is_decoder:
        scores[:, *np.triu_indices(len(IDS), 1)] = -np.inf
    mass = np.exp(scores - scores.max(axis=2, keepdims=True))
    pattern = mass / mass.sum(axis=2, keepdims=True)  # [n_heads, tokens, tokens]
    output, _ = library(network, IDS)
    np.testing.assert_allclose(pattern, output.attentions[0][0].numpy(), rtol=0, atol=CLOSE)


@pytest.mark.parametrize(("task", "kind"), ATTENTION)
@torch.inference_mode()
def test_products_of_maps_are_those_of_the_library_s_modules(tmp_path, task, kind):
    network, weights = read(task, kind, tmp_path)
    module = network.get_submodule(ATTENTION[task, kind].format(2))
    names = next(pair for pair in PROJECTIONS if hasattr(module, pair[0]))
    identity = torch.eye(weights.found.d_model)
    parts = []
    for name in names:
        bias = getattr(module, name)(0 * identity)[:1]  # [1, outputs]
        weight = getattr(module, name)(identity) - bias  # [d_model, outputs]
        joint = torch.cat([weight, bias]).unflatten(1, (-1, weights.found.d_head))
        each = weights.n_heads // joint.shape[1]
        joint = joint.repeat_interleave(each, dim=1)  # [d_model + 1, n_heads, d_head]
        parts.append(joint.transpose(0, 1).double().numpy())
    query, key = weights.heads(2)
    product, expected = query @ np.swapaxes(key, 1, 2), parts[0] @ np.swapaxes(parts[1], 1, 2)
    np.testing.assert_allclose(product, expected, rtol=0, atol=CLOSE * np.abs(expected).max())


@pytest.mark.parametrize(
    ("task", "kind"), ROTARY | {("causal", "bart"): ATTENTION["causal", "bart"]}
)
def test_values_add_up_to_the_output_of_attention(tmp_path, task, kind):
    """Each head's pattern, times its values, times its part of the output map."""
    network, weights = read(task, kind, tmp_path)
    name = ({**ROTARY, **ATTENTION})[task, kind].format(1)
    output, gave = library(network, IDS, name)
    maps = weights.maps(1)
    values = maps.values(output.hidden_states[1][0].numpy())  # [n_heads, tokens, d_head]
    pattern = output.attentions[1][0].double().numpy()  # [n_heads, tokens, tokens]
    ours = (pattern @ values @ maps.output).sum(axis=0) + maps.bias  # [tokens, d_model]
    theirs = gave[name][0].numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=CLOSE * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("task", "kind"),
    [("masked", "bert"), ("masked", "roberta"), ("causal", "gpt2"), ("causal", "llama"),
     ("causal", "mistral"), ("causal", "qwen2")],
)  # fmt: skip
def test_types_whose_names_are_known_are_read_alike(tmp_path, task, kind):
    """By the names of their tensors, and as discovered."""
    _, discovered = read(task, kind, tmp_path)
    known, other = ValueWeights(tmp_path, kind).maps(1), discovered.maps(1)
    assert (known.is_rms, known.norm is None) == (other.is_rms, other.norm is None)
    for name in ("value", "output", "bias"):
        np.testing.assert_array_equal(getattr(other, name), getattr(known, name))
    if known.norm is not None:
        np.testing.assert_array_equal(np.stack(other.norm), np.stack(known.norm))
        assert other.eps == pytest.approx(known.eps)
    if kind not in ("bert", "roberta", "gpt2"):
        return
    known = HeadWeights(tmp_path, kind)
    for ours, theirs in (
        (discovered.embeddings(), known.embeddings()),
        (discovered.heads(1), known.heads(1)),
        (discovered.input_norm(1), known.input_norm(1)),
    ):
        for array, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(array, other)
    np.testing.assert_allclose(discovered.token_type(), known.token_type(), atol=1e-6)
    assert (
        discovered.n_layers, discovered.n_heads, discovered.is_decoder, discovered.has_block_norm
    ) == (known.n_layers, known.n_heads, known.is_decoder, known.has_block_norm)  # fmt: skip
    assert discovered.eps == pytest.approx(known.eps)


def widths(family, folder):
    """All we read from a model."""
    weights = tensors_of(HeadWeights, folder, family)
    yield from weights.embeddings()
    yield np.asarray(weights.token_type())
    yield from weights.heads(1)
    yield from weights.input_norm(1)
    maps = tensors_of(ValueWeights, folder, family).maps(1)
    yield from (maps.value, maps.output, maps.bias)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("task", "kind"),
    [("causal", "biogpt"), ("masked", "electra"), ("causal", "gpt2"), ("masked", "bert")],
)
def test_weights_of_fewer_bits_are_as_if_widened_first(tmp_path, task, kind, dtype):
    narrow = saved(tiny(task, kind).to(dtype), tmp_path / "narrow")
    wide = saved(tiny(task, kind).to(dtype).float(), tmp_path / "wide")
    for array, other in zip(widths(kind, narrow), widths(kind, wide), strict=True):
        np.testing.assert_array_equal(array, other)
    exact = [*widths(kind, saved(tiny(task, kind), tmp_path / "exact"))]
    assert not np.array_equal(exact[0], next(widths(kind, narrow)))


@pytest.mark.parametrize(("task", "kind", "reason"), [
    ("causal", "deepseek_v3", "layer 0 has no query, key and value maps"),
    ("causal", "gpt_neox", "layer 0 has no query, key and value maps"),
    ("causal", "qwen3", "queries of layer 0 are not its map"),
    ("causal", "gemma2", "scores of layer 0 are capped"),
])  # fmt: skip
def test_maps_that_are_not_proved_are_not_read(tmp_path, task, kind, reason):
    _, weights = read(task, kind, tmp_path)
    with pytest.raises(NotKnown, match=reason):
        weights.heads(0)
    with pytest.raises(NotKnown):
        weights.maps(0)


def test_values_are_not_read_beside_scores_that_are_scaled_otherwise(tmp_path):
    """Patterns of stored queries and keys would differ."""
    _, weights = read("causal", "opt", tmp_path)
    weights.heads(0)
    with pytest.raises(NotKnown, match="not products of queries and keys / √d_head"):
        weights.maps(0)


def test_a_rotary_model_has_no_table(tmp_path):
    _, weights = read("causal", "phi", tmp_path)
    for what in (weights.embeddings, weights.token_type, lambda: weights.eps):
        with pytest.raises(NotKnown, match="no table"):
            what()


def test_a_sum_that_is_another_one_is_not_read(tmp_path):
    """Embeddings that a type scales after looking them up."""
    network, weights = read("causal", "gpt_bigcode", tmp_path)
    hook = weights.found.model.transformer.wte.register_forward_hook(
        lambda module, given, output: (
            output * (1 + 0.1 * (given[0] == given[0][..., :1])[..., None])
        )
    )
    with pytest.raises(NotKnown, match="not the sum"):
        weights.embeddings()
    hook.remove()
    assert len(weights.embeddings()[0]) == len(network.transformer.wte.weight)


@pytest.mark.parametrize(
    ("task", "kind"), [("causal", "bloom"), ("causal", "gpt_neo"), ("masked", "deberta")]
)
def test_a_type_without_the_library_s_attention_is_refused(tmp_path, task, kind):
    with pytest.raises(ModelError, match="does not go through the library's attention interface"):
        Discovered(saved(tiny(task, kind), tmp_path), kind)


@pytest.mark.parametrize(("task", "kind", "reason"), [
    ("causal", "biogpt", None), ("masked", "electra", None),
    ("causal", "bart", "has 13 layer normalisations"),
    ("masked", "roberta-prelayernorm", "has 10 layer normalisations"),
])  # fmt: skip
def test_positions_are_followed_where_normalisations_stand_as_known(tmp_path, task, kind, reason):
    model = load(saved(tiny(task, kind), tmp_path), kind)
    if reason is None:
        assert len(passed(model, [IDS])) == len(normalisations(model)) == 9
        return
    with pytest.raises(NotKnown, match=reason):
        passed(model, [IDS])


# --- Measurements -------------------------------------------------------------------------------

HEADS = {"offsets": 3, "rows": 16}
PARAMETERS = {
    relative_attention: {**HEADS, "seed": 0},
    position_heads: {**HEADS, "near": 2, "null_draws": 1, "seed": 0},
    readback: {"tokens": 50, "bounded": 10, "noise": [0.1], "variance": 0.9, "confidence": 0.9,
               "seed": 0},
    embedding_sums: {"dimensions": [4, 8], "pairs": 20, "weights": [0.5], "confidence": 0.9,
                     "seed": 0},
}  # fmt: skip


def measured(step, kind, folder, tmp_path):
    """What a measurement of weights writes for it."""
    reading = {"family": kind, "max_tokens": 32, "kind": "decoder", "position": "table"}
    job = {"parameters": PARAMETERS[step], "reading": reading}
    subject = {"model": kind}
    if step is position_heads:
        job, subject = {**job, "matrix": None}, {"subject": kind}
    write_json(tmp_path / "config.json", job)
    step.main(
        **subject, config=tmp_path / "config.json", weights=folder, output=tmp_path / "out.json"
    )
    return read_sealed(tmp_path / "out.json")


@pytest.mark.parametrize("step", PARAMETERS)
@pytest.mark.parametrize("kind", ["biogpt", "opt", "phi"])
def test_a_measurement_of_weights_is_made_of_any_type_or_says_why_not(tmp_path, step, kind):
    folder = saved(tiny("causal", kind), tmp_path / "model")
    measurement = measured(step, kind, folder, tmp_path)
    reason = {"phi": "its positions are no table"}.get(kind)
    assert (measurement["status"], measurement["reason"]) == (
        "measured" if reason is None else "not run",
        reason,
    )


@pytest.mark.parametrize(("kind", "status"), [("opt", "measured"), ("phi", "not run")])
def test_norms_of_rows_are_the_library_s_or_not_run(tmp_path, kind, status):
    network = tiny("causal", kind)
    folder = saved(network, tmp_path / "model")
    (tmp_path / "tokens").mkdir()
    lengths = [9 + n % 8 for n in range(40)]
    ids = [[5 + (7 * n + 3 * step) % 89 for step in range(size)] for n, size in enumerate(lengths)]
    texts = pa.table({"document_id": [str(n) for n in range(40)], "input_ids": ids,
                      "special": [[False] * size for size in lengths]})  # fmt: skip
    write_table(texts, tmp_path / "tokens/text.parquet", {})
    reading = {"family": kind, "max_tokens": 32, "kind": "decoder", "position": "table"}
    parameters = {"folds": 2, "tokens": 200, "seed": 0}
    job = {"parameters": parameters, "reading": reading, "datasets": ["text"]}
    write_json(tmp_path / "config.json", job)
    norms.main(kind, tmp_path / "config.json", folder, tmp_path / "tokens", tmp_path / "out")
    measurement = read_sealed(tmp_path / "out/text.json")
    assert measurement["status"] == status
    if status == "not run":
        assert measurement["reason"] == "its positions are no table"
        return
    rows = network.model.decoder.embed_positions(torch.ones(1, 16, dtype=torch.long))[0]
    np.testing.assert_allclose(measurement["curve"], rows.norm(dim=1).detach().numpy(), atol=2e-6)


def test_what_was_verified_is_believed_without_loading(tmp_path, monkeypatch):
    folder = saved(tiny("causal", "opt"), tmp_path / "model")
    can = {"table": None, "maps": "there are none"}
    write_json(folder / "verification.json", {"model_type": "opt", "can": can})
    monkeypatch.setattr("posenc.models.load.load", lambda *_: pytest.fail("it is loaded"))
    measurement = measured(relative_attention, "opt", folder, tmp_path)
    assert (measurement["status"], measurement["reason"]) == ("not run", "there are none")


def test_a_known_type_is_read_without_the_library(tmp_path):
    folder = saved(tiny("masked", "bert"), tmp_path)
    assert type(tensors_of(Weights, folder, "bert")) is Weights
