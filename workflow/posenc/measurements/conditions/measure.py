"""What a study's conditions do to a model: perplexity, recovered share, similarity by layer.

Where documents come in categories, as the questions of TruthfulQA do, the cost of each condition
has an interval over categories too, and that of the model without positions is given by category.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, write_sealed
from posenc.artifacts.tables import read_table
from posenc.conditions.section import Condition, dumped
from posenc.conditions.sweeps import Extrapolation
from posenc.config.base import Name, Section
from posenc.datasets.documents import read_documents
from posenc.measurements.frame import Config, Output, StudyJob, bootstrap, provenance
from posenc.measurements.of_models import DocumentsFolder
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
from posenc.measurements.conditions.declaration import MEASUREMENT, Conditions

INTACT, WITHOUT = "intact", "zero"
PERMUTATIONS = 2000


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
    learned = [
        {key: value for key, value in read_sealed(masks / f"{name}.json").items()
         if key not in ("provenance", "arrays")}
        for name in read_sealed(masks / "masks.json")["masks"]
    ]  # fmt: skip
    for dataset in [*job.datasets, *(["long"] if job.extrapolation else [])]:
        path = evaluations / f"{dataset}.parquet"
        evaluated = Evaluations(path)
        write_sealed(
            output / f"{dataset}.json",
            {
                "schema": MEASUREMENT.schema,
                "measurement": "extrapolation" if dataset == "long" else "conditions",
                "catalogue": ["A5"] if dataset == "long" else list(MEASUREMENT.catalogue),
                "run": {"model": model, "dataset": dataset},
                "confidence": job.parameters.confidence,
                **(
                    extrapolation(job, job.extrapolation, evaluated)
                    if job.extrapolation and dataset == "long"
                    else conditions(
                        job, evaluated, categories_of(documents / path.name, evaluated.documents)
                    )
                ),
                **({} if dataset == "long" else {"masks": learned}),
                "provenance": provenance(
                    MEASUREMENT, job.parameters, {"evaluations": sha256_file(path)}
                ),
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


def conditions(job: Job, evaluated: Evaluations, categories: list[str] | None) -> dict[str, Any]:
    """The measurement of a data set, whose documents may have categories."""
    names = list(job.conditions)
    parameters, is_decoder = job.parameters, evaluated.metadata["is_decoder"]
    options = bootstrap(parameters)
    tokens = evaluated.units[names[0]]["tokens"].to_numpy()  # [documents]
    entries = [
        {
            "condition": name,
            "spec": dumped(job.conditions[name]),
            "precision": evaluated.metadata["precision"][name],
        }
        for name in names
    ]
    for name, entry in zip(names, entries, strict=True):
        cosines = PairedMeans(evaluated.cosines(name), tokens, **options)
        entry["layers"] = [
            cosines.of(lambda value: value, layer).as_json() | {"layer": layer}
            for layer in range(len(cosines.value))
        ]
    out: dict[str, Any] = {
        "status": "measured",
        "reason": None,
        "documents": len(tokens),
        "tokens": int(tokens.sum()),
        "coverage": evaluated.metadata["coverage"],
        "is_decoder": is_decoder,
        "positions": evaluated.metadata["positions"],
        "vocabulary_size": evaluated.metadata["vocabulary_size"],
        "conditions": entries,
        "categories": None,
        "sweeps": {},
    }
    if is_decoder:
        sums, scored = evaluated.nll(names)
        means = PairedMeans(sums, scored, **options)
        utf8 = evaluated.losses(names[0]).utf8_bytes  # [documents]
        bits = PairedMeans(sums / np.log(2), utf8, **options)
        for column, entry in enumerate(entries):
            entry.update(
                paired_losses(means, column, *places(names, {INTACT: INTACT, WITHOUT: WITHOUT}))
            )
            entry["bits_per_byte"] = bits.of(lambda value: value, column).as_json()
            entry["worse_than_uniform"] = share_worse_than_uniform(
                evaluated.losses(names[column]).token_nll, scored, out["vocabulary_size"], **options
            ).as_json()
        for entry in entries:
            entry["adaptation"] = adapted(entry["condition"], parameters, names, means)
        out["scored_tokens"] = int(scored.sum())
        out["bos"] = evaluated.metadata["bos"]
        if categories is not None and {INTACT, WITHOUT} <= set(names):
            out["categories"] = by_category(parameters, names, sums, scored, categories)
    for name, sweep in job.sweeps.items():
        out["sweeps"][name] = swept(sweep, evaluated, options)
    return out


def by_category(
    parameters: Conditions,
    names: list[str],
    sums: NDArray[np.float64],
    scored: NDArray[np.int64],
    categories: list[str],
) -> dict[str, Any]:
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
    return {
        "condition": WITHOUT,
        "delta_nll": {
            name: means.of(np.subtract, column, intact).as_json()
            for column, name in enumerate(names)
            if column != intact
        },
        "recovered": {
            name: means.of(recovered, column, without, intact).as_json() if has_lost else None
            for column, name in enumerate(names)
            if column not in (intact, without)
        },
        "adaptation": {name: adapted(name, parameters, names, means) for name in names},
        "variance": tested.variance,
        "expected": tested.expected,
        "permutations": PERMUTATIONS,
        "p_value": tested.p_value,
        "categories": [
            {"category": str(name), "documents": int(count), "delta_nll": mean, "p_value": float(p)}
            for name, count, mean, p in zip(
                tested.names, tested.documents, tested.mean.as_json(), tested.p_values, strict=True
            )
        ],
    }


def places(units: list[str], base: dict[str, str | None]) -> list[int | None]:
    """Columns of the conditions that others are compared with; None for one that is missing."""
    wanted = [base[name] or "" for name in (INTACT, WITHOUT)]
    return [units.index(unit) if unit in units else None for unit in wanted]


def adapted(
    condition: str, parameters: Conditions, names: list[str], means: PairedMeans
) -> dict[str, Any] | None:
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
    return adaptation(means, **{role: names.index(name) for role, name in of.items()})


def swept(sweep: Sweep, evaluated: Evaluations, options: dict) -> dict[str, Any]:
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
            row = {"condition": name, "value": value}
            last = PairedMeans(evaluated.cosines(unit)[:, -1:], cosine_tokens, **options)
            row["last_cosine"] = last.of(lambda own: own, 0).as_json()
            if means is not None:
                column = order.index(unit)
                row.update(paired_losses(means, column, *places(order, base)))
            rows.append(row)
    return {"key": sweep.key, "rows": rows}


def extrapolation(job: Job, beyond: Extrapolation, evaluated: Evaluations) -> dict[str, Any]:
    """Loss by position in documents that are longer than the model was trained for."""
    units = [name for name in beyond.conditions if name in evaluated.units]
    documents = len(evaluated.units[units[0]]) if units else 0
    if not evaluated.metadata["is_decoder"] or documents < 2:
        reason = "no language-model head"
        if evaluated.metadata["is_decoder"]:
            reason = f"{documents} documents of {beyond.tokens} tokens"
            if not units:
                reason = f"the model reads {beyond.tokens} tokens or more as it is"
        return {"status": "not run", "reason": reason, "documents": documents, "tokens": 0}
    losses = {
        unit: np.array(evaluated.units[unit]["nll"].to_pylist(), np.float64) for unit in units
    }  # [documents, tokens - 1] each
    options = bootstrap(job.parameters)
    against = losses.get(beyond.against or "")
    has_both = {INTACT, WITHOUT} <= set(losses)

    def shares(own: NDArray[np.float64]) -> list[dict[str, Any] | None]:
        """What a condition recovers of the loss without positions, by bucket."""
        columns = (own, losses[WITHOUT], losses[INTACT])
        buckets = recovered_by_bucket(columns, beyond.bucket, **options)
        return [None if share is None else share.as_json() for share in buckets]

    rows = [
        {
            "condition": unit,
            "precision": evaluated.metadata["precision"][unit],
            "buckets": [
                {"from": begin + 1, "to": end + 1, "nll_per_token": estimate.as_json()}
                for begin, end, estimate in by_bucket(own, beyond.bucket, **options)
            ],
            # For conditions other than the two that define the share.
            "recovered": shares(own) if has_both and unit not in (INTACT, WITHOUT) else None,
            # On the same tokens: one interval of the difference, not two wide ones.
            "difference": None
            if against is None
            else by_bucket(own - against, beyond.bucket, **options)[-1][-1].as_json(),
        }
        for unit, own in losses.items()
    ]
    return {
        "status": "measured",
        "reason": None,
        "documents": documents,
        "tokens": documents * losses[units[0]].shape[1],
        "against": beyond.against if against is not None else None,
        "trained_tokens": evaluated.metadata["units"][units[0]]["parameters"]["reading"][
            "max_tokens"
        ],
        "conditions": rows,
    }


if __name__ == "__main__":
    run(main)
