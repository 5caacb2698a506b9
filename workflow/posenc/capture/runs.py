"""A model's runs on disk: what is finished, what is left, and the finished store.

A capture may be killed, and may be split over several jobs: each finished shard waits, with a
receipt that holds its checksum, in a folder beside the stores, until all shards of the run are
there. A finished run whose inputs and code are the same is kept as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from posenc.artifacts.activations import (
    INDEX,
    LOSSES,
    SCHEMA,
    ActivationStore,
    Identity,
    Metadata,
    OfModel,
    StoredFile,
    shard_name,
)
from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    atomic_file,
    read_sealed,
    replace_directory,
    sha256_file,
    sha256_json,
    write_sealed,
)
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.shards import ShardFile
from posenc.artifacts.tables import read_table, write_table
from posenc.capture.section import Activations
from posenc.conditions.section import Condition
from posenc.config.base import Name, Section
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenized import Tokens


class Job(Section):
    """What the captures of one model depend on, beside its files and its tokens."""

    reading: Reading
    activations: Activations
    datasets: list[Name]
    conditions: dict[Name, Condition]


@dataclass(frozen=True)
class Run:
    """One run: a model on a data set under a condition.

    Attributes
    ----------
    identity
        All that determines its bytes: digests of inputs, parameters, versions, code.
    output
        Folder of its store.
    partial
        Folder of its finished shards while the store is not whole.
    """

    model: str
    dataset: str
    condition: str
    intervention: Condition
    tokens: Tokens
    identity: Identity
    output: Path
    partial: Path

    @property
    def name(self) -> str:
        """model/dataset/condition."""
        return f"{self.model}/{self.dataset}/{self.condition}"

    def is_current(self, thorough: bool = True) -> bool:
        """Whether the store is there, made of the same, and whole; says so when it is damaged.

        Parameters
        ----------
        thorough
            Compare every shard with its checksum (about 1 s a gigabyte).
        """
        if not (self.output / INDEX).exists():
            return False
        try:
            _, metadata = read_table(self.output / INDEX)
            if {key: metadata.get(key) for key in self.identity} != self.identity:
                return False
            ActivationStore(self.output, verify=None if thorough else ())
        except ArtifactError as error:
            print(f"{error}; the run is captured again", file=sys.stderr)
            return False
        if thorough:
            print(f"{self.name} is current and is kept", file=sys.stderr)
        return True


def runs_of(job: Job, model: str, weights: Path, tokens: Path, output: Path) -> Iterator[Run]:
    """The runs of a model in order.

    Parameters
    ----------
    job
        Data sets, conditions and parameters.
    model
        Its name.
    weights, tokens
        Folders of the model and of its tokens.
    output
        Folder of its stores; partial work lies beside it, so that a front end that empties the
        folder does not lose it.
    """
    digests = model_digests(weights)
    code = code_digest("posenc.steps.capture")
    for dataset in job.datasets:
        read = Tokens(tokens / f"{dataset}.parquet")
        for condition, intervention in job.conditions.items():
            identity: Identity = {
                "inputs": {"tokens": read.digest, **digests},
                "condition": intervention.model_dump(),
                "parameters": job.activations.model_dump(),
                "versions": versions("torch", "transformers", "numpy"),
                "code": code,
            }
            digest = sha256_json(identity)[:16]
            yield Run(
                model=model,
                dataset=dataset,
                condition=condition,
                intervention=intervention,
                tokens=read,
                identity=identity,
                output=output / dataset / condition,
                partial=partials(output) / f"{dataset}.{condition}.{digest}",
            )


def partials(output: Path) -> Path:
    """Folder of the partial work of a model's runs."""
    return output.parents[1] / "captures" / output.name


def receipt(partial: Path, number: int) -> Path:
    """The file that makes a shard count as finished."""
    return partial / f"{shard_name(number)}.json"


def losses_name(number: int) -> str:
    """File of a shard's losses while its run is not whole."""
    return f"losses-{number:05d}.npy"


def is_finished(partial: Path, number: int) -> bool:
    """Whether a shard was written whole by an earlier try; a damaged one is made again."""
    if not receipt(partial, number).exists():
        return False
    damaged = damaged_file(partial, number)
    state = "damaged and is made again" if damaged else "finished already"
    print(f"note: shard {number} of {partial.name.rsplit('.', 1)[0]} is {state}", file=sys.stderr)
    return damaged is None


def damaged_file(partial: Path, number: int) -> Path | None:
    """The file of a finished shard that is not what its receipt says, if there is one."""
    try:
        files = read_sealed(receipt(partial, number))["files"]
    except ArtifactError:
        return receipt(partial, number)
    for file, sha256 in files.items():
        if not (partial / file).exists() or sha256_file(partial / file) != sha256:
            return partial / file
    return None


