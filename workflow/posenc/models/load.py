"""Models: fetched into the hub's folder format, and loaded from it by one loader.

Safetensors and GGUF only, no remote code, no pickles.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.architectures.needs import ArchitectureError
from posenc.architectures.table import VERIFICATION
from posenc.artifacts.files import (
    CHECKSUMS,
    UNFINISHED,
    ArtifactError,
    atomic_file,
    read_json,
    sha256_file,
    write_checksums,
    write_json,
)
from posenc.models.files import (
    CONFIG,
    GGUF,
    OF_ONE_MODEL,
    TOKENIZER_PARTS,
    ModelError,
    check_digests,
    check_family,
    check_tensors,
    library_class,
    tokenizer_files,
)
from posenc.models.references import (
    INDEX,
    LARGE,
    WEIGHTS,
    refer,
    type_of,
    weight_files,
    weight_paths,
)
from posenc.models.refusals import told
from posenc.models.section import HubSource, Model, PackageSource, PathSource, Source

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel


Look = Callable[[Path, "Tokenizer"], Mapping[str, Any]]
"""Runs a model of a folder with its tokenizer, and says what was compared."""


def source_folder(source: Source) -> Path:
    """Locate the folder of a pretrained model, downloading it at its revision where needed.

    Returns
    -------
    The folder, or the one GGUF file that it holds in place of safetensors weights.

    Raises
    ------
    ModelError
        If the package, the folder or the hub's revision cannot be had.
    """
    if isinstance(source, PackageSource):
        return weights_in(package_folder(source.package))
    if isinstance(source, PathSource):
        folder = Path(source.path)
        if not folder.is_dir():
            raise ModelError(f"source.path is {source.path!r}: there is no such folder")
        return weights_in(folder)
    if isinstance(source, HubSource):
        return hub_folder(source.id, source.revision)
    raise ModelError("a trained model is not fetched: `rule train` makes it")


def package_folder(package: str) -> Path:
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


def weights_in(place: Path) -> Path:
    """A folder, or the one GGUF file that it holds where it has no safetensors weights."""
    is_whole = any((place / name).is_file() for name in (WEIGHTS, INDEX))
    files = [] if is_whole else sorted(place.glob(f"*{GGUF}"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelError(f"{place} has {len(files)} {GGUF} files ({names}): leave it one")
    return files[0] if files else place


def hub_folder(repository: str, revision: str) -> Path:
    """The folder of a repository of the hub at a revision, downloaded where needed.

    Raises
    ------
    ModelError
        If it cannot be had.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=[CONFIG, "*.safetensors", INDEX, *TOKENIZER_PARTS],
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(
            f"cannot get {repository} at revision {revision} from the model hub "
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
        If a file is missing, or a checksum does not match.
    """
    place = source_folder(model.source)
    if place.suffix != GGUF:
        check_place(f"models.{name}", place)
    _check_source(name, model.source, place)
    return place


def check_place(key: str, place: Path) -> None:
    """Refuse a folder without a configuration or without weights.

    Raises
    ------
    ModelError
        If it lacks one of them.
    """
    if not (place / CONFIG).is_file():
        raise ModelError(f"{key}: its folder {place} has no {CONFIG}")
    try:
        weight_files(place)
    except ArtifactError as error:
        raise ModelError(f"{key}: {error}") from None


def fetch(
    name: str, model: Model, folder: Path, tokenizer_folder: Path, look: Look | None = None
) -> None:
    """Bring a pretrained model's configuration, weights and tokenizer into ``data/``.

    Weights in several files, and large ones of a folder or the hub, stay where they are: the file
    in ``data/`` refers to them.

    Parameters
    ----------
    name
        Its key in ``params.yaml``, for messages.
    model
        Its section.
    folder
        Receives ``config.json``, ``model.safetensors`` and their checksums; ``verification.json``
        where the model is looked at.
    tokenizer_folder
        Receives ``tokenizer.json`` and its checksum.
    look
        Runs the model, before anything is written; None where it is not run.

    Raises
    ------
    ModelError
        If a file is missing, a checksum is another one, or the family is wrong; if the files are
        damaged or do not fit together, or a weight is not finite.
    """
    from posenc.models.tokenizers import fitted_tokenizer, read_tokenizer, save_tokenizer

    place = find(name, model)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with in_hub_format(place, folder.parent) as origin:
            with told(origin, model.family):
                check_family(name, model, origin)
                tokenizer = read_tokenizer(f"models.{name}", origin)
                tokenizer = fitted_tokenizer(tokenizer, origin, model.is_decoder)
            said = None if look is None else look(origin, tokenizer)
            save_tokenizer(tokenizer, tokenizer_folder)
            # What was converted is moved: it may be large.
            bring = shutil.copyfile if origin == place else shutil.move
            with atomic_file(folder / CONFIG) as temporary:
                bring(origin / CONFIG, temporary)
            with atomic_file(folder / WEIGHTS) as temporary:
                if origin == place and is_referenced(model.source, place):
                    refer(place, temporary)
                else:
                    bring(origin / WEIGHTS, temporary)
    except ArtifactError as error:
        raise ModelError(f"models.{name}: {error}") from None
    if said is not None:
        write_json(folder / VERIFICATION, said)
    files = [CONFIG, WEIGHTS, *([] if said is None else [VERIFICATION])]
    write_checksums(folder / CHECKSUMS, *files)


def is_referenced(source: Source, place: Path) -> bool:
    """Whether weights stay where they are: several files, or a large one of a folder or the hub."""
    names = weight_files(place)
    if names != (WEIGHTS,):
        return True
    stays = isinstance(source, PathSource | HubSource)
    return stays and (place / WEIGHTS).stat().st_size >= LARGE


def _check_source(name: str, source: Source, place: Path) -> None:
    """Compare the files that are read with their checksums; the hub's are pinned by a revision."""
    if not isinstance(source, PackageSource | PathSource):
        return
    is_gguf = place.suffix == GGUF
    names = () if is_gguf else weight_files(place)
    whole = names == (WEIGHTS,)
    weights = place if is_gguf else place / (WEIGHTS if whole else INDEX)
    actual = sha256_file(weights)
    if actual != source.sha256:
        raise ModelError(
            f"models.{name}.source.sha256 is {source.sha256}, but {weights.name} has {actual}: "
            f"the weights are other ones than params.yaml means"
        )
    origin = place.parent if is_gguf else place
    shards = () if whole else names
    read = () if is_gguf else (CONFIG, *shards, *tokenizer_files(origin))
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


def load(
    folder: Path, family: str | None = None, device: str = "cpu", is_kept: bool = False
) -> PreTrainedModel:
    """Load a model in float32 for inference, with attention that can be recorded.

    Parameters
    ----------
    folder
        ``config.json`` and safetensors weights, in one file or several.
    family
        What it is called in errors: encoders come without head and pooler, decoders with their
        language-model head.
    device
        ``cpu`` or ``cuda``.
    is_kept
        Whether weights stay in the type of their files, if that has fewer bits than float32
        (:mod:`posenc.architectures.float32`).

    Raises
    ------
    ArtifactError
        If the weights are damaged, do not fit the configuration, or are not finite.
    ModelError
        If the model is not one that positions can be studied in, or has no room.
    """
    with told(folder, family):
        return _load(folder, family, device, is_kept)


def _load(folder: Path, family: str | None, device: str, is_kept: bool) -> PreTrainedModel:
    import torch
    import transformers

    from posenc.architectures import attention, discover
    from posenc.architectures.float32 import keeping
    from posenc.models import mapped, memory, schemes

    attention.register()
    transformers.utils.logging.disable_progress_bar()
    try:
        check_tensors(folder, family)
        memory.check_fits(folder, device, is_kept)
        config, made_by, options = library_class(folder, family)
        # The library would hold the files beside their copies in float32.
        kind = type_of(folder)
        reader = made_by if kind == torch.float32 else keeping(made_by, kind)
        reading: Any = reader.from_pretrained  # it gives a pair where it is asked for a report
        model, report = reading(
            weight_paths(folder)[0].parent,
            config=config,
            use_safetensors=True,
            trust_remote_code=False,
            weights_only=True,
            local_files_only=True,
            dtype=torch.float32,
            attn_implementation=attention.NAME,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are named below
            **options,
        )
    except KeyError as error:
        if error.args != (attention.NAME,):
            raise
        # Types that look up their own classes of attention, by its name.
        raise ModelError(f"{folder}: {config.model_type}: {discover.UNSEEN}") from None
    if missing := sorted(report["missing_keys"]):
        raise ArtifactError(f"{folder}/{WEIGHTS} lacks {', '.join(missing[:3])}; {OF_ONE_MODEL}")
    for key, shape, expected in sorted(report["mismatched_keys"]):
        raise ArtifactError(
            f"{folder}/{WEIGHTS}: tensors of {key} give the shape {list(shape)}, but {CONFIG} "
            f"implies {list(expected)}: one is missing or of another size; {OF_ONE_MODEL}"
        )
    model.__class__ = made_by
    if not is_kept:
        mapped.widen(model)
    schemes.install(model)
    model = model.eval().to(device)
    try:
        arch = discover.of(model)
    except ArchitectureError as error:
        raise ModelError(f"{folder}: {error}") from None
    if (folder / VERIFICATION).is_file():
        arch.note(read_json(folder / VERIFICATION)["can"])
    return model


def save(model: PreTrainedModel, folder: Path) -> None:
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
