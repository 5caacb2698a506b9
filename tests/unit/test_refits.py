"""Masks fitted to several texts: what is fitted, and how much of it is position."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    read_sealed,
    sha256_file,
    write_checksums,
    write_json,
)
from posenc.artifacts.numbers import NotRun, Number
from posenc.capture.calibration import Calibration
from posenc.capture.evaluation import losses_under
from posenc.capture.learning import learn
from posenc.conditions.section import Condition
from posenc.measurements.refits import measure as step
from posenc.measurements.refits import quantities as numbers
from posenc.models.load import load
from posenc.tokens.tokenized import Tokens

from . import synthetic_experiments as made_up
from .split_texts import split_texts
from .test_effective_keys import gpt2

MASK = {
    "method": "fitted", "position": "zero", "learn_position": False, "terms": ["slope", "first"],
    "steps": 4, "batch_documents": 2, "learning_rate": 0.1, "precision": "float32",
    "validate_steps": 2, "seed": 9,
}  # fmt: skip
PARAMETERS = {
    "split": "train", "draws": 2, "fitting": 6, "choosing": 4, "seeds": [3, 4], "mask": MASK,
    "evaluated": 5, "batch_tokens": 64, "bootstrap_samples": 200, "confidence": 0.9, "seed": 5,
}  # fmt: skip
RESULTS = list(step.INTERACTIONS)


def job(**changed) -> step.Job:
    reading = {"family": changed.pop("family", "gpt2"), "max_tokens": 12}
    given = {
        "parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "reading": reading,
        "calibration": "text", "device": "cpu",
    }  # fmt: skip
    return step.Job.model_validate(given)


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    model, folder = gpt2(), tmp_path / "model"
    for name, weight in model.named_parameters():
        if "wpe" in name:
            torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(folder)
    write_checksums(folder / CHECKSUMS, "config.json", "model.safetensors")
    return {"weights": folder, **split_texts(tmp_path)}


def made(tmp_path: Path, files: dict[str, Path], wanted: step.Job, name: str = "once") -> dict:
    config = tmp_path / "config.json"
    write_json(config, wanted.model_dump())
    threads = torch.get_num_threads()
    output = tmp_path / name / "measurements/refits/small"
    step.main("small", config, **files, output=output)
    torch.set_num_threads(threads)
    assert not list((tmp_path / name / "captures").glob("*")), "nothing partial is left"
    return read_sealed(output / "text.json")


def draws(files: dict[str, Path], wanted: step.Job) -> list[list[list[int]]]:
    text = Tokens(files["tokens"] / "text.parquet")
    cell = step.Cell(Path("text.json"), {"dataset": "text"}, text, text.ids)
    return step.drawn(wanted, [cell], files["documents"] / "text.parquet", files["tokenizer"])


def test_draws_share_no_document_and_none_is_evaluated(files):
    texts = draws(files, job())
    assert [len(text) for text in texts] == [10, 10]
    evaluated = {tuple(ids) for ids in Tokens(files["tokens"] / "text.parquet").ids}
    first, second = ({tuple(ids) for ids in text} for text in texts)
    assert len(first) == len(second) == 10 and not first & second
    assert not (first | second) & evaluated
    assert draws(files, job()) == texts != draws(files, job(seed=6))
    whole = {tuple(ids) for text in draws(files, job(draws=4)) for ids in text}
    assert len(whole) == 40, "of 41, the one that stands in both splits is left out"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"draws": 5}, "has 40 documents of the split 'train' .* 5 draws of 10 need 50: lower"),
        ({"split": "test"}, r"refits\.split is 'test', which text is evaluated on"),
        ({"split": "unsup"}, "has 0 documents of the split 'unsup'"),
    ],
)
def test_texts_that_are_not_there_are_refused(files, changed, message):
    with pytest.raises(ArtifactError, match=message):
        draws(files, job(**changed))


def test_fits_are_those_of_the_masks_themselves(tmp_path, files):
    """Each role's loss is that of its mask learned by itself, with the same draw and seed."""
    wanted = job()
    once = made(tmp_path, files, wanted)
    assert once == made(tmp_path, files, wanted, "again")
    inputs = once["provenance"]["inputs"]
    assert inputs["documents"] == sha256_file(files["documents"] / "text.parquet")
    assert (once["documents"], once["tokens"], once["draws"], once["seeds"]) == (5, 37, 2, 2)
    ids = Tokens(files["tokens"] / "text.parquet").ids[:5]
    model, losses = load(files["weights"], "gpt2"), {}

    def nll(condition: dict, mask=None) -> float:
        given = {"it": Condition.model_validate(condition)}
        each = losses_under(model, ids, given, {"it": mask} if mask else {}, 64)
        return sum(float(values.sum(dtype=np.float64)) for *_, values in each) / 37

    for draw, text in enumerate(draws(files, wanted)):
        data = Calibration(model, text[:6], text[6:], 64)
        for seed in (3, 4):
            for role, source in step.sources(wanted.parameters, seed):
                assert source.seed == seed
                mask, _ = learn(source, data)
                assert (mask.hashed is not None) == role.startswith("placebo")
                profile = {"kind": "learned", "mask": "it"}
                condition = {
                    "position": "intact" if role.endswith("intact") else "zero",
                    "mask": {"semantics": "additive", "profile": profile},
                }
                losses[draw, seed, role] = nll(condition, mask)
    intact, without = nll({}), nll({"position": "zero"})
    assert once["nll"]["intact"]["value"] == pytest.approx(intact, rel=1e-6)
    assert once["lost"]["value"] == pytest.approx(without - intact, rel=1e-5)
    assert abs(without - intact) > 0.01
    for role in step.FITS:
        mean = np.mean([losses[draw, seed, role] for draw in (0, 1) for seed in (3, 4)])
        assert once["nll"][role]["value"] == pytest.approx(mean, rel=1e-6)
    for draw in (0, 1):
        for place, seed in enumerate((3, 4)):
            own = {role: losses[draw, seed, role] for role in step.FITS}
            gain = {
                name: (without - own[fit]) - (intact - own[f"{fit}_intact"])
                for name, fit in (("interaction", "fitted"), ("placebo_interaction", "placebo"))
            }
            gain["beyond_placebo"] = gain["interaction"] - gain["placebo_interaction"]
            for name, value in gain.items():
                assert once[name]["fits"][draw][place] == pytest.approx(value, abs=1e-6)
    for name in RESULTS:
        fits = np.array(once[name]["fits"])
        assert once[name]["value"] == pytest.approx(fits.mean(), abs=1e-9)
        assert once[name]["low"] <= once[name]["value"] <= once[name]["high"]
        assert once[name]["within_draws"] > 0
    assert losses[0, 3, "fitted"] != losses[0, 4, "fitted"], "seeds are other orders of the text"


