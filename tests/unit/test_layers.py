"""``params.yaml`` over studies over the catalogue: what is like what, what wins, and what was."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from posenc.cli import app
from posenc.study import plan
from posenc.study.facts import facts
from posenc.study.layers import BUILT_IN, Layers, merged
from posenc.study.migrate import migrate
from posenc.study.params import ParamsError, load, validate
from posenc.study.switch import StudyError
from tests.copies import ROOT, copy_params

BEFORE = Path(__file__).with_name("params_of_before.yaml")
"""The file as it was when one file had all conditions and studies, with anchors."""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with the shipped parameters."""
    copy_params(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add(path: Path, text: str) -> None:
    """Put lines into a file, below their section if it has one."""
    for block in re.findall(r"(?m)^\w+:[^\n]*\n(?: [^\n]*\n)*", text):
        head, _, inner = block.partition("\n")
        content = path.read_text() if path.exists() else ""
        if inner and f"\n{head}\n" in content:
            path.write_text(content.replace(f"\n{head}\n", f"\n{head}\n{inner}", 1))
        else:
            key = head.split(":")[0]
            kept = re.sub(rf"(?ms)^{key}: (\S[^\n]*?(\[\n.*?^\]|\{{\n.*?^\}})?)\n", "", content)
            path.write_text(kept + block)


def differences(then: Any, now: Any, at: str = "") -> Iterator[str]:
    """Keys whose values differ; additional keys do not count."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            yield from differences(value, now.get(key, "is gone"), f"{at}.{key}")
    elif then != now:
        yield f"{at}: {then!r} {now!r}"


# --- What is like another entry, and grids --------------------------------------------------------


def test_an_entry_has_what_it_is_like_and_what_it_says_itself(project):
    models = load(project / "params.yaml").models
    long, imdb = models["scheme_long_alibi_2"].source, models["decoder_imdb"].source
    assert (long.d_model, long.steps, long.positions, long.seed) == (256, 1500, "alibi", 2)
    assert long.tokenizer == imdb.tokenizer and long.precision == imdb.precision == "bfloat16"
    assert long.learning_rate == 2e-3 != imdb.learning_rate


def test_a_grid_is_every_combination_and_the_seed_0_adds_nothing(project):
    add(project / "params.yaml", "models:\n  mine: {like: decoder, "
        "grid: {positions: [learned, rotary], seed: [0, 7]}}\n")  # fmt: skip
    models = load(project / "params.yaml").models
    mine = {name: model.source for name, model in models.items() if name.startswith("mine")}
    assert {name: (source.positions, source.seed) for name, source in mine.items()} == {
        "mine_learned": ("learned", 0),
        "mine_learned_7": ("learned", 7),
        "mine_rotary": ("rotary", 0),
        "mine_rotary_7": ("rotary", 7),
    }
    assert all(source.steps == models["decoder"].source.steps for source in mine.values())


def test_one_of_a_grid_can_be_changed(project):
    add(project / "params.yaml", "models:\n  scheme_rotary: {source: {steps: 7}}\n")
    models = load(project / "params.yaml").models
    assert models["scheme_rotary"].source.steps == 7
    assert models["scheme_rotary"].source.positions == "rotary"
    assert models["scheme_alibi"].source.steps == 300


def test_mappings_are_merged_unless_they_are_of_another_kind():
    lower = {"source": {"kind": "a", "x": 1, "y": {"z": 1}}, "keep": 2}
    upper = {"source": {"y": {"w": 2}}}
    assert merged(lower, upper, "models") == {
        "source": {"kind": "a", "x": 1, "y": {"z": 1, "w": 2}},
        "keep": 2,
    }
    assert merged(lower, {"source": {"kind": "b"}}, "models")["source"] == {"kind": "b"}
    # Lists are whole, and so are the keys of a study: its mappings are of names.
    assert merged({"a": [1, 2]}, {"a": [3]}, "models") == {"a": [3]}
    assert merged({"trained": {"a": "x"}}, {"trained": {"b": "y"}}, "studies") == {
        "trained": {"b": "y"}
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("models:\n  a: {like: b}\n  b: {like: a}\n", r"yaml:\d+: models\.\w\.like leads to"),
        ("models:\n  a: {like: decoderr}\n", r"models\.a\.like names 'decoderr', .* 'decoder'\?"),
        ("models:\n  a: {like: scheme_rotary}\n", r"which is of a grid: name the grid, 'scheme'"),
        ("models:\n  a: {like: decoder, grid: {seed: 3}}\n", r"models\.a\.grid: keys of source, e"),
        ("datasets:\n  a: {like: imdb_local, grid: {seed: [1]}}\n",
         r"datasets\.a\.grid: unknown key 'grid'"),
        ("models:\n  a: {like: [decoder]}\n",
         r"params\.yaml:\d+: models\.a\.like: is \['decoder'\]: should be the name of an entry"),
        ("conditions:\n  zero: {shown_as: 3}\n",
         r"params\.yaml:\d+: conditions\.zero\.shown_as: is 3: should be a text"),
    ],
)  # fmt: skip
def test_what_leads_nowhere_is_named_with_its_line(project, lines, message):
    add(project / "params.yaml", lines)
    with pytest.raises(ParamsError, match=message):
        load(project / "params.yaml")


def test_two_mistakes_in_one_line_are_two(project):
    add(project / "params.yaml", "conditions: {mean: {position: men}, zero: {position: men}}\n")
    with pytest.raises(ParamsError) as caught:
        load(project / "params.yaml")
    keys = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert keys == ["conditions.zero.position", "conditions.mean.position"]


def test_what_an_editor_leaves_beside_a_study_is_none(project):
    """Emacs marks an open file with a link to nothing."""
    (project / "studies/.#mine.yaml").symlink_to("somebody@somewhere.1")
    assert CliRunner().invoke(app, ["new", "mine"]).exit_code == 0
    assert "mine" in load(project / "params.yaml").studies


def test_two_studies_do_not_define_the_same_entry(project):
    (project / "studies/twice.yaml").write_text(
        "like: headline\ndefine:\n  datasets:\n    imdb_public: {like: imdb_local}\n"
    )
    with pytest.raises(ParamsError, match=r"twice\.yaml:4: datasets\.imdb_public is defined in .*"
                       r"studies/headline\.yaml:\d+ already: give one"):  # fmt: skip
        load(project / "params.yaml")


def test_a_label_is_its_own(project):
    add(
        project / "params.yaml", "conditions:\n  soft: {like: zero_alibi, shown_as: softer ALiBi}\n"
    )
    params = load(project / "params.yaml")
    labels = params.figures.style.labels
    assert labels["soft"] == "softer ALiBi" and labels["zero_alibi"] == "ALiBi, one slope"
    assert params.conditions["soft"] == params.conditions["zero_alibi"]
    add(project / "params.yaml", "figures: {style: {labels: {soft: my ALiBi}}}\n")
    assert load(project / "params.yaml").figures.style.labels["soft"] == "my ALiBi"


def test_the_column_of_labels_is_no_label(project):
    mine = "{like: imdb_local, label: sentiment, shown_as: My reviews}"
    add(project / "params.yaml", f"datasets:\n  mine: {mine}\n")
    params = load(project / "params.yaml")
    assert params.datasets["mine"].label == "sentiment"
    assert params.figures.style.labels["mine"] == "My reviews"


def test_what_is_built_in_is_changed_key_by_key(project):
    add(project / "params.yaml", "conditions:\n  zero_alibi: {mask: {profile: {slope: 0.3}}}\n")
    condition = load(project / "params.yaml").conditions["zero_alibi"]
    assert condition.mask.profile.slope == 0.3 and condition.position == "zero"
    where, _ = Layers(project / "params.yaml").place(
        ("conditions", "zero_alibi", "mask", "profile", "slope")
    )
    assert where.startswith(f"{project}/params.yaml:")


# --- What is shipped ------------------------------------------------------------------------------


def test_each_condition_and_mask_of_the_catalogue_has_a_sentence_and_each_condition_a_label():
    raw = YAML(typ="safe").load(BUILT_IN.read_text())
    for kind in ("conditions", "masks"):
        for name, entry in raw[kind].items():
            assert entry["about"].endswith(".") and len(entry["about"]) > 10, name
    unlabelled = [
        name for name, condition in raw["conditions"].items() if "shown_as" not in condition
    ]
    assert unlabelled == []
    sentences = [condition["about"] for condition in raw["conditions"].values()]
    assert len(set(sentences)) == len(sentences)


def test_each_study_begins_with_what_it_asks():
    for path in sorted((ROOT / "studies").glob("*.yaml")):
        lines = path.read_text().splitlines()
        assert lines[0].startswith("# yaml-language-server: "), path
        assert lines[1].startswith("asks: ") and "?" in lines[1], path
    assert len((ROOT / "params.yaml").read_text().splitlines()) <= 350
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 200
    assert (ROOT / "dvc.lock").stat().st_size <= 40_000


EDITS = re.findall(
    r"```yaml\n(# (?:params|studies).*?)```",
    (ROOT / "docs/studies.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


def test_a_newcomer_s_edits_take_five_lines_at_most(project):
    """Each block of the page, put into a copy of the project."""
    assert len(EDITS) == 5
    before = load(project / "params.yaml")
    for edit in EDITS:
        shutil.rmtree(project / "studies")
        copy_params(project)
        said = [line for line in edit.splitlines() if not line.startswith("#")]
        assert len([line for line in said if line != "define:"]) <= 5, edit
        for name, lines in re.findall(r"(?m)^# (\S+)\n((?:[^#\n].*\n)+)", edit):
            add(project / name, lines)
        assert load(project / "params.yaml") != before, edit
    params = load(project / "params.yaml")
    assert params.studies["four_documents"].all_conditions[:2] == ["intact", "zero"]
    assert params.studies["four_documents"].calibration == "imdb_public"


def test_commands_list_conditions_and_studies(project):
    run = CliRunner()
    listed = run.invoke(app, ["conditions"]).output
    for name in load(project / "params.yaml").conditions:
        assert re.search(rf"(?m)^{name}( \(|$)", listed), name
    described = run.invoke(app, ["conditions", "zero_alibi"]).output
    assert described.startswith("zero_alibi (ALiBi, one slope)\n    ALiBi with a slope of 0.1")
    assert "workflow/posenc/conditions/catalogue.yaml:" in described
    learned = run.invoke(app, ["conditions", "zero_closed"]).output
    assert "    the mask closed: Mean queries and keys of all calibration documents.\n" in learned
    wrong = run.invoke(app, ["conditions", "zero_alib"])
    assert wrong.exit_code == 1 and "did you mean 'zero_alibi'" in wrong.output
    studies = run.invoke(app, ["study"]).output
    for name, study in load(project / "params.yaml").studies.items():
        assert re.search(rf"(?m)^[* ] {name}: not run here$", studies), name
        assert study.asks and study.asks.split()[0] in studies
    assert "* default" in studies


def test_a_study_that_ran_says_how_long_its_jobs_took(project):
    """Its own jobs: another study's, of the same names, count there."""
    params = load(project / "params.yaml")
    (project / "data/studies/default").mkdir(parents=True)
    measurement = next(path for name in params.study.measured for path in plan.files(params, name))
    path = project / "data/studies/default" / measurement
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(3_000_000))
    for name, seconds in (("default/fetch/a", 60), ("default/page", 61), ("headline/page", 3600)):
        times = project / f"logs/benchmarks/{name}.tsv"
        times.parent.mkdir(parents=True, exist_ok=True)
        times.write_text(f"s\th:m:s\n{seconds}\t0:00:00\n")
    listed = CliRunner().invoke(app, ["study"]).output
    assert re.search(
        r"(?m)^\* default: 1 of \d+ measurements, [-\d]+ [\d:]+, 2 min of jobs, 3 MB$", listed
    ), listed
    assert re.search(r"(?m)^  headline: not run here$", listed), listed


