"""What is known about one loaded model; the rest of the package asks here."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from posenc.architectures import attention
from posenc.architectures.classes import depends_on_length, positions_of
from posenc.architectures.needs import Need
from posenc.architectures.position import NoPosition, Rotation, Table, replaced

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LINEAR, OWN = "linear", "own"
"""Heads: a product with the output embedding, or more than that."""
Position = Table | Rotation | NoPosition


@dataclass(frozen=True)
class Layer:
    """The attention of a layer.

    Attributes
    ----------
    module
        The library's module.
    mask
        The library's mask function; None where the model makes a mask of its own.
    query_scale
        What queries are multiplied by between their map and the attention, once it is proved.
    """

    module: nn.Module
    n_heads: int
    n_key_value_heads: int
    d_head: int
    d_value: int
    scaling: float
    softcap: float | None
    has_sinks: bool
    has_bias: bool
    mask: Callable | None
    query_scale: float = 1.0

    @property
    def is_causal(self) -> bool:
        """Whether a query sees no later key."""
        return self.mask is not None and not bool(_seen(self.mask, [0], [1]))

    @property
    def is_blind(self) -> bool:
        """Whether a query does not see its own key."""
        return self.mask is not None and not bool(_seen(self.mask, [0], [0]))

    def sees_all(self, tokens: int) -> bool:
        """Whether each query of a document sees all keys, or all up to its own."""
        if self.mask is None or self.mask in (causal_mask_function, bidirectional_mask_function):
            return True
        last = _seen(self.mask, [tokens - 1], range(tokens))
        return bool(last.all()) and (
            self.is_causal or bool(_seen(self.mask, [0], range(tokens)).all())
        )

    def sees(self, tokens: int) -> Tensor | None:
        """Which keys a query of a document sees, bool [tokens, tokens].

        None where it sees all, or all up to its own if the layer is causal.
        """
        if self.mask is None or self.sees_all(tokens):
            return None
        return _window(self.mask, tokens)


def _seen(mask: Callable, queries: Sequence[int], keys: Sequence[int]) -> Tensor:
    """Bool [queries, keys] of the first document and head."""
    first = torch.zeros(1, 1, dtype=torch.long)
    rows, columns = torch.tensor(list(queries))[:, None], torch.tensor(list(keys))[None]
    return mask(first, first, rows, columns).expand(len(queries), len(keys))


@functools.lru_cache(maxsize=64)
def _window(mask: Callable, tokens: int) -> Tensor:
    return _seen(mask, range(tokens), range(tokens))


@dataclass(frozen=True)
class Handle:
    """Where a tensor [batch, tokens, d_model] passes: a module takes it first, or gives it."""

    module: nn.Module
    is_output: bool

    @contextlib.contextmanager
    def changed(self, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Change the tensor on its way, during a block."""
        if self.is_output:
            hook = self.module.register_forward_hook(lambda _, given, output: change(output))
        else:
            hook = self.module.register_forward_pre_hook(
                lambda _, given: (change(given[0]), *given[1:])
            )
        try:
            yield
        finally:
            hook.remove()


