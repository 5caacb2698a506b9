"""The code of a step: the files of this package that it is made of, and the packages it uses."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from posenc.artifacts.files import (
    JsonObject,
    if_whole,
    read_sealed,
    sha256_file,
    sha256_json,
    write_sealed,
)

if TYPE_CHECKING:
    import grimp

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "workflow" / "posenc"
TOOLS = frozenset({
    "dvc", "dvc_data", "grimp", "huggingface_hub", "psutil", "pydantic", "pydantic_core",
    "requests", "ruamel", "snakemake", "tqdm", "typer", "urllib3", "yaml",
})  # fmt: skip
"""Packages that plan, fetch, check and print: no number comes from them."""
DISTRIBUTIONS = {"PIL": "pillow", "picard": "python-picard", "sklearn": "scikit-learn"}
"""Packages that are installed under another name."""
_ENDS_AS_COMMAND = re.compile(r'(?m)^if __name__ == "__main__":\n(?:    .*\n|\n)*?    run\(')
_DISCOVERS = re.compile(r'discovered\("([\w.]+)", "(\w+)"\)')
"""A call of :func:`posenc.artifacts.discovery.discovered`."""
_HAS_RESULTS = re.compile(r"\bquantities\(\s*__package__")
"""A call of :func:`posenc.artifacts.printing.quantities`, which reads results of its package."""


RUNNER = ROOT / "workflow" / "job.py"
"""Runs every step; the settings that a step computes with are there."""
LISTS = ROOT / ".cache" / "code" / "imports.json"
"""What each step is made of, with the digest of the package that it was found in."""


class Code(TypedDict):
    """A step's code."""

    files: dict[str, str]
    """SHA-256 of each."""
    versions: dict[str, str]
    """Of packages."""


PLANNED: dict[str, Code] = {}
"""In a job, the code of its step and of others that it names, as it was planned."""


@functools.cache
def _graph() -> grimp.ImportGraph:
    import grimp  # takes a quarter of a second; no job needs it

    return grimp.build_graph("posenc", cache_dir=None, include_external_packages=True)


@functools.cache
def _path(module: str) -> Path:
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def _data_files() -> dict[Path, tuple[str, str]]:
    """The package's files beside modules, such as templates, and how a text names each."""
    return {
        path: (f'"{path.name}"', f'}}{"".join(path.suffixes)}"')
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file()
        and path.suffix not in (".py", ".pyi", ".typed", ".pyc")
        and not path.name.startswith(".")
    }


@functools.cache
def _named_in(path: Path) -> frozenset[Path]:
    """Files that a text names between quotes, whole or, behind braces, by their ending."""
    text = _text(path)
    return frozenset(
        other for other, (whole, ending) in _data_files().items() if whole in text or ending in text
    )


@functools.cache
def _upstream(module: str) -> frozenset[str]:
    """A module, all that it imports or discovers, and the packages that these are in."""
    if module not in _graph().modules:
        raise ValueError(f"there is no module {module}")
    names: set[str] = set()
    todo = {module}
    while todo:
        name = todo.pop()
        names.add(name)
        todo |= _needed_by(name) - names
    return frozenset(names)


# Once per module, not per step that it is part of: this saves half a second of every run.
@functools.cache
def _needed_by(module: str) -> frozenset[str]:
    """What a module imports or discovers, and its package; nothing for modules of others."""
    if module.split(".")[0] != "posenc":
        return frozenset()
    package = {module.rpartition(".")[0]} - {""}
    imported = _graph().find_modules_directly_imported_by(module)
    return frozenset(imported | _discovered_by(module) | package)


def _discovered_by(module: str) -> set[str]:
    """Modules that a module finds by their place."""
    text = _text(_path(module))
    modules = {
        other
        for package, file in _DISCOVERS.findall(text)
        for other in _graph().modules
        if re.fullmatch(rf"{re.escape(package)}\.\w+\.{file}", other)
    }
    if _HAS_RESULTS.search(text):
        modules.add(f"{module.rpartition('.')[0]}.result")
    return modules


