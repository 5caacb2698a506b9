"""The command ``posenc``: what the two front ends leave to a person."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
OWN = Path(__file__).resolve().parents[1]
IN_CHECKOUT = (
    "import sys; sys.path.insert(0, sys.argv[1]); sys.argv[:2] = ['posenc']; "
    "from posenc.cli import app; app()"
)
"""Not by PYTHONPATH, in which a colon parts two paths."""
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


@contextlib.contextmanager
def _holding(command: str):
    """Be the one front end for a block; what it may not write is said in one line."""
    from posenc.artifacts import holder
    from posenc.frontends import place, recovery

    def end_orphans() -> None:
        recovery.end_orphans(Path.cwd(), _warn)

    try:
        place.refuse_read_only(Path())
        with place.writing(Path()), holder.holding(Path(), f"posenc {command}", end_orphans):
            yield
    except (holder.BusyError, place.ReadOnlyError) as error:
        _stop(str(error))


def _warn(line: str) -> None:
    print(line, file=sys.stderr)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from posenc.frontends.place import commit

        print(f"posenc {version('posenc')}, commit {commit(Path())}")
        raise typer.Exit


def _studies(incomplete: str) -> list[str]:
    """Names of studies, for the shell; nothing where there is no whole params.yaml."""
    from posenc.study.params import ParamsError, load

    try:
        return [name for name in load(PARAMS).studies if name.startswith(incomplete)]
    except ParamsError:
        return []


StudyName = Annotated[str, typer.Argument(help="a key of `studies`", autocompletion=_studies)]


@app.callback()
def use_this_checkout(
    version: Annotated[
        bool, typer.Option("--version", help="say the version", callback=_say_version)
    ] = False,
) -> None:
    """What the two front ends leave to a person."""
    here = Path("workflow").resolve()
    if here == OWN or not (here / "posenc" / "cli.py").is_file():
        return
    # An environment may be another clone's, or a worktree may use its clone's.
    _warn(f"posenc: the environment is of {OWN.parent}; the code of this checkout runs")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", IN_CHECKOUT, str(here), *sys.argv[1:]])


@app.command()
def check(
    write: Annotated[bool, typer.Option(help="also write its sections to data/config")] = False,
) -> None:
    """Validate params.yaml, look for the files that it names, and show what the study has."""
    params = _load()
    if write:
        with _holding("check --write"):
            _write(params)
    print("\n".join(_parts(params)))
    _say_models(params)
    # DVC begins with `--write`: what it has fetched need not be there any more.
    if not write:
        _say_sizes(params)
        _look_for_sources(params)


def _write(params) -> None:
    """Write what jobs read, and put results where the study has them; for the holder."""
    from posenc.artifacts import kept
    from posenc.artifacts.contents import Contents
    from posenc.frontends.leftovers import tidy
    from posenc.report.links import link
    from posenc.study.configs import is_edited, materialize

    tidy(params, _warn)
    materialize(params)
    kept.keep_all(contents := Contents(), params.study.name)
    kept.restore_all(contents, params.study.name, _warn)
    link(params.study.name)
    # DVC notes what its first stage read only when that has ended.
    if is_edited(_load()):
        _stop("params.yaml, the code or a text was saved meanwhile: start again")


def _parts(params) -> list[str]:
    """What the active study has, a line for each kind."""
    from posenc.study.plan import figures, has_files

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
        "measurements": [name for name in study.measured if has_files(params, name)],
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


def _say_sizes(params) -> None:
    from posenc.study import room
    from posenc.study.cut import lines
    from posenc.study.storage import summary

    if line := summary(params, Path()):
        print(f"  disk: {line}")
    for line in (*lines(params), *room.lines(params)):
        print(f"  {line}")


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
def study(name: StudyName) -> None:
    """Make a study the active one, for both front ends: changes one line of params.yaml."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report.links import link
    from posenc.study.switch import StudyError, activate

    _load()
    try:
        with _holding(f"study {name}"):
            activate(PARAMS, name)
            link(name)
    except (StudyError, ArtifactError) as error:
        _stop(str(error))
    check()


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="of the study")],
    text: Annotated[Path | None, typer.Option(help="a file or folder of your own texts")] = None,
    column: Annotated[str | None, typer.Option(help="of a table: the one with the text")] = None,
    model: Annotated[
        str, typer.Option(help="a key of `models`, a folder, or a name of the hub")
    ] = "minilm",
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Write a small study into params.yaml, to begin with, and make it the active one."""
    from posenc.artifacts.files import ArtifactError
    from posenc.datasets.errors import DatasetError
    from posenc.study.new import write_study
    from posenc.study.params import ParamsError
    from posenc.study.switch import StudyError

    params, entry = _load(), None
    if model not in params.models and (Path(model).is_dir() or "/" in model):
        from posenc.api.describing import entry_of
        from posenc.models.files import ModelError

        try:
            found = entry_of(model, revision, params.models)
        except (ModelError, ArtifactError) as error:
            _stop(str(error))
        model, entry = found.key, found.lines
    try:
        with _holding(f"new {name}"):
            said = write_study(PARAMS, name, model, text, column, entry)
    except (DatasetError, StudyError, ParamsError, ArtifactError) as error:
        _stop(str(error))
    print("\n".join(said), end="\n" if said else "")
    study(name)


@app.command("list")
def list_names(
    kind: Annotated[
        str | None, typer.Argument(help="studies, models, datasets, conditions or figures")
    ] = None,
) -> None:
    """Name what params.yaml has: studies, models, data sets, conditions, figures."""
    from posenc.study.listing import listed, overview
    from posenc.study.switch import StudyError

    params = _load()
    try:
        print("\n".join(overview(params) if kind is None else listed(params, kind)))
    except StudyError as error:
        _stop(str(error))


@app.command()
def remove(
    name: StudyName,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Take a study out of params.yaml; its results go to data/set_aside, and none is deleted."""
    from posenc.artifacts.files import ArtifactError
    from posenc.frontends.leftovers import SET_ASIDE, set_aside
    from posenc.report.links import list_pages
    from posenc.study.remove import check_removable, take_out
    from posenc.study.switch import StudyError

    try:
        check_removable(_load(), name)
        if not yes and not typer.confirm(f"Take the study {name!r} out of {PARAMS}?"):
            raise typer.Exit(1)
        with _holding(f"remove {name}"):
            left = take_out(PARAMS, name)
            count = set_aside(name)
            list_pages()
    except (StudyError, ArtifactError) as error:
        _stop(str(error))
    print(f"studies.{name} is taken out of {PARAMS}")
    if count:
        print(f"{count} files of it are in {SET_ASIDE / name}; a study of that name has them back")
    for dataset in left:
        print(f"datasets.{dataset} is of no study now: it stays in {PARAMS} until you delete it")


