"""A GGUF file opened: its values by key, and its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc.artifacts.files import ArtifactError

if TYPE_CHECKING:
    from gguf import GGUFReader


def opened(path: Path) -> GGUFReader:
    """The library's reader of a file, without what makes it slow.

    It takes a slice for every word of a vocabulary, and a slice of a mapped array costs several
    times that of a plain one: of the same mapped bytes, here.
    """
    from gguf import GGUFReader

    class Reader(GGUFReader):
        @property
        def data(self) -> Any:  # uint8 [bytes]
            return self._bytes

        @data.setter
        def data(self, mapped: np.ndarray) -> None:
            self._bytes = mapped.view(np.ndarray)

    return Reader(path)


class File:
    """A GGUF file: values by key, and tensors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.reader = opened(path)
        # The library raises whatever NumPy raises at the end of the file.
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ArtifactError(
                f"{path} is not a whole GGUF file ({type(error).__name__}: {reason}); get it again"
            ) from None

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or what stands for it where the file has none."""
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def __getitem__(self, key: str) -> Any:
        value = self.get(key)
        if value is None:
            raise ArtifactError(f"{self.path} has no {key}: it is not a model that is read here")
        return value


def shortest(value: Any) -> Any:
    """The shortest decimal that is the same float32: 1e-5, not 9.999999747378752e-06.

    What is no decimal stays as it is.
    """
    return float(str(np.float32(value))) if isinstance(value, float) else value
