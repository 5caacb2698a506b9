"""Models by name: of ``params.yaml``, a folder, a package, the hub, or already in memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import nn

from posenc.api.model import Model
from posenc.api.project import PARAMS, project
from posenc.api.under import active_of
from posenc.architectures import attention
from posenc.architectures.architecture import Architecture
from posenc.architectures.classes import window_of
from posenc.architectures.discover import forget, of
from posenc.architectures.needs import ArchitectureError
from posenc.architectures.table import ALIKE
from posenc.capture.parts import ConditionError
from posenc.capture.verified import read, verified
from posenc.models import section
from posenc.models.files import CONFIG, TOKENIZER, ModelError, check_configuration, library_class
from posenc.models.load import check_place, hub_folder, in_hub_format, package_folder, weights_in
from posenc.models.load import load as load_network
from posenc.models.references import WEIGHTS
from posenc.models.refusals import told
from posenc.models.section import Reading
from posenc.models.tokenizers import fitted_tokenizer, held_tokenizer, read_tokenizer
from posenc.study.explain import suggestion

if TYPE_CHECKING:
    from transformers import PreTrainedModel

UNBOUNDED = 2048
"""Tokens at which texts are cut by default, for a model that sets no limit."""


def load(
    name: str | Path | PreTrainedModel, revision: str = "main", *, tokenizer: Any = None
) -> Model:
    """Load a model in float32 on the CPU, and compare it with the library's own run of it.

    Only safetensors and GGUF weights are read, and no code from the hub is run. A few fixed texts
    go through the library's own tokenizer and its eager attention, one at a time, and through what
    is run here: other tokens or hidden states are refused.

    Parameters
    ----------
    name
        The first of these that exists: a model of ``params.yaml`` in the current folder, which
        the workflow has made; a folder in the hub's format, or with one GGUF file; an installed
        package that carries weights; a name of the hub. Or a model of the library that is in memory
        already, in float32, whose attention goes through posenc from then on.
    revision
        Commit, tag or branch of the hub; not looked at elsewhere.
    tokenizer
        Of a model in memory: the library's, or one of the ``tokenizers`` library.

    Returns
    -------
    Model

    Raises
    ------
    ModelError
        If there is no such model, it is not made yet, or it is not run here as the library runs it.
    ArtifactError
        If its files are damaged or do not fit together.

    Examples
    --------
    >>> model = posenc.load("tiny")
    >>> model
    Model('tiny', family='gpt2', max_tokens=48)
    """
    if not isinstance(name, str | Path):
        return _held(name, tokenizer)
    if tokenizer is not None:
        raise TypeError("tokenizer is of a model in memory: a folder has its own")
    name = str(name)
    if not name:
        raise ModelError("the model's name is empty: name a folder or a model of the hub")
    params = project() if Path(name).name == name else None
    if params and name in params.models:
        folder, table = Path("data/models", name), Path("data/tokenizers", name, TOKENIZER)
        wanted = [folder / WEIGHTS, table]
        if missing := [path for path in (folder / CONFIG, *wanted) if not path.is_file()]:
            raise ModelError(
                f"{missing[0]} is not there yet: "
                f"`snakemake --cores 8 -- {' '.join(map(str, wanted))}` makes it"
            )
        network = load_network(folder, params.models[name].family)
        return _checked(name, network, Tokenizer.from_file(str(table)), params.models[name].reading)
    return from_place(name, place_of(name, revision))


def from_place(name: str, place: Path, is_kept: bool = False) -> Model:
    """Like :func:`load`, from a folder or a GGUF file; weights may keep the type of their files."""
    with in_hub_format(place) as folder:
        check_place(name, folder)
        with told(folder):
            reading = _reading(name, folder)
            network = load_network(folder, reading.family, is_kept=is_kept)
            own = read_tokenizer(name, folder)
            architecture = _architecture(name, network)
            reading = _within(architecture, reading)
            own = fitted_tokenizer(own, folder, architecture.has_losses)
        return _checked(name, network, own, reading)


def _held(network: Any, tokenizer: Any) -> Model:
    """A model of the library that is in memory, with its tokenizer."""
    from transformers import PreTrainedModel

    from posenc.architectures.classes import begin_token, problem_of
    from posenc.models.tokenizers import with_begin

    if not isinstance(network, PreTrainedModel):
        if isinstance(getattr(network, "_orig_mod", None), PreTrainedModel):
            raise TypeError("the model is compiled: give model._orig_mod, which it was made of")
        said = type(network).__name__ if isinstance(network, nn.Module) else repr(network)
        raise TypeError(f"the model is {said}: give a name, a folder or a PreTrainedModel")
    if tokenizer is None:
        raise TypeError("a model in memory needs its tokenizer: posenc.load(model, tokenizer=...)")
    name = getattr(network.config, "_name_or_path", "") or type(network).__name__
    try:
        on = active_of(network)
    except ConditionError as error:
        raise ModelError(f"{name}: {error}") from None
    if on is not None:
        raise ModelError(f"{name} is under {on.name}: leave that block first")
    _refuse_changed(name, network)
    kinds = {x.dtype for x in network.parameters() if x.is_floating_point()}
    if kinds != {torch.float32}:
        named = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        raise ModelError(
            f"{name} is in {named}: load it with dtype=torch.float32, in which it is compared with "
            f"the library"
        )
    if any(parameter.is_meta for parameter in network.parameters()):
        raise ModelError(f"{name} has weights without values (device meta): load it whole")
    if problem := problem_of(network.config, network.config.to_dict()):
        raise ModelError(f"{name} {problem}")
    reading = _reading_of(name, network.config)
    own = held_tokenizer(name, tokenizer)
    forget(network)
    attention_before = network.config._attn_implementation
    modes_before = [(module, module.training) for module in network.modules()]
    try:
        architecture = _architecture(name, network)
        reading = _within(architecture, reading)
        attention.register()
        network.set_attn_implementation(attention.NAME)
        if architecture.has_losses:
            own = with_begin(own, begin_token(network.config))
        return _checked(name, network.eval(), own, reading)
    except Exception:
        network.set_attn_implementation(attention_before)
        for module, training in modes_before:
            module.training = training
        raise


def _refuse_changed(name: str, network: PreTrainedModel) -> None:
    """Refuse a model whose modules are others than the library's in float32."""
    quantized = {type(m).__name__ for m in network.modules() if "quantized" in type(m).__module__}
    if quantized:
        raise ModelError(
            f"{name} has quantized modules ({', '.join(sorted(quantized))}): give the float32 "
            f"model that they were made of"
        )
    for module in network.modules():
        # A block alone may be compiled.
        is_whole = any(isinstance(part, nn.ModuleList) for part in module.children())
        if module._compiled_call_impl is not None and (module is network or is_whole):
            raise ModelError(f"{name} is compiled (module.compile()): load it before that")


