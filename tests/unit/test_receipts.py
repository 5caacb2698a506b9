"""The one judgement: a result is current when its receipt says what is there now."""

from __future__ import annotations

import dataclasses
import json

import pytest

from posenc.artifacts import receipts
from posenc.artifacts.files import write_sealed
from posenc.artifacts.receipts import Receipt, command_of, difference

NOW = {"data/a": "1", "data/config/code/x.json": "2", "data/out": "3"}
RECEIPT = Receipt(
    rule="measure",
    command="posenc.measure --output data/out",
    inputs={"data/a": "1", "data/config/code/x.json": "2"},
    outputs={"data/out": "3"},
    versions={"numpy": "2.4.6"},
)


def judged(receipt: Receipt | None = RECEIPT, now=NOW, **more) -> str | None:
    job = {"command": RECEIPT.command, "inputs": RECEIPT.inputs, "outputs": RECEIPT.outputs}
    return difference(receipt, now.get, **{**job, **more})


def test_what_is_there_now_is_current():
    assert judged() is None
    assert difference(RECEIPT, NOW.get) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"receipt": None}, "it has no receipt"),
        ({"command": "posenc.measure --twice"}, "its command changed"),
        ({"inputs": [*RECEIPT.inputs, "data/b"]}, "it reads other files now: data/b"),
        ({"inputs": ["data/a"]}, "it reads other files now: data/config/code/x.json"),
        ({"outputs": ["data/out", "data/more"]}, "data/more is not made yet"),
        ({"now": NOW | {"data/a": "9"}}, "data/a changed"),
        ({"now": NOW | {"data/config/code/x.json": "9"}}, "data/config/code/x.json changed"),
        ({"now": {"data/out": "3", "data/a": "1"}}, "data/config/code/x.json changed"),
        ({"now": NOW | {"data/out": "9"}}, "data/out is not what was made"),
        ({"now": {key: NOW[key] for key in RECEIPT.inputs}}, "data/out is gone"),
    ],
)
def test_anything_else_is_not_and_the_reason_is_named(changed, why):
    assert judged(**changed) == why


def test_a_receipt_is_read_as_it_was_written_and_believed_only_whole(tmp_path):
    path = tmp_path / "receipt.json"
    assert receipts.read(path) is None
    RECEIPT.write(path)
    assert receipts.read(path) == RECEIPT
    text = path.read_text()
    path.write_text(text.replace('"data/out": "3"', '"data/out": "9"'))
    assert receipts.read(path) is None
    path.write_text(text[: len(text) // 2])
    assert receipts.read(path) is None
    # From a later version of the project, where something more decides.
    write_sealed(path, {**dataclasses.asdict(RECEIPT), "machine": "m"})
    assert receipts.read(path) is None


def test_how_many_threads_compute_is_no_part_of_a_command():
    two = ["posenc.steps.train", "--threads", "2", "--name", "decoder"]
    eight = ["posenc.steps.train", "--threads", "8", "--name", "decoder"]
    assert command_of(two) == command_of(eight) == "posenc.steps.train --name decoder"


def test_the_digest_of_a_document_is_of_what_it_shows_alone():
    shown = {"paper/paper.tex": "1", "data/figures/a.pdf": "2"}
    digest = receipts.inputs_digest(shown)
    assert digest == receipts.inputs_digest({**shown, "data/config/paper/code/x.json": "3"})
    assert digest != receipts.inputs_digest({**shown, "paper/paper.tex": "4"})
    assert json.dumps(digest) and len(digest) == 12
