"""The fine-tunings of GPT-1's ablation: what each of them varies."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from posenc.experiments.pretraining.section import PretrainingTraining


class Finetuning(TypedDict):
    """What is varied of a classifier."""

    stage: str
    """``finetuning``, or ``transfer`` of some layers."""
    architecture: str
    pretrained: bool
    auxiliary_weight: float
    layers: NotRequired[int]
    """Blocks of the pre-trained network that it begins with; all where it is left out."""


def variants(parameters: PretrainingTraining) -> list[Finetuning]:
    """The fine-tunings: eight of the ablation, then by layers transferred.

    All layers of the Transformer with the auxiliary loss are one of the eight.
    """
    from posenc.experiments.pretraining.network import ARCHITECTURES

    weight = parameters.auxiliary_weight
    ablation: list[Finetuning] = [
        {"stage": "finetuning", "architecture": architecture, "pretrained": pretrained,
         "auxiliary_weight": auxiliary}
        for architecture in ARCHITECTURES
        for pretrained in (True, False)
        for auxiliary in (weight, 0.0)
    ]  # fmt: skip
    transferred: list[Finetuning] = [
        {"stage": "transfer", "architecture": "transformer", "pretrained": True,
         "auxiliary_weight": weight, "layers": layers}
        for layers in range(parameters.n_layers)
    ]  # fmt: skip
    return ablation + transferred
