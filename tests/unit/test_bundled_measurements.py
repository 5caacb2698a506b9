"""A file that holds the measurements of all conditions: what is current in it is kept."""

from __future__ import annotations

import pytest

from posenc.artifacts.files import read_sealed, unbundled
from posenc.measurements import frame as measurement
from posenc.measurements.declaration import Measurement
from posenc.measurements.perplexity import measure as perplexity

from .damage import flip
from .test_measurement_steps import Runs

STEP = "perplexity"


@pytest.fixture
def runs(tmp_path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture
def bundled(monkeypatch) -> None:
    """A measurement of the steps' own tests, written as one file per data set."""
    monkeypatch.setattr(Measurement, "bundled", True)


@pytest.fixture
def measured(monkeypatch) -> list[dict]:
    """The runs that are measured, in order."""
    measured_runs, original = [], perplexity.measure

    def spy(parameters, intact, condition):
        measured_runs.append(condition.metadata["run"])
        return original(parameters, intact, condition)

    spy.__module__ = original.__module__
    # The command holds the function that it was made with.
    command = measurement.command(perplexity.MEASUREMENT, spy)
    monkeypatch.setattr(perplexity, "main", command)
    return measured_runs


def read(runs: Runs, output: str, dataset: str) -> list[dict]:
    return unbundled(read_sealed(runs.folder / output / f"{dataset}.json"))


def measure(runs: Runs, output: str = "bundled", **changes) -> None:
    perplexity.main(**runs.options(STEP, output, **changes))


def names(measured: list[dict]) -> list[tuple[str, str]]:
    return [(run["dataset"], run["condition"]) for run in measured]


ALL = [("questions", "intact"), ("questions", "zero"), ("reviews", "intact"), ("reviews", "zero")]


def test_it_holds_what_single_files_do(runs, monkeypatch):
    measure(runs, "single")
    monkeypatch.setattr(Measurement, "bundled", True)
    measure(runs)
    for dataset in ("questions", "reviews"):
        single = [
            read_sealed(runs.folder / f"single/{dataset}/{condition}.json")
            for condition in runs.conditions
        ]
        assert read(runs, "bundled", dataset) == single
    assert not (runs.folder / "bundled/questions").exists()


def test_what_is_current_is_kept(runs, bundled, measured, monkeypatch):
    measure(runs)
    assert names(measured) == ALL
    before = [(path, path.stat().st_ino) for path in sorted((runs.folder / "bundled").iterdir())]
    measured.clear()
    measure(runs)
    assert measured == []
    assert before == [(path, path.stat().st_ino) for path, _ in before]


def test_only_what_changed_is_measured_again(runs, bundled, measured):
    measure(runs)
    measured.clear()
    folder = runs.folder / "activations/questions/zero"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    runs.capture("questions", "zero", noise=0.2, scale=1.2)
    measure(runs)
    assert names(measured) == [("questions", "zero")]
    measure(runs, "anew")
    for dataset in ("questions", "reviews"):
        assert read(runs, "bundled", dataset) == read(runs, "anew", dataset)
    measured.clear()
    measure(runs, seed=4)
    assert names(measured) == ALL


def test_a_condition_that_the_study_no_longer_has_leaves_the_file(runs, bundled, measured):
    for dataset in ("questions", "reviews"):
        runs.capture(dataset, "noisy", noise=0.8)
    runs.conditions = ["intact", "noisy", "zero"]
    measure(runs)
    assert [run["run"]["condition"] for run in read(runs, "bundled", "reviews")] == runs.conditions
    measured.clear()
    runs.conditions = ["intact", "zero"]
    measure(runs)
    assert measured == []
    assert [run["run"]["condition"] for run in read(runs, "bundled", "reviews")] == runs.conditions


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_job_goes_on(runs, bundled, measured, monkeypatch, after):
    measure(runs, "undisturbed")
    measured.clear()
    written, original = [], measurement.write_sealed

    def write(path, value):
        if len(written) == after:
            raise KeyboardInterrupt
        written.append(path)
        original(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(measurement, "write_sealed", write)
        with pytest.raises(KeyboardInterrupt):
            measure(runs)
    measured.clear()
    measure(runs)
    assert names(measured) == ALL[after:]
    for dataset in ("questions", "reviews"):
        again, undisturbed = (
            (runs.folder / top / f"{dataset}.json").read_bytes()
            for top in ("bundled", "undisturbed")
        )
        assert again == undisturbed


def test_a_damaged_file_is_measured_again(runs, bundled, measured, capsys):
    measure(runs)
    path = runs.folder / "bundled/reviews.json"
    whole = path.read_bytes()
    flip(path)
    measured.clear()
    measure(runs)
    assert names(measured) == [("reviews", "intact"), ("reviews", "zero")]
    assert "measured again" in capsys.readouterr().err
    assert path.read_bytes() == whole
