"""Every file of a study is read again: bit rot changes no date."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from posenc.artifacts import receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.files import sha256_of_json_file
from posenc.artifacts.receipts import FOLDER, Receipt
from posenc.study import plan
from posenc.study.configs import sections
from posenc.study.params import Params


def verify_files(params: Params) -> tuple[list[str], int, int]:
    """Compare every file that the active study's jobs made, or read, with their receipts.

    What is found damaged is remembered, so that the next run makes it again.

    Parameters
    ----------
    params
        The parameters.

    Returns
    -------
    tuple
        A line for each file that is wrong, how many files were read, and their bytes.
    """
    contents = Contents()
    found = of_study(params)
    made = {name: sha for one in found.values() if one for name, sha in one.outputs.items()}
    read = {name for one in found.values() if one for name in one.inputs}
    there = sorted(name for name in {*made, *read} if Path(name).is_file())
    with ThreadPoolExecutor() as pool:  # hashing leaves the interpreter free
        digests = tqdm(
            pool.map(contents.read, there), "verify", len(there), unit="file", leave=False
        )
        now = dict(zip(there, digests, strict=True))
    now |= planned_digests(params)
    wrong = [f"damaged: {path}: it is no receipt" for path, one in found.items() if one is None]
    wrong += [
        f"{'damaged' if name in now else 'gone'}: {name}"
        for name, sha in made.items()
        if now.get(name) != sha
    ]
    for path, receipt in found.items():
        if receipt is None:
            continue
        # What another job made, and is damaged, is named above.
        changed = [n for n, sha in receipt.inputs.items() if n not in made and now.get(n) != sha]
        if changed:
            wrong.append(f"not current: {path}: {changed[0]} changed since")
    return wrong, len(there), sum(Path(name).stat().st_size for name in there)


def planned_digests(params: Params) -> dict[str, str]:
    """SHA-256 by path of what jobs would read of params.yaml and the code, written yet or not."""
    return {str(path): sha256_of_json_file(value) for path, value in sections(params)}


def of_study(params: Params) -> dict[Path, Receipt | None]:
    """The receipts of a study's jobs, and of what it shares with others; None for damaged ones."""
    places = (Path("data") / FOLDER, plan.folder(params) / FOLDER)
    return {path: receipts.read(path) for place in places for path in sorted(place.rglob("*.json"))}
