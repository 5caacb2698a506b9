"""What a study's conditions do to a model: perplexity, recovered share, similarity by layer.

Where documents come in categories, as the questions of TruthfulQA do, the cost of each condition
has an interval over categories too, and that of the model without positions is given by category.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, write_sealed
from posenc.artifacts.results import Interval, NotMeasured
from posenc.artifacts.tables import read_table
from posenc.conditions.section import Condition, dumped
from posenc.conditions.sweeps import Extrapolation
from posenc.config.base import Name, Section
from posenc.datasets.documents import read_documents
from posenc.measurements.conditions.declaration import MEASUREMENT, Conditions
from posenc.measurements.conditions.result import (
    Adaptation,
    Bucket,
    ByCategory,
    Category,
    DocumentsRead,
    EvaluatedConditions,
    Evaluation,
    LayerCosine,
    LongDocuments,
    LongEvaluation,
    Mask,
    SweepPoint,
    SweepPoints,
)
from posenc.measurements.declaration import INTACT, WITHOUT
from posenc.measurements.frame import (
    Config,
    Output,
    Resampling,
    StudyJob,
    bootstrap,
    provenance,
    result,
)
from posenc.measurements.of_models import DocumentsFolder
from posenc.metrics.bootstrap import Estimate
from posenc.metrics.categories import CategoryMeans, differences, has_categories
from posenc.metrics.perplexity import share_worse_than_uniform
from posenc.metrics.recovery import (
    PairedMeans,
    adaptation,
    by_bucket,
    is_lost,
    paired_losses,
    recovered,
    recovered_by_bucket,
)
from posenc.store.losses import Losses

if TYPE_CHECKING:
    import pyarrow as pa

LONG = replace(MEASUREMENT, name="extrapolation", catalogue=("A5",))
"""What the file of long documents is called."""
PERMUTATIONS = 2000
Fields = dict[str, Interval | Adaptation | None]
"""Parts of results that a decoder alone has, by field."""


class Sweep(Section):
    """One sweep: what is varied, and the unit of each condition and value."""

    key: str
    units: dict[Name, dict[str, float]]
    """By condition: unit and value."""


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
            declared, measured = LONG, extrapolation(job, job.extrapolation, evaluated)
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


class Evaluations:
    """The evaluations of a model on one data set.

    Attributes
    ----------
    metadata
        What the file says of itself.
    units
        Table of each unit, documents in the same order.
    documents
        Their names.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.compute as pc

        table, self.metadata = read_table(path)
        self.path = path
        self._losses: dict[str, Losses] = {}
        self.units: dict[str, pa.Table] = {
            unit: table.filter(pc.equal(table["unit"], unit)).sort_by("document_id")
            for unit in self.metadata["units"]
        }

    @property
    def documents(self) -> list[str]:
        return next(iter(self.units.values()))["document_id"].to_pylist()

    def nll(self, units: list[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Sums of losses, [documents, units], and scored tokens, [documents].

        Raises
        ------
        ArtifactError
            If the units did not score the same tokens.
        """
        first = self.losses(units[0]).tokens  # [documents]
        for unit in units:
            if not np.array_equal(self.losses(unit).tokens, first):
                raise ArtifactError(
                    f"{self.path}: {unit} and {units[0]} scored different tokens; "
                    f"delete the file and rerun"
                )
        return np.stack([self.losses(unit).nll for unit in units], axis=1), first

    def losses(self, unit: str) -> Losses:
        """Losses of a unit."""
        if unit not in self._losses:
            self._losses[unit] = Losses(self.units[unit])
        return self._losses[unit]

    def cosines(self, unit: str) -> NDArray[np.float64]:
        """Sums of cosines, [documents, n_layers + 1]."""
        return np.array(self.units[unit]["cosine"].to_pylist())


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


def intervals(estimates: Mapping[str, Estimate | None]) -> Fields:
    """Estimates by field."""
    return {
        name: None if estimate is None else Interval.of(estimate)
        for name, estimate in estimates.items()
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


def places(units: list[str], base: dict[str, str | None]) -> list[int | None]:
    """Columns of the conditions that others are compared with; None for one that is missing."""
    wanted = [base[name] or "" for name in (INTACT, WITHOUT)]
    return [units.index(unit) if unit in units else None for unit in wanted]


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


def swept(sweep: Sweep, evaluated: Evaluations, options: Resampling) -> SweepPoints:
    """One row per condition and value."""
    rows = []
    values = sorted({value for units in sweep.units.values() for value in units.values()})
    for value in values:
        units = {
            name: unit
            for name, by_unit in sweep.units.items()
            for unit, own in by_unit.items()
            if own == value
        }
        # With another length, the conditions to compare with have it too.
        base = {}
        for name in (INTACT, WITHOUT):
            unit = units.get(name) if sweep.key == "tokens" else name
            base[name] = unit if unit in evaluated.units else None
        order = list(dict.fromkeys([*units.values(), *filter(None, base.values())]))
        cosine_tokens = evaluated.units[order[0]]["tokens"].to_numpy()
        means = None
        if evaluated.metadata["is_decoder"]:
            sums, scored = evaluated.nll(order)
            means = PairedMeans(sums, scored, **options)
        for name, unit in units.items():
            last = PairedMeans(evaluated.cosines(unit)[:, -1:], cosine_tokens, **options)
            losses: Fields = {}
            if means is not None:
                column = order.index(unit)
                losses = intervals(paired_losses(means, column, *places(order, base))._asdict())
            point = {
                "condition": name,
                "value": value,
                "last_cosine": Interval.of(last.of(lambda own: own, 0)),
            }
            rows.append(SweepPoint.model_validate({**point, **losses}))
    return SweepPoints(key=sweep.key, rows=rows)


def extrapolation(
    job: Job, beyond: Extrapolation, evaluated: Evaluations
) -> LongDocuments | NotMeasured:
    """Loss by position in documents that are longer than the model was trained for."""
    units = [name for name in beyond.conditions if name in evaluated.units]
    documents = len(evaluated.units[units[0]]) if units else 0
    if not evaluated.metadata["is_decoder"] or documents < 2:
        reason = "no language-model head"
        if evaluated.metadata["is_decoder"]:
            reason = f"{documents} documents of {beyond.tokens} tokens"
            if not units:
                reason = f"the model reads {beyond.tokens} tokens or more as it is"
        confidence = job.parameters.confidence
        return NotMeasured(reason=reason, documents=documents, confidence=confidence)
    losses = {
        unit: np.array(evaluated.units[unit]["nll"].to_pylist(), np.float64) for unit in units
    }  # [documents, tokens - 1] each
    options = bootstrap(job.parameters)
    against = losses.get(beyond.against or "")
    has_both = {INTACT, WITHOUT} <= set(losses)

    def shares(own: NDArray[np.float64]) -> list[Interval | None]:
        """What a condition recovers of the loss without positions, by bucket."""
        columns = (own, losses[WITHOUT], losses[INTACT])
        buckets = recovered_by_bucket(columns, beyond.bucket, **options)
        return [None if share is None else Interval.of(share) for share in buckets]

    return LongDocuments(
        documents=documents,
        tokens=documents * losses[units[0]].shape[1],
        confidence=job.parameters.confidence,
        against=beyond.against if against is not None else None,
        trained_tokens=evaluated.metadata["units"][units[0]]["parameters"]["reading"]["max_tokens"],
        conditions=[
            LongEvaluation(
                condition=unit,
                precision=evaluated.metadata["precision"][unit],
                buckets=[
                    Bucket(begin=begin + 1, to=end + 1, nll_per_token=Interval.of(estimate))
                    for begin, end, estimate in by_bucket(own, beyond.bucket, **options)
                ],
                # For conditions other than the two that define the share.
                recovered=shares(own) if has_both and unit not in (INTACT, WITHOUT) else None,
                # On the same tokens: one interval of the difference, not two wide ones.
                difference=None
                if against is None
                else Interval.of(by_bucket(own - against, beyond.bucket, **options)[-1][-1]),
            )
            for unit, own in losses.items()
        ],
    )


if __name__ == "__main__":
    run(main)
