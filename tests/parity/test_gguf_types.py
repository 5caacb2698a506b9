"""GGUF files of each architecture that is read: written from a model of the library, and it again.

The files are laid out as llama.cpp's ``convert_hf_to_gguf.py`` lays them: names by the format's own
package, gains of Gemma with 1 added, GPT-2's maps as [outputs, inputs].
"""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

import posenc
from posenc.artifacts.files import ArtifactError
from posenc.models.gguf import convert
from posenc.models.gguf_library import READ
from posenc.models.load import load
from tests.unit.gguf_files import TEXTS, finish, small_tokenizer

TOKENS = small_tokenizer().get_vocab_size()
COMMON = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": None,
    "initializer_range": 0.3,
}  # fmt: skip
SMALL = {
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 48}),
    "qwen2": ("Qwen2ForCausalLM", {"rope_theta": 5e5}),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 16, "rope_theta": 1e6}),
    "gemma2": ("Gemma2ForCausalLM", {"head_dim": 16, "sliding_window": 6,
                                     "attn_logit_softcapping": 30.0}),
    "gemma3": ("Gemma3ForCausalLM", {"head_dim": 16, "sliding_window": 6, "rope_theta": 1e6,
                                     "num_hidden_layers": 7}),
    "phi3": ("Phi3ForCausalLM", {"rope_theta": 2e4}),
    "starcoder2": ("Starcoder2ForCausalLM", {"rope_theta": 3e5}),
}  # fmt: skip
IDS = [[5, 300, 7, 8, 9, 10, 11, 12, 13, 14, 15], [12, 13, 14]]


