"""What capture stores is what the library's own model computes."""

import copy

import numpy as np
import pytest
import torch

import posenc.capture.capture as step
from posenc.artifacts.files import ArtifactError
from posenc.capture import losses
from posenc.capture.capture import forward
from posenc.capture.interventions import applied
from posenc.capture.parts import first_row, position_embedding
from posenc.capture.section import Activations
from posenc.conditions.section import Condition
from posenc.models.affine import Affine, for_training, ready
from posenc.models.load import load
from posenc.tokens.packing import packs_of
from posenc.tokens.tokenized import shards_of

EXACT = Activations(
    quantities=["hidden_states", "queries", "keys"],
    dtype="float32",
    device="cpu",
    precision="exact",
    batch_tokens=40,
    shard_tokens=1000,
)
TOLERANCE = {"rtol": 0, "atol": 3e-6}  # float32 sums in another order


def capture(folder, family, documents, parameters=EXACT, condition="intact"):
    model = ready(load(folder, family))
    with applied(model, Condition(position=condition)):
        return captured(model, documents, parameters)


def captured(model, documents, parameters=EXACT):
    """Activations of all documents one after the other, and the losses of each."""
    lengths, arrays = np.array([len(ids) for ids in documents]), {}
    packs = list(packs_of(lengths, range(len(documents)), parameters.batch_tokens))

    def write(pack, parts):
        for name, part in parts.items():
            arrays.setdefault(name, []).append(part.copy())

    losses = step.capture(model, documents, packs, parameters, write)
    joined = {name: np.concatenate(parts, axis=-2) for name, parts in arrays.items()}
    return joined, [losses[document] for document in sorted(losses)]


def spans(documents):
    ends = np.cumsum([len(document) for document in documents])
    return [slice(end - len(document), end) for document, end in zip(documents, ends, strict=True)]


@torch.inference_mode()
def library_states(model, document):
    """Hidden states and logits of one document alone, by the library's eager attention."""
    return model(torch.tensor([document]), output_hidden_states=True)


def test_hidden_states_equal_the_library(folder, family, library_model, documents):
    arrays, _ = capture(folder, family, documents)
    for document, span in zip(documents, spans(documents), strict=True):
        expected = library_states(library_model, document).hidden_states
        assert arrays["hidden_states"].shape[0] == len(expected)
        for layer, state in enumerate(expected):
            np.testing.assert_allclose(
                arrays["hidden_states"][layer, span], state[0].numpy(), **TOLERANCE
            )


def test_queries_and_keys_equal_their_projections(folder, family, library_model, documents):
    """Recomputed from the hidden states with the weights, outside of the attention interface."""
    arrays, _ = capture(folder, family, documents)
    span, document = spans(documents)[3], documents[3]
    states = library_states(library_model, document).hidden_states
    for layer in range(3):
        x = states[layer][0]  # [tokens, d_model]
        with torch.inference_mode():
            if family == "gpt2":
                block = library_model.transformer.h[layer]
                query, key, _ = block.attn.c_attn(block.ln_1(x)).split(32, dim=-1)
            else:
                attention = library_model.encoder.layer[layer].attention.self
                query, key = attention.query(x), attention.key(x)
        for name, value in (("queries", query), ("keys", key)):
            expected = value.view(len(document), 4, 8).transpose(0, 1).numpy()  # [heads, tokens, 8]
            np.testing.assert_allclose(arrays[name][layer, :, span], expected, **TOLERANCE)


def test_a_ready_model_computes_affine_maps_with_their_activation(
    folder, family, library_model, documents
):
    from transformers.activations import NewGELUActivation
    from transformers.pytorch_utils import Conv1D

    def number(model, *kinds) -> int:
        return sum(isinstance(module, kinds) for module in model.modules())

    model = ready(load(folder, family))
    assert number(library_model, NewGELUActivation) == (3 if family == "gpt2" else 0)
    assert number(model, NewGELUActivation, Conv1D, torch.nn.Linear) == 0
    activated = [
        m.activation for m in model.modules() if getattr(m, "activation", "none") != "none"
    ]
    assert activated == ["gelu tanh" if family == "gpt2" else "gelu"] * 3
    # Embedding and output still share one weight.
    if family == "gpt2":
        assert model.lm_head.weight is model.transformer.wte.weight


