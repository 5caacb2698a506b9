"""Classifiers of mixtures of two images: a small residual network, and affine ones (B5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.experiments.frame import (
    Files,
    Job,
    Report,
    Training,
    Trials,
    Work,
    trials_command,
)
from posenc.experiments.superposition.section import SuperpositionTraining
from posenc.metrics.superposition import additivity_gap, found_among_two, pairs_of_classes

NETWORKS = {"relu": True, "affine": False}
"""Trained residual networks, and whether they have ReLUs."""
LOGISTIC = "logistic_regression"
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Inverse penalties of the logistic regression, of which validation images choose."""
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


class Stages(TypedDict):
    """How far the stages of a classifier are from additive, at a mixing weight."""

    weight: float
    gap: dict[str, float]
    """By stage."""


class Mixture(Stages):
    """What a classifier finds of pairs at a mixing weight, too.

    Shares of pairs of which ``both`` classes, the ``first`` or the ``second`` have the two highest
    scores.
    """

    inputs: dict[str, float]
    """Where images are mixed."""
    outputs: dict[str, float]
    """Where the outputs of both images are mixed, as an additive classifier would do."""


class Sizes(TypedDict):
    """Images of each part, and the pairs of test images that are mixed."""

    training: int
    validation: int
    test: int
    pairs: int
    classes: int


class Control(TypedDict):
    """Pairs of which both, and the first, are found where the second was not mixed in."""

    both: int
    first: int


class Tested(TypedDict):
    """What a classifier finds of test images."""

    images: Sizes
    accuracy: float
    """Of single images."""
    mixtures: list[Mixture]
    control: Control


class Regularisation(TypedDict):
    """The inverse penalty of a logistic regression, and its validation loss."""

    strength: float
    validation_loss: float


class OfClassifier(Tested):
    """A trial of a classifier."""

    numbers: int
    """That it learns."""
    training: Training | Regularisation
    without_relu: NotRequired[list[Stages]]
    """Of the trained network whose ReLUs are taken out."""


class SuperpositionJob(Job[SuperpositionTraining]):
    """What the trials depend on."""


def measure(job: SuperpositionJob, files: Files, trials: Trials) -> None:
    """Train and test all classifiers with one seed."""
    parameters, seed = job.parameters, trials.seed
    data = digits(parameters, seed)
    for name, relu in NETWORKS.items():
        steps = parameters.optimization.steps
        trials.measure({"classifier": name}, steps, residual(parameters, data, relu, seed))
    trials.measure({"classifier": LOGISTIC}, 1, lambda *_: logistic(parameters, data))


def digits(parameters: SuperpositionTraining, seed: int) -> Data:
    """The digits of scikit-learn, in three parts with the same shares of each, standardised.

    Mean and standard deviation are those of all pixels of training images. As the weights of a
    mixture sum to one, standardising before mixing is the same as after.

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
    first, second = pairs_of_classes(parts[-1].labels, parameters.pairs, generator)
    return Data(parts[0], parts[1], parts[2], first, second)


def residual(parameters: SuperpositionTraining, data: Data, relu: bool, seed: int) -> Work:
    """The trial of a residual network, with ReLUs or without."""

    def work(checkpoint: Checkpoint, report: Report) -> OfClassifier:
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
        result: OfClassifier = {
            "numbers": sum(p.numel() for p in network.parameters()),
            "training": fitted.as_json(),
            **tested(states_of(network), data, parameters.weights),
        }
        if relu:
            states = states_of(without_activation(network))
            result["without_relu"] = gaps(states, data, parameters.weights)
        return result

    return work


def states_of(network: Any) -> States:
    """A residual network's states in float64, so that rounding is far below any gap."""
    import torch

    network = network.double().eval()

    def states(images: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        with torch.inference_mode():
            by_stage = network.states(torch.from_numpy(images))
        return {name: state.flatten(1).numpy() for name, state in by_stage.items()}

    return states


def logistic(parameters: SuperpositionTraining, data: Data) -> OfClassifier:
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


def tested(states: States, data: Data, weights: list[float]) -> Tested:
    """Accuracy on test images, and recall and gap of mixtures of pairs of them.

    Parameters
    ----------
    states
        Of the classifier.
    data
        Its test images and pairs.
    weights
        Mixing weights.
    """
    alone = states(data.test.pixels)["logits"]  # [test, classes]
    labels = data.test.labels  # [test]
    classes = labels[data.first], labels[data.second]  # [pairs] each
    mixtures: list[Mixture] = []
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


def gaps(states: States, data: Data, weights: list[float]) -> list[Stages]:
    """How far each stage is from additive, by weight."""
    return [{"weight": weight, "gap": gap} for weight, _, gap in _mixtures(states, data, weights)]


def _mixtures(
    states: States, data: Data, weights: list[float]
) -> Iterator[tuple[float, NDArray[np.float64], dict[str, float]]]:
    """For each weight the logits of the mixtures, [pairs, classes], and the gap of each stage."""
    a, b = data.test.pixels[data.first], data.test.pixels[data.second]  # [pairs, 8, 8] each
    of_a, of_b = states(a), states(b)
    for weight in weights:
        mixed = states(weight * a + (1 - weight) * b)
        gap = {
            name: additivity_gap(
                _seen(name, mixed[name]),
                _seen(name, of_a[name]),
                _seen(name, of_b[name]),
                weight=weight,
            )
            for name in mixed
        }
        yield weight, mixed["logits"], gap


def _seen(name: str, state: NDArray[np.float64]) -> NDArray[np.float64]:
    """A constant that is added to all logits of an image changes no probability."""
    return state - state.mean(axis=1, keepdims=True) if name == "logits" else state


main = trials_command("superposition", SuperpositionJob, measure, uses=("scikit-learn",))

if __name__ == "__main__":
    run(main)
