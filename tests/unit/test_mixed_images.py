"""Two photographs in one: means over pairs, states of networks, and what is found of both."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import load_file, save_file
from scipy.stats import binomtest
from sklearn.metrics.pairwise import cosine_similarity

from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file, sha256_json, write_json
from posenc.measurements.mixed_images import figure as figure_of
from posenc.measurements.mixed_images import measure as step
from posenc.measurements.mixed_images.declaration import Images, MixedImages
from posenc.measurements.mixed_images.measure import HALF
from posenc.metrics.bootstrap import resampling_counts
from posenc.metrics.mixed_images import Mixtures, found_among, ranks
from posenc.metrics.pairs import PairMeans, balanced_pairs
from posenc.models import image_networks
from posenc.models.files import ModelError
from posenc.models.section import PathSource

from . import synthetic
from .synthetic_experiments import mixed_images as made_up
from .test_figures import check_texts, texts

PARAMS = synthetic.params_of()
REAL = PARAMS.measurements.mixed_images
OPTIONS = {"samples": 300, "confidence": 0.9, "seed": 1}

pytestmark = pytest.mark.usefixtures("one_thread")


# --- Means over pairs ---------------------------------------------------------------------------


@given(st.integers(2, 12))
def test_every_pair_is_there_once_and_members_are_first_as_often_as_second(n):
    first, second = balanced_pairs(np.arange(n) + 5)
    pairs = sorted(map(tuple, np.sort(np.stack([first, second], 1), axis=1).tolist()))
    assert pairs == list(itertools.combinations(range(5, n + 5), 2))
    counts = np.bincount(first, minlength=n + 5) - np.bincount(second, minlength=n + 5)
    assert abs(counts).max() <= 1


def test_resampled_means_are_those_of_the_drawn_things():
    rng = np.random.default_rng(0)
    first, second = balanced_pairs([3, 4, 8, 9, 11])
    values = rng.normal(size=(10, 2))
    means = PairMeans(values, first, second, **OPTIONS)
    np.testing.assert_allclose(means.value, values.mean(axis=0))
    table = {frozenset(pair): row for *pair, row in zip(first, second, values, strict=True)}
    expected = []
    for counts in np.concatenate(list(resampling_counts(5, 300, 1))):
        drawn = np.repeat([3, 4, 8, 9, 11], counts)
        rows = [table[frozenset(p)] for p in itertools.combinations(drawn, 2) if p[0] != p[1]]
        if rows:
            expected.append(np.mean(rows, axis=0))
    np.testing.assert_allclose(means.replicates, expected)


def test_the_interval_is_of_things_and_not_of_pairs():
    # x_ij = u_i + u_j: the variance of the mean of all pairs is 4 / n, not 2 / pairs.
    n = 40
    first, second = balanced_pairs(np.arange(n))
    spreads = []
    for seed in range(20):
        u = np.random.default_rng(seed).normal(size=n)
        means = PairMeans((u[first] + u[second])[:, None], first, second, **OPTIONS)
        spreads.append(means.replicates.std())
    assert np.mean(spreads) == pytest.approx(2 / np.sqrt(n), rel=0.1)
    assert np.sqrt(2 / len(first)) < 0.2 * np.mean(spreads)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_what_all_pairs_share_has_the_interval_of_disjoint_pairs(value):
    first, second = balanced_pairs(np.arange(9))
    columns = np.stack([np.full(36, value), np.arange(36) % 2], axis=1)
    means = PairMeans(columns, first, second, **OPTIONS)
    same, mixed = means.shares()
    exact = binomtest(int(4 * value), 4).proportion_ci(0.9, method="exact")
    assert (same.low, same.high) == pytest.approx((exact.low, exact.high))
    assert mixed.as_json() == means.estimates()[1].as_json()
    estimate = PairMeans([[0.3]], [0], [1], **OPTIONS).estimates()[0]
    assert estimate.as_json() == {"value": 0.3, "low": 0.3, "high": 0.3}


# --- Ranks and neighbours -----------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(3, 9), st.integers(2, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_ranks_are_those_of_sorting_and_others_are_counted(k, n, seed, with_ties):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (n, k + 3)) if with_ties else rng.normal(size=(n, k + 3))
    choices = rng.permutation(k + 3)[:k]
    places = ranks(scores, choices)
    for row, ranked in zip(scores, places, strict=True):
        assert ranked.tolist() == [sum(row >= row[choice]) for choice in choices]
    first, second = np.zeros(n, int), np.full(n, k - 1)
    for top in (2, 4):
        hits = found_among(places, first, second, top)
        for at, row in enumerate(places):
            high = {choice for choice in range(k) if row[choice] <= top}
            assert hits["both"][at] == ({0, k - 1} <= high)
            assert hits["either"][at] == bool({0, k - 1} & high)
            assert (hits["first"][at], hits["second"][at]) == (0 in high, k - 1 in high)
            pairs = list(itertools.combinations(range(1, k - 1), 2))
            share = np.mean([set(pair) <= high for pair in pairs]) if pairs else 0
            assert hits["others"][at] == pytest.approx(share)


def test_mixtures_are_compared_as_by_hand_in_any_parts():
    rng = np.random.default_rng(2)
    pictures, matrix = rng.normal(size=(7, 12)), rng.normal(size=(12, 9))
    first, second = balanced_pairs([0, 2, 3, 6])
    inputs = 0.3 * pictures[first] + 0.7 * pictures[second]
    for f, is_linear in (
        (lambda x: x @ matrix + 2, True),
        (lambda x: np.maximum(x @ matrix, 0), False),
    ):
        states, mixed = f(pictures), f(inputs)
        mixtures = Mixtures(states, first, second, 0.3)
        for part in np.split(mixed, [1, 4]):
            mixtures.add(part)
        sums = 0.3 * states[first] + 0.7 * states[second]
        np.testing.assert_allclose(
            mixtures.square, ((mixed - sums) ** 2).sum(1), atol=1e-9, rtol=1e-4
        )
        np.testing.assert_allclose(
            mixtures.distance, ((states[first] - states[second]) ** 2).sum(1)
        )
        centred = states - states.mean(axis=0)
        for scores, x in ((mixtures.inputs, mixed), (mixtures.outputs, sums)):
            x = x - states.mean(axis=0)
            cosines = cosine_similarity(x, centred)
            size = np.linalg.norm(x, axis=1, keepdims=True)
            np.testing.assert_allclose(scores, size * cosines, rtol=1e-4, atol=1e-4)
        assert (mixtures.square.max() < 1e-9) == is_linear


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PairMeans(np.ones(3), [0], [1], **OPTIONS), "shapes"),
        (lambda: PairMeans(np.ones((1, 1)), [1], [1], **OPTIONS), "twice the same"),
        (lambda: PairMeans(np.ones((0, 1)), [], [], **OPTIONS), "no pair"),
        (lambda: PairMeans([[np.nan]], [0], [1], **OPTIONS), "finite"),
        (lambda: Mixtures(np.ones((3, 4)), np.array([0]), np.array([1]), 0.5), "mean of all"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- The package of weights and the pictures ----------------------------------------------------


@pytest.fixture(scope="module")
def efficientnet():
    """The pretrained network of the default study, its pictures and their states."""
    network = image_networks.load(REAL.network)
    pixels = network.pixels(list(step.image_paths(REAL.images).values()))
    return network, pixels, step.states_of(network, pixels)


def test_the_network_knows_its_labelled_pictures(efficientnet):
    # 75 % of ImageNet's pictures, by the published evaluation; pixels of another form than it
    # expects would show.
    _, _, states = efficientnet
    labels = list(REAL.images.classes.values())
    assert labels == [int(file.split("_")[-1][:-4]) for file in REAL.images.classes]
    assert np.mean(states["logits"].argmax(axis=1) == labels) >= 0.8


def test_states_are_those_of_the_librarys_own_forward_pass(efficientnet):
    network, pixels, states = efficientnet
    module, x = network.module, pixels[:3]
    with torch.inference_mode():
        logits = module(x)
        expected = {"pixels": x, "logits": logits - logits.mean(1, keepdim=True)}
        # Block by block, as the library's extract_features.
        x = expected["stem"] = module._swish(module._bn0(module._conv_stem(x)))
        ends, stage = (
            {0: 1, 2: 2, 4: 3, 7: 4, 10: 5, 14: 6, 15: 7},
            0,
        )  # repeats 1, 2, 2, 3, 3, 4, 1
        for index, block in enumerate(module._blocks):
            x = block(x)
            if stage := ends.get(index):
                expected[f"stage {stage}"] = x
        expected["pooled"] = module._swish(module._bn1(module._conv_head(x))).mean(dim=(2, 3))
    assert network.stages == tuple(states) and set(expected) == set(states)
    for name, want in expected.items():
        np.testing.assert_allclose(states[name][:3], want.flatten(1), rtol=1e-3, atol=1e-4)


def test_pictures_are_cut_and_scaled_as_published(efficientnet, tmp_path):
    network, _, _ = efficientnet
    picture = np.zeros((128, 256, 3), np.uint8)  # twice as large: 256 x 512, of which 224 are seen
    picture[:, 128:] = (255, 127, 63)
    Image.fromarray(picture).save(tmp_path / "half.png")
    (pixels,) = network.pixels([tmp_path / "half.png"])
    assert pixels.shape == (3, 224, 224)
    expected = (np.array([255, 127, 63]) - 127) / 128
    coloured = np.broadcast_to(expected[:, None, None], (3, 224, 100))
    np.testing.assert_allclose(pixels[:, :, -100:], coloured, atol=1e-6)
    np.testing.assert_allclose(pixels[:, :, :100], -127 / 128, atol=1e-6)
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ModelError, match="cannot be read as a picture"):
        network.pixels([tmp_path / "text.png"])


def test_an_untrained_network_has_its_librarys_initial_weights(efficientnet):
    _, pixels, states = efficientnet
    untrained = []
    for seed in (0, 0, 1):
        network = image_networks.load(REAL.network)
        image_networks.untrained(network, pixels[:4], seed)
        untrained.append(step.states_of(network, pixels[:4]))
    for name in network.taps:
        np.testing.assert_array_equal(untrained[0][name], untrained[1][name])
        assert not np.allclose(untrained[0][name], untrained[2][name], rtol=1e-2)
        assert not np.allclose(untrained[0][name], states[name][:4], rtol=1e-2)
    # Normalised by what it was shown: no state has died away.
    (norm,) = (m for name, m in network.module.named_modules() if name == "_blocks.0._bn2")
    with torch.inference_mode():
        inner = network.module._blocks[0](
            network.module._swish(network.module._bn0(network.module._conv_stem(pixels[:4])))
        )
    np.testing.assert_allclose(inner.mean(dim=(0, 2, 3)), 0, atol=1e-4)
    # But for the 0.001 that is added to the variances.
    np.testing.assert_allclose(inner.std(dim=(0, 2, 3)), 1, atol=0.05)
    assert norm.training is False


def test_packages_are_checked(tmp_path):
    def network(**update):
        return REAL.network.model_copy(update=update)

    with pytest.raises(ModelError, match="is not installed"):
        image_networks.load(network(package="no_such_package"))
    with pytest.raises(ModelError, match="holds 0 files"):
        image_networks.load(network(package="foolbox"))
    with pytest.raises(ModelError, match="another file"):
        image_networks.load(network(sha256="0" * 64))
    with pytest.raises(ArtifactError, match="write that"):
        step.image_paths(REAL.images.model_copy(update={"sha256": "0" * 64}))
    with pytest.raises(ArtifactError, match="is not there"):
        step.image_paths(REAL.images.model_copy(update={"classes": {"data/absent.jpg": 3}}))


# --- A network and pictures of one's own --------------------------------------------------------


def network_of(folder):
    """The section of params.yaml for a folder in the hub's format."""
    return PathSource(
        kind="path",
        path=str(folder),
        sha256=sha256_file(folder / "model.safetensors"),
        files={"config.json": sha256_file(folder / "config.json")},
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small ResNet in the hub's format that tells five pictures apart."""
    from transformers import ResNetConfig, ResNetForImageClassification

    folder = tmp_path_factory.mktemp("own")
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=12
    )
    rng = np.random.default_rng(0)
    pictures = {}
    for name in range(5):
        coarse = rng.integers(0, 256, (2 + name, 3, 3)).astype(np.uint8)
        path = str(folder / f"{name}.png")
        Image.fromarray(coarse).resize((230, 226 + name)).save(path)
        pictures[path] = None
    torch.manual_seed(0)
    network = ResNetForImageClassification(config).eval()
    network.save_pretrained(folder / "weights")
    source = network_of(folder / "weights")
    pixels = image_networks.load(source).pixels(list(pictures))
    with torch.no_grad():
        pooled = network.resnet(pixels).pooler_output.flatten(1)  # [5, 16]
        apart = torch.linalg.pinv(pooled - pooled.mean(0)).T  # [5, 16]
        # Class 2 i is what picture i has and the others lack.
        network.classifier[1].weight[0:10:2] = 9 * apart
        network.classifier[1].bias[0:10:2] = -9 * (apart @ pooled.mean(0))
    network.save_pretrained(folder / "weights")
    digest = sha256_json({file: sha256_file(file) for file in pictures})
    images = Images(package=None, classes=pictures, sha256=digest)
    parameters = MixedImages(
        network=network_of(folder / "weights"), images=images, weights=[1.0, 0.5, 0.7], top=[2, 3],
        bootstrap_samples=200, confidence=0.9, seed=3,
    )  # fmt: skip
    return parameters, network, pixels


