"""Models: fetched into the hub's folder format, and loaded from it by one loader.

Safetensors only, no remote code, no pickles.
"""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    atomic_file,
    sha256_file,
    write_checksums,
    write_json,
)
from posenc.models.files import (
    BYTE_LEVEL,
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    ModelError,
    check_digests,
    check_tensors,
    model_class,
    read_config,
    tokenizer_files,
)
from posenc.models.section import HubSource, Model, PackageSource, PathSource

if TYPE_CHECKING:
    from torch import nn


def source_folder(model: Model) -> Path:
    """Locate the folder of a pretrained model, downloading it at its revision where needed.

    Raises
    ------
    ModelError
        If the package, the folder or the hub's revision cannot be had.
    """
    source = model.source
    if isinstance(source, PackageSource):
        try:
            return Path(importlib.import_module(source.package).get_model_path())
        except ModuleNotFoundError:
            raise ModelError(
                f"the package {source.package!r} (source.package) is not installed; "
                f"`make setup` installs the one that the default study uses"
            ) from None
    if isinstance(source, PathSource):
        folder = Path(source.path)
        if not folder.is_dir():
            raise ModelError(f"source.path is {source.path!r}: there is no such folder")
        return folder
    if isinstance(source, HubSource):
        return _hub_folder(source)
    raise ModelError("a trained model is not fetched: `rule train` makes it")


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

    origin = source_folder(model)
    for file in (CONFIG, WEIGHTS):
        if not (origin / file).is_file():
            raise ModelError(
                f"models.{name}: its folder has no {file}; only safetensors weights are read"
            )
    # A model of the hub is pinned by its revision.
    if isinstance(model.source, PackageSource | PathSource):
        expected, actual = model.source.sha256, sha256_file(origin / WEIGHTS)
        if actual != expected:
            raise ModelError(
                f"models.{name}.source.sha256 is {expected}, but {WEIGHTS} has {actual}: "
                f"the weights are other ones than params.yaml means"
            )
        read = (CONFIG, *tokenizer_files(origin))
        check_digests(f"models.{name}.source.files", origin, read, model.source.files)
    try:
        check_family(name, model, origin)
    except ArtifactError as error:
        raise ModelError(f"models.{name}: {error}") from None
    except SafetensorError as error:
        raise ModelError(
            f"models.{name}: {origin / WEIGHTS} is damaged ({error}); get it again"
        ) from None
    copy_tokenizer(f"models.{name}", origin, tokenizer_folder)
    for file in (CONFIG, WEIGHTS):
        with atomic_file(folder / file) as temporary:
            shutil.copyfile(origin / file, temporary)
    write_checksums(folder / CHECKSUMS, CONFIG, WEIGHTS)


def check_family(name: str, model: Model, folder: Path) -> None:
    """Compare a folder with the section, and its files with one another.

    Raises
    ------
    ModelError
        If the family, the kind of position embeddings or the length does not fit.
    ArtifactError
        If configuration and weights do not fit together, or a weight is not finite.
    SafetensorError
        If the weights are damaged.
    """
    raw = read_config(folder)
    if raw.get("model_type") != model.family:
        raise ModelError(
            f"models.{name}.family is {model.family!r}, but the weights are of model type "
            f"{raw.get('model_type')!r}"
        )
    kind = raw.get("position_embedding_type", "absolute")
    if kind != "absolute":
        raise ModelError(f"models.{name} has {kind!r} position embeddings, not learned absolute")
    config = check_tensors(folder, model.family)
    available = config.max_position_embeddings
    if model.family == "roberta":
        if config.pad_token_id is None:
            raise ModelError(
                f"models.{name}: its {CONFIG} has no pad_token_id, after which "
                f"RoBERTa's positions begin"
            )
        available -= config.pad_token_id + 1
    if model.max_tokens > available:
        raise ModelError(
            f"models.{name}.max_tokens is {model.max_tokens}, but the model has only "
            f"{available} positions"
        )


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
        ``bert``, ``roberta`` (the encoder without its pooler) or ``gpt2`` (with its
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

    made_by, options = model_class(family)
    attention.register()
    transformers.utils.logging.disable_progress_bar()
    try:
        check_tensors(folder, family)
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
