"""What a float attention mask means in each version of ``transformers``, against our semantics.

``python -m tests.versions.compare`` makes small random models, runs them in old versions of the
library (``reference.py``) and here, and writes which of our semantics each version agrees with:
``docs/mask-versions.json`` and, from it, ``docs/mask-semantics-versions.md``.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from packaging.version import Version
from tqdm import tqdm

from .environments import INSTALLED, Environment, NotInstallable, prepared, running

VERSIONS = (
    *("4.0.1", "4.5.1", "4.20.1", "4.21.0", "4.30.2", "4.40.2", "4.41.0", "4.41.2", "4.42.0"),
    *("4.47.1", "4.48.0", "4.51.3", "4.52.1", "4.53.0", "4.57.6", "5.0.0", INSTALLED),
)
"""Both sides of every change, and some in between."""
SEMANTICS = ("hf_le420", "hf_finfo", "hf_sdpa_cpu", "hf_sdpa_cuda", "hf_bool")
MODELS = {
    "gpt2": {
        **{"n_layer": 3, "n_head": 4, "n_embd": 48, "vocab_size": 97, "n_positions": 1024},
        **{"bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.2},
    },
    "bert": {
        **{"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 48},
        **{"intermediate_size": 96, "vocab_size": 97, "max_position_embeddings": 1024},
        "initializer_range": 0.2,
    },
}
LENGTHS = (2, 7, 33, 1024)
"""Tokens of the documents; only in long ones do slopes of thousands per document differ."""
MASKS = {
    "linear 0.1": {"kind": "linear", "floor": 0.1},
    "linear 0.0": {"kind": "linear", "floor": 0.0},
    "constant 0.5": {"kind": "constant", "value": 0.5},
}
"""Profiles of 2-D masks; the first is the source's."""
FOUR_D = MASKS["linear 0.1"]
"""Its logarithm is the 4-D mask."""
POSITIONS = ("intact", "zero")
TOLERANCE = 1e-5
TOLERANCES = {"hf_le420": 1e-4}
"""Near 10^4 float32 has steps of 10^-3: what scores are rounded to depends on the kernel."""
SEED = 0

Outputs = dict[str, np.ndarray]  # quantity/document -> values


def prepare(folder: Path) -> None:
    """Write random models and documents, for ``reference.py`` and for our loader."""
    import torch
    import transformers

    from posenc.models.load import save

    torch.manual_seed(SEED)
    classes = {
        "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel, {}),
        "bert": (transformers.BertConfig, transformers.BertModel, {"add_pooling_layer": False}),
    }
    for name, settings in MODELS.items():
        config_class, model_class, options = classes[name]
        model = model_class(config_class(**settings), **options).eval()
        (folder / name).mkdir()
        save(model, folder / name)
        torch.save(model.state_dict(), folder / f"{name}.pt")
        (folder / f"{name}.json").write_text(json.dumps(settings))
    documents = [torch.randint(MODELS["gpt2"]["vocab_size"], (n,)).tolist() for n in LENGTHS]
    inputs = {"documents": documents, "masks": MASKS, "4-D log": FOUR_D}
    (folder / "inputs.json").write_text(json.dumps(inputs))


