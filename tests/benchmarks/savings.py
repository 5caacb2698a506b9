"""What a model without positions saves in time, as ratios within one run.

``python -m tests.benchmarks.savings`` runs a prompt, a passage that comes again at another offset
and new tokens after it, through GPT-2's shapes with random weights and SmolLM2, and writes
docs/savings-benchmark.json and the table of the page on removing positions. The intact model has to
run all of it, but for a rotary one, which can take the passage's cache from offset 0 and turn its
keys. Seconds are the processor's, on one thread, so that what else runs does not count.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from scipy import stats
from torch import Tensor, nn
from tqdm import tqdm
from transformers import DynamicCache
from transformers.models.llama import modeling_llama

from posenc.capture.parts import is_rotary
from posenc.capture.rotation import frequencies
from posenc.models.schemes import rotated
from posenc.report.machines import described, machine
from tests.benchmarks import pages
from tests.benchmarks.models import MODELS, fetch_smollm2, make
from tests.benchmarks.ours import Ours
from tests.benchmarks.peers import apart
from tests.copies import ROOT

RECORD = ROOT / "docs/savings-benchmark.json"
PASSAGE, NEW, OFFSET = 256, 16, 64
"""Tokens of the passage and after it, and where the passage comes again."""
BASE = "intact"
WAYS = {
    "again": "the intact model, timed again",
    "without": "no positions, all of the prompt",
    "turned": "the passage's cache, its keys turned on",
    "kept": "no positions, the passage's cache as it was kept",
}
"""What is timed beside the intact model, which runs all of the prompt."""
CONTROLS = {
    "kept": "no positions, the cache as it was kept",
    "turned": "intact, the keys turned on",
    "unturned": "intact, the cache as it was kept",
    "whole": "no positions, all run instead",
}
SOURCES: dict[str, Callable[[Path], Any]] = {
    "GPT-2": functools.partial(make, "GPT-2"),
    "SmolLM2": fetch_smollm2,
}
"""By model, what puts its weights into a folder: random ones of GPT-2's shapes, SmolLM2's own."""
ROUNDING = {"exact": 1e-4, "fast": 2e-2}
"""By precision, how far logits may be off by sums in another order and by turned keys."""
CONFIDENCE = 0.95
Kept = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, [1, key_value_heads, tokens, d_head] each."""


class _Nothing:
    """Adds nothing to a sum."""

    def to(self, *_: Any) -> _Nothing:
        return self

    def __radd__(self, other: Tensor) -> Tensor:
        return other


class _NoTable(nn.Module):
    """In place of a table of positions."""

    def forward(self, position_ids: Tensor) -> _Nothing:
        return _Nothing()


class _NoAngles(nn.Module):
    """In place of a rotation's angles."""

    def forward(self, *_: Any, **__: Any) -> tuple[None, None]:
        return None, None


@contextlib.contextmanager
def without(model: nn.Module) -> Iterator[None]:
    """Let a GPT-2 add no table and a Llama turn nothing, so that neither costs time, in a block."""
    rotary = is_rotary(model)
    holder, name = (model.model, "rotary_emb") if rotary else (model.transformer, "wpe")
    before, turn = getattr(holder, name), modeling_llama.apply_rotary_pos_emb
    setattr(holder, name, _NoAngles() if rotary else _NoTable())
    if rotary:
        modeling_llama.apply_rotary_pos_emb = lambda query, key, *_: (query, key)
    try:
        yield
    finally:
        setattr(holder, name, before)
        modeling_llama.apply_rotary_pos_emb = turn


def cache_of(model: nn.Module, passage: Tensor, offset: int) -> Kept:  # passage [1, tokens]
    """Keys and values of a passage that is run alone at an offset."""
    cache = DynamicCache()
    logits(model, passage, offset, cache)
    return [(layer.keys, layer.values) for layer in cache.layers]


