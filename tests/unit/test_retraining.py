"""Training on without rotation: start, steps, resumption, and what a start is worth."""

from __future__ import annotations

import copy
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch.nn import functional

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    read_sealed,
    sha256_file,
    write_checksums,
    write_json,
    write_sealed,
)
from posenc.artifacts.numbers import NotRun, facts_of
from posenc.artifacts.tables import write_table
from posenc.capture.calibration import Calibration
from posenc.capture.evaluation import losses_under
from posenc.capture.interventions import applied
from posenc.capture.learning import learn
from posenc.capture.parts import ConditionError
from posenc.capture.retraining import Schedule, document_sums, retrain, trained_under
from posenc.conditions.learned import LearnedMask
from posenc.conditions.learned import write as write_mask
from posenc.conditions.masks import ClosedFormMask
from posenc.conditions.section import Condition
from posenc.datasets.documents import read_documents, write_documents
from posenc.measurements.retraining import figure as figure
from posenc.measurements.retraining import measure as step
from posenc.measurements.retraining import quantities as numbers
from posenc.metrics.retraining import reached, tokens_to_reach
from posenc.models.affine import ready
from posenc.models.files import model_digests
from posenc.models.load import load
from posenc.models.training import batch_rows, learning_rate
from posenc.study import configs
from posenc.study.params import load as load_params
from posenc.tokens.tokenize import tokenize
from posenc.tokens.tokenized import Tokens

from . import synthetic_experiments as made_up
from .raw_files import content
from .split_texts import split_texts
from .synthetic import PROJECT
from .test_figures import SECTIONS, STYLE, check_texts, texts
from .test_score_parts_measurement import llama

PARAMETERS = {
    "split": "train", "documents": 30, "tokens": 8, "conditions": ["intact", "zero", "zero_closed"],
    "evaluated_tokens": 42,
    "steps": 4, "batch_sequences": 4, "learning_rate": 3e-3, "warmup_steps": 2,
    "weight_decay": 0.1, "precision": "float32", "evaluate_steps": [0, 1, 4], "batch_tokens": 64,
    "checkpoint_steps": 3, "seeds": [0, 1], "bootstrap_samples": 100, "confidence": 0.9, "seed": 5,
}  # fmt: skip
CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "zero_closed": {
        "position": "zero",
        "mask": {"semantics": "additive", "profile": {"kind": "learned", "mask": "closed"}},
    },
}
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(scope="module")
def documents() -> list[list[int]]:
    rng = np.random.default_rng(4)
    return [[2, *rng.integers(3, 40, length).tolist()] for length in (3, 9, 9, 7, 11, 2)]


@pytest.fixture(scope="module")
def closed(documents) -> dict[str, LearnedMask]:
    """A closed-form mask of a model in which it matters."""
    source = ClosedFormMask(
        method="closed_form", position="zero", documents=None, seed=0, first=True, temperature=False
    )
    mask, _ = learn(source, Calibration(llama(), documents[:4], documents[4:], 64))
    assert np.abs(mask.relative).max() > 0.1
    return {"closed": mask}


@pytest.fixture(scope="module")
def sequences() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(6).integers(3, 40, (10, 8)))


def condition(name: str) -> Condition:
    return Condition.model_validate(CONDITIONS[name])


def schedule(seed: int = 0, evaluate=(0, 1, 4), **changes) -> Schedule:
    parameters = step.Retraining.model_validate({**PARAMETERS, **changes})
    return Schedule(parameters.optimization, evaluate, parameters.batch_tokens, seed)


def run(
    folder: Path, sequences, documents, name: str, masks, killed_at: int = 0, told=None, **changes
):
    """Train a fresh model under a condition; optionally die after a step."""
    model = llama()

    def report(done, loss):
        if told is not None:
            told.append(loss)
        if done == killed_at:
            raise KeyboardInterrupt

    checkpoint = Checkpoint(folder / "one.pt", "one", lambda line: None)
    with trained_under(model, condition(name), masks, 12):
        losses = retrain(model, sequences, documents, schedule(**changes), checkpoint, report)
    return model, losses


