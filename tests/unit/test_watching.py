"""What people see of a run: a line for a job, warnings, time left; errors last; where to look."""

from __future__ import annotations

import io
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

from posenc.frontends import watching
from posenc.frontends.forecast import Job
from posenc.frontends.watching import watch
from posenc.report.links import closing_lines

QUIET = SimpleNamespace(
    quiet=None, verbose=False, printshellcmds=False, debug_dag=False, show_failed_logs=False,
    stdout=False,
)  # fmt: skip


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Run:
    """A run of Snakemake, as its logger tells it."""

    def __init__(self, stream: io.StringIO, **settings) -> None:
        self.stream, self.logger = stream, logging.Logger("run")
        self.own = ColorizingTextHandler(stream=stream, formatter=DefaultFormatter())
        self.logger.addHandler(self.own)
        self.view = watch(self.logger, SimpleNamespace(**vars(QUIET) | settings), stream)

    def begin(
        self, number: int, rule: str, log: str = "", benchmark: str = "", **wildcards: str
    ) -> None:
        self.logger.info("", extra=dict(
            event=LogEvent.JOB_INFO, jobid=number, rule_name=rule, log=[log] if log else [],
            benchmark=benchmark or None, wildcards=wildcards,
        ))  # fmt: skip

    def finish(self, number: int) -> None:
        self.logger.info("", extra=dict(event=LogEvent.JOB_FINISHED, job_id=number))

    def fail(self, number: int) -> None:
        self.logger.error(
            "RuleException:\nCalledProcessError in file ...", extra=dict(event=LogEvent.ERROR)
        )
        self.logger.error("", extra=dict(event=LogEvent.JOB_ERROR, jobid=number))
        self.logger.error("Exiting because a job execution failed. Look above for error messages")
        self.logger.info("Restored previous version of x (updating job failed).")

    @property
    def said(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.stream.getvalue()).splitlines()


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@given(count=st.integers(0, 30))
@settings(deadline=None)
def test_there_is_at_most_a_line_for_each_job(count):
    run = Run(io.StringIO())
    run.view.plan(Job(f"rule{number}") for number in range(count))
    before = len(run.said)
    for number in range(count):
        run.begin(number, f"rule{number}", model="minilm")
        run.logger.info("Select jobs to execute...")
        run.finish(number)
    run.begin(count, "all")
    run.finish(count)
    run.view.end()
    lines = run.said[before:]
    assert [line.partition(",")[0] for line in lines] == [
        f"{number + 1} of {count}: rule{number} minilm" for number in range(count)
    ]
    assert run.view.said == f"{count} job{'s' * (count != 1)} in 1 s, no warnings"


def test_what_snakemake_refuses_is_said_as_it_says_it():
    run = Run(io.StringIO())
    run.logger.error("WorkflowError:\nparams.yaml:3: is wrong")
    run.logger.info("Nothing to be done (all requested files are present and up to date).")
    run.logger.info("Execute 1 jobs...")
    assert run.said == [
        "WorkflowError:",
        "params.yaml:3: is wrong",
        "Nothing to be done (all requested files are present and up to date).",
    ]


def test_warnings_of_a_job_are_said_and_counted(here):
    bar = "50%\r100%\rwarning: much is cut\nwarning: much is cut\nkept\n"
    bar += "\rtrain: 0%| | 0/3 [00:00<?, ?step/s]note: begins again\n"
    Path("a.log").write_text(bar)
    Path("b.log").write_text("".join(f"note: shard {number} is there\n" for number in range(9)))
    run = Run(io.StringIO())
    run.view.plan([Job("tokenize"), Job("capture")])
    for number, rule in enumerate(("tokenize", "capture")):
        run.begin(number, rule, f"{'ab'[number]}.log")
        run.finish(number)
    assert run.said[1:] == [
        "1 of 2: tokenize, 1 s", "warning: much is cut (tokenize)", "note: begins again (tokenize)",
        "2 of 2: capture, 1 s", "note: shard 0 is there (capture)",
        "note: shard 1 is there (capture)", "note: 7 more in b.log (capture)",
    ]  # fmt: skip
    assert run.view.said.endswith("1 warning")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_errors_come_last_with_their_log(here, stream):
    Path("a.log").write_text("10%|#\rerror: data.csv:3: no text: write one\n")
    Path("c.log").write_text("one\n\nKilled\n")
    run = Run(stream())
    run.view.plan([Job("documents"), Job("figure"), Job("train")])
    for number, (rule, log) in enumerate(
        {"documents": "a.log", "figure": "b.log", "train": "c.log"}.items()
    ):
        run.begin(number, rule, log, of="mine")
    run.fail(0)
    run.fail(2)
    run.finish(1)
    run.view.end()
    run.view.end()
    run.logger.error("WorkflowError:\nAt least one job did not complete successfully.")
    assert run.said[-7:] == [
        "error: data.csv:3: no text: write one", "  job: documents mine; its log: a.log",
        "error: train mine failed; its last words:", "one", "Killed",
        "  job: train mine; its log: c.log",
        "  1 of 3 jobs are done and kept: the same command goes on from there",
    ]  # fmt: skip
    text = run.stream.getvalue()
    assert text.count("error: ") == 2 and "Exiting" not in text and "CalledProcess" not in text


