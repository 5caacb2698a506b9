"""Every file of a study is read again: bit rot changes no date."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from posenc.artifacts import receipts
from posenc.artifacts.contents import Contents
from posenc.artifacts.files import mark_for_remaking, sha256_of_json_file
from posenc.artifacts.receipts import FOLDER, Receipt
from posenc.study import plan
from posenc.study.configs import sections
from posenc.study.params import Params


def verify_files(params: Params) -> tuple[list[str], int, int]:
    """Compare every file that the active study's jobs made, or read, with their receipts.

    Damaged files are marked, so that the next run of either front end makes them again.

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
    by_path = of_study(params)
    outputs = {
        name: sha for stored in by_path.values() if stored for name, sha in stored.outputs.items()
    }
    read = {name for stored in by_path.values() if stored for name in stored.inputs}
    there = sorted(name for name in {*outputs, *read} if Path(name).is_file())
    with ThreadPoolExecutor() as pool:  # hashing releases the interpreter
        digests = tqdm(
            pool.map(contents.read, there), "verify", len(there), unit="file", leave=False
        )
        now = dict(zip(there, digests, strict=True))
    now |= planned_digests(params)
    wrong = []
    for path in (path for path, stored in by_path.items() if stored is None):
        wrong.append(f"damaged: {path}: it is no receipt")
        mark_for_remaking(path)  # DVC hashes a file again when it has another date
    for name, sha in outputs.items():
        if now.get(name) == sha:
            continue
        wrong.append(f"{'damaged' if name in now else 'gone'}: {name}")
        mark_for_remaking(name)
    for path, receipt in by_path.items():
        if receipt is None:
            continue
        # Damaged outputs of other jobs are named above.
        changed = [n for n, sha in receipt.inputs.items() if n not in outputs and now.get(n) != sha]
        if changed:
            wrong.append(f"not current: {path}: {changed[0]} changed since")
    return wrong, len(there), sum(Path(name).stat().st_size for name in there)


def planned_digests(params: Params) -> dict[str, str]:
    """SHA-256 by path of what jobs would read of params.yaml and the code, even if not written."""
    return {str(path): sha256_of_json_file(value) for path, value in sections(params)}


def of_study(params: Params) -> dict[Path, Receipt | None]:
    """The receipts of a study's jobs, and of what it shares with others; None for damaged ones."""
    places = (Path("data") / FOLDER, plan.folder(params) / FOLDER)
    return {path: receipts.read(path) for place in places for path in sorted(place.rglob("*.json"))}
