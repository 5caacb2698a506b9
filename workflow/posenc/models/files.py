"""The files of a model's folder: are they the ones that are meant, and do they fit together?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.architectures.needs import ArchitectureError
from posenc.architectures.table import AFTER_PADDING, types_of
from posenc.artifacts.files import ArtifactError, JsonObject, sha256_file, verify
from posenc.models.json_files import is_made_here, read_mapping
from posenc.models.references import WEIGHTS, weight_files, weight_paths
from posenc.models.refusals import CONFIG, MOST_LAYERS, not_a_configuration
from posenc.models.section import Model

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

TOKENIZER, OPTIONS = "tokenizer.json", "tokenizer_config.json"
GGUF = ".gguf"
"""Ending of llama.cpp's files, which hold configuration, weights and tokenizer."""
BYTE_LEVEL = ("vocab.json", "merges.txt")
"""GPT-2's form of a tokenizer, read where there is no ``tokenizer.json``."""
TOKENIZER_PARTS = (TOKENIZER, *BYTE_LEVEL, OPTIONS, "special_tokens_map.json",
                   "added_tokens.json", "vocab.txt", "tokenizer.model", "spiece.model")  # fmt: skip
"""Files that the library may read a tokenizer from."""
OF_ONE_MODEL = "both files must be of one model"
_LAYER = re.compile(r"(?:encoder\.layer|h|layers)\.(\d+)\.")
_NUMBER = re.compile(r"\.(\d+)\.")
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


def read_config(folder: Path) -> JsonObject:
    """The mapping in a folder's ``config.json``.

    Raises
    ------
    ArtifactError
        If it is not JSON, or not a mapping.
    """
    return read_mapping(folder / CONFIG, "a model's configuration")


def check_tensors(folder: Path, family: str | None = None) -> PretrainedConfig:
    """Compare the weights with the model that the configuration implies, and read its tensors.

    Tensors that the model does not have, such as the heads of a pre-training, are not looked at.

    Parameters
    ----------
    folder
        With ``config.json`` and its weights.
    family
        What it is called in errors; by default its model type.

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

    config, made_by, options = library_class(folder, family)
    prefix = made_by.base_model_prefix
    with contextlib.ExitStack() as stack:
        of_key: dict[str, tuple[Any, str, Path]] = {}
        for place in weight_paths(folder):
            file = stack.enter_context(safe_open(place, "pt"))
            keys = list(file.keys())
            of_key |= {own_name(key, prefix): (file, key, place) for key in keys}
        shapes = {
            name: list(file.get_slice(key).get_shape()) for name, (file, key, _) in of_key.items()
        }
        _check_sizes(folder, config, family)
        if _is_renamed(config, made_by):  # the library compares them when it loads them
            implied: dict[str, list[int]] = dict(shapes)
        else:
            implied = _implied(folder, config, made_by, options, shapes, family)
        path = folder / WEIGHTS
        for name, shape in implied.items():
            if name not in shapes:
                raise ArtifactError(
                    f"{path} lacks the tensor {name!r}: {CONFIG} implies one of shape {shape}; "
                    f"{OF_ONE_MODEL}"
                )
            if shapes[name] != shape:
                raise ArtifactError(
                    f"{of_key[name][2]}: the tensor {of_key[name][1]!r} has shape {shapes[name]}, "
                    f"but {CONFIG} implies {shape}; {OF_ONE_MODEL}"
                )
        for name in implied:
            file, key, place = of_key[name]
            if not is_finite(file.get_tensor(key)):
                made = "train it with a lower learning_rate, or name other weights in params.yaml"
                raise ArtifactError(
                    f"{place}: the tensor {key!r} is not finite: it holds NaN or infinity; "
                    f"{made if is_made_here(place) else 'take other weights'}"
                )
    return config


def is_finite(tensor: Any) -> bool:
    """Whether all values of a tensor are finite; row by row, so that no copy is large."""
    if not tensor.is_floating_point():
        return True
    rows = tensor.reshape(-1)  # [values]
    return all(bool(part.float().isfinite().all()) for part in rows.split(2**24))


def library_class(
    folder: Path, family: str | None = None
) -> tuple[PretrainedConfig, type[PreTrainedModel], dict[str, bool]]:
    """A folder's configuration, the library's class of it, and arguments of its constructor.

    Raises
    ------
    ArtifactError
        If the library has no such model, or cannot read the configuration.
    """
    from posenc.architectures.classes import class_of, config_of

    raw = read_config(folder)
    try:
        config = config_of(raw)
        return config, *class_of(config, raw)
    except ArchitectureError as error:
        raise ArtifactError(f"{folder / CONFIG}: {error}") from None
    # The library raises whatever its validation raises.
    except Exception as error:
        raise not_a_configuration(folder, family, error) from None


def _is_renamed(config: PretrainedConfig, made_by: type[PreTrainedModel]) -> bool:
    """Whether the library renames or joins the tensors of files when it loads them."""
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    # Some are of a type, and some of a class alone.
    names = (config.model_type, made_by.__name__)
    return any(get_checkpoint_conversion_mapping(name) for name in names)


def _check_sizes(folder: Path, config: PretrainedConfig, family: str | None) -> None:
    """Refuse heads that do not share out the width of a model."""
    from posenc.architectures.classes import has_own_width

    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_attention_heads", 1)
    width = getattr(text, "hidden_size", heads)
    try:
        if heads < 1 or (width % heads and not has_own_width(text)):
            raise ValueError(f"{heads} heads do not divide d_model {width}")
    except Exception as error:
        raise not_a_configuration(folder, family, error) from None


def _implied(
    folder: Path,
    config: PretrainedConfig,
    made_by: type[PreTrainedModel],
    options: Mapping[str, Any],
    shapes: Mapping[str, list[int]],
    family: str | None,
) -> dict[str, list[int]]:
    """The shapes that a configuration implies, by name without the model's prefix."""
    import torch

    try:
        # Before the model is built: a number of layers may be of any size.
        layers = config.get_text_config(decoder=True).num_hidden_layers
        _check_layers(folder, layers, shapes)
        # Shapes without memory.
        with torch.device("meta"):
            model = made_by(config, **options)
    except ArtifactError:
        raise
    # The library raises whatever its constructors or PyTorch raise.
    except Exception as error:
        raise not_a_configuration(folder, family, error) from None
    prefix = made_by.base_model_prefix
    tied: set[str] = set()
    if getattr(config, "tie_word_embeddings", False):  # not all types have it
        tied = _tied(getattr(model, "_tied_weights_keys", None) or {}, prefix, shapes)
    return {
        own: list(tensor.shape)
        for name, tensor in model.state_dict().items()
        if (own := own_name(name, prefix)) in shapes or own not in tied
    }


