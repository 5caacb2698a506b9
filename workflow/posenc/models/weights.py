"""A model's tensors by the names that its family gives them, read from its file without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.architectures.layouts import LAYOUTS, TABLES, TOKEN_TYPES
from posenc.architectures.table import KINDS, first_row
from posenc.artifacts.files import ArtifactError, read_json
from posenc.models.files import CONFIG
from posenc.models.references import weight_paths

_SPELLINGS = {"weight": "gamma", "bias": "beta"}
"""What older files call the parameters of a normalisation."""


def _keys(file: Any) -> list[str]:
    return list(file.keys())


class Weights:
    """The tensors and the configuration of a model.

    Parameters
    ----------
    folder
        With ``config.json`` and ``model.safetensors``.
    family
        ``bert``, ``roberta``, ``gpt2`` or ``llama``.
    """

    def __init__(self, folder: Path, family: str) -> None:
        from safetensors import safe_open

        self.folder, self.family = folder, family
        if family not in LAYOUTS:
            raise ArtifactError(f"the names of the tensors of a {family} are not known")
        self.layout = LAYOUTS[family]
        paths = weight_paths(folder)
        self.path = paths[0]
        self.file_of = {key: path for path in paths for key in _keys(safe_open(path, "np"))}
        self.keys = list(self.file_of)
        self.config = read_json(folder / CONFIG)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A tensor by its name, without a model's own prefix, and in either spelling.

        Raises
        ------
        ArtifactError
            If there is none, or more than one.
        """
        stem, _, kind = name.rpartition(".")
        return self._only(f"tensors {name}", name, f"{stem}.{_SPELLINGS[kind]}")

    def embeddings(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Token and position embeddings, [vocabulary, d_model] and [positions, d_model].

        Raises
        ------
        ArtifactError
            If the model's positions are rotary, or the weights have none under a known name.
        """
        if KINDS[self.family][1] == "rotation":
            raise ArtifactError(f"{self.path} has no position embeddings: its positions are rotary")
        tokens, positions = (
            self._only(f"tables of embeddings of {kind}", *names) for kind, names in TABLES.items()
        )
        # The first rows may be for padding.
        return tokens, positions[first_row({"model_type": self.family, **self.config}) :]

    def token_type(self) -> NDArray[np.float32] | float:
        """The embedding of the only token type that is in use, [d_model]; 0 where there is none."""
        return self.tensor(TOKEN_TYPES)[0] if self._named(TOKEN_TYPES) else 0.0

    def norm(self, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gain and bias of a normalisation, [d_model] each; an RMSNorm's bias is 0."""
        gain = self.tensor(f"{name}.weight")
        return gain, np.zeros_like(gain) if self.layout.is_rms else self.tensor(f"{name}.bias")

    @property
    def eps(self) -> float:
        """What the normalisations add to the variance."""
        key, default = self.layout.eps
        return float(self.config.get(key, default))

    def _only(self, what: str, *names: str) -> NDArray[np.float32]:
        matches = self._named(*names)
        if len(matches) != 1:
            raise ArtifactError(f"{self.path} has {len(matches)} {what}; fetch it again")
        return self._read(matches[0])

    def _read(self, key: str) -> NDArray[np.float32]:
        """A tensor of a file, in whichever precision it is kept."""
        from safetensors import safe_open

        with safe_open(self.file_of[key], "np") as file:
            if file.get_slice(key).get_dtype() != "BF16":
                return file.get_tensor(key).astype(np.float32)
        # NumPy has no bfloat16. Only here is the large library needed, and imported.
        with safe_open(self.file_of[key], "pt") as file:
            return file.get_tensor(key).float().numpy()

    def _named(self, *names: str) -> list[str]:
        wanted = tuple(f".{name}" for name in names)
        return [key for key in self.keys if f".{key}".endswith(wanted)]
