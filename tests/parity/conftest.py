"""Small random models of each family, in the hub's folder format."""

import pytest
import torch
import transformers

SIZES = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}


def reference(family: str) -> transformers.PreTrainedModel:
    """The library's own model with random weights and eager attention."""
    torch.manual_seed(0)
    if family == "bert":
        config = transformers.BertConfig(
            vocab_size=97, intermediate_size=64, max_position_embeddings=40, **SIZES
        )
        model = transformers.BertModel(config, add_pooling_layer=False)
    elif family == "roberta":
        config = transformers.RobertaConfig(
            vocab_size=97, intermediate_size=64, max_position_embeddings=42, pad_token_id=1, **SIZES
        )
        model = transformers.RobertaModel(config, add_pooling_layer=False)
    else:
        config = transformers.GPT2Config(
            vocab_size=97, n_positions=40, n_layer=3, n_head=4, n_embd=32, bos_token_id=0
        )
        model = transformers.GPT2LMHeadModel(config)
    # The library initialises position embeddings small; here position has to matter.
    for name, weight in model.named_parameters():
        if "wpe" in name or "position_embeddings" in name:
            torch.nn.init.normal_(weight, std=0.5)
    model.set_attn_implementation("eager")
    return model.eval()


@pytest.fixture(params=["bert", "roberta", "gpt2"])
def family(request) -> str:
    return request.param


@pytest.fixture
def library_model(family):
    return reference(family)


@pytest.fixture
def folder(library_model, tmp_path):
    """The reference model as a folder of the hub's format."""
    library_model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def documents() -> list[list[int]]:
    """Token ids of documents with different lengths; 1 pads RoBERTa and is not used."""
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(2, 97, (length,), generator=generator).tolist()
        for length in (5, 17, 9, 33, 2, 12)
    ]
