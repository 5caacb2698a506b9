"""Masks in place of positions that Python code calibrates, and what they make of a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc.api.model import Model
from posenc.capture.parts import ConditionError
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import FIRST_ORDER, Condition
from posenc.metrics.first_order import TERMS

MEANS = ("queries", "keys", "first_keys")
AXES = {"relative": 4, "first": 3, "absolute": 4, "temperature": 2} | dict.fromkeys(MEANS, 3)
"""Of the arrays of a learned mask."""


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A mask in closed form, from :func:`posenc.closed_form`, for ``posenc.under(..., mask=)``.

    Attributes
    ----------
    name
        ``closed_form``, and its placebo if it is one.
    learned
        Its biases by layer, head and distance: for ``masks=``, under conditions of your own.
    """

    name: str
    learned: LearnedMask

    def bias(self, tokens: int) -> NDArray[np.float32]:
        """What it adds to the scores of a document, for use outside of posenc.

        It goes to the scaled products of queries and keys, before the softmax, of the model
        without positions. A decoder's own mask is not in it: hide the keys after the query too.

        Parameters
        ----------
        tokens
            Length of the document, the first token included.

        Returns
        -------
        float32 [n_layers, n_heads, tokens, tokens]: by query and key, in nats.

        Raises
        ------
        ValueError
            If there are no tokens.

        Examples
        --------
        >>> mask = posenc.closed_form(model, ["the film was good", "the plot was slow again"])
        >>> mask.bias(6).shape
        (2, 2, 6, 6)
        """
        if tokens < 1:
            raise ValueError(f"tokens is {tokens}: a document has at least one")
        assert self.learned.relative is not None
        return np.stack([self.learned.bias(n, tokens) for n in range(len(self.learned.relative))])

    def of(self) -> dict[str, object]:
        """The keys of the condition that puts it in place of positions."""
        profile = {"kind": "learned", "mask": self.name}
        return {"position": "zero", "mask": {"semantics": "additive", "profile": profile}}

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """Rotation to first order, from :func:`posenc.first_order`, for ``posenc.under(..., mask=)``.

    Attributes
    ----------
    name
        ``first_order``, and its placebo if it is one.
    learned
        Mean queries, keys and first keys: for ``masks=``, under conditions of your own.
    terms
        Of what rotation adds to a score, those that are put back.
    """

    name: str
    learned: LearnedMask
    terms: tuple[str, ...] = FIRST_ORDER

    def only(self, *terms: str) -> FirstOrder:
        """The same means with other terms.

        Parameters
        ----------
        terms
            ``mask`` (mean query with mean key), ``key`` (mean query with the rest of the key),
            ``query`` (the rest of the query with mean key), ``rest`` (rest with rest, which is not
            of first order: all four are the intact model).

        Raises
        ------
        ValueError
            If there is none, one stands twice, or is none of these.
        """
        if not terms or len(set(terms)) < len(terms) or not set(terms) <= set(TERMS):
            raise ValueError(f"terms are {terms}: name some of {', '.join(TERMS)}, each once")
        return replace(self, terms=terms)

    def of(self) -> dict[str, object]:
        """The keys of the condition that puts it in place of positions."""
        position = {"kind": "first_order", "mask": self.name, "terms": list(self.terms)}
        return {"position": position}

    def __str__(self) -> str:
        return self.name if self.terms == FIRST_ORDER else f"{self.name} ({', '.join(self.terms)})"


def in_place(condition: Condition, mask: ClosedForm | FirstOrder) -> Condition:
    """A condition that takes positions away, with a mask in their place.

    Raises
    ------
    TypeError
        If it is no such mask.
    ConditionError
        If the condition has positions, or a mask of its own.
    """
    if not isinstance(mask, ClosedForm | FirstOrder):
        raise TypeError(
            f"the mask is {mask!r}: give what posenc.closed_form or posenc.first_order returned, "
            f"or learned masks by their names, as masks={{...}}"
        )
    if condition.position != "zero" or condition.mask is not None:
        raise ConditionError(
            f"{mask} stands in place of positions: give it with a condition whose position is "
            f"'zero', and which has no mask of its own"
        )
    keys = condition.model_dump(exclude_unset=True)
    return Condition.model_validate({**keys, **mask.of()})


def check_masks(masks: object) -> None:
    """Refuse what is no learned masks by name.

    Raises
    ------
    TypeError
        If it is none, with what to give in its place.
    """
    if isinstance(masks, Mapping):
        wrong = next((x for x in masks.values() if not isinstance(x, LearnedMask)), None)
        if wrong is None:
            return
    else:
        wrong = masks
    raise TypeError(
        f"masks has a {type(wrong).__name__}: give learned masks by name "
        f"({{'mine': closed.learned}}); what posenc.closed_form or posenc.first_order returned is "
        f"for mask="
    )


def check_fit(model: Model, masks: Mapping[str, LearnedMask]) -> None:
    """Refuse masks of another model.

    Raises
    ------
    ConditionError
        If its layers or heads are not as many, mean vectors not as long, or its biases not those
        of a decoder, or of an encoder.
    """
    own = model.architecture
    wanted = {"layers": own.n_layers, "heads": own.n_heads, "features of a head": own.d_head}
    sides = 1 if own.causal else 2
    for name, mask in masks.items():
        for key, array in mask.arrays().items():
            axes = AXES.get(key, array.ndim if isinstance(array, np.ndarray) else None)
            if not isinstance(array, np.ndarray) or array.ndim != axes:
                shape = list(getattr(array, "shape", ()))
                raise ConditionError(
                    f"{key} of the mask {name!r} is a {type(array).__name__} {shape}: give a NumPy "
                    f"array with the axes that LearnedMask (posenc.conditions.learned) names"
                )
            if key == "relative" and array.shape[2] != sides:
                raise ConditionError(
                    f"the mask {name!r} is another model's: its biases have {array.shape[2]} "
                    f"sides, but {model.name} has {sides} (the past; an encoder the future too)"
                )
            # By layer and head, if not one for all; means by feature too.
            given = array.shape[: 3 if key in MEANS else 2] if array.ndim > 1 else ()
            for count, (what, its) in zip(given, wanted.items(), strict=False):
                if count != its:
                    raise ConditionError(
                        f"the mask {name!r} is another model's: it has {count} {what}, but "
                        f"{model.name} has {its}"
                    )
