"""What this project does with the same documents: served to ``capture.py`` as ``peers.py`` is.

``python -m tests.benchmarks.ours VARIANT MODEL DATA THREADS FAMILY``.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.shards import ShardFile
from posenc.capture import capture
from posenc.capture.calibration import Calibration
from posenc.capture.evaluation import INTACT, evaluate
from posenc.capture.fast import faster
from posenc.capture.mask_fitting import fit
from posenc.capture.retraining import Schedule, retrain
from posenc.capture.section import Activations
from posenc.conditions.masks import FittedMask
from posenc.conditions.section import Condition
from posenc.config.optimization import Optimization
from posenc.models.affine import for_training, load_ready
from posenc.models.load import load
from posenc.steps.capture import tensors_of
from posenc.tokens.packing import Pack, packs_of
from tests.benchmarks.peers import FITTING, TRAINING, Clock, Documents, serve

PASS = {"capture": 1024, "forward": 1024, "perplexity": 1024, "evaluation": 2048}
"""Tokens of a forward pass; half as many in captures in float32, which are no slower so."""


class Ours:
    """This project's paths, exact or fast.

    Each task is given documents, and a folder to write to; what it returns goes into the answer.

    Parameters
    ----------
    tokens
        Per forward pass, in place of ``PASS``'s.
    """

    def __init__(
        self, folder: Path, family: str, fast: bool, device: str = "cpu", tokens: int | None = None
    ) -> None:
        self.folder, self.family, self.fast, self.device = folder, family, fast, device
        self.tokens = tokens

    @functools.cached_property
    def model(self) -> nn.Module:
        """Read when it is first used."""
        model = load_ready(self.folder, self.family, self.device, torch.get_num_threads())
        return faster(model) if self.fast else model

    def packs(self, documents: Documents, task: str) -> list[Pack]:
        """Documents of each forward pass."""
        halved = task == "capture" and not self.fast
        tokens = self.tokens or PASS[task] // (2 if halved else 1)
        return list(packs_of(np.array(list(map(len, documents))), range(len(documents)), tokens))

    @torch.inference_mode()
    def forward(self, documents: Documents, output: Path | None = None) -> None:
        """Hidden states only, none of them kept."""
        for pack in self.packs(documents, "forward"):
            capture.packed_last(self.model, [documents[index] for index in pack.documents])

    @torch.inference_mode()
    def perplexity(self, documents: Documents, output: Path | None = None) -> dict:
        """Of all documents."""
        sums, scored = 0.0, 0
        for pack in self.packs(documents, "perplexity"):
            chosen = [documents[index] for index in pack.documents]
            last = capture.packed_last(self.model, chosen)[0]  # [tokens, d_model]
            for nll in capture.document_losses(self.model, last, chosen):
                sums, scored = sums + float(nll.sum(dtype=np.float64)), scored + len(nll)
        return {"value": math.exp(sums / scored)}

    def capture(self, documents: Documents, output: Path) -> None:
        """All activations into one shard, as the step does."""
        parameters = Activations(
            quantities=["hidden_states", "queries", "keys"], dtype="float16", precision="exact",
            device=self.device, batch_tokens=1024, shard_tokens=100_000_000,
        )  # fmt: skip
        lengths = np.array(list(map(len, documents)))
        tensors = tensors_of(capture.Shape.of(self.model), parameters, int(lengths.sum()))
        begins = np.cumsum(lengths) - lengths
        with ShardFile(output / "shard", tensors) as file:

            def write(pack, arrays) -> None:
                for name, array in arrays.items():
                    file.write(name, int(begins[pack.documents[0]]), array)

            packs = self.packs(documents, "capture")
            capture.capture(self.model, documents, packs, parameters, write)

    def evaluated(self, documents: Documents, conditions: dict[str, Condition]) -> dict:
        """Losses and cosines of conditions side by side, the intact model beside them."""
        kept, sums = 0, 0.0
        counted = [[True] * len(ids) for ids in documents]
        tokens = self.tokens or PASS["evaluation"]
        for name, outcome in evaluate(
            self.model, documents, counted, {"intact": INTACT, **conditions}, {}, tokens
        ):
            kept += outcome.nll.nbytes + outcome.cosine.nbytes
            if name != "intact":
                sums += float(outcome.cosine[-1])
        count = sum(map(len, documents)) * len(conditions)
        return {"kept": kept, "value": sums / count}

    def two_conditions(self, documents: Documents, output: Path) -> dict:
        """Intact, and without positions."""
        return self.evaluated(documents, {"zero": Condition(position="zero")})

    def conditions(self, number: int, documents: Documents) -> dict:
        """That many masks, each acting from the first layer on."""
        profiles = {
            f"slope {k}": {"kind": "alibi", "slope": 0.01 * k} for k in range(1, number + 1)
        }
        return self.evaluated(
            documents,
            {
                name: Condition.model_validate(
                    {"position": "zero", "mask": {"semantics": "additive", "profile": profile}}
                )
                for name, profile in profiles.items()
            },
        )

    def one_condition(self, documents: Documents, output: Path) -> dict:
        """One mask, on few documents, as thirty take long."""
        few = documents[:2]
        return {**self.conditions(1, few), "tokens": sum(map(len, few))}

    def thirty_conditions(self, documents: Documents, output: Path) -> dict:
        """Thirty masks, on the same documents."""
        few = documents[:2]
        return {**self.conditions(30, few), "tokens": sum(map(len, few))}

    @property
    def precision(self) -> str:
        """What is trained and fitted in."""
        return "bfloat16" if self.fast else "float32"

    def training(self, data: dict, output: Path) -> dict:
        """As a real decoder trains on."""
        model = for_training(load(self.folder, self.family, self.device))
        sequences = torch.tensor(data["sequences"])  # [sequences, tokens]
        steps, batch = TRAINING["steps"], TRAINING["batch"]
        optimization = Optimization(
            steps=steps, batch=batch, learning_rate=TRAINING["learning_rate"], warmup_steps=0,
            weight_decay=0.0, precision=self.precision, validate_steps=steps, patience=None,
            checkpoint_steps=steps,
        )  # fmt: skip
        clock, losses = Clock(), []

        def report(step: int, loss: float) -> None:
            losses.append(loss)
            clock.tick()

        retrain(
            model, sequences, data["documents"][:1],
            Schedule(optimization, [steps], batch_tokens=16384, seed=0),
            Checkpoint(output / "checkpoint", ""), report,
        )  # fmt: skip
        tokens = (steps - 1) * batch * sequences.shape[1]
        return {"seconds": clock.seconds, "tokens": tokens, "value": losses[-1]}

    def fitting(self, data: dict, output: Path) -> dict:
        """A mask of all terms, on a model without positions."""
        return fitting(
            load_ready(self.folder, self.family, self.device, torch.get_num_threads()),
            data["fitting"], self.precision, FITTING["steps"], FITTING["batch"],
        )  # fmt: skip


def fitting(model: nn.Module, documents: Documents, precision: str, steps: int, batch: int) -> dict:
    """Seconds of a fit's steps after the first, and the loss on the same documents."""
    source = FittedMask(
        method="fitted", position="zero", learn_position=False,
        terms=["slope", "logarithm", "near", "first"], near=FITTING["near"], steps=steps,
        batch_documents=batch, learning_rate=FITTING["learning_rate"], precision=precision,
        validate_steps=steps, seed=0,
    )  # fmt: skip
    clock = Clock()
    _, facts = fit(source, Calibration(model, documents, documents, 32768), clock.tick)
    order = np.random.default_rng(0).permutation(len(documents))
    fitted = order[batch : steps * batch]
    return {
        "seconds": clock.seconds,
        "tokens": sum(len(documents[index]) for index in fitted),
        "value": facts["curve"][-1]["loss"],
    }


VARIANTS: dict[str, Callable[[Path, str], Ours]] = {
    "ours exact": lambda folder, family: Ours(folder, family, False),
    "ours fast": lambda folder, family: Ours(folder, family, True),
}

if __name__ == "__main__":
    tqdm.__init__ = functools.partialmethod(tqdm.__init__, disable=True)
    for module in ("gpt2", "llama"):
        importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    make = functools.partial(VARIANTS[sys.argv[1]], Path(sys.argv[2]), sys.argv[5])
    serve(make, *sys.argv[3:5])
