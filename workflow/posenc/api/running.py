"""Texts run through a model: hidden states, queries, keys, patterns and losses by document.

Documents are run one by one: nothing is padded, and documents do not affect each other.
"""

from __future__ import annotations

import contextlib
import io
import math
import numbers
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from posenc.api.model import Model
from posenc.api.under import Active, active, alone, check_model, check_structure
from posenc.architectures import attention
from posenc.architectures.attention import Recording
from posenc.architectures.needs import Need
from posenc.capture.branches import branch_of
from posenc.capture.capture import document_losses, forward, packed_states
from posenc.capture.evaluation import states_under
from posenc.capture.interventions import applied
from posenc.capture.pair_scores import pair_scores
from posenc.capture.parts import ConditionError, first_position
from posenc.capture.patterns import pattern_of, problem
from posenc.conditions.section import Condition
from posenc.models import schemes
from posenc.tokens.tokenize import tokenize

if TYPE_CHECKING:
    import pandas

Arrays = list[NDArray[np.float32]]
LEAKS = ("hf_sdpa_cpu", "hf_sdpa_cuda")
"""Semantics of masks under which queries see the future."""
PROGRESS_AFTER = 2.0
"""Seconds after which a run shows its progress."""


@dataclass(frozen=True)
class Run:
    """What a model made of texts, by document; a list has one entry for each.

    Attributes
    ----------
    model, condition
        Their names; ``intact`` where there was no condition.
    tokens
        As the vocabulary writes them, special tokens included.
    ids
        int64 [tokens].
    nll
        float32 [tokens - 1]: negative log-likelihood of tokens 1, 2, ... given those before them,
        in nats. None for an encoder, which has none, and where they are not the library's.
    """

    model: str
    condition: str
    tokens: list[list[str]]
    ids: list[NDArray[np.int64]]
    nll: Arrays | None
    _kept: dict[str, Arrays] = field(repr=False)
    _absent: dict[str, str] = field(repr=False)

    def _of(self, name: str) -> Arrays:
        if name in self._absent:
            raise ConditionError(f"under {self.condition}: no {name}: {self._absent[name]}")
        return self._kept[name]

    @property
    def hidden_states(self) -> Arrays:
        """float32 [n_layers + 1, tokens, d_model].

        0 is the output of the embeddings, l the input of block l; the last comes after the final
        norm.

        Raises
        ------
        ConditionError
            If ``activations=False`` was asked for.
        """
        return self._of("hidden_states")

    @property
    def queries(self) -> Arrays:
        """float32 [n_layers, n_heads, tokens, d_head], before scaling; a rotary model's as turned.

        Raises
        ------
        ConditionError
            If they do not give the scores under the condition, or were not asked for.
        """
        return self._of("queries")

    @property
    def keys(self) -> Arrays:
        """float32 [n_layers, n_heads, tokens, d_head], one for each query head; else as queries."""
        return self._of("keys")

    @property
    def patterns(self) -> Arrays:
        """float32 [n_layers, n_heads, tokens, tokens]: attention of each query, mask included.

        Raises
        ------
        ConditionError
            If they were not asked for.
        """
        return self._of("patterns")

    @property
    def perplexity(self) -> float:
        """Of all documents together: exp of the mean loss per predicted token.

        Raises
        ------
        ConditionError
            If the model is an encoder, its losses are not the library's, no token was predicted, or
            queries saw the future.
        """
        if "perplexity" in self._absent:
            raise ConditionError(f"under {self.condition}: {self._absent['perplexity']}")
        if self.nll is None:
            raise ConditionError(
                f"{self.model} predicts no token: it is an encoder, or has no language-model head"
            )
        losses = np.concatenate([np.empty(0), *self.nll])  # float64 [predicted tokens]
        if not len(losses):
            raise ConditionError("no token was predicted: the texts are empty")
        with contextlib.suppress(OverflowError):
            return math.exp(losses.mean())
        return math.inf

    def frame(self) -> pandas.DataFrame:
        """A table with one row per token.

        Returns
        -------
        pandas.DataFrame
            ``condition``; ``document`` and ``position``, from 0; ``token``; ``nll`` in nats, NaN
            for the first token of a document and for an encoder's.
        """
        lengths = [len(ids) for ids in self.ids]
        nll = [np.full(length, np.nan) for length in lengths]
        for row, losses in zip(nll, self.nll or [], strict=False):
            row[1:] = losses
        columns = {
            "condition": [self.condition] * sum(lengths),
            "document": np.repeat(np.arange(len(lengths)), lengths),
            "position": [place for length in lengths for place in range(length)],
            "token": [token for document in self.tokens for token in document],
            "nll": np.concatenate([np.empty(0), *nll]),
        }
        return pa.table(columns).to_pandas()


