"""The ``conditions`` section: named interventions on a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field, model_validator

from posenc.conditions import positions, profiles
from posenc.conditions import semantics as rows
from posenc.config.base import Factor, Index, Length, Name, Section


class LearnedPosition(Section):
    """The vectors that a mask of the section ``masks`` learned beside its biases."""

    kind: Literal["learned"]
    mask: Name


class Scale(Section):
    """The sum of all embeddings times a constant, before anything else."""

    kind: Literal["scale"]
    by: Factor


_plain = tuple(positions.position.plain())
_shaped = tuple(s for name, s in positions.position.sections.items() if name not in _plain)
Position = (
    Literal[_plain]
    | Annotated[  # type: ignore[valid-type]
        Union[(LearnedPosition, *_shaped)], Field(discriminator="kind")
    ]
)
FACTORS, BIASES = tuple(profiles.factor.functions), tuple(profiles.bias.functions)
Profile = Annotated[
    Union[(*profiles.factor.sections.values(), *profiles.bias.sections.values())],
    Field(discriminator="kind"),
]
Semantics = Literal[("additive", *rows.semantics.functions)]  # type: ignore[valid-type]


class Mask(Section):
    """What is done to attention, and where."""

    semantics: Semantics
    """What the profile does (``posenc.conditions.semantics``)."""
    profile: Profile
    """A number for each query and key (``posenc.conditions.profiles``)."""
    span: Literal["sequence", "query"] = "sequence"
    """A factor's profile runs over the document, or anew over the keys that each query sees."""
    layers: Annotated[list[Index], Field(min_length=1)] | None = None
    """Layers, from 0, that it acts on; null for all."""
    heads: Annotated[list[Index], Field(min_length=1)] | None = None
    """Heads, from 0, that it acts on; null for all."""

    @model_validator(mode="after")
    def _check_profile(self) -> Mask:
        kind = self.profile.kind
        if (self.semantics == "additive") != (kind in BIASES):
            raise ValueError(
                f"semantics {self.semantics!r} does not take the profile {kind!r}: additive takes "
                f"{', '.join(BIASES)}; all others take {', '.join(FACTORS)}"
            )
        if self.semantics == "emb_mul" and (self.layers or self.heads or self.span == "query"):
            raise ValueError(
                "semantics 'emb_mul' acts before the first block: without layers, heads and span"
            )
        if self.span == "query" and kind in BIASES:
            raise ValueError(f"span 'query' is for factors; {kind!r} is a bias")
        return self


class Condition(Section):
    """One condition. The condition named ``intact`` is the untouched model."""

    position: Position = "intact"
    """What the position embeddings become (``posenc.conditions.positions``)."""
    embeddings: Literal["intact", "unit_norm"] | Scale = "intact"
    """What becomes of the sum of a token's embeddings, before a LayerNorm of the embeddings."""
    mask: Mask | None = None
    """What is done to attention."""
    segments: Length | None = None
    """Documents are cut into so many tokens, each cut run on its own; 1: every token alone."""
    beyond: Literal["clamp", "wrap"] = "clamp"
    """What positions after the last trained one get, where a document is longer."""
    only: Literal["decoder", "encoder"] | None = None
    """The kind of model that it is for; null for both."""

    def masks(self) -> list[str]:
        """Names of the learned masks that it needs."""
        sections = [self.position, self.mask.profile if self.mask else None]
        return sorted({s.mask for s in sections if getattr(s, "kind", None) == "learned"})

    def is_for(self, is_decoder: bool) -> bool:
        """Whether it is for that kind of model."""
        return self.only is None or (self.only == "decoder") == is_decoder

    def problem(self, n_layers: int, n_heads: int) -> str | None:
        """What of it does not fit a model, if anything."""
        for name, limit in (("layers", n_layers), ("heads", n_heads)):
            chosen = getattr(self.mask, name, None) or []
            if chosen and max(chosen) >= limit:
                return f"mask.{name} names {max(chosen)}, but the model's are 0 to {limit - 1}"
        return None


def dumped(condition: Condition) -> dict[str, Any]:
    """A condition as the user would write it: what is left out stays out."""
    return condition.model_dump(exclude_defaults=True)
