"""The tiny study, or its core, through Snakemake and DVC: what runs, and the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil

import pytest

from posenc.figures import catalogue
from posenc.report import latex, links
from posenc.study.phases import PHASES
from tests.unit.synthetic import BUNDLED, EVALUATING, OF_EXAMINED, OF_MODELS, OF_WEIGHTS
from tests.workflow.conftest import ROOT, make_project

HAVE_LATEX = not latex.missing()
DOCUMENTS = dict.fromkeys(catalogue.DOCUMENTS, 1) if HAVE_LATEX else {}
SUPPLEMENT = {"supplement": 1} if HAVE_LATEX else {}
"""Of the core study; it shows the figures that are edited here."""


def artifacts(project) -> dict[str, str]:
    """SHA-256 of all that the workflow makes.

    Left out are hidden files, the parts of params.yaml, what was recorded on request, results of
    runs that the study no longer has, and the list of studies, which is this disk's.
    """
    digests = {}
    for file in sorted((project.folder / "data").rglob("*")):
        name = str(file.relative_to(project.folder))
        others = ("data/config/", "data/kept/", "data/packages/", "data/records/",
                  "data/set_aside/", str(links.PAGES))  # fmt: skip
        ours = not name.startswith(others)
        if file.is_file() and not file.is_symlink() and ours and not file.name.startswith("."):
            digests[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digests


@contextlib.contextmanager
def edited(project, key, value):
    """Change a parameter for a block, and put the old file back."""
    path = project.folder / "params.yaml"
    before = path.read_bytes()
    project.edit(key, value)
    try:
        yield
    finally:
        path.write_bytes(before)


def test_the_study_is_whole(finished):
    digests = artifacts(finished)
    for expected in (
        "data/studies/default/activations/decoder/sample_reviews/zero/index.parquet",
        "data/studies/default/measurements/similarity/minilm/sample_reviews/zero.json",
        "data/studies/default/measurements/perplexity/decoder/sample_reviews/zero.json",
        "data/studies/default/figures/layer_similarity.pdf",
        "data/studies/default/metrics.json",
        "data/studies/default/generated/numbers.tex",
        *(f"data/studies/default/pdf/{document}.pdf" for document in DOCUMENTS),
    ):
        assert expected in digests
    measured = json.loads(
        (
            finished.folder
            / "data/studies/default/measurements/similarity/minilm/sample_reviews/zero.json"
        ).read_text()
    )
    last = measured["layers"][-1]["cosine"]
    assert -1 < last["low"] <= last["value"] <= last["high"] < 1
    encoder = json.loads(
        (
            finished.folder
            / "data/studies/default/measurements/perplexity/minilm/sample_reviews/zero.json"
        ).read_text()
    )
    assert encoder["status"] == "not run"


def test_a_second_run_does_nothing(finished):
    assert finished.planned() == {}
    assert finished.run("dvc", "status", "--quiet", check=False).returncode == 0
    assert finished.reproduced() == []
    assert finished.planned() == {}


OF_TEXTS = [name for name in OF_MODELS if name not in OF_WEIGHTS]
"""Measurements of every model on its data sets."""
SHOWN = {"page": 1, **DOCUMENTS}
FIGURE = {"figure": 1, "page": 1, **SUPPLEMENT}
MEASURE = {"figure": 2, "typeset": 1, **SHOWN}
EXPERIMENT = {"experiment": 1, **MEASURE, "figure": 1}
# One job a model; it keeps the runs that the edit does not reach (test_matrix.py).
CAPTURED = {
    "capture": 2, "store": 2, "similarity": 2, "perplexity": 2, **dict.fromkeys(BUNDLED, 2),
    "lags": 1, **MEASURE, "figure": 10,
}  # fmt: skip
EVALUATED = {"evaluate": 2, **dict.fromkeys(EVALUATING, 2), **MEASURE, "figure": 9}
CHOSEN = ("choices", "joint_order", "token_classes")
"""Measurements under the conditions that they list themselves."""
ALL_RUNS = {**CAPTURED, **EVALUATED, **dict.fromkeys(CHOSEN, 2), "figure": 20}


@pytest.mark.parametrize(
    ("key", "value", "jobs"),
    [
        ("datasets.imdb_local.evaluation.seed", 9, {}),  # of another study
        ("figures.layer_similarity.height", 3.1, FIGURE),
        ("figures.training_loss.height", 3.1, FIGURE),
        ("figures.style.font_size", 9, {"figure": 45, **SHOWN}),
        ("measurements.similarity.seed", 5, {"similarity": 2, **MEASURE}),
        ("measurements.perplexity.seed", 5, {"perplexity": 2, **MEASURE, "figure": 1}),
        ("conditions.zero.position", "intact", ALL_RUNS),
        ("models.decoder.source.learning_rate", 1e-3,
         {"train": 1, "training": 1, "masks": 1, "norms": 1, "layer_norm": 1,
          **dict.fromkeys([*ALL_RUNS, *OF_WEIGHTS, *OF_MODELS, *OF_EXAMINED], 1), "figure": 37}),
        ("datasets.sample_reviews.evaluation.seed", 4,
         {"tokenize": 3, "texts": 2, "masks": 2, "norms": 2, "scheme_probes": 1, "gpu_trials": 2,
          "trials": 4, "experiment": 2, "experiment_of_model": 1, "layer_norm": 2,
          **dict.fromkeys([*OF_TEXTS, *OF_EXAMINED], 2), **ALL_RUNS, "figure": 32}),
        ("conditions.mean.position", "zero", EVALUATED),
        ("masks.fitted.steps", 3,
         {"masks": 1, **dict.fromkeys([*EVALUATED, *CHOSEN], 1), "causal_probes": 1,
          "figure": 11}),
        ("datasets.sample_reviews.calibration.seed", 4,
         {"texts": 2, "masks": 2, **EVALUATED, **dict.fromkeys(CHOSEN, 2), "causal_probes": 2,
          "figure": 11}),
        ("measurements.norms.seed", 4, {"norms": 2, "typeset": 1, **SHOWN}),
        ("measurements.probes.seed", 4, {"probes": 2, "scheme_probes": 1, **MEASURE, "figure": 1}),
        ("measurements.heads.seed", 4, {"heads": 2, "lags": 1, **MEASURE}),
        ("models.scheme_rotary.source.steps", 11,
         {"train": 1, "scheme_probes": 1, **MEASURE, "figure": 1}),
        ("matrices.gaussian.first_row", 1,
         {"position_embeddings": 1, "position_heads": 1, **MEASURE, "figure": 3}),
        ("experiments.memory_networks.sample.test_stories", 12, {"trials": 2, **EXPERIMENT}),
        # A further seed is one more trial; the others stay.
        ("experiments.superposition.digits.seeds", [0, 7, 8], {"trials": 1, **EXPERIMENT}),
        ("experiments.superposition.digits.confidence", 0.9, EXPERIMENT),
        ("datasets.sample_japanese.source.seed", 9,
         {"fetch": 1, "corpus": 1, "trials": 2, **EXPERIMENT}),
    ],
)  # fmt: skip
def test_an_edit_reaches_only_what_depends_on_it(finished, key, value, jobs):
    with edited(finished, key, value):
        assert finished.planned() == jobs


def test_undoing_an_edit_leaves_nothing_to_run(finished):
    with edited(finished, "activations.batch_tokens", 4096):
        assert finished.planned() == CAPTURED
    assert finished.planned() == {}


def test_the_other_ways_in(finished):
    """The README's commands that look at a finished study."""
    finished.run("posenc", "report")
    assert "A2 is this cosine high?" in (finished.folder / "report.html").read_text()
    assert (
        "decoder.sample_reviews.zero.perplexity.perplexity"
        in finished.run("dvc", "metrics", "diff").stdout
    )
    finished.run("dvc", "plots", "diff", "--out", "dvc_plots")
    assert "minilm-sample_reviews-zero" in (finished.folder / "dvc_plots/index.html").read_text()
    assert "default" in finished.run("posenc", "check").stdout
    compared = finished.run("posenc", "compare").stdout
    assert re.search(r"The results agree .*: of (\d+) recorded numbers, \1 the same", compared)


