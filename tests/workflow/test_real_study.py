"""The study `real` from end to end, on models of the true sizes from a local hub."""

from __future__ import annotations

import json

import pytest

from tests.benchmarks import real_study


@pytest.mark.slow
def test_the_study_real_goes_from_the_hub_to_the_paper(tmp_path):
    project, record = real_study.measured(tmp_path)
    print(real_study.lines(record))
    assert project.planned() == {}
    params = real_study._params(project.folder)["models"]
    for name, (layers, width, tokens) in {
        "bert": (12, 768, 30522),
        "gpt2": (12, 768, 50257),
    }.items():
        assert params[name]["source"]["kind"] == "hub"
        config = json.loads((project.folder / f"data/models/{name}/config.json").read_text())
        shape = (config.get("num_hidden_layers") or config["n_layer"],
                 config.get("hidden_size") or config["n_embd"], config["vocab_size"])  # fmt: skip
        assert shape == (layers, width, tokens)
    folder = project.folder / "data/studies/real"
    numbers = json.loads((folder / "numbers.json").read_text())
    # The source's figure for GPT-2, here with random weights.
    for key in ("zero.similarity.last.cosine", "zero.conditions.perplexity"):
        assert numbers[f"gpt2.imdb.{key}"]["value"] > 0
    assert numbers["gpt2.positions.rows"]["value"] == 512
    assert numbers["gpt2.position_heads.heads"]["value"] == 144
    for file in (
        "index.html",
        "paper.pdf",
        "supplement.pdf",
        "slides.pdf",
        "figures/position_heads.pdf",
    ):
        assert (folder / file).stat().st_size > 10_000