def logits(
    model: nn.Module,
    ids: Tensor,  # [1, tokens]
    offset: int,
    cache: DynamicCache | None = None,
) -> Tensor:
    """Of the last tokens, at most ``NEW``, [1, NEW, vocabulary]; the first has this position."""
    places = torch.arange(offset, offset + ids.shape[1])[None]  # [1, tokens]
    return model(
        ids, position_ids=places, past_key_values=DynamicCache() if cache is None else cache,
        use_cache=True, logits_to_keep=NEW,
    ).logits  # fmt: skip


def taking(model: nn.Module, kept: Kept, new: Tensor, turn: int = 0) -> Tensor:
    """Logits of new tokens after a passage at ``OFFSET``, whose cache is taken from elsewhere.

    Parameters
    ----------
    kept
        Stays as it is.
    new
        [1, tokens].
    turn
        By how many tokens keys are turned on.
    """
    if turn:
        angles = torch.from_numpy(turn * frequencies(model)).float()  # [d_head / 2]
        cosine, sine = angles.cos(), angles.sin()  # [d_head / 2] each
        kept = [(rotated(key.float(), cosine, sine).to(key.dtype), value) for key, value in kept]
    passage = kept[0][0].shape[2]
    return logits(model, new, OFFSET + passage, DynamicCache(kept))


def runs_of(model: nn.Module, ids: Tensor, passage: int) -> dict[str, Callable[[], Tensor]]:
    """What gives the logits of the tokens after the passage, by its name in ``WAYS``.

    Parameters
    ----------
    ids
        [1, tokens]: the prompt.
    passage
        How many of them the passage has.
    """
    first, new = ids[:, :passage], ids[:, passage:]

    def positionless(call: Callable[..., Tensor], *given: Any) -> Tensor:
        with without(model):
            return call(model, *given)

    runs = {
        BASE: functools.partial(logits, model, ids, OFFSET),
        "again": functools.partial(logits, model, ids, OFFSET),
        "without": functools.partial(positionless, logits, ids, OFFSET),
    }
    if is_rotary(model):
        runs["turned"] = functools.partial(taking, model, cache_of(model, first, 0), new, OFFSET)
    with without(model):
        kept = cache_of(model, first, 0)
    return {**runs, "kept": functools.partial(positionless, taking, kept, new)}


def differences(model: nn.Module, ids: Tensor, passage: int) -> dict[str, float]:
    """How far logits are off, as a share of their length, by its name in ``CONTROLS``.

    The new tokens after a cache from offset 0 are compared with the same after the cache of the
    passage that is run where it comes again; under ``whole``, with all of the prompt run at once,
    whose sums go another way.
    """
    first, new = ids[:, :passage], ids[:, passage:]
    runs = runs_of(model, ids, passage)
    there = taking(model, cache_of(model, first, OFFSET), new)
    deviations = {"unturned": off(taking(model, cache_of(model, first, 0), new), there)}
    if "turned" in runs:
        deviations["turned"] = off(runs["turned"](), there)
    with without(model):
        deviations["kept"] = off(runs["kept"](), taking(model, cache_of(model, first, OFFSET), new))
    return {**deviations, "whole": off(runs["kept"](), runs["without"]())}


def off(tensor: Tensor, other: Tensor) -> float:
    """Length of the difference of two tensors, as a share of that of the second."""
    return float((tensor - other).float().norm() / other.float().norm())


def check(deviations: dict[str, float], precision: str) -> None:
    """Stop where a cache that should serve does not give the same logits.

    Raises
    ------
    ValueError
        If one without positions is not the same to the bit, or one that was turned, or a run of all
        of the prompt, is off by more than rounding; or if what should differ does not.
    """
    bound = ROUNDING[precision]
    if deviations["kept"] != 0:
        raise ValueError(f"without positions, logits are off by {deviations['kept']:.1e}, not by 0")
    for name in ("turned", "whole"):
        if deviations.get(name, 0) > bound:
            raise ValueError(
                f"{CONTROLS[name]}: logits are off by {deviations[name]:.1e} > {bound:.0e}"
            )
    if deviations["unturned"] <= bound:
        raise ValueError("an intact model's cache serves elsewhere as it is: positions do nothing")


