"""Models of each family with random weights, and a tokenizer, as small as can be."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from posenc.artifacts.files import CHECKSUMS, write_checksums

TEXT = "the film was not dull but clever and the plot was never slow again in her hands"
WORDS = TEXT.split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys(WORDS), "good", "bad", "##ly"]
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16}


def random_model(family: str) -> transformers.PreTrainedModel:
    """The library's own model with random weights, in which position matters."""
    torch.manual_seed(0)
    shape = {"vocab_size": 40, "intermediate_size": 32, "max_position_embeddings": 48, **SIZES}
    if family == "bert":
        model = transformers.BertModel(transformers.BertConfig(**shape), add_pooling_layer=False)
    elif family == "roberta":
        config = transformers.RobertaConfig(**shape, pad_token_id=1)
        model = transformers.RobertaModel(config, add_pooling_layer=False)
    elif family == "gpt2":
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=40, n_positions=48, n_layer=2, n_head=2, n_embd=16)
        )
    elif family == "llama":
        config = transformers.LlamaConfig(**shape, num_key_value_heads=1)
        model = transformers.LlamaForCausalLM(config)
    else:
        raise ValueError(f"no random model of the family {family!r}")
    for name, weight in model.named_parameters():
        if "norm" not in name.lower() and weight.dim() == 2:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


def saved(family: str, folder: Path) -> Path:
    """Its folder in the hub's format."""
    random_model(family).save_pretrained(folder)
    write_checksums(folder / CHECKSUMS, "config.json", "model.safetensors")
    return folder


def word_pieces() -> Tokenizer:
    """A tokenizer of BERT's kind."""
    ids = {token: number for number, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer
