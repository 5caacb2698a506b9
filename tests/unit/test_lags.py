"""Predicted against found offsets: correlations, chance, the step on both measurements."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from posenc.artifacts.files import ArtifactError, read_sealed, write_json, write_sealed
from posenc.artifacts.precision import precisions
from posenc.measurements.frame import result
from posenc.measurements.heads import measure as heads_step
from posenc.measurements.lags import figure as figure
from posenc.measurements.lags import measure as step
from posenc.measurements.lags.declaration import Lags
from posenc.measurements.relative_attention import measure as weights_step
from posenc.metrics import lags as measures

from . import synthetic, test_heads, test_relative_attention
from .damage import call
from .runs import result_of
from .test_figures import check_texts

SECTIONS = synthetic.params_of().figures
PARAMETERS = Lags(bootstrap_samples=200, confidence=0.9, seed=0)
SETTINGS = {"samples": 400, "confidence": 0.95, "seed": 0}


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_scipys(ties):
    rng = generator(1)
    x = rng.normal(size=60)
    y = 0.5 * x + rng.normal(size=60)
    if ties:
        x, y = x.round(), y.round()
    comparison = measures.compare(x, y, **SETTINGS)
    assert comparison.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert comparison.pearson.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    assert comparison.reason is None and comparison.undefined == 0
    for name in ("spearman", "pearson"):
        estimate = getattr(comparison, name)
        assert estimate.low < estimate.value < estimate.high


def test_the_interval_is_that_of_scipys_bootstrap():
    rng = generator(2)
    x = rng.normal(size=80)
    y = x + rng.normal(size=80)
    ours = measures.compare(x, y, samples=4000, confidence=0.9, seed=0).pearson
    theirs = stats.bootstrap(
        (x, y), lambda a, b: stats.pearsonr(a, b).statistic, paired=True, vectorized=False,
        n_resamples=4000, method="percentile", confidence_level=0.9, random_state=1,
    ).confidence_interval  # fmt: skip
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.01)


def test_unrelated_offsets_are_at_chance():
    rng, agree, covered = generator(3), [], 0
    for trial in range(60):
        x, y = rng.integers(-3, 4, (2, 70))
        agreement = measures.agreement(x, y, samples=200, confidence=0.9, seed=trial)
        agree.append(agreement.share.value - agreement.chance.value)
        pearson = measures.compare(x, y, samples=200, confidence=0.9, seed=trial).pearson
        covered += pearson.low <= 0 <= pearson.high
    assert abs(np.mean(agree)) < 0.015
    assert covered > 45


def test_chance_is_the_mean_of_all_permutations():
    x, y = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, 0, 5])
    agreement = measures.agreement(x, y, samples=4000, confidence=0.95, seed=0)
    expected = np.mean([np.mean(x == generator(s).permutation(y)) for s in range(4000)])
    assert agreement.chance.value == pytest.approx((2 * 2 + 1 * 2 + 3 * 1) / 36)
    assert agreement.chance.value == pytest.approx(expected, abs=0.01)
    assert agreement.share.value == pytest.approx(3 / 6)
    same = measures.agreement(np.arange(30), np.arange(30), **SETTINGS)
    assert same.share.value == 1 and same.p == 1 / 401


def test_a_difference_between_models_is_no_correlation():
    rng = generator(4)
    groups = np.repeat([0, 1], 40)
    x, y = rng.normal(size=(2, 80)) + 10 * groups
    assert stats.pearsonr(x, y).statistic > 0.9
    comparison = measures.compare(x, y, groups=groups, **SETTINGS)
    for name in ("spearman", "pearson"):
        assert getattr(comparison, name).low < 0 < getattr(comparison, name).high
    inside = [x[groups == g] - x[groups == g].mean() for g in (0, 1)]
    np.testing.assert_allclose(measures.within(x, groups, False), np.concatenate(inside))
    # Neither are equal offsets: permutations stay within a model.
    chance = measures.agreement(groups, groups, groups=groups, **SETTINGS).chance
    assert chance.as_json() == {"value": 1, "low": 1, "high": 1}


def test_what_is_the_same_for_all_heads_has_no_correlation():
    for x, y, which in (([1, 1, 1], [1, 2, 3], "predicted"), ([1, 2, 3], [0.1] * 3, "found")):
        comparison = measures.compare(x, y, **SETTINGS)
        assert comparison.spearman is None and comparison.pearson is None
        assert which in comparison.reason
    # A resample in which all are equal is counted and left out.
    comparison = measures.compare([0, 0, 0, 1], [0, 1, 0, 1], **SETTINGS)
    assert comparison.undefined == pytest.approx(0.75**4 + 0.25**4 + 0.06, abs=0.08)
    assert -1 <= comparison.spearman.low <= comparison.spearman.high <= 1


def test_layers_are_the_units_of_chance():
    """What all heads of a layer share is one piece of evidence a layer."""
    rng = generator(8)
    layers = np.repeat(np.arange(6), 12)
    shared = rng.normal(size=6)[layers]
    x, y = shared + 0.01 * rng.normal(size=72), shared + 0.01 * rng.normal(size=72)
    by_head = measures.compare(x, y, **SETTINGS).spearman
    comparison = measures.over_layers(x, y, layers, **SETTINGS)
    assert comparison.spearman.value == by_head.value > 0.95
    wide, narrow = (estimate.high - estimate.low for estimate in (comparison.spearman, by_head))
    assert wide > 2 * narrow
    # Within layers nothing is predicted, as permutations there say: any p is equally likely.
    settings = {**SETTINGS, "samples": 100}
    p = [
        measures.over_layers(shared + 0.01 * rng.normal(size=72), y, layers, **settings).p
        for _ in range(40)
    ]
    assert 0.35 < np.mean(p) < 0.65
    predicted = y + 0.01 * rng.normal(size=72)
    assert measures.over_layers(predicted, y, layers, **SETTINGS).p < 0.01


def test_the_interval_over_layers_is_that_of_drawn_layers():
    rng = generator(9)
    layers = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])  # not of one size
    x, y = rng.normal(size=(2, 9))
    comparison = measures.over_layers(x, y, layers, samples=3000, confidence=0.8, seed=0)
    assert comparison.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    every = []
    for a in range(3):  # all 27 draws, equally likely
        for b in range(3):
            for c in range(3):
                drawn = np.concatenate([np.flatnonzero(layers == layer) for layer in (a, b, c)])
                every.append(stats.spearmanr(x[drawn], y[drawn]).statistic)
    low, high = np.quantile(every, [0.1, 0.9])
    assert comparison.spearman.low == pytest.approx(low, abs=0.05)
    assert comparison.spearman.high == pytest.approx(high, abs=0.05)
    # The draws are of the first model's layers and of the second's.
    twice = measures.over_layers(
        np.tile(x, 2), np.tile(y, 2), np.tile(layers, 2), groups=np.repeat([0, 1], 9), **SETTINGS
    )
    assert twice.spearman.value == pytest.approx(comparison.spearman.value)


def test_over_layers_says_where_there_is_nothing():
    assert measures.over_layers([1, 1, 1], [1, 2, 3], [0, 1, 2], **SETTINGS) == (None, None, 1.0)
    with pytest.raises(ValueError, match="of layers"):
        measures.over_layers([1, 2, 3], [1, 2, 3], [0, 1], **SETTINGS)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="shapes"):
        measures.compare([1, 2], [1, 2, 3], **SETTINGS)
    with pytest.raises(ValueError, match="finite"):
        measures.agreement([1, np.nan], [1, 2], **SETTINGS)
    with pytest.raises(ValueError, match="no head"):
        measures.agreement([], [], **SETTINGS)


@pytest.fixture
def inputs(tmp_path):
    """Files of both measurements of two models, each with a run without positions."""
    paths = []
    for model, family in (("one", "bert"), ("two", "gpt2")):
        test_relative_attention.write_model(tmp_path / model, family)
        job = test_relative_attention.job(family)
        parameters = job.parameters.model_copy(update={"offsets": 4})
        measured = weights_step.measure(
            job.model_copy(update={"parameters": parameters}), tmp_path / model
        )
        # The store has five heads a layer, the random model three.
        heads = [
            measured.heads[n % 6].model_copy(update={"layer": n // 5, "head": n % 5})
            for n in range(10)
        ]
        measured = measured.model_copy(update={"heads": heads})
        paths.append(tmp_path / f"{model}.json")
        write_sealed(paths[-1], result(weights_step.MEASUREMENT, {"model": model}, measured))
        runs = []
        for condition in ("intact", "zero"):
            folder = tmp_path / "stores" / model / condition
            store = test_heads.write_store(folder, condition, causal=model == "two", model=model)
            runs.append(result_of(heads_step, test_heads.PARAMETERS, store))
        paths.append(tmp_path / f"{model}_heads.json")
        names = {"model": model, "dataset": "sample"}
        write_sealed(paths[-1], {"measurement": "heads", "run": names, "runs": runs})
    return paths


def read(paths) -> list[dict]:
    return [
        measurement
        for path in paths
        for measurement in read_sealed(path).get("runs", [read_sealed(path)])
    ]


def check_layers(comparison: dict) -> None:
    """Each layer by itself, and the comparison that the even layers choose."""
    models = comparison["run"]["models"]
    best: dict[int, dict[str, float]] = {0: {}, 1: {}}
    for name, (predicted, observed) in step.COMPARED.items():
        points = [p for p in comparison["points"] if None not in (p[predicted], p[observed])]
        result = comparison["results"][name]
        for rest in (0, 1):
            part = [p for p in points if p["layer"] % 2 == rest]
            groups = [models.index(p["model"]) for p in part]
            value = measures.compare(
                [p[predicted] for p in part], [p[observed] for p in part], groups=groups, **SETTINGS
            ).spearman
            if value is not None:
                best[rest][name] = value.value
        if len(models) == 1:
            for layer in result["by_layer"]:
                part = [p for p in points if p["layer"] == layer["layer"]]
                x, y = [p[predicted] for p in part], [p[observed] for p in part]
                if layer["spearman"] is None:
                    assert len(set(x)) == 1 or len(set(y)) == 1
                else:
                    assert layer["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)
    chosen = comparison["held_out"]["chosen"]
    assert chosen == max(best[0], key=best[0].__getitem__)
    for rest, key in ((0, "even"), (1, "odd")):
        value = comparison["held_out"][key]
        if value is None:
            assert chosen not in best[rest]
        else:
            assert value["value"] == pytest.approx(best[rest][chosen])


def test_the_step_joins_head_by_head(inputs):
    measurements = read(inputs)
    joined = step.measure(PARAMETERS, measurements).as_json()
    assert [comparison["run"]["models"] for comparison in joined["comparisons"]] == [
        ["one"],
        ["two"],
        ["one", "two"],
    ]
    first, both = joined["comparisons"][0], joined["comparisons"][2]
    assert first["heads"] == 10 and both["heads"] == 20
    weights, heads = measurements[0]["heads"], measurements[1]["heads"]
    x = [head["predicted_lag"] for head in weights]
    y = [head["peak"]["offset"] for head in heads]
    assert [(p["score_peak"], p["peak"]) for p in first["points"]] == list(zip(x, y, strict=True))
    result = first["results"]["peak"]
    assert result["pearson"]["value"] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert result["agreement"]["share"]["value"] == np.mean(np.array(x) == y)
    assert first["first_layer"]["peak"]["heads"] == 5
    assert "agreement" not in first["results"]["profile_mean"]
    for comparison in joined["comparisons"]:
        check_layers(comparison)
    json.dumps(joined, allow_nan=False)
    assert joined == step.measure(PARAMETERS, measurements).as_json()


def test_the_command_and_the_figure(inputs, tmp_path):
    config, output = tmp_path / "config.json", tmp_path / "lags.json"
    write_json(config, {"parameters": PARAMETERS.model_dump()})
    done = call("posenc.measurements.lags.measure", *inputs, config=config, output=output)
    assert done.returncode == 0, done.stderr
    measurement = read_sealed(output)
    assert (measurement["measurement"], measurement["catalogue"], measurement["run"]) == (
        "lags", ["C3", "C6"], {},
    )  # fmt: skip
    assert "heads/one/sample/intact" in measurement["provenance"]["inputs"]
    canvas = figure.draw([measurement], SECTIONS.lags, SECTIONS.style)
    check_texts(canvas)
    titles = [axes.get_title() for axes in canvas.axes]
    value = measurement["comparisons"][0]["results"]["peak"]["spearman"]["value"]
    assert f"{value:.2f}".replace("-", "\u2212") in titles[0]
    points = {
        tuple(p)
        for c in canvas.axes[0].collections
        for p in np.ma.getdata(c.get_offsets()).tolist()
    }
    assert points == {(p["score_peak"], p["peak"]) for p in measurement["comparisons"][0]["points"]}
    four = {**measurement, "comparisons": 2 * measurement["comparisons"][:2]}
    check_texts(figure.draw([four], SECTIONS.lags, SECTIONS.style))


def test_what_was_computed_in_bfloat16_is_handed_on(inputs, tmp_path):
    bundle = read_sealed(inputs[1])
    fast = {"mode": "fast", "tokens": 512, "relative_error": [0.0, 0.01]}
    write_sealed(inputs[1], {**bundle, "runs": [{**r, "precision": fast} for r in bundle["runs"]]})
    config, output = tmp_path / "config.json", tmp_path / "lags.json"
    write_json(config, {"parameters": PARAMETERS.model_dump()})
    step.main(config, output, inputs)
    measurement = read_sealed(output)
    assert [condition["condition"] for condition in measurement["conditions"]] == ["intact", "zero"]
    assert list(precisions(measurement)) == [fast, fast]


def test_without_both_measurements_nothing_is_joined(inputs):
    measurements = read(inputs)
    joined = step.measure(
        PARAMETERS,
        [measurement for measurement in measurements if measurement["measurement"] == "heads"],
    ).as_json()
    assert joined["status"] == "not run" and joined["comparisons"] == []
    shown = {**joined, "measurement": "lags", "run": {}}
    canvas = figure.draw([shown], SECTIONS.lags, SECTIONS.style)
    assert "not run" in canvas.axes[0].texts[0].get_text()
    measurements[0]["offsets"] = [-1, 0, 1]
    with pytest.raises(ArtifactError, match=r"params\.yaml"):
        step.measure(PARAMETERS, measurements)
