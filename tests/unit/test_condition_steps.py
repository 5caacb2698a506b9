"""Conditions, norms and reference levels: the numbers of a file by hand."""

import json

import numpy as np
import pyarrow as pa
import pytest

from posenc.artifacts.evaluations import OUTCOMES
from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    write_checksums,
    write_sealed,
)
from posenc.artifacts.tables import write_table
from posenc.conditions.section import Condition
from posenc.datasets.documents import write_documents
from posenc.datasets.section import Content, Text
from posenc.measurements.conditions import measure as conditions
from posenc.measurements.conditions.declaration import Conditions, Controls
from posenc.measurements.norms import measure as norms
from posenc.measurements.reference import measure as reference
from posenc.metrics.recovery import (
    Adaptation,
    PairedMeans,
    adaptation,
    by_bucket,
    paired_losses,
    recovered,
    recovered_by_bucket,
    recovered_perplexity,
)
from posenc.tokens.tokenize import TABLE

PARAMETERS = Conditions(
    documents=None, special_tokens=True, batch_tokens=100, calibration_share=0.5,
    bootstrap_samples=200, confidence=0.9, seed=1,
)  # fmt: skip
NAMES = {"intact": {}, "zero": {"position": "zero"}, "mean": {"position": "mean"}}
LENGTHS = [5, 9, 3, 7]
COVERAGE = {"documents": 4, "cut": 1, "read": 20, "whole": 25}


def evaluations(path, units, lengths=LENGTHS, is_decoder=True):
    """A file of evaluations with random losses; the losses by unit and document."""
    rng = np.random.default_rng(2)
    rows, losses = [], {}
    for level, unit in enumerate(units):
        for index, length in enumerate(lengths):
            cut = int(unit.split("@")[1]) if unit.startswith(("intact@", "zero@")) else length
            nll = (2 + level + rng.gamma(2, 0.3, min(cut, length) - 1)).astype(np.float32)
            losses[unit, index] = nll
            rows.append(
                {
                    "unit": unit,
                    "document_id": f"d{index}",
                    "nll": nll if is_decoder else [],
                    "bytes": 4 * (length - 1),
                    "tokens": min(cut, length),
                    "cosine": rng.uniform(0.5, 1, 3) * min(cut, length),
                }
            )
    identity = {"parameters": {"reading": {"max_tokens": 6}}}
    write_table(
        pa.Table.from_pylist(rows, OUTCOMES), path,
        {"is_decoder": is_decoder, "positions": "table", "vocabulary_size": 50, "bos": is_decoder,
         "coverage": COVERAGE,
         "units": {unit: identity for unit in units},
         "precision": {unit: {"mode": "exact"} for unit in units}},
    )  # fmt: skip
    return rows, losses


def job(tmp_path, **changes):
    section = {
        "parameters": PARAMETERS.model_dump(),
        "extrapolation": {
            "tokens": 9,
            "documents": 4,
            "bucket": 3,
            "conditions": ["zero", "intact"],
            "against": "zero",
        },
        "datasets": ["reviews"],
        "conditions": {n: Condition.model_validate(c).model_dump() for n, c in NAMES.items()},
        "sweeps": {},
        **changes,
    }
    (tmp_path / "job.json").write_text(json.dumps(section))
    return tmp_path / "job.json"


def documents(path, categories):
    """Documents with or without categories, one more than is evaluated."""
    content = Content(format="truthfulqa", text=Text(line_breaks="newline", normalization="none"))
    rows = (
        {"document_id": f"d{n}", "split": "validation", "text": "What?", "category": name}
        for n, name in enumerate([*categories, "spare"])
    )
    write_documents(rows, path, content, {})


def measured(tmp_path, config, long=("zero", "intact"), categories=(None,) * 4, **options):
    evaluations(tmp_path / "evaluations/long.parquet", long, **options)
    write_sealed(tmp_path / "masks/masks.json", {"masks": {"it": "0"}})
    write_sealed(tmp_path / "masks/it.json", {"mask": "it", "loss": 1.5, "provenance": {}})
    documents(tmp_path / "documents/reviews.parquet", categories)
    conditions.main(
        "m", config, tmp_path / "evaluations", tmp_path / "masks", tmp_path / "documents",
        tmp_path / "out",
    )  # fmt: skip
    return read_sealed(tmp_path / "out/reviews.json"), read_sealed(tmp_path / "out/long.json")


