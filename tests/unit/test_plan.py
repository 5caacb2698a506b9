"""What a study consists of: a file for each job, and a folder that holds its runs and no others."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from posenc.artifacts import imports
from posenc.artifacts.command import read_section
from posenc.artifacts.files import sha256_file
from posenc.figures.catalogue import FIGURES
from posenc.study import configs, leftovers, plan
from posenc.study.declared import EXPERIMENTS, KINDS, MEASUREMENTS
from posenc.study.params import load, validate

from .synthetic import OF_MODELS, OF_OTHER_STUDIES, OF_WEIGHTS, PROJECT

READERS = {
    "datasets/*/fetch.json": "posenc.steps.fetch",
    "datasets/*/documents.json": "posenc.steps.documents",
    "models/*/fetch.json": "posenc.steps.model",
    "models/*/corpus.json": "posenc.steps.tokenizer posenc.steps.training_tokens",
    "models/*/train.json": "posenc.steps.train",
    "tokenize/*.json": "posenc.steps.tokenize",
    "texts/*.json": "posenc.steps.tokenize",
    "capture/*.json": "posenc.steps.capture posenc.steps.store",
    "masks/*.json": "posenc.steps.masks",
    "evaluate/*.json": "posenc.steps.evaluate",
    **{
        f"{name}/*.json" if declared.of else f"{name}.json": f"posenc.measurements.{name}"
        for name, declared in MEASUREMENTS.items()
    },
    **{f"{name}_trials/*.json": f"posenc.experiments.{name}.trials" for name in EXPERIMENTS},
    **{f"{name}.json": f"posenc.experiments.{name}.summary" for name in EXPERIMENTS},
    **{f"figures/{name}.json": f"posenc.figures.{name}" for name in FIGURES},
}
"""Which commands read a file as their ``--config``."""
OTHERS = {"figures/style.json", "runs.json", "study.json"}


@pytest.fixture
def raw() -> dict:
    return YAML(typ="safe").load((PROJECT / "params.yaml").read_text())


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """Empty data, of the project whose code it is."""
    monkeypatch.chdir(PROJECT)
    monkeypatch.setattr(leftovers, "SET_ASIDE", tmp_path / leftovers.SET_ASIDE)
    monkeypatch.setattr(configs, "CONFIG", tmp_path / configs.CONFIG)
    for name in ("STUDIES", "DOCUMENTS", "APART"):
        monkeypatch.setattr(plan, name, tmp_path / getattr(plan, name))
    return tmp_path


class Read(BaseException):
    """Ends a command once it has read its section."""


def section_that_is_read(module: str, config: Path, monkeypatch):
    """The section of its ``--config`` that a command reads, as it reads it."""
    function, found = importlib.import_module(module).main, []
    # A command made by another module looks the function up there.
    home = inspect.getmodule(function.__code__)

    def read(path, section):
        value = read_section(path, section)
        if path == config:
            found.append(value)
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
    return found[0]


@pytest.mark.parametrize("study", ["default", "local", "real"])
def test_every_file_is_the_section_of_the_command_that_reads_it(study, monkeypatch):
    params = load(PROJECT / "params.yaml")
    params = params.model_copy(update={"study": params.studies[study]})
    configs.materialize(params)
    files = {str(path.relative_to(configs.CONFIG)) for path in configs.CONFIG.rglob("*.json")}
    assert files == {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(params)}
    kinds, read = set(), set()
    for pattern, modules in READERS.items():
        for config in configs.CONFIG.glob(pattern):
            read.add(str(config.relative_to(configs.CONFIG)))
            for module in modules.split():
                section = section_that_is_read(module, config, monkeypatch)
                # Nothing is left out, and nothing is added: the file is all that the job is given.
                given = json.loads(config.read_text())
                assert json.loads(section.model_dump_json()) == given, config
                kinds.add(pattern)
    rest = {file for file in files - read if not file.startswith("code/")}
    assert rest == OTHERS
    without = {
        f"{name}/*.json"
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
            assert values[f"{job}/{model}.json"]["datasets"] == study.datasets
            assert values[f"{job}/{model}.json"]["conditions"] == study.conditions
        capture = values[f"capture/{model}.json"]
        assert capture["datasets"] == study.datasets
        assert list(capture["conditions"]) == study.conditions
        for dataset in study.datasets:
            tokenize = values[f"tokenize/{model}.json"]["texts"][dataset]
            assert tokenize["evaluation"] == raw["datasets"][dataset]["evaluation"]
            assert tokenize["reading"] == capture["reading"]
    assert values["study.json"] == configs.facts(params)
    said, own = dict(values["study.json"]["study"]), raw["study"].pop("evaluations")["smollm2"]
    assert said.pop("evaluations")["smollm2"] == {"sweeps": [], **own}
    # What it chose is said in full, beside it.
    assert raw["study"].pop("documents") == study.documents
    assert said == raw["study"]
    evaluated = values["evaluate/smollm2.json"]
    assert list(evaluated["units"]) == [*study.conditions, *own["evaluated"]]
    assert evaluated["documents"] == own["documents"]
    # 160 tokens are not beyond what it reads.
    assert evaluated["long"] == {} and values["evaluate/decoder.json"]["long"]


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
    assert {path.split("/")[0] for path in mentions("minilm", after)} == {
        "models", "tokenize", "texts", "masks", "evaluate", *OF_MODELS, "downstream_trials",
    }  # fmt: skip
    gone = before.keys() - after.keys()
    assert gone == mentions("minilm", gone) and "capture/minilm.json" in gone
    assert {path for path in after if after[path] != before[path]} == {"study.json"}


def test_classifiers_are_made_of_the_models_that_are_named(raw):
    fewer = validate(edited(raw, finetuned=[]))
    assert plan.trials(fewer, "downstream") == plan.files(fewer, "downstream") == []
    assert plan.trials(fewer, "superposition") == plan.trials(validate(raw), "superposition") != []
    paths = {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(fewer)}
    assert not any(path.startswith("downstream_trials/") for path in paths)


def test_each_command_has_a_file_that_says_what_its_code_is(raw):
    files = {path: value for path, value in configs.sections(validate(raw)) if "code" in path.parts}
    commands = {
        ".".join(path.relative_to(PROJECT / "workflow").with_suffix("").parts)
        for path in (PROJECT / "workflow/posenc").rglob("*.py")
        if "\n    run(main)\n" in path.read_text()
    }
    assert commands and commands <= {path.name.removesuffix(".json") for path in files}
    for path, digests in files.items():
        module = path.name.removesuffix(".json")
        assert list(digests) == imports.files(module)
        assert f"workflow/{module.replace('.', '/')}.py" in digests
        for file, digest in digests.items():
            assert digest == sha256_file(PROJECT / file)


def test_materialize_writes_what_changed_and_removes_what_is_none(raw):
    configs.materialize(validate(raw))
    stamps = {path: path.stat().st_mtime_ns for path in configs.CONFIG.rglob("*.json")}
    stranger, hidden = (
        configs.CONFIG / "capture/gpt5.json",
        configs.CONFIG / "capture/.another.json",
    )
    stranger.write_text("{}")
    hidden.write_text("{}")
    (configs.CONFIG / "runs.json").write_text("{")
    raw["activations"]["dtype"] = "float32"
    configs.materialize(validate(raw))
    rewritten = {
        str(path.relative_to(configs.CONFIG))
        for path, stamp in stamps.items()
        if path.stat().st_mtime_ns != stamp
    }
    # The digest of the parameters is in study.json.
    assert rewritten == {"capture/minilm.json", "capture/decoder.json", "runs.json", "study.json"}
    assert not stranger.exists() and hidden.exists()


# --- Setting aside ------------------------------------------------------------------------------


def fill(params, mark: str) -> set[str]:
    """Make every leaf of the study's folder, as its steps do; returns the paths of the files."""
    study, place, files = params.study, plan.folder(params), set()
    for model in study.trained:
        files |= {f"training/{model}/{file}" for file in ("loss.csv", "summary.json")}
    for model in study.models:
        for dataset in study.datasets:
            files.add(f"tokens/{model}/{dataset}.parquet")
            files.add(f"measurements/conditions/{model}/{dataset}.json")
    for model in study.captured:
        for dataset in study.datasets:
            for run in (f"{model}/{dataset}/{condition}" for condition in study.conditions):
                files |= {f"activations/{run}/{file}" for file in ("index", "shard-0", "shard-1")}
                files |= {
                    f"measurements/{name}/{run}.json" for name in ("similarity", "perplexity")
                }
            files |= {f"measurements/{name}/{model}/{dataset}.json" for name in ("probes", "heads")}
        files |= {f"measurements/{name}/{model}.json" for name in OF_WEIGHTS}
    for scheme in study.schemes:
        for dataset in study.datasets:
            files.add(f"tokens/{scheme}/{dataset}.parquet")
            files.add(f"measurements/scheme_probes/{scheme}/{dataset}.json")
    files |= {f"measurements/position_embeddings/{matrix}.json" for matrix in study.matrices}
    for model in study.finetuned:
        files |= {f"trials/downstream/{model}/0.json", f"measurements/downstream/{model}.json"}
    files |= {"trials/superposition/study/1.json", "measurements/superposition.json"}
    files.add("measurements/lags.json")
    for file in files:
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(f"{mark} {file}")
    return files


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


