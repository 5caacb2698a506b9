"""Which library class a configuration belongs to, and what it asks for that is not run.

The library is imported inside functions: what only reads files starts without it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from posenc.architectures.needs import ArchitectureError
from posenc.architectures.table import OUTPUT_OPTIONS, ROTATIONS_OF_THE_TEXT

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


WINDOWS = ("sliding_window", "attention_chunk_size")
"""Keys that say how many tokens a layer with local attention sees."""


def config_of(raw: Mapping[str, Any]) -> PretrainedConfig:
    """The library's configuration, with its defaults, and without options of output.

    Parameters
    ----------
    raw
        The mapping of a ``config.json``.

    Raises
    ------
    ArchitectureError
        If the library has no such model type, or its weights are quantized.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = raw.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        import transformers

        remote = ", and code beside weights is not run" if "auto_map" in raw else ""
        raise ArchitectureError(
            f"config.json has the model type {kind!r}, which transformers "
            f"{transformers.__version__} does not know{remote}"
        )
    if (quantized := raw.get("quantization_config")) is not None:
        method = quantized.get("quant_method") if isinstance(quantized, Mapping) else quantized
        raise ArchitectureError(
            f"the weights are quantized (quantization_config says {method or 'no method'}): take "
            f"the same model in float32, float16 or bfloat16"
        )
    return CONFIG_MAPPING[kind].from_dict(
        {key: value for key, value in raw.items() if key not in OUTPUT_OPTIONS}
    )


def class_of(
    config: PretrainedConfig, raw: Mapping[str, Any]
) -> tuple[type[PreTrainedModel], dict[str, bool]]:
    """The library's class for a configuration, and its constructor's arguments.

    A causal language model has its head, an encoder comes without head and pooler.

    Parameters
    ----------
    config
        From :func:`config_of`.
    raw
        The mapping that it is of: ``architectures`` says which class the weights were saved from.

    Raises
    ------
    ArchitectureError
        If the library has no text model of the type.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    kind = config.model_type
    causal = _name(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kind)
    masked = _name(modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, kind)
    base = _name(modeling_auto.MODEL_MAPPING_NAMES, kind)
    saved_from = raw.get("architectures") or []
    # Where a type is both, what the weights were saved from decides.
    name = causal if causal and (masked is None or causal in saved_from) else base
    if name is None:
        raise ArchitectureError(f"the library has no text model of the type {kind!r}")
    if name == base and getattr(config, "is_encoder_decoder", False):
        raise ArchitectureError(
            f"a model of the type {kind!r} is an encoder and a decoder in one, which is not read"
        )
    made_by = getattr(transformers, name)
    has_pooler = "add_pooling_layer" in inspect.signature(made_by.__init__).parameters
    return made_by, {"add_pooling_layer": False} if has_pooler else {}


def _name(names: Mapping[str, Any], kind: str) -> str | None:
    """The class of a type; the first, where there are several."""
    entry = names.get(kind)
    return entry[0] if isinstance(entry, (tuple, list)) else entry


def problem_of(config: PretrainedConfig, raw: Mapping[str, Any]) -> str | None:
    """What a configuration asks for that is not run, if anything."""
    if not getattr(config, "return_dict", True):
        return (
            "gives tuples (return_dict in its configuration): set model.config.return_dict = True"
        )
    kind = raw.get("position_embedding_type", "absolute")
    if kind not in ("absolute", "rotary", None):
        return f"has {kind!r} position embeddings, not learned absolute"
    return None


def _rotations(parameters: Any) -> list[Mapping[str, Any]]:
    """The rotations that a configuration names: one, or one for each type of layer."""
    if not isinstance(parameters, Mapping):
        return []
    nested = [part for part in parameters.values() if isinstance(part, Mapping)]
    return nested or [parameters]


def has_own_width(config: Any) -> bool:
    """Whether heads have a width of their own, not necessarily an equal share of the model's."""
    try:
        return getattr(config, "head_dim", None) is not None
    except ValueError:  # by layer
        return True


def window_of(config: PretrainedConfig) -> int | None:
    """Tokens that a layer with local attention sees; None where all layers see all."""
    text = config.get_text_config(decoder=True)
    types = getattr(text, "layer_types", None) or ()
    if types and all(kind in ("full_attention", "attention") for kind in types):
        return None
    if getattr(text, "use_sliding_window", True) is False:
        return None
    # What a type's configuration does not have of itself is left over from elsewhere.
    own = [name for name in WINDOWS if hasattr(type(text)(), name)]
    return min((size for name in own if (size := getattr(text, name))), default=None)


def positions_of(config: PretrainedConfig) -> int | None:
    """Tokens that a configuration has one set of positions for; None where it sets no limit."""
    from posenc.architectures.table import first_row

    text = config.get_text_config(decoder=True)
    count = getattr(text, "max_position_embeddings", None)
    limits = [] if count is None else [count - first_row(text.to_dict())]
    for parameters in _rotations(getattr(text, "rope_parameters", None)):
        # Longer texts are turned otherwise, from their first token on.
        if parameters.get("rope_type") in ROTATIONS_OF_THE_TEXT:
            limits.append(parameters.get("original_max_position_embeddings", count))
    return min((limit for limit in limits if limit is not None), default=None)


def depends_on_length(config: PretrainedConfig) -> bool:
    """Whether a rotation that depends on the text's length turns queries and keys."""
    text = config.get_text_config(decoder=True)
    kinds = {part.get("rope_type") for part in _rotations(getattr(text, "rope_parameters", None))}
    return not kinds.isdisjoint(ROTATIONS_OF_THE_TEXT)


def begin_token(config: PretrainedConfig) -> int | None:
    """The token that begins a text where the tokenizer puts none first, if there is one."""
    begin = getattr(config.get_text_config(decoder=True), "bos_token_id", None)
    return next(iter(begin), None) if isinstance(begin, list) else begin
