"""The fitting loop of experiments: what it learns, when it stops, and that it can be resumed."""

import hashlib
import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from torch import nn

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.files import ArtifactError, read_sealed
from posenc.config.base import Section
from posenc.config.optimization import Optimization
from posenc.datasets.section import Evaluation
from posenc.experiments import frame as step
from posenc.experiments import summary
from posenc.experiments.fitting import fit
from posenc.metrics.seeds import SHARE, difference_over_seeds, over_seeds

OPTIMIZATION = Optimization(
    steps=12,
    batch=4,
    learning_rate=0.05,
    warmup_steps=2,
    weight_decay=0.01,
    precision="float32",
    validate_steps=3,
    patience=None,
    checkpoint_steps=5,
)
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(20, 3, generator=GENERATOR)  # [examples, features]
Y = X @ torch.tensor([1.0, -2.0, 0.5])  # [examples]


class Killed(RuntimeError):
    """Stands for a job that is killed."""


def network() -> nn.Sequential:
    """A small network with dropout: its random state has to survive a checkpoint."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def run(folder: Path, killed_at: int | None = None, **changes):
    """Fit once; optionally die after a step."""
    model = network()

    def loss(rows):
        return nn.functional.mse_loss(model(X[rows])[:, 0], Y[rows])

    def validate():
        assert not model.training
        return float(nn.functional.mse_loss(model(X)[:, 0], Y))

    def report(step, loss):
        if step == killed_at:
            raise Killed

    optimization = OPTIMIZATION.model_copy(update=changes)
    checkpoint = Checkpoint(folder / "checkpoint.pt", "one", lambda line: None)
    return model, fit(model, loss, len(X), validate, optimization, 3, checkpoint, report=report)


def test_a_killed_training_ends_with_the_same_bits(tmp_path):
    expected, curve = run(tmp_path / "whole")
    with pytest.raises(Killed):
        run(tmp_path / "killed", killed_at=8)
    resumed, again = run(tmp_path / "killed")
    assert again == curve
    for parameter, other in zip(expected.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(parameter, other)
    # The seed matters: without the dropout's state, the curve would differ.
    assert run(tmp_path / "other", steps=11)[1].curve[:3] != curve.curve[1:]


def test_the_weights_of_the_lowest_validation_loss_are_kept(tmp_path):
    model, fitted = run(tmp_path, learning_rate=1.0, steps=4, validate_steps=1)
    losses = [row["validation_loss"] for row in fitted.curve]
    assert min(losses) < losses[-1], "a training that gets worse at the end"
    assert fitted.loss == min(losses)
    assert fitted.step == 1 + int(np.argmin(losses))
    with torch.inference_mode():
        assert float(nn.functional.mse_loss(model(X)[:, 0], Y)) == pytest.approx(fitted.loss)


def test_patience_ends_a_training_that_gets_no_better(tmp_path):
    _, fitted = run(tmp_path, learning_rate=1.0, steps=30, validate_steps=1, patience=2)
    assert fitted.steps == fitted.step + 2 < 30
    assert fitted.curve[-1]["step"] == fitted.steps


def test_a_training_ends_when_its_loss_is_low_enough(tmp_path):
    _, whole = run(tmp_path / "whole", steps=60, validate_steps=3)
    enough = whole.curve[3]["validation_loss"]
    first = next(row["step"] for row in whole.curve if row["validation_loss"] <= enough)
    _, fitted = run(tmp_path / "enough", steps=60, validate_steps=3, enough=enough)
    assert fitted.steps == fitted.step == first < 60
    assert fitted.loss <= enough


def test_a_linear_model_reaches_the_least_squares(tmp_path):
    model = nn.Linear(3, 1)
    fitted = fit(
        model,
        lambda rows: nn.functional.mse_loss(model(X[rows])[:, 0], Y[rows]),
        len(X),
        lambda: float(nn.functional.mse_loss(model(X)[:, 0], Y)),
        OPTIMIZATION.model_copy(update={"steps": 600, "weight_decay": 0.0}),
        0,
        Checkpoint(tmp_path / "c.pt", "one"),
    )
    assert fitted.loss < 1e-4
    np.testing.assert_allclose(model.weight.detach()[0], [1.0, -2.0, 0.5], atol=0.02)


def test_what_is_frozen_stays(tmp_path):
    model = network()
    model[0].requires_grad_(False)
    before = model[0].weight.clone()
    fit(
        model,
        lambda rows: nn.functional.mse_loss(model(X[rows])[:, 0], Y[rows]),
        len(X),
        lambda: 0.0,
        OPTIMIZATION,
        0,
        Checkpoint(tmp_path / "c.pt", "one"),
    )
    assert torch.equal(before, model[0].weight)


def test_nothing_to_learn_from_is_said(tmp_path):
    with pytest.raises(ValueError, match="no examples"):
        fit(network(), None, 0, None, OPTIMIZATION, 0, Checkpoint(tmp_path / "c.pt", "one"))


def test_validations_beyond_the_end_are_refused():
    with pytest.raises(ValueError, match="validate_steps is 20, more than steps 12"):
        Optimization(**{**OPTIMIZATION.model_dump(), "validate_steps": 20})


# --- The trials of a seed -----------------------------------------------------------------------


class Seed:
    """A seed's trials, and which of them were worked on."""

    def __init__(self, folder: Path, provenance: dict | None = None) -> None:
        self.output = folder / "0.json"
        self.worked: list[str] = []
        self.trials = step.Trials(
            self.output, folder / "partial", "toy", {}, 0, provenance or {"code": "a"}
        )

    def run(self, names: str, killed_at: str = "") -> None:
        """Do the trials of these names, one letter each."""
        for name in names:

            def work(checkpoint, report, name=name):
                if name == killed_at:
                    checkpoint.save({"step": 1})
                    raise Killed
                self.worked.append(name)
                report(1, 0.5)
                return {"result": ord(name), "resumed": checkpoint.load() is not None}

            self.trials.measure({"name": name}, 1, work)
        self.trials.finish()


