"""Each number of a study is the one that its key names, in digits that mean something.

All numbers of a made-up measurement differ; the expected ones are found by hand.
"""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc.artifacts.numbers import NotRun, Number
from posenc.drawing.exhibit import Exhibit
from posenc.measurements.conditions import quantities as conditions_quantities
from posenc.measurements.conditions.result import EvaluatedConditions, LongDocuments, Mask
from posenc.report import quantities as keys
from posenc.report.collection import add_ends, collect
from posenc.report.counts import documents_of, size, span
from posenc.report.readers import QUANTITIES, numbers_of
from posenc.report.records import Numbers, Place, Results
from posenc.report.tables import cells
from posenc.report.words import PARTS, WORDS, label

from . import synthetic, synthetic_experiments
from .planted import distinct, expected

STUDY = synthetic.study_file()
KEPT = {"layer", "trained_tokens", "to", "from"}


def conditions(model: str = "decoder", dataset: str = "sample_reviews") -> dict:
    return distinct(synthetic.conditions(STUDY, {}, model, dataset), kept=KEPT)


def entry(measurement: dict, name: str) -> dict:
    (condition,) = (entry for entry in measurement["conditions"] if entry["condition"] == name)
    return condition


# --- Digits ---------------------------------------------------------------------------------------


@given(st.floats(1e-6, 1e6), st.sampled_from((-1, 1)), st.floats(1e-7, 1e5), st.floats(-0.4, 0.4))
def test_digits_follow_the_interval(value, sign, half, shift):
    """By exact decimals: two digits of half the width, three to six of the number."""
    low, high = sign * value - half * (1 - shift), sign * value + half * (1 + shift)
    decimals = keys.decimals_of(Number(sign * value, low, high))
    # Where a logarithm is whole except in its last bit, either is right.
    assume(all(abs(math.log10(x) - round(math.log10(x))) > 1e-9 for x in (value, (high - low) / 2)))
    width = Decimal((high - low) / 2).adjusted()  # the exponent of the first digit
    first = max(Decimal(value).adjusted(), width)
    assert decimals == min(max(1 - width, 2 - first), 5 - first)


def test_digits_without_an_interval():
    assert keys.decimals_of(Number(0.0123)) == 5  # four digits
    assert keys.decimals_of(Number(0.0)) == 3
    assert keys.decimals_of(Number(123456.7)) == -2
    assert keys.decimals_of(Number(12, 11, 13)) == keys.decimals_of(Number(12)) == 0
    assert keys.decimals_of(Number(12.3, 12.3, 12.3)) == 2, "an interval of no width says nothing"
    assert keys.decimals_of(Number(1.5, 1.0, 2.0, decimals=7)) == 7


def test_text_has_three_digits_of_what_has_no_interval():
    assert keys.decimals_in_text(Number(0.0123)) == 4
    assert keys.decimals_in_text(Number(181.3)) == 0
    assert keys.decimals_in_text(Number(123456.7)) == -2
    for number in (Number(1.234, 1.2335, 1.2345), Number(5322240), Number(1.5, decimals=7)):
        assert keys.decimals_in_text(number) == keys.decimals_of(number)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1234567.0, 0, "1234567"), (12345678.0, 0, "1.23457e+07"),
        (12345678.0, -5, "1.23e+07"), (12345678, 0, "12345678"), (12345678.0, -9, "1.2e+07"),
        (0.0000012345, 8, "1.23e-06"), (0.0000012345, 7, "1.2e-06"), (0.0000012345, 6, "0.000001"),
        (0.0000123456, 8, "0.00001235"), (-0.00001, 2, "0.00"), (-0.125, 1, "-0.1"),
        (149.9, -2, "100"), (0.0, 3, "0.000"),
    ],
)  # fmt: skip
def test_how_a_number_is_written(value, decimals, text):
    assert keys.written(value, decimals) == text


# --- Numbers --------------------------------------------------------------------------------------