@pytest.mark.parametrize("make", [lambda model: model, ready], ids=["library", "ready"])
def test_without_training_losses_are_those_of_the_evaluation(
    tmp_path, documents, closed, sequences, make
):
    """0 tokens give F4's figures: the evaluation's own path, with packed documents."""
    conditions = {name: condition(name) for name in CONDITIONS}
    expected = {name: np.empty(len(documents)) for name in conditions}
    for name, row, nll in losses_under(make(llama()), documents, conditions, closed, 64):
        expected[name][row] = nll.sum(dtype=np.float64)
    for name in CONDITIONS:
        _, losses = run(tmp_path / name, sequences, documents, name, closed)
        np.testing.assert_allclose(losses[0], expected[name], rtol=2e-6)
    # They differ by far more than that.
    assert np.abs(expected["zero"] - expected["intact"]).min() > 0.01
    assert np.abs(expected["zero_closed"] - expected["zero"]).min() > 0.01


def library_loss(model, rows: torch.Tensor, name: str, closed) -> torch.Tensor:
    """By the library's own forward pass, which computes attention in plain steps."""
    # With its own mask: the library takes equal positions for documents of one token.
    given = {"attention_mask": torch.ones_like(rows)}
    if name != "intact":
        given["position_ids"] = torch.zeros_like(rows)
    if name == "zero_closed":
        own = [closed["closed"].bias(layer, rows.shape[1]) for layer in range(2)]
        return with_bias(model, rows, torch.from_numpy(np.stack(own)), given)
    logits = model(rows, use_cache=False, **given).logits[:, :-1]
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def with_bias(model, rows, bias, given) -> torch.Tensor:
    """Of a library model whose eager attention has a bias [n_layers, n_heads, n, n]."""
    model.set_attn_implementation("eager")
    hooks = []
    future = torch.full((rows.shape[1],) * 2, -torch.inf).triu(1)
    for layer, block in enumerate(model.model.layers):
        own = (bias[layer] + future)[None]

        def replaced(module, arguments, options, own=own):
            return arguments, {**options, "attention_mask": own}

        hooks.append(block.self_attn.register_forward_pre_hook(replaced, with_kwargs=True))
    try:
        logits = model(rows, use_cache=False, **given).logits[:, :-1]
    finally:
        for hook in hooks:
            hook.remove()
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


