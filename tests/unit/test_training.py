"""Training: the order of sequences, the checkpoint, the identity of a resumed training."""

import csv
import itertools

import numpy as np
import pyarrow as pa
import pytest
import torch

from posenc.artifacts.checkpoints import FILE as CHECKPOINT
from posenc.artifacts.files import CHECKSUMS, read_sealed, sha256_file, verify
from posenc.artifacts.tables import write_table
from posenc.figures.training_loss import read_training
from posenc.models.load import load
from posenc.models.section import TrainSource
from posenc.models.tokenizers import save_tokenizer
from posenc.models.training import batch_rows, build, learning_rate, sequences, train
from posenc.steps import train as step
from posenc.tokens.tokenize import train_bpe

from .damage import Killed, flip, found_and_marked

SOURCE = TrainSource(
    kind="train",
    tokenizer={"kind": "bpe", "vocabulary_size": 300},
    n_layers=2,
    d_model=16,
    n_heads=2,
    n_positions=8,
    split="train",
    documents=None,
    validation_share=0.1,
    steps=12,
    batch_sequences=4,
    learning_rate=1e-2,
    warmup_steps=3,
    weight_decay=0.1,
    precision="float32",
    seed=3,
    checkpoint_steps=5,
    validate_steps=4,
)
ROWS = torch.from_numpy(np.random.default_rng(0).integers(0, 50, size=(20, 8)))

pytestmark = pytest.mark.usefixtures("one_thread")


def run(folder, report=lambda step, loss: None, identity="same", lines=None):
    model = build(SOURCE, vocabulary_size=50, end_of_text=0)
    say = (lines if lines is not None else []).append
    curve = train(model, ROWS[4:], ROWS[:4], SOURCE, folder, identity, report=report, say=say)
    return model.state_dict(), curve


@pytest.mark.parametrize("killed_at", [5, 6, 9, 11])
def test_a_killed_training_ends_with_the_same_weights(tmp_path, killed_at):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    undisturbed, undisturbed_curve = run(tmp_path / "a")

    def kill(step, loss):
        if step == killed_at:
            raise Killed

    with pytest.raises(Killed):
        run(tmp_path / "b", report=kill)
    first_step = []
    resumed, curve = run(tmp_path / "b", report=lambda step, loss: first_step.append(step))
    # A kill at step 5 comes before that step's checkpoint.
    assert first_step[0] == {5: 1, 6: 6, 9: 6, 11: 11}[killed_at]
    assert curve == undisturbed_curve
    assert all(torch.equal(resumed[name], undisturbed[name]) for name in undisturbed)


def test_a_checkpoint_of_other_inputs_is_not_used(tmp_path):
    run(tmp_path)
    assert (tmp_path / CHECKPOINT).exists()
    steps, lines = [], []
    run(tmp_path, lambda step, loss: steps.append(step), identity="other", lines=lines)
    assert steps[0] == 1
    assert "other inputs" in lines[0]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty"])
def test_a_damaged_checkpoint_is_not_used(tmp_path, damage):
    run(tmp_path)
    path = tmp_path / CHECKPOINT
    if damage == "flipped":
        flip(path)
    else:
        path.write_bytes(path.read_bytes()[: 1000 if damage == "truncated" else 0])
    steps, lines = [], []
    run(tmp_path, lambda step, loss: steps.append(step), lines=lines)
    assert steps[0] == 1
    assert "cannot be read" in lines[0]


def test_every_sequence_comes_once_an_epoch():
    count, batch = 10, 4
    rows = np.concatenate([batch_rows(step, batch, count, seed=1) for step in range(5)])
    assert sorted(rows[:10]) == list(range(10))
    assert sorted(rows[10:]) == list(range(10))
    assert list(rows[:10]) != list(rows[10:])
    assert list(batch_rows(2, batch, count, seed=2)) != list(batch_rows(2, batch, count, seed=1))


def test_sequences_join_documents_without_loss():
    documents = [[0, 1, 2], [0, 3], [0, 4, 5, 6]]
    assert sequences(documents, 4).tolist() == [[0, 1, 2, 0], [3, 0, 4, 5]]
    with pytest.raises(RuntimeError, match="n_positions"):
        sequences([[0, 1]], 4)


def test_sequences_can_begin_with_documents():
    """The rest of a document is dropped, a short one is followed by the next, by brute force."""
    documents = [[0, 1, 2, 3, 4, 5], [0, 6], [0, 7, 8], [0, 9, 10, 11], [0, 12]]
    assert sequences(documents, 4, "documents").tolist() == [
        [0, 1, 2, 3],
        [0, 6, 0, 7],
        [0, 9, 10, 11],
    ]
    with pytest.raises(RuntimeError, match="n_positions"):
        sequences([[0, 1, 2]], 4, "documents")


