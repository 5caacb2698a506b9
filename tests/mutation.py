"""Would the tests of a module notice a mistake in it? Its mutation score, by mutmut.

``python -m tests.mutation workflow/posenc/capture/learning.py`` changes one thing at a time in a
copy of the module, runs the tests that reach it, and prints how many of the changes they noticed,
and those that they did not. Several modules may be given: they share the start. Tests are the files
that name one of the modules, or those that are given after them. ``--sample 50`` tries as many
changes of each module, drawn uniformly; ``--record`` keeps the scores in docs/mutation.json and
makes docs/mutation.md of it and of the reasons in docs/mutation.yaml.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import hashlib
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML
from scipy.stats import binomtest

from tests.copies import ROOT, copy_project

PACKAGE = "workflow/"
SOURCE = "src"
"""The only folder beside the root that mutmut takes packages from."""
PAGE = ROOT / "docs/mutation.md"
RECORD, REASONS = PAGE.with_suffix(".json"), PAGE.with_suffix(".yaml")
BEGINNING = "<!-- What follows is made by `python -m tests.mutation --record`. -->\n"
NOTICED = {"killed", "timeout", "segfault", "caught by type check"}


@dataclasses.dataclass
class Score:
    """How many of a module's mutants were tried and noticed; the rest as changed lines.

    ``code`` is the beginning of the SHA-256 checksum of the module; ``tests`` are those that ran.
    """

    mutants: int
    tried: int
    noticed: int
    seed: int | None
    code: str
    survivors: list[str]
    tests: list[str] = dataclasses.field(default_factory=list)

    def share(self, equivalent: int = 0) -> str:
        """Noticed mutants of those tried, with a 95 % Wilson interval where not all were.

        ``equivalent`` ones, which no test can or need notice, are left out.
        """
        tried = self.tried - equivalent
        text = f"{self.noticed / tried:.0%}"
        if self.tried < self.mutants:
            interval = binomtest(self.noticed, tried).proportion_ci(method="wilson")
            text += f" [{interval.low:.0%}, {interval.high:.0%}]"
        return text


def tests_of(module: str) -> list[str]:
    """Test files that name a module, ``workflow/posenc/capture/learning.py``."""
    *parents, name = Path(module.removeprefix(PACKAGE)).with_suffix("").parts
    package = re.escape(".".join(parents))
    imported = rf"from {package} import (?:\([^)]*|[^\n]*)\b{name}\b"
    named = re.compile(rf"{package}\.{name}\b|{imported}")
    files = sorted(
        path for part in ("unit", "parity") for path in (ROOT / "tests" / part).glob("test_*.py")
    )
    return [str(path.relative_to(ROOT)) for path in files if named.search(path.read_text("utf-8"))]


def undecorated(code: str) -> str:
    """A module that decorates its functions after defining them: mutmut changes no others."""
    lines = code.splitlines()
    for node in reversed(ast.parse(code).body):
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            expression = node.name
            for decorator in reversed(node.decorator_list):
                expression = f"{ast.unparse(decorator)}({expression})"
            lines.insert(node.end_lineno or 0, f"{node.name} = {expression}")
            del lines[node.decorator_list[0].lineno - 1 : node.lineno - 1]
    return "\n".join([*lines, ""])


def prepare(folder: Path, modules: Sequence[str], tests: Sequence[str]) -> None:
    """Copy the project into a folder, with the package where mutmut looks for it."""
    copy_project(folder)
    copied = sorted(path.name for path in folder.iterdir() if path.name != "tests")
    shutil.copytree(folder / PACKAGE / "posenc", folder / SOURCE / "posenc")
    changed = [module.replace(PACKAGE, f"{SOURCE}/", 1) for module in modules]
    for path in (folder / name for name in changed):
        path.write_text(undecorated(path.read_text("utf-8")), "utf-8")
    settings = {
        "source_paths": [SOURCE],
        "only_mutate": changed,
        "also_copy": copied,
        "pytest_add_cli_args_test_selection": list(tests),
        # Imports are made once, not once a mutant; fixtures are no part of a test's estimated time.
        "process_isolation": "forkserver",
        "timeout_constant": 4.0,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("\n".join(["\n[tool.mutmut]", *lines, ""]))
    # Tests ask git for files.
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def mutants_of(module: str) -> list[str]:
    """Names of all mutants of a module, in the folder that was prepared."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    path = Path(module.replace(PACKAGE, f"{SOURCE}/", 1))
    place = ".".join(Path(module.removeprefix(PACKAGE)).with_suffix("").parts)
    names = mutate_file_contents(str(path), path.read_text("utf-8")).mutant_names
    return [f"{place}.{name}" for name in names]


def drawn(mutants: Sequence[str], sample: int | None, seed: int) -> list[str]:
    """All mutants of a module, or some of them."""
    if sample is None or sample >= len(mutants):
        return list(mutants)
    return random.Random(seed).sample(sorted(mutants), sample)


