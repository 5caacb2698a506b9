"""Many conditions in few forward passes: losses and similarity to the intact model, no activations.

Conditions that differ in their mask alone share one pass: rows part from the trunk at the first
layer that differs. The intact model runs once per batch, for all of them. Of each document, what is
kept is the loss of each token and, by layer, the sum of its tokens' cosines with the intact model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from posenc.capture.branches import Branch, branch_of
from posenc.capture.capture import document_losses, packed_states
from posenc.capture.interventions import common_part, embedded
from posenc.capture.masked_attention import Batch, attending, embedding_factors
from posenc.capture.parts import blocks, is_decoder
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition
from posenc.tokens.packing import packs_of

INTACT = Condition()
STATES_BYTES = 2**29
"""What the hidden states of one forward pass may take: all of its conditions' and layers' are kept
until it ends."""


@dataclass(frozen=True)
class Outcome:
    """A document under a condition.

    Attributes
    ----------
    document
        Its index.
    nll
        float32 [tokens - 1]: negative log-likelihood of tokens 1, 2, ... in nats; empty for an
        encoder.
    cosine
        float64 [n_layers + 1]: sum over its tokens of the cosine with the intact hidden state.
    """

    document: int
    nll: NDArray[np.float32]
    cosine: NDArray[np.float64]


@torch.inference_mode()
def stacked_states(
    model: nn.Module,
    documents: list[list[int]],
    conditions: Sequence[Condition],
    masks: Mapping[str, LearnedMask],
) -> list[list[Tensor]]:
    """Hidden states under conditions that differ in their mask alone, in one forward pass.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids.
    conditions
        All with the same :func:`posenc.capture.interventions.common_part`; segments are not looked
        at.
    masks
        Learned masks by name.

    Returns
    -------
    For each condition, n_layers + 1 tensors [tokens, d_model]: documents one after the other.
    """
    lengths = [len(ids) for ids in documents]
    branches = [branch_of(model, condition.mask, masks) for condition in conditions]
    with embedded(model, common_part(conditions[0]), masks, max(lengths)):
        if all(branch.mask is None for branch in branches):
            states = [state[0] for state in packed_states(model, documents)]
            return [states for _ in branches]
        trunk = branch_of(model, None)
        with attending(model, Batch([trunk])) as batch:
            stack = _Stack(trunk, branches, batch)
            hooks = [
                block.register_forward_pre_hook(stack.hook(layer))
                for layer, block in enumerate(blocks(model))
            ]
            try:
                output = packed_states(model, documents)
            finally:
                for hook in hooks:
                    hook.remove()
            return stack.finish(output[-1])


class _Stack:
    """The hidden states of a trunk and of the branches that part from it, layer after layer."""

    def __init__(self, trunk: Branch, branches: list[Branch], batch: Batch) -> None:
        self.trunk, self.branches, self.batch = trunk, branches, batch
        self.states: dict[int, list[Tensor]] = {id(one): [] for one in [trunk, *branches]}

    def hook(self, layer: int):
        """What runs before a block: it records its input, and lets branches part."""

        def before(module: nn.Module, arguments: tuple) -> tuple:
            x = arguments[0]  # [branches, tokens, d_model]
            parts = list(x.split(1))
            for branch, part in zip(self.batch.branches, parts, strict=True):
                self.states[id(branch)].append(part)
            starting = [branch for branch in self.branches if branch.start == layer]
            if not starting:
                return arguments
            own = parts[0]  # the trunk's, [1, tokens, d_model]
            for branch in starting:
                is_scaled = branch.mask.semantics == "emb_mul"
                part = own * embedding_factors(branch, own) if is_scaled else own
                self.states[id(branch)] = [*self.states[id(self.trunk)][:-1], part]
                parts.append(part)
                self.batch.branches.append(branch)
            return (torch.cat(parts), *arguments[1:])

        return before

    def finish(self, last: Tensor) -> list[list[Tensor]]:
        """All states of each branch, once the last ones are known, after the final norm."""
        for branch, part in zip(self.batch.branches, last.split(1), strict=True):
            self.states[id(branch)].append(part)
        # A branch that acts on no layer is the trunk.
        return [
            [
                x[0]
                for x in self.states[id(branch if branch.start < branch.n_layers else self.trunk)]
            ]
            for branch in self.branches
        ]


def states_under(
    model: nn.Module,
    documents: list[list[int]],
    conditions: Sequence[Condition],
    masks: Mapping[str, LearnedMask],
) -> list[list[Tensor]]:
    """As :func:`stacked_states`, with documents cut into segments where the conditions say so.

    Equal segments are run once: with segments of one token, one row per distinct token.
    """
    size = conditions[0].segments
    if size is None:
        return stacked_states(model, documents, conditions, masks)
    cuts = [[tuple(ids[i : i + size]) for i in range(0, len(ids), size)] for ids in documents]
    distinct = sorted({cut for document in cuts for cut in document}, key=len)
    place = {cut: row for row, cut in enumerate(distinct)}
    run = stacked_states(model, [list(cut) for cut in distinct], conditions, masks)
    starts = np.cumsum([0, *map(len, distinct)])  # of the distinct segments
    rows = np.concatenate(
        [starts[place[cut]] + np.arange(len(cut)) for document in cuts for cut in document]
    )  # [tokens]
    rows = torch.from_numpy(rows).to(run[0][0].device)
    return [[state[rows] for state in states] for states in run]


@torch.inference_mode()
def cosine_sums(
    states: list[Tensor],  # n_layers + 1 tensors [tokens, d_model]
    intact: list[Tensor],  # the same shapes
    counted: Tensor,  # bool [tokens]
    lengths: list[int],
) -> NDArray[np.float64]:
    """Sum over a document's tokens of the cosine of the two states, [documents, n_layers + 1]."""
    sums = []
    for ours, theirs in zip(states, intact, strict=True):
        cosine = functional.cosine_similarity(ours.float(), theirs.float(), dim=-1)  # [tokens]
        kept = torch.where(counted, cosine, 0.0).double()  # [tokens]
        sums.append(torch.stack([part.sum() for part in kept.split(lengths)]))
    return torch.stack(sums, dim=1).cpu().numpy()


