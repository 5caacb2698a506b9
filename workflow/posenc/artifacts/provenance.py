"""Who made an artifact: the versions and inputs that are written into it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from posenc.artifacts import imports
from posenc.artifacts.files import sha256_file, sha256_json


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of the packages that a result depends on."""
    return {package: importlib.metadata.version(package) for package in sorted(packages)}


def code_digest(module: str) -> str:
    """SHA-256 over the source of a module and of what it imports from this package.

    It identifies partial work on disk, so that work of other code is never gone on with.
    """
    root = Path(__file__).resolve().parents[1]
    return sha256_json(
        {str(Path(path).resolve().relative_to(root)): sha256_file(path)
         for path in imports.files(module)}
    )  # fmt: skip
