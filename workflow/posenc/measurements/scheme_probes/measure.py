"""The probes of :mod:`posenc.measurements.probes`, of decoders with another scheme (B4).

Their activations are not cached: documents are run one after the other, and only the hidden states
of the sampled tokens are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import ArtifactError, read_sealed, sha256_file
from posenc.measurements.frame import Config, Output, seal
from posenc.measurements.of_models import CellsJob, Model, TokensFolder, WeightsFolder, cells
from posenc.measurements.probes.declaration import Probes
from posenc.measurements.probes.measure import Sample, probe
from posenc.measurements.probes.result import PositionProbes
from posenc.measurements.scheme_probes.declaration import MEASUREMENT
from posenc.measurements.scheme_probes.result import SchemeProbes, Training
from posenc.models.devices import device_for, use_threads
from posenc.models.files import model_digests
from posenc.models.load import load
from posenc.tokens.packing import positions_of
from posenc.tokens.tokenized import Tokens


class SchemeJob(CellsJob[Probes]):
    """What the measurement of one decoder depends on, besides its weights and tokens."""

    scheme: str
    device: Literal["auto", "cpu", "cuda"]


def main(
    model: Model, config: Config, weights: WeightsFolder, tokens: TokensFolder,
    training: Annotated[Path, typer.Option(help="summary of its training")],
    output: Output, threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:  # fmt: skip
    """Write OUTPUT/DATASET.json for each data set."""
    use_threads(threads)
    job = read_section(config, SchemeJob)
    digests = {"training": sha256_file(training), **model_digests(weights)}
    learned = read_sealed(training)
    # What a scheme knows of position stands beside how well it predicts.
    of_training = Training.model_validate({name: learned[name] for name in Training.model_fields})
    network = load(weights, job.reading.family, device_for(job.device))
    for path, of, text in cells(model, job.datasets, tokens, output):
        measured = measure(job.parameters, network, text)
        seal(
            path,
            MEASUREMENT,
            {**of, "condition": "intact"},
            SchemeProbes(scheme=job.scheme, training=of_training, **dict(measured)),
            job.parameters,
            {"tokens": text.digest, **digests},
        )


def measure(parameters: Probes, network: Any, text: Tokens) -> PositionProbes:
    """Probe a decoder's hidden states."""
    special = np.concatenate(
        [np.asarray(flags, bool) for flags in text.table["special"].to_pylist()]
    )
    document = np.repeat(np.arange(len(text.ids)), text.lengths)[~special]  # [kept]
    position = positions_of(text.lengths)[~special]  # [kept]
    sample = Sample.draw(parameters, document, position)
    wanted = np.unique(np.concatenate([sample.tokens, sample.first, sample.second]))  # [wanted]
    states = hidden_states(network, text, document[wanted], position[wanted])

    def read(state: int, kept: NDArray[np.int64]) -> NDArray[np.floating]:
        return states[state, np.searchsorted(wanted, kept)]

    try:
        return probe(parameters, sample, len(states), read)
    except ValueError as error:
        raise ArtifactError(f"{text.path}: {error}; train the model again") from error


def hidden_states(
    network: Any,
    text: Tokens,
    document: NDArray[np.int64],  # [wanted]
    position: NDArray[np.int64],  # [wanted]
) -> NDArray[np.float32]:
    """Hidden states of single tokens, [n_layers + 1, wanted, d_model]; the last are normalised.

    Parameters
    ----------
    network
        A ``GPT2LMHeadModel`` in evaluation mode.
    text
        Its documents.
    document, position
        Of each wanted token, in the order of documents.
    """
    import torch

    from posenc.capture.parts import architecture

    sizes = architecture(network)
    shape = sizes.n_layers + 1, len(document), sizes.d_model
    states = np.empty(shape, np.float32)  # [n_layers + 1, wanted, d_model]
    numbers, begin = np.unique(document, return_index=True)  # [documents] each
    ends = np.append(begin[1:], len(document))  # [documents]
    progress = tqdm(numbers, unit="document", desc="hidden states", mininterval=5)
    for number, low, high in zip(progress, begin, ends, strict=True):
        ids = torch.tensor([text.ids[number]], device=network.device)  # [1, tokens]
        with torch.inference_mode():
            # Without the cached keys that generation would go on from.
            out = network.transformer(ids, output_hidden_states=True, use_cache=False)
        for state, hidden in enumerate(out.hidden_states):  # [1, tokens, d_model] each
            states[state, low:high] = hidden[0].float().cpu().numpy()[position[low:high]]
    return states


if __name__ == "__main__":
    run(main)
