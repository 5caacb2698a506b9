"""Which versions of packages results were made with: a study has one of each, or says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.artifacts.receipts import Receipt
from posenc.report.versions import described, mixed, of_study, receipts_of, versions_of


@pytest.fixture(autouse=True)
def receipts(tmp_path, monkeypatch) -> dict[str, Receipt]:
    """Of a study, of what it shares with others, and of another study."""
    monkeypatch.chdir(tmp_path)
    packages = {
        "data/receipts/models/train/decoder.json": {"torch": "2.13.0", "numpy": "2.4.6"},
        "data/studies/mine/receipts/measurements/heads/decoder.json": {"numpy": "2.4.6"},
        "data/studies/mine/receipts/figures/heads.json": {"matplotlib": "3.11"},
        "data/studies/other/receipts/figures/heads.json": {"matplotlib": "1.0"},
    }
    written = {
        path: Receipt("rule", "command", {}, {}, versions) for path, versions in packages.items()
    }
    for path, receipt in written.items():
        receipt.write(Path(path))
    return written


def test_receipts_of_a_study_are_its_own_and_those_that_it_shares(receipts):
    others = "data/studies/other/receipts/figures/heads.json"
    expected = {Path(path): receipt for path, receipt in receipts.items() if path != others}
    assert receipts_of("mine") == expected
    Path("data/studies/mine/receipts/figures/heads.json").write_text("{")
    del expected[Path("data/studies/mine/receipts/figures/heads.json")]
    assert receipts_of("mine") == expected, "one that is damaged says nothing"


def test_versions_of_a_study_are_those_of_its_receipts():
    versions = of_study("mine")
    assert versions == {"matplotlib": ["3.11"], "numpy": ["2.4.6"], "torch": ["2.13.0"]}
    assert list(versions) == sorted(versions)
    assert mixed(versions) == []
    assert described(versions) == "matplotlib 3.11, numpy 2.4.6, torch 2.13.0"
    assert of_study("nobody") == {"numpy": ["2.4.6"], "torch": ["2.13.0"]}


def test_several_versions_of_a_package_are_named():
    path = "data/studies/mine/receipts/measurements/heads/minilm.json"
    Receipt("rule", "command", {}, {}, {"numpy": "2.10.0"}).write(Path(path))
    versions = of_study("mine")
    assert versions["numpy"] == ["2.10.0", "2.4.6"]
    assert mixed(versions) == ["made with more than one version of numpy: 2.10.0, 2.4.6"]
    assert "numpy 2.10.0 and 2.4.6" in described(versions)


def test_measurements_say_what_they_were_made_with():
    measurements = [
        {"provenance": {"versions": {"numpy": "2.4.6"}}},
        {"provenance": {"versions": {"numpy": "2.4.6", "scipy": "1.17"}}},
        {"provenance": {}},
        {},
    ]
    assert versions_of(measurements) == {"numpy": ["2.4.6"], "scipy": ["1.17"]}
