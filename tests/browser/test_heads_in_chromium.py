"""Heads and masks in a real browser, by keyboard: what is shown follows from the measured files."""

from __future__ import annotations

import re

import numpy as np
import pytest

from posenc.artifacts.files import read_sealed
from posenc.conditions import profiles, semantics
from posenc.metrics.patterns import softmax

from ..unit import synthetic
from .test_page_in_chromium import (  # noqa: F401
    CHROMIUM,
    Opened,
    address,
    browser,
    path,
    pytestmark,
)

MODELS = {"minilm": False, "decoder": True, "smollm2": True}
DATASET = "sample_reviews"
LAYER, HEAD = 1, 2
LABELS = synthetic.study_file()["labels"]


@pytest.fixture
def root(path):  # noqa: F811
    """Folder of the measurements behind the page."""
    return path.parents[2] / "measurements"


@pytest.fixture
def opened(browser, path):  # noqa: F811
    """The page; it must say nothing, and ask for nothing."""
    page = Opened(browser, path.as_uri(), viewport={"width": 1280, "height": 900})
    yield page
    page.context.close()
    assert page.said == []
    assert [url for url in page.requests if not url.startswith(("file://", "data:"))] == []


def scores(root, model: str, condition: str) -> np.ndarray:
    """Of the head that tests look at, [tokens, tokens]; minus infinity where a key is not seen."""
    measurement = read_sealed(root / f"sample_scores/{model}.json")
    (layers,) = [c["layers"] for c in measurement["conditions"] if c["condition"] == condition]
    tokens = measurement["tokens"]
    matrix = np.full((tokens, tokens), -np.inf)
    seen = np.tri(tokens, dtype=bool) if measurement["is_causal"] else np.ones_like(matrix, bool)
    matrix[seen] = [float(word) for word in layers[LAYER][HEAD].split(" ")]
    return matrix


def pattern(scores: np.ndarray) -> np.ndarray:
    return softmax(scores.copy(), causal=False)


def press(tab, *keys: str) -> None:
    for key in keys:
        tab.keyboard.press(key)


def focused(tab) -> str:
    """What has the focus: its id or its name."""
    return tab.evaluate(
        "document.activeElement.id || document.activeElement.getAttribute('aria-label')"
    )


def go(tab, model: str) -> None:
    """Choose the head by keys, from the contents on; the focus is then on the choice of a head."""
    tab.locator("nav a[href='#heads']").focus()
    press(tab, "Enter")
    tab.wait_for_selector("#pattern-zero td[data-at]")
    press(tab, "Tab")
    assert focused(tab) == "head-model"
    press(tab, "Home", *["ArrowDown"] * list(MODELS).index(model), "Tab", "Tab")
    assert focused(tab) == "head-layer"
    press(tab, "Home", *["ArrowDown"] * LAYER, "Tab", "Home", *["ArrowDown"] * HEAD)
    tab.wait_for_function(f"location.hash.includes('heads={model},{DATASET},{LAYER},{HEAD}')")
    title = f"{LABELS.get(model, model)}, layer {LAYER}, head {HEAD}"
    assert title in tab.locator("#heads h3").first.inner_text()


def shown(tab, grid: str) -> np.ndarray:
    """All cells of a grid, by their labels; minus infinity where there is none."""
    cells = tab.locator(f"#{grid} td[data-at]").evaluate_all(
        "cells => cells.map(cell => [cell.dataset.at, cell.getAttribute('aria-label'),"
        " cell.firstChild.style.opacity])"
    )
    size = max(int(at.split(",")[0]) for at, _, _ in cells) + 1
    matrix = np.full((size, size), -np.inf)
    for at, label, opacity in cells:
        query, key = map(int, at.split(","))
        number = label.split(": ")[-1]
        assert float(number) == float(opacity)
        assert re.search(rf"\({query}\), key .*\({key}\): ", label)
        matrix[query, key] = float(number)
    return matrix


