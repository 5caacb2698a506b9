"""A small residual network for images, with ReLUs or without.

He, Zhang, Ren and Sun (2016), https://doi.org/10.1109/CVPR.2016.90, with two stages and without the
first pooling, since images of digits are 8 pixels wide. In evaluation mode, batch normalisation is
an affine map of each channel; without the ReLUs the whole network is affine.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

STAGES = ("stem", "stage 1", "stage 2", "pooled", "logits")
"""Names of the states of a network, in order."""


class Block(nn.Module):
    """Two convolutions and the identity beside them, with the activation after each.

    Parameters
    ----------
    inputs, outputs
        Channels; where they differ, the identity becomes a convolution of one pixel.
    stride
        Of the first convolution.
    activation
        ``nn.ReLU()`` or ``nn.Identity()``.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, activation: nn.Module) -> None:
        super().__init__()
        self.first = _normalised(inputs, outputs, 3, stride)
        self.second = _normalised(outputs, outputs, 3, 1)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else _normalised(inputs, outputs, 1, stride)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """From [n, inputs, height, width] to [n, outputs, height / stride, width / stride]."""
        inner = self.second(self.activation(self.first(x)))  # [n, outputs, ...]
        return self.activation(self.shortcut(x) + inner)


class ResidualNetwork(nn.Module):
    """A stem, two stages of blocks, the mean over pixels and a linear read-out.

    Parameters
    ----------
    width
        Channels of the first stage; the second has twice as many, and half the pixels.
    blocks
        Of each stage.
    classes
        Logits.
    activation
        ``nn.ReLU()`` or ``nn.Identity()``.
    """

    def __init__(self, width: int, blocks: int, classes: int, activation: nn.Module) -> None:
        super().__init__()
        self.stem, self.activation = _normalised(1, width, 3, 1), activation
        self.stages = nn.ModuleList(
            nn.Sequential(
                Block(inputs, outputs, stride, activation),
                *(Block(outputs, outputs, 1, activation) for _ in range(blocks - 1)),
            )
            for inputs, outputs, stride in ((width, width, 1), (width, 2 * width, 2))
        )
        self.readout = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [n, classes] of images [n, height, width]."""
        return self.states(images)["logits"]

    def states(self, images: Tensor) -> dict[str, Tensor]:
        """What each stage makes of images [n, height, width]: [n, ...], by its name."""
        x = self.activation(self.stem(images[:, None]))  # [n, width, height, width of image]
        states = [x]
        for stage in self.stages:
            x = stage(x)
            states.append(x)
        x = x.mean(dim=(2, 3))  # [n, 2 width]
        return dict(zip(STAGES, [*states, x, self.readout(x)], strict=True))


def build(width: int, blocks: int, classes: int, relu: bool, seed: int) -> ResidualNetwork:
    """A network with the library's initial weights, determined by the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResidualNetwork(width, blocks, classes, nn.ReLU() if relu else nn.Identity())


def without_activation(network: ResidualNetwork) -> ResidualNetwork:
    """The same weights, with all ReLUs taken out."""
    affine = copy.deepcopy(network)
    for module in affine.modules():
        if isinstance(module, (Block, ResidualNetwork)):
            module.activation = nn.Identity()
    return affine


def _normalised(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )
