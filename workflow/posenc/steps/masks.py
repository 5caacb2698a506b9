"""Learn the masks that a study's conditions name, from calibration text; current ones are kept."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import (
    ArtifactError,
    if_whole,
    read_sealed,
    sha256_file,
    write_sealed,
)
from posenc.artifacts.provenance import code_digest, versions
from posenc.conditions.learned import read, write
from posenc.conditions.masks import LearnedMaskSource, beneath
from posenc.config.base import Name, Section
from posenc.models.files import model_digests
from posenc.models.section import Reading
from posenc.tokens.tokenized import Tokens


class Job(Section):
    """What the masks of one model depend on, beside its files and the calibration tokens."""

    reading: Reading
    device: str
    batch_tokens: int
    calibration_share: float
    masks: dict[Name, LearnedMaskSource]


def main(
    model: Annotated[str, typer.Option(help="its name")],
    config: Annotated[Path, typer.Option(help="data/config/masks/MODEL.json")],
    weights: Annotated[Path, typer.Option(help="folder of the model")],
    output: Annotated[Path, typer.Option(help="folder of its masks")],
    tokens: Annotated[
        Path | None, typer.Option(help="calibration tokens, as the model reads them")
    ] = None,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write a mask and what is known of it for each of the study's masks, and their list."""
    job = read_section(config, Job)
    # Without calibration text, no condition of the study names a mask.
    text = None if tokens is None else Tokens(tokens)
    inputs = {"tokens": text and text.digest, **model_digests(weights)}
    identities: dict[str, dict] = {}
    for name in in_order(job.masks):
        source = job.masks[name]
        on = getattr(source, "begin", None)
        identities[name] = {
            "source": source.model_dump(),
            **({"begin": identities[on]} if on else {}),
            "inputs": inputs,
            "parameters": job.model_dump(exclude={"masks"}),
            "versions": versions("torch", "transformers", "numpy"),
            "code": code_digest("posenc.steps.masks"),
        }
    todo = [name for name in identities if not is_current(output / name, identities[name])]
    if todo and text is not None:
        learn(model, job, todo, identities, weights, text, output, threads)
    for path in output.glob("*"):
        if path.name.split(".")[0] not in [*job.masks, "masks"]:
            path.unlink()  # of a mask that no condition names any more
    digests = {name: sha256_file(output / f"{name}.json") for name in job.masks}
    write_sealed(output / "masks.json", {"model": model, "masks": digests})


def in_order(masks: Mapping[str, LearnedMaskSource]) -> list[str]:
    """Names of masks, each after the one that it begins with.

    Of the others, those that are distilled come first: their pass serves masks in closed form.
    """
    return sorted(
        masks, key=lambda name: (len(beneath(masks, name)), masks[name].method != "distilled")
    )


def is_current(path: Path, identity: dict) -> bool:
    """Whether a mask is there, whole, and made of the same."""
    facts = path.with_suffix(".json")
    if (if_whole(facts, read_sealed) or {}).get("provenance") != identity:
        return False
    if not if_whole(path.with_suffix(".safetensors"), read):
        return False
    print(f"{facts} is current and is kept", file=sys.stderr)
    return True


def learn(
    model: str,
    job: Job,
    todo: list[str],
    identities: dict,
    weights: Path,
    text: Tokens,
    output: Path,
    threads: int,
) -> None:
    """Learn the masks that are not current, each written as soon as it is there."""
    from posenc.capture import learning as masks
    from posenc.capture.calibration import Calibration
    from posenc.models.affine import load_ready

    network = load_ready(weights, job.reading.family, job.device, threads)
    fitted = round(job.calibration_share * len(text.ids))
    if not 0 < fitted < len(text.ids):
        raise ArtifactError(
            f"{len(text.ids)} calibration documents cannot be parted into those that masks are "
            f"fitted on and those that choose: raise the data set's calibration.documents"
        )
    data = Calibration(network, text.ids[:fitted], text.ids[fitted:], job.batch_tokens)
    for name in todo:
        source = job.masks[name]
        with tqdm(total=masks.work(source, data), desc=f"mask {name}", mininterval=5) as bar:
            on = getattr(source, "begin", None)
            others = {on: read(output / f"{on}.safetensors")[0]} if on else {}
            mask, facts = masks.learn(source, data, bar.update, others)
        write(
            output / f"{name}.safetensors",
            mask,
            {
                "measurement": "mask",
                "model": model,
                "mask": name,
                "method": source.method,
                "placebo": getattr(source, "placebo", None),
                "documents": {"fitting": fitted, "choosing": len(text.ids) - fitted},
                **facts,
                "provenance": identities[name],
            },
        )
        print(f"{name}: loss {facts['start']:.4f} -> {facts['loss']:.4f}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
