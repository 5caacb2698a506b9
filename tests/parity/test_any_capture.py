"""The workflow's steps on other types: stores and evaluations hold the library's numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from posenc.architectures.table import VERIFICATION
from posenc.artifacts.activations import ActivationStore
from posenc.artifacts.files import CHECKSUMS, ArtifactError, write_checksums, write_json
from posenc.capture.evaluation import evaluate
from posenc.capture.verified import verified
from posenc.conditions.section import Condition
from posenc.models.load import load
from tests.parity.any_models import tiny
from tests.parity.test_any_model import library
from tests.parity.test_capture import spans

KINDS = [
    ("causal", "qwen3", "decoder", "rotation"),
    ("causal", "opt", "decoder", "table"),
    ("causal", "gemma2", "decoder", "rotation"),  # windows, soft caps, a head of its own
    ("causal", "gpt_oss", "decoder", "rotation"),  # sinks
    ("causal", "deepseek_v3", "decoder", "rotation"),  # values of another width than queries
    ("causal", "axk2", "decoder", "rotation"),  # cannot be packed: each document alone
    ("masked", "eurobert", "encoder", "rotation"),
    ("masked", "distilbert", "encoder", "table"),
    ("masked", "albert", "encoder", "table"),  # layers that share their weights
]


@pytest.fixture
def documents() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(5, 96, (length,), generator=generator).tolist()
        for length in (5, 17, 9, 23, 4, 12)
    ]


def saved(network, folder):
    """As a fetch leaves a model: with what it verified."""
    network.save_pretrained(folder)
    write_checksums(folder / CHECKSUMS, "config.json", "model.safetensors")
    write_json(folder / VERIFICATION, verified(network).as_json())


@pytest.mark.parametrize(("task", "family", "kind", "position"), KINDS)
def test_a_store_and_an_evaluation_are_the_library_s(
    project, documents, task, family, kind, position
):
    network = tiny(task, family)
    reference = copy.deepcopy(network)
    reference.set_attn_implementation("eager")
    saved(network, project.weights)
    project.family, project.kind = family, {"kind": kind, "position": position}
    project.parameters |= {"dtype": "float32", "quantities": ["hidden_states"]}
    project.conditions = {"intact": {}, "zero": {"position": "zero"}}
    project.make()
    model = load(project.weights, family)
    conditions = {"intact": Condition(), "zero": Condition(position="zero")}
    nll = {}
    counted = [[True] * len(ids) for ids in documents]
    for name, outcome in evaluate(model, documents, counted, conditions, {}, 1000):
        nll[name, outcome.document] = outcome.nll
    for condition in ("intact", "zero"):
        store = ActivationStore(project.run(condition))
        shard = store.shard(0)
        size = len(shard["special_mask"])
        for number, (ids, span) in enumerate(zip(documents, spans(documents), strict=True)):
            states, _, expected = library(
                reference, np.array(ids), condition == "zero", kind == "decoder"
            )
            if span.stop <= size:
                for layer, state in enumerate(states):
                    scale = float(state.abs().max())
                    np.testing.assert_allclose(
                        shard["hidden_states"][layer, span],
                        state[0].numpy(),
                        rtol=0,
                        atol=1e-3 * scale,
                    )
            if kind == "decoder":
                np.testing.assert_allclose(
                    nll[condition, number], expected.numpy(), rtol=1e-3, atol=1e-3
                )


@pytest.mark.parametrize("family", ["qwen3", "deepseek_v3"])
def test_queries_of_another_width_are_kept(project, documents, family):
    """Heads whose features are no share of the model's."""
    network = tiny("causal", family)
    saved(network, project.weights)
    project.family, project.kind = family, {"kind": "decoder", "position": "rotation"}
    project.parameters["dtype"] = "float32"
    project.conditions = {"intact": {}}
    project.make()
    shard = ActivationStore(project.run()).shard(0)
    size = len(shard["special_mask"])
    from posenc.capture.capture import forward

    model = load(project.weights, family)
    for ids, span in zip(documents, spans(documents), strict=True):
        if span.stop > size:
            break
        _, recording = forward(model, [ids])
        for layer in range(4):
            queries = recording.queries[layer][0].numpy()  # [n_heads, tokens, d_head]
            np.testing.assert_allclose(shard["queries"][layer, :, span], queries, atol=1e-4)


def test_heads_of_several_sizes_are_refused_in_a_line(project):
    network = tiny("causal", "gemma4_unified_text")
    saved(network, project.weights)
    project.family = "gemma4_unified_text"
    project.kind = {"kind": "decoder", "position": "rotation"}
    with pytest.raises((ArtifactError, RuntimeError), match="heads of different sizes"):
        project.make()