@app.command()
def show(
    number: Annotated[str, typer.Argument(help="a key of the study's numbers.json")],
) -> None:
    """Trace a number back: value, interval, file, command, inputs with their checksums, commit."""
    from posenc.artifacts.contents import Contents
    from posenc.artifacts.files import ArtifactError, sha256_of_json_file
    from posenc.frontends.place import commit
    from posenc.frontends.verification import of_study
    from posenc.report.showing import UnknownKeyError, described, measurements_of
    from posenc.steps.typeset import gather
    from posenc.study.configs import facts, sections

    params = _load()
    study = params.study.name
    receipts = of_study(params)
    made = next((one for one in receipts.values() if one and one.rule == "typeset"), None)
    if made is None:
        return _stop(f"study {study!r} has no numbers yet: run `snakemake`")
    # What jobs would read of params.yaml and the code, whether or not it is written yet.
    now = {str(path): sha256_of_json_file(value) for path, value in sections(params)}
    contents = Contents(None)
    try:
        results = gather(facts(params), *measurements_of(made))
        lines = described(
            number, results, receipts,
            lambda path: now.get(path) or contents.digest(path), commit(Path()),
        )  # fmt: skip
    except (ArtifactError, UnknownKeyError, FileNotFoundError) as error:
        _stop(str(error))
    print("\n".join(lines))


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="keys of `models`, folders, names of the hub")
    ] = None,
    revision: Annotated[str, typer.Option(help="commit, tag or branch of the hub")] = "main",
) -> None:
    """Say what was found of models, and what was compared with the library; by default, fetched."""
    from posenc.api.describing import fetched, looked_at
    from posenc.artifacts.files import ArtifactError
    from posenc.models.files import ModelError

    for name in names if names else _load().study.models:
        lines = fetched(name) or [f"{name}: not fetched yet, or trained here"]
        if names and fetched(name) is None:
            try:
                lines = looked_at(name, revision)
            except (ModelError, ArtifactError) as error:
                _stop(str(error))
        print("\n  ".join(lines))


