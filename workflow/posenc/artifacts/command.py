"""What all steps share: how a command line is run and how it ends when something is wrong."""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer
from pydantic import BaseModel, ValidationError

from posenc.artifacts.files import ArtifactError, DamagedError, mark_for_remaking

S = TypeVar("S", bound=BaseModel)

# Of glibc's <malloc.h>; thresholds are in bytes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def run(function: Callable[..., None]) -> None:
    """Run a function as a command whose options are its parameters.

    An error that the user can mend ends with one line ``error: ...`` on stderr and exit code 1:
    an ``ArtifactError``, a ``RuntimeError`` with ``is_user_error = True``, or an ``OSError`` of
    the system such as a full disk. What is damaged is marked, so that the next run makes it
    again. An interruption exits with 130. Everything else is a defect
    and shows its traceback.
    """

    @functools.wraps(function)
    def guarded(*args, **kwargs) -> None:
        try:
            function(*args, **kwargs)
        except KeyboardInterrupt:
            _end("interrupted", 130)
        except DamagedError as error:
            for path in {error.path, error.part}:
                mark_for_remaking(path)
            _end(f"{error}; start again, and {error.path} is made again", 1)
        except RuntimeError as error:
            if not isinstance(error, ArtifactError) and not getattr(error, "is_user_error", False):
                raise
            _end(str(error), 1)
        except OSError as error:
            # Without a number it does not come from the system but from a library.
            if error.errno is None:
                raise
            _end(str(error), 1)

    collect_rarely()
    keep_freed_memory()
    # A workflow manager ends its jobs so; as an exit, it lets temporary files be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(guarded)
    app()


def collect_rarely() -> None:
    """Let Python look for unreachable cycles of objects a hundred times less often.

    Each look goes through all that torch and transformers define, and there is one more at the end:
    together a third of the time of a short job. Arrays are freed without it.
    """
    gc.set_threshold(100_000, 20, 100)
    atexit.register(gc.freeze)


def keep_freed_memory() -> None:
    """Let the C library keep large arrays that are freed for those that come next.

    It gives them back to the system, which clears each page again when the next is made: of a
    training, a third of the time and more. Of libraries other than glibc nothing is asked.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # An older glibc refuses so high a threshold, and is slower with the second alone.
    if mallopt is not None and mallopt(M_MMAP_THRESHOLD, 2**28):
        mallopt(M_TRIM_THRESHOLD, 2**29)


def _end(message: str, code: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def read_section(path: Path, section: type[S]) -> S:
    """Read a section of ``params.yaml`` that the workflow wrote to a JSON file.

    Raises
    ------
    ArtifactError
        If the file does not hold that section.
    """
    try:
        return section.model_validate_json(Path(path).read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        raise ArtifactError(
            f"{path} is not a {section.__name__} section ({key}: {problem['msg']}); "
            f"delete it and rerun"
        ) from error