@pytest.mark.slow
@pytest.mark.skipif(not HAVE_LATEX, reason=f"LaTeX is not installed: {latex.INSTALL}")
def test_the_documents_themselves_build_from_the_tiny_study(finished, tmp_path):
    """The other tests' are short and show the same."""
    copy = finished.copy(tmp_path / "project")
    for document in DOCUMENTS:
        shutil.copy(ROOT / f"paper/{document}.tex", copy.folder / "paper")
    assert copy.planned() == DOCUMENTS
    copy.snakemake()
    assert copy.planned() == {}


def test_an_edited_module_reruns_its_step(finished):
    path = finished.folder / "workflow/posenc/metrics/similarity.py"
    before = path.read_bytes()
    finished.append("workflow/posenc/metrics/similarity.py", "\n# edited\n")
    try:
        planned = finished.planned()
        assert planned["similarity"] == 2
        assert "capture" not in planned and "perplexity" not in planned
    finally:
        path.write_bytes(before)
    assert finished.planned() == {}


def test_dvc_reproduces_an_edit_and_restores_it(core):
    before = artifacts(core)
    with edited(core, "figures.training_loss.height", 3.3):
        assert core.reproduced() == ["figures", *(["paper"] * HAVE_LATEX), "page"]
        assert core.planned() == {}
        changed = {name for name, digest in artifacts(core).items() if before[name] != digest}
        assert changed == {
            f"data/studies/default/{name}"
            for name in (
                "figures/training_loss.pdf",
                "figures/training_loss.svg",
                "figures/training_loss.json",
                "index.html",
                *(f"pdf/{name}.pdf" for name in SUPPLEMENT),
                # What they are made of changed, even where the result did not.
                "receipts/figures/training_loss.json",
                "receipts/page/page.json",
                *(f"receipts/paper/{name}.json" for name in SUPPLEMENT),
            )
        }
    assert core.reproduced() == [], "DVC restores from its cache"
    assert artifacts(core) == before
    assert core.planned() == {}


