"""Mixtures of two images and of two embeddings: what is found of both, and what is additive."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics.pairwise import cosine_similarity
from torch.nn import functional

from posenc.artifacts.files import ArtifactError, read_sealed, write_json
from posenc.experiments.superposition import summary as step
from posenc.experiments.superposition import trials as superposition_trials
from posenc.experiments.superposition.network import STAGES, build, without_activation
from posenc.experiments.superposition.section import SuperpositionTraining
from posenc.figures import superposition as figure_of
from posenc.measurements.embedding_sums import measure as embedding_sums
from posenc.measurements.embedding_sums.declaration import EmbeddingSums
from posenc.metrics import embedding_sums as sums
from posenc.metrics.embedding_sums import (
    expected_recall,
    needed_dimensions,
    recall_by_dimensions,
)
from posenc.metrics.superposition import (
    absent_partner,
    additivity_gap,
    chance,
    distinct_rows,
    found_among_two,
    pairs_of_classes,
)
from posenc.models.section import Reading

from . import synthetic
from .damage import Killed
from .test_figures import check_texts, texts
from .test_readback import write_model

FIGURES = synthetic.params_of().figures
PARAMETERS = SuperpositionTraining(
    width=3,
    blocks=1,
    validation_share=0.2,
    test_share=0.2,
    pairs=60,
    weights=[0.5, 1.0],
    optimization={
        "steps": 9, "batch": 32, "learning_rate": 0.02, "warmup_steps": 2, "weight_decay": 0.01,
        "precision": "float32", "validate_steps": 3, "patience": None, "checkpoint_steps": 4,
    },
)  # fmt: skip
SUMS = EmbeddingSums(dimensions=[2, 4, 8], pairs=40, weights=[0.5, 0.8], confidence=0.9, seed=1)

pytestmark = pytest.mark.usefixtures("one_thread")


# --- Recall of two ------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(1, 20), st.integers(0, 2**32 - 1), st.booleans())
def test_found_is_what_sorting_finds(choices, n, seed, with_ties):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, choices))
    if with_ties:
        scores = rng.integers(0, 3, size=(n, choices))
    first, second = distinct_rows(choices, n, rng)
    recall = found_among_two(scores, first, second)
    for hits, chosen in ((recall.first, first), (recall.second, second)):
        for hit, row, label in zip(hits, scores, chosen, strict=True):
            assert hit == (sum(row >= row[label]) <= 2)
    if not with_ties:
        highest = np.sort(np.argsort(scores, axis=1)[:, -2:], axis=1)
        pairs = np.sort(np.stack([first, second], axis=1), axis=1)
        np.testing.assert_array_equal(recall.both, (highest == pairs).all(axis=1))


def test_guessing_finds_as_much_as_chance_says():
    # All pairs against one order of the scores: exactly one pair is the two highest.
    pairs = np.array(list(itertools.permutations(range(10), 2)))  # [90, 2]
    scores = np.tile(np.random.default_rng(0).permutation(10), (90, 1))
    shares = found_among_two(scores, *pairs.T).shares()
    expected = chance(10)
    assert shares["both"] == pytest.approx(expected["both"]) == pytest.approx(1 / 45)
    assert shares["first"] == shares["second"] == pytest.approx(expected["one"])
    assert shares["both"] / shares["first"] == pytest.approx(expected["other"])


def test_pairs_are_of_different_classes_and_uniform():
    labels = np.repeat([0, 1, 2, 3], [5, 50, 5, 40])
    first, second = pairs_of_classes(labels, 24000, np.random.default_rng(2))
    counts = np.zeros((4, 4))
    np.add.at(counts, (labels[first], labels[second]), 1)
    assert not counts.diagonal().any()
    # 2000 of each ordered pair of classes, whose standard deviation is 43.
    np.testing.assert_allclose(counts[~np.eye(4, dtype=bool)], 2000, atol=200)
    assert np.bincount(first[labels[first] == 0]).min() > 1000  # of 6000 over 5 examples
    with pytest.raises(ValueError, match="two classes"):
        pairs_of_classes(np.ones(4), 3, np.random.default_rng(0))


def test_the_control_is_at_chance_and_finds_a_partner_that_is_there():
    rng = np.random.default_rng(3)
    labels = rng.integers(10, size=300)
    first, second = pairs_of_classes(labels, 4000, rng)
    # Scores that know the first but not the second, and confuse some classes with others.
    logits = 5 * np.eye(10)[labels] + rng.normal(size=(300, 10)) + 3 * rng.random((10, 10))[labels]
    for partner in (0.0, 0.5):
        scores = logits[first] + partner * logits[second]
        recall = found_among_two(scores, labels[first], labels[second])
        test = absent_partner(int(recall.both.sum()), int(recall.first.sum()), 10)
        assert test.expected == pytest.approx(1 / 9)
        assert (test.p_value < 1e-9) == (partner > 0)
    with pytest.raises(ValueError, match="cannot be tested"):
        absent_partner(0, 0, 10)


# --- Additivity ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_affine_maps_are_additive_and_the_relu_is_not(seed, weight):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 12, 6))
    matrix, bias = rng.normal(size=(6, 5)), rng.normal(size=5)

    def gap(f):
        return additivity_gap(f(weight * a + (1 - weight) * b), f(a), f(b), weight)

    assert gap(lambda x: x @ matrix + bias) < 1e-13
    bent = gap(lambda x: np.maximum(x @ matrix + bias, 0))
    assert bent > 1e-3 or weight * (1 - weight) < 0.02


def test_the_gap_of_a_relu_by_hand():
    # relu(0) = 0, but the mean of relu(1) and relu(-1) is 1/2: all of it is missing.
    assert additivity_gap([[0.0]], [[1.0]], [[0.0]], 0.5) == 1
    # Two pairs: residuals 0 and 1/2 against sums 1 and 1/2.
    gap = additivity_gap([[1.0], [0.0]], [[1.0], [1.0]], [[1.0], [0.0]], 0.5)
    assert gap == pytest.approx(0.5 / np.sqrt(1.25))
    with pytest.raises(ValueError, match="zero"):
        additivity_gap([[1.0]], [[0.0]], [[0.0]], 0.5)


def random_network(relu, blocks=2):
    """A network whose batch normalisation has seen data."""
    network = build(4, blocks, 10, relu, 0)
    with torch.no_grad():
        for _ in range(5):
            network(3 * torch.randn(64, 8, 8, generator=torch.Generator().manual_seed(1)) + 1)
    return network


def test_states_are_those_of_the_formula():
    network = random_network(relu=True, blocks=1).double().eval()
    x = torch.randn(5, 8, 8, generator=torch.Generator().manual_seed(2)).double()

    def conv(part, x, stride=1):
        weight, norm = part[0].weight, part[1]
        x = functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        scale = norm.weight / (norm.running_var + norm.eps) ** 0.5
        return (x - norm.running_mean[:, None, None]) * scale[:, None, None] + norm.bias[
            :, None, None
        ]

    expected = [conv(network.stem, x[:, None]).relu()]
    for stage, stride in zip(network.stages, (1, 2), strict=True):
        (block,) = stage
        inner = conv(block.second, conv(block.first, expected[-1], stride).relu())
        beside = expected[-1] if stride == 1 else conv(block.shortcut, expected[-1], stride)
        expected.append((inner + beside).relu())
    expected.append(expected[-1].flatten(2).mean(dim=2))
    expected.append(expected[-1] @ network.readout.weight.T + network.readout.bias)
    states = network.states(x)
    assert tuple(states) == STAGES
    for name, want in zip(STAGES, expected, strict=True):
        torch.testing.assert_close(states[name], want, rtol=1e-12, atol=1e-12)


def test_without_relus_the_network_is_affine():
    network = random_network(relu=True)
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    data = superposition_trials.digits(PARAMETERS, 0)

    def largest(model):
        states = superposition_trials.states_of(model)
        (half, whole) = superposition_trials.gaps(states, data, [0.5, 1.0])
        assert max(whole["gap"].values()) < 1e-14, "nothing is mixed in"
        return half["gap"]

    assert max(largest(without_activation(network)).values()) < 1e-13
    assert max(largest(random_network(relu=False)).values()) < 1e-13
    assert min(largest(network).values()) > 1e-2
    for name, value in network.state_dict().items():
        torch.testing.assert_close(value, weights[name].to(value.dtype), msg=name)


# --- Embeddings ---------------------------------------------------------------------------------


def brute_force(table, first, second, weight, cosine):
    """Pairs that are the two best of all rows, by sorting."""
    x = weight * table[first] + (1 - weight) * table[second]
    scores = cosine_similarity(x, table) if cosine else x @ table.T
    best = np.sort(np.argsort(-scores, axis=1)[:, :2], axis=1)
    return np.mean(best == np.sort(np.stack([first, second], 1), axis=1), axis=1) == 1


@pytest.mark.parametrize("scores", [2**19, 700])
def test_recall_is_brute_force_in_every_leading_part(monkeypatch, scores):
    monkeypatch.setattr(sums, "_SCORES", scores)
    rng = np.random.default_rng(4)
    table = rng.normal(size=(150, 40)) * rng.uniform(0.3, 3, size=(150, 1)) + 0.3
    first, second = distinct_rows(150, 200, rng)
    entries = recall_by_dimensions(table, first, second, [2, 9, 40], [0.3, 0.5], 0.9)
    assert [entry.dimensions for entry in entries] == [2, 9, 40]
    seen = set()
    for entry in entries:
        for at in entry.weights:
            for name in ("cosine", "inner_product"):
                part = table[:, : entry.dimensions]
                hits = brute_force(part, first, second, at.weight, name == "cosine").sum()
                both = getattr(at, name).both
                assert both.value == hits / 200
                interval = binomtest(int(hits), 200).proportion_ci(0.9, method="exact")
                for end in ("low", "high"):
                    assert getattr(both, end) == pytest.approx(getattr(interval, end), abs=1e-9)
                seen.add(hits)
    assert len(seen) > 5 and max(seen) > 100


@settings(deadline=None, max_examples=20)
@given(st.integers(3, 30), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_orthonormal_rows_are_always_found(rows, weight, seed):
    rng = np.random.default_rng(seed)
    table = np.linalg.qr(rng.normal(size=(rows, rows)))[0]
    first, second = distinct_rows(rows, 20, rng)
    ((entry,),) = (
        recall.weights
        for recall in recall_by_dimensions(table, first, second, [rows], [weight], 0.9)
    )
    for recall in (entry.cosine, entry.inner_product):
        assert {share.value for share in (recall.both, recall.first, recall.second)} == {1.0}


def test_a_row_without_weight_is_not_found():
    first, second = distinct_rows(20, 50, np.random.default_rng(5))
    (recall,) = recall_by_dimensions(np.eye(20), first, second, [20], [1.0], 0.9)
    (entry,) = recall.weights
    assert entry.cosine.first.value == 1 and entry.cosine.both.value == 0


def test_one_dimension_finds_the_extremes_and_no_other_pair():
    table = np.random.default_rng(6).normal(size=(12, 1))
    pairs = np.array(list(itertools.combinations(range(12), 2)))  # [66, 2]
    (recall,) = recall_by_dimensions(table, *pairs.T, [1], [0.5], 0.9)
    # The two largest numbers, and the two least: at most twice what chance finds.
    both = recall.weights[0].inner_product.both.value
    assert 0 < both <= 2 * chance(12)["both"]


@pytest.mark.parametrize(("dimensions", "weight"), [(2, 0.5), (8, 0.5), (24, 0.6), (24, 0.8)])
def test_gaussian_tables_recall_what_is_expected(dimensions, weight):
    rng = np.random.default_rng(7)
    shares = []
    for _ in range(60):
        table = rng.normal(size=(40, dimensions))
        first, second = distinct_rows(40, 20, rng)
        (recall,) = recall_by_dimensions(table, first, second, [dimensions], [weight], 0.9)
        shares.append(recall.weights[0].cosine.both.value)
    expected = expected_recall(40, dimensions, weight, 20000, rng)
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - expected) < 4 * error + 4 * 0.5 / np.sqrt(20000)
    assert 0 < expected < 1


def test_expected_recall_grows_through_the_needed_dimensions():
    rng = np.random.default_rng(8)
    assert needed_dimensions(1000, 0.5) == pytest.approx(4 * np.log(1000))
    assert needed_dimensions(1000, 0.3) == pytest.approx(needed_dimensions(1000, 0.7))
    assert needed_dimensions(1000, 1.0) is None
    for rows, weight in ((10**3, 0.5), (10**5, 0.5), (10**5, 0.7)):
        needed = needed_dimensions(rows, weight)
        few, many = (expected_recall(rows, round(needed * k), weight, 2000, rng) for k in (0.3, 3))
        assert few < 0.2 and many > 0.98
    assert expected_recall(2, 8, 0.4, 100, rng) == 1, "there is no other row"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: found_among_two(np.ones(3), [0], [1]), "shapes"),
        (lambda: found_among_two(np.ones((1, 3)), [1], [1]), "twice"),
        (lambda: found_among_two([[np.nan, 1, 2]], [0], [1]), "finite"),
        (lambda: additivity_gap(np.ones((2, 3)), np.ones((2, 2)), np.ones((2, 3)), 0.5), "differ"),
        (lambda: chance(1), "no pair"),
        (lambda: distinct_rows(1, 2, np.random.default_rng(0)), "no pair"),
        (lambda: recall_by_dimensions(np.eye(3), [0], [1], [4], [0.5], 0.9), "dimensions"),
        (lambda: recall_by_dimensions(np.eye(3), [0], [1], [3, 2], [0.5], 0.9), "dimensions"),
        (lambda: recall_by_dimensions(np.eye(3), [0], [1], [2], [0.5], 0.9), "zero"),
        (
            lambda: recall_by_dimensions(np.inf * np.ones((3, 3)), [0], [1], [3], [0.5], 0.9),
            "finite",
        ),
        (lambda: expected_recall(5, 1, 0.5, 10, np.random.default_rng(0)), "at least 2"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Steps --------------------------------------------------------------------------------------


def trials(folder, seed, parameters=PARAMETERS):
    """Run the trials of a seed; the path of their file."""
    write_json(folder / "job.json", {"parameters": parameters.model_dump()})
    output = folder / f"{seed}.json"
    superposition_trials.main(seed, folder / "job.json", output, folder / "partial", 1)
    return output


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The trials of two seeds, and their summary."""
    folder = tmp_path_factory.mktemp("superposition")
    paths = [trials(folder, seed) for seed in (0, 1)]
    summary = {"name": "tiny", "seeds": [0, 1], "confidence": 0.95}
    write_json(folder / "summary.json", summary)
    step.main(paths, folder / "summary.json", folder / "measured.json")
    return paths, read_sealed(folder / "measured.json")


