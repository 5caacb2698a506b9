"""Each number of positions, heads and order is the one that its key names.

All numbers of a made-up measurement differ; the tables below say, by hand, where each key
takes its number from.
"""

from __future__ import annotations

import math

import pytest

from posenc.artifacts.numbers import NotRun, Number
from posenc.artifacts.printing import Printed, number
from posenc.artifacts.results import Spread
from posenc.measurements.causal_probes import quantities as causal_probes_quantities
from posenc.measurements.choices import quantities as choices_quantities
from posenc.measurements.heads import quantities as heads_quantities
from posenc.measurements.induction import quantities as induction_quantities
from posenc.measurements.joint_order import quantities as joint_order_quantities
from posenc.measurements.lags import quantities as lags_quantities
from posenc.measurements.lags.result import Comparison
from posenc.measurements.position_embeddings import quantities as position_embeddings_quantities
from posenc.measurements.position_heads import quantities as position_heads_quantities
from posenc.measurements.readback import quantities as readback_quantities
from posenc.measurements.relative_attention import quantities as relative_attention_quantities
from posenc.measurements.savings import quantities as savings_quantities
from posenc.measurements.scheme_probes import quantities as scheme_probes_quantities
from posenc.measurements.score_parts import quantities as score_parts_quantities
from posenc.measurements.spectra import quantities as spectra_quantities
from posenc.measurements.swaps import quantities as swaps_quantities
from posenc.metrics.null_tables import NULLS
from posenc.report.readers import QUANTITIES
from posenc.report.records import SHORTER

from . import synthetic_positions as made
from .planted import at, distinct, expected

RUN = {"model": "decoder", "dataset": "reviews", "condition": "intact"}
KEPT = {"layer", "head", "window", "distance"}


def least(value: float) -> dict:
    """An estimate below or above all planted ones."""
    return {"value": value, "low": value - 0.25, "high": value + 0.125}


def planted(kind: str) -> dict:
    """A measurement whose best layer is neither the first nor the last."""
    measurement = distinct(MEASURED[kind], kept=KEPT)
    if kind == "positions":
        measurement["components"]["principal"][1] = 1e7
    if kind == "probes":
        measurement["layers"][2]["position"]["ridge"] = least(0.25)
    if kind == "components":
        best = measurement["layers"][1]
        best["canonical"]["held_out"][0] = least(1e6)
        best["principal"]["position_share"][3] = 1e7
    if kind == "spectra":
        measurement["quantities"]["keys"]["locked"][0] = [1e9, 2.5, 1e8, 3.5]
    if kind == "savings":
        measurement["rounded"] = MEASURED[kind]["rounded"]
        for entry, as_it_was in zip(measurement["caches"], MEASURED[kind]["caches"], strict=True):
            entry["offset"] = as_it_was["offset"]
    if kind == "causal_probes":
        for variant, layer in (("intact", 3), ("zero", 2), ("window_4", 1), ("random", 1),
                               ("zero_fitted", 3)):  # fmt: skip
            at(measurement, f"variants[variant={variant}].layers")[layer]["error"] = least(0.25)
    return measurement


