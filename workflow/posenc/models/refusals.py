"""What the library raises while it reads a user's folder, as one sentence with file and field."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posenc.artifacts.files import ArtifactError
from posenc.models.json_files import read_mapping, way_out
from posenc.models.references import INDEX, weight_paths

CONFIG = "config.json"
READ_BY_LIBRARY = (CONFIG, INDEX, "generation_config.json", "tokenizer.json",
                   "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                   "vocab.json")  # fmt: skip
"""Mappings that the library reads, where a folder has them."""
LONGEST_REASON = 200
MOST_LAYERS = 1000
"""More layers than any model has: no model of more is built, not even without memory."""


@contextlib.contextmanager
def told(folder: Path, family: str | None = None) -> Iterator[None]:
    """Turn whatever is raised while a model's folder is read into one sentence.

    Errors that speak to users already, and a lack of memory, pass.

    Parameters
    ----------
    folder
        With ``config.json`` and weights.
    family
        What the model is called; by default its model type.

    Raises
    ------
    ArtifactError
        In place of any other: of a file that is no mapping or no safetensors file, of the field
        without which the library makes a model of the configuration, or of the folder.
    """
    try:
        yield
    except (ArtifactError, MemoryError):
        raise
    except Exception as error:
        if getattr(error, "is_user_error", False):
            raise
        raise _fault(folder, family, error) from error


def _fault(folder: Path, family: str | None, error: Exception) -> ArtifactError:
    from safetensors import SafetensorError, safe_open

    for name in READ_BY_LIBRARY:
        if (folder / name).is_file():
            read_mapping(folder / name)
    for path in weight_paths(folder):
        try:
            with safe_open(path, "np"):
                pass
        except SafetensorError as damage:
            return ArtifactError(f"{path} is damaged ({damage}); {way_out(path)}")
    if _culprit(read_mapping(folder / CONFIG), error) is not None:
        return not_a_configuration(folder, family, error)
    return ArtifactError(
        f"{folder} cannot be read ({reason_of(error)}): if transformers reads it, models of this "
        f"kind are not run here; if not, download it again"
    )


def reason_of(error: Exception) -> str:
    """An error of a library in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST_REASON]


def not_a_configuration(folder: Path, family: str | None, error: Exception) -> ArtifactError:
    """That the library makes no model of a configuration, with the field where it is one."""
    raw = read_mapping(folder / CONFIG)
    field = _culprit(raw, error)
    said = "" if field is None else f"{field} is {json.dumps(raw[field])[:80]}; "
    return ArtifactError(
        f"{folder / CONFIG} is not the configuration of a {family or raw.get('model_type')} model "
        f"({said}{reason_of(error)}): correct it, or download it again"
    )


def _culprit(raw: Mapping[str, Any], error: Exception) -> str | None:
    """The field without which the library makes a model; first those that the error names."""
    if _is_whole(raw):
        return None
    fields = [key for key in raw if key not in ("model_type", "architectures")]
    for field in sorted(fields, key=lambda key: key not in str(error)):
        if _is_whole({key: value for key, value in raw.items() if key != field}):
            return field
    return None


def _is_whole(raw: Mapping[str, Any]) -> bool:
    """Whether the library makes a model of a configuration, without memory."""
    import torch

    from posenc.architectures import classes

    try:
        config = classes.config_of(copy.deepcopy(raw))  # the library edits what it is given
        made_by, options = classes.class_of(config, raw)
        limits = classes.positions_of(config), classes.window_of(config)
        if min((limit for limit in limits if limit is not None), default=1) < 1:
            return False
        text = config.get_text_config(decoder=True)
        if text.num_hidden_layers <= MOST_LAYERS:
            with torch.device("meta"):
                made_by(config, **options)
    # Whatever is raised: it is said elsewhere.
    except Exception:
        return False
    return True