def test_the_parts_of_the_digits(made):
    data = superposition_trials.digits(PARAMETERS, 0)
    parts = [data.training, data.validation, data.test]
    assert sum(len(part.labels) for part in parts) == 1797
    flat = np.concatenate([part.pixels.reshape(-1, 64) for part in parts])
    assert len(np.unique(flat.round(9), axis=0)) == 1797, "no image is in two parts"
    for part in parts:
        np.testing.assert_allclose(np.bincount(part.labels) / len(part.labels), 0.1, atol=0.01)
    assert abs(data.training.pixels.mean()) < 1e-12
    assert data.training.pixels.std() == pytest.approx(1)
    assert (data.test.labels[data.first] != data.test.labels[data.second]).all()
    again = superposition_trials.digits(PARAMETERS, 0)
    np.testing.assert_array_equal(again.first, data.first)
    assert (superposition_trials.digits(PARAMETERS, 1).first != data.first).any()
    with pytest.raises(ArtifactError, match="test_share"):
        superposition_trials.digits(PARAMETERS.model_copy(update={"test_share": 0.001}), 0)


def test_trials_have_their_form_and_affine_ones_are_additive(made):
    paths, _ = made
    content = read_sealed(paths[0])
    assert content["experiment"] == "superposition" and content["run"] == {}
    by_name = {trial["variant"]["classifier"]: trial for trial in content["trials"]}
    assert list(by_name) == ["relu", "affine", "logistic_regression"]
    for name in ("affine", "logistic_regression"):
        for entry in by_name[name]["mixtures"]:
            assert entry["inputs"] == entry["outputs"]
            assert max(entry["gap"].values()) < 1e-12
    half, whole = by_name["relu"]["mixtures"]
    assert min(half["gap"].values()) > 1e-3 and max(whole["gap"].values()) < 1e-14
    for entry in by_name["relu"]["without_relu"]:
        assert max(entry["gap"].values()) < 1e-12
    # What is not mixed in is alike in the control and at weight 1.
    for name in ("relu", "affine", "logistic_regression"):
        control, (*_, last) = by_name[name]["control"], by_name[name]["mixtures"]
        assert last["inputs"]["both"] == control["both"] / PARAMETERS.pairs