MEASURED = {
    "positions": made.position_embeddings("decoder", "model"),
    "readback": made.readback("decoder"),
    "probes": made.probes(RUN, True),
    "components": made.components(RUN, True),
    "spectra": made.spectra(RUN, True),
    "layer_norm": made.layer_norm("decoder", "reviews", True),
    "heads": made.heads(RUN, False),
    "relative": made.relative_attention("decoder", True),
    "score_parts": made.score_parts("decoder", "reviews", True),
    "savings": made.savings("smollm2", "reviews", True, "rotation"),
    "random_causal": made.random_causal(),
    "lags": made.lags({"decoder": True}, ["reviews"])["comparisons"][0],
    "causal_probes": made.causal_probes("decoder", "reviews", True),
    "induction": made.induction("smollm2", "reviews", dict.fromkeys(induction_quantities.UNDER)),
    "swaps": made.swaps(
        "smollm2", "reviews", dict.fromkeys((*induction_quantities.UNDER, "single_token"))
    ),
    "joint_order": made.joint_order(
        "smollm2", "reviews", dict.fromkeys(joint_order_quantities.PAIRED)
    ),
    "choices": made.choices("smollm2", "questions", dict.fromkeys(choices_quantities.ANSWERING)),
}
PLACES = {"first": "0", "last": "-1"}
BAND = {"low": 0, "middle": 1, "high": 2}
EXPECTED = {
    "positions": {
        "mae": "regression.absolute.mean", "mae_sd": "regression.absolute.sd",
        "order_error": "regression.relative.mean", "order_error_sd": "regression.relative.sd",
        "mae_control": "regression.control.absolute.mean",
        "mae_sd_control": "regression.control.absolute.sd",
        "order_error_control": "regression.control.relative.mean",
        "order_error_sd_control": "regression.control.relative.sd",
        "toeplitz": "toeplitz_share.gram",
        "toeplitz_control": "geometry_control.toeplitz_share.gram",
        "frequency": "median_frequency",
        "frequency_control": "geometry_control.median_frequency",
        "correlation": "components.correlation",
        "correlation_shuffled": "components.correlation_shuffled",
        "explained": "components.principal.1", "independent": "components.independent_largest",
        "explained_shuffled": "components.explained_shuffled",
        "last.norm": "last_rows.norm", "last.cosine": "last_rows.cosine",
        "last.neighbours": "last_rows.neighbours", "last.chance": "last_rows.chance",
        "last.untouched": "last_rows.untouched",
        "rows": "shape.rows", "d_model": "shape.d_model",
    },
    "readback": {
        **{
            f"{place}.{level}": f"{place}.{index}.joint.both"
            for place in ("before", "after")
            for level, index in (("exact", 0), ("weak", 3), ("strong", 5))
        },
        "alone.token": "before.0.alone.token", "alone.position": "before.0.alone.position",
        "margin": "before.0.margin.least", "pairs": "pairs", "searched": "pairs_searched",
        "mistaken": "mistaken", "bound.pairs": "bounds.pairs",
    },
    "probes": {
        **{
            f"{place}.{key}": f"layers.{index}.{path}"
            for place, index in (("embedding", 0), ("best", 2), ("last", -1))
            for key, path in (
                ("ridge", "position.ridge"), ("relu", "position.relu"),
                ("order", "order.logistic"), ("order_relu", "order.relu"),
            )
        },
        "chance": "chance.position", "control": "layers.0.position.ridge_control",
        "control_order": "layers.0.order.logistic_control",
    },
    "components": {
        **{
            f"{place}.correlation": f"layers.{index}.canonical.held_out.0"
            for place, index in (("embedding", 0), ("best", 1), ("last", -1))
        },
        "shuffled": "layers.1.canonical.shuffled.0",
        "principal": "layers.1.principal.position_share.3",
        "independent": "layers.1.independent.largest_share",
        "halves": "amari_between_halves", "halves_chance": "amari_chance",
    },
    "spectra": {
        **{
            f"{quantity}.{band}": f"quantities.{quantity}.band_shares.1.{place}"
            for quantity in ("hidden_states", "keys") for band, place in BAND.items()
        },
        **{f"without.{band}": f"band_pass.left_out.1.{place}" for band, place in BAND.items()},
        "uniform": "band_pass.uniform.1", "locked": "quantities.keys.locked.0.2",
    },
    "layer_norm": {
        "documents": "documents", "tokens": "tokens",
        "variation": "norms.0.scale.variation", "product": "norms.-1.variation",
        "position_share": "norms.0.shares.position",
        "between.embedding": "norms.0.between.input", "between.middle": "norms.4.between.input",
        "between.last": "norms.-1.between.output", "shuffled": "norms.-1.between.shuffled",
        **{
            f"{name}.{key}.{part}": f"norms.{place}.{kind}.{part}"
            for name, place in {"first": "0", "middle": "4", "last": "-1"}.items()
            for key, kind in {
                "gain": "gain", "cosine": "cosine", "from": "sources",
                "content_from": "content_sources",
            }.items()
            for part in made.layer_norm("decoder", "reviews", True)["norms"][0][kind]
        },
    },
    "heads": {
        **{name: f"strongest.{name}" for name in ("previous", "self", "next", "first")},
        **{
            f"{name}.{part}": f"strongest.{name}.{part}"
            for name in ("previous", "self", "next", "first") for part in ("layer", "head")
        },
    },
    "relative": {
        "scores": "residuals.scores", "trace": "residuals.trace",
        "null_weights": "null_rotation.weights", "null_spectra": "null_rotation.null_spectra",
    },
    "score_parts": {
        "r2": "r2.median", "shuffled": "r2.shuffled", "first_key": "r2.first_key",
        "high_share": "r2.high_share", "one_document": "r2.learning.0.median",
        **{
            f"{weights}.{key}": f"shares[weights={weights},within_query=False].{path}"
            for weights in ("pairs", "attention")
            for key, path in (
                ("correlation", "correlation"), ("content_correlation", "content_correlation"),
                ("content", "all.content"), ("mask", "all.mask"),
                ("interaction", "all.interaction"), ("placebo_heads", "placebo.heads"),
                ("placebo_layers", "placebo.layers"),
            )
        },
    },
    "random_causal": {
        f"{name}.{key}": f"variants.0.layers.{place}.exponent.{part}"
        for name, place in PLACES.items()
        for key, part in (("exponent", "mean"), ("exponent_sd", "sd"))
    },
    "lags": {
        **{
            f"{name}{end}": f"results.{name}.over_layers.{part}"
            for name in ("peak", "profile_peak", "peak_mean", "profile_mean")
            for end, part in (("", "spearman"), (".p", "p"))
        },
        # One layer has none.
        "lowest_layer": "results.profile_mean.by_layer.0.spearman",
        "highest_layer": "results.profile_mean.by_layer.2.spearman",
        "chosen.even": "held_out.even", "chosen.odd": "held_out.odd",
        "agreement": "results.peak.agreement.share",
        "agreement_chance": "results.peak.agreement.chance", "heads": "heads",
    },
    "causal_probes": {
        "chance": "chance",
        # The least error of each, and differences at the layer where the model without a table
        # has the least.
        **{
            f"{name}.{key}": f"variants[variant={name}].layers.{place}.{part}"
            for name, best in (
                ("intact", 3), ("zero", 2), ("window_4", 1), ("random", 1), ("zero_fitted", 3),
            )
            for key, place, part in (
                ("embedding", 0, "error"), ("best", best, "error"), ("last", -1, "error"),
                ("difference", 2, "difference"),
            )
        },
        **{
            f"window_16.beyond.{part}": f"variants[variant=window_16].layers.2.beyond.{part}"
            for part in ("error", "causal", "embedding", "chance", "difference", "gain")
        },
    },
    "savings": {
        "parameters": "parameters.all", "table": "parameters.positions",
        "table.share": "parameters.share", "table.bytes": "parameters.bytes",
        "cached_token": "bytes_per_cached_token",
        **{
            f"{place}.{way}.{key}": f"caches.{start + number}.{path}"
            for place, start in (("near", 0), ("far", 6))
            for number, way in enumerate(("intact", "turned", "zero"))
            for key, path in (
                ("kept", "kept"), ("keys", "keys.mean"), ("values", "values.mean"),
            )
        },
        **{
            f"far.intact.{name}.{kind}": f"caches.6.layers.{layer}.{kind}.mean"
            for name, layer in PLACES.items() for kind in ("keys", "values")
        },
    },
    "induction": {
        f"{condition}.{part}": f"conditions[condition={condition}].{part}"
        for condition in ("intact", "zero_closed", "zero_scores_fitted")
        for part in ("first", "again", "gain", "recovered", "previous", "induction")
    },
    "swaps": {
        f"{condition}.{where}{part}": f"conditions[condition={condition}].distances.{place}.{part}"
        for condition in ("intact", "zero_alibi", "single_token")
        for where, place in (("", 0), ("far.", 1))
        for part in ("preference", "margin", "recovered", "later", "later_recovered")
    },
    "joint_order": {
        "documents": "documents", "candidates": "candidates",
        **{
            f"{condition}.{part}": f"{entry}.{part}"
            for condition, entry in (
                ("intact", "conditions[condition=intact]"),
                ("zero_closed", "conditions[condition=zero_closed]"),
                ("other", "other"),
            )
            for part in ("mass_first", "mass")
        },
        **{
            f"{condition}.{where}{part}": f"{entry}.distances.{place}.{part}"
            for condition, entry in (("zero", "conditions[condition=zero]"), ("other", "other"))
            for where, place in (("", 0), ("far.", 1))
            for part in (
                "repeats", "dependence", "order", "places", "interaction", "divergence",
                "log_ratio", "additive", "agreement", "correlation", "interaction_correlation",
                "words_lost", "order_lost", "recovered",
            )
            if (condition, part) != ("other", "recovered")
        },
    },
    "choices": {
        "questions": "documents", "chance.mc1": "chance.mc1", "chance.mc2": "chance.mc2",
        **{
            f"{condition}.{part}": f"conditions[condition={condition}].{part}"
            for condition in ("intact", "zero_closed", "intact_fitted_short")
            for part in (
                "mc1", "mc2", "nll", "mc1_other", "mc2_question", "nll_other", "mc1_chance",
                "delta_mc2", "delta_nll", "recovered",
            )
        },
    },
}  # fmt: skip