def test_numbers_of_similarity_are_by_layer():
    measurement = distinct(synthetic.similarity("m", "d", "zero", 8, 3), kept={"layer"})
    numbers = numbers_of(measurement)
    assert numbers.keys() >= set(QUANTITIES["similarity"].names)
    for key in ("documents", "tokens", "d_model", "sample_tokens", "same_token_share"):
        assert numbers[key] == Number(measurement[key])
    assert numbers["gaussian.sd"] == Number(measurement["gaussian_null"]["sd"])
    for layer in measurement["layers"]:
        name = layer["name"].replace(" ", "_")
        for key, value in layer.items():
            if key not in ("layer", "name"):
                assert numbers[f"{name}.{key}"] == expected(value), key


def test_numbers_of_perplexity():
    measurement = distinct(synthetic.perplexity("m", "d", "zero", True))
    numbers = numbers_of(measurement)
    assert numbers.keys() == set(QUANTITIES["perplexity"].names)
    for key, number in numbers.items():
        name = key.removeprefix("sequence.")
        value = (
            measurement["sequence_perplexity"][name]
            if key.startswith("sequence.")
            else measurement[key]
        )
        assert number == expected(value), key


def test_numbers_of_a_condition_are_its_own():
    measurement = conditions()
    facts = conditions_quantities.condition_facts(measurement)
    assert [*facts] == [entry["condition"] for entry in measurement["conditions"]]
    for name, numbers in facts.items():
        assert numbers.keys() == set(QUANTITIES["conditions"].names)
        own = entry(measurement, name)
        for key in conditions_quantities.ESTIMATES:
            assert numbers[key] == expected(own[key])
        assert numbers["embedding.cosine"] == expected(own["layers"][0])
        assert numbers["last.cosine"] == expected(own["layers"][-1])
        assert numbers["documents"] == Number(measurement["documents"])
        assert numbers["tokens"] == Number(measurement["scored_tokens"]), "those with a loss"
    encoder = conditions("minilm")
    evaluated = EvaluatedConditions.of(encoder)
    zero = conditions_quantities.evaluated(evaluated, "minilm", "zero")
    assert zero["tokens"] == Number(encoder["tokens"])
    assert zero["recovered"] == NotRun("minilm has no language-model head")
    none = conditions_quantities.evaluated(evaluated, "minilm", "fitted")
    assert none == dict.fromkeys(QUANTITIES["conditions"].names, NotRun("fitted is not for minilm"))
    entry(measurement, "mean")["recovered"] = None
    why = NotRun("nothing is lost without positions")
    evaluated = EvaluatedConditions.of(measurement)
    assert conditions_quantities.evaluated(evaluated, "decoder", "mean")["recovered"] == why


def test_what_of_a_fit_is_position_is_of_those_with_controls():
    measurement = conditions()
    kinds = ("interaction", "placebo_interaction", "beyond_placebo")
    adaptation = {
        kind: {"value": place + 1.0, "low": place + 0.5, "high": place + 2.0}
        for place, kind in enumerate(kinds)
    }
    entry(measurement, "mean")["adaptation"] = adaptation | {
        f"{kind}_share": None for kind in kinds
    }
    del entry(measurement, "zero")["adaptation"]
    result = EvaluatedConditions.of(measurement)
    assert conditions_quantities.with_controls(result) == ["mean"]
    facts = conditions_quantities.adapted(result, "small", "mean")
    assert facts.keys() == set(conditions_quantities.ADAPTATION)
    for place, kind in enumerate(kinds):
        assert facts[kind] == Number(place + 1.0, place + 0.5, place + 2.0)
        assert facts[f"{kind}_share"] == NotRun("nothing is lost without positions")
    for condition in ("zero", "intact", "none"):
        lacking = NotRun(f"controls of {condition} are not run for small")
        assert conditions_quantities.adapted(result, "small", condition) == dict.fromkeys(
            conditions_quantities.ADAPTATION, lacking
        )


