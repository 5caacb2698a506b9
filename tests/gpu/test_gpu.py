"""What a GPU computes is what the CPU computes: captures, evaluations, fits and trainings.

Run where there is a GPU: ``pytest tests/gpu``.
"""

import copy

import numpy as np
import pytest
import torch
import transformers

from posenc.architectures import attention
from posenc.capture import capture as capturing
from posenc.capture import masked_attention
from posenc.capture.calibration import Calibration
from posenc.capture.evaluation import evaluate
from posenc.capture.fast import faster
from posenc.capture.interventions import applied
from posenc.capture.learning import learn
from posenc.capture.section import Activations
from posenc.conditions.masks import ClosedFormMask
from posenc.conditions.section import Condition
from posenc.models import training
from posenc.models.affine import load_ready
from posenc.models.devices import device_for
from posenc.tokens.packing import packs_of
from tests.parity.library import reference
from tests.parity.test_masks import CLOSED, distilled, fitted
from tests.unit.test_training import SOURCE

FAMILIES = ("bert", "gpt2", "llama")
ADDITIVE = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.5}}
CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "slope": {"position": "zero", "mask": ADDITIVE},
    "late": {"position": "zero", "mask": {**ADDITIVE, "layers": [2]}},
    "heads": {"position": "zero", "mask": {**ADDITIVE, "heads": [1]}},
    "by_key": {"mask": {"semantics": "logit_mul", "profile": {"kind": "linear", "floor": 0.1}}},
    "pattern": {"mask": {"semantics": "prob_mul", "profile": {"kind": "linear", "floor": 0.1}}},
    "finfo": {"mask": {"semantics": "hf_finfo", "profile": {"kind": "linear", "floor": 0.1}}},
    "segments": {"position": "zero", "segments": 4},
}
ROTARY = {
    "clipped": {"position": {"kind": "clip", "distance": 4}},
    "unrotated": {"position": {"kind": "unrotated", "layers": [1]}},
}


@pytest.fixture(params=FAMILIES)
def family(request) -> str:
    return request.param


@pytest.fixture
def folder(family, tmp_path):
    """A small random model in the hub's format; the Llama has grouped heads."""
    if family == "llama":
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                initializer_range=0.2, bos_token_id=0, eos_token_id=0,
            )
        )  # fmt: skip
    else:
        model = reference(family)
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def documents() -> list[list[int]]:
    rng = np.random.default_rng(1)
    return [rng.integers(2, 97, n).tolist() for n in (5, 17, 9, 33, 2, 12, 12, 40)]


def conditions(family: str) -> dict[str, Condition]:
    chosen = CONDITIONS | (ROTARY if family == "llama" else {})
    return {name: Condition.model_validate(fields) for name, fields in chosen.items()}


def on(device: str, folder, family):
    return load_ready(folder, family, device, 1)


def test_auto_takes_the_gpu():
    assert device_for("auto") == "cuda"


def outcomes(device: str, folder, family, documents, change=lambda model: model):
    """Losses and cosines of all conditions, in one pass and packed."""
    model = change(on(device, folder, family))
    counted = [[True] * len(ids) for ids in documents]
    given = (model, documents, counted, conditions(family), {}, 400)
    return {(name, outcome.document): outcome for name, outcome in evaluate(*given)}


def test_outcomes(folder, family, documents):
    expected = outcomes("cpu", folder, family, documents)
    assert len(expected) == len(conditions(family)) * len(documents)
    for (name, index), gpu in outcomes("cuda", folder, family, documents).items():
        cpu, tokens = expected[name, index], len(documents[index])
        np.testing.assert_allclose(gpu.nll, cpu.nll, rtol=0, atol=2e-5, err_msg=name)
        np.testing.assert_allclose(
            gpu.cosine / tokens, cpu.cosine / tokens, rtol=0, atol=2e-5, err_msg=name
        )


def test_fast_is_as_near_as_on_the_cpu(folder, family, documents):
    """Root mean square errors of losses and mean cosines, all conditions together."""
    exact = outcomes("cpu", folder, family, documents)
    errors = {}
    for device in ("cpu", "cuda"):
        fast = outcomes(device, folder, family, documents, faster)
        nll = np.concatenate([fast[key].nll - outcome.nll for key, outcome in exact.items()])
        cosine = np.concatenate(
            [
                (fast[key].cosine - outcome.cosine) / len(documents[key[1]])
                for key, outcome in exact.items()
            ]
        )
        errors[device] = [float(np.sqrt((x**2).mean())) if x.size else 0.0 for x in (nll, cosine)]
    for gpu, cpu in zip(errors["cuda"], errors["cpu"], strict=True):
        assert gpu < 1.5 * cpu + 1e-4
        assert cpu > 0 or family == "bert"


