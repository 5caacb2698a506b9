"""A folder's tokenizer, as the library itself calls it: the same ids, special tokens included."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.artifacts.files import CHECKSUMS, atomic_file, write_checksums
from posenc.models.files import (
    BYTE_LEVEL,
    CONFIG,
    OPTIONS,
    TOKENIZER,
    ModelError,
    library_class,
    tokenizer_files,
)
from posenc.models.json_files import read_mapping
from posenc.models.refusals import reason_of
from posenc.tokens.tokenize import begin_of, byte_level_bpe

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEXTS = (
    "The film was good, and the cast was better than its plot.",
    " A slow start;  2 of 10 -- 'really'?\nNever again!",
    "naïve café – 映画は良かった。 👍",
    "",
)
"""Through which a model is compared with the library."""
MARKS = (
    "e\u0301cole \ufb01n \uff21\uff22\uff11 \uff71 a\u00a0b \u212b \u0130I \u2460 \u00df \u00ad",
    "  leading,  double   and trailing spaces  ",
    "\tTabs\r\n\n CAPITALS\u3000\u200b\u0300 don't 1234567 ...",
)
"""Characters that normalisation changes, and spaces: on these, too, two tokenizers are compared."""

BEGIN = "begin"
"""What a template calls the token that begins a text."""
ADDITIONS = (OPTIONS, "special_tokens_map.json", "added_tokens.json")
"""Files that say more than ``tokenizer.json``."""
TABLES = ("vocab.txt", "tokenizer.model", "spiece.model")
"""Other files that the library makes a tokenizer of."""


def read_tokenizer(key: str, folder: Path) -> Tokenizer:
    """The tokenizer of a folder, without padding and truncation.

    Of a model's folder it is the library's own, whatever its ``tokenizer.json`` says: classes of
    the library have normalizers and special tokens of their own, and other files add tokens. Where
    nothing but ``tokenizer.json`` is there and the class that the library takes of the model's type
    cannot read by it, or has other tokens, the file is read as it is. Of a folder without a model
    it is the ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``.

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
    if files and not (folder / CONFIG).is_file():
        return _own(key, folder, files)
    # What draws at random is refused, whatever the library makes of it.
    own = _own(key, folder, files) if TOKENIZER in files else None
    if own is None or any((folder / name).is_file() for name in ADDITIONS):
        return _fast(key, _library(key, folder), _way_out(folder))
    # The library guesses a class from the model then, which may not fit the file.
    try:
        guessed = _fast(key, _library(key, folder), _way_out(folder))
    except ModelError:
        return own
    return guessed if guessed.get_vocab() == own.get_vocab() else own


