"""The page on conditions, followed by the letter."""

import re
import shutil
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from posenc.conditions import positions, profiles, semantics
from posenc.conditions.section import BIASES, FACTORS
from tests.copies import whole_params

from .synthetic import PROJECT

PAGE = (PROJECT / "docs/conditions.md").read_text(encoding="utf-8")
OWN = PAGE.split("## A mask profile of your own")[1]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", OWN, re.DOTALL)


def test_the_page_names_all_there_is():
    for name in [*FACTORS, *BIASES, "additive", *semantics.semantics.functions]:
        assert f"`{name}`" in PAGE, name
    for name in positions.position.functions:
        assert f"`{name}`" in PAGE or f"kind: {name}" in PAGE, name


def test_a_profile_of_one_s_own_takes_less_than_20_lines(tmp_path):
    """Copied from the page into a copy of the package: checked, tested, and computed with."""
    function, test = blocks("python")
    (line,) = blocks("yaml")
    written = [row for block in (function, test, line) for row in block.splitlines() if row]
    assert len(written) < 20
    shutil.copytree(PROJECT / "workflow/posenc", tmp_path / "workflow/posenc")
    path = tmp_path / "workflow/posenc/conditions/profiles.py"
    path.write_text(f"{path.read_text()}\n\n{function}")
    params = whole_params()
    params["conditions"].update(YAML(typ="safe").load(line))
    params["studies"]["default"]["evaluated"].append("zero_cosine")
    for dataset in params["datasets"].values():
        file = dataset.get("source", {}).get("path")
        if file and (PROJECT / file).is_file():  # as after "Add a data set" of the recipes
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / file, tmp_path / file)
    with (tmp_path / "params.yaml").open("w") as file:
        YAML(typ="safe").dump(params, file)
    (tmp_path / "test_profiles.py").write_text(test)

    def run(*command: str) -> subprocess.CompletedProcess:
        environment = {"PYTHONPATH": "workflow", "PATH": "/usr/bin:/bin"}
        return subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True,
            text=True,
        )  # fmt: skip

    checked = run("-m", "posenc.cli", "check")
    assert checked.returncode == 0 and "params.yaml is valid" in checked.stdout, checked.stderr
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_profiles.py")
    assert "1 passed" in tested.stdout, tested.stdout
    computed = run(
        "-c",
        "from posenc.study.params import load; from posenc.conditions import profiles, semantics;"
        "mask = load('params.yaml').conditions['zero_cosine'].mask;"
        "m = profiles.factor.call(mask.profile, profiles.Document(3));"
        "print(semantics.semantics.call(mask.semantics, m, True).bias.round(4).tolist())",
    )
    assert computed.stdout.strip() == "[[-2.3026, -0.5978, 0.0]]", computed.stderr


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("zero_alibi", {"position": "zer"}, r"conditions\.zero_alibi\.position: is 'zer'"),
        ("zero_alibi", {"position": {"kind": "shift"}}, r"position\.by: is missing"),
        ("zero_alibi",
         {"mask": {"semantics": "log_mask", "profile": {"kind": "alibi", "slope": 1}}},
         r"semantics 'log_mask' does not take the profile 'alibi': additive takes alibi"),
        ("zero_alibi", {"mask": {"semantics": "log_mask", "profile": {"kind": "linear"}}},
         r"mask\.profile\.floor: is missing"),
        ("intact_sliding_128", {"segments": 4, "stride": 5},
         r"stride 5 needs segments of so many tokens at least, not 4"),
        ("intact_sliding_128", {"stride": 5}, r"stride 5 needs segments .* not None"),
        ("zero_alibi", {"mask": {"semantics": "log", "profile": {"kind": "linear", "floor": 0.1}}},
         r"mask\.semantics: is 'log'"),
        ("zero_alibi", {"mask": {"semantics": "additive",
                                 "profile": {"kind": "learned", "mask": "fited"}}},
         r"names 'fited', which is not defined in masks; did you mean 'fitted'\?"),
        ("zero_alibi", {"position": {"kind": "learned", "mask": "slope_zero"}},
         r"names the mask 'slope_zero', which learns no position"),
        ("zero_alibi", {"position": {"kind": "learned", "mask": "fitted_added"}},
         r"zero_alibi\.position\.added is false, but the vectors of the mask 'fitted_added' were "
         r"learned added to the embeddings: write added: true, or name another mask"),
        ("fitted", {"position": {"kind": "learned", "mask": "fitted", "added": True}},
         r"fitted\.position\.added is true, .* in place of the embeddings: write added: false"),
        ("zero_alibi", {"mask": {"semantics": "emb_mul", "layers": [0],
                                 "profile": {"kind": "linear", "floor": 0.1}}},
         r"'emb_mul' acts before the first block"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(key, value, message):
    from posenc.study.params import ParamsError, validate

    params = whole_params()
    params["conditions"][key] = value
    with pytest.raises(ParamsError, match=message):
        validate(params)


def test_a_mistake_in_a_sweep_is_named():
    from posenc.study.params import ParamsError, validate

    for key, value, message in (
        ("key", "mask.slop", r"sweeps\.slope: the condition 'zero_alibi' has no key mask\.slop"),
        ("values", [-1.0, 1.0], r"sweeps\.slope: mask\.profile\.slope cannot be -1\.0"),
        ("conditions", ["zero_alib"], r"did you mean 'zero_alibi'"),
    ):
        params = whole_params()
        params["sweeps"]["slope"][key] = value
        with pytest.raises(ParamsError, match=message):
            validate(params)


def test_a_study_is_calibrated_on_its_own_data():
    from posenc.study.params import ParamsError, validate

    for name, message in (
        ("imbd", r"studies\.default\.calibration names 'imbd', .*did you mean 'imdb'"),
        ("sample_questions", r"give datasets\.sample_questions a calibration"),
    ):
        params = whole_params()
        params["studies"]["default"]["calibration"] = name
        with pytest.raises(ParamsError, match=message):
            validate(params)


def test_text_is_not_calibrated_and_evaluated_on():
    from posenc.study.params import ParamsError, validate

    for split, message in (
        ("test", r"calibration\.split is 'test', which is evaluated on"),
        ("train", r"decoder is trained on the split 'train' of sample_reviews, which masks are"),
    ):
        params = whole_params()
        params["datasets"]["sample_reviews"]["calibration"]["split"] = split
        with pytest.raises(ParamsError, match=message):
            validate(params)


def test_profiles_are_numbers_of_each_pair():
    """Every factor lies between 0 and 1 and ends with 1; every bias is 0 at distance 0."""
    parameters = {"floor": 0.2, "exponent": 2.0, "value": 1.0, "slope": 0.5, "tokens": 2}
    for registry, places in (
        (profiles.factor, profiles.Document(5)),
        (profiles.bias, profiles.Places.of(5, 4)),
    ):
        for name, section in registry.sections.items():
            if name == "learned":
                continue
            given = {k: parameters[k] for k in section.model_fields if k in parameters}
            numbers = registry.call(section(kind=name, **given), places)
            if registry is profiles.factor:
                assert numbers.shape[-1] == 5 and numbers.min() >= 0 and numbers[..., -1] == 1
            else:
                assert numbers.shape[-2:] == (5, 5) and numbers.max() <= 0
                assert not numbers[..., range(5), range(5)].any()