def test_learning_rate_rises_then_falls():
    rates = [learning_rate(step, SOURCE) for step in range(SOURCE.steps)]
    assert rates[2] == max(rates) == SOURCE.learning_rate
    assert rates[0] == pytest.approx(SOURCE.learning_rate / 3)
    assert all(a > b for a, b in itertools.pairwise(rates[3:]))
    assert rates[-1] > SOURCE.learning_rate / 10


def test_what_is_trained_is_the_library_s_own_model(tmp_path):
    """PyTorch's activation stands for the library's: the same losses, gradients and files."""
    from transformers import GPT2LMHeadModel
    from transformers.activations import NewGELUActivation

    ours = build(SOURCE, 60, 0)
    ours.save_pretrained(tmp_path)
    library = GPT2LMHeadModel.from_pretrained(tmp_path)
    acts = [type(block.mlp.act) for block in library.transformer.h]
    assert set(acts) == {NewGELUActivation}
    assert not any(isinstance(module, NewGELUActivation) for module in ours.modules())
    ids = torch.randint(0, 60, (3, SOURCE.n_positions), generator=torch.Generator().manual_seed(1))
    results = []
    for model in (ours, library):
        loss = model(ids, labels=ids).loss
        loss.backward()
        results.append((loss, {name: p.grad for name, p in model.named_parameters()}))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-6, atol=0)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-7)


def test_a_loss_falls_on_something_learnable(tmp_path):
    pattern = torch.arange(8).repeat(20, 1)
    model = build(SOURCE, vocabulary_size=50, end_of_text=0)
    losses = []
    longer = SOURCE.model_copy(update={"steps": 60})
    train(model, pattern, pattern[:2], longer, tmp_path, "x", report=lambda s, x: losses.append(x))
    # A random model gives every token 1/50.
    assert losses[0] == pytest.approx(np.log(50), abs=0.3)
    assert losses[-1] < losses[0] / 2


# --- The step -----------------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path) -> dict:
    """Options of the step, for a decoder of the 256 bytes and a few more tokens."""
    save_tokenizer(train_bpe(["a b c d"] * 9, 300), tmp_path / "tokenizer")
    rows = np.random.default_rng(0).integers(0, 257, size=(24, 9)).tolist()
    table = pa.table(
        {
            "document_id": [str(number) for number in range(24)],
            "input_ids": pa.array(rows, pa.list_(pa.int32())),
            "held_out": [number >= 20 for number in range(24)],
        }
    )
    write_table(table, tmp_path / "tokens.parquet", {"schema": 1})
    (tmp_path / "train.json").write_text(SOURCE.model_dump_json())
    return {
        "name": "tiny",
        "dataset": "reviews",
        "config": tmp_path / "train.json",
        "tokenizer": tmp_path / "tokenizer/tokenizer.json",
        "tokens": tmp_path / "tokens.parquet",
        "output": tmp_path / "models/tiny",
        "curve": tmp_path / "training/tiny/loss.csv",
        "summary": tmp_path / "training/tiny/summary.json",
    }


def test_the_step_writes_files_that_can_be_verified(options):
    step.main(**options)
    for file in ("config.json", "model.safetensors"):
        verify(options["output"] / file)
    load(options["output"], "gpt2")
    assert {path.name for path in options["output"].iterdir()} == {
        "config.json",
        "model.safetensors",
        CHECKSUMS,
    }
    summary = read_sealed(options["summary"])
    assert summary["curve"] == {"file": "loss.csv", "sha256": sha256_file(options["curve"])}
    assert (summary["training_documents"], summary["validation_documents"]) == (20, 4)
    with open(options["curve"], newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["training_loss"]) == summary["final_training_loss"]
    (training,) = read_training([options["curve"], options["summary"]])
    assert training["summary"] == summary and len(training["loss"]) == len(rows)
    before = {path: path.read_bytes() for path in options["output"].iterdir()}
    step.main(**options)
    assert {path: path.read_bytes() for path in options["output"].iterdir()} == before


@pytest.mark.parametrize("damaged", ["tokenizer/tokenizer.json", "tokens.parquet"])
def test_the_step_reads_nothing_that_was_altered(options, tmp_path, damaged):
    found_and_marked(flip(tmp_path / damaged), "posenc.steps.train", **options)
    assert not options["output"].exists() and not options["curve"].exists()