def test_numbers_of_norms_and_of_reference_levels():
    measurement = distinct(synthetic.norms("m", "d"))
    measurement["r2"] = {
        of: {"linear": 0.5 + n, "flexible": 0.25 - n} for n, of in enumerate(measurement["r2"])
    }
    facts = numbers_of(measurement)
    assert facts.keys() == set(QUANTITIES["norms"].names)
    assert facts["r2.sum.flexible"] == Number(measurement["r2"]["sum"]["flexible"]) == Number(-1.75)
    assert facts["r2.position_embeddings.linear"] == Number(0.5)
    measurement = distinct(synthetic.reference(STUDY, "decoder", "d"))
    facts = numbers_of(measurement)
    assert facts.keys() == set(QUANTITIES["reference"].names)
    for level in measurement["levels"]:
        for key in ("perplexity", "bits_per_byte"):
            assert facts[f"{level['level'].split()[-1]}.{key}"] == expected(level[key])
    fewer = numbers_of({**measurement, "levels": measurement["levels"][:1]})
    lacking = NotRun("not among the reference levels of this study")
    assert fewer["bigram.perplexity"] == lacking and fewer["uniform.bits_per_byte"] != lacking
    why = numbers_of({**measurement, "levels": [], "reason": "no corpus"})
    assert set(why.values()) == {NotRun("no corpus")}


def test_the_ends_of_long_documents():
    def bucket(end: int) -> dict:
        value = {"value": float(end), "low": end - 0.5, "high": end + 0.5}
        return {"from": end - 9, "to": end, "nll_per_token": value}

    buckets = [bucket(end) for end in (10, 20, 21, 22, 40)]
    shared = {"precision": synthetic.EXACT, "buckets": buckets}
    measurement = {
        "trained_tokens": 20, "documents": 7, "tokens": 273, "confidence": 0.95, "against": "it",
        "conditions": [{**shared, "condition": "other", "buckets": [], "difference": None,
                        "recovered": None},
                       {**shared, "condition": "it", "difference": None, "recovered": None},
                       {**shared, "condition": "compared",
                        "difference": {"value": -0.5, "low": -0.75, "high": -0.25},
                        "recovered": [{"value": share, "low": 0.0, "high": 1.0}
                                      for share in (0.1, 0.2, 0.3, 0.4)] + [None]}],
    }  # fmt: skip
    result = LongDocuments.of(measurement)
    facts = conditions_quantities.long_facts(result, "it")
    # The last trained position predicts the token after it.
    assert (facts["within"].value, facts["beyond"].value) == (21.0, 40.0)
    assert facts["difference"] == NotRun("the study compares long documents with no condition")
    compared = conditions_quantities.long_facts(result, "compared")
    assert compared["difference"] == Number(-0.5, -0.75, -0.25)
    none = NotRun("nothing is lost without positions, or it is the loss of that model")
    assert facts["recovered_within"] == facts["recovered_beyond"] == none
    assert compared["recovered_within"] == Number(0.3, 0.0, 1.0)
    assert compared["recovered_beyond"] == none
    short = LongDocuments.of({**measurement, "trained_tokens": 5})
    assert conditions_quantities.long_facts(short, "it")["within"].value == 10.0
    lacking = NotRun("no condition x on long documents in this study")
    assert conditions_quantities.long_facts(result, "x") == dict.fromkeys(
        conditions_quantities.ENDS, lacking
    )
    assert conditions_quantities.long_counts(result) == {
        "trained": Number(20),
        "documents": Number(7),
    }


def test_numbers_of_learned_masks():
    mask = {"mask": "it", "loss": 1.5, "start": 2.5, "intact": 3.5, "slope": 0.05}
    facts = conditions_quantities.mask_facts(Mask(**mask))
    assert facts == {
        "loss": Number(1.5), "start": Number(2.5), "intact": Number(3.5),
        "slope": Number(0.05, decimals=2), "parameters": NotRun("the mask it has no parameters"),
    }  # fmt: skip
    whole = conditions_quantities.mask_facts(Mask(**{**mask, "slope": 2.0}))
    assert whole["slope"] == Number(2.0, decimals=0)
    measurement = {**conditions(), "masks": [{**mask, "mask": "other", "loss": 9.0}, mask]}
    result = EvaluatedConditions.of(measurement)
    facts = conditions_quantities.masks_facts(result, "m", ["it", "none"])
    assert facts["masks.it.loss"] == Number(1.5)
    assert facts["masks.none.loss"] == NotRun("no mask none of m")
    assert len(facts) == 2 * len(conditions_quantities.MASK)


def test_the_spread_of_several_decoders():
    spread = keys.spread([Number(1.0), NotRun("no"), Number(2.0), Number(6.0)])
    assert (spread["mean"].value, spread["least"].value) == (3.0, 1.0)
    assert spread["sd"].value == pytest.approx(7**0.5)  # (4 + 1 + 9) / 2
    single = keys.spread([Number(4.0), NotRun("no")])
    assert single["mean"] == single["least"] == Number(4.0)
    assert single["sd"] == NotRun("one decoder in this study")
    none = dict.fromkeys(("mean", "sd", "least"), NotRun("no decoder has this number"))
    assert keys.spread([NotRun("no")]) == none


def test_numbers_of_a_training():
    training = {key: place + 0.5 for place, key in enumerate(keys.TRAINING)}
    assert keys.training_facts({**training, "steps_": 9}) == {
        key: Number(value) for key, value in training.items()
    }


# --- Roles ----------------------------------------------------------------------------------------


def test_roles_are_the_first_of_their_kind_and_named_where_they_lack():
    study = {
        "models": {
            "x": {"is_decoder": True, "positions": "rotation"},
            "a": {"is_decoder": False, "positions": "table"},
            "b": {"is_decoder": True, "positions": "table"},
            "c": {"is_decoder": True, "positions": "table"},
            "d": {"is_decoder": False, "positions": "table"},
        },
        "datasets": {"q": {"format": "truthfulqa"}, "r": {"format": "imdb"},
                     "s": {"format": "imdb"}},
        "study": {"models": ["a", "b", "c", "d", "x"], "datasets": ["q", "s", "r"],
                  "conditions": ["intact", "zero"]},
        "conditions": dict.fromkeys(keys.SPOKEN_CONDITIONS),
    }  # fmt: skip
    roles = {"encoder": "a", "decoder": "b", "rotary_decoder": "x"}
    assert keys.model_roles(study) == roles
    assert keys.dataset_roles(study) == {"reviews": "s", "questions": "q"}
    assert keys.decoders(study) == ["b", "c"]
    assert keys.missing_roles(study) == []
    study["study"] = {"models": ["d"], "datasets": ["r"], "conditions": ["intact"]}
    del study["conditions"]["mean"], study["conditions"]["fitted"]
    assert keys.missing_roles(study) == [
        "no decoder in this study",
        "no rotary decoder in this study",
        "no questions in this study",
        "no condition zero in this study",
        "no conditions mean, fitted in this study",
    ]


def test_ends_of_what_a_study_varies_have_names():
    """Of measured sizes; where none was, the ends say what they lack."""
    numbers = Numbers()
    entries = {f"strongest.{keys}.cosine": Number(keys / 100) for keys in (4, 16, 1)}
    lacking = {f"strongest.{keys}.delta_nll": NotRun("no loss") for keys in (4, 16, 1)}
    numbers.put(Place("m", "d", "", "effective_keys"), {**lacking, **entries, "largest": Number(9)})
    windows = {"window_4.best": Number(2), "window_64.best": NotRun("too short")}
    numbers.put(Place("m", "d", "", "causal_probes"), windows)
    numbers.put(Place("e", "d", "", "causal_probes"), {"window_smallest.best": NotRun("no")})
    numbers.put(Place("m", "d", "shift_8", "conditions"), {"delta_nll": Number(3)})
    before = dict(numbers)
    add_ends(numbers)
    keys, probes = "m.d.effective_keys.strongest", "m.d.causal_probes"
    assert {key: numbers[key] for key in numbers.keys() - before.keys()} == {
        f"{keys}.smallest.cosine": Number(0.01), f"{keys}.smallest": Number(1),
        f"{keys}.largest.cosine": Number(0.16), f"{keys}.largest": Number(16),
        f"{keys}.smallest.delta_nll": NotRun("no loss"),
        f"{keys}.largest.delta_nll": NotRun("no loss"),
        f"{probes}.window_smallest.best": Number(2), f"{probes}.window_smallest": Number(4),
        f"{probes}.window_largest.best": Number(2), f"{probes}.window_largest": Number(4),
        "e.d.causal_probes.window_smallest": NotRun("no"),
    }  # fmt: skip
    assert before.items() <= numbers.items()
    assert numbers.places.keys() == numbers.keys()