@pytest.mark.parametrize("activation", ["none", "gelu", "gelu tanh", "silu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_affine_maps_and_their_gradients_equal_the_definition_in_double_precision(
    activation, bias, transposed
):
    generator = torch.Generator().manual_seed(0)
    shape = (16, 24) if transposed else (24, 16)
    weight = torch.nn.Parameter(torch.randn(shape, generator=generator))
    shift = torch.nn.Parameter(torch.randn(24, generator=generator)) if bias else None
    x = torch.randn(2, 50, 16, generator=generator).requires_grad_()
    given = [tensor for tensor in (x, weight, shift) if tensor is not None]
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    y = exact[0] @ (exact[1] if transposed else exact[1].T) + (exact[2] if bias else 0.0)
    if activation == "gelu":
        y = y * (1 + torch.erf(y / 2**0.5)) / 2
    elif activation == "gelu tanh":
        y = y / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (y + 0.044715 * y**3)))
    elif activation == "silu":
        y = y * y.sigmoid()
    affine = Affine(weight, shift, activation, transposed)
    with torch.inference_mode():
        fused = affine(x)
    with_gradient = affine(x)
    assert with_gradient.requires_grad and not fused.requires_grad
    for out in (fused, with_gradient):
        torch.testing.assert_close(out.double(), y, rtol=0, atol=5e-6)
    dy = torch.randn(y.shape, generator=generator)
    derivatives = torch.autograd.grad(with_gradient, given, dy)
    expected = torch.autograd.grad(y, exact, dy.double())
    for ours, theirs in zip(derivatives, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=5e-5)


def test_frozen_weights_get_no_gradient_and_what_they_are_given_does():
    x, weight = torch.ones(3, 16, requires_grad=True), torch.nn.Parameter(torch.ones(24, 16))
    Affine(weight.requires_grad_(False), None)(x).sum().backward()
    assert weight.grad is None and (x.grad == 24).all()


@pytest.mark.parametrize("family", ["gpt2"])
def test_a_model_for_training_is_the_library_s_and_so_are_its_gradients(
    folder, family, library_model, documents
):
    ids = torch.tensor([documents[0]])

    def gradients(model) -> dict[str, torch.Tensor]:
        names, learned = zip(*model.named_parameters(), strict=True)
        loss = model(ids, labels=ids).loss
        return dict(zip(names, torch.autograd.grad(loss, learned), strict=True))

    expected = gradients(library_model)
    model = for_training(load(folder, family))
    assert model.state_dict().keys() == library_model.state_dict().keys()
    result = gradients(model)
    assert result.keys() == expected.keys()
    for name, gradient in result.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)


def test_packed_weights_and_attention_step_by_step_change_bfloat16_by_its_rounding_alone(
    folder, family, library_model, documents
):
    """No further from float32 than the library's own bfloat16."""
    from posenc.capture.fast import faster

    library_half = copy.deepcopy(library_model).to(torch.bfloat16)
    model = faster(ready(load(folder, family)))
    for condition in ("intact", "zero"):
        with torch.inference_mode(), applied(model, Condition(position=condition)):
            ours = step.packed_states(model, documents)[-1][0].float()  # [tokens, d_model]
        theirs, exact = [], []
        for document in documents:
            for states, network in ((theirs, library_half), (exact, library_model)):
                with applied(network, Condition(position=condition)):
                    states.append(library_states(network, document).hidden_states[-1][0].float())
        theirs, exact = torch.cat(theirs), torch.cat(exact)  # [tokens, d_model]
        assert 0 < (ours - exact).norm() < 1.2 * (theirs - exact).norm()