@pytest.mark.parametrize("name", CONDITIONS)
def test_steps_are_those_of_a_plain_loop_over_the_library_s_model(
    tmp_path, documents, closed, sequences, name
):
    # In the optimiser's first steps, a gradient of mere rounding moves a weight like any other.
    trained, _ = run(tmp_path, sequences, documents, name, closed, weight_decay=0.01)
    model = llama()
    begin = copy.deepcopy(model.state_dict())
    given = schedule(weight_decay=0.01).optimization
    parts = [[p for p in model.parameters() if (p.dim() < 2) == vectors] for vectors in (0, 1)]
    optimizer = torch.optim.AdamW(
        [{"params": parts[0], "weight_decay": 0.01}, {"params": parts[1], "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    for number in range(4):
        rows = sequences[torch.from_numpy(batch_rows(number, 4, 10, 0))]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, given)
        optimizer.zero_grad()
        library_loss(model, rows, name, closed).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    for (key, ours), theirs in zip(
        trained.state_dict().items(), model.state_dict().values(), strict=True
    ):
        moved = (theirs - begin[key]).abs().max()
        assert (ours - theirs).abs().max() < 0.02 * moved, key
        assert moved > 1e-3, key


def test_a_batch_in_parts_is_the_batch(tmp_path, documents, closed, sequences):
    given = (sequences, documents, "zero_closed", closed)
    told: list[list[float]] = [[], []]
    _, whole = run(tmp_path / "1", *given, told=told[0])
    _, parts = run(tmp_path / "2", *given, told=told[1], batch_tokens=8)
    np.testing.assert_allclose(whole, parts, rtol=1e-4)
    np.testing.assert_allclose(*told, rtol=1e-4)
    first = sequences[torch.from_numpy(batch_rows(0, 4, 10, 0))]
    assert told[0][0] == pytest.approx(float(library_loss(llama(), first, "zero_closed", closed)))


def test_a_killed_training_ends_with_the_same_bits(tmp_path, documents, closed, sequences):
    given = (sequences, documents, "zero_closed", closed)
    model, expected = run(tmp_path / "whole", *given)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "killed", *given, killed_at=4)
    again, losses = run(tmp_path / "killed", *given)
    assert np.array_equal(losses, expected)
    for parameter, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(parameter, other)


def test_a_training_that_is_done_is_not_done_again(tmp_path, documents, closed, sequences):
    given = (sequences, documents, "zero", closed)
    _, expected = run(tmp_path, *given)
    model, losses = run(tmp_path, *given, killed_at=1)
    assert np.array_equal(losses, expected)
    for parameter, other in zip(model.parameters(), llama().parameters(), strict=True):
        assert torch.equal(parameter, other)


def test_seeds_differ_in_the_order_alone(tmp_path, documents, closed, sequences):
    given = (sequences, documents, "zero", closed)
    _, first = run(tmp_path / "1", *given)
    _, second = run(tmp_path / "2", *given, seed=1)
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


@pytest.mark.parametrize("name", CONDITIONS)
def test_bfloat16_is_near_float32(tmp_path, documents, closed, sequences, name):
    given = (sequences, documents, name, closed)
    _, exact = run(tmp_path / "1", *given)
    model, losses = run(tmp_path / "2", *given, precision="bfloat16")
    assert np.array_equal(losses[0], exact[0]), "evaluations are in float32"
    assert next(model.parameters()).dtype == torch.float32
    np.testing.assert_allclose(losses[1:], exact[1:], rtol=0.02)
    assert not np.array_equal(losses[1:], exact[1:])


@pytest.mark.parametrize(
    "made",
    [
        {"position": "zero", "segments": 4},
        {
            "position": "zero",
            "mask": {"semantics": "prob_mul", "profile": {"kind": "linear", "floor": 0.1}},
        },
    ],
)
def test_what_does_not_stay_in_place_is_refused(made):
    refused = pytest.raises(ConditionError, match="trained on whole documents")
    with refused, trained_under(llama(), Condition.model_validate(made), {}, 8):
        pass


def test_a_model_is_left_as_it_was(documents, closed):
    model = llama()
    before = document_sums(model, documents, 64)
    with trained_under(model, condition("zero_closed"), closed, 12):
        assert not np.allclose(document_sums(model, documents, 64), before)
    assert np.array_equal(document_sums(model, documents, 64), before)
    with applied(model, Condition()):
        assert np.array_equal(document_sums(model, documents, 64), before)


# --- Tokens that a start is worth -----------------------------------------------------------------


def test_tokens_by_hand():
    tokens = [0, 100, 10_000]
    assert tokens_to_reach(tokens, [5.0, 4.0, 2.0], 6.0) == 0
    assert tokens_to_reach(tokens, [5.0, 4.0, 2.0], 4.5) == pytest.approx(50)
    assert tokens_to_reach(tokens, [5.0, 4.0, 2.0], 4.0) == pytest.approx(100)
    assert tokens_to_reach(tokens, [5.0, 4.0, 2.0], 2.5) == pytest.approx(10**3.5)
    assert tokens_to_reach(tokens, [5.0, 4.0, 2.0], 2.0) == pytest.approx(10_000)
    assert math.isinf(tokens_to_reach(tokens, [5.0, 4.0, 2.0], 1.9))
    # Where it rises again, the first time counts.
    assert tokens_to_reach(tokens, [5.0, 3.0, 4.0], 4.0) == pytest.approx(50)


@given(
    # A line between losses that differ only by rounding has steps.
    st.lists(st.floats(1, 6).map(lambda loss: round(loss, 6)), min_size=3, max_size=5),
    st.floats(0.5, 6.5),
)
def test_tokens_are_those_of_a_search(losses, target):
    tokens = np.array([0, 10, 200, 3000, 50_000])[: len(losses)]
    needed = float(tokens_to_reach(tokens, losses, target))
    fine = [np.linspace(tokens[0], tokens[1], 400)]
    fine += [np.geomspace(a, b, 400) for a, b in itertools.pairwise(tokens[1:])]
    curve = [np.linspace(a, b, 400) for a, b in itertools.pairwise(losses)]
    at, height = np.concatenate(fine), np.concatenate(curve)
    low = np.flatnonzero(height <= target)
    if not len(low):
        assert needed > at[-2]
    else:
        place = low[0]
        assert at[max(place - 1, 0)] - 1e-6 <= needed <= at[place] + 1e-6


def test_many_curves_are_each_for_itself():
    generator = np.random.default_rng(0)
    losses, target = generator.uniform(1, 5, (3, 4, 5)), generator.uniform(1, 5, (3, 4))
    tokens = [0, 1, 10, 100, 1000]
    needed = tokens_to_reach(tokens, losses, target)
    for place in np.ndindex(3, 4):
        assert needed[place] == tokens_to_reach(tokens, losses[place], target[place])


def test_what_is_not_reached_is_none():
    replicates = np.array([1.0] * 5 + [2.0] * 90 + [np.inf] * 5)
    assert reached(2.0, replicates, 0.9) == (2.0, 1.0, 2.0)
    assert reached(2.0, replicates, 0.95) == (2.0, 1.0, None)
    assert reached(np.inf, replicates + np.inf, 0.9) == (None, None, None)


# --- The measurement ------------------------------------------------------------------------------


def job(**changed) -> step.Job:
    reading = {"family": changed.pop("family", "llama"), "max_tokens": 12}
    given = {
        "parameters": PARAMETERS, "datasets": ["text"], "reading": reading,
        "conditions": CONDITIONS, "documents": None, "calibration": "text", "device": "cpu",
    }  # fmt: skip
    return step.Job.model_validate({**given, **changed})


@pytest.fixture
def files(tmp_path, closed) -> dict[str, Path]:
    """A model, a tokenizer, documents of two splits and their tokens, and the mask."""
    paths = split_texts(tmp_path)
    # As SmolLM2's, its output matrix is that of its embeddings.
    tied, model = llama(), tmp_path / "model"
    tied.config.tie_word_embeddings = True
    tied.tie_weights()
    tied.save_pretrained(model)
    write_checksums(model / CHECKSUMS, "config.json", "model.safetensors")
    masks = tmp_path / "masks"
    masks.mkdir()
    write_mask(masks / "closed.safetensors", closed["closed"], {"mask": "closed"})
    digests = {"closed": sha256_file(masks / "closed.json")}
    write_sealed(masks / "masks.json", {"model": "small", "masks": digests})
    return {"weights": model, "masks": masks, **paths}


def made(tmp_path: Path, files: dict[str, Path], wanted: step.Job, name: str = "once") -> dict:
    config = tmp_path / "config.json"
    write_json(config, wanted.model_dump())
    threads = torch.get_num_threads()
    output = tmp_path / name / "measurements/retraining/small"
    step.main("small", config, **files, output=output)
    torch.set_num_threads(threads)
    assert not list((tmp_path / name / "captures").glob("*")), "nothing partial is left"
    return read_sealed(output / f"{wanted.datasets[0]}.json")


def add_questions(files: dict[str, Path], *more: str) -> list[list[int]]:
    """Add a data set ``questions`` of one split, ``validation``; return its documents' ids."""
    given = ["w1 w2 w3", "w4 w5", "w6 w7 w8 w9 w1", "w30 w31 w32 w33", "w2 w36 w5", *more]
    rows = [
        {"document_id": f"validation/{number}", "split": "validation", "text": text}
        for number, text in enumerate(given)
    ]
    source = files["documents"] / "questions.parquet"
    write_documents(rows, source, content("imdb"), {})
    names = [row["document_id"] for row in rows]
    table = tokenize(Tokenizer.from_file(str(files["tokenizer"])), names, given, 12, True)
    write_table(
        table, files["tokens"] / "questions.parquet",
        {"bos": True, "evaluation": {"split": "validation"},
         "inputs": {"documents": sha256_file(source)}},
    )  # fmt: skip
    return table["input_ids"].to_pylist()


def text_of(files: dict[str, Path], *datasets: str, **changed) -> step.Text | None:
    """What is learned from when these are evaluated."""
    wanted = job(parameters={**PARAMETERS, "documents": 99, "tokens": 4, **changed})
    paths = {name: files["tokens"] / f"{name}.parquet" for name in datasets}
    evaluated = [
        step.Cell(path, {"dataset": name}, Tokens(path), []) for name, path in paths.items()
    ]
    return step.text_of(wanted, evaluated, files["documents"], files["tokenizer"])


def test_the_file_holds_the_curves_of_all_trainings(tmp_path, files, closed):
    once, again = (made(tmp_path, files, job(), name) for name in ("once", "again"))
    assert once == again
    assert once["run"] == {"model": "small", "dataset": "text"}
    inputs = once["provenance"]["inputs"]
    assert inputs["documents"] == sha256_file(files["documents"] / "text.parquet")
    assert inputs["weights"] == model_digests(files["weights"])["weights"]
    assert once["documents"] == 5 and once["scored"] == [9, 4, 10, 6, 8]
    assert once["learned_from"]["dataset"] == "text"
    assert once["learned_from"]["documents"] == 30
    assert once["learned_from"]["tokens_per_step"] == 32
    ids = Tokens(files["tokens"] / "text.parquet").ids[:5]
    model = load(files["weights"], "llama")
    for entry in once["conditions"]:
        name, curve = entry["condition"], entry["curve"]
        assert [row["tokens"] for row in curve] == [0, 32, 128]
        sums = np.array(once["sums"][name])  # [seeds, evaluations, documents]
        assert sums.shape == (2, 3, 5)
        for place, row in enumerate(curve):
            assert row["seeds"] == pytest.approx(sums[:, place].sum(axis=1) / 37)
            assert row["nll"]["value"] == pytest.approx(np.mean(row["seeds"]))
            assert row["nll"]["low"] <= row["nll"]["value"] <= row["nll"]["high"]
        # 0 tokens: the evaluation's own figures.
        by_row = dict(
            (row, nll.sum(dtype=np.float64))
            for _, row, nll in losses_under(model, ids, {name: condition(name)}, closed, 64)
        )
        np.testing.assert_allclose(sums[0, 0], [by_row[row] for row in range(5)], rtol=2e-6)
    intact, zero, own = once["conditions"]
    assert intact["worth"] is None and zero["worth"] is None
    assert all(row["above_intact"] is None for row in intact["curve"])
    for place, row in enumerate(zero["curve"]):
        difference = row["nll"]["value"] - intact["curve"][place]["nll"]["value"]
        assert row["above_intact"]["value"] == pytest.approx(difference)
    curves = {
        entry["condition"]: np.array([row["nll"]["value"] for row in entry["curve"]])
        for entry in once["conditions"]
    }
    a, b, c = curves["zero_closed"], curves["zero"], curves["intact"]
    for sense, losses, target in (
        ("start", b, a[0]),
        ("start_above_intact", b - c, a[0] - c[0]),
        ("meets", b - a, 0.0),
    ):
        expected = float(tokens_to_reach([0, 32, 128], losses, target))
        assert own["worth"][sense]["value"] == (pytest.approx(expected) if expected < 1e9 else None)


def test_a_measurement_that_is_killed_goes_on_with_the_training_that_it_was_at(
    tmp_path, files, monkeypatch
):
    expected = made(tmp_path, files, job())
    from posenc.models import training

    original, begun = training.batch_rows, []

    def dying(number, *rest):
        begun.append(number)
        if len(begun) == 11:  # of the third training, whose third step was kept
            raise KeyboardInterrupt
        return original(number, *rest)

    monkeypatch.setattr("posenc.capture.retraining.batch_rows", dying)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, files, job(parameters={**PARAMETERS, "checkpoint_steps": 2}), "killed")
    begun.clear()
    begun.extend([None] * 100)
    measurement = made(
        tmp_path, files, job(parameters={**PARAMETERS, "checkpoint_steps": 2}), "killed"
    )
    assert begun[100] == 2 and len(begun) == 100 + 2 + 3 * 4
    assert measurement["sums"] == expected["sums"]