def test_neighbours_do_not_matter(folder, family, documents):
    """A document's states are the same alone and in a pack, by flash attention as well."""
    for model in (on("cuda", folder, family), faster(on("cuda", folder, family))):
        together = capturing.packed_last(model, documents)[0]
        begin = 0
        for ids in documents:
            alone = capturing.packed_last(model, [ids])[0]
            part = together[begin : begin + len(ids)]
            # A product of other rows may sum in another order.
            size = 1e-5 if alone.dtype == torch.float32 else 3e-2
            torch.testing.assert_close(part, alone, rtol=size, atol=size)
            begin += len(ids)


def test_one_call_is_what_groups_of_equal_length_are(folder, family, documents, monkeypatch):
    model = on("cuda", folder, family)
    states = {}
    for together in (True, False):
        monkeypatch.setattr(masked_attention, "is_together", lambda device, it=together: it)
        with applied(model, conditions(family)["slope"]):
            states[together] = capturing.packed_last(model, documents)
    torch.testing.assert_close(states[True], states[False], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_captures(folder, family, documents, dtype):
    """All written files, and losses; packs of several sizes share the same pinned buffers."""
    parameters = Activations(
        quantities=["hidden_states", "queries", "keys"], dtype=dtype, precision="exact",
        device="auto", batch_tokens=48, shard_tokens=1000,
    )  # fmt: skip
    lengths = np.array(list(map(len, documents)))
    packs = list(packs_of(lengths, range(len(documents)), 48))
    assert len({pack.tokens for pack in packs}) > 1
    written, losses = {}, {}
    for device in ("cpu", "cuda"):
        model = on(device, folder, family)

        def write(pack, arrays, device=device):
            written[device, pack.documents[0]] = {n: a.copy() for n, a in arrays.items()}

        losses[device] = capturing.capture(model, documents, packs, parameters, write)
    for pack in packs:
        cpu, gpu = (written[device, pack.documents[0]] for device in ("cpu", "cuda"))
        for name in parameters.quantities:
            near = 2e-5 if dtype == "float32" else 4e-3
            np.testing.assert_allclose(gpu[name], cpu[name], rtol=near, atol=near)
    for document, nll in losses["cpu"].items():
        np.testing.assert_allclose(losses["cuda"][document], nll, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "source",
    [ClosedFormMask(**CLOSED), distilled(of="scores", first=True), fitted(steps=4)],
    ids=["closed", "distilled", "fitted"],
)
def test_masks(folder, family, documents, source):
    """Masks learned there are those learned here."""
    if family == "llama" and source.method == "fitted":
        source = fitted(steps=4, position="zero", learn_position=False)
    learned = {}
    for device in ("cpu", "cuda"):
        data = Calibration(on(device, folder, family), documents, documents, 60)
        learned[device] = learn(source, data)
    (cpu, said), (gpu, says) = learned["cpu"], learned["cuda"]
    for name in ("relative", "first", "constant"):
        if getattr(cpu, name) is not None:
            np.testing.assert_allclose(getattr(gpu, name), getattr(cpu, name), rtol=0, atol=2e-3)
    for name in ("intact", "start", "loss"):
        assert says[name] == pytest.approx(said[name], abs=2e-4)


def test_trainings(tmp_path):
    """The loss curve of a small decoder, from the same weights and batches."""
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 50, (40, 8)))
    attention.register()
    begin, curves = training.build(SOURCE, 50, 0), {}
    for device in ("cpu", "cuda"):
        model = copy.deepcopy(begin)
        curves[device] = training.train(
            model, rows[:32], rows[32:], SOURCE, tmp_path / device, "it", device
        )
    assert len(curves["cpu"]) > 1
    for cpu, gpu in zip(curves["cpu"], curves["cuda"], strict=True):
        assert gpu["validation_loss"] == pytest.approx(cpu["validation_loss"], abs=1e-3)
