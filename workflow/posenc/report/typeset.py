"""What the documents and DVC read of the measurements: numbers, tables, metrics and plots."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc.artifacts.numbers import FLOAT32, Entry, NotRun, Number
from posenc.artifacts.places import STUDIES
from posenc.artifacts.precision import note, precisions
from posenc.config.labels import labelled
from posenc.drawing.exhibit import SUPPLEMENT
from posenc.figures import catalogue
from posenc.figures.parameters import LINEAR
from posenc.measurements.conditions.quantities import condition_facts
from posenc.measurements.lags.quantities import lags
from posenc.measurements.lags.result import Lags
from posenc.report import quantities as keys
from posenc.report.asked import has_documents, is_asked
from posenc.report.collection import add_ends, collect
from posenc.report.counts import documents_of, reasons_of
from posenc.report.latex import FALLBACK
from posenc.report.readers import QUANTITIES, numbers_of
from posenc.report.records import SHORTER, Place, Recorded, Results
from posenc.report.tables import (
    evaluation as evaluation_tables,
)
from posenc.report.tables import (
    experiments as experiment_tables,
)
from posenc.report.tables import (
    positions as position_tables,
)
from posenc.report.tables import (
    semantics as semantics_tables,
)
from posenc.report.tables import (
    study as study_tables,
)
from posenc.report.tables.cells import (
    display,
    escape,
    interval,
    number,
)
from posenc.report.words import anchor


def environment() -> Environment:
    """Jinja with delimiters that LaTeX does not use; an undefined name is an error."""
    return Environment(
        loader=PackageLoader("posenc.report"), undefined=StrictUndefined, autoescape=False,
        block_start_string="<%", block_end_string="%>", variable_start_string="<<",
        variable_end_string=">>", comment_start_string="<#", comment_end_string="#>",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def definition(key: str, entry: Entry) -> str:
    """The line of numbers.tex that defines a key."""
    if isinstance(entry, NotRun):
        return rf"\posencnotrun{{{key}}}{{{escape(entry.reason)}}}"
    if entry.low is None:
        shown = number(entry, keys.decimals_in_text(entry))
        return rf"\posencvalue{{{key}}}{{{shown}}}{{{entry.value!r}}}"
    return (
        rf"\posencestimate{{{key}}}{{{number(entry)}}}{{{interval(entry)}}}"
        rf"{{{entry.value!r}}}{{{entry.low!r}}}{{{entry.high!r}}}"
    )


def numbers_json(results: Results) -> dict[str, Recorded]:
    """Every number, for :mod:`posenc.report.comparison`; keys name models, not their roles.

    A study without documents has those that were measured; its page says what was not run.
    """
    by_key: dict[str, Recorded] = {}
    numbers = collect(results, roles=False)
    for key, entry in numbers.items():
        if isinstance(entry, NotRun):
            if has_documents(results.study):
                by_key[key] = {"not_run": entry.reason}
            continue
        if not is_asked(results.study, numbers.places[key], entry):
            continue
        shown = keys.written(entry.value, keys.decimals_of(entry))
        by_key[key] = {"value": entry.value, "shown": shown}
        if entry.low is not None and entry.high is not None:
            by_key[key] |= {"low": entry.low, "high": entry.high}
        if entry.rounding != FLOAT32:
            by_key[key]["rounding"] = entry.rounding
    return by_key


def studied(results: Results) -> dict[str, str]:
    """The names and words of the study, as LaTeX."""
    study = results.study["study"]
    shares = sorted({m["confidence"] for m in results.measurements if "confidence" in m})
    words = {
        "name": display(study["name"]),
        "parameters": results.study["parameters"][:12],
        "title": escape(study["title"]),
        "authors": ", ".join(map(escape, results.study["authors"])),
        "confidence": " and ".join(rf"\qty{{{100 * share:.4g}}}{{\percent}}" for share in shares),
    }
    titles = {name: model["title"] for name, model in results.study["models"].items()}
    words["models"] = ", ".join(escape(t) if t else display(name) for name, t in titles.items())
    words |= library_versions(results)
    for kind in ("datasets", "conditions", "evaluated"):
        words[kind] = ", ".join(map(display, study[kind]))
    known = [*results.study["conditions"], *results.study["labels"]]
    words |= {f"called.{name}": display(name) for name in known}
    calibration = study["calibration"]
    words["calibration"] = (
        display(calibration) if calibration else r"\notrunreason{no calibration text in this study}"
    )
    for roles in (keys.model_roles(results.study), keys.dataset_roles(results.study)):
        for role, name in roles.items():
            lacking = rf"\notrunreason{{{keys.no(role)}}}"
            words[role] = lacking if name is None else display(name)
            if role in ("encoder", "decoder", "rotary_decoder"):
                words[f"{role}.weights"] = (
                    lacking if name is None else study_tables.weights(results, name)
                )
            if role in ("reviews", "questions"):
                words[f"{role}.texts"] = (
                    lacking if name is None else study_tables.texts(results, name)
                )
    return words


def library_versions(results: Results) -> dict[str, str]:
    """How many versions of the library were run, and which had each semantics of the linear mask.

    Of a semantics in several ranges, such as one for each implementation, the first is named.
    """
    run = [release for release in results.versions["versions"] if release["status"] == "run"]
    words = {"versions": rf"\num{{{len(run)}}}"}
    for name in LINEAR:
        spans = semantics_tables.ranges(results.versions, name)
        ends = [escape(spans[0][end]) for end in ("first", "last")] if spans else ["none"]
        words[f"versions.{name}"] = "--".join(ends)
    return words


def numbers_tex(results: Results) -> str:
    """The text of a study's generated/numbers.tex."""
    with labelled(results.study["labels"]):
        return _numbers_tex(results)


