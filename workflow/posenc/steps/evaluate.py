"""Evaluate a model under all conditions and sweeps of a study, without keeping activations.

What was evaluated of the same inputs by the same code is kept, and a run that is stopped goes on
with the documents that it has finished.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from tqdm import tqdm

from posenc.config.base import Name, Section
from posenc.config.conditions import Condition
from posenc.config.models import Reading
from posenc.files import ArtifactError, atomic_file, read_json, read_sealed, sha256_json
from posenc.learned import LearnedMask
from posenc.learned import read as read_mask
from posenc.provenance import code_digest, versions
from posenc.runs import CONFIG, Tokens, model_digests
from posenc.steps.common import read_section, run
from posenc.store import read_table, write_table

SCHEMA = 1
CHUNK_TOKENS = 16384
"""Tokens of the documents after which finished work is written down."""
OUTCOMES = pa.schema(
    [
        ("unit", pa.string()),
        ("document_id", pa.string()),
        ("nll", pa.list_(pa.float32())),
        ("bytes", pa.int64()),
        ("tokens", pa.int32()),
        ("cosine", pa.list_(pa.float64())),
    ]
)
"""A row a unit and document: losses in nats, UTF-8 bytes of the scored text, tokens counted for the
cosine, and by hidden state the sum of their cosines with the intact model."""


class Unit(Section):
    """A condition, with the length that documents are cut to; null for as they are."""

    condition: Condition
    tokens: int | None = None


class Job(Section):
    """What the evaluations of one model depend on, beside its files, tokens and masks."""

    reading: Reading
    device: str
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
    long: Annotated[Path, typer.Option(help="tokens of long documents")],
    masks: Annotated[Path, typer.Option(help="folder of its learned masks")],
    output: Annotated[Path, typer.Option(help="folder of its evaluations")],
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write OUTPUT/DATASET.parquet for each data set, and OUTPUT/long.parquet."""
    job = read_section(config, Job)
    digests = read_sealed(masks / "masks.json")["masks"]
    common = {
        **model_digests(weights),
        "parameters": job.model_dump(exclude={"datasets", "units", "long"}),
        "versions": versions("torch", "transformers", "numpy"),
        "code": code_digest("posenc.steps.evaluate"),
    }
    network = _Network(weights, job, threads)
    sources = [(dataset, tokens / f"{dataset}.parquet", job.units) for dataset in job.datasets]
    for name, path, units in [*sources, ("long", long, job.long)]:
        text = Tokens(path)
        identities = {
            unit: {
                **common,
                "tokens": text.digest,
                "unit": section.model_dump(),
                "masks": {mask: digests[mask] for mask in section.condition.masks()},
            }
            for unit, section in units.items()
        }
        target = output / f"{name}.parquet"
        recorded = read(target)
        is_whole, recorded = recorded is not None, recorded or {}
        kept = {unit: recorded[unit][1] for unit, identity in identities.items()
                if unit in recorded and recorded[unit][0] == identity}  # fmt: skip
        todo = {unit: section for unit, section in units.items() if unit not in kept}
        if kept:
            print(f"{target}: {len(kept)} of {len(units)} are current and kept", file=sys.stderr)
        if todo or not is_whole or recorded.keys() != units.keys():
            digest = sha256_json({unit: identities[unit] for unit in todo})[:16]
            partial = output.parents[1] / "captures" / f"{model}.{name}.{digest}"
            rows = []
            if todo:
                chosen = np.arange(len(text.ids))[: job.documents]
                if name == "long":
                    chosen = np.flatnonzero(text.lengths == text.metadata["max_tokens"])
                rows = evaluate(network, text, todo, masks, job, chosen, partial, f"{model} {name}")
            table = pa.concat_tables([OUTCOMES.empty_table(), *kept.values(), *rows])
            order = {unit: place for place, unit in enumerate(units)}
            places = pa.array([order[unit] for unit in table["unit"].to_pylist()], pa.int32())
            table = table.append_column("place", places).sort_by("place").drop_columns("place")
            write_table(
                table,
                target,
                {
                    "schema": SCHEMA,
                    "model": model,
                    "dataset": name,
                    "is_decoder": job.reading.is_decoder,
                    "vocabulary_size": network.vocabulary_size,
                    "bos": text.metadata["bos"],
                    "units": identities,
                },
            )
            # This one's, and what was left of other inputs or code.
            for old in partial.parent.glob(f"{model}.{name}.*"):
                shutil.rmtree(old)