def test_text_is_none_that_is_evaluated(tmp_path, files):
    text = text_of(files, "text")
    assert text.documents == 40, "the review that stands in both splits is left out"
    evaluated = {tuple(ids[:4]) for ids in Tokens(files["tokens"] / "text.parquet").ids}
    assert not evaluated & {tuple(row) for row in text.sequences.tolist()}
    assert (text.sequences[:, 0] == 2).all(), "sequences begin with documents"
    with pytest.raises(ArtifactError, match=r"retraining\.split is 'test', which text is evaluat"):
        text_of(files, "text", split="test")
    assert text_of(files, "text", split="unsup") is None


def test_text_is_none_of_another_data_set_that_is_evaluated(tmp_path, files):
    """Its words are those of a text that is learned from; and of a data set that is not evaluated,
    nothing is left out."""
    train = read_documents(files["documents"] / "text.parquet", split="train")["text"]
    shared = train.to_pylist()[7]
    ids = tuple(add_questions(files, shared)[-1][:4])
    both, alone, other = (
        text_of(files, *datasets) for datasets in (("text", "questions"), ("text",), ("questions",))
    )
    assert (both.documents, alone.documents, other.documents) == (39, 40, 40)
    starts = [{tuple(row) for row in text.sequences.tolist()} for text in (both, alone, other)]
    assert [ids in rows for rows in starts] == [False, True, False]
    # The review of both splits is evaluated on ``text`` alone.
    review = tuple(Tokens(files["tokens"] / "text.parquet").ids[2][:4])
    assert [review in rows for rows in starts] == [False, False, True]