def test_losses_are_those_by_hand(tmp_path):
    _, losses = evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    result, _ = measured(tmp_path, job(tmp_path), lengths=[9, 9, 9])
    mean = {
        unit: np.concatenate([losses[unit, k] for k in range(4)]).astype(float).mean()
        for unit in NAMES
    }
    assert [entry["condition"] for entry in result["conditions"]] == list(NAMES)
    assert result["masks"] == [{"mask": "it", "loss": 1.5}]
    for entry in result["conditions"]:
        own = mean[entry["condition"]]
        share = (mean["zero"] - own) / (mean["zero"] - mean["intact"])
        expected = {
            "nll_per_token": own,
            "perplexity": np.exp(own),
            "delta_nll": own - mean["intact"],
            "delta_nll_without": own - mean["zero"],
            "recovered": share,
        }
        for name, value in expected.items():
            assert entry[name]["value"] == pytest.approx(value, abs=1e-9), name
            assert entry[name]["low"] <= entry[name]["value"] <= entry[name]["high"]
        worse = np.concatenate([losses[entry["condition"], k] for k in range(4)]) > np.log(50)
        assert entry["worse_than_uniform"]["value"] == pytest.approx(worse.mean())
        total = sum(losses[entry["condition"], k].sum() for k in range(4))
        bits = total / np.log(2) / sum(4 * (n - 1) for n in LENGTHS)
        assert entry["bits_per_byte"]["value"] == pytest.approx(bits, rel=1e-6)
    zero, intact = result["conditions"][1], result["conditions"][0]
    assert zero["recovered"] == {"value": 0, "low": 0, "high": 0}
    assert intact["recovered"] == {"value": 1, "low": 1, "high": 1}
    assert intact["delta_nll"] == {"value": 0, "low": 0, "high": 0}


def test_costs_by_category_are_those_by_hand(tmp_path):
    _, losses = evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    names = ["law", "myths", "law", "myths"]
    result, _ = measured(tmp_path, job(tmp_path), categories=names, lengths=[9, 9, 9])
    costs = result["categories"]
    assert costs["condition"] == "zero" and list(costs["delta_nll"]) == ["zero", "mean"]
    rows = {category["category"]: category for category in costs["categories"]}
    assert list(rows) == ["law", "myths"]
    for name, row in rows.items():
        own = [n for n in range(4) if names[n] == name]
        by_unit = [np.concatenate([losses[u, n] for n in own]).mean() for u in ("zero", "intact")]
        assert row["delta_nll"]["value"] == pytest.approx(by_unit[0] - by_unit[1], rel=1e-5)
        assert row["documents"] == 2 and 0 < row["p_value"] <= 1
    for entry in result["conditions"][1:]:
        cost = costs["delta_nll"][entry["condition"]]
        assert cost["value"] == pytest.approx(entry["delta_nll"]["value"])
        assert cost["low"] <= cost["value"] <= cost["high"]
    assert list(costs["recovered"]) == ["mean"]
    share = result["conditions"][2]["recovered"]["value"]
    assert costs["recovered"]["mean"]["value"] == pytest.approx(share)


def test_what_a_fit_adapts_to_is_subtracted_over_categories_too(tmp_path):
    controls = {"intact": "fitted", "placebo": "hashed", "placebo_intact": "both"}
    conditions_ = {**NAMES, **{name: {} for name in controls.values()}}
    parameters = PARAMETERS.model_copy(update={"controls": {"mean": Controls(**controls)}})
    evaluations(tmp_path / "evaluations/reviews.parquet", list(conditions_))
    config = job(
        tmp_path,
        parameters=parameters.model_dump(),
        conditions={n: Condition.model_validate(c).model_dump() for n, c in conditions_.items()},
    )
    names = ["law", "myths", "law", "myths"]
    result, _ = measured(tmp_path, config, categories=names, lengths=[9, 9, 9])
    by_documents = result["conditions"][2]["adaptation"]
    by_categories = result["categories"]["adaptation"]
    assert [name for name, shares in by_categories.items() if shares] == ["mean"]
    for name, estimate in by_documents.items():
        assert by_categories["mean"][name]["value"] == pytest.approx(estimate["value"])
        assert by_categories["mean"][name] != estimate  # the interval is another one


