"""What was discovered about a model, proved on the model itself in a few forward passes.

The library's own eager attention, one document alone, is the truth. Each check gives a difference,
and one that fails is the reason why measurements that need it do not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor
from torch.nn import functional

from posenc.architectures import attention
from posenc.architectures.architecture import Architecture, quiet
from posenc.architectures.attention import NAME
from posenc.architectures.comparing import (
    FAILURES,
    FLOAT32,
    Check,
    affordable,
    apart,
    at_most,
    check_finite,
    ids_of,
    sample_ids,
    states_alone,
    states_of,
    under,
    whole,
    worse,
)
from posenc.architectures.discover import of
from posenc.architectures.float32 import in_float32
from posenc.architectures.maps import check_maps
from posenc.architectures.needs import ArchitectureError, Need
from posenc.architectures.position import Rotation
from posenc.architectures.removal import Before, far, removed, takes_before

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SPECIAL = ("mask", "pad", "bos", "eos", "sep", "cls", "unk")
"""Tokens that a configuration may name."""
MOST = 64
"""Tokens of a text that are looked at."""
PATTERN = 1e-6
"""Difference of an attention pattern that rounding explains, whose entries are 0 to 1."""


class Verdict(TypedDict):
    """What an artifact holds of a :class:`Verification`."""

    model_type: str
    is_causal: bool
    position: str
    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    positions: int | None
    """Rows of the table of position embeddings."""
    library: str
    checks: list[dict[str, str | float | None]]
    can: dict[str, str | None]
    """By what measurements need, why it lacks it; None where it does not."""


@dataclass(frozen=True)
class Verification:
    """All checks of a model, and what follows from them."""

    architecture: Architecture
    checks: tuple[Check, ...]
    library: str

    def as_json(self) -> Verdict:
        """What an artifact holds of it."""
        arch = self.architecture
        return {
            "model_type": arch.model_type,
            "is_causal": arch.causal,
            "position": arch.position.kind,
            "n_layers": arch.n_layers,
            "n_heads": arch.n_heads,
            "d_model": arch.d_model,
            "d_head": arch.d_head,
            "positions": arch.positions,
            "library": self.library,
            "checks": [asdict(check) for check in self.checks],
            "can": {str(need): reason for need, reason in arch.can.items()},
        }


Row = Callable[["PreTrainedModel", list[list[int]]], Any]
"""Gives the output of a model for documents in one row."""


def verify(
    model: PreTrainedModel, documents: Sequence[Sequence[int]] = (), row: Row | None = None
) -> Verification:
    """Compare a model as it is run here with the library's own run of it.

    Parameters
    ----------
    model
        Of the library; run in float32 even if its weights have fewer bits.
    documents
        Token ids of some texts, as the library's own tokenizer gives them; by default made-up
        ones.
    row
        How documents are run in one row; None where that is not asked for.

    Raises
    ------
    ArchitectureError
        If the model cannot be read, or its hidden states are not the library's.
    """
    import transformers

    arch = of(model)
    texts = [list(ids)[:MOST] for ids in documents if len(ids) > 1] or _made_up(arch)
    texts += _with_special(arch, texts[0])
    former, was_training = model.config._attn_implementation, model.training
    model.eval()
    try:
        with torch.inference_mode(), in_float32(model):
            checks = _checked(arch, texts, row)
    finally:
        if model.config._attn_implementation != former:
            model.set_attn_implementation(former)
        model.train(was_training)
    verification = Verification(arch, tuple(checks), transformers.__version__)
    for name in ("hidden states", "positions of tokens", "the future", "the restored model"):
        for check in checks:
            if check.name == name and not check.holds:
                raise ArchitectureError(f"{arch.model_type}: {check.problem}")
    return verification


def _made_up(arch: Architecture) -> list[list[int]]:
    ids = sample_ids(arch.model, 16)
    return [ids[:11], ids[5:12], ids[2:13]]


def _with_special(arch: Architecture, ids: list[int]) -> list[list[int]]:
    """A text with the tokens that the configuration names, which a model may treat otherwise."""
    config = arch.model.config.get_text_config(decoder=True)
    named = (getattr(config, f"{name}_token_id", None) for name in SPECIAL)
    special = [t for t in named if isinstance(t, int) and 0 <= t < arch.vocabulary_size]
    text = [token for pair in zip(special, ids, strict=False) for token in pair]
    text = [ids[0], *text, *special][: arch.positions]
    return [text] if len(text) > 1 else []


def _checked(arch: Architecture, texts: list[list[int]], row: Row | None) -> list[Check]:
    model, allowed = arch.model, FLOAT32
    with under(model, "eager"):
        theirs = [
            whole(
                arch,
                ids,
                output_attentions=True,
                attention_mask=torch.ones_like(ids_of(arch, ids)),
            )
            for ids in texts
        ]
    with under(model, NAME):
        ours = [whole(arch, ids) for ids in texts]
        recordings = []
        with attention.explicitly():
            for ids in texts:
                with attention.recording() as recording:
                    whole(arch, ids)
                recordings.append(recording)
        alone = [states_alone(arch, ids) for ids in texts]
    check_finite(arch, theirs)
    difference = max(apart(states_of(ours), states_of(theirs)), _beyond(arch, texts))
    checks = [_states(arch, difference, apart(alone, states_of(ours)), allowed)]
    checks.append(_future(arch, texts[0], allowed))
    checks.append(_patterns(arch, texts, recordings, theirs))
    checks.append(_losses(arch, texts, ours, theirs))
    checks.append(_packed(arch, texts, row, alone, allowed))
    checks.append(removed(arch, allowed))
    checks.append(_blocks(arch, texts[0], allowed))
    with under(model, NAME):
        restored = [whole(arch, ids) for ids in texts]
    checks.append(Check("the restored model", apart(states_of(restored), states_of(ours)), 0.0))
    by_name = {check.name: check for check in checks}
    _conclude(arch, by_name)
    with under(model, NAME):
        maps, path = check_maps(arch, ids_of(arch, texts[0]))
    arch.can |= {Need.MAPS: maps, Need.NORM_PATH: path}
    return checks


def _states(arch: Architecture, difference: float, without: float, allowed: float) -> Check:
    """Hidden states of the model, and of its body alone, which is what runs call."""
    name = "hidden states"
    if difference <= allowed < without:
        reason = (
            f"its forward, or a hook on it, changes what its {type(arch.body).__name__} is given, "
            f"which is run alone here: make the change there"
        )
        return Check(name, None, allowed, reason)
    return Check(name, max(difference, without), allowed)


def _conclude(arch: Architecture, checks: dict[str, Check]) -> None:
    """What holds, by need."""
    kind, can = arch.position.kind, arch.can
    can[Need.PATTERNS] = checks["patterns"].problem
    can[Need.LOSS] = checks["losses"].problem
    can[Need.PACKED] = checks["packed documents"].problem
    can[Need.BLOCKS] = checks["inputs of blocks"].problem
    can[Need.REMOVABLE] = checks["positions taken away"].problem
    is_plain = not any(o.softcap or o.has_sinks or o.has_bias for o in arch.layers)
    can[Need.PRODUCTS] = None if is_plain else "its scores are capped, or have sinks or biases"
    can[Need.TURNS] = getattr(arch.position, "unturned", None)
    for need in (Need.TABLE, Need.ROTATION):
        can[need] = None if kind == need else f"its positions are {_WORDS[kind]}"


_WORDS = {"table": "a table", "rotation": "a rotation", "none": "neither a table nor a rotation"}


def _beyond(arch: Architecture, texts: list[list[int]]) -> float:
    """How far states of a longer text are from the library's: some models change with the length.

    By the pattern, as the library's eager attention does: what a model chooses by its scores must
    not hang on rounding.
    """
    tokens = affordable(arch)
    if tokens <= max(map(len, texts)):
        return 0.0
    ids = sample_ids(arch.model, tokens)
    with under(arch.model, "eager"):
        theirs = whole(arch, ids, attention_mask=torch.ones_like(ids_of(arch, ids)))
    check_finite(arch, [theirs])
    with under(arch.model, NAME), attention.explicitly():
        ours = whole(arch, ids)
    return apart(states_of([ours]), states_of([theirs]))


def _future(arch: Architecture, ids: list[int], allowed: float) -> Check:
    """Another last token changes no earlier state of a decoder, and does of an encoder."""
    other = [*ids[:-1], next(t for t in sample_ids(arch.model, 9) if t != ids[-1])]
    with under(arch.model, NAME):
        pair = [whole(arch, text).hidden_states for text in (ids, other)]
    cut = [[state[:, :-1] for state in states] for states in pair]
    difference = apart([cut[0]], [cut[1]])
    if arch.causal:
        return Check("the future", difference, allowed)
    if difference > allowed:
        return Check("the future", 0.0, allowed)
    return Check("the future", None, allowed, "no token sees a later one")


def _bias(arch: Architecture, layer: int, tokens: int) -> Tensor | None:
    """What the layer's mask adds to its scores, [tokens, tokens]; None if it is the model's own."""
    return mask_bias(arch, layer, tokens, next(arch.model.parameters()).device)


def mask_bias(arch: Architecture, layer: int, tokens: int, device: Any) -> Tensor | None:
    """The mask of a layer as a bias on its scores, float32 [tokens, tokens].

    None where the model makes a mask of its own, which is not known here.
    """
    own = arch.layers[layer]
    if own.mask is None:
        return None
    if (sees := own.sees(tokens)) is not None:
        return torch.where(sees, 0.0, -torch.inf).to(device)
    bias = torch.zeros(tokens, tokens, device=device)  # [tokens, tokens]
    return bias.fill_(-torch.inf).triu_(1) if arch.causal else bias


def _patterns(
    arch: Architecture, texts: list[list[int]], recordings: list[Any], theirs: list[Any]
) -> Check:
    worst = 0.0
    for ids, recording, output in zip(texts, recordings, theirs, strict=True):
        patterns = [p for p in getattr(output, "attentions", None) or () if p is not None]
        if len(patterns) != arch.n_layers:
            reason = f"the library gives {len(patterns)} patterns of {arch.n_layers} layers"
            return Check("patterns", None, PATTERN, reason)
        for layer, expected in enumerate(patterns):
            bias = _bias(arch, layer, len(ids))
            if bias is None:
                reason = f"layer {layer} makes a mask of its own"
                return Check("patterns", None, PATTERN, reason)
            products = recording.queries[layer] @ recording.keys[layer].transpose(-1, -2)
            ours = attention.pattern(products, recording.options[layer], bias)
            if ours.shape != expected.shape:
                return Check("patterns", None, PATTERN, "the library's have another shape")
            worst = worse(worst, float((ours - expected.float()).abs().max()))
    return Check("patterns", worst, PATTERN)


def _losses(
    arch: Architecture, texts: list[list[int]], ours: list[Any], theirs: list[Any]
) -> Check:
    """Logits from the states after the final norm, against the library's own."""
    if not arch.causal or arch.head is None:
        return Check("losses", None, FLOAT32, "no language-model head")
    worst = 0.0
    with under(arch.model, NAME):
        for ids, output, expected in zip(texts, ours, theirs, strict=True):
            targets = torch.tensor(ids[1:], device=expected.logits.device)  # [tokens - 1]
            wanted = functional.cross_entropy(expected.logits[0, :-1].float(), targets)
            last = output.hidden_states[-1][0]  # [tokens, d_model]
            logits = arch.logits(last)  # [tokens, vocabulary]
            own = functional.cross_entropy(logits[:-1].float(), targets)
            worst = worse(worst, abs(float(own - wanted)) / max(1.0, float(wanted)))
    return Check("losses", worst, FLOAT32)


