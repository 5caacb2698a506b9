"""Any text model type of the library: equal to it, intact and without positions, or refused.

One line per type in the causal and masked mappings of the installed library. The
reference is a copy of the model with the library's own eager attention, one document alone. Its
positions are removed in another way than ours: rotation frequencies and tables are set to 0.
"""

from __future__ import annotations

import copy
import functools
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional

import posenc
from posenc.architectures.needs import Need
from tests.parity.any_models import POSITIONS, TYPES, NoTinyModel, text, tiny, words

TEXTS = [
    text(*(5 + 7 * step % 89 for step in range(13))),  # longer than the window of the recipe
    text(50, 20, 21, 90, 4, 50, 33),
    text(60, 20, 61, 20, 8, 9, 77, 78, 79, 15),
]
STATES, PATTERNS, LOSSES = 1e-3, 1e-4, 1e-3
"""Float32 rounding through four random layers: states relative to the largest, losses in nats."""
EQUAL_AT_LEAST = 105


class Outcome(NamedTuple):
    """What became of a type: ``equal``, ``refused``, ``no tiny model``, or ``wrong``."""

    what: str
    reason: str = ""


def without_frequencies(made_by):
    """A rotation function whose frequencies are all 0, with its scaling."""

    def zero(*given, **named):
        rates, scaling = made_by(*given, **named)
        return 0 * rates, scaling

    return zero


@torch.inference_mode()
def library(model, ids, is_without: bool, with_losses: bool):
    """Hidden states, patterns and losses of one document, by the library alone."""
    if is_without:
        for name, buffer in model.named_buffers():
            if name.endswith("inv_freq"):
                buffer.zero_()
        for name, module in model.named_modules():
            if hasattr(module, "rope_init_fn"):  # of types that ask for frequencies in each pass
                module.rope_init_fn = without_frequencies(module.rope_init_fn)
            last = name.rsplit(".", 1)[-1]
            if last in ("position_embeddings", "wpe", "embed_positions") and hasattr(
                module, "weight"
            ):
                module.weight.zero_()
    given = torch.tensor([ids.tolist()])
    output = model(
        given, attention_mask=torch.ones_like(given), output_hidden_states=True,
        output_attentions=True, return_dict=True,
    )  # fmt: skip
    nll = None
    if with_losses:
        nll = functional.cross_entropy(output.logits[0, :-1], given[0, 1:], reduction="none")
    return output.hidden_states, output.attentions, nll


def far(ours: np.ndarray, theirs) -> float:
    """The largest difference of two lists of layers, relative to the largest value of a layer."""
    assert len(ours) == len(theirs)
    return max(
        float(np.abs(own - other[0].numpy()).max() / max(1e-6, other.abs().max()))
        for own, other in zip(ours, theirs, strict=True)
    )


@functools.cache
def outcome(task: str, kind: str) -> Outcome:
    """Run a type and compare it."""
    try:
        network = tiny(task, kind)
    except NoTinyModel as error:
        return Outcome("no tiny model", str(error).partition("\n")[0])
    network.set_attn_implementation("eager")
    reference = copy.deepcopy(network)
    try:
        model = posenc.load(network, tokenizer=words())
        if reason := model.architecture.lacks(Need.PATTERNS, Need.REMOVABLE):
            return Outcome("refused", reason)
    except posenc.ModelError as error:
        return Outcome("refused", str(error))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for condition in ("intact", "zero"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with posenc.under(model, posenc.Condition(position=condition)):
                run = posenc.run(model, TEXTS, patterns=True, max_tokens=POSITIONS - 4)
        for number, ids in enumerate(run.ids):
            states, patterns, nll = library(reference, ids, condition == "zero", model.is_decoder)
            apart = far(run.hidden_states[number], states)
            if not apart < STATES:
                return Outcome("wrong", f"{condition}: hidden states differ by {apart:.1e}")
            apart = far(run.patterns[number], patterns)
            if not apart < PATTERNS:
                return Outcome("wrong", f"{condition}: patterns differ by {apart:.1e}")
            if nll is not None:
                apart = float(np.abs(run.nll[number] - nll.numpy()).max())
                if not apart < LOSSES * max(1.0, float(nll.max())):
                    return Outcome("wrong", f"{condition}: losses differ by {apart:.1e}")
    for name, tensor in network.state_dict().items():
        if not torch.equal(tensor, before[name]):
            return Outcome("wrong", f"{name} is not restored")
    return Outcome("equal")


@pytest.mark.parametrize(("task", "kind"), TYPES)
def test_a_type_is_the_library_s_or_refused(task, kind):
    what, reason = outcome(task, kind)
    assert what != "wrong", reason
    if what == "refused":
        assert len(reason) > 20 and "\n" not in reason, reason


def test_most_types_are_equal():
    outcomes = [outcome(*case).what for case in TYPES]
    assert outcomes.count("equal") >= EQUAL_AT_LEAST
    assert "wrong" not in outcomes
