"""The error of this room."""

from __future__ import annotations


class DatasetError(RuntimeError):
    """A data set cannot be had or is not what it should be; the message says the way out."""

    is_user_error = True
