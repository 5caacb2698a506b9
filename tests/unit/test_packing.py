"""Documents in rows of a token budget."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posenc.tokens.packing import packs_of, positions_of


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 60))
def test_every_document_has_one_place_and_no_row_is_too_long(lengths, budget):
    packs = list(packs_of(np.array(lengths, int), range(len(lengths)), budget))
    assert [document for pack in packs for document in pack.documents] == list(range(len(lengths)))
    for pack in packs:
        assert pack.tokens <= budget or len(pack.documents) == 1
        assert [span.stop - span.start for _, span in pack.spans] == pack.lengths
        assert list(pack.spans)[-1][1].stop == pack.tokens
    # No two neighbours would have fitted one row.
    for ours, theirs in itertools.pairwise(packs):
        assert ours.tokens + theirs.lengths[0] > budget


def test_positions_begin_anew_with_each_document():
    assert positions_of([3, 1, 2]).tolist() == [0, 1, 2, 0, 0, 1]
