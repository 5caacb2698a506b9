"""The ``figures`` section: sizes and choices of each figure; colours and fonts for all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from posenc.config.base import Section, Seed, Slope

Colour = Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$", description="#RRGGBB.")]
Inches = Annotated[float, Field(gt=0.5, le=20, description="Length in inches.")]


class Style(Section):
    """What all figures share."""

    font_size: Annotated[float, Field(ge=6, le=20)]
    """Points."""
    palette: Annotated[list[Colour], Field(min_length=4)]
    """Colours in order of use; the default is Okabe and Ito's colour-blind-safe set."""


class Figure(Section):
    """Parameters that every figure has."""

    width: Inches
    height: Inches


class Histogram(Figure):
    """Parameters of the cosine histogram."""

    layer: Literal["embedding", "last"]
    """Which hidden state is shown."""
    logarithmic: bool
    """Logarithmic density axis."""


class MaskSemantics(Figure):
    """Parameters of the picture of the semantics of a mask."""

    tokens: Annotated[int, Field(ge=3, le=64)]
    """Of the document that is shown."""
    floor: Annotated[float, Field(ge=0.01, le=1)]
    """Of the linear profile."""
    slope: Slope
    """Of ALiBi, which is shown beside it."""
    seed: Seed
    """Of the random scores."""


class Figures(Section):
    """One entry a figure."""

    style: Style
    layer_similarity: Figure
    cosine_histogram: Histogram
    perplexity: Figure
    training_loss: Figure
    position_layers: Figure
    condition_costs: Figure
    recovered_share: Figure
    slope_sweep: Figure
    length_sweep: Figure
    extrapolation: Figure
    mask_semantics: MaskSemantics
    position_maps: Figure
    position_regression: Figure
    readback: Figure
    position_probes: Figure
    random_causal: Figure
    spectra: Figure
    band_pass: Figure
    components: Figure
    layer_norm: Figure
    relative_attention: Figure
    head_offsets: Figure
    lags: Figure
    downstream: Figure
    superposition: Figure
    tokenizers: Figure
    scaling: Figure
    pretraining: Figure
    hard_attention: Figure
    memory_networks: Figure