def _tied(keys: Any, prefix: str, shapes: Mapping[str, list[int]]) -> set[str]:
    """Tensors that may be absent: each is another one, by whose name it is kept."""
    pairs = keys.items() if isinstance(keys, Mapping) else [(key, key) for key in keys]
    tied = set()
    for name, other in ((own_name(a, prefix), own_name(b, prefix)) for a, b in pairs):
        tied |= {name, other} if name in shapes else {name}
    return tied


def _check_layers(folder: Path, expected: int, shapes: Mapping[str, list[int]]) -> None:
    """Compare the layers that tensors are named after with their number."""
    named = {int(match[1]): name for name in shapes if (match := _LAYER.match(name))}
    if not named:  # by another name, or one layer for all
        named = {int(match[1]): name for name in shapes if (match := _NUMBER.search(name))}
        if named and max(named) + 1 < expected <= MOST_LAYERS:
            return
        named = {layer: name for layer, name in named.items() if layer < expected}
        if len(named) and expected <= MOST_LAYERS:
            return
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


def own_name(key: str, prefix: str) -> str:
    """A tensor's name without the model's own prefix, in today's spelling."""
    stem, _, kind = key.removeprefix(f"{prefix}.").rpartition(".")
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
    check_configuration(name, model, folder)
    check_tensors(folder, model.family)


def check_configuration(name: str, model: Model, folder: Path) -> None:
    """The part of :func:`check_family` that opens no weights.

    Raises
    ------
    ModelError
        As there.
    """
    from posenc.architectures.classes import positions_of, problem_of, window_of

    raw = read_config(folder)
    if raw.get("model_type") not in types_of(model.family):
        raise ModelError(
            f"models.{name}.family is {model.family!r}, but the weights are of model type "
            f"{raw.get('model_type')!r}"
        )
    if raw.get("model_type") in AFTER_PADDING and raw.get("pad_token_id", 1) is None:
        raise ModelError(
            f"models.{name}: its {CONFIG} has no pad_token_id, after which its positions begin"
        )
    config, _, _ = library_class(folder, model.family)
    if problem := problem_of(config, raw):
        raise ModelError(f"models.{name} {problem}")
    check_length(name, model, positions_of(config))
    window = window_of(config)
    if window is not None and model.max_tokens > window:
        raise ModelError(
            f"models.{name}.max_tokens is {model.max_tokens}, but the model attends to the last "
            f"{window} tokens only: lower max_tokens to {window}"
        )


def check_length(name: str, model: Model, available: int | None) -> None:
    """Compare where documents are cut with the positions that a model has.

    Raises
    ------
    ModelError
        If there are fewer.
    """
    if available is not None and model.max_tokens > available:
        raise ModelError(
            f"models.{name}.max_tokens is {model.max_tokens}, but the model has only "
            f"{available} positions"
        )


def model_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of a model's weights and configuration, which are verified.

    Raises
    ------
    ArtifactError
        If a file is absent, altered or damaged.
    """
    names = weight_files(folder)
    for file in (CONFIG, *names):
        verify(folder / file)
    digests = {"weights": sha256_file(folder / names[0]), "config": sha256_file(folder / CONFIG)}
    return digests | {name: sha256_file(folder / name) for name in names[1:]}