def read(path: Path) -> dict[str, tuple[Any, pa.Table]] | None:
    """By unit: what a file says it is made of, and its rows; None if it is absent or damaged."""
    if not path.exists():
        return None
    try:
        table, metadata = read_table(path)
    except ArtifactError as error:
        print(f"{error}; it is evaluated again", file=sys.stderr)
        return None
    return {
        unit: (identity, table.filter(pc.equal(table["unit"], unit)))
        for unit, identity in metadata.get("units", {}).items()
    }


class _Network:
    """The model, loaded when it is first needed: a run in which all is current imports no torch."""

    def __init__(self, weights: Path, job: Job, threads: int) -> None:
        self.weights, self.job, self.threads, self._model = weights, job, threads, None

    @property
    def vocabulary_size(self) -> int:
        """Tokens of its vocabulary."""
        return read_json(self.weights / CONFIG)["vocab_size"]

    @property
    def model(self):
        """The model."""
        if self._model is None:
            import torch

            from posenc.affine import ready
            from posenc.devices import device_for
            from posenc.models import load

            torch.set_num_threads(self.threads)
            device = device_for(self.job.device)
            self._model = ready(load(self.weights, self.job.reading.family, device))
        return self._model


def evaluate(
    network: _Network,
    text: Tokens,
    units: dict[str, Unit],
    masks: Path,
    job: Job,
    chosen: np.ndarray,
    partial: Path,
    name: str,
) -> list[pa.Table]:
    """Evaluate units on the chosen documents, some documents at a time."""
    learned: dict[str, LearnedMask] = {}
    for mask in {mask for unit in units.values() for mask in unit.condition.masks()}:
        learned[mask], _ = read_mask(masks / f"{mask}.safetensors")
    lengths = text.lengths[chosen]
    tables = []
    with tqdm(total=int(lengths.sum()) * len(units), unit="token", desc=name, mininterval=5) as bar:
        for number, part in enumerate(_chunks(lengths)):
            chunk = chosen[part]
            path = partial / f"{number:05d}.parquet"
            table = _finished(path)
            if table is None:
                rows = []
                for tokens in sorted({unit.tokens or 0 for unit in units.values()}):
                    some = {n: u.condition for n, u in units.items() if (u.tokens or 0) == tokens}
                    rows += _rows(network, text, chunk, tokens or None, some, learned, job, bar)
                table = pa.Table.from_pylist(rows, OUTCOMES)
                with atomic_file(path) as temporary:
                    pq.write_table(table, temporary)
            else:
                bar.update(int(lengths[part].sum()) * len(units))
            tables.append(table)
    return tables


def _finished(path: Path) -> pa.Table | None:
    """What an earlier try wrote down, if it is whole."""
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid):
        return None
    print(f"{path.name} of {path.parent.name} is finished already", file=sys.stderr)
    return table


def _chunks(lengths: np.ndarray) -> list[slice]:
    if not len(lengths):
        return []
    ends = np.searchsorted(
        np.cumsum(lengths), np.arange(CHUNK_TOKENS, lengths.sum() + CHUNK_TOKENS, CHUNK_TOKENS)
    )
    edges = np.unique([0, *np.minimum(ends + 1, len(lengths))])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def _rows(network, text, chunk, tokens, conditions, learned, job, bar) -> list[dict]:
    from posenc.evaluation import evaluate as outcomes

    ids = [text.ids[index][:tokens] for index in chunk]
    special = [text.table["special"][int(index)].as_py()[:tokens] for index in chunk]
    counted = [[job.special_tokens or not flag for flag in flags] for flags in special]
    names = text.table["document_id"]
    rows = []
    for unit, outcome in outcomes(
        network.model, ids, counted, conditions, learned, job.batch_tokens, progress=bar
    ):
        index = int(chunk[outcome.document])
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
    rows.sort(key=lambda row: row["document_id"])
    return rows


def scored_bytes(text: Tokens, index: int, tokens: int | None) -> int | None:
    """UTF-8 bytes of the text of a document's tokens; null where it is cut.

    The text is not at hand here, so that the bytes of a part of it are not known.
    """
    is_whole = tokens is None or len(text.ids[index]) <= tokens
    return text.table["bytes"][index].as_py() if is_whole else None


if __name__ == "__main__":
    run(main)
