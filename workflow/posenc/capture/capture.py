"""Capture: one pass over the tokens gives hidden states, queries, keys and losses.

Documents are packed, one after the other, in rows of a token budget: nothing is padded. What is
computed goes straight into a buffer of the storage type, and is written while the next is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from posenc.architectures import attention
from posenc.architectures.architecture import quiet
from posenc.artifacts.activations import Sizes
from posenc.artifacts.files import ArtifactError
from posenc.capture.losses import losses_of
from posenc.capture.masked_attention import of_documents
from posenc.capture.parts import ConditionError, architecture, blocks, is_decoder
from posenc.capture.rows import check_ids, output_of
from posenc.capture.section import Activations
from posenc.models.devices import wait_for
from posenc.tokens.packing import Pack, positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TORCH_DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class Shape:
    """Sizes of a model that a store needs."""

    n_layers: int
    n_heads: int
    d_model: int
    vocabulary_size: int
    width: int | None = None
    """Features of a head, where they are not those of ``d_model`` shared out."""

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads if self.width is None else self.width

    @classmethod
    def of(cls, model: PreTrainedModel) -> Shape:
        """The sizes of a model.

        Raises
        ------
        ConditionError
            If its layers have heads of different sizes.
        """
        arch = architecture(model)
        if not arch.is_even:
            raise ConditionError(
                f"the layers of {arch.model_type} have heads of different sizes: capture its "
                f"hidden_states alone (activations.quantities)"
            )
        is_shared_out = arch.d_head * arch.n_heads == arch.d_model
        return cls(
            n_layers=arch.n_layers,
            n_heads=arch.n_heads,
            d_model=arch.d_model,
            vocabulary_size=arch.vocabulary_size,
            width=None if is_shared_out else arch.d_head,
        )

    def as_json(self) -> Sizes:
        """What the index of a store says about the model."""
        sizes: Sizes = {
            "n_layers": self.n_layers,
            "n_heads": self.n_heads,
            "d_model": self.d_model,
            "vocabulary_size": self.vocabulary_size,
        }
        return sizes if self.width is None else {**sizes, "width": self.width}

    def sizes(self, tokens: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the activations of so many tokens: layer, then head, token, feature."""
        by_head = (self.n_layers, self.n_heads, tokens, self.d_head)
        return {
            "hidden_states": (self.n_layers + 1, tokens, self.d_model),
            "queries": by_head,
            "keys": by_head,
        }


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


def pad(model: PreTrainedModel, documents: list[list[int]]) -> tuple[Tensor, Tensor]:
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
    filler = architecture(model).filler
    input_ids = torch.full((len(documents), longest), filler)  # [batch, longest]
    mask = torch.zeros(len(documents), longest, dtype=torch.long)  # [batch, longest]
    for row, ids in enumerate(documents):
        input_ids[row, : len(ids)] = torch.tensor(ids)
        mask[row, : len(ids)] = 1
    check_ids(model, input_ids)
    return input_ids.to(device), mask.to(device)


@torch.inference_mode()
def forward(
    model: PreTrainedModel,
    documents: list[list[int]],
) -> tuple[tuple[Tensor, ...], attention.Recording]:
    """Run a batch of documents.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
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
    arch = architecture(model)
    options = {} if arch.causal or bool(mask.all()) else {"attention_mask": mask}
    arch.begin()
    with attention.recording() as recording, of_documents(documents):
        output = arch.body(input_ids, **quiet(arch.body, output_hidden_states=True), **options)
    return output.hidden_states, recording


@torch.inference_mode()
def packed_states(model: PreTrainedModel, documents: list[list[int]]) -> tuple[Tensor, ...]:
    """Hidden states of documents that are run in one row, each attending to itself alone.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
    documents
        Token ids of each document.

    Returns
    -------
    n_layers + 1 tensors [branches, tokens, d_model], as those of :func:`forward`; there is one
    branch but for :mod:`posenc.capture.evaluation`.
    """
    return output_of(model, documents, output_hidden_states=True).hidden_states


def packed_last(model: PreTrainedModel, documents: list[list[int]]) -> Tensor:
    """The last of :func:`packed_states`, [branches, tokens, d_model]; no other is kept."""
    return output_of(model, documents).last_hidden_state


def last_from(
    model: PreTrainedModel, documents: list[list[int]], start: int, state: Tensor
) -> Tensor:
    """What :func:`packed_last` gives, from what a block is given; the blocks below are not run.

    Parameters
    ----------
    model, documents
        As there.
    start
        Number of the block.
    state
        [tokens, d_model], documents in one row: of :func:`packed_states`, or a change of it.

    Returns
    -------
    [tokens, d_model].
    """
    whole = blocks(model)
    holder, name = next(
        (module, name)
        for module in model.modules()
        for name, child in module.named_children()
        if child is whole
    )
    hook = whole[start].register_forward_pre_hook(
        lambda _, arguments: (state[None], *arguments[1:])
    )
    setattr(holder, name, whole[start:])
    try:
        return packed_last(model, documents)[0]
    finally:
        hook.remove()
        setattr(holder, name, whole)


class _Into(dict):
    """Queries or keys of a pass, written to a buffer as soon as they are there."""

    def __init__(self, buffer: Tensor) -> None:  # [n_layers, n_heads, tokens, d_head]
        super().__init__()
        self.buffer = buffer

    def __setitem__(self, layer: int, value: Tensor) -> None:  # [1, n_heads, tokens, d_head]
        self.buffer[layer].copy_(value[0], non_blocking=True)


@dataclass
class Buffer:
    """Room for the activations of one pack, in the type that is stored.

    Parameters
    ----------
    shape
        Of the model.
    tokens
        Tokens of the longest pack.
    parameters
        Quantities and storage type.
    is_pinned
        Whether a GPU writes to it: its pages stay where they are, so that the GPU copies by itself
        while the program goes on.
    """

    shape: Shape
    tokens: int
    parameters: Activations
    is_pinned: bool = False

    def __post_init__(self) -> None:
        dtype = _TORCH_DTYPES[self.parameters.dtype]
        sizes = self.shape.sizes(self.tokens)
        self.arrays = {
            name: torch.empty(math.prod(sizes[name]), dtype=dtype, pin_memory=self.is_pinned)
            for name in self.parameters.quantities
        }

    def fill(
        self, model: PreTrainedModel, documents: list[list[int]]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Run a pack.

        Returns
        -------
        arrays
            Views of this buffer: ``hidden_states`` [n_layers + 1, tokens, d_model]; ``queries``
            and ``keys`` [n_layers, n_heads, tokens, d_head].
        last
            Hidden states after the final norm, [tokens, d_model], as they were computed.
        """
        sizes = self.shape.sizes(sum(map(len, documents)))
        # In one piece, as a copy from a GPU has to be.
        views: dict[str, Tensor] = {
            name: array[: math.prod(sizes[name])].view(sizes[name])
            for name, array in self.arrays.items()
        }
        with attention.recording() as recording:
            for name in ("queries", "keys"):
                setattr(recording, name, _Into(views[name]) if name in views else _Nowhere())
            states = packed_states(model, documents)
        for view, state in zip(views.get("hidden_states", ()), states, strict=False):
            view.copy_(state[0], non_blocking=True)
        wait_for(states[-1].device)
        return views, states[-1][0]


