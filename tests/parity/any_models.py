"""A tiny random model of each text model type of the library, by one recipe and a few edits."""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

VOCABULARY, POSITIONS, WINDOW = 96, 64, 12
MAPPINGS = {
    "causal": MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": MODEL_FOR_MASKED_LM_MAPPING_NAMES,
}
TYPES = [(task, kind) for task, mapping in MAPPINGS.items() for kind in mapping]
MOST_PARAMETERS = 4_000_000
SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_ff", "hidden_dim"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size"), 64),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers"), 4),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 4),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), POSITIONS),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "head_dim"), 8),
    **dict.fromkeys(("n_shared_experts", "n_group", "topk_group"), 1),
    **dict.fromkeys(("initializer_range", "init_std"), 0.3),
    **dict.fromkeys(("attention_dropout", "hidden_dropout_prob"), 0.0),
    "rotary_dim": 4, "vocab_size": VOCABULARY, "num_key_value_heads": 2, "num_experts_per_tok": 2,
    "type_vocab_size": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "sliding_window": WINDOW, "is_decoder": True,
}  # fmt: skip
EDITS: dict[str, dict[str, Any]] = {
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8},
    "gpt_neo": {"attention_types": [[["global"], 4]]},
    "hrm_text": {"initializer_range": 0.1},  # 32 layers that rounding grows in
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}
"""What the recipe cannot know of a type."""


class NoTinyModel(RuntimeError):
    """The recipe makes no small model of a type."""


def config_of(task: str, kind: str) -> Any:
    """A configuration of a type with the sizes of the recipe."""
    made_by = CONFIG_MAPPING[kind]
    names = set(made_by().to_dict()) | set(getattr(made_by, "attribute_map", {}))
    options = {name: value for name, value in SIZES.items() if name in names}
    spelled = getattr(made_by, "attribute_map", None) or {}
    options = {n: value for n, value in options.items() if spelled.get(n) not in options}
    if "kv_lora_rank" in names:  # all heads have keys of their own
        options["num_key_value_heads"] = 4
    options = {**options, **EDITS.get(kind, {})}
    if task == "masked":
        options.pop("is_decoder", None)
    return made_by(**options)


def tiny(task: str, kind: str) -> transformers.PreTrainedModel:
    """A random model of a type, in which position, biases, gains and sinks matter.

    Raises
    ------
    NoTinyModel
        If there is none by this recipe.
    """
    name = MAPPINGS[task][kind]
    made_by = getattr(transformers, name if isinstance(name, str) else name[0])
    try:
        config = config_of(task, kind)
        with torch.device("meta"):
            parameters = sum(p.numel() for p in made_by(copy.deepcopy(config)).parameters())
        if parameters > MOST_PARAMETERS:
            raise NoTinyModel(f"{parameters:,} parameters")
        torch.manual_seed(0)
        model = made_by(config).eval()
    # Anything a configuration or constructor raises.
    except Exception as error:
        raise NoTinyModel(f"{type(error).__name__}: {error}") from error
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1 and float(parameter.std(unbiased=False)) == 0:
                parameter += 0.1 * torch.randn(parameter.shape)
    return model


@functools.cache
def words() -> Tokenizer:
    """One token per word: w0, w1, ..."""
    ids = {f"w{number}": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="w3"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def text(*numbers: int) -> str:
    """The text of tokens."""
    return " ".join(f"w{number}" for number in numbers)
