"""The library's own small models with random weights, and its own losses."""

import numpy as np
import torch
import transformers
from torch import nn
from torch.nn import functional

SIZES = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}


def reference(family: str) -> transformers.PreTrainedModel:
    """The library's own model with random weights and eager attention."""
    torch.manual_seed(0)
    if family == "bert":
        config = transformers.BertConfig(
            vocab_size=97, intermediate_size=64, max_position_embeddings=40, **SIZES
        )
        model = transformers.BertModel(config, add_pooling_layer=False)
    elif family == "roberta":
        config = transformers.RobertaConfig(
            vocab_size=97, intermediate_size=64, max_position_embeddings=42, pad_token_id=1, **SIZES
        )
        model = transformers.RobertaModel(config, add_pooling_layer=False)
    else:
        config = transformers.GPT2Config(
            vocab_size=97, n_positions=40, n_layer=3, n_head=4, n_embd=32, bos_token_id=0
        )
        model = transformers.GPT2LMHeadModel(config)
    # The library initialises position embeddings small; here, position must matter.
    for name, weight in model.named_parameters():
        if "wpe" in name or "position_embeddings" in name:
            torch.nn.init.normal_(weight, std=0.5)
    model.set_attn_implementation("eager")
    return model.eval()


def library_losses(network: nn.Module, ids: np.ndarray) -> torch.Tensor:
    """Of tokens 1, 2, ..., by the library's own forward pass, [tokens - 1]."""
    tokens = torch.as_tensor(ids)
    with torch.inference_mode():
        logits = network(tokens[None], use_cache=False).logits[0]  # [tokens, vocabulary]
    return functional.cross_entropy(logits[:-1], tokens[1:], reduction="none")
