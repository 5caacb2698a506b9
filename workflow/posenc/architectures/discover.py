"""A model of the library, looked at in one forward pass of a few tokens: what is where.

Nothing here knows a family. Attention is where the registered function is called, a block is what
holds it, position is where a table is looked up or a rotary module is called, and what each query
sees is what the library's own mask functions say.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function
from transformers.utils import ModelOutput

from posenc.architectures import attention, position
from posenc.architectures.architecture import (
    LINEAR,
    OWN,
    Architecture,
    Handle,
    Layer,
    Position,
    quiet,
    takes,
)
from posenc.architectures.attention import LAYERS, NAME
from posenc.architectures.classes import positions_of
from posenc.architectures.comparing import FAILURES, sample_ids
from posenc.architectures.float32 import in_float32
from posenc.architectures.needs import ArchitectureError
from posenc.architectures.observed import ONLY_OWN, UNSEEN, Call, Observed
from posenc.architectures.position import NoPosition, Rotation, Table
from posenc.architectures.turns import find_turns

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS = 6
"""Of the forward passes that look at a model."""
_KEPT = "_posenc_architecture"


def of(model: PreTrainedModel) -> Architecture:
    """The architecture of a model, discovered when first asked for.

    Raises
    ------
    ArchitectureError
        If attention does not go through the library's interface, or layers cannot be told apart.
    """
    arch = model.__dict__.get(_KEPT)
    if arch is None:
        arch = discover(model)
        model.__dict__[_KEPT] = arch
    return arch


def forget(model: PreTrainedModel) -> None:
    """Have a model looked at again when it is next asked for: its modules may be others."""
    model.__dict__.pop(_KEPT, None)


def discover(model: PreTrainedModel) -> Architecture:
    """Look at a model in a few forward passes.

    Raises
    ------
    ArchitectureError
        As :func:`of`.
    """
    kind = getattr(model.config, "model_type", type(model).__name__)
    device = next(model.parameters()).device
    ids = torch.tensor([sample_ids(model, TOKENS)], device=device)  # [1, tokens]
    attention.register()
    former = model.config._attn_implementation
    was_training = model.training
    model.eval()
    try:
        if former != NAME:
            model.set_attn_implementation(NAME)
        with torch.inference_mode(), in_float32(model):
            arch = _looked_at(model, kind, ids)
            if isinstance(arch.position, Rotation):
                find_turns(arch, ids)
            return arch
    except FAILURES as error:
        if isinstance(error, ArchitectureError):
            raise
        runs = _runs(model, ids, "eager")
        if runs and not _runs(model, ids, NAME):
            raise ArchitectureError(f"{kind}: {ONLY_OWN}") from error
        reason = " ".join(str(error).split())[:200]
        raise ArchitectureError(
            f"{kind}: a text of {TOKENS} tokens does not run ({type(error).__name__}: {reason})"
            f"{'' if runs else ', nor by the library alone'}"
        ) from error
    finally:
        if former != NAME:
            model.set_attn_implementation(former)
        model.train(was_training)


def _runs(model: PreTrainedModel, ids: Tensor, name: str) -> bool:
    """Whether a model runs with an implementation of attention."""
    former = model.config._attn_implementation
    model.config._attn_implementation = name  # also of types that do not let it be set
    try:
        with torch.inference_mode(), in_float32(model):
            model(ids, **quiet(model))
    except Exception:  # whatever a model of the library raises
        return False
    finally:
        model.config._attn_implementation = former
    return True


def _looked_at(model: PreTrainedModel, kind: str, ids: Tensor) -> Architecture:
    body, head = _body(model, kind, ids)
    called: list[tuple[nn.Module, Mapping[str, Any], Any]] = []
    with contextlib.ExitStack() as stack, attention.observing() as seen:
        for module in body.modules():
            if position.is_rotary(module):
                hook = module.register_forward_hook(
                    lambda rotary, given, named, output: called.append(
                        (
                            rotary,
                            inspect.signature(rotary.forward).bind(*given, **named).arguments,
                            output,
                        )
                    ),
                    with_kwargs=True,
                )
                stack.callback(hook.remove)
        output = body(ids, **quiet(body, output_hidden_states=True))
    states = getattr(output, "hidden_states", None)
    if not seen.calls:
        raise ArchitectureError(f"{kind}: {UNSEEN}")
    if states is None or len(states) != len(seen.calls) + 1:
        count = 0 if states is None else len(states) - 1
        raise ArchitectureError(
            f"{kind}: {len(seen.calls)} calls of attention in {count} layers; only models with one "
            f"attention in each layer are read"
        )
    if len({state.shape[-1] for state in states}) > 1 or any(s.dim() != 3 for s in states):
        raise ArchitectureError(f"{kind}: the hidden states of its layers differ in their width")
    for number, call in enumerate(seen.calls):
        if call.unknown:
            raise ArchitectureError(
                f"{kind}: layer {number} gives its attention {call.unknown!r}, and what the "
                f"library's own attention makes of that is not known here"
            )
    _number(seen)
    layers = [_layer(call, seen) for call in seen.calls]
    for number, layer in enumerate(layers):
        if layer.is_blind:
            raise ArchitectureError(
                f"{kind}: a token sees no key in layer {number}, not even its own: a window of 0 "
                f"(sliding_window in config.json) hides all, and null is no window"
            )
    causal = _is_causal(kind, layers, seen)
    blocks = _blocks(body, [layer.module for layer in layers])
    arch = Architecture(
        model=model, body=body, model_type=kind, causal=causal, layers=layers, blocks=blocks,
        embeddings=None, stream=None, position=NoPosition(), d_model=states[0].shape[-1],
        head=head,
    )  # fmt: skip
    arch.position = _position(arch, ids, called)
    _find_handles(arch, ids, states[0])
    arch.row = _row(arch)
    return arch


def _body(model: PreTrainedModel, kind: str, ids: Tensor) -> tuple[nn.Module, str | None]:
    """The outermost module, other than the model, that gives hidden states; and the head.

    Without a head, it is the model itself.
    """
    giving: list[tuple[nn.Module, Tensor]] = []

    def look(module: nn.Module, given: tuple, output: Any) -> None:
        if isinstance(output, ModelOutput) and "encoder_last_hidden_state" in output:
            raise ArchitectureError(f"{kind}: an encoder and a decoder in one are not read")
        if isinstance(output, ModelOutput) and "last_hidden_state" in output:
            giving.append((module, output["last_hidden_state"]))

    with contextlib.ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_hook(look).remove)
        output = model(ids, **quiet(model))
    if "encoder_last_hidden_state" in output:
        raise ArchitectureError(f"{kind}: an encoder and a decoder in one are not read")
    if not giving:
        raise ArchitectureError(f"{kind}: no module of it gives hidden states")
    body, last = giving[-1]  # last [1, tokens, d_model]
    logits, embedding = getattr(output, "logits", None), model.get_output_embeddings()
    if body is model or logits is None or embedding is None:
        return body, None
    weight = getattr(embedding, "weight", None)  # [vocabulary, d_model]
    # A bias may be zero now and be fitted later.
    has_bias = getattr(embedding, "bias", None) is not None
    if isinstance(weight, Tensor) and not has_bias and weight.shape[1] == last.shape[-1]:
        parts = [last @ rows.T.to(last.dtype) for rows in weight.split(2**13)]
        plain = torch.cat(parts, dim=-1)  # [1, tokens, vocabulary]
        if plain.shape == logits.shape and _is_close(plain, logits):
            return body, LINEAR
    return body, OWN


def _is_close(ours: Tensor, theirs: Tensor) -> bool:
    scale = float(theirs.abs().max()) or 1.0
    rounding = 64 * torch.finfo(theirs.dtype).eps
    return float((ours - theirs).abs().max()) <= rounding * scale


def _number(seen: Observed) -> None:
    """Tell attention modules which layers they compute."""
    layers: dict[int, list[int]] = {}
    for number, call in enumerate(seen.calls):
        layers.setdefault(id(call.module), []).append(number)
    for call in seen.calls:
        setattr(call.module, LAYERS, tuple(layers[id(call.module)]))


def _layer(call: Call, seen: Observed) -> Layer:
    mask: Callable | None
    if call.mask is None:
        mask = causal_mask_function if call.is_causal else bidirectional_mask_function
    else:
        mask = seen.function_of(call.mask)
    options = call.options
    return Layer(
        module=call.module, mask=mask,
        n_heads=call.query.shape[1], n_key_value_heads=call.key.shape[1],
        d_head=call.query.shape[-1], d_value=call.value.shape[-1],
        scaling=options.scaling, softcap=options.softcap,
        has_sinks=options.sinks is not None, has_bias=options.has_bias,
    )  # fmt: skip


def _is_causal(kind: str, layers: list[Layer], seen: Observed) -> bool:
    """Whether all layers hide what comes later, or none does."""
    hides = set()
    for layer, call in zip(layers, seen.calls, strict=True):
        if layer.mask is not None:
            hides.add(layer.is_causal)
        else:
            mask = attention.as_bias(call.mask, call.query.shape[2], call.is_causal, "cpu")
            assert mask is not None
            hides.add(bool((mask[..., 0, 1] <= torch.finfo(torch.float16).min).all()))
    if len(hides) > 1:
        raise ArchitectureError(f"{kind}: some layers see what comes later and others do not")
    return hides.pop()


def _blocks(body: nn.Module, modules: list[nn.Module]) -> Sequence[nn.Module]:
    """The list of modules of which each holds the attention of one layer, if there is one."""
    for module in body.modules():
        if isinstance(module, nn.ModuleList) and len(module) == len(modules):
            pairs = zip(module, modules, strict=True)
            if all(any(part is own for part in block.modules()) for block, own in pairs):
                return cast(Sequence[nn.Module], module)
    return ()


def _position(arch: Architecture, ids: Tensor, called: list) -> Position:
    """Where position enters: by a table that is looked up, or by rotary modules that are called."""
    table = _table(arch, ids)
    if called and table is not None:
        raise ArchitectureError(
            f"{arch.model_type}: positions enter both by a table and by rotation"
        )
    if table is not None:
        return table
    if not called:
        return NoPosition()
    modules = tuple(dict.fromkeys(module for module, _, _ in called))
    forms = {}
    for module, named, output in called:
        form = position.form_of(module, named, output)
        if form is not None:
            forms[modules.index(module), named.get("layer_type")] = form
    return Rotation(modules, forms, positions_of(arch.model.config) or 0)


def _table(arch: Architecture, ids: Tensor) -> Table | None:
    """The table of position embeddings that is looked up, and the rows that tokens get."""
    body = arch.body
    tables = [m for name, m in body.named_modules() if position.is_table(name, m)]
    for module in tables:
        if is_parametrized(module, "weight"):
            raise ArchitectureError(
                f"{arch.model_type}: the weight of its position table is computed by a "
                f"parametrization: call torch.nn.utils.parametrize.remove_parametrizations first"
            )
        rows = _rows_read(body, module, ids)
        if rows is None:
            continue
        first = rows[0]
        if rows != [first + step for step in range(len(rows))]:
            raise ArchitectureError(
                f"{arch.model_type}: its tokens get the rows {rows} of its position table, "
                f"which do not follow one another"
            )
        skipped = getattr(module, "padding_idx", None)
        if skipped is not None:
            padded = ids.clone()
            padded[0, 2] = skipped  # rows are now those of the rule, or they follow one another
            again = _rows_read(body, module, padded)
            with_rule = Table(module, first, skipped, 0).rows(padded[0].tolist()).tolist()
            if again == rows:
                skipped = None
            elif again != with_rule:
                raise ArchitectureError(
                    f"{arch.model_type}: with the token {skipped} in a text, its tokens "
                    f"get the rows {again} of its position table, by no rule that is known"
                )
        return Table(module, first, skipped, _shift(body, module, ids))
    return None


def _rows_read(
    body: nn.Module, module: nn.Embedding, ids: Tensor, **options: Any
) -> list[int] | None:
    """Rows of a table that a text is given, read from a table whose rows are their numbers."""
    original, outputs = module.weight.data, []  # [rows, d_model]
    numbers = torch.arange(len(original), device=original.device, dtype=original.dtype)  # [rows]
    module.weight.data = numbers[:, None].expand(original.shape).clone()
    hook = module.register_forward_hook(lambda _, given, output: outputs.append(output))
    try:
        body(ids, **quiet(body), **options)
    finally:
        hook.remove()
        module.weight.data = original
    if not outputs or outputs[0].shape[-1] != original.shape[1]:
        return None
    values = outputs[0].reshape(-1, original.shape[1])[:, 0].tolist()  # of one text, [tokens]
    return [int(value) for value in values] if len(values) == ids.shape[1] else None


def _shift(body: nn.Module, module: nn.Embedding, ids: Tensor) -> int:
    """How far the rows of a table lie from the position ids that a model is given."""
    if not takes(body, "position_ids"):
        return 0
    places = torch.arange(ids.shape[1], device=ids.device)[None]  # [1, tokens]
    rows = _rows_read(body, module, ids, position_ids=places)
    return rows[0] if rows else 0


def _row(arch: Architecture) -> dict[str, bool]:
    """What the body is given with documents in one row, beside their ids."""
    return {
        "position_ids": arch.takes("position_ids"),
        "token_type_ids": arch.takes("token_type_ids") and not arch.causal,
    }


def _find_handles(arch: Architecture, ids: Tensor, state: Tensor) -> None:
    """Where the sum of the embeddings and the input of the first block pass."""
    body, blocks = arch.body, arch.blocks
    if not blocks:
        return
    inside = {id(part) for block in blocks for part in block.modules()}
    embedding = arch.input_embedding
    looked_up = {id(embedding), id(getattr(arch.position, "module", None))}
    took: list[nn.Module] = []
    gave: list[nn.Module] = []
    begun: list[bool] = []

    def before(module: nn.Module, given: tuple) -> None:
        if id(module) in looked_up:
            took.clear()
        elif given and _is_stream(given[0], state) and not begun:
            took.append(module)

    def after(module: nn.Module, given: tuple, output: Any) -> None:
        is_like = isinstance(output, Tensor) and output.shape == state.shape
        if is_like and not begun and torch.equal(output, state):
            gave.append(module)

    with contextlib.ExitStack() as stack:
        stack.callback(blocks[0].register_forward_pre_hook(lambda *_: begun.append(True)).remove)
        for module in body.modules():
            outside = id(module) not in inside and module is not body
            if outside and not position.is_rotary(module):
                stack.callback(module.register_forward_pre_hook(before).remove)
                stack.callback(module.register_forward_hook(after).remove)
        body(ids, **quiet(body))
    arch.stream = Handle(gave[-1], True) if gave else Handle(blocks[0], False)
    arch.embeddings = Handle(took[0], False) if took else arch.stream


def _is_stream(given: Any, state: Tensor) -> bool:
    return isinstance(given, Tensor) and given.is_floating_point() and given.shape == state.shape
