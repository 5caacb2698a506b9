"""Models: fetched into the hub's folder format, and loaded from it by one loader.

Safetensors and GGUF only, no remote code, no pickles.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.artifacts.files import (
    CHECKSUMS,
    UNFINISHED,
    ArtifactError,
    atomic_file,
    sha256_file,
    write_checksums,
    write_json,
)
from posenc.models.files import (
    BYTE_LEVEL,
    CONFIG,
    GGUF,
    TOKENIZER,
    WEIGHTS,
    ModelError,
    check_digests,
    check_family,
    check_tensors,
    model_class,
    tokenizer_files,
)
from posenc.models.section import HubSource, Model, PackageSource, PathSource, Source

if TYPE_CHECKING:
    from torch import nn


def source_folder(model: Model) -> Path:
    """Locate the folder of a pretrained model, downloading it at its revision where needed.

    Returns
    -------
    The folder, or the one GGUF file that it holds in place of safetensors weights.

    Raises
    ------
    ModelError
        If the package, the folder or the hub's revision cannot be had.
    """
    source = model.source
    if isinstance(source, PackageSource):
        return _weights_in(_package_folder(source.package))
    if isinstance(source, PathSource):
        folder = Path(source.path)
        if not folder.is_dir():
            raise ModelError(f"source.path is {source.path!r}: there is no such folder")
        return _weights_in(folder)
    if isinstance(source, HubSource):
        return _hub_folder(source)
    raise ModelError("a trained model is not fetched: `rule train` makes it")


def _package_folder(package: str) -> Path:
    """Where a package keeps its weights: beside its code, or where its ``get_model_path()`` says.

    A package with a GGUF file beside its code is not imported: what it imports in turn need not be
    installed.
    """
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # of the package that this one is a part of
        spec = None
    if spec is None:
        raise ModelError(
            f"the package {package!r} (source.package) is not installed; "
            f"`make setup` installs the one that the default study uses"
        )
    for place in spec.submodule_search_locations or ():
        if any(Path(place).glob(f"*{GGUF}")):
            return Path(place)
    try:
        get_path = getattr(importlib.import_module(package), "get_model_path", None)
    except ImportError as error:
        raise ModelError(
            f"the package {package!r} (source.package) cannot be imported ({error}): "
            f"install what it needs"
        ) from None
    if get_path is None:
        raise ModelError(
            f"the package {package!r} (source.package) has neither a {GGUF} file nor "
            f"get_model_path(), which says where its weights are"
        )
    return Path(get_path())


def _weights_in(place: Path) -> Path:
    """A folder, or the one GGUF file that it holds where it has no safetensors weights."""
    files = [] if (place / WEIGHTS).is_file() else sorted(place.glob(f"*{GGUF}"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelError(f"{place} has {len(files)} {GGUF} files ({names}): leave it one")
    return files[0] if files else place


def _hub_folder(source: HubSource) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                source.id,
                revision=source.revision,
                allow_patterns=[CONFIG, WEIGHTS, TOKENIZER, *BYTE_LEVEL],
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"cannot get {source.id} at revision {source.revision} from the model hub "
            f"({type(error).__name__}); check the network, or give the model's folder on this "
            f"machine as source: {{kind: path, path: ..., sha256: ..., files: ...}}"
        ) from None


def find(name: str, model: Model) -> Path:
    """Where a pretrained model's files are: a folder in the hub's format, or a GGUF file.

    Parameters
    ----------
    name
        Its key in ``params.yaml``, for messages.
    model
        Its section.

    Raises
    ------
    ModelError
        If a file is missing, or a checksum is another one.
    """
    place = source_folder(model)
    if place.suffix != GGUF:
        for file in (CONFIG, WEIGHTS):
            if not (place / file).is_file():
                raise ModelError(
                    f"models.{name}: its folder has no {file}; only safetensors weights, or one "
                    f"GGUF file of a package or a folder, are read"
                )
    _check_source(name, model.source, place)
    return place


def fetch(name: str, model: Model, folder: Path, tokenizer_folder: Path) -> None:
    """Copy a pretrained model's configuration, weights and tokenizer into ``data/``.

    Parameters
    ----------
    name
        Its key in ``params.yaml``, for messages.
    model
        Its section.
    folder
        Receives ``config.json``, ``model.safetensors`` and their checksums.
    tokenizer_folder
        Receives ``tokenizer.json`` and its checksum.

    Raises
    ------
    ModelError
        If a file is missing, a checksum is another one, or the family is wrong; if the files are
        damaged or do not fit together, or a weight is not finite.
    """
    from safetensors import SafetensorError

    place = find(name, model)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with in_hub_format(place, folder.parent) as origin:
            check_family(name, model, origin)
            copy_tokenizer(f"models.{name}", origin, tokenizer_folder)
            # What was converted is moved: it may be large.
            bring = shutil.copyfile if origin == place else shutil.move
            for file in (CONFIG, WEIGHTS):
                with atomic_file(folder / file) as temporary:
                    bring(origin / file, temporary)
    except ArtifactError as error:
        raise ModelError(f"models.{name}: {error}") from None
    except SafetensorError as error:
        raise ModelError(
            f"models.{name}: {place / WEIGHTS} is damaged ({error}); get it again"
        ) from None
    write_checksums(folder / CHECKSUMS, CONFIG, WEIGHTS)


def _check_source(name: str, source: Source, place: Path) -> None:
    """Compare the files that are read with their checksums; the hub's are pinned by a revision."""
    if not isinstance(source, PackageSource | PathSource):
        return
    is_gguf = place.suffix == GGUF
    weights = place if is_gguf else place / WEIGHTS
    actual = sha256_file(weights)
    if actual != source.sha256:
        raise ModelError(
            f"models.{name}.source.sha256 is {source.sha256}, but {weights.name} has {actual}: "
            f"the weights are other ones than params.yaml means"
        )
    origin = place.parent if is_gguf else place
    read = () if is_gguf else (CONFIG, *tokenizer_files(origin))
    check_digests(f"models.{name}.source.files", origin, read, source.files)