def held_tokenizer(key: str, tokenizer: Any) -> Tokenizer:
    """The same of a tokenizer in memory, the library's or one of ``tokenizers``.

    Raises
    ------
    TypeError
        If it is something else.
    ModelError
        As :func:`read_tokenizer`.
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

    if isinstance(tokenizer, PreTrainedTokenizerBase):
        return _fast(key, tokenizer, _ANEW)
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(
            f"tokenizer is {tokenizer!r}: give AutoTokenizer.from_pretrained(...), or a Tokenizer "
            f"of the library tokenizers"
        )
    if tokenizer.encode_special_tokens:
        raise ModelError(f"{key}: {_SPLITS}")
    _check_random(key, tokenizer)
    own = plain(tokenizer)
    _ids(key, lambda text: own.encode(text).ids, _texts_of(own), "mend it")
    return own


_ANEW = "save it anew by save_pretrained"
_SPLITS = (
    "its tokenizer reads special tokens in a text as other text (split_special_tokens), which "
    "tokenizer.json cannot say: set split_special_tokens to false"
)


def _fast(key: str, theirs: Any, way_out: str) -> Tokenizer:
    """What a tokenizer of the library calls, which gives the ids that it gives itself."""
    backend = getattr(theirs, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(
            f"{key}: its tokenizer has no fast form, which gives each token its place in the text; "
            f"{_ANEW}"
        )
    if getattr(theirs, "split_special_tokens", False):
        raise ModelError(f"{key}: {_SPLITS}")
    _check_random(key, backend)
    own = plain(backend)
    texts = _texts_of(own)
    expected = _ids(key, lambda text: theirs(text)["input_ids"], texts, way_out)
    if _ids(key, lambda text: own.encode(text).ids, texts, way_out) != expected:
        raise ModelError(
            f"{key}: the library's tokenizer gives other tokens than its own tables ({OPTIONS}): "
            f"{_ANEW}"
        )
    return own


def _texts_of(tokenizer: Tokenizer) -> list[str]:
    """Texts that show how a tokenizer reads: all of its added tokens are in one."""
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return [*TEXTS, *MARKS, "".join(f"a {token} b{token}c" for token in added)]


def _ids(
    key: str, call: Callable[[str], Sequence[int]], texts: Sequence[str], way_out: str
) -> list[list[int]]:
    """Ids of texts, or the reason why there are none."""
    found = []
    for text in texts:
        try:
            found.append(list(call(text)))
        # The libraries raise errors of no class of their own.
        except Exception as error:
            raise ModelError(
                f"{key}: its tokenizer does not read the text {text[:60]!r} ({error}): {way_out}"
            ) from None
    return found


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """A copy without padding and truncation, and without a template that adds nothing."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing

    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_padding()
    copy.no_truncation()
    is_template = isinstance(copy.post_processor, TemplateProcessing)
    if is_template and not copy.num_special_tokens_to_add(False) and not any(_types(copy)):
        copy.post_processor = None
    return copy


def _types(tokenizer: Tokenizer) -> list[int]:
    """Of what kinds a tokenizer says that the tokens of a text are; [tokens]."""
    try:
        return tokenizer.encode(TEXTS[0]).type_ids
    except Exception:  # a text that it cannot read is refused by those that read
        return []


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

    for name in ADDITIONS:
        if (folder / name).is_file():
            read_mapping(folder / name)
    try:
        return transformers.AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    # The library raises whatever the readers of its files raise.
    except Exception as error:
        path = folder / (tokenizer_files(folder) or (OPTIONS,))[0]
        raise ModelError(
            f"{key}: no tokenizer can be read from {path} ({reason_of(error)}): {_way_out(folder)}"
        ) from None


def _way_out(folder: Path) -> str:
    if (folder / OPTIONS).is_file():
        return _ANEW
    return (
        f"where {TOKENIZER} alone is right, add a {OPTIONS} with "
        f'{{"tokenizer_class": "TokenizersBackend"}}'
    )


def with_begin(tokenizer: Tokenizer, token: int | None) -> Tokenizer:
    """A decoder's tokenizer that begins a text by a token, where it has no beginning of its own.

    Parameters
    ----------
    tokenizer
        It is changed in place.
    token
        Of the model's configuration; None, or one that the tokenizer does not have, for nothing.
    """
    from tokenizers import processors

    if begin_of(tokenizer) != (None, False) or token is None or token < 0:
        return tokenizer
    name = tokenizer.id_to_token(token)
    if name is None:
        return tokenizer
    # Templates are read: the token's own text may mean something there.
    begin = {"id": BEGIN, "ids": [token], "tokens": [name]}
    former = tokenizer.post_processor
    if former is not None:
        # Of several templates the first acts alone.
        state = json.loads(former.__getstate__())
        for part in state.get("processors", [state]):
            if part["type"] == "TemplateProcessing":
                part["single"].insert(0, {"SpecialToken": {"id": BEGIN, "type_id": 0}})
                part["special_tokens"][BEGIN] = begin
                former.__setstate__(json.dumps(state).encode())
                tokenizer.post_processor = former
                return tokenizer
    template = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[begin])
    tokenizer.post_processor = (
        template if former is None else processors.Sequence([former, template])
    )
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