EVALUATED = ("tokens/", "measurements/conditions/", "measurements/sample_scores/")
"""What a model has that is not captured."""
FEWER = {
    "condition": ({"conditions": ["intact"]}, "zero"),
    "data set": ({"datasets": ["sample_reviews"]}, "sample_questions"),
    "model": (
        {
            "models": ["decoder", "smollm2"],
            "captured": ["decoder"],
            "examined": ["decoder"],
            "pretrained": ["smollm2"],
            "finetuned": [],
        },
        "minilm",
    ),
    "trained model": (
        {
            "models": ["minilm", "smollm2"],
            "captured": ["minilm"],
            "examined": ["minilm"],
            "trained": {},
        },
        "decoder",
    ),
    "captured model": ({"captured": ["decoder"], "examined": ["decoder"]}, "minilm"),
    "fine-tuned model": ({"finetuned": []}, "minilm"),
    "scheme": ({"schemes": {"scheme_none": "sample_reviews"}}, "scheme_alibi"),
    "matrix": ({"matrices": ["sinusoid"]}, "gaussian"),
}


@pytest.mark.parametrize("kind", FEWER)
def test_what_the_study_no_longer_has_is_set_aside_and_comes_back(raw, kind):
    changes, name = FEWER[kind]
    whole, fewer, lines = validate(raw), validate(edited(raw, **changes)), []
    files = fill(whole, "first")
    gone = mentions(name, files)
    if kind == "scheme":
        gone = {file for file in files if "scheme_" in file and "scheme_none" not in file}
    of_classifiers = {file for file in gone if "downstream" in file}
    if kind == "captured model":
        gone = {file for file in gone - of_classifiers if not file.startswith(EVALUATED)}
    if kind == "fine-tuned model":
        gone = of_classifiers
    assert gone and gone != files
    before = files_in(plan.STUDIES)
    place, aside = plan.folder(whole), leftovers.SET_ASIDE / "default"

    leftovers.tidy(fewer, lines.append)
    assert files_in(place).keys() == files - gone
    assert files_in(aside).keys() == gone
    assert len(lines) == 1 and lines[0].startswith(f"set aside in {aside}: ")
    empty = {path for path in place.rglob("*") if path.is_dir() and not any(path.iterdir())}
    kept = ("training", "figures", "plots/layers", "measurements/scheme_probes",
            "measurements/downstream")  # fmt: skip
    assert empty <= {place / name for name in kept}

    leftovers.tidy(fewer, lines.append)
    assert len(lines) == 1, "nothing is left to do"

    leftovers.tidy(whole, lines.append)
    assert files_in(plan.STUDIES) == before
    assert not leftovers.SET_ASIDE.exists() or files_in(leftovers.SET_ASIDE) == {}
    assert len(lines) == 2 and lines[1].startswith(f"brought back from {aside}: ")


