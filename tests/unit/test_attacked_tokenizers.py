"""Tokens are those of the library's own tokenizer of the same folder, whichever file says so."""

from __future__ import annotations

import json

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from posenc.models.files import ModelError
from posenc.models.tokenizers import held_tokenizer, read_tokenizer, with_begin

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
TEXT = " a <think> b<think>  e\u0301cole \ufb01n \uff21\uff22 \u00a0 AB  "


def byte_level(*special, normalizer=None):
    """One token per byte, and special tokens before them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=256 + len(special), special_tokens=list(special), initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(["a"], trainer)
    tokenizer.normalizer = normalizer
    return tokenizer


def word_pieces():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=100, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


def saved(folder, kind, tokenizer, **files):
    """A folder of a model type with a tokenizer, and further JSON files."""
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def library_s(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def options(**more):
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", **more}


ADDED = {"content": "<think>", "special": True, "lstrip": False, "rstrip": False,
         "normalized": False, "single_word": False}  # fmt: skip


@pytest.mark.parametrize("files", [
    {"tokenizer_config": options(added_tokens_decoder={"261": ADDED})},
    {"tokenizer_config": options(additional_special_tokens=["<think>"])},
    {"tokenizer_config": options(extra_special_tokens={"t": "<think>"})},
    {"tokenizer_config": options(), "added_tokens": {"<think>": 261}},
    {"special_tokens_map": {"bos_token": "<s>", "additional_special_tokens": ["<think>"]}},
])  # fmt: skip
def test_tokens_that_other_files_add(tmp_path, files):
    folder = saved(tmp_path, "llama", byte_level(*SPECIAL), **files)
    ids = read_tokenizer("mine", folder).encode(TEXT).ids
    assert ids == library_s(folder)(TEXT)["input_ids"] and ids.count(261) == 2


@pytest.mark.parametrize("made_by", ["Qwen2Tokenizer", "GPTNeoXTokenizer", "CohereTokenizer",
                                     "GPT2Tokenizer"])  # fmt: skip
@pytest.mark.parametrize("normalizer", [None, normalizers.NFKC()])
def test_a_class_has_a_normalizer_of_its_own(tmp_path, made_by, normalizer):
    said = {"tokenizer_class": made_by, "bos_token": "<s>", "eos_token": "</s>",
            "pad_token": "<pad>", "unk_token": "<unk>"}  # fmt: skip
    tokenizer = byte_level(*SPECIAL, normalizer=normalizer)
    folder = saved(tmp_path, "llama", tokenizer, tokenizer_config=said)
    expected = library_s(folder)(TEXT)["input_ids"]
    assert read_tokenizer("mine", folder).encode(TEXT).ids == expected


def test_a_bare_tokenizer_of_an_encoder_has_the_library_s_special_tokens(tmp_path):
    folder = saved(tmp_path, "bert", word_pieces())
    ids = read_tokenizer("mine", folder).encode(TEXT).ids
    assert ids == library_s(folder)(TEXT)["input_ids"] and (ids[0], ids[-1]) == (2, 3)


def test_split_special_tokens_are_refused_in_a_folder_and_in_memory(tmp_path):
    said = options(split_special_tokens=True)
    folder = saved(tmp_path, "llama", byte_level(*SPECIAL), tokenizer_config=said)
    with pytest.raises(ModelError, match=r"mine: .*set split_special_tokens to false"):
        read_tokenizer("mine", folder)
    with pytest.raises(ModelError, match=r"held: .*set split_special_tokens to false"):
        held_tokenizer("held", library_s(folder))
    own = byte_level(*SPECIAL)
    own.encode_special_tokens = True
    with pytest.raises(ModelError, match=r"held: .*set split_special_tokens to false"):
        held_tokenizer("held", own)


@pytest.mark.parametrize("name", ["$", "$A", "$A:1", ":", "<s>:1", "begin of text", "begin"])
def test_a_token_that_begins_texts_may_have_any_name(name):
    tokenizer = with_begin(byte_level(name), 0)
    encoding = tokenizer.encode("abc")
    assert encoding.ids == [0, *byte_level(name).encode("abc").ids]
    assert encoding.tokens[0] == name and encoding.special_tokens_mask == [1, 0, 0, 0]
    assert Tokenizer.from_str(tokenizer.to_str()).encode("abc").ids == encoding.ids


@pytest.mark.parametrize("token", [None, -1, 10**6])
def test_a_token_that_is_not_there_begins_nothing(token):
    assert with_begin(byte_level(), token).encode("abc").ids == byte_level().encode("abc").ids


def test_what_is_no_tokenizer_or_reads_no_text_is_refused():
    with pytest.raises(TypeError, match="tokenizer is 'gpt2': give AutoTokenizer"):
        held_tokenizer("held", "gpt2")
    lacking = Tokenizer(models.WordLevel({"a": 0}, unk_token="[UNK]"))
    with pytest.raises(ModelError, match=r"held: its tokenizer does not read .*\[UNK\].*: mend"):
        held_tokenizer("held", lacking)


def test_a_file_alone_that_the_library_s_class_cannot_read_by_is_read_as_it_is(tmp_path):
    folder = saved(tmp_path, "gemma", byte_level())
    expected = byte_level().encode(TEXT).ids
    assert read_tokenizer("mine", folder).encode(TEXT).ids == expected
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"save it anew by save_pretrained"):
        read_tokenizer("mine", folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "TokenizersBackend"}')
    assert read_tokenizer("mine", folder).encode(TEXT).ids == expected
