"""GGUF files of each architecture that is read: written from a library model, and read back.

The files are laid out as llama.cpp's ``convert_hf_to_gguf.py`` lays them: names by the format's own
package, gains of Gemma with 1 added, GPT-2's maps as [outputs, inputs].
"""

from __future__ import annotations

import json
import re

import gguf
import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer

import posenc
from posenc.artifacts.files import ArtifactError
from posenc.models.gguf import convert
from posenc.models.load import load
from tests.copies import ROOT
from tests.unit.gguf_files import TEXTS, finish, small_tokenizer

TOKENS = small_tokenizer().get_vocab_size()
COMMON = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": None,
    "initializer_range": 0.3,
}  # fmt: skip
PARTIAL = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
EXPERTS = {"moe_intermediate_size": 20, "num_experts": 4, "num_experts_per_tok": 2}
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
    "qwen2moe": ("Qwen2MoeForCausalLM", {**EXPERTS, "shared_expert_intermediate_size": 28}),
    "qwen3moe": ("Qwen3MoeForCausalLM", {**EXPERTS, "head_dim": 16, "norm_topk_prob": True}),
    "minimax-m2": ("MiniMaxM2ForCausalLM", {**EXPERTS, "head_dim": 16, "rope_parameters": PARTIAL}),
    "stablelm": ("StableLmForCausalLM", {"rope_parameters": PARTIAL, "use_qkv_bias": True}),
    "stablelm/parallel": ("StableLmForCausalLM", {"use_parallel_residual": True}),
    "nemotron": ("NemotronForCausalLM", {"norm_eps": 1e-3, "rope_parameters": {
        "rope_type": "default", "rope_theta": 2e4, "partial_rotary_factor": 0.25}}),
    "lfm2": ("Lfm2ForCausalLM", {"layer_types": ["conv", "full_attention"], "norm_eps": 1e-3,
                                 "block_auto_adjust_ff_dim": False, "rope_theta": 2e4}),
    "bloom": ("BloomForCausalLM", {"n_layer": 2, "n_head": 4, "intermediate_size": 128,
                                   "num_key_value_heads": 4}),
    "falcon": ("FalconForCausalLM", {"intermediate_size": 128}),
}  # fmt: skip
"""By the name in the file, and a variant after a stroke."""
UNSEEN = "does not go through the library's attention"
UNVERIFIED = {"bloom": UNSEEN, "falcon": UNSEEN, "lfm2": "1 calls of attention in 2 layers"}
TRUE = gguf.gguf_writer.GGUFValue(True, gguf.GGUFValueType.BOOL)
ONE = gguf.gguf_writer.GGUFValue(1, gguf.GGUFValueType.UINT32)
IDS = [[5, 300, 7, 8, 9, 10, 11, 12, 13, 14, 15], [12, 13, 14]]


def model_of(kind: str, **changes):
    """A random model in which biases and gains matter."""
    name, sizes = SMALL[kind]
    sizes = {**sizes, **changes}
    made_by = getattr(transformers, name)
    common = {} if kind == "gpt2" else COMMON
    torch.manual_seed(0)
    special = {"bos_token_id": 0, "eos_token_id": 0, "vocab_size": TOKENS}
    config = made_by.config_class(**{**common, **sizes, **special})
    model = made_by(config).eval()
    for key, values in model.state_dict().items():
        if values.dim() == 1 and "inv_freq" not in key:
            values += 0.3 * torch.randn(values.shape)
    return model


