"""What a study's conditions do to a model: perplexity, recovered share, similarity by layer.

Where documents come in categories, as the questions of TruthfulQA do, the cost of each condition
has an interval over categories too, and that of the model without positions is given by category.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import read_sealed, sha256_file, write_sealed
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.section import Condition, dumped
from posenc.conditions.sweeps import Extrapolation
from posenc.config.base import Name
from posenc.datasets.documents import read_documents
from posenc.measurements.conditions.declaration import MEASUREMENT, Conditions
from posenc.measurements.conditions.evaluations import Evaluations, Fields, intervals, places
from posenc.measurements.conditions.result import (
    Adaptation,
    ByCategory,
    Category,
    DocumentsRead,
    EvaluatedConditions,
    Evaluation,
    LayerCosine,
    LongDocuments,
    Mask,
)
from posenc.measurements.conditions.varied import Sweep, extrapolation, swept
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.measurements.frame import (
    Config,
    Output,
    StudyJob,
    bootstrap,
    provenance,
    result,
)
from posenc.measurements.of_models import DocumentsFolder
from posenc.metrics.categories import CategoryMeans, differences, has_categories
from posenc.metrics.perplexity import share_worse_than_uniform
from posenc.metrics.recovery import (
    PairedMeans,
    adaptation,
    is_lost,
    paired_losses,
    recovered,
)

LONG = replace(MEASUREMENT, name="extrapolation", catalogue=("A5",))
"""What the file of long documents is called."""
PERMUTATIONS = 2000


class Job(StudyJob[Conditions]):
    """What the measurement of one model's evaluations depends on, besides them."""

    extrapolation: Extrapolation | None
    datasets: list[Name]
    conditions: dict[Name, Condition]
    sweeps: dict[Name, Sweep]


def main(
    model: Annotated[str, typer.Option(help="name of the model")],
    config: Config,
    evaluations: Annotated[Path, typer.Option(help="folder of the model's evaluations")],
    masks: Annotated[Path, typer.Option(help="folder of its learned masks")],
    documents: DocumentsFolder,
    output: Output,
) -> None:
    """Write OUTPUT/DATASET.json for each data set, and OUTPUT/long.json."""
    job = read_section(config, Job)
    files = [
        read_sealed(masks / f"{name}.json") for name in read_sealed(masks / "masks.json")["masks"]
    ]
    learned = [
        Mask.model_validate(
            {key: value for key, value in said.items() if key not in ("provenance", "arrays")}
        )
        for said in files
    ]
    for dataset in [*job.datasets, *(["long"] if job.extrapolation else [])]:
        path = evaluations / f"{dataset}.parquet"
        evaluated = Evaluations(path)
        measured: EvaluatedConditions | LongDocuments | NotMeasured
        if job.extrapolation and dataset == "long":
            declared, measured = LONG, extrapolation(job.parameters, job.extrapolation, evaluated)
        else:
            categories = categories_of(documents / path.name, evaluated.documents)
            declared, measured = MEASUREMENT, conditions(job, evaluated, categories, learned)
        made_by = provenance(MEASUREMENT, job.parameters, {"evaluations": sha256_file(path)})
        write_sealed(
            output / f"{dataset}.json",
            {
                **result(declared, {"model": model, "dataset": dataset}, measured),
                "provenance": made_by,
            },
        )