def test_keys_of_places():
    cases = {
        "m.d.c.probes.q": Place("m", "d", "c", "probes"),
        "lags.d.q": Place("", "d", "", "lags"),
        "m.positions.q": Place("m", "", "", "position_embeddings"),
        "m.relative.q": Place("m", "", "", "relative_attention"),
        "m.long.c.q": Place("m", "long", "c", "extrapolation"),
        "m.q": Place("m", "", "", "conditions"),
        "m.d.c.conditions.q": Place("m", "d", "c", "conditions"),
        "encoder.reviews.probes.q": Place("m", "d", "", "probes", called=("encoder", "reviews")),
        "encoder.d.probes.q": Place("m", "d", "", "probes", called=("encoder", "")),
    }
    numbers = Numbers()
    assert numbers == {} and numbers.places == {} and numbers.missing == []
    for count, place in enumerate(cases.values()):
        numbers.put(place, {"q": Number(count)})
    assert numbers == {key: Number(count) for count, key in enumerate(cases)}
    for key, place in cases.items():
        kept = numbers.places[key]
        assert kept.quantity == "q" and kept.called == place.called and kept.key == key
        assert (kept.model, kept.dataset, kept.condition) == (
            place.model,
            place.dataset,
            place.condition,
        )
    numbers.put(Place("m", files=("a.json",)), {"x": Number(1)})
    assert numbers.places["m.x"].files == ("a.json",)
    assert str(Place("m", "", "c", "probes", "q")) == "m.c.probes.q"


# --- Cells and counts -----------------------------------------------------------------------------


def test_columns_have_a_format_with_room():
    for signs in itertools.product((1, -1), repeat=2):
        entries = [Number(signs[0] * 12.25, 12.0, 12.5), None, Number(signs[1] * 3.5, 3.0, 4.0)]
        column, form = cells.column(entries, 3)
        assert column == [f"{signs[0] * 12.25:.3f}", "{--}", f"{signs[1] * 3.5:.3f}"]
        assert form == ("-2.3" if -1 in signs else "2.3")
    column, form = cells.column([Number(1.5e9), Number(7)])
    assert column == [r"{\num{1.500e+09}}", "7"] and form == "1.0", "an exponent takes no room"
    assert cells.column([None]) == (["{--}"], "1.0")
    entries = [Number(0.5, 0.25, 0.75), None, Number(0.5)]
    assert cells.intervals(entries, 2) == [r"[\num{0.25},~\num{0.75}]", "--", "--"]
    assert cells.intervals(entries[:1]) == [r"[\num{0.250},~\num{0.750}]"]
    assert cells.number(Number(0.5, 0.25, 0.75)) == r"\num{0.500}"
    assert cells.number(Number(0.5), 1) == r"\num{0.5}"


def test_the_decimals_of_a_set_are_the_most_that_one_needs():
    wide, narrow = Number(0.5, 0.25, 0.75), Number(0.5, 0.4999, 0.5001)
    assert [keys.decimals_of(number) for number in (wide, narrow)] == [3, 6]
    assert cells.shared_decimals([wide, None, narrow], 9) == 6
    assert cells.shared_decimals([wide, narrow], 4) == 4
    assert cells.shared_decimals([None], 4) == cells.shared_decimals([Number(1e6)], 4) == 0