@pytest.mark.parametrize("model", MODELS)
def test_a_head_is_explored_by_keys_alone(opened, root, model):
    tab = opened.tab
    go(tab, model)
    expected = {}
    for condition in ("intact", "zero"):
        expected[condition] = pattern(scores(root, model, condition))
        matrix = shown(tab, f"pattern-{condition}")
        there = matrix > -np.inf
        np.testing.assert_array_equal(there, scores(root, model, condition) > -np.inf)
        np.testing.assert_allclose(matrix[there], expected[condition][there], atol=5.1e-4)
    pieces = read_sealed(root / f"sample_scores/{model}.json")["pieces"]
    press(tab, "Tab", *["ArrowDown"] * 3, "End")
    query, key = 3, 3 if MODELS[model] else len(pieces) - 1
    value = expected["intact"][query, key]
    place = f"query “{pieces[query]}” ({query}), key “{pieces[key]}” ({key}): "
    assert focused(tab) == f"{place}{value:.3f}"
    press(tab, "ArrowRight")  # there is no key after it
    assert focused(tab) == f"{place}{value:.3f}"
    press(tab, "ArrowLeft")
    key -= 1
    said = tab.locator("#pattern-said").inner_text()
    numbers = [float(word) for word in re.findall(r"\d\.\d{3}", said)]
    both = [expected[condition][query, key] for condition in ("intact", "zero")]
    np.testing.assert_allclose(numbers, both, atol=5.1e-4)
    assert tab.locator("td.at").count() == 2
    # Tab reaches one cell of each grid, the one where the reader was.
    press(tab, "Tab")
    assert focused(tab).startswith(f"query “{pieces[0]}” (0)")
    press(tab, "Shift+Tab")
    assert focused(tab).startswith(f"query “{pieces[query]}” ({query}), key “{pieces[key]}”")


