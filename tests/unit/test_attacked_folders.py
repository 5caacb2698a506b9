"""A user's folder with a fault is refused in one sentence that names the file and the field."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import posenc
from posenc.artifacts.files import ArtifactError
from posenc.models.load import load

from .api_models import save_words
from .small_models import VOCABULARY

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "pad_token_id": 0,
         "intermediate_size": 48, "max_position_embeddings": 64, "vocab_size": len(VOCABULARY),
         "num_key_value_heads": 2, "initializer_range": 0.3}  # fmt: skip
USER_ERRORS = (posenc.ModelError, ArtifactError)


def saved(folder, kind="llama", causal=True, edits=(), drop=(), max_shard_size="5GB", **sizes):
    """A random model in the hub's format, with fields of its configuration edited."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **sizes})
    made_by = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    made_by.from_config(config).save_pretrained(folder, max_shard_size=max_shard_size)
    save_words(causal, folder)
    said = json.loads((folder / "config.json").read_text()) | dict(edits)
    text = json.dumps({key: value for key, value in said.items() if key not in drop})
    (folder / "config.json").write_text(text)
    return folder


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(folder):
    """What is said of a folder: one line, which never has a user delete a file of his own."""
    with pytest.raises(USER_ERRORS) as caught:
        posenc.load(folder)
    said = str(caught.value)
    assert "\n" not in said and "delete" not in said
    return said


@pytest.mark.parametrize(("edits", "field"), [
    ({"hidden_act": "gelu_foo"}, 'hidden_act is "gelu_foo"'),
    ({"num_attention_heads": 0}, "num_attention_heads is 0"),
    ({"rope_scaling": {"type": "foo", "factor": 4.0}}, 'rope_scaling is {"type": "foo"'),
    ({"rope_scaling": {"type": "linear", "factor": "4"}}, 'rope_scaling is {"type": "linear"'),
])  # fmt: skip
def test_the_field_is_named_without_which_the_library_makes_a_model(tmp_path, edits, field):
    said = refusal(saved(tmp_path, edits={"rope_theta": 500.0, **edits}, drop=["rope_parameters"]))
    assert f"{tmp_path / 'config.json'} is not the configuration of a llama model ({field}" in said
    assert said.endswith("correct it, or download it again")


@pytest.mark.parametrize(("edits", "message"), [
    ({"quantization_config": {}}, "config.json: the weights are quantized (quantization_config"),
    ({"quantization_config": "gptq"}, "quantization_config says gptq"),
    ({"max_position_embeddings": 0}, "allows a text no positions (max_position_embeddings"),
])  # fmt: skip
def test_a_configuration_of_what_is_not_run(tmp_path, edits, message):
    assert message in refusal(saved(tmp_path, edits=edits))


@pytest.mark.parametrize(("file", "content", "message"), [
    ("config.json", b"\xef\xbb\xbf{}", "begins with a byte order mark"),
    ("config.json", b"[]", "holds a list, not a model's configuration; download it again"),
    ("config.json", b"{", "is not valid JSON"),
    ("generation_config.json", b"[]", "holds a list, not a mapping; download it again"),
    ("tokenizer_config.json", b"[]", "holds a list, not a mapping; download it again"),
    ("model.safetensors", b"\xff" * 64, "is damaged"),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, file, content, message):
    (saved(tmp_path) / file).write_bytes(content)
    assert f"{tmp_path / file} {message}" in refusal(tmp_path)


@pytest.mark.parametrize("named", [["a"], None, {"a": 1}, {"a": []}])
def test_an_index_that_names_no_files(tmp_path, named):
    saved(tmp_path, max_shard_size="20KB")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": named}))
    assert f"{index}: weight_map does not give a file for each tensor" in refusal(tmp_path)


def test_the_damaged_shard_is_named(tmp_path):
    saved(tmp_path, max_shard_size="20KB")
    shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-50])
    said = refusal(tmp_path)
    assert f"{shard} is damaged" in said and said.endswith("download it again")


def test_tensors_that_the_library_joins_are_all_there(tmp_path):
    saved(tmp_path, "mixtral", num_local_experts=4)
    gone = "model.layers.1.block_sparse_moe.experts.0.w2.weight"
    edit_weights(tmp_path, lambda tensors: tensors.pop(gone))
    assert "tensors of model.layers.1.mlp.experts.down_proj" in refusal(tmp_path)


def test_weights_of_a_user_that_are_not_finite(tmp_path):
    saved(tmp_path)
    edit_weights(tmp_path, lambda tensors: tensors["model.norm.weight"].fill_(torch.nan))
    said = refusal(tmp_path)
    assert "'model.norm.weight' is not finite" in said and "params.yaml" not in said


# --- What the library loads --------------------------------------------------------------------


@pytest.mark.parametrize("edits", [{"attn_implementation": "flash_attention_2"},
                                   {"chunk_size_feed_forward": 2}])  # fmt: skip
def test_fields_that_say_how_to_run_and_not_what(tmp_path, edits):
    kind = "bert" if "chunk_size_feed_forward" in edits else "llama"
    folder = saved(tmp_path / "edited", kind, kind == "llama", edits)
    other = saved(tmp_path / "plain", kind, kind == "llama")
    texts = ["the film was good", "the plot was slow"]
    runs = [posenc.run(posenc.load(place), texts) for place in (folder, other)]
    for a, b in zip(*(run.hidden_states for run in runs), strict=True):
        assert (a == b).all()


def test_an_infinity_is_read_as_the_library_writes_it(tmp_path):
    folder = saved(
        tmp_path, "granitemoehybrid", layer_types=["attention"] * 2, num_local_experts=0,
        shared_intermediate_size=64, mamba_n_heads=4, mamba_d_head=16,
    )  # fmt: skip
    assert '{"__float__": "Infinity"}' in (folder / "config.json").read_text()
    limit = load(folder).config.time_step_limit
    assert limit[1] == float("inf")


def test_a_tied_matrix_may_be_kept_under_its_other_name(tmp_path):
    saved(tmp_path, tie_word_embeddings=True)
    kept = load(tmp_path).state_dict()["model.embed_tokens.weight"]

    def rename(tensors):
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")

    edit_weights(tmp_path, rename)
    assert torch.equal(load(tmp_path).state_dict()["model.embed_tokens.weight"], kept)
    edit_weights(tmp_path, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(ArtifactError, match="lacks the tensor"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["lilt", "splinter", "bros", "canine"])
def test_a_configuration_need_not_say_whether_matrices_are_tied(tmp_path, kind):
    """None of these is run here, for reasons of their own."""
    assert "tie_word_embeddings" not in refusal(saved(tmp_path, kind, causal=False))


def test_a_type_without_tied_matrices_is_loaded(tmp_path):
    assert posenc.load(saved(tmp_path, "markuplm", causal=False)).reading.family == "markuplm"


# --- Texts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("texts", "options", "error", "message"), [
    (["good", None], {}, TypeError, r"texts\[1\] is None: give a text"),
    (["a \ud83d"], {}, ValueError, r"texts\[0\] has half of a surrogate pair at character 2"),
    (["good"], {"max_tokens": 2.5}, TypeError, "max_tokens is 2.5: give a whole number"),
])  # fmt: skip
def test_a_text_or_an_option_that_is_none_is_named(tmp_path, texts, options, error, message):
    model = posenc.load(saved(tmp_path))
    with pytest.raises(error, match=message):
        posenc.run(model, texts, **options)
