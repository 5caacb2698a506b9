"""Commands about results: what would run, what is recorded, and whether it is right."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from posenc.cli.common import (
    PARAMS,
    OtherStudy,
    app,
    holding,
    read_params,
    run,
    stop,
    study_names,
    warn,
)
from posenc.cli.parameters import check, say_sizes, write_sections
from posenc.cli.studies import study

if TYPE_CHECKING:
    from posenc.study.params import Params


def _dry_run(*targets: str) -> str:
    result = run("snakemake", "--cores", "1", "--dry-run", "--", *targets, quiet=True)
    said = result.stdout + result.stderr
    if "MissingRuleException" in said:
        stop(f"the study has no {' or '.join(targets)}: name files of it, or none for all")
    if result.returncode:
        stop(f"snakemake cannot plan the study:\n{said}")
    return said


def _is_current() -> bool:
    """Whether there is nothing to make; not, where nothing can be planned, which is said."""
    try:
        return "Nothing to be done" in _dry_run()
    except typer.Exit:
        return False


def _refuse_unfinished() -> None:
    if not _is_current():
        stop("the study is not complete or not current: run `snakemake` first")


@app.command()
def plan(
    targets: Annotated[list[str] | None, typer.Argument(help="files; all of the study")] = None,
) -> None:
    """Show what `snakemake` would run and why, how long it took the last time, and the disk."""
    from posenc.frontends import place
    from posenc.frontends.forecast import planned, table
    from posenc.frontends.leftovers import announce
    from posenc.study import sources

    params = read_params()
    for target in targets or []:
        if target in params.studies:
            stop(f"{target!r} is a study: `posenc study {target}` makes it the active one")
    announce(params, warn)
    if (reason := place.without_dvc(Path())) is not None:
        warn(f"note: DVC is not used: {reason}")
    jobs = list(planned(_dry_run(*(targets or []))))
    print("\n".join(table(jobs, Path())) if jobs else "Everything is up to date.")
    if jobs:
        say_sizes(params)
    for line in sources.changed(params):
        warn(f"note: {line}")


@app.command()
def record() -> None:
    """After `snakemake`: record the results in DVC, only if they are complete and current."""
    from posenc.artifacts.files import ArtifactError
    from posenc.frontends import place, recording
    from posenc.report import comparison, findings, latex
    from posenc.study.plan import make_folders

    params = read_params()
    study = params.study.name
    with holding("record"):
        reason = place.without_dvc(Path())
        if reason is not None:
            stop(f"nothing is recorded: {reason}")
        write_sections(params)
        make_folders(params)
        try:
            dropped = recording.record(
                params,
                lambda *command: run(*command, quiet=True),
                _is_current,
                has_documents=not latex.missing(),
            )
        except recording.RecordError as error:
            stop(f"nothing is recorded: {error}")
        comparison.keep(study)
    if dropped:
        print(f"dropped from {recording.LOCK}: {len(dropped)} stages of no study")
    print(f"recorded in {recording.LOCK} and {comparison.record_of(study)}")
    try:
        for page in findings.fill_pages(comparison.all_recorded(), Path()):
            print(f"{page} shows the new numbers")
    except ArtifactError as error:
        # The study was made smaller: the pages speak of the whole one.
        print(f"the pages are left as they are: {error}")


@app.command()
def pages() -> None:
    """Write README and pages of docs/ from their templates and the recorded numbers."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report import comparison, findings

    try:
        changed = findings.fill_pages(comparison.all_recorded(), Path())
    except ArtifactError as error:
        stop(str(error))
    print("\n".join(map(str, changed)) or "All pages are as their templates and the records say.")


@app.command()
def push() -> None:
    """Send what was recorded to DVC's remote, and say what was not recorded."""
    from posenc.frontends import place, recording

    if (reason := place.without_dvc(Path())) is not None:
        stop(f"nothing is sent: {reason}")
    for line in recording.unrecorded(read_params().study.name):
        warn(line)
    raise typer.Exit(run("dvc", "push").returncode)


@app.command()
def pull(name: OtherStudy = None) -> None:
    """Fetch what was recorded from DVC's remote; results that were not recorded are kept."""
    from posenc.frontends import place, recording

    if (reason := place.without_dvc(Path())) is not None:
        stop(f"nothing is fetched: {reason}")
    if name is not None:
        study(name)
    check(write=True)  # it keeps what is there
    for line in recording.unrecorded(read_params().study.name):
        warn(line)
    code = run("dvc", "pull", "--force").returncode
    if code == 0:
        check(write=True)
    raise typer.Exit(code)


@app.command()
def stage(name: Annotated[str, typer.Argument(help="a stage of dvc.yaml")]) -> None:
    """Within `dvc repro`: have Snakemake make a phase of the active study, and no other."""
    from posenc.study.phases import PHASES, target
    from posenc.study.plan import make_folders

    if name not in PHASES:
        stop(f"there is no phase {name!r}: {', '.join(PHASES)}")
    make_folders(read_params(), [name])
    rules = [*PHASES[name].rules, target(name)]
    result = run("snakemake", "--cores", "all", "--allowed-rules", *rules, "--", target(name))
    raise typer.Exit(result.returncode)


