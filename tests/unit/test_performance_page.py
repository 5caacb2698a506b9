"""The page on speed shows the benchmarks that are recorded."""

import json

import numpy as np
import pytest

from posenc.artifacts.files import ArtifactError
from posenc.report import comparison, findings
from tests.benchmarks import (
    capture,
    gpu,
    growth,
    masks,
    operations,
    pages,
    profile,
    real_study,
    savings,
)
from tests.unit.synthetic import PROJECT

RECORD = json.loads((PROJECT / "docs/capture-benchmark.json").read_text())
GROWTH = json.loads(growth.RECORD.read_text())


TABLES = {
    "capture": (capture.table, "capture-benchmark"),
    "gpu": (gpu.table, "gpu-benchmark"),
    "growth": (growth.table, "growth-benchmark"),
    "masks": (masks.table, "masks-benchmark"),
    "operations": (operations.table, "operations-benchmark"),
    "real": (real_study.lines, "real-study"),
    "savings": (savings.table, "savings-benchmark"),
    "scale": (gpu.scale, "gpu-benchmark"),
}
"""Of the pages: what writes each, and from which record of docs/."""


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_that_of_its_record(name):
    write, record = TABLES[name]
    text = write(json.loads((PROJECT / f"docs/{record}.json").read_text(encoding="utf-8")))
    assert pages.place(name).read_text(encoding="utf-8") == text


def test_every_table_has_a_record_but_that_of_a_study_that_was_just_run():
    assert {path.stem for path in pages.place("any").parent.iterdir()} == {*TABLES, "profile"}


