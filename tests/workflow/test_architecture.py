"""The picture in docs/architecture.md shows today's rules and is legible."""

from __future__ import annotations

import importlib.util
import re
import xml.etree.ElementTree as ET

import networkx as nx
import pytest

from tests.workflow.conftest import ROOT

PAGE_WIDTH = 830
"""Pixels of a page that shows the picture."""
SMALLEST = 9
NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def architecture():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs/architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def svg(architecture) -> str:
    return architecture.PICTURE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def graph(architecture) -> nx.DiGraph:
    """The rules of today."""
    return architecture.rules()


def words(svg: str) -> set[str]:
    return {text.text for text in ET.fromstring(svg).iter(f"{NAMESPACE}text")}


def test_the_arrows_are_those_of_the_rules(architecture, svg, graph):
    then, now = (set(map(tuple, e)) for e in (architecture.listed(svg), architecture.edges(graph)))
    assert then == now, (
        f"run python docs/architecture.py: new {sorted(now - then)}, gone {sorted(then - now)}"
    )


def test_every_rule_and_every_phase_is_named(architecture, svg, graph):
    assert set(graph) | set(architecture.phases(graph).values()) <= words(svg)


def test_what_is_not_drawn_follows_from_what_is(architecture, graph):
    """Every arrow of the rules is a path through the boxes, and every drawn one is real."""
    phase = architecture.phases(graph)
    drawn = nx.transitive_reduction(graph)
    text = architecture.dot(graph, phase)
    box = {
        rule: name
        for name, cells in re.findall(r"(box\d+) \[label=(.*?)\];", text)
        for rule in re.findall(r'PORT="(\w+)"', cells)
    }
    assert box.keys() == set(graph)
    cluster = re.search(r"ltail=(cluster_\d+)", text)[1]
    shown = set()
    for line in text.splitlines():
        edge = re.match(r"(box\d+)(?::(\w+))? -> (box\d+)(.*)", line)
        if edge is None or "invis" in edge[4]:
            continue
        tails = [edge[2]] if edge[2] else [rule for rule in box if box[rule] == edge[1]]
        if f"ltail={cluster}" in edge[4]:
            without = re.findall(r"\w+", edge[4].partition("all but ")[2].partition('"')[0])
            tails = [r for r in box if phase[r] == "measurements" and r not in without]
        shown |= {(tail, head) for tail in tails for head in box if box[head] == edge[3]}
    assert shown >= set(drawn.edges)
    assert shown <= set(graph.edges), sorted(shown - set(graph.edges))


def test_text_can_be_read_at_page_width(svg):
    root = ET.fromstring(svg)
    width = float(root.get("width").removesuffix("pt")) * 96 / 72
    scale = min(1.0, PAGE_WIDTH / width) * 96 / 72  # pixels a point
    sizes = [float(text.get("font-size")) for text in root.iter(f"{NAMESPACE}text")]
    assert min(sizes) * scale >= SMALLEST


def test_colours_are_not_needed_to_tell_phases_apart(architecture, svg):
    """Each has its name beside it; text stands on light tints: contrast of at least 12 to 1."""
    for fill in architecture.FILLS.values():
        assert fill.lower() in svg.lower()
        linear = [(int(fill[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert (luminance + 0.05) / 0.05 >= 12


def test_the_page_shows_it_with_words_for_those_who_do_not_see_it():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    (alternative,) = re.findall(r"!\[(.+?)\]\(images/architecture\.svg\)", page)
    assert len(alternative) > 100
