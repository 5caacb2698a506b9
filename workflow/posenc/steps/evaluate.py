"""Evaluate a model under all conditions and sweeps of a study, without keeping activations.

What was evaluated of the same inputs by the same code is kept, and a run that is stopped goes on
with the documents that it has finished.
"""

from __future__ import annotations

import functools
import itertools
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from tqdm import tqdm

from posenc.artifacts.command import read_section, run
from posenc.artifacts.evaluations import OUTCOMES, SCHEMA, read
from posenc.artifacts.files import atomic_file, read_json, read_sealed, sha256_json
from posenc.artifacts.precision import SAMPLE_TOKENS, Precision, loss_error, note
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.tables import write_table
from posenc.conditions.learned import LearnedMask
from posenc.conditions.learned import read as read_mask
from posenc.conditions.section import Condition
from posenc.config.base import Name, Section
from posenc.models.files import CONFIG, model_digests
from posenc.models.section import Reading
from posenc.tokens.coverage import coverage_of
from posenc.tokens.packing import packs_of
from posenc.tokens.tokenized import Tokens

CHUNK_TOKENS = 16384
"""Tokens of the documents after which finished work is written down."""


class Unit(Section):
    """A condition, with the length that documents are cut to; null for as they are."""

    condition: Condition
    tokens: int | None = None


class Job(Section):
    """What the evaluations of one model depend on, beside its files, tokens and masks."""

    reading: Reading
    device: str
    precision: Literal["exact", "fast"]
    batch_tokens: int
    documents: int | None
    special_tokens: bool
    datasets: list[Name]
    units: dict[str, Unit]
    long: dict[str, Unit]
    """Units of the long documents."""


