"""A small GPT-2 and the jobs that capture its runs, for tests of the two steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa

import posenc.steps.capture as step
from posenc.artifacts.files import CHECKSUMS, sha256_file, write_checksums
from posenc.artifacts.tables import write_table
from posenc.capture import runs
from posenc.capture.section import Activations
from posenc.steps import store as gather
from tests.parity.library import reference
from tests.unit.damage import Killed

PARAMETERS = Activations(
    quantities=["hidden_states", "queries", "keys"],
    dtype="float16",
    device="cpu",
    precision="exact",
    batch_tokens=64,
    shard_tokens=20,
)
INTACT, ZERO = {"position": "intact"}, {"position": "zero"}
SHARDS = 5  # of the six documents


def killed(*_, **__):
    raise Killed


class CaptureProject:
    """A small GPT-2, its tokens of a data set, and the jobs that capture its runs."""

    family = "gpt2"

    def __init__(self, folder: Path, documents: list[list[int]]) -> None:
        self.folder, self.documents = folder, documents
        # What an unknown family is, and where its positions are.
        self.kind: dict[str, str] = {}
        self.weights, self.tokens = folder / "models/gpt2", folder / "tokens/gpt2"
        self.output = folder / "activations/gpt2"
        self.conditions = {"intact": INTACT, "zero": ZERO}
        self.parameters = PARAMETERS.model_dump()
        reference("gpt2").save_pretrained(self.weights)
        write_checksums(self.weights / CHECKSUMS, "config.json", "model.safetensors")
        self.tokenize(documents)

    def tokenize(self, documents: list[list[int]]) -> None:
        table = pa.table(
            {
                "document_id": [f"d{n}" for n in range(len(documents))],
                "input_ids": pa.array(documents, pa.list_(pa.int32())),
                "special": [[True] + [False] * (len(ids) - 1) for ids in documents],
                "bytes": [3 * (len(ids) - 1) for ids in documents],
            }
        )
        write_table(table, self.tokens / "sample.parquet", {"bos": True})

    @property
    def options(self) -> dict:
        """Options of both steps."""
        config = self.folder / "capture.json"
        job = {
            "reading": {"family": self.family, "max_tokens": 40, **self.kind},
            "activations": self.parameters,
            "datasets": ["sample"],
            "conditions": self.conditions,
        }
        config.write_text(json.dumps(job))
        return {
            "model": "gpt2",
            "config": config,
            "weights": self.weights,
            "tokens": self.tokens,
            "output": self.output,
        }

    def capture(self, part: str = "1-of-1") -> set[str]:
        """Run a capture, and say which runs it computed."""
        receipt = self.receipt(part)
        receipt.unlink(missing_ok=True)
        step.main(**self.options, part=part, done=receipt)
        return set(json.loads(receipt.read_text())["captured"])

    def receipt(self, part: str = "1-of-1") -> Path:
        """The file that tells Snakemake that a part is captured."""
        return self.output.parents[1] / f"captures/gpt2.{part}.json"

    def store(self) -> None:
        gather.main(**self.options)

    def make(self) -> set[str]:
        """Run both steps, as the workflow does."""
        worked_at = self.capture()
        self.store()
        return {name.removeprefix("gpt2/sample/") for name in worked_at}

    def run(self, condition: str = "intact") -> Path:
        """Folder of a run's store."""
        return self.output / "sample" / condition

    def partial(self, condition: str) -> Path:
        """Folder of a run's partial work."""
        (folder,) = runs.partials(self.output).glob(f"sample.{condition}.*")
        return folder

    def contents(self) -> dict[str, str]:
        """SHA-256 of every file of the stores."""
        return contents(self.output)

    def stamps(self) -> dict[str, tuple[int, int]]:
        """Inode and date of every file of the stores."""
        return {
            str(path.relative_to(self.output)): (path.stat().st_ino, path.stat().st_mtime_ns)
            for path in self.output.rglob("*")
            if path.is_file()
        }

    def from_nothing(self) -> dict[str, str]:
        """What both steps write from nothing."""
        before, self.output = self.output, self.folder / "anew/activations/gpt2"
        shutil.rmtree(self.folder / "anew", ignore_errors=True)
        self.make()
        written, self.output = self.contents(), before
        return written


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shards(condition: str, *numbers: int) -> list[tuple[str, int]]:
    return [(condition, number) for number in numbers or range(SHARDS)]
