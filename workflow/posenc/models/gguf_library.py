"""GGUF files of other architectures than Llama's, by the library's own conversion, read strictly.

The library passes over keys and tensors that it does not know, and takes its defaults for them.
Here each key is read, or has the one value that changes nothing, and each tensor is taken; else the
file is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.classes import class_of, config_of
from posenc.architectures.needs import ArchitectureError
from posenc.artifacts.files import ArtifactError, JsonObject
from posenc.models.gguf_file import File, shortest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_ALSO = {
    "context_length": "max_position_embeddings",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
"""Keys that the library leaves to the defaults of its configurations, and their names there."""
_EPSILON = ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon")
"""Keys of what is added to a variance, for which configurations have one field of many names."""
_GATES = {"minimax_m2": 2}
"""Types whose experts are weighed by a sigmoid, by llama.cpp's number of it."""
_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
"""Of which a file has none where it names none, whatever the library's default is."""
_UNIGRAM = "llama"
"""What files call a SentencePiece vocabulary."""


def configuration(file: File) -> JsonObject:
    """The library's configuration of a file.

    Raises
    ------
    ArtifactError
        If the library does not convert files of the architecture, or has no text model of it; if
        the file does not say its sizes, or a key may change what the model computes and is not
        understood.
    """
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    architecture, said = file["general.architecture"], dict(_converted(file)["config"])
    said.pop("_model_name_or_path", None)
    kind = said["model_type"]
    try:
        default = config_of({"model_type": kind})
        class_of(default, said)
    except ArchitectureError as error:
        raise ArtifactError(f"{file.path} is a {architecture}: {error}") from None
    given = {
        key.removeprefix(f"{architecture}."): file.get(key)
        for key in file.reader.fields
        if key.startswith(f"{architecture}.")
    }
    fields = set(default.to_dict()) | set(default.attribute_map)
    if "rope_parameters" in fields:
        fields.add("rope_theta")
    epsilon = {name for name in fields if name.endswith(("eps", "epsilon"))}
    mapping = {**cast(dict[str, str], GGUF_CONFIG_MAPPING[kind.removesuffix("_text")]), **_ALSO}
    if len(epsilon) == 1:
        mapping |= dict.fromkeys(_EPSILON, *epsilon)
    names = {key: name for key, name in mapping.items() if name in fields}
    said |= {names[key]: given[key] for key in (*_ALSO, *_EPSILON) if key in names and key in given}
    if "attention.head_count" not in names:
        raise ArtifactError(f"{file.path} is a {architecture}: only models with attention are read")
    heads, width = given.get("attention.head_count"), given.get("embedding_length")
    if not heads or not width:
        raise ArtifactError(f"{file.path} does not say its heads and its width")
    for name in (epsilon | {"num_experts_per_tok"}) & fields:
        if name not in {names.get(key) for key in given}:
            raise ArtifactError(
                f"{file.path} does not say its {name}: take the model's safetensors weights"
            )
    # As llama.cpp has what a file does not say; the library's defaults are those of one model.
    usual = {"head_dim": width // heads, "num_key_value_heads": heads, "rope_theta": 10000.0}
    for name in usual.keys() & fields:
        said.setdefault(name, usual[name])
    turned = given.get("rope.dimension_count")
    if turned and "partial_rotary_factor" in (getattr(default, "rope_parameters", None) or {}):
        said["partial_rotary_factor"] = turned / said.get("head_dim", width // heads)
    said = dict.fromkeys(_TOKENS) | {key: shortest(value) for key, value in said.items()}
    config = config_of(said).to_dict()
    understood = _understood(config, given, heads, width)
    for key, value in given.items():
        if key not in names and value not in understood.get(key, ()):
            raise ArtifactError(
                f"{file.path} has {architecture}.{key} = {value!r}, which may change what the "
                f"model computes and is not understood here: take the model's safetensors weights"
            )
    return {**config, "model_type": kind, "dtype": "float32"}


def _converted(file: File, **options: object) -> JsonObject:
    """What the library makes of a file.

    Raises
    ------
    ArtifactError
        If it makes nothing of it.
    """
    import transformers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    try:
        return load_gguf_checkpoint(str(file.path), **options)
    # The library raises whatever its conversion of an architecture trips over.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ArtifactError(
            f"{file.path} is a {file['general.architecture']}, which transformers "
            f"{transformers.__version__} does not convert ({type(error).__name__}: {reason}): take "
            f"the model's safetensors weights"
        ) from None


def _understood(
    config: Mapping[str, Any], given: Mapping[str, Any], heads: int, width: int
) -> dict[str, tuple]:
    """Keys that are understood with some values only, by what the configuration says already."""
    d_head = config.get("head_dim") or width // heads
    rotation = config.get("rope_parameters") or {}
    share = rotation.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    inner = config.get("n_inner") or 4 * width
    window, length = given.get("attention.sliding_window", 0), given.get("context_length", math.inf)
    return {
        "attention.key_length": (d_head,), "attention.value_length": (d_head,),
        "attention.causal": (True,), "context_length": (length,),
        "attention.head_count_kv": (1 if config.get("multi_query") else heads,),
        "rope.dimension_count": (int(d_head * share),), "rope.scaling.type": ("none",),
        "rope.scaling.factor": (0.0, 1.0), "rope.scaling.finetuned": (False,),
        "expert_count": (0,), "expert_used_count": (0,), "feed_forward_length": (inner,),
        "expert_feed_forward_length": (config.get("intermediate_size"),),
        "expert_gating_func": (_GATES.get(config["model_type"]),),
        "expert_weights_norm": (config.get("norm_topk_prob"),),
        "use_parallel_residual": (config.get("use_parallel_residual", False),),
        "attention.sliding_window": (0, *((window,) if window >= length else ())),
        "vocab_size": (config["vocab_size"],),
        # Queries, keys and values apart, as they are where heads share one key.
        "tensor_data_layout": ("jploski",) if config.get("multi_query") else (),
    }  # fmt: skip


def tensors_of(file: File, config: JsonObject) -> dict[str, NDArray[np.float32]]:
    """All tensors by the library's names, dequantised to float32.

    Raises
    ------
    ArtifactError
        If the model lacks one of the tensors, or a part of one is missing.
    """
    import torch
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    library_config = config_of(config)
    made_by, options = class_of(library_config, config)
    with torch.device("meta"):
        model = made_by(library_config, **options)
    processor = TENSOR_PROCESSORS.get(file["general.architecture"], TensorProcessor)(config)
    # Parameters of the library without a last name, all experts in one, have one in the file.
    known = {name.removesuffix(".weight") for name in get_gguf_hf_weights_map(model, processor)}
    for tensor in file.reader.tensors:
        if tensor.name.removesuffix(".weight") not in known:
            # One that only the file has: factors of a rotation, for one.
            raise ArtifactError(
                f"{file.path} has the tensor {tensor.name!r}, which the library does not take: "
                f"what it changes is not understood here"
            )
    converted = _converted(file, return_tensors=True, model_to_load=model)["tensors"]
    # Row by row: what is transposed would be written column by column.
    tensors = {
        name: np.ascontiguousarray(weight.numpy(), np.float32) for name, weight in converted.items()
    }
    # The library has zeros for a part of a tensor that the file lacks.
    there = sum(int(tensor.n_elements) for tensor in file.reader.tensors)
    if (made_of := sum(tensor.size for tensor in tensors.values())) != there:
        raise ArtifactError(
            f"{file.path} has {there} weights where its model has {made_of}: get it again"
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
