"""The report page shows all numbers of the documents and is sound HTML without a network."""

from __future__ import annotations

import base64
import copy
import dataclasses
import functools
import html
import io
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure as Canvas
from PIL import Image

from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    read_json,
    read_sealed,
    sha256_file,
    write_json,
    write_sealed,
)
from posenc.artifacts.numbers import Number
from posenc.drawing import common, svg
from posenc.drawing.command import read_measurements
from posenc.drawing.exhibit import DOCUMENTS
from posenc.figures.catalogue import FIGURES
from posenc.measurements.perplexity import figure as perplexity
from posenc.measurements.score_parts.result import Curves, Decomposition, Head
from posenc.report import page, page_heads, page_pictures, page_rows
from posenc.report import quantities as numbers
from posenc.report.collection import collect
from posenc.report.records import ALL_DECODERS, Results
from posenc.steps import page as step

from . import synthetic
from .damage import flip
from .synthetic_positions import readback
from .test_page_tables import unpacked

PUBLISHED = synthetic.PROJECT / "paper/published.yaml"
VERSIONS = synthetic.PROJECT / "docs/mask-versions.json"
STUDIES = {
    "default": ("default", None),
    "no decoder": ("default", ["minilm"]),
    "no encoder": ("default", ["decoder"]),
    "first decoder not captured": (synthetic.EVALUATED, None),
}
DRAWN = [
    name
    for name, kinds in synthetic.FIGURE_INPUTS.items()
    if set(kinds) <= {*synthetic.study_file()["measured"]}
]
"""Those of the default study."""
FOLDER = "data/studies/default"
SECTIONS = synthetic.params_of().figures
VOID = {"meta", "link", "img", "input", "br", "wbr", "hr"}


@functools.cache
def planted_figure() -> str:
    """A small figure as SVG: a line, its interval."""
    with common.styled(SECTIONS.style):
        drawing = Canvas(figsize=(2, 1.5))
        axes = drawing.add_subplot()
        axes.fill_between([0, 1, 2], [0, 1, 2], [1, 2, 3])
        axes.plot([0, 1, 2], [0.5, 1.5, 2.5], marker="o", label="planted")
        return svg.written(drawing, 100)


def write_figures(root: Path, written: dict) -> list[Path]:
    """Write one figure, and small ones in place of the others, with checksums and inputs."""
    paths = []
    for name in DRAWN:
        path = root / FOLDER / f"figures/{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == "perplexity":
            measurements = read_measurements(written["perplexity"])
            drawing = perplexity.draw(measurements, SECTIONS.perplexity, SECTIONS.style)
            common.save(drawing, [path], SECTIONS.style)
        else:
            path.write_text(planted_figure(), encoding="utf-8")
        write_sealed(
            path.with_suffix(".json"),
            {
                "files": {path.name: sha256_file(path)},
                "inputs": [str(source) for source in synthetic.inputs_of(name, written)],
            },
        )
        paths.append(path)
    return paths


def make(root: Path, study: Path, inputs: list[Path]) -> str:
    """The step's page."""
    output = root / FOLDER / "index.html"
    step.main(study, PUBLISHED, VERSIONS, output, inputs)
    return output.read_text(encoding="utf-8")


def write_study(root: Path, name: str = "default", models: list[str] | None = None):
    """Paths of a made-up study by kind, and everything a page needs."""
    written = synthetic.write_inputs(root, name, models)
    verification = root / "data/models/minilm/verification.json"
    verification.parent.mkdir(parents=True)
    write_json(verification, synthetic.VERIFIED)
    return written, [verification, *synthetic.measured(written), *write_figures(root, written)]


@pytest.fixture(scope="module", params=STUDIES)
def any_study(request, tmp_path_factory):
    """The folder, the paths and the page of each kind of study."""
    if request.param == "default":
        return request.getfixturevalue("default")
    root = tmp_path_factory.mktemp("study")
    written, inputs = write_study(root, *STUDIES[request.param])
    return root, written, inputs, make(root, written["study"], inputs)


@pytest.fixture(scope="module")
def default(tmp_path_factory):
    """The same for the default study; tests undo what they change."""
    root = tmp_path_factory.mktemp("default")
    written, inputs = write_study(root)
    return root, written, inputs, make(root, written["study"], inputs)


@functools.cache
def _results(study: Path, inputs: tuple[Path, ...]) -> Results:
    return step.read(study, PUBLISHED, VERSIONS, list(inputs))


def results_of(written: dict) -> Results:
    """What the step reads from a study."""
    return _results(written["study"], tuple(synthetic.measured(written)))


