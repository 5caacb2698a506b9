"""Recorded numbers against made ones: each kind of difference is told apart."""

import json

import pytest

from posenc.artifacts.files import ArtifactError, read_json, write_json
from posenc.artifacts.places import STUDIES
from posenc.artifacts.receipts import FOLDER, Receipt, inputs_digest
from posenc.report import comparison
from posenc.report.comparison import Comparison, compare, described, machine


def estimate(value: float, low: float, high: float) -> dict:
    return {"value": value, "shown": f"{value:.2f}", "low": low, "high": high}


def number(value: float) -> dict:
    return {"value": value, "shown": str(round(value, 2))}


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
        ({**estimate(1, 1, 1), "shown": "1.000"}, estimate(1 + 9e-7, 1, 1), "within"),
        (estimate(-5, -5, -5), {**estimate(-5 - 4e-6, -5, -5), "shown": "-5.000"}, "within"),
        ({**estimate(1, 1, 1), "shown": "1.000"}, estimate(1 - 2e-6, 1, 1), "outside"),
        (number(3), number(3), "agreeing"),
        (number(3), number(4), "outside"),  # a count
        (number(3.001), number(3.002), "agreeing"),
        (number(2.0), number(2.5), "unbounded"),
        (NOT_RUN, NOT_RUN, "agreeing"),
        (NOT_RUN, number(3), "outside"),
        (number(3), NOT_RUN, "outside"),
        (number(3), None, "lacking"),
        (None, number(3), "new"),
    ],
)
def test_a_difference_is_of_one_kind(old, now, kind):
    found = compare(*({"key": one} if one else {} for one in (old, now)))
    of_kind = {name for name in vars(Comparison()) if list(getattr(found, name)) == ["key"]}
    assert of_kind == {kind}


def test_the_share_of_a_difference_is_of_the_larger_number():
    assert compare({"a": number(2.0)}, {"a": number(2.5)}).unbounded == {"a": pytest.approx(0.2)}
    assert compare({"a": number(2.5)}, {"a": number(2.0)}).unbounded == {"a": pytest.approx(0.2)}


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
    assert lines[2].startswith("2 recorded numbers: 2 agree in all printed digits, 0 lie within")


def test_what_lies_outside_is_named_with_both_numbers(study):
    comparison.keep("tiny")
    write_json(comparison.made_of("tiny"), {"a": estimate(9.3, 9.2, 9.4), "b": number(2.5)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound
    assert "outside: a: 9.30 [9.2, 9.4], recorded 9.10 [9, 9.2]" in lines
    assert "no interval, the largest difference: b: 2.5, recorded 2.0 (20 %)" in lines
    write_json(comparison.made_of("tiny"), {"b": number(2.5)})
    lines, is_sound = comparison.report("tiny")
    assert not is_sound and lines[-1] == "not made here: a"


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
    assert comparison.processor(cpuinfo) == comparison.processor(tmp_path / "no") == ("", [])
    assert described({**facts, "instructions": []}).startswith(
        "Some CPU @ 2.5GHz (none of avx2, avx512f, amx_tile), "
    )
    assert json.loads(json.dumps(facts)) == facts


def test_records_may_lie_elsewhere(tmp_path):
    for name, value in (("a", 1), ("b", 2)):
        write_json(tmp_path / f"{name}.json", {"numbers": {"x": number(value)}})
    assert comparison.recorded("b", tmp_path) == {"x": number(2)}
    assert comparison.all_recorded(tmp_path) == {
        "a": {"x": number(1)}, "b": {"x": number(2)}
    }  # fmt: skip


def test_the_largest_difference_is_the_one_that_is_said(study):
    write_json(comparison.made_of("tiny"), {key: number(2.0) for key in "abc"})
    comparison.keep("tiny")
    write_json(comparison.made_of("tiny"), {"a": number(2.1), "b": number(4.0), "c": number(2.2)})
    lines, is_sound = comparison.report("tiny")
    assert is_sound and "largest difference: b: 4.0, recorded 2.0 (50 %)" in lines[-1]
    assert lines[2].endswith(
        "0 lie outside, 3 differ and have no interval, 0 were not made here; 0 are new"
    )


def write_receipt(study: str, path: str, versions: dict, **inputs: str) -> None:
    """A job's, as it leaves it."""
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
    assert is_sound and lines[2].startswith("2 recorded numbers: 2 agree")
    assert comparison.keep("tiny"), "it has no versions yet"


def test_a_record_names_what_its_documents_name_in_place_of_a_commit(study):
    shown = {"paper/paper.tex": "1", "data/studies/tiny/figures/a.pdf": "2"}
    write_receipt("tiny", "paper/paper.json", {}, **shown, **{"data/config/paper/x.json": "3"})
    write_receipt("tiny", "page/page.json", {}, **shown)
    comparison.keep("tiny")
    record = read_json(comparison.record_of("tiny"))
    assert record["documents"] == {"paper": inputs_digest(shown)}