def read(kind: str, measurement: dict) -> dict:
    """The numbers of a measurement, or of a comparison of lags."""
    called = {key: name for name, key in SHORTER.items()}
    if kind == "lags":
        return lags_quantities.lags(Comparison.model_validate(measurement))
    return QUANTITIES[called.get(kind, kind)].read(measurement)


@pytest.mark.parametrize("kind", EXPECTED)
def test_each_key_names_its_own_number(kind):
    measurement = planted(kind)
    numbers = read(kind, measurement)
    values = [expected(at(measurement, path)) for path in EXPECTED[kind].values()]
    assert {key: numbers[key] for key in EXPECTED[kind]} == dict(
        zip(EXPECTED[kind], values, strict=True)
    )
    free = [
        value
        for key, value in zip(EXPECTED[kind], values, strict=True)
        if not key.endswith((".layer", ".head")) and value.value != 0.25
    ]
    assert len(set(free)) == len(free) > 3, "numbers differ"


def test_shares_of_components_and_angles_are_in_their_units():
    measurement = planted("positions")
    numbers = position_embeddings_quantities.QUANTITIES.read(measurement)
    for suffix, part in (("", measurement), ("_control", measurement["geometry_control"])):
        for key in ("first_4", "first_12"):
            assert numbers[f"{key}{suffix}"] == Number(100 * part["pca"][key])
    keys = set(position_embeddings_quantities.QUANTITIES.names)
    assert numbers.keys() == keys == EXPECTED["positions"].keys() | {
        "first_4", "first_12", "first_4_control", "first_12_control"
    }  # fmt: skip
    measurement = planted("readback")
    numbers = readback_quantities.QUANTITIES.read(measurement)
    for key, name in (("angle", "angles"), ("angle_random", "random")):
        middle = sorted(measurement["subspaces"][name])[5]
        assert numbers[key].value == pytest.approx(180 / math.pi * middle)
    for level, place in (("weak", 3), ("strong", 5)):
        assert numbers[f"noise.{level}"] == Number(
            measurement["before"][place]["noise"], decimals=1
        )


