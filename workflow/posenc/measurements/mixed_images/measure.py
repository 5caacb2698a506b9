"""What a pretrained network finds of two photographs in their average, and at which stage (B5)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, sha256_file, sha256_json
from posenc.artifacts.results import Interval
from posenc.measurements.frame import Config, Output, StudyJob, bootstrap, seal
from posenc.measurements.mixed_images.declaration import MEASUREMENT, Images, MixedImages
from posenc.measurements.mixed_images.result import (
    Chance,
    Faded,
    MixedPhotographs,
    Mixture,
    Network,
    Picture,
    Published,
    Recall,
    Recognition,
    Stage,
)
from posenc.metrics.mixed_images import Mixtures, found_among, ranks
from posenc.metrics.pairs import PairMeans, balanced_pairs
from posenc.metrics.superposition import chance, found_among_two, proportion
from posenc.models.devices import use_threads

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.models.image_networks import ImageNetwork

HALF = 0.5
BATCH = 8
"""Pictures in a forward pass."""
PUBLISHED = Published(
    classifier="ResNet-50", images=["panda", "banana"], weight=HALF, found=0, both=0.0
)
"""What the document found that raised the question (S1): neither image of one pair. The images had
equal weights; whether their sum was halved is not known."""


def measure(parameters: MixedImages) -> tuple[MixedPhotographs, dict[str, str]]:
    """What is found of all pairs of pictures that the network recognises alone.

    A picture is recognised if its highest class is the one that it has; where that is not known the
    highest class counts as its own. Both classes are looked for among the highest of the mixture,
    and among those of the mixture of both outputs, which is what an additive network would say.
    Beside them stands how often a picture mixed with grey is recognised: an average has less
    contrast, too.

    Stage by stage, at equal weights, the state of the average is compared with those of all
    pictures: are the two that were mixed the nearest? The same network with its initial weights
    stands beside it.

    Returns
    -------
    The results, and the checksums of what was read.

    Raises
    ------
    ArtifactError
        If a file is missing or has changed, or fewer than two pictures of different classes are
        recognised.
    """
    from posenc.models import image_networks

    use_threads(1)
    paths = image_paths(parameters.images)
    network = image_networks.load(parameters.network)
    pixels = network.pixels(list(paths.values()))  # [images, 3, size, size]
    alone = states_of(network, pixels)
    logits = alone[image_networks.LOGITS]  # [images, classes]
    known = list(parameters.images.classes.values())
    own, recognised = recognised_alone(logits, known)
    pairs = Pairs(parameters, *balanced_pairs(recognised))
    trained, halves = stages_of(network, pixels, alone, pairs)
    by_weight = []
    for weight in parameters.weights:
        if weight in (0, 1):  # a picture alone
            mixed = logits[pairs.first if weight else pairs.second]  # [pairs, classes]
        elif weight == HALF:
            mixed = halves
        else:
            parts = mixtures(pixels, pairs, weight)
            mixed = np.concatenate([network.logits(part).numpy() for part in parts])
        faded = network.logits(weight * pixels[recognised]).numpy()  # [recognised, classes]
        by_weight.append(
            Mixture(
                weight=weight,
                found=of_weight(mixed, logits, own, pairs, weight),
                faded=of_faded(faded, own[recognised], parameters),
            )
        )
    numbers = sum(p.numel() for p in network.module.parameters())
    image_networks.untrained(network, pixels, parameters.seed)
    initial, _ = stages_of(network, pixels, states_of(network, pixels), pairs)
    measured = MixedPhotographs(
        network=Network(name=network.name, numbers=numbers, classes=logits.shape[1]),
        images=[
            Picture(file=file, label=label, highest=int(highest), recognised=i in recognised)
            for i, (file, label, highest) in enumerate(zip(paths, known, own, strict=True))
        ],
        recognised=len(recognised),
        pairs=len(pairs.first),
        confidence=parameters.confidence,
        chance=Chance(**chance(len(paths))),
        mixtures=by_weight,
        stages=[
            Stage(
                stage=name,
                trained=pairs.stage(trained[name]),
                untrained=pairs.stage(initial[name]),
                difference=pairs.difference(trained[name], initial[name]),
            )
            for name in trained
        ],
        published=PUBLISHED,
    )
    return measured, {**network.files, "images": parameters.images.sha256}


def image_paths(images: Images) -> dict[str, Path]:
    """Where the pictures are, by the name that ``params.yaml`` gives them.

    Raises
    ------
    ArtifactError
        If one is missing, or their checksum differs.
    """
    from posenc.models.image_networks import package_folder

    key = "measurements.mixed_images.images"
    folder = Path() if images.package is None else package_folder(images.package, f"{key}.package")
    paths = {file: folder / file for file in images.classes}
    for file, path in paths.items():
        if not path.is_file():
            raise ArtifactError(f"{key}.classes names {file}, but {path} is not there")
    digest = sha256_json({file: sha256_file(path) for file, path in paths.items()})
    if digest != images.sha256:
        raise ArtifactError(
            f"{key}.sha256 is {images.sha256}, but the files have {digest}: if they are the ones "
            f"that are meant, write that"
        )
    return paths


def states_of(network: ImageNetwork, pixels: Tensor) -> dict[str, NDArray[np.float32]]:
    """States of pictures [n, 3, size, size] by stage, [n, features] each."""
    parts = [network.states(part) for part in pixels.split(BATCH)]
    return {name: np.concatenate([part[name].numpy() for part in parts]) for name in network.stages}


def recognised_alone(
    logits: NDArray[np.floating], known: list[int | None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The highest class of each picture, and the rows of those that are recognised.

    Of several pictures with one class the first is taken: a pair is of two classes.

    Raises
    ------
    ArtifactError
        If fewer than two are recognised.
    """
    key = "measurements.mixed_images.images.classes"
    beyond = [label for label in known if label is not None and label >= logits.shape[1]]
    if beyond:
        raise ArtifactError(f"{key} names {beyond[0]}: the network has {logits.shape[1]} classes")
    own = logits.argmax(axis=1)  # [images]
    is_right = np.array(
        [label in (None, highest) for label, highest in zip(known, own, strict=True)]
    )
    rows = np.flatnonzero(is_right)
    _, places = np.unique(own[rows], return_index=True)
    recognised = rows[np.sort(places)]
    if len(recognised) < 2:
        raise ArtifactError(
            f"{key}: the network recognises {len(recognised)} of {len(known)} pictures, and of one "
            f"there is no pair; take others, of different classes"
        )
    return own, recognised


