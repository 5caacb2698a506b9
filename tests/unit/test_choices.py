"""A study may choose its experiments, measurements, figures and documents."""

from __future__ import annotations

import copy
import re

import pytest
from ruamel.yaml import YAML

from posenc.artifacts.files import write_json
from posenc.measurements.declaration import (
    ACTIVATIONS,
    CELL,
    DATASETS,
    MASKS,
    MODEL,
    STUDY,
    TOKENIZER,
    TOKENS,
    WEIGHTS,
    Measurement,
)
from posenc.steps import page, typeset
from posenc.study import configs, leftovers, plan, stages
from posenc.study.declared import KINDS, MEASUREMENTS, OPTIONAL
from posenc.study.params import Params, ParamsError, validate

from . import synthetic
from .synthetic import OF_OTHER_STUDIES, PROJECT

STAGES = (PROJECT / "dvc.yaml").read_text(encoding="utf-8")
CHOSEN = {
    "corpora": [],
    "matrices": [],
    "experiments": {"superposition": "digits"},
    "measurements": ["heads", "embedding_sums"],
    "figures": ["perplexity", "superposition"],
    "documents": ["paper"],
}


def study_with(**chosen) -> Params:
    """The project's parameters with choices of the default study."""
    raw = YAML(typ="safe").load((PROJECT / "params.yaml").read_text())
    raw = copy.deepcopy(raw)
    raw["study"] = raw["studies"]["default"] = {**raw["studies"]["default"], **chosen}
    return validate(raw)


@pytest.fixture
def raw() -> dict:
    return YAML(typ="safe").load((PROJECT / "params.yaml").read_text())


@pytest.fixture(scope="module")
def chosen() -> Params:
    return study_with(**CHOSEN)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"figures": ["spectra"]}, r"studies\.default\.figures names 'spectra', which shows "
         r"'spectra': add spectra to studies\.default\.measurements"),
        ({"figures": ["tokenizers"]}, r"figures names 'tokenizers', which shows 'tokenizers': add "
         r"tokenizers to studies\.default\.experiments"),
        ({"figures": ["spectrum"]}, r"figures names 'spectrum', which is not .*mean 'spectra'\?"),
        ({"measurements": ["head"]}, r"measurements names 'head', .*did you mean 'heads'\?"),
        ({"measurements": ["similarity"]}, r"measurements names 'similarity', which is always "
         r"made: omit it"),
        ({"figures": ["extrapolation"], "extrapolation": None}, r"default\.figures names "
         r"'extrapolation', .*: add studies\.default\.extrapolation"),
        ({"measurements": ["heads", "lags"]}, r"names 'lags', which reads 'relative_attention'"),
        ({"corpora": ["sample_japanese"]}, r"'sample_japanese', which experiments\.tokenizers"),
        ({"matrices": ["sinusoid"]}, r"which position_embeddings and position_heads alone read"),
        ({"documents": ["poster"]}, r"documents\.0: is 'poster'"),
        ({"figures": ["perplexity", "perplexity"]}, r"figures names 'perplexity' twice"),
        ({"parameters": {"head": {}}}, r"parameters\.head: unknown key .*did you mean 'heads'\?"),
        ({"parameters": {"heads": {"offset": 3}}}, r"heads\.offset: unknown key .*'offsets'"),
        ({"parameters": {"heads": {"offsets": 1}}}, r"parameters\.heads\.offsets: is 1: should be"),
        ({"parameters": {"swaps": {"every": 9}}}, r"parameters changes 'swaps', which the "
         r"study does not measure: add it to measurements, or leave it out"),
        ({"measurements": ["norms", "hard_attention"],
          "parameters": {"hard_attention": {"samples": [4, 1]}}},
         r"studies\.default\.parameters\.hard_attention: .*samples \[4, 1\] must rise"),
        ({"measurements": ["token_classes"], "parameters": {"token_classes": {"conditions":
         ["intact", "zeroed"]}}}, r"default\.parameters\.token_classes\.conditions names 'zeroed', "
         r"which is not defined in conditions; did you mean"),
        ({"parameters": {"conditions": {"controls": {"fitted": {"intact": "intact", "placebo":
          "hashed", "placebo_intact": "intact"}}}}},
         r"default\.parameters\.conditions\.controls names 'hashed'"),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_one_line_that_names_it(change, message):
    with pytest.raises(ParamsError, match=message) as raised:
        study_with(**{**CHOSEN, **change})
    assert len(str(raised.value).splitlines()) == 1


