"""How much shared forward passes save, as a ratio: ``python -m tests.benchmarks.conditions``.

Each condition acts from one layer on. One engine evaluates them together; the peer evaluates them
one by one, with the intact model beside each, as a script would.
"""

import statistics
import time

import numpy as np
import torch
import transformers

from posenc.architectures import attention
from posenc.capture.evaluation import evaluate
from posenc.conditions.section import Condition


def model() -> transformers.PreTrainedModel:
    """A decoder of six layers with random weights."""
    torch.manual_seed(0)
    attention.register()
    config = transformers.GPT2Config(
        vocab_size=2048, n_positions=256, n_layer=6, n_head=4, n_embd=256,
        bos_token_id=0, eos_token_id=0, attn_implementation=attention.NAME,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


def conditions() -> dict[str, Condition]:
    """One per layer: a mask from it on, with positions zeroed."""
    mask = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.1}}
    return {
        f"from_{layer}": Condition.model_validate(
            {"position": "zero", "mask": {**mask, "layers": list(range(layer, 6))}}
        )
        for layer in range(6)
    }


def main(repeats: int = 5) -> None:
    """Print the median times and their ratio, measured in turns."""
    torch.set_num_threads(1)
    network, rng = model(), np.random.default_rng(0)
    documents = [rng.integers(0, 2048, 200).tolist() for _ in range(16)]
    counted = [[True] * 200 for _ in documents]
    times: dict[str, list[float]] = {"together": [], "one by one": []}
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        together = dict_of(evaluate(network, documents, counted, conditions(), {}, 6 * 3200))
        times["together"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        alone = {}
        for name, condition in conditions().items():
            alone |= dict_of(evaluate(network, documents, counted, {name: condition}, {}, 3200))
        times["one by one"].append(time.perf_counter() - begin)
    largest = max(np.abs(together[key] - alone[key]).max() for key in together)
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:12s} {value:.2f} s")
    ratio = medians["one by one"] / medians["together"]
    print(f"ratio {ratio:.2f}; largest difference of a loss {largest:.1e} nats")


def dict_of(outcomes) -> dict:
    """Losses by condition and document."""
    return {(name, outcome.document): outcome.nll for name, outcome in outcomes}


if __name__ == "__main__":
    main()
