"""Measurements of runs, as their commands write them but without provenance."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from posenc.config.base import Section
from posenc.measurements.frame import result
from posenc.store.activations import ActivationStore


def result_of(
    step: ModuleType,
    parameters: Section,
    store: ActivationStore,
    intact: ActivationStore | None = None,
) -> dict[str, Any]:
    """What a measurement finds in a store, compared with the intact run's or with itself."""
    measured = step.measure(parameters, intact or store, store)
    return result(step.MEASUREMENT, store.metadata["run"], measured)
