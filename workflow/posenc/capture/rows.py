"""Documents in one row, each attending to itself alone, or each in a row of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from posenc.architectures import attention
from posenc.architectures.architecture import quiet
from posenc.architectures.needs import Need
from posenc.architectures.position import Table
from posenc.artifacts.files import ArtifactError
from posenc.capture.masked_attention import of_documents, packed
from posenc.capture.parts import architecture
from posenc.tokens.packing import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def check_ids(model: PreTrainedModel, ids: Tensor) -> None:  # ids [...]
    """Refuse tokens that a model has no embedding of."""
    rows = architecture(model).vocabulary_size
    if ids.numel() and int(ids.max()) >= rows:
        raise ArtifactError(
            f"a document has the token {int(ids.max())}, but the model's embeddings have {rows} "
            f"rows: its tokenizer is another model's"
        )


def output_of(model: PreTrainedModel, documents: list[list[int]], **options):
    """The library's output for documents in one row, or for each alone where the two differ."""
    arch = architecture(model)
    longest = max(map(len, documents))
    if arch.can.get(Need.PACKED) is not None or arch.turns_by_length(longest):
        return _one_by_one(model, documents, **options)
    return packed_row(model, documents, **options)


def packed_row(model: PreTrainedModel, documents: list[list[int]], **options):
    """The library's output for documents in one row."""
    arch = architecture(model)
    device = next(model.parameters()).device
    lengths = [len(ids) for ids in documents]
    ids = torch.tensor([token for document in documents for token in document])  # [tokens]
    check_ids(model, ids)
    ids = ids.to(device)
    places = torch.from_numpy(positions_of(lengths)).to(device)[None]  # [1, tokens]
    is_placed: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if isinstance(arch.position, Table):
        rows = np.concatenate([arch.position.rows(document) for document in documents])  # [tokens]
        places = torch.from_numpy(rows).to(device)[None]  # [1, tokens]
        if not arch.row["position_ids"]:
            is_placed = arch.position.placed(places[0])
        places = places - arch.position.shift
    if arch.row["position_ids"]:
        options["position_ids"] = places
    if arch.row["token_type_ids"]:
        options["token_type_ids"] = torch.zeros_like(places)
    arch.begin()
    with packed(model, documents), is_placed:
        return arch.body(ids[None], **quiet(arch.body, **options))


def _one_by_one(model: PreTrainedModel, documents: list[list[int]], **options):
    """What :func:`packed_row` would give, from documents run one after the other."""
    arch, device = architecture(model), next(model.parameters()).device
    outputs, recordings, outer = [], [], attention.active()
    for document in documents:
        arch.begin()
        ids = torch.tensor([document], device=device)  # [1, tokens]
        keeps = outer is not None and outer.values is not None
        with attention.recording(keeps) as recording, of_documents([document]):
            outputs.append(arch.body(ids, **quiet(arch.body, **options)))
        recordings.append(recording)
    if outer is not None:
        for layer in sorted(recordings[0].queries):
            query, key = (
                torch.cat([getattr(record, name)[layer] for record in recordings], dim=2)
                for name in ("queries", "keys")
            )  # [1, n_heads, tokens, d_head] each
            value = torch.empty(0)
            if outer.values is not None:
                value = torch.cat([(record.values or {})[layer] for record in recordings], dim=2)
            outer.keep(layer, query, key, value, recordings[0].options[layer])
    joined = outputs[0]
    joined.last_hidden_state = torch.cat([output.last_hidden_state for output in outputs], dim=1)
    if options.get("output_hidden_states"):
        layers = zip(*(output.hidden_states for output in outputs), strict=True)
        joined.hidden_states = tuple(torch.cat(states, dim=1) for states in layers)
    return joined