def test_logistic_regression_knows_digits_and_their_mixtures(made):
    paths, _ = made
    for path in paths:
        (regression,) = (
            trial
            for trial in read_sealed(path)["trials"]
            if trial["variant"]["classifier"] == "logistic_regression"
        )
        assert regression["accuracy"] > 0.93
        half, _ = regression["mixtures"]
        assert half["inputs"]["both"] > 5 * chance(10)["both"]
        # Mixed half and half, neither is first.
        assert abs(half["inputs"]["first"] - half["inputs"]["second"]) < 0.3


def test_test_images_choose_nothing():
    data = superposition_trials.digits(PARAMETERS, 0)
    blank = superposition_trials.Images(-data.test.pixels, data.test.labels)
    other = superposition_trials.Data(
        data.training, data.validation, blank, data.first, data.second
    )
    first, second = (superposition_trials.logistic(PARAMETERS, part) for part in (data, other))
    assert first["training"] == second["training"] and first["accuracy"] != second["accuracy"]

    class Nothing:
        """No checkpoint."""

        def load(self):
            return None

        def save(self, state):
            pass

    first, second = (
        superposition_trials.residual(PARAMETERS, part, True, 0)(Nothing(), lambda *_: None)
        for part in (data, other)
    )
    assert first["training"] == second["training"] and first["mixtures"] != second["mixtures"]


