"""Classifiers with and without positions: trials, their summary and its figure."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from posenc.artifacts.command import read_section
from posenc.artifacts.files import ArtifactError, read_sealed, write_json
from posenc.datasets.documents import write_documents
from posenc.experiments.downstream import figure as figure_of
from posenc.experiments.downstream import (
    summary as downstream,
)
from posenc.experiments.downstream import (
    trials as downstream_trials,
)
from posenc.experiments.downstream.documents import DownstreamJob, Texts
from posenc.experiments.downstream.section import DownstreamTraining
from posenc.metrics.downstream import chance_test
from posenc.metrics.order_sensitivity import changed_predictions
from posenc.models.tokenizers import save_tokenizer
from posenc.study.params import load as load_params

from . import synthetic
from .damage import Killed
from .raw_files import content
from .small_models import VOCABULARY, WORDS, word_pieces
from .test_figures import check_texts, texts

FIGURES = load_params(synthetic.PROJECT / "params.yaml").figures

pytestmark = pytest.mark.usefixtures("one_thread")


# --- The trials -----------------------------------------------------------------------------------


TRAINING = DownstreamTraining(
    dataset="reviews",
    training_documents=48,
    validation_documents=16,
    test_documents=40,
    max_tokens=12,
    excerpt="end",
    tasks=["sentiment", "word_swap"],
    swaps=2,
    trained_layers=1,
    optimization={
        "steps": 8, "batch": 8, "learning_rate": 3e-3, "warmup_steps": 2, "weight_decay": 0.01,
        "precision": "float32", "validate_steps": 4, "patience": None, "checkpoint_steps": 3,
    },
)  # fmt: skip


@pytest.fixture
def options(tmp_path, small_model_folders) -> dict:
    """Options of the step; a word tells the label, and the rest is the same in all documents."""
    save_tokenizer(word_pieces(), tmp_path / "tokenizer")
    rows = []
    for split, count in (("train", 80), ("test", 60), ("unsup", 5)):
        for number in range(count):
            label = None if split == "unsup" else ("neg", "pos")[number % 2]
            verdict = {"neg": "bad", "pos": "good", None: "the"}[label]
            text = " ".join([*WORDS[: 2 + number % 5], *WORDS[5:13], verdict])
            rows.append(
                {"document_id": f"{split}/{number}", "split": split, "text": text, "label": label}
            )
    write_documents(rows, tmp_path / "reviews.parquet", content("imdb"), {"raw": "0" * 64})
    arguments = {
        "model": "tiny",
        "seed": 3,
        "config": tmp_path / "config.json",
        "weights": small_model_folders["bert"],
        "tokenizer": tmp_path / "tokenizer/tokenizer.json",
        "documents": [tmp_path / "reviews.parquet"],
        "output": tmp_path / "trials/3.json",
        "partial": tmp_path / "partial/3",
    }
    configure(arguments)
    return arguments


def configure(options: dict, family: str = "bert", split: str = "test", **changed) -> None:
    job = {
        "parameters": TRAINING.model_copy(update=changed).model_dump(),
        "reading": {"family": family, "max_tokens": 40},
        "evaluation": {"split": split, "documents": 20, "seed": 1},
        "device": "cpu",
    }
    write_json(options["config"], job)


def test_trials_and_their_summary(options, tmp_path, capsys):
    files = []
    for seed in (3, 4):
        output = tmp_path / f"trials/{seed}.json"
        downstream_trials.main(**{**options, "seed": seed, "output": output})
        files.append(read_sealed(output))
        json.dumps(files[-1], allow_nan=False)
    assert files[0]["run"] == {"model": "tiny", "dataset": "reviews"}
    assert not any(word in json.dumps(files[0]["trials"]) for word in ("good", "[CLS]", "dull"))
    variants = [tuple(entry["variant"].values()) for entry in files[0]["trials"]]
    assert len(set(variants)) == 10
    for trial in files[0]["trials"]:
        assert trial["test"]["documents"] == 40 and trial["validation"]["documents"] == 16
        if trial["variant"]["positions"] in ("zero", "none"):
            # All words of a document, shuffled or not: the same to a bag of them.
            assert trial["test"]["changed"] == 0
            assert trial.get("pooled_change", {"largest": 0})["largest"] < 1e-6
        if trial["variant"]["method"] == "fine_tuned":
            assert [row["step"] for row in trial["curve"]] == [4, 8]
        if trial["variant"]["task"] == "sentiment" and trial["variant"]["method"] != "fine_tuned":
            assert trial["test"]["correct"] == 40
    before = options["output"].read_bytes()
    downstream_trials.main(**options)
    assert "is current and is kept" in capsys.readouterr().err
    assert options["output"].read_bytes() == before

    write_json(tmp_path / "c.json", {"name": "sample", "seeds": [3, 4], "confidence": 0.9})
    paths = [tmp_path / f"trials/{seed}.json" for seed in (3, 4)]
    downstream.main(paths, tmp_path / "c.json", tmp_path / "out.json")
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "downstream" and written["catalogue"] == ["A6"]
    assert {"seed 3", "seed 4", "weights", "documents"} <= written["provenance"]["inputs"].keys()
    check_summary(written, files)


def check_summary(written, files):
    """Its numbers by hand from the counts."""

    def correct(**variant):
        trials = [t for f in files for t in f["trials"] if t["variant"].items() >= variant.items()]
        return np.array([t["test"]["correct"] for t in trials])

    for entry in written["results"]:
        variant = {key: entry[key] for key in ("task", "positions", "method")}
        assert entry["accuracy"]["values"] == (correct(**variant) / 40).tolist()
        if entry["positions"] == "zero":
            score = entry["order_sensitivity"]
            assert score["status"] == "not run" or score["value"] == 0
            assert entry["lost"]["value"] == 0
    for entry in written["gains"]:
        variant = {key: entry[key] for key in ("task", "method")}
        paired = correct(positions="intact", **variant) - correct(positions="zero", **variant)
        np.testing.assert_allclose(entry["gain"]["values"], paired / 40, atol=1e-12)
    for entry in written["bags_of_words"]:
        bag = correct(task=entry["task"], method="bag_of_words")
        assert entry["accuracy"]["values"] == (bag / 40).tolist() and entry["lost"]["value"] == 0
        for other in entry["beside"]:
            variant = {key: other[key] for key in ("positions", "method")}
            paired = correct(task=entry["task"], **variant) - bag
            np.testing.assert_allclose(other["gain"]["values"], paired / 40, atol=1e-12)
    assert len(written["bags_of_words"]) == 2 and len(written["control"]) == 3
    for entry in written["control"]:
        variant = {key: entry[key] for key in ("positions", "method")}
        right = correct(task="word_swap", **variant)
        assert entry["correct"] == right.sum() and entry["documents"] == 80
        assert entry["p_value"] == stats.binomtest(int(right.sum()), 80, 0.5).pvalue
        assert entry["p_value"] > 0.01
    still, moving = (
        next(row for row in written["shuffling"] if row["positions"] == positions)
        for positions in ("zero", "intact")
    )
    assert still["largest"] < 1e-6 < 1e-3 < moving["mean"]["value"]


def test_the_same_documents_for_all_and_exchanged_ones_hold_the_same_tokens(options):
    job = read_section(options["config"], DownstreamJob)
    texts = Texts.draw(job, 0, options["tokenizer"], options["documents"][0])
    coins = texts.labels["word_swap"]
    assert coins.sum() == len(texts.exchanged) and 0.3 < coins.mean() < 0.7
    originals = [document for document, coin in zip(texts.documents, coins, strict=True) if coin]
    for document, other in zip(originals, texts.exchanged, strict=True):
        assert Counter(document.tolist()) == Counter(other.tolist()) and (document != other).any()
        assert document[0] == other[0] == 2 and document[-1] == other[-1] == 3
    for document, other in zip(texts.documents[texts.splits["test"]], texts.shuffled, strict=True):
        assert Counter(document.tolist()) == Counter(other.tolist())
    assert max(map(len, texts.documents)) == TRAINING.max_tokens
    # The verdict stands at the end, just before [SEP].
    verdicts = [VOCABULARY[document[-2]] for document in texts.documents]
    assert [verdict == "good" for verdict in verdicts] == texts.labels["sentiment"].tolist()
    again = Texts.draw(job, 0, options["tokenizer"], options["documents"][0])
    assert all(map(np.array_equal, texts.shuffled, again.shuffled))
    other = Texts.draw(job, 1, options["tokenizer"], options["documents"][0])
    assert not np.array_equal(coins, other.labels["word_swap"])


@pytest.mark.parametrize("trained_layers", [1, None])
def test_a_killed_job_ends_with_the_same_file(options, tmp_path, monkeypatch, trained_layers):
    from posenc.experiments import fitting

    configure(options, trained_layers=trained_layers, tasks=["word_swap"])
    downstream_trials.main(**options)
    undisturbed = options["output"].read_bytes()
    options |= {"output": tmp_path / "b/3.json", "partial": tmp_path / "b/partial"}
    original, calls = fitting.fit, []

    def killing(*arguments):
        *rest, report = arguments

        def told(step, loss):
            calls.append(step)
            if len(calls) == 12:  # in the second fine-tuning, after its first checkpoint
                raise Killed
            report(step, loss)

        return original(*rest, told)

    monkeypatch.setattr("posenc.experiments.downstream.network.fit", killing)
    with pytest.raises(Killed):
        downstream_trials.main(**options)
    assert (options["partial"] / "checkpoint.pt").exists()
    del calls[:]
    calls += [0] * 100
    downstream_trials.main(**options)
    assert calls[100] == 4  # steps before the checkpoint are not taken again
    assert options["output"].read_bytes() == undisturbed
    assert not options["partial"].exists()


def test_a_learnable_order_is_learned_with_positions_only(options, tmp_path):
    """The planted control: all documents are one sentence, so its order is all there is to tell."""
    rows = [
        {
            "document_id": f"{split}/{number}", "split": split, "label": ("neg", "pos")[number % 2],
            "text": " ".join(WORDS[:9]),
        }
        for split in ("train", "test") for number in range(260)
    ]  # fmt: skip
    write_documents(rows, options["documents"][0], content("imdb"), {"raw": "0" * 64})
    sizes = {"training_documents": 200, "validation_documents": 40, "test_documents": 200}
    steps = TRAINING.optimization.model_copy(update={"steps": 40})
    configure(options, tasks=["word_swap"], swaps=3, optimization=steps, **sizes)
    downstream_trials.main(**options)
    for trial in read_sealed(options["output"])["trials"]:
        if trial["variant"]["positions"] == "intact":
            assert trial["test"]["correct"] > 180
        else:
            # One document, one prediction.
            assert trial["test"]["positive"] in (0, 200)
            assert chance_test(trial["test"]["correct"], 200).p_value > 0.01


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_documents": 80}, r"lower test_documents"),
        ({"training_documents": 80}, r"lower training_documents or validation_documents"),
        ({"max_tokens": 41}, r"max_tokens 41 exceeds the model's max_tokens 40"),
        ({"trained_layers": 3}, r"trained_layers is 3, but the model has 2"),
        ({"split": "train"}, r"evaluation.split is 'train'"),
        ({"split": "unsup"}, r"have 0 labels"),
    ],
)
def test_what_does_not_fit_is_said_with_the_way_out(options, changed, message):
    configure(options, **changed)
    with pytest.raises(ArtifactError, match=message):
        downstream_trials.main(**options)
    assert not options["output"].exists()


def test_documents_of_one_word_are_no_task(options):
    labels = ("neg", "pos")
    rows = [
        {"document_id": f"{split}/{n}", "split": split, "text": "film", "label": labels[n % 2]}
        for split in ("train", "test")
        for n in range(80)
    ]
    write_documents(rows, options["documents"][0], content("imdb"), {"raw": "0" * 64})
    with pytest.raises(ArtifactError, match=r"no two different neighbouring words .* max_tokens"):
        downstream_trials.main(**options)


@pytest.mark.parametrize(("family", "trained_layers"), [("gpt2", None), ("llama", 1)])
def test_a_decoder_can_be_trained_too(
    options, small_model_folders, tmp_path, family, trained_layers
):
    tokenizer = word_pieces()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    save_tokenizer(tokenizer, tmp_path / "other")
    options |= {
        "weights": small_model_folders[family],
        "tokenizer": tmp_path / "other/tokenizer.json",
    }
    configure(options, family, trained_layers=trained_layers, tasks=["sentiment"])
    downstream_trials.main(**options)
    trials = read_sealed(options["output"])["trials"]
    assert len(trials) == 5
    # A causal decoder's mean depends on the order even without position embeddings or rotation.
    assert all(entry.get("pooled_change", {"mean": 1})["mean"] > 1e-3 for entry in trials)


# --- The figure -----------------------------------------------------------------------------------


def trial(seed: int, task: str, positions: str, method: str) -> dict:
    """A made-up trial: with positions all is learned, without only the sentiment."""
    learned = task == "sentiment" or positions == "intact"
    generator = np.random.default_rng([seed, len(task), len(positions), len(method)])
    labels = np.arange(200) % 2 == 1
    right = generator.random(200) < (0.93 if learned else 0.5)
    predicted = right == labels
    shuffled = predicted.copy()
    if positions == "intact":
        shuffled[: 40 if task == "sentiment" else 200] = True
    test = changed_predictions(labels, predicted, shuffled)
    result = {
        "variant": {"task": task, "positions": positions, "method": method},
        "validation": {"documents": 60, "correct": 50},
        "test": test,
    }
    change = {"mean": 0.2, "largest": 0.4} if positions == "intact" else {"mean": 0, "largest": 0}
    return {**result, "pooled_change": change} if method == "frozen" else result


def made_up(model: str, tasks=("sentiment", "word_swap"), dataset: str = "sample_reviews") -> dict:
    parameters = TRAINING.model_copy(update={"tasks": list(tasks)}).model_dump()
    files = [
        {
            "provenance": {"parameters": parameters},
            "trials": [
                trial(seed, task, positions, method)
                for positions, method in (
                    *itertools.product(("intact", "zero"), ("frozen", "fine_tuned")),
                    ("none", "bag_of_words"),
                )
                for task in tasks
            ],
        }
        for seed in range(5)
    ]
    return {
        "measurement": "downstream", "run": {"model": model, "dataset": dataset},
        "status": "measured", "reason": None, "seeds": list(range(5)), "confidence": 0.95,
        **downstream.summarise(files, 0.95).as_json(),
    }  # fmt: skip


@pytest.mark.parametrize("names", [["minilm"], ["bert", "gpt2"], ["bert", "roberta", "gpt2"]])
def test_the_figure_shows_accuracies_and_gains(names, tmp_path):
    measurements = [made_up(name, dataset="imdb_local") for name in names]
    figure = figure_of.draw(measurements, FIGURES.downstream, FIGURES.style)
    check_texts(figure)
    assert len(figure.axes) == len(names) + 1
    for axes, measurement in zip(figure.axes, measurements, strict=False):
        shown = {round(x, 9) for line in axes.get_lines() for x in line.get_xdata()}
        for entry in [*measurement["results"], *measurement["bags_of_words"]]:
            assert round(100 * entry["accuracy"]["value"], 9) in shown
    drawn = figure.axes[-1].get_lines()
    points = {tuple(np.round(point, 9)) for line in drawn for point in line.get_xydata()}
    for measurement in measurements:
        for entry in measurement["gains"]:
            own = {"task": entry["task"], "method": entry["method"], "positions": "intact"}
            (score,) = (
                row["order_sensitivity"]["value"]
                for row in measurement["results"]
                if own.items() <= row.items()
            )
            assert tuple(np.round((score, 100 * entry["gain"]["value"]), 9)) in points


def test_the_figure_says_what_was_not_run():
    absent = {**made_up("bert"), "status": "not run", "reason": "no weights"}
    figure = figure_of.draw([absent], FIGURES.downstream, FIGURES.style)
    assert "no weights" in texts(figure)[0].get_text()
    figure = figure_of.draw([absent, made_up("minilm")], FIGURES.downstream, FIGURES.style)
    check_texts(figure)
    one_task = made_up("minilm", tasks=("sentiment",))
    check_texts(figure_of.draw([one_task], FIGURES.downstream, FIGURES.style))
