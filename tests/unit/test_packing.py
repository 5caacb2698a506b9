"""Documents in rows of a token budget."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from posenc.tokens.packing import packs_of, positions_of, windows_of


@given(st.lists(st.integers(1, 40), max_size=30), st.integers(1, 60))
def test_every_document_has_one_place_and_no_row_is_too_long(lengths, budget):
    packs = list(packs_of(np.array(lengths, int), range(len(lengths)), budget))
    assert [document for pack in packs for document in pack.documents] == list(range(len(lengths)))
    for pack in packs:
        assert pack.tokens <= budget or len(pack.documents) == 1
        assert [span.stop - span.start for _, span in pack.spans] == pack.lengths
        assert list(pack.spans)[-1][1].stop == pack.tokens
    # No two neighbours would have fit in one row.
    for ours, theirs in itertools.pairwise(packs):
        assert ours.tokens + theirs.lengths[0] > budget


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_a_token_is_read_in_the_first_window_that_reaches_it(tokens, size, data):
    """By brute force: the first of all windows, in order, that holds the token."""
    stride = data.draw(st.integers(1, size))
    windows = windows_of(tokens, size, stride)
    read = {place: begin for begin, first, end in windows for place in range(first, end)}
    assert sum(end - first for _, first, end in windows) == tokens
    for place in range(tokens):
        begins = range(0, place + 1, stride)
        assert read[place] == next(begin for begin in begins if place < begin + size)
    assert all(end - begin <= size and end > first for begin, first, end in windows)


def test_positions_begin_anew_with_each_document():
    assert positions_of([3, 1, 2]).tolist() == [0, 1, 2, 0, 0, 1]