class _Nowhere(dict):
    """Queries or keys that are not kept."""

    def __setitem__(self, layer: int, value: Tensor) -> None:
        pass


def overflows(array: NDArray[np.floating]) -> bool:  # [layers, ...]
    """Whether a value is infinite or not a number."""
    if array.dtype != np.float16:
        return not np.isfinite(array).all()
    # NumPy would convert half precision value by value. What is not finite has all bits of the
    # exponent set. Layer by layer: what is made of one stays in the processor's cache.
    return any(bool(((layer.view(np.uint16) & 0x7C00) == 0x7C00).any()) for layer in array)


def capture(
    model: PreTrainedModel,
    tokens: list[list[int]],
    packs: Sequence[Pack],
    parameters: Activations,
    write: Callable[[Pack, dict[str, NDArray]], None],
    progress=None,
) -> dict[int, np.ndarray]:
    """Capture packs of documents; what is computed is written while the next pack is computed.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition or not.
    tokens
        Token ids of every document of the data set.
    packs
        Documents of each forward pass.
    parameters
        Quantities and storage type.
    write
        Receives a pack and its activations, in a thread of its own; the arrays hold them until it
        returns.
    progress
        Object with ``update(tokens)``.

    Returns
    -------
    For a decoder, by document: float32 [tokens - 1], nats; empty for an encoder.

    Raises
    ------
    ArtifactError
        If a value does not fit the storage type, or is not finite.
    """
    causal = is_decoder(model)
    losses: dict[int, NDArray[np.float32]] = {}
    longest = max((pack.tokens for pack in packs), default=0)
    is_on_gpu = next(model.parameters()).device.type == "cuda"
    buffers = [Buffer(Shape.of(model), longest, parameters, is_on_gpu) for _ in range(2)]
    writing: Future | None = None

    # NumPy, not PyTorch: it would start threads of its own beside those of the model.
    def check_and_write(pack: Pack, arrays: dict[str, NDArray]) -> None:
        for name, array in arrays.items():
            if overflows(array):
                if parameters.dtype == "float32":
                    raise ArtifactError(
                        f"{name} are not finite, though the weights are: see what the condition "
                        f"does to them"
                    )
                raise ArtifactError(
                    f"{name} do not fit {parameters.dtype}: set activations.dtype to float32"
                )
        write(pack, arrays)

    with ThreadPoolExecutor(1) as writer:
        for number, pack in enumerate(packs):
            documents = [tokens[document] for document in pack.documents]
            arrays, last = buffers[number % 2].fill(model, documents)
            if causal:
                nll = document_losses(model, last, documents)
                losses.update(zip(pack.documents, nll, strict=True))
            if writing is not None:
                writing.result()  # the other buffer is free again, and errors come to light
            ready = {name: array.numpy() for name, array in arrays.items()}
            writing = writer.submit(check_and_write, pack, ready)
            if progress is not None:
                progress.update(pack.tokens)
        if writing is not None:
            writing.result()
    return losses


@torch.inference_mode()
def document_losses(
    model: PreTrainedModel,
    last: Tensor,  # [tokens, d_model], after the final norm
    documents: list[list[int]],
) -> list[np.ndarray]:
    """Losses of tokens 1, 2, ... of packed documents, float32 [tokens - 1] each, in nats."""
    lengths = [len(ids) for ids in documents]
    ids = torch.tensor([token for document in documents for token in document])  # [tokens]
    is_first = torch.from_numpy(positions_of(lengths) == 0)  # [tokens]
    scored = torch.nonzero(~is_first)[:, 0]  # [scored tokens]
    targets = ids[scored].to(last.device)  # [scored tokens]
    # A token is predicted from the one before it.
    previous = last[(scored - 1).to(last.device)]  # [scored tokens, d_model]
    losses = losses_of(model, previous, targets).cpu().numpy()
    return np.split(losses, np.cumsum([length - 1 for length in lengths])[:-1])
