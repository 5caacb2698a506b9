"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities, estimate

WAYS = ("intact", "turned", "zero")
SAVINGS = (
    "parameters", "table", "table.share", "table.bytes", "cached_token",
    *(f"{place}.offset" for place in ("near", "far")),
    *(f"{place}.{way}.{part}" for place in ("near", "far") for way in WAYS
      for part in ("kept", "keys", "values", "largest")),
    *(f"far.intact.{layer}.{kind}" for layer in ("first", "last") for kind in ("keys", "values")),
)  # fmt: skip


def savings(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """What positions take, and how far caches are off at the nearest and the furthest offset.

    A difference that float16 rounds away is given as 0: below it, numbers depend on the processor.
    """
    parameters = measurement["parameters"]

    def told(value: Mapping[str, float] | float) -> Entry:
        size = value["value"] if isinstance(value, Mapping) else value
        return estimate(value) if size > measurement["rounded"] else Number(0.0)

    facts: dict[str, Entry] = {
        "parameters": Number(parameters["all"]),
        "table": Number(parameters["positions"]),
        "table.share": Number(parameters["share"]),
        "table.bytes": Number(parameters["bytes"]),
        "cached_token": Number(measurement["bytes_per_cached_token"]),
    }
    caches = {(entry["way"], entry["offset"]): entry for entry in measurement["caches"]}
    offsets = [offset for way, offset in caches if way == "intact"]
    for place, offset in (("near", min(offsets)), ("far", max(offsets))):
        facts[f"{place}.offset"] = Number(offset)
        for way in WAYS:
            entry, key = caches.get((way, offset)), f"{place}.{way}"
            if entry is None:
                parts = ("kept", "keys", "values", "largest")
                facts |= {f"{key}.{part}": NotRun("no key is turned") for part in parts}
                continue
            facts[f"{key}.kept"] = Number(entry["kept"])
            facts |= {f"{key}.{kind}": told(entry[kind]["mean"]) for kind in ("keys", "values")}
            largest = max(entry[kind]["largest"] for kind in ("keys", "values"))
            facts[f"{key}.largest"] = told(largest)
    layers = caches["intact", max(offsets)]["layers"]
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        for kind in ("keys", "values"):
            facts[f"far.intact.{name}.{kind}"] = told(layer[kind]["mean"])
    return facts


WORDS = {
    "parameters": "parameters of the model",
    "table": "parameters of its positions",
    "share": "as a share of all",
    "bytes": "in bytes",
    "cached_token": "bytes of a cached token's keys and values",
    "near": "passage at the nearest offset",
    "far": "passage at the furthest offset",
    "offset": "which offset",
    "intact": "cache as it was kept",
    "turned": "cache whose keys are turned on",
    "zero": "without positions",
    "kept": "share of the cache that is the same",
    "keys": "keys, relative difference (0: float16 rounds it away)",
    "values": "values, relative difference (0: float16 rounds it away)",
    "largest": "largest relative difference",
    "first": "first layer",
    "last": "last layer",
}
QUANTITIES = Quantities(read=savings, names=SAVINGS, words=WORDS)
