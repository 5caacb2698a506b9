"""The page on speed shows the benchmark that is recorded."""

import json

from tests.benchmarks import capture, gpu
from tests.unit.synthetic import PROJECT

PAGE = PROJECT / "docs/performance.md"
RECORD = json.loads((PROJECT / "docs/capture-benchmark.json").read_text())


def test_the_table_is_that_of_the_record():
    assert capture.filled(PAGE.read_text(), RECORD) == PAGE.read_text()
    assert (PROJECT / "docs/images/capture_benchmark.png").exists()


def test_the_table_of_the_gpu_is_that_of_its_record():
    record = json.loads((PROJECT / "docs/gpu-benchmark.json").read_text())
    page = PAGE.read_text()
    found = capture.put_between(page, "<!-- gpu -->", "<!-- gpu end -->", f"{gpu.table(record)}\n")
    assert found == page


def test_ratios_are_of_the_same_round():
    row = {"task": "t", "variant": "ours exact", "runs": [{"seconds": 2.0}, {"seconds": 4.0}]}
    plain = {"task": "t", "variant": "plain float32", "runs": [{"seconds": 6.0}, {"seconds": 20.0}]}
    other = {"task": "u", "variant": "plain float32", "runs": [{"seconds": 1.0}, {"seconds": 1.0}]}
    assert capture.ratios({"rows": [other, plain, row]}, row) == [3.0, 5.0]


def test_every_variant_was_run_as_often():
    rows = {(row["task"], row["variant"]): row["runs"] for row in RECORD["rows"]}
    assert set(rows) == {(t, v) for t, variants in capture.VARIANTS.items() for v in variants}
    assert {len(runs) for runs in rows.values()} == {len(RECORD["rates"])}
