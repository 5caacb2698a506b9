"""The study `real` from end to end, on a hub that lies on this machine.

Models have the published sizes and random weights; texts are few and short, as is what is
trained. They come as they would from their hubs: a snapshot of each model in the hub's cache, the
export of the questions in that of the data sets, the archive of reviews over HTTP.

``python -m tests.benchmarks.real_study`` writes what it took to docs/real-study.json and into the
page on speed.
"""

from __future__ import annotations

import itertools
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from posenc.artifacts.files import sha256_file
from posenc.datasets.fetch import fetch
from posenc.datasets.section import SampleSource
from posenc.report.machines import described, machine
from tests.benchmarks import pages
from tests.copies import ROOT, copy_project, whole_params
from tests.workflow.conftest import Project

RECORD = ROOT / "docs/real-study.json"
MODELS = ("bert", "gpt2")
TOKENS = 48
"""Longest document."""
SHORT: dict[str, Any] = {
    "steps": 2, "validate_steps": 2, "checkpoint_steps": 2, "warmup_steps": 1, "patience": None,
    "batch": 2, "batch_documents": 2, "bootstrap_samples": 100, "seeds": [0, 1],
    "training_documents": 8, "validation_documents": 4, "test_documents": 8,
    "pretraining_documents": 16, "training_stories": 10, "validation_stories": 10,
    "test_stories": 10, "linear_steps": 2, "vocabulary_size": 600, "context_bytes": 64,
    "slopes": [0.0, 0.1], "repeats": 10,
}  # fmt: skip
"""By key, wherever it stands in the sections of masks, measurements and experiments."""


def a_hub(folder: Path) -> None:
    """Caches of the model hub and of its data sets, and a folder with the archive of reviews."""
    import torch
    from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2Model

    sources = _params(ROOT)["models"]
    torch.manual_seed(0)
    for name, model in (
        ("bert", BertForPreTraining(BertConfig())),
        ("gpt2", GPT2Model(GPT2Config())),
    ):
        source = sources[name]["source"]
        owner, _, short = source["id"].partition("/")
        repository = folder / f"hub/models--{owner}--{short}"
        snapshot = repository / "snapshots" / source["revision"]
        model.save_pretrained(snapshot)
        _tokenizer(name, model.config.vocab_size).save(str(snapshot / "tokenizer.json"))
    _questions(folder / "datasets")
    served = folder / "served"
    served.mkdir()
    documents = {"train": 60, "test": 24, "unsup": 12}
    reviews = SampleSource(kind="sample", seed=0, documents=documents)
    fetch(reviews, "imdb", served / "aclImdb_v1.tar.gz")


def _tokenizer(name: str, size: int):
    """A tokenizer with as many entries as the model's, most of them never used."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from tokenizers.processors import TemplateProcessing

    if name == "gpt2":
        entries = sorted(pre_tokenizers.ByteLevel.alphabet())
        entries += [f"unused{number}" for number in range(size - len(entries) - 1)]
        tokenizer = Tokenizer(models.BPE(_numbered([*entries, "<|endoftext|>"]), []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens(["<|endoftext|>"])
        return tokenizer
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-"
    entries = ["[PAD]", *(f"[unused{number}]" for number in range(99)), "[UNK]", "[CLS]", "[SEP]"]
    entries += ["[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    entries += [f"[unused{number}]" for number in range(99, 99 + size - len(entries))]
    tokenizer = Tokenizer(models.WordPiece(_numbered(entries), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(token, entries.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    return tokenizer


def _numbered(entries: list[str]) -> dict[str, int]:
    return {entry: number for number, entry in enumerate(entries)}


def _questions(cache: Path) -> None:
    """The data set that the study names, as the library caches it."""
    import datasets

    source = _params(ROOT)["datasets"]["truthfulqa"]["source"]
    rows = [
        {
            "type": "Plain", "category": "Order", "question": f"Does {day} come before {next_day}?",
            "best_answer": "Yes", "correct_answers": ["Yes", "It does"],
            "incorrect_answers": ["No", "It comes after"], "source": "made up",
        }
        for day, next_day in itertools.pairwise(DAYS)
    ]  # fmt: skip
    dataset = datasets.Dataset.from_list(rows, split=datasets.Split.VALIDATION)
    owner, _, short = source["id"].partition("/")
    folder = cache / f"{owner}___{short}/{source['configuration']}/0.0.0/made"
    folder.mkdir(parents=True)
    writer = datasets.arrow_writer.ArrowWriter(
        path=str(folder / f"{short}-validation.arrow"), features=dataset.features
    )
    for row in rows:
        writer.write(row)
    count, size = writer.finalize()
    split = datasets.SplitInfo("validation", num_bytes=size, num_examples=count, dataset_name=short)
    datasets.DatasetInfo(
        features=dataset.features, builder_name="parquet", dataset_name=short,
        config_name=source["configuration"], version="0.0.0",
        splits=datasets.SplitDict({"validation": split}, dataset_name=short),
    ).write_to_directory(str(folder))  # fmt: skip


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Easter",
        "summer", "autumn", "winter", "January", "February")  # fmt: skip


def _params(root: Path) -> dict[str, Any]:
    return whole_params(root / "params.yaml")


def shorten(value: Any) -> None:
    """Give keys of ``SHORT`` their values, at any depth."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in SHORT:
            value[key] = SHORT[key]
        elif isinstance(inner, dict):
            shorten(inner)


