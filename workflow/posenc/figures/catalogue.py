"""All figures and tables: the question that each answers, what it is made of, what is said of it,
and the documents that show it.

The figure of a measurement or an experiment is in its folder: the module ``figure.py``, and its
exhibit, which is ``FIGURE`` in ``quantities.py``. Other figures have an exhibit here and a module
of ``posenc.figures``. Figures do not import this, so that a new one, or another caption, leaves
the code of all figures as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from posenc.artifacts.discovery import discovered
from posenc.conditions.positions import ROTATION, TABLE
from posenc.drawing import exhibit as declared
from posenc.drawing.exhibit import ASIDE, BOTH, PAPER, Exhibit, Table
from posenc.figures.parameters import Histogram, MaskSemantics

OF_SEVERAL = {
    "layer_similarity": Exhibit(
        "A1 zeroed positions", ("similarity",),
        height=2.6,
        caption="Mean token cosine between each condition and the intact model, by layer, with "
        "its interval; random pairs of the intact model (dashed), pairs of different tokens in one "
        "document (dashes and dots) and pairs of the same token in different documents (dotted), "
        "with theirs; and the Gaussian null.",
        alt="Line charts, one for each model and data set: mean token cosine against layer for "
        "each condition, with a band for its interval, a dashed line for random pairs, one of "
        "dashes and dots for pairs of one document, a dotted one for pairs of the same token.",
        quantities=("*cosine", "*.baseline", "*.rescaled*", "*.same_token*", "*.same_document*"),
    ),
    "cosine_histogram": Exhibit(
        "A2 is this cosine high?", ("similarity",), section=Histogram,
        height=2.6,
        caption="Distribution of the token cosine against its nulls: random pairs of the intact "
        "model (dashed), pairs of different tokens in one document (dashes and dots), pairs of the "
        "same token in different documents (dotted), and the density of independent Gaussian "
        "vectors.",
        alt="Histograms of the cosine of single tokens, beside those of random token pairs, of "
        "pairs of the same token, and the density of independent Gaussian vectors.",
        quantities=("*.embedding.*", "*.last.*", "*.gaussian.*"),
    ),
    "training_loss": Exhibit(
        "Training", ("training",),
        height=2.4, width=3.3,
        caption="Loss of the models that the workflow trains, on training batches and on "
        "held-out documents.",
        alt="Line charts: training and held-out loss against the step of training.",
    ),
    "position_layers": Exhibit(
        "A1 zeroed positions", ("conditions",),
        height=2.6,
        caption="Mean token cosine with the intact model, by layer, under each condition that "
        "changes position embeddings or rotation and nothing else, with its interval.",
        alt="Line charts: mean token cosine against layer, a line for each change of the "
        "position embeddings or of the rotation.",
        quantities=("conditions.*.cosine",),
        positions=TABLE,
    ),
    "condition_costs": Exhibit(
        "A4 masks", ("conditions",),
        height=6.0,
        caption="Change of the loss against the intact model, paired by document, with its "
        "interval. Faint points, where there are any, are further decoders; the dashed line is "
        "the model without positions.",
        alt="Points with intervals, a row for each condition: change of the loss against the "
        "intact model.",
        quantities=("conditions.delta_nll*", "conditions.perplexity", "conditions.nll_per_token",
                    "conditions.bits_per_byte", "conditions.worse_than_uniform"),
        positions=TABLE,
        decoders=True,
    ),
    "recovered_share": Exhibit(
        "A5 masks in place of positions", ("conditions",), (PAPER,),
        height=4.6,
        caption="How near masks bring a decoder without positions to the intact one: recovered "
        "share of the lost log-perplexity, one mark per decoder, with its interval. What is still "
        "lost is on a logarithmic axis; the dashed line is at nine tenths recovered. A triangle "
        "marks a value beyond the axis, printed beside it.",
        alt="Points with intervals, a row for each mask: recovered share of the lost "
        "log-perplexity, from the model without positions at zero towards the intact one.",
        quantities=("conditions.recovered*", "conditions.masks.*", "conditions.count"),
        positions=TABLE,
        decoders=True,
    ),
    "rotary_masks": Exhibit(
        "F masks in place of rotation", ("conditions",), (PAPER,),
        height=4.4,
        caption="A rotary decoder without rotation, and with masks in its place: recovered share "
        "of the lost log-perplexity with its interval over documents, and the loss in nats per "
        "token beside it. The mask in closed form is computed from mean queries and keys; its "
        "placebos give heads the curves of others, or all heads of a layer one curve.",
        alt="Points with intervals, a row for each mask: recovered share of the lost "
        "log-perplexity, from the model without rotation at zero to the intact one at one.",
        quantities=("conditions.recovered*", "conditions.nll_per_token", "conditions.masks.*"),
        positions=ROTATION,
        decoders=True,
    ),
    "recovered_by_size": Exhibit(
        "Survey of models", ("conditions", "savings"), (),
        height=3.6,
        caption="How near conditions bring decoders without positions to the intact ones, by the "
        "number of parameters: recovered share of the lost log-perplexity with its interval over "
        "documents. Decoders stand below, with millions of parameters. Of the conditions that two "
        "or more have, those of the most are drawn, eight at most.",
        alt="Points with intervals: recovered share against the number of parameters, a colour and "
        "a mark for each condition, with the names of the models below.",
        quantities=("conditions.recovered*",),
        decoders=True,
    ),
    "slope_sweep": Exhibit(
        "A4 masks", ("conditions", "reference"),
        height=3.3,
        caption="Perplexity against the slope of ALiBi and against the floor of the linear mask, "
        "with its interval. Levels: the intact model, the one without positions, and n-gram "
        "models where there are any.",
        alt="Line charts: perplexity against the slope and against the floor of a mask, with "
        "horizontal levels for the intact model and for n-gram models.",
        quantities=("*sweep.slope.*", "*sweep.floor.*", "reference.*"),
        positions=TABLE,
        decoders=True,
    ),
    "length_sweep": Exhibit(
        "A4 masks", ("conditions",),
        height=4.0,
        caption="What positions are worth in longer and longer pieces of text: perplexity against "
        "the length that documents are cut to, with its interval, under other positions (left) "
        "and with masks in their place (right). Where conditions do the same, the wider line "
        "is seen beside the narrower.",
        alt="Line charts, a row for each data set: perplexity against the length of documents, a "
        "line for each condition; other positions on the left, masks on the right.",
        quantities=("*sweep.length.*",),
        positions=TABLE,
        decoders=True,
    ),
    "extrapolation": Exhibit(
        "A5 masks in place of positions", ("conditions",),
        height=3.2,
        caption="Loss by position in documents longer than the decoder was trained for, with its "
        "interval. *Windows* cuts them into parts that are run alone; *wrapped* begins "
        "the table of positions again after its end; otherwise positions beyond the table get its "
        "last vector.",
        alt="Line charts: loss against the position in long documents, with an upright line at "
        "the trained length.",
        quantities=("extrapolation.*",),
    ),
    "mask_semantics": Exhibit(
        "A4 masks", (), BOTH, MaskSemantics,
        height=4.0,
        caption="Attention pattern of one causal head under each meaning of one linear mask, for "
        "scores that are all zero and for one matrix of random scores. Queries go downwards, "
        "keys to the right; right of the stairs lies the future. The library is Hugging Face "
        "transformers. The mask that multiplies "
        "embeddings is shown in the first block of a model that normalizes before it attends.",
        alt="Small maps of one attention pattern under each meaning of one mask; queries go "
        "downwards, keys to the right.",
    ),
    "position_maps": Exhibit(
        "B1 what position embeddings are", ("position_embeddings",),
        height=4.4,
        caption="Tables of position embeddings: entries, cosines between rows, and amplitude "
        "spectra of the columns along the positions, ordered by frequency. Large tables are drawn "
        "with every so many rows and columns; the shortest waves of the sinusoids are not seen so.",
        alt="Maps of tables of position embeddings: entries, cosines between rows, and amplitude "
        "spectra of columns.",
        quantities=("*.toeplitz", "*.first_*", "*.rows", "*.d_model"),
    ),
    "position_regression": Exhibit(
        "B3 what position embeddings learn", ("position_embeddings",),
        height=2.6, width=3.3,
        caption="Error of the position, and of the order of two, read off tables of position "
        "embeddings and random ones of their shape; mean and standard deviation over repeats.",
        alt="Points with intervals: errors of position and of order read off each table, beside "
        "those of random tables.",
        quantities=("*.mae*", "*.order_error*"),
    ),
    "position_probes": Exhibit(
        "B4 probes", ("probes", "scheme_probes"),
        height=3.0,
        caption="How much of its position a token still has after each layer: error of a linear "
        "probe on documents that it did not learn from, of models as they are and without "
        "positions (left), and of decoders trained with other position schemes (right). Sparsely "
        "dotted, the best constant. Order and further texts are in the table.",
        alt="Two line charts: error of the position in tokens against layer, for models with and "
        "without positions, and for decoders trained with other position schemes.",
        drawn="first data set",
    ),
    "band_pass": Exhibit(
        "C2 band-pass", ("spectra",),
        height=3.0,
        caption="Distance of the attention pattern from the intact one when queries and keys "
        "keep one band of frequencies, or lose one.",
        alt="Line charts: distance of the attention pattern from the intact one by layer, for "
        "each band that is kept or lost.",
        quantities=("*.without.*", "*.uniform"),
    ),
    "head_offsets": Exhibit(
        "C6 heads", ("heads",),
        height=5.0,
        caption="Where each head looks, with positions and without: attention mass by offset (key "
        "minus query) on a logarithmic scale, heads ordered by layer, with the types that "
        "clustering finds.",
        alt="Maps: attention mass by offset for every head, ordered by layer.",
        drawn="first data set",
    ),
    "head_curves": Exhibit(
        "F3 the mask in closed form", ("score_parts",), ASIDE,
        height=7.0,
        caption="What position adds to the scores by distance, the mean over the pairs of text "
        "(wide), and the mask in closed form, from mean queries and keys of other text (thin): "
        "a curve for each head, a panel for each layer, on its own scale. Negative distances are "
        "the future, which encoders see. Over each panel, the median R² of its heads; the first "
        "key is left out.",
        alt="Small line charts, one for each layer of each model: mean difference of scores "
        "against distance, measured and in closed form, a pair of lines for each head.",
        quantities=("*.r2", "*.shuffled", "*.first_key", "*.high_share", "*.one_document"),
        drawn="first data set",
    ),
    "superposition": Exhibit(
        "B5 superposition", ("superposition", "embedding_sums"),
        height=4.8,
        caption="Are two things in one vector both found? Above: recall of two mixed images, and "
        "distance of networks from additivity. Below: recall of two summed token embeddings by "
        "the number of dimensions.",
        alt="Line charts: share of pairs recovered against the mixing weight, for images and for "
        "token embeddings, with the distance from additivity and the recall by dimensions.",
    ),
}  # fmt: skip
"""Exhibits of several measurements, and further ones of a measurement, by name."""
FOLDERS = {
    **discovered("posenc.measurements", "quantities"),
    **discovered("posenc.experiments", "quantities"),
}
"""What the folders of measurements and experiments tell documents, by name."""
OWN = {name: module for name, module in FOLDERS.items() if hasattr(module, "FIGURE")}
PAPER_ORDER = (
    "token_classes", "rotary_masks", "induction", "recovered_share", "causal_probes",
    "mask_semantics",
)  # fmt: skip
"""The figures of the paper, as its text comes to them."""
FIGURES: dict[str, Exhibit] = dict(
    sorted(
        {**OF_SEVERAL, **{name: module.FIGURE for name, module in OWN.items()}}.items(),
        key=lambda item: (
            PAPER_ORDER.index(item[0]) if item[0] in PAPER_ORDER else len(PAPER_ORDER),
            item[1].question, item[0],
        ),
    )
)  # fmt: skip
"""By name: those of the paper, then the others in order of their questions."""


def numbered(drawn: Iterable[str]) -> dict[str, int]:
    """The number of each figure that a study draws, on its page and in all its documents.

    Examples
    --------
    >>> numbered(["lags", "induction"])
    {'induction': 1, 'lags': 2}
    """
    drawn = set(drawn)
    return {name: number for number, name in enumerate((n for n in FIGURES if n in drawn), 1)}


def heading_of(figure: str) -> str:
    """What a figure stands under on the page: the paper's together, others by their question."""
    return "Figures of the paper" if figure in PAPER_ORDER else FIGURES[figure].question


