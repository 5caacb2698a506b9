"""GGUF, llama.cpp's format of one file, read into the hub's folder format.

Weights are dequantised to float32, queries and keys get the library's order of features again, and
the tokenizer cuts text as the pre-tokenizer that the file names. Format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.files import ArtifactError, JsonObject, write_json
from posenc.models import gguf_library
from posenc.models.files import CONFIG, OPTIONS, TOKENIZER
from posenc.models.gguf_file import File, shortest
from posenc.models.references import WEIGHTS

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer

_File = File  # the name by which scripts of users have read files
ARCHITECTURE = "llama"
SPECIAL = (3, 4)
"""Types of token that are found in a text before it is cut: control, and defined by the user."""
_CONTROL = 3
_MODULES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAME = re.compile(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)")
_READ = (
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size",
    "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
    "rope.scale_linear",
)  # fmt: skip
"""Keys of Llama's architecture that are read."""
_USUAL: dict[str, Callable[[int, int], Any]] = {
    "attention.key_length": lambda width, heads: width // heads,
    "attention.value_length": lambda width, heads: width // heads,
    "attention.causal": lambda width, heads: True,
    "attention.sliding_window": lambda width, heads: 0,
    "expert_count": lambda width, heads: 0,
    "expert_used_count": lambda width, heads: 0,
    "use_parallel_residual": lambda width, heads: False,
    "rope.scaling.finetuned": lambda width, heads: False,
    "tensor_data_layout": lambda width, heads: "Meta AI original pth",
}
"""Keys that are understood with one value only, by the width of the model and its heads."""
_TOKEN_IDS = {"bos": "bos", "eos": "eos", "padding": "pad"}


def convert(path: Path, folder: Path) -> None:
    """Write a model's ``config.json``, ``model.safetensors`` and ``tokenizer.json``.

    Parameters
    ----------
    path
        The GGUF file.
    folder
        Receives the three files; weights are float32.

    Raises
    ------
    ArtifactError
        If the file is damaged or lacks a key, or if its architecture, a tensor, a key that changes
        what is computed, or the pre-tokenizer is not known here.
    """
    from safetensors.numpy import save_file

    file = File(path)
    # Llama's is read here: the library does not take its scaled rotation.
    if file["general.architecture"] == ARCHITECTURE:
        config = configuration(file)
        tensors = tensors_of(file, config)
    else:
        config = gguf_library.configuration(file)
        tensors = gguf_library.tensors_of(file, config)
    tokenizer = tokenizer_of(file)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / CONFIG, config)
    tokenizer.save(str(folder / TOKENIZER))
    # As it is: a class that the library has for the architecture may read otherwise.
    write_json(folder / OPTIONS, {"tokenizer_class": "TokenizersBackend"})