def test_documents_are_counted_by_model_and_data_set():
    assert span({5}) == r"\num{5}" and span([9, 3, 5]) == r"\num{3} to \num{9}"
    runs = [{"documents": 5, "tokens": 70}, {"documents": 3, "tokens": 80, "scored_tokens": 60}]
    assert size(runs) == r"\num{3} to \num{5} documents, \num{60} to \num{70} tokens"

    def one(model, dataset, documents, kind="probes", status="measured"):
        run = {"model": model, "dataset": dataset}
        return {"measurement": kind, "status": status, "run": run, "documents": documents}

    class Made:
        def __init__(self, *measurements):
            self.measurements = measurements

    def of(kind, **more):
        return Exhibit("A1", (kind,), height=1, caption="", alt="", **more)

    same = [one("a_b", "d_e", 5), one("c", "d_e", 5)]
    assert documents_of(Made(*same), of("probes")) == r"Documents: d e \num{5}."
    mixed = [
        *same, one("c", "f", 7), one("a_b", "f", 9, "heads"), one("a_b", "f", 9, status="not run"),
        one("g", "d_e", 5), one("a_b", "d_e", 4), one("", "d_e", 1), one("h", "", 1),
        one("h", "f", None),
    ]  # fmt: skip
    assert documents_of(Made(*mixed), of("probes")) == (
        r"Documents: d e \num{4} to \num{5} (a b);"
        r" d e \num{5}, f \num{7} (c); d e \num{5} (g)."
    )
    assert documents_of(Made(*mixed, one("i", "d_e", 5)), of("probes")).endswith(r"\num{5} (g, i).")
    assert documents_of(Made(*mixed), of("norms")) == ""
    first = documents_of(Made(*mixed), of("probes", drawn="first data set"))
    assert r"\num{7}" not in first and "c" in first
    assert documents_of(Made(*mixed), of("probes", drawn="first model")) == (
        r"Documents: d e \num{4} to \num{5}."
    )
    kinds = [("table", True), ("rotation", True), ("table", False)]
    apart = [
        {**one(name, "d", 5 + n), "positions": positions, "is_decoder": is_decoder}
        for n, (name, (positions, is_decoder)) in enumerate(zip("abc", kinds, strict=True))
    ]
    sentences = [
        documents_of(Made(*apart), of("probes", positions=shown, decoders=True))
        for shown in ("table", "rotation", "")
    ]
    assert sentences == [
        r"Documents: d \num{5}.", r"Documents: d \num{6}.",
        r"Documents: d \num{5} (a); d \num{6} (b).",
    ]  # fmt: skip
    with_encoders = of("probes", positions="table")
    assert documents_of(Made(*apart), with_encoders) == r"Documents: d \num{5} (a); d \num{7} (c)."
    # A figure of a part of a measurement's files names that part in its quantities.
    part = of("conditions", quantities=("probes.*",))
    assert documents_of(Made(*same, one("a_b", "f", 9, "conditions")), part) == (
        r"Documents: d e \num{5}."
    )
    two = documents_of(Made(one("a", "d", 5), one("b", "d", 6)), of("probes"))
    assert two == r"Documents: d \num{5} (a); d \num{6} (b)."


# --- Words ----------------------------------------------------------------------------------------


def test_a_quantity_is_called_part_by_part():
    """A measurement's own words come first, then the common ones, then the part itself."""
    own, of_all = WORDS["readback"], PARTS
    assert label("readback", "margin") == own["margin"]
    assert WORDS["similarity"]["sd"] != PARTS["sd"]
    assert (
        label("similarity", "gaussian.sd")
        == "independent Gaussian vectors · " + (WORDS["similarity"]["sd"])
    )
    assert label("readback", "best.sd") == f"{of_all['best']} · {of_all['sd']}"
    assert label("no_measurement", "tokens") == "tokens"
    assert label("readback", "some_new_part") == "some new part"


def test_what_is_of_a_null_is_said_first():
    words = WORDS["position_embeddings"]
    assert label("position_embeddings", "mae_control") == f"random table: {words['mae']}"
    expected = f"shuffled rows: {words['explained']}"
    assert label("position_embeddings", "explained_shuffled") == expected
    # What has words of its own keeps them; an ending alone, or of what has none, says nothing.
    assert label("downstream", "accuracy_shuffled") == "accuracy with shuffled words (%)"
    assert label("readback", "new_control") == "new control"
    assert label("probes", "control") == WORDS["probes"]["control"]


# --- Collections ----------------------------------------------------------------------------------


def empty(study: dict, **changed) -> Results:
    return Results(
        study, **{"measurements": [], "trainings": [], "published": {}, "versions": {}, **changed}
    )


