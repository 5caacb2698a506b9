"""Which modules a step imports: its code is one of its dependencies."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import grimp

from posenc.artifacts.files import sha256_file

_ENDS_AS_COMMAND = re.compile(r'(?m)^if __name__ == "__main__":\n(?:    .*\n|\n)*?    run\(')


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph("posenc", cache_dir=None)


@functools.cache
def files(module: str) -> list[str]:
    """Source files of a module and of everything of this package that it imports.

    Parameters
    ----------
    module
        For example ``posenc.steps.capture``.

    Returns
    -------
    list of str
        Sorted paths from the current directory, which is the project's root. Packages that hold
        nothing but a docstring are left out.

    Raises
    ------
    ValueError
        If there is no such module.
    """
    graph = _graph()
    if module not in graph.modules:
        raise ValueError(f"there is no module {module}")
    root = Path(__file__).parents[2]
    paths = []
    for name in {module, *graph.find_upstream_modules(module)}:
        path = root.joinpath(*name.split(".")).with_suffix(".py")
        if path.exists():
            paths.append(os.path.relpath(path))
    if module.startswith("posenc.steps.typeset"):
        templates = root / "posenc" / "report" / "templates"
        paths += [os.path.relpath(path) for path in templates.glob("*.tex.jinja")]
    return sorted(paths)


@functools.cache
def commands() -> list[str]:
    """Modules of the package that rules run, sorted: those that end with ``run(main)``."""
    root = Path(__file__).parents[2]
    return sorted(
        name
        for name in _graph().modules
        if (path := root.joinpath(*name.split(".")).with_suffix(".py")).exists()
        and _ENDS_AS_COMMAND.search(path.read_text(encoding="utf-8"))
    )


def digests(module: str) -> dict[str, str]:
    """SHA-256 of each of a module's :func:`files`, by path."""
    return {path: _sha256(path) for path in files(module)}


@functools.cache
def _sha256(path: str) -> str:
    return sha256_file(path)
