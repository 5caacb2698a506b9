"""One loader for every source: what is loaded is what the library itself loads."""

from __future__ import annotations

import huggingface_hub
import pytest
import torch
import transformers
from tokenizers import Tokenizer

from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.capture.capture import forward
from posenc.models.load import ModelError, fetch, load, save
from posenc.models.section import HubSource, Model, PathSource
from posenc.tokens.tokenize import END_OF_TEXT, train_bpe
from tests.parity.library import reference

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub_folder(library_model, tmp_path):
    """A folder in the hub's format, with a tokenizer that pads and truncates as MiniLM's does."""
    folder = tmp_path / "hub"
    library_model.save_pretrained(folder)
    tokenizer = train_bpe(["a b c"] * 3, 260)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=3)
    tokenizer.save(str(folder / "tokenizer.json"))
    # A BERT's is by word pieces, unless this says otherwise.
    options = folder / "tokenizer_config.json"
    options.write_text('{"tokenizer_class": "TokenizersBackend"}')
    return folder


def section(family, folder, **changes) -> Model:
    source = PathSource(
        kind="path",
        path=str(folder),
        sha256=sha256_file(folder / "model.safetensors"),
        files={name: sha256_file(folder / name) for name in ("config.json", "tokenizer.json")},
    )
    return Model(family=family, source=source, max_tokens=36).model_copy(update=changes)


def test_a_local_folder_in_the_hub_s_format(family, hub_folder, documents, tmp_path):
    fetch("local", section(family, hub_folder), tmp_path / "model", tmp_path / "tokenizer")
    ours = load(tmp_path / "model", family)
    classes = {
        "bert": transformers.BertModel,
        "roberta": transformers.RobertaModel,
        "gpt2": transformers.GPT2Model,
    }
    theirs = classes[family].from_pretrained(hub_folder).eval()
    for document in documents:
        states, recording = forward(ours, [document])
        with torch.inference_mode():
            expected = theirs(torch.tensor([document]), output_hidden_states=True).hidden_states
        for state, other in zip(states, expected, strict=True):
            torch.testing.assert_close(state, other, rtol=0, atol=3e-6)
        assert sorted(recording.queries) == sorted(recording.keys) == [0, 1, 2]
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer" / "tokenizer.json"))
    assert tokenizer.truncation is None and tokenizer.padding is None
    assert tokenizer.token_to_id(END_OF_TEXT) == 0


def test_a_hub_model_is_asked_for_at_its_revision(hub_folder, family, tmp_path, monkeypatch):
    asked = {}

    def snapshot_download(repo_id, revision, allow_patterns):
        asked.update(repo_id=repo_id, revision=revision, patterns=allow_patterns)
        return str(hub_folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    model = Model(
        family=family,
        source=HubSource(kind="hub", id="someone/model", revision=REVISION),
        max_tokens=36,
    )
    fetch("hub", model, tmp_path / "model", tmp_path / "tokenizer")
    assert (asked["repo_id"], asked["revision"]) == ("someone/model", REVISION)
    assert not any("bin" in pattern or "py" in pattern for pattern in asked["patterns"])
    assert sha256_file(tmp_path / "model/model.safetensors") == sha256_file(
        hub_folder / "model.safetensors"
    )


def test_an_unreachable_hub_says_what_to_do(tmp_path, monkeypatch):
    def snapshot_download(*_, **__):
        raise huggingface_hub.errors.LocalEntryNotFoundError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    source = HubSource(kind="hub", id="someone/model", revision=REVISION)
    model = Model(family="bert", source=source, max_tokens=36)
    with pytest.raises(ModelError, match=rf"someone/model at revision {REVISION}.*kind: path"):
        fetch("hub", model, tmp_path / "model", tmp_path / "tokenizer")
    assert not (tmp_path / "model").exists()


def test_pickled_weights_are_not_read(family, hub_folder, tmp_path):
    model = section(family, hub_folder)
    (hub_folder / "model.safetensors").rename(hub_folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="only safetensors"):
        fetch("local", model, tmp_path / "model", tmp_path / "tokenizer")


def test_damaged_weights_are_found(family, folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ArtifactError, match=r"model\.safetensors is damaged .*; download it again"):
        load(folder, family)


def test_missing_weights_are_named(folder, family, library_model):
    """The library would fill a missing tensor with random numbers."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    lost = next(name for name in tensors if "position_embeddings" in name or "wpe" in name)
    del tensors[lost]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ArtifactError, match="lacks"):
        load(folder, family)


def test_a_trained_model_is_saved_in_the_hub_s_format(tmp_path, documents):
    model = reference("gpt2")
    save(model, tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation="eager"
    ).eval()
    ids = torch.tensor([documents[1]])
    with torch.inference_mode():
        assert torch.equal(again(ids).logits, model(ids).logits)
    first = (tmp_path / "model.safetensors").read_bytes()
    save(model, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == first
