"""Measurements of runs, as their commands write them but without provenance."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from pydantic import BaseModel

from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.files import read_sealed, sha256_file, write_json
from posenc.config.base import Section
from posenc.measurements.frame import Run, result
from posenc.tokens.tokenized import Tokens

from .small_models import saved


def result_of(
    step: ModuleType,
    parameters: Section,
    store: ActivationStore,
    intact: ActivationStore | None = None,
) -> Run:
    """What a measurement finds in a store, compared with the intact run's or with itself."""
    measured = step.measure(parameters, intact or store, store)
    return result(step.MEASUREMENT, store.metadata["run"], measured)


def made_of_weights(
    step: ModuleType, folder: Path, text: Tokens, job: BaseModel, *beside: Path
) -> dict[str, Any]:
    """What the command of a measurement writes of a small GPT-2 and a text called ``text``.

    It runs twice, and must write the same bytes, and what they are made of.

    Parameters
    ----------
    step, job
        The measurement, and what it is asked for.
    folder
        Where its files go.
    text
        Its tokens.
    beside
        Folders that follow that of the tokens on the command line.
    """
    weights = saved("gpt2", folder / "model")
    write_json(folder / "config.json", job.model_dump())
    given = ("small", folder / "config.json", weights, text.path.parent, *beside)
    threads = torch.get_num_threads()
    for name in ("once", "again"):
        step.main(*given, folder / name)
    torch.set_num_threads(threads)
    once, again = (folder / name / "text.json" for name in ("once", "again"))
    assert once.read_bytes() == again.read_bytes()
    measurement = read_sealed(once)
    assert measurement["run"] == {"model": "small", "dataset": "text"}
    inputs = measurement["provenance"]["inputs"]
    assert inputs["tokens"] == sha256_file(text.path)
    assert inputs["weights"] == sha256_file(weights / "model.safetensors")
    assert inputs["config"] == sha256_file(weights / "config.json")
    return measurement