def _architecture(name: str, network: Any) -> Architecture:
    try:
        return of(network)
    except ArchitectureError as error:
        raise ModelError(f"{name}: {error}") from None


def place_of(name: str, revision: str) -> Path:
    """Where a folder, a package or the hub has a model: its folder, or a GGUF file."""
    from huggingface_hub.errors import GatedRepoError

    if Path(name).is_dir():
        return weights_in(Path(name))
    if name.isidentifier() and importlib.util.find_spec(name):
        return weights_in(package_folder(name))
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(f"there is no folder {name}: name the one that holds {CONFIG}")
    try:
        return hub_folder(name, revision)
    except (ModelError, ValueError) as error:  # the hub's library refuses some names by ValueError
        if isinstance(error.__context__, GatedRepoError):
            raise ModelError(
                f"{name!r} is gated: accept its terms at https://huggingface.co/{name}, and log in "
                f"with `hf auth login`"
            ) from error
        close = suggestion(name, params.models) if (params := project()) else ""
        meant = close if "did you mean" in close else ""
        raise ModelError(
            f"{name!r} is no model of a {PARAMS} here{meant}, no folder and no installed package, "
            f"and the hub does not give it at revision {revision!r} ({type(error).__name__}): "
            f"check the name and the network, or name a folder with {CONFIG}, {WEIGHTS} and "
            f"{TOKENIZER}"
        ) from error


def _reading(name: str, folder: Path) -> Reading:
    """What a folder's configuration says about how the model reads texts."""
    config, _, _ = library_class(folder)
    reading = _reading_of(name, config)
    check_configuration(name, section.Model.model_construct(**reading.model_dump()), folder)
    return reading


def _reading_of(name: str, config: Any) -> Reading:
    """The family of a configuration, and the tokens that all its layers see."""
    from posenc.architectures.classes import positions_of

    limits = [limit for limit in (positions_of(config), window_of(config)) if limit is not None]
    if min(limits, default=1) < 1:
        raise ModelError(
            f"{name}: its {CONFIG} allows a text no positions (max_position_embeddings, "
            f"sliding_window or attention_chunk_size is below 1): correct it"
        )
    kind = config.model_type
    family = next((family for family, types in ALIKE.items() if kind in types), kind)
    return Reading.model_construct(family=family, max_tokens=min(limits, default=UNBOUNDED))


def _within(architecture: Architecture, reading: Reading) -> Reading:
    """Cut texts at the rows of the table, of which there may be fewer than a configuration says."""
    most = min(reading.max_tokens, architecture.positions or reading.max_tokens)
    return reading.model_copy(update={"max_tokens": most})


def _checked(name: str, network: Any, tokenizer: Tokenizer, reading: Reading) -> Model:
    """The model, after comparing it with the library."""
    architecture = _architecture(name, network)
    kind = "decoder" if architecture.has_losses else "encoder"
    said = {"kind": kind, "position": architecture.position.kind}
    reading = reading.model_copy(update=said)
    try:
        verification = verified(network, read(network, tokenizer, reading.max_tokens))
    except ArchitectureError as error:
        raise ModelError(f"{name}: {error}") from None
    return Model(name, network, tokenizer, reading, verification)