def test_what_was_made_anew_is_not_replaced_by_what_was_set_aside(raw):
    whole, fewer = validate(raw), validate(edited(raw, conditions=["intact"]))
    files = fill(whole, "first")
    leftovers.tidy(fewer, lambda line: None)
    # As `dvc checkout` does.
    fill(whole, "second")
    leftovers.tidy(whole, lambda line: None)
    assert set(files_in(plan.folder(whole)).values()) == {f"second {file}" for file in files}
    assert files_in(leftovers.SET_ASIDE) == {}, "the older ones would come back in their place"


def test_what_is_set_aside_takes_the_place_of_what_was(raw):
    whole, fewer = validate(raw), validate(edited(raw, conditions=["intact"]))
    files = fill(whole, "first")
    leftovers.tidy(fewer, lambda line: None)
    old = leftovers.SET_ASIDE / "default/activations/minilm/sample_reviews/zero/shard-9"
    old.write_text("first")
    fill(whole, "second")
    leftovers.tidy(fewer, lambda line: None)
    kept = files_in(leftovers.SET_ASIDE / "default")
    assert kept.keys() == mentions("zero", files)
    assert set(kept.values()) == {f"second {file}" for file in kept}


def test_other_studies_and_hidden_files_stay(raw):
    params = validate(edited(raw, conditions=["intact"]))
    fill(params, "first")
    other = plan.STUDIES / "real/activations/bert/imdb/zero/index"
    hidden = plan.folder(params) / "activations/minilm/sample_reviews/.zero.retired/index"
    partial = plan.folder(params) / "captures/minilm/sample_reviews.zero.0123/shard"
    for path in (other, hidden, partial):
        path.parent.mkdir(parents=True)
        path.write_text("kept")
    before = files_in(plan.STUDIES)
    leftovers.tidy(params, lambda line: pytest.fail(line))
    assert files_in(plan.STUDIES) == before


