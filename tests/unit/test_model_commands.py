"""A model of one's own: described, written into a study, fetched, and loaded again."""

from __future__ import annotations

import functools
import json
import re
import runpy

import numpy as np
import pytest
import torch
import transformers
from typer.testing import CliRunner

import posenc
from posenc.architectures.needs import Need
from posenc.artifacts.files import ArtifactError
from posenc.cli import app
from posenc.config.base import Section
from posenc.measurements.declaration import MODEL, WEIGHTS, Measurement
from posenc.measurements.frame import lacking
from posenc.models import load as loading
from posenc.models.files import model_digests
from posenc.models.load import fetch
from posenc.models.references import weight_paths
from posenc.steps.model import look
from posenc.study.new import write_study
from posenc.study.params import load as load_params
from posenc.study.sources import problems
from tests.copies import ROOT, copy_params
from tests.unit.api_models import save_words

SIZES = {
    "vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.3,
}  # fmt: skip
KINDS = {
    "Qwen3ForCausalLM": (
        {"num_key_value_heads": 2, "head_dim": 16}, "qwen3", "decoder", "rotation"),
    "OPTForCausalLM": ({"ffn_dim": 48, "word_embed_proj_dim": 32}, "opt", "decoder", "table"),
    "EuroBertModel": ({"num_key_value_heads": 2}, "eurobert", "encoder", "rotation"),
    "BertModel": ({}, "bert", "encoder", "table"),
}  # fmt: skip


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the shipped parameters."""
    (tmp_path / "project").mkdir()
    copy_params(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "notes.txt").write_text("the film was good\nthe plot was slow again\n")
    return tmp_path / "project"


def save(folder, kind, **more):
    """A random model of a class with a tokenizer, in the hub's format."""
    made_by = getattr(transformers, kind)
    torch.manual_seed(0)
    network = made_by(made_by.config_class(**{**SIZES, **KINDS[kind][0], "pad_token_id": 0}))
    network.save_pretrained(folder, **more)
    save_words(KINDS[kind][2] == "decoder", folder)
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_said_what_it_is(project, kind):
    folder = save(project.parent / "own", kind)
    done = CliRunner().invoke(app, ["models", str(folder)])
    assert done.exit_code == 0, done.output
    _, model_type, what, position = KINDS[kind]
    first, second, *rest = done.output.splitlines()
    assert f": {model_type}, {what}, 2 layers of 4 heads, d_model 32" in first
    assert first.endswith(f"positions by a {position}")
    assert f"transformers {transformers.__version__}" in second and "removable" in second
    assert any("not losses: no language-model head" in line for line in rest) == (what == "encoder")


def test_what_cannot_be_run_is_one_line(project):
    folder = save(project.parent / "own", "BertModel")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "nothing"}))
    done = CliRunner().invoke(app, ["models", str(folder)])
    assert done.exit_code == 1
    assert "nothing" in done.output and len(done.output.splitlines()) == 1
    done = CliRunner().invoke(app, ["new", "mine", "--model", str(folder)])
    assert done.exit_code == 1 and "nothing" in done.output


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", [False, True])
def test_a_study_of_one_s_own_model_is_whole(project, kind, shards, monkeypatch):
    """From an empty folder: the entry, its checksums, the fetch, and the same numbers after it."""
    monkeypatch.setattr("posenc.report.links.link", lambda name: None)
    more = {"max_shard_size": "20KB"} if shards else {}
    folder = save(project.parent / "my model's", kind, **more)
    before = load_params(project / "params.yaml")
    done = CliRunner().invoke(
        app, ["new", "mine", "--model", str(folder), "--text", str(project.parent / "notes.txt")]
    )
    assert done.exit_code == 0, done.output
    params = load_params(project / "params.yaml")
    assert params.study.name == "mine" and params.study.models == ["my_model_s"]
    assert {**params.models, "my_model_s": None} == {**before.models, "my_model_s": None}
    section = params.models["my_model_s"]
    assert (section.family, section.is_decoder, section.positions) == (
        KINDS[kind][1],
        KINDS[kind][2] == "decoder",
        KINDS[kind][3],
    )
    assert section.max_tokens == 64 and list(problems(params)) == []
    data = project / "data/models/my_model_s"
    fetch(
        "my_model_s", section, data, project / "data/tokenizers/my_model_s",
        functools.partial(look, "my_model_s", section),
    )  # fmt: skip
    said = json.loads((data / "verification.json").read_text())
    assert said["model_type"] == KINDS[kind][1] and said["can"]["removable"] is None
    ours, own = posenc.load("my_model_s"), posenc.load(folder)
    texts = ["the film was good", "the plot was slow again"]
    for states, other in zip(
        posenc.run(ours, texts).hidden_states, posenc.run(own, texts).hidden_states, strict=True
    ):
        np.testing.assert_array_equal(states, other)
    if shards:
        assert (data / "model.safetensors").stat().st_size < 5000  # a reference, no copy
        assert all(path.parent == folder for path in weight_paths(data))
        assert set(model_digests(data)) == {"weights", "config"}
        next(folder.glob("model-00002*")).write_bytes(b"another")
        with pytest.raises(ArtifactError, match=r"refers to .*model-00002.* bring them"):
            weight_paths(data)


