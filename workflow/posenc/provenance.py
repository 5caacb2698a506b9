"""Who made an artifact: the versions and inputs that are written into it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from .files import sha256_file, sha256_json


def versions(*packages: str) -> dict[str, str]:
    """Installed versions of the packages that a result depends on."""
    return {package: importlib.metadata.version(package) for package in sorted(packages)}


def code_digest() -> str:
    """SHA-256 over the package's own source, which identifies partial work on disk."""
    root = Path(__file__).parent
    return sha256_json(
        {str(path.relative_to(root)): sha256_file(path) for path in sorted(root.rglob("*.py"))}
    )
