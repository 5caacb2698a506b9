"""Draw docs/images/architecture.svg from the rules of today: ``python docs/architecture.py``.

Snakemake prints the graph of the active study's rules; Graphviz lays it out (``apt-get install
graphviz``). An arrow that follows from others is not drawn; rules of one phase that wait for the
same ones share a box. All arrows, drawn or not, are listed in the picture's metadata, which a test
compares with the rules (tests/workflow/test_architecture.py).
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import networkx as nx

from posenc.figures.catalogue import DOCUMENTS
from posenc.study.declared import MEASUREMENTS

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/architecture.svg"
FILES = {
    "data": "raw text", "models": "models", "activations": "activations",
    "conditions": "masks and losses",
    "measurements": "measurements", "experiments": "measurements",
    "figures": "figures and numbers", "paper": "for readers", "page": "for readers",
}  # fmt: skip
"""The phase of the rules of each file in workflow/rules."""
RULES = {
    "documents": "documents", "corpus": "documents", "tokenize": "tokens", "texts": "tokens",
    "trials": "trials", "gpu_trials": "trials", "typeset": "figures and numbers",
    "training": "measurements",
}  # fmt: skip
"""Rules whose phase is another than their file's."""
FILLS = {
    "raw text": "#F2F2F2", "documents": "#F2F2F2", "models": "#FDF0D5", "tokens": "#E3F1FA",
    "activations": "#CFE6F5", "masks and losses": "#CFE6F5", "trials": "#FBE3D6",
    "measurements": "#D8EFE6", "figures and numbers": "#F5E4EE",
    "for readers": "#F5E4EE",
}  # fmt: skip
"""Tints of Okabe and Ito's colours; every phase has its name beside them."""
LOW = ("raw text", "documents", "tokens", "trials", "figures and numbers", "for readers")
"""Phases of one row of boxes."""
TARGETS = {"all", "measurements", "figures"}
FONT = "DejaVu Sans"
POINTS = 11


