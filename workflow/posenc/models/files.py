"""The files of a model's folder: are they the ones that are meant, and do they fit together?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.artifacts.files import ArtifactError, read_json, sha256_file, verify
from posenc.models.section import Model

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
GGUF = ".gguf"
"""Ending of llama.cpp's files, which hold configuration, weights and tokenizer."""
BYTE_LEVEL = ("vocab.json", "merges.txt")
"""GPT-2's form of a tokenizer, read where there is no ``tokenizer.json``."""
OF_ONE_MODEL = "both files must be of one model"
_LAYER = re.compile(r"(?:encoder\.layer|h|layers)\.(\d+)\.")
_SPELLINGS = {"gamma": "weight", "beta": "bias"}
"""What older files call the parameters of a normalisation."""


class ModelError(RuntimeError):
    """A model cannot be had or is not what ``params.yaml`` says."""

    is_user_error = True


def tokenizer_files(folder: Path) -> tuple[str, ...]:
    """Names of the files that a folder's tokenizer is read from; none where it has no tokenizer."""
    for names in ((TOKENIZER,), BYTE_LEVEL):
        if all((folder / name).is_file() for name in names):
            return names
    return ()


def check_digests(
    key: str, folder: Path, read: tuple[str, ...], expected: Mapping[Any, str]
) -> None:
    """Compare the files of a folder with their checksums in ``params.yaml``.

    Parameters
    ----------
    key
        The key of ``params.yaml`` that holds the checksums, for messages.
    folder
        Where the files are.
    read
        Names of the files that are read; each needs a checksum.
    expected
        SHA-256 by name.

    Raises
    ------
    ModelError
        If a file that is read has no checksum, or one with a checksum is absent or another one.
    """
    for file, digest in expected.items():
        if not (folder / file).is_file():
            raise ModelError(f"{key} names {file}, which is not in {folder}: name the right folder")
        actual = sha256_file(folder / file)
        if actual != digest:
            raise ModelError(
                f"{key} says {file}: {digest}, but {folder / file} has {actual}: it is another "
                f"file than params.yaml means"
            )
    left = [file for file in read if file not in expected]
    if left:
        lines = ", ".join(f"{file}: {sha256_file(folder / file)}" for file in left)
        raise ModelError(
            f"{key} has no checksum of {', '.join(left)}; if they are right, add {lines}"
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The mapping in a folder's ``config.json``.

    Raises
    ------
    ArtifactError
        If it is not JSON, or not a mapping.
    """
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise ArtifactError(
            f"{folder / CONFIG} holds a {type(config).__name__}, not a model's configuration"
        )
    return config


LLAMAS = ("llama", "mistral", "qwen2")
"""Model types of the family ``llama``: rotary positions, RMSNorm, SwiGLU."""
_CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {"add_pooling_layer": False}),
    "roberta": ("RobertaModel", {"add_pooling_layer": False}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "llama": ("LlamaForCausalLM", {}),
    "mistral": ("MistralForCausalLM", {}),
    "qwen2": ("Qwen2ForCausalLM", {}),
}


def model_class(family: str, kind: str | None = None) -> tuple[type[nn.Module], dict[str, Any]]:
    """The library's class of a family, and the arguments of its constructor.

    Encoders come without their pooler, decoders with their language-model head.

    Parameters
    ----------
    family
        ``bert``, ``roberta``, ``gpt2`` or ``llama``.
    kind
        The ``model_type`` of a configuration, which tells the members of ``llama`` apart.
    """
    import transformers

    name, options = _CLASSES[kind if family == "llama" and kind in LLAMAS else family]
    return getattr(transformers, name), options


def check_tensors(folder: Path, family: str) -> PretrainedConfig:
    """Compare the weights with the model that the configuration implies, and read its tensors.

    Tensors that the model does not have, such as the heads of a pre-training, are not looked at.

    Parameters
    ----------
    folder
        With ``config.json`` and ``model.safetensors``.
    family
        ``bert``, ``roberta``, ``gpt2`` or ``llama``.

    Returns
    -------
    PretrainedConfig
        The configuration, with the library's defaults.

    Raises
    ------
    ArtifactError
        If the library cannot make a model of the configuration; if a layer or a tensor is missing,
        a layer is one too many, or a shape is another one; if a value is not finite.
    SafetensorError
        If the weights are not a whole safetensors file.
    """
    from safetensors import safe_open

    path = folder / WEIGHTS
    with safe_open(path, "pt") as file:
        keys = {_own_name(key, family): key for key in list(file.keys())}
        shapes = {name: list(file.get_slice(key).get_shape()) for name, key in keys.items()}
        config, implied = _implied(folder, family, shapes)
        for name, shape in implied.items():
            if name not in shapes:
                raise ArtifactError(
                    f"{path} lacks the tensor {name!r}: {CONFIG} implies one of shape {shape}; "
                    f"{OF_ONE_MODEL}"
                )
            if shapes[name] != shape:
                raise ArtifactError(
                    f"{path}: the tensor {keys[name]!r} has shape {shapes[name]}, but {CONFIG} "
                    f"implies {shape}; {OF_ONE_MODEL}"
                )
        for name in implied:
            if not file.get_tensor(keys[name]).float().isfinite().all():
                raise ArtifactError(
                    f"{path}: the tensor {keys[name]!r} is not finite: it holds NaN or infinity; "
                    f"name other weights in params.yaml, or train with a lower learning_rate"
                )
    return config


def _implied(
    folder: Path, family: str, shapes: Mapping[str, list[int]]
) -> tuple[PretrainedConfig, dict[str, list[int]]]:
    """The configuration, and the shapes that it implies, by name without the model's prefix."""
    import torch

    raw = read_config(folder)
    made_by, options = model_class(family, raw.get("model_type"))
    try:
        config = made_by.config_class.from_dict(raw)
        heads, width = config.num_attention_heads, config.hidden_size
        if heads < 1 or width % heads:
            raise ValueError(f"{heads} heads do not divide d_model {width}")
        # Before the model is built: a number of layers may be of any size.
        _check_layers(folder, config.num_hidden_layers, shapes)
        # Shapes without memory.
        with torch.device("meta"):
            model = made_by(config, **options)
    except ArtifactError:
        raise
    # The library raises whatever its validation, its constructors or PyTorch raise.
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ArtifactError(
            f"{folder / CONFIG} is not the configuration of a {family} model "
            f"({type(error).__name__}: {reason})"
        ) from None
    tied = (getattr(model, "_tied_weights_keys", None) or ()) if config.tie_word_embeddings else ()
    return config, {
        own: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if (own := _own_name(name, family)) in shapes or name not in tied
    }


def _check_layers(folder: Path, expected: int, shapes: Mapping[str, list[int]]) -> None:
    """Compare the layers that tensors are named after with their number."""
    named = {int(match[1]): name for name in shapes if (match := _LAYER.match(name))}
    for layer in sorted(named):
        if layer >= expected:
            raise ArtifactError(
                f"{folder / WEIGHTS}: the tensor {named[layer]!r} of shape {shapes[named[layer]]} "
                f"is of layer {layer}, but {CONFIG} implies {expected} layers, counted from 0; "
                f"{OF_ONE_MODEL}"
            )
    if len(named) < expected:
        raise ArtifactError(
            f"{folder / WEIGHTS} has tensors of {len(named)} layers, but {CONFIG} implies "
            f"{expected}; {OF_ONE_MODEL}"
        )


def _own_name(key: str, family: str) -> str:
    """A tensor's name without the model's own prefix, in today's spelling."""
    stem, _, kind = key.removeprefix(f"{model_class(family)[0].base_model_prefix}.").rpartition(".")
    return f"{stem}.{_SPELLINGS.get(kind, kind)}"


def check_family(name: str, model: Model, folder: Path) -> None:
    """Compare a folder with the section, and its files with one another.

    Raises
    ------
    ModelError
        If the family, the kind of position embeddings or the length does not fit.
    ArtifactError
        If configuration and weights do not fit together, or a weight is not finite.
    SafetensorError
        If the weights are damaged.
    """
    raw = read_config(folder)
    if raw.get("model_type") not in (LLAMAS if model.family == "llama" else (model.family,)):
        raise ModelError(
            f"models.{name}.family is {model.family!r}, but the weights are of model type "
            f"{raw.get('model_type')!r}"
        )
    kind = raw.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise ModelError(f"models.{name} has {kind!r} position embeddings, not learned absolute")
    config = check_tensors(folder, model.family)
    available = config.max_position_embeddings
    if model.family == "roberta":
        if config.pad_token_id is None:
            raise ModelError(
                f"models.{name}: its {CONFIG} has no pad_token_id, after which "
                f"RoBERTa's positions begin"
            )
        available -= config.pad_token_id + 1
    if model.family == "llama":
        _check_llama(name, model, config)
    check_length(name, model, available)


def check_length(name: str, model: Model, available: int) -> None:
    """Compare where documents are cut with the positions that a model has.

    Raises
    ------
    ModelError
        If there are fewer.
    """
    if model.max_tokens > available:
        raise ModelError(
            f"models.{name}.max_tokens is {model.max_tokens}, but the model has only "
            f"{available} positions"
        )


def _check_llama(name: str, model: Model, config: PretrainedConfig) -> None:
    """Refuse what packed documents, or the stores of queries and keys, have no room for."""
    width, heads = config.hidden_size, config.num_attention_heads
    d_head = getattr(config, "head_dim", None) or width // heads
    if d_head * heads != width:
        raise ModelError(
            f"models.{name} has {heads} heads of {d_head} features, which are not d_model {width}"
        )
    kind = config.rope_parameters["rope_type"]
    if kind in ("dynamic", "longrope"):
        raise ModelError(
            f"models.{name} has {kind!r} rotation, which depends on the length of the text; "
            f"only rotation that is the same in every text is run"
        )
    window = getattr(config, "sliding_window", None)
    if window is not None and model.max_tokens > window:
        raise ModelError(
            f"models.{name}.max_tokens is {model.max_tokens}, but the model attends to the last "
            f"{window} tokens only: lower max_tokens to {window}"
        )


def model_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of a model's weights and configuration, which are verified.

    Raises
    ------
    ArtifactError
        If a file is absent, altered or damaged.
    """
    for file in (CONFIG, WEIGHTS):
        verify(folder / file)
    return {"weights": sha256_file(folder / WEIGHTS), "config": sha256_file(folder / CONFIG)}
