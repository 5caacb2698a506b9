"""Train a decoder from its tokens; a killed training goes on from its last checkpoint."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Annotated

import typer

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import (
    atomic_file,
    sha256_file,
    sha256_json,
    verify,
    write_sealed,
)
from posenc.artifacts.provenance import code_digest, versions
from posenc.artifacts.tables import read_table
from posenc.models.devices import device_for, use_threads
from posenc.models.load import save
from posenc.models.section import TrainSource
from posenc.models.training import build, progress, sequences, train


def main(
    name: Annotated[str, typer.Option()],
    dataset: Annotated[str, typer.Option()],
    config: Annotated[Path, typer.Option()],
    tokenizer: Annotated[Path, typer.Option()],
    tokens: Annotated[Path, typer.Option()],
    output: Annotated[Path, typer.Option()],
    curve: Annotated[Path, typer.Option()],
    summary: Annotated[Path, typer.Option()],
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write the model's folder to OUTPUT, its loss curve to CURVE and its summary to SUMMARY."""
    from tokenizers import Tokenizer

    from posenc.tokens.tokenize import END_OF_TEXT

    use_threads(threads)
    source = read_section(config, TrainSource)
    table, _ = read_table(tokens)
    held_out = table["held_out"].to_numpy()
    training, validation = (
        sequences(
            table.filter(part)["input_ids"].to_pylist(), source.n_positions, source.sequences_begin
        )
        for part in (~held_out, held_out)
    )
    vocabulary = Tokenizer.from_file(str(verify(tokenizer)))
    end = vocabulary.token_to_id(END_OF_TEXT)
    assert end is not None
    model = build(source, vocabulary.get_vocab_size(), end)
    inputs = {"tokens": sha256_file(tokens), "tokenizer": sha256_file(tokenizer)}
    code = code_digest("posenc.steps.train")
    identity = sha256_json([inputs, source.model_dump(), code, versions("torch")])
    # Outside data/models, which DVC empties before it runs the stage again.
    partial = output.parents[1] / "partial" / output.name
    partial.mkdir(parents=True, exist_ok=True)
    with progress(f"train {name}", source.steps) as report:
        rows = train(
            model, training, validation, source, partial, identity, device_for("auto"), report
        )
    with atomic_file(curve) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_sealed(
        summary,
        {
            "schema": 1,
            "measurement": "training",
            "model": name,
            "dataset": dataset,
            "status": "measured",
            "parameters": sum(p.numel() for p in model.parameters()),
            "steps": source.steps,
            "tokens_seen": rows[-1]["tokens"],
            "training_documents": int((~held_out).sum()),
            "validation_documents": int(held_out.sum()),
            "training_tokens": training.numel(),
            "final_training_loss": rows[-1]["training_loss"],
            "final_validation_loss": rows[-1]["validation_loss"],
            "best_validation_loss": min(row["validation_loss"] for row in rows),
            "curve": {"file": curve.name, "sha256": sha256_file(curve)},
            "provenance": {
                "inputs": inputs,
                "versions": versions("torch", "transformers"),
                "code": code,
            },
        },
    )
    save(model, output)
    shutil.rmtree(partial)


if __name__ == "__main__":
    run(main)
