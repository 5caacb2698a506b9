"""Shared by measurements that give a model sentences of their own, with positions and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from posenc.artifacts.command import read_section
from posenc.artifacts.files import sha256_file, verify
from posenc.artifacts.results import NotMeasured, Result
from posenc.measurements.declaration import Measurement
from posenc.measurements.frame import Config, Output, documented, lacking, not_run, seal
from posenc.measurements.of_models import Job, Model, TokenizerFile, WeightsFolder
from posenc.models.files import model_digests

if TYPE_CHECKING:
    from tokenizers import Tokenizer

P = TypeVar("P", bound=BaseModel)
CONDITIONS = {"intact": {"position": "intact"}, "zero": {"position": "zero"}}
"""With positions, and without."""


def of_sentences(
    declared: Measurement, measure: Callable[[Job[P], Any, Tokenizer], Result | NotMeasured]
) -> Callable[..., None]:
    """Make the command line of such a measurement: ``measure(job, network, tokenizer)``."""

    def main(
        model: Model,
        config: Config,
        weights: WeightsFolder,
        tokenizer: TokenizerFile,
        output: Output,
    ) -> None:
        from tokenizers import Tokenizer

        from posenc.models.affine import load_ready

        job = read_section(config, Job[declared.parameters])  # type: ignore[name-defined]
        digests = model_digests(weights) | {"tokenizer": sha256_file(tokenizer)}
        measured: Result | NotMeasured
        if (reason := lacking(declared, weights)) is not None:
            measured = not_run(reason, job.parameters)
        else:
            # Sums by several threads would be in another order.
            network = load_ready(weights, job.reading.family, "cpu", threads=1)
            measured = measure(job, network, Tokenizer.from_file(str(verify(tokenizer))))
        seal(output, declared, {"model": model}, measured, job.parameters, digests)

    return documented(main, measure)
