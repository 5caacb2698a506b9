"""The code of a step: all files that it is made of, and the versions of what it computes with."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
from pathlib import Path

import pytest

from posenc.artifacts import imports
from posenc.artifacts.files import read_sealed, sha256_file, write_sealed

from .synthetic import PROJECT

TEMPLATES = "workflow/posenc/report/templates"


@pytest.mark.parametrize("module", ["posenc.steps.page", "posenc.steps.capture"])
def test_packages_count_as_their_modules_do(module):
    """Python runs the `__init__.py` of each before a module of it."""
    files = imports.files(module)
    for file in (file for file in files if file.endswith(".py")):
        for folder in Path(file).parents:
            if folder.is_relative_to("workflow/posenc") and (PROJECT / folder).is_dir():
                assert f"{folder}/__init__.py" in files, file
    assert "workflow/job.py" in files


def test_what_an_import_reaches_is_there_at_any_depth():
    files = set(imports.files("posenc.steps.page"))
    todo, seen = ["workflow/posenc/steps/page.py"], set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        text = (PROJECT / path).read_text(encoding="utf-8")
        for name in re.findall(r"(?m)^from (posenc(?:\.\w+)+) import", text):
            target = "workflow/" + name.replace(".", "/")
            here = f"{target}/__init__.py" if (PROJECT / target).is_dir() else f"{target}.py"
            todo.append(here)
    assert seen <= files and len(seen) > 10


def test_types_of_results_are_code_of_what_reads_their_files():
    """They are imported when a file is read, so no import at the head of a module names them."""
    types = {
        path.relative_to(imports.ROOT).as_posix()
        for kind in ("measurements", "experiments")
        for path in (imports.PACKAGE / kind).glob("*/result.py")
        if (path.parent / "quantities.py").exists()
    }
    assert len(types) > 35 and types <= set(imports.files("posenc.steps.page"))
    assert types.isdisjoint(imports.files("posenc.figures.mask_semantics"))
    words = "workflow/posenc/measurements/similarity/quantities.py"
    assert words not in imports.files("posenc.measurements.similarity.measure")


def test_a_file_beside_the_modules_counts_where_it_is_named():
    of_page = {file for file in imports.files("posenc.steps.page") if not file.endswith(".py")}
    assert f"{TEMPLATES}/page.html.jinja" in of_page and f"{TEMPLATES}/page.ja.json" in of_page
    of_documents = imports.files("posenc.steps.typeset")
    for path in sorted((PROJECT / TEMPLATES).glob("*.tex.jinja")):
        assert os.path.relpath(path, PROJECT) in of_documents


@pytest.mark.parametrize("step", ["fetch", "train", "capture", "tokenize", "latex"])
def test_a_template_that_a_step_does_not_read_is_none_of_its_code(step):
    """An edit of the page costs no training."""
    assert not [file for file in imports.files(f"posenc.steps.{step}") if TEMPLATES in file]


def test_what_is_described_is_what_is_there():
    described = imports.described("posenc.steps.tokenize")
    assert list(described) == ["files", "versions"]
    assert list(described["files"]) == sorted(described["files"])
    for path, digest in described["files"].items():
        assert digest == sha256_file(PROJECT / path)
    versions = described["versions"]
    assert versions["tokenizers"] == importlib.metadata.version("tokenizers")
    assert not versions.keys() & imports.TOOLS
    assert not versions.keys() & sys.stdlib_module_names


def test_a_package_is_called_as_it_is_installed():
    packages = imports.packages("posenc.experiments.superposition.trials")
    assert "scikit-learn" in packages and "sklearn" not in packages
    packages = imports.packages("posenc.measurements.mixed_images.measure")
    assert "pillow" in packages and "PIL" not in packages


def test_the_name_of_a_build_is_no_version():
    versions = imports.installed(["torch", "no-such-package"])
    assert versions["torch"] == importlib.metadata.version("torch").split("+")[0]
    assert versions["no-such-package"] == "not installed"
    assert imports.metadata("no-such-package") is None


def test_in_a_job_the_code_is_what_was_planned(monkeypatch):
    """Files may have been edited since, and the result names what computed it."""
    planned = {"files": {"workflow/posenc/steps/tokenize.py": "0" * 64}, "versions": {}}
    monkeypatch.setitem(imports.PLANNED, "posenc.steps.tokenize", planned)
    assert imports.described("posenc.steps.tokenize") == planned


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"there is no module posenc\.steps\.absent"):
        imports.files("posenc.steps.absent")


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """The file of the lists, elsewhere, and a way to forget what was found."""

    def forget() -> None:
        for function in (imports._kept, imports._steps, imports._package_digest, imports._sha256):
            function.cache_clear()

    monkeypatch.setattr(imports, "LISTS", tmp_path / "code" / "imports.json")
    forget()
    yield imports.LISTS, forget
    forget()


def test_lists_that_were_kept_are_those_that_are_found(lists, monkeypatch):
    path, forget = lists
    found = imports._steps()
    imports.keep()
    forget()
    monkeypatch.setattr(imports, "_graph", None)  # what is kept is not looked for
    assert imports._steps() == found and len(found) > 90
    # They are written once.
    written = path.stat().st_mtime_ns
    imports.keep()
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize("name", ["metrics/__init__.py", "report/templates/page.js"])
def test_lists_of_another_package_are_found_again(lists, monkeypatch, name):
    path, forget = lists
    imports.keep()
    kept = read_sealed(path)
    write_sealed(path, {**kept, "steps": {}})  # what would be believed
    forget()
    assert imports._steps() == {}
    edited, whole = str(imports.PACKAGE / name), imports.sha256_file
    monkeypatch.setattr(
        imports, "sha256_file", lambda file: "edited" if str(file) == edited else whole(file)
    )
    forget()
    assert len(imports._steps()) > 90
    imports.keep()
    assert len(read_sealed(path)["steps"]) > 90


def test_lists_that_are_damaged_are_found_again(lists, capsys):
    path, forget = lists
    imports.keep()
    path.write_bytes(path.read_bytes().replace(b'"posenc.steps.page"', b'"posenc.steps.gape"'))
    forget()
    assert "posenc.steps.page" in imports._steps()
    assert "it is made again" in capsys.readouterr().err


def test_lists_are_not_kept_of_a_package_that_is_edited_meanwhile(lists, monkeypatch):
    path, _ = lists
    imports._steps()
    monkeypatch.setattr(imports, "sha256_file", lambda file: "edited")
    imports.keep()
    assert not path.exists()
