"""Training a GPT-2-architecture decoder: seeded, resumable, with a loss curve.

A plain PyTorch loop rather than a trainer library: the order of the sequences is a function of
the seed and the step alone, so a training that was killed goes on from its checkpoint with the
very batches that it would have seen.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from posenc.artifacts.checkpoints import FILE, Checkpoint, to_stderr
from posenc.config.optimization import Optimization
from posenc.models.section import TrainSource

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TrainingError(RuntimeError):
    """A model cannot be trained from what there is."""

    is_user_error = True


def build(source: TrainSource, vocabulary_size: int, end_of_text: int) -> PreTrainedModel:
    """A freshly initialised decoder, determined by the seed.

    Parameters
    ----------
    source
        Sizes and seed.
    vocabulary_size
        Tokens of its tokenizer.
    end_of_text
        Id of the token that begins every document.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    from posenc.models.affine import for_training
    from posenc.models.schemes import prepare

    torch.manual_seed(source.seed)
    config = GPT2Config(
        vocab_size=vocabulary_size,
        n_positions=source.n_positions,
        n_embd=source.d_model,
        n_layer=source.n_layers,
        n_head=source.n_heads,
        # Without dropout no random state has to survive a checkpoint.
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=end_of_text,
        eos_token_id=end_of_text,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    prepare(model, source.positions)
    return for_training(model)


def sequences(
    documents: list[list[int]],
    n_positions: int,
    begin: Literal["anywhere", "documents"] = "anywhere",
) -> Tensor:
    """Join documents, each with its end-of-text token first, and cut into sequences.

    Parameters
    ----------
    documents
        Token ids.
    n_positions
        Length of a sequence; what is left over at the end is dropped.
    begin
        Where a sequence begins: where the one before it ends, or with a document. Then the rest of
        the document that did not fit is dropped.

    Returns
    -------
    Tensor
        int64 [sequences, n_positions].

    Raises
    ------
    TrainingError
        If there are too few tokens for one sequence.
    """
    flat = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in documents])  # [tokens]
    if begin == "documents":
        starts, end = [], 0
        for start in np.cumsum([0, *map(len, documents[:-1])]).tolist():  # of each document
            if start >= end:
                starts.append(start)
                end = start + n_positions
    else:
        starts = list(range(0, len(flat), n_positions))
    rows = [flat[start : start + n_positions] for start in starts]
    whole = [row for row in rows if len(row) == n_positions]
    if not whole:
        raise TrainingError(
            f"{len(flat)} tokens do not fill one sequence of n_positions = {n_positions}: "
            f"take more documents, or a smaller n_positions"
        )
    return torch.from_numpy(np.stack(whole))  # [sequences, n_positions]


def batch_rows(step: int, batch: int, count: int, seed: int) -> np.ndarray:
    """Rows of the training sequences that a step learns from, int [batch].

    Every sequence comes once an epoch, in an order that depends on seed and epoch only.
    """
    wanted = np.arange(step * batch, (step + 1) * batch)  # [batch]
    rows = np.empty(batch, dtype=np.int64)
    for epoch in np.unique(wanted // count):
        order = _order(seed, int(epoch), count)  # [count]
        inside = wanted // count == epoch
        rows[inside] = order[wanted[inside] % count]
    return rows


@functools.lru_cache(maxsize=2)  # all steps of an epoch share it; a step can reach into the next
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    """In which order an epoch takes the training sequences, int64 [count]."""
    return np.random.default_rng([seed, epoch]).permutation(count)


def learning_rate(step: int, source: TrainSource | Optimization) -> float:
    """Linear warm-up, then a cosine to a tenth (Radford et al., 2018; Brown et al., 2020)."""
    if step < source.warmup_steps:
        return source.learning_rate * (step + 1) / source.warmup_steps
    share = (step - source.warmup_steps) / max(1, source.steps - source.warmup_steps)
    return source.learning_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * share)))


