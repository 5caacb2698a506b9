"""Whether a study's large models fit into memory when run as ``activations`` says."""

from __future__ import annotations

from collections.abc import Iterator

from posenc.artifacts.files import ArtifactError
from posenc.models.files import GGUF, ModelError
from posenc.models.references import LARGE, bytes_of
from posenc.study.params import Params
from posenc.study.storage import place_of


def lines(params: Params) -> Iterator[str]:
    """A line for each large model whose files are on this machine."""
    wanted = params.activations
    for name in params.study.models:
        try:
            place = place_of(name, params.models[name])
            if place is None or place.suffix == GGUF or bytes_of(place) < LARGE:
                continue
            # Importing the library takes a second, and only a large model needs it.
            from posenc.models import memory

            needed, there = memory.memory_in(place), memory.there()
        except (ArtifactError, ModelError):
            continue  # the step that reads it says so
        said = memory.problem(needed, wanted.precision, wanted.device, wanted.batch_tokens, there)
        yield f"{name}: {needed}" if said is None else f"{name} does not fit: {said}"
