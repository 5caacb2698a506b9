"""Evaluations match captures and the library; nothing is evaluated twice."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.nn import functional

from posenc.artifacts.files import ArtifactError, write_checksums, write_sealed
from posenc.artifacts.tables import read_table, write_table
from posenc.capture import evaluation
from posenc.capture.capture import forward, packed_last
from posenc.capture.evaluation import (
    evaluate,
    groups_of,
    last_states_under,
    losses_under,
    stacked_states,
    states_under,
)
from posenc.capture.interventions import applied
from posenc.capture.parts import ConditionError, blocks
from posenc.conditions.section import Condition
from posenc.metrics.similarity import token_cosines
from posenc.models.load import load
from posenc.steps import evaluate as step
from tests.parity.library import reference

CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "log": {"position": "zero", "mask": {"semantics": "log_mask",
                                          "profile": {"kind": "linear", "floor": 0.1}}},
    "late": {"position": "zero", "mask": {"semantics": "additive", "layers": [2],
                                           "profile": {"kind": "alibi", "slope": 0.5}}},
    "alone": {"position": "zero", "segments": 1},
}  # fmt: skip


def conditions():
    return {name: Condition.model_validate(section) for name, section in CONDITIONS.items()}


def test_a_condition_on_a_layer_that_the_model_lacks_is_refused(folder, family, documents):
    """Where conditions share a forward pass, a mask that acts nowhere would be as without it."""
    mask = {"semantics": "additive", "profile": {"kind": "alibi", "slope": 1}, "layers": [9]}
    absent = Condition.model_validate({"position": "zero", "mask": mask})
    model = load(folder, family)
    with pytest.raises(ConditionError, match=r"mask\.layers names 9, but the model's are 0 to 2"):
        stacked_states(model, documents, [Condition(position="zero"), absent], {})


def test_outcomes_are_the_library_s(folder, family, documents):
    model = load(folder, family)
    counted = [[place != 0 for place in range(len(ids))] for ids in documents]
    chosen = {name: condition for name, condition in conditions().items() if name != "alone"}
    outcomes = {}
    for name, outcome in evaluate(model, documents, counted, chosen, {}, 120):
        outcomes[name, outcome.document] = outcome
    assert len(outcomes) == len(chosen) * len(documents)
    for (name, index), outcome in outcomes.items():
        ids = documents[index]
        with torch.inference_mode():
            intact = forward(model, [ids])[0]
            with applied(model, chosen[name]):
                states = forward(model, [ids])[0]
        keep = np.array(counted[index])
        cosines = [
            token_cosines(x[0].numpy(), y[0].numpy())[keep].sum()
            for x, y in zip(intact, states, strict=True)
        ]
        np.testing.assert_allclose(outcome.cosine, cosines, rtol=0, atol=2e-5)
        if family == "gpt2":
            with torch.inference_mode():
                logits = model.lm_head(states[-1][0])[:-1]
            nll = functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
            np.testing.assert_allclose(outcome.nll, nll.numpy(), rtol=0, atol=2e-5)
        else:
            assert len(outcome.nll) == 0


def test_the_batch_changes_nothing(folder, family, documents):
    model = load(folder, family)
    counted = [[True] * len(ids) for ids in documents]

    def run(budget):
        pairs = evaluate(model, documents, counted, conditions(), {}, budget)
        return {(name, outcome.document): outcome for name, outcome in pairs}

    small, large = run(1), run(10_000)
    assert small.keys() == large.keys()
    for key, outcome in small.items():
        np.testing.assert_allclose(outcome.nll, large[key].nll, rtol=0, atol=2e-5)
        np.testing.assert_allclose(outcome.cosine, large[key].cosine, rtol=0, atol=2e-4)


def test_conditions_that_differ_in_their_mask_share_a_pass(folder, family, documents, monkeypatch):
    assert groups_of(conditions()) == [["intact"], ["zero", "log", "late"], ["alone"]]
    model = load(folder, family)
    passes = []
    monkeypatch.setattr(
        evaluation,
        "packed_last",
        lambda *given: (passes.append(len(given[1])), packed_last(*given))[1],
    )
    counted = [[True] * len(ids) for ids in documents]
    chosen = {name: condition for name, condition in conditions().items() if name != "alone"}
    list(evaluate(model, documents, counted, chosen, {}, 10_000))
    assert len(passes) == 2  # the intact model, which all are compared with, and the others


@pytest.mark.parametrize(
    ("chosen", "rows"),
    # The trunk of "zero" is "zero" itself; of the others, nothing needs it once all have parted.
    [(["zero", "log", "late"], [2, 2, 3]), (["log", "late"], [2, 2, 2]), (["log"], [1, 1, 1])],
)
def test_a_trunk_that_nothing_needs_is_not_computed(folder, family, documents, chosen, rows):
    model = load(folder, family)
    counts: list[int] = []
    hooks = [
        block.attention.output.dense.register_forward_hook(look)
        if family != "gpt2"
        else block.attn.c_proj.register_forward_hook(look)
        for look in [lambda module, given, out: counts.append(len(out))]
        for block in blocks(model)
    ]
    picked = {name: conditions()[name] for name in chosen}
    alone = {name: {} for name in picked}
    for name, index, state in last_states_under(
        model, documents, picked, {}, 10_000, lambda state, pack: state.split(pack.lengths)
    ):
        alone[name][index] = state
    for hook in hooks:
        hook.remove()
    assert counts == rows
    for name, states in alone.items():
        (each,) = states_under(model, documents, [picked[name]], {})
        expected = each[-1].split([len(ids) for ids in documents])
        for index, state in states.items():
            np.testing.assert_allclose(state, expected[index], rtol=0, atol=2e-5)


@pytest.mark.parametrize("family", ["gpt2"], indirect=True)
def test_losses_need_no_intact_model(folder, family, documents):
    model = load(folder, family)
    counted = [[True] * len(ids) for ids in documents]
    given = (model, documents, conditions(), {})
    losses = {(name, index): nll for name, index, nll in losses_under(*given, 90)}
    for name, outcome in evaluate(model, documents, counted, conditions(), {}, 120):
        nll = losses.pop((name, outcome.document))
        np.testing.assert_allclose(nll, outcome.nll, rtol=0, atol=2e-5)
    assert losses == {}


@pytest.mark.parametrize("family", ["gpt2"], indirect=True)
def test_progress_is_of_tokens_under_all_conditions(folder, family, documents):
    model, few = load(folder, family), documents[:3]
    tokens, chosen = sum(map(len, few)), {n: conditions()[n] for n in ("intact", "zero", "log")}
    steps: list[int] = []
    progress = SimpleNamespace(update=steps.append)
    list(losses_under(model, few, chosen, {}, 1, progress))
    assert sum(steps) == 3 * tokens and len(steps) == 3 * 2  # two groups
    steps.clear()
    counted = [[True] * len(ids) for ids in few]
    list(evaluate(model, few, counted, chosen, {}, 1, progress))
    assert steps == [3 * length for length in sorted(map(len, few))]


@pytest.mark.parametrize(
    ("batch_tokens", "groups", "most"),
    # 60 tokens have room for their states: of 4 bytes, 4 numbers, and 2 layers and the embeddings.
    [(45, [["a", "b", "c"], ["d"]], 15), (900, [["a"], ["b", "c"]], 30), (7, [["a", "b"]], 3),
     (1, [["a", "b"]], 1), (20, [], 20), (900, [], 60)],
)  # fmt: skip
def test_a_pass_has_its_tokens_under_all_conditions_of_a_group(
    batch_tokens, groups, most, monkeypatch
):
    monkeypatch.setattr(evaluation, "STATES_BYTES", 60 * 4 * 4 * 3)
    model = sized("cpu")
    lengths = [9, 2, 15, 1, 9, 30, 3, 2, 31, 6, 60]
    documents = [[number] * length for number, length in enumerate(lengths)]
    conditions = {name: Condition() for names in groups for name in names}
    packs = list(evaluation._packs(model, documents, conditions, groups, batch_tokens))
    order = [index for pack, _ in packs for index in pack.documents]
    assert order == [3, 1, 7, 6, 9, 0, 4, 2, 5, 8, 10], "the shortest first, else as they are"
    tokens = [sum(map(len, ids)) for _, ids in packs]
    for pack, ids in packs:
        assert ids == [documents[index] for index in pack.documents]
        assert len(ids) == 1 or sum(map(len, ids)) <= most
    # The next document would not have fit.
    for before, (_, ids) in zip(tokens, packs[1:], strict=False):
        assert before + len(ids[0]) > most


def test_a_pass_of_overlapping_windows_has_fewer_documents():
    model = sized("cpu")
    sliding = Condition(segments=8, stride=3)  # a token lies in three windows at most
    for condition, tokens in ((Condition(segments=8), 12), (sliding, 4)):
        given = (model, [[0]] * 24, {"it": condition}, [["it"]], 12)
        assert {pack.tokens for pack, _ in evaluation._packs(*given)} == {tokens}


def test_a_pass_on_a_gpu_has_more_documents():
    documents = [[0]] * 1000
    for device, tokens in (("cpu", 12), ("cuda", 12 * 16)):
        packs = evaluation._packs(sized(device), documents, {"it": Condition()}, [["it"]], 12)
        assert max(pack.tokens for pack, _ in packs) == tokens


def sized(device: str) -> SimpleNamespace:
    """What the sizes of passes depend on."""
    weight = SimpleNamespace(device=SimpleNamespace(type=device))
    return SimpleNamespace(
        _posenc_architecture=SimpleNamespace(d_model=4, n_layers=2),
        parameters=lambda: iter([weight]),
    )


@pytest.fixture
def workplace(tmp_path, documents):
    """A decoder, its tokens and an empty list of masks, as the workflow lays them out."""
    reference("gpt2").save_pretrained(tmp_path / "weights")
    write_checksums(tmp_path / "weights/checksums.json", "config.json", "model.safetensors")
    from posenc.tokens.tokenize import TABLE

    def tokens(path, texts, longest):
        table = pa.table(
            {
                "document_id": [f"d{index}" for index in range(len(texts))],
                "input_ids": texts,
                "starts": [[0] * len(ids) for ids in texts],
                "ends": [[0] * len(ids) for ids in texts],
                "special": [[place == 0 for place in range(len(ids))] for ids in texts],
                "truncated": [False] * len(texts),
                "bytes": [3 * len(ids) for ids in texts],
                "left_out": [0] * len(texts),
            },
            schema=TABLE,
        )
        write_table(table, path, {"bos": True, "max_tokens": longest})

    tokens(tmp_path / "tokens/reviews.parquet", documents, 40)
    long = [documents[3] * 2, documents[1], documents[3][::-1] * 2]
    tokens(tmp_path / "long.parquet", [ids[:50] for ids in long], 50)
    write_sealed(tmp_path / "masks/masks.json", {"model": "m", "masks": {}})
    job = {
        "reading": {"family": "gpt2", "max_tokens": 40}, "device": "cpu", "batch_tokens": 100,
        "precision": "exact", "documents": 5, "special_tokens": True, "datasets": ["reviews"],
        "units": {n: {"condition": c, "tokens": None} for n, c in CONDITIONS.items()}
        | {"log@8": {"condition": CONDITIONS["log"], "tokens": 8}},
        "long": {"zero": {"condition": CONDITIONS["zero"], "tokens": None}},
    }  # fmt: skip
    (tmp_path / "job.json").write_text(json.dumps(job))
    return tmp_path


def call(place):
    step.main("m", place / "job.json", place / "weights", place / "tokens", place / "masks",
              place / "studies/evaluations/m", place / "long.parquet", threads=1)  # fmt: skip
    return place / "studies/evaluations/m"


def test_the_step_writes_every_unit_and_document(workplace, documents):
    output = call(workplace)
    table, metadata = read_table(output / "reviews.parquet")
    assert metadata["vocabulary_size"] == 97
    for unit in [*CONDITIONS, "log@8"]:
        rows = table.filter(pa.compute.equal(table["unit"], unit)).to_pylist()
        assert sorted(row["document_id"] for row in rows) == [f"d{k}" for k in range(5)]
        for row in rows:
            ids = documents[int(row["document_id"][1:])]
            cut = ids[:8] if unit == "log@8" else ids
            assert len(row["nll"]) == len(cut) - 1 and row["tokens"] == len(cut)
            assert row["bytes"] == (3 * len(ids) if len(cut) == len(ids) else None)
    # Only documents that reach the length are long.
    long, _ = read_table(output / "long.parquet")
    assert long["document_id"].to_pylist() == ["d0", "d2"]
    assert not list((workplace / "studies").glob("captures/*"))


def test_what_is_current_is_kept_and_the_rest_is_made(workplace, capsys, monkeypatch):
    output = call(workplace)
    before = (output / "reviews.parquet").read_bytes()
    monkeypatch.setattr(
        "posenc.models.affine.load_ready", lambda *_: pytest.fail("the model was loaded")
    )
    call(workplace)
    assert (output / "reviews.parquet").read_bytes() == before
    assert "6 of 6 are current" in capsys.readouterr().err
    monkeypatch.undo()
    job = json.loads((workplace / "job.json").read_text())
    job["units"]["late"]["condition"]["mask"]["profile"]["slope"] = 0.25
    (workplace / "job.json").write_text(json.dumps(job))
    evaluated = []
    real = evaluation.evaluate
    monkeypatch.setattr(
        evaluation, "evaluate",
        lambda model, ids, counted, chosen, *rest, **more: (
            evaluated.extend(chosen), real(model, ids, counted, chosen, *rest, **more))[1],
    )  # fmt: skip
    old, _ = read_table(output / "reviews.parquet")
    call(workplace)
    new, _ = read_table(output / "reviews.parquet")
    assert evaluated == ["late"]
    same = [unit != "late" for unit in old["unit"].to_pylist()]
    assert old.filter(same).equals(new.filter(same)) and not old.equals(new)


def test_a_file_without_units_is_written_and_mended(workplace):
    """An encoder has no long documents, yet the rule's output exists."""
    job = json.loads((workplace / "job.json").read_text())
    (workplace / "job.json").write_text(json.dumps({**job, "long": {}}))
    path = call(workplace) / "long.parquet"
    assert len(read_table(path)[0]) == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    call(workplace)
    assert path.read_bytes() == whole


