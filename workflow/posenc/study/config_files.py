"""The files in ``data/config``: what each job reads, written where it changed and compared."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from posenc.artifacts import imports
from posenc.artifacts.files import holds_json, write_json, write_json_if_changed
from posenc.study.configs import CONFIG, sections
from posenc.study.params import Params

PACKAGES = Path("data/packages")


def materialize(params: Params) -> None:
    """Write every section that changed to ``data/config``, and remove all other files.

    DVC's first stage does the same, and the others wait for it.
    """
    written = set()
    for path, value in sections(params):
        write_json_if_changed(path, value)
        written.add(path)
    for path in CONFIG.rglob("*"):
        # A hidden file is another process's, which is writing just now.
        if path.is_file() and path not in written and not path.name.startswith("."):
            path.unlink()
    imports.keep()
    link_packages()


def link_packages() -> None:
    """Show DVC the installed packages: another version counts as another result.

    Each is a link to the file in which the installed package names its version.
    """
    names = {name for module in imports.commands() for name in imports.packages(module)}
    wanted = {PACKAGES / name: path for name in names if (path := imports.metadata(name))}
    for link in PACKAGES.iterdir() if PACKAGES.is_dir() else ():
        if link.is_symlink() and os.readlink(link) != str(wanted.get(link)):
            link.unlink()
    PACKAGES.mkdir(parents=True, exist_ok=True)
    for link, path in wanted.items():
        if not link.is_symlink():
            link.symlink_to(path)


def foresee(params: Params, folder: Path) -> dict[str, str]:
    """Write what ``data/config`` would hold but does not, to a separate folder.

    Parameters
    ----------
    params
        The parameters.
    folder
        Where to write; what is there is removed.

    Returns
    -------
    dict
        The path that each file stands for, by its path in the folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    planned = {}
    for path, value in sections(params):
        if not holds_json(path, value):
            foreseen = folder / path.relative_to(CONFIG)
            write_json(foreseen, value)
            planned[str(foreseen)] = str(path)
    return planned


def is_edited(params: Params) -> bool:
    """Whether ``data/config`` differs from what would be written now. It reads the code again."""
    imports.look_again()
    return any(not holds_json(path, value) for path, value in sections(params))