@contextlib.contextmanager
def progress(label: str, steps: int) -> Iterator[Callable[[int, float], None]]:
    """Show a bar during a block; its value is told of each step that is done, and of its loss."""
    with tqdm(total=steps, unit="step", desc=label, mininterval=5) as bar:

        def report(step: int, loss: float) -> None:
            bar.update(step - bar.n)
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)

        yield report


def mean_loss(model: PreTrainedModel, rows: Tensor, source: TrainSource, device: str) -> float:
    """Mean negative log-likelihood in nats over sequences, int64 [sequences, n_positions]."""
    model.eval()
    total, tokens = 0.0, 0
    with torch.inference_mode():
        for part in rows.split(source.batch_sequences):
            loss = _loss(model, part.to(device), source, device)
            total += float(loss) * part[:, 1:].numel()
            tokens += part[:, 1:].numel()
    model.train()
    return total / tokens


def _loss(model: PreTrainedModel, batch: Tensor, source: TrainSource, device: str) -> Tensor:
    with torch.autocast(device, torch.bfloat16, enabled=source.precision == "bfloat16"):
        logits = model(batch[:, :-1]).logits  # [batch, n_positions - 1, vocabulary]
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())


def optimizer_for(model: nn.Module, source: TrainSource | Optimization) -> torch.optim.Optimizer:
    """AdamW over what is not frozen, with weight decay on matrices only."""
    learned = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in learned if p.dim() >= 2]
    vectors = [p for p in learned if p.dim() < 2]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": source.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=source.learning_rate,
        betas=(0.9, 0.95),
        # One call for all parameters: a step of a small network is mostly calls.
        fused=all(p.device.type == "cpu" for p in learned) or None,
    )


class Row(TypedDict):
    """A row of a loss curve, losses in nats per token."""

    step: int
    tokens: int
    """That were learned from, repetitions included."""
    training_loss: float
    """Mean since the row before."""
    validation_loss: float


def train(
    model: PreTrainedModel,
    training: Tensor,  # [sequences, n_positions]
    validation: Tensor,  # [sequences, n_positions]
    source: TrainSource,
    folder: Path,
    identity: str,
    device: str = "cpu",
    report: Callable[[int, float], None] = lambda step, loss: None,
    say: Callable[[str], None] = to_stderr,
) -> list[Row]:
    """Train a decoder, going on from a checkpoint where ``folder`` holds one.

    Parameters
    ----------
    model
        From :func:`build`; changed in place.
    training, validation
        From :func:`sequences`.
    source
        Steps, learning rate, precision, ...
    folder
        Where the checkpoint is kept between tries.
    identity
        Digest of everything that determines the result; a checkpoint of another is discarded.
    device
        ``cpu`` or ``cuda``.
    report
        Called after every step with the number of steps done and the loss in nats.
    say
        Receives one line when a checkpoint is found.

    Returns
    -------
    list of Row
        The loss curve.
    """
    nn.Module.to(model, device).train()
    optimizer = optimizer_for(model, source)
    checkpoint = Checkpoint(folder / FILE, identity, say)
    step, recent, curve = _restore(checkpoint, model, optimizer)
    while step < source.steps:
        rows = batch_rows(step, source.batch_sequences, len(training), source.seed)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, source)
        loss = _loss(model, training[torch.from_numpy(rows)].to(device), source, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        recent.append(float(loss.detach()))
        report(step, recent[-1])
        if step % source.validate_steps == 0 or step == source.steps:
            curve.append(
                {
                    "step": step,
                    "tokens": step * source.batch_sequences * source.n_positions,
                    "training_loss": float(np.mean(recent)),
                    "validation_loss": mean_loss(model, validation, source, device),
                }
            )
            recent = []
        if step % source.checkpoint_steps == 0 and step < source.steps:
            checkpoint.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step,
                    "recent": recent,
                    "curve": curve,
                }
            )
    return curve


def _restore(
    checkpoint: Checkpoint, model: PreTrainedModel, optimizer: torch.optim.Optimizer
) -> tuple[int, list[float], list[Row]]:
    state = checkpoint.load()
    if state is None:
        return 0, [], []
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"], list(state["recent"]), list(state["curve"])
