"""The network of a classifier: an encoder whose states are averaged, and how it is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.capture.interventions import applied
from posenc.capture.parts import position_embedding
from posenc.conditions.section import Condition
from posenc.config.optimization import Optimization
from posenc.experiments.downstream.network import (
    Classifier,
    Encoder,
    batch_of,
    encode,
    fine_tune,
    freeze_positions,
    logits,
    mean_pooled,
    padding_token,
)
from posenc.metrics.downstream import relative_changes
from posenc.models.load import load

from .small_models import random_model

OPTIMIZATION = Optimization(
    steps=8, batch=8, learning_rate=3e-3, warmup_steps=2, weight_decay=0.01,
    precision="float32", validate_steps=4, patience=None, checkpoint_steps=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def loaded(small_model_folders):
    return {family: load(folder, family) for family, folder in small_model_folders.items()}


def documents(count: int = 7, longest: int = 17) -> list[np.ndarray]:
    """Token ids of documents of different lengths; none of them pads."""
    generator = np.random.default_rng(5)
    lengths = generator.integers(4, longest + 1, size=count)
    return [generator.integers(4, 40, size=length) for length in lengths]


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_states_are_those_of_the_library_s_own_forward(loaded, family):
    model, reference = loaded[family], random_model(family)
    reference.set_attn_implementation("eager")
    ids = documents()
    tensors = [torch.from_numpy(one) for one in ids]
    x, lengths = batch_of(tensors, padding_token(model), "cpu")
    with torch.no_grad():
        found = list(Encoder(model).states(x, lengths))
        for row, one in enumerate(tensors):
            # Each document by itself: nothing is padded.
            body = getattr(reference, "transformer", reference)
            expected = body(one[None], output_hidden_states=True).hidden_states
            assert len(found) == len(expected)
            for ours, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(ours[row, : len(one)], theirs[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
@pytest.mark.parametrize("trained_layers", [None, 1, 2])
def test_neither_padding_nor_the_batch_changes_a_document(loaded, family, trained_layers):
    model = loaded[family]
    ids, filler = documents(), padding_token(model)
    pooled, inputs = encode(model, ids, trained_layers)
    network = Classifier(Encoder(model, trained_layers), 16, seed=1).eval()
    with torch.no_grad():
        together = logits(network, inputs, filler, "cpu")  # [documents, 2]
        last = Encoder(model)
        for row, (one, given) in enumerate(zip(ids, inputs, strict=True)):
            length = torch.tensor([len(one)])
            alone = network(given[None], length)[0]  # [2]
            torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=1e-4)
            # The trained part goes on where the rest ends.
            state = last(torch.from_numpy(one)[None], length)  # [1, tokens, d_model]
            np.testing.assert_allclose(pooled[row], state[0].mean(dim=0), atol=1e-5)
            torch.testing.assert_close(
                alone, network.head(state[0].mean(dim=0)), atol=1e-5, rtol=1e-4
            )


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 999))
def test_without_positions_the_pooled_output_ignores_the_order(loaded, seed):
    """The encoders' identity; a causal decoder sees what came before even without positions."""
    generator = np.random.default_rng(seed)
    ids = documents()
    orders = [generator.permutation(len(one)) for one in ids]
    mixed = [one[order] for one, order in zip(ids, orders, strict=True)]
    for family, model in loaded.items():
        for positions in ("intact", "zero"):
            with applied(model, Condition(position=positions)):
                before, after = (encode(model, some, None)[0] for some in (ids, mixed))
            change = relative_changes(before, after)
            if positions == "zero" and family != "gpt2":
                assert change["largest"] < 2e-6
            else:
                assert change["mean"] > 1e-3


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_zeroed_positions_stay_zero_and_others_learn(small_model_folders, family, tmp_path):
    from posenc.artifacts.checkpoints import Checkpoint

    for positions in ("intact", "zero"):
        model = load(small_model_folders[family], family)
        before = position_embedding(model).weight.detach().clone()
        with applied(model, Condition(position=positions)):
            if positions == "zero":
                freeze_positions(model)
            network = Classifier(Encoder(model), 16, seed=0)
            ids = [torch.from_numpy(one) for one in documents(12)]
            labels = np.arange(12) % 2 == 1
            start = {name: value.clone() for name, value in network.state_dict().items()}
            fine_tune(
                network, (ids, labels), (ids, labels), 0, OPTIMIZATION, 0,
                Checkpoint(tmp_path / positions, "x", print), "cpu", lambda step, loss: None,
            )  # fmt: skip
            after = position_embedding(model).weight.detach()
            if positions == "zero":
                assert not after.any()
            else:
                assert not torch.equal(after, before)
            changed = {n for n, v in network.state_dict().items() if not torch.equal(v, start[n])}
            assert any("blocks.0" in name for name in changed) and "head.weight" in changed
        if positions == "zero":
            assert torch.equal(position_embedding(model).weight, before)


def test_only_the_last_layers_are_trained_and_dropout_is_off(small_model_folders):
    model = load(small_model_folders["bert"], "bert")
    network = Classifier(Encoder(model, 1), 16, seed=0).train()
    names = {name for name, _ in network.named_parameters()}
    assert all(name.startswith(("encoder.blocks.0", "head")) for name in names)
    assert sum("attention" in name for name in names) == 10
    _, inputs = encode(model, documents(2), 1)
    x, lengths = batch_of(inputs, 0, "cpu")
    assert torch.equal(network(x, lengths), network(x, lengths))
    with pytest.raises(ValueError, match="the model has 2"):
        Encoder(model, 3)


def test_the_mean_is_over_tokens_only():
    hidden = torch.arange(12.0).reshape(2, 3, 2)
    found = mean_pooled(hidden, torch.tensor([2, 3]))
    assert found.tolist() == [[1.0, 2.0], [8.0, 9.0]]