def declared_in(figure: str) -> str:
    """The module that has a figure's exhibit."""
    return OWN[figure].__name__ if figure in OWN else __name__


def module_of(figure: str) -> str:
    """The module that draws a figure.

    Examples
    --------
    >>> module_of("induction"), module_of("slope_sweep")
    ('posenc.measurements.induction.figure', 'posenc.figures.slope_sweep')
    """
    if figure in OWN:
        return OWN[figure].__name__.rpartition(".")[0] + ".figure"
    return f"posenc.figures.{figure}"


TABLES = {
    "models": Table(("similarity", "conditions"), (PAPER,)),
    "datasets": Table(("similarity", "conditions"), (PAPER,)),
    "similarity": Table(("similarity",)),
    "anisotropy": Table(("similarity",)),
    "perplexity": Table(("perplexity",)),
    "reference": Table(("reference", "perplexity")),
    "conditions": Table(("conditions",)),
    "norms": Table(("norms", "conditions")),
    "semantics": Table(("conditions",), (PAPER,)),
    "recovery": Table(("conditions",)),
    "published": Table((), (PAPER,)),
    "positions": Table(("position_embeddings",)),
    "waves": Table(("position_embeddings",)),
    "position_heads": Table(("position_heads",)),
    "readback": Table(("readback",)),
    "probes": Table(("probes", "scheme_probes")),
    "heads": Table(("heads", "lags")),
    "downstream": Table(("downstream",)),
    "tokenizers": Table(("tokenizers",)),
    "scaling": Table(("scaling",)),
    "pretraining": Table(("pretraining",)),
    "memory_networks": Table(("memory_networks",)),
    "published_experiments": Table(()),
}
"""By name, which is the template's, in order of presentation."""

DOCUMENTS = {
    document: {
        "figures": [name for name, entry in FIGURES.items() if document in entry.documents],
        "tables": [name for name, table in TABLES.items() if document in table.documents],
    }
    for document in declared.DOCUMENTS
}
"""Figures and tables that each document includes."""