@pytest.mark.parametrize("killed_at", [6, 15])
def test_a_killed_seed_ends_with_the_same_bytes(made, tmp_path, monkeypatch, killed_at):
    paths, _ = made
    residual, seen = superposition_trials.residual, []

    def killing(*arguments):
        work = residual(*arguments)

        def killed(checkpoint, report):
            def told(step, loss):
                seen.append(step)
                if len(seen) == killed_at:
                    raise Killed

            return work(checkpoint, told)

        return killed

    monkeypatch.setattr(superposition_trials, "residual", killing)
    with pytest.raises(Killed):
        trials(tmp_path, 0)
    assert (tmp_path / "partial/checkpoint.pt").exists()
    path = trials(tmp_path, 0)
    # It went on after the checkpoint, at step 4 of the first or of the second training.
    assert seen[killed_at] == 5
    assert path.read_bytes() == paths[0].read_bytes()
    assert not (tmp_path / "partial").exists()
    before = path.stat().st_mtime_ns
    trials(tmp_path, 0)
    assert path.stat().st_mtime_ns == before, "it is current"


def test_the_summary_is_of_the_seeds(made):
    paths, summary = made
    assert summary["measurement"] == "superposition" and summary["catalogue"] == ["B5"]
    files = [read_sealed(path) for path in paths]
    by_name = [
        {result["variant"]["classifier"]: result for result in file["trials"]} for file in files
    ]
    for classifier in summary["classifiers"]:
        of_seeds = [trial[classifier["name"]] for trial in by_name]
        assert classifier["accuracy"]["values"] == [trial["accuracy"] for trial in of_seeds]
        for place, entry in enumerate(classifier["mixtures"]):
            at = [trial["mixtures"][place] for trial in of_seeds]
            for mixed, key in itertools.product(("inputs", "outputs"), ("both", "first", "second")):
                assert entry[mixed][key]["values"] == [x[mixed][key] for x in at]
            for stage, gap in entry["gap"].items():
                assert gap["values"] == [x["gap"][stage] for x in at]
        counts = [trial["control"]["both"] for trial in of_seeds]
        assert classifier["control"]["both"] == sum(counts)
        # The control is at chance whatever the classifier has learned.
        assert classifier["control"]["p_value"] > 1e-3
    for place, entry in enumerate(summary["differences"]):
        relu, linear = (
            np.array([t[name]["mixtures"][place]["inputs"]["both"] for t in by_name])
            for name in ("relu", "logistic_regression")
        )
        np.testing.assert_allclose(entry["logistic_regression"]["values"], relu - linear)
    json.dumps(summary, allow_nan=False)


