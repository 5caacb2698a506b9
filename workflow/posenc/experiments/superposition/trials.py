"""Classifiers of mixtures of two images: a small residual network, affine ones, ResNet-50 (B5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError, read_json, sha256_file
from posenc.experiments.frame import Files, Job, Trials, Work, trials_command
from posenc.experiments.superposition.section import SuperpositionTraining
from posenc.metrics.superposition import (
    additivity_gap,
    chance,
    found_among_two,
    pairs_of_classes,
)

NETWORKS = {"relu": True, "affine": False}
"""Trained residual networks, and whether they have ReLUs."""
LOGISTIC, PRETRAINED = "logistic_regression", "resnet_50"
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Inverse penalties of the logistic regression, of which validation images choose."""
AMONG = (2, 5, 10)
"""How many of the highest classes of a network with many classes are looked at."""
FILES = ("config.json", "preprocessor_config.json", "model.safetensors")
NOT_RUN = (
    "needs the weights of resnet-50: set experiments.superposition.NAME.pretrained to their "
    "folder and images to two files"
)

States = Callable[[NDArray[np.float64]], dict[str, NDArray[np.float64]]]
"""From images [n, 8, 8] to what each stage makes of them, [n, features]; the last is ``logits``."""


@dataclass(frozen=True, eq=False)
class Images:
    """Images float64 [n, 8, 8], and their labels int64 [n]."""

    pixels: NDArray[np.float64]
    labels: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Data:
    """The three parts of the digits, and the pairs of test images, int64 [pairs] each."""

    training: Images
    validation: Images
    test: Images
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Digits."""
        return int(self.training.labels.max()) + 1


class SuperpositionJob(Job[SuperpositionTraining]):
    """What the trials depend on."""

    def inputs(self, files: Files) -> dict[str, str]:
        """As :func:`inputs_of`."""
        return inputs_of(self.parameters)


def measure(job: SuperpositionJob, files: Files, trials: Trials) -> None:
    """Train and test all classifiers with one seed."""
    parameters, seed = job.parameters, trials.seed
    data = digits(parameters, seed)
    for name, relu in NETWORKS.items():
        steps = parameters.optimization.steps
        trials.measure({"classifier": name}, steps, residual(parameters, data, relu, seed))
    trials.measure({"classifier": LOGISTIC}, 1, lambda *_: logistic(parameters, data))
    trials.measure({"classifier": PRETRAINED}, 1, lambda *_: pretrained(parameters))


def inputs_of(parameters: SuperpositionTraining) -> dict[str, str]:
    """SHA-256 of the files that the pretrained network is made of, and of its images.

    Raises
    ------
    ArtifactError
        If one is not there.
    """
    if parameters.pretrained is None:
        return {}
    paths = {name: Path(parameters.pretrained) / name for name in FILES}
    paths |= {f"image {index}": Path(path) for index, path in enumerate(parameters.images)}
    for path in paths.values():
        if not path.is_file():
            raise ArtifactError(
                f"{path} is not there: experiments.superposition.*.pretrained must be a folder "
                f"with {', '.join(FILES)}, and images two files"
            )
    return {name: sha256_file(path) for name, path in paths.items()}


def digits(parameters: SuperpositionTraining, seed: int) -> Data:
    """The digits of scikit-learn, in three parts with the same shares of each, standardised.

    Mean and standard deviation are those of all pixels of training images. As the weights of a
    mixture sum to one, it is the same before and after.

    Raises
    ------
    ArtifactError
        If a part is too small to have every digit.
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, labels = load_digits(return_X_y=True)  # [images, 64], [images]
    rest = np.arange(len(labels))
    rows = []
    for share in (parameters.test_share, parameters.validation_share):
        count = round(share * len(labels))
        try:
            rest, held = train_test_split(
                rest, test_size=count, stratify=labels[rest], random_state=seed
            )
        except ValueError as error:
            raise ArtifactError(
                f"experiments.superposition: {count} of {len(labels)} digits cannot be held out "
                f"({error}): change test_share or validation_share in params.yaml"
            ) from error
        rows.append(np.sort(held))
    test, validation = rows
    training = np.sort(rest)
    mean, deviation = pixels[training].mean(), pixels[training].std()
    scaled = ((pixels - mean) / deviation).reshape(-1, 8, 8)  # [images, 8, 8]
    parts = [Images(scaled[r], labels[r].astype(np.int64)) for r in (training, validation, test)]
    # The pairs have a generator of their own: what is trained does not change them.
    generator = np.random.default_rng([seed, 1])
    return Data(*parts, *pairs_of_classes(parts[-1].labels, parameters.pairs, generator))