def test_few_bands_and_a_single_layer_have_numbers_too():
    measurement = planted("spectra")
    measurement["bands"] = measurement["bands"][:3]  # two bands
    shares = measurement["quantities"]["keys"]["band_shares"]
    measurement["quantities"]["keys"]["band_shares"] = shares[:1]
    measurement["band_pass"]["left_out"] = measurement["band_pass"]["left_out"][:1]
    measurement["band_pass"]["uniform"] = measurement["band_pass"]["uniform"][:1]
    numbers = spectra_quantities.QUANTITIES.read(measurement)
    for band, place in {"low": 0, "middle": 1, "high": 1}.items():
        assert numbers[f"keys.{band}"] == expected(shares[0][place])
        assert numbers[f"without.{band}"] == expected(
            measurement["band_pass"]["left_out"][0][place]
        )
    assert numbers["uniform"] == expected(measurement["band_pass"]["uniform"][0])
    more = planted("spectra")
    more["bands"] = [*more["bands"], 9.0]
    rows = [[least(10.0 * layer + place) for place in range(4)] for layer in range(2)]
    more["quantities"]["keys"]["band_shares"] = rows
    more["band_pass"]["left_out"] = rows
    more["quantities"]["hidden_states"]["band_shares"] = rows
    numbers = spectra_quantities.QUANTITIES.read(more)
    for key in ("keys", "hidden_states", "without"):
        assert [numbers[f"{key}.{band}"].value for band in BAND] == [10.0, 11.0, 13.0]


