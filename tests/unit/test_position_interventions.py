"""Position removed and injected at layers: the library's forward pass, identities, planted use."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel

from posenc.artifacts.files import ArtifactError
from posenc.capture.block_inputs import block_output, last_given
from posenc.capture.capture import packed_states
from posenc.capture.parts import blocks, is_decoder, position_embedding
from posenc.measurements.position_interventions import figure as figure
from posenc.measurements.position_interventions import measure as step
from posenc.measurements.position_interventions import quantities as numbers
from posenc.measurements.position_interventions.declaration import PositionInterventions
from posenc.metrics.position_parts import PARTS, Sizes, means_by_position, parts_of, sizes

from . import synthetic_positions as made_up
from .planted import distinct, expected
from .test_effective_keys import bert, gpt2
from .test_figures import SECTIONS, STYLE, check_texts, texts

PARAMETERS = PositionInterventions(
    documents=5, tokens=12, bootstrap_samples=100, confidence=0.9, seed=0
)
LENGTHS = (12, 9, 14, 10, 11, 12, 9, 8, 7, 13)


def text(lengths: tuple[int, ...] = LENGTHS, words: int = 40) -> SimpleNamespace:
    """Documents of random tokens."""
    generator = np.random.default_rng(0)
    ids = [generator.integers(1, words, size=length).tolist() for length in lengths]
    return SimpleNamespace(ids=ids, lengths=np.array(lengths), path="tokens.parquet")


def both(parameters: PositionInterventions = PARAMETERS, given: SimpleNamespace | None = None):
    """Documents for the means, and the measured ones."""
    return step.drawn(parameters, given or text())


# --- Means by position ----------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_means_are_those_of_a_loop(positions, documents, seed):
    generator = np.random.default_rng(seed)
    position = generator.permutation(np.tile(np.arange(positions), documents))
    values = generator.normal(size=(len(position), 3))
    expected_means = [values[position == index].mean(axis=0) for index in range(positions)]
    np.testing.assert_allclose(means_by_position(values, position), expected_means, atol=1e-12)


def test_a_position_without_a_token_is_refused():
    with pytest.raises(ValueError, match="no token is at position 1"):
        means_by_position(np.ones((2, 3)), [0, 2])


def test_controls_have_the_same_mean_and_the_permuted_one_the_same_vectors():
    effect = np.random.default_rng(0).normal(size=(6, 4))
    order = [3, 0, 5, 1, 2, 4]
    parts = parts_of(effect, order)
    for part in parts.values():
        np.testing.assert_allclose(part.mean(axis=0), effect.mean(axis=0), atol=1e-12)
    for place, other in enumerate(order):
        np.testing.assert_array_equal(parts["permuted"][place], effect[other])
    assert np.ptp(parts["offset"], axis=0).max() == 0


def test_sizes_by_hand():
    effect = np.array([[3.0, 1.0], [-3.0, 1.0]])
    turned = np.array([[0.0, 2.0], [0.0, -2.0]])
    states = np.array([[4.0, 7.0], [-4.0, 7.0]])
    result = sizes(effect, effect, states)
    assert result == Sizes(position=3.0, offset=1.0, states=4.0, alignment=1.0)
    assert sizes(effect, -2 * effect, states).alignment == pytest.approx(-1)
    assert sizes(effect, turned, states).alignment == pytest.approx(0)
    assert sizes(0 * effect, effect, states).alignment is None


# --- One block with another input -----------------------------------------------------------------


@pytest.mark.parametrize("make", [gpt2, bert])
def test_a_block_returns_what_the_next_one_is_given(make):
    model, documents = make(), both()[1]
    states = [states_of_layer[0] for states_of_layer in packed_states(model, documents)]
    output = block_output(model, documents, 0, states[0])
    torch.testing.assert_close(output, states[1], atol=2e-5, rtol=1e-5)
    # The model is left as it was.
    torch.testing.assert_close(packed_states(model, documents)[-1][0], states[-1])
    assert len(blocks(model)) == 2


@pytest.mark.parametrize("make", [gpt2, bert])
def test_taking_a_vector_and_adding_it_again_changes_nothing(make):
    model, documents = make(), both()[1]
    states = [states_of_layer[0] for states_of_layer in packed_states(model, documents)]
    vector = torch.randn(states[0].shape, generator=torch.Generator().manual_seed(0))
    last = last_given(model, documents, 1, (states[1] - vector) + vector)
    torch.testing.assert_close(last, states[-1], atol=1e-4, rtol=1e-4)
    lacking = states[1] - block_output(model, documents, 0, states[0] - vector)
    last = last_given(model, documents, 0, states[0] - vector, lacking)
    torch.testing.assert_close(last, states[-1], atol=1e-4, rtol=1e-4)


# --- The measurement ------------------------------------------------------------------------------


def library(model, documents, layer=None, given=None, added=None, table=None):
    """Inputs of all blocks, and last states, of the library's own model: document by document.

    ``given`` is added to what a layer is given, ``added`` to what it returns, by position.
    """
    weight = position_embedding(model).weight
    original = weight.data
    weight.data = original if table is None else table
    hooks = []
    if layer is not None:
        block = blocks(model)[layer]
        hooks.append(block.register_forward_pre_hook(
            lambda _, args: (args[0] + given[: args[0].shape[1]], *args[1:])))  # fmt: skip
        if added is not None:
            hooks.append(
                block.register_forward_hook(lambda _, args, out: out + added[: out.shape[1]])
            )
    per_document, outputs = [], []
    if layer is not None:
        hooks.append(
            blocks(model)[layer].register_forward_hook(lambda _, args, out: outputs.append(out[0]))
        )
    try:
        with torch.inference_mode():
            for ids in documents:
                hidden_states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
                per_document.append([state[0] for state in hidden_states])
    finally:
        weight.data = original
        for hook in hooks:
            hook.remove()
    return per_document, outputs


def mean_over(rows: list[torch.Tensor]) -> torch.Tensor:
    """Means over documents, at each position."""
    return torch.stack(
        [
            torch.stack([row[place] for row in rows if len(row) > place]).mean(dim=0)
            for place in range(max(map(len, rows)))
        ]
    )


def judged(model, documents, lasts, intact) -> tuple[float | None, float]:
    """Mean loss per predicted token by torch's cross-entropy, and mean distance per token."""
    pairs = list(zip(lasts, intact, strict=True))
    distances = torch.cat([1 - functional.cosine_similarity(a, b, dim=-1) for a, b in pairs])
    if not is_decoder(model):
        return None, float(distances.mean())
    with torch.inference_mode():
        logits = torch.cat([model.lm_head(last[:-1]) for last in lasts])
        targets = torch.cat([torch.tensor(ids[1:]) for ids in documents])
        total = functional.cross_entropy(logits, targets, reduction="sum")
    return float(total) / len(targets), float(distances.mean())


