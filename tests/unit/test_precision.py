"""What is said about results computed in bfloat16."""

from posenc.artifacts.precision import note, precisions

EXACT = {"mode": "exact"}
RUN = {
    "mode": "fast", "tokens": 500, "relative_error": [0.001, 0.02], "one_minus_cosine": [0.0, 1e-5],
    "nll_difference": -0.003, "nll_sd": 0.02,
}  # fmt: skip
UNIT = {
    "mode": "fast", "tokens": 480, "cosine_difference": [0.0, 4e-4], "nll_difference": 0.002,
    "nll_sd": 0.01,
}  # fmt: skip


def test_the_largest_errors_are_said_and_the_fewest_tokens():
    assert note([EXACT, RUN, UNIT]) == (
        "computed in bfloat16; off float32 by at most 0.003 nats per token, 0.0004 in a mean "
        "cosine, 0.02 of the norm of a hidden state (480 tokens of each run compared)"
    )
    assert "nats" not in note([{"mode": "fast", "tokens": 5, "relative_error": [0.1]}])
    # A run without documents: its error is unknown.
    empty = {"mode": "fast", "tokens": 0}
    assert note([empty]) == "computed in bfloat16, not compared with float32"


def test_nothing_is_said_of_what_is_exact():
    assert note([EXACT, EXACT]) is None and note([]) is None


def test_a_measurement_s_precision_is_its_own_and_that_of_its_conditions():
    assert list(precisions({"precision": RUN})) == [RUN]
    conditions = {"conditions": [{"precision": EXACT}, {"precision": UNIT}]}
    assert list(precisions(conditions)) == [EXACT, UNIT]
    assert list(precisions({"levels": []})) == []
