"""Which versions of packages results were made with; a study has one of each, or says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.artifacts import receipts
from posenc.artifacts.places import STUDIES
from posenc.artifacts.receipts import FOLDER, Receipt

Versions = dict[str, list[str]]
"""By package, the versions that results were made with, sorted."""


def _gathered(parts: Iterable[Mapping[str, str]]) -> Versions:
    by_package: dict[str, set[str]] = {}
    for part in parts:
        for package, version in part.items():
            by_package.setdefault(package, set()).add(version)
    return {package: sorted(versions) for package, versions in sorted(by_package.items())}


def versions_of(measurements: Sequence[Mapping[str, Any]]) -> Versions:
    """Versions that measurements say they were made with."""
    return _gathered(
        measurement.get("provenance", {}).get("versions", {}) for measurement in measurements
    )


def receipts_of(study: str) -> dict[Path, Receipt]:
    """The receipts of a study's jobs, and of those that it shares with others, by path."""
    folders = (STUDIES / study / FOLDER, Path("data") / FOLDER)
    paths = (path for folder in folders for path in sorted(folder.rglob("*.json")))
    by_path = {path: receipts.read(path) for path in paths}
    return {path: receipt for path, receipt in by_path.items() if receipt is not None}


def of_study(study: str) -> Versions:
    """Versions that the results of a study on disk were made with."""
    return _gathered(receipt.versions for receipt in receipts_of(study).values())


def mixed(versions: Versions) -> list[str]:
    """A line for each package of which there is more than one version."""
    return [
        f"made with more than one version of {package}: {', '.join(several)}"
        for package, several in versions.items()
        if len(several) > 1
    ]


def described(versions: Versions) -> str:
    """Packages with their versions, in a line."""
    return ", ".join(f"{package} {' and '.join(v)}" for package, v in versions.items())