def test_trials_that_are_done_are_not_done_again(tmp_path):
    first = Seed(tmp_path)
    with pytest.raises(Killed):
        first.run("abc", killed_at="b")
    assert not first.output.exists()
    second = Seed(tmp_path)
    assert not second.trials.current
    second.run("abc")
    assert second.worked == ["b", "c"]
    content = read_sealed(second.output)
    assert [trial["variant"]["name"] for trial in content["trials"]] == ["a", "b", "c"]
    # The checkpoint is that trial's own.
    assert [trial["resumed"] for trial in content["trials"]] == [False, True, False]
    assert Seed(tmp_path).trials.current
    assert not (tmp_path / "partial").exists()


def test_trials_of_other_code_are_done_again(tmp_path):
    with pytest.raises(Killed):
        Seed(tmp_path).run("ab", killed_at="b")
    other = Seed(tmp_path, {"code": "b"})
    other.run("ab")
    assert other.worked == ["a", "b"]
    assert not Seed(tmp_path).trials.current


def test_a_damaged_output_is_made_again(tmp_path, capsys):
    Seed(tmp_path).run("a")
    path = tmp_path / "0.json"
    path.write_text(path.read_text().replace("97", "98"))
    assert not Seed(tmp_path).trials.current
    assert "it is made again" in capsys.readouterr().err


class Toy(Section):
    """Parameters of an experiment."""

    dataset: str


def toy(folder: Path, monkeypatch, **changed) -> tuple[list, Path]:
    """Run a toy experiment's command: what it measured, and its output."""
    monkeypatch.setattr(step, "code_digest", lambda module: module)
    (folder / "reviews.parquet").write_bytes(b"documents")
    job = {
        "parameters": {"dataset": "reviews"},
        "device": "cpu",
        "evaluation": {"split": "test", "documents": None, "seed": 0, **changed},
    }
    (folder / "job.json").write_text(json.dumps(job))
    measured = []

    def measure(job, files, trials):
        measured.append((job.device, files.model))
        trials.measure({"name": "a"}, 1, lambda checkpoint, report: {"result": trials.seed})

    main = step.trials_command("toy", step.LabelledJob[Toy], measure, uses=["scipy"])
    output = folder / "0.json"
    main(
        7, folder / "job.json", output, folder / "partial",
        documents=[folder / "reviews.parquet"], model="tiny",
    )  # fmt: skip
    return measured, output


def test_a_command_says_what_its_trials_were_made_of(tmp_path, monkeypatch):
    measured, output = toy(tmp_path, monkeypatch)
    content = read_sealed(output)
    assert measured == [("cpu", "tiny")]
    assert content["run"] == {"dataset": "reviews"} and content["seed"] == 7
    assert content["trials"] == [{"variant": {"name": "a"}, "result": 7}]
    assert content["provenance"] == {
        "parameters": {"dataset": "reviews", "test_split": "test"},
        "inputs": {"documents": hashlib.sha256(b"documents").hexdigest()},
        "versions": {
            # Without a build's name, such as +cpu: the machine decides that.
            name: importlib.metadata.version(name).partition("+")[0]
            for name in ("numpy", "scipy", "torch")
        },
        "code": "posenc.experiments.toy.trials",
    }


def test_trials_of_another_split_are_made_again(tmp_path, monkeypatch):
    assert toy(tmp_path, monkeypatch)[0]
    # How many documents others measure on does not matter here; which split is tested on does.
    assert not toy(tmp_path, monkeypatch, documents=9)[0]
    assert toy(tmp_path, monkeypatch, split="unsup")[0]


