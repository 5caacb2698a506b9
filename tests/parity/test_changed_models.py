"""Models that keep something of the texts before, or that others change: right, or refused."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, processors
from torch import nn

import posenc
from tests.parity.any_models import text, words
from tests.parity.library import library_losses
from tests.parity.test_attacked_models import CLOSE, LONG, far, made

MOST = 64
SIZES = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "mask_token_id": 3,
    "max_position_embeddings": MOST,
}  # fmt: skip


def llama(**more) -> transformers.LlamaForCausalLM:
    """One whose positions matter."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **more)).eval()


def texts(*lengths: int) -> list[str]:
    """Made-up texts of so many words."""
    return [text(*(5 + (7 * i * i + 3 * i) % 80 for i in range(length))) for length in lengths]


@pytest.mark.parametrize("position", ["intact", {"kind": "interpolate", "by": 1}])
def test_a_rotation_that_grows_with_its_text_forgets_the_texts_before(position):
    network = llama(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})
    fresh = copy.deepcopy(network)

    def differences(run) -> list[float]:
        pairs = zip(run.nll, run.ids, strict=True)
        return [far(nll, library_losses(copy.deepcopy(fresh), ids)) for nll, ids in pairs]

    model = posenc.load(network, tokenizer=words())
    with posenc.under(model, {"position": position}):
        run = posenc.run(model, texts(200, 100, MOST, 20), max_tokens=300)
        assert max(differences(run)) < CLOSE
    with torch.inference_mode():
        network(torch.arange(5, 95)[None].repeat(1, 2))  # somebody's own call
    assert max(differences(posenc.run(model, texts(90)))) < CLOSE


class Shifted(transformers.LlamaForCausalLM):
    """It gives its body something else than it is given, as a soft prompt does."""

    def forward(self, input_ids=None, **named):
        """As the library's, of other embeddings."""
        embeddings = self.get_input_embeddings()(input_ids) + 0.5
        return super().forward(inputs_embeds=embeddings, **named)


def test_a_model_that_changes_what_its_body_is_given_is_refused():
    network = Shifted(transformers.LlamaConfig(**SIZES)).eval()
    with pytest.raises(posenc.ModelError, match="its forward, or a hook on it, changes what its"):
        posenc.load(network, tokenizer=words())
    network = llama()
    network.register_forward_pre_hook(lambda module, given: tuple((x + 1) % 96 for x in given))
    with pytest.raises(posenc.ModelError, match="its forward, or a hook on it, changes what its"):
        posenc.load(network, tokenizer=words())


def on_the_body(network: nn.Module) -> None:
    """Give other states."""

    def half(module, given, output):
        output.last_hidden_state = output.last_hidden_state / 2
        return output

    network.model.register_forward_hook(half)


def before_the_network(network: nn.Module) -> None:
    """Give it other tokens."""
    network.register_forward_pre_hook(lambda module, given: tuple((x + 1) % 96 for x in given))


def two_sided(network: nn.Module) -> None:
    """As is done to make an encoder of a decoder; the library's eager attention does not ask."""
    for layer in network.model.layers:
        layer.self_attn.is_causal = False


def compiled(network: nn.Module) -> None:
    """The body, in place."""
    network.model.compile(backend="eager")


@pytest.mark.parametrize("change", [on_the_body, before_the_network, two_sided, compiled])
def test_what_is_changed_after_loading_is_noticed(change):
    network = llama()
    model = posenc.load(network, tokenizer=words())
    posenc.run(model, [LONG])
    change(network)
    with pytest.raises(posenc.ConditionError, match="since it was loaded"):
        posenc.run(model, [LONG])


def test_a_body_that_is_compiled_before_loading_is_named():
    network = llama()
    compiled(network)
    with pytest.raises(posenc.ModelError, match=r"is compiled \(module.compile\(\)\)"):
        posenc.load(network, tokenizer=words())


def test_one_layer_may_be_compiled():
    network = llama()
    wanted = posenc.run(posenc.load(copy.deepcopy(network), tokenizer=words()), [LONG]).nll[0]
    network.model.layers[0].compile(backend="eager")
    run = posenc.run(posenc.load(network, tokenizer=words()), [LONG])
    assert far(run.nll[0], torch.as_tensor(wanted)) < CLOSE


def test_quantized_modules_and_computed_tables_are_named():
    network = torch.ao.quantization.quantize_dynamic(llama(), {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(posenc.ModelError, match=r"has quantized modules .*float32 model"):
        posenc.load(network, tokenizer=words())
    network = made("causal", "gpt2")
    nn.utils.parametrizations.weight_norm(network.transformer.wpe)
    with pytest.raises(posenc.ModelError, match="computed by a parametrization: call"):
        posenc.load(network, tokenizer=words())


def test_a_mask_acts_on_no_other_model_of_the_same_configuration_object():
    config = transformers.LlamaConfig(**SIZES)
    masked, other = (transformers.LlamaForCausalLM(config).eval() for _ in range(2))
    ids = torch.arange(5, 15)[None]
    with torch.inference_mode():
        wanted = other(ids, output_hidden_states=True).hidden_states[-1]
    model, second = (posenc.load(network, tokenizer=words()) for network in (masked, other))
    mask = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 1.0}}
    with posenc.under(model, {"mask": mask}):
        with torch.inference_mode():
            assert far(other(ids, output_hidden_states=True).hidden_states[-1], wanted) < CLOSE
        with pytest.raises(posenc.ConditionError, match="shares its configuration with"):
            posenc.run(second, [LONG])


@pytest.mark.parametrize("kind", ["eurobert", "modernbert"])
def test_clipped_to_no_distance_is_no_position_for_encoders_too(kind):
    network = made("masked", kind)
    model = posenc.load(network, tokenizer=words())
    states = []
    for position in ({"kind": "clip", "distance": 0}, "zero", "intact"):
        with posenc.under(model, {"position": position}):
            states.append(torch.as_tensor(posenc.run(model, [LONG]).hidden_states[0]))
    assert far(states[0], states[1]) < 10 * CLOSE < far(states[0], states[2])


@pytest.mark.parametrize("kind", ["eurobert"])
def test_clipped_further_than_the_text_is_the_model_itself(kind):
    model = posenc.load(made("masked", kind), tokenizer=words())
    intact = torch.as_tensor(posenc.run(model, [LONG]).hidden_states[0])
    with posenc.under(model, {"position": {"kind": "clip", "distance": 500}}):
        assert far(posenc.run(model, [LONG]).hidden_states[0], intact) < CLOSE


@pytest.mark.parametrize("letters", ["bcdefgh", "abcdefgh"])
def test_a_text_begins_by_the_configuration_s_token_where_the_tokenizer_only_ends_it(letters):
    tokenizer = Tokenizer(
        models.BPE({**{letter: 3 + n for n, letter in enumerate(letters)}, "<s>": 1, "</s>": 2}, [])
    )
    end = [("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=end)
    own = tokenizer.encode("bcd").ids
    run = posenc.run(posenc.load(llama(), tokenizer=tokenizer), ["bcd"])
    assert run.ids[0].tolist() == [1, *own] and own[-1] == 2
