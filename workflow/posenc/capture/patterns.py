"""Attention patterns under a condition, its mask included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.architectures import attention
from posenc.architectures.attention import Recording
from posenc.architectures.verify import mask_bias
from posenc.capture.branches import Branch, branch_of
from posenc.capture.capture import forward
from posenc.capture.interventions import applied
from posenc.capture.pair_scores import PairScores, pair_scores
from posenc.capture.parts import ConditionError, architecture
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def problem(condition: Condition) -> str | None:
    """Why patterns under a condition are not at hand, if they are not."""
    if condition.segments is not None:
        return f"it cuts documents into segments of {condition.segments} tokens"
    return None


@torch.inference_mode()
def patterns_under(
    model: PreTrainedModel,
    documents: list[list[int]],
    condition: Condition,
    masks: Mapping[str, LearnedMask],
    keep: Callable[[Tensor], Any] = lambda pattern: pattern,
) -> tuple[Tensor, list[Any]]:
    """Run documents of equal length under a condition, and see where the heads look.

    Patterns follow from the queries and keys that the library computes under the condition, and
    from its bias and factors: softmax(factor * scores + bias), times the factor on the pattern.

    Parameters
    ----------
    model
        A decoder from :func:`posenc.models.load.load`.
    documents
        Token ids, of equal length.
    condition
        One without a :func:`problem`.
    masks
        Learned masks by name.
    keep
        What is kept of a layer's patterns [documents, n_heads, tokens, tokens], which would take
        much memory together.

    Returns
    -------
    last
        Hidden states after the final norm, [documents, tokens, d_model].
    kept
        Of each layer, what ``keep`` returned.

    Raises
    ------
    ConditionError
        If patterns are not at hand, or the condition does not fit the model.
    """
    if reason := problem(condition):
        raise ConditionError(f"no attention patterns: {reason}")
    (tokens,) = {len(ids) for ids in documents}
    branch = branch_of(model, condition.mask, masks)
    scores = pair_scores(model, condition, masks) if condition.of_pairs else {}
    with applied(model, condition, masks, tokens):
        states, recording = forward(model, documents)
    kept = []
    for layer in range(branch.n_layers):
        of_layer = pattern_of(model, branch, layer, documents, recording, scores.get(layer))
        kept.append(keep(of_layer))
    return states[-1], kept


def pattern_of(
    model: PreTrainedModel,
    branch: Branch,
    layer: int,
    documents: list[list[int]],
    recording: Recording,
    scores: PairScores | None = None,
) -> Tensor:
    """The pattern of a layer, from what was recorded of documents of equal length.

    Queries and keys of the layer are taken out of the recording. ``scores`` gives their products
    where some pairs are turned differently.

    Returns
    -------
    float32 [documents, n_heads, tokens, tokens].

    Raises
    ------
    ConditionError
        If the model makes a mask of its own in the layer.
    """
    query, key = recording.queries.pop(layer), recording.keys.pop(layer)
    tokens, device = query.shape[2], query.device
    plain = mask_bias(architecture(model), layer, tokens, device)  # [tokens, tokens]
    if plain is None:
        raise ConditionError(f"layer {layer} of the model makes a mask of its own: no patterns")
    tensors, bias = {}, plain
    if branch.acts_on(layer):
        tensors = branch.tensors(layer, documents, tokens, device)
        bias = tensors["bias"]  # [documents, n_heads, tokens, tokens], or broadcast to it
        if (sees := architecture(model).layers[layer].sees(tokens)) is not None:
            bias = torch.where(sees.to(device), bias, -torch.inf)
    query, key = query.float(), key.float()
    # [documents, n_heads, tokens, tokens]
    products = query @ key.transpose(-1, -2) if scores is None else scores(query, key, documents)
    factors = tensors.get("score_factor"), tensors.get("pattern_factor")
    return attention.pattern(products, recording.options[layer], bias, *factors)
