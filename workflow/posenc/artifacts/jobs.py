"""A job from its start to its receipt: nothing that it reads may change meanwhile."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.artifacts import imports, kept, receipts
from posenc.artifacts.contents import Contents, status
from posenc.artifacts.files import ArtifactError, read_json
from posenc.artifacts.holder import BusyError, working
from posenc.artifacts.kept import MovedError
from posenc.artifacts.receipts import Receipt

Options = Mapping[str, Sequence[str]]
_CODE = re.compile(r"/code/(posenc\.[\w.]+)\.json$")
"""The list of a step's code among the files that a job reads."""


def run(options: Options, command: Sequence[str], plan: Mapping[str, Any]) -> None:
    """Run a step, and write its receipt.

    Parameters
    ----------
    options
        ``rule``, ``inputs``, ``outputs``; ``receipt``, where the result stays; ``folders`` of
        further outputs.
    command
        The step's module and its options.
    plan
        Its code as it was planned: ``files`` with their SHA-256, ``versions`` of packages.

    Raises
    ------
    SystemExit
        With the step's own code; 1 if something that it read changed.
    """
    try:
        with working(Path()):
            _run(options, command, plan)
    except (ArtifactError, BusyError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def _run(options: Options, command: Sequence[str], plan: Mapping[str, Any]) -> None:
    contents, rule = Contents(), options["rule"][0]
    here = imports.installed(plan["versions"])
    if others := [name for name, version in plan["versions"].items() if here[name] != version]:
        name = others[0]
        raise ArtifactError(
            f"{name} {plan['versions'][name]} was planned with, but {here[name]} is installed: "
            f"start again"
        )
    inputs = options["inputs"]
    before = receipts.digests(inputs, contents.digest)
    statuses = {path: status(path) for path in inputs}
    for path in inputs:
        if code := _CODE.search(path):
            imports.PLANNED[code[1]] = read_json(path)
    said = receipts.command_of(command)
    place = Path(options["receipt"][0]) if options.get("receipt") else None
    if (
        place is not None
        and "POSENC_AGAIN" not in os.environ
        and _is_kept(place, said, before, options["outputs"], contents)
    ):
        kept.forget_parts(place)
        print(f"{rule}: kept, what it would be made of is the same", file=sys.stderr)
        return
    sys.argv = list(command)
    with kept.parts(place, options["outputs"]) if place else contextlib.nullcontext():
        try:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code:
                raise
        _refuse_moved(rule, before, statuses, contents)
    if place is None:
        return
    paths = [path for path in options["outputs"] if Path(path) != place]
    paths += [
        os.fspath(path)
        for folder in options.get("folders", ())
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    ]
    outputs = receipts.digests(paths, contents.digest)
    for path in paths:
        outputs |= receipts.parts_of(Path(path))
    receipt = Receipt(rule, said, before, outputs, dict(plan["versions"]))
    receipt.write(place)
    kept.keep(place, receipt)


def _is_kept(
    place: Path, command: str, inputs: dict[str, str], outputs: Sequence[str], contents: Contents
) -> bool:
    """Whether the last finished result is the one that would be made now, and is in its place."""
    last = receipts.read(kept.PLACE / place)
    if last is None or last.command != command or last.inputs != inputs:
        return False
    if {*outputs} - {os.fspath(place)} - last.outputs.keys():
        return False
    return kept.restore(place, last, contents)


def _refuse_moved(
    rule: str,
    before: Mapping[str, str],
    statuses: Mapping[str, os.stat_result | None],
    contents: Contents,
) -> None:
    """Stop if a file differs from before, or differed meanwhile.

    Raises
    ------
    MovedError
        With its name.
    """
    for path, digest in before.items():
        if not _is_untouched(statuses[path], status(path)) or contents.digest(path) != digest:
            raise MovedError(
                f"{path} was changed while {rule} was at work: its result is discarded; start again"
            )


def _is_untouched(then: os.stat_result | None, now: os.stat_result | None) -> bool:
    """Whether nobody can have written to a file in between, by what the file system says of it.

    The date of the status tells of an edit that was undone under the old date. A hard link and
    other rights change it too, and leave the bytes as they are.
    """

    def is_same(*names: str) -> bool:
        return all(getattr(then, f"st_{name}") == getattr(now, f"st_{name}") for name in names)

    return (
        then is not None
        and now is not None
        and is_same("size", "ino", "mtime_ns")
        and (is_same("ctime_ns") or not is_same("nlink", "mode", "uid", "gid"))
    )