def files(module: str) -> list[str]:
    """Files of a module and of everything of this package that it imports.

    Parameters
    ----------
    module
        For example ``posenc.steps.capture``.

    Returns
    -------
    list of str
        Sorted paths from the project's root: modules, the packages that hold them, and other files
        of the package that these name, such as templates.

    Raises
    ------
    ValueError
        If there is no such module.
    """
    return _steps()[module][0] if module in _steps() else _files(module)


@functools.cache
def _files(module: str) -> list[str]:
    paths: set[Path] = {RUNNER}
    todo = {_path(name) for name in _upstream(module) if name.split(".")[0] == "posenc"}
    while todo:
        path = todo.pop()
        paths.add(path)
        todo |= _named_in(path) - paths
    return sorted(map(_from_root, paths))


@functools.cache
def _from_root(path: Path) -> str:
    return os.path.relpath(path, ROOT)


def packages(module: str) -> list[str]:
    """Installed packages that a module, and what it imports, computes with."""
    return _steps()[module][1] if module in _steps() else _packages(module)


def _packages(module: str) -> list[str]:
    outside = {name for name in _upstream(module) if name.split(".")[0] != "posenc"}
    outside -= {*sys.stdlib_module_names, *TOOLS}
    return sorted(DISTRIBUTIONS.get(name, name) for name in outside)


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Versions of packages, without the name of a build such as ``+cpu``."""
    return {package: _version(package) for package in packages}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def metadata(package: str) -> Path | None:
    """The file in which an installed package names its version; None where it is not installed."""
    try:
        folder = getattr(importlib.metadata.distribution(package), "_path", None)
    except importlib.metadata.PackageNotFoundError:
        return None
    return None if folder is None else Path(folder) / "METADATA"


def commands() -> list[str]:
    """Modules of the package that rules run, sorted: those that end with ``run(main)``."""
    return sorted(_steps())


@functools.cache
def _kept() -> JsonObject | None:
    """What was kept, if it is of the package as it is."""
    kept, package = if_whole(LISTS, read_sealed), _package_digest()
    return kept if kept is not None and kept.get("package") == package else None


@functools.cache
def _steps() -> dict[str, tuple[list[str], list[str]]]:
    """Files and packages of each command.

    To find them takes a third of a second of each call of a front end, so they are kept until a
    byte of the package is another.
    """
    if (kept := _kept()) is None:
        own = (name for name in _graph().modules if name.split(".")[0] == "posenc")
        steps = sorted(name for name in own if _ENDS_AS_COMMAND.search(_text(_path(name))))
        return {step: (_files(step), _packages(step)) for step in steps}
    names = kept["names"]
    return {
        module: ([names[place] for place in files], [names[place] for place in packages])
        for module, (files, packages) in kept["steps"].items()
    }


def keep() -> None:
    """Write down what each step is made of, for the next call."""
    if _kept() is not None:
        return
    lists, package = _steps(), _package_digest()
    look_again()
    if _package_digest() != package:
        return  # it was edited while its imports were read
    places: dict[str, int] = {}
    steps = {
        module: [[places.setdefault(name, len(places)) for name in names] for names in both]
        for module, both in lists.items()
    }
    with contextlib.suppress(OSError):  # they are found again
        LISTS.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(LISTS, {"package": package, "names": list(places), "steps": steps})


@functools.cache
def _package_digest() -> str:
    """Of all that decides what a step is made of: the package, and what reads it."""
    read = {
        _from_root(path): _sha256(_from_root(path))
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
    }
    return sha256_json([read, _version("grimp"), list(sys.version_info[:2])])


def described(module: str) -> Code:
    """A step's code as its job compares it: SHA-256 of its files, and versions of its packages.

    In a job, it is what was planned: the files may have been edited since.
    """
    if module in PLANNED:
        return PLANNED[module]
    return {
        "files": {path: _sha256(path) for path in files(module)},
        "versions": installed(packages(module)),
    }


@functools.cache
def _sha256(path: str) -> str:
    return sha256_file(ROOT / path)


def look_again() -> None:
    """Forget what was read of files and versions, which may have changed since."""
    for read in (_package_digest, _sha256, _version):
        read.cache_clear()
