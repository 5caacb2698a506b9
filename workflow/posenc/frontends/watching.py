"""A run that can be followed: one compact view of its jobs, and errors last.

Snakemake's own account of a run goes to its file in ``.snakemake/log``, what a job says to the
job's log. On a terminal there is one view, which is redrawn all the time; elsewhere, a line for
each job that has ended.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from posenc.frontends.forecast import Job, spoken

SHOWN = re.compile(r"(?:^|[\r\n\]])((?:warning|note): [^\r\n]*)")
"""What a job writes to its log for people to see while it runs; a bar may stand before it."""
ERROR = re.compile(r"\berror: ([^\r\n]*)")
FOLLOWS = (
    "RuleException:\nCalledProcessError", "Exiting because a job execution failed",
    "WorkflowError:\nAt least one job did not complete", "At least one job did not complete",
    "Shutting down", "Restored previous version", "Removing output files of failed job",
)  # fmt: skip
"""What Snakemake says around a failed job, about which :meth:`View.end` says more."""
NOTHING = "Nothing to be done"
MOST_SHOWN = 3
"""Lines of one job that are shown."""
BAR = 60
"""Characters of the bar."""
MOST_AT_WORK = 8
"""Jobs at work that are shown."""


@dataclass
class Work:
    """A job at work.

    Attributes
    ----------
    name
        Its rule, and what it is of.
    log
        Where it says what it does; None for no log.
    expected
        Seconds that it took when it last ran here; None if it has not.
    began
        When, in seconds of the monotonic clock.
    """

    name: str
    log: Path | None
    expected: float | None
    began: float

    def last_words(self) -> str:
        """The last line of its log, such as how far it is."""
        lines = re.split(r"[\r\n]+", _end_of(self.log).strip())
        return re.sub(r"\s+", " ", lines[-1]) if lines else ""


class View(logging.Handler):
    """What people see of a run, in place of Snakemake's own lines.

    Parameters
    ----------
    stream
        Where it is written.
    live
        Whether there is one view that is drawn again; else there is a line for each job.
    """

    def __init__(self, stream: TextIO, live: bool) -> None:
        super().__init__()
        self._stream, self._is_live = stream, live
        self._screen: Any = None
        self._expected: dict[str, float | None] = {}
        self._at_work: dict[int, Work] = {}
        self._failed: dict[int, Work] = {}
        self._total = self._done = self._warned = 0
        self._known = 0.0  # expected seconds of the jobs that have ended
        self._began = time.monotonic()
        self._has_ended = False

    def plan(self, jobs: Iterable[Job]) -> None:
        """Note what will run, before it does: jobs overwrite the times of earlier runs.

        Parameters
        ----------
        jobs
            All but the rule ``all``.
        """
        listed = list(jobs)
        self._expected = {_key(job.rule, job.benchmark): job.seconds(Path()) for job in listed}
        self._total, self._began = len(listed), time.monotonic()
        rules = sorted(Counter(job.rule for job in listed).items())
        what = ", ".join(f"{count} {rule}" if count > 1 else rule for rule, count in rules)
        self._write(f"Job stats: {self._total} jobs: {what}")
        if known := [seconds for seconds in self._expected.values() if seconds is not None]:
            new = self._total - len(known)
            more = f"; {new} have not run here" if new else ""
            self._write(f"{spoken(sum(known))} of one processor when they last ran here{more}")
        if self._is_live and self._total:
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False)
            self._screen = Live(
                get_renderable=self._picture, console=console, refresh_per_second=4, transient=True
            )
            self._screen.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take in what Snakemake logs."""
        event = str(getattr(record, "event", None) or "")
        if event == "job_info":
            self._begin(record)
        elif event == "job_finished":
            self._finish(record.job_id)  # type: ignore[attr-defined]
        elif event == "job_error":
            if (work := self._at_work.pop(record.jobid, None)) is not None:  # type: ignore[attr-defined]
                self._failed[record.jobid] = work  # type: ignore[attr-defined]
        elif event in ("", "error"):
            text = self.format(record)
            is_shown = record.levelno >= logging.WARNING or text.startswith(NOTHING)
            if is_shown and text not in ("", "None") and not text.startswith(FOLLOWS):
                self._write(text)

    def _begin(self, record: Any) -> None:
        if record.rule_name == "all":
            return
        name = " ".join([record.rule_name, *map(str, record.wildcards.values())])
        log = Path(record.log[0]) if record.log else None
        expected = self._expected.get(_key(record.rule_name, str(record.benchmark or "")))
        self._at_work[record.jobid] = Work(name, log, expected, time.monotonic())

    def _finish(self, number: int) -> None:
        # A job that had failed was tried again.
        work = self._at_work.pop(number, None) or self._failed.pop(number, None)
        if work is None:
            return
        self._done += 1
        self._known += work.expected or 0
        took = time.monotonic() - work.began
        if not self._is_live:
            self._write(f"{self._done} of {self._total}: {work.name}, {spoken(took)}")
        lines = list(dict.fromkeys(SHOWN.findall(_text_of(work.log))))
        self._warned += sum(line.startswith("warning") for line in lines)
        if len(lines) > MOST_SHOWN:
            lines[MOST_SHOWN - 1 :] = [f"note: {len(lines) + 1 - MOST_SHOWN} more in {work.log}"]
        for line in lines:
            self._write(f"{line} ({work.name})")

    def left(self) -> float | None:
        """Seconds that the rest will take, by what jobs took in earlier runs; None if not known.

        What is done so far tells how many jobs run side by side, and how fast this machine is now.
        """
        expected = list(self._expected.values())
        if not expected or expected.count(None) > len(expected) / 2:
            return None
        now = time.monotonic()
        running = sum(
            min(now - work.began, work.expected or 0) for work in list(self._at_work.values())
        )
        done, elapsed = self._known + running, now - self._began
        rest = max(0.0, sum(seconds or 0 for seconds in expected) - done)
        return rest * elapsed / done if done > 1 else rest

    @property
    def said(self) -> str:
        """What was done, in a few words."""
        warnings = f"{self._warned or 'no'} warning{'s' * (self._warned != 1)}"
        jobs = f"{self._done} job{'s' * (self._done != 1)}"
        return f"{jobs} in {spoken(time.monotonic() - self._began)}, {warnings}"

    def end(self) -> None:
        """Take the view away; say of each job that failed why, where its log is, and what to do."""
        if self._has_ended:
            return
        self._has_ended = True
        if self._screen is not None:
            self._screen.stop()
        for work in self._failed.values():
            errors = ERROR.findall(_text_of(work.log))
            if errors:
                self._write(f"error: {errors[-1]}")
            else:
                last = [line for line in _end_of(work.log, 2000).splitlines() if line.strip()][-5:]
                self._write("\n".join([f"error: {work.name} failed; its last words:", *last]))
            self._write(f"  job: {work.name}; its log: {work.log}")
        if self._failed:
            self._write(
                f"  {self._done} of {self._total} jobs are done and kept: the same command goes on "
                f"from there"
            )

    def _write(self, text: str) -> None:
        if self._screen is not None and not self._has_ended:
            self._screen.console.print(text, markup=False)
        else:
            print(text, file=self._stream, flush=True)

    def _picture(self) -> Any:
        """What is drawn: how far the run is, and the jobs at work."""
        from rich.console import Group
        from rich.text import Text

        now, left = time.monotonic(), self.left()
        head = f"{self._done} of {self._total} jobs done, {len(self._at_work)} at work"
        head += f", {spoken(now - self._began)}"
        head += f", about {spoken(left)} left" if left is not None else ""
        head += f", {self._warned} warnings" * bool(self._warned)
        head += f", {len(self._failed)} failed" * bool(self._failed)
        lines = [Text(head, no_wrap=True, overflow="ellipsis", style="bold")]
        for work in list(self._at_work.values())[:MOST_AT_WORK]:
            usual = "" if work.expected is None else f" of about {spoken(work.expected)}"
            line = f"  {work.name}  {spoken(now - work.began)}{usual}  {work.last_words()}"
            lines.append(Text(line, no_wrap=True, overflow="ellipsis"))
        full = BAR * self._done // max(1, self._total)
        bar = Text("━" * full + "─" * (BAR - full), no_wrap=True, overflow="crop")
        return Group(lines[0], bar, *lines[1:])


def _key(rule: str, benchmark: str) -> str:
    return benchmark or rule


def _text_of(log: Path | None) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace") if log is not None else ""
    except OSError:
        return ""


def _end_of(log: Path | None, count: int = 300) -> str:
    """The last bytes of a log, as text."""
    try:
        if log is None:
            return ""
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - count))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def watch(logger: logging.Logger, settings: Any, stream: TextIO) -> View | None:
    """Put a view in place of what Snakemake writes to the terminal.

    Parameters
    ----------
    logger
        Snakemake's.
    settings
        Its output settings. Whoever asked for more, for less or for another plugin gets that.
    stream
        Where Snakemake writes.

    Returns
    -------
    View or None
        None where Snakemake's own lines stay.
    """
    asked = ("quiet", "verbose", "printshellcmds", "debug_dag", "show_failed_logs", "stdout")
    own = [
        candidate
        for candidate in logger.handlers
        if type(candidate).__name__ == "ColorizingTextHandler"
    ]
    if any(getattr(settings, name, None) for name in asked) or not own:
        return None
    view = View(stream, live=stream.isatty())
    view.setFormatter(own[0].formatter)
    for handler in own:
        logger.removeHandler(handler)
    logger.addHandler(view)
    return view