def test_questions_are_evaluated_in_the_trainings_on_reviews(tmp_path, files, closed):
    """A plain loop: the same steps without any evaluation, and then the evaluation by itself."""
    ids = add_questions(files)
    datasets = ["questions", "text"]
    measurement = made(tmp_path, files, job(datasets=datasets))
    assert measurement["run"] == {"model": "small", "dataset": "questions"}
    assert measurement["documents"] == 5 and measurement["scored"] == [3, 2, 5, 4, 3]
    assert measurement["learned_from"]["dataset"] == "text"
    inputs = measurement["provenance"]["inputs"]
    assert inputs["documents"] == sha256_file(files["documents"] / "text.parquet")
    assert inputs["tokens"] == Tokens(files["tokens"] / "questions.parquet").digest
    assert list(inputs["texts"]) == datasets
    sequences = text_of(files, *datasets, documents=30, tokens=8).sequences
    for name in CONDITIONS:
        sums = np.array(measurement["sums"][name])  # [seeds, evaluations, documents]
        for seed, (place, steps) in itertools.product((0, 1), enumerate((0, 1, 4))):
            model = load(files["weights"], "llama")
            plain = schedule(seed, evaluate=[])
            with trained_under(model, condition(name), closed, 12):
                steps_alone(model, sequences, plain, steps)
                expected = document_sums(model, ids, 64)
            np.testing.assert_allclose(sums[seed, place], expected, rtol=1e-5)
        assert np.abs(sums[:, 2] / sums[:, 0] - 1).max() > 0.01
        (curve,) = (
            entry["curve"] for entry in measurement["conditions"] if entry["condition"] == name
        )
        for place, row in enumerate(curve):
            assert row["seeds"] == pytest.approx(sums[:, place].sum(axis=1) / 17)


