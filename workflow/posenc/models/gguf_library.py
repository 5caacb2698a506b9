"""GGUF files of other architectures than Llama's, by the library's own conversion, read strictly.

The library passes over keys and tensors that it does not know, and takes its defaults for them.
Here each key is read, or has the one value that changes nothing, and each tensor is taken; else the
file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.classes import class_of, config_of
from posenc.artifacts.files import ArtifactError
from posenc.models.gguf_file import File, shortest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

READ = ("gpt2", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "starcoder2")
"""Architectures of which a test writes a file and gets the same model back."""
_ALSO = {
    "attention.key_length": "head_dim", "rope.freq_base": "rope_theta",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}  # fmt: skip
"""Keys that the library leaves to the defaults of its configurations, and their names there."""
_LENGTHS = {"gpt2": "n_positions"}
"""Where the library gives the number of positions another name."""
_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Of which a file has none where it names none, whatever the library's default is."""
_UNIGRAM = "llama"
"""What files call a SentencePiece vocabulary."""


def configuration(file: File) -> dict[str, Any]:
    """The library's configuration of a file.

    Raises
    ------
    ArtifactError
        If the file is of an architecture that is not read, or a key may change what the model
        computes and is not understood.
    """
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    architecture = file["general.architecture"]
    if architecture not in READ:
        raise ArtifactError(
            f"{file.path} has the architecture {architecture!r}; read are llama, {', '.join(READ)}"
        )
    said = dict(load_gguf_checkpoint(str(file.path))["config"])
    said.pop("_model_name_or_path", None)
    names = {key: name for key, name in GGUF_CONFIG_MAPPING[architecture].items() if name}
    prefix = f"{architecture}."
    given = {
        key.removeprefix(prefix): file.get(key)
        for key in file.reader.fields
        if key.startswith(prefix)
    }
    known = set(config_of({"model_type": said["model_type"]}).to_dict()) | {"rope_theta"}
    for key, name in _ALSO.items():
        if key in given and name in known:
            said[name], names[key] = given[key], name
    heads, width = given.get("attention.head_count"), given.get("embedding_length")
    if heads is None or width is None:
        raise ArtifactError(f"{file.path} does not say its heads and its width")
    if "head_dim" in known:
        said.setdefault("head_dim", width // heads)  # as llama.cpp has it
    if architecture in _LENGTHS:
        said[_LENGTHS[architecture]] = given["context_length"]
    said = dict.fromkeys(_TOKENS) | {key: shortest(value) for key, value in said.items()}
    config = config_of(said).to_dict()
    usual = _usual(config, given, heads, width)
    for key, value in given.items():
        if key not in names and (key not in usual or value not in usual[key]):
            raise ArtifactError(
                f"{file.path} has {prefix}{key} = {value!r}, which may change what the model "
                f"computes and is not understood here: take the model's safetensors weights"
            )
    return {**config, "model_type": said["model_type"], "dtype": "float32"}


def _usual(
    config: Mapping[str, Any], given: Mapping[str, Any], heads: int, width: int
) -> dict[str, tuple]:
    """Keys that are understood with some values only, by what the configuration says already."""
    d_head = config.get("head_dim") or width // heads
    rotation = config.get("rope_parameters") or {}
    share = rotation.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    inner = config.get("n_inner") or 4 * width
    length = given.get("context_length", 0)
    window = given.get("attention.sliding_window", 0)
    return {
        "attention.key_length": (d_head,), "attention.value_length": (d_head,),
        "attention.causal": (True,), "attention.head_count_kv": (heads,),
        "rope.dimension_count": (int(d_head * share),), "rope.scaling.type": ("none",),
        "rope.scaling.factor": (0.0, 1.0), "rope.scaling.finetuned": (False,),
        "expert_count": (0,), "expert_used_count": (0,), "feed_forward_length": (inner,),
        "attention.sliding_window": (0, *((window,) if window >= length else ())),
        "vocab_size": (config["vocab_size"],),
    }  # fmt: skip


def tensors_of(file: File, config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """All tensors by the library's names, dequantised to float32.

    Raises
    ------
    ArtifactError
        If there is a tensor that the model has not.
    """
    import torch
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    made = config_of(config)
    made_by, options = class_of(made, config)
    with torch.device("meta"):
        model = made_by(made, **options)
    found = load_gguf_checkpoint(str(file.path), return_tensors=True, model_to_load=model)
    # Row by row: what is transposed would be written column by column.
    tensors = {
        name: np.ascontiguousarray(one.numpy(), np.float32)
        for name, one in found["tensors"].items()
    }
    if len(tensors) != len(file.reader.tensors):
        # One that only the file has: factors of a rotation, for one.
        raise ArtifactError(
            f"{file.path} has {len(file.reader.tensors)} tensors, of which the library takes "
            f"{len(tensors)}: what the others change is not understood here"
        )
    return tensors


def tokenizer_of(file: File) -> Tokenizer:
    """The tokenizer of a file, by the library's conversion.

    Raises
    ------
    ArtifactError
        If the library does not know its kind, or how its texts are cut.
    """
    from tokenizers import processors
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_PRE_TOKENIZER_SPLITS,
        GGUF_SENTENCEPIECE_BUILDERS,
        convert_gguf_tokenizer,
        get_gguf_tokenizer,
    )

    kind, cut = file["tokenizer.ggml.model"], file.get("tokenizer.ggml.pre")
    architecture, said, options = get_gguf_tokenizer(str(file.path))
    if kind not in ("gpt2", _UNIGRAM) or (kind == "gpt2" and cut not in GGUF_PRE_TOKENIZER_SPLITS):
        raise ArtifactError(
            f"{file.path} has a tokenizer {kind!r} with the pre-tokenizer {cut!r}, which is not "
            f"read: take the model's folder with tokenizer.json"
        )
    has_space = file.get("tokenizer.ggml.add_space_prefix", True)
    if kind == _UNIGRAM and not has_space and architecture not in GGUF_SENTENCEPIECE_BUILDERS:
        raise ArtifactError(
            f"{file.path} says that its tokenizer adds no space before a text, which is not read: "
            f"take the model's folder with tokenizer.json"
        )
    tokenizer, _ = convert_gguf_tokenizer(architecture, said)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    begin = options.get("bos_token")
    if options.get("add_bos_token") and begin is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, tokenizer.token_to_id(begin))]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer
