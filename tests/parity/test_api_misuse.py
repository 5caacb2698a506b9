"""Models that were changed after they were loaded, and arguments that are none: right or refused.

What is refused is refused in one sentence, before anything runs.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import posenc
from tests.parity.any_models import text, tiny, words
from tests.parity.library import library_losses

TEXTS = [text(82, 62, 50, 28, 31, 6, 9, 4), text(7, 11, 19, 23, 41, 43)]
CLOSE = 1e-4
"""Nats: rounding."""


def loaded(kind: str = "llama", task: str = "causal") -> posenc.Model:
    return posenc.load(tiny(task, kind), tokenizer=words())


def add_bias(network: nn.Module) -> None:
    network.lm_head.bias = nn.Parameter(torch.linspace(-1, 1, network.lm_head.out_features))


def exchange_head(network: nn.Module) -> None:
    old = network.lm_head
    network.lm_head = nn.Linear(old.in_features, old.out_features)


def hook_head(network: nn.Module) -> None:
    network.lm_head.register_forward_hook(lambda module, given, logits: logits * 2)


def forward_of_head(network: nn.Module) -> None:
    own = network.lm_head.forward
    network.lm_head.forward = lambda states: own(states) * 2


def hook_top(network: nn.Module) -> None:
    def change(module, given, output):
        output.logits = output.logits * 2
        return output

    network.register_forward_hook(change)


def configure(network: nn.Module) -> None:
    network.config.sliding_window = 3


def reverse_layers(network: nn.Module) -> None:
    network.model.layers = network.model.layers[::-1]


def leave_layers_out(network: nn.Module) -> None:
    network.model.layers = network.model.layers[:1]


def exchange_rotation(network: nn.Module) -> None:
    network.model.rotary_emb = copy.deepcopy(network.model.rotary_emb)


def round_weights(network: nn.Module) -> None:
    network.bfloat16()


def train_a_part(network: nn.Module) -> None:
    network.model.layers[0].train()


CHANGES = [
    add_bias, exchange_head, hook_head, forward_of_head, hook_top, configure, reverse_layers,
    leave_layers_out, exchange_rotation,
    round_weights, train_a_part,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_that_was_changed_is_not_run(change: Callable[[nn.Module], None]):
    model = loaded()
    change(model.network)
    said = "load it again with posenc.load|in training mode"
    for call in (
        lambda: posenc.run(model, TEXTS),
        lambda: posenc.closed_form(model, TEXTS),
        lambda: posenc.under(model, "zero").__enter__(),
    ):
        with pytest.raises(posenc.ConditionError, match=said) as refused:
            call()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", [add_bias, exchange_head, reverse_layers, exchange_rotation])
def test_a_changed_network_that_is_loaded_again_is_the_library_s(change):
    """What was found out about it before is not believed."""
    network = loaded().network
    change(network)
    model = posenc.load(network, tokenizer=words())
    try:
        run = posenc.run(model, TEXTS)
    except posenc.ConditionError:
        pytest.fail("what was just loaded is run")
    for nll, ids in zip(run.nll, run.ids, strict=True):
        assert np.abs(nll - library_losses(network, ids).numpy()).max() < CLOSE


def test_weights_may_change():
    """Modules and their hooks are the same: a user may edit weights, and may look at states."""
    model = loaded()
    with torch.no_grad():
        model.network.lm_head.weight.mul_(0.5)
    model.network.model.layers[0].register_forward_hook(lambda *given: None)
    run = posenc.run(model, TEXTS)
    assert np.abs(run.nll[0] - library_losses(model.network, run.ids[0]).numpy()).max() < CLOSE


def test_two_models_of_one_network_are_under_one_condition():
    network = tiny("causal", "llama")
    first, second = (posenc.load(network, tokenizer=words()) for _ in range(2))
    with posenc.under(first, "zero"):
        of_first, of_second = posenc.run(first, TEXTS), posenc.run(second, TEXTS)
        with pytest.raises(posenc.ConditionError, match="means are of the intact model"):
            posenc.closed_form(second, TEXTS)
        with pytest.raises(posenc.ModelError, match="is under zero: leave that block first"):
            posenc.load(network, tokenizer=words())
    assert of_second.condition == "zero" and of_second.perplexity == of_first.perplexity


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_threads_wait_for_each_other(kind):
    """Each gets its own texts' patterns, and the network is what it was."""
    model = loaded(kind)
    before = {name: value.clone() for name, value in model.network.state_dict().items()}
    alone = [posenc.run(model, [one], patterns=True) for one in TEXTS]
    results: dict[tuple[int, int], posenc.Run] = {}

    def repeat(number: int) -> None:
        for turn in range(8):
            results[number, turn] = posenc.run(model, [TEXTS[number]], patterns=True)

    threads = [threading.Thread(target=repeat, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    for (number, _), run in results.items():
        np.testing.assert_array_equal(run.patterns[0], alone[number].patterns[0])
    with posenc.under(model, "zero"):
        expected = posenc.run(model, TEXTS).perplexity
        under = []
        threads = [
            threading.Thread(target=lambda: under.append(posenc.run(model, TEXTS).perplexity))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert under == [expected, expected]
    assert all(torch.equal(value, before[n]) for n, value in model.network.state_dict().items())


def test_a_run_in_a_thread_is_wholly_in_or_out_of_a_condition():
    model = loaded("gpt2")
    intact = posenc.run(model, TEXTS).perplexity
    with posenc.under(model, "zero"):
        zero = posenc.run(model, TEXTS).perplexity
    runs: list[posenc.Run] = []
    thread = threading.Thread(
        target=lambda: runs.extend(posenc.run(model, TEXTS) for _ in range(20))
    )
    thread.start()
    while thread.is_alive():
        with posenc.under(model, "zero"):
            pass
    thread.join()
    assert len(runs) == 20
    assert {(run.condition, run.perplexity) for run in runs} <= {("intact", intact), ("zero", zero)}


def test_masks_are_learned_masks_that_the_condition_uses():
    model = loaded()
    closed = posenc.closed_form(model, TEXTS)
    relative = closed.learned.relative
    for masks in (closed, {"closed_form": closed}, {"x": 3}, 3, {"x": relative}):
        with (
            pytest.raises(TypeError, match=r"masks has a .+ is for mask=$") as refused,
            posenc.under(model, "zero", masks=masks),
        ):
            pass
        assert len(str(refused.value)) < 250
    with (
        pytest.raises(posenc.ConditionError, match=r"masks has 'closed_form', but zero needs none"),
        posenc.under(model, "zero", masks={"closed_form": closed.learned}),
    ):
        pass
    with posenc.under(model, "zero", mask=closed):
        expected = posenc.run(model, TEXTS).perplexity
    own = {
        "position": "zero",
        "mask": {"semantics": "additive", "profile": {"kind": "learned", "mask": "mine"}},
    }
    with posenc.under(model, own, masks={"mine": closed.learned}):
        assert posenc.run(model, TEXTS).perplexity == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x[0], r"relative of the mask 'closed_form' is a ndarray \[\d+, \d+, \d+\]"),
        (lambda x: x.tolist(), r"relative of the mask 'closed_form' is a list \[\]"),
        (torch.from_numpy, r"relative of the mask 'closed_form' is a Tensor"),
        (lambda x: np.concatenate([x, x], axis=2), "its biases have 2 sides"),
        (lambda x: x[:1], r"it has 1 layers"),
    ],
)
def test_a_mask_of_another_shape_is_refused(change, said):
    model = loaded()
    closed = posenc.closed_form(model, TEXTS)
    learned = replace(closed.learned, relative=change(closed.learned.relative))
    with (
        pytest.raises(posenc.ConditionError, match=said),
        posenc.under(model, "zero", mask=replace(closed, learned=learned)),
    ):
        pass


def test_texts_are_texts():
    model = loaded()
    table = pandas.DataFrame({"w5": TEXTS, "w6": TEXTS})
    for wrong, said in (
        (table, "texts is a table: give its column of texts"),
        ({"w5": TEXTS}, "texts is a table: give its column of texts"),
        (None, "texts is None: give a list of texts"),
        (5, "texts is 5: give a list of texts"),
    ):
        with pytest.raises(TypeError, match=said):
            posenc.run(model, wrong)
    expected = posenc.run(model, TEXTS).perplexity
    for right in (tuple(TEXTS), iter(TEXTS), table["w5"], np.array(TEXTS)):
        assert posenc.run(model, right).perplexity == expected
    assert posenc.run(model, TEXTS, max_tokens=10**30).perplexity == expected


def test_a_loss_beyond_floating_point_is_an_infinite_perplexity():
    model = loaded("gpt2")
    with torch.no_grad():
        model.network.lm_head.weight.mul_(1e4)
    run = posenc.run(model, TEXTS)
    assert np.concatenate(run.nll).mean() > 710 and run.perplexity == np.inf


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"position": "zeros"}, "the condition: position: "),
        ({"positon": "zero"}, "the condition: positon: "),
        ({"position": {"kind": "shufle"}}, "the condition: position"),
        ({"segments": 0}, "the condition: segments"),
    ],
)
def test_a_mistake_in_a_condition_is_said_in_a_line(condition, said):
    with (
        pytest.raises(posenc.ConditionError) as refused,
        posenc.under(loaded(), condition),
    ):
        pass
    lines = str(refused.value).splitlines()
    assert all(line.startswith("the condition: ") for line in lines) and said in lines[0]
    assert "pydantic" not in str(refused.value)


def test_a_condition_that_is_not_known_is_suggested_outside_a_project(tmp_path, monkeypatch):
    model = loaded()
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(
            posenc.ConditionError, match=r"'zeros' is not 'intact' or 'zero'; did you mean 'zero'\?"
        ),
        posenc.under(model, "zeros"),
    ):
        pass


@pytest.mark.parametrize("placebo", ["neighbours", "one_per_layer", "within_layers"])
def test_a_placebo_is_not_the_head_s_own(placebo):
    network = tiny("causal", "gpt2")
    config = copy.deepcopy(network.config)
    config.n_head = 1
    torch.manual_seed(0)
    model = posenc.load(type(network)(config).eval(), tokenizer=words())
    with pytest.raises(ValueError, match="needs other heads of the same layer, which has only one"):
        posenc.closed_form(model, TEXTS, placebo=placebo)


def test_what_cannot_be_loaded_is_left_as_it_was():
    network = tiny("causal", "llama")
    network.set_attn_implementation("sdpa")
    network.train()
    with torch.no_grad():
        network.model.embed_tokens.weight.fill_(torch.nan)
    with pytest.raises(posenc.ModelError):
        posenc.load(network, tokenizer=words())
    assert network.config._attn_implementation == "sdpa"
    assert all(module.training for module in network.modules())


def test_weights_without_values_and_other_precision_are_refused():
    network = tiny("causal", "llama")
    network.lm_head.to("meta")
    with pytest.raises(posenc.ModelError, match=r"without values \(device meta\)"):
        posenc.load(network, tokenizer=words())
    model = loaded()
    with (
        torch.autocast("cpu"),
        pytest.raises(posenc.ConditionError, match=r"torch\.autocast is on"),
    ):
        posenc.run(model, TEXTS)
    with pytest.raises(posenc.ModelError, match="name is empty"):
        posenc.load("")
    with pytest.raises(TypeError, match=r"^the model is Linear: give a name"):
        posenc.load(nn.Linear(2, 2))