def test_what_is_left_out_is_all(chosen):
    whole = study_with()
    assert whole.study.retrained == whole.study.refitted == []  # that takes a GPU, or long
    assert set(plan.figures(whole)) == set(whole.figures.model_dump()) - {
        "style",
        *OF_OTHER_STUDIES,
    }
    assert set(whole.study.measured) > set(whole.measurements.model_dump()) - OF_OTHER_STUDIES
    without = study_with(**{k: v for k, v in CHOSEN.items() if k != "figures"})
    assert {"head_offsets", "superposition", "training_loss"} < set(plan.figures(without))
    assert not {"spectra", "slope_sweep", "lags", "tokenizers"} & set(plan.figures(without))


def test_parameters_of_a_study_reach_its_jobs_and_no_others():
    changed = study_with(parameters={"swaps": {"every": 5, "confidence": 0.8}})
    before, after = (dict(configs.sections(one)) for one in (study_with(), changed))
    differing = {str(p.relative_to(configs.CONFIG)) for p in before if before[p] != after[p]}
    # The digest of all parameters is what documents carry.
    swaps = {f"swaps/{name}.json" for name in changed.study.models}
    assert differing == {*swaps, "study.json"} and before.keys() == after.keys()
    own = after[configs.CONFIG / "swaps/decoder.json"]["parameters"]
    whole = changed.measurements.swaps.model_dump()
    assert own == {**whole, "every": 5, "confidence": 0.8} != whole
    assert changed.parameters.swaps.every == 5 and study_with().parameters.swaps == (
        changed.measurements.swaps
    )


def test_a_study_has_no_job_of_what_it_leaves_out(chosen):
    files = {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(chosen)}
    jobs = {name.split("/")[0].removesuffix(".json") for name in files}
    assert {"heads", "embedding_sums", "superposition_trials", "superposition"} <= jobs
    assert not {"spectra", "readback", "lags", "scaling", "norms", "downstream_trials"} & jobs
    drawn = {name for name in files if name.startswith("figures/")}
    assert drawn == {"figures/perplexity.json", "figures/style.json", "figures/superposition.json"}


