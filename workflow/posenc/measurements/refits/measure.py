"""How far does what a fitted mask recovers depend on the text that it was fitted to (A5)?

One calibration text is one draw, and a seed one order of it: neither says how another text would
have done. Here a mask is fitted to several texts that share no document, with several seeds each,
and so are its controls: the same parameters on the intact model, and the placebo that knows no
order on both. What is left after adaptation is judged on the same evaluated documents, with an
interval over documents, draws and seeds.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, sha256_file, sha256_json, verify
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.masks import FittedMask
from posenc.config.base import Name
from posenc.measurements.frame import Config, Output, bootstrap, not_run
from posenc.measurements.of_models import (
    CellsJob,
    DocumentsFolder,
    Model,
    TokenizerFile,
    TokensFolder,
    WeightsFolder,
    cells,
    other_texts,
)
from posenc.measurements.of_trainings import Cell, partial_of, seal_each
from posenc.measurements.refits.declaration import MEASUREMENT, Refits
from posenc.measurements.refits.result import Losses, OverFits, Refitted
from posenc.metrics.bootstrap import Estimate
from posenc.metrics.crossed import CrossedMeans, spreads
from posenc.metrics.recovery import INTERACTIONS, adaptation, interaction, is_lost, recovered
from posenc.models.files import model_digests

Floats = NDArray[np.float64]
UNFITTED = {"intact": "intact", "without": "zero"}
"""By role, the positions of a model that nothing is fitted on."""
FITS = {
    "fitted": ("zero", "offsets"),
    "fitted_intact": ("intact", "offsets"),
    "placebo": ("zero", "hashed"),
    "placebo_intact": ("intact", "hashed"),
}
"""By role, the positions beneath a fit, and its distances."""
ROLES = (*FITS, *UNFITTED)


class Job(CellsJob[Refits]):
    """What the measurement of one model depends on, besides its files."""

    calibration: Name
    """The data set whose documents are fitted to."""
    device: str


def main(
    model: Model,
    config: Config,
    weights: WeightsFolder,
    tokens: TokensFolder,
    documents: DocumentsFolder,
    tokenizer: TokenizerFile,
    output: Output,
) -> None:
    """Write OUTPUT/DATASET.json for each data set; a fit that is done is not done again."""
    job = read_section(config, Job)
    evaluated = [
        Cell(*cell, [ids for ids in cell[-1].ids[: job.parameters.evaluated] if len(ids) > 1])
        for cell in cells(model, job.datasets, tokens, output)
    ]
    source = documents / f"{job.calibration}.parquet"
    inputs = {
        **model_digests(weights),
        "documents": sha256_file(source),
        "tokenizer": sha256_file(verify(tokenizer)),
    }
    partial = partial_of(output, MEASUREMENT, model)
    results = measure(job, weights, evaluated, source, tokenizer, partial, inputs)
    seal_each(MEASUREMENT, evaluated, results, job.parameters, inputs)
    shutil.rmtree(partial, ignore_errors=True)


def measure(
    job: Job,
    weights: Path,
    evaluated: list[Cell],
    source: Path,
    tokenizer: Path,
    partial: Path,
    inputs: Mapping[str, Any],
) -> list[Refitted | NotMeasured]:
    """Fit a decoder's masks, and evaluate each on the documents of every data set.

    Parameters
    ----------
    job, weights
        What is measured, and the model's folder.
    evaluated
        By data set.
    source, tokenizer
        The file of the documents that are drawn from, and the tokenizer's.
    partial, inputs
        Folder of unfinished results, and checksums of all that they are made from.

    Returns
    -------
    A measurement of each data set.
    """
    parameters = job.parameters
    if not job.reading.is_decoder:
        return [not_run("it is no decoder: no loss is recovered", parameters) for _ in evaluated]
    from posenc.models.affine import load_ready

    # Sums by several threads would be in another order.
    network = load_ready(weights, job.reading.family, job.device, threads=1)
    texts = drawn(job, evaluated, source, tokenizer)
    identity = {
        **inputs,
        "job": job.model_dump(),
        "texts": [cell.text.digest for cell in evaluated],
        "versions": versions("numpy", *MEASUREMENT.uses),
        "code": code_digest(f"posenc.measurements.{MEASUREMENT.name}.measure"),
    }
    sums = fitted(parameters, network, texts, evaluated, partial, identity)
    return [
        results(parameters, own, np.array([len(ids) - 1 for ids in cell.documents]))
        if len(cell.documents) > 1
        else not_run("too few documents have two tokens", parameters)
        for cell, own in zip(evaluated, sums, strict=True)
    ]


def drawn(job: Job, evaluated: list[Cell], source: Path, tokenizer: Path) -> list[list[list[int]]]:
    """Token ids of the documents of each draw, those that are fitted to first.

    Documents with the words of an evaluated document are left out.

    Raises
    ------
    ArtifactError
        If the split is evaluated on, or has too few documents.
    """
    from tokenizers import Tokenizer

    from posenc.tokens.tokenize import tokenize

    parameters = job.parameters
    own = next((cell for cell in evaluated if cell.of["dataset"] == job.calibration), None)
    names, texts = other_texts(
        source, parameters.split, own and own.text, "measurements.refits.split"
    )
    each = parameters.fitting + parameters.choosing
    needed = parameters.draws * each
    if len(texts) < needed:
        raise ArtifactError(
            f"{source} has {len(texts)} documents of the split {parameters.split!r} that are not "
            f"evaluated, but {parameters.draws} draws of {each} need {needed}: lower "
            f"measurements.refits.draws, .fitting or .choosing in params.yaml"
        )
    order = np.random.default_rng(parameters.seed).permutation(len(texts))[:needed]
    tokenized = tokenize(
        Tokenizer.from_file(str(tokenizer)),
        [names[index] for index in order],
        [texts[index] for index in order],
        max_tokens=job.reading.max_tokens,
        is_decoder=True,
    )
    ids = tokenized["input_ids"].to_pylist()
    return [ids[start : start + each] for start in range(0, needed, each)]


def fitted(
    parameters: Refits,
    network: Any,
    texts: list[list[list[int]]],
    evaluated: list[Cell],
    partial: Path,
    identity: Mapping[str, Any],
) -> list[Floats]:
    """By data set, sums of losses in nats, [draws, seeds, documents, roles]."""
    from posenc.capture.calibration import Calibration, start_of
    from posenc.capture.evaluation import losses_under

    def sums(condition: Any, mask: Any) -> list[list[float]]:
        totals = []
        for cell in evaluated:
            own = np.zeros(len(cell.documents))
            given = (network, cell.documents, {"it": condition}, {"it": mask} if mask else {})
            for _, document, nll in losses_under(*given, parameters.batch_tokens):
                own[document] = nll.sum(dtype=np.float64)
            totals.append(own.tolist())
        return totals

    unfitted = [sums(start_of(position), None) for position in UNFITTED.values()]
    rows = []
    for number, text in enumerate(texts):
        data = Calibration(
            network, text[: parameters.fitting], text[parameters.fitting :], parameters.batch_tokens
        )
        for seed in parameters.seeds:
            of_roles = []
            for role, source in sources(parameters, seed):
                name = f"{role}-{number}-{seed}"
                own = sha256_json({**identity, "draw": number, "source": source.model_dump()})
                checkpoint = Checkpoint(partial / f"{name}.pt", own)
                if (state := checkpoint.load()) is None:
                    state = {"step": source.steps, "sums": learned(name, source, data, sums)}
                    checkpoint.save(state)
                of_roles.append(state["sums"])
            rows.append([*of_roles, *unfitted])
    shape = (len(texts), len(parameters.seeds))
    return [
        np.array([[role[place] for role in row] for row in rows])  # [fits, roles, documents]
        .transpose(0, 2, 1)
        .reshape(*shape, len(cell.documents), len(ROLES))
        for place, cell in enumerate(evaluated)
    ]


def sources(parameters: Refits, seed: int) -> Iterator[tuple[str, FittedMask]]:
    """By role, what is fitted with a seed."""
    for role, (position, distances) in FITS.items():
        update = {"position": position, "distances": distances, "seed": seed}
        yield role, parameters.mask.model_copy(update=update)


def learned(name: str, source: FittedMask, data: Any, sums: Any) -> list[list[float]]:
    """Fit a mask, with a progress bar, and evaluate it."""
    from tqdm import tqdm

    from posenc.capture.calibration import position_of, with_mask
    from posenc.capture.mask_fitting import fit

    with tqdm(total=source.steps, unit="step", desc=name, mininterval=5) as progress:
        mask, _ = fit(source, data, progress.update)
    return sums(with_mask(position_of(source)), mask)


def results(parameters: Refits, sums: Floats, tokens: NDArray[np.int64]) -> Refitted:
    """What the fits recover, and what of it is position, over draws and seeds.

    Parameters
    ----------
    parameters
        Of the bootstrap.
    sums
        [draws, seeds, documents, roles]: sums of losses in nats.
    tokens
        [documents]: tokens that are predicted.
    """
    shape = sums.shape[:2]
    means = CrossedMeans(
        sums.reshape(-1, *sums.shape[2:]), tokens, **bootstrap(parameters), per_draw=shape[1]
    )
    place = {role: column for column, role in enumerate(ROLES)}
    whole = adaptation(means, **place)
    has_lost = is_lost(means, place["intact"], place["without"])
    of_fits = means.of_fits.T  # [roles, fits]
    lost = of_fits[place["without"]] - of_fits[place["intact"]]  # [fits]

    def over_fits(estimate: Estimate, values: Floats) -> OverFits:  # [fits]
        cells = values.reshape(shape)  # [draws, seeds]
        spread = spreads(cells)
        return OverFits.model_validate(
            {**Interval.of(estimate).as_json(), **spread, "fits": cells.tolist()}
        )

    gains: dict[str, OverFits | None] = {}
    for name, roles in INTERACTIONS.items():
        values = interaction(*(of_fits[place[role]] for role in roles))  # [fits]
        gains[name] = over_fits(getattr(whole, name), values)
        share = getattr(whole, f"{name}_share")
        gains[f"{name}_share"] = over_fits(share, values / lost) if has_lost else None
    gains["recovered"] = None
    if has_lost:
        columns = [place[role] for role in ("fitted", "without", "intact")]
        gains["recovered"] = over_fits(means.of(recovered, *columns), recovered(*of_fits[columns]))
    nll = {role: Interval.of(means.of(lambda own: own, column)) for role, column in place.items()}
    return Refitted.model_validate(
        {
            "documents": len(tokens),
            "tokens": int(tokens.sum()),
            "draws": shape[0],
            "seeds": shape[1],
            "fitting": parameters.fitting,
            "confidence": parameters.confidence,
            "nll": Losses.model_validate(nll),
            "lost": Interval.of(means.of(np.subtract, place["without"], place["intact"])),
            **gains,
        }
    )


if __name__ == "__main__":
    run(main)