def test_the_step_finds_what_the_library_does(own, tmp_path):
    parameters, network, pixels = own
    write_json(tmp_path / "job.json", {"parameters": parameters.model_dump()})
    step.main(tmp_path / "job.json", tmp_path / "found.json")
    measurement = read_sealed(tmp_path / "found.json")
    assert measurement["measurement"] == "mixed_images" and measurement["catalogue"] == ["B5"]
    assert (measurement["recognised"], measurement["pairs"], measurement["run"]) == (5, 10, {})
    assert [image["highest"] for image in measurement["images"]] == [0, 2, 4, 6, 8]
    first, second = balanced_pairs(range(5))
    with torch.inference_mode():
        alone = network(pixels).logits
        for entry in measurement["mixtures"]:
            w = entry["weight"]
            mixed = network(w * pixels[first] + (1 - w) * pixels[second]).logits
            sums = w * alone[first] + (1 - w) * alone[second]
            faded = network(w * pixels).logits
            for share in entry["faded"]:
                own_class = torch.arange(0, 10, 2)[:, None]
                hits = (faded.topk(share["top"]).indices == own_class).any(1).float().mean()
                assert share["share"]["value"] == pytest.approx(float(hits))
            for recognition in entry["found"]:
                for key, logits in (("both", mixed), ("outputs", sums)):
                    classes = logits if recognition["among"] == "all" else logits[:, 0:10:2]
                    step_of = 2 if recognition["among"] == "all" else 1
                    high = classes.topk(recognition["top"]).indices
                    hits = [
                        {step_of * a, step_of * b} <= set(row)
                        for a, b, row in zip(first, second, high.tolist(), strict=True)
                    ]
                    assert recognition[key]["value"] == np.mean(hits)
                assert recognition["lost"]["value"] == pytest.approx(
                    recognition["outputs"]["value"] - recognition["both"]["value"]
                )
    stages = {stage["stage"]: stage for stage in measurement["stages"]}
    assert list(stages) == ["pixels", "stem", "stage 1", "stage 2", "pooled", "logits"]
    with torch.inference_mode():
        states = network.resnet(pixels).pooler_output.flatten(1).numpy()
        mixed = network.resnet(HALF * (pixels[first] + pixels[second])).pooler_output.flatten(1)
    rest = mixed.numpy() - HALF * (states[first] + states[second])
    gap = np.sqrt((rest**2).sum() / ((states[first] - states[second]) ** 2).sum())
    assert stages["pooled"]["trained"]["gap"]["value"] == pytest.approx(gap, rel=1e-4)
    for network_kind in ("trained", "untrained"):
        assert stages["pixels"][network_kind]["gap"]["high"] < 1e-6, "pixels are mixed as they are"
    assert measurement["provenance"]["inputs"].keys() == {
        "config.json",
        "model.safetensors",
        "images",
    }
    again = step.measure(parameters)[0].as_json()
    assert again == {key: measurement[key] for key in again}
    json.dumps(measurement, allow_nan=False)


