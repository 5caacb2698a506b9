"""What a study consists of: a file for each job, and a folder that holds its runs and no others."""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import json
from pathlib import Path

import pytest

from posenc.artifacts import imports
from posenc.artifacts.command import read_section
from posenc.artifacts.files import sha256_file
from posenc.figures.catalogue import FIGURES, module_of
from posenc.study import config_files, configs, phases, plan
from posenc.study.declared import EXPERIMENTS, KINDS, MEASUREMENTS
from posenc.study.facts import facts
from posenc.study.params import validate
from tests.copies import whole_params

from .synthetic import OF_MODELS, OF_OTHER_STUDIES, PROJECT, params_of

READERS = {
    "**/raw_text/*.fetch.json": "posenc.steps.fetch",
    "**/documents/*.documents.json": "posenc.steps.documents",
    "**/models/*.fetch.json": "posenc.steps.model",
    "**/models/*.corpus.json": "posenc.steps.tokenizer posenc.steps.training_tokens",
    "**/models/*.train.json": "posenc.steps.train",
    "tokens/tokenize/*.json": "posenc.steps.tokenize",
    "tokens/texts/*.json": "posenc.steps.tokenize",
    "activations/*.json": "posenc.steps.capture posenc.steps.store",
    "masks/*.json": "posenc.steps.masks",
    "evaluations/*.json": "posenc.steps.evaluate",
    **{
        f"measurements/{name}/*.json" if declared.of else f"measurements/{name}.json": (
            f"posenc.measurements.{name}.measure"
        )
        for name, declared in MEASUREMENTS.items()
    },
    **{f"trials/{name}/*.json": f"posenc.experiments.{name}.trials" for name in EXPERIMENTS},
    **{f"measurements/{name}.json": f"posenc.experiments.{name}.summary" for name in EXPERIMENTS},
    **{f"figures/{name}.json": module_of(name) for name in FIGURES},
}
"""Which commands read a file as their ``--config``."""
FACTS = {"numbers/study.json", "page/study.json"}
"""What tables and documents say of the study, with the digest of all that it depends on."""
TEXTS = {"numbers/text.json", "paper/text.json", "page/text.json"}
"""The digest of what people write, for DVC: Snakemake's rules read the texts themselves."""
OTHERS = {"figures/style.json", "figures/runs.json"} | FACTS | TEXTS


@pytest.fixture
def raw() -> dict:
    return whole_params()


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """Empty data, of the project whose code it is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(folder: Path) -> dict[str, str]:
    """What files under a folder hold."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def edited(raw: dict, **changes) -> dict:
    """The parameters with another default study."""
    result = copy.deepcopy(raw)
    result["studies"]["default"].update(changes)
    return result


def mentions(name: str, files) -> set[str]:
    """Files of one model, data set or condition."""
    return {file for file in files if name in [part.split(".")[0] for part in Path(file).parts]}


class Read(BaseException):
    """Ends a command once it has read its section."""


def section_that_is_read(module: str, config: Path, monkeypatch):
    """The section of its ``--config`` that a command reads, as it reads it."""
    function, sections = importlib.import_module(module).main, []
    # A command made by another module looks the function up there.
    home = inspect.getmodule(function.__code__)

    def read(path, section):
        value = read_section(path, section)
        if path == config:
            sections.append(value)
            raise Read
        return value

    monkeypatch.setattr(home, "read_section", read)
    given = {
        "config": config, "style": configs.CONFIG / "figures/style.json", "output": [],
        "trials": [], "documents": [], "seed": 0,
    }  # fmt: skip
    required = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
    ]
    with pytest.raises(Read):
        function(**{name: given.get(name, Path("absent")) for name in required})
    return sections[0]


