"""What is a mask in place of rotation worth, in training tokens (F6)?

Gelberg et al. (2026, https://arxiv.org/abs/2512.12167) drop rotation from a trained decoder and
train it on for a short while. Here a decoder is trained on without rotation from nothing in its
place, and from a mask that was learned with the weights frozen and stays on the scores while they
learn: how many tokens does the one need to come as far as the other is without any? What belongs
to the text is not to be counted: the control is the intact model, trained on in the same steps on
the same text in the same order. Each way has several seeds, for the order of the text. All data
sets are evaluated in the same trainings, also those that have nothing to be learned from.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import sha256_file, sha256_json, verify
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.positions import ROTATION
from posenc.conditions.section import dumped
from posenc.config.base import Name
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.measurements.frame import Config, Output, bootstrap, not_run
from posenc.measurements.of_models import (
    DocumentsFolder,
    MasksFolder,
    Model,
    TokenizerFile,
    TokensFolder,
    WeightsFolder,
    cells,
    other_texts,
    texts_of,
)
from posenc.measurements.of_trainings import Cell, partial_of, seal_each
from posenc.measurements.retraining.declaration import MEASUREMENT, Retraining
from posenc.measurements.retraining.result import LearnedFrom, Point, Retrained, Training, Worth
from posenc.measurements.under_conditions import ConditionsJob, learned_masks
from posenc.metrics.crossed import CrossedMeans
from posenc.metrics.retraining import worth
from posenc.models.files import model_digests
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]
TOO_FEW = "too few documents have two tokens, or fit into evaluated_tokens"


class Job(ConditionsJob[Retraining]):
    """What the measurement of one model depends on, besides its files."""

    documents: int | None
    """On how many documents a study evaluates the model, if it says so."""
    calibration: Name
    """The data set that is learned from."""
    device: str


class Text(NamedTuple):
    """What is learned from.

    Attributes
    ----------
    documents
        How many there are.
    sequences
        int64 [sequences, tokens].
    """

    documents: int
    sequences: Tensor


def main(
    model: Model,
    config: Config,
    weights: WeightsFolder,
    tokens: TokensFolder,
    masks: MasksFolder,
    documents: DocumentsFolder,
    tokenizer: TokenizerFile,
    output: Output,
) -> None:
    """Write OUTPUT/DATASET.json for each data set; a training that is done is not done again."""
    job = read_section(config, Job)
    learned, digests = learned_masks(job, masks)
    network = None
    if job.reading.positions == ROTATION:
        from posenc.models.affine import for_training
        from posenc.models.devices import device_for, use_threads
        from posenc.models.load import load

        use_threads(1)  # sums by several threads would be in another order
        network = for_training(load(weights, job.reading.family, device_for(job.device)))
    evaluated = [
        Cell(path, of, text, evaluated_of(job, text))
        for path, of, text in cells(model, job.datasets, tokens, output)
    ]
    inputs = {
        **model_digests(weights),
        "masks": digests,
        "tokenizer": sha256_file(verify(tokenizer)),
        "documents": sha256_file(documents / f"{job.calibration}.parquet"),
        # Of all data sets: a text of any is not learned from.
        "texts": {cell.of["dataset"]: cell.text.digest for cell in evaluated},
    }
    partial = partial_of(output, MEASUREMENT, model)
    results = measure(job, network, evaluated, documents, tokenizer, learned, partial, inputs)
    seal_each(MEASUREMENT, evaluated, results, job.parameters, inputs)
    shutil.rmtree(partial, ignore_errors=True)


def evaluated_of(job: Job, text: Tokens) -> list[list[int]]:
    """Token ids of the documents of a data set that are evaluated: the first that fit."""
    fit = (np.cumsum(text.lengths) <= job.parameters.evaluated_tokens).sum()
    return [ids for ids in text.ids[: job.documents][:fit] if len(ids) > 1]


def measure(
    job: Job,
    network: Any,
    evaluated: list[Cell],
    documents: Path,
    tokenizer: Path,
    learned: Mapping[str, LearnedMask],
    partial: Path,
    inputs: Mapping[str, Any],
) -> list[Retrained | NotMeasured]:
    """Train a model on under each condition with each seed, and evaluate every data set on the way.

    Parameters
    ----------
    job, network
        What is measured, and the model; None where no rotation can be dropped.
    evaluated
        By data set.
    documents, tokenizer
        Folder of the data sets' documents, and the tokenizer's file.
    learned
        The masks that the conditions name.
    partial, inputs
        Folder of unfinished results, and checksums of all that they are made from.

    Returns
    -------
    A measurement of each data set.
    """
    parameters = job.parameters
    reason = reason_against(job, network, evaluated)
    text = None if reason else text_of(job, evaluated, documents, tokenizer)
    if text is None:
        reason = reason or f"the data set {job.calibration!r} has no split {parameters.split!r}"
        return [not_run(reason, parameters) for _ in evaluated]
    identity = {
        **inputs,
        "parameters": parameters.model_dump(),
        "device": job.device,
        "evaluated": [len(cell.documents) for cell in evaluated],
        "versions": versions("numpy", *MEASUREMENT.uses),
        "code": code_digest(f"posenc.measurements.{MEASUREMENT.name}.measure"),
    }
    # Documents of all data sets fill the same batches.
    together = [ids for cell in evaluated for ids in cell.documents]
    sums = trained(job, network, together, text.sequences, learned, partial, identity)
    ends = np.cumsum([len(cell.documents) for cell in evaluated])  # [data sets]
    device = next(network.parameters()).device.type
    learned_from = LearnedFrom(
        dataset=job.calibration,
        documents=text.documents,
        sequences=len(text.sequences),
        tokens_per_step=parameters.batch_sequences * parameters.tokens,
    )
    return [
        results(job, own, cell.documents, device, learned_from)
        if len(cell.documents) > 1
        else not_run(TOO_FEW, parameters)
        for cell, own in zip(evaluated, np.split(sums, ends[:-1], axis=-1), strict=True)
    ]


def reason_against(job: Job, network: Any, evaluated: list[Cell]) -> str | None:
    """Why nothing is trained; None if training is possible."""
    if network is None:
        reason = "positions come in by a table" if job.reading.is_decoder else "it is no decoder"
        return f"{reason}: there is no rotation to drop"
    if missing := [name for name in (INTACT, WITHOUT) if name not in job.conditions]:
        return f"the study does not evaluate {missing[0]}"
    return None if any(len(cell.documents) > 1 for cell in evaluated) else TOO_FEW


def text_of(job: Job, evaluated: list[Cell], documents: Path, tokenizer: Path) -> Text | None:
    """What is learned from; None where the data set has no such split.

    Documents with the words of an evaluated document of any data set are left out.

    Raises
    ------
    ArtifactError
        If the split is evaluated on.
    """
    from tokenizers import Tokenizer

    from posenc.models.training import sequences
    from posenc.tokens.tokenize import tokenize

    parameters = job.parameters
    by_dataset = {cell.of["dataset"]: cell.text for cell in evaluated}
    own = by_dataset.pop(job.calibration, None)
    names, texts = other_texts(
        documents / f"{job.calibration}.parquet",
        parameters.split,
        own,
        "measurements.retraining.split",
    )
    known = {
        document
        for dataset, text in by_dataset.items()
        for document in texts_of(documents / f"{dataset}.parquet", text)
    }
    kept = [index for index, document in enumerate(texts) if document not in known]
    if not kept:
        return None
    order = np.random.default_rng(parameters.seed).permutation(kept)[: parameters.documents]
    tokenized = tokenize(
        Tokenizer.from_file(str(tokenizer)),
        [names[index] for index in order],
        [texts[index] for index in order],
        max_tokens=None,
        is_decoder=True,
    )
    # They begin as the evaluated documents do.
    cut = sequences(tokenized["input_ids"].to_pylist(), parameters.tokens, "documents")
    return Text(len(order), cut)


def trained(
    job: Job,
    network: Any,
    documents: list[list[int]],
    sequences: Tensor,  # int64 [sequences, tokens]
    learned: Mapping[str, LearnedMask],
    partial: Path,
    identity: Mapping[str, Any],
) -> Floats:
    """Sums of the documents' losses in nats, [conditions, seeds, evaluations, documents]."""
    from posenc.capture.retraining import Schedule, retrain, trained_under
    from posenc.models.training import progress

    parameters = job.parameters
    device = next(network.parameters()).device
    given = {name: weight.clone() for name, weight in network.state_dict().items()}
    on_device = sequences.to(device)
    longest = max(parameters.tokens, *map(len, documents))
    sums = []
    for condition, section in job.conditions.items():
        with trained_under(network, section, learned, longest):
            for seed in parameters.seeds:
                network.load_state_dict(given)
                name = f"{condition}-{seed}"
                own = sha256_json({**identity, "condition": section.model_dump(), "seed": seed})
                schedule = Schedule(
                    parameters.optimization,
                    parameters.evaluate_steps,
                    parameters.batch_tokens,
                    seed,
                )
                checkpoint = Checkpoint(partial / f"{name}.pt", own)
                with progress(name, parameters.steps) as report:
                    sums.append(
                        retrain(network, on_device, documents, schedule, checkpoint, report)
                    )
    network.load_state_dict(given)
    return np.reshape(sums, (len(job.conditions), len(parameters.seeds), *sums[0].shape))


