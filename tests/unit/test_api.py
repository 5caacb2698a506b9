"""The Python API: what is loaded by name, what is refused, its page and its examples."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import transformers

import posenc
from posenc.api import PLACES, running
from posenc.artifacts.files import ArtifactError
from posenc.conditions.learned import LearnedMask, write
from posenc.models.files import CONFIG, TOKENIZER
from posenc.models.references import WEIGHTS
from posenc.tokens.tokenize import END_OF_TEXT, tokenize
from tests.copies import copy_params

from .api_models import FAMILIES, saved, words
from .synthetic import PROJECT

PAGE = (PROJECT / "docs/python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
*OURS, PLAIN, LENS = BLOCKS
TEXTS = ["the film was good", "the plot was slow again", ""]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def study(here) -> Path:
    """A folder with params.yaml, in which its models decoder and gpt2 are made already."""
    copy_params(here)
    for name in ("decoder", "gpt2"):
        folder, tokenizer = here / "data/models" / name, here / "data/tokenizers" / name
        tokenizer.mkdir(parents=True)
        shutil.move(saved("gpt2", folder) / TOKENIZER, tokenizer)
    return here


@pytest.fixture
def tiny(here) -> posenc.Model:
    saved("gpt2", here / "tiny")
    return posenc.load("tiny")


def test_importing_the_package_imports_no_torch():
    program = (
        "import sys, posenc; dir(posenc);"
        "print([m for m in ('torch', 'transformers', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_types_are_of_what_there_is():
    stub = ast.parse(Path(posenc.__file__).with_suffix(".pyi").read_text())
    modules = {
        line.names[0].asname: line.module for line in stub.body if isinstance(line, ast.ImportFrom)
    }
    assert modules == PLACES and set(PLACES) <= set(dir(posenc))
    for name in PLACES:
        assert getattr(posenc, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'laod'"):
        posenc.laod  # noqa: B018


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_says_what_its_model_is(here, family):
    saved(family, here / "model")
    model = posenc.load(here / "model")
    expected = {
        "family": family,
        "kind": "decoder" if family in ("gpt2", "llama") else "encoder",
        "position": "rotation" if family == "llama" else "table",
        "max_tokens": 46 if family == "roberta" else 48,
    }
    assert model.reading.model_dump() == expected
    assert model.name == str(here / "model")
    assert not model.network.training


def test_a_model_of_params_is_read_as_params_say(study):
    model = posenc.load("decoder")
    assert model.reading.max_tokens == 128
    assert repr(model) == "Model('decoder', family='gpt2', max_tokens=128)"


def test_a_model_that_is_not_made_yet_names_the_command(study):
    with pytest.raises(posenc.ModelError, match="makes it") as error:
        posenc.load("bert")
    (command,) = re.findall(r"`(.+?)`", str(error.value))
    assert command == (
        "snakemake --cores 8 -- data/models/bert/model.safetensors "
        "data/tokenizers/bert/tokenizer.json"
    )


def test_a_name_of_the_hub_is_fetched(here, monkeypatch):
    import huggingface_hub

    folder, asked = saved("gpt2", here / "cache"), []

    def snapshot(name, revision, allow_patterns):
        asked.append((name, revision))
        if name != "someone/gpt2":
            raise OSError("404")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    model = posenc.load("someone/gpt2", revision="v1")
    assert asked == [("someone/gpt2", "v1")] and model.name == "someone/gpt2"
    with pytest.raises(posenc.ModelError, match=r"'gpt-9' is no model.*check the name and the net"):
        posenc.load("gpt-9")
    with pytest.raises(posenc.ModelError, match=r"there is no folder \./gpt2"):
        posenc.load("./gpt2")


def test_a_name_that_is_nearly_one_is_answered(study, monkeypatch):
    import huggingface_hub

    def absent(*_, **__):
        raise OSError("404")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", absent)
    with pytest.raises(
        posenc.ModelError, match=r"params\.yaml here; did you mean 'decoder'\?, no fol"
    ):
        posenc.load("decodr")


def test_a_package_that_carries_weights_is_read(here, monkeypatch):
    saved("gpt2", here / "weights")
    (here / "carrying.py").write_text("def get_model_path(): return 'weights'\n")
    (here / "empty_package.py").write_text("")
    monkeypatch.syspath_prepend(here)
    assert posenc.load("carrying").reading.family == "gpt2"
    with pytest.raises(posenc.ModelError, match=r"neither a \.gguf file nor get_model_path"):
        posenc.load("empty_package")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / CONFIG).unlink(), "has no config.json"),
        (lambda folder: (folder / WEIGHTS).unlink(), "has no model.safetensors"),
        (lambda folder: (folder / TOKENIZER).unlink(), "has no tokenizer.json"),
        (lambda folder: (folder / CONFIG).write_text('{"model_type": "t5"}'),
         "type 't5' is an encoder and a decoder in one"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b"damaged"), "damaged"),
        (lambda folder: (folder / CONFIG).write_text(
            json.dumps({**json.loads((folder / CONFIG).read_text()), "n_layer": 3})),
         "implies 3"),
    ],
)  # fmt: skip
def test_a_folder_that_is_not_whole_is_named(here, spoil, message):
    spoil(saved("gpt2", here / "model"))
    with pytest.raises((posenc.ModelError, ArtifactError), match=message):
        posenc.load("model")


def test_texts_are_read_as_the_workflow_reads_them(tiny):
    table = tokenize(tiny.tokenizer, ["0", "1", "2"], TEXTS, 4, True)
    with pytest.warns(UserWarning, match="2 of 3 texts are longer than 4 tokens and were cut"):
        run = posenc.run(tiny, TEXTS, max_tokens=4)
    assert [ids.tolist() for ids in run.ids] == table["input_ids"].to_pylist()
    assert run.tokens == [
        ["<|endoftext|>", "the", "film", "was"],
        ["<|endoftext|>", "the", "plot", "was"],
        ["<|endoftext|>"],
    ]


def test_the_table_and_the_perplexity_are_of_the_losses(tiny):
    run = posenc.run(tiny, TEXTS)
    frame = run.frame()
    assert frame["document"].tolist() == [0] * 5 + [1] * 6 + [2]
    assert frame["position"].tolist() == [*range(5), *range(6), 0]
    assert frame["token"].tolist() == [token for document in run.tokens for token in document]
    assert np.flatnonzero(frame["nll"].isna()).tolist() == [0, 5, 11]
    np.testing.assert_array_equal(frame["nll"].dropna(), np.concatenate(run.nll))
    total = sum(float(loss) for row in run.nll for loss in row)
    assert run.perplexity == pytest.approx(math.exp(total / 9))
    assert set(frame["condition"]) == {"intact"}
    assert posenc.run(tiny, []).frame().empty


def test_losses_alone_are_the_same(tiny):
    run = posenc.run(tiny, TEXTS, activations=False)
    for ours, theirs in zip(run.nll, posenc.run(tiny, TEXTS).nll, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for name in ("hidden_states", "queries", "keys"):
        with pytest.raises(posenc.ConditionError, match="activations=False"):
            getattr(run, name)
    with pytest.raises(posenc.ConditionError, match="patterns=True"):
        _ = run.patterns


def test_what_is_no_perplexity_is_refused(tiny, here, study):
    with pytest.raises(posenc.ConditionError, match="no token was predicted"):
        _ = posenc.run(tiny, [""]).perplexity
    with posenc.under(tiny, "zero_hf_sdpa_cpu"):
        run = posenc.run(tiny, TEXTS)
    with pytest.raises(posenc.ConditionError, match="queries see the future"):
        _ = run.perplexity
    saved("bert", here / "encoder")
    encoder = posenc.run(posenc.load("encoder"), TEXTS)
    assert encoder.nll is None and encoder.frame()["nll"].isna().all()
    with pytest.raises(posenc.ConditionError, match="is an encoder"):
        _ = encoder.perplexity


def test_texts_that_are_none_are_refused(tiny, here):
    with pytest.raises(ValueError, match="give a list of texts"):
        posenc.run(tiny, "the film")
    larger = words(True)
    larger.add_tokens([f"word{number}" for number in range(40)])
    other = posenc.Model("other", tiny.network, larger, tiny.reading)
    with pytest.raises(ValueError, match=r"texts\[1\] has the token \d+, but the model has 40"):
        posenc.run(other, ["the", "word39"])
    saved("bert", here / "encoder")
    encoder = posenc.load("encoder")
    plain = posenc.Model("plain", encoder.network, words(True), encoder.reading)
    with pytest.raises(ValueError, match=r"texts\[0\] has no tokens"):
        posenc.run(plain, [""])


def test_too_short_a_limit_and_what_is_no_model_are_refused(tiny, here):
    saved("bert", here / "encoder")
    special = posenc.load("encoder").tokenizer.num_special_tokens_to_add(False)
    for model, fewest in ((tiny, 2), (posenc.load("encoder"), special + 1)):
        for limit in (-1, 0, fewest - 1):
            with pytest.raises(ValueError, match=rf"max_tokens is {limit}: .* at least {fewest}$"):
                posenc.run(model, ["the film was"], max_tokens=limit)
        with pytest.warns(UserWarning, match="were cut"):
            (ids,) = posenc.run(model, ["the film was good"], max_tokens=fewest).ids
        assert len(ids) == fewest
    with pytest.raises(TypeError, match=r"give posenc\.load\('gpt2'\)"):
        posenc.run("gpt2", ["the film"])
    with pytest.raises(TypeError, match="the model is 'gpt2'"), posenc.under("gpt2", "intact"):
        raise AssertionError


def test_a_condition_may_be_a_dict(tiny):
    losses = []
    for condition in ({"position": "zero"}, posenc.Condition(position="zero")):
        with posenc.under(tiny, condition):
            run = posenc.run(tiny, ["the film was good"])
        assert run.condition == '{"position": "zero"}'
        losses.append(run.nll[0])
    assert np.array_equal(*losses)
    with pytest.raises(TypeError, match="the condition is None"), posenc.under(tiny, None):
        raise AssertionError


def test_long_runs_show_their_progress_and_short_ones_nothing(tiny, capfd, monkeypatch):
    posenc.run(tiny, TEXTS)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(running, "PROGRESS_AFTER", 0)
    posenc.run(tiny, TEXTS)
    assert "tiny: 100%" in capfd.readouterr().err


def test_conditions_that_cannot_be_are_refused(tiny, study):
    def refused(condition, message):
        with pytest.raises(posenc.ConditionError, match=message), posenc.under(tiny, condition):
            raise AssertionError

    said = (
        r"is not in conditions of params.yaml in this folder; did you mean 'zero_alibi'\?, or give"
    )
    refused("zero_alibbi", f"'zero_alibbi' {said}")
    refused("bands_high_8", "bands_high_8: position 'bands' is not for a model whose positions")
    refused(posenc.Condition(only="encoder"), "is for encoders only, which tiny is not")
    mask = {"semantics": "log_mask", "profile": {"kind": "linear", "floor": 0.1}, "layers": [7]}
    refused(posenc.Condition(mask=mask), "mask.layers names 7, but the model's are 0 to 1")
    (study / "params.yaml").unlink()
    refused("zero_alibi", "params.yaml, which this folder does not have: give posenc.Condition")
    with posenc.under(tiny, "intact"):
        refused("intact", "tiny is under intact already: leave that block first")


def test_learned_masks_are_those_of_the_active_study(study):
    model = posenc.load("decoder")
    rng = np.random.default_rng(0)
    mask = LearnedMask(relative=rng.normal(size=(2, 2, 1, 9)).astype(np.float32))
    folder = study / "data/studies/default/masks/decoder"
    with (
        pytest.raises(
            posenc.ConditionError, match=r"snakemake --cores 8 -- .*/decoder/masks.json`"
        ),
        posenc.under(model, "zero_slope"),
    ):
        raise AssertionError
    folder.mkdir(parents=True)
    write(folder / "slope_zero.safetensors", mask, {})
    with posenc.under(model, "zero_slope"):
        from_file = posenc.run(model, TEXTS, patterns=True)
    saved("gpt2", study / "other")
    other = posenc.load("other")
    with (
        pytest.raises(posenc.ConditionError, match=r"load a model of its params\.yaml"),
        posenc.under(other, "zero_slope"),
    ):
        raise AssertionError
    with posenc.under(other, "zero_slope", masks={"slope_zero": mask}):
        given = posenc.run(other, TEXTS, patterns=True)
    with posenc.under(other, "zero"):
        without = posenc.run(other, TEXTS, patterns=True)
    np.testing.assert_array_equal(from_file.patterns[0], given.patterns[0])
    # softmax(z + bias) is the pattern without the bias times exp(bias), renormalised.
    i = np.arange(5)
    bias = mask.relative[0][:, 0, np.abs(i[:, None] - i)]  # [n_heads, tokens, tokens]
    expected = without.patterns[0][0] * np.exp(bias)
    expected /= expected.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(given.patterns[0][0], expected, atol=1e-6)


def test_the_page_runs_as_it_is(study, capsys):
    folder, tokenizer = study / "data/models/smollm2", study / "data/tokenizers/smollm2"
    tokenizer.mkdir(parents=True)
    shutil.move(saved("llama", folder) / TOKENIZER, tokenizer)
    names: dict = {}
    for block in OURS:
        exec(block, names)
    assert names["run"].condition == "zero_log_mask" and len(names["frames"]) == 3
    printed = capsys.readouterr().out
    assert "zero_alibi" in printed and '{"position": {"kind": "shuffle", "seed": 1}}' in printed
    by_hand = re.findall(r"(?m)^(intact|zero|zero with the mask) (\d\S+)$", printed)
    in_terms = re.findall(r"(?m)^(zero, first_order\S*(?: \(.*\))?) (\d\S+)$", printed)
    for lines in (by_hand, in_terms):
        assert len(set(lines)) == len(dict(lines)) == len({number for _, number in lines}) == 3


def test_the_page_counts_the_lines_of_each_tool():
    ours, plain, lens = (sum(bool(line) for line in b.splitlines()) for b in (OURS[0], PLAIN, LENS))
    assert f"Lines of code without blank ones: {ours}, {plain} and {lens}." in PAGE
    assert ours < lens < plain
    ast.parse(LENS)


def test_plain_transformers_gives_the_same(study, monkeypatch):
    # The family's own class makes a byte-level tokenizer, whatever the file has: these are words.
    file = str(study / "data/tokenizers/gpt2" / TOKENIZER)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=file, bos_token=END_OF_TEXT)
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda _: tokenizer)
    ours: dict = {}
    exec(OURS[0], ours)
    plain: dict = {}
    exec(PLAIN.replace('("gpt2"', '("data/models/gpt2"'), plain)
    run = ours["run"]
    for number, (hidden, captured, nll) in enumerate(plain["runs"]):
        states = [state[0].numpy() for state in hidden]  # [tokens, d_model] each
        np.testing.assert_allclose(run.hidden_states[number], states, atol=1e-5)
        np.testing.assert_allclose(run.nll[number], nll.numpy(), atol=1e-5)
        for kind, of_all in enumerate((run.queries, run.keys)):
            own = [captured[layer][kind].numpy() for layer in captured]  # [n_heads, tokens, d_head]
            np.testing.assert_allclose(of_all[number], own, atol=1e-5)
    assert np.exp(plain["frame"]["nll"].mean()) == pytest.approx(run.perplexity, rel=1e-5)


@pytest.mark.parametrize("name", ["loading", "under", "running", "masks", "calibration"])
def test_examples_are_right(tiny, name):
    module = importlib.import_module(f"posenc.api.{name}")
    tests = doctest.DocTestFinder().find(module, globs={"posenc": posenc, "model": tiny})
    results = [doctest.DocTestRunner().run(test) for test in tests if test.examples]
    assert sum(result.attempted for result in results) >= 2
    assert sum(result.failed for result in results) == 0