def test_a_study_that_trains_nothing_keeps_an_empty_folder_of_trainings(raw):
    """DVC's stages name the folder: it must be there, and empty."""
    whole = validate(raw)
    models = {"models": ["minilm", "smollm2"], "captured": ["minilm"], "examined": ["minilm"]}
    fewer = validate(edited(raw, **models, trained={}))
    fill(whole, "first")
    configs.materialize(fewer)
    leftovers.tidy(fewer, lambda line: None)
    folder = plan.folder(fewer) / "training"
    assert folder.is_dir() and not any(folder.iterdir())


def test_a_study_that_captures_nothing_has_the_folder_of_layers(raw):
    """Its record names the folder plots/layers, which only captures would fill."""
    fewer = validate(edited(raw, captured=[]))
    plan.make_folders(fewer)
    assert (plan.folder(fewer) / "plots/layers").is_dir()


def test_a_measurement_that_is_no_more_is_set_aside():
    """The documents' stages depend on the folder of all measurements."""
    params = load(PROJECT / "params.yaml")
    measured = plan.folder(params) / "measurements"
    for name in ("retired.json", "retired_too/decoder/reviews.json", "norms/decoder/other.json"):
        (measured / name).parent.mkdir(parents=True, exist_ok=True)
        (measured / name).write_text("{}")
    leftovers.tidy(params, lambda line: None)
    assert not [path for path in measured.rglob("*") if path.is_file()]
    assert len(files_in(leftovers.SET_ASIDE)) == 3
