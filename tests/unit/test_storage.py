"""What a study takes on disk, before it is run; test_studies.py compares it with a finished one."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from posenc.capture import capture
from posenc.study import plan, storage
from posenc.study.new import write_study
from posenc.study.params import load
from tests.copies import copy_params

from .synthetic import params_of


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder without results, with the shipped parameters."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    copy_params(Path())
    return tmp_path / "project"


def sizes(params) -> dict[str, float | None]:
    return {part.what: part.size for part in storage.parts(params)}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_token_takes_what_the_buffers_of_a_capture_have_room_for(dtype):
    parameters = params_of().activations
    names = ("hidden_states", "queries", "keys")
    shape = capture.Shape(n_layers=5, n_heads=2, d_model=24, vocabulary_size=7)
    buffers = {name: np.empty(size, dtype) for name, size in shape.sizes(tokens=1).items()}
    for kept in itertools.chain.from_iterable(itertools.combinations(names, n) for n in (1, 2, 3)):
        section = parameters.model_copy(update={"dtype": dtype, "quantities": list(kept)})
        assert section.bytes_per_token(5, 24) == sum(buffers[name].nbytes for name in kept)


def test_a_text_on_this_machine_is_counted_before_it_is_fetched(project):
    notes = project.parent / "notes.txt"
    notes.write_text("a" * 40 + "\n" + "b" * 400_000 + "\n")
    write_study(Path("params.yaml"), "mine", "minilm", notes)
    params = load(Path("params.yaml"), {"study": "mine"})
    longest = params.models["minilm"].max_tokens
    # 40 characters are 10 tokens and 2 special ones; the other document is cut. 6 layers of 384.
    per_token = 2 * 384 * (7 + 6 + 6)
    size_of = sizes(params)
    assert size_of["activations of minilm"] == 2 * (12 + longest) * per_token
    assert size_of["weights of minilm"] > 80e6
    line = storage.summary(params, project)
    assert re.fullmatch(r"about 0\.09 GB more \(weights of minilm 0\.09\); \d+ are free", line)


def test_documents_that_are_not_had_give_a_bound(project):
    params = load(Path("params.yaml"))
    count = params.datasets["sample_reviews"].evaluation.documents
    assert count is not None
    narrowed = params.model_copy(deep=True)
    narrowed.study.captured[:], narrowed.study.datasets[:] = ["decoder"], ["sample_reviews"]
    (part,) = [part for part in storage.parts(narrowed) if part.what == "activations of decoder"]
    source, longest = narrowed.models["decoder"].source, narrowed.models["decoder"].max_tokens
    per_token = 2 * source.d_model * (3 * source.n_layers + 1)
    assert part.is_bound
    assert part.size == len(narrowed.study.conditions) * count * longest * per_token
    assert storage.summary(params, project).startswith("at most ")


def test_what_only_the_hub_knows_is_named(project):
    line = storage.summary(load(Path("params.yaml"), {"study": "real"}), project)
    assert line.startswith("not known before it is fetched: weights of bert, weights of gpt2, act")


def test_what_is_there_is_not_counted_again(project):
    params = load(Path("params.yaml"))
    folder = plan.folder(params) / "activations/decoder"
    part = storage.Part("activations of decoder", folder, 1000)
    assert part.missing == 1000
    (folder / "sample_reviews").mkdir(parents=True)
    (folder / "sample_reviews/shard").write_bytes(b"0" * 400)
    assert part.missing == 600
    (folder / "sample_reviews/other").write_bytes(b"0" * 4000)
    assert part.missing == 0
