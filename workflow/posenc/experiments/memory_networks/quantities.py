"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.experiments.memory_networks.result import MemoryNetworks, Variant

SHARE = Printed(percent=True)


def network_name(network: str, hops: int | None, positions: bool | None) -> str:
    """``end_to_end.3.words``: network, hops where it has any, and whether it sees word order."""
    parts = [network]
    if network == "end_to_end":
        parts.append(str(hops))
    if positions is not None:
        parts.append("words" if positions else "bag")
    return ".".join(parts)


def place(variant: Variant) -> str:
    """``order.end_to_end.3.words``: the task and the :func:`network_name`."""
    name = network_name(variant.network, variant.hops, variant.positions)
    return f"{variant.task}.{name}"


SPOKEN = {
    "order": ("end_to_end.largest", "end_to_end.largest.bag.error",
              "end_to_end.largest.words.error"),
    "two_facts": ("end_to_end.smallest", "end_to_end.smallest.words.error", "end_to_end.largest",
                  "end_to_end.largest.words.error", "strongly_supervised.words.error"),
}  # fmt: skip
"""By task, what documents speak of."""


def memory_networks(result: MemoryNetworks) -> Facts:
    """Test errors by task and network, and in how many stories supervised ones find each fact."""
    facts: Facts = {
        "seeds": Number(len(result.seeds)),
        "training_stories": Number(result.training_stories),
        "test_stories": Number(result.test_stories),
    }
    for task in result.tasks:
        facts[f"{task.task}.guess.nothing"] = number(task.guess.nothing, SHARE)
        facts[f"{task.task}.guess.story"] = number(task.guess.story, SHARE)
        facts[f"{task.task}.guess.sentences"] = number(task.guess.sentences, SHARE)
    for cell in result.cells:
        facts[f"{place(cell)}.error"] = number(cell.error, SHARE)
        if cell.network == "dynamic":
            facts[f"{place(cell)}.attempts"] = Number(max(cell.attempts))
        if cell.supervised:
            for turn, share in enumerate(cell.facts_in_order or [], start=1):
                facts[f"{place(cell)}.fact.{turn}"] = number(share, SHARE)
    tasks = {task.task for task in result.tasks}
    for name, spoken in SPOKEN.items():
        if name not in tasks:
            lacking = NotRun(f"the study has no task {name}")
            facts |= {f"{name}.{network}": lacking for network in spoken}
    varied = {"positions": result.differences.positions, "hops": result.differences.hops}
    for key, differences in varied.items():
        for difference in differences:
            facts[f"{place(difference)}.{key}"] = number(difference, SHARE)
    return facts


WORDS = {
    "error": "wrong answers (%)",
    "attempts": "initial weights that were tried, of the seed that took the most",
    "fact": "stories in which it looks at the fact of its turn (%), pass",
}
QUANTITIES = quantities(__package__, "MemoryNetworks", {}, memory_networks, words=WORDS)
FIGURE = Exhibit(
    "E3 memory networks",
    ("memory_networks",),
    height=2.8,
    caption="Errors of memory networks by task, and the levels of those who must guess.",
    alt="Points with intervals, a panel for each task: share of wrong answers of each "
    "variant of a memory network.",
)