def test_what_conditions_do_reaches_the_page_and_changes_no_digest(project):
    before = facts(load(project / "params.yaml"))
    assert before["about"]["zero"] == "The position embeddings are zero, or nothing is rotated."
    assert before["about"].keys() <= before["conditions"].keys()
    add(
        project / "params.yaml",
        "conditions:\n  zero: {about: Nothing says where a token stands.}\n",
    )
    after = facts(load(project / "params.yaml"))
    assert after["about"]["zero"] == "Nothing says where a token stands."
    assert after["parameters"] == before["parameters"]


# --- posenc migrate -------------------------------------------------------------------------------


def test_a_file_of_before_is_refused_with_the_way_out(project):
    (project / "params.yaml").write_text(BEFORE.read_text())
    with pytest.raises(
        ParamsError, match=r"params\.yaml:\d+: anchors, .*`posenc migrate` rewrites"
    ):
        load(project / "params.yaml")


def test_a_file_of_before_whose_anchors_dvc_has_written_out_is_refused_likewise(project):
    with (project / "params.yaml").open("w") as file:
        # JSON is YAML without anchors.
        json.dump(YAML(typ="safe").load(BEFORE.read_text()), file)
    with pytest.raises(ParamsError, match=r"already: `posenc migrate` rewrites a params\.yaml"):
        load(project / "params.yaml")


