"""The rooms of the package, and what may know of what."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys

import grimp
import pytest

from posenc.artifacts.results import Result

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
    assert not upwards, [(dependency.importer, dependency.imported) for dependency in upwards]


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
        # Names for Python code: one more reruns nothing.
        ("posenc.api", {"api", "cli"}),
    ],
)
def test_who_knows_all_measurements_or_figures(graph, module, rooms):
    """Not measurements or figures: one more would remake all others."""
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


FAMILIES = {"bert", "roberta", "gpt2", "llama", "mistral", "qwen2", "gemma", "opt", "distilbert"}
MODULES = {
    "wpe", "wte", "lm_head", "c_attn", "c_proj", "q_proj", "k_proj", "v_proj", "o_proj",
    "self_attn", "embed_tokens", "word_embeddings", "rotary_emb", "base_model", "inv_freq",
}  # fmt: skip
FIELDS = {
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim",
    "max_position_embeddings", "n_layer", "n_head", "n_embd", "n_positions", "vocab_size",
    "pad_token_id", "bos_token_id", "sliding_window", "layer_types", "rope_parameters",
}  # fmt: skip
KNOWS_A_FAMILY = {
    "models/gguf.py": "the names of a file format, llama.cpp's",
    "models/gguf_library.py": "the names of a file format, llama.cpp's",
    "models/schemes.py": "changes decoders that were trained here",
    "experiments/pretraining/network.py": "a network of the experiment's own making",
    "experiments/downstream/network.py": "a network of the experiment's own making",
    "measurements/random_causal/measure.py": "a random network of its own making",
    "report/tables/semantics.py": "names of cases in the record of the library's versions",
}


def test_one_room_knows_families_of_models():
    """No family's name, module or configuration field elsewhere: models are asked what they are."""
    package, lines_of = PROJECT / "workflow/posenc", {}
    for path in sorted(package.rglob("*.py")):
        place = str(path.relative_to(package))
        if place.startswith("architectures/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_name = isinstance(node, ast.Constant) and node.value in FAMILIES | MODULES
            is_part = isinstance(node, ast.Attribute) and node.attr in MODULES
            of = node.value if isinstance(node, ast.Attribute) else None
            is_config = getattr(of, "attr", getattr(of, "id", None)) == "config"
            is_field = isinstance(node, ast.Attribute) and is_config and node.attr in FIELDS
            if is_name or is_part or is_field:
                lines_of.setdefault(place, []).append(node.lineno)
    assert {place: lines for place, lines in lines_of.items() if place not in KNOWS_A_FAMILY} == {}
    assert set(lines_of) == set(KNOWS_A_FAMILY), "a reason that is no longer needed"


PACKAGE = PROJECT / "workflow/posenc"


@pytest.mark.parametrize(
    ("kind", "file"), [("measurements", "measure.py"), ("experiments", "summary.py")]
)
def test_each_result_has_a_type(kind, file):
    """What a folder's files hold is a frozen model, which says what each field is."""
    folders = sorted(path.parent for path in (PACKAGE / kind).glob(f"*/{file}"))
    assert folders
    for folder in folders:
        types = importlib.import_module(f"posenc.{kind}.{folder.name}.result")
        results = [
            value
            for value in vars(types).values()
            if isinstance(value, type)
            and issubclass(value, Result)
            and value.__module__ == types.__name__
        ]
        assert results and all(value.__doc__ for value in results), folder.name
        assert all(value.model_config["frozen"] for value in results)


FIGURES = [
    path for path in [*PACKAGE.glob("*/*/figure.py"), *PACKAGE.glob("figures/*.py")]
    if "def draw(" in path.read_text()
]  # fmt: skip
UNTYPED = {
    "mask_semantics": "it shows no measurement",
    "training_loss": "trainings have a reader of their own",
}
"""Figures that take no typed runs, and why."""


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_figures_read_results_by_their_types(path):
    """What files hold is given to what makes typed runs of it, and nothing else is done with it."""
    tree = ast.parse(path.read_text())
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    given = [
        argument
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func).rpartition(".")[2] in ("of_kind", "decoders")
        for argument in call.args
    ]
    others = [node.lineno for node in read if node.id == "measurements" and node not in given]
    assert path.stem in UNTYPED or not others, others


OPEN = {
    "artifacts/files.py": ["JsonObject: TypeAlias", "def read_sealed"],
    "artifacts/results.py": ["Spec: TypeAlias", "def as_json"],
    "conditions/section.py": ["def dumped"],
}
"""Where a dictionary may hold anything: two names for what is open, and what is written as JSON."""


def test_dictionaries_say_what_they_hold():
    for path in sorted(PACKAGE.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        places = [line.strip() for line in lines if "dict[str, Any]" in line]
        allowed = OPEN.get(path.relative_to(PACKAGE).as_posix(), [])
        assert len(places) == len(allowed), (path.name, places)
        assert all(place.startswith(start) for place, start in zip(places, allowed, strict=True))


def test_no_module_is_longer_than_it_may_be():
    """CONTRIBUTING.md, house style."""
    (said,) = re.findall(
        r"modules of at most (\d+) lines", (PROJECT / "CONTRIBUTING.md").read_text()
    )
    lengths = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}
    assert lengths and {path: n for path, n in lengths.items() if n > int(said)} == {}