@pytest.mark.parametrize("study", ["default", "local", "real"])
def test_every_file_is_the_section_of_the_command_that_reads_it(study, monkeypatch):
    params = params_of()
    params = params.model_copy(update={"study": params.studies[study]})
    config_files.materialize(params)
    files = {str(path.relative_to(configs.CONFIG)) for path in configs.CONFIG.rglob("*.json")}
    assert files == {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(params)}
    kinds, read = set(), set()
    for pattern, modules in READERS.items():
        for config in configs.CONFIG.glob(pattern):
            read.add(str(config.relative_to(configs.CONFIG)))
            for module in modules.split():
                section = section_that_is_read(module, config, monkeypatch)
                # Nothing is left out or added: the file is all that the job is given.
                given = json.loads(config.read_text())
                assert json.loads(section.model_dump_json()) == given, config
                kinds.add(pattern)
    rest = {file for file in files - read if "/code/" not in file}
    assert rest == OTHERS
    without = {
        f"measurements/{name}/*.json"
        for name, declared in MEASUREMENTS.items()
        if declared.of and not getattr(params.study, declared.subjects)
    }
    without |= {f"figures/{name}.json" for name in {*FIGURES} - {*plan.figures(params)}}
    assert kinds == READERS.keys() - without


def test_a_measurement_has_the_name_of_its_module():
    assert {name: declared.name for name, declared in MEASUREMENTS.items()} == {
        name: name for name in MEASUREMENTS
    }


def test_the_jobs_of_a_study_are_its_runs(raw):
    params = validate(raw)
    values = {
        str(path.relative_to(configs.CONFIG)): value for path, value in configs.sections(params)
    }
    study = params.study
    for model in study.captured:
        for job in ("similarity", "perplexity"):
            own = values[f"measurements/{job}/{model}.json"]
            assert own["datasets"] == study.datasets
            assert own["conditions"] == study.conditions
        capture = values[f"activations/{model}.json"]
        assert capture["datasets"] == study.datasets
        assert list(capture["conditions"]) == study.conditions
        for dataset in study.datasets:
            tokenize = values[f"tokens/tokenize/{model}.json"]["texts"][dataset]
            assert tokenize["evaluation"] == raw["datasets"][dataset]["evaluation"]
            assert tokenize["reading"] == capture["reading"]
    assert values["numbers/study.json"] == values["page/study.json"] == facts(params)
    said, written = dict(values["page/study.json"]["study"]), raw["studies"]["default"]
    own = written.pop("evaluations")["smollm2"]
    assert said.pop("evaluations")["smollm2"] == {"sweeps": [], **own}
    # Its choice is spelled out beside it.
    assert written.pop("documents") == study.documents
    left_out = {
        "name": "default",
        "conditions": ["intact", "zero"],
        "retrained": [],
        "refitted": [],
    }
    assert said == {**left_out, **written}
    evaluated = values["evaluations/smollm2.json"]
    assert list(evaluated["units"]) == [*study.conditions, *own["evaluated"]]
    assert evaluated["documents"] == own["documents"]
    # 160 tokens do not exceed what it reads.
    assert evaluated["long"] == {} and values["evaluations/decoder.json"]["long"]


def test_a_model_that_is_not_captured_is_only_evaluated(raw):
    whole, fewer = validate(raw), validate(edited(raw, captured=["decoder"], examined=["decoder"]))
    for kind in KINDS:
        planned = set(plan.files(whole, kind))
        own = mentions("minilm", planned)
        stays = kind in (*OF_MODELS, "downstream")
        assert set(plan.files(fewer, kind)) == (planned if stays else planned - own)
        assert own or not KINDS[kind].of or kind in ("scheme_probes", *OF_OTHER_STUDIES)
    before, after = (
        {str(path.relative_to(configs.CONFIG)): value for path, value in configs.sections(params)}
        for params in (whole, fewer)
    )
    measured = {f"measurements/{kind}" for kind in OF_MODELS}
    assert {str(Path(path).parent) for path in mentions("minilm", after)} == {
        "models", "tokens/tokenize", "tokens/texts", "masks", "evaluations", "trials/downstream",
        *measured,
    }  # fmt: skip
    gone = before.keys() - after.keys()
    assert gone == mentions("minilm", gone) and "activations/minilm.json" in gone
    assert {path for path in after if after[path] != before[path]} == FACTS


def test_classifiers_are_made_of_the_models_that_are_named(raw):
    fewer = validate(edited(raw, finetuned=[]))
    assert plan.trials(fewer, "downstream") == plan.files(fewer, "downstream") == []
    assert plan.trials(fewer, "superposition") == plan.trials(validate(raw), "superposition") != []
    paths = {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(fewer)}
    assert not any(path.startswith("trials/downstream/") for path in paths)
    assert any(path.startswith("trials/superposition/") for path in paths)


