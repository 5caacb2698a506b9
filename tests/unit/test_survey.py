"""A study of many models of the hub: written whole and pinned, or not at all."""

from __future__ import annotations

import hashlib
import json
import re
from types import SimpleNamespace

import huggingface_hub
import pytest
from typer.testing import CliRunner

from posenc.artifacts.files import sha256_file, write_json, write_sealed
from posenc.cli import app
from posenc.study.evaluations import masks_of
from posenc.study.params import load
from tests.copies import copy_params
from tests.parity.any_models import WINDOW, tiny, words
from tests.unit import synthetic_positions

TABLES = ("gpt2", "biogpt", "opt")
ROTARY = ("gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma", "phi", "olmo2", "stablelm")
CLOSED = ["zero_closed", "placebo_heads"]
FIRST = [*CLOSED, "first_order", "first_order_heads"]


def commit_of(kind: str) -> str:
    return hashlib.sha1(kind.encode()).hexdigest()


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """The hub's cache as its library keeps it: a tiny model of each type, and `main` of each."""
    root = tmp_path_factory.mktemp("hub")
    decoders = [("causal", kind) for kind in (*TABLES, *ROTARY, "gpt_neo")]
    for task, kind in [*decoders, ("masked", "bert")]:
        repository = root / f"models--tiny--{kind}"
        folder = repository / "snapshots" / commit_of(kind)
        tiny(task, kind).save_pretrained(folder)
        words().save(str(folder / "tokenizer.json"))
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text(commit_of(kind))
    return root


@pytest.fixture
def project(tmp_path, monkeypatch, hub):
    """A folder with the shipped parameters and two texts, and the hub at hand."""
    (tmp_path / "project").mkdir()
    copy_params(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(hub))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("posenc.report.links.link", lambda name: None)
    for name in ("notes", "others"):
        lines = [f"w1 w2 w3 w{number} {name}" for number in range(8)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    return tmp_path / "project"


def survey(project, *words, code=0):
    """What the command says of a text."""
    done = CliRunner().invoke(app, ["survey", *words, "--text", str(project.parent / "notes.txt")])
    assert done.exit_code == code, done.output
    return done.output


def others(project):
    return "--calibration", str(project.parent / "others.txt")


def test_twelve_types_are_one_study(project):
    kinds = (*TABLES, *ROTARY)
    before = load(project / "params.yaml")
    said = survey(project, *(f"tiny/{kind}" for kind in kinds), *others(project))
    # The window of one of them is the shortest limit.
    assert f"12 models; texts are cut at {WINDOW} tokens" in said
    assert "params.yaml is valid. Study 'survey'" in said
    params = load(project / "params.yaml")
    study = params.study
    assert len(study.models) == 12 and study.models == study.pretrained
    for kind, key in zip(kinds, study.models, strict=True):
        section = params.models[key]
        assert section.source.model_dump() == {
            "kind": "hub",
            "id": f"tiny/{kind}",
            "revision": commit_of(kind),
        }
        assert section.is_decoder and section.max_tokens == WINDOW
        assert section.positions == ("table" if kind in TABLES else "rotation")
        means = [] if kind in TABLES else ["means", "means_heads"]
        assert set(masks_of(params, key)) == {"closed", "placebo_heads", *means}
    assert study.evaluated == FIRST and study.figures == [
        "recovered_share",
        "rotary_masks",
        "recovered_by_size",
    ]
    text, other = params.datasets["survey"], params.datasets["survey_calibration"]
    assert text.source.sha256 == sha256_file(project.parent / "notes.txt")
    assert other.source.sha256 == sha256_file(project.parent / "others.txt")
    assert (other.calibration.split, other.calibration.documents) == ("test", 8)
    assert study.datasets == ["survey"] and study.calibration == "survey_calibration"
    # Everything else is as it was.
    assert {**params.studies, "survey": None} == {**before.studies, "survey": None}
    assert {name: params.models[name] for name in before.models} == before.models


def test_tables_alone_have_no_first_order(project):
    survey(project, "tiny/gpt2", "tiny/opt", "--tokens", "32", *others(project))
    params = load(project / "params.yaml")
    assert params.study.evaluated == CLOSED and params.study.figures == [
        "recovered_share",
        "recovered_by_size",
    ]
    assert {params.models[name].max_tokens for name in params.study.models} == {32}


def test_a_commit_may_be_named(project):
    survey(project, f"tiny/llama@{commit_of('llama')}", *others(project))
    params = load(project / "params.yaml")
    (name,) = params.study.models
    assert params.models[name].source.id == "tiny/llama"
    assert params.models[name].source.revision == commit_of("llama")


def test_what_cannot_be_had_is_said_in_a_line_each_and_nothing_is_written(project):
    before = (project / "params.yaml").read_bytes()
    named = ("tiny/absent", "tiny/opt", "tiny/bert", "tiny/opt", "tiny/llama@v9", "tiny/gpt_neo")
    lines = survey(project, *named, *others(project), code=1).splitlines()
    absent, read, bert, twice, revision, neo, last = lines
    assert absent.startswith("error: 'tiny/absent' is no model") and "check the name" in absent
    assert read == "tiny/opt: table, up to 64 tokens"
    assert bert.startswith("error: tiny/bert: a survey compares losses; losses: ")
    assert twice == "error: tiny/opt is named twice: once is enough"
    assert "at revision 'v9'" in revision
    assert neo.startswith("error: tiny/gpt_neo: ") and "its attention does not go" in neo
    assert last.endswith("leave out tiny/absent, tiny/bert, tiny/opt, tiny/llama@v9, tiny/gpt_neo")
    assert (project / "params.yaml").read_bytes() == before


def test_a_gated_model_says_how_it_is_had(project, monkeypatch):
    from huggingface_hub.errors import GatedRepoError

    def gated(*_, **__):
        raise GatedRepoError("403", response=SimpleNamespace(headers={}, request=None))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gated)
    line, _ = survey(project, "google/gated", *others(project), code=1).splitlines()
    assert line == (
        "error: 'google/gated' is gated: accept its terms at https://huggingface.co/google/gated, "
        "and log in with `hf auth login`"
    )


