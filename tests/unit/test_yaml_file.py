"""params.yaml as text: what YAML 1.1 and 1.2 read differently is refused, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML

from posenc.config.yaml_file import MAX_DEPTH, YamlError, YamlFile
from posenc.study.layers import BUILT_IN
from posenc.study.params import ParamsError, load
from tests.copies import copy_params

ROOT = Path(__file__).parents[2]
SHIPPED = (ROOT / "params.yaml").read_text()
WHOLE = [ROOT / "params.yaml", BUILT_IN, *sorted((ROOT / "studies").glob("*.yaml"))]
"""All that a shipped study is read from."""


def refused(tmp_path: Path, content: str | bytes) -> str:
    """The message with which a file is refused, without the folder."""
    path = tmp_path / "params.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(YamlError) as caught:
        YamlFile(path)
    return str(caught.value).replace(f"{tmp_path}/", "")


def accepted(tmp_path: Path, content: str) -> YamlFile:
    path = tmp_path / "params.yaml"
    path.write_text(content)
    return YamlFile(path)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_the_shipped_files_are_what_both_libraries_read(tmp_path, path):
    text = path.read_text()
    value = accepted(tmp_path, text).value
    assert value == YAML(typ="safe", pure=True).load(text) == yaml.safe_load(text)


def test_dvc_changes_one_value_and_leaves_every_other_line(tmp_path):
    """As `dvc exp run -S` does."""
    from dvc.utils.hydra import apply_overrides

    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    for edit, before, after in (
        ("models.decoder.source.steps=500", "      steps: 400", "      steps: 500"),
        ("datasets.sample_reviews.evaluation.documents=30",
         "    evaluation: {split: test, documents: 60, seed: 1}",
         "    evaluation: {split: test, documents: 30, seed: 1}"),
        ("study=local", "study: default", "study: local"),
    ):  # fmt: skip
        text = path.read_text().splitlines()
        apply_overrides(str(path), [edit])
        now = path.read_text().splitlines()
        pairs = [pair for pair in zip(text, now, strict=True) if pair[0] != pair[1]]
        assert pairs == [(before, after)]
    params = load(path)
    assert params.study.name == "local" and params.models["decoder"].source.steps == 500


@pytest.mark.parametrize(
    ("scalar", "said"),
    [
        # Octal, sexagesimal, truth values: the two versions read them differently.
        ("020000", "is 20000 in YAML 1.2 and 8192 in YAML 1.1"),
        ("09", "is 9 in YAML 1.2 and '09' in YAML 1.1"),
        ("0o17", "is 15 in YAML 1.2 and '0o17' in YAML 1.1"),
        ("1:40:00", "is '1:40:00' in YAML 1.2 and 6000 in YAML 1.1"),
        ("12:30.5", "is '12:30.5' in YAML 1.2 and 750.5 in YAML 1.1"),
        ("yes", "is 'yes' in YAML 1.2 and true in YAML 1.1"),
        ("Off", "is 'Off' in YAML 1.2 and false in YAML 1.1"),
        # Both libraries read these alike, YAML 1.2 does not.
        ("1_000", "is a number to some readers of YAML only: write 1000"),
        ("0b11", "is a number to some readers of YAML only: write 3"),
        ("2020-01-01", "is read as timestamp"),
        ("=", "is read as value"),
        ("!!binary abc=", "is read as binary"),
        ("!!python/tuple [1]", "has the tag tag:yaml.org,2002:python/tuple"),
        # What ends in a library's traceback.
        ("2020-13-45", "is read as timestamp"),
        ("!!int abc", "cannot be read as int"),
        ("!!bool maybe", "cannot be read as bool"),
        ("0x" + "f" * 6000, "is too long for a number"),
        ("1" * 6000, "is too long for a number"),
        ("*nobody", "anchors, aliases and merges"),
        ('"\\ud800"', "not valid YAML"),
        ("a\x01b", "not valid YAML"),
    ],
)
def test_what_has_two_meanings_or_none_is_refused_with_its_line(tmp_path, scalar, said):
    message = refused(tmp_path, f"first: 1\nkey:\n  tokens: {scalar}\nlast: 2\n")
    assert said in message and len(message.splitlines()) == 1 and len(message) < 200
    if "\x01" not in scalar:  # the libraries do not say where such a character is
        assert message.startswith("params.yaml:3: ")


@pytest.mark.parametrize(
    "scalar",
    ["4e-3", "1e3", "1.5e3", "5E-05", "3", "0x1F", ".5", "-.inf", "true", "~", "text", "'yes'",
     '"020000"', "!!str 020000"],
)  # fmt: skip
def test_what_all_commands_read_alike_is_accepted(tmp_path, scalar):
    assert accepted(tmp_path, f"key: {scalar}\n").value == YAML(typ="safe").load(f"key: {scalar}")


def test_a_number_that_dvc_writes_is_read(tmp_path):
    """`dvc exp run -S` writes 5e-05, which is a word in YAML 1.1."""
    from dvc.utils.hydra import apply_overrides

    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    apply_overrides(str(path), ["models.decoder.source.learning_rate=5e-5"])
    assert "learning_rate: 5e-05" in path.read_text()
    assert load(path).models["decoder"].source.learning_rate == 0.00005


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a: 1\nb: 2\na: 3", "params.yaml:3: the key 'a' is there twice, first in line 1"),
        ("a:\n  b: 1\n  b: 1", "params.yaml:3: a: the key 'b' is there twice, first in line 2"),
        # `dvc exp run -S` copies what anchors share into its users.
        ("a: 1\nb: &b {c: 1}\nd: {<<: *b}", "params.yaml:2: anchors, aliases and merges"),
        ("a: 1\nb: *a", "params.yaml:2: anchors, aliases and merges (&, *, <<) are no longer read"),
        ("a: 1\nb: {<<: {c: 1}}", "params.yaml:2: b: anchors, aliases and merges"),
        ("a: 1\n3: 2", "params.yaml:2: the key 3 is not a word to every reader: put it in quotes"),
        ("a: 1\nno: 2", "params.yaml:2: the key no is not a word to every reader"),
        ("a: 1\n? [b]\n: 2", "params.yaml:2: a key must be a word"),
        ("a: 1\nb: {c: 1", "params.yaml:3: not valid YAML: "),
        ("a: 1\nb: {c: 1\n\nd: 2", "(it begins in line 2)"),
        ('a: 1\nb: "c\n\nd: 2', "(it begins in line 2)"),
        ("a: 1\n\tb: 2", "params.yaml:2: not valid YAML: "),
        ("a: 1\n---\nb: 2", "params.yaml:2: not valid YAML: "),
        # Nesting, in both styles.
        ("a: 1\nb: " + "[" * 100_000, f"params.yaml:2: is nested more than {MAX_DEPTH} deep"),
        ("\n".join(f"{' ' * depth}a:" for depth in range(2000)), "is nested more than"),
        ("a: " + "{b: " * 500 + "1" + "}" * 500, "is nested more than"),
    ],
)  # fmt: skip
def test_structure_that_is_wrong_is_refused_once_with_its_line(tmp_path, lines, said):
    message = refused(tmp_path, f"{lines}\n")
    assert said in message and message.startswith("params.yaml:")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("encoded", "said"),
    [
        ("a: 1\nb: café\n".encode("latin-1"), "params.yaml:2: byte 11 (0xe9) is not UTF-8"),
        ("a: 1\n".encode("utf-16"), "params.yaml:1: byte 0 (0xff) is not UTF-8"),
    ],
)
def test_a_file_that_is_not_utf_8_is_refused(tmp_path, encoded, said):
    assert said in refused(tmp_path, encoded)


def test_several_mistakes_are_listed_with_their_lines(tmp_path):
    message = refused(tmp_path, "a: yes\nb: [010]\nd: 1\nd: 2\n")
    assert [line.split(":")[1] for line in message.splitlines()] == ["4", "1", "2"]


def test_a_place_is_that_of_the_key_or_of_what_should_have_it(tmp_path):
    file = accepted(tmp_path, "a:\n  x: 1\n  y:\n    - 7\n    - 8\nb: {x: 2}\n")
    places = {
        ("a", "x"): (2, 2), ("a", "y", 1): (5, 3), ("b", "x"): (6, 2), ("b", "absent"): (6, 1),
        ("a", "y", 9): (3, 2), (): (1, 0), ("c", "d"): (1, 0),
    }  # fmt: skip
    assert {location: file.place(location) for location in places} == places


def test_the_study_must_be_a_name(tmp_path):
    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    line = SHIPPED[: SHIPPED.index("study: default")].count("\n") + 1
    for written, said in (
        ("reel", rf":{line}: study: is 'reel', which is not one of studies; did you mean 'real'"),
        ("null", rf":{line}: study: is no name: write it alone, as in `study: NAME`"),
        ("[local]", rf":{line}: study: is no name"),
        ("{name: local, title: Another}", rf":{line}: study: is no name: .*`study: local`"),
    ):
        path.write_text(SHIPPED.replace("study: default", f"study: {written}"))
        with pytest.raises(ParamsError, match=said):
            load(path)
    path.write_text(SHIPPED.replace("study: default", "study: local"))
    assert load(path).study.name == "local"


def test_config_takes_a_study_and_nothing_else():
    assert load(ROOT / "params.yaml", {"study": "real"}).study.name == "real"
    assert load(ROOT / "params.yaml", {}).study.name == "default"
    for config, said in (
        ({"study": "reel"}, "there is no study 'reel'; did you mean 'real'"),
        ({"study": 1}, "there is no study '1'"),
        ({"seed": 1}, "--config: seed: only study=NAME is taken"),
        ({"activations": {"dtype": "float32"}}, "--config: activations: only study=NAME"),
    ):
        with pytest.raises(ParamsError, match=said):
            load(ROOT / "params.yaml", config)


def test_a_file_that_is_absent_or_empty_is_named(tmp_path):
    with pytest.raises(ParamsError, match=r"no such file; run from the project's root"):
        load(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("# nothing\n")
    with pytest.raises(ParamsError, match=r"params\.yaml: must be a mapping of sections"):
        load(tmp_path / "params.yaml")
    with pytest.raises(ParamsError, match=r"Is a directory"):
        load(tmp_path)