@alone
def run(
    model: Model,
    texts: Sequence[str],
    *,
    patterns: bool = False,
    activations: bool = True,
    max_tokens: int | None = None,
) -> Run:
    """Run texts through a model, under the condition that it is under.

    A decoder's text follows its end-of-text token, so that each token of the text is predicted; an
    encoder's has its special tokens. A bar shows the progress of what takes more than two seconds.

    Parameters
    ----------
    model
        From :func:`posenc.load`.
    texts
        The documents.
    patterns
        Keep attention patterns: 4 bytes per layer, head and pair of tokens.
    activations
        Keep hidden states, queries and keys: about 12 bytes per layer, token and feature of
        ``d_model``. Without them, texts of any number can be run for their losses.
    max_tokens
        Where texts are cut, special tokens included; by default the model's own limit. A warning
        says if any is cut. More tokens than the model has positions need a condition, whose
        ``beyond`` says what they get.

    Returns
    -------
    Run

    Raises
    ------
    TypeError
        If the model is not from :func:`posenc.load`.
    ValueError
        If ``texts`` is one text, a text has no tokens, or ``max_tokens`` leaves none beside the
        special ones.
    ConditionError
        If a text is longer than the model's positions where no condition says what then, the
        network was changed, or patterns are not at hand under the condition.

    Examples
    --------
    >>> run = posenc.run(model, ["the film was good", "the plot was slow again"])
    >>> [states.shape for states in run.hidden_states]
    [(3, 5, 16), (3, 6, 16)]
    >>> list(run.frame().columns)
    ['condition', 'document', 'position', 'token', 'nll']
    """
    check_model(model)
    on = active(model) or Active(model, "intact", Condition(), {})
    check_network(model, on, patterns)
    ids = token_ids(model, texts, max_tokens)
    longest = max(map(len, ids), default=0)
    if model.positions is not None and longest > model.positions and active(model) is None:
        raise ConditionError(
            f"{model.name} has {model.positions} positions, not {longest}: put it under a "
            f"condition, whose `beyond` says what later ones get (posenc.under(model, 'intact'))"
        )
    _warn_of_windows(model, on, longest)
    absent = _absent(model, on, patterns, activations)
    kept: dict[str, Arrays] = {
        name: [] for name in ("hidden_states", "queries", "keys", "patterns") if name not in absent
    }
    nll: Arrays = []
    tokens = sum(map(len, ids))
    has_losses = model.is_decoder and model.architecture.lacks(Need.LOSS) is None
    bar = tqdm(total=tokens, unit="token", desc=model.name, delay=PROGRESS_AFTER)
    pause = on.paused() if active(model) else contextlib.nullcontext()
    with bar as progress, pause, torch.inference_mode():
        for document in ids:
            states, recording = _forward(on, document)
            tensors: dict[str, Sequence[Tensor] | dict[int, Tensor]] = {
                "hidden_states": states,
                "queries": recording.queries,
                "keys": recording.keys,
            }
            arrays = {name: _array(tensors[name]) for name in kept if name != "patterns"}
            if "patterns" in kept:
                arrays["patterns"] = _array(_patterns(on, document, recording))
            for name, array in arrays.items():
                kept[name].append(array)
            if has_losses:
                nll += document_losses(model.network, states[-1], [document])
            progress.update(len(document))
    return Run(
        model=model.name,
        condition=on.name,
        tokens=[[model.tokenizer.id_to_token(token_id) or "" for token_id in row] for row in ids],
        ids=[np.array(document, np.int64) for document in ids],
        nll=nll if has_losses else None,
        _kept=kept,
        _absent=absent,
    )


def _warn_of_windows(model: Model, on: Active, longest: int) -> None:
    """Warn that windows of local attention tell positions that a condition takes away."""
    if on.condition.position == "intact" or longest == 0:
        return
    if layers := model.architecture.window(longest):
        warnings.warn(
            f"{len(layers)} layers of {model.name} see fewer keys than a text of {longest} tokens "
            f"has, which tells positions: take max_tokens={model.reading.max_tokens}",
            stacklevel=3,
        )


def check_network(model: Model, on: Active, patterns: bool = False) -> None:
    """Refuse what would run but be wrong."""
    network = model.network
    check_structure(model)
    reason = None
    if patterns:
        scheme = getattr(network.config, schemes.KEY, "learned")
        inside = f"{scheme} acts inside the attention" if scheme in schemes.IN_ATTENTION else None
        lacking = model.architecture.lacks(Need.PATTERNS)
        reason = problem(on.condition) or inside or lacking
    if wrong := on.changed_attention() or (reason and f"no attention patterns: {reason}"):
        raise ConditionError(f"under {on.name}: {wrong}")