def test_its_results_are_set_aside_and_come_back(chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measured = plan.folder(chosen) / "measurements"
    gone = [measured / "scaling.json", measured / "readback/decoder.json",
            measured / "spectra/decoder/sample_reviews.json"]  # fmt: skip
    gone += [plan.folder(chosen) / f"figures/scaling.{form}" for form in ("pdf", "svg", "json")]
    gone += [plan.folder(chosen) / "slides.pdf"]
    kept = [measured / "superposition.json", measured / "heads/decoder/sample_reviews.json"]
    kept += [plan.folder(chosen) / name for name in ("figures/perplexity.pdf", "paper.pdf")]
    for path in (*gone, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    leftovers.tidy(chosen, print)
    assert not any(path.exists() for path in gone) and all(path.exists() for path in kept)
    leftovers.tidy(study_with(), print)
    assert all(path.exists() for path in (*gone, *kept))


def test_stages_of_the_whole_study_are_the_file_as_it_is(chosen):
    assert stages.needed(STAGES, study_with()) == STAGES
    left = stages.needed(STAGES, chosen)
    assert stages.needed(left, chosen) == left
    yaml = YAML(typ="safe")
    before, after = (yaml.load(text)["stages"] for text in (STAGES, left))
    assert {"superposition", "figure_of_two"} <= set(after)
    assert set(before) - set(after) == {
        *(set(OPTIONAL) - {"heads", "embedding_sums", *OF_OTHER_STUDIES}), "reference_pretrained",
        "position_embeddings_of_matrices", "position_heads_of_matrices", "downstream",
        "tokenizers", "pretraining", "memory_networks", "slides", "supplement",
        "figure_mask_semantics", "corpora",
    }  # fmt: skip
    assert after["figure"]["foreach"] == {"perplexity": "measurements/perplexity"}
    both = ["measurements/superposition.json", "measurements/embedding_sums"]
    assert after["figure_of_two"]["foreach"] == {"superposition": both}
    # `posenc stages` lengthens a list as well.
    whole = yaml.load(stages.needed(left, study_with()))["stages"]
    for name in ("figure", "figure_of_two"):
        assert whole[name] == before[name]


def test_the_slides_stage_has_the_figures_of_the_study_that_they_show():
    yaml = YAML(typ="safe")
    figures = [*CHOSEN["figures"], "mask_semantics"]
    study = study_with(**{**CHOSEN, "documents": ["slides"], "figures": figures})
    left = stages.needed(STAGES, study)
    shown = [dep for dep in yaml.load(left)["stages"]["slides"]["deps"] if "/figures/" in dep]
    folder = "data/studies/${study.name}/figures"
    assert shown == [f"{folder}/mask_semantics.pdf", f"{folder}/mask_semantics.json"]
    whole = yaml.load(stages.needed(left, study_with()))["stages"]["slides"]
    assert whole == yaml.load(STAGES)["stages"]["slides"]


def test_stages_that_do_not_fit_stop_dvc_with_one_line(chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stages.FILE.write_text(STAGES)
    stages.check(study_with())
    with pytest.raises(
        stages.StagesError, match=r"other stages than study 'default' needs: run `posenc st"
    ):
        stages.check(chosen)
    stages.FILE.write_text(stages.needed(STAGES, chosen))
    stages.check(chosen)
    left = stages.FILE.read_text()
    with pytest.raises(stages.StagesError, match="no stage of slides, which study"):
        stages.check(study_with(**{**CHOSEN, "documents": ["paper", "slides"]}))
    # Measurements, and figures of one or two kinds, `posenc stages` adds as well.
    for change in (
        {"measurements": ["heads", "embedding_sums", "scaling"]},
        {"figures": ["perplexity", "superposition", "head_offsets"]},
    ):
        more = study_with(**{**CHOSEN, **change})
        stages.FILE.write_text(left)
        with pytest.raises(stages.StagesError, match="run `posenc stages`"):
            stages.check(more)
        stages.FILE.write_text(stages.needed(left, more))
        stages.check(more)


@pytest.mark.parametrize(
    ("of", "reads", "subjects"),
    [(MODEL, (WEIGHTS,), "captured"), (CELL, (TOKENS, WEIGHTS, MASKS), "models"),
     (CELL, (ACTIVATIONS,), "captured"), (STUDY, (), "captured"), (STUDY, ("heads",), "captured"),
     (CELL, (DATASETS, TOKENIZER), "examined")],
)  # fmt: skip
def test_the_stage_of_one_more_measurement_follows_from_its_declaration(
    monkeypatch, of, reads, subjects
):
    """Whoever declares it runs `posenc stages`, and writes no stage."""
    one = Measurement(
        "aaa", MEASUREMENTS["norms"].parameters, of=of, reads=reads, catalogue=(), subjects=subjects
    )
    for kinds in (MEASUREMENTS, KINDS):
        monkeypatch.setitem(kinds, "aaa", one)
    named = plan.chosen
    monkeypatch.setattr(stages, "chosen", lambda params, kinds: [*named(params, kinds), "aaa"])
    before, after = (
        YAML(typ="safe").load(text)["stages"]
        for text in (STAGES, stages.needed(STAGES, study_with()))
    )
    added = after.pop("aaa")
    assert after == before
    assert added.get("foreach") == (f"${{study.{subjects}}}" if of else None)
    stage = added.get("do", added)
    assert stage["outs"][0] in stage["cmd"] and "--allowed-rules aaa" in stage["cmd"]
    assert ("posenc reuse" in stage["cmd"]) == (reads == (ACTIVATIONS,))
    folders = {"heads": "measurements/heads", WEIGHTS: "data/models", DATASETS: "data/documents"}
    for what in reads:
        assert [dep for dep in stage["deps"] if folders.get(what, what) in dep]
    assert len(stage["deps"]) == len(reads) + 2


def test_without_its_comments_the_file_is_not_written(chosen):
    with pytest.raises(stages.StagesError, match=r"take dvc\.yaml back from git"):
        stages.needed(STAGES.replace(stages.END, ""), chosen)


@pytest.fixture(scope="module")
def written(chosen, tmp_path_factory) -> dict:
    """Files of the measurements that the study has."""
    made = synthetic.write_inputs(tmp_path_factory.mktemp("chosen"))
    write_json(made["study"], configs.facts(chosen))
    kinds = [kind for kind in made if kind in chosen.study.measured]
    return {"study": made["study"], "inputs": [path for kind in kinds for path in made[kind]]}


ARGUMENTS = {
    "published": PROJECT / "paper/published.yaml",
    "versions": PROJECT / "docs/mask-versions.json",
}


def test_documents_have_its_numbers_and_no_others(written, tmp_path):
    typeset.main(
        study=written["study"], **ARGUMENTS, output_numbers=tmp_path / "numbers.tex",
        output_tables=tmp_path / "tables", metrics=tmp_path / "metrics.json",
        plots=tmp_path / "plots", inputs=written["inputs"],
    )  # fmt: skip
    numbers = (tmp_path / "numbers.tex").read_text()
    keys = set(re.findall(r"\\posenc(?:value|estimate|notrun)\{([^}]+)\}", numbers))
    parts = {part for key in keys for part in key.split(".")}
    assert {"superposition", "embedding_sums", "heads", "perplexity", "conditions"} <= parts
    absent = ("readback", "probes", "norms", "reference", "layer_norm", "lags", "positions",
              "downstream", "tokenizers", "scaling", "random_causal", "matrix")  # fmt: skip
    assert not parts & set(absent)
    assert "posencfigure{superposition}" in numbers and "posencfigure{lags}" not in numbers
    tables = tmp_path / "tables"
    for table, measurement in {"readback": "readback", "probes": "probes", "norms": "norms",
                               "heads": "lags", "tokenizers": "tokenizers"}.items():  # fmt: skip
        text = (tables / f"{table}.tex").read_text()
        assert f"{measurement}: not part of this study" in text and "toprule" not in text
    assert "toprule" in (tables / "perplexity.tex").read_text()
    assert "not part of this study" in (tables / "published_experiments.tex").read_text()


def test_the_page_has_its_numbers_and_says_what_is_no_part(written, tmp_path):
    page.main(
        study=written["study"], **ARGUMENTS,
        output=tmp_path / "index.html", inputs=written["inputs"],
    )  # fmt: skip
    text = (tmp_path / "index.html").read_text()
    assert "probes is not part of this study" in text
    assert "heads" in text


def test_a_measurement_that_the_study_has_must_be_there(written, tmp_path):
    without = [path for path in written["inputs"] if "/heads/" not in str(path)]
    with pytest.raises(Exception, match="heads: there is no such measurement"):
        page.main(
            study=written["study"], **ARGUMENTS,
            output=tmp_path / "index.html", inputs=without,
        )  # fmt: skip


LITTLE = {
    "name": "little",
    "models": ["minilm"],
    "pretrained": ["minilm"],
    "captured": ["minilm"],
    "datasets": ["sample_questions"],
    "conditions": ["intact", "zero"],
}
"""All that a study must have."""


def little(raw: dict, **changed) -> Params:
    """The parameters of a study that leaves out what may be left out."""
    study = {**LITTLE, **changed}
    return validate({**raw, "studies": {**raw["studies"], "little": study}, "study": study})


def test_a_study_needs_six_lines(raw):
    params = little(raw)
    values = {
        str(path.relative_to(configs.CONFIG)): value for path, value in configs.sections(params)
    }
    assert values["study.json"]["study"]["title"] == "little"
    assert "texts/minilm.json" not in values
    assert values["masks/minilm.json"]["masks"] == values["evaluate/minilm.json"]["long"] == {}
    assert plan.files(params, "conditions") == [
        "measurements/conditions/minilm/sample_questions.json"
    ]
    assert params.study.all_datasets == ["sample_questions"]
    with pytest.raises(ParamsError, match="pretrained and trained"):
        little(raw, pretrained=[])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"evaluated": ["zero_distilled"]},
         "'zero_distilled', whose mask is learned from calibration text: name a data set"),
        ({"sweeps": ["length"]}, "sweeps names 'length', whose condition 'zero_slope' has a mask"),
        ({"experiments": {"tokenizers": "sample"}}, "learns from the study's labelled data set"),
        ({"extrapolation": {"tokens": 64, "documents": 2, "bucket": 8, "conditions": ["intact"]}},
         "extrapolation reads the evaluation documents of calibration, which is not there"),
    ],
)  # fmt: skip
def test_what_is_left_out_but_needed_is_named(raw, changed, message):
    with pytest.raises(ParamsError, match=message):
        little(raw, **changed)


def test_stages_of_what_is_left_out_are_taken_out_and_missed_when_it_comes_back(
    raw, tmp_path, monkeypatch
):
    params = little(raw)
    left = YAML(typ="safe").load(stages.needed(STAGES, params))["stages"]
    assert not {"texts", "corpus", "train", "training", "scheme", "scheme_probes"} & set(left)
    for name in ("masks", "evaluate"):
        assert not [dep for dep in left[name]["do"]["deps"] if "/texts/" in dep]
    # Templates read no key that is not there.
    assert set(re.findall(r"\$\{study\.(\w+)", stages.needed(STAGES, params))) <= set(LITTLE)
    monkeypatch.chdir(tmp_path)
    stages.FILE.write_text(stages.needed(STAGES, params))
    stages.check(params)
    again = little(raw, datasets=["sample_reviews"], schemes={"scheme_none": "sample_reviews"})
    with pytest.raises(stages.StagesError, match="no stage of schemes, which study 'little' has"):
        stages.check(again)