def byte_level(writer, pre: str) -> None:
    """A byte-level vocabulary."""
    model = json.loads(small_tokenizer().to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
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
    config, kind = model.config, kind.split("/")[0]
    writer = gguf.GGUFWriter(path, kind)
    layers, heads, width = (
        config.num_hidden_layers,
        config.num_attention_heads,
        config.hidden_size,
    )
    said = config.to_dict()
    writer.add_block_count(layers)
    writer.add_context_length(said.get("max_position_embeddings") or said.get("n_positions", 64))
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(said.get("intermediate_size", 4 * width))
    writer.add_head_count(heads)
    if kind != "gpt2":
        shared = 1 if said.get("multi_query") else said.get("num_key_value_heads", heads)
        mixed = [
            0 if layer_type == "conv" else shared for layer_type in said.get("layer_types", ())
        ]
        writer.add_head_count_kv(mixed if kind == "lfm2" else shared)
    d_head = said.get("head_dim") or width // heads
    rotation = said.get("rope_parameters") or {}
    rotation = rotation.get("full_attention", rotation)
    if kind not in ("gpt2", "stablelm", "falcon", "bloom"):
        writer.add_rope_freq_base(rotation["rope_theta"])
    if "partial_rotary_factor" in rotation:
        writer.add_rope_dimension_count(int(rotation["partial_rotary_factor"] * d_head))
    (eps,) = (value for name, value in said.items() if name.endswith(("eps", "epsilon")))
    if "rms_norm_eps" in said or kind == "lfm2":
        writer.add_layer_norm_rms_eps(eps)
    else:
        writer.add_layer_norm_eps(eps)
    if said.get("head_dim") and kind not in ("starcoder2", "nemotron"):
        writer.add_key_length(d_head)
        writer.add_value_length(d_head)
    if kind in ("gemma2", "gemma3"):
        writer.add_sliding_window(config.sliding_window)
    if kind == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if kind == "stablelm":
        writer.add_parallel_residual(config.use_parallel_residual)
    if kind == "nemotron":
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if kind == "falcon":
        writer.add_tensor_data_layout("jploski")
    if kind == "lfm2":
        writer.add_shortconv_l_cache(config.conv_L_cache)
    if "num_experts_per_tok" in said:
        writer.add_expert_count(said.get("num_experts") or said["num_local_experts"])
        writer.add_expert_used_count(config.num_experts_per_tok)
        inner = "intermediate_size" if kind == "minimax-m2" else "moe_intermediate_size"
        writer.add_expert_feed_forward_length(said[inner])
    if "shared_expert_intermediate_size" in said:
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if kind == "minimax-m2":
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    vocabulary(writer, pre)
    arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == kind)
    names = gguf.get_tensor_name_map(arch, layers)
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        for part, values in parts(kind, name, tensor.numpy()):
            stem, _, last = part.rpartition(".")
            theirs = names.get_name(stem) or names.get_name(stem.removeprefix("transformer."))
            assert theirs, part
            writer.add_tensor(f"{theirs}.{last}", np.ascontiguousarray(values))
    changes(writer)
    finish(writer)
    return path


def parts(kind: str, name: str, values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The file's tensors that a library tensor becomes, under older checkpoints' names."""
    if kind.startswith(("gemma", "nemotron")) and name.endswith("norm.weight"):
        values = values + 1
    if kind == "gpt2" and values.ndim == 2 and ".h." in name:
        values = values.T
    if name.endswith(("shared_expert_gate.weight", "conv.conv.weight")):
        values = values.squeeze(axis=values.ndim - 2)
    if name.endswith("e_score_correction_bias"):
        return [(name.replace("_bias", ".bias").replace("mlp", "block_sparse_moe"), values)]
    if name.endswith("experts.gate_up_proj"):
        stem = name.removesuffix("gate_up_proj")
        gate, up = np.split(values, 2, axis=1)  # each [experts, inner, width]
        return [(f"{stem}gate_proj.weight", gate), (f"{stem}up_proj.weight", up)]
    return [(f"{name}.weight" if name.endswith("experts.down_proj") else name, values)]


def test_every_architecture_that_the_library_converts_is_read_or_refused_here():
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
    from transformers.integrations.gguf import GGUF_CONFIG_ARCHS

    def plain(names) -> set[str]:
        return {name.split("/")[0].replace("_", "").replace("-", "") for name in names}

    theirs = plain(GGUF_CONFIG_MAPPING) | plain(GGUF_CONFIG_ARCHS)
    # Two are parts of other files; files of Mistral are Llama's (tests/unit/test_gguf.py).
    apart = {"general", "tokenizer", "llama", "mistral"}
    assert plain(SMALL) | plain(REFUSED) | apart == theirs


def test_the_page_names_what_is_read():
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    named = page.partition("that the library\nconverts to")[2].partition(". Weights")[0]
    read = {kind.split("/")[0] for kind in SMALL if kind not in UNVERIFIED}
    assert re.findall("`(.+?)`", named) == sorted(read)


@pytest.mark.parametrize("kind", [kind for kind in SMALL if kind not in UNVERIFIED])
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
        for state, other in zip(own.hidden_states, theirs.hidden_states, strict=True):
            torch.testing.assert_close(state, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", UNVERIFIED)
def test_what_cannot_be_verified_is_refused_for_that(tmp_path, kind):
    written(model_of(kind), kind, tmp_path / "model.gguf")
    with pytest.raises(posenc.ModelError, match=UNVERIFIED[kind]):
        posenc.load(tmp_path)


REFUSED = {
    "qwen35": "architecture qwen35 is not supported yet",
    "qwen35moe": "architecture qwen35moe is not supported yet",
    "deci": "the model type 'deci', which transformers .* does not know",
    "t5": "an encoder and a decoder in one",
    "umt5": "an encoder and a decoder in one",
    "mamba": "only models with attention are read",
    "gemma4": r"gemma4\.attention\.key_length_swa = 8, which may change",
    "gpt-oss": r"the tensor 'blk\.0\.ffn_gate_exps\.weight', which the library does not take",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_another_architecture_is_refused_with_its_reason(tmp_path, kind):
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", kind)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_head_count(0 if kind == "mamba" else 4)
    writer.add_layer_norm_rms_eps(1e-5)
    if kind == "gpt-oss":
        writer.add_expert_used_count(2)
    writer.add_uint32("gemma4.attention.key_length_swa", 8)
    writer.add_tensor("blk.0.ffn_gate_exps.weight", np.zeros((4, 8, 32), np.float32))
    byte_level(writer, "qwen2")
    finish(writer)
    with pytest.raises(ArtifactError, match=REFUSED[kind]) as error:
        convert(tmp_path / "model.gguf", tmp_path)
    assert "\n" not in str(error.value)


def without(name: str):
    """A writer's change that removes a key or a tensor."""

    def change(writer) -> None:
        for group in (*writer.kv_data, *writer.tensors):
            group.pop(name, None)

    return change


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("gate", "where its model has"),
        ("up", "where its model has"),
        ("down", "lacks model.layers.1"),
    ],
)
def test_a_lacking_part_of_the_experts_is_noticed(tmp_path, part, message):
    changes = without(f"blk.1.ffn_{part}_exps.weight")
    path = written(model_of("qwen3moe"), "qwen3moe", tmp_path / "model.gguf", changes=changes)
    (folder := tmp_path / "made").mkdir()
    with pytest.raises(ArtifactError, match=message):
        convert(path, folder)
        load(folder)