@pytest.mark.parametrize("model", MODELS)
def test_masses_by_offset_are_the_measured_ones(opened, root, model):
    tab = opened.tab
    go(tab, model)
    rows = {
        row[0]: row[1:]
        for row in tab.locator("#offsets tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
    }
    columns = rows.pop("Key − query")
    parts = read_sealed(root / f"score_parts/{model}/{DATASET}.json")
    own = parts["heads"][LAYER * parts["n_heads"] + HEAD]
    assert columns[-2:] == ["position adds, measured", "position adds, closed form"]
    for kind, column in (("measured", -2), ("closed_form", -1)):
        assert float(rows["−3"][column].replace("−", "-")) == pytest.approx(
            own[kind]["past"][3], rel=1e-2
        )
    note = tab.locator("#offsets-caption").inner_text()
    if model == "smollm2":
        assert "of the sentence alone" in note
        weights = pattern(scores(root, model, "intact"))
        previous = np.diagonal(weights, -1).sum() / len(weights)
        assert float(rows["−1"][0]) == pytest.approx(previous, abs=5.1e-4)
        return
    assert "sample reviews" in note
    runs = read_sealed(root / f"heads/{model}/{DATASET}.json")["runs"]
    assert columns[:2] == [f"mass, {LABELS[run['run']['condition']]}" for run in runs]
    for column, run in enumerate(runs):
        head = run["heads"][LAYER * run["n_heads"] + HEAD]
        for place, value in zip(run["offsets"], head["mass"], strict=True):
            sign = "−" if place < 0 else "+" if place else ""
            if MODELS[model] and place > 0:
                assert f"+{place}" not in rows
                continue
            assert float(rows[f"{sign}{abs(place)}"][column]) == pytest.approx(value, abs=6e-4)
        assert float(rows["before −10"][column]) == pytest.approx(head["before"], abs=6e-4)


def masked(scores: np.ndarray, condition: str, value: float, causal: bool) -> np.ndarray:
    """The pattern under a mask, by the workflow's own functions."""
    tokens = len(scores)
    if condition == "zero_alibi":
        return pattern(scores + profiles.alibi(profiles.Places.of(tokens), slope=value))
    factor = profiles.linear(profiles.Document(tokens), floor=value)
    change = getattr(semantics, condition.removeprefix("zero_"))(factor, causal)
    z = np.where(scores > -np.inf, scores, 0)
    z = z * (1 if change.score_factor is None else change.score_factor)
    z = z + (0 if change.bias is None else change.bias)
    if not change.sees_future:
        z = np.where(scores > -np.inf, z, -np.inf)
    return pattern(z) * (1 if change.pattern_factor is None else change.pattern_factor)


@pytest.mark.parametrize("model", MODELS)
def test_a_mask_is_tried_by_keys_alone(opened, root, model):
    tab = opened.tab
    go(tab, model)
    tab.locator("#mask-profile").focus()
    if model == "smollm2":  # whose first mask has no value to choose
        assert tab.locator("#mask-profile").input_value() == "zero_closed"
        press(tab, "ArrowDown")
    measurement = read_sealed(root / f"conditions/{model}/{DATASET}.json")
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    offered = tab.locator("#mask-profile option").evaluate_all("all => all.map(one => one.value)")
    offered = [name for name in offered if name != "zero_closed"]
    assert offered[0] == "zero_alibi"
    assert ("zero_log_mask" in offered) == (model != "smollm2")
    for place, condition in enumerate(offered):
        if condition == "zero_logarithmic":
            press(tab, "ArrowDown")
            continue
        assert tab.locator("#mask-profile").input_value() == condition
        press(tab, "Tab", "Home", *["ArrowRight"] * 7)
        assert focused(tab) == "mask-value"
        value = float(tab.locator("#mask-value").input_value())
        assert value == pytest.approx(0.07 if place == 0 else 0.08)
        matrix = shown(tab, "pattern-masked")
        expected = masked(scores(root, model, "zero"), condition, value, MODELS[model])
        there = matrix > -np.inf
        np.testing.assert_allclose(matrix[there], expected[there], atol=5.1e-4)
        # The nearest measured value, with its interval.
        points = {0.0 if place == 0 else 1.0: entries["zero"]}
        spec = entries[condition]["spec"]["mask"]["profile"]
        points[spec["slope" if place == 0 else "floor"]] = entries[condition]
        for sweep in measurement["sweeps"].values():
            if sweep["key"].startswith("mask."):
                points |= {r["value"]: r for r in sweep["rows"] if r["condition"] == condition}
        close = min(points, key=lambda other: abs(other - value))
        said = tab.locator("#mask-said").inner_text()
        assert f"nearest that was measured is {close:g}," in said
        point = points[close]
        estimate = point["perplexity"] if MODELS[model] else point["layers"][-1]
        numbers = re.search(r"(?:perplexity|with intact) ([\d.]+) \[([\d.]+), ([\d.]+)\]", said)
        for text, end in zip(numbers.groups(), ("value", "low", "high"), strict=True):
            assert float(text) == pytest.approx(estimate[end], rel=5e-3)
        row = tab.locator("#measured tr.nearest")
        assert row.count() == 1 and "(nearest)" in row.inner_text()
        press(tab, "Shift+Tab", "ArrowDown")


def test_the_closed_form_of_a_rotary_decoder_is_tried_head_by_head(opened, root):
    tab = opened.tab
    go(tab, "smollm2")
    parts = read_sealed(root / f"score_parts/smollm2/{DATASET}.json")
    before = scores(root, "smollm2", "zero")

    def expected(head: int) -> np.ndarray:
        own = parts["heads"][LAYER * parts["n_heads"] + head]["closed_form"]
        added = np.zeros_like(before)
        for query, key in zip(*np.nonzero(before > -np.inf), strict=True):
            added[query, key] = own["past"][query - key] if key else own["first_key"][query]
        return pattern(before + added)

    assert tab.locator("#mask-value").is_hidden()
    found = shown(tab, "pattern-masked")
    there = found > -np.inf
    np.testing.assert_allclose(found[there], expected(HEAD)[there], atol=1.1e-3)
    said = tab.locator("#mask-said").inner_text()
    assert f"Layer {LAYER}, head {HEAD}" in said and "sample reviews" in said
    own = parts["heads"][LAYER * parts["n_heads"] + HEAD]["closed_form"]
    numbers = re.findall(r"[+−]\d+\.\d\d", said)
    last = len(before) - 1
    np.testing.assert_allclose(
        [float(number.replace("−", "-")) for number in numbers],
        [own["past"][1], own["past"][last], own["first_key"][last]],
        atol=5.1e-3,
    )
    # Another head has another curve, and the losses stay: they are of all heads at once.
    losses = tab.locator("#measured tbody").inner_text()
    tab.locator("#head-head").focus()
    press(tab, "ArrowUp")
    assert f"head {HEAD - 1}" in tab.locator("#mask-said").inner_text()
    assert tab.locator("#measured tbody").inner_text() == losses
    assert not np.allclose(shown(tab, "pattern-masked")[there], found[there])
    caption = tab.locator("#measured-caption").inner_text()
    assert "in all layers and heads at once" in caption
    assert "one head's mask alone is not measured" in caption
    one = read_sealed(root / f"conditions/smollm2/{DATASET}.json")
    entries = {entry["condition"]: entry for entry in one["conditions"]}
    rows = tab.locator("#measured tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    names = ["intact", "zero", "zero_closed", "placebo_heads"]
    assert [row[0] for row in rows] == [LABELS.get(name, name) for name in names]
    for name, (_, _, loss) in zip(names, rows, strict=True):
        value = entries[name]["nll_per_token"]["value"]
        assert float(loss.split(" ")[0]) == pytest.approx(value, abs=5.1e-4)


def test_the_explorer_opens_on_the_head_with_the_clearest_pattern(opened, root):
    tab = opened.tab
    tab.locator("nav a[href='#heads']").click()
    tab.wait_for_selector("#pattern-zero td[data-at]")
    best = {}
    for model, causal in MODELS.items():
        one = read_sealed(root / f"sample_scores/{model}.json")
        (layers,) = [c["layers"] for c in one["conditions"] if c["condition"] == "intact"]
        seen = np.tri(one["tokens"], dtype=bool) if causal else np.ones([one["tokens"]] * 2, bool)
        for layer, head in np.ndindex(one["n_layers"], one["n_heads"]):
            z = np.full(seen.shape, -np.inf)
            z[seen] = [float(word) for word in layers[layer][head].split(" ")]
            weights = pattern(z)
            for offset in set(range(1 - len(z), len(z))) - {0}:
                share = np.diagonal(weights, offset).sum() / len(z)
                best[model, layer, head, offset] = share
    model, layer, head, offset = max(best, key=lambda place: best[place])
    assert (layer, head) != (0, 0)
    for name, value in (("model", model), ("layer", layer), ("head", head)):
        assert tab.locator(f"#head-{name}").input_value() == str(value)
    said = tab.locator("#head-clearest").inner_text()
    assert f"{LABELS.get(model, model)}, layer {layer}, head {head}." in said
    sign = "−" if offset < 0 else "+"
    assert f"{best[model, layer, head, offset]:.3f} of its attention" in said
    assert f"offset {sign}{abs(offset)} " in said
    assert "heads=" not in address(tab)


def test_no_mask_is_the_model_without_positions(opened):
    tab = opened.tab
    go(tab, "decoder")
    tab.locator("#mask-value").focus()
    press(tab, "Home")
    np.testing.assert_array_equal(shown(tab, "pattern-masked"), shown(tab, "pattern-zero"))
    assert "0, no mask (nearest)" in tab.locator("#measured tr.nearest").inner_text()


def test_a_cell_is_pointed_at(opened):
    tab = opened.tab
    go(tab, "decoder")
    tab.locator("#pattern-masked td[data-at='4,2']").hover()
    assert "with the mask" in tab.locator("#masked-said").inner_text()
    tab.locator("#pattern-intact td[data-at='4,2']").hover()
    assert "Query “猫” (4), key “<b>” (2)" in tab.locator("#pattern-said").inner_text()


def test_a_cell_is_tapped(browser, path):  # noqa: F811
    page = Opened(
        browser, path.as_uri() + f"#heads=decoder,{DATASET},0,0",
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True,
    )  # fmt: skip
    page.tab.locator("#pattern-zero td[data-at='5,1']").tap()
    assert "Query “sat” (5), key “a” (1)" in page.tab.locator("#pattern-said").inner_text()
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
    page.context.close()


def test_a_head_is_in_the_address(browser, opened):  # noqa: F811
    go(opened.tab, "decoder")
    again = Opened(browser, address(opened.tab))
    again.tab.wait_for_selector("#pattern-zero td[data-at]")
    assert again.tab.locator("#head-layer").input_value() == str(LAYER)
    np.testing.assert_array_equal(
        shown(again.tab, "pattern-zero"), shown(opened.tab, "pattern-zero")
    )
    again.context.close()