class Document(HTMLParser):
    """Elements of a page in order; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.elements = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "attrs": dict(attrs), "within": tuple(self.open)}
        assert len(dict(attrs)) == len(attrs)
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop()["tag"] == tag, tag

    def all(self, tag: str) -> list[dict]:
        return [element for element in self.elements if element["tag"] == tag]


def without_pictures(text: str) -> str:
    return re.sub(r"data:image/webp;base64,[\w+/=]+", "data:", text)


def cells(text: str, figure: str = "") -> dict[tuple, list[str]]:
    """Cells of each row of the tables, or of one, by model, data set, condition and quantity."""
    tables = unpacked(json.loads(text.split('id="numbers">')[1].split("</script>")[0]))
    by_key = {}
    for row in itertools.chain(*([tables[figure]] if figure else tables.values())):
        place = (row["model"], row["data_set"], row["condition"])
        shown = [row["shown"], row["shown_low"], row["shown_high"]]
        said = [f"not run: {row['reason']}"] if row["reason"] else shown
        raw = "" if row["value"] is None else repr(row["value"])
        by_key[(*place, f"{row['measurement']}.{row['quantity']}")] = [
            raw, row["label"], *said, row["file"]
        ]  # fmt: skip
    return by_key


def test_every_number_of_the_documents_is_in_the_page_in_the_same_digits(any_study):
    _, written, _, text = any_study
    results = results_of(written)
    shown, count = cells(text), 0
    collected = collect(results)
    for key, entry in collected.items():
        place = collected.places[key]
        if place.measurement == "constant" or not isinstance(entry, Number):
            continue
        names = (place.model, place.dataset, place.condition)
        quantity = place.quantity
        if place.measurement == "extrapolation" and names[2] not in results.study["conditions"]:
            names = (*names[:2], "")
            quantity = ".".join(filter(None, (place.condition, quantity)))
        raw, _, value, *ends, source = shown[(*names, f"{place.measurement}.{quantity}")]
        decimals = numbers.decimals_of(entry)
        assert value == page.typographic(numbers.written(entry.value, decimals)), key
        if entry.low is not None:
            assert ends == [
                page.typographic(numbers.written(end, decimals)) for end in (entry.low, entry.high)
            ]
        assert raw == repr(entry.value)
        assert source.endswith(".json") or place.model == ALL_DECODERS, key
        count += 1
    assert count > 300


def test_what_was_not_run_is_said_with_its_reason(default):
    _, _, _, text = default
    assert "minilm has no language-model head" in text
    (row,) = [
        row
        for place, row in cells(text).items()
        if place == ("minilm", "sample_reviews", "zero", "perplexity.*")
    ]
    assert row[2] == "not run: minilm has no language-model head"
    assert "no encoder in this study" not in text


def test_a_changed_measurement_changes_the_page(default):
    root, written, inputs, before = default
    (path,) = [
        p for p in written["perplexity"] if str(p).endswith("decoder/sample_reviews/zero.json")
    ]
    kept = path.read_bytes()
    value = read_sealed(path)
    value["perplexity"] = {"value": 4321.123, "low": 4311.0, "high": 4331.0}
    write_sealed(path, value)
    after = make(root, written["study"], inputs)
    path.write_bytes(kept)
    assert '"4321"' not in before
    place = ("decoder", "sample_reviews", "zero", "perplexity.perplexity")
    assert cells(after)[place][2:5] == ["4321", "4311", "4331"]
    old, new = cells(before), cells(after)
    changed = {place for place, row in new.items() if old[place] != row}
    assert changed == {place}
    assert make(root, written["study"], inputs) == before  # the same bytes each time


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("similarity", "minilm.sample_reviews.intact.similarity"),
        ("perplexity", "minilm.sample_reviews.intact.perplexity"),
        ("conditions", "minilm.sample_reviews.intact.conditions"),
        ("norms", "minilm.sample_reviews.norms"),
        ("reference", "minilm.sample_reviews.reference"),
        ("layer_norm", "minilm.sample_reviews.layer_norm"),
        ("score_parts", "minilm.sample_reviews.score_parts"),
        ("probes", "minilm.sample_reviews.intact.probes"),
        ("spectra", "minilm.sample_reviews.intact.spectra"),
        ("components", "minilm.sample_reviews.intact.components"),
        ("heads", "minilm.sample_reviews.intact.heads"),
        ("position_embeddings", "minilm.position_embeddings"),
        ("readback", "minilm.readback"),
        ("relative_attention", "minilm.relative_attention"),
        ("random_causal", "random_causal"),
        ("lags", "minilm.sample_reviews.lags"),
    ],
)
def test_a_missing_measurement_fails_with_its_name(default, kind, name):
    _, written, _, _ = default
    results = results_of(written)
    gone = next(
        measurement for measurement in results.measurements if measurement["measurement"] == kind
    )
    left = [measurement for measurement in results.measurements if measurement is not gone]
    with pytest.raises(page_rows.MissingError, match=f"^{re.escape(name)}: there is no such"):
        page_rows.rows_of(dataclasses.replace(results, measurements=left))


def test_a_missing_training_fails_with_its_name(default):
    root, written, _, _ = default
    left = [path for path in synthetic.measured(written) if path not in written["training"]]
    with pytest.raises(ArtifactError, match=r"decoder\.training"):
        make(root, written["study"], left)


def test_a_measurement_file_that_is_not_there_fails_with_its_name(default):
    root, written, inputs, _ = default
    path = written["perplexity"][-1]
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(ArtifactError, match=re.escape(str(path))):
        make(root, written["study"], inputs)
    path.write_bytes(kept)


def drop(value: dict, *path) -> None:
    """Remove what is at a path."""
    *outer, last = path
    for part in outer:
        value = value[part]
    del value[last]


@pytest.mark.parametrize(
    ("kind", "path", "message"),
    [
        ("similarity", ("d_model",), r"similarity/minilm/.*\(d_model: field required\)"),
        ("similarity", ("layers", 2), r"minilm\.sample_reviews\.intact\.similarity\.block_2"),
        (
            "similarity",
            ("layers", 0, "cosine", "high"),
            r"layers\.0\.cosine\.high: field required",
        ),
        ("norms", ("r2", "sum", "linear"), r"norms/minilm.*\(r2\.sum\.linear: field required\)"),
        ("readback", ("pairs",), r"readback/minilm\.json .*\(pairs: field required\)"),
    ],
)
def test_a_missing_number_fails_with_its_name(default, kind, path, message):
    results = copy.deepcopy(results_of(default[1]))
    drop(
        next(
            measurement
            for measurement in results.measurements
            if measurement["measurement"] == kind
        ),
        *path,
    )
    with pytest.raises((page_rows.MissingError, ArtifactError), match=message):
        page_rows.rows_of(results)


def test_the_step_names_what_is_missing_in_one_line(default):
    root, written, inputs, _ = default
    left = [path for path in inputs if path != written["perplexity"][0]]
    left = [path for path in left if path.suffix != ".svg"]
    with pytest.raises(
        ArtifactError, match=r"index\.html: minilm\.sample_reviews\.intact\.perplex"
    ):
        make(root, written["study"], left)


def test_a_figure_of_other_measurements_fails_with_both_names(default):
    root, written, inputs, _ = default
    left = [path for path in inputs if path not in written["scheme_probes"]]
    with pytest.raises(ArtifactError, match=r"the figure position_probes shows .*scheme_probes"):
        make(root, written["study"], left)


def test_an_altered_figure_is_found(default):
    root, written, inputs, _ = default
    path = inputs[-1]
    kept = path.read_bytes()
    flip(path)
    with pytest.raises(DamagedError, match=re.escape(str(path))):
        make(root, written["study"], inputs)
    path.write_bytes(kept)


def test_the_page_is_sound(any_study):
    _, _, _, text = any_study
    document = Document(text)
    ids = [element["attrs"]["id"] for element in document.elements if "id" in element["attrs"]]
    assert len(ids) == len(set(ids))
    assert document.all("html")[0]["attrs"]["lang"] == "en"
    assert len(document.all("h1")) == 1 and len(document.all("main")) == 1
    pictures = document.all("svg")
    assert len(pictures) == len(DRAWN)
    for picture in pictures:
        assert len(picture["attrs"]["aria-label"]) > 30
    plates = [
        element for element in document.all("div") if element["attrs"].get("class") == "plate"
    ]
    assert len(plates) == len(DRAWN)
    for plate in plates:
        assert "--shape: " in plate["attrs"]["style"]  # nothing moves while it loads
    named = set(re.findall(r'(?:href="#|url\(#)(f\d+d\d+)', text))
    assert named and named <= set(ids)
    for table in document.all("table"):
        inside = [element for element in document.elements if table in element["within"]]
        assert any(element["tag"] == "caption" for element in inside)
        assert all("scope" in element["attrs"] for element in inside if element["tag"] == "th")
    for control in [*document.all("input"), *document.all("select")]:
        beside = [label["attrs"].get("for") for label in document.all("label")]
        assert control["attrs"].get("id") in beside or any(
            element["tag"] == "label" for element in control["within"]
        )
    for link in document.all("a"):
        assert link["attrs"]["href"].startswith("../") or (
            link["attrs"]["href"].removeprefix("#") in {*ids, *(f"{d}.pdf" for d in DOCUMENTS)}
        )
    for element in document.elements:
        for attribute in ("aria-labelledby", "for"):
            assert element["attrs"].get(attribute, ids[0]) in ids
    titles = [
        int(element["tag"][1])
        for element in document.elements
        if re.fullmatch("h[1-6]", element["tag"])
    ]
    assert all(after - before <= 1 for before, after in itertools.pairwise(titles))


def test_the_page_asks_nothing_of_a_network_and_holds_no_place_or_time(any_study):
    root, _, _, text = any_study
    rest = without_pictures(text)
    assert "//" not in re.sub(r"(?m)^\s*//.*$", "", rest)
    assert not re.search(r"@import|url\((?!#)|<iframe|fetch\(|XMLHttpRequest|WebSocket", rest)
    assert str(root) not in without_root(rest, root)
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|\d\d:\d\d", rest)
    assert len(text.encode()) < page.MOST_BYTES


def without_root(text: str, root: Path) -> str:
    """Measurements lie below the root here; in the project their paths begin at it."""
    return text.replace(f"{root}/data/measurements", "data/measurements")


def test_names_are_escaped(default):
    root, written, inputs, _ = default
    kept = written["study"].read_bytes()
    study = read_json(written["study"])
    study["study"]["title"] = "<b>x</b> & 'y' 日本語 \N{GRINNING FACE} שלום"
    write_json(written["study"], study)
    text = make(root, written["study"], inputs)
    written["study"].write_bytes(kept)
    assert "<b>x</b>" not in text
    assert "&lt;b&gt;x&lt;/b&gt; &amp;" in text
    # What runs from right to left does not turn the words after it.
    assert re.search(r"<bdi>&lt;b&gt;x.* 日本語 \N{GRINNING FACE} שלום</bdi>", text)


def test_names_have_their_labels_beside_them(default):
    """In the filters and in what was run; rows hold names, which scripts show labels of."""
    root, written, inputs, text = default
    assert (
        '<input type="checkbox" value="zero"> <span>no positions <code>zero</code></span>' in text
    )
    assert "Activations are kept of</span> intact, no positions <code>zero</code>." in text
    said = text.split("What each condition does</span>")[1].split("</details>")[0]
    sentence = "The position embeddings are zero, or nothing is rotated."
    assert f"<dt>no positions <code>zero</code></dt><dd>{sentence}</dd>" in said
    assert "<code>mean_alibi</code>" not in said, "the study has no such condition"
    labels = json.loads(text.split('id="labels">')[1].split("</script>")[0])
    assert labels["zero_closed"] == "closed-form mask" and labels["minilm"] == "MiniLM"
    assert "bert" not in labels, "the study has no such model"
    kept = written["study"].read_bytes()
    study = read_json(written["study"])
    write_json(written["study"], {**study, "labels": {"zero": "</script> & 'none'"}})
    other = make(root, written["study"], inputs)
    written["study"].write_bytes(kept)
    assert cells(other).keys() == cells(text).keys()
    assert "&lt;/script&gt; &amp;" in other and "</script> &" not in other
    assert "<span>zero alibi</span>" in other


def test_every_figure_has_its_words(default):
    _, _, _, text = default
    for name in DRAWN:
        entry = FIGURES[name]
        assert len(entry.caption) > 40 and len(entry.alt) > 40
        assert f">{page.plain(entry.caption)}</span></figcaption>" in html.unescape(text)
        assert f'aria-label="{entry.alt}"' in html.unescape(text)


def test_every_table_shows_what_its_figure_is_about(default):
    _, _, _, text = default
    for name in DRAWN:
        kinds = {place[3].split(".")[0] for place in cells(text, name)}
        inputs = set(synthetic.FIGURE_INPUTS[name])
        if "conditions" in inputs:
            inputs |= {"extrapolation"}  # whose files lie beside them
        assert kinds <= inputs
        assert kinds or name == "mask_semantics", name


def test_a_role_hides_no_model_of_the_same_name():
    study = synthetic.study_file()
    study["study"]["models"] = study["study"]["captured"] = ["first", "decoder"]
    study["models"] = {
        "first": {**study["models"]["decoder"]},
        "decoder": {**study["models"]["decoder"]},
    }
    assert numbers.model_roles(study)["decoder"] == "first"
    measurements = [{**readback(name), "file": f"{name}.json"} for name in ("first", "decoder")]
    key = "decoder.readback.margin"
    results = Results(study, measurements, [], {}, {})
    named, by_role = collect(results, roles=False), collect(results)
    assert (named.places[key].model, named.places[key].files) == ("decoder", ("decoder.json",))
    assert (by_role.places[key].model, by_role.places[key].files) == ("first", ("first.json",))
    assert by_role.places[key].key == key


def test_estimates_of_a_measurement_without_keys_are_shown(default):
    """A measurement that the documents do not know yet is still on the page."""
    _, written, _, _ = default
    results = results_of(written)
    new = {
        "measurement": "new_one", "status": "measured", "reason": None,
        "run": {"model": "minilm"}, "file": "measurements/new_one/minilm.json",
        "tasks": [{"task": "sorting", "accuracy": {"value": 0.5, "low": 0.4, "high": 0.6}}],
    }  # fmt: skip
    known = dataclasses.replace(results, measurements=[*results.measurements, new])
    rows = page_rows.rows_of(known)
    ((place, entry),) = [(p, e) for p, e in rows.items() if p.measurement == "new_one"]
    assert (place.model, place.quantity) == ("minilm", "tasks.sorting.accuracy")
    assert entry == Number(0.5, 0.4, 0.6)
    assert place.files == (new["file"],)


def test_heads_are_left_out_where_no_scores_of_a_sentence_are_measured(default):
    root, written, inputs, before = default
    assert 'id="heads"' in before and "#heads" in before
    kept = {path: path.read_bytes() for path in written["sample_scores"]}
    for path in kept:
        none = {"status": "not run", "reason": "no sentence"}
        write_sealed(path, {**read_sealed(path), **none})
    after = make(root, written["study"], inputs)
    for path, content in kept.items():
        path.write_bytes(content)
    assert 'id="heads' not in after and 'href="#heads"' not in after
    assert "no sentence" in after
    Document(after)


def test_heads_of_measured_models_alone_are_offered(default):
    results = results_of(default[1])
    gone = [
        {**measurement, "status": "not run"}
        if measurement["run"] == {"model": "minilm"}
        else measurement
        for measurement in results.measurements
    ]
    heads = json.loads(page_heads.heads(dataclasses.replace(results, measurements=gone)))
    assert [model["name"] for model in heads["models"]] == ["decoder", "smollm2"]


def test_nothing_in_the_data_of_heads_ends_its_element(default):
    text = default[3].split('id="heads-data">')[1].split("</script>")[0]
    assert "<" not in text
    assert "<b>" in json.loads(text)["models"][0]["pieces"]


def test_what_position_adds_is_told_by_offset():
    curves = {"past": [0.5, -1.0, None, -3.0], "future": [None, 10.0, 20.0], "first_key": []}
    head = Head.model_construct(
        measured=Curves(**curves), closed_form=Curves(past=[0.0, 1.0], first_key=[])
    )
    parts = Decomposition.model_construct(heads=[head])
    assert page_heads.curves_of(parts, 2) == [["- -1000 500 10000 20000", "- 1000 0 - -"]]


trees = st.recursive(
    st.floats(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(trees, st.floats(-9, 9))
def test_an_estimate_is_found_wherever_it_is(tree, value):
    planted = {"value": value, "low": value - 1, "high": value + 1}
    assert list(page_rows.estimates(tree)) == []
    estimates = list(page_rows.estimates({"here": [tree, {"name": "there", "deep": planted}]}))
    assert estimates == [(("here", "there", "deep"), Number(value, value - 1, value + 1))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12.5", "12.5"),
        ("-0.031", "−0.031"),
        ("1.20e+07", "1.20 × 10⁷"),
        ("-4.1e-15", "−4.1 × 10⁻¹⁵"),
    ],
)
def test_numbers_are_typographic(text, shown):
    assert page.typographic(text) == shown


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L"])
def test_pictures_of_few_colours_are_embedded_without_loss(mode):
    generator = np.random.default_rng(0)
    colours = generator.integers(0, 256, (page_pictures.COLOURS, 3), np.uint8)
    image = Image.fromarray(colours[generator.integers(0, page_pictures.COLOURS, (40, 60))])
    image = image.convert(mode, palette=Image.Palette.ADAPTIVE)
    file = io.BytesIO()
    image.save(file, format="PNG")
    png = base64.b64encode(file.getvalue()).decode()
    svg = f'<svg viewBox="0 0 60 40"><image href="data:image/png;base64,{png}" /></svg>'
    embedded = page_pictures.Pictures().picture(svg, "noise")["svg"]
    content = io.BytesIO(base64.b64decode(re.search(r"webp;base64,([^\"]+)", embedded)[1]))
    with Image.open(content) as picture:
        np.testing.assert_array_equal(np.asarray(picture.convert("RGB")), image.convert("RGB"))
