"""Decoders with rotary positions: what is loaded and captured is what the library computes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers

from posenc.architectures import attention
from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.files import CHECKSUMS, ArtifactError, sha256_file, write_checksums
from posenc.capture.capture import document_losses, forward, packed_states
from posenc.capture.evaluation import evaluate
from posenc.capture.fast import faster
from posenc.capture.interventions import applied
from posenc.capture.parts import blocks, first_position, is_decoder, is_rotary
from posenc.conditions.section import Condition
from posenc.models import schemes
from posenc.models.affine import Affine, ready
from posenc.models.files import check_tensors
from posenc.models.load import ModelError, fetch, load, save
from posenc.models.section import Model, PathSource
from posenc.models.weights import Weights
from posenc.tokens.tokenize import train_bpe
from tests.parity.test_capture import EXACT, TOLERANCE, captured, spans
from tests.unit.gguf_files import SIZES as GGUF
from tests.unit.gguf_files import random_weights, small_tokenizer, write_gguf

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
    "initializer_range": 0.3,  # position has to matter
}
KINDS = {
    "llama": {"kind": "llama", "num_key_value_heads": 4},
    "grouped": {"kind": "llama", "num_key_value_heads": 2, "tie_word_embeddings": True},
    "biases": {"kind": "llama", "num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True},
    "base": {"kind": "llama", "num_key_value_heads": 2,
             "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
    "stretched": {"kind": "llama", "num_key_value_heads": 2,
                  "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}},
    "mistral": {"kind": "mistral", "num_key_value_heads": 2, "sliding_window": None},
    "window": {"kind": "mistral", "num_key_value_heads": 2, "sliding_window": 40},
    "qwen2": {"kind": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True},
    "wide": {"kind": "llama", "num_key_value_heads": 2, "head_dim": 16},
}  # fmt: skip
CLASSES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
}


def reference(kind: str, **changes) -> transformers.PreTrainedModel:
    """The library's own model with random weights and eager attention."""
    torch.manual_seed(0)
    options = {"tie_word_embeddings": False, **KINDS[kind], **changes}
    config_class, model_class = CLASSES[options.pop("kind")]
    model = model_class(config_class(**SIZES, **options))
    # The library starts with gains of 1 and biases of 0.
    for name, weight in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            torch.nn.init.normal_(weight, mean=float("norm" in name), std=0.3)
    model.set_attn_implementation("eager")
    return model.eval()


@pytest.fixture(params=KINDS)
def library_model(request):
    return reference(request.param)


@pytest.fixture
def folder(library_model, tmp_path):
    return saved(library_model, tmp_path / "model")


def saved(model, folder):
    model.save_pretrained(folder)
    train_bpe(["a b c"] * 3, 260).save(str(folder / "tokenizer.json"))
    return folder


@torch.inference_mode()
def library_output(model, document, **options):
    return model(torch.tensor([document]), output_hidden_states=True, **options)


