"""The command ``posenc``: what the two front ends leave to a person."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
PARAMS = Path("params.yaml")
SCHEMA = Path("workflow/schemas/params.schema.json")


def _stop(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(1)


def _load(path: Path = PARAMS):
    from posenc.study.params import ParamsError, load

    try:
        return load(path)
    except ParamsError as error:
        _stop(str(error))


def _check_stages(params, say: Callable[[str], None]) -> None:
    from posenc.study import stages

    try:
        stages.check(params)
    except stages.StagesError as error:
        say(str(error))


@app.command()
def check(
    write: Annotated[bool, typer.Option(help="also write its sections to data/config")] = False,
) -> None:
    """Validate params.yaml, look for the files that it names, and show what the study has."""
    from posenc.report.links import link
    from posenc.study.configs import materialize
    from posenc.study.leftovers import tidy

    params = _load()
    _check_stages(params, _stop if write else lambda error: print(f"for DVC: {error}"))
    if write:
        materialize(params)
        tidy(params, lambda line: print(line, file=sys.stderr))
        link(params.study.name)
    print("\n".join(_parts(params)))
    _say_models(params)
    # DVC begins with `--write`: what it has fetched need not be there any more.
    if not write:
        _say_disk(params)
        _look_for_sources(params)


def _parts(params) -> list[str]:
    """What the active study has, a line for each kind."""
    from posenc.study.plan import figures

    study = params.study
    runs = len(study.captured) * len(study.datasets) * len(study.conditions)
    lines = [f"params.yaml is valid. Study {study.name!r}: {runs} runs"]
    for kind in ("models", "captured", "schemes", "datasets", "conditions"):
        if names := list(getattr(study, kind)):
            lines.append(f"  {kind}: {', '.join(names)}")
    for model in study.models:
        own, section = study.evaluation_of(model), params.models[model]
        further = [
            name
            for name in own.evaluated
            if name not in study.conditions
            and params.conditions[name].is_for(section.is_decoder, section.positions)
        ]
        sweeps = own.sweeps if section.is_decoder else []  # an encoder has no loss to sweep
        if further or sweeps:
            what = [f"{len(further)} conditions", *(f"the sweep {name}" for name in sweeps)]
            lines.append(f"  evaluated of {model}: {', '.join(what)}")
    for kind, names in {
        "measurements": study.measured,
        "experiments": study.experiments.kinds,
        "figures": figures(params),
        "documents": study.documents,
    }.items():
        if names:
            lines.append(f"  {kind}: {', '.join(names)}")
    return lines


def _say_models(params) -> None:
    """What models that are fetched were verified to lack."""
    from posenc.api.describing import fetched

    for name in params.study.models:
        for line in (fetched(name) or [])[1:]:
            print(f"  {name}: {line}")


def _say_disk(params) -> None:
    from posenc.study.storage import summary

    if line := summary(params, Path()):
        print(f"  disk: {line}")


def _look_for_sources(params) -> None:
    from posenc.report import latex
    from posenc.study.sources import problems

    found = list(problems(params))
    if params.study.documents and (advice := latex.advice()):
        print(f"note: {advice}", file=sys.stderr)
    for line in found[:-1]:
        print(f"error: {line}", file=sys.stderr)
    if found:
        _stop(found[-1])


@app.command()
def study(name: Annotated[str, typer.Argument(help="a key of `studies`")]) -> None:
    """Make a study the active one, for both front ends: changes one line of params.yaml."""
    from posenc.report.links import link
    from posenc.study import place
    from posenc.study.switch import StudyError, activate

    _load()
    try:
        with place.writing(Path()):
            activate(PARAMS, name)
            link(name)
    except (StudyError, place.ReadOnlyError) as error:
        _stop(str(error))
    check()


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="of the study")],
    text: Annotated[Path | None, typer.Option(help="a file with a document per line")] = None,
    model: Annotated[
        str, typer.Option(help="a key of `models`, a folder, or a name of the hub")
    ] = "minilm",
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Write a small study into params.yaml, to begin with, and make it the active one."""
    from posenc.study import place
    from posenc.study.new import write_study
    from posenc.study.params import ParamsError
    from posenc.study.switch import StudyError

    params, entry = _load(), None
    if model not in params.models and (Path(model).is_dir() or "/" in model):
        from posenc.api.describing import entry_of
        from posenc.artifacts.files import ArtifactError
        from posenc.models.files import ModelError

        try:
            found = entry_of(model, revision, params.models)
        except (ModelError, ArtifactError) as error:
            _stop(str(error))
        model, entry = found.key, found.lines
    try:
        with place.writing(Path()):
            write_study(PARAMS, name, model, text, entry)
    except (StudyError, ParamsError, place.ReadOnlyError) as error:
        _stop(str(error))
    study(name)


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="keys of `models`, folders, names of the hub")
    ] = None,
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Say what was found of models, and what was compared with the library; by default, fetched."""
    from posenc.api.describing import fetched, said
    from posenc.artifacts.files import ArtifactError
    from posenc.models.files import ModelError

    for name in names if names else _load().study.models:
        lines = fetched(name) or [f"{name}: not fetched yet, or trained here"]
        if names and fetched(name) is None:
            from posenc.api.loading import load

            try:
                lines = said(load(name, revision))
            except (ModelError, ArtifactError) as error:
                _stop(str(error))
        print("\n  ".join(lines))


@app.command()
def stages() -> None:
    """Take the stages out of dvc.yaml that the active study does not have; git has them."""
    from posenc.artifacts.files import write_text
    from posenc.study.stages import FILE, needed

    params = _load()
    text = FILE.read_text(encoding="utf-8")
    write_text(FILE, needed(text, params))
    print(f"{FILE} has the stages of study {params.study.name!r}")


@app.command()
def schema(
    verify: Annotated[bool, typer.Option(help="only compare, and fail when it differs")] = False,
) -> None:
    """Write the JSON Schema of params.yaml, which editors use for completion."""
    from posenc.artifacts.files import write_text
    from posenc.study.schema import json_schema

    text = json.dumps(json_schema(), indent=1) + "\n"
    if verify:
        if not SCHEMA.exists() or SCHEMA.read_text() != text:
            _stop(f"{SCHEMA} is out of date: run `posenc schema`")
        return
    write_text(SCHEMA, text)


def _run(*command: str, quiet: bool = False) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=quiet, text=True, env=environment)


def _dry_run(*targets: str) -> str:
    result = _run("snakemake", "--cores", "1", "--dry-run", "--", *targets, quiet=True)
    if result.returncode:
        _stop(f"snakemake cannot plan the study:\n{result.stdout}{result.stderr}")
    return result.stdout + result.stderr


def _nothing_to_do() -> bool:
    return "Nothing to be done" in _dry_run()


@app.command()
def plan(
    targets: Annotated[list[str] | None, typer.Argument(help="files; all of the study")] = None,
) -> None:
    """Show what `snakemake` would run and why, how long it took the last time, and the disk."""
    from posenc.study.forecast import planned, table
    from posenc.study.leftovers import announce

    params = _load()
    announce(params, lambda line: print(line, file=sys.stderr))
    jobs = list(planned(_dry_run(*(targets or []))))
    print("\n".join(table(jobs, Path())) if jobs else "Everything is up to date.")
    if jobs:
        _say_disk(params)


@app.command()
def record() -> None:
    """After `snakemake`: record the results in DVC, only if they are complete and current."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report import comparison, findings, latex
    from posenc.study import place
    from posenc.study.agreement import drop_retired

    try:
        place.refuse_read_only(Path())
    except place.ReadOnlyError as error:
        _stop(str(error))
    reason = place.without_dvc(Path())
    if reason is not None:
        _stop(f"nothing is recorded: {reason}")
    params = _load()
    study = params.study.name
    _check_stages(params, _stop)
    if not _nothing_to_do():
        _stop("the study is not complete or not current: run `snakemake` first")
    targets = []
    if latex.missing():
        from ruamel.yaml import YAML

        from posenc.figures.catalogue import DOCUMENTS

        stages = YAML(typ="safe").load(Path("dvc.yaml").read_text())["stages"]
        targets = [name for name in stages if name not in DOCUMENTS]
    if retired := drop_retired():
        print(f"dropped from dvc.lock: {len(retired)} stages that dvc.yaml does not have")
    # With --quiet DVC would not say what is wrong either.
    result = _run("dvc", "commit", "--force", *targets, quiet=True)
    if result.returncode:
        _stop(f"nothing is recorded: {result.stderr.strip() or result.stdout.strip()}")
    # DVC has linked the files anew: Snakemake's records follow.
    if not _nothing_to_do():
        _stop("Snakemake does not agree with what was recorded: see `snakemake --dry-run`")
    comparison.keep(study)
    print(f"recorded in dvc.lock and {comparison.record_of(study)}")
    try:
        for page in findings.fill_pages(comparison.all_recorded(), Path()):
            print(f"{page} shows the new numbers")
    except ArtifactError as error:
        # A study that was made smaller: the pages speak of the whole one.
        print(f"the pages are left as they are: {error}")


