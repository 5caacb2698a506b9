"""The parameters of the current folder, where names of models and conditions are looked up."""

from __future__ import annotations

import functools
from pathlib import Path

from posenc.study.params import Params
from posenc.study.params import load as load_params

PARAMS = Path("params.yaml")


def project() -> Params | None:
    """``params.yaml`` of the current folder, if there is one.

    Raises
    ------
    ParamsError
        If it is wrong.
    """
    if not PARAMS.is_file():
        return None
    status = PARAMS.stat()
    return _read_params(PARAMS.resolve(), status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1)
def _read_params(path: Path, changed: int, size: int) -> Params:
    """Checking all of it takes a second: once for each state of the file."""
    return load_params(path)
