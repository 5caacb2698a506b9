"""Forward, capture, evaluations, fits and training on a GPU: ``python -m tests.benchmarks.gpu``.

GPT-2 of the published sizes and SmolLM2's shapes, random weights, documents of random tokens with
lengths like those of reviews. Rates are shares of the card's own product of bfloat16 matrices and
of its disk's own writing, measured in the same run; ratios are to what the library's documentation
suggests: batches of 8 documents, padded, in float32, on the same card.
"""

from __future__ import annotations

import functools
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch import nn
from tqdm import tqdm

from posenc.artifacts.command import collect_rarely
from posenc.capture import capture
from posenc.capture.calibration import Calibration
from posenc.capture.evaluation import INTACT, evaluate
from posenc.capture.fast import faster
from posenc.capture.learning import learn
from posenc.conditions.masks import FittedMask
from posenc.conditions.section import Condition
from posenc.models.affine import load_ready
from posenc.models.devices import PASSES_AT_ONCE
from posenc.tokens.packing import packs_of
from tests.benchmarks.ours import captured, perplexity
from tests.benchmarks.peers import padded

TOKENS = 2048 * PASSES_AT_ONCE["cuda"]
BATCH = 8
SHARD = 2**30
"""Bytes that are written to learn how fast the disk is."""


def gpt2() -> nn.Module:
    """GPT-2 of the published sizes."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def smollm2() -> nn.Module:
    """The shapes of SmolLM2-135M."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
            tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


MODELS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "GPT-2": ("gpt2", gpt2),
    "SmolLM2": ("llama", smollm2),
}


def linear(model: nn.Module) -> int:
    """Operations a token of the blocks' matrix products, attention and logits left out."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and is_in_block(name)]
    return 2 * sum(map(torch.numel, matrices))


def is_in_block(name: str) -> bool:
    """Whether a parameter belongs to a block."""
    return ".h." in name or ".layers." in name


def documents_of(number: int, vocabulary: int) -> list[list[int]]:
    """Random tokens, lengths like those of reviews."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(np.log(220), 0.65, number), 32, 512).astype(int)
    return [rng.integers(1, vocabulary, n).tolist() for n in lengths]