def change_of(mutant: str) -> str:
    """``function: old line → new line``, in the folder where mutmut ran."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    rows = get_diff_for_mutant(mutant).splitlines()[2:]
    old, new = (" ".join(row[1:].strip() for row in rows if row[0] == sign) for sign in "-+")
    function = re.sub(r"^x_?|ǁ", " ", mutant.rpartition(".")[2].partition("__mutmut_")[0])
    return f"{'.'.join(function.split())}: {old} → {new}"


def measure(
    modules: Sequence[str], tests: Sequence[str], sample: int | None, seed: int, processes: int
) -> dict[str, Score]:
    """Scores by module."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        prepare(Path(scratch), modules, tests)
        mutants = {module: mutants_of(module) for module in modules}
        tried = {module: drawn(names, sample, seed) for module, names in mutants.items()}
        command = [sys.executable, "-m", "mutmut"]
        run = [*command, "run", "--max-children", str(processes)]
        names = itertools.chain.from_iterable(tried.values())
        subprocess.run([*run, *names], stdout=sys.stderr, check=True)
        listing = subprocess.run(
            [*command, "results", "--all", "true"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        outcomes = dict(line.strip().split(": ") for line in listing.splitlines() if line.strip())
        return {
            module: Score(
                mutants=len(mutants[module]),
                tried=len(names),
                noticed=sum(outcomes[name] in NOTICED for name in names),
                seed=None if len(names) == len(mutants[module]) else seed,
                code=hashlib.sha256((ROOT / module).read_bytes()).hexdigest()[:8],
                survivors=sorted(
                    change_of(name) for name in names if outcomes[name] not in NOTICED
                ),
                tests=list(tests),
            )
            for module, names in tried.items()
        }


def page(text: str, record: Mapping[str, Mapping], reasons: Mapping[str, str]) -> str:
    """The page with what a record says in place of what the last one said.

    ``reasons`` say by pattern why a change need not be noticed.
    """
    rows = [
        "| module | mutants | tried | noticed | explained | of all | score | seed | code |",
        "| --- " * 9 + "|",
    ]
    lists: dict[str, list[str]] = {reason: [] for reason in [*reasons.values(), ""]}
    for module, entry in sorted(record.items()):
        score, name = Score(**entry), module.removeprefix(PACKAGE)
        why = {
            change: next((r for p, r in reasons.items() if re.search(p, f"{name} {change}")), "")
            for change in score.survivors
        }
        for change, reason in why.items():
            lists[reason].append(f"  - `{name}` `` {change} ``")
        explained = sum(map(bool, why.values()))
        cells = [score.mutants, score.tried, score.noticed, explained]
        cells += [score.share(), score.share(explained)]
        cells += ["all" if score.seed is None else score.seed, f"`{score.code}`"]
        rows.append(f"| `{name}` | {' | '.join(map(str, cells))} |")
    for reason, changes in lists.items():
        if changes:
            rows += ["", f"- {reason or 'Not noticed, and not explained'}:", *changes]
    return "\n".join([text.partition(BEGINNING)[0] + BEGINNING, *rows, ""])


def made_page() -> str:
    """The page as it should be."""
    record = json.loads(RECORD.read_text("utf-8"))
    reasons = YAML(typ="safe").load(REASONS.read_text("utf-8"))
    return page(PAGE.read_text("utf-8"), record, reasons)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print scores and what survived."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", help="modules; test files, if not those that name them")
    parser.add_argument("--sample", type=int, help="mutants of each module; all without it")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--record", action="store_true", help="keep scores, and remake the page")
    options = parser.parse_args(arguments)
    modules = [name for name in options.files if name.startswith(PACKAGE)]
    if not all((ROOT / name.split("::")[0]).is_file() for name in options.files) or not (
        modules or options.record
    ):
        parser.error("which module? python -m tests.mutation workflow/posenc/capture/learning.py")
    tests = [name for name in options.files if name not in modules]
    tests = tests or sorted({test for module in modules for test in tests_of(module)})
    if modules and not tests:
        parser.error(f"no test file names {', '.join(modules)}: give those that test it after it")
    scores = {}
    if modules:
        scores = measure(modules, tests, options.sample, options.seed, options.processes)
    for module, score in scores.items():
        for change in score.survivors:
            print(f"{module}: {change}")
    for module, score in scores.items():
        print(f"{module}: {score.noticed} of {score.tried} mutants noticed, {score.share()}")
    if options.record:
        record = json.loads(RECORD.read_text("utf-8"))
        record |= {module: dataclasses.asdict(score) for module, score in scores.items()}
        record = dict(sorted(record.items()))
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
        PAGE.write_text(made_page(), "utf-8")


if __name__ == "__main__":
    main()
