"""A folder of weights is taken only whole: each file the intended one, all of one model."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.capture.capture import capture
from posenc.capture.section import Activations
from posenc.models.files import check_digests, check_tensors, tokenizer_files
from posenc.models.load import ModelError, fetch, load, save
from posenc.models.section import Model, PathSource
from posenc.tokens.packing import packs_of
from posenc.tokens.tokenize import train_bpe
from tests.parity.conftest import reference
from tests.unit.damage import call

READ = ("config.json", "model.safetensors", "tokenizer.json")
KEYS = {
    "bert": {"layers": "num_hidden_layers", "heads": "num_attention_heads", "width": "hidden_size",
             "positions": "max_position_embeddings"},
    "gpt2": {"layers": "n_layer", "heads": "n_head", "width": "n_embd", "positions": "n_positions"},
}  # fmt: skip
KEYS["roberta"] = KEYS["bert"]
TABLES = {"gpt2": ("wte", "wpe")}


@pytest.fixture
def folder(folder):
    """A model with a tokenizer."""
    train_bpe(["a b c"] * 3, 260).save(str(folder / "tokenizer.json"))
    return folder


def section(family, folder) -> Model:
    """A section that pins the files as they are now."""
    digests = {path.name: sha256_file(path) for path in folder.iterdir() if path.name in READ}
    weights = digests.pop("model.safetensors")
    source = PathSource(kind="path", path=str(folder), sha256=weights, files=digests)
    return Model(family=family, source=source, max_tokens=30)


def edit_config(folder, **changes) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(folder, change) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def refused(family, folder, tmp_path, match) -> None:
    """Neither fetched, with checksums of the files as they are, nor loaded; in one line."""
    with pytest.raises(ModelError, match=match) as caught:
        fetch("mine", section(family, folder), tmp_path / "data", tmp_path / "tokenizer")
    assert str(caught.value).startswith("models.mine")
    assert not list(tmp_path.glob("data/*")) and not list(tmp_path.glob("tokenizer/*"))
    with pytest.raises(ArtifactError, match=match):
        load(folder, family)


# --- Checksums ----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", READ)
def test_each_file_that_is_read_is_pinned(family, folder, tmp_path, file):
    model = section(family, folder)
    if file == "config.json":
        # All shapes stay the same: nothing but the checksum can tell.
        edit_config(folder, **{KEYS[family]["heads"]: 2})
        check_tensors(folder, family)
    elif file == "tokenizer.json":
        train_bpe(["c b a"] * 3, 259).save(str(folder / file))
    else:
        edit_weights(folder, lambda tensors: next(iter(tensors.values())).neg_())
    with pytest.raises(
        ModelError, match=rf"models\.mine\.source\.(files|sha256) .*{file}"
    ) as caught:
        fetch("mine", model, tmp_path / "data", tmp_path / "tokenizer")
    assert sha256_file(folder / file) in str(caught.value)
    assert not list(tmp_path.glob("data/*")) and not list(tmp_path.glob("tokenizer/*"))


def test_a_file_without_a_checksum_is_named_with_it(family, folder, tmp_path):
    model = section(family, folder)
    files = {"config.json": model.source.files["config.json"]}
    model = model.model_copy(update={"source": model.source.model_copy(update={"files": files})})
    digest = sha256_file(folder / "tokenizer.json")
    with pytest.raises(ModelError, match=rf"source\.files has no .* add tokenizer\.json: {digest}"):
        fetch("mine", model, tmp_path / "data", tmp_path / "tokenizer")


def test_the_older_form_of_a_tokenizer_is_pinned(tmp_path):
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_text("{}")
    assert tokenizer_files(tmp_path) == ("vocab.json", "merges.txt")
    right = {name: sha256_file(tmp_path / name) for name in tokenizer_files(tmp_path)}
    check_digests("key", tmp_path, tokenizer_files(tmp_path), right)
    with pytest.raises(ModelError, match=r"key has no checksum of merges\.txt"):
        check_digests(
            "key", tmp_path, tokenizer_files(tmp_path), {"vocab.json": right["vocab.json"]}
        )
    (tmp_path / "merges.txt").write_text("a b")
    with pytest.raises(ModelError, match=r"key says merges\.txt: "):
        check_digests("key", tmp_path, tokenizer_files(tmp_path), right)
    with pytest.raises(ModelError, match=r"key names tokenizer\.json, which is not in"):
        check_digests("key", tmp_path, (), {"tokenizer.json": right["vocab.json"]})


# --- Shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "value", "message"),
    [
        ("layers", 2, r"of layer 2, but config\.json implies 2 layers"),
        ("layers", 4, r"has tensors of 3 layers, but config\.json implies 4"),
        # No such model is built.
        ("layers", 10**9, r"has tensors of 3 layers, but config\.json implies 1000000000"),
        ("heads", 5, r"config\.json is not .*5 heads do not divide d_model 32"),
        ("heads", 0, r"config\.json is not .*0 heads"),
        ("heads", "four", r"config\.json is not .*'?four'?"),
        ("width", 64, r"the tensor '.*' has shape \[.*32.*\], but config\.json implies \[.*64.*\]"),
        ("width", -32, r"config\.json is not the configuration of a"),
        ("vocab_size", 98, r"{}\.weight' has shape \[97, 32\], but .* implies \[98, 32\]"),
        ("vocab_size", 10**12, r"{}\.weight' has shape \[97, 32\]"),
    ],
)
def test_a_configuration_of_another_model_is_noticed(
    family, folder, tmp_path, what, value, message
):
    table = "wte" if family == "gpt2" else "word_embeddings"
    edit_config(folder, **{KEYS[family].get(what, what): value})
    refused(family, folder, tmp_path, message.replace("{}", table))


def test_another_number_of_positions_is_noticed(family, folder, tmp_path):
    table, rows = {"bert": ("position_embeddings", 40), "roberta": ("position_embeddings", 42),
                   "gpt2": ("wpe", 40)}[family]  # fmt: skip
    edit_config(folder, **{KEYS[family]["positions"]: 39})
    refused(
        family,
        folder,
        tmp_path,
        rf"{table}\.weight' has shape \[{rows}, 32\], but config\.json implies \[39, 32\]",
    )


def test_a_tensor_of_another_shape_or_a_missing_one_is_named(family, folder, tmp_path):
    whole = (folder / "model.safetensors").read_bytes()
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not name.endswith(("1.attn.c_attn.weight", "layer.1.attention.self.query.weight")):
            continue
        shape = list(tensor.shape)
        edit_weights(folder, lambda tensors, name=name: tensors.update({name: torch.ones(3, 7)}))
        refused(
            family,
            folder,
            tmp_path,
            rf"'{name}' has shape \[3, 7\], but config\.json implies \[{shape[0]}, {shape[1]}\]",
        )
        edit_weights(folder, lambda tensors, name=name: tensors.pop(name))
        own = name.removeprefix("transformer.")
        refused(family, folder, tmp_path, rf"lacks the tensor '{own}'.*{shape[0]}, {shape[1]}")
        (folder / "model.safetensors").write_bytes(whole)
        return
    raise AssertionError("no such tensor")


def test_forms_of_published_weights_are_taken(family, tmp_path):
    """Prefixes, heads of a pre-training, older spellings, and masks that were kept as tensors."""
    model = reference(family)
    model.save_pretrained(tmp_path)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def as_published(tensors):
        prefix = model.base_model_prefix
        for name in list(tensors):
            tensor = tensors.pop(name)
            if family == "gpt2":
                tensors[name.removeprefix(f"{prefix}.")] = tensor
            else:
                older = {"weight": "gamma", "bias": "beta"} if "LayerNorm" in name else {}
                stem, _, kind = name.rpartition(".")
                tensors[f"{prefix}.{stem}.{older.get(kind, kind)}"] = tensor
        # Unread, so anything will do.
        tensors["cls.predictions.bias"] = torch.full((97,), torch.nan)
        if family == "gpt2":
            tensors["h.0.attn.bias"] = torch.ones(1, 1, 40, 40)

    edit_weights(tmp_path, as_published)
    check_tensors(tmp_path, family)
    for name, tensor in load(tmp_path, family).state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_each_position_scheme_that_is_trained_here_is_taken(tmp_path):
    model = reference("gpt2")
    for scheme in ("sinusoidal", "alibi", "rotary", "none"):
        model.config.position_scheme = scheme
        save(model, tmp_path)
        check_tensors(tmp_path, "gpt2")


# --- Values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_named(family, folder, tmp_path, value):
    names = load_file(folder / "model.safetensors").keys()
    name = next(
        name for name in names if name.endswith((".2.mlp.c_fc.bias", "2.output.dense.bias"))
    )
    edit_weights(folder, lambda tensors: tensors[name].index_fill_(0, torch.tensor([5]), value))
    refused(family, folder, tmp_path, rf"the tensor '{name}' is not finite")


@pytest.mark.parametrize("family", ["bert"], indirect=True)
def test_states_that_are_not_finite_in_float32_are_not_blamed_on_float16(folder, family, documents):
    model = load(folder, family)
    with torch.no_grad():
        model.encoder.layer[1].output.dense.bias.fill_(torch.inf)
    parameters = Activations(
        quantities=["hidden_states"], dtype="float32", precision="exact", batch_tokens=100,
        shard_tokens=100, device="cpu",
    )  # fmt: skip
    packs = list(packs_of([len(d) for d in documents], range(len(documents)), 100))
    with pytest.raises(ArtifactError, match="hidden_states are not finite") as caught:
        capture(model, documents, packs, parameters, lambda *_: None)
    assert "activations.dtype" not in str(caught.value)


# --- One line each ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["bert"], indirect=True)
@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"[]", "config.json holds a list"),
        ("tokenizer.json", b"{}", "no tokenizer can be read from"),
        ("model.safetensors", b"\xff" * 64, "model.safetensors is damaged"),
        ("model.safetensors", None, "lacks the tensor"),
    ],
)
def test_the_step_ends_with_one_line(folder, family, tmp_path, file, content, message):
    if content is None:
        save_file({"w": torch.ones(2)}, folder / file)
        edit_config(folder, **{KEYS[family]["layers"]: 0})
    else:
        (folder / file).write_bytes(content)
    config = tmp_path / "fetch.json"
    config.write_text(section(family, folder).model_dump_json())
    done = call(
        "posenc.steps.model", name="mine", config=config, output=tmp_path / "data",
        tokenizer=tmp_path / "tokenizer",
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: models.mine") and message in done.stderr
    assert not list(tmp_path.glob("data/*")) and not list(tmp_path.glob("tokenizer/*"))


def test_light_steps_do_not_import_torch():
    steps = "posenc.steps.tokenizer, posenc.steps.tokenize, posenc.steps.model"
    code = f"import sys, {steps}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
