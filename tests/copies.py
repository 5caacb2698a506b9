"""Copies of the project as it stands, edits included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from posenc.study.layers import Layers

ROOT = Path(__file__).parents[1]


def copy_params(folder: Path) -> None:
    """Copy ``params.yaml`` and the files of studies."""
    shutil.copy(ROOT / "params.yaml", folder)
    shutil.copytree(ROOT / "studies", folder / "studies", dirs_exist_ok=True)


def whole_params(path: Path = ROOT / "params.yaml") -> dict[str, Any]:
    """What ``params.yaml`` and all files below it say together, as one mapping.

    Nothing in it is shared, unlike what entries inherit: it can be changed and written plain.
    """
    return json.loads(json.dumps(Layers(path).value))


def copy_project(folder: Path) -> None:
    """Copy what git would clone if all edits were committed."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listing.splitlines():
        source, target = ROOT / name, folder / name
        if not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(os.readlink(source))
        else:
            shutil.copy2(source, target)