def test_a_stopped_run_goes_on_with_its_documents(workplace, monkeypatch):
    whole = call(workplace)
    expected = (whole / "reviews.parquet").read_bytes()
    (whole / "reviews.parquet").unlink()
    monkeypatch.setattr(step, "CHUNK_TOKENS", 20)
    real, calls = step._rows_of_length, []

    def dies(*given):
        calls.append(given[2].tolist())
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(step, "_rows_of_length", dies)
    with pytest.raises(KeyboardInterrupt):
        call(workplace)
    done = list((workplace / "studies/captures").rglob("*.parquet"))
    assert len(done) == 1  # two calls per chunk: whole documents, and those that are cut
    done[0].with_name("00001.parquet").write_bytes(b"half")
    monkeypatch.setattr(step, "_rows_of_length", real)
    call(workplace)
    ours, _ = read_table(whole / "reviews.parquet")
    import pyarrow.parquet as pq

    (workplace / "expected.parquet").write_bytes(expected)
    theirs = pq.read_table(workplace / "expected.parquet")
    assert ours["unit"].to_pylist() == theirs["unit"].to_pylist()
    for a, b in zip(ours["nll"].to_pylist(), theirs["nll"].to_pylist(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)


def test_fast_evaluations_say_how_far_they_are_from_float32(workplace, capsys, in_bfloat16):
    exact, metadata = read_table(call(workplace) / "reviews.parquet")
    assert set(map(str, metadata["precision"].values())) == {"{'mode': 'exact'}"}
    job = json.loads((workplace / "job.json").read_text())
    (workplace / "job.json").write_text(json.dumps({**job, "precision": "fast"}))
    capsys.readouterr()
    output = call(workplace)
    fast, metadata = read_table(output / "reviews.parquet")
    printed = capsys.readouterr().err
    assert "reviews: computed in bfloat16; off float32 by at most" in printed
    assert "long: computed in bfloat16" in printed
    # All five documents are in the sample: what is said is how the two files differ.
    for unit, said in metadata["precision"].items():
        ours, theirs = (
            table.filter(pa.compute.equal(table["unit"], unit)) for table in (fast, exact)
        )
        nll = [np.concatenate(part["nll"].to_pylist()).astype(float) for part in (ours, theirs)]
        assert said["mode"] == "fast" and said["tokens"] == sum(ours["tokens"].to_pylist())
        assert said["nll_difference"] == pytest.approx((nll[0] - nll[1]).mean(), abs=2e-6)
        assert said["nll_sd"] == pytest.approx((nll[0] - nll[1]).std(), abs=2e-6)
        cosines = [np.sum(part["cosine"].to_pylist(), axis=0) for part in (ours, theirs)]
        difference = np.abs(cosines[0] - cosines[1]) / said["tokens"]
        np.testing.assert_allclose(said["cosine_difference"], difference, atol=2e-6)
        assert 0 < said["nll_sd"] < 0.05
    # What is kept still says it.
    whole = (output / "reviews.parquet").read_bytes()
    job["units"].pop("late")
    (workplace / "job.json").write_text(json.dumps({**job, "precision": "fast"}))
    _, without = read_table(call(workplace) / "reviews.parquet")
    assert without["precision"] == {
        n: value for n, value in metadata["precision"].items() if n != "late"
    }
    assert (output / "reviews.parquet").read_bytes() != whole


def test_other_weights_are_refused(workplace):
    path = workplace / "weights/model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError):
        call(workplace)
