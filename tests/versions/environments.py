"""Old versions of ``transformers`` beside the running environment, whose torch they share.

Each gets a folder with itself and those of its dependencies that the running environment has
in a version that it does not accept. The folder goes in front of the running environment's
packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import Requirement

STAMP = "complete.json"
NEVER = ("torch", "importlib-metadata", "dataclasses")
INSTALLED = "installed"


class NotInstallable(RuntimeError):
    """A version is unusable here; the message says why."""


@dataclass(frozen=True)
class Environment:
    """Where a version lies and what it was given.

    Attributes
    ----------
    version
        Of ``transformers``.
    folder
        Its packages; None for the running environment's own.
    packages
        Packages installed for it, with their versions.
    tokenizers
        Its version, or why there is none.
    """

    version: str
    folder: str | None
    packages: dict[str, str]
    tokenizers: str

    @property
    def without_tokenizers(self) -> bool:
        """Whether the version runs with ``tokenizers`` hidden."""
        return self.tokenizers.startswith("hidden")

    def variables(self) -> dict[str, str]:
        """Environment variables of a process that is to use it."""
        variables = {"PYTHONPATH": self.folder or "", "OMP_NUM_THREADS": "1"}
        if self.without_tokenizers:
            variables["WITHOUT_TOKENIZERS"] = "1"
        return variables


def running() -> Environment:
    """The running environment's own ``transformers``."""
    return Environment(
        importlib.metadata.version("transformers"),
        None,
        {},
        importlib.metadata.version("tokenizers"),
    )


def prepared(version: str, cache: Path) -> Environment:
    """Install a version, unless the cache already has it complete.

    Raises
    ------
    NotInstallable
        If it or something it needs has no build for this Python.
    """
    own = running()
    if version in (INSTALLED, own.version):
        return own
    folder = cache / f"transformers-{version}"
    if (folder / STAMP).exists():
        return Environment(**json.loads((folder / STAMP).read_text()) | {"folder": str(folder)})
    shutil.rmtree(folder, ignore_errors=True)
    _install(f"transformers=={version}", folder)
    tokenizers = own.tokenizers
    waiting = requirements("transformers", folder)
    while waiting:
        requirement = waiting.pop(0)
        if requirement.name in (*NEVER, *versions(folder)) or satisfied(requirement):
            continue
        try:
            _install(str(requirement), folder)
            waiting += requirements(requirement.name, folder)
        except NotInstallable:
            if requirement.name != "tokenizers":
                raise
            tokenizers = f"hidden: no build of tokenizers{requirement.specifier} for this Python"
    packages = versions(folder)
    packages.pop("transformers")
    tokenizers = packages.pop("tokenizers", tokenizers)
    environment = Environment(version, str(folder), packages, tokenizers)
    (folder / STAMP).write_text(json.dumps(asdict(environment), indent=2) + "\n")
    return environment


def _install(requirement: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--target", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstallable(f"{requirement}: {(lines or ['pip failed'])[-1]}")


def requirements(package: str, folder: Path) -> list[Requirement]:
    """What a package in a folder needs on this Python, extras aside."""
    (distribution,) = importlib.metadata.distributions(name=package, path=[str(folder)])
    needed = [Requirement(text) for text in distribution.requires or []]
    return [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]


def satisfied(requirement: Requirement) -> bool:
    """Whether the running environment has what is required."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def versions(folder: Path) -> dict[str, str]:
    """Packages in a folder."""
    distributions = importlib.metadata.distributions(path=[str(folder)])
    return {d.metadata["Name"].lower().replace("_", "-"): d.version for d in distributions}