def test_pictures_that_are_not_recognised_are_left_out(own):
    parameters, _, _ = own
    logits = np.eye(4)[[2, 0, 2, 3, 1]]
    classes, recognised = step.recognised_alone(logits, [2, None, None, 1, 1])
    assert classes.tolist() == [2, 0, 2, 3, 1]
    assert recognised.tolist() == [0, 1, 4], "the third has the class of the first"
    with pytest.raises(ArtifactError, match="recognises 1 of 2"):
        step.recognised_alone(logits[:2], [2, 3])
    with pytest.raises(ArtifactError, match="has 4 classes"):
        step.recognised_alone(logits[:2], [2, 4])
    with pytest.raises(ValueError, match="at least 2"):
        Images(**{**parameters.images.model_dump(), "classes": {"one.png": None}})


def test_what_is_wrong_with_a_folder_is_said(own, tmp_path):
    parameters, _, _ = own
    folder = tmp_path / "weights"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes(
            (synthetic.PROJECT / parameters.network.path / name).read_bytes()
        )
    with pytest.raises(ModelError, match="another file"):
        image_networks.load(parameters.network.model_copy(update={"sha256": "1" * 64}))
    with pytest.raises(ModelError, match=r"no checksum of config\.json"):
        image_networks.load(parameters.network.model_copy(update={"files": {}}))
    tensors = load_file(folder / "model.safetensors")
    del tensors["classifier.1.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 tensor"):
        image_networks.load(network_of(folder))
    write_json(folder / "config.json", {"model_type": "vit"})
    with pytest.raises(ModelError, match="'vit'"):
        image_networks.load(network_of(folder))


# --- The figure ---------------------------------------------------------------------------------


def test_the_figure_shows_the_measured_numbers():
    section, style, measurement = PARAMS.figures.mixed_images, PARAMS.figures.style, made_up()
    drawn = figure_of.draw([measurement], section, style)
    check_texts(drawn)
    left, middle, right = drawn.axes
    shown = [list(line.get_ydata()) for line in left.get_lines()]
    for index in range(len(measurement["mixtures"][0]["found"])):
        for key in ("both", "outputs"):
            assert [
                entry["found"][index][key]["value"] for entry in measurement["mixtures"]
            ] in shown
    for axes, key in ((middle, "inputs"), (right, "gap")):
        shown = [list(line.get_xdata()) for line in axes.get_lines()]
        for network in ("trained", "untrained"):
            assert [entry[network][key]["value"] for entry in measurement["stages"]] in shown
    assert "not run" in " ".join(
        text.get_text() for text in texts(figure_of.draw([], section, style))
    )