def groups_of(conditions: Mapping[str, Condition]) -> list[list[str]]:
    """Names of conditions that share a forward pass, in order of appearance."""
    groups: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        groups.setdefault(common_part(condition).model_dump_json(), []).append(name)
    return list(groups.values())


def _each(
    model: nn.Module,
    documents: list[list[int]],
    conditions: Mapping[str, Condition],
    groups: list[list[str]],
    masks: Mapping[str, LearnedMask],
    intact: list[Tensor],
) -> Iterator[tuple[str, list[Tensor]]]:
    """Hidden states under each condition; those of the intact model are there already."""
    for name, condition in conditions.items():
        if condition == INTACT:
            yield name, intact
    for names in groups:
        some = [conditions[name] for name in names]
        yield from zip(names, states_under(model, documents, some, masks), strict=True)


def evaluate(
    model: nn.Module,
    documents: list[list[int]],
    counted: list[list[bool]],
    conditions: Mapping[str, Condition],
    masks: Mapping[str, LearnedMask],
    batch_tokens: int,
    progress=None,
) -> Iterator[tuple[str, Outcome]]:
    """Evaluate documents under conditions.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`.
    documents
        Token ids of each document.
    counted
        Which tokens of each document count for the cosine.
    conditions
        By name. The intact model runs in any case, and gives no outcome unless it is one of them.
    masks
        Learned masks by name.
    batch_tokens
        Tokens of one forward pass, all conditions of the pass included; a large model takes fewer.
    progress
        Object with ``update(tokens)``: tokens times conditions.

    Yields
    ------
    Name of a condition, and the outcome of a document under it.
    """
    groups = groups_of({n: one for n, one in conditions.items() if one != INTACT})
    config = model.config
    room = STATES_BYTES // (4 * config.hidden_size * (config.num_hidden_layers + 1))
    budget = max(1, min(batch_tokens, room) // max(map(len, groups), default=1))
    lengths = np.array([len(ids) for ids in documents])
    # Neighbours of equal length share calls, and a mask is made once for each length.
    order = sorted(range(len(documents)), key=lambda index: (lengths[index], index))
    for pack in packs_of(lengths, order, budget):
        ids = [documents[index] for index in pack.documents]
        flags = [flag for index in pack.documents for flag in counted[index]]
        keep = torch.tensor(flags, device=next(model.parameters()).device)  # [tokens]
        intact = states_under(model, ids, [INTACT], {})[0]
        for name, states in _each(model, ids, conditions, groups, masks, intact):
            cosines = cosine_sums(states, intact, keep, pack.lengths)
            none = [np.empty(0, np.float32)] * len(ids)
            losses = document_losses(model, states[-1], ids) if is_decoder(model) else none
            for row, index in enumerate(pack.documents):
                yield name, Outcome(index, losses[row], cosines[row])
        if progress is not None:
            progress.update(pack.tokens * len(conditions))