@dataclass(eq=False)
class Architecture:
    """What was found out about one loaded model; the rest of the package asks it alone.

    Attributes
    ----------
    model, body
        The model, and the part of it that gives hidden states, without a language-model head.
    model_type
        As its configuration says.
    causal
        Whether no token sees a later one.
    layers
        Attention of each layer.
    blocks
        In order; empty where no list of them could be found.
    embeddings
        Where the summed input embeddings pass, before a normalisation of them.
    stream
        Where the input of the first block passes.
    position
        With everything that a condition may change.
    head
        :data:`LINEAR`, :data:`OWN`, or None for a model that gives no logits.
    row
        How documents are given in one row: names of what the body is given beside their ids.
    can
        By need: None where it is verified, else why it is not there.
    """

    model: PreTrainedModel
    body: nn.Module
    model_type: str
    causal: bool
    layers: list[Layer]
    blocks: Sequence[nn.Module]
    embeddings: Handle | None
    stream: Handle | None
    position: Position
    d_model: int
    head: str | None
    row: dict[str, bool] = field(default_factory=dict)
    can: dict[Need, str | None] = field(default_factory=dict)

    @property
    def n_layers(self) -> int:
        """Layers of attention."""
        return len(self.layers)

    @property
    def n_heads(self) -> int:
        """Query heads of a layer; of the first, where layers differ."""
        return self.layers[0].n_heads

    @property
    def d_head(self) -> int:
        """Features of a query; of the first layer, where layers differ."""
        return self.layers[0].d_head

    @property
    def is_even(self) -> bool:
        """Whether all layers have as many heads of as many features."""
        return len({(layer.n_heads, layer.d_head) for layer in self.layers}) == 1

    @property
    def input_embedding(self) -> nn.Embedding:
        """The module that token ids are looked up in, or a class of the model's own like it."""
        return cast(nn.Embedding, self.model.get_input_embeddings())

    @property
    def vocabulary_size(self) -> int:
        """Rows of the input embeddings."""
        return self.input_embedding.weight.shape[0]

    @property
    def filler(self) -> int:
        """What rows of token ids are padded with."""
        token = getattr(self.model.config.get_text_config(decoder=True), "pad_token_id", None)
        return 0 if token is None else token

    @property
    def positions(self) -> int | None:
        """Tokens that its table has rows for, or its rotation is made for; None for no limit."""
        return getattr(self.position, "positions", None) or positions_of(self.model.config)

    def turns_by_length(self, tokens: int) -> bool:
        """Whether the rotation of a text this long is another one than that of shorter texts."""
        return (
            isinstance(self.position, Rotation)
            and tokens > self.position.positions > 0
            and depends_on_length(self.model.config)
        )

    @property
    def has_losses(self) -> bool:
        """Whether it is a causal language model with its head."""
        return self.causal and self.head is not None

    def window(self, tokens: int) -> list[int]:
        """Layers in which a query of a document this long does not see all that it could."""
        return [
            number for number, layer in enumerate(self.layers) if layer.sees(tokens) is not None
        ]

    def unlike_queries_and_keys(self, tokens: int) -> str | None:
        """Why attention is not softmax(q·k / √d_head) over all keys, or all up to the query's.

        None if it is, so that it follows from recorded queries and keys.

        Parameters
        ----------
        tokens
            Of the longest document.
        """
        for number, layer in enumerate(self.layers):
            if not math.isclose(layer.scaling, layer.d_head**-0.5, rel_tol=1e-6):
                return f"scores of layer {number} are not scaled by 1 / √d_head"
            if layer.softcap or layer.has_sinks or layer.has_bias:
                return f"scores of layer {number} are capped, or have sinks or biases"
            if layer.mask is None:
                return f"layer {number} makes a mask of its own"
            if not layer.sees_all(tokens):
                return f"queries of layer {number} do not see all keys"
        return None

    def lacks(self, *needs: Need) -> str | None:
        """Why the first need that is not met is not there; None where all are verified."""
        for need in needs:
            if (reason := self.can.get(need)) is not None:
                return f"{need}: {reason}"
        return None

    def note(self, can: Mapping[str, str | None]) -> None:
        """Take over what was verified of the same weights before."""
        self.can = {Need(need): reason for need, reason in can.items() if need in set(Need)}

    def takes(self, name: str) -> bool:
        """Whether the body can be given something by that name."""
        return takes(self.body, name)

    def begin(self) -> None:
        """Say that a forward pass begins, which nothing of the passes before may change."""
        attention.count_from_first(layer.module for layer in self.layers)
        if isinstance(self.position, Rotation):
            self.position.begin()

    @contextlib.contextmanager
    def removed(self) -> Iterator[None]:
        """Take position away during a block, whichever way it enters."""
        change = getattr(self.position, "removed", contextlib.nullcontext)
        with change():
            yield

    def logits(self, last: Tensor) -> Tensor:  # last [tokens, d_model]
        """What the model's own head makes of hidden states after the final norm.

        Returns
        -------
        [tokens, vocabulary].
        """
        given = torch.zeros(1, 1, dtype=torch.long, device=last.device)

        def forward(*_: Any, **__: Any) -> Any:
            return _Given(BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=last[None]))

        with replaced(self.body, forward):
            return self.model(given, return_dict=True, use_cache=False).logits[0]

    def output_weight(self) -> Tensor:
        """The output embedding, [vocabulary, d_model]."""
        return self.model.get_output_embeddings().weight


class _Given:
    """An output of a body; what it does not have is None, as where it was not asked for."""

    def __init__(self, output: Any) -> None:
        self._output = output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name, None)

    def __getitem__(self, key: Any) -> Any:
        return self._output[key]


def takes(module: nn.Module, name: str) -> bool:
    """Whether a module's forward pass has an argument of that name."""
    return name in inspect.signature(module.forward).parameters


def quiet(module: nn.Module, **options: object) -> dict[str, object]:
    """Options of a forward pass that keeps nothing, as far as the module takes them."""
    options = {"use_cache": False, "return_dict": True, **options}
    parameters = inspect.signature(module.forward).parameters
    takes_all = any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    return {name: value for name, value in options.items() if takes_all or name in parameters}
