"""Recorded numbers against made ones: each kind of difference is told apart."""

import json

import numpy as np
import pytest

from posenc.artifacts.files import ArtifactError, read_json, write_json
from posenc.artifacts.numbers import FLOAT32, FLOAT64
from posenc.artifacts.places import STUDIES
from posenc.artifacts.receipts import FOLDER, Receipt, inputs_digest
from posenc.report import comparison, machines
from posenc.report.comparison import Comparison, compare
from posenc.report.machines import described, machine


def estimate(value: float, low: float, high: float) -> dict:
    return {"value": value, "shown": f"{value:.2f}", "low": low, "high": high}


def number(value: float) -> dict:
    return {"value": value, "shown": str(round(value, 2))}


def zero(value: float, *interval: float) -> dict:
    """A number in so many digits that any change shows."""
    return {
        "value": value,
        "shown": repr(value),
        **dict(zip(("low", "high"), interval, strict=False)),
    }


def double(value: float, *interval: float) -> dict:
    return {**zero(value, *interval), "rounding": FLOAT64}


NOT_RUN = {"not_run": "no decoder in this study"}


@pytest.mark.parametrize(
    ("old", "now", "kind"),
    [
        (estimate(9.1, 9.0, 9.2), estimate(9.1, 9.0, 9.2), "agreeing"),
        (estimate(9.1, 9.0, 9.2), estimate(9.1004, 9.01, 9.21), "agreeing"),
        (estimate(9.1, 9.0, 9.2), estimate(9.0, 8.9, 9.1), "within"),
        (estimate(9.1, 9.0, 9.2), estimate(9.2, 9.1, 9.3), "within"),
        (estimate(9.1, 9.0, 9.2), estimate(9.21, 9.1, 9.3), "outside"),
        (estimate(9.1, 9.0, 9.2), estimate(8.99, 8.9, 9.1), "outside"),
        ({**estimate(1.0, 1, 1), "shown": "1.000"}, estimate(1 + 9e-7, 1, 1), "agreeing"),
        (estimate(-5, -5, -5), {**estimate(-5 - 4e-6, -5, -5), "shown": "-5.000"}, "agreeing"),
        ({**estimate(1.0, 1, 1), "shown": "1.000"}, estimate(1 - 2e-6, 1, 1), "outside"),
        # The bound of an interval, up to rounding.
        (estimate(9.1, 9.0, 9.2), estimate(9.2 + 8e-6, 9.1, 9.3), "within"),
        (estimate(9.1, 9.0, 9.2), estimate(9.2 + 1e-5, 9.1, 9.3), "outside"),
        (number(3), number(3), "agreeing"),
        (number(3), number(4), "outside"),  # a count
        (number(3.001), number(3.002), "agreeing"),
        (number(2.0), number(2.5), "unbounded"),
        # Zero up to rounding, of a mean over a model's float32 states and of a loss.
        (zero(9e-9, 8e-9, 1e-8), zero(2e-8, 1.9e-8, 2.1e-8), "agreeing"),
        (zero(9e-9, 8e-9, 1e-8), zero(0.0, 0.0, 0.0), "agreeing"),
        (zero(-1e-7, -2e-7, -9e-8), zero(4e-7, 3e-7, 5e-7), "agreeing"),
        (zero(9e-9, 8e-9, 1e-8), zero(1e-6, 9e-7, 2e-6), "outside"),
        (zero(9e-9), zero(2e-6), "unbounded"),
        # Of what is computed in float64 throughout, where 1e-12 is no rounding.
        (zero(3.51e-16, 3.33e-16, 3.69e-16), double(3.76e-16, 3.5e-16, 4.0e-16), "agreeing"),
        (zero(4.58e-15), double(4.72e-15), "agreeing"),
        (zero(3.51e-16, 3.33e-16, 3.69e-16), double(1e-12, 9e-13, 2e-12), "outside"),
        (double(4.58e-15), double(1e-12), "unbounded"),
        (zero(1.0), double(1 - 3e-16), "agreeing"),
        (zero(1.0), double(1 - 1e-12), "near"),
        # Of a model that was trained here, without an interval.
        (zero(0.333), zero(0.3315), "near"),
        (zero(-0.333), zero(-0.3315), "near"),
        (zero(0.333), zero(0.329), "unbounded"),
        (zero(0.002), zero(0.0021), "unbounded"),
        (zero(0.002), zero(-0.002), "unbounded"),
        # A count is a count, however large.
        (number(3_000_000), number(3_000_001), "outside"),
        (NOT_RUN, NOT_RUN, "agreeing"),
        (NOT_RUN, number(3), "outside"),
        (number(3), NOT_RUN, "outside"),
        (number(3), None, "lacking"),
        (None, number(3), "new"),
    ],
)
def test_a_difference_is_of_one_kind(old, now, kind):
    result = compare(*({"key": entry} if entry else {} for entry in (old, now)))
    of_kind = {name for name in vars(Comparison()) if list(getattr(result, name)) == ["key"]}
    assert of_kind == {kind}


