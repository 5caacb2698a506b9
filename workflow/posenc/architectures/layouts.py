"""Names of tensors in the files of some types, for what reads weights without running a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layout:
    """Names of one type, without a model's own prefix; ``{layer}`` stands for the block's number.

    Attributes
    ----------
    eps
        Key of ``config.json`` for what normalisations add to the variance, and its default.
    is_rms
        Whether normalisations are RMSNorms, which have no bias.
    input_norm
        The normalisation that makes the input of a block's maps: of the block, or of the
        embeddings.
    has_block_norm
        Whether each block begins with a normalisation of its own.
    maps
        Of queries, keys and values: three names, or one of a joint map.
    output
        The map of what the heads give.
    is_transposed
        Whether maps are kept as [inputs, outputs].
    n_layers, n_heads
        Keys of ``config.json``.
    """

    eps: tuple[str, float]
    is_rms: bool
    input_norm: str
    has_block_norm: bool
    maps: tuple[str, ...]
    output: str
    is_transposed: bool
    n_layers: str = "num_hidden_layers"
    n_heads: str = "num_attention_heads"


_ENCODER = Layout(
    eps=("layer_norm_eps", 1e-12), is_rms=False,
    input_norm="embeddings.LayerNorm", has_block_norm=False,
    maps=tuple(f"encoder.layer.{{layer}}.attention.self.{n}" for n in ("query", "key", "value")),
    output="encoder.layer.{layer}.attention.output.dense", is_transposed=False,
)  # fmt: skip
_JOINT = Layout(
    eps=("layer_norm_epsilon", 1e-5), is_rms=False,
    input_norm="h.{layer}.ln_1", has_block_norm=True,
    maps=("h.{layer}.attn.c_attn",), output="h.{layer}.attn.c_proj", is_transposed=True,
    n_layers="n_layer", n_heads="n_head",
)  # fmt: skip
_ROTARY = Layout(
    eps=("rms_norm_eps", 1e-6), is_rms=True,
    input_norm="layers.{layer}.input_layernorm", has_block_norm=True,
    maps=tuple(f"layers.{{layer}}.self_attn.{name}_proj" for name in "qkv"),
    output="layers.{layer}.self_attn.o_proj", is_transposed=False,
)  # fmt: skip
LAYOUTS = {
    "bert": _ENCODER, "roberta": _ENCODER, "gpt2": _JOINT,
    "llama": _ROTARY, "mistral": _ROTARY, "qwen2": _ROTARY,
}  # fmt: skip
"""By model type."""
TABLES = {
    "tokens": ("wte.weight", "embeddings.word_embeddings.weight"),
    "positions": ("wpe.weight", "embeddings.position_embeddings.weight"),
}
"""Names of the embeddings in the weights, of all these types."""
TOKEN_TYPES = "embeddings.token_type_embeddings.weight"
"""Embeddings of token types, where a type has them."""