def categories_of(path: Path, documents: list[str]) -> list[str] | None:
    """The category of each document; None where not all have one, or all have the same.

    Parameters
    ----------
    path
        The data set's documents.
    documents
        The names of those that are evaluated.
    """
    table = read_documents(path, columns=["document_id", "category"])
    known = dict(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    assigned = [known.get(name) for name in documents]
    categories = [name for name in assigned if name is not None]
    return categories if len(categories) == len(assigned) and has_categories(assigned) else None


def conditions(
    job: Job, evaluated: Evaluations, categories: list[str] | None, masks: list[Mask]
) -> EvaluatedConditions:
    """The measurement of a data set, whose documents may have categories."""
    parameters, names, metadata = job.parameters, list(job.conditions), evaluated.metadata
    options = bootstrap(parameters)
    tokens = evaluated.units[names[0]]["tokens"].to_numpy()  # [documents]
    is_decoder, losses = metadata["is_decoder"], dict[str, Fields]()
    if is_decoder:
        sums, scored = evaluated.nll(names)
        losses = losses_of(parameters, names, evaluated, sums, scored)
    measured = EvaluatedConditions(
        documents=len(tokens),
        tokens=int(tokens.sum()),
        confidence=parameters.confidence,
        coverage=DocumentsRead.model_validate(metadata["coverage"]),
        is_decoder=is_decoder,
        positions=metadata["positions"],
        vocabulary_size=metadata["vocabulary_size"],
        conditions=[
            Evaluation.model_validate(
                {
                    "condition": name,
                    "spec": dumped(job.conditions[name]),
                    "precision": metadata["precision"][name],
                    "layers": layers(PairedMeans(evaluated.cosines(name), tokens, **options)),
                    **losses.get(name, {}),
                }
            )
            for name in names
        ],
        categories=None,
        sweeps={name: swept(sweep, evaluated, options) for name, sweep in job.sweeps.items()},
        masks=masks,
    )
    if not is_decoder:
        return measured
    of_decoder = {"scored_tokens": int(scored.sum()), "bos": metadata["bos"]}
    if categories is not None and {INTACT, WITHOUT} <= set(names):
        costs = by_category(parameters, names, sums, scored, categories)
        return measured.model_copy(update={**of_decoder, "categories": costs})
    return measured.model_copy(update=of_decoder)


def layers(cosines: PairedMeans) -> list[LayerCosine]:
    """Mean cosine of each layer."""
    own = [Interval.of(cosines.of(lambda mean: mean, k)) for k in range(len(cosines.value))]
    return [
        LayerCosine(layer=layer, value=cosine.value, low=cosine.low, high=cosine.high)
        for layer, cosine in enumerate(own)
    ]


def losses_of(
    parameters: Conditions,
    names: list[str],
    evaluated: Evaluations,
    sums: NDArray[np.float64],
    scored: NDArray[np.int64],
) -> dict[str, Fields]:
    """By condition, the loss of a decoder and what follows from it.

    Parameters
    ----------
    parameters, names, evaluated
        Of the measurement, the conditions, and what it reads.
    sums, scored
        Losses, float64 [documents, conditions], and the tokens that were scored, int64 [documents].
    """
    options = bootstrap(parameters)
    means = PairedMeans(sums, scored, **options)
    utf8 = evaluated.losses(names[0]).utf8_bytes  # [documents]
    bits = PairedMeans(sums / np.log(2), utf8, **options)
    others = places(names, {INTACT: INTACT, WITHOUT: WITHOUT})
    vocabulary = evaluated.metadata["vocabulary_size"]

    def worse_than_uniform(name: str) -> Interval:
        nll = evaluated.losses(name).token_nll  # [scored tokens]
        return Interval.of(share_worse_than_uniform(nll, scored, vocabulary, **options))

    return {
        name: {
            **intervals(paired_losses(means, column, *others)._asdict()),
            "bits_per_byte": Interval.of(bits.of(lambda mean: mean, column)),
            "worse_than_uniform": worse_than_uniform(name),
            "adaptation": adapted(name, parameters, names, means),
        }
        for column, name in enumerate(names)
    }


def by_category(
    parameters: Conditions,
    names: list[str],
    sums: NDArray[np.float64],
    scored: NDArray[np.int64],
    categories: list[str],
) -> ByCategory:
    """What conditions cost over categories of documents, and what each category loses.

    Parameters
    ----------
    parameters
        Of the measurement.
    names
        Conditions, :data:`INTACT` and :data:`WITHOUT` among them.
    sums, scored
        Losses, float64 [documents, conditions], and the tokens that were scored, int64 [documents].
    categories
        [documents]: of each.
    """
    options = bootstrap(parameters)
    intact, without = names.index(INTACT), names.index(WITHOUT)
    means = CategoryMeans(sums, scored, categories, **options)
    has_lost = is_lost(means, intact, without)
    cost = sums[:, without] - sums[:, intact]  # [documents]
    tested = differences(cost, scored, categories, permutations=PERMUTATIONS, **options)
    return ByCategory(
        condition=WITHOUT,
        delta_nll={
            name: Interval.of(means.of(np.subtract, column, intact))
            for column, name in enumerate(names)
            if column != intact
        },
        recovered={
            name: Interval.of(means.of(recovered, column, without, intact)) if has_lost else None
            for column, name in enumerate(names)
            if column not in (intact, without)
        },
        adaptation={name: adapted(name, parameters, names, means) for name in names},
        variance=tested.variance,
        expected=tested.expected,
        permutations=PERMUTATIONS,
        p_value=tested.p_value,
        categories=[
            Category(category=str(name), documents=int(count), delta_nll=mean, p_value=float(p))
            for name, count, mean, p in zip(
                tested.names,
                tested.documents,
                Interval.each(tested.mean),
                tested.p_values,
                strict=True,
            )
        ],
    )


def adapted(
    condition: str, parameters: Conditions, names: list[str], means: PairedMeans
) -> Adaptation | None:
    """How much of a fitted mask's gain is position; None where it has no controls here."""
    controls = parameters.controls.get(condition)
    if controls is None:
        return None
    of = {
        "fitted": condition,
        "fitted_intact": controls.intact,
        "placebo": controls.placebo,
        "placebo_intact": controls.placebo_intact,
        "without": WITHOUT,
        "intact": INTACT,
    }
    if not set(of.values()) <= set(names):
        return None
    columns = {role: names.index(name) for role, name in of.items()}
    return Adaptation.model_validate(intervals(adaptation(means, **columns)._asdict()))


if __name__ == "__main__":
    run(main)