def test_large_weights_of_a_folder_are_referred_to(project, monkeypatch):
    folder = save(project.parent / "own", "BertModel")
    monkeypatch.setattr(loading, "LARGE", 1000)
    write_study(project / "params.yaml", "mine", "own", None, entry=_entry(folder))
    section = load_params(project / "params.yaml").models["own"]
    fetch("own", section, project / "data/models/own", project / "data/tokenizers/own")
    assert weight_paths(project / "data/models/own") == [folder / "model.safetensors"]


def _entry(folder):
    from posenc.api.describing import entry_of

    return entry_of(str(folder), "main", []).lines


def test_the_hub_s_entry_is_pinned_by_its_commit(project, monkeypatch):
    import huggingface_hub

    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = save(project.parent / "cache/snapshots" / commit, "Qwen3ForCausalLM")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(folder))
    from posenc.api.describing import entry_of

    entry = entry_of("somebody/Small-Model-0.1B", "main", ["small_model_0_1b"])
    assert entry.key == "small_model_0_1b_own"
    assert f"revision: {commit}" in entry.lines and "id: somebody/Small-Model-0.1B" in entry.lines


def test_the_frame_says_what_a_model_lacks(tmp_path):
    declared = Measurement(
        "it", Section, of=MODEL, reads=(WEIGHTS,), catalogue=(), needs=(Need.TABLE, Need.MAPS)
    )
    assert lacking(declared, tmp_path) is None  # nothing was verified
    can = {"table": None, "maps": "queries of layer 0 are not its map times its input"}
    path = tmp_path / "verification.json"
    path.write_text(json.dumps({"model_type": "bert", "can": can}))
    assert lacking(declared, tmp_path) == can["maps"]
    path.write_text(json.dumps({"model_type": "opt", "can": {"table": None, "maps": None}}))
    assert lacking(declared, tmp_path) is None


def test_the_page_of_models_is_made_of_the_verification():
    """All types of the installed library are on it, and some rows are made again."""
    page = (ROOT / "docs/models.md").read_text()
    script = runpy.run_path(str(ROOT / "docs/models.py"))
    assert f"transformers {transformers.__version__}" in page, "run `python docs/models.py`"
    for model_type in (("causal", "qwen3"), ("causal", "gemma2"), ("masked", "roberta"),
                ("masked", "mobilebert"), ("causal", "bloom")):  # fmt: skip
        assert script["row_of"](*model_type)[1] in page
    (count,) = map(int, re.findall(r"verified: (\d+) of", page))
    for name, said in {
        "README.md": r"more than (\d+) \[types\]", "README.ja.md": r"(\d+) を超える\[モデル型\]"
    }.items():  # fmt: skip
        (rounded,) = map(int, re.findall(said, (ROOT / name).read_text()))
        assert rounded == (count - 1) // 10 * 10, f"{count} types: {name} rounds them down"


def test_what_measures_losses_alone_says_that_it_needs_them():
    """The frame's reason then also covers models whose losses are not the library's."""
    from posenc.study.declared import MEASUREMENTS

    needy = {name for name, measurement in MEASUREMENTS.items() if Need.LOSS in measurement.needs}
    folder = ROOT / "workflow/posenc/measurements"
    said = {
        path.parent.name
        for path in folder.glob("*/measure.py")
        if 'return not_run("no language-model head"' in path.read_text()
    }
    assert needy == said and len(said) >= 5
    assert all(WEIGHTS in MEASUREMENTS[name].reads for name in said)