@pytest.mark.parametrize("make", [gpt2, bert])
def test_interventions_are_those_of_the_library_by_hand(make):
    model = make()
    result = step.measure(PARAMETERS, model, text()).as_json()
    calibration, documents = both()
    positions = max(map(len, calibration))
    assert (result["positions"], result["tokens"]) == (positions, sum(map(len, documents)))
    zeros = torch.zeros_like(position_embedding(model).weight)
    order = np.random.default_rng(0).permutation(positions)
    intact = library(model, documents)[0]
    without = library(model, documents, table=zeros)[0]
    learned = [library(model, calibration)[0], library(model, calibration, table=zeros)[0]]
    base = judged(
        model, documents, [states[-1] for states in intact], [states[-1] for states in intact]
    )
    lost = judged(
        model, documents, [states[-1] for states in without], [states[-1] for states in intact]
    )
    close = {"abs": 3e-5, "rel": 1e-3}
    assert result["without"]["distance"]["value"] == pytest.approx(lost[1], **close)
    for layer in range(3):
        entry = result["output"] if layer == 2 else result["layers"][layer]
        effect = mean_over([a[layer] - b[layer] for a, b in zip(*learned, strict=True)])
        parts = {"own": effect, "permuted": effect[order],
                 "offset": effect.mean(dim=0).expand_as(effect)}  # fmt: skip
        for name, part in parts.items():
            if layer == 2:
                lasts = {
                    "removed": [states[2] - part[: len(states[2])] for states in intact],
                    "injected": [states[2] + part[: len(states[2])] for states in without],
                }
            else:
                ends = [
                    library(model, calibration, layer, change)[1] for change in (0 * part, -part)
                ]
                back = mean_over([a - b for a, b in zip(*ends, strict=True)])
                runs = {
                    "removed": library(model, documents, layer, -part)[0],
                    "injected": library(model, documents, layer, part, table=zeros)[0],
                    "withheld": library(model, documents, layer, -part, back)[0],
                }
                lasts = {way: [states[-1] for states in run] for way, run in runs.items()}
            assert set(lasts) == set(step.WAYS) & set(entry)
            for way, last in lasts.items():
                loss, distance = judged(model, documents, last, [states[-1] for states in intact])
                cell = entry[way][name]
                assert cell["distance"]["value"] == pytest.approx(distance, **close)
                if loss is not None:
                    assert cell["delta_nll"]["value"] == pytest.approx(loss - base[0], **close)
                if cell["share"] is not None:
                    share = (distance / lost[1] if loss is None
                             else (loss - base[0]) / (lost[0] - base[0]))  # fmt: skip
                    assert cell["share"]["value"] == pytest.approx(share, abs=1e-3, rel=1e-3)
                if name != "own":
                    own = entry[way]["own"]["distance"]["value"]
                    beyond = entry[way][f"beyond_{name}"]["distance"]["value"]
                    assert beyond == pytest.approx(own - distance, **close)