def test_a_misspelt_model_is_told_from_one_that_is_not_listed(project):
    path = project / "studies/default.yaml"
    text = path.read_text()
    path.write_text(text.replace("models: [minilm, decoder,", "models: [minilm, decodr,"))
    with pytest.raises(ParamsError, match=r"models names 'decodr', .*; did you mean 'decoder'\?"):
        load(project / "params.yaml")


def test_the_committed_lock_has_the_stages_of_dvc_yaml_and_no_others():
    read = YAML(typ="safe")
    recorded = read.load((ROOT / "dvc.lock").read_text())["stages"]
    stages = read.load((ROOT / "dvc.yaml").read_text())["stages"]
    studies = {name.partition("@")[2] for name in recorded}
    assert studies <= set(load(ROOT / "params.yaml").studies)
    assert set(recorded) == {f"{stage}@{study}" for stage in stages for study in studies}


@pytest.mark.parametrize("has_studies", [True, False])
def test_a_file_of_before_means_the_same(project, has_studies):
    old = validate(YAML(typ="safe").load(BEFORE.read_text())).model_dump(warnings=False)
    path = project / "params.yaml"
    path.write_text(BEFORE.read_text())
    if not has_studies:
        shutil.rmtree(project / "studies")
    done = CliRunner().invoke(app, ["migrate"])
    assert done.exit_code == 0, done.output
    assert list(differences(old, load(path).model_dump(warnings=False))) == []
    assert (project / "params.before.yaml").read_text() == BEFORE.read_text()
    assert (project / "studies.before").is_dir() == has_studies
    assert sorted(file.stem for file in (project / "studies").iterdir()) == sorted(old["studies"])
    text = path.read_text()
    assert not re.search(r"[&*]\w+|<<", text) and "conditions:" not in text.splitlines()
    with pytest.raises(StudyError, match="it is as files are today"):
        migrate(path)