def draws(value: float) -> dict:
    """A spread of draws about a mean that all are near."""
    return {"mean": value, "least": value - 0.25, "most": value + 0.125}


def head(layer: int, deviation: float, share: float | None, offset: float | None, own: int):
    """A head of a measurement of position heads, its other numbers made from its own one."""

    def of_null(add: float) -> dict:
        return {
            "mean_offset": draws(own + add),
            "distance_share": draws(own + add + 0.5),
            "wave_share": draws(own + add + 0.75),
            "mass": [0.1] * 3,
        }

    def pair(frequency: float, lag: float, share: float) -> dict:
        return {
            "pair": 0, "frequency": frequency, "phase": 0.1, "lag": lag, "share": share,
            "coherence": 0.9, "contribution": 0.5,
        }  # fmt: skip

    return {
        "layer": layer, "head": own, "deviation": deviation, "distance_share": share,
        "predicted_lag": -1, "pairs_share": 0.9, "first_score": 0.2, "first_mass": 0.3,
        "distances": {"from": 0, "bias": [0.5, -0.5]},
        "profile": {"mean_offset": offset, "mass": [0.1] * 3, "preference": [0.1] * 3, "peak": -1,
                    "peak_mass": 0.1},
        "nulls": {name: of_null(1000.0 * place) for place, name in enumerate(NULLS, 1)},
        "pairs": [
            pair(2.0 ** (100 - own), own + 0.25, own + 0.375),
            pair(0.3, 0.0, 0.9),
        ],
    }  # fmt: skip


def of_all(add: float) -> dict:
    """What a null has over all heads."""
    return {"heads": draws(add + 7.5), "nearest": draws(add + 8.5), "distance_share": None}


HEADS = {
    "is_causal": True, "n_layers": 2, "n_heads": 4, "rows": 9, "input": "positions",
    "uniform": [0.1] * 3,
    "heads": [
        head(0, 1.0, 0.04, -3.0, 100), head(0, 3.0, None, 2.0, 101), head(0, 1.0, 0.5, None, 102),
        head(0, 4.0, 0.01, -1.0, 103), head(1, 2.0, 0.36, 0.5, 104), head(1, 9.0, 0.25, 1.0, 105),
    ],
    "near": {
        "tokens": 2, "heads": 3, "nearest": -1.0,
        "nulls": {name: of_all(20.0 * place) for place, name in enumerate(NULLS)},
    },
    "waves": {
        "period": 51.5, "lag": -52.5, "share": 53.5, "lags": 54, "lags_chance": 55.5,
        "nulls": {name: draws(56.0 + place) for place, name in enumerate(NULLS)},
    },
}  # fmt: skip


