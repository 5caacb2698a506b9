"""What documents print of it: numbers by key, and their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Entry, Facts, NotRun, Number
from posenc.artifacts.printing import number, quantities
from posenc.artifacts.results import Interval

if TYPE_CHECKING:
    from posenc.measurements.savings.result import Savings

WAYS = ("intact", "turned", "zero")
SAVINGS = (
    "parameters", "table", "table.share", "table.bytes", "cached_token",
    *(f"{place}.offset" for place in ("near", "far")),
    *(f"{place}.{way}.{part}" for place in ("near", "far") for way in WAYS
      for part in ("kept", "keys", "values", "largest")),
    *(f"far.intact.{layer}.{kind}" for layer in ("first", "last") for kind in ("keys", "values")),
)  # fmt: skip


def savings(result: Savings) -> Facts:
    """What positions take, and how far caches are off at the nearest and the furthest offset.

    A difference that float16 rounds away is given as 0: below it, numbers depend on the processor.
    """
    parameters = result.parameters

    def shown(value: Interval | float) -> Entry:
        size = value.value if isinstance(value, Interval) else value
        return number(value) if size > result.rounded else Number(0.0)

    facts: Facts = {
        "parameters": Number(parameters.all),
        "table": Number(parameters.positions),
        "table.share": Number(parameters.share),
        "table.bytes": Number(parameters.bytes),
        "cached_token": Number(result.bytes_per_cached_token),
    }
    caches = {(cache.way, cache.offset): cache for cache in result.caches}
    offsets = [offset for way, offset in caches if way == "intact"]
    for place, offset in (("near", min(offsets)), ("far", max(offsets))):
        facts[f"{place}.offset"] = Number(offset)
        for way in WAYS:
            cache, key = caches.get((way, offset)), f"{place}.{way}"
            if cache is None:
                parts = ("kept", "keys", "values", "largest")
                facts |= {f"{key}.{part}": NotRun("no key is turned") for part in parts}
                continue
            facts[f"{key}.kept"] = Number(cache.kept)
            facts[f"{key}.keys"] = shown(cache.keys.mean)
            facts[f"{key}.values"] = shown(cache.values.mean)
            facts[f"{key}.largest"] = shown(max(cache.keys.largest, cache.values.largest))
    layers = caches["intact", max(offsets)].layers
    for name, layer in (("first", layers[0]), ("last", layers[-1])):
        facts[f"far.intact.{name}.keys"] = shown(layer.keys.mean)
        facts[f"far.intact.{name}.values"] = shown(layer.values.mean)
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
QUANTITIES = quantities(__package__, "Savings", {}, savings, names=SAVINGS, words=WORDS)