@contextlib.contextmanager
def in_hub_format(place: Path, beside: Path | None = None) -> Iterator[Path]:
    """A folder in the hub's format: the one that there is, or one made of a GGUF file for a block.

    It is made in the folder ``beside``, or where the system keeps temporary files.

    Raises
    ------
    ArtifactError
        If the file is damaged, or of a kind that is not read.
    """
    if place.suffix != GGUF:
        yield place
        return
    from posenc.models.gguf import convert

    with tempfile.TemporaryDirectory(prefix=".", suffix=UNFINISHED, dir=beside) as folder:
        convert(place, Path(folder))
        yield Path(folder)


def copy_tokenizer(key: str, origin: Path, target: Path) -> None:
    """Bring a tokenizer into one ``tokenizer.json``, whichever files its folder has.

    Parameters
    ----------
    key
        The key of ``params.yaml`` that the folder belongs to, for messages.
    origin, target
        The folder, and the one that receives ``tokenizer.json`` and its checksum.

    Raises
    ------
    ModelError
        If the folder has neither ``tokenizer.json`` nor ``vocab.json`` with ``merges.txt``, or
        they hold no tokenizer.
    """
    from tokenizers import Tokenizer

    from posenc.tokens.tokenize import byte_level_bpe

    files = tokenizer_files(origin)
    if not files:
        raise ModelError(f"{key}: its folder has no {TOKENIZER}, nor vocab.json with merges.txt")
    try:
        if files == BYTE_LEVEL:
            tokenizer = byte_level_bpe(*(origin / file for file in files))
        else:
            tokenizer = Tokenizer.from_file(str(origin / TOKENIZER))
            tokenizer.no_padding()
            tokenizer.no_truncation()
    # The library has no error of its own.
    except Exception as error:
        raise ModelError(
            f"{key}: no tokenizer can be read from {origin / files[0]} ({error})"
        ) from None
    save_tokenizer(tokenizer, target)


def save_tokenizer(tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json`` and its checksum."""
    with atomic_file(folder / TOKENIZER) as temporary:
        tokenizer.save(str(temporary))
    write_checksums(folder / CHECKSUMS, TOKENIZER)


def load(folder: Path, family: str, device: str = "cpu") -> nn.Module:
    """Load a model in float32 for inference, with attention that can be recorded.

    Parameters
    ----------
    folder
        ``config.json`` and ``model.safetensors``.
    family
        ``bert``, ``roberta`` (the encoder without its pooler), ``gpt2`` or ``llama`` (with their
        language-model head).
    device
        ``cpu`` or ``cuda``.

    Raises
    ------
    ArtifactError
        If the weights are damaged, do not fit the configuration, or are not finite.
    """
    import torch
    import transformers
    from safetensors import SafetensorError

    from posenc.models import attention, schemes

    attention.register()
    transformers.utils.logging.disable_progress_bar()
    try:
        made_by, options = model_class(family, check_tensors(folder, family).model_type)
        model, report = made_by.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            weights_only=True,
            local_files_only=True,
            dtype=torch.float32,
            attn_implementation=attention.NAME,
            output_loading_info=True,
            **options,
        )
    except (SafetensorError, OSError, ValueError) as error:
        raise ArtifactError(f"{folder} cannot be loaded ({error}); delete it and rerun") from None
    missing = sorted(report["missing_keys"])
    if missing:
        raise ArtifactError(f"{folder}/{WEIGHTS} lacks {', '.join(missing[:3])}")
    schemes.install(model)
    return model.eval().to(device)


def save(model: nn.Module, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` atomically, in the hub's format."""
    from safetensors.torch import save_file

    # A tied output matrix is one tensor under two names: safetensors keeps the first.
    tensors, seen = {}, set()
    for key, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            tensors[key] = value.detach().cpu().contiguous()
    with atomic_file(folder / WEIGHTS) as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})
    write_json(folder / CONFIG, model.config.to_diff_dict())
    write_checksums(folder / CHECKSUMS, CONFIG, WEIGHTS)
