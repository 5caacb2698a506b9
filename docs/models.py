"""Write docs/models.md: every text model type of the installed library, verified on a tiny model.

python docs/models.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import transformers

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.parity.any_models import TYPES, NoTinyModel, tiny  # noqa: E402

from posenc.architectures.needs import ArchitectureError, Need  # noqa: E402
from posenc.architectures.verify import Verification  # noqa: E402
from posenc.capture.verified import verified  # noqa: E402

PAGE = ROOT / "docs/models.md"
COLUMNS = (Need.REMOVABLE, Need.PATTERNS, Need.LOSS, Need.PACKED, Need.MAPS, Need.NORM_PATH)
HEAD = """# Which models can be studied?

Any text model of Hugging Face transformers that can be verified: {run} of the {built} types of
which a tiny model is made here, with transformers {version}. Of {proved} of them it is proved that
positions can be taken away, and that patterns are the library's. Nothing is listed by hand: a model
is looked at in a forward pass, and compared with the library's own run of it, when it is loaded and
when it is fetched. For a model of your own:

```sh
posenc models FOLDER_OR_HUB_ID
posenc new NAME --model FOLDER_OR_HUB_ID --text FILE
posenc survey HUB_ID... --text FILE --calibration FILE   # many: studies.md
```

Columns: where position enters; whether it is proved that positions can be taken away; whether
attention patterns, losses, and documents packed into one row (the fast path) are the library's;
whether the weights of each head are known, and the normalisations before them. A measurement that
needs what a model lacks is not run, and says why. A measurement of weights reads the position table
and the projections that were found, and runs only where the column *maps* says yes.

| type | mapping | position | removable | patterns | losses | packed | maps | norms |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
REFUSED = """
## Refused

| type | mapping | why |
| --- | --- | --- |
"""
WRITTEN_DOWN = """
## What cannot be discovered

Names are written down in `workflow/posenc/architectures/table.py`: of tables of positions, of maps
of queries, keys and values, and the types whose positions begin after the row of their padding. A
type whose modules have other names takes one name there, and no
more: `tests/parity/test_any_model.py` has a line for each type of the library by itself.

Made by `python docs/models.py`.
"""


def row_of(task: str, kind: str) -> tuple[bool, str] | None:
    """Whether a type is run, and its row; None where no tiny model of it is made."""
    try:
        found: Verification | None = verified(tiny(task, kind))
    except NoTinyModel:
        return None
    except ArchitectureError as error:
        reason = str(error).removeprefix(f"{kind}: ").replace("|", "/")
        return False, f"| {kind} | {task} | {reason} |"
    assert found is not None
    can = found.architecture.can
    marks = " | ".join("yes" if can.get(need, "") is None else "–" for need in COLUMNS)
    return True, f"| {kind} | {task} | {found.architecture.position.kind} | {marks} |"


def types(rows: list[str]) -> int:
    """How many types some rows are of: a type can have a row for each mapping."""
    return len({row.split(" | ")[0] for row in rows})


def page() -> str:
    """The page."""
    rows = [row for row in (row_of(*one) for one in TYPES) if row is not None]
    run = [line for is_run, line in rows if is_run]
    proved = [line for line in run if line.split(" | ")[3:5] == ["yes", "yes"]]
    head = HEAD.format(
        run=types(run), built=types([line for _, line in rows]), proved=types(proved),
        version=transformers.__version__,
    )  # fmt: skip
    refused = [line for is_run, line in rows if not is_run]
    return head + "\n".join(run) + "\n" + REFUSED + "\n".join(refused) + "\n" + WRITTEN_DOWN


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