def test_losses_do_not_depend_on_the_blocks_they_are_computed_in():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(50, 8, generator=generator)  # [tokens, d_model]
    weight = torch.randn(97, 8, generator=generator)  # [vocabulary, d_model]
    targets = torch.randint(97, (50,), generator=generator)  # [tokens]
    expected = torch.nn.functional.cross_entropy(
        hidden.double() @ weight.double().T, targets, reduction="none"
    )
    for chunk in (1, 7, 50, 97, 1000):
        nll = losses.token_losses(hidden, weight, targets, chunk)
        torch.testing.assert_close(nll.double(), expected, rtol=0, atol=2e-5)
    assert losses.token_losses(hidden[:0], weight, targets[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_is_not_finite_is_found(dtype):
    array = np.linspace(-65504, 65504, 4 * 5 * 6).reshape(4, 5, 6).astype(dtype)
    array[0, 0, :2] = 0.0, -0.0
    assert not step.overflows(array)
    for value in (np.inf, -np.inf, np.nan):
        damaged = array.copy()
        damaged[3, 4, 5] = value
        assert step.overflows(damaged) and not step.overflows(damaged[:, :4])


def test_losses_equal_the_library(documents, tmp_path):
    from tests.parity.library import reference

    library_model = reference("gpt2")
    library_model.save_pretrained(tmp_path / "gpt2")
    _, losses = capture(tmp_path / "gpt2", "gpt2", documents)
    for document, nll in zip(documents, losses, strict=True):
        with torch.inference_mode():
            ids = torch.tensor([document])
            expected = library_model(ids, labels=ids).loss.item()  # mean over tokens 1, 2, ...
        assert len(nll) == len(document) - 1
        assert nll.mean() == pytest.approx(expected, abs=3e-6)


def test_packing_changes_no_document(folder, family, documents):
    """The same documents in one row, in several, and one by one."""
    alone = EXACT.model_copy(update={"batch_tokens": 1})
    together = EXACT.model_copy(update={"batch_tokens": 10_000})
    one_by_one, _ = capture(folder, family, documents, alone)
    packed, _ = capture(folder, family, documents, together)
    for name, values in one_by_one.items():
        np.testing.assert_allclose(packed[name], values, **TOLERANCE)


def test_position_matters_when_intact_and_not_to_an_encoder_when_zeroed(folder, family, documents):
    """BERT without positions commutes with a permutation of its tokens (catalogue, A1)."""
    document = documents[3]
    order = np.random.default_rng(0).permutation(len(document))
    permuted = [document[index] for index in order]
    for condition in ("intact", "zero"):
        straight = capture(folder, family, [document], condition=condition)[0]["hidden_states"]
        shuffled = capture(folder, family, [permuted], condition=condition)[0]["hidden_states"]
        commutes = np.allclose(straight[:, order], shuffled, **TOLERANCE)
        assert commutes == (condition == "zero" and family != "gpt2")


def test_zero_is_the_library_model_with_zeroed_weights(folder, family, library_model, documents):
    arrays, _ = capture(folder, family, documents, condition="zero")
    torch.nn.init.zeros_(position_embedding(library_model).weight)
    for document, span in zip(documents, spans(documents), strict=True):
        expected = library_states(library_model, document).hidden_states[-1][0].numpy()
        np.testing.assert_allclose(arrays["hidden_states"][-1, span], expected, **TOLERANCE)


def test_a_condition_ends_with_its_block(folder, family, documents):
    model = load(folder, family)
    before = forward(model, documents[:1])[0][-1]
    weight = position_embedding(model).weight.detach().clone()
    with pytest.raises(KeyError), applied(model, Condition(position="zero")):
        rows = position_embedding(model).weight[first_row(model) :]
        assert not rows.any()
        raise KeyError
    assert torch.equal(position_embedding(model).weight, weight)
    after = forward(model, documents[:1])[0][-1]
    assert torch.equal(before, after)


def test_half_precision_storage_refuses_overflow(folder, family, documents):
    model = load(folder, family)
    with torch.no_grad():
        embeddings = model.get_input_embeddings().weight
        embeddings.mul_(1e8)
    parameters = EXACT.model_copy(update={"dtype": "float16"})
    if family == "gpt2":  # BERT's LayerNorm brings any embedding back into range
        with pytest.raises(ArtifactError, match=r"activations\.dtype"):
            captured(model, documents[:2], parameters)
    else:
        arrays, _ = captured(model, documents[:2], parameters)
        assert np.isfinite(arrays["hidden_states"]).all()


def test_shards_hold_whole_documents_in_order():
    lengths = np.array([3, 4, 5, 20, 1, 1])
    shards = shards_of(lengths, 8)
    assert [list(shard) for shard in shards] == [[0, 1], [2], [3], [4, 5]]
    assert shards_of(np.array([], dtype=int), 8) == []
