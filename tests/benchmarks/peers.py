"""What others do, as scripts would: run by ``capture.py`` in an environment that has the peers.

``python peers.py TASK VARIANT MODEL DOCUMENTS OUTPUT THREADS`` prints one line of JSON. It imports
nothing of this project.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from pathlib import Path

import torch

BATCH = 8


def padded(documents: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, [batch, longest] each."""
    longest = max(map(len, documents))
    ids = torch.zeros(len(documents), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        ids[row, : len(document)] = torch.tensor(document)
        mask[row, : len(document)] = 1
    return ids, mask


def library_model(folder: Path, dtype: torch.dtype):
    """The library's GPT-2, as ``from_pretrained`` gives it."""
    from transformers import GPT2LMHeadModel

    return GPT2LMHeadModel.from_pretrained(folder, dtype=dtype).eval()


class Plain:
    """Hidden states by the library's option, queries and keys by hooks, one file per batch."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.model, self.found = library_model(folder, dtype), {}
        for layer, block in enumerate(self.model.transformer.h):
            block.attn.c_attn.register_forward_hook(self.hook(layer))

    def hook(self, layer: int):
        def after(module, inputs, output) -> None:
            query, key, _ = output.split(output.shape[-1] // 3, dim=-1)
            self.found[f"q{layer}"], self.found[f"k{layer}"] = query.clone(), key.clone()

        return after

    def __call__(self, documents: list[list[int]], path: Path | None) -> None:
        ids, mask = padded(documents)
        out = self.model(ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
        if path is not None:
            torch.save({"hidden_states": out.hidden_states, **self.found}, path)


class TransformerLens:
    """``run_with_cache`` of the same model."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        from transformer_lens.model_bridge import TransformerBridge

        self.model = TransformerBridge.boot_transformers(
            str(folder), hf_model=library_model(folder, dtype), tokenizer=None, device="cpu"
        )

    def __call__(self, documents: list[list[int]], path: Path | None) -> None:
        ids, mask = padded(documents)
        ends = ("hook_resid_pre", "ln_final.hook_out", "attn.hook_q", "attn.hook_k")
        _, cache = self.model.run_with_cache(
            ids, attention_mask=mask, names_filter=lambda name: name.endswith(ends)
        )
        if path is not None:
            torch.save(dict(cache), path)


class NNsight:
    """A trace that saves what the plain script's hooks save."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        from nnsight import NNsight as Wrapped

        self.model = Wrapped(library_model(folder, dtype))

    def __call__(self, documents: list[list[int]], path: Path | None) -> None:
        ids, mask = padded(documents)
        saved = {}
        with self.model.trace(ids, attention_mask=mask, use_cache=False):
            for layer, block in enumerate(self.model.transformer.h):
                saved[f"h{layer}"] = block.inputs[0][0].save()
                projected = block.attn.c_attn.output
                query, key, _ = projected.split(projected.shape[-1] // 3, dim=-1)
                saved[f"q{layer}"], saved[f"k{layer}"] = query.clone().save(), key.clone().save()
            saved["last"] = self.model.transformer.ln_f.output.save()
        if path is not None:
            torch.save(saved, path)


def perplexity(folder: Path, batches: list[list[list[int]]]) -> tuple[float, float]:
    """As the package ``evaluate`` does it: logits of whole padded batches, float32."""
    model, sums, scored = library_model(folder, torch.float32), 0.0, 0
    loss = torch.nn.CrossEntropyLoss(reduction="none")

    def one(documents) -> None:
        nonlocal sums, scored
        ids, mask = padded(documents)
        logits = model(ids, attention_mask=mask, use_cache=False).logits[:, :-1].contiguous()
        shifted = mask[:, 1:].contiguous()
        nll = loss(logits.transpose(1, 2), ids[:, 1:]) * shifted
        sums, scored = sums + float(nll.sum()), scored + int(shifted.sum())

    def forget() -> None:
        nonlocal sums, scored
        sums, scored = 0.0, 0

    seconds = timed(one, batches, forget)
    return seconds, math.exp(sums / scored)


def two_conditions(folder: Path, batches: list[list[list[int]]], output: Path) -> float:
    """Save the activations of both conditions, load them again, compare token by token."""
    script = Plain(folder, torch.float32)
    table = script.model.transformer.wpe.weight
    whole = table.detach().clone()

    def one(documents) -> None:
        mask = padded(documents)[1].bool()
        for name in ("intact", "zero"):
            table.data = whole if name == "intact" else torch.zeros_like(whole)
            script(documents, output / f"{name}.pt")
        table.data = whole
        both = [torch.load(output / f"{name}.pt") for name in ("intact", "zero")]
        for ours, theirs in zip(*(one["hidden_states"] for one in both), strict=True):
            torch.nn.functional.cosine_similarity(ours, theirs, dim=-1)[mask].mean()

    return timed(one, batches)


def timed(one, batches, after_first=lambda: None) -> float:
    """Seconds of all batches, one of them run before."""
    one(batches[0][:2])
    after_first()
    begin = time.perf_counter()
    for batch in batches:
        one(batch)
    return time.perf_counter() - begin


@torch.inference_mode()
def main(task: str, variant: str, folder: Path, documents: Path, output: Path) -> None:
    """Run one task once."""
    ids = json.loads(documents.read_text())
    size = 1 if variant == "one by one" else BATCH
    batches = [ids[i : i + size] for i in range(0, len(ids), size)]
    report: dict[str, float] = {}
    if task == "capture":
        kinds = {"transformer_lens": TransformerLens, "nnsight": NNsight}
        dtype = torch.bfloat16 if variant.endswith("bfloat16") else torch.float32
        script = kinds.get(variant, Plain)(folder, dtype)
        numbers = iter(range(len(batches) + 1))
        report["seconds"] = timed(
            lambda batch: script(batch, output / f"{next(numbers)}.pt"), batches
        )
        (output / "0.pt").unlink()
    elif task == "perplexity":
        report["seconds"], report["value"] = perplexity(folder, batches)
    elif task == "two conditions":
        report["seconds"] = two_conditions(folder, batches, output)
    else:
        model = library_model(folder, torch.float32).transformer

        def one(batch) -> None:
            batch_ids, mask = padded(batch)
            model(batch_ids, attention_mask=mask, use_cache=False)

        report["seconds"] = timed(one, batches)
    report["bytes"] = sum(path.stat().st_size for path in output.rglob("*"))
    report["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(report))


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[6]))
    main(*sys.argv[1:3], *map(Path, sys.argv[3:6]))