@torch.inference_mode()
def test_what_a_file_leaves_out_is_as_llama_cpp_has_it(tmp_path):
    """Unlike the library's configurations, whose defaults are one model's."""
    sizes = {"num_key_value_heads": 4, "head_dim": 8}
    model = model_of("minimax-m2", **sizes)
    left_out = ("rope.freq_base", "attention.head_count_kv", "attention.key_length")

    def changes(writer) -> None:
        for key in left_out:
            without(f"minimax-m2.{key}")(writer)

    path = written(model, "minimax-m2", tmp_path / "model.gguf", changes=changes)
    (folder := tmp_path / "made").mkdir()
    convert(path, folder)
    ids = torch.tensor(IDS[:1])
    torch.testing.assert_close(load(folder)(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)


def test_a_folder_with_a_file_is_loaded_whole(tmp_path):
    written(model_of("qwen3"), "qwen3", tmp_path / "model.gguf")
    model = posenc.load(tmp_path)
    assert model.reading.family == "qwen3" and model.reading.max_tokens == 64


@pytest.mark.parametrize("pre", ["qwen2", "llama-bpe", "tekken", "gpt-4o", "gpt-2"])
def test_text_is_cut_as_the_pre_tokenizer_says(tmp_path, pre):
    """By another implementation of the cut into pieces that no token may cross."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    (folder := tmp_path / "made").mkdir()
    convert(written(model_of("qwen2"), "qwen2", tmp_path / "model.gguf", pre=pre), folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = small_tokenizer()
    if pre in GGUF_PRE_TOKENIZER_SPLITS:
        from tokenizers import Regex, pre_tokenizers

        expected.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[pre]), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
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
    ("nemotron", lambda w: w.add_rope_scaling_factor(4.0), r"scaling\.factor = 4\.0, which may"),
    ("stablelm", lambda w: w.kv_data[0].__setitem__("stablelm.use_parallel_residual", TRUE),
     r"use_parallel_residual = True, which may change"),
    ("minimax-m2", lambda w: w.kv_data[0].__setitem__("minimax-m2.expert_gating_func", ONE),
     r"expert_gating_func = 1, which may change"),
    ("qwen2moe", lambda w: w.add_expert_weights_norm(True), r"expert_weights_norm = True, which"),
    ("qwen3moe", lambda w: w.add_expert_weights_scale(2.5), r"expert_weights_scale = 2\.5, which"),
    ("qwen3moe", lambda w: w.add_leading_dense_block_count(1), r"dense_block_count = 1, which may"),
    ("qwen3moe", lambda w: without("qwen3moe.expert_used_count")(w), "not say its num_experts_per"),
    ("nemotron", lambda w: without("nemotron.attention.layer_norm_epsilon")(w), "its norm_eps"),
    ("qwen2", lambda w: w.add_tensor("rope_freqs.weight", np.ones(4, np.float32)),
     r"the tensor .rope_freqs\.weight., which the library does not take"),
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