@pytest.mark.parametrize("names", [["law", None, "law", "myths"], ["law"] * 4])
def test_without_two_categories_there_are_no_costs_by_category(tmp_path, names):
    evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    result, _ = measured(tmp_path, job(tmp_path), categories=names, lengths=[9, 9, 9])
    assert result["categories"] is None


def test_cosines_are_means_over_tokens(tmp_path):
    rows, _ = evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    result, _ = measured(tmp_path, job(tmp_path), lengths=[9, 9, 9])
    for entry in result["conditions"]:
        own = [row for row in rows if row["unit"] == entry["condition"]]
        expected = sum(row["cosine"] for row in own) / sum(LENGTHS)
        cosines = [layer["value"] for layer in entry["layers"]]
        np.testing.assert_allclose(cosines, expected, rtol=0, atol=1e-12)


def test_nothing_is_recovered_of_what_is_not_lost(tmp_path):
    """Where the model without positions is no worse, a share means nothing."""
    evaluations(tmp_path / "evaluations/reviews.parquet", ["zero", "intact", "mean"])
    config = job(tmp_path, conditions={
        n: Condition.model_validate(NAMES[n]).model_dump() for n in ("zero", "intact", "mean")
    })  # fmt: skip
    result, _ = measured(tmp_path, config, lengths=[9, 9, 9])
    assert result["conditions"][0]["delta_nll"]["value"] < 0
    assert [entry["recovered"] for entry in result["conditions"]] == [None] * 3


def test_a_sweep_over_length_compares_at_the_same_length(tmp_path):
    units = [*NAMES, "intact@3", "zero@3", "intact@5", "zero@5"]
    _, losses = evaluations(tmp_path / "evaluations/reviews.parquet", units)
    sweep = {"key": "tokens", "units": {
        "intact": {"intact@3": 3.0, "intact@5": 5.0}, "zero": {"zero@3": 3.0, "zero@5": 5.0},
    }}  # fmt: skip
    result, _ = measured(tmp_path, job(tmp_path, sweeps={"length": sweep}), lengths=[9, 9, 9])
    for row in result["sweeps"]["length"]["rows"]:
        cut = int(row["value"])
        own, intact = (
            np.concatenate([losses[f"{name}@{cut}", k] for k in range(4)]).astype(float).mean()
            for name in (row["condition"], "intact")
        )
        assert row["perplexity"]["value"] == pytest.approx(np.exp(own))
        assert row["delta_nll"]["value"] == pytest.approx(own - intact, abs=1e-12)


def test_long_documents_by_position(tmp_path):
    evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    config = job(tmp_path)
    _, result = measured(tmp_path, config, lengths=[9, 9, 9])
    _, losses = evaluations(tmp_path / "again.parquet", ["zero", "intact"], lengths=[9, 9, 9])
    assert [entry["condition"] for entry in result["conditions"]] == ["zero", "intact"]
    assert (result["documents"], result["trained_tokens"]) == (3, 6)
    for entry in result["conditions"]:
        assert [(b["from"], b["to"]) for b in entry["buckets"]] == [(1, 4), (4, 7), (7, 9)]
        for bucket in entry["buckets"]:
            own = [
                losses[entry["condition"], k][bucket["from"] - 1 : bucket["to"] - 1]
                for k in range(3)
            ]
            assert bucket["nll_per_token"]["value"] == pytest.approx(np.mean(own), rel=1e-6)
        end, both = entry["buckets"][-1], {}
        for name in (entry["condition"], "zero"):
            both[name] = np.array(
                [losses[name, k][end["from"] - 1 : end["to"] - 1].astype(float) for k in range(3)]
            )
        difference = (both[entry["condition"]] - both["zero"]).mean(axis=1)  # [documents]
        assert entry["difference"]["value"] == pytest.approx(difference.mean(), abs=1e-12)
        # A mean of resampled documents lies between the least and the largest.
        low, high = entry["difference"]["low"], entry["difference"]["high"]
        assert difference.min() - 1e-12 <= low <= high <= difference.max() + 1e-12
    assert result["against"] == "zero"
    assert result["conditions"][0]["difference"] == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_without_long_documents_it_is_not_run(tmp_path):
    evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    _, result = measured(tmp_path, job(tmp_path), lengths=[9])
    assert (result["status"], result["reason"]) == ("not run", "1 documents of 9 tokens")


