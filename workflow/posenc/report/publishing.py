"""The paper of a study where it can be read without running anything."""

from __future__ import annotations

import shutil
from pathlib import Path

from posenc.artifacts.files import ArtifactError, atomic_file

PAPER = "paper"
MOST = 3_000_000
"""Bytes of a paper that is kept in git."""


def publish(study: str, root: Path) -> Path:
    """Copy a study's paper, which says what it was made from, to where it is kept.

    Parameters
    ----------
    study
        Its name.
    root
        Of the project.

    Returns
    -------
    The copy.

    Raises
    ------
    ArtifactError
        If there is no paper, or it is too large for git.
    """
    paper = root / f"data/studies/{study}/pdf/{PAPER}.pdf"
    if not paper.exists():
        raise ArtifactError(
            f"{paper.relative_to(root)} is missing: let studies.{study}.documents list {PAPER!r}, "
            f"and run `snakemake` where LaTeX is installed"
        )
    if (size := paper.stat().st_size) > MOST:
        raise ArtifactError(
            f"{paper.relative_to(root)} has {size:,} bytes, more than the {MOST:,} that git is to "
            f"keep: let it show fewer figures"
        )
    target = root / f"docs/{PAPER}-{study}.pdf"
    with atomic_file(target) as temporary:
        shutil.copyfile(paper, temporary)
    return target
