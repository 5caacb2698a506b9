"""Models whose faults show only in a long text, far from a text's beginning, or by one token.

Each is the library's, tiny and random; what it gives is the library's own, or refused in one line.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import transformers
from tokenizers import processors
from torch import nn
from torch.nn import functional

import posenc
from posenc.architectures import comparing
from posenc.architectures.needs import Need
from posenc.capture.capture import packed_states
from posenc.models.section import Reading
from tests.parity.any_models import POSITIONS, config_of, text, words

LONG = text(*(5 + 7 * step % 89 for step in range(50)))
CLOSE = 1e-4
"""Of states relative to the largest, of losses in nats: rounding through four random layers."""


def made(task: str, kind: str, **options) -> transformers.PreTrainedModel:
    """A random model of a type by the recipe, with some options of its own."""
    config = config_of(task, kind)
    for name, value in options.items():
        setattr(config, name, value)
    maker = {
        "causal": transformers.AutoModelForCausalLM,
        "masked": transformers.AutoModel,
    }[task]
    torch.manual_seed(0)
    return maker.from_config(config, attn_implementation="eager").eval()


def far(ours: np.ndarray | torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((torch.as_tensor(ours) - theirs).abs().max() / theirs.abs().max())


def reason(model: posenc.Model, need: Need) -> str | None:
    return model.architecture.can[need]


# --- Longer texts -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa"])
def test_keys_that_a_model_chooses_are_the_library_s(kind):
    """Texts of the verification are shorter than what is chosen: all keys are, there."""
    network = made("causal", kind, index_topk=20, index_head_dim=16, index_n_heads=2)
    reference = copy.deepcopy(network)
    run = posenc.run(posenc.load(network, tokenizer=words()), [LONG], patterns=True)
    ids = torch.from_numpy(run.ids[0])[None]
    with torch.no_grad():
        theirs = reference(ids, output_hidden_states=True, output_attentions=True)
    for ours, state in zip(run.hidden_states[0], theirs.hidden_states, strict=True):
        assert far(ours, state[0]) < CLOSE
    for ours, pattern in zip(run.patterns[0], theirs.attentions, strict=True):
        np.testing.assert_allclose(ours, pattern[0].numpy(), atol=CLOSE)
    nll = functional.cross_entropy(theirs.logits[0, :-1], ids[0, 1:], reduction="none")
    np.testing.assert_allclose(run.nll[0], nll.numpy(), atol=CLOSE * 10)
    assert any((pattern[0, 0, 40] == 0).sum() > 15 for pattern in theirs.attentions)


def test_what_an_attention_is_given_and_nobody_knows_is_refused():
    kinds = ["full_attention", *["minimax_m3_sparse"] * 3]
    sizes = {"index_block_size": 8, "index_topk_blocks": 2, "index_n_heads": 2, "index_head_dim": 8}
    network = made("causal", "minimax_m3_vl_text", layer_types=kinds, **sizes)
    with pytest.raises(posenc.ModelError, match=r"layer 1 gives its attention 'block_indices'"):
        posenc.load(network, tokenizer=words())


def test_a_model_that_asks_for_the_name_of_its_attention_is_refused(monkeypatch):
    """Unlike the types above it says nothing of it: only a longer text shows it."""
    plain = transformers.models.llama.modeling_llama.LlamaMLP.forward

    def forward(self, x):
        is_known = self.config._attn_implementation in ("eager", "sdpa")
        return plain(self, x) * (2.0 if is_known and x.shape[1] > 40 else 1.0)

    monkeypatch.setattr(transformers.models.llama.modeling_llama.LlamaMLP, "forward", forward)
    with pytest.raises(posenc.ModelError, match="hidden states differ by"):
        posenc.load(made("causal", "llama"), tokenizer=words())


def test_a_large_model_runs_no_long_text(monkeypatch):
    """The bound is parameters times tokens."""
    network = made("causal", "llama")
    lengths: list[int] = []
    network.model.embed_tokens.register_forward_pre_hook(
        lambda _, given: lengths.append(given[0].shape[1])
    )
    monkeypatch.setattr(comparing, "WORK", 20.0 * sum(x.numel() for x in network.parameters()))
    posenc.load(network, tokenizer=words())
    assert 10 < max(lengths) <= 60


# --- Positions ----------------------------------------------------------------------------------


YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}


@pytest.mark.parametrize(("kind", "options"), [
    ("ministral3", {"rope_parameters": {
        **YARN, "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.5}}),
    ("ministral3", {"max_position_embeddings": 65536, "rope_parameters": {
        **YARN, "original_max_position_embeddings": 16384, "llama_4_scaling_beta": 0.5}}),
    ("llama4_text", {"no_rope_layers": [0, 0, 0, 0], "attn_temperature_tuning": True,
                     "floor_scale": 16, "attn_scale": 0.5}),
    ("llama4_text", {"no_rope_layers": [1, 1, 1, 0], "attn_temperature_tuning": True,
                     "max_position_embeddings": 65536, "floor_scale": 8192, "attn_scale": 0.5}),
])  # fmt: skip
def test_queries_that_are_scaled_by_position_are_no_removed_positions(kind, options):
    if kind == "ministral3":
        options = {**options, "sliding_window": None}
    if kind == "llama4_text":
        options = {**options, "layer_types": ["full_attention"] * 4}
    model = posenc.load(made("causal", kind, **options), tokenizer=words())
    assert "positions taken away differ" in (reason(model, Need.REMOVABLE) or "")
    with (
        pytest.raises(posenc.ConditionError, match="positions taken away differ"),
        posenc.under(model, {"position": "zero"}),
    ):
        posenc.run(model, [LONG])
    if kind == "llama4_text":  # it counts tokens of the row by itself
        assert "packed documents differ" in (reason(model, Need.PACKED) or "")


def test_positions_that_turn_queries_alone_are_removed_far_in_a_text_too():
    model = posenc.load(made("causal", "llama", max_position_embeddings=65536), tokenizer=words())
    assert reason(model, Need.REMOVABLE) is None and reason(model, Need.PACKED) is None


def test_zero_is_a_table_of_zeros_of_the_padding_too():
    """The library reads the row of the padding for padding that stands in a text."""
    network = made("masked", "roberta")
    table = network.embeddings.position_embeddings
    with torch.no_grad():
        table.weight.normal_()
    reference = copy.deepcopy(network)
    reference.embeddings.position_embeddings.weight.data.zero_()
    model = posenc.load(network, tokenizer=words())
    padding = table.padding_idx
    with posenc.under(model, {"position": "zero"}):
        run = posenc.run(model, [text(20, padding, 30, 40, padding, 50)])
    ids = torch.from_numpy(run.ids[0])[None]
    assert padding in ids
    with torch.no_grad():
        theirs = reference(ids, torch.ones_like(ids), output_hidden_states=True)
    for ours, state in zip(run.hidden_states[0], theirs.hidden_states, strict=True):
        assert far(ours, state[0]) < CLOSE


# --- Documents in one row -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bart", "mbart", "pegasus", "blenderbot-small"])
def test_a_row_is_longer_than_the_table(kind):
    network = made("causal", kind)
    model = posenc.load(network, tokenizer=words())
    assert reason(model, Need.PACKED) is None
    documents = [[5 + (7 * step + start) % 89 for step in range(40)] for start in range(4)]
    assert sum(map(len, documents)) > POSITIONS
    with torch.inference_mode():
        row = packed_states(network, documents)[-1][0]
        alone = [packed_states(network, [ids])[-1][0] for ids in documents]
    assert far(row, torch.cat(alone)) < CLOSE


def test_a_row_in_which_one_document_changes_another_is_not_made():
    """ESM scales all embeddings of a row by its share of masks."""
    options = {"token_dropout": True, "mask_token_id": 4, "position_embedding_type": "rotary"}
    network = made("masked", "esm", **options)
    reference = copy.deepcopy(network)
    model = posenc.load(network, tokenizer=words())
    assert "packed documents differ" in (reason(model, Need.PACKED) or "")
    documents = [[20, 30, 4, 4, 4, 40], [50, 60, 70]]
    with torch.inference_mode():
        row = packed_states(network, documents)[-1][0]
        alone = [
            reference(torch.tensor([ids]), torch.ones(1, len(ids))).last_hidden_state[0]
            for ids in documents
        ]
    assert far(row, torch.cat(alone)) < CLOSE


# --- Refused in one line ------------------------------------------------------------------------


def with_nan(network) -> None:
    network.model.layers[1].mlp.up_proj.weight[0, 0] = float("nan")


def too_large(network) -> None:
    network.model.layers[1].mlp.up_proj.weight.mul_(1e30)
    network.model.layers[1].mlp.gate_proj.weight.mul_(1e30)


@pytest.mark.parametrize(("change", "message"), [
    (with_nan, r"after block 2 hidden states are .*its weight model\.layers\.1\.mlp\.up_proj"),
    (too_large, "after block 2 hidden states are .*too large for float32"),
])  # fmt: skip
def test_what_is_no_number_passes_no_check(change, message):
    network = made("causal", "llama")
    with torch.no_grad():
        change(network)
    with pytest.raises(posenc.ModelError, match=message):
        posenc.load(network, tokenizer=words())


def test_a_difference_that_is_no_number_is_not_small():
    ours, theirs = torch.zeros(3), torch.tensor([0.0, float("nan"), 0.0])
    later = torch.tensor([1.0, 0.0, 0.0])
    assert comparing.apart([[ours, later]], [[theirs, later]]) == float("inf")


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_types_of_tokens_that_a_tokenizer_gives(kind):
    tokenizer = copy.deepcopy(words())
    tokenizer.post_processor = processors.TemplateProcessing(single="$A:1", pair=None)
    network = made("masked" if kind == "bert" else "causal", kind)
    network.config.bos_token_id = None
    with pytest.raises(posenc.ModelError, match=r"type 1, where texts are run as type 0: take"):
        posenc.load(network, tokenizer=tokenizer)
    posenc.load(made("causal", "llama"), tokenizer=tokenizer)  # which has no types


def test_a_window_of_nothing_is_named():
    network = made("causal", "mistral", sliding_window=0)
    with pytest.raises(posenc.ModelError, match=r"a window of 0 \(sliding_window in config.json\)"):
        posenc.load(network, tokenizer=words())


def test_a_window_that_a_type_does_not_have_cuts_no_text():
    assert _read(made("causal", "llama", sliding_window=16)) == POSITIONS
    assert _read(made("causal", "mistral", sliding_window=16)) == 16


def _read(network: nn.Module) -> int:
    model = posenc.load(network, tokenizer=words())
    assert isinstance(model.reading, Reading)
    return model.reading.max_tokens


def test_a_model_that_gives_tuples_is_told_what_to_set():
    network = made("causal", "llama")
    network.config.return_dict = False
    with pytest.raises(posenc.ModelError, match=r"set model\.config\.return_dict = True"):
        posenc.load(network, tokenizer=words())


@pytest.mark.parametrize("kind", ["mpt", "codegen", "gptj"])
def test_an_attention_of_its_own_is_named(kind):
    sizes = {"rotary_dim": 4} if kind != "mpt" else {}
    with pytest.raises(posenc.ModelError, match="so that nothing can be recorded in it"):
        posenc.load(made("causal", kind, **sizes), tokenizer=words())