def lacking(study: dict) -> set[tuple[str, str, str, str]]:
    """Measurement, model, data set and condition of all that documents print of a study."""
    active, of_runs = study["study"], {"components", "hard_attention", "heads", "probes", "spectra"}
    missing = {("training", model, "", "") for model in active["trained"]}
    # Scores of a sentence are for looking at: documents print no number of them.
    others = {"conditions", "extrapolation", "lags", "training", "sample_scores"}
    for kind in set(study["measured"]) - others:
        of, subjects = (study["measurements"][kind][name] for name in ("of", "subjects"))
        conditions = active["conditions"] if "condition" in of or kind in of_runs else [""]
        if kind == "scheme_probes":
            conditions = ["intact"]
        models = active[subjects] if "model" in of else [""]
        if study["measurements"][kind].get("of_matrices"):
            models = [*models, *study["matrices"]]
        datasets = active["datasets"] if "dataset" in of else [""]
        missing |= {(kind, *place) for place in itertools.product(models, datasets, conditions)}
    for model in active["models"]:
        missing |= {("conditions", model, "", ""), ("extrapolation", model, "long", "")}
        of_each = {
            "conditions": (active["datasets"], study["conditions"]),
            "extrapolation": (["long"], active["extrapolation"]["conditions"]),
        }
        for kind, parts in of_each.items():
            missing |= {(kind, model, *place) for place in itertools.product(*parts)}
    models = ["", *active["captured"]]
    return missing | {
        ("lags", *place, "") for place in itertools.product(models, active["datasets"])
    }


def places(numbers: Numbers) -> list[tuple[str, str, str, str]]:
    return [
        (place.measurement, place.model, place.dataset, place.condition)
        for place in numbers.missing
    ]


def test_a_study_without_files_lacks_each_of_its_measurements():
    numbers = collect(empty(STUDY), roles=False)
    assert len(places(numbers)) == len(set(places(numbers)))
    assert set(places(numbers)) == lacking(STUDY)
    assert (numbers["constant.zero"], numbers["constant.one"]) == (Number(0), Number(1))
    by_role = collect(empty(STUDY))
    assert set(places(by_role)) == lacking(STUDY)
    # The role of an existing model lacks what the model lacks.
    role = [place for place in by_role.missing if place.called == ("encoder", "reviews")]
    own = [
        place
        for place in numbers.missing
        if place.called == ("minilm", "sample_reviews") and place.measurement != "lags"
    ]
    role = [place for place in role if place.measurement != "lags"]
    assert sorted(map(str, role)) == sorted(map(str, own))


@pytest.mark.parametrize(
    ("changed", "role", "reason"),
    [
        ({"models": ["minilm"], "captured": ["minilm"]}, "decoder.reviews", "no decoder"),
        ({"models": ["decoder"], "captured": ["decoder"]}, "encoder.reviews", "no encoder"),
        ({"datasets": ["sample_questions"]}, "decoder.reviews", "no reviews"),
        ({"datasets": ["sample_reviews"]}, "encoder.questions", "no questions"),
    ],
)
def test_the_numbers_of_a_role_that_a_study_lacks_say_so(changed, role, reason):
    study = {**STUDY, "study": {**STUDY["study"], **changed}}
    numbers = collect(empty(study))
    named = {key: number for key, number in numbers.items() if key.startswith(f"{role}.")}
    assert set(named.values()) == {NotRun(f"{reason} in this study")}
    kinds = {numbers.places[key].measurement for key in named}
    data = {name for name, facts in STUDY["measurements"].items() if "dataset" in facts["of"]}
    assert kinds == data - {"scheme_probes", "extrapolation"} | {"lags", "adaptation", "categories"}
    assert f"{role}.zero.perplexity.perplexity" in named
    assert f"{role}.fitted.conditions.recovered" in named


def test_conditions_masks_and_matrices_that_a_study_lacks_are_named():
    less = {part: {**STUDY[part]} for part in ("conditions", "masks", "matrices")}
    active = {**STUDY["study"], "conditions": ["intact"], "extrapolation": None}
    del less["conditions"]["fitted"], less["matrices"]["gaussian"]
    numbers = collect(empty({**STUDY, **less, "study": active}))
    for key, reason in (
        ("decoder.sample_reviews.fitted.conditions.recovered", "no condition fitted in this study"),
        ("decoder.reviews.zero.probes.best.ridge", "no condition zero in this study"),
        ("matrix.gaussian.positions.mae", "no matrix gaussian in this study"),
        ("matrix.gaussian.position_heads.heads", "no matrix gaussian in this study"),
        ("decoder.long.trained", "not part of this study"),
        ("minilm.long.intact.beyond", "not part of this study"),
        ("smollm2.training.steps", "smollm2 is not trained here"),
    ):
        assert numbers[key] == NotRun(reason), key
    assert "matrix.sinusoid.positions.mae" not in numbers  # that one is missing
    assert not any(place.measurement == "extrapolation" for place in numbers.missing)


