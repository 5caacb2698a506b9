"""A classifier on a pretrained model: mean pooling and a linear head over its last layers, or all.

The mean over tokens treats all positions alike. An encoder without position embeddings commutes
with permutations of its tokens, f(πx) = π f(x), so its mean is the same for any order of them. A
causal decoder has no such identity: its mask tells positions even without embeddings or rotation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from posenc.artifacts.checkpoints import Checkpoint
from posenc.capture.parts import (
    architecture,
    blocks,
    body,
    is_decoder,
    is_rotary,
    position_embedding,
    rotary,
)
from posenc.config.optimization import Optimization
from posenc.experiments.fitting import Fitted, fit

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LABELS = 2
BATCH = 32
"""Documents that are encoded or classified together; a training has its own batches."""


class Encoder(nn.Module):
    """A pretrained encoder or decoder from one layer on, without its head.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`; its modules are shared, not copied.
    trained_layers
        The last layers only, which then take hidden states; None for the whole model, which takes
        token ids. All layers of a model, by number, still leave its embeddings out.

    Raises
    ------
    ValueError
        If the model has fewer layers.
    """

    def __init__(self, model: PreTrainedModel, trained_layers: int | None = None) -> None:
        super().__init__()
        layers = blocks(model)
        if trained_layers is not None and not 1 <= trained_layers <= len(layers):
            raise ValueError(f"trained_layers is {trained_layers}, but the model has {len(layers)}")
        self.is_causal = is_decoder(model)
        self.begin = 0 if trained_layers is None else len(layers) - trained_layers
        self.embeddings = embeddings(model) if trained_layers is None else None
        # It has no weights; a condition on the rotation acts on what it gives.
        self.rotation = rotary(model) if is_rotary(model) else None
        self.blocks = nn.ModuleList(layers[self.begin :])
        self.final_norm = final_norm(model)

    def states(self, x: Tensor, lengths: Tensor) -> Iterator[Tensor]:
        """Hidden states [batch, longest, d_model]: the input of each block, and the last.

        Parameters
        ----------
        x
            int64 [batch, longest] token ids, or [batch, longest, d_model] hidden states that go
            into the first block; padded on the right.
        lengths
            int64 [batch]: tokens of each document.
        """
        mask = None if self.is_causal else visible(lengths, x.shape[1])
        hidden = x if self.embeddings is None else self.embeddings(x)  # [batch, longest, d_model]
        turns = {}
        if self.rotation is not None:
            places = torch.arange(x.shape[1], device=x.device)[None]  # [1, longest]
            turns["position_embeddings"] = self.rotation(hidden, position_ids=places)
        for block in self.blocks:
            yield hidden
            # A decoder's documents see no padding: it lies in their future.
            hidden = block(hidden, attention_mask=mask, **turns)  # [batch, longest, d_model]
        yield self.final_norm(hidden)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The last hidden states, [batch, longest, d_model]; arguments as :meth:`states`."""
        for hidden in self.states(x, lengths):
            last = hidden
        return last


def final_norm(model: PreTrainedModel) -> nn.Module:
    """What follows a decoder's last block; an encoder's blocks end with their own."""
    if not is_decoder(model):
        return nn.Identity()
    return body(model).get_submodule("norm" if is_rotary(model) else "ln_f")


def embeddings(model: PreTrainedModel) -> nn.Module:
    """What makes the first hidden states of token ids, int64 [batch, longest]."""
    if is_rotary(model):
        return model.get_input_embeddings()
    return (
        DecoderEmbeddings(body(model)) if is_decoder(model) else model.get_submodule("embeddings")
    )


class DecoderEmbeddings(nn.Module):
    """Token and position embeddings of a GPT-2, added."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.tokens, self.positions = body.get_submodule("wte"), body.get_submodule("wpe")

    def forward(self, ids: Tensor) -> Tensor:
        """[batch, longest, d_model] of token ids, int64 [batch, longest]."""
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))


class Classifier(nn.Module):
    """Logits W m + b of the mean m of an encoder's last hidden states.

    Without dropout, also in training mode: the few steps of a fine-tuning need none, and the mean
    over reordered tokens is the same in training as well.

    Parameters
    ----------
    encoder
        What comes before the head.
    d_model
        Width of its hidden states.
    seed
        Of the head's initial weights, normal with standard deviation 0.02 as in BERT (Devlin et
        al., 2019).
    """

    def __init__(self, encoder: Encoder, d_model: int, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(d_model, LABELS)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.head.weight, std=0.02, generator=generator)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Logits, float32 [batch, 2]; arguments as :meth:`Encoder.states`."""
        pooled = mean_pooled(self.encoder(x, lengths), lengths)  # [batch, d_model]
        return self.head(pooled).float()

    def train(self, mode: bool = True) -> Classifier:
        """Training mode of all but the encoder, whose dropout stays off."""
        super().train(mode)
        self.encoder.eval()
        return self


def visible(lengths: Tensor, longest: int) -> Tensor | None:
    """Which keys are tokens, bool [batch, 1, longest, longest]; None without padding."""
    if int(lengths.min()) == longest:
        return None
    kept = torch.arange(longest, device=lengths.device) < lengths[:, None]  # [batch, longest]
    return kept[:, None, None, :].expand(-1, 1, longest, -1)


def mean_pooled(hidden: Tensor, lengths: Tensor) -> Tensor:
    """Mean over the tokens of each document, padding left out, float32 [batch, d_model].

    Parameters
    ----------
    hidden
        [batch, longest, d_model].
    lengths
        int64 [batch].
    """
    kept = torch.arange(hidden.shape[1], device=lengths.device) < lengths[:, None]
    total = (hidden.float() * kept[:, :, None]).sum(dim=1)  # [batch, d_model]
    return total / lengths[:, None]


def batch_of(documents: Sequence[Tensor], filler: int, device: str) -> tuple[Tensor, Tensor]:
    """Documents as rows of one length, padded on the right.

    Parameters
    ----------
    documents
        int64 [tokens] ids each, or [tokens, d_model] hidden states each.
    filler
        What padding is filled with: the model's own padding token.
    device
        Where they go.

    Returns
    -------
    x
        [batch, longest] or [batch, longest, d_model].
    lengths
        int64 [batch].
    """
    lengths = torch.tensor([len(document) for document in documents])  # [batch]
    x = pad_sequence(list(documents), batch_first=True, padding_value=filler)
    return x.to(device), lengths.to(device)


def in_batches(
    documents: Sequence[Tensor],
    filler: int,
    device: str,
    work: Callable[[Tensor, Tensor], Sequence[Tensor]],
) -> list[list[Tensor]]:
    """Compute something of each document, in batches of nearly the same length.

    Parameters
    ----------
    documents
        As for :func:`batch_of`.
    filler, device
        As for :func:`batch_of`.
    work
        ``work(x, lengths)`` gives tensors with one row per document: [batch, ...], or
        [batch, longest, ...] by token, of which padding is cut off.

    Returns
    -------
    list of lists
        For each document, in the order of the documents, its part of each tensor.
    """
    order = np.argsort([len(document) for document in documents], kind="stable")  # [documents]
    outputs: list[list[Tensor]] = [[] for _ in documents]
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        x, lengths = batch_of([documents[row] for row in rows], filler, device)
        tensors = work(x, lengths)
        for place, row in enumerate(rows):
            length = len(documents[row])
            # Tensors by token have an axis more than those by document.
            outputs[row] = [
                (tensor[place, :length] if tensor.dim() > 2 else tensor[place]).clone()
                for tensor in tensors
            ]
    return outputs


def padding_token(model: PreTrainedModel) -> int:
    """What a model's token ids are padded with."""
    return architecture(model).filler


def freeze_positions(model: PreTrainedModel) -> None:
    """Let training leave the position embeddings as a condition made them; rotation has none."""
    if not is_rotary(model):
        position_embedding(model).weight.requires_grad_(False)


def encode(
    model: PreTrainedModel, documents: Sequence[NDArray[np.int64]], trained_layers: int | None
) -> tuple[NDArray[np.float32], list[Tensor]]:
    """What a model makes of documents before any training.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, under a condition.
    documents
        Token ids of each.
    trained_layers
        As for :class:`Encoder`.

    Returns
    -------
    pooled
        [documents, d_model]: means of the last hidden states.
    inputs
        What an encoder of the trained layers takes, on the CPU: token ids [tokens], or hidden
        states [tokens, d_model] float32.
    """
    encoder, device = Encoder(model), str(model.device)
    below = None if trained_layers is None else Encoder(model, trained_layers).begin

    def work(x: Tensor, lengths: Tensor) -> list[Tensor]:
        states = list(encoder.states(x, lengths))  # n_layers + 1 x [batch, longest, d_model]
        inputs = [] if below is None else [states[below].float().cpu()]
        bar.update(len(x))
        return [mean_pooled(states[-1], lengths).cpu(), *inputs]

    ids = [torch.from_numpy(document) for document in documents]
    with (
        torch.no_grad(),
        tqdm(total=len(ids), unit="document", desc="encode", mininterval=5) as bar,
    ):
        outputs = in_batches(ids, padding_token(model), device, work)
    pooled = np.stack([output[0].numpy() for output in outputs])  # [documents, d_model]
    return pooled, ids if below is None else [output[1] for output in outputs]


def logits(network: Classifier, inputs: Sequence[Tensor], filler: int, device: str) -> Tensor:
    """Logits of documents, float32 [documents, 2]; inputs as :func:`encode` gives them."""
    outputs = in_batches(inputs, filler, device, lambda x, lengths: [network(x, lengths)])
    return torch.stack([row[0] for row in outputs])


def fine_tune(
    network: Classifier,
    training: tuple[Sequence[Tensor], NDArray[np.bool_]],
    validation: tuple[Sequence[Tensor], NDArray[np.bool_]],
    filler: int,
    optimization: Optimization,
    seed: int,
    checkpoint: Checkpoint,
    device: str,
    report: Callable[[int, float], None],
) -> Fitted:
    """Minimise the cross-entropy; the weights of the lowest validation loss are kept.

    Parameters
    ----------
    network
        On the device; changed in place.
    training, validation
        Inputs as :func:`encode` gives them, and labels, bool [documents].
    filler
        As for :func:`batch_of`.
    optimization, seed, checkpoint, device, report
        As for :func:`posenc.experiments.fitting.fit`.
    """
    targets, held_out = (
        torch.from_numpy(labels.astype(np.int64)).to(device) for _, labels in (training, validation)
    )  # [documents] each

    def loss(rows: NDArray[np.int64]) -> Tensor:
        x, lengths = batch_of([training[0][row] for row in rows], filler, device)
        return cross_entropy(network(x, lengths), targets[torch.from_numpy(rows)])

    def validate() -> float:
        return float(cross_entropy(logits(network, validation[0], filler, device), held_out))

    return fit(
        network, loss, len(training[0]), validate, optimization, seed, checkpoint, device, report
    )