def steps_alone(model, sequences, given: Schedule, steps: int) -> None:
    """The first steps of a training, by PyTorch's own optimiser."""
    optimization = given.optimization
    parts = [[p for p in model.parameters() if (p.dim() < 2) == vectors] for vectors in (0, 1)]
    decay = optimization.weight_decay
    optimizer = torch.optim.AdamW(
        [{"params": parts[0], "weight_decay": decay}, {"params": parts[1], "weight_decay": 0.0}],
        betas=(0.9, 0.95),
    )
    for number in range(steps):
        rows = sequences[torch.from_numpy(batch_rows(number, 4, len(sequences), given.seed))]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(number, optimization)
        optimizer.zero_grad()
        logits = model(rows, use_cache=False).logits[:, :-1]
        functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def test_a_data_set_does_not_change_the_numbers_of_another(tmp_path, files):
    """Up to rounding: all documents fill the same batches."""
    add_questions(files)
    for datasets in (["text", "questions"], ["questions", "text"]):
        both = made(tmp_path, files, job(datasets=datasets), "".join(datasets))
        alone = made(tmp_path, files, job(datasets=datasets[:1]), datasets[0])
        for name in CONDITIONS:
            np.testing.assert_allclose(both["sums"][name], alone["sums"][name], rtol=1e-6)
        for entry, other in zip(both["conditions"], alone["conditions"], strict=True):
            for row, expected in zip(entry["curve"], other["curve"], strict=True):
                assert row["nll"] == pytest.approx(expected["nll"], rel=1e-6)
        assert both["learned_from"] == alone["learned_from"]


def test_each_training_runs_once_for_all_data_sets(tmp_path, files, monkeypatch):
    from posenc.models import training

    original, begun = training.batch_rows, []

    def counted(number, *rest):
        begun.append(number)
        return original(number, *rest)

    monkeypatch.setattr("posenc.capture.retraining.batch_rows", counted)
    add_questions(files)
    made(tmp_path, files, job(datasets=["text", "questions"]))
    assert begun == [0, 1, 2, 3] * 3 * 2, "conditions and seeds"


