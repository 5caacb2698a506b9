"""A model verified, packed rows included: :mod:`posenc.architectures.verify` asks how they run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from posenc.architectures.architecture import Architecture
from posenc.architectures.discover import of
from posenc.architectures.needs import ArchitectureError
from posenc.architectures.verify import Verdict, Verification, verify
from posenc.capture.rows import packed_row
from posenc.models import schemes
from posenc.models.files import ModelError
from posenc.models.load import load
from posenc.models.references import LARGE, bytes_of
from posenc.models.section import Reading
from posenc.models.tokenizers import TEXTS

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def verified(
    model: PreTrainedModel, documents: Sequence[Sequence[int]] = ()
) -> Verification | None:
    """Compare a model with the library's own run of it; what holds is noted with the model.

    Parameters
    ----------
    model
        From :func:`posenc.models.load.load`, or of the library.
    documents
        Token ids of some texts; by default some that are made up.

    Returns
    -------
    None for a decoder that is told positions in a way that the library does not have.

    Raises
    ------
    ArchitectureError
        As :func:`posenc.architectures.verify.verify`.
    """
    if getattr(model.config, schemes.KEY, "learned") in schemes.IN_ATTENTION:
        return None
    rows = of(model).vocabulary_size
    last = max((token for ids in documents for token in ids), default=0)
    if last >= rows:
        raise ArchitectureError(
            f"its tokenizer gives the token {last}, but the embeddings have {rows} rows: the "
            f"tokenizer is another model's"
        )
    return verify(model, documents, _row)


def read(model: PreTrainedModel, tokenizer: Tokenizer, most: int) -> list[list[int]]:
    """Token ids of the fixed texts.

    Raises
    ------
    ArchitectureError
        If the tokenizer cannot read them, or gives its tokens other types than 0, of which the
        model knows.
    """
    try:
        encodings = [tokenizer.encode(text) for text in TEXTS]
    except Exception as error:  # the library of tokenizers has no other class of its own
        raise ArchitectureError(
            f"its tokenizer cannot read every text ({error}): give its model in tokenizer.json a "
            f"token for what it does not know (unk_id or unk_token)"
        ) from error
    types = sorted({number for encoding in encodings for number in encoding.type_ids} - {0})
    if types and of(model).takes("token_type_ids"):
        raise ArchitectureError(
            f"its tokenizer gives tokens of a single text the type {types[0]}, where texts are run "
            f"as type 0: take the type out of the template (post_processor, single) in "
            f"tokenizer.json"
        )
    return [encoding.ids[:most] for encoding in encodings]


def looked_at(key: str, section: Reading, folder: Path, tokenizer: Tokenizer) -> Verdict:
    """Load the model of a folder and compare it, with the library and with its section.

    Parameters
    ----------
    key
        What it is called in errors.
    section
        What ``params.yaml`` says of it.
    folder, tokenizer
        In the hub's format; as its texts are read.

    Raises
    ------
    ModelError
        If it is not run here as the library runs it, or is not what the section says.
    """
    network = load(folder, section.family, is_kept=bytes_of(folder) >= LARGE)
    try:
        arch = of(network)
        verification = verified(network, read(network, tokenizer, section.max_tokens))
    except ArchitectureError as error:
        raise ModelError(f"{key}: {error}") from None
    assert verification is not None  # nothing that is fetched has a scheme of ours
    for name, said, seen in (
        ("kind", "decoder" if section.is_decoder else "encoder", _kind(arch)),
        ("position", section.positions, arch.position.kind),
    ):
        if said != seen:
            raise ModelError(
                f"{key}: its {name} is {seen!r}, but params.yaml means {said!r} (family "
                f"{section.family!r}): say {name}: {seen}"
            )
    return verification.as_json()


def _kind(arch: Architecture) -> str:
    if arch.causal and not arch.has_losses:
        return "decoder without a language-model head"
    return "decoder" if arch.causal else "encoder"


def _row(model: PreTrainedModel, documents: list[list[int]]) -> Any:
    return packed_row(model, documents, output_hidden_states=True)