@app.command()
def dvc(
    verify: Annotated[bool, typer.Option(help="only compare, and fail when it differs")] = False,
) -> None:
    """Write dvc.yaml: a stage for each phase of the workflow."""
    from posenc.artifacts.files import write_text
    from posenc.study.phases import PIPELINE, dvc_yaml, is_pipeline_ours

    if verify:
        if not is_pipeline_ours():
            stop(f"{PIPELINE} is out of date: run `posenc dvc`")
        return
    write_text(PIPELINE, dvc_yaml())


@app.command()
def compare(
    name: OtherStudy = None,
    keep: Annotated[
        bool, typer.Option(help="also record the numbers that differ on this processor")
    ] = False,
) -> None:
    """Compare every recorded number of the study with the one that was made here."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report import comparison

    study = read_params(name).study.name
    try:
        if keep:
            if name is None:
                _refuse_unfinished()
            count = comparison.keep_beside(study)
            print(f"{count} numbers of this processor are kept in {comparison.record_of(study)}")
        lines, is_sound = comparison.report(study)
    except ArtifactError as error:
        stop(str(error))
    print("\n".join(lines))
    if name is None and not _is_current():
        warn("note: these numbers are of an earlier run, and not current: see `posenc plan`")
    if not is_sound:
        raise typer.Exit(1)


@app.command()
def show(
    key: Annotated[
        str, typer.Argument(help="of the study's numbers.json, or of params.yaml, with dots")
    ],
    study: Annotated[
        str | None,
        typer.Option(help="a study; by default the active one", autocompletion=study_names),
    ] = None,
) -> None:
    """Trace a number back to its file and job, or a parameter to its line or its default.

    A parameter is a path such as measurements.similarity.seed: its value in the study, where this
    comes from, what it means, and which jobs read it.
    """
    from posenc.study import shown

    params = read_params(study=study)
    if not shown.is_parameter(key):
        return _show_number(params, key)
    try:
        print("\n".join(shown.described(params, key, PARAMS)))
    except shown.UnknownParameterError as error:
        stop(str(error))


def _show_number(params: Params, number: str) -> None:
    """A number's value, interval, file, command, inputs with their checksums, commit."""
    from posenc.artifacts.contents import Contents
    from posenc.artifacts.files import ArtifactError
    from posenc.frontends.place import commit
    from posenc.frontends.verification import of_study, planned_digests
    from posenc.report.gathered import gather
    from posenc.report.showing import UnknownKeyError, described, measurements_of
    from posenc.study.facts import facts
    from posenc.study.shown import meant

    study = params.study.name
    receipts = of_study(params)
    typeset = next(
        (receipt for receipt in receipts.values() if receipt and receipt.rule == "typeset"), None
    )
    if typeset is None:
        stop(f"study {study!r} has no numbers yet: run `snakemake`{meant(params, number)}")
    now, contents = planned_digests(params), Contents(None)
    try:
        results = gather(facts(params), *measurements_of(typeset))
        lines = described(
            number, results, receipts,
            lambda path: now.get(path) or contents.digest(path), commit(Path()),
        )  # fmt: skip
    except UnknownKeyError as error:
        stop(f"{error}{meant(params, number)}")
    except (ArtifactError, FileNotFoundError) as error:
        stop(str(error))
    print("\n".join(lines))


@app.command()
def recovered(name: OtherStudy = None) -> None:
    """Say what conditions recover of what positions are worth, by size and type of model."""
    from posenc.artifacts.files import ArtifactError
    from posenc.study.recovered import table

    try:
        print("\n".join(table(read_params(name))))
    except ArtifactError as error:
        stop(str(error))


@app.command()
def bench(
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="what computes")] = "auto",
) -> None:
    """Measure products of matrices in each form, and say what `precision: fast` computes in."""
    from posenc.models.rates import table

    try:
        print(table(device))
    except RuntimeError as error:
        stop(str(error).replace("activations.device", "--device"))


@app.command()
def verify() -> None:
    """Read every file of the study again, and name each that is damaged or not current."""
    from posenc.frontends.forecast import planned
    from posenc.frontends.verification import verify_files

    params = read_params()
    with holding("verify"):
        wrong, count, size = verify_files(params)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        stop(
            f"{len(wrong)} of {count} files are damaged or out of date; `snakemake` or"
            f" `dvc repro` makes them again"
        )
    read = f"{count} files, {size / 1e9:.2f} GB: all match their checksums"
    # By the plan, as all else: a receipt that is gone names nothing, and a rule is no file.
    if jobs := list(planned(_dry_run())):
        stop(f"{read}; but {len(jobs)} jobs are not made, or not current: see `posenc plan`")
    print(f"{read}, of what is there now")


@app.command()
def report() -> None:
    """Write Snakemake's report of the finished study to report.html."""
    if run("snakemake", "--cores", "1", "--report", "report.html", quiet=True).returncode:
        stop("the report cannot be made: see `snakemake --report report.html`")
    print("Report: report.html")


@app.command()
def publish() -> None:
    """Copy the finished study's paper to docs, where it can be read without running anything."""
    from posenc.artifacts.files import ArtifactError
    from posenc.report import publishing

    study = read_params().study.name
    _refuse_unfinished()
    try:
        print(f"{publishing.publish(study, Path())} can be committed")
    except ArtifactError as error:
        stop(str(error))


@app.command()
def summary() -> None:
    """Say what was made, and what is missing."""
    from posenc.report.links import closing_line

    active = read_params().study
    print(closing_line(active.name, active.documents))
