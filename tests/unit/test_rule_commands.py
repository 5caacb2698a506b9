"""A user's file name is no command: rules quote every path that a shell reads."""

from __future__ import annotations

import io
import re
import shutil
import tokenize
from pathlib import Path

import pytest

from .synthetic import PROJECT

RULES = sorted((PROJECT / "workflow/rules").glob("*.smk"))
FIELD = re.compile(r"(?<!\{)\{\s*((?:input|output|log)\b[^{}]*)\}(?!\})")
"""A placeholder of a path, or of several, in a command or an f-string."""
QUOTED = re.compile(r":q\s*$")


def strings(path: Path) -> list[tuple[int, str]]:
    """The string literals of a file of rules with their lines, comments and docstrings left out."""
    literals, previous = [], None
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        is_docstring = token.string.startswith('"""') and (
            previous is None or previous in (tokenize.INDENT, tokenize.NEWLINE)
        )
        # From Python 3.12 on, an f-string comes in parts: start, text, fields and end.
        if token.type == tokenize.STRING and not is_docstring:
            literals.append((token.start[0], token.string))
        previous = token.type
    if hasattr(tokenize, "FSTRING_START"):
        literals += fstrings(path)
    return literals


def fstrings(path: Path) -> list[tuple[int, str]]:
    """F-strings as they are written."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    literals, begun = [], []
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if token.type == tokenize.FSTRING_START:
            begun.append(token.start)
        elif token.type == tokenize.FSTRING_END:
            (first, column), (last, end) = begun.pop(), token.end
            text = "".join(lines[first - 1 : last])
            literals.append((first, text[column : len(text) - len(lines[last - 1]) + end]))
    return literals


def unquoted(path: Path) -> list[str]:
    """Unquoted placeholders of paths that a shell would read, with their lines."""
    problems = []
    for line, text in strings(path):
        for place in FIELD.finditer(text):
            field = place[1].strip()
            # Attributes of a path, and functions of all of them, as they are called in Python.
            if not QUOTED.search(field) and not re.search(r"!r\s*$", field):
                problems.append(f"{path.name}:{line}: {{{field}}}")
    return problems


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_path_in_a_command_is_quoted(path):
    assert unquoted(path) == []


@pytest.mark.parametrize(
    ("planted", "field"),
    [
        ('        job("posenc.steps.fetch --config {input.config} --output {output.raw:q}")\n',
         "input.config"),
        ('        job("posenc.steps.fetch --output {output}")\n', "output"),
        ('        "cat {input[0]} > {output:q}"\n', "input[0]"),
        ('        f"python x 2> {{log}} {input.raw}"\n', "input.raw"),
        ('        options=lambda wildcards, input: f"--tokens {input.tokens}",\n', "input.tokens"),
        ('        "posenc.steps.fetch {input.more:q}"\n        " {output.raw} {log:q}"\n',
         "output.raw"),
        ('        "posenc.steps.fetch 2>&1 | tee {log}"\n', "log"),
    ],
)  # fmt: skip
def test_one_that_is_not_quoted_is_seen_wherever_it_stands(tmp_path, planted, field):
    path = tmp_path / "data.smk"
    shutil.copy(PROJECT / "workflow/rules/data.smk", path)
    before = unquoted(path)
    text = path.read_text().replace("    shell:\n", f"    params:\n{planted}    shell:\n", 1)
    path.write_text(text)
    (problem,) = set(unquoted(path)) - set(before)
    assert problem.endswith(f"{{{field}}}")


def test_what_is_quoted_or_no_path_is_left_alone(tmp_path):
    path = tmp_path / "data.smk"
    path.write_text(
        'x = "{input.a:q} {output:q} {input[0]:q} {wildcards.model} {params.options} {threads}"\n'
        'y = f"{RUNS}/{{input}}/{inputs} {logs}"\n'
        "# {input.a} in a comment\n"
        'def f():\n    """{input.a} in a docstring"""\n'
    )
    assert unquoted(path) == []


def test_every_job_is_run_by_the_runner():
    """A rule that called its step itself would leave no receipt."""
    for path in RULES:
        text = path.read_text()
        shells = re.findall(r"(?m)^\s+shell:\n(?:\s+#.*\n)*\s+(.*)$", text)
        assert len(shells) == len(re.findall(r"(?m)^\s+shell:", text))
        assert all(line.startswith("job(") for line in shells), path.name
        assert not re.search(r"python -m posenc", text), path.name
