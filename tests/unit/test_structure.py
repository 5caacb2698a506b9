"""The rooms of the package, and what may know of what."""

from __future__ import annotations

import re
import subprocess
import sys

import grimp
import pytest

from .synthetic import PROJECT

ROOMS = [
    room
    for row in re.findall(
        r"(?m)^\| (`[^|]+`) \| [^|]+ \|$",
        (PROJECT / "docs/architecture.md").read_text().partition("| room |")[2].partition("**")[0],
    )
    for room in re.findall(r"`(\w+)/?`", row)
]
"""From top to bottom, as docs/architecture.md has them."""
HEAVY = ("matplotlib", "pyarrow", "scipy", "sklearn", "torch", "transformers")


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("posenc", cache_dir=None)


def test_a_room_imports_from_lower_rooms_alone(graph):
    assert {f"posenc.{room}" for room in ROOMS} == graph.find_children("posenc")
    upwards = graph.find_illegal_dependencies_for_layers(layers=ROOMS, containers={"posenc"})
    assert not upwards, [(found.importer, found.imported) for found in upwards]


def test_mathematics_imports_nothing_else_of_the_package(graph):
    inside = graph.find_descendants("posenc.metrics")
    imported = {
        name for module in inside for name in graph.find_modules_directly_imported_by(module)
    }
    assert imported <= inside


@pytest.mark.parametrize(
    ("module", "rooms"),
    [
        # It finds modules by their place, which no step's list of its code would hold.
        ("posenc.study.declared", {"api", "cli", "frontends", "study"}),
        (
            "posenc.figures.catalogue",
            {"api", "cli", "frontends", "study", "report", "steps"},
        ),
    ],
)
def test_who_knows_all_measurements_or_figures(graph, module, rooms):
    """Not the measurements and figures: one more would make all others again."""
    dependent = graph.find_downstream_modules(module)
    assert {name.split(".")[1] for name in dependent} <= rooms


def test_snakemake_starts_without_what_only_jobs_need():
    """It imports all declarations, each time, and each of these takes up to seconds."""
    program = (
        "import sys; from posenc.study import configs;"
        "from posenc.frontends import leftovers, place, recovery;"
        "from posenc.report import latex; from posenc.models import devices;"
        f"print(*[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_no_module_has_the_name_of_one_of_python_at_the_root(graph):
    """A script in that folder would import it in place of Python's own."""
    names = {module.split(".")[1] for module in graph.find_children("posenc")}
    assert not names & sys.stdlib_module_names