def _absent(model: Model, on: Active, patterns: bool, activations: bool) -> dict[str, str]:
    """Why parts of a run are absent, by name."""
    absent = {}
    if not patterns:
        absent["patterns"] = "ask for them by posenc.run(..., patterns=True)"
    reason = problem(on.condition)
    if on.condition.of_pairs:
        reason = reason or "rotation is another one for some pairs: their products are no scores"
    if reason is None and not model.architecture.is_even:
        reason = "the layers have heads of different sizes"
    if reason is not None:
        absent |= dict.fromkeys(("queries", "keys"), reason)
    if not activations:
        asked = "the run was asked to keep none (activations=False)"
        absent |= dict.fromkeys(("hidden_states", "queries", "keys"), asked)
    if model.is_decoder and (lacking := model.architecture.lacks(Need.LOSS)):
        absent["perplexity"] = f"no perplexity: {lacking}"
    elif model.is_decoder and on.condition.mask and on.condition.mask.semantics in LEAKS:
        absent["perplexity"] = "queries see the future, so that losses give no perplexity"
    return absent


def token_ids(model: Model, texts: Iterable[str], max_tokens: int | None = None) -> list[list[int]]:
    """Token ids of each text, as the workflow makes them."""
    if isinstance(texts, str):
        raise ValueError("texts is one text: give a list of texts")
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise TypeError("texts is a table: give its column of texts, as list(table['text'])")
    if not isinstance(texts, Iterable):
        raise TypeError(f"texts is {texts!r}: give a list of texts")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{number}] is {text!r}: give a text")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"texts[{number}] has half of a surrogate pair at character {error.start}, which "
                f"is no text: leave it out"
            ) from None
    if max_tokens is not None and not isinstance(max_tokens, numbers.Integral):
        raise TypeError(f"max_tokens is {max_tokens!r}: give a whole number")
    names = [str(number) for number in range(len(texts))]
    fewest = 2 if model.is_decoder else model.tokenizer.num_special_tokens_to_add(False) + 1
    if max_tokens is not None and max_tokens < fewest:
        raise ValueError(f"max_tokens is {max_tokens}: {model.name} needs at least {fewest}")
    limit = min(max_tokens or model.reading.max_tokens, sys.maxsize)
    with contextlib.redirect_stderr(io.StringIO()):  # it has a bar of its own, beside ours
        table = tokenize(model.tokenizer, names, texts, limit, model.is_decoder)
    if cut := sum(table["truncated"].to_pylist()):
        warnings.warn(
            f"{cut} of {len(texts)} texts are longer than {limit} tokens and were cut", stacklevel=3
        )
    ids: list[list[int]] = table["input_ids"].to_pylist()
    size = model.architecture.vocabulary_size
    for number, document in enumerate(ids):
        if not document:
            raise ValueError(f"texts[{number}] has no tokens")
        if max(document) >= size:
            raise ValueError(
                f"texts[{number}] has the token {max(document)}, but the model has {size}: its "
                f"tokenizer is another model's"
            )
    return ids


def _forward(on: Active, document: list[int]) -> tuple[list[Tensor], Recording]:
    """Hidden states [tokens, d_model] by layer; queries and keys [1, n_heads, tokens, d_head]."""
    network = on.model.network
    if on.condition.segments is not None:
        (cut,) = states_under(network, [document], [on.condition], on.masks)
        return cut, Recording()
    change: contextlib.AbstractContextManager = contextlib.nullcontext()
    is_long = on.model.positions is not None and len(document) > on.model.positions
    if on.condition != Condition() or is_long:
        tokens = len(document) + first_position(network)  # rows of the table
        change = applied(network, on.condition, on.masks, tokens)
    with change:
        if on.model.architecture.causal:
            states, recording = forward(network, [document])
        else:  # the library has no token types beyond an encoder's last position
            with attention.recording() as recording:
                states = packed_states(network, [document])
    return [state[0] for state in states], recording


def _patterns(on: Active, document: list[int], recording: Recording) -> list[Tensor]:
    """Each layer's pattern under the condition, [n_heads, tokens, tokens].

    Like :func:`posenc.capture.patterns.patterns_under`, without a forward pass of its own.
    """
    network = on.model.network
    branch = branch_of(network, on.condition.mask, on.masks)
    scores = pair_scores(network, on.condition, on.masks) if on.condition.of_pairs else {}
    return [
        pattern_of(network, branch, layer, [document], recording, scores.get(layer))[0]
        for layer in range(branch.n_layers)
    ]


def _array(layers: Sequence[Tensor] | dict[int, Tensor]) -> NDArray[np.float32]:
    """Layers, which may have an axis of one document before the others, in one array."""
    if isinstance(layers, dict):
        layers = [layers[layer][0] for layer in sorted(layers)]
    return torch.stack(list(layers)).float().cpu().numpy()