@pytest.mark.parametrize(
    ("dtype", "width", "bound"), [(np.float64, 1024, FLOAT64), (np.float32, 256, FLOAT32)]
)
def test_rounding_leaves_less_than_the_bound_and_no_factor_less(dtype, width, bound):
    """Cosines of vectors with themselves: in float64 the worst, in float32 the mean, as stated."""
    x = np.random.default_rng(0).normal(size=(4000, width)).astype(dtype)  # [rows, width]
    x /= np.sqrt(np.cumsum(x * x, axis=1, dtype=dtype)[:, -1:])  # [rows, width]
    # One product after the other, which is the worst order to add them in.
    off = np.abs(np.cumsum(x * x, axis=1, dtype=dtype)[:, -1].astype(float) - 1)  # [rows]
    left = off.max() if dtype is np.float64 else off.mean()
    assert bound / 1000 < left < bound


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with numbers that were made."""
    monkeypatch.chdir(tmp_path)
    comparison.made_of("tiny").parent.mkdir(parents=True)
    write_json(comparison.made_of("tiny"), {"a": estimate(9.1, 9.0, 9.2), "b": number(2.0)})


def test_what_was_recorded_and_made_again_agrees(study):
    assert comparison.keep("tiny"), "there was no record"
    before = comparison.record_of("tiny").stat().st_mtime_ns
    assert not comparison.keep("tiny"), "nothing to change"
    assert comparison.record_of("tiny").stat().st_mtime_ns == before
    lines, is_sound = comparison.report("tiny")
    assert is_sound
    assert lines[0].removeprefix("recorded on ") == lines[1].removeprefix("made on     ")
    assert lines[2:] == [
        "The results agree with the record: of 2 recorded numbers, 2 the same up to rounding,"
        " 0 within the recorded interval and 0 that have none within 1 %."
    ]


def test_what_another_processor_rounds_otherwise_agrees_in_one_line(study):
    recorded = {
        "identity": double(4.58e-15), "gap": double(3.51e-16, 3.33e-16, 3.69e-16),
        "cka": zero(1.0), "cost": zero(8.0e-8, -1e-7, 2e-7), "loss": estimate(9.1, 9.0, 9.2),
        "explained": zero(0.0248),
    }  # fmt: skip
    numbers = {
        "identity": double(4.72e-15), "gap": double(3.76e-16, 3.5e-16, 4.02e-16),
        "cka": zero(1 - 3e-16), "cost": zero(-3.1e-7, -1e-6, 6e-7),
        "loss": estimate(9.15, 9.1, 9.2), "explained": zero(0.0249),
    }  # fmt: skip
    write_json(comparison.made_of("tiny"), recorded)
    comparison.keep("tiny")
    write_json(comparison.made_of("tiny"), numbers)
    lines, is_sound = comparison.report("tiny")
    assert is_sound and [line for line in lines if "agree" in line] == lines[2:] == [
        "The results agree with the record: of 6 recorded numbers, 4 the same up to rounding,"
        " 1 within the recorded interval and 1 that have none within 1 %."
    ]
    # One that is no longer what it was is named, with both values and its interval.
    write_json(comparison.made_of("tiny"), {**numbers, "gap": double(4e-12, 3e-12, 5e-12)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound and lines[2] == (
        "differs: gap: 4e-12 [3e-12, 5e-12], recorded 3.51e-16 [3.33e-16, 3.69e-16]"
    )
    assert lines[3].startswith("The results differ from the record in what is named above: of 6")


HERE = {"processor": "B", "instructions": ["avx2"], "processors": 2, "torch": "2"}


def test_what_another_processor_gave_is_kept_beside_the_record(study, monkeypatch):
    """A number that follows a training has no interval that says how far processors part."""
    monkeypatch.setattr(comparison, "machine", lambda: {**HERE, "processor": "A"})
    recorded = {
        "rate": number(0.004), "attempts": number(4), "change": estimate(9.1, 9.0, 9.2),
        "same": number(1.5),
    }  # fmt: skip
    write_json(comparison.made_of("tiny"), recorded)
    comparison.keep("tiny")
    made = {**recorded, "rate": number(0.008), "attempts": number(3)}
    made["change"] = estimate(9.5, 9.4, 9.6)
    write_json(comparison.made_of("tiny"), made)
    with pytest.raises(ArtifactError, match=r"of a processor like this .*`posenc record` records"):
        comparison.keep_beside("tiny")
    monkeypatch.setattr(comparison, "machine", lambda: HERE)
    assert not comparison.report("tiny")[1]
    assert comparison.keep_beside("tiny") == 3
    before = comparison.record_of("tiny").read_bytes()
    assert comparison.keep_beside("tiny") == 3, "in place of what this processor gave before"
    assert comparison.record_of("tiny").read_bytes() == before
    lines, is_sound = comparison.report("tiny")
    assert is_sound and lines[2:] == [
        "The results agree with the record: of 4 recorded numbers, 1 the same up to rounding, 0"
        " within the recorded interval and 0 that have none within 1 %, and 3 between what"
        " processors gave that were recorded."
    ]
    # Between the two is as far apart as processors were seen to be; beyond them is not.
    write_json(comparison.made_of("tiny"), {**made, "rate": number(0.006)})
    assert comparison.report("tiny")[1]
    write_json(comparison.made_of("tiny"), {**made, "rate": number(0.009)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound and lines[2].startswith("differs: rate: ")
    # What agreed on both is no matter of the processor.
    write_json(comparison.made_of("tiny"), {**made, "same": number(1.6)})
    assert not comparison.report("tiny")[1]


def test_what_another_processor_gave_goes_with_the_number_that_it_was_beside(study, monkeypatch):
    monkeypatch.setattr(comparison, "machine", lambda: {**HERE, "processor": "A"})
    comparison.keep("tiny")
    monkeypatch.setattr(comparison, "machine", lambda: HERE)
    made = {"a": estimate(9.5, 9.4, 9.6), "b": number(2.5)}
    write_json(comparison.made_of("tiny"), made)
    assert comparison.keep_beside("tiny") == 2
    monkeypatch.setattr(comparison, "machine", lambda: {**HERE, "processor": "A"})
    write_json(comparison.made_of("tiny"), {"a": estimate(9.1, 9.0, 9.2), "b": number(4.0)})
    comparison.keep("tiny")
    (other,) = read_json(comparison.record_of("tiny"))["elsewhere"]
    assert other == {"made_on": HERE, "numbers": {"a": made["a"]}}
    write_json(comparison.made_of("tiny"), {"a": estimate(7.0, 6.9, 7.1), "b": number(4.0)})
    comparison.keep("tiny")
    assert "elsewhere" not in read_json(comparison.record_of("tiny"))


def test_only_numbers_are_kept_beside_a_record(study, monkeypatch):
    monkeypatch.setattr(comparison, "machine", lambda: {**HERE, "processor": "A"})
    comparison.keep("tiny")
    before = comparison.record_of("tiny").read_bytes()
    monkeypatch.setattr(comparison, "machine", lambda: HERE)
    write_json(comparison.made_of("tiny"), {"a": NOT_RUN, "b": number(2.0)})
    with pytest.raises(ArtifactError, match=r"a: not run \(no decoder in this study\), recorded 9"):
        comparison.keep_beside("tiny")
    write_json(comparison.made_of("tiny"), {"b": number(2.5)})
    with pytest.raises(ArtifactError, match="a was not made here: run `snakemake` first"):
        comparison.keep_beside("tiny")
    assert comparison.record_of("tiny").read_bytes() == before


def test_what_lies_outside_is_named_with_both_numbers(study):
    comparison.keep("tiny")
    write_json(comparison.made_of("tiny"), {"a": estimate(9.3, 9.2, 9.4), "b": number(2.5)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound
    assert lines[2:] == [
        "differs: a: 9.30 [9.2, 9.4], recorded 9.10 [9, 9.2]",
        "differs: b: 2.5, recorded 2.0 without an interval",
        "The results differ from the record in what is named above: of 2 recorded numbers, 0 the"
        " same up to rounding, 0 within the recorded interval and 0 that have none within 1 %.",
    ]
    write_json(comparison.made_of("tiny"), {"a": estimate(9.1, 9.0, 9.2), "b": number(2.5)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound and lines[2] == "differs: b: 2.5, recorded 2.0 without an interval"
    write_json(comparison.made_of("tiny"), {"b": number(2.0), "c": number(1)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound and lines[2] == "not made here: a"
    assert lines[3].endswith("; 1 more not in the record.")


def test_without_a_record_or_a_result_the_way_out_is_said(study):
    with pytest.raises(ArtifactError, match=r"never recorded: `posenc record`"):
        comparison.report("tiny")
    comparison.keep("tiny")
    comparison.made_of("tiny").unlink()
    with pytest.raises(ArtifactError, match="run `snakemake` first"):
        comparison.report("tiny")


def test_a_machine_is_described_by_what_decides_about_last_digits(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: Some CPU @ 2.5GHz\nflags\t\t: fpu avx2 amx_tile avx512\n\n")
    facts = machine(cpuinfo)
    assert facts["processor"] == "Some CPU @ 2.5GHz"
    assert facts["instructions"] == ["avx2", "amx_tile"]
    assert described(facts).startswith("Some CPU @ 2.5GHz (avx2, amx_tile), ")
    assert machine(tmp_path / "nowhere")["instructions"] == []
    cpuinfo.write_text("processor\t: 0\n")
    assert machines.processor(cpuinfo) == machines.processor(tmp_path / "no") == ("", [])
    assert described({**facts, "instructions": []}).startswith(
        "Some CPU @ 2.5GHz (none of avx2, avx512f, amx_tile), "
    )
    assert json.loads(json.dumps(facts)) == facts


def test_records_may_lie_elsewhere(tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        write_json(tmp_path / f"{name}.json", {"numbers": {"x": number(value)}})
    assert comparison.recorded("b", tmp_path) == {"x": number(2)}
    assert comparison.all_recorded(tmp_path) == {"a": {"x": number(1)}, "b": {"x": number(2)}}


def write_receipt(study: str, path: str, versions: dict, **inputs: str) -> None:
    """As a job leaves it."""
    Receipt("rule", "posenc.steps.x", inputs, {}, versions).write(STUDIES / study / FOLDER / path)


def test_packages_of_another_version_than_recorded_are_named(study):
    write_receipt("tiny", "measurements/heads/m.json", {"numpy": "2.4.6", "torch": "2.13.0"})
    write_receipt("other", "measurements/heads/m.json", {"numpy": "1.0"})
    assert comparison.keep("tiny")
    record = read_json(comparison.record_of("tiny"))
    assert record["made_with"] == {"numpy": ["2.4.6"], "torch": ["2.13.0"]}
    assert not [line for line in comparison.report("tiny")[0] if "made with" in line]
    write_receipt("tiny", "measurements/heads/m.json", {"numpy": "2.5.0", "torch": "2.13.0"})
    lines, is_sound = comparison.report("tiny")
    assert is_sound and "made with numpy 2.5.0, recorded with 2.4.6" in lines
    assert not [line for line in lines if "made with torch" in line]
    # The same numbers, made with others, are another record.
    assert comparison.keep("tiny") and not comparison.keep("tiny")
    assert read_json(comparison.record_of("tiny"))["made_with"]["numpy"] == ["2.5.0"]


def test_results_of_several_versions_at_once_are_named(study):
    for name, version in (("a", "2.4.6"), ("b", "2.5.0")):
        write_receipt("tiny", f"measurements/heads/{name}.json", {"numpy": version})
    comparison.keep("tiny")
    lines, _ = comparison.report("tiny")
    assert "made with more than one version of numpy: 2.4.6, 2.5.0" in lines


def test_a_record_of_an_earlier_form_is_compared_all_the_same(study):
    path = comparison.record_of("tiny")
    path.parent.mkdir(parents=True)
    numbers = read_json(comparison.made_of("tiny"))
    write_json(path, {"made_on": machine(), "numbers": numbers})
    write_receipt("tiny", "measurements/heads/m.json", {"numpy": "2.4.6"})
    lines, is_sound = comparison.report("tiny")
    assert is_sound and lines[2].startswith("The results agree with the record: of 2 recorded")
    assert comparison.keep("tiny"), "it has no versions yet"


def test_a_record_names_what_its_documents_name_in_place_of_a_commit(study):
    shown = {"paper/paper.tex": "1", "data/studies/tiny/figures/a.pdf": "2"}
    write_receipt("tiny", "paper/paper.json", {}, **shown, **{"data/config/paper/x.json": "3"})
    write_receipt("tiny", "page/page.json", {}, **shown)
    comparison.keep("tiny")
    record = read_json(comparison.record_of("tiny"))
    assert record["documents"] == {"paper": inputs_digest(shown)}
