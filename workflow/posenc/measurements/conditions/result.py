"""What it finds out about a model on a data set, and on long documents."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from posenc.artifacts.precision import PrecisionFields
from posenc.artifacts.results import Interval, OfDocuments, Part, Spec


class DocumentsRead(Part):
    """How much of its documents the model reads (:class:`posenc.tokens.coverage.Coverage`)."""

    documents: int
    cut: int
    """Documents that are longer than the model takes."""
    read: int
    """Tokens that it reads, without special ones."""
    whole: int
    """Tokens of the whole documents."""


class LayerCosine(Interval):
    """Mean cosine of a layer's hidden states with the intact model's."""

    layer: int
    """From 0, the embedding."""


class PairedLosses(Part):
    """Loss of a condition, and what follows from it, paired with others by document.

    An encoder has none of it. A number is None where what it is compared with is not evaluated,
    or, for a share, where nothing is lost without positions.
    """

    nll_per_token: Interval | None = None
    """In nats."""
    perplexity: Interval | None = None
    delta_nll: Interval | None = None
    """Loss minus the intact model's, in nats per token."""
    delta_nll_without: Interval | None = None
    """Loss minus that without positions, in nats per token."""
    recovered: Interval | None = None
    """Share of the lost log-perplexity that it recovers."""
    recovered_perplexity: Interval | None = None
    """Share of the lost perplexity that it recovers."""


class Adaptation(Part):
    """What of a fitted mask's gain is position, in nats per token.

    Shares are of what is lost without positions; None where nothing is.
    """

    interaction: Interval
    """Gain on the model without positions, less the gain of the same fit on the intact one."""
    interaction_share: Interval | None
    placebo_interaction: Interval
    """The same of the placebo, which knows no order."""
    placebo_interaction_share: Interval | None
    beyond_placebo: Interval
    """The first less the second."""
    beyond_placebo_share: Interval | None


class Evaluation(PairedLosses):
    """A model under one condition."""

    condition: str
    spec: Spec
    """The condition, written out."""
    precision: PrecisionFields
    """How it was computed, and how far that is off float32."""
    layers: list[LayerCosine]
    bits_per_byte: Interval | None = None
    worse_than_uniform: Interval | None = None
    """Share of tokens whose loss is above that of a uniform guess."""
    adaptation: Adaptation | None = None
    """Of a fitted mask whose controls are evaluated."""


class SweepPoint(PairedLosses):
    """A condition at one value of what a sweep varies."""

    condition: str
    value: float
    last_cosine: Interval
    """Mean cosine of the last hidden states with the intact model's."""


class SweepPoints(Part):
    """A sweep: conditions at each value of one key."""

    key: str
    """What is varied."""
    rows: list[SweepPoint]


class Category(Part):
    """What documents of one category lose without positions."""

    category: str
    documents: int
    delta_nll: Interval
    """In nats per token, over the category's documents."""
    p_value: float
    """That any category is as far from the mean of all, corrected for looking at all."""


class ByCategory(Part):
    """Costs of conditions with intervals over categories too, and whether categories differ."""

    condition: str
    """Whose cost is given by category: the one without positions."""
    delta_nll: dict[str, Interval]
    """By condition, loss minus the intact model's, in nats per token."""
    recovered: dict[str, Interval | None]
    """By condition, share of the lost log-perplexity; None where nothing is lost."""
    adaptation: dict[str, Adaptation | None]
    """By condition; None for one that is no fitted mask, or whose controls are not evaluated."""
    variance: float
    """Of the costs of categories, in squared nats, each weighted by its documents."""
    expected: float
    """Mean of the same when documents change their categories."""
    permutations: int
    p_value: float
    """That categories do not differ."""
    categories: list[Category]
    """By name, rising."""


class Mask(Part):
    """What the file of a learned mask says of it; each method adds keys of its own.

    Losses are on calibration text, in the unit that the mask is judged by.
    """

    model_config = ConfigDict(extra="allow")

    mask: str
    """Its name."""
    loss: float | None = None
    """With the mask."""
    start: float | None = None
    """Of the model that the mask is put on."""
    intact: float | None = None
    """Of the intact model."""
    slope: float | None = None
    """The one that was chosen."""
    parameters: int | None = None
    """How many were fitted."""


class EvaluatedConditions(OfDocuments):
    """A model under all conditions of a study, on one data set."""

    coverage: DocumentsRead
    is_decoder: bool
    positions: str
    """How positions enter the model: ``table``, ``rotation`` and so on."""
    vocabulary_size: int
    conditions: list[Evaluation]
    categories: ByCategory | None
    """None where documents have no categories, or all the same, or there is no loss."""
    sweeps: dict[str, SweepPoints]
    """By name."""
    masks: list[Mask]
    scored_tokens: int | None = None
    """Tokens with a loss; an encoder has none."""
    bos: bool | None = None
    """Whether a decoder's documents begin with the end-of-text token."""


class Bucket(Part):
    """Loss at neighbouring positions."""

    model_config = ConfigDict(populate_by_name=True)

    begin: int = Field(alias="from")
    """The first position that is predicted."""
    to: int
    """The position after the last."""
    nll_per_token: Interval
    """In nats."""


class LongEvaluation(Part):
    """Loss of one condition by position."""

    condition: str
    precision: PrecisionFields
    """How it was computed, and how far that is off float32."""
    buckets: list[Bucket]
    recovered: list[Interval | None] | None
    """[buckets]: share of the lost log-perplexity, None where nothing is lost. None for the two
    conditions that define the share, or where one of them is not evaluated."""
    difference: Interval | None
    """Loss in the last bucket minus that of ``against``, in nats per token."""


class LongDocuments(OfDocuments):
    """Loss by position in documents that are longer than the model was trained for."""

    against: str | None
    """The condition that others are compared with, if it is evaluated."""
    trained_tokens: int
    """The longest document that the model was trained for."""
    conditions: list[LongEvaluation]
