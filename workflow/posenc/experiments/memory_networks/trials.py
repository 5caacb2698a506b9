"""Memory networks on questions about generated stories, of one seed (E3).

The dynamic memory network finds the second fact from some initial weights and not from others. So
it is trained from several, as Sukhbaatar et al. (2015, section 4.1) do with theirs, of which they
take the one of the lowest training error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.command import run
from posenc.config.optimization import Optimization
from posenc.experiments.frame import (
    Files,
    Job,
    Report,
    Training,
    Trials,
    Work,
    trials_command,
)
from posenc.experiments.memory_networks.section import MemoryNetworksTraining
from posenc.experiments.memory_networks.stories import VOCABULARY, Stories, generate

if TYPE_CHECKING:
    from torch import Tensor

    from posenc.experiments.memory_networks.network import MemoryNetwork

_APART = 1_000_000
"""Between the seeds of the initial weights of two attempts: far from those of a study."""
PASSED = 0.05
"""Share of wrong answers at which bAbI's authors call a task passed (Weston et al., 2015, "Towards
AI-Complete Question Answering", https://arxiv.org/abs/1502.05698, section 5)."""
PASSES = 2
"""Of the dynamic memory network: as many as the longest chain of facts."""


class Variant(TypedDict):
    """A network on a task; None where it has no hops or no choice of positions."""

    task: str
    network: str
    hops: int | None
    positions: bool | None
    attempt: NotRequired[int]
    """Of several initial weights; the first where it is left out."""


class Errors(TypedDict):
    """Shares of wrong answers."""

    error: float
    """On test stories."""
    validation_error: float
    training_error: float


class Tested(Errors):
    """Errors of a network, and what it looks at in the test stories."""

    facts_found: list[float] | None
    """Share of stories in which a hop looks most at a supporting sentence [hops]; None without a
    memory."""
    facts_in_order: list[float] | None
    """The same of the supporting sentence of its turn [facts]."""
    pattern_deviation: float | None
    """Largest difference of a sum of attention weights from one; None where hops have no attention
    pattern."""


class OfNetwork(Tested):
    """A trial of a network on a task."""

    parameters: int
    training: Training | None
    """None where nothing is trained."""


def measure(job: Job[MemoryNetworksTraining], files: Files, trials: Trials) -> None:
    """Train all networks on all tasks with one seed."""
    parameters = job.parameters
    for task in parameters.tasks:
        splits = draw_splits(task, parameters, trials.seed)
        for variant in variants(task, parameters.hops):
            steps = optimization_of(variant, parameters).steps
            for attempt in range(parameters.attempts if variant["network"] == "dynamic" else 1):
                of: Variant = {**variant, "attempt": attempt} if attempt else variant
                result = trials.measure(of, steps, work(of, splits, parameters, trials.seed))
                if result["validation_error"] <= PASSED:
                    break


def variants(task: str, hops: list[int]) -> Iterator[Variant]:
    """What is compared on a task."""
    yield {"task": task, "network": "majority", "hops": None, "positions": None}
    yield {"task": task, "network": "bag_of_words", "hops": None, "positions": None}
    for positions in (False, True):
        yield {"task": task, "network": "strongly_supervised", "hops": None, "positions": positions}
    for count in hops:
        for positions in (False, True):
            yield {"task": task, "network": "end_to_end", "hops": count, "positions": positions}
    yield {"task": task, "network": "dynamic", "hops": PASSES, "positions": None}


def optimization_of(variant: Variant, parameters: MemoryNetworksTraining) -> Optimization:
    """How a variant is trained."""
    return parameters.dynamic if variant["network"] == "dynamic" else parameters.optimization


def draw_splits(task: str, parameters: MemoryNetworksTraining, seed: int) -> dict[str, Stories]:
    """Training, validation and test stories of a task; no story is in two of them."""
    sizes = {
        "training": parameters.training_stories,
        "validation": parameters.validation_stories,
        "test": parameters.test_stories,
    }
    stories = generate(task, sum(sizes.values()), seed)
    ends = np.cumsum(list(sizes.values()))
    return {
        name: stories.rows(slice(end - size, end))
        for (name, size), end in zip(sizes.items(), ends, strict=True)
    }