def test_at_a_decoders_first_block_the_mean_effect_is_its_table():
    """Removed: no table. Injected: intact. Permuted: the table's rows in another order."""
    model = gpt2()
    result = step.measure(PARAMETERS, model, text()).as_json()
    first = result["layers"][0]
    assert first["removed"]["own"]["delta_nll"]["value"] == pytest.approx(
        result["without"]["delta_nll"]["value"], abs=1e-5
    )
    assert first["injected"]["own"]["delta_nll"]["value"] == pytest.approx(0, abs=1e-5)
    assert first["injected"]["own"]["distance"]["value"] == pytest.approx(0, abs=1e-6)
    # The block alone without a table, and then the mean effect: the table entered a layer late.
    late = result["layers"][1]["injected"]["own"]["distance"]["value"]
    assert first["withheld"]["own"]["distance"]["value"] == pytest.approx(late, abs=1e-6)
    documents, positions = both()[1], result["positions"]
    table = position_embedding(model).weight.data
    shuffled = table.clone()
    shuffled[:positions] = table[np.random.default_rng(0).permutation(positions)]
    mean = table.clone()
    mean[:] = table[:positions].mean(dim=0)
    intact = [states[-1] for states in library(model, documents)[0]]
    for name, other in (("permuted", shuffled), ("offset", mean)):
        lasts = [states[-1] for states in library(model, documents, table=other)[0]]
        distance = judged(model, documents, lasts, intact)[1]
        estimate = first["injected"][name]["distance"]["value"]
        assert estimate == pytest.approx(distance, abs=1e-5)


def test_an_encoders_first_effect_goes_through_its_normalisation():
    model, calibration = bert(), both()[0]
    learned = list(step.packs(model, calibration))
    embeddings = model.embeddings
    rows = []
    for ids in calibration:
        words = embeddings.word_embeddings.weight[ids] + embeddings.token_type_embeddings.weight[0]
        table = embeddings.position_embeddings.weight[: len(ids)]
        rows.append((embeddings.LayerNorm(words + table) - embeddings.LayerNorm(words)).detach())
    mean = step.learn(model, learned, 0)[0][0]["own"].taken
    torch.testing.assert_close(mean, mean_over(rows), atol=1e-5, rtol=1e-5)


def still() -> GPT2LMHeadModel:
    """A model whose blocks add nothing to their input."""
    model = gpt2()
    with torch.no_grad():
        for block in model.transformer.h:
            for part in (block.attn.c_proj, block.mlp.c_proj):
                part.weight.zero_()
                part.bias.zero_()
    return model


