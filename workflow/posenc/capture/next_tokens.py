"""Log-probabilities of some tokens as the next one, at the last places of documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.capture.evaluation import last_states_under
from posenc.capture.losses import logits_of
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition
from posenc.tokens.packing import Pack

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ROWS = 64
"""Places whose logits, one for each token of the vocabulary, are in memory together."""


def next_logs_under(
    model: PreTrainedModel,
    documents: list[list[int]],
    candidates: Sequence[NDArray[np.int64]] | None,
    places: int,
    conditions: Mapping[str, Condition],
    masks: Mapping[str, LearnedMask],
    batch_tokens: int,
    progress: Any = None,
) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
    """What a decoder expects after the last tokens of documents, under conditions.

    Parameters
    ----------
    model, documents, conditions, masks, batch_tokens, progress
        As :func:`posenc.capture.evaluation.evaluate`.
    candidates
        Of each document the token ids that are asked about, int [candidates]; None for all.
    places
        How many of a document's last tokens are looked at; each document has as many.

    Yields
    ------
    Name of a condition, index of a document, and float32 [places, candidates]: the log-probability
    in nats of each candidate after each of the last tokens, the document's last one last.
    """

    def keep(state: Tensor, pack: Pack) -> list[NDArray[np.float32]]:
        return _next_logs(model, state, pack, candidates, places)

    return last_states_under(model, documents, conditions, masks, batch_tokens, keep, progress)


@torch.inference_mode()
def _next_logs(
    model: PreTrainedModel,
    state: Tensor,  # [tokens, d_model], after the final norm
    pack: Pack,
    candidates: Sequence[NDArray[np.int64]] | None,
    places: int,
) -> list[NDArray[np.float32]]:
    """Of each document of a pack, [places, candidates]."""
    of_documents: list[NDArray[np.float32]] = []
    spans = list(pack.spans)
    at_once = max(1, _ROWS // places)
    for begin in range(0, len(spans), at_once):
        part = spans[begin : begin + at_once]
        rows = torch.cat([state[span][-places:] for _, span in part])  # [rows, d_model]
        logs = logits_of(model, rows).float().log_softmax(dim=-1)  # [rows, vocabulary]
        for (document, _), own in zip(part, logs.split(places), strict=True):
            if candidates is not None:
                own = own[:, torch.from_numpy(candidates[document]).to(own.device)]
            of_documents.append(own.cpu().numpy())
    return of_documents