def by_query_head(x, n_heads):
    """Heads [kv_heads, tokens, d_head], each as often as query heads share it, one by one."""
    return torch.stack([x[head * len(x) // n_heads] for head in range(n_heads)])


def test_a_model_that_is_fetched_and_loaded_is_the_library_s(folder, library_model, tmp_path):
    fetch("mine", section(folder), tmp_path / "data" / "model", tmp_path / "data" / "tokenizer")
    model = load(tmp_path / "data" / "model", "llama")
    assert type(model) is type(library_model)
    assert is_decoder(model) and is_rotary(model) and first_position(model) == 0
    assert len(blocks(model)) == 3
    for name, tensor in library_model.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name
    save(model, tmp_path / "again")
    check_tensors(tmp_path / "again", "llama")
    again = load(tmp_path / "again", "llama")
    for name, tensor in library_model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_weights_of_half_precision_are_computed_with_in_float32(tmp_path, documents):
    half = reference("qwen2").to(torch.bfloat16)
    model = load(saved(half, tmp_path / "model"), "llama")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    whole = reference("qwen2")  # half.float() would keep its frequencies rounded
    whole.load_state_dict({name: tensor.float() for name, tensor in half.state_dict().items()})
    expected = library_output(whole, documents[1]).hidden_states[-1]
    states = forward(model, documents[1:2])[0][-1]
    torch.testing.assert_close(states, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_from_a_gguf_file_is_the_one_that_was_written(tmp_path, tied):
    vocabulary = small_tokenizer().get_vocab_size()
    weights = random_weights(vocabulary, tied=tied)
    weights = {name: values * (1.0 if "norm" in name else 0.2) for name, values in weights.items()}
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=GGUF["width"], intermediate_size=GGUF["inner"],
        num_hidden_layers=GGUF["layers"], num_attention_heads=GGUF["heads"],
        num_key_value_heads=GGUF["key_value_heads"], max_position_embeddings=128,
        rms_norm_eps=1e-5, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 50_000.0},
    )  # fmt: skip
    library_model = transformers.LlamaForCausalLM(config).eval()
    tensors = {name: torch.from_numpy(values) for name, values in weights.items()}
    missing, unexpected = library_model.load_state_dict(tensors, strict=False)
    assert missing == (["lm_head.weight"] if tied else []) and not unexpected
    path = write_gguf(tmp_path / "model.gguf", weights)
    source = PathSource(kind="path", path=str(tmp_path), sha256=sha256_file(path))
    mine = Model(family="llama", source=source, max_tokens=100)
    fetch("mine", mine, tmp_path / "data" / "model", tmp_path / "data" / "tokenizer")
    model = load(tmp_path / "data" / "model", "llama")
    ids = torch.randint(vocabulary, (1, 60), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, library_model(ids).logits, rtol=0, atol=1e-5)


def test_packed_hidden_states_and_losses_equal_the_library(folder, library_model, documents):
    model = ready(load(folder, "llama"))
    arrays, losses = captured(model, documents, EXACT.model_copy(update={"batch_tokens": 10_000}))
    for document, span, nll in zip(documents, spans(documents), losses, strict=True):
        ids = torch.tensor([document])
        expected = library_output(library_model, document, labels=ids)
        for layer, state in enumerate(expected.hidden_states):
            np.testing.assert_allclose(
                arrays["hidden_states"][layer, span], state[0].numpy(), rtol=1e-5, atol=2e-5
            )
        assert len(nll) == len(document) - 1
        assert nll.mean() == pytest.approx(expected.loss.item(), abs=2e-5)


def test_padded_hidden_states_equal_the_library(folder, library_model, documents):
    states, recording = forward(load(folder, "llama"), documents)
    assert sorted(recording.queries) == sorted(recording.keys) == [0, 1, 2]
    for row, document in enumerate(documents):
        expected = library_output(library_model, document).hidden_states
        for state, other in zip(states, expected, strict=True):
            torch.testing.assert_close(state[row, : len(document)], other[0], rtol=1e-5, atol=2e-5)


def test_queries_and_keys_before_and_after_rotation(folder, library_model, documents):
    """Recomputed from the library's hidden states with its weights, then Su et al.'s eq. 34."""
    model, document = ready(load(folder, "llama")), documents[3]
    with attention.recording_before_rotation(model) as before, attention.recording() as after:
        packed_states(model, [documents[0], document])
    span = slice(len(documents[0]), None)
    config, states = library_model.config, library_output(library_model, document).hidden_states
    parameters, width = config.rope_parameters, getattr(config, "head_dim", None) or 8
    frequency = parameters["rope_theta"] ** (
        -torch.arange(0, width, 2, dtype=torch.float64) / width
    )
    position = torch.arange(len(document)) / parameters.get("factor", 1.0)
    turn = torch.polar(
        torch.ones(()).double(), position[:, None] * frequency
    )  # [tokens, width / 2]
    for layer, block in enumerate(library_model.model.layers):
        with torch.inference_mode():
            x = block.input_layernorm(states[layer][0])  # [tokens, d_model]
            for name, heads in (("queries", 4), ("keys", config.num_key_value_heads)):
                part = getattr(block.self_attn, f"{name[0]}_proj")(x)
                vectors = by_query_head(part.view(len(document), heads, width).transpose(0, 1), 4)
                first, second = vectors.double().chunk(2, dim=-1)  # [4, tokens, width / 2]
                turned = torch.complex(first, second) * turn
                expected = torch.cat([turned.real, turned.imag], dim=-1).float()
                close = {"rtol": 1e-5, "atol": 2e-5}
                actual = getattr(before, name)[layer]
                assert actual.shape == (1, 4, len(documents[0]) + len(document), width)
                torch.testing.assert_close(actual[0][:, span], vectors, **close)
                actual = getattr(after, name)[layer]
                torch.testing.assert_close(actual[0][:, span], expected, **close)


def test_a_store_holds_what_was_recorded(project, documents):
    reference("grouped").save_pretrained(project.weights)
    write_checksums(project.weights / CHECKSUMS, "config.json", "model.safetensors")
    project.family, project.conditions = "llama", {"intact": {"position": "intact"}}
    project.parameters["dtype"] = "float32"
    assert project.make() == {"intact"}
    store, model = ActivationStore(project.run()), load(project.weights, "llama")
    shard = store.shard(0)
    count = int((np.cumsum([len(ids) for ids in documents]) <= len(shard["special_mask"])).sum())
    assert count > 0
    for document, span in zip(documents[:count], spans(documents[:count]), strict=True):
        states, recording = forward(model, [document])
        close = {"rtol": 1e-5, "atol": 2e-5}
        for layer in range(3):
            for name in ("queries", "keys"):
                expected = getattr(recording, name)[layer][0].numpy()  # [n_heads, tokens, d_head]
                np.testing.assert_allclose(shard[name][layer, :, span], expected, **close)
            expected = states[layer][0].numpy()  # [tokens, d_model]
            np.testing.assert_allclose(shard["hidden_states"][layer, span], expected, **close)
    counts = [len(nll) for nll in store.losses()["nll"].to_pylist()]
    assert counts == [len(document) - 1 for document in documents]


def test_patterns_follow_from_the_recorded_queries_and_keys(folder, library_model, documents):
    model, document = load(folder, "llama"), documents[3]
    _, recording = forward(model, [document])
    patterns = library_output(library_model, document, output_attentions=True).attentions
    future = torch.ones(len(document), len(document)).triu(1).bool()
    for layer, expected in enumerate(patterns):
        query, key = recording.queries[layer], recording.keys[layer]
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        pattern = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        torch.testing.assert_close(pattern, expected, rtol=0, atol=1e-5)


def test_the_rotation_of_decoders_that_are_trained_here_is_the_same(tmp_path, documents):
    model = load(saved(reference("grouped"), tmp_path / "model"), "llama")
    with attention.recording_before_rotation(model) as before:
        _, after = forward(model, [documents[3]])
    for layer in range(3):
        for name in ("queries", "keys"):
            turned = schemes._turned(getattr(before, name)[layer])
            torch.testing.assert_close(turned, getattr(after, name)[layer], **TOLERANCE)


def test_recording_ends_with_its_block(folder, documents):
    model = load(folder, "llama")
    before = [len(module._forward_hooks) for module in model.modules()]  # the library has its own
    with pytest.raises(KeyError), attention.recording_before_rotation(model):
        assert [len(module._forward_hooks) for module in model.modules()] != before
        raise KeyError
    assert [len(module._forward_hooks) for module in model.modules()] == before


# --- Fewer calls, and bfloat16 ------------------------------------------------------------------


def test_a_ready_model_has_no_activation_of_its_own(folder, library_model):
    model = ready(load(folder, "llama"))
    activated = [m.activation for m in model.modules() if isinstance(m, Affine)]
    assert activated.count("silu") == 3 and activated.count("none") == len(activated) - 3
    assert not any(isinstance(module, torch.nn.Linear) for module in model.modules())
    tied = library_model.config.tie_word_embeddings
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied


def test_bfloat16_changes_by_its_rounding_alone(folder, library_model, documents):
    # As the library itself loads it: frequencies of the rotation stay in float32.
    library_half = type(library_model).from_pretrained(folder, dtype=torch.bfloat16).eval()
    model = faster(ready(load(folder, "llama")))
    for ours, theirs in ((model, library_model), (library_half, library_model)):
        frequencies = [network.model.rotary_emb.inv_freq for network in (ours, theirs)]
        assert torch.equal(*frequencies) and frequencies[0].dtype == torch.float32
    with torch.inference_mode():
        ours = packed_states(model, documents)[-1][0].float()  # [tokens, d_model]
        nll = document_losses(model, packed_states(model, documents)[-1][0], documents)
    theirs, exact = (
        torch.cat([library_output(network, d).hidden_states[-1][0].float() for d in documents])
        for network in (library_half, library_model)
    )
    assert 0 < (ours - exact).norm() < 1.2 * (theirs - exact).norm()
    assert all(np.isfinite(losses).all() for losses in nll)


# --- Conditions ---------------------------------------------------------------------------------


def test_an_additive_mask_is_the_library_s_float_mask(folder, library_model, documents):
    mask = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.5}}
    condition = Condition.model_validate({"mask": mask})
    model, document = load(folder, "llama"), documents[3]
    place = torch.arange(len(document))
    distance = (place[:, None] - place).float()  # [tokens, tokens]
    bias = (-0.5 * distance).masked_fill(distance < 0, -torch.inf)[None, None]
    expected = library_output(library_model, document, attention_mask=bias)
    with applied(model, condition):
        for states in (packed_states(model, [document]), forward(model, [document])[0]):
            torch.testing.assert_close(states[-1], expected.hidden_states[-1], rtol=0, atol=2e-5)
    counted = [[True] * len(document)]
    ((_, outcome),) = evaluate(model, [document], counted, {"alibi": condition}, {}, 1000)
    logits = expected.logits[0, :-1]
    nll = torch.nn.functional.cross_entropy(logits, torch.tensor(document[1:]), reduction="none")
    np.testing.assert_allclose(outcome.nll, nll.numpy(), rtol=0, atol=5e-5)