def work(
    variant: Variant,
    splits: dict[str, Stories],
    parameters: MemoryNetworksTraining,
    seed: int,
) -> Work:
    """What trains and tests one variant."""

    def trial(checkpoint: Checkpoint, report: Report) -> OfNetwork:
        if variant["network"] == "majority":
            return majority(splits)
        from posenc.experiments.fitting import fit

        network = build(variant, splits["training"], parameters, seed)
        training, validation = (as_tensors(splits[name]) for name in ("training", "validation"))
        fitted = fit(
            network,
            loss=lambda rows: network.loss(*(tensor[rows] for tensor in training)),
            examples=len(splits["training"]),
            validate=lambda: float(network.loss(*validation)),
            optimization=optimization_of(variant, parameters),
            seed=seed,
            checkpoint=checkpoint,
            report=report,
        )
        return {
            **tested(network, splits),
            "parameters": sum(parameter.numel() for parameter in network.parameters()),
            "training": fitted.as_json(),
        }

    return trial


def majority(splits: dict[str, Stories]) -> OfNetwork:
    """Results of always giving the most frequent answer of the training stories."""
    answer = np.bincount(splits["training"].answers).argmax()
    return {
        **_errors(
            {name: np.full(len(stories), answer) for name, stories in splits.items()}, splits
        ),
        "facts_found": None,
        "facts_in_order": None,
        "pattern_deviation": None,
        "parameters": 0,
        "training": None,
    }


def build(
    variant: Variant, stories: Stories, parameters: MemoryNetworksTraining, seed: int
) -> MemoryNetwork:
    """A freshly initialised network, determined by the seed and the attempt."""
    import torch

    from posenc.experiments.memory_networks import network as networks

    torch.manual_seed(seed + _APART * variant.get("attempt", 0))
    sizes = networks.Sizes(
        vocabulary=len(VOCABULARY),
        sentences=stories.sentences.shape[1],
        words=max(stories.sentences.shape[2], stories.questions.shape[1]),
    )
    name, hops, positions = variant["network"], variant["hops"], variant["positions"]
    width = parameters.d_model
    if name == "bag_of_words":
        return networks.BagOfWords(sizes, width)
    if name == "strongly_supervised":
        return networks.StronglySupervised(sizes, width, stories.facts.shape[1], bool(positions))
    assert hops is not None
    if name == "end_to_end":
        return networks.EndToEnd(sizes, width, hops, bool(positions), parameters.linear_steps)
    return networks.Dynamic(sizes, width, hops)


def as_tensors(stories: Stories) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sentences, questions, answers and facts for the networks."""
    import torch

    arrays = (stories.sentences, stories.questions, stories.answers, stories.facts)
    sentences, questions, answers, facts = map(torch.from_numpy, arrays)
    return sentences, questions, answers, facts


def tested(network: MemoryNetwork, splits: dict[str, Stories]) -> Tested:
    """Test a network on the stories of all splits."""
    import torch

    from posenc.experiments.memory_networks.network import EndToEnd, turn_facts

    with torch.inference_mode():
        said = {name: network(*as_tensors(stories)[:2]) for name, stories in splits.items()}
    facts_found = in_order = deviation = None
    focus = said["test"].focus  # [stories, hops, sentences]
    if focus is not None:
        looked = focus.argmax(-1).numpy()  # [stories, hops]
        is_fact = (looked[:, :, None] == splits["test"].facts[:, None]).any(-1)  # [stories, hops]
        facts_found = is_fact.mean(axis=0).tolist()
        turns = turn_facts(splits["test"].facts, looked.shape[1])  # [stories, hops]
        in_order = (looked == turns).mean(axis=0).tolist()
    if isinstance(network, EndToEnd):
        deviation = float((focus.double().sum(-1) - 1).abs().max())
    answers = {name: answered.scores.argmax(-1).numpy() for name, answered in said.items()}
    return {
        **_errors(answers, splits),
        "facts_found": facts_found,
        "facts_in_order": in_order,
        "pattern_deviation": deviation,
    }


def _errors(
    answers: dict[str, NDArray[np.int64]],  # [stories] each
    splits: dict[str, Stories],
) -> Errors:
    wrong = {name: float(np.mean(given != splits[name].answers)) for name, given in answers.items()}
    return {
        "error": wrong["test"],
        "validation_error": wrong["validation"],
        "training_error": wrong["training"],
    }


main = trials_command("memory_networks", Job[MemoryNetworksTraining], measure, uses=())

if __name__ == "__main__":
    run(main)
