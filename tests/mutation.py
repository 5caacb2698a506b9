"""Would the tests of a module notice a mistake in it? Its mutation score, by mutmut.

``python -m tests.mutation workflow/posenc/capture/learning.py`` changes one thing at a time in a
copy of the module, runs the tests that reach it, and prints how many of the changes they noticed,
and those that they did not. Tests are the files that name the module, or those that are given
after it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.copies import ROOT, copy_project

PACKAGE = "workflow/"
SOURCE = "src"
"""The only folder beside the root that mutmut takes packages from."""


def tests_of(module: str) -> list[str]:
    """Test files that name a module, ``workflow/posenc/capture/learning.py``."""
    *parents, name = Path(module.removeprefix(PACKAGE)).with_suffix("").parts
    package = re.escape(".".join(parents))
    named = re.compile(rf"{package}\.{name}\b|from {package} import [^\n]*\b{name}\b")
    files = sorted(
        path for part in ("unit", "parity") for path in (ROOT / "tests" / part).glob("test_*.py")
    )
    return [str(path.relative_to(ROOT)) for path in files if named.search(path.read_text("utf-8"))]


def prepare(folder: Path, module: str, tests: Sequence[str]) -> None:
    """Copy the project into a folder, with the package where mutmut looks for it."""
    copy_project(folder)
    copied = sorted(path.name for path in folder.iterdir() if path.name != "tests")
    shutil.copytree(folder / PACKAGE / "posenc", folder / SOURCE / "posenc")
    settings = {
        "source_paths": [SOURCE],
        "only_mutate": [module.replace(PACKAGE, f"{SOURCE}/", 1)],
        "also_copy": copied,
        "pytest_add_cli_args_test_selection": list(tests),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["\n[tool.mutmut]", *lines, ""]))
    # Tests ask git for files.
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def main(arguments: Sequence[str]) -> None:
    """Print the score and what survived."""
    if not arguments or not (ROOT / arguments[0]).is_file():
        sys.exit(
            "which module? python -m tests.mutation workflow/posenc/capture/learning.py [TESTS ...]"
        )
    module, tests = arguments[0], list(arguments[1:]) or tests_of(arguments[0])
    if not tests:
        sys.exit(f"no test file names {module}: give those that test it after it")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        prepare(folder, module, tests)

        def mutmut(*command: str, quiet: bool = True) -> str:
            result = subprocess.run(
                [sys.executable, "-m", "mutmut", *command],
                cwd=folder,
                text=True,
                stdout=subprocess.PIPE if quiet else sys.stderr,
                check=True,
            )
            return result.stdout

        mutmut("run", quiet=False)
        mutmut("export-cicd-stats")
        counts = json.loads((folder / "mutants/mutmut-cicd-stats.json").read_text("utf-8"))
        total = counts["total"] - counts["skipped"]
        noticed = counts["killed"] + counts["timeout"] + counts["segfault"]
        for line in mutmut("results").splitlines():
            name, _, outcome = line.strip().partition(": ")
            if outcome in ("survived", "no tests", "suspicious"):
                change = mutmut("show", name).splitlines()[3:]
                lines = [row for row in change if row.startswith(("+", "-", "@"))]
                print(f"\n{name}: {outcome}", *lines, sep="\n")
        print(f"\n{module}: {noticed} of {total} mutants noticed, {noticed / total:.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