def test_a_measurement_that_is_killed_goes_on_with_the_fit_that_it_was_at(
    tmp_path, files, monkeypatch
):
    expected = made(tmp_path, files, job())
    original, begun = step.learned, []

    def dying(name, *rest):
        begun.append(name)
        if len(begun) == 6:
            raise KeyboardInterrupt
        return original(name, *rest)

    monkeypatch.setattr(step, "learned", dying)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, files, job(), "killed")
    done = begun[:5]
    measurement = made(tmp_path, files, job(), "killed")
    assert not set(done) & set(begun[6:]) and len(begun) == 6 + 11
    assert measurement == expected


def test_an_encoder_is_not_run(tmp_path, files):
    measurement = made(tmp_path, files, job(family="bert"))
    assert measurement["status"] == "not run" and "no decoder" in measurement["reason"]


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"position": "intact"}, "mask must have position: zero"),
        ({"distances": "hashed"}, "mask must have position: zero"),
        ({"begin": "closed"}, "mask must have position: zero"),
        ({"learn_position": True}, "mask must have position: zero"),
        ({"terms": []}, "some terms"),
    ],
)
def test_a_mask_of_which_no_controls_can_be_made_is_refused(mask, message):
    with pytest.raises(ValueError, match=message):
        step.Refits.model_validate({**PARAMETERS, "mask": {**MASK, **mask}})
    with pytest.raises(ValueError, match="names one twice"):
        step.Refits.model_validate({**PARAMETERS, "seeds": [1, 1]})


def test_shares_of_nothing_lost_are_not_given():
    """Documents whose loss does not depend on positions: there are nats but no shares."""
    generator = np.random.default_rng(0)
    sums = generator.normal(100, 1, (2, 2, 30, len(step.ROLES)))
    sums[..., list(step.ROLES).index("without")] = sums[..., list(step.ROLES).index("intact")]
    parameters = step.Refits.model_validate(PARAMETERS)
    result = step.results(parameters, sums, np.full(30, 20)).as_json()
    assert result["interaction"]["low"] < result["interaction"]["high"]
    assert result["interaction_share"] is None and result["recovered"] is None
    entries = numbers.QUANTITIES.read(result)
    assert isinstance(entries["recovered"], NotRun) and isinstance(entries["lost"], Number)


def test_numbers_are_those_of_the_file():
    facts = numbers.QUANTITIES.read(made_up.refits("decoder", "reviews"))
    assert set(facts) == set(numbers.QUANTITIES.names)
    assert facts["interaction_share"].value == 0.75
    assert facts["interaction_share.least"].value == pytest.approx(0.9 * 0.75)
    assert facts["interaction_share.most"].value == pytest.approx(1.1 * 0.75)
    assert facts["recovered.between_draws"].value == 0.02
