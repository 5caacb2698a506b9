"""Capture: one pass over the tokens gives hidden states, queries, keys and losses.

Documents are grouped into shards in their order, and within a shard run from short to long in
batches that are padded on the right. Padding is masked (encoders) or lies in the future
(decoders), so it never changes a document's values, and it is never stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from . import attention, interventions
from .config.activations import Activations
from .files import ArtifactError

_TORCH_DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class Shape:
    """Sizes of a model that a store needs."""

    n_layers: int
    n_heads: int
    d_model: int
    vocabulary_size: int

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @classmethod
    def of(cls, model: nn.Module) -> Shape:
        """Read the sizes off a model's configuration."""
        config = model.config
        return cls(
            n_layers=config.num_hidden_layers,
            n_heads=config.num_attention_heads,
            d_model=config.hidden_size,
            vocabulary_size=config.vocab_size,
        )

    def as_json(self) -> dict[str, int]:
        """What the index of a store says of the model."""
        return dataclasses.asdict(self)

    def bytes_per_token(self, parameters: Activations) -> int:
        """Bytes that a token takes on disk."""
        width = {"float16": 2, "float32": 4}[parameters.dtype]
        vectors = {
            "hidden_states": self.n_layers + 1,
            "queries": self.n_layers,
            "keys": self.n_layers,
        }
        return width * self.d_model * sum(vectors[name] for name in parameters.quantities)


def batches_of(lengths: np.ndarray, documents: range, batch_tokens: int) -> Iterator[list[int]]:
    """Group a shard's documents, from short to long, so that padded batches keep to a budget."""
    batch: list[int] = []
    for document in sorted(documents, key=lambda index: (lengths[index], index)):
        if batch and (len(batch) + 1) * int(lengths[document]) > batch_tokens:
            yield batch
            batch = []
        batch.append(document)
    if batch:
        yield batch


def allocate(shape: Shape, tokens: int, parameters: Activations) -> dict[str, np.ndarray]:
    """Empty arrays of one shard: layer, then head, then token, then feature."""
    dtype = np.dtype(parameters.dtype)
    sizes = {
        "hidden_states": (shape.n_layers + 1, tokens, shape.d_model),
        "queries": (shape.n_layers, shape.n_heads, tokens, shape.d_head),
        "keys": (shape.n_layers, shape.n_heads, tokens, shape.d_head),
    }
    return {name: np.empty(sizes[name], dtype) for name in parameters.quantities}


def pad(model: nn.Module, documents: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Documents as rows of one length, padded on the right, on the model's device.

    Returns
    -------
    input_ids
        int64 [batch, longest].
    mask
        int64 [batch, longest]: 1 for a document's tokens, 0 for padding.
    """
    device = next(model.parameters()).device
    longest = max(len(ids) for ids in documents)
    filler = model.config.pad_token_id if model.config.pad_token_id is not None else 0
    input_ids = torch.full((len(documents), longest), filler)  # [batch, longest]
    mask = torch.zeros(len(documents), longest, dtype=torch.long)  # [batch, longest]
    for row, ids in enumerate(documents):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    return input_ids.to(device), mask.to(device)


@torch.inference_mode()
def forward(
    model: nn.Module,
    documents: list[list[int]],
    is_decoder: bool,
) -> tuple[tuple[Tensor, ...], attention.Recording]:
    """Run a batch of documents.

    Parameters
    ----------
    model
        From :func:`posenc.models.load`, under a condition or not.
    documents
        Token ids of each document.

    Returns
    -------
    hidden_states
        n_layers + 1 tensors [batch, longest, d_model]; 0 is the embedding output, l the input of
        block l, the last comes after the final norm.
    recording
        Queries and keys, each [batch, n_heads, longest, d_head].
    """
    input_ids, mask = pad(model, documents)  # [batch, longest] each
    options = {} if is_decoder or bool(mask.all()) else {"attention_mask": mask}
    body = model.transformer if is_decoder else model
    if is_decoder:
        options["use_cache"] = False
    lengths = [len(ids) for ids in documents]
    with attention.recording() as recording, interventions.documents_of(lengths):
        output = body(input_ids, output_hidden_states=True, **options)
    return output.hidden_states, recording


@torch.inference_mode()
def token_losses(
    model: nn.Module,
    hidden: Tensor,  # [tokens, d_model], after the final norm
    targets: Tensor,  # [tokens]
    chunk: int = 1024,
) -> Tensor:
    """Negative log-likelihood in nats of the token that each hidden state predicts, [tokens].

    The logits are made for ``chunk`` tokens at a time, never for a whole batch.
    """
    losses = [
        functional.cross_entropy(
            model.lm_head(hidden[begin : begin + chunk]).float(),  # [chunk, vocabulary]
            targets[begin : begin + chunk],  # [chunk]
            reduction="none",
        )
        for begin in range(0, len(targets), chunk)
    ]
    return torch.cat(losses) if losses else hidden.new_zeros(0)


def capture_shard(
    model: nn.Module,
    tokens: list[list[int]],
    documents: range,
    parameters: Activations,
    is_decoder: bool,
    progress=None,
) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Capture one shard.

    Parameters
    ----------
    tokens
        Token ids of every document of the data set.
    documents
        Those of this shard.
    parameters
        Quantities, storage type and batch budget.
    progress
        Object with ``update(tokens)``.

    Returns
    -------
    arrays
        See :func:`allocate`.
    losses
        For a decoder, float32 [tokens - 1] for each document in order; else empty.

    Raises
    ------
    ArtifactError
        If a value does not fit the storage type.
    """
    shape = Shape.of(model)
    lengths = np.array([len(ids) for ids in tokens])
    starts = dict(
        zip(documents, np.concatenate([[0], np.cumsum(lengths[documents])])[:-1], strict=True)
    )
    arrays = allocate(shape, int(lengths[documents].sum()), parameters)
    losses: dict[int, np.ndarray] = {}
    for batch in batches_of(lengths, documents, parameters.batch_tokens):
        hidden_states, recording = forward(model, [tokens[d] for d in batch], is_decoder)
        by_layer = {
            "hidden_states": dict(enumerate(hidden_states)),
            "queries": recording.queries,
            "keys": recording.keys,
        }
        for name, array in arrays.items():
            for layer, values in by_layer[name].items():
                host = values.to(_TORCH_DTYPES[parameters.dtype]).cpu().numpy()
                for row, document in enumerate(batch):
                    begin, length = starts[document], lengths[document]
                    # The token axis is the last but one in both layouts.
                    array[layer][..., begin : begin + length, :] = host[row][..., :length, :]
        if is_decoder:
            for row, document in enumerate(batch):
                ids = torch.tensor(tokens[document], device=hidden_states[-1].device)
                nll = token_losses(model, hidden_states[-1][row, : len(ids) - 1], ids[1:])
                losses[document] = nll.cpu().numpy()
        if progress is not None:
            progress.update(int(lengths[batch].sum()))
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ArtifactError(
                f"{name} do not fit {parameters.dtype}: set activations.dtype to float32"
            )
    return arrays, [losses[document] for document in documents] if is_decoder else []
