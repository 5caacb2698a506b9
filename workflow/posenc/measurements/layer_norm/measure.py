"""What the normalisations do to position, all along the residual stream (C5).

The model runs on whole documents, and the input of each normalisation is kept. In an encoder, which
normalises after each addition, position passes all of them; a decoder's residual stream carries P
unchanged, and each normalisation shows it to a block.

Position is followed in two ways. P itself is the embedding, carried by the stream and its
normalisations alone. The mean part of position is all that depends on it on average, whatever has
brought it: P itself, the words that stand at a position, attention or MLPs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.positions import ROTATION
from posenc.measurements.frame import not_run
from posenc.measurements.layer_norm import result
from posenc.measurements.layer_norm.declaration import MEASUREMENT, LayerNorm
from posenc.measurements.of_models import of_tokens
from posenc.metrics.normalisation import SOURCES, ScaleEffect, carried, of_scale, parts
from posenc.metrics.position_moments import MapEffect, of_map
from posenc.metrics.sampling import shuffled_within
from posenc.tokens.packing import packs_of, positions_of
from posenc.tokens.tokenized import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from posenc.capture.normalisations import Normalisation

BATCH_TOKENS = 2048
"""Tokens that run at a time."""


def measure(
    parameters: LayerNorm, network: PreTrainedModel | None, text: Tokens
) -> result.Path | NotMeasured:
    """All normalisations of a model, in the order in which a token passes them."""
    if network is None:
        return not_run("positions turn queries and keys: no table adds to states", parameters)
    from posenc.capture.normalisations import normalisations
    from posenc.capture.parts import first_position, is_decoder, position_embedding

    documents = draw(text, parameters.tokens, parameters.seed)
    norms = normalisations(network)
    weights = [
        (norm.module.weight.detach().numpy(), norm.module.bias.detach().numpy()) for norm in norms
    ]
    eps = norms[0].module.eps
    inputs, error = run_through(network, documents, weights, eps)
    is_stream = not is_decoder(network)
    places = position_embedding(network).weight.detach().numpy()[first_position(network) :]
    lengths = np.array([len(ids) for ids in documents])  # [documents]
    position = positions_of(lengths)  # [tokens]
    document = np.repeat(np.arange(len(documents)), lengths)  # [tokens]
    later = position > 0  # [tokens]: the first token is the same in every document
    # Within documents, so that what documents differ in stays as it is.
    shuffled = shuffled_within(position[later], document[later], [parameters.seed, 1])
    path = carried(
        (x[later] for x in inputs), weights, [norm.added for norm in norms],
        places[position[later]], eps=eps, is_stream=is_stream,
    )  # fmt: skip
    # P, as the normalisations behind have left it but for their scales; and the product of these.
    table, earlier = places.astype(np.float64), np.float64(1)  # [positions, d_model], [] or [later]
    own = position[later], document[later]
    rows = []
    steps = zip(norms, inputs, weights, path, strict=True)
    for norm, x, (gain, bias), (scale, vectors) in tqdm(
        steps, total=len(norms), unit="normalisation", desc="layer norm", mininterval=5
    ):
        of_tables = of_scale(scale, table, gain, *own, parameters.confidence, earlier)
        of_states = of_map(
            vectors, own[0], shuffled, own[1], names=SOURCES, confidence=parameters.confidence
        )
        first = float(parts(x[~later], gain, bias, eps).scale.mean())
        rows.append(normalisation(norm, of_tables, first, of_states))
        if is_stream:
            table = (table - table.mean(axis=-1, keepdims=True)) * gain  # [positions, d_model]
            earlier = earlier * scale  # [later]
    return result.Path(
        documents=len(documents),
        tokens=int(np.count_nonzero(later)),
        confidence=parameters.confidence,
        n_layers=(len(norms) - 1) // 2,
        placement="after" if is_stream else "before",
        eps=eps,
        library_error=error,
        norms=rows,
    )


def normalisation(
    norm: Normalisation, scaled: ScaleEffect, first: float, mapped: MapEffect
) -> result.Normalisation:
    """What one normalisation does to P, and to the mean part of position.

    Parameters
    ----------
    norm
        The normalisation.
    scaled, mapped
        What it does to P, and to the states.
    first
        Mean scale of the documents' first tokens.
    """
    spectrum = scaled.spectrum
    return result.Normalisation(
        name=norm.name,
        layer=norm.layer,
        scale=result.Scale.model_validate(scaled.scale, from_attributes=True),
        variation=Interval.of(scaled.variation),
        window=scaled.window,
        windows=scaled.windows,
        spectrum=result.Spectrum(
            frequency=spectrum.frequency.tolist(),
            position=spectrum.position.tolist(),
            scaled=Interval.each(spectrum.scaled),
        ),
        scale_at_first=first,
        between=result.Between.model_validate(mapped.between, from_attributes=True),
        shares=result.Shares.model_validate(mapped.shares, from_attributes=True),
        gain=result.Gain.model_validate(mapped.gain, from_attributes=True),
        cosine=result.Cosine.model_validate(mapped.cosine, from_attributes=True),
        sources=result.Sources.model_validate(mapped.sources, from_attributes=True),
        content_sources=result.Sources.model_validate(mapped.content_sources, from_attributes=True),
    )


def draw(text: Tokens, tokens: int, seed: int) -> list[list[int]]:
    """Random documents with that many tokens together, or all documents; short ones first.

    Raises
    ------
    ArtifactError
        If fewer than three of them have two tokens.
    """
    lengths = text.lengths  # [documents]
    order = np.random.default_rng(seed).permutation(len(lengths))
    enough = np.searchsorted(np.cumsum(lengths[order]), tokens) + 1
    chosen = order[: max(3, int(enough))]  # [sampled documents]
    # The jackknife leaves one out, and two have to share a position.
    if np.count_nonzero(lengths[chosen] > 1) < 3:
        raise ArtifactError(
            f"{text.path} has fewer than three documents of two tokens: raise "
            f"evaluation.documents or measurements.layer_norm.tokens in params.yaml"
        )
    # Neighbours of equal length share calls.
    chosen = chosen[np.argsort(lengths[chosen], kind="stable")]
    return [list(text.ids[index]) for index in chosen]


def run_through(
    network: PreTrainedModel,
    documents: list[list[int]],
    weights: list[tuple[NDArray[np.float32], NDArray[np.float32]]],
    eps: float,
) -> tuple[list[NDArray[np.float32]], float]:
    """Inputs of all normalisations, [tokens, d_model] each; and the error of their parts.

    The error is the largest difference of :attr:`posenc.metrics.normalisation.Parts.output` from
    what the library returns, over the largest number that it returns.
    """
    from posenc.capture.normalisations import passed

    kept: list[list[NDArray[np.float32]]] = [[] for _ in weights]
    errors = []
    lengths = np.array([len(ids) for ids in documents], np.int64)  # [documents]
    for pack in packs_of(lengths, list(range(len(documents))), BATCH_TOKENS):
        seen = passed(network, [documents[index] for index in pack.documents])
        for (gain, bias), (given, returned), inputs in zip(weights, seen, kept, strict=True):
            inputs.append(given.numpy())
            own = parts(inputs[-1], gain, bias, eps).output  # [tokens, d_model]
            errors.append(np.abs(own - returned.numpy()).max() / np.abs(own).max())
    return [np.concatenate(inputs) for inputs in kept], float(max(errors))


main = of_tokens(MEASUREMENT, measure, is_for=lambda reading: reading.positions != ROTATION)

if __name__ == "__main__":
    from posenc.artifacts.command import run

    run(main)