@pytest.mark.parametrize(
    ("tokens", "of_study", "expected"),
    [
        # Documents have 10, 5, 11, 7, 9 and 12 tokens; questions 22 in all.
        (1000, None, (6, 5)), (1000, 4, (4, 4)),
        (33, None, (4, 5)), (32, None, (3, 5)), (33, 3, (3, 3)),
    ],
)  # fmt: skip
def test_numbers_of_documents_are_of_each_data_set(tmp_path, files, tokens, of_study, expected):
    add_questions(files)
    parameters = {**PARAMETERS, "evaluated_tokens": tokens}
    wanted = job(datasets=["text", "questions"], documents=of_study, parameters=parameters)
    made(tmp_path, files, wanted)
    folder = tmp_path / "once/measurements/retraining/small"
    measurements = [read_sealed(folder / f"{name}.json") for name in wanted.datasets]
    assert tuple(measurement["documents"] for measurement in measurements) == expected


def test_a_data_set_of_one_document_does_not_keep_others_from_theirs(tmp_path, files):
    add_questions(files)
    table = Tokens(files["tokens"] / "questions.parquet")
    write_table(table.table.slice(0, 1), files["tokens"] / "questions.parquet", table.metadata)
    measurement = made(tmp_path, files, job(datasets=["text", "questions"]))
    alone = made(tmp_path, files, job(), "alone")
    assert measurement["status"] == "measured"
    assert measurement["conditions"][0]["curve"][-1]["nll"] == pytest.approx(
        alone["conditions"][0]["curve"][-1]["nll"], rel=1e-6
    )
    lacking = read_sealed(tmp_path / "once/measurements/retraining/small/questions.json")
    assert (lacking["status"], lacking["reason"]) == (
        "not run",
        "too few documents have two tokens, or fit into evaluated_tokens",
    )


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"family": "gpt2"}, "positions come in by a table: there is no rotation to drop"),
        ({"family": "bert"}, "it is no decoder: there is no rotation to drop"),
        ({"conditions": {"intact": {}}}, "the study does not evaluate zero"),
        (
            {"parameters": {**PARAMETERS, "split": "unsup"}},
            "the data set 'text' has no split 'unsup'",
        ),
    ],
)
def test_what_cannot_be_measured_says_why(tmp_path, files, changed, reason):
    measurement = made(tmp_path, files, job(**changed))
    assert measurement["status"] == "not run" and measurement["reason"] == reason


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"conditions": ["intact", "zero_closed"]}, "conditions lacks 'zero'"),
        ({"evaluate_steps": [0, 4, 2]}, "must rise from 0 to steps, 4"),
        ({"evaluate_steps": [1, 4]}, "must rise from 0 to steps, 4"),
        ({"evaluate_steps": [0, 2]}, "must rise from 0 to steps, 4"),
        ({"seeds": [3, 3]}, "names one twice"),
    ],
)
def test_parameters_that_say_nothing_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        step.Retraining.model_validate({**PARAMETERS, **changed})


def test_a_mask_that_is_exact_is_worth_what_rotation_is(tmp_path, documents):
    """Queries and keys that do not vary: scores depend on distance alone, and the mask has all."""
    planted = llama(biases=True)
    with torch.no_grad():
        for block in planted.model.layers:
            for projection in (block.self_attn.q_proj, block.self_attn.k_proj):
                projection.weight.zero_()
                projection.bias.mul_(6)
    source = ClosedFormMask(method="closed_form", position="zero", documents=None, seed=0,
                            first=False, temperature=False)  # fmt: skip
    mask, _ = learn(source, Calibration(planted, documents[:4], documents[4:], 64))
    planted.requires_grad_(True)
    sums = {}
    for name in CONDITIONS:
        with trained_under(planted, condition(name), {"closed": mask}, 12):
            sums[name] = document_sums(planted, documents, 64)
    np.testing.assert_allclose(sums["zero_closed"], sums["intact"], rtol=1e-5)
    assert np.abs(sums["zero"] - sums["intact"]).max() > 0.1


def test_studies_differ_in_the_learning_rate_and_seeds_alone():
    """What their jobs read; its data set of text to learn from is that of the masks."""
    params, jobs = load_params(PROJECT / "params.yaml"), {}
    for name in ("retraining", "retraining_fast"):
        active = params.model_copy(update={"study": params.studies[name]})
        parts = {path.as_posix(): part for path, part in configs.sections(active)}
        jobs[name] = step.Job.model_validate(
            parts["data/config/measurements/retraining/smollm2.json"]
        )
    rates = {name: wanted.parameters.learning_rate for name, wanted in jobs.items()}
    assert rates == {"retraining": 1e-4, "retraining_fast": 3e-4}
    same = {"learning_rate": 1e-4, "seeds": [0, 1, 2]}
    for wanted in jobs.values():
        alike = wanted.model_copy(update={"parameters": wanted.parameters.model_copy(update=same)})
        assert alike == jobs["retraining"]
        assert wanted.calibration == "imdb_fresh"
        assert wanted.datasets == ["imdb_fresh", "truthfulqa_local"]


