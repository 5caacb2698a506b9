"""The page of promises names tests that are there, under the command that runs them."""

import ast
import re

import pytest

from tests.unit.synthetic import PROJECT

ROWS = re.findall(
    r"(?m)^\| .+ \| `(tests/[\w/]+\.py)::(\w+)` \| `(make [\w-]+)`.* \|$",
    (PROJECT / "docs/guarantees.md").read_text(),
)


def is_slow(path: str, name: str) -> bool:
    """Whether a test, or all of its file, is marked so."""
    tree = ast.parse((PROJECT / path).read_text())
    (function,) = (statement for statement in tree.body if getattr(statement, "name", None) == name)
    marks = [ast.unparse(decorator) for decorator in function.decorator_list]
    marks += [
        ast.unparse(statement)
        for statement in tree.body
        if ast.unparse(statement).startswith("pytestmark")
    ]
    return any("pytest.mark.slow" in mark for mark in marks)


def test_all_rows_are_read():
    page = (PROJECT / "docs/guarantees.md").read_text()
    assert len(ROWS) == page.count("\n| ") - 2 >= 20


@pytest.mark.parametrize(("path", "name", "command"), ROWS, ids=lambda part: part.split("/")[-1])
def test_the_command_of_a_promise_runs_its_test(path, name, command):
    assert (command == "make test-all") == is_slow(path, name)
