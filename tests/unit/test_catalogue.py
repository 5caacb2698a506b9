"""What the catalogue says of figures reaches Snakemake's report as it is."""

from __future__ import annotations

import html
import re

import pytest
from docutils.core import publish_parts
from jinja2 import Environment, StrictUndefined

from posenc.figures.catalogue import FIGURES

from .synthetic import PROJECT

TEMPLATE = (PROJECT / "workflow/captions/figure.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_snakemakes_report_has_the_caption(name):
    """As it is made: a Jinja template, then reStructuredText."""
    snakemake = {
        "wildcards": {"figure": name},
        "config": {"captions": {name: entry.caption for name, entry in FIGURES.items()}},
    }
    rst = Environment(undefined=StrictUndefined).from_string(TEMPLATE).render(snakemake=snakemake)
    body = publish_parts(rst, writer_name="html")["body"]
    assert "system-message" not in body
    text = re.sub(r"</?em>", "*", body.removeprefix("<p>").removesuffix("</p>\n"))
    assert html.unescape(text).replace("\n", " ") == FIGURES[name].caption
