"""What cannot be discovered of a model, written down: names, and types that are no text models.

It imports neither torch nor transformers: what reads ``params.yaml`` asks it.
"""

from __future__ import annotations

from typing import Literal

POSITION_TABLES = ("position_embeddings", "wpe", "embed_positions", "pos_emb")
"""Last names of modules that are tables of position embeddings."""
ROTARY = "Rotary"
"""Part of the class name of modules that give a rotation's angles."""
SEPARATE_MAPS = (
    ("q_proj", "k_proj", "v_proj"),
    ("query", "key", "value"),
    ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"),
)
"""Names of maps of queries, keys and values, each with its own module."""
FUSED_MAPS = ("c_attn", "qkv_proj", "Wqkv", "qkv")
"""Names of one map that gives queries, then keys, then values."""
OUTPUT_MAPS = ("o_proj", "c_proj", "out_proj", "out_lin", "Wo", "o", "dense")
"""Names of the map of what the heads give."""
OUTPUT_OPTIONS = ("output_attentions", "output_hidden_states", "return_dict", "use_return_dict",
                  "attn_implementation", "_attn_implementation",
                  "chunk_size_feed_forward")  # fmt: skip
"""Keys of ``config.json`` that say how a forward pass runs and what it returns, and nothing of what
the model computes."""
ROTATIONS_OF_THE_TEXT = ("dynamic", "longrope")
"""Kinds of rotation that change with the length of the text."""
ALIKE = {"llama": ("llama", "mistral", "qwen2")}
"""Model types that ``family`` in params.yaml stands for, where it stands for several."""
AFTER_PADDING = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "data2vec-text",
                 "roberta-prelayernorm", "xmod", "esm", "longformer", "ibert", "mpnet")  # fmt: skip
"""Types whose first position is the row after that of the padding."""
KINDS: dict[str, tuple[bool, Literal["table", "rotation"]]] = {
    "bert": (False, "table"),
    "roberta": (False, "table"),
    "gpt2": (True, "table"),
    "llama": (True, "rotation"),
}
"""Whether a type that params.yaml may name without more is a decoder, and how positions enter."""

ACTIVATION_PAIRS = {"c_fc": "act", "dense": "intermediate_act_fn", "gate_proj": "act_fn"}
"""Names of an affine map and of the activation that takes what it gives, within one module."""
VERIFICATION = "verification.json"
"""What was compared with the library when a model was fetched, beside its weights."""
TRAINED_HERE = "gpt2"
"""The type of decoders that the workflow trains."""


def types_of(family: str) -> tuple[str, ...]:
    """Model types that the weights of a family may have."""
    return ALIKE.get(family, (family,))


def first_row(config: dict) -> int:
    """Row of the first position in a table, by a configuration; a loaded model says it itself."""
    if config.get("model_type") not in AFTER_PADDING or config.get("pad_token_id", 1) is None:
        return 0
    return config.get("pad_token_id", 1) + 1


def sizes_of(config: dict) -> tuple[int, int] | None:
    """Layers and width, as a ``config.json`` says them; None if it does not."""
    text = config.get("text_config") or config
    layers, width = (
        next((text[name] for name in names if isinstance(text.get(name), int)), None)
        for names in (
            ("num_hidden_layers", "n_layer", "n_layers"),
            ("hidden_size", "n_embd", "dim"),
        )
    )
    return None if layers is None or width is None else (layers, width)
