"""The ``conditions`` section: named interventions on a model."""

from __future__ import annotations

from typing import Literal

from .base import Section


class Condition(Section):
    """One condition. The condition named ``intact`` is the untouched model."""

    position: Literal["intact", "zero"]
    """What the position embeddings become (see ``posenc.conditions.POSITIONS``)."""