def test_blocks_that_do_nothing_carry_position_and_need_none():
    result = step.measure(PARAMETERS, still(), text()).as_json()
    lost = result["without"]["distance"]["value"]
    assert lost > 1e-3
    for row in result["layers"]:
        assert row["alignment"] == pytest.approx(1, abs=1e-6)
        assert row["removed"]["own"]["distance"]["value"] == pytest.approx(lost, abs=1e-5)
        assert row["injected"]["own"]["distance"]["value"] == pytest.approx(0, abs=1e-5)
        for part in PARTS:
            assert row["withheld"][part]["distance"]["value"] == pytest.approx(0, abs=1e-5)


D_MODEL, PERIOD, USED = 20, 4, 1


def copier() -> GPT2LMHeadModel:
    """Three blocks; the middle one copies the token of a period ago.

    It finds it by a wave of position alone; the others do nothing. Features 0 to 15 are the token;
    16 and 17 are the wave; the last two balance it.
    """
    config = GPT2Config(vocab_size=16, n_positions=48, n_embd=D_MODEL, n_layer=3, n_head=1,
                        tie_word_embeddings=False)  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        inner = model.transformer
        inner.ln_f.weight.fill_(1)
        for block in inner.h:
            block.ln_1.weight.fill_(1)
            block.ln_2.weight.fill_(1)
        inner.wte.weight[:, :16] = torch.eye(16)
        angle = 2 * np.pi * torch.arange(48) / PERIOD
        wave = torch.stack([angle.cos(), angle.sin()], dim=1)  # [positions, 2]
        inner.wpe.weight[:, 16:18], inner.wpe.weight[:, 18:] = wave, -wave
        turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])  # keys a period back are one ahead
        attention = inner.h[USED].attn
        attention.c_attn.weight[16:18, :2] = 6 * turn
        attention.c_attn.weight[16:18, D_MODEL : D_MODEL + 2] = 6 * torch.eye(2)
        attention.c_attn.weight[:16, 2 * D_MODEL : 2 * D_MODEL + 16] = torch.eye(16)
        attention.c_proj.weight[:16, :16] = 8 * torch.eye(16)
        model.lm_head.weight[:, :16] = 2 * torch.eye(16)
    return model


def test_position_that_one_layer_uses_is_needed_there_alone():
    generator = np.random.default_rng(1)
    ids = [np.tile(generator.permutation(16)[:PERIOD], 12).tolist() for _ in range(12)]
    given_text = SimpleNamespace(ids=ids, lengths=np.full(12, 48), path="tokens.parquet")
    parameters = PARAMETERS.model_copy(update={"documents": 6, "tokens": 48})
    result = step.measure(parameters, copier(), given_text).as_json()
    assert result["nll"]["value"] < 1 and result["without"]["delta_nll"]["value"] > 0.8
    share = {
        (row.get("layer", 3), way): row[way]["own"]["share"]["value"]
        for row in (*result["layers"], result["output"])
        for way in step.WAYS
        if way in row
    }
    for layer in range(4):
        assert share[layer, "removed"] == pytest.approx(float(layer <= USED), abs=0.12)
        assert share[layer, "injected"] == pytest.approx(float(layer > USED), abs=0.2)
    for layer in range(3):
        assert share[layer, "withheld"] == pytest.approx(float(layer == USED), abs=0.12)
    # Another position's wave helps no more.
    assert result["layers"][0]["injected"]["permuted"]["share"]["value"] > 0.8
    assert result["layers"][0]["injected"]["beyond_permuted"]["share"]["high"] < -0.8


def test_means_are_of_other_documents_cut_to_what_four_of_them_reach():
    calibration, documents = both(given=text((6, 12, 4, 9, 3, 12, 12, 12, 12, 12)))
    reached = sorted(map(len, calibration))[-step.SHARED]
    assert max(map(len, documents)) <= reached
    assert (
        sum(len(document) == max(map(len, calibration)) for document in calibration) >= step.SHARED
    )
    assert not {tuple(document) for document in calibration} & {
        tuple(document) for document in documents
    }


def test_nothing_is_lost_of_a_table_that_is_zero():
    model = gpt2()
    with torch.no_grad():
        model.transformer.wpe.weight.zero_()
    result = step.measure(PARAMETERS, model, text()).as_json()
    assert result["without"]["share"] is None
    for row in result["layers"]:
        assert row["removed"]["own"]["share"] is None and row["alignment"] is None
        assert row["removed"]["own"]["delta_nll"]["value"] == pytest.approx(0, abs=1e-6)


def test_a_model_without_a_table_is_not_run():
    result = step.measure(PARAMETERS, None, text()).as_json()
    assert result["status"] == "not run" and "no table" in result["reason"]


def test_too_few_documents_name_the_field():
    wanted = r"measurements\.position_interventions\.documents 5 takes 10: lower"
    with pytest.raises(ArtifactError, match=wanted):
        step.measure(PARAMETERS, gpt2(), text(LENGTHS[:-1]))


# --- Numbers and the figure -----------------------------------------------------------------------


def test_numbers_are_those_of_their_layer():
    measurement = made_up.position_interventions("decoder", "reviews", True)
    measurement = distinct(measurement, kept={"layer", "n_layers"})
    facts = numbers.QUANTITIES.read(measurement)
    assert set(facts) == set(numbers.QUANTITIES.names)
    rows = {"first": measurement["layers"][0], "second": measurement["layers"][1],
            "middle": measurement["layers"][2], "last": measurement["layers"][3],
            "output": measurement["output"]}  # fmt: skip
    for depth, row in rows.items():
        assert facts[f"{depth}.size"].value == row["position"] / row["states"]
        assert facts[f"{depth}.alignment"] == expected(row["alignment"])
        for way in set(step.WAYS) & set(row):
            key = f"{way}.{depth}"
            for part in ("delta_nll", "distance", "share"):
                assert facts[f"{key}.{part}"] == expected(row[way]["own"][part])
            for of in ("permuted", "offset", "beyond_permuted", "beyond_offset"):
                assert facts[f"{key}.{of}.share"] == expected(row[way][of]["share"])
    # Numbers grow along the file: the last layer's are largest.
    assert facts["withheld.most.layer"].value == 3
    assert facts["withheld.most.share"] == expected(rows["last"]["withheld"]["own"]["share"])
    assert facts["without.delta_nll"] == expected(measurement["without"]["delta_nll"])


def test_numbers_of_an_encoder_are_distances():
    facts = numbers.QUANTITIES.read(made_up.position_interventions("m", "reviews", False))
    assert facts["removed.first.delta_nll"].reason == "an encoder has no loss"
    assert facts["removed.first.share"].value == pytest.approx(1)
    assert facts["withheld.most.layer"].value == 5


@pytest.mark.parametrize("is_decoder", [True, False])
def test_the_figure_shows_what_was_measured(is_decoder):
    measurement = made_up.position_interventions("minilm", "sample_reviews", is_decoder)
    other = made_up.position_interventions("decoder", "sample_reviews", True)
    drawn = figure.draw([measurement, other], SECTIONS.position_interventions, STYLE)
    for panel, way in zip(drawn.axes[::2], step.WAYS, strict=True):
        rows = [row for row in (*measurement["layers"], measurement["output"]) if way in row]
        lines = {line.get_label(): line for line in panel.lines}
        for part, label in figure.PARTS.items():
            values = [row[way][part]["share"]["value"] for row in rows]
            assert list(lines[label].get_ydata()) == values
            assert list(lines[label].get_xdata()) == list(range(len(rows)))
    assert [label.get_text() for label in drawn.axes[-1].get_xticklabels()][-1] == "end"
    check_texts(drawn)


def test_the_figure_without_measurements_says_why():
    missing = {**made_up.position_interventions("m", "reviews", True), "status": "not run",
               "reason": "no table adds to states"}  # fmt: skip
    for given_ones, reason in (([], "no layer was intervened on"), ([missing], "no table adds")):
        drawn = figure.draw(given_ones, SECTIONS.position_interventions, STYLE)
        assert reason in "\n".join(label.get_text() for label in texts(drawn))
