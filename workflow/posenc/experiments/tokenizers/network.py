"""The language model over tokens of any kind, and what it makes of segments of text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from posenc.experiments.tokenizers.kinds import Tokens
from posenc.experiments.tokenizers.section import TokenizersTraining
from posenc.metrics.tokenizers import code_length

IGNORED = -100
"""Target of a position that only fills a batch up."""
EVALUATED = 32
"""Segments of one forward pass without gradients."""


def language_model(parameters: TokenizersTraining, vocabulary: int, seed: int) -> GPT2LMHeadModel:
    """GPT-2's architecture; all but the embeddings of tokens is the same for all tokenizers.

    Parameters
    ----------
    parameters
        Sizes.
    vocabulary
        Tokens.
    seed
        Of the first weights.
    """
    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary,
            # A segment has at most a token a byte, its text's end, and the bytes of a character
            # that begins with its last byte.
            n_positions=parameters.context_bytes + 4,
            n_embd=parameters.d_model,
            n_layer=parameters.n_layers,
            n_head=parameters.n_heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
    )


def nll(network: nn.Module, tokens: Tokens, rows: Sequence[int], device: str) -> tuple[Tensor, int]:
    """Summed negative log-likelihood of some segments in nats, and how many tokens they have.

    Each segment is predicted from its own tokens and the one token before it, so that what is
    seen of the text before is the same number of bytes for all tokenizers.

    Parameters
    ----------
    network
        From :func:`language_model`.
    tokens
        Segments of texts.
    rows
        Which of them.
    device
        The network's.
    """
    segments = [tokens.segments[row] for row in rows]
    count = sum(map(len, segments))
    width = max(1, *map(len, segments))
    ids = torch.full((len(segments), width + 1), IGNORED)  # [rows, width + 1]
    for place, (row, segment) in enumerate(zip(rows, segments, strict=True)):
        ids[place, 0] = tokens.contexts[row]
        ids[place, 1 : len(segment) + 1] = torch.from_numpy(segment)
    ids = ids.to(device)
    # What fills up stands at the end, where a causal model's other positions do not see it.
    logits = network(ids[:, :-1].clamp(min=0)).logits  # [rows, width, vocabulary]
    targets = ids[:, 1:].flatten()  # [rows * width]
    loss = cross_entropy(
        logits.flatten(0, 1).float(), targets, ignore_index=IGNORED, reduction="sum"
    )
    return loss, count


def summed_nll(network: nn.Module, tokens: Tokens, device: str, batch: int = EVALUATED) -> float:
    """Negative log-likelihood of all segments in nats, so many segments at a time."""
    with torch.inference_mode():
        starts = range(0, len(tokens.segments), batch)
        parts = [range(start, min(start + batch, len(tokens.segments))) for start in starts]
        return sum(float(nll(network, tokens, part, device)[0]) for part in parts)


def bits_per_byte(
    network: nn.Module, tokens: Tokens, utf8_bytes: int, device: str
) -> dict[str, float]:
    """What texts cost over their bytes: :func:`posenc.metrics.tokenizers.code_length`."""
    return code_length(summed_nll(network, tokens, device), tokens.unknown_bytes, utf8_bytes)