def test_heads_that_are_named_are_nearest_by_the_size_of_their_offset_and_steepest_in_sum():
    numbers = position_heads_quantities.QUANTITIES.read(HEADS)
    assert numbers.keys() == set(position_heads_quantities.POSITION_HEADS)
    assert (numbers["heads"], numbers["near.heads"], numbers["near.tokens"]) == (
        *map(Number, (6, 3, 2)),
    )
    shares = {key: numbers[f"distance_share{key}"].value for key in ("", ".least", ".most")}
    assert shares == {"": 0.25, ".least": 0.01, ".most": 0.5}
    places = [
        (n, numbers[f"near.{n}.head"].value, numbers[f"near.{n}.offset"].value) for n in "123"
    ]
    assert places == [("1", 103, -1.0), ("2", 101, 2.0), ("3", 100, -3.0)]
    assert numbers["near.2.distance_share"] == NotRun("no head tells positions apart")
    assert numbers["near.1.distance_share"] == Number(0.01)
    # deviation · √share: 4.5, 1.2, 0.707
    parts = ("layer", "head", "deviation", "distance_share")
    steep = [tuple(numbers[f"steep.{n}.{part}"].value for part in parts) for n in "123"]
    assert steep == [(1, 105, 9.0, 0.25), (1, 104, 2.0, 0.36), (0, 102, 1.0, 0.5)]
    for place, null in enumerate(NULLS):
        assert numbers[f"null_{null}.heads"] == expected(draws(20.0 * place + 7.5))
        assert numbers[f"null_{null}.nearest"] == expected(draws(20.0 * place + 8.5))
        assert numbers[f"null_{null}.distance_share"] == NotRun("no head tells positions apart")
        for near, own in (("1", 103), ("2", 101), ("3", 100)):
            drawn = own + 1000 * (place + 1)
            assert numbers[f"null_{null}.near.{near}.offset"] == expected(draws(drawn))
            assert numbers[f"null_{null}.near.{near}.distance_share"] == expected(
                draws(drawn + 0.5)
            )
            assert numbers[f"null_{null}.near.{near}.wave_share"] == expected(draws(drawn + 0.75))
    fewer = position_heads_quantities.QUANTITIES.read({**HEADS, "heads": HEADS["heads"][2:3]})
    assert fewer["near.1.head"] == fewer["steep.2.head"] == NotRun("there are fewer heads")
    assert fewer["steep.3.lag"] == fewer["near.1.period"] == NotRun("there are fewer heads")


def test_waves_of_a_head_are_those_of_its_first_pair_and_of_all_heads_those_of_the_measurement():
    numbers = position_heads_quantities.QUANTITIES.read(HEADS)
    for group, owners in (("near", (103, 101, 100)), ("steep", (105, 104, 102))):
        for place, own in zip("123", owners, strict=True):
            assert numbers[f"{group}.{place}.period"] == Number(2.0 ** (own - 100))
            assert numbers[f"{group}.{place}.lag"] == Number(own + 0.25)
            assert numbers[f"{group}.{place}.wave_share"] == Number(own + 0.375)
    of_waves = {"period": 51.5, "lag": -52.5, "share": 53.5, "lags": 54, "lags_chance": 55.5}
    for key, value in of_waves.items():
        assert numbers[f"waves.{key}"] == Number(value)
    for place, null in enumerate(NULLS):
        assert numbers[f"null_{null}.waves.share"] == expected(draws(56.0 + place))
    nothing = {**HEADS["waves"], "nulls": dict.fromkeys(NULLS)}
    numbers = position_heads_quantities.QUANTITIES.read({**HEADS, "waves": nothing})
    assert numbers["null_gaussian.waves.share"] == NotRun("no head tells positions apart")


