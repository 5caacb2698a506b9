"""Write what the cells of docs/tutorial.md print and draw into both of its languages.

``python docs/tutorial.py`` runs the cells with Python (a minute). Shell cells are run by
tests/workflow/test_tutorial.py, which also compares what is written with what the cells print.
"""

import contextlib
import io
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs/tutorial.md", ROOT / "docs/tutorial.ja.md")
PICTURES = ("mask", "losses")
"""Each is ``tutorial/NAME.svg`` of the reader, and ``docs/images/tutorial_NAME.svg`` here."""
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Cell:
    """What a reader runs or writes (``sh``, ``python``, ``yaml``), and what is then printed."""

    kind: str
    code: str
    printed: str = ""


def cells(page: str) -> list[Cell]:
    """The cells of a page, in order: a block of ``text`` is what the cell before it prints."""
    found: list[Cell] = []
    for block in BLOCK.finditer(page):
        if block["kind"] == "text":
            found[-1].printed = block["text"]
        else:
            found.append(Cell(block["kind"], block["text"]))
    return found


def run_python(page: str, folder: Path) -> list[str]:
    """Run the Python cells in one namespace, in ``folder/project``; return what each prints."""
    project = folder / "project"
    for path in (project, folder / "tutorial"):
        path.mkdir(parents=True, exist_ok=True)
    printed, names = [], {"__name__": "__main__"}
    # A picture of the same numbers has the same bytes.
    style = {"backend": "agg", "svg.hashsalt": "posenc"}
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    try:
        with contextlib.chdir(project), matplotlib.rc_context(style):
            for cell in cells(page):
                if cell.kind == "python":
                    with contextlib.redirect_stdout(io.StringIO()) as said:
                        exec(compile(cell.code, "tutorial.md", "exec"), names)
                    printed.append(said.getvalue())
    finally:
        os.environ.pop("SOURCE_DATE_EPOCH")
        if before is not None:
            os.environ["SOURCE_DATE_EPOCH"] = before
    return printed


def filled(page: str, printed: list[str]) -> str:
    """A page with what its Python cells print in the blocks of ``text``."""
    left, last = iter(printed), ""

    def block(match: re.Match[str]) -> str:
        nonlocal last
        if match["kind"] == "python":
            last = next(left)
        return f"```text\n{last}```" if match["kind"] == "text" else match[0]

    return BLOCK.sub(block, page)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        printed = run_python(PAGES[0].read_text(encoding="utf-8"), Path(folder))
        for name in PICTURES:
            drawn = Path(folder, "tutorial", f"{name}.svg").read_bytes()
            (ROOT / f"docs/images/tutorial_{name}.svg").write_bytes(drawn)
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8"), printed), encoding="utf-8")


if __name__ == "__main__":
    main()
