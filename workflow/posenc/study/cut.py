"""Which documents of a study are cut, because they are longer than a model reads."""

from __future__ import annotations

from collections.abc import Iterator

from posenc.artifacts.files import if_whole
from posenc.artifacts.tables import read_table
from posenc.study.params import Params
from posenc.study.storage import SPECIAL_TOKENS, TOKEN_BYTES, text_sizes, tokens_path
from posenc.tokens.coverage import Coverage, coverage_of


def lines(params: Params) -> Iterator[str]:
    """Say how much each model reads of a data set, where documents are cut, a line for each.

    It is counted where there are tokens, and estimated from the text where that is at hand.

    Parameters
    ----------
    params
        The parameters; their active study is meant.
    """
    for dataset in params.study.datasets:
        sizes = text_sizes(dataset, params.datasets[dataset])
        for model in params.study.models:
            longest = params.models[model].max_tokens
            tokens = if_whole(tokens_path(params, model, dataset), read_table)
            if tokens is not None:
                how, coverage = "", coverage_of(tokens[0])
            elif sizes:
                count = params.datasets[dataset].evaluation.documents
                how, coverage = " (estimated)", estimated(sizes, longest, count)
            else:
                continue
            if coverage.cut:
                yield f"{model} on {dataset}{how}: {coverage}"


def estimated(sizes: list[int], longest: int, documents: int | None) -> Coverage:
    """What a model reads of a text, before it is tokens.

    Parameters
    ----------
    sizes
        UTF-8 bytes of each document, at least one.
    longest
        Tokens that the model reads of a document.
    documents
        How many are drawn of them; None for all.
    """
    lengths = [size / TOKEN_BYTES for size in sizes]
    room = longest - SPECIAL_TOKENS
    scale = (documents or len(sizes)) / len(sizes)
    return Coverage(
        documents or len(sizes),
        round(scale * sum(length > room for length in lengths)),
        round(scale * sum(min(length, room) for length in lengths)),
        round(scale * sum(lengths)),
    )
