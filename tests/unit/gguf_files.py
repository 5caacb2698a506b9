"""Tiny GGUF files, written with the format's own package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from gguf.quants import quantize
from tokenizers import Tokenizer

from posenc.tokens.tokenize import train_bpe

SIZES = {"layers": 2, "heads": 4, "key_value_heads": 2, "width": 64, "inner": 96}
TEXTS = ["low lower lowest 12 3\n\n8 films,  they're", "日本語の文 🙂 naïve café", "\t a b  c\n"]


def small_tokenizer() -> Tokenizer:
    """A byte-level encoding in which a cut of digits and white space makes a difference."""
    return train_bpe(TEXTS * 9, 420)


def permuted(rows: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows as llama.cpp's conversion orders them: alternating between the two halves of a head."""
    d_head = len(rows) // n_heads
    order = [
        head * d_head + half * (d_head // 2) + c
        for head in range(n_heads)
        for c in range(d_head // 2)
        for half in (0, 1)
    ]
    return rows[order]


def random_weights(vocabulary: int, biases: bool = False, tied: bool = True) -> dict:
    """Float32 tensors by the library's names."""
    random, width = np.random.default_rng(0), SIZES["width"]
    d_head = width // SIZES["heads"]
    shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,)}
    if not tied:
        shapes["lm_head.weight"] = (vocabulary, width)
    for layer in range(SIZES["layers"]):
        stem = f"model.layers.{layer}"
        for name, heads in (("q", "heads"), ("k", "key_value_heads"), ("v", "key_value_heads")):
            shapes[f"{stem}.self_attn.{name}_proj.weight"] = (SIZES[heads] * d_head, width)
            if biases:
                shapes[f"{stem}.self_attn.{name}_proj.bias"] = (SIZES[heads] * d_head,)
        shapes[f"{stem}.self_attn.o_proj.weight"] = (width, width)
        if biases:
            shapes[f"{stem}.self_attn.o_proj.bias"] = (width,)
        for name in ("gate", "up"):
            shapes[f"{stem}.mlp.{name}_proj.weight"] = (SIZES["inner"], width)
        shapes[f"{stem}.mlp.down_proj.weight"] = (width, SIZES["inner"])
        for name in ("input", "post_attention"):
            shapes[f"{stem}.{name}_layernorm.weight"] = (width,)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}  # fmt: skip


def file_name(name: str) -> str:
    """What llama.cpp calls a tensor of the library."""
    for ours, theirs in NAMES.items():
        name = name.replace(f"{ours}.", f"{theirs}.")
    return name.replace("model.layers.", "blk.")


def write_gguf(
    path: Path,
    weights: dict,
    kind: Type = Type.F32,
    architecture: str = "llama",
    pre: str = "smollm",
    model: str = "gpt2",
    changes=lambda writer: None,
) -> Path:
    """A file of these weights: matrices as ``kind``, vectors float32 as in published files.

    ``changes`` may add to the writer.
    """
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(SIZES["layers"])
    writer.add_context_length(128)
    writer.add_embedding_length(SIZES["width"])
    writer.add_feed_forward_length(SIZES["inner"])
    writer.add_head_count(SIZES["heads"])
    writer.add_head_count_kv(SIZES["key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(50_000.0)
    encoding = json.loads(small_tokenizer().to_str())["model"]
    tokens = sorted(encoding["vocab"], key=encoding["vocab"].get)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in encoding["merges"]])
    writer.add_bos_token_id(0)
    for name, values in weights.items():
        for part, heads in (("q_proj", "heads"), ("k_proj", "key_value_heads")):
            if f".{part}." in name:
                values = permuted(values, SIZES[heads])
        matrix = Type.F32 if values.ndim == 1 else kind
        writer.add_tensor(file_name(name), quantize(values, matrix), raw_dtype=matrix)
    changes(writer)
    finish(writer)
    return path


def finish(writer) -> None:
    """Write all that a file was given, and close it."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
