"""Documents of several lengths in one row, in one call of attention, as a GPU likes it.

A CPU computes neighbours of equal length together instead, and pads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ragged:
    """Where the documents of a row lie.

    Attributes
    ----------
    starts
        int32 [documents + 1]: where each begins, and where the last ends.
    longest
        Tokens of the longest.
    places
        int64 [documents * longest]: the token of the row that stands at each place of the padded
        documents; at padding, any.
    real
        int64 [tokens]: the place in the padded documents of each token of the row.
    """

    starts: Tensor
    longest: int
    places: Tensor
    real: Tensor

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Ragged:
        """From the number of tokens of each document, in order."""
        sizes, longest = torch.tensor(lengths), max(lengths)  # [documents]
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])  # [documents + 1]
        place = torch.arange(longest)  # [longest]
        places = starts[:-1, None] + torch.minimum(
            place, sizes[:, None] - 1
        )  # [documents, longest]
        real = torch.nonzero((place < sizes[:, None]).flatten())[:, 0]  # [tokens]
        return cls(
            starts.to(device, torch.int32), longest, places.flatten().to(device), real.to(device)
        )

    def padded(self, x: Tensor) -> Tensor:
        """[n_heads, tokens, d_head] to [documents, n_heads, longest, d_head], padded at the end."""
        chosen = x.index_select(1, self.places)  # [n_heads, documents * longest, d_head]
        return chosen.unflatten(1, (-1, self.longest)).transpose(0, 1)

    def packed(self, x: Tensor) -> Tensor:
        """[documents, n_heads, longest, d_head] to [tokens, n_heads, d_head]."""
        return x.transpose(1, 2).flatten(0, 1).index_select(0, self.real)

    def attend(
        self,
        query: Tensor,  # [n_heads, tokens, d_head], 16 bits a number, on a GPU
        key: Tensor,  # [n_heads, tokens, d_head]
        value: Tensor,  # [n_heads, tokens, d_head]
        scaling: float,
        causal: bool,
    ) -> Tensor:
        """Attention of each document to itself, [tokens, n_heads, d_head].

        By Flash attention, which takes documents of any lengths as they lie (Dao, 2023,
        arXiv:2307.08691).
        """
        from torch.nn.attention.varlen import varlen_attn

        query, key, value = (
            x.transpose(0, 1) for x in (query, key, value)
        )  # [tokens, n_heads, d_head]
        attended = varlen_attn(
            query, key, value, self.starts, self.starts, self.longest, self.longest,
            scale=scaling, window_size=(-1, 0 if causal else -1),
        )  # fmt: skip
        assert isinstance(attended, Tensor)  # with nothing else asked for, it comes alone
        return attended