def _numbers_tex(results: Results) -> str:
    numbers = collect(results)
    add_ends(numbers)
    published = [
        (key, rf"\num{{{value['value']}}}", value["value"])
        for key, value in sorted(results.published["values"].items())
    ]
    origins = [
        (key, on_page(place))
        for key, place in sorted(numbers.places.items())
        if isinstance(numbers[key], Number) and place.files
    ]
    precision = note(p for m in results.measurements for p in precisions(m))
    return (
        environment()
        .get_template("numbers.tex.jinja")
        .render(
            fonts=FALLBACK,
            folder=STUDIES / results.study["study"]["name"],
            precision=escape(precision.capitalize()) if precision else None,
            lacking=[escape(reason) for reason in keys.missing_roles(results.study)],
            absent=sorted(
                {SHORTER.get(kind, kind) for kind in QUANTITIES.keys() - results.study["measured"]}
                - {""}
            ),
            studied=sorted((words := studied(results)).items()),
            authors=words["authors"],
            published=published,
            numbers=[definition(key, entry) for key, entry in sorted(numbers.items())],
            origins=origins,
            tables=[
                (name, urlencode({"search": f"{table.measurements[0]}."}))
                for name, table in catalogue.TABLES.items()
                if table.measurements and not lacking(results, name)
            ],
            figures=[
                (
                    name,
                    number,
                    f"figure-{anchor(name)}",
                    re.sub(r"\*(.+?)\*", r"\\emph{\1}", escape(entry.caption)),
                    documents_of(results, entry),
                )
                for name, number in catalogue.numbered(results.study["figures"]).items()
                for entry in [catalogue.FIGURES[name]]
            ],
            further=[
                (name, [escape(why) for why in reasons_of(results, catalogue.FIGURES[name])])
                for name in catalogue.DOCUMENTS[SUPPLEMENT]["figures"]
                if name in results.study["figures"]
            ],
        )
    )


def on_page(place: Place) -> str:
    """The part of the page's address that shows only the rows of a place.

    Examples
    --------
    >>> on_page(Place("gpt2", "imdb", "zero", "conditions", "delta_nll"))
    'models=gpt2&data-sets=imdb&conditions=zero&search=conditions+delta_nll'
    """
    # Conditions of long documents alone stand among the quantities there.
    condition = "" if place.measurement == "extrapolation" else place.condition
    filters = {"models": place.model, "data-sets": place.dataset, "conditions": condition}
    words = " ".join(filter(None, (place.measurement, place.quantity)))
    return urlencode({name: value for name, value in filters.items() if value} | {"search": words})


TABLES: Mapping[str, Callable[[Results], Mapping[str, object]]] = {
    **study_tables.TABLES,
    **evaluation_tables.TABLES,
    **semantics_tables.TABLES,
    **position_tables.TABLES,
    **experiment_tables.TABLES,
}


