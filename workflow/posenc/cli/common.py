"""What all commands share: the application, params.yaml, and one line for what is wrong."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from posenc.study.params import Params


class _Command(TyperCommand):
    """Refuses words that are empty, and options that are there twice: the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # the shell completes a command
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for parameter in order:
                value = values.get(parameter.name)
                name = parameter.opts[0] if parameter.opts[0][:1] == "-" else parameter.name.upper()
                if value == "" or (isinstance(value, list | tuple) and "" in value):
                    stop(f"{name} is empty: give a value, or leave it out")
                if name[:1] == "-" and not parameter.multiple and order.count(parameter) > 1:
                    stop(f"{name} is given twice: give it once")
        return super().parse_args(ctx, args)


class _App(typer.Typer):
    def command(self, *arguments: Any, **options: Any) -> Any:
        return super().command(*arguments, cls=_Command, **options)


app = _App(no_args_is_help=True, pretty_exceptions_enable=False)
OWN = Path(__file__).resolve().parents[2]
IN_CHECKOUT = (
    "import sys; sys.path.insert(0, sys.argv[1]); sys.argv[:2] = ['posenc']; "
    "from posenc.cli import app; app()"
)
"""Not by PYTHONPATH, in which a colon parts two paths."""
PARAMS = Path("params.yaml")


def stop(message: str) -> NoReturn:
    """End the command with one line."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(1)


def read_params(study: str | None = None) -> Params:
    """Read params.yaml, for another study than the active one if it is named.

    What is wrong with it ends the command with its line.
    """
    from posenc.study.params import ParamsError, load

    try:
        return load(PARAMS, None if study is None else {"study": study})
    except ParamsError as error:
        stop(str(error))


@contextlib.contextmanager
def holding(command: str) -> Iterator[None]:
    """Be the one front end for a block; what it may not write is said in one line."""
    from posenc.artifacts import holder
    from posenc.frontends import place, recovery

    def end_orphans(is_alone: bool) -> None:
        recovery.end_orphans(Path.cwd(), warn, is_alone)

    try:
        place.refuse_read_only(Path())
        with place.writing(Path()), holder.holding(Path(), f"posenc {command}", end_orphans):
            yield
    except (holder.BusyError, place.ReadOnlyError) as error:
        stop(str(error))


def warn(line: str) -> None:
    """Say a line beside what the command prints."""
    print(line, file=sys.stderr)


def run(*command: str, quiet: bool = False) -> subprocess.CompletedProcess:
    """Run a program of this environment."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=quiet, text=True, env=environment)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        from posenc.frontends.place import commit

        print(f"posenc {version('posenc')}, commit {commit(Path())}")
        raise typer.Exit


def study_names(incomplete: str) -> list[str]:
    """Names of studies, for the shell; nothing where there is no whole params.yaml."""
    from posenc.study.params import ParamsError, load

    try:
        return [name for name in load(PARAMS).studies if name.startswith(incomplete)]
    except ParamsError:
        return []


StudyName = Annotated[str, typer.Argument(help="a key of `studies`", autocompletion=study_names)]
OtherStudy = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY", help="a study; by default the active one", autocompletion=study_names
    ),
]


@app.callback()
def answer(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_say_version)
    ] = False,
) -> None:
    """Set up, check, look into and record the studies that Snakemake or DVC run."""


def run_checkout() -> None:
    """Go on with the code of the checkout in which the command is called, if it is another's.

    An environment may be another clone's, or a worktree may use its clone's.
    """
    here = Path("workflow").resolve()
    if here == OWN or not (here / "posenc").is_dir():
        return
    warn(f"posenc: the environment is of {OWN.parent}; the code of this checkout runs")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-c", IN_CHECKOUT, str(here), *sys.argv[1:]])