# --- Embeddings of a model ----------------------------------------------------------------------


def sums_of(folder, family="gpt2", name="toy", d=12):
    """Measure a model's table, and read what was written."""
    tables = write_model(folder / name, family, d)
    reading = Reading(family=family, max_tokens=16).model_dump()
    write_json(folder / "job.json", {"parameters": SUMS.model_dump(), "reading": reading})
    output = folder / f"{name}.json"
    embedding_sums.main(name, folder / "job.json", folder / name, output)
    return next(iter(tables.values())).astype(np.float32), read_sealed(output)


def test_the_step_measures_a_table_its_projections_and_a_random_one(tmp_path):
    table, result = sums_of(tmp_path)
    assert result["run"] == {"model": "toy"} and result["catalogue"] == ["B5"]
    assert (result["rows"], result["zero_rows"], result["d_model"]) == (80, 0, 12)
    for name in ("model", "gaussian", "expected"):
        assert [entry["dimensions"] for entry in result[name]] == [2, 4, 8, 12]
    first, second = distinct_rows(80, SUMS.pairs, np.random.default_rng([SUMS.seed, 0]))
    centred = table - table.mean(axis=0)
    for entries, rows in ((result["model"][-1], table), (result["centred"][0], centred)):
        for at in entries["weights"]:
            for name in ("cosine", "inner_product"):
                hits = brute_force(rows, first, second, at["weight"], name == "cosine")
                assert at[name]["both"]["value"] == hits.mean()
    # The table is Gaussian itself: all agree with what is expected.
    for name in ("model", "gaussian"):
        for entry, expected in zip(result[name], result["expected"], strict=True):
            for at, want in zip(entry["weights"], expected["weights"], strict=True):
                spread = np.sqrt(max(want["both"] * (1 - want["both"]), 0.01) / SUMS.pairs)
                assert abs(at["cosine"]["both"]["value"] - want["both"]) < 4.5 * spread
    assert sums_of(tmp_path / "again")[1] == result


