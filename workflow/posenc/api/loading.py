"""Models by name: of ``params.yaml``, of a folder, of an installed package, or of the hub."""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from safetensors import SafetensorError
from tokenizers import Tokenizer

from posenc.capture.parts import first_row, is_rotary, position_embedding
from posenc.models import section
from posenc.models.files import (
    CONFIG,
    LLAMAS,
    TOKENIZER,
    WEIGHTS,
    ModelError,
    check_family,
    model_class,
    read_config,
)
from posenc.models.load import copy_tokenizer, in_hub_format, source_folder
from posenc.models.load import load as load_network
from posenc.models.section import Reading
from posenc.study.explain import suggestion
from posenc.study.params import Params
from posenc.study.params import load as load_params
from posenc.tokens.tokenize import END_OF_TEXT

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES = get_args(Reading.model_fields["family"].annotation)
PARAMS = Path("params.yaml")


@dataclass(frozen=True, eq=False)
class Model:
    """A model that texts can be run on.

    Attributes
    ----------
    name
        What it was loaded by.
    network
        The library's own model in float32: a decoder with its language-model head, an encoder
        without its pooler.
    tokenizer
        Of the ``tokenizers`` library, without padding and truncation.
    reading
        Its family (``bert``, ``roberta``, ``gpt2`` or ``llama``), and where texts are cut
        (``max_tokens``, special tokens included).
    """

    name: str
    network: PreTrainedModel
    tokenizer: Tokenizer
    reading: Reading

    @property
    def is_decoder(self) -> bool:
        """Whether it is a causal language model, which has losses."""
        return self.reading.is_decoder

    @property
    def positions(self) -> int:
        """Tokens that its table, or its rotation, is made for."""
        if is_rotary(self.network):
            return self.network.config.max_position_embeddings
        table = position_embedding(self.network)
        return len(table.weight) - first_row(table)

    def __repr__(self) -> str:
        kind = self.reading
        return f"Model({self.name!r}, family={kind.family!r}, max_tokens={kind.max_tokens})"


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
    """It takes a second to check all of it: once for each state of the file."""
    return load_params(path)


def load(name: str | Path, revision: str = "main") -> Model:
    """Load a model in float32 on the CPU.

    Only safetensors and GGUF weights are read, and no code from the hub is run.

    Parameters
    ----------
    name
        The first of these that there is: a model of ``params.yaml`` in the current folder, which
        the workflow has made; a folder in the hub's format, or with one GGUF file; an installed
        package that carries weights; a name of the hub.
    revision
        Commit, tag or branch of the hub; not looked at elsewhere.

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If there is no such model, it is not made yet, or it is of a kind that is not read.
    ArtifactError
        If its files are damaged or do not fit together.

    Examples
    --------
    >>> model = posenc.load("tiny")
    >>> model
    Model('tiny', family='gpt2', max_tokens=48)
    """
    name = str(name)
    params = project() if Path(name).name == name else None
    if params and name in params.models:
        folder, tokenizer = Path("data/models", name), Path("data/tokenizers", name, TOKENIZER)
        wanted = [folder / WEIGHTS, tokenizer]
        if missing := [path for path in (folder / CONFIG, *wanted) if not path.is_file()]:
            raise ModelError(
                f"{missing[0]} is not there yet: "
                f"`snakemake --cores 8 -- {' '.join(map(str, wanted))}` makes it"
            )
        return _read(name, folder, Tokenizer.from_file(str(tokenizer)), params.models[name].reading)
    place = _place(name, revision)
    with in_hub_format(place) as folder, tempfile.TemporaryDirectory() as copied:
        for file in (CONFIG, WEIGHTS):
            if not (folder / file).is_file():
                raise ModelError(
                    f"{name}: its folder has no {file}; only safetensors weights, or one GGUF "
                    f"file of a package or a folder, are read"
                )
        reading = _reading(name, folder)
        copy_tokenizer(name, folder, Path(copied))
        return _read(name, folder, Tokenizer.from_file(f"{copied}/{TOKENIZER}"), reading)


def _place(name: str, revision: str) -> Path:
    """Where a folder, a package or the hub has a model: its folder, or a GGUF file."""
    # Without the checksums and commits that sections of params.yaml have to name.
    kind: type[section.PathSource | section.PackageSource | section.HubSource]
    fields: dict[str, Any]
    if Path(name).is_dir():
        kind, fields = section.PathSource, {"path": name}
    elif name.isidentifier() and importlib.util.find_spec(name):
        kind, fields = section.PackageSource, {"package": name}
    elif name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"there is no folder {name}: name the one that holds {CONFIG}")
    else:
        kind, fields = section.HubSource, {"id": name, "revision": revision}
    source: dict[str, Any] = {"source": kind.model_construct(**fields)}
    try:
        return source_folder(section.Model.model_construct(**source))
    except (ModelError, ValueError) as error:  # the hub's library refuses some names by ValueError
        if kind is not section.HubSource:
            raise
        close = suggestion(name, params.models) if (params := project()) else ""
        meant = close if "did you mean" in close else ""
        raise ModelError(
            f"{name!r} is no model of a {PARAMS} here{meant}, no folder and no installed package, "
            f"and the hub does not give it at revision {revision!r} ({type(error).__name__}): "
            f"check the name and the network, or name a folder with {CONFIG}, {WEIGHTS} and "
            f"{TOKENIZER}"
        ) from error


def _reading(name: str, folder: Path) -> Reading:
    """What a folder's configuration says of how the model reads texts."""
    raw = read_config(folder)
    kind = raw.get("model_type")
    family: Any = "llama" if kind in LLAMAS else kind
    if family not in FAMILIES:
        raise ModelError(
            f"{name} is of model type {kind!r}: {', '.join(FAMILIES)}, mistral and qwen2 are read"
        )
    made_by, _ = model_class(family, kind)
    config = made_by.config_class.from_dict(raw)
    tokens = config.max_position_embeddings
    if family == "roberta":
        tokens -= (config.pad_token_id or 0) + 1
    window = getattr(config, "sliding_window", None) if family == "llama" else None
    reading = Reading(family=family, max_tokens=min(tokens, window or tokens))
    try:
        check_family(name, section.Model.model_construct(**reading.model_dump()), folder)
    except SafetensorError as error:
        raise ModelError(f"{folder / WEIGHTS} is damaged ({error}): get it again") from None
    return reading


def _read(name: str, folder: Path, tokenizer: Tokenizer, reading: Reading) -> Model:
    if reading.is_decoder and tokenizer.token_to_id(END_OF_TEXT) is None:
        raise ModelError(
            f"{name}: its tokenizer has no {END_OF_TEXT} token, after which a decoder's texts begin"
        )
    return Model(name, load_network(folder, reading.family), tokenizer, reading)
