"""How much disk a study takes: the weights of its models, and the activations of its runs."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from posenc.architectures.table import sizes_of
from posenc.artifacts.files import ArtifactError
from posenc.datasets.errors import DatasetError
from posenc.datasets.parsing import parse
from posenc.datasets.raw_file import RawFile
from posenc.datasets.section import Dataset, PathSource
from posenc.models import load
from posenc.models.files import GGUF, ModelError, read_config
from posenc.models.references import WEIGHTS, bytes_of, weight_files
from posenc.models.section import HubSource, Model, TrainSource
from posenc.study import plan
from posenc.study.params import Params

TOKEN_BYTES = 4
"""UTF-8 bytes of a token, for a text that is not tokenized yet."""
SPECIAL_TOKENS = 2
"""Of a document of such a text."""
SMALL = 1e7
"""Bytes that nobody plans for."""
MODELS = Path("data/models")


class Shape(NamedTuple):
    """Sizes of a model that decide what its activations take."""

    n_layers: int
    d_model: int


@dataclass(frozen=True)
class Part:
    """A part of what a study takes.

    Attributes
    ----------
    what
        In words.
    folder
        Where it lies.
    size
        Bytes in all; None if not known before something is fetched.
    is_bound
        Whether the size is an upper bound.
    """

    what: str
    folder: Path
    size: float | None
    is_bound: bool = False

    @property
    def missing(self) -> float:
        """Bytes that are not there yet."""
        if self.size is None:
            return 0
        return max(0, self.size - taken(self.folder))


def taken(folder: Path) -> int:
    """Bytes of all files in a folder, those that DVC links to its cache included."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def parts(params: Params) -> Iterator[Part]:
    """What the active study takes, in the order in which it is made.

    The web and the hub are not asked.

    Parameters
    ----------
    params
        The parameters.
    """
    study = params.study
    for name in [*study.models, *study.schemes]:
        folder = MODELS / name
        if not (folder / WEIGHTS).exists():
            yield Part(f"weights of {name}", folder, _weights(params.models[name]))
    for name in study.captured:
        shape = _shape(name, params.models[name])
        counts = [_tokens(params, name, dataset) for dataset in study.datasets]
        known = [count for count in counts if count is not None]
        size = None
        if shape is not None and len(known) == len(counts):
            tokens = sum(count.tokens for count in known) * len(study.conditions)
            size = tokens * params.activations.bytes_per_token(*shape)
        folder, is_bound = (
            plan.folder(params) / "activations" / name,
            any(c.is_bound for c in known),
        )
        yield Part(f"activations of {name}", folder, size, is_bound)


def summary(params: Params, root: Path) -> str | None:
    """How much more disk the active study takes, in a line; None where it is little.

    Parameters
    ----------
    params
        The parameters.
    root
        The project's folder, whose disk it is.
    """
    all_parts = list(parts(params))
    due = {part: missing for part in all_parts if (missing := part.missing) > SMALL}
    unknown = [part.what for part in all_parts if part.size is None]
    words = []
    if due:
        listed = ", ".join(f"{part.what} {size / 1e9:.2f}" for part, size in due.items())
        how_sure = "at most" if any(part.is_bound for part in due) else "about"
        free = shutil.disk_usage(root).free / 1e9
        words = [
            f"{how_sure} {sum(due.values()) / 1e9:.2f} GB more ({listed}); {free:.0f} are free"
        ]
    if unknown:
        words.append(f"not known before it is fetched: {', '.join(unknown)}")
    return "; ".join(words) or None


def _weights(model: Model) -> float | None:
    """Bytes of a model's weights, from what is on this machine."""
    source = model.source
    if isinstance(source, TrainSource):
        if source.tokenizer.kind != "bpe":
            return None
        positions = source.n_positions if source.positions == "learned" else 0
        d = source.d_model
        embeddings = (source.tokenizer.vocabulary_size + positions) * d
        return 4 * (embeddings + source.n_layers * (12 * d * d + 13 * d) + 2 * d)
    place = _place(model)
    if place is None:
        return None
    if place.suffix != GGUF:
        return 0 if load.is_referenced(source, place) else bytes_of(place)
    from posenc.models.gguf_file import opened

    return 4 * sum(math.prod(tensor.shape.tolist()) for tensor in opened(place).tensors)


def _place(model: Model) -> Path | None:
    """Where a model's files are on this machine, if they are."""
    if isinstance(model.source, HubSource | TrainSource):
        return None
    try:
        place = load.source_folder(model.source)
    except ModelError:
        return None  # `posenc check` says so
    return place if place.suffix == GGUF or _has_weights(place) else None


def _has_weights(place: Path) -> bool:
    try:
        return bool(weight_files(place))
    except ArtifactError:
        return False


def place_of(name: str, model: Model) -> Path | None:
    """Where the files of a model are on this machine, if they are; fetched ones first."""
    return MODELS / name if (MODELS / name / WEIGHTS).exists() else _place(model)


def _shape(name: str, model: Model) -> Shape | None:
    if isinstance(model.source, TrainSource):
        return Shape(model.source.n_layers, model.source.d_model)
    place = place_of(name, model)
    if place is None or place.suffix == GGUF:
        return None
    try:
        config = read_config(place)
    except (ArtifactError, OSError):
        return None  # the step that reads it says so
    sizes = sizes_of(config)
    return None if sizes is None else Shape(*sizes)


class Count(NamedTuple):
    """Tokens, or how many there are at most."""

    tokens: float
    is_bound: bool


def _tokens(params: Params, model: str, dataset: str) -> Count | None:
    """Tokens of a data set's evaluated documents, as far as it is on this machine."""
    section, longest = params.datasets[dataset], params.models[model].max_tokens
    count, sizes = section.evaluation.documents, text_sizes(dataset, section)
    if not sizes:
        return None if count is None else Count(count * longest, is_bound=True)
    ids = _lengths(tokens_path(params, model, dataset), "input_ids")
    lengths: list[float] = [*ids] or [SPECIAL_TOKENS + size / TOKEN_BYTES for size in sizes]
    mean = sum(min(longest, length) for length in lengths) / len(lengths)
    return Count((count or len(sizes)) * mean, is_bound=False)


def tokens_path(params: Params, model: str, dataset: str) -> Path:
    """The file of the tokens that a model reads of a data set."""
    return plan.folder(params) / f"tokens/{model}/{dataset}.parquet"


def text_sizes(dataset: str, section: Dataset) -> list[int]:
    """UTF-8 bytes of each document of the evaluated split; none where it is not at hand.

    Parameters
    ----------
    dataset
        Its name.
    section
        Its part of the parameters.
    """
    path = plan.DOCUMENTS / f"{dataset}.parquet"
    source, split = section.source, section.evaluation.split
    if path.exists() or not isinstance(source, PathSource) or section.format == "imdb":
        return _lengths(path, "text", [("split", "=", split)])
    try:
        raw = RawFile.of_source(source, dataset, Path(source.path))
        documents = parse(raw, section.content)
        return [
            len(document["text"].encode()) for document in documents if document["split"] == split
        ]
    except (DatasetError, OSError):
        return []  # `posenc check` says so


def _lengths(path: Path, column: str, filters: list | None = None) -> list[int]:
    """Lengths of the texts or lists in a column; none where there is no whole file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        values = pq.read_table(path, columns=[column], filters=filters)[column]
    except (OSError, pa.ArrowException):
        return []
    of = pc.binary_length if pa.types.is_string(values.type) else pc.list_value_length
    return of(values).to_pylist()