def rules(root: Path = ROOT) -> nx.DiGraph:
    """The rules of the active study: an edge from a rule to each that reads what it makes."""
    printed = subprocess.run(
        [Path(sys.executable).with_name("snakemake"), "--cores", "1", "--forceall", "--rulegraph"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', printed))
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(set(names.values()) - TARGETS))
    for one, other in re.findall(r"(\d+) -> (\d+)", printed):
        if not {names[one], names[other]} & TARGETS:
            graph.add_edge(names[one], names[other])
    return graph


def phases(graph: nx.DiGraph, root: Path = ROOT) -> dict[str, str]:
    """The phase of each rule."""
    # Loops make the rules of measurements that are alike, and those of documents.
    found = {
        **dict.fromkeys(MEASUREMENTS, "measurements"),
        **dict.fromkeys(DOCUMENTS, FILES["paper"]),
    }
    for path in sorted((root / "workflow/rules").glob("*.smk")):
        text = path.read_text()
        for rule in re.findall(r"(?m)^ *(?:rule|use rule \w+ as) (\w+)(?: with)?:", text):
            found[rule] = RULES.get(rule) or FILES.get(path.stem)
    lacking = [rule for rule in graph if found.get(rule) is None]
    if lacking:
        raise SystemExit(f"docs/architecture.py: FILES or RULES need a phase for {lacking}")
    return {rule: found[rule] for rule in graph}


def boxes(graph: nx.DiGraph, phase: dict[str, str]) -> list[tuple[str, ...]]:
    """Rules of one phase that wait for the same ones, in order."""
    grouped: dict[tuple, list[str]] = {}
    for rule in nx.lexicographical_topological_sort(graph):
        key = (phase[rule], tuple(sorted(graph.predecessors(rule))))
        grouped.setdefault(key, []).append(rule)
    return [tuple(group) for group in grouped.values()]


def dot(graph: nx.DiGraph, phase: dict[str, str]) -> str:
    """The picture in Graphviz's language."""
    drawn = nx.transitive_reduction(graph)
    groups = boxes(drawn, phase)
    box = {rule: f"box{number}" for number, group in enumerate(groups) for rule in group}
    lines = [
        "digraph {",
        "graph [rankdir=TB, compound=true, newrank=true, nodesep=0.28, ranksep=0.42, margin=0.05,"
        f' bgcolor=white, fontname="{FONT}", fontsize={POINTS}, labeljust=l]',
        f'node [shape=plain, fontname="{FONT}", fontsize={POINTS}]',
        'edge [color="#555555", arrowsize=0.7, penwidth=1.1]',
    ]
    for number, name in enumerate(FILLS):
        inside = [group for group in groups if phase[group[0]] == name]
        lines += [
            f"subgraph cluster_{number} {{",
            f'label=<<B>{name}</B>>; style="rounded,filled"; color="#888888"; margin=11;',
            f'fillcolor="{FILLS[name]}";',
            *(f"{box[group[0]]} [label=<{table(group)}>];" for group in inside),
            *room(number, name, [box[group[0]] for group in inside]),
            "}",
        ]
    measured = [rule for rule in drawn if phase[rule] == "measurements"]
    cluster = f"cluster_{list(FILLS).index('measurements')}"
    for target in graph:
        read = [rule for rule in graph.predecessors(target) if rule in measured]
        if target in measured or len(read) < len(measured) / 2:
            continue
        # One arrow stands for those of nearly all measurements, and says which it leaves out.
        others = sorted(set(measured) - set(read))
        label = f"all but {', '.join(others)}" if others else "all"
        tail = max(read, key=lambda rule: (len(nx.ancestors(graph, rule)), rule))
        lines.append(
            f'{box[tail]} -> {box[target]} [ltail={cluster}, label=" {label}  ",'
            f' fontname="{FONT}", fontsize={POINTS}]'
        )
        drawn.remove_edges_from([(rule, target) for rule in measured])
    for one in drawn:
        mates = groups[int(box[one][3:])]
        alike = len({frozenset(drawn.successors(mate)) for mate in mates}) == 1
        port = "" if alike else f":{one}"
        for other in dict.fromkeys(box[rule] for rule in sorted(drawn.successors(one))):
            if mates[0] == one or not alike:
                lines.append(f"{box[one]}{port} -> {other}")
        if one in measured and not graph.in_degree(one):
            # What is made of no data stands beside what is.
            lines.append(f"{box['store']} -> {box[one]} [style=invis]")
    return "\n".join([*lines, "}"])


def room(number: int, name: str, inside: list[str]) -> list[str]:
    """Room on the left of a low phase, so that no arrow crosses its name."""
    if name not in LOW:
        return []
    width = 0.085 * len(name)  # inches
    return [
        f'room{number} [label="", width={width:.2f}, style=invis, shape=box, height=0.1];',
        f"{{rank=same; room{number}; {'; '.join(inside)}}}",
        *(f"room{number} -> {one} [style=invis];" for one in inside[:1]),
    ]


def table(group: Iterable[str]) -> str:
    """A box with a cell for each rule."""
    cells = "".join(f'<TR><TD PORT="{rule}" ALIGN="LEFT">{rule}</TD></TR>' for rule in group)
    return (
        '<TABLE BORDER="1" COLOR="#666666" BGCOLOR="white" CELLBORDER="0" CELLSPACING="0"'
        f' CELLPADDING="3" STYLE="ROUNDED">{cells}</TABLE>'
    )


def edges(graph: nx.DiGraph) -> list[list[str]]:
    """All arrows, sorted."""
    return sorted(map(list, graph.edges))


def listed(svg: str) -> list[list[str]]:
    """The arrows that a picture was drawn from."""
    return json.loads(html.unescape(re.search(r"(?s)<metadata>(.*?)</metadata>", svg)[1]))


def draw(graph: nx.DiGraph, root: Path = ROOT) -> str:
    """The picture as SVG."""
    made = subprocess.run(
        ["dot", "-Tsvg"], input=dot(graph, phases(graph, root)), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    # Without Graphviz's comments, which name its version, and the tooltips of nodes and edges.
    made = re.sub(r"(?s)<!--.*?-->\n?", "", made)
    made = re.sub(r"<title>.*?</title>\n", "", made)
    made = made.replace(f'"{FONT}"', f'"{FONT},Verdana,Helvetica,Arial,sans-serif"')
    words = "<title>The rules of the workflow, from raw text to documents</title>"
    facts = f"<metadata>{html.escape(json.dumps(edges(graph)), quote=False)}</metadata>"
    return re.sub(r"(<svg[^>]*>\n)", rf"\1{words}\n{facts}\n", made, count=1)


if __name__ == "__main__":
    PICTURE.write_text(draw(rules()), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: drawn")