def test_a_role_whose_model_is_not_captured_says_what_is_not_kept():
    study = synthetic.study_file(synthetic.EVALUATED)
    numbers = collect(empty(study))
    by_role = {key: number for key, number in numbers.items() if key.startswith("decoder.")}
    of_captured = {
        kind
        for kind, facts in study["measurements"].items()
        if facts["subjects"] == "captured" and ("model" in facts["of"] or kind == "lags")
    }
    not_kept = {
        numbers.places[key].measurement
        for key, number in by_role.items()
        if number == NotRun("activations of gpt2 are not kept")
    }
    assert not_kept == of_captured
    assert numbers["decoder.downstream.chance"] == NotRun("no classifier is made of gpt2")
    named = {numbers.places[key].measurement for key in numbers if key.startswith("gpt2.")}
    assert not named & (of_captured | {"downstream"})


def test_a_training_is_found_by_its_model():
    training = {key: place + 0.5 for place, key in enumerate(keys.TRAINING)}
    measurement = {**training, "model": "decoder", "file": "t.json", "status": "measured"}
    numbers = collect(empty(STUDY, trainings=[measurement]))
    own = {key: number for key, number in numbers.items() if key.startswith("decoder.training.")}
    assert own == {f"decoder.training.{key}": Number(value) for key, value in training.items()}
    assert {numbers.places[key].files for key in own} == {("t.json",)}
    assert not any(absent.measurement == "training" for absent in numbers.missing)


def test_numbers_are_of_their_file_and_of_what_its_run_is_called():
    """A file of a model and a data set is found under its names and its roles."""
    measurement = {
        **conditions("decoder", "sample_questions"),
        "file": "c.json",
        "status": "measured",
    }
    kinds = ("interaction", "placebo_interaction", "beyond_placebo")
    gains = {kind: {"value": 0.1, "low": 0.0, "high": 0.2} for kind in kinds}
    shares = {f"{kind}_share": None for kind in kinds}
    entry(measurement, "fitted")["adaptation"] = gains | shares
    names = ["sample_reviews", "sample_japanese", "another"]
    of_tokenizers = {**synthetic_experiments.tokenizers(names), "file": "t.json"}
    matrix = {"measurement": "position_heads", "run": {"matrix": "gaussian"}, "file": "m.json",
              "status": "not run", "reason": "why"}  # fmt: skip
    numbers = collect(empty(STUDY, measurements=[measurement, of_tokenizers, matrix]))
    assert numbers["matrix.gaussian.position_heads.heads"] == NotRun("why")
    assert numbers.places["matrix.gaussian.position_heads.heads"].files == ("m.json",)
    lost = NotRun("nothing is lost without positions")
    for dataset in ("sample_questions", "questions"):
        key = f"decoder.{dataset}.fitted.adaptation.interaction_share"
        assert numbers[key] == lost and numbers.places[key].files == ("c.json",)
        key = f"decoder.{dataset}.fitted.conditions.recovered"
        assert (
            numbers[key]
            == conditions_quantities.condition_facts(measurement)["fitted"]["recovered"]
        )
        assert numbers.places[key].files == ("c.json",)
    own = {key: where for key, where in numbers.places.items() if where.measurement == "tokenizers"}
    assert {where.files for where in own.values()} == {("t.json",)}
    called = {"sample_reviews": "reviews", "sample_japanese": "japanese", "another": "another"}
    count: dict[str, int] = {}
    for key, place in own.items():
        first, *_ = key.removeprefix("tokenizers.").partition(".")
        if place.dataset:
            count[first] = count.get(first, 0) + 1
            assert first in (place.dataset, called[place.dataset])
    assert set(count) == {*called, *called.values()}
    assert all(count[name] == count[role] for name, role in called.items())
    assert not any(absent.measurement == "tokenizers" for absent in numbers.missing)
    without = collect(empty(STUDY, measurements=[of_tokenizers]), roles=False)
    assert not any(key.startswith("tokenizers.reviews.") for key in without)
    assert any(key.startswith("tokenizers.japanese.") for key in without)