def _packed(
    arch: Architecture,
    texts: list[list[int]],
    row: Row | None,
    alone: list[list[Tensor]],  # by text and layer
    allowed: float,
) -> Check:
    """Documents in one row against each alone."""
    name = "packed documents"
    if row is None:
        return Check(name, None, allowed, "not looked at")
    for layer, own in enumerate(arch.layers):
        if own.mask is None:
            return Check(name, None, allowed, f"layer {layer} makes a mask of its own")
    copies = max(1, -(-at_most(arch) // sum(map(len, texts))))  # the row is as long as can be
    with under(arch.model, NAME):
        try:
            joint = row(arch.model, texts * copies)
        except FAILURES as error:
            reason = f"several documents in a row do not run ({type(error).__name__})"
            return Check(name, None, allowed, reason)
        late = _late(arch, texts[0])
    joined = [torch.cat(states, dim=1).repeat(1, copies, 1) for states in zip(*alone, strict=True)]
    pairs = [(joint.hidden_states, joined), *([(late, alone[0])] if late else [])]
    return Check(name, max(apart([ours], [wanted]) for ours, wanted in pairs), allowed)


def _late(arch: Architecture, ids: list[int]) -> Any:
    """States of a document that is told its positions, but stands late in a row; None if unknown.

    A model that counts by itself would tell it from the same document alone.
    """
    if not (
        isinstance(arch.position, Rotation) and arch.row["position_ids"] and takes_before(arch)
    ):
        return None
    places = torch.arange(len(ids), device=next(arch.model.parameters()).device)[None]
    before = Before(far(arch, len(ids)))
    try:
        output = arch.body(
            ids_of(arch, ids), position_ids=places, past_key_values=before,
            **quiet(arch.body, output_hidden_states=True),
        )  # fmt: skip
    except FAILURES:
        return None  # it keeps more in a cache than keys and values
    return output.hidden_states


def _blocks(arch: Architecture, ids: list[int], allowed: float) -> Check:
    """What each block is given first, against the hidden states."""
    name = "inputs of blocks"
    if not arch.blocks:
        return Check(name, None, allowed, "its layers are no list of blocks")
    given: list[Any] = []
    with under(arch.model, NAME), contextlib.ExitStack() as stack:
        for block in arch.blocks:
            hook = block.register_forward_pre_hook(lambda _, inputs: given.append(inputs[:1]))
            stack.callback(hook.remove)
        output = arch.body(ids_of(arch, ids), **quiet(arch.body, output_hidden_states=True))
    states = list(output.hidden_states)
    taken = [x[0] for x in given if x and isinstance(x[0], Tensor)]
    if len(taken) != arch.n_layers or any(a.shape != states[0].shape for a in taken):
        return Check(name, None, allowed, "its blocks are not given the hidden states first")
    ours = [*taken, output.last_hidden_state]
    return Check(name, apart([ours], [states]), 0.0)