def test_an_encoder_has_cosines_and_no_losses(tmp_path):
    evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES), is_decoder=False)
    result, long = measured(tmp_path, job(tmp_path), long=(), is_decoder=False)
    assert result["is_decoder"] is False and "perplexity" not in result["conditions"][0]
    assert (long["status"], long["reason"]) == ("not run", "no language-model head")


def test_units_that_scored_other_tokens_are_refused(tmp_path):
    rows, _ = evaluations(tmp_path / "evaluations/reviews.parquet", list(NAMES))
    rows[0]["nll"] = rows[0]["nll"][:-1]
    identity = {"parameters": {"reading": {"max_tokens": 6}}}
    write_table(
        pa.Table.from_pylist(rows, OUTCOMES), tmp_path / "evaluations/reviews.parquet",
        {"is_decoder": True, "positions": "table", "vocabulary_size": 50, "bos": True,
         "coverage": COVERAGE,
         "units": {unit: identity for unit in NAMES},
         "precision": {unit: {"mode": "exact"} for unit in NAMES}},
    )  # fmt: skip
    with pytest.raises(ArtifactError, match="scored different tokens"):
        measured(tmp_path, job(tmp_path))


def test_paired_means_pair():
    """A constant difference has no width, however much the documents differ."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 50, 40)
    own = rng.gamma(2, 3, 40) * tokens
    means = PairedMeans(
        np.stack([own, own + 0.25 * tokens], 1), tokens, samples=500, confidence=0.95, seed=0
    )
    difference = means.of(np.subtract, 1, 0)
    assert difference.low == pytest.approx(0.25) == difference.high
    single = means.of(lambda a: a, 0)
    assert single.high - single.low > 0.5


def test_a_condition_is_compared_with_those_that_are_there():
    rng = np.random.default_rng(1)
    sums, tokens = rng.gamma(20, 1, (30, 3)) + np.array([0, 0, 40]), np.full(30, 10)
    means = PairedMeans(sums, tokens, samples=200, confidence=0.9, seed=0)
    whole = paired_losses(means, 1, 0, 2)
    alone = paired_losses(means, 1, None, 2)
    assert alone.delta_nll is alone.recovered is alone.recovered_perplexity is None
    assert alone.delta_nll_without.as_json() == whole.delta_nll_without.as_json()
    own, intact, without = (float(sums[:, k].sum() / tokens.sum()) for k in (1, 0, 2))
    assert whole.nll_per_token.value == pytest.approx(own)
    assert whole.perplexity.value == pytest.approx(np.exp(own))
    assert whole.delta_nll.value == pytest.approx(own - intact)
    assert whole.recovered.value == pytest.approx((without - own) / (without - intact))


@pytest.mark.parametrize("bucket", [1, 4, 5, 99])
def test_buckets_are_slices(bucket):
    losses = np.random.default_rng(2).gamma(2, 1, (6, 12))
    buckets = by_bucket(losses, bucket, samples=100, confidence=0.9, seed=0)
    assert [begin for begin, _, _ in buckets] == list(range(0, 12, bucket))
    for begin, end, estimate in buckets:
        assert end == min(begin + bucket, 12)
        assert estimate.value == pytest.approx(losses[:, begin:end].mean())
        assert estimate.low <= estimate.value <= estimate.high


@pytest.mark.parametrize("bucket", [1, 5, 99])
def test_shares_of_buckets_are_those_of_their_tokens(bucket):
    intact = np.random.default_rng(2).gamma(2, 1, (6, 12))  # [documents, tokens]
    lost = np.where(np.arange(12) < 5, 0.0, 1.0)  # [tokens]: nothing is lost in the first five
    without = intact + lost
    own = intact + lost * np.arange(12) / 12
    shares = recovered_by_bucket(
        (own, without, intact), bucket, samples=100, confidence=0.9, seed=0
    )
    for share, begin in zip(shares, range(0, 12, bucket), strict=True):
        tokens = slice(begin, begin + bucket)
        if not lost[tokens].any():
            assert share is None
            continue
        expected = 1 - (lost * np.arange(12) / 12)[tokens].sum() / lost[tokens].sum()
        assert share.value == pytest.approx(expected)
        # All documents lose and recover the same: their draw changes nothing.
        assert share.high - share.low < 1e-9


def test_shares_recovered_by_hand():
    """The catalogue's first result: 82 % of the perplexity, 79 % of its logarithm."""
    condition, without, intact = np.log([43.0, 58.6, 39.7])
    assert recovered_perplexity(condition, without, intact) == pytest.approx(15.6 / 18.9)
    expected = np.log(58.6 / 43.0) / np.log(58.6 / 39.7)
    assert recovered(condition, without, intact) == pytest.approx(expected)