# --- Its figure, and its numbers ------------------------------------------------------------------


@pytest.fixture
def measured() -> dict:
    return made_up.retraining("smollm2", "reviews")


def test_lines_are_the_measured_losses(measured):
    drawn = figure.draw([measured], SECTIONS.retraining, STYLE)
    left, right = drawn.axes
    lines = {line.get_label(): line for line in left.lines}
    assert list(lines["no positions"].get_ydata()) == [6.0, 5.9, 5.0, 4.25, 3.98]
    assert list(lines["no positions"].get_xdata()) == [0, 8192, 32768, 131072, 524288]
    above = {line.get_label(): line for line in right.lines}
    assert set(lines) == {"intact", "no positions", "closed-form mask"} == {*above, "intact"}
    assert above["no positions"].get_ydata()[1] == pytest.approx(5.9 - 3.98)
    # The level of a start, as far as it is worth.
    ends = [axes.collections[-1].get_segments()[0].tolist() for axes in (left, right)]
    assert ends[0] == [[0, 4.5], [65536, 4.5]] and ends[1] == [[0, 0.5], [90000, 0.5]]
    check_texts(drawn)


def test_data_sets_are_rows(measured):
    """A data set that was not measured has none."""
    other = made_up.retraining("smollm2", "questions")
    for row in other["conditions"][1]["curve"]:
        row["nll"]["value"] += 1
    lacking = {**made_up.retraining("smollm2", "third"), "status": "not run", "reason": "no"}
    drawn = figure.draw([measured, other, lacking], SECTIONS.retraining, STYLE)
    titles = [axes.get_title() for axes in drawn.axes]
    assert titles == ["reviews"] * 2 + ["questions"] * 2
    first, second = (
        {line.get_label(): line.get_ydata()[0] for line in drawn.axes[place].lines}
        for place in (0, 2)
    )
    assert second == {**first, "no positions": first["no positions"] + 1}
    assert [len(axes.lines) for axes in drawn.axes] == [3, 2, 3, 2]
    assert "training tokens (SmolLM2)" in [text.get_text() for text in texts(drawn)]
    check_texts(drawn)


def test_a_start_that_is_not_reached_has_its_level_to_the_end(measured):
    measured["conditions"][2]["worth"]["start"]["value"] = None
    drawn = figure.draw([measured], SECTIONS.retraining, STYLE)
    assert drawn.axes[0].collections[-1].get_segments()[0].tolist()[1] == [524288, 4.5]


def test_without_a_model_that_is_trained_on_the_figure_says_so(measured):
    other = {**measured, "status": "not run", "reason": "positions come in by a table"}
    for files, said in (([], "no model was trained on"), ([other], "by a table")):
        drawn = figure.draw(files, SECTIONS.retraining, STYLE)
        assert said in " ".join(text.get_text() for text in texts(drawn))


def test_numbers_are_those_of_the_file(measured):
    facts = numbers.QUANTITIES.read(measured)
    assert set(facts) == set(numbers.RETRAINING)
    assert facts["learned_tokens"].value == 524288
    assert (facts["zero.first"].value, facts["zero.last"].value) == (6.0, 3.98)
    assert facts["zero_closed.last.above_intact"].value == pytest.approx(0.15)
    start, above = facts["zero_closed.start"], facts["zero_closed.start_above_intact"]
    assert (start.value, start.low, start.high) == (65536, 50000, 80000)
    assert (above.value, above.low, above.high) == (90000, None, None)
    assert facts["zero_closed.start_above_intact.least"].value == 70000
    assert facts["zero_closed.meets"].reason == "not reached in 524,288 training tokens"
    assert facts["zero_closed.meets.least"].value == 400000
    lacking = facts_of({**measured, "status": "not run", "reason": "no rotation"},
                       numbers.QUANTITIES.read, numbers.RETRAINING)  # fmt: skip
    assert lacking == dict.fromkeys(numbers.RETRAINING, NotRun("no rotation"))
    del measured["conditions"][2]
    assert "does not evaluate" in numbers.QUANTITIES.read(measured)["zero_closed.start"].reason