def configuration(file: File) -> JsonObject:
    """The library's configuration of a Llama.

    Raises
    ------
    ArtifactError
        If its rotation is partial, or scaled in another way than linearly; if a key is not
        understood.
    """
    heads, width = (file[f"llama.{key}"] for key in ("attention.head_count", "embedding_length"))
    scaling = file.get("llama.rope.scaling.type", "none")
    turned = file.get("llama.rope.dimension_count", width // heads)
    if scaling not in ("none", "linear") or turned != width // heads:
        raise ArtifactError(
            f"{file.path} turns {turned} of {width // heads} features with the scaling "
            f"{scaling!r}; only rotation of all, without scaling or with a linear one, is read"
        )
    for key, usual in _USUAL.items():
        if (value := file.get(f"llama.{key}", usual(width, heads))) != usual(width, heads):
            raise ArtifactError(
                f"{file.path} has llama.{key} = {value}; only {usual(width, heads)} is read"
            )
    for key in file.reader.fields:
        part = key.removeprefix("llama.")
        if part != key and part not in _READ and part not in _USUAL:
            raise ArtifactError(
                f"{file.path} has {key} = {file.get(key)!r}, which may change what the model "
                f"computes and is not understood here: take the model's safetensors weights"
            )
    names = {tensor.name for tensor in file.reader.tensors}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(file["tokenizer.ggml.tokens"]),
        "hidden_size": width,
        "intermediate_size": file["llama.feed_forward_length"],
        "num_hidden_layers": file["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": file.get("llama.attention.head_count_kv", heads),
        "max_position_embeddings": file["llama.context_length"],
        "rms_norm_eps": shortest(file["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {
            **_scaled(file),
            # llama.cpp's own default, as the library's.
            "rope_theta": shortest(file.get("llama.rope.freq_base", 10000.0)),
        },
        "attention_bias": "blk.0.attn_q.bias" in names,
        "mlp_bias": "blk.0.ffn_gate.bias" in names,
        "tie_word_embeddings": "output.weight" not in names,
        **{
            f"{ours}_token_id": file.get(f"tokenizer.ggml.{theirs}_token_id")
            for theirs, ours in _TOKEN_IDS.items()
        },
    }


def _scaled(file: File) -> dict[str, str | float]:
    """How a file scales its rotation: by a factor, unless it says that it does not.

    A factor without a kind is a linear one (``llama_model_loader`` of llama.cpp); the older key of
    it is read where the newer one is absent.
    """
    factor = file.get("llama.rope.scaling.factor", file.get("llama.rope.scale_linear", 1.0))
    named = file.get("llama.rope.scaling.type")
    if factor in (0.0, 1.0) or named == "none":
        return {"rope_type": "default"}
    return {"rope_type": "linear", "factor": shortest(factor)}


def tensors_of(file: File, config: JsonObject) -> dict[str, NDArray[np.float32]]:
    """All tensors by the library's names, dequantised to float32.

    Raises
    ------
    ArtifactError
        If a tensor has a name or a type that is not known.
    """
    from gguf.quants import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {}
    for tensor in file.reader.tensors:
        match = _NAME.fullmatch(tensor.name)
        known = _MODULES if match is None or match[1] is None else _IN_BLOCK
        if match is None or match[2] not in known:
            raise ArtifactError(f"{file.path}: no Llama has the tensor {tensor.name!r}")
        layer, module, kind = match.groups()
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise ArtifactError(
                f"{file.path}: the tensor {tensor.name!r} is of type {tensor.tensor_type.name}, "
                f"which the package gguf does not read"
            ) from None
        if module in heads:
            values = unpermuted(values, heads[module])
        prefix = "" if layer is None else f"model.layers.{layer}."
        tensors[f"{prefix}{known[module]}.{kind}"] = np.ascontiguousarray(values, np.float32)
    return tensors


def unpermuted(rows: NDArray, n_heads: int) -> NDArray:
    """Rows of W^Q or W^K as the library has them, where the pairs (c, c + d_head / 2) are turned.

    llama.cpp turns neighbours, and its conversion (``LlamaModel.permute`` of
    ``convert_hf_to_gguf.py``) brings the two of a pair together: row 2c + i of a head in the file
    is row c + i d_head / 2.

    Parameters
    ----------
    rows
        [n_heads * d_head, ...].
    n_heads
        Of queries, or of keys.
    """
    by_pair = rows.reshape(n_heads, -1, 2, *rows.shape[1:])  # [n_heads, d_head / 2, 2, ...]
    return by_pair.swapaxes(1, 2).reshape(rows.shape)


def _gpt2() -> PreTokenizer:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _smollm() -> PreTokenizer:
    from tokenizers import Regex, pre_tokenizers

    digits = pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated")
    return pre_tokenizers.Sequence([digits, _gpt2()])


def _qwen2() -> PreTokenizer:
    from tokenizers import Regex, pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    pieces = pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS["qwen2"]), behavior="isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pieces, as_bytes])


PRE_TOKENIZERS: dict[str, Callable[[], PreTokenizer]] = {
    **dict.fromkeys(("gpt-2", "olmo"), _gpt2),
    **dict.fromkeys(("smollm", "starcoder", "refact"), _smollm),
    "stablelm2": _qwen2,
}
"""By the name in the file, beside those that the library knows: llama.cpp's ``llama-vocab.cpp``
has their regular expressions, and cuts by one expression where several names stand here."""


def tokenizer_of(file: File) -> Tokenizer:
    """The tokenizer of a file, with the pre-tokenizer that it names.

    Raises
    ------
    ArtifactError
        If its kind or its pre-tokenizer is not known.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models

    kind, name = file["tokenizer.ggml.model"], file.get("tokenizer.ggml.pre")
    if kind != "gpt2" or name not in PRE_TOKENIZERS:
        return gguf_library.tokenizer_of(file)
    tokens = file["tokenizer.ggml.tokens"]
    types = file.get("tokenizer.ggml.token_type", [])
    merges = [tuple(merge.split(" ")) for merge in file["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]()
    tokenizer.decoder = decoders.ByteLevel()
    special = [(token, code) for token, code in zip(tokens, types, strict=False) if code in SPECIAL]
    for token, code in special:
        tokenizer.add_tokens([AddedToken(token, special=code == _CONTROL, normalized=False)])
    return tokenizer
