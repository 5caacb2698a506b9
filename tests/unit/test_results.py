"""Results as types: what a file must hold, and which numbers are printed of it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from posenc.artifacts.files import ArtifactError
from posenc.artifacts.numbers import FLOAT64, NOT_EVALUATED, NotRun, Number
from posenc.artifacts.printing import By, Fields, Printed, quantities
from posenc.artifacts.results import Interval, NotMeasured, OfDocuments, Part, Spread
from posenc.measurements.frame import not_run
from posenc.metrics.bootstrap import Estimate
from posenc.report.readers import QUANTITIES


class Side(Part):
    left: float
    right: float | None


class Layer(Part):
    name: str
    loss: Interval | None
    share: float | None = None
    reason: str | None = None


class Planted(OfDocuments):
    over_seeds: Spread
    side: Side
    layers: list[Layer]
    by_length: dict[str, float]


PACKAGE = "tests.planted_measurement"
FIELDS: Fields = {
    "documents": Printed("documents"),
    "over_seeds": Printed("over seeds", percent=True),
    "side": Printed("a side", name="of"),
    "side.left": Printed("left", rounding=FLOAT64),
    "side.right": Printed("right", "there is no right"),
    "layers": By("name", spoken=("embedding", "last"), words={"last": "the last"}),
    "layers.loss": Printed("loss", "nothing is lost"),
    "layers.share": Printed("share"),
    "by_length": By(name="length_{}"),
}


@pytest.fixture
def planted(monkeypatch):
    module: Any = ModuleType(f"{PACKAGE}.result")
    module.Planted = Planted
    monkeypatch.setitem(sys.modules, PACKAGE, ModuleType(PACKAGE))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return quantities(PACKAGE, "Planted", FIELDS)


def interval(value: float) -> Interval:
    return Interval(value=value, low=value - 1, high=value + 1)


def result() -> Planted:
    return Planted(
        documents=3, tokens=40, confidence=0.9,
        over_seeds=Spread(mean=0.5, least=0.25, most=0.75),
        side=Side(left=1.5, right=None),
        layers=[
            Layer(name="block 1", loss=interval(2.0), share=0.5),
            Layer(name="last", loss=None, share=None, reason="too short"),
        ],
        by_length={"16": 4.0, "32": 8.0},
    )  # fmt: skip


def test_the_key_of_a_number_is_its_place(planted):
    printed = planted.read(result().as_json())
    assert printed == {
        "documents": Number(3),
        "over_seeds": Number(50, 25, 75),
        "of.left": Number(1.5),
        "of.right": NotRun("there is no right"),
        "embedding.loss": NotRun(NOT_EVALUATED),
        "embedding.share": NotRun(NOT_EVALUATED),
        "block_1.loss": Number(2.0, 1.0, 3.0),
        "block_1.share": Number(0.5),
        "last.loss": NotRun("too short"),
        "last.share": NotRun("too short"),
        "length_16": Number(4.0),
        "length_32": Number(8.0),
    }
    assert printed["of.left"].rounding == FLOAT64
    # What documents speak of has its keys whether it was measured or not; lengths have none.
    spoken = [key for key in printed if "block_1" not in key and "length" not in key]
    assert sorted(planted.names) == sorted(spoken)
    assert planted.words == {
        "documents": "documents", "over_seeds": "over seeds", "of": "a side", "left": "left",
        "right": "right", "last": "the last", "loss": "loss", "share": "share",
    }  # fmt: skip


def test_derived_numbers_come_beside_those_of_fields_or_in_their_place(planted):
    def derived(result: Planted) -> dict:
        return {"sum": Number(sum(result.by_length.values())), "documents": NotRun("none counted")}

    more = quantities(PACKAGE, "Planted", FIELDS, derived, names=("sum",), words={"sum": "sum"})
    printed = more.read(result().as_json())
    assert printed["sum"] == Number(12.0) and printed["documents"] == NotRun("none counted")
    assert printed["of.left"] == Number(1.5)
    assert {*more.names} == {*planted.names, "sum"} and more.words["sum"] == "sum"


def test_a_part_of_keys_has_one_meaning():
    fields: Fields = {"a.x": Printed("this"), "b.x": Printed("that")}
    with pytest.raises(ValueError, match="'x' is 'this' and 'that'"):
        quantities(PACKAGE, "Planted", fields)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda file: file.pop("tokens"), "tokens: field required"),
        (lambda file: file.update(more=1), "more: extra inputs"),
        (lambda file: file["layers"][1].update(loss="low"), "layers.1.loss"),
        (lambda file: file.update(documents=2.5), "documents: input should be a valid integer"),
    ],
)
def test_a_file_of_another_layout_is_refused_by_the_name_of_the_field(change, named):
    file = {**result().as_json(), "run": {"model": "m", "dataset": "d"}, "measurement": "planted"}
    assert Planted.of(file) == result()
    change(file)
    with pytest.raises(ArtifactError, match="planted of m/d is of another layout") as refused:
        Planted.of(file)
    assert named in str(refused.value).replace("\n", " ")
    with pytest.raises(ArtifactError, match=r"^data/planted\.json is of another layout"):
        Planted.of({**file, "file": "data/planted.json"})


def test_a_file_holds_what_was_given_and_is_read_as_the_same():
    written = result().as_json()
    # A field that was left at its default is not in the file; one that was given as None is.
    assert "reason" not in written["layers"][0] and written["layers"][1]["share"] is None
    assert Planted.of(written).as_json() == written
    with pytest.raises(ValueError, match="frozen"):
        result().tokens = 5


def test_estimates_become_intervals():
    assert Interval.of(Estimate(1.0, 0.5, np.float64(2))) == Interval(value=1, low=0.5, high=2)
    arrays = (np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    estimate = Estimate(*arrays)  # [2]
    assert Interval.each(estimate) == [interval(1.0), interval(2.0)]
    assert [each.as_json() for each in Interval.each(estimate)] == estimate.as_json()


def test_what_was_not_measured_says_why():
    class Parameters:
        confidence = 0.9

    lacking = {"status": "not run", "reason": "no head", "documents": 0, "tokens": 0}
    assert not_run("no head", Parameters()).as_json() == {**lacking, "confidence": 0.9}
    assert NotMeasured(reason="no head").as_json() == lacking


@pytest.mark.parametrize("name", [name for name, own in QUANTITIES.items() if own.read])
def test_another_layout_is_refused_for_every_measurement(name):
    file = {"measurement": name, "run": {"model": "m"}, "status": "measured", "unheard_of": 1}
    with pytest.raises(ArtifactError, match=f"{name} of m is of another layout"):
        QUANTITIES[name].read(file)