def residual(parameters: SuperpositionTraining, data: Data, relu: bool, seed: int) -> Work:
    """The trial of a residual network, with ReLUs or without."""

    def work(checkpoint: Any, report: Any) -> dict[str, Any]:
        import torch
        from torch.nn.functional import cross_entropy

        from posenc.experiments.fitting import fit
        from posenc.experiments.superposition.network import build, without_activation

        network = build(parameters.width, parameters.blocks, data.classes, relu, seed)
        (images, labels), (held, held_labels) = (
            (torch.from_numpy(part.pixels.astype(np.float32)), torch.from_numpy(part.labels))
            for part in (data.training, data.validation)
        )  # [n, 8, 8] and [n] each
        fitted = fit(
            network,
            lambda rows: cross_entropy(network(images[rows]).float(), labels[rows]),
            len(images),
            lambda: float(cross_entropy(network(held).float(), held_labels)),
            parameters.optimization,
            seed,
            checkpoint,
            report=report,
        )
        found = {
            "numbers": sum(p.numel() for p in network.parameters()),
            "training": fitted.as_json(),
            **tested(states_of(network), data, parameters.weights),
        }
        if relu:
            states = states_of(without_activation(network))
            found["without_relu"] = gaps(states, data, parameters.weights)
        return found

    return work