def run_reference(environment: Environment, folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Run one version; its record and its arrays.

    Raises
    ------
    NotInstallable
        If the version cannot run here.
    """
    output = folder / f"{environment.version}.npz"
    command = [sys.executable, str(Path(__file__).with_name("reference.py")), folder, output]
    variables = {**os.environ, **environment.variables()}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        raise NotInstallable(done.stderr.strip().splitlines()[-1])
    with np.load(output) as file:
        arrays = {key: file[key] for key in file.files}
    output.unlink()
    record = json.loads(str(arrays.pop("record")))
    return record, arrays


def condition_sections(mask: str) -> dict[str, dict | None]:
    """Our candidates for a case of ``reference.py``: conditions' mask sections."""
    if mask == "none":
        return {"intact": None}
    if mask == "4-D log":
        return {"log_mask": {"semantics": "log_mask", "profile": FOUR_D}}
    return {name: {"semantics": name, "profile": MASKS[mask]} for name in SEMANTICS}


def run_ours(folder: Path, progress: tqdm) -> dict[str, dict[str, Outputs | str]]:
    """Outputs of our own semantics, or why there are none, by case and then by candidate."""
    import torch

    from posenc.capture.capture import forward
    from posenc.capture.interventions import applied
    from posenc.capture.parts import ConditionError
    from posenc.conditions.section import Condition
    from posenc.models.load import load

    documents = json.loads((folder / "inputs.json").read_text())["documents"]
    ours: dict[str, dict[str, Outputs | str]] = {}
    masks = ["none", *MASKS, "4-D log"]
    for name, position, mask in itertools.product(MODELS, POSITIONS, masks):
        model = load(folder / name, name)
        results = ours.setdefault(f"{name}/{position}/{mask}", {})
        for candidate, section in condition_sections(mask).items():
            progress.set_postfix_str(f"ours: {name}, {position}, {candidate}")
            condition = Condition.model_validate({"position": position, "mask": section})
            outputs: Outputs = {}
            try:
                for number, document in enumerate(documents):
                    with applied(model, condition), torch.inference_mode():
                        hidden, _ = forward(model, [document])
                        for layer, values in enumerate(hidden):
                            outputs[f"{number}/{layer}"] = values[0].numpy()  # [n, d]
                        if name == "gpt2":
                            logits = model.lm_head(hidden[-1])[0]  # [n, V]
                            outputs[f"{number}/logits"] = logits.numpy()
            except ConditionError as error:
                results[candidate] = str(error)
                continue
            results[candidate] = outputs
    return ours


def outputs_of(arrays: dict[str, np.ndarray], case: str) -> Outputs:
    """The arrays of one case of a version, laid out as ours."""
    outputs: Outputs = {}
    for number in range(len(LENGTHS)):
        for layer, values in enumerate(arrays[f"{case}/{number}/hidden"]):
            outputs[f"{number}/{layer}"] = values  # [n, d]
        if f"{case}/{number}/logits" in arrays:
            outputs[f"{number}/logits"] = arrays[f"{case}/{number}/logits"][0]  # [n, V]
    return outputs


def difference(values: Outputs, reference: Outputs) -> float:
    """Largest absolute difference of any quantity, relative to the largest value of it."""
    if values.keys() != reference.keys():
        raise ValueError("outputs of other quantities or documents")
    return max(
        float(np.abs(values[key] - reference[key]).max() / np.abs(reference[key]).max())
        for key in reference
    )


def compared(record: dict, arrays: dict, ours: dict) -> list[dict]:
    """Every case of a version against all candidates."""
    rows = []
    cases = sorted({key.rsplit("/", 2)[0] for key in arrays})
    for case in cases:
        model, implementation, position, mask = case.split("/")
        if mask == "alone" or case in record["refused"]:
            continue
        reference = outputs_of(arrays, case)
        base = f"{model}/{implementation}/{position}"
        differences, refused = {}, {}
        for candidate, outputs in ours[f"{model}/{position}/{mask}"].items():
            if isinstance(outputs, str):
                refused[candidate] = outputs
            else:
                differences[candidate] = difference(outputs, reference)
        same = {}
        if mask != "none":
            same["no mask"] = difference(outputs_of(arrays, f"{base}/none"), reference)
            same["each token alone"] = difference(outputs_of(arrays, f"{base}/alone"), reference)
        rows.append(
            {
                **{"model": model, "implementation": implementation},
                **{"position": position, "mask": mask},
                "is_default": implementation == record["default"][model],
                "agrees_with": agreeing(differences),
                "same_as": agreeing(same),
                "is_finite": all(bool(np.isfinite(v).all()) for v in reference.values()),
                "differences": {name: rounded(d) for name, d in differences.items()},
                "differences_within": {name: rounded(d) for name, d in same.items()},
                **({"refused_by_us": refused} if refused else {}),
            }
        )
    return rows


def agreeing(differences: dict[str, float]) -> list[str]:
    """Names whose difference is a number within the tolerance."""
    return sorted(n for n, d in differences.items() if d < TOLERANCES.get(n, TOLERANCE))


def rounded(number: float) -> float | None:
    """Two digits, which repeat on another machine; None for what is no number."""
    return float(f"{number:.1e}") if np.isfinite(number) else None


def written(record: dict) -> str:
    """The record as JSON with one case a line."""
    cases: list[str] = []

    def placeholder(entry: dict) -> dict:
        cases.extend(json.dumps(case) for case in entry.get("cases", []))
        return entry | {"cases": ["<case>"] * len(entry.get("cases", []))}

    outline = record | {"versions": [placeholder(entry) for entry in record["versions"]]}
    text = json.dumps(outline, indent=1) + "\n"
    remaining = iter(cases)
    return re.sub('"<case>"', lambda _: next(remaining), text)


def plain(reason: str) -> str:
    """A message without paths of this machine."""
    return re.sub(r"\s*\(?/[\w./+-]+\)?", "", reason).strip()


def entry(version: str, cache: Path, folder: Path, ours: dict) -> dict:
    """What the record says of one version, or why it cannot run."""
    try:
        environment = prepared(version, cache)
        record, arrays = run_reference(environment, folder)
    except NotInstallable as error:
        name = running().version if version == INSTALLED else version
        return {"version": name, "status": f"not run: {plain(str(error))}"}
    return {
        "version": environment.version,
        "status": "run",
        "packages": {"numpy": record["numpy"], **environment.packages},
        "tokenizers": environment.tokenizers,
        "default": record["default"],
        "refused": {case: plain(reason) for case, reason in sorted(record["refused"].items())},
        "cases": compared(record, arrays, ours),
    }


def main(
    versions: Annotated[
        str, typer.Option(help="Versions with commas between; 'installed' is the running one.")
    ] = ",".join(VERSIONS),
    cache: Annotated[
        Path, typer.Option(help="Folder for the versions; about 0.1 GB each, kept for next time.")
    ] = Path(".cache/versions"),
    output: Annotated[Path, typer.Option(help="The record.")] = Path("docs/mask-versions.json"),
    page_file: Annotated[Path, typer.Option("--page", help="The page made of the record.")] = Path(
        "docs/mask-semantics-versions.md"
    ),
) -> None:
    """Run versions of transformers and say which of our mask semantics each agrees with."""
    import torch

    from .page import page

    torch.set_num_threads(1)
    chosen = versions.split(",")
    with tempfile.TemporaryDirectory() as name, tqdm(total=len(chosen) + 1) as progress:
        folder = Path(name)
        prepare(folder)
        ours = run_ours(folder, progress)
        progress.update()
        entries = []
        for version in chosen:
            progress.set_postfix_str(f"transformers {version}")
            entries.append(entry(version, cache.absolute(), folder, ours))
            progress.update()
    entries.sort(key=lambda item: Version(item["version"]))
    record = {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "torch": torch.__version__.split("+")[0],
        "device": "cpu",
        "compared_with": running().version,
        "tolerance": TOLERANCE,
        "tolerances": TOLERANCES,
        "seed": SEED,
        "lengths": LENGTHS,
        "masks": MASKS,
        "models": MODELS,
        "versions": entries,
    }
    output.write_text(written(record))
    page_file.write_text(page(json.loads(output.read_text())))


if __name__ == "__main__":
    typer.run(main)