def test_what_is_learned_from_is_not_tested_on():
    evaluation = Evaluation(split="test", documents=None, seed=0)
    assert step.tested_split("reviews", evaluation) == "test"
    with pytest.raises(ArtifactError, match=r"datasets\.reviews\.evaluation\.split is 'train'"):
        step.tested_split("reviews", evaluation.model_copy(update={"split": "train"}))


# --- Their summary ------------------------------------------------------------------------------


def test_trials_of_a_variant_are_those_of_all_seeds():
    files = [{"trials": [{"variant": v, "a": 10 * s + v} for v in (1, 2)]} for s in (3, 4, 5)]
    variants = summary.by_variant(files)
    assert [[trial["a"] for trial in trials] for trials in variants] == [[31, 41, 51], [32, 42, 52]]
    assert summary.over(variants[1], ["a"], 0.9) == {"a": over_seeds([32, 42, 52], 0.9)}
    with pytest.raises(ValueError, match="shorter"):
        summary.by_variant([*files, {"trials": []}])


def test_a_summary_refuses_the_trials_of_other_seeds(tmp_path):
    Seed(tmp_path).run("a")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"name": "small", "seeds": [0, 1], "confidence": 0.9}))
    main = summary.summary_command("toy", ["B5"], lambda files, confidence: {})
    with pytest.raises(RuntimeError, match=r"experiments\.toy\.small\.seeds are \[0, 1\]"):
        main([tmp_path / "0.json"], config, tmp_path / "out.json")


# --- Over seeds ---------------------------------------------------------------------------------


def test_the_interval_is_students():
    values = np.random.default_rng(0).normal(3, 2, 7)
    estimate = over_seeds(values, 0.9)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (estimate["low"], estimate["high"]) == pytest.approx((low, high))
    paired = difference_over_seeds(values + 1, values)
    assert (paired["value"], paired["sd"]) == pytest.approx((1, 0), abs=1e-12)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(1).normal(size=(2000, 3))
    estimates = [over_seeds(row, 0.8) for row in draws]
    covered = np.mean([estimate["low"] <= 0 <= estimate["high"] for estimate in estimates])
    assert covered == pytest.approx(0.8, abs=0.03)


SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=8)


@given(SHARES)
def test_the_interval_of_shares_stays_inside_and_mirrors(values):
    estimate = over_seeds(values, bounds=SHARE)
    assert 0 <= estimate["low"] <= estimate["value"] + 1e-12
    assert estimate["value"] - 1e-12 <= estimate["high"] <= 1
    mirrored = over_seeds([1 - value for value in values], bounds=SHARE)
    assert (1 - mirrored["high"], 1 - mirrored["low"]) == pytest.approx(
        (estimate["low"], estimate["high"]), abs=1e-9
    )


def test_the_interval_of_shares_is_students_of_the_linearised_logits():
    values = np.array([0.97, 0.88, 0.99, 0.91])
    mean = values.mean()
    linear = special.logit(mean) + (values - mean) / (mean * (1 - mean))  # [seeds]
    ends = stats.ttest_1samp(linear, 0).confidence_interval(0.9)
    estimate = over_seeds(values, 0.9, SHARE)
    assert (estimate["low"], estimate["high"]) == pytest.approx(tuple(special.expit(ends)))
    # Far from its bounds a result has Student's interval.
    wide, plain = over_seeds(values, 0.9, (-1e5, 1e5)), over_seeds(values, 0.9)
    assert (wide["low"], wide["high"]) == pytest.approx((plain["low"], plain["high"]), abs=1e-6)
    # A difference of shares lies in [-1, 1]: a share, stretched and moved.
    paired = difference_over_seeds(values, 1 - values, 0.9, SHARE)
    share = over_seeds((values - (1 - values) + 1) / 2, 0.9, SHARE)
    assert (paired["low"], paired["high"]) == pytest.approx(
        (2 * share["low"] - 1, 2 * share["high"] - 1)
    )


def test_the_interval_of_shares_covers_the_mean_as_often_as_students():
    draws = np.random.default_rng(2).beta(8, 2, size=(2000, 5))
    covered = []
    for bounds in (None, SHARE):
        estimates = [over_seeds(row, 0.9, bounds) for row in draws]
        covered.append(
            np.mean([estimate["low"] <= 0.8 <= estimate["high"] for estimate in estimates])
        )
    assert covered[1] == pytest.approx(0.9, abs=0.03)
    assert covered[1] >= covered[0] - 0.02


def test_a_share_out_of_its_bounds_is_refused():
    with pytest.raises(ValueError, match=r"in \[0\.0, 1\.0\]"):
        over_seeds([0.5, 1.2], bounds=SHARE)


@pytest.mark.parametrize("values", [[1.0], [], [1.0, float("nan")]])
def test_too_few_seeds_are_refused(values):
    with pytest.raises(ValueError, match="seeds"):
        over_seeds(values)