ROLES = ("intact", "without", "fitted", "fitted_intact", "placebo", "placebo_intact")


def adapted(losses: dict[str, float]) -> Adaptation:
    """Of documents that differ, each of 10 tokens."""
    own = np.random.default_rng(3).normal(size=(40, 1))  # [documents, 1]: common to all conditions
    sums = 10 * (own + np.array([losses[role] for role in ROLES]))  # [documents, 6]
    means = PairedMeans(sums, np.full(40, 10), samples=200, confidence=0.9, seed=0)
    return adaptation(means, **{role: place for place, role in enumerate(ROLES)})


def test_a_fit_that_adapts_alone_restores_nothing():
    """What a fit gives the intact model too is adaptation, and none of it is position."""
    estimates = adapted({"intact": 3.0, "without": 4.0, "fitted": 3.5, "fitted_intact": 2.5,
                     "placebo": 3.9, "placebo_intact": 2.9})  # fmt: skip
    assert set(estimates._fields) == {
        f"{name}{share}"
        for name in ("interaction", "placebo_interaction", "beyond_placebo")
        for share in ("", "_share")
    }
    for estimate in estimates:
        assert [estimate.value, estimate.low, estimate.high] == pytest.approx([0, 0, 0])


def test_what_of_a_fit_is_position_by_hand():
    estimates = adapted({"intact": 3.0, "without": 5.0, "fitted": 3.5, "fitted_intact": 2.75,
                     "placebo": 4.5, "placebo_intact": 2.875})  # fmt: skip
    by_hand = {
        "interaction": 1.5 - 0.25, "interaction_share": 1.25 / 2,
        "placebo_interaction": 0.5 - 0.125, "placebo_interaction_share": 0.375 / 2,
        "beyond_placebo": 0.875, "beyond_placebo_share": 0.4375,
    }  # fmt: skip
    values = {name: estimate.value for name, estimate in estimates._asdict().items()}
    assert values == pytest.approx(by_hand)


def test_no_share_of_a_loss_that_is_not_there():
    estimates = adapted(dict.fromkeys(ROLES, 3.0))
    assert estimates.interaction is not None and estimates.beyond_placebo_share is None


def tokens(path, texts):
    table = pa.table(
        {
            "document_id": [f"d{k}" for k in range(len(texts))], "input_ids": texts,
            "starts": [[0] * len(ids) for ids in texts], "ends": [[0] * len(ids) for ids in texts],
            "special": [[False] * len(ids) for ids in texts], "truncated": [False] * len(texts),
            "bytes": [2 * len(ids) for ids in texts], "left_out": [0] * len(texts),
        },
        schema=TABLE,
    )  # fmt: skip
    write_table(table, path, {"bos": True, "max_tokens": 30})


