"""What a study no longer has is set aside, and comes back when it has it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.artifacts.receipts import Receipt
from posenc.frontends import leftovers
from posenc.study import config_files, phases, plan
from posenc.study.params import validate
from tests.copies import whole_params

from .synthetic import OF_WEIGHTS, params_of
from .test_plan import edited, files_in, mentions


@pytest.fixture
def raw() -> dict:
    return whole_params()


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """Empty data, of the project whose code it is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


EVALUATED = ("tokens/", "measurements/conditions/", "measurements/sample_scores/")
"""What a model that is not captured has."""
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
    assert empty <= {place / "plots/layers", *phases.folders("default")}

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
    config_files.materialize(fewer)
    leftovers.tidy(fewer, lambda line: None)
    plan.make_folders(fewer, ["trainings"])
    folder = plan.folder(fewer) / "training"
    assert folder.is_dir() and not any(folder.iterdir())


def test_before_a_stage_no_folder_of_another_is_made(raw):
    """One that was not pulled has to be missing, or `--allow-missing` takes it for changed."""
    params = validate(raw)
    config_files.materialize(params)
    leftovers.tidy(params, lambda line: None)
    assert not plan.folder(params).exists()
    plan.make_folders(params, ["figures"])
    assert {path.name for path in plan.folder(params).iterdir()} == {"figures", "receipts"}


def test_a_study_that_captures_nothing_has_the_folder_of_layers(raw):
    """Its record names the folder plots/layers, which only captures would fill."""
    fewer = validate(edited(raw, captured=[]))
    plan.make_folders(fewer)
    assert (plan.folder(fewer) / "plots/layers").is_dir()


def test_a_measurement_that_is_no_more_is_set_aside():
    """The documents' stages depend on the folder of all measurements."""
    params = params_of()
    measured = plan.folder(params) / "measurements"
    for name in ("retired.json", "retired_too/decoder/reviews.json", "norms/decoder/other.json"):
        (measured / name).parent.mkdir(parents=True, exist_ok=True)
        (measured / name).write_text("{}")
    leftovers.tidy(params, lambda line: None)
    assert not [path for path in measured.rglob("*") if path.is_file()]
    assert len(files_in(leftovers.SET_ASIDE)) == 3


# --- What several studies share, and receipts ----------------------------------------------------

SHARED = {
    "condition": set(),
    "data set": {"raw/sample_questions/raw", "documents/sample_questions.parquet"},
    "model": {"models/minilm/model", "tokenizers/minilm/tokenizer"},
    "trained model": {
        "models/decoder/model", "tokenizers/decoder/tokenizer", "corpora/decoder.parquet",
        "training/decoder/loss",
    },
    "captured model": set(),
    "scheme": {
        f"{folder}/scheme_alibi{file}"
        for folder, file in {
            "models": "/model", "tokenizers": "/tokenizer", "corpora": ".parquet",
            "training": "/loss",
        }.items()
    },
}  # fmt: skip
"""For each kind that a study may lose, what goes of the files that studies share."""


def fill_shared(params) -> set[str]:
    """Make what the study has in the folders that studies share."""
    study = params.study
    files = {f"texts/{name}.parquet" for name in study.corpora}
    files |= {f"documents/{name}.parquet" for name in study.all_datasets}
    files |= {f"raw/{name}/raw" for name in (*study.all_datasets, *study.corpora)}
    for model in (*study.models, *study.schemes):
        files |= {f"models/{model}/model", f"tokenizers/{model}/tokenizer"}
    for model in (*study.trained, *study.schemes):
        files |= {f"corpora/{model}.parquet", f"training/{model}/loss"}
    for file in files:
        path = leftovers.DATA / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what {file} holds")
    return files


