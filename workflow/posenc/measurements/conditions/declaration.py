"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Documents, Draws, Name, Samples, Section, Seed
from posenc.measurements.declaration import CELL, DATASETS, MASKS, Measurement


class Controls(Section):
    """What a fitted mask is held against: what the same fit gives without position."""

    intact: Name
    """The condition of the same parameters, fitted the same way on the intact model."""
    placebo: Name
    """That of as many parameters that know no order, on the model without positions."""
    placebo_intact: Name
    """The placebo on the intact model."""


def _controls() -> dict[str, Controls]:
    """Of the fitted masks in the catalogue of conditions."""

    def of(intact: str, placebo: str, placebo_intact: str) -> Controls:
        return Controls(intact=intact, placebo=placebo, placebo_intact=placebo_intact)

    controls = {
        "zero_fitted": of("intact_fitted", "zero_hashed", "intact_hashed"),
        "fitted": of("intact_fitted_vectors", "fitted_hashed", "intact_hashed_vectors"),
    }
    for seed in ("", "_1", "_2"):
        controls[f"zero_scores_fitted{seed}"] = of(
            f"intact_fitted_short{seed}", f"zero_hashed_short{seed}", f"intact_hashed_short{seed}"
        )
    return controls


class Conditions(Section):
    """All conditions of a study on its first documents (A1, A3, A4, A5)."""

    documents: Annotated[Documents, Field(ge=2)] | None = 120
    """How many of the evaluation documents; null for all."""
    special_tokens: bool = True
    """Whether [CLS], [SEP] and the like count as tokens."""
    batch_tokens: Draws = 32_768
    """Tokens of one forward pass, those of all conditions that share it included."""
    calibration_share: Annotated[float, Field(gt=0, lt=1)] = 0.75
    """Share of the calibration documents that masks are fitted on; the rest chooses."""
    controls: dict[Name, Controls] = Field(default_factory=_controls)
    """By condition of a fitted mask, where a model is evaluated under all of them."""
    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "conditions", Conditions, of=CELL, reads=("evaluations", MASKS, DATASETS),
    catalogue=("A1", "A3", "A4", "A5", "D1"), always=True, also=("extrapolation",),
    subjects="models",
)  # fmt: skip
