"""Attention patterns under a condition, its mask included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc.capture.branches import branch_of
from posenc.capture.capture import forward
from posenc.capture.content import scores_of
from posenc.capture.interventions import applied
from posenc.capture.parts import ConditionError, is_decoder
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition


def problem(condition: Condition) -> str | None:
    """Why patterns under a condition are not at hand, if they are not."""
    if condition.of_pairs:
        return "it turns the keys of some pairs only"
    if condition.segments is not None:
        return f"it cuts documents into segments of {condition.segments} tokens"
    return None


@torch.inference_mode()
def patterns_under(
    model: nn.Module,
    documents: list[list[int]],
    condition: Condition,
    masks: Mapping[str, LearnedMask],
    keep: Callable[[Tensor], Any] = lambda pattern: pattern,
) -> tuple[Tensor, list[Any]]:
    """Run documents of equal length under a condition, and know where its heads look.

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
    with applied(model, condition, masks, tokens):
        states, recording = forward(model, documents, is_decoder(model))
    future = torch.full((tokens, tokens), -torch.inf).triu_(1)  # [tokens, tokens]
    kept = []
    for layer in range(branch.n_layers):
        # [documents, n_heads, tokens, tokens]
        scores = scores_of(recording.queries.pop(layer), recording.keys.pop(layer)).float()
        made: dict[str, Tensor | None] = {"bias": future.to(scores.device)}
        if branch.acts_on(layer):
            made = branch.tensors(layer, documents, tokens, scores.device)
        if (factor := made.get("score_factor")) is not None:
            scores *= factor
        pattern = (scores + made["bias"]).softmax(dim=-1)  # [documents, n_heads, tokens, tokens]
        if (factor := made.get("pattern_factor")) is not None:
            pattern *= factor
        kept.append(keep(pattern))
    return states[-1], kept