def test_each_command_has_a_file_that_says_what_its_code_is(raw):
    files = {path: value for path, value in configs.sections(validate(raw)) if "code" in path.parts}
    commands = {
        ".".join(path.relative_to(PROJECT / "workflow").with_suffix("").parts)
        for path in (PROJECT / "workflow/posenc").rglob("*.py")
        if "\n    run(main)\n" in path.read_text()
    }
    assert commands and commands <= {path.name.removesuffix(".json") for path in files}
    for path, described in files.items():
        module, digests = path.name.removesuffix(".json"), described["files"]
        assert path.parts[-3] == phases.phase_of_command(module)
        assert list(digests) == imports.files(module)
        assert {f"workflow/{module.replace('.', '/')}.py", "workflow/job.py"} <= digests.keys()
        for file, digest in digests.items():
            assert digest == sha256_file(PROJECT / file)
        assert list(described["versions"]) == imports.packages(module)
        for package, version in described["versions"].items():
            assert importlib.metadata.version(package).split("+")[0] == version


def test_what_people_write_is_a_part_of_the_phases_that_show_it(raw):
    """Editing a text reaches only these stages of DVC's."""
    values = {
        str(path.relative_to(configs.CONFIG)): v for path, v in configs.sections(validate(raw))
    }
    texts = {"paper/published.yaml", "docs/mask-versions.json"}
    assert values["numbers/text.json"].keys() == values["page/text.json"].keys() == texts
    assert "paper/preamble.tex" in values["paper/text.json"]
    assert {path for path in values if path.endswith("/text.json")} == TEXTS
    for path in TEXTS:
        for name, digest in values[path].items():
            assert digest == sha256_file(PROJECT / name)


def test_materialize_writes_what_changed_and_removes_what_is_none(raw):
    config_files.materialize(validate(raw))
    stamps = {path: path.stat().st_mtime_ns for path in configs.CONFIG.rglob("*.json")}
    stranger, hidden = (
        configs.CONFIG / "activations/gpt5.json",
        configs.CONFIG / "activations/.another.json",
    )
    stranger.write_text("{}")
    hidden.write_text("{}")
    (configs.CONFIG / "figures/runs.json").write_text("{")
    raw["activations"] = {"dtype": "float32"}
    config_files.materialize(validate(raw))
    rewritten = {
        str(path.relative_to(configs.CONFIG))
        for path, stamp in stamps.items()
        if path.stat().st_mtime_ns != stamp
    }
    captures = {"activations/minilm.json", "activations/decoder.json"}
    assert rewritten == {*captures, "figures/runs.json", *FACTS}
    assert not stranger.exists() and hidden.exists()


def test_what_would_be_written_is_foreseen_elsewhere_and_nothing_is_written(raw, root):
    """A dry run looks and leaves everything as it is."""
    config_files.materialize(validate(raw))
    before = files_in(configs.CONFIG)
    assert not config_files.is_edited(validate(raw))
    assert config_files.foresee(validate(raw), root / "planned") == {}
    raw["activations"] = {"dtype": "float32"}
    edited = validate(raw)
    assert config_files.is_edited(edited)
    planned = config_files.foresee(edited, root / "planned")
    expected = {"activations/minilm.json", "activations/decoder.json", *FACTS}
    assert {str(Path(path).relative_to(configs.CONFIG)) for path in planned.values()} == expected
    assert files_in(configs.CONFIG) == before
    config_files.materialize(edited)
    for foreseen, real in planned.items():
        assert Path(foreseen).read_bytes() == Path(real).read_bytes()


def test_each_package_is_shown_to_dvc_as_it_is_installed(raw):
    """Its first stage depends on the files that name the versions."""
    packages = config_files.PACKAGES
    packages.mkdir(parents=True)
    (packages / "retired").symlink_to("nowhere")
    (packages / "numpy").symlink_to("another environment")
    config_files.materialize(validate(raw))
    named = {name for module in imports.commands() for name in imports.packages(module)}
    assert {path.name for path in packages.iterdir()} == named >= {"numpy", "torch"}
    for path in packages.iterdir():
        version = importlib.metadata.version(path.name)
        assert f"\nVersion: {version}\n" in path.read_text(encoding="utf-8")
