"""A model under a condition, for the duration of a block; calls that would be wrong are refused."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
from pydantic import ValidationError
from torch import nn

from posenc.api.masks import ClosedForm, FirstOrder, check_fit, check_masks, in_place
from posenc.api.model import Model
from posenc.api.project import project
from posenc.architectures import attention
from posenc.capture.interventions import applied
from posenc.capture.parts import ConditionError, architecture, body, first_position
from posenc.conditions.learned import LearnedMask
from posenc.conditions.learned import read as read_mask
from posenc.conditions.section import Condition, dumped
from posenc.study.explain import explain, suggestion

Given = ParamSpec("Given")
Result = TypeVar("Result")
_LOCK = threading.RLock()
"""Held while a network is run or changed: what is recorded, and a condition, are the process's."""


def alone(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Have the calls of several threads wait for each other."""

    @functools.wraps(call)
    def waiting(*positional: Given.args, **named: Given.kwargs) -> Result:
        with _LOCK:
            return call(*positional, **named)

    return waiting


@dataclass(eq=False)
class Active:
    """The condition that a model is under.

    Attributes
    ----------
    name
        Of ``params.yaml``, or what the condition says, as JSON.
    masks
        The learned masks that it needs, by name.
    """

    model: Model
    name: str
    condition: Condition
    masks: Mapping[str, LearnedMask]
    _attention: str = attention.NAME

    def put_on(self) -> None:
        """Change the network, and check each call of it."""
        network = self.model.network
        with contextlib.ExitStack() as stack:
            stack.enter_context(applied(network, self.condition, self.masks))
            self._attention = network.config._attn_implementation
            for module in {network, body(network)}:
                hook = module.register_forward_pre_hook(self._check, with_kwargs=True)
                stack.callback(hook.remove)
            self._stack = stack.pop_all()

    def take_off(self) -> None:
        """Restore the network exactly."""
        self._stack.close()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Take the condition off for a block whose code applies it itself."""
        self.take_off()
        try:
            yield
        finally:
            self.put_on()

    def changed_attention(self) -> str | None:
        """What is wrong with the network's attention, if anything."""
        implementation = self.model.network.config._attn_implementation
        if implementation == self._attention:
            return None
        return (
            f"the network's attention is now {implementation!r}, which knows no condition and "
            f"records nothing: model.network.set_attn_implementation({self._attention!r}) undoes it"
        )

    def _check(self, module: nn.Module, positional: tuple, named: Mapping[str, object]) -> None:
        """Refuse a call of the network that would not be what the condition says."""
        self.model.architecture.begin()
        bound = inspect.signature(module.forward).bind_partial(*positional, **named).arguments
        problem = self._problem({**bound, **bound.get("kwargs", {})})
        if problem:
            raise ConditionError(f"under {self.name}: {problem}")

    def _problem(self, given: Mapping[str, Any]) -> str | None:
        network = self.model.network
        if changed := self.changed_attention():
            return changed
        if self.condition.segments is not None:
            return "the network cuts no documents into segments: posenc.run does"
        if given.get("past_key_values") is not None or given.get("use_cache"):
            return "a cache of keys does not know the condition: pass use_cache=False"
        if given.get("output_attentions"):
            return "the network returns no patterns: posenc.run(..., patterns=True) does"
        mask = given.get("attention_mask")
        if mask is not None and not _is_all_ones(mask):
            return "an attention mask is not looked at: run documents without padding, one by one"
        ids = given.get("input_ids")
        shape = (ids if ids is not None else given["inputs_embeds"]).shape
        tokens, first = shape[1], first_position(network)
        places = given.get("position_ids")
        if places is not None and not bool((places.cpu() == torch.arange(tokens) + first).all()):
            return (
                f"position_ids are those of a document's first tokens ({first}, {first + 1}, ...)"
            )
        if self.model.positions is not None and tokens > self.model.positions:
            return (
                f"the model has {self.model.positions} positions, not {tokens}: "
                f"posenc.run(..., max_tokens={tokens}) goes on as the condition's `beyond` says"
            )
        return None


def _is_all_ones(mask: Any) -> bool:
    """Whether a mask [batch, tokens] lets all tokens be seen."""
    return isinstance(mask, torch.Tensor) and mask.dim() == 2 and bool((mask == 1).all())


def check_model(model: object) -> None:
    """Refuse anything that is not a model, such as its name."""
    if not isinstance(model, Model):
        raise TypeError(f"the model is {model!r}: give posenc.load({model!r})")


_active: Active | None = None


def active(model: Model) -> Active | None:
    """The condition that a model is under, if any."""
    return active_of(model.network)


def active_of(network: nn.Module) -> Active | None:
    """The condition that a network is under, if any; several models can be of one network.

    Raises
    ------
    ConditionError
        If it shares modules, or its configuration, with another network that is under one.
    """
    if _active is None or _active.model.network is network:
        return _active
    other = _active.model.network
    shares_modules = not set(network.modules()).isdisjoint(other.modules())
    if not shares_modules and network.config is not other.config:
        return None
    shared = "modules" if shares_modules else "its configuration"
    raise ConditionError(
        f"it shares {shared} with {_active.model.name}, which is under {_active.name}: leave that "
        f"block first"
    )


@contextlib.contextmanager
def under(
    model: Model,
    condition: str | Mapping[str, Any] | Condition,
    masks: Mapping[str, LearnedMask] | None = None,
    *,
    mask: ClosedForm | FirstOrder | None = None,
) -> Iterator[Model]:
    """Put a model under a condition for a block, then restore it exactly.

    :func:`posenc.run` runs under it. The network may be called as well; a call that would not be
    what the condition says is refused: with a cache of keys, padding, other positions,
    ``output_attentions``, or more tokens than the model has positions. ``network.generate`` takes
    one prompt, or several of equal length, and ``use_cache=False``.

    Parameters
    ----------
    model
        From :func:`posenc.load`.
    condition
        A condition's name in ``params.yaml`` of the current folder, ``intact``, ``zero``, or the
        condition, also as a dict with the keys that it has there.
    masks
        Learned masks by name, for a condition that needs them. By default they are those that the
        active study has learned for the model.
    mask
        What stands in place of positions, from :func:`posenc.closed_form` or
        :func:`posenc.first_order`, for a condition that takes them away.

    Raises
    ------
    TypeError
        If the model is not from :func:`posenc.load`, or the condition or the mask is none of
        these.
    ConditionError
        If there is no such condition, it does not fit the model, a learned mask is not there or
        is another model's, or a condition is on already.

    Examples
    --------
    >>> with posenc.under(model, posenc.Condition(position="zero")):
    ...     run = posenc.run(model, ["the film was good"])
    >>> run.condition
    '{"position": "zero"}'
    """
    check_model(model)
    entered = _enter(model, condition, masks or {}, mask)
    try:
        yield model
    finally:
        _leave(entered)


@alone
def _enter(
    model: Model,
    condition: str | Mapping[str, Any] | Condition,
    masks: Mapping[str, LearnedMask],
    mask: ClosedForm | FirstOrder | None,
) -> Active:
    """Put the condition on."""
    global _active
    if _active is not None:
        raise ConditionError(
            f"{_active.model.name} is under {_active.name} already: leave that block first"
        )
    check_structure(model)
    name, wanted = _named(condition)
    check_masks(masks)
    if mask is not None:
        wanted, masks = in_place(wanted, mask), {**masks, mask.name: mask.learned}
        name = f"{name}, {mask}"
    if unused := set(masks) - set(wanted.masks()):
        needed = ", ".join(map(repr, wanted.masks())) or "none"
        raise ConditionError(
            f"masks has {', '.join(map(repr, sorted(unused)))}, but {name} needs {needed}: what "
            f"posenc.closed_form or posenc.first_order returned is for mask="
        )
    entered = Active(model, name, wanted, _masks(model, name, wanted, masks))
    only = entered.condition.only
    if only is not None and (only == "decoder") != model.is_decoder:
        raise ConditionError(f"{entered.name} is for {only}s only, which {model.name} is not")
    entered.put_on()
    _active = entered
    return entered


@alone
def _leave(entered: Active) -> None:
    """Take the condition off."""
    global _active
    _active = None
    entered.take_off()


def check_structure(model: Model) -> None:
    """Refuse a network that is no longer what was compared with the library.

    Raises
    ------
    ConditionError
        If modules, parameters, their types or hooks of the head are others, if a part is in
        training mode, or if PyTorch is to compute in another precision.
    """
    network = model.network
    if changed := model.structure.change(network):
        raise ConditionError(
            f"{changed} of the network have changed since it was loaded: load it again with "
            f"posenc.load"
        )
    if any(module.training for module in network.modules()):
        raise ConditionError("the network is in training mode: model.network.eval() ends it")
    if torch.is_autocast_enabled(next(network.parameters()).device.type):
        raise ConditionError(
            "torch.autocast is on, but the model is run in float32: leave it first"
        )


def _named(condition: str | Mapping[str, Any] | Condition) -> tuple[str, Condition]:
    """A condition's name, and the condition."""
    if isinstance(condition, Mapping):
        try:
            condition = Condition.model_validate(condition)
        except ValidationError as error:
            lines = explain(error, condition, Condition.model_json_schema, "the condition")
            raise ConditionError("\n".join(lines)) from None
    if isinstance(condition, Condition):
        return json.dumps(dumped(condition)), condition
    if not isinstance(condition, str):
        raise TypeError(
            f"the condition is {condition!r}: give a name, a dict, or posenc.Condition(...)"
        )
    params = project() if condition != "intact" else None
    known = {
        "intact": Condition(),
        "zero": Condition(position="zero"),
        **(params.conditions if params else {}),
    }
    if condition not in known:
        meant = suggestion(condition, known)
        if params:
            raise ConditionError(
                f"{condition!r} is not in conditions of params.yaml in this folder{meant}, or give "
                f"posenc.Condition(...)"
            )
        close = meant if "did you mean" in meant else ";"
        raise ConditionError(
            f"{condition!r} is not {' or '.join(map(repr, known))}{close} other names are those of "
            f"a params.yaml, which this folder does not have: give posenc.Condition(...)"
        )
    return condition, known[condition]


def _masks(
    model: Model, name: str, condition: Condition, given: Mapping[str, LearnedMask]
) -> dict[str, LearnedMask]:
    """The learned masks that a condition needs."""
    # Before masks are looked for: a condition that does not fit needs none.
    own = architecture(model.network)
    problem = condition.problem(own.n_layers, own.n_heads, own.position.kind)
    if problem:
        raise ConditionError(f"{name}: {problem}")
    masks = {mask: given.get(mask) or _learned(model, mask) for mask in condition.masks()}
    check_fit(model, masks)
    return masks


def _learned(model: Model, mask: str) -> LearnedMask:
    """A mask that the active study has learned."""
    params = project()
    if params is None or model.name not in params.models:
        raise ConditionError(
            f"the learned mask {mask!r} is of a study: load a model of its params.yaml in its "
            f"folder, or give posenc.under(..., masks={{{mask!r}: ...}})"
        )
    folder = Path("data/studies", params.study.name, "masks", model.name)
    path = folder / f"{mask}.safetensors"
    if not path.is_file():
        raise ConditionError(
            f"{path} is not there: `snakemake --cores 8 -- {folder}/masks.json` learns the masks "
            f"that the study {params.study.name} evaluates"
        )
    return read_mask(path)[0]