def test_a_job_that_a_second_try_finished_has_not_failed(here):
    run = Run(io.StringIO())
    run.view.plan([Job("fetch")])
    run.begin(0, "fetch", of="mine")
    run.fail(0)
    run.finish(0)
    run.view.end()
    assert run.said[1:] == ["1 of 1: fetch mine, 1 s"]


def benchmark(name: str, seconds: float) -> str:
    Path(name).write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")
    return name


def test_time_left_is_from_earlier_runs_and_how_fast_this_one_is(here, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    run = Run(io.StringIO())
    files = [benchmark(f"{number}.tsv", 10) for number in range(4)]
    run.view.plan(Job(f"r{number}", file) for number, file in enumerate(files))
    assert run.said[-1] == "40 s of one processor when they last ran here"
    assert run.view.left() == 40
    for number, file in enumerate(files[:2]):
        run.begin(number, f"r{number}", benchmark=file)
    now[0] += 20  # twice as slow as then, two at a time
    for number in range(2):
        run.finish(number)
    assert run.view.left() == pytest.approx(20)


def test_no_time_is_said_where_most_jobs_have_not_run_here(here):
    run = Run(io.StringIO())
    run.view.plan([Job("a", benchmark("a.tsv", 5)), Job("b", "b.tsv"), Job("c")])
    assert run.view.left() is None
    assert run.said[-1].endswith("; 2 have not run here")


def test_a_terminal_has_one_view_that_is_drawn_again(here):
    Path("a.log").write_text("capture: 50%|##\r")
    run = Run(Terminal())
    run.view.plan([Job("capture"), Job("page")])
    run.begin(0, "capture", "a.log", model="minilm")
    picture = "\n".join(map(str, run.view._picture().renderables))
    run.finish(0)
    assert "1 of 2 jobs done, 0 at work" in str(run.view._picture().renderables[0])
    run.view.end()
    assert picture.startswith("0 of 2 jobs done, 1 at work")
    assert re.search(r"(?m)^  capture minilm  1 s  capture: 50%\|##$", picture)
    assert "\x1b[?25h" in run.stream.getvalue(), "the cursor is there again"
    assert "1 of 2: " not in run.stream.getvalue()


@pytest.mark.parametrize("asked", ["verbose", "printshellcmds", "quiet", "debug_dag"])
def test_who_asks_for_snakemakes_own_lines_has_them(asked):
    run = Run(io.StringIO(), **{asked: True})
    assert run.view is None and run.logger.handlers == [run.own]


def test_another_plugin_stays(here):
    logger = logging.Logger("run")
    logger.addHandler(other := logging.NullHandler())
    assert watch(logger, QUIET, io.StringIO()) is None and logger.handlers == [other]


def test_the_last_lines_say_what_was_made_and_where_to_look(here):
    folder = Path("data/studies/mine")
    (folder / "figures").mkdir(parents=True)
    few = closing_lines("mine", [], "", ".snakemake/log/a.log")
    assert few == [
        "Study 'mine': no page yet in data/studies/mine",
        "  logs: logs, a file for each job, and .snakemake/log/a.log",
    ]
    for name in ("index.html", "numbers.json", "metrics.json", "figures/one.svg"):
        (folder / name).touch()
    lines = closing_lines("mine", [], "3 jobs in 2 s; ", str(here / ".snakemake/log/a.log"))
    assert (
        len(lines) == 5
        and lines[0] == "Study 'mine': index.html, metrics.json in data/studies/mine"
    )
    for line, path in zip(lines[1:4], ("index.html", "figures", "numbers.json"), strict=True):
        assert f"{folder / path}" in line
    assert lines[4] == "  3 jobs in 2 s; logs: logs, a file for each job, and .snakemake/log/a.log"
