"""What an attack on params.yaml, files of studies and commands found: each stays mended."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc.artifacts.files import ArtifactError, sha256_file
from posenc.cli import app, results
from posenc.config.yaml_file import YamlError, YamlFile
from posenc.study import writing
from posenc.study.layers import Layers
from posenc.study.migrate import migrate
from posenc.study.new import write_study
from posenc.study.params import ParamsError, load
from posenc.study.repin import write_checksum
from posenc.study.switch import StudyError, activate
from tests.copies import ROOT, copy_params

STUDY = "asks: What?\nlike: default\ndocuments: []\n"
"""A study of two lines that is valid."""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with the parameters as they are shipped."""
    monkeypatch.chdir(tmp_path)
    copy_params(tmp_path)
    return Path("params.yaml")


@pytest.fixture
def small(project) -> Path:
    """The same with two studies, which loads faster."""
    for file in Path("studies").iterdir():
        if file.stem not in ("default", "headline"):
            file.unlink()
    return project


def add(path: Path, section: str, lines: str) -> None:
    """Put entries first into a section of a file."""
    path.write_text(path.read_text().replace(f"\n{section}:\n", f"\n{section}:\n{lines}", 1))


def refused(path: Path) -> str:
    with pytest.raises(ParamsError) as caught:
        load(path)
    return str(caught.value)