def write_shard(
    partial: Path,
    number: int,
    tensors: Mapping[str, tuple[str, tuple[int, ...]]],
    fill: Callable[[ShardFile], list[np.ndarray]],
    of_model: OfModel,
) -> None:
    """Write a shard and its losses, then the receipt that makes them count as finished.

    Parameters
    ----------
    partial
        Folder of the run's shards.
    number
        Of the shard.
    tensors
        Types and shapes of its tensors, see :class:`posenc.artifacts.shards.ShardFile`.
    fill
        Writes them, and returns the losses of each document, none for an encoder.
    of_model
        What the index says of the model.
    """
    files = {}
    with (
        atomic_file(partial / shard_name(number)) as temporary,
        ShardFile(temporary, tensors) as file,
    ):
        losses = fill(file)
    files[shard_name(number)] = sha256_file(partial / shard_name(number))
    if losses:
        with atomic_file(partial / losses_name(number)) as temporary, open(temporary, "wb") as file:
            np.save(file, np.concatenate(losses))
        files[losses_name(number)] = sha256_file(partial / losses_name(number))
    write_sealed(receipt(partial, number), {"files": files, "shape": of_model})


def is_captured(run: Run, job: Job) -> bool:
    """Whether all shards of a run are finished and wait to be put together."""
    shards = run.tokens.shards(job.activations.shard_tokens)
    return all(receipt(run.partial, number).exists() for number in range(len(shards)))


def finish(run: Run, job: Job) -> None:
    """Write losses and index of a run whose shards are all there, and move the store into place.

    Raises
    ------
    DamagedError
        If a shard is damaged.
    ArtifactError
        If a shard is missing.
    """

    import pyarrow as pa

    partial, table, lengths = run.partial, run.tokens.table, run.tokens.lengths
    shards = run.tokens.shards(job.activations.shard_tokens)
    missing = [n for n in range(len(shards)) if not receipt(partial, n).exists()]
    if missing:
        raise ArtifactError(
            f"{run.name}: {len(missing)} of {len(shards)} shards are not captured; "
            f"start the workflow again"
        )
    # What is put together here gets a checksum anew: damage has to be found before.
    for number in range(len(shards)):
        if damaged := damaged_file(partial, number):
            raise DamagedError(
                damaged, f"{damaged} does not match its checksum: it was altered or damaged"
            )
    receipts = [read_sealed(receipt(partial, number)) for number in range(len(shards))]
    files: list[StoredFile] = [
        {"file": shard_name(number), "sha256": written["files"][shard_name(number)]}
        for number, written in enumerate(receipts)
    ]
    if job.reading.is_decoder:
        flat = np.concatenate([np.load(partial / losses_name(n)) for n in range(len(shards))])
        ends = np.concatenate([[0], np.cumsum(lengths - 1)]).astype(np.int32)  # [documents + 1]
        losses = pa.table(
            {
                "document_id": table["document_id"].combine_chunks(),
                "nll": pa.ListArray.from_arrays(pa.array(ends), pa.array(flat)),
                "bytes": table["bytes"].combine_chunks(),
            }
        )
        write_table(losses, partial / LOSSES, {"schema": SCHEMA, "unit": "nats"})
        files.append({"file": LOSSES, "sha256": sha256_file(partial / LOSSES)})
    shard_of = np.repeat(np.arange(len(shards)), [len(d) for d in shards])  # [documents]
    starts = [np.concatenate([[0], np.cumsum(lengths[d])])[:-1] for d in shards]
    index = pa.table(
        {
            "document_id": table["document_id"].combine_chunks(),
            "shard": pa.array(shard_of, pa.int32()),
            "start": pa.array(np.concatenate(starts), pa.int64()),
            "length": pa.array(lengths, pa.int32()),
        }
    )
    metadata: Metadata = {
        "schema": SCHEMA,
        "run": {"model": run.model, "dataset": run.dataset, "condition": run.condition},
        "family": job.reading.family,
        "is_decoder": job.reading.is_decoder,
        "bos": run.tokens.metadata["bos"],
        **cast(OfModel, receipts[0]["shape"]),
        "n_shards": len(shards),
        "files": files,
        **run.identity,
    }
    write_table(index, partial / INDEX, metadata)
    replace_directory(partial, run.output)


def clean(run: Run) -> None:
    """Remove from a finished store what made its shards count as finished.

    Not before it is in its place: a store that is killed on the way goes on by itself.
    """
    for pattern in ("shard-*.json", "losses-*.npy"):
        for path in run.output.glob(pattern):
            path.unlink()