def states_of(network: Any) -> States:
    """A residual network's states in float64, so that rounding is far below any gap."""
    import torch

    network = network.double().eval()

    def states(images: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with torch.inference_mode():
            found = network.states(torch.from_numpy(images))
        return {name: state.flatten(1).numpy() for name, state in found.items()}

    return states


def logistic(parameters: SuperpositionTraining, data: Data) -> dict[str, Any]:
    """The trial of multinomial logistic regression; its penalty is chosen on validation images."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    def flat(images: NDArray[np.float64]) -> NDArray[np.float64]:
        return images.reshape(len(images), -1)  # [n, 64]

    losses, fitted = [], []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000)
        fitted.append(model.fit(flat(data.training.pixels), data.training.labels))
        guess = model.predict_proba(flat(data.validation.pixels))  # [validation, classes]
        losses.append(log_loss(data.validation.labels, guess, labels=model.classes_))
    best = int(np.argmin(losses))
    return {
        "numbers": int(fitted[best].coef_.size + fitted[best].intercept_.size),
        "training": {"strength": STRENGTHS[best], "validation_loss": float(losses[best])},
        **tested(
            lambda images: {"logits": fitted[best].decision_function(flat(images))},
            data,
            parameters.weights,
        ),
    }


def tested(states: States, data: Data, weights: list[float]) -> dict[str, Any]:
    """Accuracy on test images, and recall and gap of mixtures of pairs of them.

    Parameters
    ----------
    states
        Of the classifier.
    data
        Its test images and pairs.
    weights
        Mixing weights.

    Returns
    -------
    ``images`` and ``accuracy``; ``mixtures``, by weight: recall of both classes where ``inputs``
    are mixed, and where the ``outputs`` of the two images are, as an additive classifier would
    do; ``control``: pairs of which the second was not mixed in.
    """
    alone = states(data.test.pixels)["logits"]  # [test, classes]
    labels = data.test.labels  # [test]
    classes = labels[data.first], labels[data.second]  # [pairs] each
    mixtures = []
    for weight, mixed, gap in _mixtures(states, data, weights):
        sums = weight * alone[data.first] + (1 - weight) * alone[data.second]  # [pairs, classes]
        mixtures.append(
            {
                "weight": weight,
                "inputs": found_among_two(mixed, *classes).shares(),
                "outputs": found_among_two(sums, *classes).shares(),
                "gap": gap,
            }
        )
    control = found_among_two(alone[data.first], *classes)
    return {
        "images": {
            "training": len(data.training.labels),
            "validation": len(data.validation.labels),
            "test": len(labels),
            "pairs": len(data.first),
            "classes": data.classes,
        },
        "accuracy": float(np.mean(alone.argmax(axis=1) == labels)),
        "mixtures": mixtures,
        "control": {"both": int(control.both.sum()), "first": int(control.first.sum())},
    }


def gaps(states: States, data: Data, weights: list[float]) -> list[dict[str, Any]]:
    """How far each stage is from additive, by weight."""
    return [{"weight": weight, "gap": gap} for weight, _, gap in _mixtures(states, data, weights)]


def _mixtures(states: States, data: Data, weights: list[float]) -> Any:
    """For each weight the logits of the mixtures, [pairs, classes], and the gap of each stage."""
    a, b = data.test.pixels[data.first], data.test.pixels[data.second]  # [pairs, 8, 8] each
    of_a, of_b = states(a), states(b)
    for weight in weights:
        mixed = states(weight * a + (1 - weight) * b)
        gap = {
            name: additivity_gap(
                *(_seen(name, one[name]) for one in (mixed, of_a, of_b)), weight=weight
            )
            for name in mixed
        }
        yield weight, mixed["logits"], gap


def _seen(name: str, state: NDArray[np.float64]) -> NDArray[np.float64]:
    """A constant that is added to all logits of an image changes no probability."""
    return state - state.mean(axis=1, keepdims=True) if name == "logits" else state


def pretrained(parameters: SuperpositionTraining) -> dict[str, Any]:
    """What ResNet-50 finds in two images and in the mean of their pixels.

    The class of an image is the highest of the image alone. The mean is taken after the
    preprocessing.

    Raises
    ------
    ArtifactError
        If the weights are not those of such a network, or both images have the same class.
    """
    if parameters.pretrained is None:
        return {"status": "not run", "reason": NOT_RUN}
    logits, labels = _pretrained_logits(Path(parameters.pretrained), parameters.images)
    own = logits[:2].argmax(axis=1)  # [2]
    if own[0] == own[1]:
        raise ArtifactError(
            f"experiments.superposition.*.images: both are {labels[own[0]]!r} to the network; take "
            f"two of different classes"
        )
    mixed = logits[2]  # [classes]
    ranks = [1 + int(np.sum(mixed > mixed[one])) for one in own]
    seen = logits - logits.mean(axis=1, keepdims=True)  # [3, classes]
    return {
        "status": "measured",
        "reason": None,
        "classes": len(mixed),
        "images": [{"class": int(c), "top": _top(one, labels)}
                   for c, one in zip(own, logits[:2], strict=True)],
        "mean": {"top": _top(mixed, labels), "ranks": ranks},
        "among": [
            {
                "top": k,
                "found": [rank <= k for rank in ranks],
                "both": max(ranks) <= k,
                "chance": chance(len(mixed))["both"] * k * (k - 1) / 2,
            }
            for k in AMONG if k <= len(mixed)
        ],
        "gap": additivity_gap(seen[2:], seen[:1], seen[1:2], 0.5),
    }  # fmt: skip


def _pretrained_logits(
    folder: Path, images: list[str]
) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Logits of both images and of their mean, [3, classes], and the names of the classes."""
    import torch
    from transformers import AutoImageProcessor, ResNetForImageClassification
    from transformers.image_utils import load_image

    kind = read_json(folder / FILES[0]).get("model_type")
    if kind != "resnet":
        raise ArtifactError(f"{folder} holds a model of type {kind!r}: it must be 'resnet'")
    network, loaded = ResNetForImageClassification.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, output_loading_info=True
    )
    # The library would draw them at random, and only warn.
    if loaded["missing_keys"]:
        raise ArtifactError(f"{folder / FILES[2]} lacks {len(loaded['missing_keys'])} tensors")
    processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True, backend="pil")
    try:
        read = [load_image(path) for path in images]
    except OSError as error:
        raise ArtifactError(f"experiments.superposition.*.images: {error}") from error
    pixels = processor(read, return_tensors="pt")["pixel_values"]  # [2, 3, height, width]
    with torch.inference_mode():
        both = torch.cat([pixels, pixels.mean(dim=0, keepdim=True)])  # [3, 3, height, width]
        logits = network.eval()(both).logits  # [3, classes]
    return logits.double().numpy(), network.config.id2label


def _top(logits: NDArray[np.float64], labels: dict[int, str]) -> list[dict[str, Any]]:
    """The highest classes of an image, by falling probability."""
    from scipy.special import softmax

    probability = softmax(logits)  # [classes]
    order = np.argsort(-logits, kind="stable")[: max(AMONG)]
    return [
        {"class": int(c), "label": str(labels[int(c)]), "probability": float(probability[c])}
        for c in order
    ]


main = trials_command(
    "superposition", SuperpositionJob, measure, uses=("scikit-learn", "transformers")
)

if __name__ == "__main__":
    run(main)