class Pairs:
    """The pairs of recognised pictures, and means over them.

    Parameters
    ----------
    parameters
        Of the measurement.
    first, second
        int64 [pairs]: rows of the pictures.
    """

    def __init__(
        self, parameters: MixedImages, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> None:
        self.parameters, self.first, self.second = parameters, first, second

    def shares(self, columns: dict[str, NDArray[Any]]) -> dict[str, Interval]:
        """Shares of the pairs, of columns of zeros and ones [pairs], by name."""
        shares = self._over(*columns.values()).shares()
        return {name: Interval.of(share) for name, share in zip(columns, shares, strict=True)}

    def means(self, columns: dict[str, NDArray[Any]]) -> dict[str, Interval]:
        """Means of columns [pairs], by name."""
        means = self._over(*columns.values()).estimates()
        return {name: Interval.of(mean) for name, mean in zip(columns, means, strict=True)}

    def stage(self, of: Mixtures) -> Recall:
        """Recall, of mixed inputs and of mixed states, and distance from additive of a stage."""
        gap = self._over(of.square, of.distance).of(lambda a, b: np.sqrt(a / b), 0, 1)
        recalls = {"inputs": self._found(of.inputs), "outputs": self._found(of.outputs)}
        return Recall(gap=Interval.of(gap), **self.shares(recalls))

    def difference(self, own: Mixtures, other: Mixtures) -> Interval:
        """By how much recall of both is greater in ``own`` than in ``other``, on the same pairs."""
        difference = self._found(own.inputs) - self._found(other.inputs)
        return self.means({"inputs": difference})["inputs"]

    def _found(self, scores: NDArray[np.floating]) -> NDArray[np.float64]:
        both = found_among_two(scores, self.first, self.second).both  # [pairs]
        return both.astype(np.float64)

    def _over(self, *columns: NDArray[Any]) -> PairMeans:
        values = np.stack(columns, axis=1)  # [pairs, k]
        return PairMeans(values, self.first, self.second, **bootstrap(self.parameters))


def mixtures(pixels: Tensor, pairs: Pairs, weight: float) -> Iterator[Tensor]:
    """Mixtures w a + (1 - w) b of the pairs in turn, [part, 3, size, size]."""
    for start in range(0, len(pairs.first), BATCH):
        a, b = (pixels[rows[start : start + BATCH]] for rows in (pairs.first, pairs.second))
        yield weight * a + (1 - weight) * b


def of_weight(
    mixed: NDArray[np.floating],
    alone: NDArray[np.floating],
    own: NDArray[np.int64],
    pairs: Pairs,
    weight: float,
) -> list[Recognition]:
    """How often the classes of both are among the highest, by how many are looked at.

    Parameters
    ----------
    mixed
        [pairs, classes]: logits of the mixtures.
    alone
        [images, classes]: logits of the pictures.
    own
        int [images]: their classes.
    """
    members = np.unique([pairs.first, pairs.second])  # [recognised]
    first, second = (np.searchsorted(members, rows) for rows in (pairs.first, pairs.second))
    of_first, of_second = alone[pairs.first], alone[pairs.second]  # [pairs, classes] each
    read = (mixed, weight * of_first + (1 - weight) * of_second, of_first, of_second)
    present = own[members]  # [recognised]
    entries = []
    for among, classes in (("all", slice(None)), ("pictures", present)):
        chosen = present if among == "all" else np.arange(len(present))  # [recognised]
        places = [ranks(scores[:, classes], chosen) for scores in read]
        for top in pairs.parameters.top:
            inputs, outputs, *absent = (found_among(place, first, second, top) for place in places)
            other = inputs.pop("others")  # [pairs]
            missing = (absent[0]["both"] + absent[1]["both"]) / 2  # [pairs]
            shares = pairs.shares({**inputs, "outputs": outputs["both"]})
            means = pairs.means({"others": other, "absent": missing,
                                 "lost": outputs["both"] - inputs["both"],
                                 "beyond_absent": inputs["both"] - missing})  # fmt: skip
            entries.append(Recognition(among=among, top=top, **shares, **means))
    return entries


def of_faded(
    logits: NDArray[np.floating], own: NDArray[np.int64], parameters: MixedImages
) -> list[Faded]:
    """How often a picture's class is among the highest where grey is mixed in, not another picture.

    This much is lost to contrast alone. Values of 0 are grey, or nearly.

    Parameters
    ----------
    logits
        [recognised, classes].
    own
        int [recognised]: the classes.
    """
    places = np.diagonal(ranks(logits, own))  # [recognised]
    return [
        Faded(top=top, share=Interval.of(proportion(places <= top, parameters.confidence)))
        for top in parameters.top
    ]


def stages_of(
    network: ImageNetwork, pixels: Tensor, alone: dict[str, NDArray[np.float32]], pairs: Pairs
) -> tuple[dict[str, Mixtures], NDArray[np.float32]]:
    """The mixtures of equal weights stage by stage, and their logits [pairs, classes]."""
    by_stage = {name: Mixtures(s, pairs.first, pairs.second, HALF) for name, s in alone.items()}
    logits = []
    for part in mixtures(pixels, pairs, HALF):
        states = network.states(part)
        for name, state in states.items():
            by_stage[name].add(state.numpy())
        logits.append(states["logits"].numpy())
    return by_stage, np.concatenate(logits)


def main(config: Config, output: Output) -> None:
    """What a pretrained network finds of two photographs in their average, by stage."""
    parameters = read_section(config, StudyJob[MixedImages]).parameters
    measured, inputs = measure(parameters)
    seal(output, MEASUREMENT, {}, measured, parameters, inputs)


if __name__ == "__main__":
    run(main)
