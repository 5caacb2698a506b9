"""One front end at a time in a project's ``data``, whoever runs it and wherever.

Two files are locked, with the kernel's own locks, which end with their process however it ends: one
by the front end, alone; one by each job, shared, so that jobs of a front end that was killed are
noticed. Processes of other users and containers meet the same files, and so do two clones that
share ``data`` by a link. Hosts whose file system does not share locks are known by a heartbeat.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

FRONT_END, JOBS = Path("data/.front-end"), Path("data/.jobs")
HEARTBEAT = 5.0
"""Seconds between two signs of life."""
SILENT = 4 * HEARTBEAT
"""Seconds after which a front end of another machine counts as ended."""
PATIENCE = 10.0
"""Seconds that jobs of a killed run are waited for."""


NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems say that know no locks, as Lustre where it was mounted without them."""


class BusyError(RuntimeError):
    """A project cannot be held: another front end is at work, or could be without being noticed."""


class Hold(NamedTuple):
    """A project that is held: the locked file, and the thread that gives signs of life."""

    file: int
    heart: threading.Thread
    end: threading.Event


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return socket.gethostname()


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except PermissionError:
        return os.open(path, os.O_RDONLY)  # another user's: it can be locked all the same
    with contextlib.suppress(OSError):
        os.fchmod(handle, 0o666)
    return handle


def _lock(handle: int, kind: int, wait: int = fcntl.LOCK_NB) -> bool:
    try:
        fcntl.flock(handle, kind | wait)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise BusyError(
            f"data lies on a file system without locks ({error.strerror}), where a second run "
            f"would not be noticed: mount it with locks (Lustre: the option flock), or work on "
            f"another disk"
        ) from None
    return True


def _said(root: Path) -> dict[str, object]:
    """What the front end at work, or the last one, says of itself."""
    try:
        said = json.loads((root / FRONT_END).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _is_alive_elsewhere(root: Path, said: dict[str, object]) -> bool:
    """Whether a front end of another machine gave a sign of life lately."""
    if not said or said.get("boot") == _boot():
        return False
    seen = (root / FRONT_END).stat().st_mtime
    if 0 <= time.time() - seen < SILENT:
        return True
    # Two machines' clocks may differ by more than that: a heart that beats moves the date.
    end = time.monotonic() + 2 * HEARTBEAT
    while time.monotonic() < end:
        if (root / FRONT_END).stat().st_mtime != seen:
            return True
        time.sleep(HEARTBEAT / 10)
    return False


def described(said: dict[str, object]) -> str:
    """A front end in a few words."""
    command = said.get("command") or "another front end"
    where = "" if said.get("host") == socket.gethostname() else f" on {said.get('host')}"
    process = f" (process {said['pid']}{where})" if "pid" in said else ""
    return f"`{command}`{process}"


def hold(root: Path, command: str, end_orphans: Callable[[bool], object] = lambda _: None) -> Hold:
    """Be the one front end at work in a project until this process ends, or :func:`release`.

    Parameters
    ----------
    root
        The project's folder.
    command
        What others are told.
    end_orphans
        Ends what a killed run left running; called with whether no other front end is at work.

    Returns
    -------
    Hold
        For :func:`release`.

    Raises
    ------
    BusyError
        If another front end is at work, or jobs of one that was killed; if the file system has no
        locks.
    """
    handle = _open(root / FRONT_END)
    if not _lock(handle, fcntl.LOCK_EX):
        end_orphans(False)
        if not _lock(handle, fcntl.LOCK_EX):
            os.close(handle)
            raise BusyError(f"{described(_said(root))} is running here: wait until it has ended")
    if _is_alive_elsewhere(root, said := _said(root)):
        os.close(handle)
        raise BusyError(f"{described(said)} is running here: wait until it has ended")
    end_orphans(True)
    _wait_for_jobs(root, handle)
    about = {"command": command, "host": socket.gethostname(), "boot": _boot(), "pid": os.getpid()}
    with contextlib.suppress(OSError):  # another user's file can be locked, not written
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(about).encode(), 0)
    end = threading.Event()
    heart = threading.Thread(target=_beat, args=(handle, end), daemon=True)
    heart.start()
    return Hold(handle, heart, end)


def _wait_for_jobs(root: Path, front_end: int) -> None:
    jobs = _open(root / JOBS)
    try:
        end = time.monotonic() + PATIENCE
        while not _lock(jobs, fcntl.LOCK_EX):
            if time.monotonic() > end:
                os.close(front_end)
                raise BusyError(
                    "jobs of a run that was killed are still at work here, in another container "
                    "or as another user: end them, or wait"
                )
            time.sleep(0.1)
    finally:
        os.close(jobs)


def _beat(handle: int, end: threading.Event) -> None:
    while not end.wait(HEARTBEAT):
        try:
            os.utime(handle)
        except OSError:
            return


def is_held(root: Path) -> bool:
    """Whether a front end is at work; not, for a job whose front end was killed."""
    handle = _open(root / FRONT_END)
    try:
        return not _lock(handle, fcntl.LOCK_SH) or _is_alive_elsewhere(root, _said(root))
    finally:
        os.close(handle)


def release(hold: Hold) -> None:
    """Let others work."""
    hold.end.set()
    hold.heart.join()  # the next file to be opened may have the number of this one
    with contextlib.suppress(OSError):
        os.ftruncate(hold.file, 0)
    os.close(hold.file)


@contextlib.contextmanager
def holding(
    root: Path, command: str, end_orphans: Callable[[bool], object] = lambda _: None
) -> Iterator:
    """Be the one front end for a block; see :func:`hold`."""
    held = hold(root, command, end_orphans)
    try:
        yield
    finally:
        release(held)


@contextlib.contextmanager
def working(root: Path) -> Iterator[None]:
    """Be a job for a block: whoever wants to be the front end notices."""
    handle = _open(root / JOBS)
    try:
        _lock(handle, fcntl.LOCK_SH, wait=0)
        yield
    finally:
        os.close(handle)


def own_command() -> str:
    """The command line of this process, as others are told it."""
    name = os.path.basename(sys.argv[0])
    return " ".join(["snakemake" if name == "__main__.py" else name, *sys.argv[1:]])[:200]
