"""Single tokens of a store: which are taken in, and their hidden states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.activations import ActivationStore


class KeptTokens:
    """The tokens of a store that a measurement takes in, numbered through all shards.

    Attributes
    ----------
    masks
        bool [tokens of the shard] for each shard: which of its tokens are kept.
    document, position
        int64 [kept]: index of each kept token's document, and its position there, in tokens.
    shard, row
        int64 [kept]: where each kept token's hidden states lie.
    """

    def __init__(self, store: ActivationStore, special_tokens: bool) -> None:
        shard_of_document = store.documents["shard"].to_numpy()  # [documents]
        length = store.documents["length"].to_numpy()  # [documents]
        self.masks, documents, rows = [], [], []
        for shard in range(store.n_shards):
            special = store.special_mask(shard)  # [tokens of the shard]
            keep = np.ones_like(special) if special_tokens else ~special
            inside = np.flatnonzero(shard_of_document == shard)  # [documents of the shard]
            self.masks.append(keep)
            rows.append(np.flatnonzero(keep))
            documents.append(np.repeat(inside, length[inside])[keep])
        self.document = np.concatenate(documents)  # [kept]
        self.row = np.concatenate(rows)  # [kept]
        self.shard = np.repeat(np.arange(store.n_shards), [len(r) for r in rows])  # [kept]
        self.position = self.row - store.documents["start"].to_numpy()[self.document]  # [kept]


def layer_name(state: int, n_states: int) -> str:
    """What hidden states are called: the embedding, the input of block 1, ..., the last."""
    if state == 0:
        return "embedding"
    return "last" if state == n_states - 1 else f"block {state}"


def gather(
    store: ActivationStore, state: int, shard: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.floating]:
    """Hidden states of single tokens, [n, d_model], without reading the rest of a shard.

    Parameters
    ----------
    store
        Where to read.
    state
        Index of the hidden states, 0 for the embedding.
    shard, row
        [n] each: shard of each token, and its row within the shard.
    """
    states = [store.hidden_states(number)[state] for number in range(store.n_shards)]
    out = np.empty((len(row), store.metadata["d_model"]), states[0].dtype)  # [n, d_model]
    for number, rows in enumerate(states):
        here = shard == number  # [n]
        out[here] = rows[row[here]]
    return out
