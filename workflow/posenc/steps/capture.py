"""Capture a run: hidden states, queries and keys into shards; losses of a decoder.

A killed capture goes on with the shards that it has finished: they wait, with their checksums,
in a hidden folder beside the output.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from tqdm import tqdm

from posenc.capture import Shape, capture_shard, shards_of
from posenc.conditions import applied
from posenc.config.activations import Activations
from posenc.config.conditions import Condition
from posenc.config.models import Reading
from posenc.devices import device_for
from posenc.files import (
    ArtifactError,
    atomic_file,
    read_json,
    replace_directory,
    sha256_file,
    sha256_json,
    write_json,
)
from posenc.models import CONFIG, WEIGHTS, load
from posenc.provenance import code_digest, versions
from posenc.steps.common import read_section, run
from posenc.store import INDEX, LOSSES, SCHEMA, read_table, shard_name, write_table

IDENTITY = "identity.json"


def main(
    run_name: Annotated[str, typer.Option("--run", help="model/dataset/condition")],
    reading: Annotated[Path, typer.Option(help="how the model reads text")],
    condition: Annotated[Path, typer.Option(help="section of the condition")],
    config: Annotated[Path, typer.Option(help="section `activations`")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    tokens: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write the store of one run to OUTPUT."""
    import torch

    torch.set_num_threads(threads)
    section = read_section(reading, Reading)
    intervention = read_section(condition, Condition)
    parameters = read_section(config, Activations)
    table, tokens_metadata = read_table(tokens)
    ids = table["input_ids"].to_pylist()
    lengths = np.array([len(document) for document in ids])  # [documents]
    inputs = {
        "tokens": sha256_file(tokens),
        "weights": sha256_file(weights / WEIGHTS),
        "config": sha256_file(weights / CONFIG),
    }
    identity = {
        "inputs": inputs,
        "condition": intervention.model_dump(),
        "parameters": parameters.model_dump(),
        "versions": versions("torch", "transformers", "numpy"),
    }
    network = load(weights, section.family, device_for(parameters.device))
    shape = Shape.of(network)
    shards = shards_of(lengths, parameters.shard_tokens)
    check_space(output, int(lengths.sum()), shape.bytes_per_token(parameters))
    partial = open_partial(output, sha256_json([identity, code_digest("posenc.steps.capture")]))
    with (
        applied(network, intervention),
        tqdm(total=int(lengths.sum()), unit="token", desc=run_name, mininterval=5) as bar,
    ):
        for number, documents in enumerate(shards):
            if finished(partial, number):
                bar.update(int(lengths[documents].sum()))
                continue
            arrays, losses = capture_shard(
                network, ids, documents, parameters, section.is_decoder, bar
            )
            special = table["special"].slice(documents.start, len(documents))
            arrays["special_mask"] = special.combine_chunks().flatten().to_numpy(False)  # [tokens]
            write_shard(partial, number, arrays, losses)
    finish(
        partial,
        output,
        run_name,
        table,
        shards,
        lengths,
        section,
        shape,
        {
            **identity,
            "bos": tokens_metadata["bos"],
        },
    )


def check_space(output: Path, tokens: int, bytes_per_token: int) -> None:
    """Say how much a capture will write, and refuse one that does not fit the disk."""
    output.parent.mkdir(parents=True, exist_ok=True)
    needed, free = tokens * bytes_per_token, shutil.disk_usage(output.parent).free
    line = f"{tokens:,} tokens x {bytes_per_token:,} bytes = {needed / 1e9:.2f} GB"
    if needed > free:
        raise ArtifactError(
            f"{line} do not fit: {free / 1e9:.2f} GB are free in {output.parent}; "
            f"lower evaluation.documents or activations.quantities in params.yaml"
        )
    print(f"{line} ({free / 1e9:.2f} GB free)", file=sys.stderr)


def open_partial(output: Path, identity: str) -> Path:
    """The folder of finished shards; emptied when it belongs to another computation."""
    partial = output.with_name(f".{output.name}.partial")
    path = partial / IDENTITY
    if partial.exists() and not (path.exists() and read_json(path) == identity):
        print(f"{partial} belongs to other inputs or code; starting again", file=sys.stderr)
        shutil.rmtree(partial)
    partial.mkdir(parents=True, exist_ok=True)
    write_json(path, identity)
    return partial


def finished(partial: Path, number: int) -> bool:
    """Whether a shard was written whole by an earlier try; a damaged one is made again."""
    receipt = partial / f"{shard_name(number)}.json"
    if not receipt.exists():
        return False
    files = read_json(receipt)
    if all(
        (partial / file).exists() and sha256_file(partial / file) == sha256
        for file, sha256 in files.items()
    ):
        print(f"shard {number} is finished already", file=sys.stderr)
        return True
    print(f"shard {number} is damaged and is made again", file=sys.stderr)
    return False


def losses_name(number: int) -> str:
    """File of a shard's losses while a capture is under way."""
    return f"losses-{number:05d}.npy"


def write_shard(
    partial: Path, number: int, arrays: dict[str, np.ndarray], losses: list[np.ndarray]
) -> None:
    """Write a shard and its losses, then the receipt that makes them count as finished."""
    from safetensors.numpy import save_file

    files = {}
    with atomic_file(partial / shard_name(number)) as temporary:
        # One metadata key at most: the library writes several in an order that varies.
        save_file(arrays, temporary, metadata={"schema": str(SCHEMA)})
    files[shard_name(number)] = sha256_file(partial / shard_name(number))
    if losses:
        with atomic_file(partial / losses_name(number)) as temporary, open(temporary, "wb") as file:
            np.save(file, np.concatenate(losses))
        files[losses_name(number)] = sha256_file(partial / losses_name(number))
    write_json(partial / f"{shard_name(number)}.json", files)


def finish(
    partial: Path,
    output: Path,
    run_name: str,
    table: pa.Table,
    shards: list[range],
    lengths: np.ndarray,
    section: Reading,
    shape: Shape,
    identity: dict[str, Any],
) -> None:
    """Write losses and index, remove the receipts, and move the store into place."""
    files = []
    for number in range(len(shards)):
        receipt = read_json(partial / f"{shard_name(number)}.json")
        files.append({"file": shard_name(number), "sha256": receipt[shard_name(number)]})
    if section.is_decoder:
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
    model_name, dataset, condition = run_name.split("/")
    index = pa.table(
        {
            "document_id": table["document_id"].combine_chunks(),
            "shard": pa.array(shard_of, pa.int32()),
            "start": pa.array(np.concatenate(starts), pa.int64()),
            "length": pa.array(lengths, pa.int32()),
        }
    )
    write_table(
        index,
        partial / INDEX,
        {
            "schema": SCHEMA,
            "run": {"model": model_name, "dataset": dataset, "condition": condition},
            "family": section.family,
            "is_decoder": section.is_decoder,
            "n_layers": shape.n_layers,
            "n_heads": shape.n_heads,
            "d_model": shape.d_model,
            "vocabulary_size": shape.vocabulary_size,
            "n_shards": len(shards),
            "files": files,
            **identity,
        },
    )
    for number in range(len(shards)):
        (partial / f"{shard_name(number)}.json").unlink()
        (partial / losses_name(number)).unlink(missing_ok=True)
    (partial / IDENTITY).unlink()
    replace_directory(partial, output)


if __name__ == "__main__":
    run(main)