def lacking(results: Results, table: str) -> list[str]:
    """Measurements of a table that the study does not have."""
    kinds = catalogue.TABLES[table].measurements
    return [kind for kind in kinds if kind not in results.study["measured"]]


def table_tex(results: Results, name: str) -> str:
    """The text of generated/tables/NAME.tex; it says so when it is not part of the study."""
    if absent := lacking(results, name):
        return rf"\notrunreason{{{escape(', '.join(absent))}: not part of this study}}%" + "\n"
    with labelled(results.study["labels"]):
        content = TABLES[name](results)
    return environment().get_template(f"{content.get('template', name)}.tex.jinja").render(content)


def _four_digits(entry: Entry) -> float:
    """A measured number as `dvc metrics` shows it; ValueError where there is none."""
    if isinstance(entry, NotRun):
        raise ValueError(entry.reason)
    return float(f"{entry.value:.4g}")


Tree: TypeAlias = dict[str, "Tree | float"]
"""Numbers under names, to any depth."""


def _below(tree: Tree, *names: str) -> Tree:
    """The part of a tree under names, which is added where it is not there."""
    for name in names:
        part = tree.setdefault(name, {})
        assert isinstance(part, dict)
        tree = part
    return tree


def metrics(results: Results) -> Tree:
    """Headline numbers for ``dvc metrics``: by model, data set and condition; four digits."""
    headline = {
        "similarity": ("embedding.cosine", "last.cosine", "last.baseline", "last.rescaled"),
        "perplexity": ("perplexity", "bits_per_byte", "delta_nll", "worse_than_uniform"),
    }
    by_model: Tree = {}
    for run in results.measurements:
        if run["status"] != "measured" or run["measurement"] not in headline:
            continue  # others follow below, or are in the paper alone
        values = numbers_of(run)
        names = [run["run"][part] for part in ("model", "dataset", "condition")]
        for key in headline[run["measurement"]]:
            *outer, last = key.split(".")
            place = _below(by_model, *names, run["measurement"], *outer)
            place[last] = _four_digits(values[key])
    for run in results.of("conditions"):
        for condition, values in condition_facts(run).items():
            model, dataset = (run["run"][part] for part in ("model", "dataset"))
            _below(by_model, model, dataset, condition)["conditions"] = {
                key: _four_digits(values[key])
                for key in ("last.cosine", "perplexity", "recovered")
                if isinstance(values[key], Number)
            }
    for run in results.of("position_embeddings"):
        values = numbers_of(run)
        _below(by_model, run["subject"])["positions"] = {
            key: _four_digits(values[key]) for key in ("mae", "order_error")
        }
    for run in results.of("lags"):
        for comparison in Lags.of(run).comparisons if run["status"] == "measured" else ():
            entry = lags(comparison)["profile_mean"]
            if len(comparison.run.models) == 1 and isinstance(entry, Number):
                place = _below(by_model, *comparison.run.models, comparison.run.dataset)
                place["lags"] = {"profile_mean": _four_digits(entry)}
    for training in results.trainings:
        loss = float(f"{training['final_validation_loss']:.4g}")
        _below(by_model, training["model"])["training"] = {"final_validation_loss": loss}
    return by_model


def plots(results: Results) -> dict[str, str]:
    """Tables for ``dvc plots`` as CSV, by file name: layers of each run, and perplexities."""
    tables, perplexities = {}, []
    for run in results.measurements:
        if run["status"] != "measured" or run["measurement"] not in ("similarity", "perplexity"):
            continue
        names = [run["run"][part] for part in ("model", "dataset", "condition")]
        if run["measurement"] == "similarity":
            rows = []
            for layer in run["layers"]:
                cosine = layer["cosine"]
                ends = [cosine["value"], cosine["low"], cosine["high"]]
                rows.append([layer["layer"], *ends, layer["baseline"]["value"]])
            header = ["layer", "cosine", "low", "high", "baseline"]
            tables[f"layers/{'-'.join(names)}.csv"] = _csv(header, rows)
        else:
            estimate = run["perplexity"]
            ends = [estimate["value"], estimate["low"], estimate["high"]]
            perplexities.append([" ".join(names), *ends])
    tables["perplexity.csv"] = _csv(["run", "perplexity", "low", "high"], perplexities)
    return tables


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
