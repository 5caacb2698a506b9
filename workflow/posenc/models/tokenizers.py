"""A folder's tokenizer, as the library itself calls it: the same ids, special tokens included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.artifacts.files import CHECKSUMS, atomic_file, write_checksums
from posenc.models.files import (
    BYTE_LEVEL,
    CONFIG,
    TOKENIZER,
    ModelError,
    library_class,
    tokenizer_files,
)
from posenc.tokens.tokenize import begin_of, byte_level_bpe

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXTS = (
    "The film was good, and the cast was better than its plot.",
    " A slow start;  2 of 10 -- 'really'?\nNever again!",
    "naïve café – 映画は良かった。 👍",
    "",
)
"""On which two tokenizers are compared."""
OPTIONS = "tokenizer_config.json"
TABLES = ("vocab.txt", "tokenizer.model", "spiece.model")
"""Other files that the library makes a tokenizer of."""


def read_tokenizer(key: str, folder: Path) -> Tokenizer:
    """The tokenizer of a folder, without padding and truncation.

    It is the folder's ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``, where these give
    what the library's tokenizer gives, and the library's own where they do not. A
    ``tokenizer.json`` without a ``tokenizer_config.json`` says all by itself.

    Parameters
    ----------
    key
        What the folder is called in errors.
    folder
        In the hub's format.

    Raises
    ------
    ModelError
        If the folder has no tokenizer, the library's has no fast form, or it draws at random.
    """
    files = tokenizer_files(folder)
    if not files and not any((folder / name).is_file() for name in TABLES):
        raise ModelError(f"{key}: its folder has no {TOKENIZER}, nor vocab.json with merges.txt")
    raw = _own(key, folder, files) if files else None
    if raw is not None and not (folder / CONFIG).is_file():  # of no model
        return raw
    if raw is not None and files == (TOKENIZER,) and not (folder / OPTIONS).is_file():
        return raw
    theirs = _library(key, folder)
    _check_random(key, theirs.backend_tokenizer)
    expected = [list(theirs(text)["input_ids"]) for text in TEXTS]
    if raw is not None and [raw.encode(text).ids for text in TEXTS] == expected:
        return raw
    backend = plain(theirs.backend_tokenizer)
    if [backend.encode(text).ids for text in TEXTS] != expected:
        raise ModelError(
            f"{key}: the library's tokenizer gives other tokens than its own tables "
            f"({files[0] if files else OPTIONS}): save it anew by save_pretrained"
        )
    return backend


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """A copy without padding and truncation."""
    from tokenizers import Tokenizer

    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    return copy


def _own(key: str, folder: Path, files: tuple[str, ...]) -> Tokenizer:
    """What the folder's files say, without the library."""
    from tokenizers import Tokenizer

    try:
        if files == BYTE_LEVEL:
            return byte_level_bpe(*(folder / file for file in files))
        tokenizer = plain(Tokenizer.from_file(str(folder / TOKENIZER)))
    # The library has no error of its own.
    except Exception as error:
        raise ModelError(
            f"{key}: no tokenizer can be read from {folder / files[0]} ({error})"
        ) from None
    _check_random(key, tokenizer)
    return tokenizer


def _check_random(key: str, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that cuts a text in another way each time."""
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise ModelError(
            f"{key}: its tokenizer leaves out merges at random (dropout {dropout:.2g}): set "
            f"dropout to null in {TOKENIZER}"
        )


def _library(key: str, folder: Path) -> Any:
    """The library's tokenizer."""
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    # The library raises whatever the readers of its files raise.
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"{key}: the library cannot read its tokenizer ({type(error).__name__}: {reason})"
        ) from None
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(
            f"{key}: its tokenizer has no fast form, which gives each token its place in the text; "
            f"save one by save_pretrained"
        )
    return tokenizer


def with_begin(tokenizer: Tokenizer, token: int | None) -> Tokenizer:
    """A decoder's tokenizer that begins a text by a token, where it has no beginning of its own.

    Parameters
    ----------
    tokenizer
        It is changed in place.
    token
        Of the model's configuration; None for nothing.
    """
    from tokenizers.processors import Sequence, TemplateProcessing

    if begin_of(tokenizer) != (None, False) or token is None:
        return tokenizer
    name = tokenizer.id_to_token(token)
    if name is None:
        return tokenizer
    template = TemplateProcessing(single=f"{name} $A", special_tokens=[(name, token)])
    former = tokenizer.post_processor
    tokenizer.post_processor = template if former is None else Sequence([former, template])
    return tokenizer


def fitted_tokenizer(tokenizer: Tokenizer, folder: Path, is_decoder: bool) -> Tokenizer:
    """The tokenizer of a model, which begins a decoder's texts."""
    from posenc.architectures.classes import begin_token

    if not is_decoder:
        return tokenizer
    config, _, _ = library_class(folder)
    return with_begin(tokenizer, begin_token(config))


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
        If the folder has no tokenizer.
    """
    save_tokenizer(read_tokenizer(key, origin), target)


def save_tokenizer(tokenizer, folder: Path) -> None:
    """Write ``tokenizer.json`` and its checksum."""
    with atomic_file(folder / TOKENIZER) as temporary:
        tokenizer.save(str(temporary))
    write_checksums(folder / CHECKSUMS, TOKENIZER)