def test_masks_are_learned_from_text_that_is_not_evaluated(project):
    """It is refused before any model is looked at; a table's other split will do."""
    before = (project / "params.yaml").read_bytes()
    assert "has one split, 'test', and masks are" in survey(project, "tiny/absent", code=1)
    same = ("--calibration", str(project.parent / "notes.txt"))
    assert "is the text that is evaluated" in survey(project, "tiny/absent", *same, code=1)
    (project.parent / "others.txt").write_text("w1\nw2\n")
    said = survey(project, "tiny/absent", *others(project), code=1)
    assert "others.txt has too few documents (2) in the split 'test' to learn" in said
    (project.parent / "others.txt").write_text("Question\nIs it?\nIs it not?\nWhy?\n")
    said = survey(project, "tiny/absent", *others(project), code=1)
    assert "is read as format: truthfulqa, which has one split" in said
    assert (project / "params.yaml").read_bytes() == before
    rows = [{"text": f"w{n}", "split": "train" if n % 2 else "test"} for n in range(8)]
    (project.parent / "notes.txt").write_text("\n".join(map(json.dumps, rows)))
    survey(project, "tiny/gpt2")
    section = load(project / "params.yaml").datasets["survey"]
    assert (section.evaluation.split, section.calibration.split) == ("test", "train")
    assert section.calibration.documents == 4
    assert "study 'survey' already" in survey(project, "tiny/absent", code=1)


def planted(project, model, millions, conditions, reason=None):
    """What was measured of a model: recovered shares with intervals of a tenth to each side."""

    def estimate(value):
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    status, root = "not run" if reason else "measured", project / "data/studies/survey/measurements"
    entries = [
        {
            "condition": name,
            "spec": {},
            "precision": {"mode": "exact", "dtype": "float32"},
            "layers": [],
            "nll_per_token": estimate(3.0),
            "delta_nll": estimate(0.5),
            "recovered": None if share is None else estimate(share),
        }
        for name, share in {"intact": 1.0, "zero": 0.0, **conditions}.items()
    ]
    read = {"documents": 9, "cut": 0, "read": 90, "whole": 90}
    counts = {"documents": 9, "tokens": 90, "confidence": 0.95, "vocabulary_size": 100}
    said = {
        "status": status, "reason": reason, "is_decoder": True, "conditions": entries, **counts,
        "coverage": read, "positions": "rotation", "categories": None, "sweeps": {}, "masks": [],
    }  # fmt: skip
    write_sealed(root / "conditions" / model / "survey.json", said)
    counted = {"status": "not run", "reason": "packed: no"}
    if millions is not None:
        counted = synthetic_positions.savings(model, "survey", True, "rotation")
        counted["parameters"]["all"] = round(millions * 1e6)
    write_sealed(root / "savings" / model / "survey.json", counted)


def test_shares_are_said_by_size_and_type(project):
    survey(
        project, *(f"tiny/{kind}" for kind in ("opt", "qwen2", "phi", "gemma")), *others(project)
    )
    done = CliRunner().invoke(app, ["recovered"])
    assert done.exit_code == 1 and "does not exist; rerun the workflow" in done.output
    first, second = {"zero_closed": 0.4, "placebo_heads": -1.5}, {"first_order": 0.75}
    planted(project, "opt", 6900.0, first)
    planted(project, "qwen2", 500.0, first | second)
    planted(project, "phi", None, {"zero_closed": None})
    planted(project, "gemma", 270.0, {}, reason="losses: none")
    write_json(project / "data/models/qwen2/verification.json", {"model_type": "qwen2"})
    done = CliRunner().invoke(app, ["recovered"])
    assert done.exit_code == 0, done.output
    rows = [re.split(" {2,}", line) for line in done.output.splitlines()]
    closed, placebo = "0.400 [0.300, 0.500]", "-1.500 [-1.600, -1.400]"
    assert rows == [
        ["model", "data set", "type", "million", "nats", "lost", *FIRST],
        ["gemma", "survey", "gemma", "270.0", "not run: losses: none"],
        ["qwen2", "survey", "qwen2", "500.0", "3.000", "0.500", closed, placebo,
         "0.750 [0.650, 0.850]", "-"],
        ["opt", "survey", "opt", "6,900.0", "3.000", "0.500", closed, placebo, "-", "-"],
        ["phi", "survey", "phi", "-", "3.000", "0.500", "-", "-", "-", "-"],
    ]  # fmt: skip
