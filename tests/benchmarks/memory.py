"""How much memory a model of 1.5 billion parameters takes: a random Llama of bfloat16, in shards.

``python -m tests.benchmarks.memory`` writes its folder shard by shard (3 GB, removed afterwards)
and runs what a study does with it, each in its own process: the verification when it is
fetched, a capture in ``fast``, and a load in float32. It prints the most memory that was resident
beyond the weights in the precision of each, and fails above what is allowed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.benchmarks.growth import largest

SIZES = {
    "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 31,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 2048,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ALLOWED = 1.5e9
"""Bytes beyond the weights."""
WIDTHS = {"verification": 2, "capture": 2, "load": 4}
"""Bytes of a weight in what is run."""
DOCUMENT = 128
"""Tokens of the documents that are captured."""


def write(folder: Path, sizes: dict, dtype: str = "bfloat16") -> int:
    """Write a random Llama, a file per layer, and its tokenizer; return the number of weights."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.unit.api_models import words

    config = LlamaConfig(**sizes, architectures=["LlamaForCausalLM"], dtype=dtype)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    config.save_pretrained(folder)
    shards: dict[str, dict[str, torch.Size]] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[2] if ".layers." in name else "rest"
        shards.setdefault(f"model-{part}.safetensors", {})[name] = parameter.shape
    torch.manual_seed(0)
    for file, shapes in shards.items():
        tensors = {
            name: torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * 0.02
            for name, shape in shapes.items()
        }
        save_file(
            {name: tensor.to(getattr(torch, dtype)) for name, tensor in tensors.items()},
            folder / file,
            metadata={"format": "pt"},
        )
    index = {name: file for file, shapes in shards.items() for name in shapes}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index})
    )
    words(True).save(str(folder / "tokenizer.json"))
    return sum(parameter.numel() for parameter in model.parameters())


def verification(folder: Path, output: Path) -> None:
    """Verify a model as a fetch does."""
    from tokenizers import Tokenizer

    from posenc.capture.verified import looked_at
    from posenc.models.section import Reading

    reading = Reading(family="llama", max_tokens=512)
    said = looked_at("benchmark", reading, folder, Tokenizer.from_file(f"{folder}/tokenizer.json"))
    assert said["can"]["maps"] is None, said


def capture(folder: Path, output: Path) -> None:
    """A capture in ``fast``, compared with float32 on one document."""
    import torch

    from posenc.architectures.float32 import in_float32
    from posenc.capture.capture import capture as captured
    from posenc.capture.fast import Sample, faster
    from posenc.capture.section import Activations
    from posenc.models import rates
    from posenc.models.affine import load_ready
    from posenc.steps import capture as step
    from posenc.tokens.packing import Pack

    rates.is_quicker_in_bfloat16 = lambda model: True
    network = load_ready(folder, "llama", "cpu", 2, is_kept=True)
    documents = [torch.arange(3, 3 + DOCUMENT).tolist()] * 2

    with in_float32(network):
        exact = Sample.of(network, documents[:1])
    faster(network)
    print(step.said(Sample.of(network, documents[:1]).error(exact)), file=sys.stderr)
    parameters = Activations(
        quantities=["hidden_states", "queries", "keys"], dtype="float16", precision="fast",
        device="cpu", batch_tokens=DOCUMENT, shard_tokens=1000,
    )  # fmt: skip
    packs = [Pack([number], [DOCUMENT]) for number in range(2)]
    captured(network, documents, packs, parameters, lambda pack, arrays: None)


def load(folder: Path, output: Path) -> None:
    """A model in float32."""
    from posenc.models.load import load as read

    read(folder)


TASKS = {"verification": verification, "capture": capture, "load": load}


def main(
    task: Annotated[str | None, typer.Option(help="one of them")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="where the folder of the model is made")
    ] = None,
    only: Annotated[str | None, typer.Option(help="measure one in this process")] = None,
) -> None:
    """Print a line a task."""
    if only:
        assert folder
        begin = time.monotonic()
        TASKS[only](folder, folder)
        print(json.dumps({"peak": largest(), "seconds": time.monotonic() - begin}))
        return
    with tempfile.TemporaryDirectory(dir=folder) as place:
        count = write(Path(place), SIZES)
        worst = 0.0
        for name in [task] if task else list(TASKS):
            command = [sys.executable, "-m", "tests.benchmarks.memory", "--only", name]
            done = subprocess.run(
                [*command, "--folder", place], stdout=subprocess.PIPE, text=True, check=True
            )
            result = json.loads(done.stdout.splitlines()[-1])
            beyond = result["peak"] - WIDTHS[name] * count
            worst = max(worst, beyond)
            print(
                f"{name}: {count / 1e9:.2f} billion weights of {WIDTHS[name]} bytes, at most "
                f"{result['peak'] / 1e9:.2f} GB: {beyond / 1e9:.2f} GB beyond them, "
                f"{result['seconds']:.0f} s"
            )
    if worst > ALLOWED:
        raise SystemExit(f"more than {ALLOWED / 1e9} GB beyond the weights")


if __name__ == "__main__":
    typer.run(main)
