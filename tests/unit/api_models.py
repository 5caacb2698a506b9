"""Small models in folders with a tokenizer, for the Python API."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from posenc.tokens.tokenize import END_OF_TEXT

from .small_models import VOCABULARY, random_model
from .test_score_parts_measurement import llama

FAMILIES = ("bert", "roberta", "gpt2", "llama")


def words(is_decoder: bool) -> Tokenizer:
    """One token per word: an end-of-text token for a decoder, [CLS] and [SEP] for an encoder."""
    vocabulary = [END_OF_TEXT if is_decoder and word == "[CLS]" else word for word in VOCABULARY]
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if not is_decoder:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return tokenizer


def untouched(family: str):
    """The library's own model with random weights and eager attention."""
    model = llama() if family == "llama" else random_model(family)
    model.set_attn_implementation("eager")
    return model


def saved(family: str, folder: Path) -> Path:
    """Its folder in the hub's format."""
    untouched(family).save_pretrained(folder)
    save_words(family in ("gpt2", "llama"), folder)
    return folder


def save_words(is_decoder: bool, folder: Path) -> None:
    """The tokenizer in a folder that says that its ``tokenizer.json`` is read as it is."""
    words(is_decoder).save(str(folder / "tokenizer.json"))
    options = folder / "tokenizer_config.json"
    options.write_text('{"tokenizer_class": "TokenizersBackend"}')
