"""Samples of mutants are drawn as described, and the page shows what was recorded."""

from __future__ import annotations

import json
import math

from tests import mutation
from tests.unit.synthetic import PROJECT

SCORE = mutation.Score(200, 50, 45, 1, "abc", [])


def test_the_page_is_that_of_the_record():
    assert mutation.PAGE.read_text("utf-8") == mutation.made_page()


def test_every_module_that_has_a_score_is_there():
    """One that moved is another module, until it is measured."""
    record = json.loads(mutation.RECORD.read_text("utf-8"))
    assert [path for path in record if not (PROJECT / path).exists()] == []


def test_a_sample_is_of_its_seed_and_of_each_mutant_alike():
    mutants = [f"m{place}" for place in range(10)]
    assert mutation.drawn(mutants, None, 1) == mutation.drawn(mutants, 10, 1) == mutants
    assert mutation.drawn(mutants, 3, 7) == mutation.drawn(mutants[::-1], 3, 7)
    draws = [mutation.drawn(mutants, 3, seed) for seed in range(2000)]
    assert all(len(set(draw)) == 3 for draw in draws)
    for mutant in mutants:
        share = sum(mutant in draw for draw in draws) / len(draws)
        assert abs(share - 0.3) < 5 * math.sqrt(0.3 * 0.7 / len(draws))


def test_a_score_has_the_interval_of_wilson_where_it_is_of_a_sample():
    """Its ends are where the observed share is 1.96 standard errors away (Wilson, 1927)."""
    text = mutation.Score(200, 10, 5, 1, "abc", []).share().translate(str.maketrans("[],%", "    "))
    share, low, high = (float(part) / 100 for part in text.split())
    assert share == 0.5
    for end in (low, high):
        error = math.sqrt(end * (1 - end) / 10)
        assert abs(abs(share - end) / error - 1.96) < 0.05, "ends are rounded to a percent"
    assert mutation.Score(50, 50, 45, None, "abc", []).share() == "90%"
    # Of the five that survived, two do the same as the module.
    assert mutation.Score(50, 50, 45, None, "abc", []).share(2) == "94%"


def test_the_page_lists_what_survived_under_its_reason():
    score = {**vars(SCORE), "survivors": ["f: a → b", "g: c → d"]}
    record = {"workflow/posenc/metrics/norms.py": score}
    text = mutation.page("Before.\n", record, {r"norms\.py f:": "the same"})
    assert text.startswith("Before.\n" + mutation.BEGINNING)
    row = "| 200 | 50 | 45 | 1 | 90% [79%, 96%] | 92% [81%, 97%] | 1 | `abc` |"
    assert f"| `posenc/metrics/norms.py` {row}" in text
    explained, _, rest = text.partition("Not noticed")
    assert "- the same:\n  - `posenc/metrics/norms.py` `` f: a → b ``" in explained
    assert "`` g: c → d ``" in rest
    assert mutation.page(text, record, {}).startswith("Before.\n" + mutation.BEGINNING)


def test_a_decorated_function_is_the_same_when_it_is_decorated_after_it_is_made():
    code = """
@first
@second(2)
def f(
    x,
):
    @inner
    def g(): ...
    return x


# After it.
h = f(1)
"""
    plain = mutation.undecorated(code)
    assert not plain.startswith("\n@first") and "\n    @inner\n" in plain

    def run(text):
        called = []
        names = {
            "first": lambda f: called.append("first") or (lambda x: f(x) + 10),
            "second": lambda by: lambda f: called.append("second") or (lambda x: by * f(x)),
            "inner": lambda f: f,
        }
        exec(text, names)
        return names["h"], called

    assert run(plain) == run(code) == (12, ["second", "first"])
    assert mutation.undecorated("x = 1\n") == "x = 1\n"
