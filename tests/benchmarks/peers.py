"""What others do, as scripts would: served to ``capture.py`` from an environment with the peers.

``python peers.py VARIANT MODEL DATA THREADS`` does the tasks it reads, one a line, each in a
process of its own, and answers each with a line of JSON. It imports nothing of this project.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

BATCH = 8
TRAINING = {"batch": 4, "steps": 4, "learning_rate": 1e-3}
"""Sequences of a step, steps, and the rate that a cosine begins with."""
FITTING = {"batch": 2, "steps": 4, "learning_rate": 3e-2, "near": 4}
"""The same, of documents, and how many distances have a bias of their own."""
Documents = list[list[int]]


def padded(documents: Documents) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, [batch, longest] each."""
    longest = max(map(len, documents))
    ids = torch.zeros(len(documents), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, document in enumerate(documents):
        ids[row, : len(document)] = torch.tensor(document)
        mask[row, : len(document)] = 1
    return ids, mask


def parts(model) -> tuple[Any, Callable, Any]:
    """A GPT-2's or Llama's blocks, what gives a block's queries and keys, and its final norm."""
    if model.config.model_type == "gpt2":
        inner = model.transformer
        return inner.h, lambda block: [block.attn.c_attn], inner.ln_f
    inner = model.model
    return inner.layers, lambda layer: [layer.self_attn.q_proj, layer.self_attn.k_proj], inner.norm


def queries_and_keys(model, output: torch.Tensor) -> list[torch.Tensor]:
    """Of what a projection gives; GPT-2 has one for queries, keys and values."""
    if model.config.model_type != "gpt2":
        return [output.clone()]
    return [part.clone() for part in output.split(output.shape[-1] // 3, dim=-1)[:2]]


class Library:
    """The library's model in padded batches, as its documentation does it.

    Each task is given documents, and a folder to write to; what it returns goes into the answer.
    """

    def __init__(
        self, folder: Path, dtype: torch.dtype = torch.float32, batch: int = BATCH,
        device: str = "cpu",
    ) -> None:  # fmt: skip
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(device)
        self.batch, self.device = batch, device

    def batches(self, documents: Documents) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Ids and mask, [batch, longest] each."""
        for i in range(0, len(documents), self.batch):
            ids, mask = padded(documents[i : i + self.batch])
            yield ids.to(self.device), mask.to(self.device)

    @torch.inference_mode()
    def forward(self, documents: Documents, output: Path | None = None) -> None:
        """Hidden states only, none of them kept."""
        for ids, mask in self.batches(documents):
            self.model.base_model(ids, attention_mask=mask, use_cache=False)

    @torch.inference_mode()
    def perplexity(self, documents: Documents, output: Path | None = None) -> dict:
        """As the package ``evaluate`` does it: logits of whole padded batches."""
        sums, scored = 0.0, 0
        for ids, mask in self.batches(documents):
            logits = self.model(ids, attention_mask=mask, use_cache=False).logits[:, :-1]
            nll = functional.cross_entropy(
                logits.transpose(1, 2).float(), ids[:, 1:], reduction="none"
            )  # [batch, longest - 1]
            sums += float((nll * mask[:, 1:]).sum())
            scored += int(mask[:, 1:].sum())
        return {"value": math.exp(sums / scored)}

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
        """Hidden states by the library's option, queries and keys by hooks."""
        blocks, projections, _ = parts(self.model)
        captured: dict[str, Any] = {}
        hooks = [
            projection.register_forward_hook(
                lambda module, inputs, output, name=f"{layer}.{number}": captured.__setitem__(
                    name, queries_and_keys(self.model, output)
                )
            )
            for layer, block in enumerate(blocks)
            for number, projection in enumerate(projections(block))
        ]
        out = self.model(ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
        for hook in hooks:
            hook.remove()
        return {"hidden_states": out.hidden_states, **captured}

    @torch.inference_mode()
    def capture(self, documents: Documents, output: Path) -> None:
        """One file per batch."""
        for number, (ids, mask) in enumerate(self.batches(documents)):
            torch.save(on_cpu(self.states(ids, mask)), output / f"{number}.pt")

    @torch.inference_mode()
    def two_conditions(self, documents: Documents, output: Path) -> dict:
        """Save the activations of both conditions, load them again, compare token by token."""
        inner, sums, tokens = self.model.base_model, 0.0, 0
        table = inner.wpe.weight if hasattr(inner, "wpe") else inner.rotary_emb.inv_freq
        whole = table.detach().clone()
        for ids, mask in self.batches(documents):
            for name in ("intact", "zero"):
                table.data = whole if name == "intact" else torch.zeros_like(whole)
                torch.save(self.states(ids, mask), output / f"{name}.pt")
            table.data = whole
            both = [torch.load(output / f"{name}.pt") for name in ("intact", "zero")]
            for ours, theirs in zip(*(saved["hidden_states"] for saved in both), strict=True):
                cosine = functional.cosine_similarity(ours, theirs, dim=-1)[mask.bool()]  # [tokens]
                last = float(cosine.sum())
            sums, tokens = sums + last, tokens + len(cosine)
        return {"value": sums / tokens}

    def training(self, data: dict, output: Path) -> dict:
        """Its documentation's loop; a cosine to a tenth of the learning rate."""
        rate, steps, batch = (TRAINING[key] for key in ("learning_rate", "steps", "batch"))
        sequences = torch.tensor(data["sequences"])  # [sequences, tokens]
        order = np.random.default_rng([0, 0]).permutation(len(sequences))  # as ours
        optimizer = torch.optim.AdamW(
            self.model.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.0
        )
        clock, loss = Clock(), 0.0
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))
            ids = sequences[order[step * batch : (step + 1) * batch]]  # [batch, tokens]
            mean_nll = self.model(ids, labels=ids, use_cache=False).loss
            optimizer.zero_grad()
            mean_nll.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            loss = float(mean_nll.detach())
            clock.tick()
        tokens = (steps - 1) * batch * sequences.shape[1]
        return {"seconds": clock.seconds, "tokens": tokens, "value": loss}

    def fitting(self, data: dict, output: Path) -> dict:
        """Biases of the scores, fitted with the weights frozen and no positions."""
        rate, steps, batch = (FITTING[key] for key in ("learning_rate", "steps", "batch"))
        inner, texts = self.model.base_model, data["fitting"]
        table = inner.wpe.weight if hasattr(inner, "wpe") else inner.rotary_emb.inv_freq
        table.data = torch.zeros_like(table)
        self.model.requires_grad_(False)
        bias = Bias(self.model, max(map(len, texts)))
        order = np.random.default_rng(0).permutation(len(texts)).tolist()  # as ours
        optimizer = torch.optim.Adam(bias.parameters(), rate)
        clock = Clock()
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            chosen = order[step * batch : (step + 1) * batch]
            ids, mask = padded([texts[index] for index in chosen])
            labels = ids.masked_fill(mask == 0, -100)  # [batch, longest]
            loss = self.model(ids, labels=labels, use_cache=False).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            clock.tick()
        with torch.no_grad():
            value = math.log(self.perplexity(texts)["value"])
        fitted = order[batch : steps * batch]
        tokens = sum(len(texts[index]) for index in fitted)
        return {"seconds": clock.seconds, "tokens": tokens, "value": value}


class Bias(torch.nn.Module):
    """A bias of each head by distance, in place of the mask that each attention is given."""

    def __init__(self, model, longest: int) -> None:
        super().__init__()
        heads = (model.config.num_hidden_layers, model.config.num_attention_heads)
        self.longest = longest
        for term in ("slope", "logarithm", "first"):
            self.register_parameter(term, torch.nn.Parameter(torch.zeros(*heads)))
        self.near = torch.nn.Parameter(torch.zeros(*heads, FITTING["near"]))
        for layer, block in enumerate(parts(model)[0]):
            attention = block.attn if hasattr(block, "attn") else block.self_attn
            attention.register_forward_pre_hook(
                functools.partial(self.put, layer), with_kwargs=True
            )

    def put(self, layer: int, module, inputs: tuple, named: dict) -> tuple[tuple, dict]:
        """Exchange the mask."""
        tokens = (inputs[0] if inputs else named["hidden_states"]).shape[1]
        return inputs, named | {"attention_mask": self.of(layer, tokens)[None]}

    def of(self, layer: int, tokens: int) -> torch.Tensor:
        """Of a layer, [heads, tokens, tokens]; -inf in the future."""
        places = torch.arange(tokens)
        offset = places[:, None] - places  # [tokens, tokens]
        distance = offset.clamp(min=0).float()
        slope, logarithm = (
            coefficients[layer, :, None, None] for coefficients in (self.slope, self.logarithm)
        )
        bias = -slope * distance / self.longest * 10 - logarithm * distance.log1p()
        count = self.near.shape[-1]
        near = self.near[layer][:, offset.clamp(0, count - 1)]  # [heads, tokens, tokens]
        bias = bias + near.where(offset < count, 0.0)
        bias = bias + functional.pad(self.first[layer, :, None, None], (0, tokens - 1))
        return bias.masked_fill(offset < 0, -torch.inf)


class TransformerLens(Library):
    """``run_with_cache`` of the same model."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer, models
        from transformer_lens.model_bridge import TransformerBridge
        from transformers import PreTrainedTokenizerFast

        super().__init__(folder)
        # It looks for a tokenizer beside the model but is only given ids.
        only = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
        special = {"bos_token": "a", "eos_token": "a"}
        PreTrainedTokenizerFast(tokenizer_object=only, **special).save_pretrained(folder)
        self.model = TransformerBridge.boot_transformers(
            str(folder), hf_model=self.model, tokenizer=None, device="cpu"
        )

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
        ends = ("hook_resid_pre", "ln_final.hook_out", "attn.hook_q", "attn.hook_k")
        _, cache = self.model.run_with_cache(
            ids, attention_mask=mask, names_filter=lambda name: name.endswith(ends)
        )
        return dict(cache)


class NNsight(Library):
    """A trace that saves what the plain script's hooks save."""

    def __init__(self, folder: Path) -> None:
        from nnsight import NNsight as Wrapped

        super().__init__(folder)
        self.wrapped = Wrapped(self.model)

    def states(self, ids: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
        saved, model = {}, self.model
        blocks, projections, norm = parts(self.wrapped)
        with self.wrapped.trace(ids, attention_mask=mask, use_cache=False):
            for layer, block in enumerate(blocks):
                saved[f"h{layer}"] = block.inputs[0][0].save()
                for number, projection in enumerate(projections(block)):
                    for kind, part in enumerate(queries_and_keys(model, projection.output)):
                        saved[f"{layer}.{number}.{kind}"] = part.save()
            saved["last"] = norm.output.save()
        return saved


def on_cpu(result: Any) -> Any:
    """The same in the program's memory."""
    if isinstance(result, dict):
        return {key: on_cpu(value) for key, value in result.items()}
    return (
        [on_cpu(entry) for entry in result] if isinstance(result, (list, tuple)) else result.cpu()
    )


class Clock:
    """Seconds of all steps but the first, which warms up."""

    def __init__(self) -> None:
        self.ticks: list[float] = []

    def tick(self, *_: Any) -> None:
        """A step is done."""
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # it runs behind its program
        self.ticks.append(time.perf_counter())

    @property
    def seconds(self) -> float:
        """From the end of the first step to that of the last."""
        return self.ticks[-1] - self.ticks[0]


def apart(call: Callable[[], dict]) -> dict:
    """What a call returns in a process of its own, and the most memory that it took, in bytes.

    It is forked, so that nothing imported here need be imported again; this process
    must not have computed anything, or torch's threads would be missing there.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        os.dup2(2, 1)  # what libraries print is no answer
        try:
            result = call()
            result["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            os.write(writing, json.dumps(result).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("the process failed")
    return json.loads(text)


def measured(make: Callable[[], Any], task: str, data: dict, threads: int) -> dict:
    """Seconds of a task after a small one, tokens, bytes on disk, and what the task tells."""
    torch.set_num_threads(threads)
    call = getattr(make(), task.replace(" ", "_"))
    with tempfile.TemporaryDirectory(dir=data["folder"]) as place:
        output = Path(place)
        if task in ("training", "fitting"):
            return call(data, output)
        call(data["documents"][:2], output)
        for file in output.iterdir():
            file.unlink()
        begin = time.perf_counter()
        told = call(data["documents"], output) or {}
        seconds = time.perf_counter() - begin
        tokens = sum(map(len, data["documents"]))
        written = sum(path.stat().st_size for path in output.iterdir())
        return {"seconds": seconds, "tokens": tokens, "bytes": written, **told}


def serve(make: Callable[[], Any], path: str, threads: str) -> None:
    """Do the requested tasks, one a line."""
    data = json.loads(Path(path).read_text()) | {"folder": str(Path(path).parent)}
    for line in sys.stdin:
        result = apart(functools.partial(measured, make, line.strip(), data, int(threads)))
        print(json.dumps(result), flush=True)


VARIANTS: dict[str, Callable[[Path], Library]] = {
    "plain float32": Library,
    "plain bfloat16": lambda folder: Library(folder, torch.bfloat16),
    "one by one": lambda folder: Library(folder, batch=1),
    "transformer_lens": TransformerLens,
    "nnsight": NNsight,
}

IMPORTED = {"transformer_lens": "transformer_lens.model_bridge", "nnsight": "nnsight"}

if __name__ == "__main__":
    # Once, before processes are forked.
    for module in ("transformers.modeling_utils", IMPORTED.get(sys.argv[1], "torch")):
        importlib.import_module(module)
    serve(functools.partial(VARIANTS[sys.argv[1]], Path(sys.argv[2])), *sys.argv[3:])
