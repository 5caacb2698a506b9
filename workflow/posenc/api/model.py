"""A model that texts can be run through, and what its network consisted of when it was loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import nn

from posenc.architectures.architecture import Architecture
from posenc.architectures.discover import of
from posenc.architectures.verify import Verification
from posenc.models.section import Reading

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Structure(NamedTuple):
    """What a network consists of: with another, it is no longer the model that was looked at.

    Attributes
    ----------
    modules
        All of them, in order.
    parameters
        Name and type of each.
    outside
        Hooks, and whether its ``forward`` is its own or compiled, of each module outside the body,
        and of the body itself: its states are taken as it gives them, and losses without calling
        the others.
    causal
        What modules say of themselves: the library's eager attention does not ask them.
    configuration
        By which attention, masks and positions are what they are.
    """

    modules: tuple[nn.Module, ...]
    parameters: tuple[tuple[str, torch.dtype], ...]
    outside: tuple[tuple[int, bool, bool], ...]
    causal: tuple[bool | None, ...]
    configuration: str

    @classmethod
    def of(cls, network: PreTrainedModel) -> Structure:
        """That of a network now."""
        modules, body = tuple(network.modules()), of(network).body
        inside = {*body.modules()} - {body}
        return cls(
            modules,
            tuple((name, parameter.dtype) for name, parameter in network.named_parameters()),
            tuple(
                (
                    # What goes before the body acts on its states, too.
                    _hooks(m._forward_hooks) + (m is not body and _hooks(m._forward_pre_hooks)),
                    "forward" in m.__dict__,
                    m._compiled_call_impl is not None,
                )
                for m in modules
                if m not in inside
            ),
            tuple(getattr(module, "is_causal", None) for module in modules),
            network.config.to_json_string(use_diff=False),
        )

    def change(self, network: PreTrainedModel) -> str | None:
        """What is other in a network, if anything."""
        kinds = ("modules", "parameters", "hooks outside the part that gives hidden states",
                 "values of is_causal", "settings of the configuration")  # fmt: skip
        both = zip(kinds, self, Structure.of(network), strict=True)
        return next((kind for kind, own, other in both if own != other), None)


def _hooks(hooks: Mapping[int, Callable]) -> int:
    """How many there are, but for those by which a condition checks calls and acts."""
    return sum(not getattr(hook, "__module__", "").startswith("posenc.") for hook in hooks.values())


@dataclass(frozen=True, eq=False)
class Model:
    """A model that texts can be run through.

    Attributes
    ----------
    name
        What it was loaded by.
    network
        The library's own model in float32: a decoder with its language-model head, an encoder
        without its pooler.
    tokenizer
        Of the ``tokenizers`` library, without padding and truncation.
    reading
        Its family (the model type; ``llama`` for Mistral and Qwen2 too), whether it is a decoder,
        and where texts are cut (``max_tokens``, special tokens included).
    verification
        What was compared with the library's own run of it; None for a decoder that was trained
        here with a scheme of positions that the library does not have.
    structure
        What the network consists of.
    """

    name: str
    network: PreTrainedModel
    tokenizer: Tokenizer
    reading: Reading
    verification: Verification | None = None
    structure: Structure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "structure", Structure.of(self.network))

    @property
    def architecture(self) -> Architecture:
        """What was found out about the network."""
        return of(self.network)

    @property
    def is_decoder(self) -> bool:
        """Whether it is a causal language model, which has losses."""
        return self.architecture.has_losses

    @property
    def positions(self) -> int | None:
        """Tokens that its table, or its rotation, is made for; None for no limit."""
        return self.architecture.positions

    def __repr__(self) -> str:
        kind = self.reading
        return f"Model({self.name!r}, family={kind.family!r}, max_tokens={kind.max_tokens})"
