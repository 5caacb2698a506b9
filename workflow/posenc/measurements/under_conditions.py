"""Shared by measurements that run a decoder under the conditions of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import read_section
from posenc.artifacts.files import read_sealed
from posenc.artifacts.provenance import Inputs
from posenc.artifacts.results import Interval, NotMeasured, Result
from posenc.conditions.learned import LearnedMask, read
from posenc.conditions.section import Condition
from posenc.config.base import Name
from posenc.measurements.declaration import INTACT, WITHOUT, Measurement
from posenc.measurements.frame import Config, Output, documented, lacking, not_run, seal
from posenc.measurements.of_models import (
    CellsJob,
    DocumentsFolder,
    MasksFolder,
    Model,
    P,
    TokensFolder,
    WeightsFolder,
    cells,
    texts_of,
)
from posenc.metrics.recovery import PairedMeans, is_lost, recovered
from posenc.models.files import model_digests
from posenc.tokens.tokenized import Tokens


class ConditionsJob(CellsJob[P], Generic[P]):
    """What the measurement of one model under conditions depends on, besides its files."""

    conditions: dict[Name, Condition]


class Loaded(NamedTuple):
    """What runs under conditions.

    Attributes
    ----------
    reason
        Why it is not run, if it lacks what is needed.
    network
        The model; None where it is not run.
    learned
        The learned masks that the conditions name.
    inputs
        Checksums of both.
    """

    reason: str | None
    network: Any
    learned: dict[str, LearnedMask]
    inputs: Inputs


def learned_masks(
    job: ConditionsJob, folder: Path
) -> tuple[dict[str, LearnedMask], dict[str, str]]:
    """The masks that the conditions name, and their checksums."""
    named = sorted({mask for condition in job.conditions.values() for mask in condition.masks()})
    digests = read_sealed(folder / "masks.json")["masks"]
    learned = {mask: read(folder / f"{mask}.safetensors")[0] for mask in named}
    return learned, {mask: digests[mask] for mask in named}


def decoder(job: ConditionsJob, weights: Path) -> Any:
    """Load a model, if it is a decoder: an encoder has no loss on text."""
    if not job.reading.is_decoder:
        return None
    from posenc.models.affine import load_ready

    # Sums by several threads would be in another order.
    return load_ready(weights, job.reading.family, "cpu", threads=1)


def loaded(
    declared: Measurement,
    job: ConditionsJob,
    weights: Path,
    masks: Path,
    load: Callable[[ConditionsJob, Path], Any] = decoder,
) -> Loaded:
    """What the conditions need, and the model unless it lacks what the measurement needs."""
    learned, digests = learned_masks(job, masks)
    reason = lacking(declared, weights)
    network = load(job, weights) if reason is None else None
    return Loaded(reason, network, learned, {**model_digests(weights), "masks": digests})


def of_masks(
    declared: Measurement,
    measure: Callable[[Any, Any, Tokens, dict[str, LearnedMask]], Result | NotMeasured],
    load: Callable[[ConditionsJob, Path], Any] = decoder,
) -> Callable[..., None]:
    """Make the command line of a measurement of a model that runs on its tokens under conditions.

    It calls ``measure(job, network, text, learned)`` for each data set.
    """

    def main(
        model: Model,
        config: Config,
        weights: WeightsFolder,
        tokens: TokensFolder,
        masks: MasksFolder,
        output: Output,
    ) -> None:
        job = read_section(config, ConditionsJob[declared.parameters])  # type: ignore[name-defined]
        reason, network, learned, inputs = loaded(declared, job, weights, masks, load)
        for path, of, text in cells(model, job.datasets, tokens, output):
            if reason is None:
                measured = measure(job, network, text, learned)
            else:
                measured = not_run(reason, job.parameters)
            seal(path, declared, of, measured, job.parameters, {"tokens": text.digest, **inputs})

    return documented(main, measure)


def of_texts(
    declared: Measurement,
    measure: Callable[[Any, Any, Tokens, list[str], dict[str, LearnedMask]], Result | NotMeasured],
) -> Callable[..., None]:
    """As :func:`of_masks`, where a decoder's documents are read as well as their tokens.

    It calls ``measure(job, network, text, texts, learned)`` for each data set.
    """

    def main(
        model: Model,
        config: Config,
        weights: WeightsFolder,
        tokens: TokensFolder,
        masks: MasksFolder,
        documents: DocumentsFolder,
        output: Output,
    ) -> None:
        job = read_section(config, ConditionsJob[declared.parameters])  # type: ignore[name-defined]
        reason, network, learned, inputs = loaded(declared, job, weights, masks)
        for path, of, text in cells(model, job.datasets, tokens, output):
            texts = texts_of(documents / path.with_suffix(".parquet").name, text)
            if reason is None:
                measured = measure(job, network, text, texts, learned)
            else:
                measured = not_run(reason, job.parameters)
            seal(path, declared, of, measured, job.parameters, {"tokens": text.digest, **inputs})

    return documented(main, measure)


def losses_shown(
    network: Any,
    documents: list[list[int]],
    conditions: Mapping[str, Condition],
    learned: dict[str, LearnedMask],
    batch_tokens: int,
    name: str,
) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
    """What :func:`posenc.capture.evaluation.losses_under` yields, with a bar of this name."""
    from posenc.capture.evaluation import losses_under

    total = len(conditions) * sum(map(len, documents))
    with tqdm(total=total, unit="token", desc=name, mininterval=2) as progress:
        yield from losses_under(network, documents, conditions, learned, batch_tokens, progress)


def recovered_loss(means: PairedMeans, names: list[str], column: int) -> Interval | None:
    """Share of the loss that a condition recovers; None where lacking positions costs nothing."""
    if WITHOUT not in names:
        return None
    intact, without = names.index(INTACT), names.index(WITHOUT)
    if not is_lost(means, intact, without):
        return None
    return Interval.of(means.of(recovered, column, without, intact))


def recovered_gain(means: PairedMeans, names: list[str], column: int) -> Interval | None:
    """As :func:`recovered_loss`, of a gain with its sign turned; None if nothing is gained, too."""
    has_gain = means.of(np.negative, names.index(INTACT)).low > 0
    return recovered_loss(means, names, column) if has_gain else None
