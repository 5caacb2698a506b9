"""The network of a classifier: an encoder whose states are averaged, and how it is trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.capture.interventions import applied
from posenc.capture.parts import body, position_embedding
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

DECODERS = ["gpt2", "llama"]
FAMILIES = ["bert", "roberta", *DECODERS]
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


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_the_library_s_own_forward(loaded, family):
    model, reference = loaded[family], random_model(family)
    reference.set_attn_implementation("eager")
    ids = documents()
    tensors = [torch.from_numpy(document) for document in ids]
    x, lengths = batch_of(tensors, padding_token(model), "cpu")
    with torch.no_grad():
        hidden = list(Encoder(model).states(x, lengths))
        for row, document in enumerate(tensors):
            # Each document by itself: nothing is padded.
            expected = body(reference)(document[None], output_hidden_states=True).hidden_states
            assert len(hidden) == len(expected)
            for ours, theirs in zip(hidden, expected, strict=True):
                torch.testing.assert_close(
                    ours[row, : len(document)], theirs[0], atol=1e-5, rtol=1e-5
                )


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("trained_layers", [None, 1, 2])
def test_a_decoder_without_positions_is_the_library_s(loaded, family, trained_layers):
    """A table of zeros; or every token at position 0, where queries and keys are not turned.

    The library is given a mask of the padding, which the encoder here does without.
    """
    model, reference = loaded[family], random_model(family)
    reference.set_attn_implementation("eager")
    if family == "gpt2":
        position_embedding(reference).weight.data.zero_()
    tensors = [torch.from_numpy(document) for document in documents()]
    x, lengths = batch_of(tensors, padding_token(model), "cpu")
    kept = (torch.arange(x.shape[1]) < lengths[:, None]).long()  # [documents, longest]
    with torch.no_grad(), applied(model, Condition(position="zero")):
        _, inputs = encode(model, documents(), trained_layers)
        given, _ = batch_of(inputs, padding_token(model), "cpu")
        hidden = Encoder(model, trained_layers)(given, lengths)  # [documents, longest, d_model]
        places = torch.zeros_like(x)
        expected = body(reference)(x, attention_mask=kept, position_ids=places, use_cache=False)
        with_them = body(reference)(x, attention_mask=kept, use_cache=False).last_hidden_state
    rows = kept.bool()
    torch.testing.assert_close(hidden[rows], expected.last_hidden_state[rows], atol=1e-5, rtol=1e-5)
    if family == "llama":
        assert not torch.allclose(hidden[rows], with_them[rows], atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("trained_layers", [None, 1, 2])
def test_neither_padding_nor_the_batch_changes_a_document(loaded, family, trained_layers):
    model = loaded[family]
    ids, filler = documents(), padding_token(model)
    pooled, inputs = encode(model, ids, trained_layers)
    network = Classifier(Encoder(model, trained_layers), 16, seed=1).eval()
    with torch.no_grad():
        together = logits(network, inputs, filler, "cpu")  # [documents, 2]
        last = Encoder(model)
        for row, (document, given) in enumerate(zip(ids, inputs, strict=True)):
            length = torch.tensor([len(document)])
            alone = network(given[None], length)[0]  # [2]
            torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=1e-4)
            # The trained part goes on where the rest ends.
            state = last(torch.from_numpy(document)[None], length)  # [1, tokens, d_model]
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
    orders = [generator.permutation(len(document)) for document in ids]
    mixed = [document[order] for document, order in zip(ids, orders, strict=True)]
    for family, model in loaded.items():
        for positions in ("intact", "zero"):
            with applied(model, Condition(position=positions)):
                before, after = (encode(model, batch, None)[0] for batch in (ids, mixed))
            change = relative_changes(before, after)
            if positions == "zero" and family not in DECODERS:
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
            ids = [torch.from_numpy(document) for document in documents(12)]
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


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_layers_of_a_rotary_decoder_learn_without_rotation(
    small_model_folders, precision, tmp_path
):
    """The condition holds in training: its loss is that of the model whose tokens stand at 0."""
    from posenc.artifacts.checkpoints import Checkpoint

    model = load(small_model_folders["llama"], "llama")
    ids, labels = [torch.from_numpy(document) for document in documents(12)], np.arange(12) % 2 == 1
    given = OPTIMIZATION.model_copy(update={"precision": precision})
    with applied(model, Condition(position="zero")):
        freeze_positions(model)
        _, inputs = encode(model, documents(12), 1)
        network = Classifier(Encoder(model, 1), 16, seed=0)
        start = {name: value.clone() for name, value in network.state_dict().items()}
        fine_tune(
            network, (inputs, labels), (inputs, labels), 0, given, 0,
            Checkpoint(tmp_path / "c", "x", print), "cpu", lambda step, loss: None,
        )  # fmt: skip
        with torch.no_grad():
            outputs = logits(network, inputs, 0, "cpu")  # [documents, 2]
    after = network.state_dict()
    assert all(not torch.equal(after[name], value) for name, value in start.items())
    with torch.no_grad():
        # The model has learned in place, and its rotation is back.
        for row, document in enumerate(ids):
            at_zero = body(model)(document[None], position_ids=torch.zeros_like(document)[None])
            expected = network.head(at_zero.last_hidden_state[0].mean(dim=0))
            torch.testing.assert_close(outputs[row], expected, atol=1e-5, rtol=1e-4)


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
    pooled = mean_pooled(hidden, torch.tensor([2, 3]))
    assert pooled.tolist() == [[1.0, 2.0], [8.0, 9.0]]