@torch.inference_mode()
def measured(name: str, precision: str, rounds: int, passage: int) -> dict:
    """Seconds of each way, round by round, and how far the logits are off."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        SOURCES[name](Path(folder))
        model = Ours(Path(folder), MODELS[name][0], precision == "fast").model
    rng = np.random.default_rng(0)
    ids = torch.from_numpy(rng.integers(1, model.config.vocab_size, (1, passage + NEW)))
    deviations = differences(model, ids, passage)
    check(deviations, precision)
    return {"differences": deviations, "runs": timed(runs_of(model, ids, passage), rounds)}


def timed(runs: dict[str, Callable[[], Any]], rounds: int) -> list[dict[str, float]]:
    """Processor seconds of each, in turns; every other round in the opposite order."""
    timings = []
    for number in range(rounds + 1):  # the first warms up
        seconds = {}
        for name in list(runs)[:: -1 if number % 2 else 1]:
            begin = time.process_time()
            runs[name]()
            seconds[name] = time.process_time() - begin
        timings.append({name: seconds[name] for name in runs})
    return timings[1:]


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median and its interval: the order statistics that hold it whatever the distribution.

    The number of values below the median is binomial with n and 1/2 (Conover 1999, Practical
    Nonparametric Statistics, section 3.2).

    Raises
    ------
    ValueError
        If there are too few for the confidence; 95 % takes six.
    """
    ordered, least = sorted(values), int(stats.binom.ppf((1 - CONFIDENCE) / 2, len(values), 0.5))
    if least == 0:
        raise ValueError(f"{len(values)} rounds have no interval of {CONFIDENCE:.0%}: run more")
    return statistics.median(ordered), ordered[least - 1], ordered[-least]


def ratios(runs: list[dict[str, float]], name: str) -> list[float]:
    """How many times as fast as the intact model, round by round."""
    return [run[BASE] / run[name] for run in runs]


def shown(values: list[float]) -> str:
    """A median with its interval."""
    value, low, high = middle(values)
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def table(record: dict) -> str:
    """Ratios and differences, in Markdown."""
    rows = record["rows"]
    columns = [f"{row['model']}, {row['precision']}" for row in rows]
    lines = [
        f"{described(record['made_on'])}; one thread, {record['rounds']} rounds, a passage of "
        f"{record['passage']} tokens {record['offset']} tokens later and {record['new']} new "
        f"tokens. How many times as fast as all of the prompt in the intact model:",
        "",
        f"| | {' | '.join(columns)} |",
        "| --- " * (1 + len(rows)) + "|",
    ]
    for name, said in WAYS.items():
        cells = [
            shown(ratios(row["runs"], name)) if name in row["runs"][0] else "none is turned"
            for row in rows
        ]
        lines.append(f"| {said} | {' | '.join(cells)} |")
    for name, said in CONTROLS.items():
        deviations = [row["differences"].get(name) for row in rows]
        cells = [
            "none is turned" if deviation is None else f"{deviation:.0e}" if deviation else "0"
            for deviation in deviations
        ]
        lines.append(f"| logits are off by: {said} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(
    rounds: Annotated[int, typer.Option(min=6)] = 25,
    passage: Annotated[int, typer.Option(min=2, help="tokens")] = PASSAGE,
    dry: Annotated[bool, typer.Option("--dry", help="print the table alone")] = False,
) -> None:
    """Measure, print the table, and write the record and the page."""
    record: dict[str, Any] = {
        "made_on": machine(), "rounds": rounds, "passage": passage, "offset": OFFSET, "new": NEW,
        "rows": [],
    }  # fmt: skip
    for name in tqdm(SOURCES, unit="model"):
        for precision in ROUNDING:
            call = functools.partial(measured, name, precision, rounds, passage)
            result = apart(call)
            record["rows"].append(
                {"model": name, "precision": precision,
                 **{key: result[key] for key in ("differences", "runs")}}
            )  # fmt: skip
    print(f"\n{table(record)}")
    if not dry:
        pages.keep(record, RECORD, savings=table(record))


if __name__ == "__main__":
    typer.run(main)
