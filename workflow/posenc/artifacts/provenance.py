"""Who made an artifact: the versions and inputs that are written into it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict

from posenc.artifacts import imports
from posenc.artifacts.files import sha256_json

Inputs: TypeAlias = Mapping[str, str | Mapping[str, str] | None]
"""Checksums of what was read, by name; None of what a model does not have."""


class Provenance(TypedDict):
    """What a result was made from."""

    parameters: Mapping[str, Any]
    """Of its section in params.yaml."""
    inputs: Inputs
    versions: dict[str, str]
    """Of packages."""
    code: str
    """Digest of the modules that made it."""


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of the packages that a result depends on."""
    return imports.installed(sorted(packages))


def code_digest(module: str) -> str:
    """SHA-256 over the source of a module and of what it imports from this package.

    It identifies partial work on disk, so that work of other code is never gone on with.
    """
    return sha256_json(imports.described(module)["files"])