def test_a_new_table_is_in_its_page(monkeypatch, tmp_path):
    """And the page is otherwise as it was."""
    (tmp_path / findings.TABLES).mkdir(parents=True)
    template = tmp_path / findings.TEMPLATES / "rotary.md"
    template.write_text("# Costs\n\n{{table:masks}}\n\nIn all.\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / comparison.RECORDS).mkdir(parents=True)
    record = tmp_path / "record.json"
    for number in (1, 2):
        pages.keep({"seconds": number}, record, masks=f"| {number} |\n")
        assert json.loads(record.read_text()) == {"seconds": number}
        page = (tmp_path / "docs/rotary.md").read_text()
        assert page.startswith(f"# Costs\n\n| {number} |\n\nIn all.\n")
    template.write_text("{{table:other}}\n")
    with pytest.raises(ArtifactError, match=r"tables/other\.md: no benchmark wrote this table"):
        pages.show()


def test_the_bars_of_the_capture_are_drawn():
    assert (PROJECT / "docs/images/capture_benchmark.png").exists()


def test_little_of_a_pass_is_in_no_kind_of_operation():
    record = json.loads(operations.RECORD.read_text())
    for entry in record["rows"]:
        assert all(run[operations.OTHERS] < 0.1 * sum(run.values()) for run in entry["runs"])


def test_aims_are_of_rows_that_are_measured():
    rows = {capture.key_of(row) for row in RECORD["rows"]}
    aimed = {(model, *aim[:2]) for aim in capture.AIMS for model in aim[3]}
    others = {(key[0], key[1], aim[2]) for aim in capture.AIMS for key in aimed
              if key[1:] == aim[:2] and aim[2] != "of the rate"}  # fmt: skip
    assert aimed | others <= rows
    assert len(capture.reached(RECORD).splitlines()) == 2 + sum(len(aim[3]) for aim in capture.AIMS)


def row(task: str, variant: str, seconds: list[float], model: str = "GPT-2") -> dict:
    runs = [{"seconds": duration, "tokens": 100, "peak": 10**6} for duration in seconds]
    return {"model": model, "task": task, "variant": variant, "runs": runs}


def test_ratios_are_of_the_same_round_and_model():
    ours = row("forward", "ours exact", [2.0, 4.0])
    plain = row("forward", "plain float32", [6.0, 20.0])
    others = [
        row("perplexity", "plain float32", [1.0, 1.0]),
        row("forward", "plain float32", [1.0, 1.0], "SmolLM2"),
    ]
    assert capture.ratios({"rows": [*others, plain, ours]}, ours) == [3.0, 5.0]
    assert capture.ratios({"rows": [*others, ours]}, ours) == []


def test_a_share_is_of_the_rate_in_the_same_precision():
    facts = {"blocks": 60, "logits": 40, "rates": [{"float32": 200.0, "bfloat16": 1000.0}]}
    assert capture.share(facts, row("forward", "ours exact", [50.0])) == "0.60"
    assert capture.share(facts, row("forward", "ours fast", [20.0])) == "0.30"
    assert capture.share(facts, row("perplexity", "ours exact", [100.0])) == "0.50"
    assert capture.share(facts, row("training", "ours exact", [100.0])) == ""


def test_every_variant_was_run_as_often():
    for model in capture.MODELS:
        rows = [row for row in RECORD["rows"] if row["model"] == model]
        variants_run = {(row["task"], row["variant"]) for row in rows}
        assert variants_run == {
            (task, variant) for task, variants in capture.TASKS.items() for variant in variants
        }
        assert len({len(row["runs"]) for row in rows}) == 1


def test_a_run_that_was_stopped_goes_on(monkeypatch, tmp_path):
    """What is missing is run, in the order of the table; nothing is run again."""
    asked = []

    class Server:
        def __init__(self, variant, *given):
            self.variant = variant

        def run(self, task):
            asked.append((task, self.variant))
            return {"seconds": 1.0, "tokens": 9, "peak": 1, "bytes": 0}

        def close(self):
            pass

    facts = {"blocks": 1, "logits": 1, "widest": [2, 3], "vocabulary": 99}
    monkeypatch.setattr(capture, "Server", Server)
    monkeypatch.setattr(capture, "make", lambda name, folder: dict(facts))
    monkeypatch.setattr(capture, "product_rates", lambda *given: {"float32": 1.0, "bfloat16": 2.0})
    record = {"documents": 2, "threads": 1, "models": {}, "rows": []}
    stopped = capture.runs(record, "GPT-2", ["forward"], 2, "python")
    for _ in range(5):  # a round of four, and one
        next(stopped)
    stopped.close()
    asked.clear()
    for _ in capture.runs(record, "GPT-2", ["capture", "forward"], 2, "python"):
        pass
    capturing = [("capture", variant) for variant in capture.TASKS["capture"]]
    forward = [("forward", variant) for variant in capture.TASKS["forward"]]
    assert asked == [*capturing, *capturing, *forward[1:]]
    assert [capture.key_of(entry)[1:] for entry in record["rows"]] == [*capturing, *forward]
    assert {len(entry["runs"]) for entry in record["rows"]} == {2}
    assert len(record["models"]["GPT-2"]["rates"]) == 2


def test_the_scale_of_the_internet_follows_from_the_measured_rates():
    """A card that writes 2 GB/s, a capture at a hundredth of its forward pass."""
    fields = {"model": "M", "variant": "ours fast", "tokens": 10**6}
    rows = [
        {**fields, "task": "forward", "seconds": [0.1]},
        {**fields, "task": "capture", "seconds": [10.0, 10.0, 1.0], "written": 2 * 10**10},
        {**fields, "task": "30 conditions", "seconds": [10.0]},
    ]
    _, _, capturing, evaluating = gpu.scale({"rows": rows}).splitlines()
    # 1e5 tokens/s of 20,000 bytes; a day has 86,400 seconds; 100 Gb/s are 12.5 GB/s.
    assert capturing.split(" | ")[2:] == [
        "8.6e+09", "20,000", "172.80", "0.010", "8.6e+12", "2,000.0", "6 |"
    ]  # fmt: skip
    assert evaluating.split(" | ")[3] == "124"


def test_a_slope_is_the_exponent_of_a_power_law():
    sizes = [1, 2, 4, 8, 16]
    exact = [3.0 * size**1.3 for size in sizes]
    assert growth.slope(sizes, [exact, exact]) == pytest.approx((1.3, 1.3, 1.3))


def test_the_interval_of_a_slope_holds_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    sizes, held = [1, 2, 4, 8, 16], 0
    for _ in range(500):
        noise = np.exp(0.1 * rng.normal(size=(3, len(sizes))))
        _, low, high = growth.slope(sizes, (np.array(sizes) ** 0.7 * noise).tolist())
        held += low < 0.7 < high
    assert held / 500 == pytest.approx(growth.CONFIDENCE, abs=0.03)


@pytest.mark.parametrize("task", growth.TASKS)
def test_ten_times_the_documents_take_ten_times_the_time_and_no_more_memory(task):
    row = next(r for r in GROWTH["rows"] if (r["task"], r["axis"]) == (task, "documents"))
    seconds, beyond = (
        [[run[key] for run in runs] for runs in row["runs"]] for key in ("seconds", "beyond")
    )
    assert growth.slope(row["sizes"], seconds)[0] == pytest.approx(1, abs=0.1)
    assert growth.slope(row["sizes"], beyond)[0] < 0.1


def test_the_table_of_the_study_has_a_row_for_each_rule(tmp_path):
    for path, seconds in (("capture/a/b/intact", 3.0), ("capture/a/b/zero", 4.0), ("page", 1.0)):
        file = tmp_path / f"{path}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"s\tcpu_time\n{seconds}\t{seconds / 2}\n")
    timed = profile.jobs(tmp_path)
    assert {rule: sorted(times) for rule, times in timed.items()} == {
        "capture": [(3.0, 1.5), (4.0, 2.0)], "page": [(1.0, 0.5)]
    }  # fmt: skip
