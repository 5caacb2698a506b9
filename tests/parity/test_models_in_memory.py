"""Models that others changed in memory: numbers are the library's own, or refused in one line."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

import posenc
from tests.parity.any_models import text, words
from tests.parity.library import library_losses
from tests.parity.test_attacked_models import CLOSE, LONG, far, made


def test_a_bias_of_the_head_that_is_zero_when_it_is_loaded_counts_later():
    network = made("causal", "phi")
    with torch.no_grad():
        network.lm_head.bias.zero_()
    model = posenc.load(network, tokenizer=words())
    with torch.no_grad():
        network.lm_head.bias.copy_(torch.linspace(-1, 1, len(network.lm_head.bias)))
    run = posenc.run(model, [LONG])
    assert far(run.nll[0], library_losses(network, run.ids[0])) < CLOSE


def test_a_shift_of_a_rotation_goes_on_past_the_positions_of_the_model():
    """Scores depend on distances alone; the angles of a table of positions have an end."""
    network = made("causal", "llama")
    most = network.config.max_position_embeddings
    long = text(*(5 + 13 * step % 89 for step in range(most - 3)))
    reference = copy.deepcopy(network)
    model = posenc.load(network, tokenizer=words())
    for by in (7, -7, 5 * most):
        with posenc.under(model, {"position": {"kind": "shift", "by": by}}):
            run = posenc.run(model, [long])
        ids = torch.as_tensor(run.ids[0])[None]
        assert ids.shape[1] > most - 7
        with torch.inference_mode():
            places = torch.arange(ids.shape[1])[None] + by
            theirs = reference(ids, position_ids=places, output_hidden_states=True)
        assert far(run.hidden_states[0][-1], theirs.hidden_states[-1][0]) < CLOSE


def test_a_model_and_its_body_are_under_one_condition_at_a_time():
    network = made("causal", "gpt2")
    whole = posenc.load(network, tokenizer=words())
    body = posenc.load(network.transformer, tokenizer=words())
    intact = posenc.run(body, [LONG]).hidden_states[0][-1]
    with posenc.under(whole, "zero"):
        for call in (
            lambda: posenc.run(body, [LONG]),
            lambda: posenc.under(body, "zero").__enter__(),
            lambda: posenc.load(network.transformer, tokenizer=words()),
        ):
            with pytest.raises(
                (posenc.ConditionError, posenc.ModelError),
                match=r"under zero( already)?: leave that block",
            ):
                call()
    assert np.array_equal(posenc.run(body, [LONG]).hidden_states[0][-1], intact)


@pytest.mark.parametrize(("kind", "name"), [
    ("phi", "model"), ("llama", "model"), ("bart", "model.decoder.embed_positions"),
])  # fmt: skip
def test_a_forward_pass_that_somebody_put_in_place_stays(kind, name):
    """As libraries do that spread a model over devices, or compile a part of it."""
    network = made("causal", kind)
    reference, module = copy.deepcopy(network), network.get_submodule(name)
    own, calls = module.forward, []

    @functools.wraps(own)
    def patched(*given, **named):
        calls.append(1)
        return own(*given, **named)

    module.forward = patched
    run = posenc.run(posenc.load(network, tokenizer=words()), [LONG])
    assert far(run.nll[0], library_losses(reference, run.ids[0])) < CLOSE
    calls.clear()
    network(torch.as_tensor(run.ids[0])[None])
    assert calls == [1]


def test_what_a_hook_on_the_body_sees_is_one_pass_and_logits_of_other_states_are_refused():
    """Its head has a bias and is called itself, for states that the body has given already."""
    network, seen = made("causal", "phi"), []
    reference = copy.deepcopy(network)
    network.model.register_forward_hook(lambda module, given, output: seen.append(1))
    model = posenc.load(network, tokenizer=words())
    seen.clear()
    run = posenc.run(model, [LONG])
    assert seen == [1] and far(run.nll[0], library_losses(reference, run.ids[0])) < CLOSE

    def steer(module, given, output):
        return type(output)(**{**output, "last_hidden_state": output.last_hidden_state + 1})

    network.model.register_forward_hook(steer)
    run = posenc.run(posenc.load(network, tokenizer=words()), [LONG])
    assert run.nll is None
    with pytest.raises(posenc.ConditionError, match="no perplexity: losses"):
        _ = run.perplexity


def test_a_head_of_fewer_rows_than_the_embeddings_names_the_token():
    network = made("causal", "llama")
    network.config.tie_word_embeddings = False
    network.lm_head = nn.Linear(network.config.hidden_size, 80, bias=False)
    model = posenc.load(network, tokenizer=words())
    with pytest.raises(posenc.ConditionError, match="no row for"):
        posenc.run(model, [LONG])


@pytest.mark.parametrize("rows", [40, 100])
def test_a_text_is_cut_at_the_rows_of_the_table_where_no_configuration_says_them(rows):
    config = transformers.WhisperConfig(
        vocab_size=96, d_model=32, decoder_layers=2, decoder_attention_heads=4, encoder_layers=1,
        encoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, max_target_positions=rows,
        init_std=0.3,
    )  # fmt: skip
    torch.manual_seed(0)
    made_by = transformers.WhisperForCausalLM
    network = made_by._from_config(config, attn_implementation="eager").eval()
    reference = copy.deepcopy(network)
    model = posenc.load(network, tokenizer=words())
    assert model.reading.max_tokens == model.positions == rows
    run = posenc.run(model, [f"{LONG} {LONG} {LONG}"])
    assert len(run.ids[0]) == rows
    assert far(run.nll[0], library_losses(reference, run.ids[0])) < CLOSE


@pytest.mark.parametrize("made_by", ["ViT", "Wav2Vec2"])
def test_a_model_of_something_else_than_texts_is_named_as_one(made_by):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
             "intermediate_size": 32}  # fmt: skip
    config = getattr(transformers, f"{made_by}Config")(**sizes)
    network = getattr(transformers, f"{made_by}Model")._from_config(config)
    with pytest.raises(posenc.ModelError, match="no table with an input embedding for each token"):
        posenc.load(network, tokenizer=words())


def test_a_tokenizer_that_cannot_read_every_text_is_named(tmp_path):
    pieces = [("<s>", 0.0), ("\u2581", -2.0), ("a", -3.0), ("film", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    made("causal", "llama").save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(posenc.ModelError, match=r"tokenizer cannot read every text .*unk_id"):
        posenc.load(tmp_path)
