"""What a result says of itself, and whether that is what is there now.

Each job leaves a receipt: its command, and the SHA-256 of every file that it read and made. Among
what it read are its part of ``params.yaml`` and a list of its code, with the versions of the
packages that it computes with. A result is current when its receipt says what is there now.
Nothing else decides: no date, no record of Snakemake's, no lock file of DVC's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from posenc.artifacts.files import ArtifactError, read_sealed, sha256_json, write_sealed

FOLDER = "receipts"
STANDS_FOR_FOLDER = ("index.parquet", "masks.json")
"""Files that are the last of their folder to be written, and hold the checksums of the others."""
Digest = Callable[[str], str | None]
"""SHA-256 of a file by its path; None where there is none."""


@dataclass(frozen=True)
class Receipt:
    """What a job read and made.

    Attributes
    ----------
    rule
        Snakemake's rule.
    command
        What ran: a module and its options, as :func:`command_of` writes it.
    inputs, outputs
        SHA-256 by path from the project's root.
    versions
        Of the packages that the job computes with; they stand in its code's list, too.
    """

    rule: str
    command: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    versions: dict[str, str]

    def write(self, path: Path) -> None:
        """Write it with its own checksum."""
        write_sealed(path, asdict(self))


def read(path: Path) -> Receipt | None:
    """A job's receipt; None where there is none, or it is damaged or of another form."""
    try:
        return Receipt(**read_sealed(path))
    except (ArtifactError, OSError, TypeError):
        return None


def command_of(arguments: Sequence[str]) -> str:
    """A command line without what depends on the machine: the number of threads."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument == "--threads":
            next(rest, None)
            continue
        kept.append(argument)
    return " ".join(kept)


def difference(
    receipt: Receipt | None,
    digest: Digest,
    command: str | None = None,
    inputs: Collection[str] | None = None,
    outputs: Collection[str] = (),
) -> str | None:
    """Say why a result is not current; None where it is. This is the one judgement.

    Parameters
    ----------
    receipt
        The job's, None where there is none.
    digest
        What is there now.
    command, inputs, outputs
        What the job would run, read and make now; None for what the receipt says.
    """
    if receipt is None:
        return "it has no receipt"
    if command is not None and command != receipt.command:
        return "its command changed"
    if inputs is not None and (others := set(inputs) ^ receipt.inputs.keys()):
        return f"it reads other files now: {min(others)}"
    if lacking := set(outputs) - receipt.outputs.keys():
        return f"{min(lacking)} is not made yet"
    for path, expected in receipt.inputs.items():
        if digest(path) != expected:
            return f"{path} changed"
    for path, expected in receipt.outputs.items():
        now = digest(path)
        if now != expected:
            return f"{path} is {'gone' if now is None else 'not what was made'}"
    return None


def parts_of(path: Path) -> dict[str, str]:
    """SHA-256 of the files beside one that stands for its folder, as it records them, by path.

    Empty for any other file.

    Raises
    ------
    posenc.artifacts.files.ArtifactError
        If the file itself is damaged.
    """
    if path.name not in STANDS_FOR_FOLDER:
        return {}
    if path.name == "index.parquet":
        from posenc.artifacts.tables import read_table

        parts = {entry["file"]: entry["sha256"] for entry in read_table(path)[1]["files"]}
    else:
        parts = {}
        for name, sha256 in read_sealed(path)["masks"].items():
            parts[f"{name}.json"] = sha256
            parts[f"{name}.safetensors"] = read_sealed(path.with_name(f"{name}.json"))["arrays"]
    return {os.fspath(path.with_name(name)): sha256 for name, sha256 in parts.items()}


def inputs_digest(inputs: Mapping[str, str]) -> str:
    """12 digits over the SHA-256 of what a document is made of, by path: text, numbers, figures."""
    shown = {name: sha for name, sha in inputs.items() if name.endswith((".tex", ".bib", ".pdf"))}
    return sha256_json(shown)[:12]


def digests(paths: Iterable[str], digest: Digest) -> dict[str, str]:
    """What is there of some files, by path.

    Raises
    ------
    ArtifactError
        If one is gone.
    """
    now = {path: digest(path) for path in paths}
    if gone := [path for path, content in now.items() if content is None]:
        raise ArtifactError(f"{gone[0]} was removed while it was being read; start again")
    return {path: content for path, content in now.items() if content is not None}
