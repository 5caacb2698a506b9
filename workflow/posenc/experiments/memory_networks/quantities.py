"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, NotRun, Number, Quantities, percent
from posenc.drawing.exhibit import Exhibit


def network_name(entry: Mapping[str, Any]) -> str:
    """``end_to_end.3.words``: network, hops where it has any, and whether it sees word order."""
    parts = [entry["network"]]
    if entry["network"] == "end_to_end":
        parts.append(str(entry["hops"]))
    if entry["positions"] is not None:
        parts.append("words" if entry["positions"] else "bag")
    return ".".join(parts)


SPOKEN = {
    "order": ("end_to_end.largest", "end_to_end.largest.bag.error",
              "end_to_end.largest.words.error"),
    "two_facts": ("end_to_end.smallest", "end_to_end.smallest.words.error", "end_to_end.largest",
                  "end_to_end.largest.words.error", "strongly_supervised.words.error"),
}  # fmt: skip
"""By task, what documents speak of."""


def memory_networks(measurement: Mapping[str, Any]) -> Facts:
    """Test errors by task and network, and in how many stories supervised ones find each fact."""
    facts: Facts = {
        "seeds": Number(len(measurement["seeds"])),
        "training_stories": Number(measurement["training_stories"]),
        "test_stories": Number(measurement["test_stories"]),
    }
    for entry in measurement["tasks"]:
        for key, value in entry["guess"].items():
            facts[f"{entry['task']}.guess.{key}"] = percent(value)
    for entry in measurement["cells"]:
        name = f"{entry['task']}.{network_name(entry)}"
        facts[f"{name}.error"] = percent(entry["error"])
        if entry["network"] == "dynamic":
            facts[f"{name}.attempts"] = Number(max(entry["attempts"]))
        if entry["supervised"]:
            for number, share in enumerate(entry["facts_in_order"], start=1):
                facts[f"{name}.fact.{number}"] = percent(share)
    tasks = {entry["task"] for entry in measurement["tasks"]}
    for task, names in SPOKEN.items():
        if task not in tasks:
            lacking = NotRun(f"the study has no task {task}")
            facts |= {f"{task}.{name}": lacking for name in names}
    for key, entries in measurement["differences"].items():
        for entry in entries:
            facts[f"{entry['task']}.{network_name(entry)}.{key}"] = percent(entry)
    return facts


WORDS = {
    "error": "wrong answers (%)",
    "attempts": "initial weights that were tried, of the seed that took the most",
    "fact": "stories in which it looks at the fact of its turn (%), pass",
}
QUANTITIES = Quantities(read=memory_networks, words=WORDS)
FIGURE = Exhibit(
    "E3 memory networks",
    ("memory_networks",),
    height=2.8,
    caption="Errors of memory networks by task, and the levels of those who must guess.",
    alt="Points with intervals, a panel for each task: share of wrong answers of each "
    "variant of a memory network.",
)
