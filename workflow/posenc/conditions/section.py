"""The ``conditions`` section: named interventions on a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

from pydantic import Field, model_validator

from posenc.conditions import positions, profiles
from posenc.conditions import semantics as rows
from posenc.conditions.positions import ROTATION, TABLE, kinds_for
from posenc.config.base import MAX_LENGTH, Factor, Index, Length, Name, Section, SeedNumber


class LearnedPosition(Section):
    """The vectors that a mask of the section ``masks`` learned beside its biases."""

    kind: Literal["learned"]
    mask: Name
    added: bool = False
    """Added to the embeddings as they are, and not in place of them."""


class Scale(Section):
    """The sum of all embeddings times a constant, before anything else."""

    kind: Literal["scale"]
    by: Factor


class Unrotated(Section):
    """No rotation for some pairs of a query and a key; a rotary model's alone (F5)."""

    kind: Literal["unrotated"]
    layers: Annotated[list[Index], Field(min_length=1)] | None = None
    """Layers, from 0; null for all."""
    heads: Annotated[list[Index], Field(min_length=1)] | None = None
    """Heads of those layers, from 0; null for all."""
    first_key: bool = False
    """Only for pairs with the first key of a document."""


class Clipped(Section):
    """Keys further away than a distance are turned as if they stood there (rotary models)."""

    kind: Literal["clip"]
    distance: Annotated[int, Field(ge=0, le=MAX_LENGTH)]
    """Tokens."""


FIRST_ORDER = ("mask", "key", "query")
"""The terms of what rotation adds to a score that need no meeting of a query with a key."""


class FirstOrder(Section):
    """No rotation, but chosen terms of what it adds to scores (F7); a rotary model's alone.

    A query and a key are each their head's mean and a rest, so that what rotation adds is a sum of
    four terms (:mod:`posenc.metrics.first_order`).
    """

    kind: Literal["first_order"]
    mask: Name
    """The mask of method ``means`` that holds the mean queries and keys."""
    terms: Annotated[list[Literal["mask", "key", "query", "rest"]], Field(min_length=1)]
    """Mean with mean, mean query with the rest of the key, the rest of the query with mean key, and
    rest with rest."""
    layers: Annotated[list[Index], Field(min_length=1)] | None = None
    """Layers, from 0; null for all. The others are turned as they are."""
    hashed: SeedNumber | None = None
    """A placebo that knows no order: distances are hashes of two token ids, by this seed. Only the
    first key stays what it is."""

    @model_validator(mode="after")
    def _check_terms(self) -> FirstOrder:
        if len(set(self.terms)) < len(self.terms):
            raise ValueError(f"terms are {', '.join(self.terms)}: name each once")
        if self.hashed is not None and "rest" in self.terms:
            raise ValueError("hashed distances are for the terms of first order: leave out 'rest'")
        return self


_plain = tuple(positions.position.plain())
_pairs = (Unrotated, Clipped, FirstOrder)
_shaped = tuple(s for name, s in positions.position.sections.items() if name not in _plain)
Position = (
    Literal[_plain]
    | Annotated[  # type: ignore[valid-type]
        Union[(LearnedPosition, Unrotated, Clipped, FirstOrder, *_shaped)],
        Field(discriminator="kind"),
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
    """What the position embeddings or rotations become (``posenc.conditions.positions``)."""
    embeddings: Literal["intact", "unit_norm"] | Scale = "intact"
    """What becomes of the sum of a token's embeddings, before a LayerNorm of the embeddings."""
    mask: Mask | None = None
    """What is done to attention."""
    segments: Length | None = None
    """Documents are cut into so many tokens, each cut run on its own; 1: every token alone."""
    stride: Length | None = None
    """A segment begins every so many tokens, and a token is read in the first that reaches it,
    which has most of what comes before it: a window that slides. Null: they do not overlap."""
    beyond: Literal["clamp", "wrap"] = "clamp"
    """What positions after the last trained one get, where a document is longer."""
    only: Literal["decoder", "encoder"] | None = None
    """The kind of model that it is for; null for both."""

    @model_validator(mode="after")
    def _check_stride(self) -> Condition:
        if self.stride is not None and (self.segments is None or self.stride > self.segments):
            raise ValueError(
                f"stride {self.stride} needs segments of so many tokens at least, not "
                f"{self.segments}"
            )
        return self

    @property
    def runs_per_token(self) -> int:
        """How often a token is run, at most: segments may overlap."""
        return 1 if self.segments is None else -(-self.segments // (self.stride or self.segments))

    def masks(self) -> list[str]:
        """Names of the learned masks that it needs."""
        sections = [self.position, self.mask.profile if self.mask else None]
        names = (getattr(section, "mask", None) for section in sections)
        return sorted({name for name in names if name is not None})

    @property
    def of_pairs(self) -> bool:
        """Whether rotation is another one for some pairs: no queries and keys give its scores."""
        return isinstance(self.position, _pairs)

    def is_for(self, is_decoder: bool, positions: str = TABLE) -> bool:
        """Whether it is for that kind of model, whose positions are a table or a rotation."""
        suits = self.only is None or (self.only == "decoder") == is_decoder
        return suits and self.misfit(positions) is None

    def misfit(self, positions: str) -> str | None:
        """Why it is for no model whose positions are such, if it is for none."""
        kind = getattr(self.position, "kind", self.position)
        if positions == ROTATION and self.beyond != "clamp":
            return f"beyond {self.beyond!r} is for tables of position embeddings, not for rotation"
        pairs = ["unrotated", "clip", "first_order"] if positions == ROTATION else ["learned"]
        possible = [*kinds_for(positions), *pairs]
        if kind in possible:
            return None
        what = "positions are a rotation" if positions == ROTATION else "positions are a table"
        return f"position {kind!r} is not for a model whose {what}: it takes {', '.join(possible)}"

    def problem(self, n_layers: int, n_heads: int, positions: str = TABLE) -> str | None:
        """What of it does not fit a model, if anything."""
        for part, key in ((self.mask, "mask"), (self.position, "position")):
            for name, limit in (("layers", n_layers), ("heads", n_heads)):
                chosen = getattr(part, name, None) or []
                if chosen and max(chosen) >= limit:
                    return f"{key}.{name} names {max(chosen)}, but the model's are 0 to {limit - 1}"
        return self.misfit(positions)


def dumped(condition: Condition) -> dict[str, Any]:
    """A condition as the user would write it: what is left out stays out."""
    return condition.model_dump(exclude_defaults=True)
