"""Many conditions in few forward passes: losses and similarity to the intact model, no activations.

Conditions that differ in their mask alone share one pass: rows part from the trunk at the first
layer that differs. The intact model runs once per batch, for all of them. Of each document, what is
kept is the loss of each token and, by layer, the sum of its tokens' cosines with the intact model.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from posenc.architectures.needs import Need
from posenc.capture.branches import Branch, branch_of
from posenc.capture.capture import document_losses, packed_last, packed_states
from posenc.capture.interventions import applied, check_condition, common_part, embedded
from posenc.capture.masked_attention import Batch, attending, embedding_factors
from posenc.capture.parts import architecture, blocks, is_decoder
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition
from posenc.models.devices import tokens_at_once
from posenc.tokens.packing import Pack, packs_of, windows_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

INTACT = Condition()
STATES_BYTES = 2**29
"""What the hidden states of all layers would take, of the tokens of one forward pass: a large model
takes fewer tokens."""
Keep = Callable[[int, Tensor], Any]


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
    model: PreTrainedModel,
    documents: list[list[int]],
    conditions: Sequence[Condition],
    masks: Mapping[str, LearnedMask],
    keep: Keep = lambda layer, state: state,
) -> list[list[Any]]:
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
    keep
        What is kept of a hidden state, given its layer (0 for the embeddings) and the state
        [tokens, d_model], documents one after the other. It is called as soon as there is one: the
        states of all layers and conditions need not be in memory together.

    Returns
    -------
    For each condition, n_layers + 1 times what ``keep`` returned.
    """
    if architecture(model).lacks(Need.BLOCKS, Need.PACKED):
        return [_alone(model, documents, c, masks, keep) for c in conditions]
    for condition in conditions:
        check_condition(model, condition, masks)
    lengths = [len(ids) for ids in documents]
    branches = [branch_of(model, condition.mask, masks) for condition in conditions]
    trunk = branch_of(model, None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(embedded(model, common_part(conditions[0]), masks, max(lengths)))
        batch = Batch([trunk])
        if any(branch.mask is not None for branch in branches):
            stack.enter_context(attending(model, batch))
        tree = _Tree(trunk, branches, batch, keep)
        for layer, block in enumerate(blocks(model)):
            stack.callback(block.register_forward_pre_hook(tree.hook(layer)).remove)
        return tree.finish(packed_last(model, documents))


def _alone(
    model: PreTrainedModel,
    documents: list[list[int]],
    condition: Condition,
    masks: Mapping[str, LearnedMask],
    keep: Keep,
) -> list[Any]:
    """As :func:`stacked_states`, under one condition, for a model whose blocks are not known."""
    whole = condition.model_copy(update={"segments": None, "stride": None})
    with applied(model, whole, masks, max(map(len, documents))):
        states = packed_states(model, documents)
    return [keep(layer, state[0]) for layer, state in enumerate(states)]


class _Tree:
    """What is kept of the states of a trunk and of the branches that part from it, by layer."""

    def __init__(self, trunk: Branch, branches: list[Branch], batch: Batch, keep: Keep) -> None:
        self.trunk, self.branches, self.batch, self.keep = trunk, branches, batch, keep
        self.kept: dict[int, list[Any]] = {id(node): [] for node in [trunk, *branches]}
        # From here on nothing needs the trunk; a branch that acts on no layer needs all of it.
        self.parted = max((branch.start for branch in branches), default=trunk.n_layers)

    def hook(self, layer: int):
        """What runs before a block: it looks at its input, and lets branches part."""

        def before(module: nn.Module, arguments: tuple) -> tuple:
            x = arguments[0]  # [branches, tokens, d_model]
            self._look(layer, x)
            parts = list(x.split(1))
            starting = [branch for branch in self.branches if branch.start == layer]
            if not starting:
                return arguments
            own = parts[0]  # the trunk's, [1, tokens, d_model]
            for branch in starting:
                *earlier, now = self.kept[id(self.trunk)]
                part = own
                if branch.mask is not None and branch.mask.semantics == "emb_mul":
                    part = own * embedding_factors(branch, own)
                    now = self.keep(layer, part[0])
                self.kept[id(branch)] = [*earlier, now]
                parts.append(part)
                self.batch.branches.append(branch)
            if layer == self.parted:
                del parts[0], self.batch.branches[0]
            return (torch.cat(parts), *arguments[1:])

        return before

    def _look(self, layer: int, x: Tensor) -> None:  # x [branches, tokens, d_model]
        for branch, state in zip(self.batch.branches, x, strict=True):
            self.kept[id(branch)].append(self.keep(layer, state))

    def finish(self, last: Tensor) -> list[list[Any]]:
        """Of each branch, once the last states are known, after the final norm."""
        self._look(self.trunk.n_layers, last)
        # A branch that acts on no layer is the trunk.
        return [
            self.kept[id(branch if branch.start < branch.n_layers else self.trunk)]
            for branch in self.branches
        ]


def states_under(
    model: PreTrainedModel,
    documents: list[list[int]],
    conditions: Sequence[Condition],
    masks: Mapping[str, LearnedMask],
    keep: Keep = lambda layer, state: state,
) -> list[list[Any]]:
    """As :func:`stacked_states`, with documents cut into segments where the conditions say so.

    Equal segments are run once: with segments of one token, one row per distinct token.
    """
    size, stride = conditions[0].segments, conditions[0].stride
    if size is None:
        return stacked_states(model, documents, conditions, masks, keep)
    cuts = [
        (tuple(ids[begin:end]), first - begin)
        for ids in documents
        for begin, first, end in windows_of(len(ids), size, stride or size)
    ]
    distinct = sorted({cut for cut, _ in cuts}, key=len)
    place = {cut: row for row, cut in enumerate(distinct)}
    starts = np.cumsum([0, *map(len, distinct)])  # of the distinct segments
    rows = torch.from_numpy(
        np.concatenate([starts[place[cut]] + np.arange(skip, len(cut)) for cut, skip in cuts])
    )  # [tokens]
    return stacked_states(
        model, [list(cut) for cut in distinct], conditions, masks,
        lambda layer, state: keep(layer, state[rows.to(state.device)]),
    )  # fmt: skip


@torch.inference_mode()
def cosine_sums(
    ours: Tensor,  # [tokens, d_model]
    theirs: Tensor,  # the same shape
    counted: Tensor,  # bool [tokens]
    lengths: list[int],
) -> NDArray[np.float64]:
    """Sum over a document's tokens of the cosine of two hidden states, [documents]."""
    cosine = functional.cosine_similarity(ours.float(), theirs.float(), dim=-1)  # [tokens]
    kept = torch.where(counted, cosine, 0.0).double()  # [tokens]
    return torch.stack([part.sum() for part in kept.split(lengths)]).cpu().numpy()


def groups_of(conditions: Mapping[str, Condition]) -> list[list[str]]:
    """Names of conditions that share a forward pass, in order of appearance."""
    groups: dict[str, list[str]] = {}
    for name, condition in conditions.items():
        groups.setdefault(common_part(condition).model_dump_json(), []).append(name)
    return list(groups.values())


def _packs(
    model: PreTrainedModel,
    documents: list[list[int]],
    conditions: Mapping[str, Condition],
    groups: list[list[str]],
    batch_tokens: int,
) -> Iterator[tuple[Pack, list[list[int]]]]:
    """Documents of each forward pass, and their token ids."""
    arch = architecture(model)
    room = STATES_BYTES // (4 * arch.d_model * (arch.n_layers + 1))
    most = max((len(names) * conditions[names[0]].runs_per_token for names in groups), default=1)
    budget = max(1, tokens_at_once(model, min(batch_tokens, room)) // most)
    lengths = np.array([len(ids) for ids in documents])
    # Neighbours of equal length share calls, and a mask is made once for each length.
    order = sorted(range(len(documents)), key=lambda index: (lengths[index], index))
    for pack in packs_of(lengths, order, budget):
        yield pack, [documents[index] for index in pack.documents]


def last_states_under(
    model: PreTrainedModel,
    documents: list[list[int]],
    conditions: Mapping[str, Condition],
    masks: Mapping[str, LearnedMask],
    batch_tokens: int,
    keep: Callable[[Tensor, Pack], Sequence[Any]],
    progress=None,
) -> Iterator[tuple[str, int, Any]]:
    """Look at the last hidden states of documents under conditions, and at no others.

    Parameters
    ----------
    model, documents, conditions, masks, batch_tokens, progress
        As :func:`evaluate`.
    keep
        What is kept of each document of a pack, given their last hidden states [tokens, d_model]
        and the pack.

    Yields
    ------
    Name of a condition, index of a document, and what was kept.
    """
    n_layers = architecture(model).n_layers
    groups = groups_of(conditions)
    for pack, ids in _packs(model, documents, conditions, groups, batch_tokens):

        def last(layer: int, state: Tensor, pack: Pack = pack) -> Sequence[Any] | None:
            return keep(state, pack) if layer == n_layers else None

        for names in groups:
            chosen = [conditions[name] for name in names]
            for name, layers in zip(
                names, states_under(model, ids, chosen, masks, last), strict=True
            ):
                yield from ((name, *pair) for pair in zip(pack.documents, layers[-1], strict=True))
            if progress is not None:
                progress.update(pack.tokens * len(names))


def losses_under(
    model: PreTrainedModel,
    documents: list[list[int]],
    conditions: Mapping[str, Condition],
    masks: Mapping[str, LearnedMask],
    batch_tokens: int,
    progress=None,
) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
    """Losses alone, without an intact model to compare with: see :func:`last_states_under`.

    Yields
    ------
    Name of a condition, index of a document, and float32 [tokens - 1]: negative log-likelihood of
    its tokens 1, 2, ... in nats.
    """

    def keep(state: Tensor, pack: Pack) -> list[NDArray[np.float32]]:
        return document_losses(model, state, [documents[index] for index in pack.documents])

    return last_states_under(model, documents, conditions, masks, batch_tokens, keep, progress)


def evaluate(
    model: PreTrainedModel,
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
        Tokens of one forward pass, all conditions of the pass included; a large model takes fewer,
        a GPU more.
    progress
        Object with ``update(tokens)``: tokens times conditions.

    Yields
    ------
    Name of a condition, and the outcome of a document under it.
    """
    groups = groups_of({n: c for n, c in conditions.items() if c != INTACT})
    n_layers = architecture(model).n_layers
    for pack, ids in _packs(model, documents, conditions, groups, batch_tokens):
        flags = [flag for index in pack.documents for flag in counted[index]]
        count = torch.tensor(flags, device=next(model.parameters()).device)  # [tokens]
        intact = states_under(model, ids, [INTACT], {})[0]

        def compared(layer, state, intact=intact, ids=ids, count=count, lengths=pack.lengths):
            losses = [np.empty(0, np.float32)] * len(ids)
            if layer == n_layers and is_decoder(model):
                losses = document_losses(model, state, ids)
            return cosine_sums(state, intact[layer], count, lengths), losses

        results = {
            name: [compared(layer, state) for layer, state in enumerate(intact)]
            for name, condition in conditions.items()
            if condition == INTACT
        }
        for names in groups:
            chosen = [conditions[name] for name in names]
            results.update(
                zip(names, states_under(model, ids, chosen, masks, compared), strict=True)
            )
        for name, layers in results.items():
            cosines = np.stack([sums for sums, _ in layers], axis=1)  # [documents, n_layers + 1]
            losses = layers[-1][1]
            for row, index in enumerate(pack.documents):
                yield name, Outcome(index, losses[row], cosines[row])
        if progress is not None:
            progress.update(pack.tokens * len(conditions))
