"""A study may choose its experiments, measurements, figures and documents."""

from __future__ import annotations

import copy
import random
import re

import pytest

from posenc.figures.catalogue import DOCUMENTS
from posenc.frontends import leftovers
from posenc.report import gathered
from posenc.report.typeset import numbers_tex
from posenc.steps import page, typeset
from posenc.study import configs, plan
from posenc.study.declared import EXPERIMENTS, OPTIONAL
from posenc.study.params import Params, ParamsError, validate
from tests.copies import whole_params

from . import synthetic
from .synthetic import OF_OTHER_STUDIES, PROJECT
from .test_typeset import asked_by, defined, unknown_to

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
    raw = whole_params()
    raw = copy.deepcopy(raw)
    raw["studies"]["default"].update(chosen)
    return validate(raw)


@pytest.fixture
def raw() -> dict:
    return whole_params()


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
    before, after = (dict(configs.sections(params)) for params in (study_with(), changed))
    differing = {str(p.relative_to(configs.CONFIG)) for p in before if before[p] != after[p]}
    # The digest of all parameters is what documents carry.
    swaps = {f"measurements/swaps/{name}.json" for name in changed.study.models}
    assert differing == {*swaps, "numbers/study.json", "page/study.json"}
    assert before.keys() == after.keys()
    own = after[configs.MEASURED / "swaps/decoder.json"]["parameters"]
    whole = changed.measurements.swaps.model_dump()
    assert own == {**whole, "every": 5, "confidence": 0.8} != whole
    assert changed.parameters.swaps.every == 5 and study_with().parameters.swaps == (
        changed.measurements.swaps
    )


def test_a_study_has_no_job_of_what_it_leaves_out(chosen):
    files = {str(path.relative_to(configs.CONFIG)) for path, _ in configs.sections(chosen)}
    jobs = {"/".join(name.split("/")[:2]).removesuffix(".json") for name in files}
    has = {"measurements/heads", "measurements/embedding_sums", "measurements/superposition"}
    assert {*has, "trials/superposition"} <= jobs
    lacks = {f"measurements/{kind}" for kind in ("spectra", "readback", "lags", "scaling", "norms")}
    assert not {*lacks, "measurements/downstream", "trials/downstream"} & jobs
    drawn = {name for name in files if name.startswith("figures/") and "/code/" not in name}
    names = ("perplexity", "style", "superposition", "runs")
    assert drawn == {f"figures/{name}.json" for name in names}


def test_its_results_are_set_aside_and_come_back(chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    measured = plan.folder(chosen) / "measurements"
    gone = [measured / "scaling.json", measured / "readback/decoder.json",
            measured / "spectra/decoder/sample_reviews.json"]  # fmt: skip
    gone += [plan.folder(chosen) / f"figures/scaling.{form}" for form in ("pdf", "svg", "json")]
    gone += [plan.folder(chosen) / "pdf/slides.pdf"]
    kept = [measured / "superposition.json", measured / "heads/decoder/sample_reviews.json"]
    kept += [plan.folder(chosen) / name for name in ("figures/perplexity.pdf", "pdf/paper.pdf")]
    for path in (*gone, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    leftovers.tidy(chosen, print)
    assert not any(path.exists() for path in gone) and all(path.exists() for path in kept)
    leftovers.tidy(study_with(), print)
    assert all(path.exists() for path in (*gone, *kept))


@pytest.fixture(scope="module")
def written(chosen, tmp_path_factory) -> dict:
    """Files of the measurements that the study has."""
    files = synthetic.write_chosen(tmp_path_factory.mktemp("chosen"), chosen)
    return {"study": files["study"], "inputs": synthetic.measured(files)}


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


@pytest.mark.parametrize("seed", range(3))
def test_documents_have_all_that_they_ask_for_of_what_a_study_measures(seed, tmp_path):
    """Whatever it leaves out is marked, and no key of what it has is missing."""
    chance, whole = random.Random(seed), study_with()
    kinds = [kind for kind in whole.study.measured if kind in OPTIONAL]
    experiments = {kind: getattr(whole.study.experiments, kind) for kind in EXPERIMENTS}
    while True:
        taken = chance.sample(sorted(experiments), 3)
        chosen = {
            "measurements": chance.sample(kinds, len(kinds) // 2), "figures": ["perplexity"],
            "experiments": {kind: experiments[kind] for kind in taken},
        }  # fmt: skip
        if "tokenizers" not in taken:
            chosen["corpora"] = []
        try:
            params = study_with(**chosen)
            break
        except ParamsError:
            continue  # one that reads another
    files = synthetic.write_chosen(tmp_path, params)
    results = gathered.read(files["study"], *ARGUMENTS.values(), synthetic.measured(files))
    text = numbers_tex(results)
    assert defined(text, "posencabsent") >= set(experiments) - set(taken)
    had = {key for how in ("value", "estimate", "notrun") for key in defined(text, f"posenc{how}")}
    for document in DOCUMENTS:
        assert unknown_to(text, document) == set(), (chosen, document)
        assert asked_by(document, had) - had, "documents speak of more than half of it"


def test_the_page_has_its_numbers_and_says_what_is_no_part(written, tmp_path):
    page.main(
        study=written["study"],
        **ARGUMENTS,
        output=tmp_path / "index.html",
        inputs=written["inputs"],
    )
    text = (tmp_path / "index.html").read_text()
    assert '<span class="t">not in this study</span>' in text
    assert "heads" in text


def test_a_measurement_that_the_study_has_must_be_there(written, tmp_path):
    without = [path for path in written["inputs"] if "/heads/" not in str(path)]
    with pytest.raises(Exception, match="heads: there is no such measurement"):
        page.main(
            study=written["study"], **ARGUMENTS, output=tmp_path / "index.html", inputs=without
        )


LITTLE = {
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
    return validate({**raw, "studies": {**raw["studies"], "little": study}, "study": "little"})


def test_a_study_needs_six_lines(raw):
    params = little(raw)
    values = {
        str(path.relative_to(configs.CONFIG)): value for path, value in configs.sections(params)
    }
    assert values["page/study.json"]["study"]["title"] == "little"
    assert "tokens/tokenize/minilm.json" in values and "tokens/texts/minilm.json" not in values
    assert values["masks/minilm.json"]["masks"] == values["evaluations/minilm.json"]["long"] == {}
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