def results(
    job: Job, sums: Floats, documents: list[list[int]], device: str, learned_from: LearnedFrom
) -> Retrained:
    """What is found on one data set.

    Parameters
    ----------
    job
        Whose conditions, seeds and steps the first three axes of ``sums`` are.
    sums
        [conditions, seeds, evaluations, documents]: sums of losses in nats.
    documents
        Token ids of those that are evaluated.
    device, learned_from
        What is the same for all data sets.
    """
    lengths = np.array([len(ids) - 1 for ids in documents])  # [documents]
    by_condition = zip(job.conditions, sums, strict=True)
    return Retrained(
        documents=len(documents),
        tokens=int(lengths.sum()),
        confidence=job.parameters.confidence,
        conditions=trainings(job, sums, lengths),
        scored=lengths.tolist(),
        sums={name: of_condition.tolist() for name, of_condition in by_condition},
        device=device,
        learned_from=learned_from,
    )


def trainings(job: Job, sums: Floats, lengths: NDArray[np.int64]) -> list[Training]:
    """Curves of loss by condition, and what each start is worth.

    Parameters
    ----------
    job, sums
        As :func:`results`.
    lengths
        [documents]: tokens that are scored.
    """
    parameters, names = job.parameters, list(job.conditions)
    steps = parameters.evaluate_steps
    tokens = [step * parameters.batch_sequences * parameters.tokens for step in steps]
    points = len(tokens)
    # [seeds, documents, conditions * evaluations]
    flat = sums.transpose(1, 3, 0, 2).reshape(sums.shape[1], len(lengths), -1)
    means = CrossedMeans(flat, lengths, **bootstrap(parameters))
    places = {name: slice(k * points, (k + 1) * points) for k, name in enumerate(names)}

    def curve(name: str) -> list[Point]:
        own = places[name]
        above: Sequence[Interval | None] = [None] * points
        if name != INTACT:
            above = Interval.each(means.curve(own, places[INTACT]))
        nll, seeds = Interval.each(means.curve(own)), means.of_fits[:, own].T.tolist()
        return [
            Point(
                step=steps[k], tokens=tokens[k], nll=nll[k], above_intact=above[k], seeds=seeds[k]
            )
            for k in range(points)
        ]

    def worth_of(name: str) -> Worth | None:
        if name in (INTACT, WITHOUT):
            return None
        needed = worth(means, tokens, places[name], places[WITHOUT], places[INTACT])
        return Worth.model_validate(
            {sense: tokens_needed._asdict() for sense, tokens_needed in needed._asdict().items()}
        )

    return [
        Training(
            condition=name,
            spec=dumped(job.conditions[name]),
            curve=curve(name),
            worth=worth_of(name),
        )
        for name in names
    ]


if __name__ == "__main__":
    run(main)