@app.command()
def compare() -> None:
    """Compare every recorded number of the study with the one that was made here."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report.comparison import report

    try:
        lines, is_sound = report(_load().study.name)
    except ArtifactError as error:
        _stop(str(error))
    print("\n".join(lines))
    if not is_sound:
        raise typer.Exit(1)


@app.command()
def bench(
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="what computes")] = "auto",
) -> None:
    """Measure products of matrices in each form, and say what `precision: fast` computes in."""
    from posenc.models.rates import table

    try:
        print(table(device))
    except RuntimeError as error:
        _stop(str(error).replace("activations.device", "--device"))


@app.command()
def verify() -> None:
    """Read every file of the study again, and mark what is damaged, so that it is made again."""
    from posenc.study.ledger import LedgerError
    from posenc.study.verification import verify_files

    try:
        damaged, count, size = verify_files()
    except LedgerError as error:
        _stop(str(error))
    for path in damaged:
        print(f"damaged: {path}", file=sys.stderr)
    if damaged:
        _stop(
            f"{len(damaged)} of {count} files are damaged; `snakemake` or `dvc repro` makes them"
            f" again"
        )
    print(f"{count} files, {size / 1e9:.2f} GB: each is what was recorded")


@app.command()
def reuse(paths: Annotated[list[Path], typer.Argument(help="outputs of a stage")]) -> None:
    """Within a stage of DVC: bring back what it has just removed, as it was last recorded.

    The steps that follow keep what is current of it.
    """
    import shutil

    from dvc.api import DVCFileSystem
    from dvc_data.index import DataIndexDirError

    from posenc.study.recovery import end_orphans

    # DVC has removed the outputs: what is there was written since, by a job of a killed run.
    end_orphans(Path(), lambda line: print(line, file=sys.stderr))
    recorded = DVCFileSystem()
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        try:
            recorded.get(str(path), str(path), recursive=True)
        except (FileNotFoundError, DataIndexDirError):
            print(f"{path} is not in DVC's cache yet", file=sys.stderr)


@app.command()
def report() -> None:
    """Write Snakemake's report of the finished study to report.html."""
    if _run("snakemake", "--cores", "1", "--report", "report.html", quiet=True).returncode:
        _stop("the report cannot be made: see `snakemake --report report.html`")
    print("Report: report.html")


@app.command()
def publish() -> None:
    """Copy the finished study's paper to docs, where it can be read without running anything."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report import publishing

    study = _load().study.name
    if not _nothing_to_do():
        _stop("the study is not complete or not current: run `snakemake` first")
    try:
        print(f"{publishing.publish(study, Path())} can be committed")
    except ArtifactError as error:
        _stop(str(error))


@app.command()
def summary() -> None:
    """Say what was made, and what is missing."""
    from posenc.report.links import closing_line

    active = _load().study
    print(closing_line(active.name, active.documents))


if __name__ == "__main__":
    app()