def a_project(folder: Path, hub: Path, address: str) -> Project:
    """The project with the study `real`, shortened, and the hub in its environment."""
    copy_project(folder)
    project, raw = Project(folder), _params(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    for section in ("masks", "measurements", "experiments"):
        shorten(raw[section])
    imdb = raw["datasets"]["imdb"]
    imdb["source"] |= {
        "url": f"{address}/aclImdb_v1.tar.gz",
        "sha256": sha256_file(hub / "served/aclImdb_v1.tar.gz"),
    }
    imdb["evaluation"]["documents"], imdb["calibration"]["documents"] = 8, 4
    for name in MODELS:
        raw["models"][name]["max_tokens"] = TOKENS
    for name, section in SECTIONS.items():
        raw["measurements"].setdefault(name, {}).update(section)
    raw["experiments"]["downstream"]["imdb"] |= {"max_tokens": 12, "trained_layers": 1}
    pretraining = raw["experiments"]["pretraining"]["imdb"]
    pretraining |= {"tokens": 12, "n_layers": 1}
    pretraining["zero_shot"]["prompt"] = "very"
    tokenizers = raw["experiments"]["tokenizers"]["imdb"]
    tokenizers |= {"n_layers": 1, "tried_steps": 1}
    tokenizers["optimization"] |= {"validate_steps": 1}
    for name, values in (("slope", [0.1, 0.5]), ("floor", [0.1, 0.5]), ("length", [16, 32])):
        raw["sweeps"][name]["values"] = values
    real = raw["studies"]["real"]
    real["extrapolation"] |= {"tokens": 64, "documents": 4, "bucket": 16}
    raw["study"] = "real"
    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    # The file of a study is plain YAML, which is read without anchors.
    yaml.representer.ignore_aliases = lambda _: True
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(raw, file)
    for study in (folder / "studies").iterdir():
        study.unlink()  # params.yaml has all that it says
    project.environment |= {
        "HF_HOME": str(hub), "HF_HUB_CACHE": str(hub / "hub"), "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(hub / "datasets"), "no_proxy": "127.0.0.1",
    }  # fmt: skip
    for command in (["git", "init", "-q"], ["git", "add", "-A"], ["dvc", "init", "-q", "-f"]):
        subprocess.run(command, cwd=folder, env=project.environment, check=True)
    return project


SECTIONS: dict[str, dict[str, Any]] = {
    "similarity": {"baseline_pairs": 500},
    "norms": {"tokens": 200},
    "readback": {"tokens": 10, "noise": [0.0, 0.5, 1.0]},
    "probes": {"tokens": 200, "pairs": 200, "epochs": 2},
    "causal_probes": {"documents": 8, "tokens": 200, "windows": [4]},
    "random_causal": {"n_layers": 2, "d_model": 16, "tokens": 32, "sequences": 2, "models": 2},
    "spectra": {"window": 16, "bands": [0.1, 0.3]},
    "filtered_loss": {"documents": 3, "tokens": 16},
    "position_interventions": {"documents": 4, "tokens": 16},
    "components": {"tokens": 200, "components": 4},
    "layer_norm": {"tokens": 200},
    "heads": {"types": 3},
    "induction": {"sequences": 4, "tokens": 8, "heads": 2},
    "swaps": {"every": 1, "tokens": 12},
    "joint_order": {"documents": 2, "tokens": 4, "candidates": 3},
    "choices": {"questions": 4},
    "token_classes": {"every": 1, "tokens": 24},
    "score_parts": {"documents": 3, "tokens": 24},
    "exchanged_roles": {"sentences": 4},
    "effective_keys": {"documents": 3, "tokens": 24, "keys": [1]},
    "savings": {"documents": 3, "tokens": 12, "offsets": [1, 8]},
    "unrotated_heads": {"documents": 4, "tokens": 12, "counts": [2]},
    "embedding_sums": {"dimensions": [4], "pairs": 20},
    "scaling": {"dimensions": [4], "queries": 100},
    "hard_attention": {"queries": 10, "heads": 2},
}
"""What is made smaller beside the keys of ``SHORT``."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder over HTTP."""
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def measured(folder: Path) -> tuple[Project, dict[str, Any]]:
    """Run the study in a folder; the project, and what it took."""
    hub = folder / "hub"
    a_hub(hub)
    with served(hub / "served") as address:
        project = a_project(folder / "project", hub, address)
        jobs = sum(project.planned().values())
        start = time.monotonic()
        project.snakemake()
        seconds = time.monotonic() - start
    data = project.folder / "data"
    record = {
        "made_on": machine(),
        "jobs": jobs,
        "seconds": round(seconds),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "megabytes": {
            "hub's cache": size_of(hub),
            "data": size_of(data),
            "of it data/models": size_of(data / "models"),
        },
    }
    return project, record


def size_of(folder: Path) -> int:
    """Megabytes of its files, each once."""
    files = {(path.stat().st_ino, path.stat().st_size) for path in folder.rglob("*")
             if path.is_file() and not path.is_symlink()}  # fmt: skip
    return sum(size for _, size in files) // 1_000_000


def lines(record: dict[str, Any]) -> str:
    """A record as the page shows it."""
    sizes = ", ".join(f"{name} {size:,} MB" for name, size in record["megabytes"].items())
    return (
        f"{record['jobs']} jobs in {record['seconds'] / 60:.0f} min; the largest process took "
        f"{record['peak_megabytes']:,} MB of memory; on disk: {sizes}. "
        f"{described(record['made_on'])}\n"
    )


def main() -> None:
    """Run it, and write the record and the page."""
    folder = Path(tempfile.mkdtemp())
    try:
        _, record = measured(folder)
    finally:
        shutil.rmtree(folder)
    pages.keep(record, RECORD, real=lines(record))
    print(lines(record), end="")


if __name__ == "__main__":
    main()
