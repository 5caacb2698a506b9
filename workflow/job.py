"""Run a step as a job, with exactly the code that was planned, and leave a receipt.

``python workflow/job.py --rule R --receipt FILE --inputs FILE... --outputs FILE... -- MODULE ...``

Every module of the package is hashed when it is imported, and one that is not in the plan's list of
the step's code, or is another than there, ends the job before it computes anything. What the job
reads is hashed before and after it: where a file moved meanwhile, the result is discarded.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "workflow" / "posenc"
COMPILED = ROOT / ".cache" / "code"
MATHEMATICS = {"MKL_DYNAMIC": "FALSE", "MKL_CBWR": "AUTO"}
"""MKL may otherwise take fewer threads than it is given, or another code path for another memory
alignment, and then the last bits of a result differ from run to run."""
PLANNED: dict[str, str] = {}
"""SHA-256 of the step's code by path from the project's root, as it was planned."""


class Edited(Exception):
    """The code on disk is not what was planned."""


def _check(path: str, content: bytes, is_own: bool) -> str:
    name, digest = os.path.relpath(path, ROOT), hashlib.sha256(content).hexdigest()
    if name not in PLANNED and not is_own:
        raise Edited(f"{name} is not in the list of this step's code: run `snakemake` again")
    if PLANNED.get(name, digest) != digest:
        raise Edited(f"{name} was edited after this run was planned: start it again")
    return digest


class Loader(SourceFileLoader):
    """Compiles exactly the bytes that were compared with the plan, whatever dates say."""

    is_strict = False

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        content = Path(path).read_bytes()
        digest = _check(path, content, is_own=not self.is_strict)
        kept = COMPILED / f"{digest}-{sys.implementation.cache_tag}{sys.flags.optimize}"
        try:
            named, code = marshal.loads(kept.read_bytes())
            if named == path:
                return code
        except (OSError, ValueError, EOFError, TypeError):
            pass
        code = self.source_to_code(content, path)
        try:
            COMPILED.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_name(f".{kept.name}.{os.getpid()}")
            temporary.write_bytes(marshal.dumps((path, code)))
            temporary.replace(kept)
        except OSError:
            pass  # it is compiled again the next time
        return code


def _watch(event: str, arguments: tuple) -> None:
    """Compare what is read of the package beside modules, such as templates."""
    if event != "open" or not isinstance(arguments[0], str) or not Loader.is_strict:
        return
    path = os.path.abspath(arguments[0])
    if path.startswith(f"{PACKAGE}{os.sep}") and not path.endswith((".py", ".pyc")):
        Loader.is_strict = False  # the next lines read it themselves
        try:
            _check(path, Path(path).read_bytes(), is_own=False)
        except FileNotFoundError:
            pass
        finally:
            Loader.is_strict = True


def _finder(path: str):
    if not os.path.abspath(path).startswith(f"{PACKAGE.parent}"):
        raise ImportError(path)
    return FileFinder(path, (Loader, [".py"]))


def _sorted(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """The runner's options, and the command behind ``--``."""
    end = arguments.index("--")
    options: dict[str, list[str]] = {}
    for argument in arguments[:end]:
        if argument.startswith("--"):
            options[argument[2:]] = values = []
        else:
            values.append(argument)
    return options, arguments[end + 1 :]


def main() -> None:
    """Run the command, if no result that was kept is what it would make."""
    options, command = _sorted(sys.argv[1:])
    listed = next(path for path in options["inputs"] if path.endswith(f"/code/{command[0]}.json"))
    os.environ |= MATHEMATICS
    if "tokenizers" in options:
        os.environ["RAYON_NUM_THREADS"] = options["tokenizers"][0]
    sys.path.insert(0, str(PACKAGE.parent))
    sys.path_hooks.insert(0, _finder)
    sys.path_importer_cache.clear()
    plan = json.loads(Path(listed).read_text(encoding="utf-8"))
    PLANNED.update(plan["files"])
    _check(__file__, Path(__file__).read_bytes(), is_own=False)

    from posenc.artifacts import jobs

    Loader.is_strict = True
    sys.addaudithook(_watch)
    jobs.run(options, command, plan)


if __name__ == "__main__":
    try:
        main()
    except Edited as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
