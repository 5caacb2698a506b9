"""Checkpoints of trainings: one file that is whole or not there, and that knows whose it is."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from posenc.artifacts.files import atomic_file

FILE = "checkpoint.pt"

State: TypeAlias = Mapping[str, Any]
"""Of a training: its ``step``, and what it goes on from, by names of its own."""


def to_stderr(line: str) -> None:
    """Say a line beside the progress bar."""
    print(line, file=sys.stderr)


class Checkpoint:
    """The state of one training, kept between tries.

    Parameters
    ----------
    path
        The file.
    identity
        Digest of everything that determines the result; a checkpoint of another is discarded.
    say
        Receives one line when a checkpoint is found.
    """

    def __init__(self, path: Path, identity: str, say: Callable[[str], None] = to_stderr) -> None:
        self.path, self._identity, self._say = path, identity, say

    def save(self, state: State) -> None:
        """Keep a state, atomically; the one before is replaced."""
        import torch

        content = io.BytesIO()
        torch.save({"identity": self._identity, **state}, content)
        # torch reads altered numbers without a word, so its own format is not enough.
        with atomic_file(self.path) as temporary:
            temporary.write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())

    def load(self) -> State | None:
        """The state that was kept, on the CPU; None where there is none, or another's."""
        import torch

        if not self.path.exists():
            return None
        content = self.path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            self._say(
                f"note: the checkpoint {self.path} cannot be read, it is damaged; starting again"
            )
            return None
        state = torch.load(io.BytesIO(content[32:]), weights_only=True, map_location="cpu")
        if state["identity"] != self._identity:
            self._say(
                f"note: the checkpoint {self.path} belongs to other inputs or parameters; "
                "starting again"
            )
            return None
        self._say(f"note: going on from the checkpoint at step {state['step']}")
        return state