@pytest.mark.parametrize("kind", SHARED)
def test_what_is_shared_goes_and_comes_with_the_study_that_has_it(raw, kind):
    whole, fewer = validate(raw), validate(edited(raw, **FEWER[kind][0]))
    files, gone = fill_shared(whole), set(SHARED[kind])
    if kind == "scheme":
        gone = {file for file in files if "scheme_" in file and "scheme_none" not in file}
        assert gone > SHARED[kind]
    aside, before = leftovers.SET_ASIDE / "_shared", files_in(leftovers.DATA)
    lines: list[str] = []
    leftovers.tidy(fewer, lines.append)
    assert files_in(aside).keys() == gone <= files
    assert files_in(leftovers.DATA).keys() - {f"set_aside/_shared/{path}" for path in gone} == (
        files - gone
    )
    assert len(lines) == bool(gone) and all(str(aside) in line for line in lines)
    leftovers.tidy(whole, lines.append)
    assert files_in(leftovers.DATA) == before
    assert not leftovers.SET_ASIDE.exists() or files_in(leftovers.SET_ASIDE) == {}


def test_studies_take_turns_in_what_they_share(raw):
    """DVC notes a folder as a whole: it holds what the active study names, and nothing is lost."""
    first = validate(raw)
    second = first.model_copy(update={"study": first.studies["real"]})
    of_first = fill_shared(first)
    leftovers.tidy(second, lambda line: None)
    of_second = fill_shared(second)
    assert not of_first <= of_second
    models = files_in(leftovers.DATA / "models")
    leftovers.tidy(first, lambda line: None)
    here = {file for file in files_in(leftovers.DATA) if not file.startswith("set_aside/")}
    assert here == of_first
    leftovers.tidy(second, lambda line: None)
    assert files_in(leftovers.DATA / "models") == models


def write_receipt(name: str, outputs) -> Path:
    path = plan.STUDIES / "default/receipts" / name
    digests = {str(plan.STUDIES / "default" / output): "0" * 64 for output in outputs}
    Receipt("rule", "command", {}, digests, {}).write(path)
    return path


def test_a_receipt_goes_with_all_that_it_names_and_comes_with_any_of_it(raw):
    whole = validate(raw)
    files = fill(whole, "first")
    tokens = {file for file in files if file.startswith("tokens/minilm/")}
    heads = {file for file in files if file.startswith("measurements/heads/decoder/")}
    of_tokens = write_receipt("tokens/tokenize/minilm.json", tokens)
    of_heads = write_receipt("measurements/heads/decoder.json", heads)
    before = files_in(plan.STUDIES)
    # A part of what it names goes: it stays and describes the rest.
    leftovers.tidy(validate(edited(raw, datasets=["sample_reviews"])), lambda line: None)
    assert of_tokens.exists() and of_heads.exists()
    leftovers.tidy(whole, lambda line: None)
    assert files_in(plan.STUDIES) == before
    # All of it goes, and so does it; the other stays.
    changes, _ = FEWER["model"]
    leftovers.tidy(validate(edited(raw, **changes)), lambda line: None)
    assert not of_tokens.exists() and of_heads.exists()
    assert (leftovers.SET_ASIDE / "default/receipts/tokens/tokenize/minilm.json").exists()
    leftovers.tidy(whole, lambda line: None)
    assert files_in(plan.STUDIES) == before
    assert files_in(leftovers.SET_ASIDE) == {}


def test_a_receipt_of_today_is_not_replaced_by_one_that_was_set_aside(raw):
    whole, fewer = validate(raw), validate(edited(raw, **FEWER["model"][0]))
    files = fill(whole, "first")
    tokens = sorted(file for file in files if file.startswith("tokens/minilm/"))
    path = write_receipt("tokens/tokenize/minilm.json", tokens)
    leftovers.tidy(fewer, lambda line: None)
    write_receipt("tokens/tokenize/minilm.json", tokens[:1])
    today = path.read_bytes()
    leftovers.tidy(whole, lambda line: None)
    assert path.read_bytes() == today


def test_what_is_set_aside_is_announced_and_stays_there_until_a_run(raw):
    whole, fewer = validate(raw), validate(edited(raw, conditions=["intact"]))
    fill(whole, "first")
    lines: list[str] = []
    leftovers.announce(whole, lines.append)
    assert lines == []
    leftovers.tidy(fewer, lambda line: None)
    before = files_in(leftovers.DATA)
    leftovers.announce(whole, lines.append)
    assert len(lines) == 1 and f"results of the study are in {leftovers.SET_ASIDE}" in lines[0]
    assert files_in(leftovers.DATA) == before
