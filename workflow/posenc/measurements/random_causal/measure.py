"""Variance of self-attention by position in frozen random models without positions (B4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.measurements.frame import of_study
from posenc.measurements.random_causal import result
from posenc.measurements.random_causal.declaration import MEASUREMENT, RandomCausal
from posenc.metrics.causal_variance import decay_exponent, position_variance, scaled_variance
from posenc.metrics.moments import mean_and_sd
from posenc.models.devices import use_threads

# GPT-2's own: among so many, the tokens of a sequence seldom repeat, so they are independent.
VOCABULARY = 50257
VARIANTS = {
    "none": "no position embeddings",
    "random": "random position embeddings",
    "bidirectional": "no position embeddings and no causal mask",
}


def measure(parameters: RandomCausal) -> result.RandomModels:
    """Scaled variance by position and exponent of its decay, by variant and layer.

    Raises
    ------
    ArtifactError
        If ``d_model`` is not a multiple of ``n_heads``.
    """
    if parameters.d_model % parameters.n_heads:
        raise ArtifactError(
            f"measurements.random_causal: d_model {parameters.d_model} is not a multiple of "
            f"n_heads {parameters.n_heads}: change one of them in params.yaml"
        )
    # Sums by several threads would be in another order.
    use_threads(1)
    # [models, n_layers, tokens] each
    by_variant: dict[str, list[NDArray[np.float64]]] = {name: [] for name in VARIANTS}
    for seed in np.random.SeedSequence(parameters.seed).generate_state(parameters.models):
        for name, variance in variances(parameters, int(seed)):
            by_variant[name].append(variance)
    return result.RandomModels(
        models=parameters.models,
        sequences=parameters.sequences,
        tokens=parameters.tokens,
        n_layers=parameters.n_layers,
        n_heads=parameters.n_heads,
        d_model=parameters.d_model,
        law=result.Law(scaled=1.0, exponent=-1.0),
        variants=[
            result.Variant(
                name=name,
                description=VARIANTS[name],
                layers=[
                    summary(layer, variance)
                    for layer, variance in enumerate(np.stack(of_models, axis=1))
                ],
            )
            for name, of_models in by_variant.items()
        ],
    )


def summary(layer: int, variance: NDArray[np.float64]) -> result.Layer:
    """Mean and standard deviation over models, of one layer.

    Parameters
    ----------
    layer
        Its number.
    variance
        [models, tokens].
    """
    scaled = np.stack([scaled_variance(of_model) for of_model in variance])  # [models, tokens]
    deviation = np.abs(scaled - 1)  # [models, tokens]
    return result.Layer(
        layer=layer,
        first_variance=over_models(variance[:, 0]),
        scaled=result.Curve(
            mean=scaled.mean(axis=0).tolist(), sd=scaled.std(axis=0, ddof=1).tolist()
        ),
        deviation=result.Deviation(
            mean=over_models(deviation.mean(axis=1)), largest=over_models(deviation.max(axis=1))
        ),
        exponent=over_models([decay_exponent(of_model) for of_model in variance]),
    )


def over_models(values: ArrayLike) -> result.OverModels:
    """Mean and standard deviation of values of each model [models]."""
    return result.OverModels(**mean_and_sd(values))


def variances(parameters: RandomCausal, seed: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Variance of each layer's attention output, [n_layers, tokens], of one model's variants.

    Weights and sequences are the same in all variants.
    """
    import torch

    network = random_model(parameters, seed)
    generator = torch.Generator().manual_seed(seed)
    shape = parameters.sequences, parameters.tokens
    ids = torch.randint(VOCABULARY, shape, generator=generator)  # [sequences, tokens]
    table = network.wpe.weight  # [tokens, d_model]
    drawn = parameters.deviation * torch.randn(table.shape, generator=generator)  # as table
    # Nothing is added to any score: each token attends to all.
    everything = torch.zeros(1, 1, parameters.tokens, parameters.tokens)
    changes = {"none": (0.0, None), "random": (1.0, None), "bidirectional": (0.0, everything)}
    for name, (scale, mask) in changes.items():
        with torch.inference_mode():
            table.copy_(scale * drawn)
            yield name, np.stack([position_variance(o) for o in outputs(network, ids, mask)])


def random_model(parameters: RandomCausal, seed: int) -> Any:
    """A ``GPT2Model`` with the library's initial weights, without dropout."""
    import torch
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=parameters.tokens,
        n_embd=parameters.d_model,
        n_layer=parameters.n_layers,
        n_head=parameters.n_heads,
        initializer_range=parameters.deviation,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = GPT2Model(config).eval()
    network.set_attn_implementation("eager")
    return network


def outputs(network: Any, ids: Any, mask: Any) -> list[np.ndarray]:
    """Output of each layer's attention before the residual, [sequences, tokens, d_model] each."""
    recorded: list[np.ndarray] = []
    hooks = [
        block.attn.register_forward_hook(lambda module, given, out: recorded.append(out[0].numpy()))
        for block in network.h
    ]
    try:
        network(ids, attention_mask=mask, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return recorded


main = of_study(MEASUREMENT, measure)

if __name__ == "__main__":
    run(main)