def test_what_is_not_defined_says_why():
    assert number(None) == NotRun("it is not defined")
    assert number(0.0, Printed(absent="never")) == Number(0.0)
    assert number(Spread(mean=2.0, least=1.0, most=4.0)) == Number(2.0, 1.0, 4.0)
    measurement = planted("positions")
    measurement["toeplitz_share"]["gram"] = None
    measurement["geometry_control"]["toeplitz_share"]["gram"] = 0.0
    measurement["components"] = {"status": "not run", "reason": "too few columns"}
    numbers = position_embeddings_quantities.QUANTITIES.read(measurement)
    assert numbers.keys() == set(position_embeddings_quantities.QUANTITIES.names)
    assert numbers["toeplitz"] == NotRun("all rows are orthogonal")
    assert numbers["toeplitz_control"] == Number(0.0)
    of_components = (
        "correlation", "explained", "independent", "correlation_shuffled", "explained_shuffled"
    )  # fmt: skip
    lacking = {key for key, entry in numbers.items() if entry == NotRun("too few columns")}
    assert lacking == set(of_components)
    measurement["geometry_control"]["toeplitz_share"]["gram"] = None
    numbers = position_embeddings_quantities.QUANTITIES.read(measurement)
    assert numbers["toeplitz_control"] == NotRun("all rows are orthogonal")
    numbers = relative_attention_quantities.QUANTITIES.read(
        {**planted("relative"), "null_rotation": None}
    )
    why = NotRun("there is no null space to turn")
    assert numbers["null_weights"] == numbers["null_spectra"] == why
    measurement = planted("score_parts")
    measurement["r2"] |= {"median": None, "first_key": None, "shuffled": None}
    measurement["r2"]["learning"][0]["median"] = None
    measurement["shares"][0]["placebo"] = {}
    numbers = score_parts_quantities.QUANTITIES.read(measurement)
    same = NotRun("position adds nothing to the scores")
    assert numbers["r2"] == numbers["first_key"] == numbers["one_document"] == same
    assert numbers["shuffled"] == NotRun("no other head to take a curve from")
    assert numbers["pairs.placebo_heads"] == NotRun("no other head to take a mask from")
    measurement = planted("lags")
    measurement["held_out"]["odd"] = None
    measurement["results"]["profile_mean"]["by_layer"] = [{"layer": 0, "spearman": None}]
    measurement["results"]["peak_mean"] ["over_layers"] = {
        "spearman": None, "p": None, "undefined": 1.0
    }  # fmt: skip
    numbers = lags_quantities.lags(Comparison.model_validate(measurement))
    assert numbers["chosen.odd"] == NotRun("a correlation is not defined")
    assert numbers["lowest_layer"] == numbers["highest_layer"] == NotRun("it is not defined")
    assert numbers["peak_mean"] == numbers["peak_mean.p"] == NotRun("")
    causal = heads_quantities.QUANTITIES.read({**planted("heads"), "is_causal": True})
    for key in ("next", "next.layer", "next.head"):
        assert causal[key] == NotRun("a causal head sees no next token")
    assert isinstance(causal["first.head"], Number), "those after it are there"


def test_a_decoder_with_another_scheme_has_the_loss_it_was_trained_to():
    measurement = distinct(made.probes(RUN, True, "rotary"), kept=KEPT)
    numbers = scheme_probes_quantities.QUANTITIES.read(measurement)
    assert numbers.keys() == set(scheme_probes_quantities.QUANTITIES.names)
    assert numbers["validation_loss"] == Number(measurement["training"]["final_validation_loss"])
    assert numbers["chance"] == expected(measurement["chance"]["position"])


def test_heads_are_compared_where_a_data_set_and_models_agree():
    joined = made.lags({"a": False, "b": True}, ["reviews", "questions"])
    for place, comparison in enumerate(joined["comparisons"]):
        comparison["heads"] = place
    of = {
        (comparison["run"]["dataset"], *sorted(comparison["run"]["models"])): comparison["heads"]
        for comparison in joined["comparisons"]
    }
    assert len(of) == 6
    for (dataset, *models), heads in of.items():
        assert lags_quantities.compared(joined, models[::-1], dataset)["heads"] == Number(heads)
    nothing = dict.fromkeys(lags_quantities.LAGS, NotRun("no heads to compare"))
    assert lags_quantities.compared(joined, ["a"], "others") == nothing
    assert lags_quantities.compared(joined, ["c"], "reviews") == nothing
    lacking = {"status": "not run", "reason": "one layer"}
    assert lags_quantities.compared(lacking, ["a"], "reviews") == dict.fromkeys(
        lags_quantities.LAGS, NotRun("one layer")
    )