def test_a_factor_on_the_embeddings_reaches_the_first_block(folder, library_model, documents):
    mask = {"semantics": "emb_mul", "profile": {"kind": "linear", "floor": 0.1}}
    model, document = load(folder, "llama"), documents[3]
    with applied(model, Condition.model_validate({"mask": mask})):
        states = packed_states(model, [document])
        intact = library_model.model.embed_tokens.weight[document]  # [tokens, d_model]
        factor = states[0][0].norm(dim=-1) / intact.norm(dim=-1)  # [tokens]
    assert factor.max() <= 1 and factor.min() < 0.5
    embedded = (intact * factor[:, None])[None]
    with torch.inference_mode():
        expected = library_model(inputs_embeds=embedded, output_hidden_states=True).hidden_states
    torch.testing.assert_close(states[-1], expected[-1], rtol=0, atol=1e-4)


# --- What is refused ----------------------------------------------------------------------------


def section(folder, max_tokens=36) -> Model:
    source = PathSource(
        kind="path",
        path=str(folder),
        sha256=sha256_file(folder / "model.safetensors"),
        files={name: sha256_file(folder / name) for name in ("config.json", "tokenizer.json")},
    )
    return Model(family="llama", source=source, max_tokens=max_tokens)


def edit_config(folder, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("kind", "changes", "max_tokens", "message"),
    [
        ("window", {"sliding_window": 20}, 36, r"last 20 tokens only: lower max_tokens to 20"),
        ("llama", {}, 41, r"max_tokens is 41, but the model has only 40 positions"),
    ],
)
def test_what_cannot_be_run_is_refused(tmp_path, kind, changes, max_tokens, message):
    folder = saved(reference(kind, **changes), tmp_path / "model")
    with pytest.raises(ModelError, match=rf"^models\.mine.*{message}"):
        fetch("mine", section(folder, max_tokens), tmp_path / "data", tmp_path / "tokenizer")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gemma"}, r"family is 'llama', but the weights are of model type 'gemma'"),
        ({"num_hidden_layers": 2}, r"of layer 2, but config\.json implies 2 layers"),
        ({"num_hidden_layers": 4}, r"has tensors of 3 layers, but config\.json implies 4"),
        ({"num_key_value_heads": 4}, r"k_proj\.weight' has shape \[16, 32\].*implies \[32, 32\]"),
        ({"tie_word_embeddings": False}, r"lacks the tensor 'lm_head\.weight'"),
        ({"vocab_size": 98}, r"embed_tokens\.weight' has shape \[97, 32\]"),
    ],
)
def test_a_configuration_of_another_model_is_noticed(tmp_path, changes, message):
    folder = saved(reference("grouped"), tmp_path / "model")
    edit_config(folder, **changes)
    with pytest.raises(ModelError, match=message):
        fetch("mine", section(folder), tmp_path / "data", tmp_path / "tokenizer")


def test_none_is_trained_here():
    from posenc.study.params import load as load_params

    source = load_params("params.yaml").models["decoder"].source
    with pytest.raises(ValueError, match=r"makes a decoder: set family to 'gpt2'"):
        Model(family="llama", source=source, max_tokens=36)


# --- Weights without torch ----------------------------------------------------------------------


def test_weights_are_read_by_the_names_of_the_family(folder, library_model):
    weights = Weights(folder, "llama")
    gain, bias = weights.norm("layers.1.input_layernorm")
    expected = library_model.model.layers[1].input_layernorm.weight.detach().numpy()
    np.testing.assert_array_equal(gain, expected)
    assert not bias.any() and bias.shape == gain.shape
    assert weights.eps == library_model.config.rms_norm_eps
    with pytest.raises(ArtifactError, match="no position embeddings: its positions are rotary"):
        weights.embeddings()