def main(
    model: Annotated[str, typer.Option(help="its name")],
    config: Annotated[Path, typer.Option(help="data/config/evaluate/MODEL.json")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    tokens: Annotated[Path, typer.Option(help="folder of its tokens")],
    masks: Annotated[Path, typer.Option(help="folder of its learned masks")],
    output: Annotated[Path, typer.Option(help="folder of its evaluations")],
    long: Annotated[Path | None, typer.Option(help="tokens of long documents")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write OUTPUT/DATASET.parquet for each data set, and OUTPUT/long.parquet of long documents."""
    job = read_section(config, Job)
    digests = read_sealed(masks / "masks.json")["masks"]
    common = {
        **model_digests(weights),
        "parameters": job.model_dump(exclude={"datasets", "units", "long"}),
        "versions": versions("torch", "transformers", "numpy"),
        "code": code_digest("posenc.steps.evaluate"),
    }
    sources = [(dataset, tokens / f"{dataset}.parquet", job.units) for dataset in job.datasets]
    all_sources = [
        _Source(name, output / f"{name}.parquet", Tokens(path), units, common, digests, job)
        for name, path, units in [*sources, *([("long", long, job.long)] if long else [])]
    ]
    todo = {name: unit.condition for source in all_sources for name, unit in source.todo.items()}
    learned = {
        mask: read_mask(masks / f"{mask}.safetensors")[0]
        for mask in sorted({mask for source in all_sources for mask in source.masks()})
    }
    network = _Network(weights, job, threads, todo, learned)
    precision = computed_in(network, all_sources)
    for source in all_sources:
        if not source.is_due():
            continue
        digest = sha256_json({unit: source.identities[unit] for unit in source.todo})[:16]
        partial = output.parents[1] / "captures" / f"{model}.{source.name}.{digest}"
        rows = evaluate(network, source, partial, f"{model} {source.name}") if source.todo else []
        write_table(
            source.table(rows),
            source.target,
            {
                "schema": SCHEMA,
                "model": model,
                "dataset": source.name,
                "is_decoder": job.reading.is_decoder,
                "positions": job.reading.positions,
                "vocabulary_size": network.vocabulary_size,
                "bos": source.text.metadata["bos"],
                "coverage": coverage_of(source.text.table)._asdict(),
                "units": source.identities,
                "precision": {
                    unit: source.kept[unit].precision
                    if unit in source.kept
                    else precision[source.name][unit]
                    for unit in source.units
                },
            },
        )
        # This one's, and what was left of other inputs or code.
        for old in partial.parent.glob(f"{model}.{source.name}.*"):
            shutil.rmtree(old)


class _Source:
    """The documents of a data set, or the long ones, and what there is to do with them."""

    def __init__(
        self,
        name: str,
        target: Path,
        text: Tokens,
        units: dict[str, Unit],
        common: Mapping[str, object],
        digests: dict[str, str],
        job: Job,
    ) -> None:
        self.name, self.target, self.text, self.units = name, target, text, units
        self.identities = {
            unit: {
                **common,
                "tokens": text.digest,
                "unit": section.model_dump(),
                "masks": {mask: digests[mask] for mask in section.condition.masks()},
            }
            for unit, section in units.items()
        }
        recorded = read(target)
        self.is_whole, self.recorded = recorded is not None, recorded or {}
        self.kept = {
            unit: self.recorded[unit]
            for unit, identity in self.identities.items()
            if unit in self.recorded and self.recorded[unit].identity == identity
        }
        self.todo = {unit: section for unit, section in units.items() if unit not in self.kept}
        if self.kept:
            line = f"{target}: {len(self.kept)} of {len(units)} are current and kept"
            print(line, file=sys.stderr)
        self.chosen = np.arange(len(text.ids))[: job.documents]
        if name == "long":
            self.chosen = np.flatnonzero(text.lengths == text.metadata["max_tokens"])

    def is_due(self) -> bool:
        """Whether its file has to be written."""
        return bool(self.todo) or not self.is_whole or self.recorded.keys() != self.units.keys()

    def masks(self) -> set[str]:
        """Learned masks that it needs."""
        return {mask for unit in self.todo.values() for mask in unit.condition.masks()}

    def table(self, rows: list[pa.Table]) -> pa.Table:
        """What is kept and what is new, in the order of the units."""
        table = pa.concat_tables(
            [OUTCOMES.empty_table(), *(kept.rows for kept in self.kept.values()), *rows]
        )
        order = {unit: place for place, unit in enumerate(self.units)}
        places = pa.array([order[unit] for unit in table["unit"].to_pylist()], pa.int32())
        return table.append_column("place", places).sort_by("place").drop_columns("place")

    def by_length(self) -> Iterator[tuple[int | None, dict[str, Condition]]]:
        """What there is to do, by the length that documents are cut to; None for as they are."""
        for tokens in sorted({unit.tokens or 0 for unit in self.todo.values()}):
            yield (
                tokens or None,
                {n: u.condition for n, u in self.todo.items() if (u.tokens or 0) == tokens},
            )


class _Sample(NamedTuple):
    """Some documents under a unit.

    Attributes
    ----------
    nll
        float32 [scored tokens]; empty for an encoder.
    cosine
        float64 [n_layers + 1]: sums over tokens.
    tokens
        How many.
    """

    nll: np.ndarray
    cosine: np.ndarray
    tokens: int


def computed_in(network: _Network, sources: list[_Source]) -> dict[str, dict[str, Precision]]:
    """Let the model compute as the parameters say.

    Returns
    -------
    By source and unit that there is to do: its precision. Fast units are compared with float32 on
    the first documents. Where bfloat16 is slower than float32, all are exact.
    """
    from posenc.models.rates import is_quicker_in_bfloat16

    is_exact = network.job.precision == "exact" or not any(s.todo for s in sources)
    if is_exact or not is_quicker_in_bfloat16(network.model):
        return {s.name: {unit: {"mode": "exact"} for unit in s.todo} for s in sources}

    def samples(source: _Source) -> dict[str, _Sample]:
        packs = packs_of(source.text.lengths, source.chosen, SAMPLE_TOKENS)
        documents = np.array(next(packs).documents if len(source.chosen) else [], int)
        rows = _rows(network, source, documents)
        results = {}
        for unit in source.todo:
            mine = [row for row in rows if row["unit"] == unit]
            results[unit] = _Sample(
                nll=np.concatenate([row["nll"] for row in mine] or [np.empty(0)]),
                cosine=np.sum([row["cosine"] for row in mine], axis=0),
                tokens=sum(row["tokens"] for row in mine),
            )
        return results

    exact = {source.name: samples(source) for source in sources}
    network.quicken()
    precision: dict[str, dict[str, Precision]] = {}
    for source in sources:
        fast = samples(source)
        precision[source.name] = {
            unit: _precision(fast[unit], exact[source.name][unit]) for unit in fast
        }
        line = note(precision[source.name].values())
        if line:
            print(f"{source.name}: {line}", file=sys.stderr)
    return precision


def _precision(fast: _Sample, exact: _Sample) -> Precision:
    """How far sums of cosines and losses are from those in float32."""
    precision: Precision = {
        "mode": "fast",
        "tokens": int(exact.tokens),
        **loss_error(fast.nll, exact.nll),
    }
    if exact.tokens:
        difference = np.abs(fast.cosine - exact.cosine) / exact.tokens  # [n_layers + 1]
        precision["cosine_difference"] = difference.tolist()
    return precision


class _Network:
    """The model, what it is evaluated under, and its learned masks.

    It is loaded when it is first needed: a run in which all is current imports no torch.
    """

    def __init__(
        self,
        weights: Path,
        job: Job,
        threads: int,
        conditions: dict[str, Condition],
        masks: dict[str, LearnedMask],
    ) -> None:
        self.weights, self.job, self.threads = weights, job, threads
        self.conditions, self.masks = conditions, masks
        self.is_fast = False

    @property
    def vocabulary_size(self) -> int:
        """Tokens of its vocabulary."""
        return read_json(self.weights / CONFIG)["vocab_size"]

    @functools.cached_property
    def model(self):
        """The model, which all conditions fit."""
        from posenc.capture.interventions import check_conditions
        from posenc.models.affine import load_ready

        job, is_kept = self.job, self.job.precision == "fast"
        model = load_ready(self.weights, job.reading.family, job.device, self.threads, is_kept)
        check_conditions(model, self.conditions, self.masks)
        return model

    def quicken(self) -> None:
        """Let the model compute in bfloat16 from now on."""
        from posenc.capture.fast import faster

        faster(self.model)
        self.is_fast = True


def evaluate(network: _Network, source: _Source, partial: Path, label: str) -> list[pa.Table]:
    """Evaluate what there is to do with a source, some documents at a time."""
    lengths = source.text.lengths[source.chosen]
    tables = []
    total = int(lengths.sum()) * len(source.todo)
    with tqdm(total=total, unit="token", desc=label, mininterval=5) as bar:
        for number, part in enumerate(_chunks(lengths)):
            path = partial / f"{number:05d}.parquet"
            table = _finished(path)
            if table is None:
                table = pa.Table.from_pylist(
                    _rows(network, source, source.chosen[part], bar), OUTCOMES
                )
                with atomic_file(path) as temporary:
                    pq.write_table(table, temporary)
            else:
                bar.update(int(lengths[part].sum()) * len(source.todo))
            tables.append(table)
    return tables


def _finished(path: Path) -> pa.Table | None:
    """What an earlier try wrote down, if it is whole."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid):
        return None
    print(f"note: {path.name} of {path.parent.name} is finished already", file=sys.stderr)
    return table


def _chunks(lengths: np.ndarray) -> list[slice]:
    if not len(lengths):
        return []
    ends = np.searchsorted(
        np.cumsum(lengths), np.arange(CHUNK_TOKENS, lengths.sum() + CHUNK_TOKENS, CHUNK_TOKENS)
    )
    edges = np.unique([0, *np.minimum(ends + 1, len(lengths))])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def _rows(network: _Network, source: _Source, chosen: np.ndarray, bar=None) -> list[dict]:
    """Outcomes of chosen documents, int64 [documents], under all units that there are to do."""
    from posenc.architectures.float32 import exactly_if

    rows = []
    with exactly_if(not network.is_fast, network.model):
        for tokens, conditions in source.by_length():
            rows += _rows_of_length(network, source.text, chosen, tokens, conditions, bar)
    return rows


def _rows_of_length(network, text, chosen, tokens, conditions, bar) -> list[dict]:
    from posenc.capture.evaluation import evaluate as outcomes

    job = network.job
    ids = [text.ids[index][:tokens] for index in chosen]
    special = [text.table["special"][int(index)].as_py()[:tokens] for index in chosen]
    counted = [[job.special_tokens or not flag for flag in flags] for flags in special]
    names = text.table["document_id"]
    rows = []
    for unit, outcome in outcomes(
        network.model, ids, counted, conditions, network.masks, job.batch_tokens, progress=bar
    ):
        index = int(chosen[outcome.document])
        rows.append(
            {
                "unit": unit,
                "document_id": names[index].as_py(),
                "nll": outcome.nll,
                "bytes": scored_bytes(text, index, tokens),
                "tokens": sum(counted[outcome.document]),
                "cosine": outcome.cosine,
            }
        )
    return sorted(rows, key=lambda row: row["document_id"])


def scored_bytes(text: Tokens, index: int, tokens: int | None) -> int | None:
    """UTF-8 bytes of the text of a document's tokens; null where it is cut.

    The text is not at hand here, so that the bytes of a part of it are not known.
    """
    is_whole = tokens is None or len(text.ids[index]) <= tokens
    return text.table["bytes"][index].as_py() if is_whole else None


if __name__ == "__main__":
    run(main)