def model_of(kind: str):
    """A random model in which biases and gains matter."""
    name, sizes = SMALL[kind]
    made_by = getattr(transformers, name)
    common = {} if kind == "gpt2" else COMMON
    torch.manual_seed(0)
    special = {"bos_token_id": 0, "eos_token_id": 0, "vocab_size": TOKENS}
    config = made_by.config_class(**{**common, **sizes, **special})
    model = made_by(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn(parameter.shape)
    return model


def byte_level(writer, pre: str) -> None:
    """A byte-level vocabulary."""
    made = json.loads(small_tokenizer().to_str())["model"]
    tokens = sorted(made["vocab"], key=made["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in made["merges"]])
    writer.add_bos_token_id(0)


def sentence_pieces(writer, pre: str) -> None:
    """A SentencePiece vocabulary, whose better pieces are joined first."""
    pieces = ["lo", "low", "er", "\u2581low", "we"]
    single = ["\u2581", *"abcdefghijklmnopqrstuvwxyz"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces, *single]
    tokens += [f"unused{number}" for number in range(TOKENS - len(tokens))]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(place) for place in range(len(tokens) - 259)])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(tokens) - 259)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def written(
    model, kind: str, path, pre="qwen2", changes=lambda writer: None, vocabulary=byte_level
):
    """The file of a model."""
    config = model.config
    writer = gguf.GGUFWriter(path, kind)
    layers, heads, width = (
        config.num_hidden_layers, config.num_attention_heads, config.hidden_size,
    )  # fmt: skip
    writer.add_block_count(layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", 4 * width))
    writer.add_head_count(heads)
    if kind != "gpt2":
        writer.add_head_count_kv(config.num_key_value_heads)
        rotation = config.rope_parameters
        rotation = rotation.get("full_attention", rotation)
        writer.add_rope_freq_base(rotation["rope_theta"])
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        eps = getattr(config, "norm_epsilon", getattr(config, "layer_norm_epsilon", None))
        writer.add_layer_norm_eps(eps)
    if kind in ("qwen3", "gemma2", "gemma3"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if kind in ("gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    vocabulary(writer, pre)
    arch = next(one for one, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, layers)
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        values = tensor.numpy()
        if kind.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        if kind == "gpt2" and values.ndim == 2 and ".h." in name:
            values = values.T
        stem, _, part = name.rpartition(".")
        theirs = names.get_name(stem)
        assert theirs, name
        writer.add_tensor(f"{theirs}.{part}", np.ascontiguousarray(values))
    changes(writer)
    finish(writer)
    return path


def test_every_architecture_that_is_read_is_written_here():
    assert set(SMALL) == set(READ)


@pytest.mark.parametrize("kind", SMALL)
@torch.inference_mode()
def test_the_same_model_is_read(tmp_path, kind):
    model = model_of(kind)
    (folder := tmp_path / "made").mkdir()
    convert(written(model, kind, tmp_path / "model.gguf"), folder)
    ours = load(folder)
    for ids in IDS:
        theirs = model(torch.tensor([ids]), output_hidden_states=True)
        own = ours(torch.tensor([ids]), output_hidden_states=True)
        torch.testing.assert_close(own.logits, theirs.logits, rtol=1e-4, atol=1e-4)
        for one, other in zip(own.hidden_states, theirs.hidden_states, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_folder_with_a_file_is_loaded_whole(tmp_path):
    written(model_of("qwen3"), "qwen3", tmp_path / "model.gguf")
    model = posenc.load(tmp_path)
    assert model.reading.family == "qwen3" and model.reading.max_tokens == 64


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "tekken", "gpt-4o", "gpt-2"])
def test_text_is_cut_as_the_pre_tokenizer_says(tmp_path, pre):
    """By another implementation of the cut: the pieces that a token may not cross."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    (folder := tmp_path / "made").mkdir()
    convert(written(model_of("qwen2"), "qwen2", tmp_path / "model.gguf", pre=pre), folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = small_tokenizer()
    if pre in GGUF_PRE_TOKENIZER_SPLITS:
        from tokenizers import Regex, pre_tokenizers

        expected.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[pre]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])  # fmt: skip
    for text in TEXTS:
        assert tokenizer.encode(text).ids == expected.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.parametrize(("kind", "changes", "message"), [
    ("qwen2", lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
     r"rope\.scaling\.type = 'yarn', which may change"),
    ("qwen2", lambda w: w.add_rope_scaling_factor(4.0), r"scaling\.factor = 4\.0, which may"),
    ("qwen3", lambda w: w.add_float32("qwen3.rope.scaling.low_freq", 2.0), r"low_freq = 2\.0"),
    ("qwen3", lambda w: w.add_rope_dimension_count(8), r"rope\.dimension_count = 8, which"),
    ("qwen3", lambda w: w.add_sliding_window(4), r"sliding_window = 4, which may change"),
    ("gemma3", lambda w: w.add_float32("gemma3.rope.freq_base_swa", 5.0), r"freq_base_swa = 5\.0"),
    ("qwen2", lambda w: w.add_tensor("rope_freqs.weight", np.ones(4, np.float32)),
     r"tensors, of which the library takes"),
])  # fmt: skip
def test_what_is_not_understood_is_refused(tmp_path, kind, changes, message):
    path = written(model_of(kind), kind, tmp_path / "model.gguf", changes=changes)
    with pytest.raises(ArtifactError, match=message) as error:
        convert(path, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("pre", "kind"), [("chameleon", "gpt2"), ("qwen2", "rwkv")])
def test_an_unknown_tokenizer_is_refused(tmp_path, pre, kind):
    path = written(model_of("qwen2"), "qwen2", tmp_path / "model.gguf", pre=pre,
                   changes=lambda w: w.kv_data[0].__setitem__("tokenizer.ggml.model",
                   gguf.gguf_writer.GGUFValue(kind, gguf.GGUFValueType.STRING)))  # fmt: skip
    with pytest.raises(ArtifactError, match=rf"tokenizer '{kind}' with the pre-tokenizer '{pre}'"):
        convert(path, tmp_path)


@pytest.mark.parametrize("adds_begin", [True, False, None])
def test_sentence_pieces_are_joined_by_their_scores(tmp_path, adds_begin):
    """By hand: the pieces of best score first; a text gets a space before, and a begin token."""
    (folder := tmp_path / "made").mkdir()
    changes = (lambda w: None) if adds_begin is None else lambda w: w.add_add_bos_token(adds_begin)
    path = written(model_of("qwen2"), "qwen2", tmp_path / "model.gguf", vocabulary=sentence_pieces,
                   changes=changes)  # fmt: skip
    convert(path, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pieces = ["\u2581low", "\u2581low", "er", "\u2581", "we", "<0xC3>", "<0xA9>"]
    begin = [] if adds_begin is False else ["<s>"]
    assert tokenizer.encode("low lower we\u00e9").tokens == [*begin, *pieces]
    path = written(model_of("qwen2"), "qwen2", tmp_path / "other.gguf", vocabulary=sentence_pieces,
                   changes=lambda w: w.add_add_space_prefix(False))  # fmt: skip
    with pytest.raises(ArtifactError, match="adds no space before a text"):
        convert(path, folder)