def test_rows_of_zeros_and_narrow_tables(tmp_path):
    tokens = np.random.default_rng(9).normal(size=(30, 2)).astype(np.float32)
    tokens[[3, 7]] = 0
    result = embedding_sums.recalls(SUMS, tokens).as_json()
    assert (result["rows"], result["zero_rows"]) == (28, 2)
    assert [entry["dimensions"] for entry in result["model"]] == [2], "no projection is narrower"
    with pytest.raises(ArtifactError, match="too few"):
        embedding_sums.recalls(SUMS, np.zeros((30, 2), np.float32))
    with pytest.raises(ValueError, match="must rise"):
        EmbeddingSums(**{**SUMS.model_dump(), "dimensions": [4, 2]})


# --- The figure ---------------------------------------------------------------------------------


def test_the_figure_shows_recall_and_gaps(made, tmp_path):
    _, images = made
    tables = [
        sums_of(tmp_path, family, name)[1]
        for name, family in (("minilm", "bert"), ("decoder_imdb_1", "gpt2"), ("roberta", "roberta"))
    ]
    section, style = FIGURES.superposition, FIGURES.style
    for shown in ([images, *tables], [images, tables[0]], [images], [*tables[:2]]):
        drawn = figure_of.draw(shown, section, style)
        check_texts(drawn)
        assert ("not run" in " ".join(text.get_text() for text in texts(drawn))) == (
            len(shown) in (1, 2) and (shown == [images] or shown == tables[:2])
        )
    left, middle, right = figure_of.draw([images, *tables], section, style).axes
    shown = [list(line.get_ydata()) for line in left.get_lines()]
    for classifier in images["classifiers"]:
        assert [entry["inputs"]["both"]["value"] for entry in classifier["mixtures"]] in shown
    gaps = [list(line.get_xdata()) for line in middle.get_lines()]
    assert list(np.array([g["value"] for g in images["classifiers"][0]["mixtures"][0]["gap"]
                          .values()])) in gaps  # fmt: skip
    shown = [list(line.get_ydata()) for line in right.get_lines()]
    for measurement in tables:
        for name in ("model", "gaussian"):
            recall = [entry["weights"][0]["cosine"]["both"]["value"] for entry in measurement[name]]
            assert recall in shown