def seconds_of(call: Callable[[], object]) -> float:
    """Wall time until the GPU is done."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def product_rate(dtype: torch.dtype, size: int = 8192) -> float:
    """Operations a second of a product of two square matrices."""
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    times = [seconds_of(lambda: a @ b) for _ in range(10)]
    return 2 * size**3 / statistics.median(times)


def disk_rate(folder: Path) -> float:
    """Bytes a second that this disk is written with, by one thread, without waiting for it."""
    data = np.random.default_rng(0).bytes(SHARD // 8)
    begin = time.perf_counter()
    with open(folder / "disk", "wb") as file:
        for _ in range(8):
            file.write(data)
    seconds = time.perf_counter() - begin
    (folder / "disk").unlink()
    return SHARD / seconds


class Plain:
    """The library's model on the card, padded batches of 8, as its documentation does it."""

    most = 128  # documents: it is slow

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to("cuda")
        self.found: dict[str, torch.Tensor] = {}

    def batches(self, documents):
        for i in range(0, len(documents), BATCH):
            ids, mask = padded(documents[i : i + BATCH])
            yield ids.to("cuda"), mask.to("cuda")

    @torch.inference_mode()
    def forward(self, documents) -> None:
        for ids, mask in self.batches(documents):
            self.model.base_model(ids, attention_mask=mask, use_cache=False)

    @torch.inference_mode()
    def perplexity(self, documents) -> float:
        sums, scored = 0.0, 0
        for ids, mask in self.batches(documents):
            logits = self.model(ids, attention_mask=mask, use_cache=False).logits[:, :-1]
            nll = nn.functional.cross_entropy(
                logits.transpose(1, 2).float(), ids[:, 1:], reduction="none"
            )
            sums += float((nll * mask[:, 1:]).sum())
            scored += int(mask[:, 1:].sum())
        return math.exp(sums / scored)

    @torch.inference_mode()
    def capture(self, documents, output: Path) -> None:
        """Hidden states, and the inputs of the scores by hooks on the projections."""
        hooks = []
        for name, module in self.model.named_modules():
            if name.endswith(("c_attn", "q_proj", "k_proj")):
                hooks.append(module.register_forward_hook(self._keep(name)))
        for number, (ids, mask) in enumerate(self.batches(documents)):
            out = self.model(ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
            torch.save(
                {"hidden_states": [x.cpu() for x in out.hidden_states],
                 **{name: x.cpu() for name, x in self.found.items()}},
                output / f"{number}.pt",
            )  # fmt: skip
        for hook in hooks:
            hook.remove()

    def _keep(self, name: str):
        def hook(module, inputs, output) -> None:
            self.found[name] = output

        return hook


class Ours:
    """This project's paths, exact or fast."""

    most = 512  # documents

    def __init__(self, folder: Path, family: str, fast: bool) -> None:
        self.model = load_ready(folder, family, "cuda", torch.get_num_threads())
        if fast:
            faster(self.model)

    def packs(self, documents):
        lengths = np.array(list(map(len, documents)))
        return list(packs_of(lengths, range(len(documents)), TOKENS))

    @torch.inference_mode()
    def forward(self, documents) -> None:
        for pack in self.packs(documents):
            capture.packed_last(self.model, [documents[i] for i in pack.documents])

    @torch.inference_mode()
    def perplexity(self, documents) -> float:
        return perplexity(self.model, documents, self.packs(documents))

    def capture(self, documents, output: Path) -> None:
        lengths = np.array(list(map(len, documents)))
        captured(self.model, documents, self.packs(documents), lengths, output)

    def conditions(self, documents, number: int) -> None:
        """So many masks in one evaluation, the intact model beside them."""
        profile = {"kind": "alibi"}
        some = {
            f"slope {k}": Condition.model_validate(
                {"position": "zero",
                 "mask": {"semantics": "additive", "profile": {**profile, "slope": 0.01 * k}}}
            )
            for k in range(1, number + 1)
        }  # fmt: skip
        counted = [[True] * len(ids) for ids in documents]
        for _ in evaluate(self.model, documents, counted, {"intact": INTACT, **some}, {}, 32768):
            pass


def fitting(folder: Path, family: str, documents) -> dict:
    """A step of fitting a mask, 8 documents each."""
    model = load_ready(folder, family, "cuda", torch.get_num_threads())
    source = FittedMask(
        method="fitted", position="zero", learn_position=False,
        terms=["slope", "logarithm", "near", "first"], steps=20, batch_documents=8,
        learning_rate=3e-2, precision="bfloat16", validate_steps=20, seed=0,
    )  # fmt: skip
    data = Calibration(model, documents[:64], documents[64:72], 32768)
    learn(source.model_copy(update={"steps": 2}), data)
    seconds = seconds_of(lambda: learn(source, data)) / source.steps
    tokens = sum(map(len, documents[:64])) // 8
    return {"task": "fit, a step", "seconds": [seconds], "tokens": tokens}


def once_or_more(one: Plain | Ours, task: str, texts, rounds: int) -> dict:
    """Seconds of a task over all documents, after some of them."""
    call, texts = getattr(one, task), texts[: one.most]
    value = call(texts[:64])
    torch.cuda.reset_peak_memory_stats()
    times = [seconds_of(functools.partial(call, texts)) for _ in range(rounds)]
    return {
        "task": task, "seconds": times, "tokens": sum(map(len, texts)), "value": value,
        "peak": torch.cuda.max_memory_allocated(),
    }  # fmt: skip


def forwards(one: Plain | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Hidden states alone, which nothing keeps."""
    return [once_or_more(one, "forward", texts, rounds)]


def perplexities(one: Plain | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Losses of all tokens."""
    return [once_or_more(one, "perplexity", texts, rounds)]


def captures(one: Plain | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """Hidden states, queries and keys to the disk."""
    few, times = texts[: one.most // 4], []
    one.capture(few[:8], fresh(folder))
    for _ in range(rounds):
        into = fresh(folder)
        times.append(seconds_of(functools.partial(one.capture, few, into)))
    written = sum(file.stat().st_size for file in into.iterdir())
    return [{"task": "capture", "seconds": times, "tokens": sum(map(len, few)), "written": written}]


def evaluations(one: Plain | Ours, texts, folder: Path, rounds: int) -> list[dict]:
    """One condition, and thirty in the same pass, beside the intact model; no peer does it."""
    if isinstance(one, Plain):
        return []
    few, rows = texts[:64], []
    for number in (1, 30):
        one.conditions(few[:16], number)
        seconds = seconds_of(functools.partial(one.conditions, few, number))
        rows.append(
            {"task": f"{number} conditions", "seconds": [seconds], "tokens": sum(map(len, few))}
        )
    return rows


MEASURED = {
    "forward": forwards, "perplexity": perplexities, "capture": captures, "conditions": evaluations
}  # fmt: skip


def main(
    documents: Annotated[int, typer.Option(help="how many")] = 512,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    output: Annotated[Path | None, typer.Option(help="JSON file of all results")] = None,
    limit: Annotated[float, typer.Option(help="seconds after which no more is begun")] = 200,
) -> None:
    """Measure all, in turns, and print a table in Markdown."""
    collect_rarely()
    began, record = time.perf_counter(), {"rows": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        record |= {
            "card": torch.cuda.get_device_name(), "torch": torch.__version__, "tokens": TOKENS,
            "bfloat16": product_rate(torch.bfloat16), "float32": product_rate(torch.float32),
            "disk": disk_rate(folder), "documents": documents,
        }  # fmt: skip
        print(json.dumps({k: v for k, v in record.items() if k != "rows"}), file=sys.stderr)
        for name, (family, make) in MODELS.items():
            torch.manual_seed(0)
            model = make()
            model.save_pretrained(folder / name)
            work, vocabulary = linear(model), model.config.vocab_size
            del model
            texts = documents_of(documents, vocabulary)
            variants = {
                "plain float32": Plain(folder / name, torch.float32),
                "plain bfloat16": Plain(folder / name, torch.bfloat16),
                "ours exact": Ours(folder / name, family, False),
                "ours fast": Ours(folder / name, family, True),
            }
            for task in MEASURED:
                for variant, one in variants.items():
                    if time.perf_counter() - began < limit:
                        for row in MEASURED[task](one, texts, folder, rounds):
                            add(record, row | {"model": name, "variant": variant, "work": work})
                save(record, output)
            del variants
            torch.cuda.empty_cache()
            if time.perf_counter() - began < limit:
                row = fitting(folder / name, family, texts)
                add(record, row | {"model": name, "variant": "ours", "work": 3 * work})
            save(record, output)
    print(table(record))


def fresh(folder: Path) -> Path:
    """An empty folder."""
    into = folder / "captured"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    return into


def add(record: dict, row: dict) -> None:
    """A row, said at once."""
    record["rows"].append(row)
    tqdm.write(json.dumps(row), file=sys.stderr)


def save(record: dict, output: Path | None) -> None:
    """What there is so far."""
    if output:
        output.write_text(json.dumps(record, indent=1) + "\n")


def table(record: dict) -> str:
    """Medians and ratios, in Markdown."""
    rows, best = record["rows"], {}
    for row in rows:
        if row["variant"] == "plain float32":
            best[row["model"], row["task"]] = row["tokens"] / statistics.median(row["seconds"])
    lines = [
        f"{record['card']}, torch {record['torch']}; a product of bfloat16 matrices of 8,192 rows: "
        f"{record['bfloat16'] / 1e12:.0f} TFLOP/s, of float32: {record['float32'] / 1e12:.0f}; "
        f"writing to the disk: {record['disk'] / 1e9:.1f} GB/s",
        "",
        "| model | task | variant | tokens/s | times as fast | of the bfloat16 rate | GB/s to disk "
        "| peak GB |",
        "| --- " * 8 + "|",
    ]  # fmt: skip
    for row in rows:
        seconds = statistics.median(row["seconds"])
        key = row["model"], row["task"]
        ratio = f"{row['tokens'] / seconds / best[key]:.1f}" if key in best else ""
        share = row["work"] * row["tokens"] / seconds / record["bfloat16"]
        is_product = row["task"] in ("forward", "fit, a step")
        cells = [
            row["model"], row["task"], row["variant"], f"{row['tokens'] / seconds:,.0f}", ratio,
            f"{share:.2f}" if is_product else "",
            f"{row['written'] / seconds / 1e9:.2f}" if "written" in row else "",
            f"{row['peak'] / 1e9:.1f}" if "peak" in row else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