def test_what_a_study_does_not_evaluate_is_told_from_what_has_no_share():
    measurement = planted("induction")
    measurement["conditions"] = measurement["conditions"][:2]
    intact, zero = measurement["conditions"]
    intact["recovered"], zero["recovered"], zero["reason"] = None, None, "too few tokens"
    numbers = induction_quantities.QUANTITIES.read(measurement)
    assert numbers["intact.recovered"] == NotRun("the intact model copies nothing that it loses")
    assert numbers["zero.recovered"] == NotRun("too few tokens")
    assert numbers["zero_closed.gain"] == NotRun("the study does not evaluate it")
    measurement = planted("swaps")
    measurement["conditions"] = measurement["conditions"][:1]
    measurement["conditions"][0]["distances"].reverse()
    measurement["conditions"][0]["distances"][0]["recovered"] = None
    numbers = swaps_quantities.QUANTITIES.read(measurement)
    assert numbers["intact.far.recovered"] == NotRun("the intact model has no margin that it loses")
    assert numbers["intact.margin"] == expected(
        measurement["conditions"][0]["distances"][1]["margin"]
    )
    for key in ("zero.margin", "zero.far.later", "single_token.preference"):
        assert numbers[key] == NotRun("the study does not evaluate it")
    measurement = planted("joint_order")
    measurement["conditions"] = measurement["conditions"][:1]
    measurement["conditions"][0]["distances"].reverse()
    measurement["conditions"][0]["distances"][0]["recovered"] = None
    numbers = joint_order_quantities.QUANTITIES.read(measurement)
    assert numbers["intact.far.recovered"] == NotRun("nothing of the order is lost")
    assert numbers["intact.order"] == expected(
        measurement["conditions"][0]["distances"][1]["order"]
    )
    for key in ("zero.mass", "zero.far.order", "zero_closed.recovered"):
        assert numbers[key] == NotRun("the study does not evaluate it")
    measurement = planted("choices")
    measurement["conditions"] = measurement["conditions"][:1]
    measurement["conditions"][0]["recovered"] = None
    numbers = choices_quantities.QUANTITIES.read(measurement)
    assert numbers["intact.recovered"] == NotRun("nothing is lost without positions")
    assert numbers["zero.mc1"] == NotRun("the study does not evaluate it")


def test_a_cache_is_as_far_off_as_its_kind_that_is_furthest():
    measurement = planted("savings")
    entry, rounded = at(measurement, "caches.6"), measurement["rounded"]
    for keys, values in ((0.5, 0.75), (0.9, 0.75)):
        entry["keys"]["largest"], entry["values"]["largest"] = keys, values
        assert savings_quantities.QUANTITIES.read(measurement)["far.intact.largest"] == Number(
            max(keys, values)
        )
    for kind in ("keys", "values"):
        entry[kind]["largest"] = entry[kind]["mean"]["value"] = rounded
    numbers = savings_quantities.QUANTITIES.read(measurement)
    for part in ("keys", "values", "largest"):
        assert numbers[f"far.intact.{part}"] == Number(0)
    entry["keys"]["mean"]["value"] = 1.01 * rounded
    assert savings_quantities.QUANTITIES.read(measurement)["far.intact.keys"] == expected(
        entry["keys"]["mean"]
    )
    measurement = made.savings("decoder", "reviews", True, "table")
    assert savings_quantities.QUANTITIES.read(measurement)["near.turned.kept"] == NotRun(
        "no key is turned"
    )


def test_a_receptive_field_that_few_tokens_leave_has_the_layer_before_it():
    measurement = planted("causal_probes")
    layers = at(measurement, "variants[variant=window_16].layers")
    layers[2]["beyond"] = None
    numbers = causal_probes_quantities.QUANTITIES.read(measurement)
    for part in causal_probes_quantities.BEYOND:
        assert numbers[f"window_16.beyond.{part}"] == expected(layers[1]["beyond"][part])
    layers[1]["beyond"] = None
    measurement["variants"] = [
        v for v in measurement["variants"] if v["variant"] not in ("window_64", "random")
    ]
    numbers = causal_probes_quantities.QUANTITIES.read(measurement)
    few = NotRun("too few tokens are beyond the receptive field")
    none = NotRun("the model, or the study, has no such variant")
    assert all(
        numbers[f"window_16.beyond.{part}"] == few for part in causal_probes_quantities.BEYOND
    )
    for part in ("embedding", "best", "last", "difference"):
        assert numbers[f"random.{part}"] == none
        assert isinstance(numbers[f"window_16.{part}"], Number)
    assert not any(key.startswith(("window_64", "window_largest")) for key in numbers)
    measurement["variants"] = [
        v for v in measurement["variants"] if not v["variant"].startswith("window_")
    ]
    numbers = causal_probes_quantities.QUANTITIES.read(measurement)
    assert numbers["window_smallest.best"] == numbers["window_largest.beyond.gain"] == none
    assert numbers.keys() == set(causal_probes_quantities.QUANTITIES.names)
