"""What it finds out about a model on a text."""

from __future__ import annotations

from posenc.artifacts.results import Interval, OfDocuments, Part


class Key(Part):
    """Pairs with one key that lose their rotation."""

    key: int
    """Its place in the document."""
    delta_nll: Interval
    """Loss minus the intact model's, in nats per token, as in all that follow."""


class Layer(Part):
    """Heads of one layer that lose their rotation."""

    layer: int
    delta_nll: Interval


class Head(Part):
    """A head that alone loses its rotation."""

    layer: int
    head: int
    delta_nll: Interval


class HeadSet(Part):
    """Heads that lose their rotation together, or keep it alone; means over draws."""

    choice: str
    """How they are chosen: ``strongest``, ``weakest`` or ``random`` lose rotation, all but those of
    ``only_strongest`` and ``only_random``."""
    count: int
    """Heads that are chosen."""
    draws: int
    delta_nll: Interval
    share: Interval
    """Of what all heads cost."""


class Rotations(OfDocuments):
    """What heads cost that lose their rotation; ``tokens`` are those that are predicted."""

    n_layers: int
    n_heads: int
    nll: Interval
    """Loss of the intact model, in nats per token."""
    all: Interval
    """Loss without any rotation, minus that."""
    keys: list[Key]
    layers: list[Layer]
    heads: list[Head]
    """Of all layers, layer after layer: [n_layers * n_heads]."""
    agreement_of_halves: float
    """Rank correlation of the heads' costs on the two halves of the documents."""
    tried: int
    """Documents of the half that sets are measured on; the other one ranks heads."""
    sets: list[HeadSet]