@app.command()
def repin(name: Annotated[str, typer.Argument(help="a key of `datasets`")]) -> None:
    """Take in that a file of yours has changed: writes its checksum into params.yaml."""
    from posenc.artifacts.files import ArtifactError
    from posenc.datasets.errors import DatasetError
    from posenc.study.params import ParamsError
    from posenc.study.repin import write_checksum
    from posenc.study.sources import of_dataset
    from posenc.study.switch import StudyError

    _load()
    try:
        with _holding(f"repin {name}"):
            print(write_checksum(PARAMS, name))
    except (DatasetError, StudyError, ParamsError, ArtifactError) as error:
        _stop(str(error))
    for line in of_dataset(_load(), name):
        _stop(line)


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
    from posenc.frontends.forecast import planned, table
    from posenc.frontends.leftovers import announce

    params = _load()
    announce(params, _warn)
    jobs = list(planned(_dry_run(*(targets or []))))
    print("\n".join(table(jobs, Path())) if jobs else "Everything is up to date.")
    if jobs:
        _say_sizes(params)


@app.command()
def record() -> None:
    """After `snakemake`: record the results in DVC, only if they are complete and current."""
    from posenc.artifacts.files import ArtifactError
    from posenc.frontends import place, recording
    from posenc.report import comparison, findings, latex

    params = _load()
    study = params.study.name
    with _holding("record"):
        reason = place.without_dvc(Path())
        if reason is not None:
            _stop(f"nothing is recorded: {reason}")
        _write(params)
        if not _nothing_to_do():
            _stop("the study is not complete or not current: run `snakemake` first")
        try:
            dropped = recording.record(
                params,
                lambda *command: _run(*command, quiet=True),
                has_documents=not latex.missing(),
            )
        except recording.RecordError as error:
            _stop(f"nothing is recorded: {error}")
        comparison.keep(study)
    if dropped:
        print(f"dropped from {recording.LOCK}: {len(dropped)} stages of no study")
    print(f"recorded in {recording.LOCK} and {comparison.record_of(study)}")
    try:
        for page in findings.fill_pages(comparison.all_recorded(), Path()):
            print(f"{page} shows the new numbers")
    except ArtifactError as error:
        # A study that was made smaller: the pages speak of the whole one.
        print(f"the pages are left as they are: {error}")


@app.command()
def push() -> None:
    """Send what was recorded to DVC's remote, and say what was not recorded."""
    from posenc.frontends import recording

    for line in recording.unrecorded(_load().study.name):
        _warn(line)
    raise typer.Exit(_run("dvc", "push").returncode)


@app.command()
def pull(
    name: Annotated[str | None, typer.Argument(metavar="STUDY", help="another study")] = None,
) -> None:
    """Fetch what was recorded from DVC's remote; results that were not recorded are kept."""
    from posenc.frontends import recording

    if name is not None:
        study(name)
    check(write=True)  # it keeps what is there
    for line in recording.unrecorded(_load().study.name):
        _warn(line)
    code = _run("dvc", "pull", "--force").returncode
    if code == 0:
        check(write=True)
    raise typer.Exit(code)


@app.command()
def stage(name: Annotated[str, typer.Argument(help="a stage of dvc.yaml")]) -> None:
    """Within `dvc repro`: have Snakemake make a phase of the active study, and no other."""
    from posenc.study.phases import PHASES, target
    from posenc.study.plan import make_folders

    if name not in PHASES:
        _stop(f"there is no phase {name!r}: {', '.join(PHASES)}")
    make_folders(_load())
    rules = [*PHASES[name].rules, target(name)]
    result = _run("snakemake", "--cores", "all", "--allowed-rules", *rules, "--", target(name))
    raise typer.Exit(result.returncode)


@app.command()
def dvc(
    verify: Annotated[bool, typer.Option(help="only compare, and fail when it differs")] = False,
) -> None:
    """Write dvc.yaml: a stage for each phase of the workflow."""
    from posenc.artifacts.files import write_text
    from posenc.study.phases import dvc_yaml

    path = Path("dvc.yaml")
    if verify:
        if not path.exists() or path.read_text(encoding="utf-8") != dvc_yaml():
            _stop(f"{path} is out of date: run `posenc dvc`")
        return
    write_text(path, dvc_yaml())


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
    """Read every file of the study again, and name each that is damaged or not current."""
    from posenc.frontends.verification import verify_files

    params = _load()
    with _holding("verify"):
        wrong, count, size = verify_files(params)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        _stop(
            f"{len(wrong)} of {count} files are not what was made, or not current; `snakemake` or"
            f" `dvc repro` makes them again"
        )
    print(f"{count} files, {size / 1e9:.2f} GB: each is what was made, of what is there now")


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