def test_record_refuses_what_is_not_current(core):
    with edited(core, "measurements.similarity.seed", 6):
        result = core.run("posenc", "record", check=False)
        assert result.returncode == 1
        assert "not complete or not current" in result.stdout
    core.planned()


def test_record_fills_a_hole_with_what_is_kept_or_refuses(core, tmp_path):
    """All that was made of the file exists, so Snakemake by itself would not miss it."""
    folder = core.folder / "data/studies/default/activations/decoder/sample_reviews/zero"
    kept = core.folder / "data/kept"
    for name in ("index.parquet", "shard-00000.safetensors"):
        path = folder / name
        content = path.read_bytes()
        path.unlink()
        result = core.run("posenc", "record")
        assert "brought back" in result.stdout and path.read_bytes() == content
        path.rename(tmp_path / name)
        kept.rename(tmp_path / "kept")
        result = core.run("posenc", "record", check=False)
        assert result.returncode == 1
        assert "not complete or not current" in result.stdout
        shutil.rmtree(kept, ignore_errors=True)
        (tmp_path / "kept").rename(kept)
        (tmp_path / name).rename(path)
    assert core.planned() == {}


@pytest.mark.slow
def test_dvc_alone_makes_the_same_bytes(finished, tmp_path):
    project = make_project(tmp_path)
    if not HAVE_LATEX:
        pytest.skip(f"LaTeX is not installed: {latex.INSTALL}")
    assert project.reproduced() == list(PHASES)
    assert project.planned() == {}
    assert project.reproduced() == []
    assert artifacts(project) == artifacts(finished)


def test_wrong_parameters_stop_both_front_ends_at_once(core):
    """What else can be wrong: tests/unit/test_params.py."""
    before = artifacts(core)
    path = core.folder / "params.yaml"
    original = path.read_bytes()
    try:
        path.write_bytes(original.replace(b"max_tokens:", b"max_token:"))
        for command in (["snakemake", "--cores", "2"], ["dvc", "repro"], ["posenc", "check"]):
            result = core.run(*command, check=False)
            assert result.returncode != 0
            assert "unknown key 'max_token'; did you mean 'max_tokens'" in result.stdout
            assert "Traceback" not in result.stdout
        assert artifacts(core) == before
    finally:
        path.write_bytes(original)


def test_a_measurement_more_needs_nothing_in_dvc_yaml(core, tmp_path):
    project = core.copy(tmp_path / "project")
    project.edit("studies.default.measurements", ["heads", "scaling"])
    assert project.planned() == {"scaling": 1, "typeset": 1, "page": 1, **SUPPLEMENT}
    assert project.reproduced()[0] == "measurements"
    assert project.planned() == {}
    assert project.run("dvc", "status", "--quiet", check=False).returncode == 0


def sha256(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("fault", ["checksum", "truncated", "column", "absent", "weights"])
def test_wrong_input_stops_with_one_line_and_leaves_nothing(finished, tmp_path, fault):
    """Through Snakemake, as users meet it."""
    dataset, name = {
        "column": ("truthfulqa_local", "TruthfulQA.csv"),
    }.get(fault, ("imdb_local", "aclImdb_v1.tar.gz"))
    sample = finished.folder / "data/raw/sample_reviews/raw"
    path = tmp_path / name
    if fault == "truncated":
        path.write_bytes(sample.read_bytes()[:-5000])
    elif fault == "column":
        path.write_text("Type,Category,Questions\nAdversarial,Invented,Who is it?\n")
    elif fault == "checksum":
        path.write_bytes(sample.read_bytes())
    target = f"data/documents/{dataset}.parquet"
    message = {
        "checksum": "sha256",
        "truncated": "truncated",
        "column": "has no column 'Question'",
        "absent": str(path),
        "weights": "models.minilm.source.sha256",
    }[fault]
    params = finished.folder / "params.yaml"
    original = params.read_bytes()
    try:
        if fault == "weights":
            target = "data/models/minilm/model.safetensors"
            finished.edit("models.minilm.source.sha256", "0" * 64)
            kept = artifacts(finished)
        else:
            finished.edit(f"datasets.{dataset}.source.path", str(path))
            if fault in ("truncated", "column"):
                finished.edit(f"datasets.{dataset}.source.sha256", sha256(path))
        result = finished.snakemake("--", target, check=False)
        assert result.returncode == 1
        lines = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and message in lines[0], result.stdout[-3000:]
        assert "Traceback" not in result.stdout
        # The raw file is whole and matches its checksum; only reading it fails.
        raw = {f"data/raw/{dataset}/raw", f"data/raw/{dataset}/raw.json"}
        raw |= {f"data/receipts/raw_text/fetch/{dataset}.json"}
        whole = raw if fault in ("truncated", "column") else set()
        assert {artifact for artifact in artifacts(finished) if dataset in artifact} == whole
    finally:
        params.write_bytes(original)
        shutil.rmtree(finished.folder / "data/raw" / dataset, ignore_errors=True)
        (finished.folder / f"data/receipts/raw_text/fetch/{dataset}.json").unlink(missing_ok=True)
        if fault == "weights":
            finished.snakemake("--", target)
            assert artifacts(finished) == kept