def test_what_the_shipped_files_say_is_what_the_file_of_before_said():
    old = validate(YAML(typ="safe").load(BEFORE.read_text())).model_dump(warnings=False)
    for study in (*old["studies"].values(), old["study"]):
        del study["asks"]
    labels = old["figures"]["style"]["labels"]
    for place, letter in enumerate("ABC"):  # reworded since
        labels[f"zero_closed_one_{place}"] = f"closed form, document {letter} only"
    now = load(ROOT / "params.yaml").model_dump(warnings=False)
    assert list(differences(old, now)) == []


def test_a_condition_that_the_package_has_otherwise_stays_as_it_was(project):
    """Nothing of the package's entry stays in it: here its mask."""
    raw = YAML(typ="safe").load(BEFORE.read_text())
    raw["conditions"]["zero_window_32"] = {"position": "zero"}
    raw["masks"]["hashed_zero"] = {"method": "slope", "position": "zero"}
    path = project / "params.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(raw, file)
    migrate(path)
    params = load(path)
    condition = params.conditions["zero_window_32"]
    assert (condition.position, condition.mask, condition.only) == ("zero", None, None)
    assert params.masks["hashed_zero"].method == "slope"


def test_a_file_of_before_that_is_wrong_is_left_alone(project):
    path = project / "params.yaml"
    text = BEFORE.read_text().replace("n_layers: 4", "n_layers: x", 1)
    path.write_text(text)
    with pytest.raises(ParamsError, match=r"source\.n_layers: is 'x'"):
        migrate(path)
    assert path.read_text() == text and not (project / "params.before.yaml").exists()
    path.write_text(BEFORE.read_text())
    (project / "params.before.yaml").write_text("mine")
    with pytest.raises(StudyError, match=r"params\.before\.yaml is there already: move it away"):
        migrate(path)
    assert (project / "params.before.yaml").read_text() == "mine"


def test_a_project_without_studies_says_where_they_are(project):
    shutil.rmtree(project / "studies")
    with pytest.raises(
        ParamsError, match=r"params\.yaml: there is no study: each is a file studie"
    ):
        load(project / "params.yaml")


def test_a_study_s_file_is_a_mapping(project):
    (project / "studies/odd.yaml").write_text("- 1\n")
    with pytest.raises(ParamsError, match=r"studies/odd\.yaml: must be a mapping: the"):
        load(project / "params.yaml")