def model(folder, places):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    words = rng.normal(size=(20, 8)).astype(np.float32)
    save_file(
        {"transformer.wte.weight": words, "transformer.wpe.weight": places.astype(np.float32)},
        folder / "model.safetensors",
    )
    (folder / "config.json").write_text(json.dumps({"vocab_size": 20}))
    write_checksums(folder / "checksums.json", "config.json", "model.safetensors")


@pytest.mark.parametrize("carries", [True, False])
def test_norms_tell_position_where_it_is_planted(tmp_path, carries):
    rng = np.random.default_rng(1)
    places = rng.normal(size=(30, 8))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    if carries:
        places *= 50 + 10 * np.arange(30)[:, None]
    model(tmp_path / "m", places)
    tokens(tmp_path / "tokens/reviews.parquet", rng.integers(0, 20, (40, 30)).tolist())
    (tmp_path / "job.json").write_text(json.dumps({
        "parameters": {"folds": 4, "tokens": 600, "seed": 0},
        "reading": {"family": "gpt2", "max_tokens": 30}, "datasets": ["reviews"],
    }))  # fmt: skip
    norms.main("m", tmp_path / "job.json", tmp_path / "m", tmp_path / "tokens", tmp_path / "out")
    result = read_sealed(tmp_path / "out/reviews.json")
    assert (result["tokens"], result["positions"]) == (600, 30)
    if carries:
        assert result["r2"]["sum"]["linear"] > 0.99
        assert result["r2"]["position_embeddings"]["linear"] > 0.99
    else:
        assert result["r2"]["sum"]["linear"] < 0.05
    assert result["r2"]["token_embeddings"]["flexible"] < 0.05
    np.testing.assert_allclose(result["curve"], np.linalg.norm(places, axis=1), rtol=1e-4)


def test_reference_levels_are_in_order_on_text_with_order(tmp_path):
    """A chain of order two: each level that sees more of it is better; uniform is V."""
    rng = np.random.default_rng(3)
    successor = rng.integers(1, 20, (20, 20))

    def text(length):
        ids = [0, int(rng.integers(1, 20))]
        while len(ids) < length:
            chance = rng.random() < 0.1
            ids.append(int(rng.integers(1, 20)) if chance else int(successor[ids[-2], ids[-1]]))
        return ids

    model(tmp_path / "m", np.ones((30, 8)))
    corpus = pa.table({"input_ids": [text(60) for _ in range(300)], "held_out": [False] * 300})
    write_table(corpus, tmp_path / "corpus.parquet", {})
    tokens(tmp_path / "tokens/reviews.parquet", [text(30) for _ in range(20)])
    section = {
        "parameters": {"orders": [2, 3], "bootstrap_samples": 100, "confidence": 0.9, "seed": 0},
        "reading": {"family": "gpt2", "max_tokens": 30},
        "datasets": ["reviews"],
    }
    (tmp_path / "job.json").write_text(json.dumps(section))
    given = (tmp_path / "job.json", tmp_path / "m", tmp_path / "tokens", tmp_path / "out")
    reference.main("m", *given, corpus=tmp_path / "corpus.parquet")
    result = read_sealed(tmp_path / "out/reviews.json")
    levels = {level["level"]: level["perplexity"]["value"] for level in result["levels"]}
    assert levels["uniform"] == pytest.approx(20)
    order = ["Kneser-Ney trigram", "Kneser-Ney bigram", "unigram", "uniform"]
    assert sorted(levels, key=levels.get) == order
    assert levels["Kneser-Ney trigram"] < 3
    reference.main("m", *given, corpus=None)
    alone = read_sealed(tmp_path / "out/reviews.json")
    assert [level["level"] for level in alone["levels"]] == ["uniform"] and alone["reason"]
    section["reading"]["family"] = "bert"
    (tmp_path / "job.json").write_text(json.dumps(section))
    reference.main("m", *given, corpus=None)
    assert read_sealed(tmp_path / "out/reviews.json")["status"] == "not run"
