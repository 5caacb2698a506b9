"""Does a decoder without positions count them off the causal mask? Probes and controls (B4).

A ridge probe reads the position of the same tokens, with the same folds, in hidden states of
variants of one model: as it is; without its table or rotation; the same with random weights;
without a causal mask; without the first key, which all tokens could measure themselves against; and
with a causal window. Hiding the first key is the same as cutting the first token off, which is the
start-of-text token where there is one: no token then depends on it.

The prediction, made before any run. Position can be read off the words, which differ between the
beginning and the end of a text, or counted, from how many tokens are seen. A token that sees the
last w tokens has, after L layers, a receptive field of L (w - 1) + 1 tokens, and beyond it nothing
is left to count: all see equally many. If position is counted,

- inside the receptive field the error is that without a window;
- beyond it the error exceeds that without a window, and is no less than that of the token alone;
- without the causal mask it is no less than that of the token alone, at any layer.

If it is read off the words, windows and the missing mask change little. Inside and beyond, probes
are fitted to those tokens alone: one for all would call every token beyond the field far away. A
model never saw a window, or the future, in training, so part of an error there comes from
unfamiliar input; the error inside the field shows how large that part is.

The same probe also reads the states of the model under conditions of the study that put a mask in
the place of positions. A mask can bring back the loss but not position: it tells a head how far
away a key is, and never where a token stands. The prediction, again made before any run: where
position comes back with the loss, the error falls below that without positions and towards that
with them; a placebo, whose heads have the curves of others, shows what any mask does. Rotation
tells a head how far away a key is, too: where it leaves no more of position than a mask, that is
its nature and not the mask's failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.artifacts.results import Interval
from posenc.artifacts.samples import layer_name
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import Condition, dumped
from posenc.measurements.causal_probes import result
from posenc.measurements.causal_probes.declaration import FEWEST, MEASUREMENT, CausalProbes
from posenc.measurements.frame import bootstrap
from posenc.measurements.under_conditions import ConditionsJob, of_masks
from posenc.metrics.causal_windows import receptive_field, visible
from posenc.metrics.probes import position_errors
from posenc.metrics.recovery import PairedMeans
from posenc.metrics.sampling import sampled
from posenc.models.devices import use_threads
from posenc.models.load import load
from posenc.tokens.packing import positions_of
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.floating]
WITHOUT = "zero"
VARIANTS = ("intact", WITHOUT, "random", "non_causal", "no_first_key")
"""What is always run, besides windows."""


Job = ConditionsJob[CausalProbes]


class Sees(TypedDict, total=False):
    """Arguments of :func:`posenc.metrics.causal_windows.visible`."""

    is_causal: bool
    has_first: bool
    window: int


class Variant(NamedTuple):
    """A model, and what its tokens see.

    Attributes
    ----------
    name
        As in the file.
    condition
        What becomes of positions, and of attention.
    is_random
        Whether its weights are random.
    sees
        None for the model's own mask.
    is_of_study
        Whether it is a condition of the study.
    """

    name: str
    condition: Condition
    is_random: bool = False
    sees: Sees | None = None
    is_of_study: bool = False


class Sample(NamedTuple):
    """Tokens that are probed: int64 [sampled] each."""

    document: NDArray[np.int64]
    position: NDArray[np.int64]

    def at(self, chosen: NDArray[np.bool_]) -> Sample:  # [sampled]
        """Some of them."""
        return Sample(self.document[chosen], self.position[chosen])


def measure(
    job: Job, network: Any, text: Tokens, learned: Mapping[str, LearnedMask]
) -> result.VariantProbes:
    """Run all variants on some documents of a text, and probe them."""
    parameters = job.parameters
    documents = text.ids[: parameters.documents]
    try:
        sample = drawn(parameters, text)
        other = with_random_weights(network, parameters.seed)
        compared = list(variants(job.reading.is_decoder, parameters, job.conditions))
        states = {
            variant.name: hidden_states(
                other if variant.is_random else network, documents, sample, variant, learned
            )
            for variant in tqdm(compared, unit="variant", desc="causal_probes")
        }  # [n_states, sampled, d_model] each
        return results(parameters, sample, compared, states)
    except ValueError as error:
        raise ArtifactError(f"{text.path}: {error}") from error


def variants(
    is_decoder: bool, parameters: CausalProbes, conditions: Mapping[str, Condition]
) -> Iterator[Variant]:
    """The model, the same without positions, and, of a decoder, with other masks.

    Raises
    ------
    ValueError
        If a condition of the study has no states of its own, or the name of a variant.
    """
    from posenc.capture.patterns import problem

    zero = Condition(position="zero")
    yield Variant("intact", Condition())
    yield Variant(WITHOUT, zero)
    yield Variant("random", zero, is_random=True)
    if is_decoder:
        yield Variant("non_causal", zero, sees={"is_causal": False})
        yield Variant("no_first_key", zero, sees={"has_first": False})
        for width in parameters.windows:
            yield Variant(f"window_{width}", zero, sees={"window": width})
        for name, condition in conditions.items():
            reason = problem(condition)
            if name in VARIANTS or name.startswith("window_"):
                reason = "a variant is called so, which is probed in any case"
            if reason is not None:
                raise ValueError(f"measurements.causal_probes.conditions names {name!r}: {reason}")
            yield Variant(name, condition, is_of_study=True)


def drawn(parameters: CausalProbes, text: Tokens) -> Sample:
    """Draw tokens of the first documents; those that the tokenizer adds would give themselves away.

    Raises
    ------
    ArtifactError
        If there are fewer documents than folds, or too few tokens.
    """
    lengths = text.lengths[: parameters.documents]  # [documents]
    flags = text.table["special"].to_pylist()[: parameters.documents]
    special = np.concatenate([np.asarray(of_document, bool) for of_document in flags])  # [tokens]
    document = np.repeat(np.arange(len(lengths)), lengths)[~special]  # [kept]
    position = positions_of(lengths)[~special]  # [kept]
    kept = sampled(np.arange(len(document)), parameters.tokens, parameters.seed)  # [sampled]
    sample = Sample(document[kept], position[kept])
    if not is_enough(sample, parameters.folds):
        raise ArtifactError(
            f"measurements.causal_probes: {len(kept)} tokens of {len(lengths)} documents are too "
            f"few for {parameters.folds} folds: raise evaluation.documents in params.yaml"
        )
    return sample


def is_enough(sample: Sample, folds: int) -> bool:
    """Whether a probe can be fitted to some tokens, and tried on others."""
    documents, positions = (len(np.unique(values)) for values in sample)
    return len(sample.document) >= FEWEST and documents >= folds and positions > 1


def with_random_weights(network: Any, seed: int) -> Any:
    """A model of the same architecture, as the library initialises it."""
    import copy

    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return type(network)(copy.deepcopy(network.config)).eval()


def hidden_states(
    network: Any,
    documents: list[list[int]],
    sample: Sample,
    variant: Variant,
    learned: Mapping[str, LearnedMask] | None = None,
) -> NDArray[np.float32]:
    """Hidden states of the sampled tokens, [n_states, sampled, d_model]; the last are normalised.

    Parameters
    ----------
    network
        From :func:`posenc.models.load.load`, or with random weights.
    documents
        Token ids of each.
    sample
        In the order of documents.
    variant
        Its condition and its mask; its weights are those of ``network``.
    learned
        The learned masks that its condition names.
    """
    import torch

    from posenc.capture.interventions import applied
    from posenc.capture.parts import body

    states = []
    with applied(network, variant.condition, learned), torch.inference_mode():
        for number in np.unique(sample.document):
            ids = torch.tensor([documents[number]])  # [1, tokens]
            options: dict[str, torch.Tensor] = {}
            if variant.sees is not None:
                seen = torch.from_numpy(visible(ids.shape[1], **variant.sees))  # [tokens, tokens]
                # The library takes a mask of four axes as it is, and adds it to the scores.
                options["attention_mask"] = torch.where(seen, 0.0, -torch.inf)[None, None]
            out = body(network)(ids, output_hidden_states=True, **options)
            rows = sample.position[sample.document == number]  # [of document]
            states.append(torch.stack(out.hidden_states)[:, 0, rows].numpy())
    return np.concatenate(states, axis=1)


def results(
    parameters: CausalProbes,
    sample: Sample,
    compared: Sequence[Variant],
    states: dict[str, NDArray[np.float32]],  # [n_states, sampled, d_model] each
) -> result.VariantProbes:
    """Errors of each variant by layer; of windows, inside and beyond the receptive field, too."""
    without = states[WITHOUT]
    n_states = len(without)
    errors = {
        name: [probed(parameters, sample, state) for state in own] for name, own in states.items()
    }  # [sampled] each, by variant and layer
    chance = errors[WITHOUT][0]["constant"]
    probed_variants = []
    for variant in compared:
        name, own = variant.name, errors[variant.name]
        width = (variant.sees or {}).get("window")
        layers = []
        for layer, of_layer in enumerate(own):
            means = paired(parameters, sample, of_layer["ridge"], errors[WITHOUT][layer]["ridge"])
            field = inside = beyond = None
            # Before the first block, a token sees itself alone.
            if width is not None and layer > 0:
                field = receptive_field(layer, width)
                is_inside = sample.position < field  # [sampled]
                of_both = states[name][layer], without[layer], without[0]
                inside = subset(parameters, sample, is_inside, *of_both)
                beyond = subset(parameters, sample, ~is_inside, *of_both)
            layers.append(
                result.Layer(
                    layer=layer,
                    name=layer_name(layer, n_states),
                    error=mean_of(means, 0),
                    difference=Interval.of(means.of(np.subtract, 0, 1)),
                    field=field,
                    inside=inside,
                    beyond=beyond,
                )
            )
        probed_variants.append(
            result.Variant(
                variant=name,
                window=width,
                spec=dumped(variant.condition) if variant.is_of_study else None,
                layers=layers,
            )
        )
    return result.VariantProbes(
        documents=len(np.unique(sample.document)),
        tokens=len(sample.document),
        positions=int(sample.position.max()) + 1,
        d_model=int(without.shape[-1]),
        confidence=parameters.confidence,
        chance=mean_of(paired(parameters, sample, chance), 0),
        variants=probed_variants,
    )


def subset(
    parameters: CausalProbes,
    sample: Sample,
    chosen: NDArray[np.bool_],  # [sampled]
    window: Floats,  # [sampled, d_model]
    causal: Floats,  # [sampled, d_model]
    embedding: Floats,  # [sampled, d_model]
) -> result.Subset | None:
    """Errors of probes of some tokens alone, with a window, without, and of the token alone.

    None where there are too few tokens.
    """
    own = sample.at(chosen)
    if not is_enough(own, parameters.folds):
        return None
    errors = [
        probed(parameters, own, hidden[chosen]) for hidden in (window, causal, embedding)
    ]  # [chosen] each, by probe
    columns = [error["ridge"] for error in errors]  # [chosen] each
    means = paired(parameters, own, *columns, errors[0]["constant"])
    return result.Subset(
        tokens=len(own.document),
        error=mean_of(means, 0),
        causal=mean_of(means, 1),
        embedding=mean_of(means, 2),
        chance=mean_of(means, 3),
        difference=Interval.of(means.of(np.subtract, 0, 1)),
        gain=Interval.of(means.of(np.subtract, 2, 0)),
    )


def probed(
    parameters: CausalProbes,
    sample: Sample,
    hidden: Floats,  # [sampled, d_model]
) -> dict[str, NDArray[np.float64]]:
    """Errors of the ridge probe and of the best constant, [sampled] each, in tokens."""
    # The ReLU probe that comes with them is not used: it is as small as can be.
    return position_errors(
        hidden, sample.position, sample.document, folds=parameters.folds, hidden_units=1, epochs=1,
        seed=parameters.seed, relu_control=False,
    )  # fmt: skip


def paired(parameters: CausalProbes, sample: Sample, *errors: NDArray[np.float64]) -> PairedMeans:
    """Mean errors over tokens, with the documents resampled; one column for each [sampled]."""
    _, number = np.unique(sample.document, return_inverse=True)
    sums = np.stack(
        [np.bincount(number, column) for column in errors], axis=1
    )  # [documents, columns]
    return PairedMeans(sums, np.bincount(number), **bootstrap(parameters))


def mean_of(means: PairedMeans, column: int) -> Interval:
    """One of the means."""
    return Interval.of(means.of(lambda value: value, column))


def as_it_is(job: Job, weights: Path) -> Any:
    """The model by the library's own forward pass, which takes any mask."""
    # Sums by several threads would be in another order.
    use_threads(1)
    return load(weights, job.reading.family)


main = of_masks(MEASUREMENT, measure, as_it_is)

if __name__ == "__main__":
    run(main)