# --- One way to edit a user's file ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("study: default  # ours", "study: headline  # ours"),
        ("study:\n  default", "study:\n  headline"),
        ("study: >-\n  default", "study: >-\n  headline"),
        ("study: 'default' # ours", "study: 'headline' # ours"),
        ('"study": default', '"study": headline'),
        ('study: "def\\\n  ault"', "study: headline"),
        ("study: !!str default", "study: !!str headline"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_word_is_exchanged_and_nothing_else(small, line, then, end):
    before = small.read_text().replace("study: default", line, 1)
    small.write_bytes(("\ufeff# Ö 😀\n" + before).replace("\n", end).encode())
    activate(small, "headline")
    text = ("\ufeff# Ö 😀\n" + before.replace(line, then, 1)).replace("\n", end)
    assert small.read_bytes() == text.encode()
    assert load(small).study.name == "headline"


def test_a_name_that_is_a_word_of_yaml_has_quotes(small):
    Path("studies/yes.yaml").write_text(STUDY)
    activate(small, "yes")
    assert 'study: "yes"\n' in small.read_text() and load(small).study.name == "yes"


def test_an_edit_that_would_change_more_is_not_made(small, monkeypatch):
    text = small.read_text()
    meant = load(small, {"study": "headline"})
    monkeypatch.setattr(writing, "tried", lambda *_: load(small))
    with pytest.raises(ArtifactError, match=r"params\.yaml:\d+: study cannot be changed there alo"):
        writing.exchange(small, small, ("study",), "headline", meant)
    assert small.read_text() == text


def test_a_file_without_the_word_is_named(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("a: 1\nb: {c: [1]}\n")
    with pytest.raises(YamlError, match=r"params\.yaml:1: has no study that can be changed"):
        YamlFile(path).changed(("study",), "x")
    with pytest.raises(YamlError, match=r"params\.yaml:2: has no b\.c that can be changed"):
        YamlFile(path).changed(("b", "c"), "x")


def test_a_link_stays_one_and_a_file_keeps_its_mode(small):
    shutil.move(small, "elsewhere.yaml")
    small.symlink_to("elsewhere.yaml")
    Path("elsewhere.yaml").chmod(0o640)
    activate(small, "headline")
    assert small.is_symlink() and Path("elsewhere.yaml").stat().st_mode & 0o777 == 0o640
    assert "study: headline\n" in Path("elsewhere.yaml").read_text()


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_checksum_is_repinned_in_a_linked_private_file(small, end):
    Path("a.txt").write_text("One.\nTwo.\n")
    write_study(small, "mine", "minilm", Path("a.txt"))
    file, own = Path("studies/mine.yaml"), Path("mine.yaml")
    shutil.move(file, own)
    own.write_bytes(own.read_bytes().replace(b"\n", end.encode()))
    own.chmod(0o600)
    file.symlink_to("../mine.yaml")
    old, before = sha256_file("a.txt"), own.read_bytes()
    Path("a.txt").write_text("One.\nTwo.\nThree.\n")
    said = write_checksum(small, "mine")
    assert re.match(r"studies/mine\.yaml:\d+: datasets\.mine\.source\.sha256 is now ", said)
    assert own.read_bytes() == before.replace(old.encode(), sha256_file("a.txt").encode())
    assert file.is_symlink() and own.stat().st_mode & 0o777 == 0o600


def test_a_file_that_may_not_be_written_is_refused_in_a_line(small):
    small.chmod(0o444)
    text = small.read_text()
    for given in (["study", "headline"], ["new", "mine"], ["migrate"]):
        done = CliRunner().invoke(app, given)
        assert done.exit_code == 1 and done.output.count("\n") == 1, done.output
        if given != ["migrate"]:  # there is nothing to do
            assert done.output.startswith("error: params.yaml is write-protected: `chmod u+w")
    assert small.read_text() == text and small.stat().st_mode & 0o777 == 0o444
    assert not Path("studies/mine.yaml").exists()


def test_new_writes_all_or_nothing(small):
    small.write_text(small.read_text().replace("study: default", "study: [default]"))
    with pytest.raises(ParamsError):
        write_study(small, "half", "minilm", None)
    small.write_text(small.read_text().replace("study: [default]", '"study": default'))
    write_study(small, "half", "minilm", None)
    activate(small, "half")
    assert '"study": half\n' in small.read_text() and load(small).study.name == "half"


def test_a_link_that_leads_nowhere_is_not_written_over(small):
    file = Path("studies/mine.yaml")
    file.symlink_to("nowhere.yaml")
    with pytest.raises((ParamsError, ArtifactError), match=r"mine\.yaml: is a link to a file that"):
        write_study(small, "mine", "minilm", None)
    assert file.is_symlink()


@pytest.mark.parametrize("name", ["yes", "null", "on"])
def test_a_study_can_be_called_as_a_word_of_yaml(small, name):
    Path("a.txt").write_text("One.\nTwo.\n")
    write_study(small, name, "minilm", Path("a.txt"))
    assert load(small).studies[name].datasets == [name]


def test_a_name_that_is_too_long_is_said_to_be(small):
    with pytest.raises(StudyError, match="it has 65 letters, and 64 are the most"):
        write_study(small, "a" * 65, "minilm", None)


def test_a_study_that_is_a_link_is_set_aside_as_what_it_says(small):
    Path("own.yaml").write_text(STUDY)
    Path("studies/own.yaml").symlink_to("../own.yaml")
    done = CliRunner().invoke(app, ["remove", "own", "--yes"])
    assert done.exit_code == 0, done.output
    assert Path("data/set_aside/_studies/own.yaml").read_text() == STUDY
    assert Path("own.yaml").exists() and not Path("studies/own.yaml").is_symlink()


# --- A name is defined once -----------------------------------------------------------------------

DEFINED = {
    "a condition that is built in": (
        "", {"a": "  conditions:\n    zero: {position: intact}\n"},
        r"studies/a\.yaml:6: conditions\.zero is built in \(.*catalogue\.yaml:\d+\) for all "
        r"studies: give it another name",
    ),
    "a mask that is built in": (
        "", {"a": "  masks:\n    closed: {method: slope, position: zero}\n"},
        r"studies/a\.yaml:6: masks\.closed is built in \(.*catalogue\.yaml:\d+\)",
    ),
    "what a grid of another study makes": (
        "", {"a": "  models:\n    gx: {like: decoder, grid: {seed: [1]}}\n",
             "b": "  models:\n    gx_1: {like: decoder_imdb}\n"},
        r"studies/a\.yaml:6: models\.gx\.grid makes 'gx_1', which studies/b\.yaml:6 defines, too",
    ),
    "what a grid of params.yaml makes": (
        "", {"a": "  models:\n    scheme_rotary: {source: {steps: 7}}\n"},
        r"params\.yaml:\d+: models\.scheme\.grid makes 'scheme_rotary', which studies/a\.yaml:6 de",
    ),
    "what a grid makes, as another model": (
        "  scheme_rotary: {like: decoder}\n", {},
        r"params\.yaml:\d+: models\.scheme\.grid makes 'scheme_rotary', which params\.yaml:\d+ def",
    ),
    "what two grids make": (
        "  scheme_x: {like: decoder, grid: {n_layers: [1, 2], seed: [1, 2]}}\n"
        "  scheme_x_1: {like: decoder, grid: {seed: [1, 2]}}\n", {},
        r"params\.yaml:68: models\.scheme_x_1\.grid makes 'scheme_x_1_1', which params\.yaml:67 de",
    ),
    "a data set of params.yaml": (
        "", {"a": "  datasets:\n    imdb_local: {like: sample_reviews}\n"},
        r"studies/a\.yaml:6: datasets\.imdb_local is defined in params\.yaml:\d+ already: give one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DEFINED)
def test_what_something_else_defines_is_refused_with_both_places(small, kind):
    models, studies, message = DEFINED[kind]
    add(small, "models", models)
    for name, lines in studies.items():
        Path(f"studies/{name}.yaml").write_text(f"{STUDY}define:\n{lines}")
    assert re.match(message, refused(small)), refused(small)


# --- Which file, and which line -------------------------------------------------------------------

PLACED = {
    "a kind of experiment": (
        "", "  experiments:\n    foo: {like: sample}\n", r"studies/a\.yaml:6: experiments\.foo: u"
    ),
    "a key of a grid": (
        "  scheme_x:\n    like: decoder\n    grid:\n      n_layer: [1, 2]\n", "",
        r"params\.yaml:70: models\.scheme_x_1\.source\.n_layer: unknown key",
    ),
    "a value of a grid": (
        "  scheme_x:\n    like: decoder\n    grid:\n      n_layers:\n      - 1\n      - a\n", "",
        r"params\.yaml:72: models\.scheme_x_a\.source\.n_layers: is 'a': should be a valid int",
    ),
    "a float in a grid": (
        "  scheme_x: {like: decoder, grid: {learning_rate: [0.001]}}\n", "",
        r"params\.yaml:67: models\.scheme_x\.grid makes 'scheme_x_0\.001', which cannot be a name",
    ),
    "nothing in a grid": (
        "  scheme_x: {like: decoder, grid: {seed: [null]}}\n", "",
        r"params\.yaml:67: models\.scheme_x\.grid makes 'scheme_x_None', which cannot be a name",
    ),
    "a label that is empty": (
        "", "  datasets:\n    own: {like: imdb_local, shown_as: ''}\n",
        r"studies/a\.yaml:6: datasets\.own\.shown_as: is '': ",
    ),
    "a label that is another's": (
        "", "  datasets:\n    own: {like: imdb_local, shown_as: IMDB}\n",
        r"(studies/a\.yaml:6: datasets\.own|params\.yaml:\d\d: datasets\.imdb_local)\.shown_as: "
        r"the datasets .* are both shown as 'IMDB'",
    ),
    "a label with a line's end": (
        "", '  datasets:\n    own: {like: imdb_local, shown_as: "a\\nb"}\n',
        r"studies/a\.yaml:6: datasets\.own\.shown_as: 'a\\nb' contains the control character U\+00",
    ),
    "a merge": (
        "  x: {<<: {like: decoder}}\n", "", r"params\.yaml:67: models\.x: anchors, aliases and m",
    ),
    "a character that is none": (
        "  x: {like: a\x00b}\n", "", r"params\.yaml:67: not valid YAML: the control char",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLACED)
def test_a_mistake_is_named_where_it_was_written(small, kind):
    models, lines, message = PLACED[kind]
    add(small, "models", models)
    if lines:
        Path("studies/a.yaml").write_text(f"{STUDY}define:\n{lines}")
    said = refused(small)
    assert re.match(message, said) and len(said.splitlines()) == 1, said


def test_a_value_that_a_grid_lists_is_found_there(small):
    said, _ = Layers(small).place(("models", "scheme_alibi", "source", "positions"))
    line = small.read_text().splitlines()[int(said.split(":")[1]) - 1]
    assert line == "    grid: {positions: [learned, sinusoidal, alibi, rotary, none]}"
    add(small, "models", "  scheme_alibi:\n    source: {positions: rotary}\n")
    said, _ = Layers(small).place(("models", "scheme_alibi", "source", "positions"))
    assert said == "params.yaml:68"


def test_a_study_is_not_taken_for_what_it_is_like(small):
    Path("studies/foo.yaml").write_text("like: fo\n")
    assert "did you mean 'foo'" not in refused(small)
    assert refused(small).startswith("studies/foo.yaml:1: studies.foo.like names 'fo'")


def test_a_long_chain_of_likes_ends_in_a_line(small):
    for number in range(150):
        like = f"c{number - 1}" if number else "default"
        Path(f"studies/c{number}.yaml").write_text(f"like: {like}\n")
    assert re.fullmatch(
        r"studies/c\d+\.yaml:1: studies\.c\d+\.like: more than 100 .*", refused(small)
    )


def test_files_that_are_no_study_are_named_in_a_line_each(small):
    names = ["foo.yml", "foo.YAML", "default (1).yaml", "Foo2.yaml", f"{'a' * 65}.yaml"]
    for name in names:
        shutil.copy("studies/default.yaml", f"studies/{name}")
    Path("studies/link.yaml").symlink_to("nowhere")
    lines = refused(small).splitlines()
    assert {line.split(": ")[0] for line in lines} == {
        f"studies/{n}" for n in [*names, "link.yaml"]
    }
    assert len(lines) == 6 and "pattern" not in refused(small)
    assert any("a study cannot be called 'default (1)': take lower-case" in line for line in lines)
    assert any(line.endswith("the file of a study ends in .yaml: rename it, or move it away")
               for line in lines)  # fmt: skip


def test_an_argument_is_not_looked_for_in_the_file(small):
    done = CliRunner().invoke(app, ["check", "nope"])
    assert done.output.startswith("error: there is no study 'nope'; known: ")
    planned = CliRunner().invoke(app, ["plan", "headline"])
    assert planned.output.startswith("error: 'headline' is a study: `posenc study headline` makes")


def test_a_plan_of_a_file_that_nothing_makes_is_a_line(small, monkeypatch):
    said = "Building DAG of jobs...\nMissingRuleException:\nNo rule to produce nope (if you use\n"
    done = subprocess.CompletedProcess([], 1, said, "Using profile.\n")
    monkeypatch.setattr(results, "run", lambda *_, **__: done)
    planned = CliRunner().invoke(app, ["plan", "nope"])
    assert planned.exit_code == 1 and planned.output.splitlines()[-1:] == [
        "error: the study has no nope: name files of it, or none for all"
    ]
    assert "MissingRule" not in planned.output


def test_what_does_not_fit_a_measurement_is_said_in_plain_words(small):
    Path("studies/a.yaml").write_text(f"{STUDY}parameters: {{choices: {{conditions: [nope]}}}}\n")
    said = refused(small)
    assert said.startswith(
        "studies/a.yaml:4: studies.a.parameters.choices.conditions: intact is not"
    )


# --- Files of one's own ---------------------------------------------------------------------------


def test_a_data_set_of_a_study_is_named_with_the_study_s_file(small):
    Path("a.txt").write_text("One.\nTwo.\n")
    write_study(small, "mine", "minilm", Path("a.txt"))
    activate(small, "mine")
    Path("a.txt").write_text("One.\nThree.\n")
    done = CliRunner().invoke(app, ["check"])
    (line,) = [line for line in done.output.splitlines() if "is not what was expected" in line]
    assert re.search(r"datasets\.mine\.source\.sha256 in studies/mine\.yaml:\d+ says", line), line
    Path("a.txt").unlink()
    done = CliRunner().invoke(app, ["repin", "mine"])
    assert re.search(r"change datasets\.mine\.source\.path in studies/mine\.yaml:\d+ ", done.output)


def test_a_plan_says_which_file_has_changed_since_it_was_taken_in(small):
    from posenc.study.sources import changed

    Path("a.txt").write_text("One.\nTwo.\n")
    write_study(small, "mine", "minilm", Path("a.txt"))
    params = load(small, {"study": "mine"})
    assert list(changed(params)) == []
    raw = Path("data/raw/mine/raw")
    raw.parent.mkdir(parents=True)
    shutil.copy("a.txt", raw)
    assert list(changed(params)) == []
    Path("a.txt").write_text("One.\nTwo.\nThree.\n")
    (line,) = changed(params)
    assert line.startswith("a.txt is not what was expected") and "studies/mine.yaml:" in line


# --- Options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["new", "x", "--text", ""], "--text is empty"),
        (["new", "x", "--text", "a.csv", "--column", ""], "--column is empty"),
        (["new", "x", "--model", ""], "--model is empty"),
        (["new", ""], "NAME is empty"),
        (["models", ""], "NAMES is empty"),
        (["survey", "", "--text", "a"], "MODELS is empty"),
        (["new", "x", "--text", "a", "--text", "b"], "--text is given twice: give it once"),
        (["show", "study", "--study", "a", "--study", "b"], "--study is given twice: give it once"),
    ],
)
def test_words_that_are_empty_or_there_twice_are_refused(project, given, message):
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 1 and done.output.startswith(f"error: {message}"), done.output
    assert done.output.count("\n") == 1


def test_without_git_nothing_is_sent_and_it_is_said_once(project):
    for command in ("push", "pull"):
        done = CliRunner().invoke(app, [command])
        assert done.exit_code == 1 and done.output.startswith("error: nothing is "), done.output


# --- posenc migrate -------------------------------------------------------------------------------

OLD = Path(__file__).with_name("params_of_before.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"params\.yaml: no such file"),
        ("FOLDER", r"params\.yaml: Is a directory"),
        ("study: ä\n".encode("utf-16"), r"params\.yaml:1: byte 0 \(0xff\) is not UTF-8"),
        ("a: 1\nstudy: ä\n".encode("latin-1"), r"params\.yaml:2: byte \d+ \(0xe4\) is not UTF-8"),
        (b"study: a\nstudies: {1: {}}\n", r"params\.yaml:1: study: is 'a', which is not one of"),
        (b"study: {x: 1}\nstudies: {a: {models: [b]}}\n", r"params\.yaml:1: study: is no name: "),
        (b"study: a\nstudies: {a: {models: [b}\n", r"params\.yaml:2: not valid YAML"),
        (b"study: a\nstudies: []\n", r"params\.yaml:\d: "),
        (OLD.read_bytes().replace(b"n_layers: 4", b"n_layers: x", 1),
         r"params\.yaml:\d+: models\.\w+\.source\.n_layers: is 'x'"),
    ],
)  # fmt: skip
def test_an_older_file_that_is_wrong_ends_in_a_line_with_its_place(tmp_path, content, message):
    path = tmp_path / "params.yaml"
    if content == "FOLDER":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises((ParamsError, StudyError)) as caught:
        migrate(path)
    said = str(caught.value).replace(f"{tmp_path}/", "")
    assert re.match(message, said), said
    assert len(list(tmp_path.iterdir())) == (content is not None)


def test_a_value_that_is_merged_in_is_named_where_it_was_written(tmp_path):
    text = OLD.read_text()
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "n_layers: 4" in one)
    (tmp_path / "params.yaml").write_text(text.replace("n_layers: 4", "n_layers: x", 1))
    with pytest.raises(ParamsError, match=rf"params\.yaml:{line}: models\.\w+\.source\.n_layers"):
        migrate(tmp_path / "params.yaml")


@pytest.mark.parametrize("what", ["file", "link"])
def test_migrate_leaves_all_as_it_is_if_studies_is_no_folder(tmp_path, what):
    path, folder = tmp_path / "params.yaml", tmp_path / "studies"
    path.write_bytes(OLD.read_bytes())
    folder.write_text("mine") if what == "file" else folder.symlink_to("nowhere")
    with pytest.raises(StudyError, match="studies is there already: move it away"):
        migrate(path)
    assert {file.name for file in tmp_path.iterdir()} == {"params.yaml", "studies"}
    assert path.read_bytes() == OLD.read_bytes()


def test_migrate_keeps_a_link_and_the_mode(tmp_path):
    path, own = tmp_path / "params.yaml", tmp_path / "own.yaml"
    own.write_bytes(OLD.read_bytes())
    own.chmod(0o600)
    path.symlink_to("own.yaml")
    migrate(path)
    assert path.is_symlink() and own.stat().st_mode & 0o777 == 0o600
    assert "studies:" not in own.read_text() and load(path).studies


# --- What docs/studies.md shows -------------------------------------------------------------------


def block_of(heading: str) -> str:
    page = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    return re.search(r"```yaml\n(.*?)```", page.partition(f"\n{heading}\n")[2], re.DOTALL)[1]


def test_the_smaller_study_of_the_page_is_one(small):
    Path("studies/quick.yaml").write_text(block_of("### A smaller study"))
    study = load(small, {"study": "quick"}).study
    assert study.experiments.kinds == ["memory_networks"] and study.documents == []


def test_the_keys_that_the_page_calls_required_are_enough(small):
    Path("studies/a.yaml").write_text(
        "models: [minilm]\npretrained: [minilm]\ndatasets: [imdb_local]\n"
    )
    assert load(small).studies["a"].conditions == ["intact", "zero"]
    Path("studies/a.yaml").write_text("")
    assert "must be a mapping" in refused(small)


def test_the_experiment_of_the_page_is_one(small):
    lines = block_of("## An experiment that trains").partition("  tokenizers:\n")[2]
    text = small.read_text()
    small.write_text(text.replace("\n  tokenizers:\n", f"\n  tokenizers:\n{lines}", 1).replace(
        "\ndatasets:\n", "\ndatasets:\n  my_reviews: {like: sample_reviews}\n", 1))  # fmt: skip
    assert load(small).experiments.tokenizers["mine"].vocabulary_size == 8000
