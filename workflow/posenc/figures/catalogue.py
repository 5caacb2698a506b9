"""The figures and tables that there are: the question that each answers, what it is made of, what
is said of it, and the documents that show it.

An entry here and a module of ``posenc.figures`` make a figure. Figures do not import this, so that
a new one, or another caption, leaves the code of all figures as it is.
"""

from __future__ import annotations

from posenc.conditions.positions import ROTATION, TABLE
from posenc.figures import entry as declared
from posenc.figures.entry import ASIDE, BOTH, PAPER, Entry, Table
from posenc.figures.parameters import Histogram, MaskSemantics

FIGURES = {
    "layer_similarity": Entry(
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
    "cosine_histogram": Entry(
        "A2 is this cosine high?", ("similarity",), (PAPER,), section=Histogram,
        height=2.6,
        caption="Distribution of the token cosine against its nulls: random pairs of the intact "
        "model (dashed), pairs of different tokens in one document (dashes and dots), pairs of the "
        "same token in different documents (dotted), and the density of independent Gaussian "
        "vectors.",
        alt="Histograms of the cosine of single tokens, beside those of random token pairs, of "
        "pairs of the same token, and the density of independent Gaussian vectors.",
        quantities=("*.embedding.*", "*.last.*", "*.gaussian.*"),
    ),
    "perplexity": Entry(
        "D1 perplexity", ("perplexity",),
        height=2.4, width=3.3,
        caption="Corpus perplexity by condition, with its interval, on a logarithmic axis. The "
        "upright stroke is the size of the vocabulary, which is the perplexity of a uniform guess.",
        alt="Points with intervals on a logarithmic axis: corpus perplexity of each model, data "
        "set and condition.",
    ),
    "training_loss": Entry(
        "Training", ("training",),
        height=2.4, width=3.3,
        caption="Loss of the models that the workflow trains, on training batches and on "
        "held-out documents.",
        alt="Line charts: training and held-out loss against the step of training.",
    ),
    "position_layers": Entry(
        "A1 zeroed positions", ("conditions",),
        height=2.6,
        caption="Mean token cosine with the intact model, by layer, under each condition that "
        "changes position embeddings or rotation and nothing else, with its interval.",
        alt="Line charts: mean token cosine against layer, a line for each change of the "
        "position embeddings or of the rotation.",
        quantities=("conditions.*.cosine",),
    ),
    "condition_costs": Entry(
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
    ),
    "recovered_share": Entry(
        "A5 masks in place of positions", ("conditions",), (PAPER,),
        height=4.6,
        caption="How near masks bring a decoder without positions to the intact one: recovered "
        "share of the lost log-perplexity, one mark per decoder, with its interval. What is still "
        "lost is on a logarithmic axis; arrows point to shares beyond it.",
        alt="Points with intervals, a row for each mask: recovered share of the lost "
        "log-perplexity, from the model without positions at zero towards the intact one.",
        quantities=("conditions.recovered*", "conditions.masks.*", "conditions.count"),
        positions=TABLE,
    ),
    "rotary_masks": Entry(
        "F masks in place of rotation", ("conditions",), (PAPER,),
        height=4.4,
        caption="A rotary decoder without rotation, and with masks in its place: recovered share "
        "of the lost log-perplexity with its interval over documents, and the loss in nats per "
        "token beside it. The mask in closed form is computed from mean queries and keys; its "
        "placebos give heads the curves of others, or of none. Arrows point to shares below the "
        "axis.",
        alt="Points with intervals, a row for each mask: recovered share of the lost "
        "log-perplexity, from the model without rotation at zero to the intact one at one.",
        quantities=("conditions.recovered*", "conditions.nll_per_token", "conditions.masks.*"),
        positions=ROTATION,
    ),
    "induction": Entry(
        "F masks in place of rotation", ("induction",), (PAPER,),
        height=3.6,
        caption="Random tokens that are repeated once, under each condition, for the model that "
        "copies most: how much lower its loss is where a token occurs again, and the attention of "
        "the heads that look most at the previous token, and at the token after the earlier "
        "occurrence. Heads are those of the intact model, chosen on other sequences; dashed, a "
        "head that attends to all keys alike. Intervals are over sequences.",
        alt="Points with intervals, a row for each condition: loss gained by repetition, "
        "attention to the previous token, attention to the token after the earlier occurrence.",
    ),
    "recovered_by_size": Entry(
        "Survey of models", ("conditions", "savings"), (),
        height=3.6,
        caption="How near conditions bring decoders without positions to the intact ones, by the "
        "number of parameters: recovered share of the lost log-perplexity with its interval over "
        "documents. Decoders stand below, with millions of parameters. Of the conditions that two "
        "or more have, those of the most are drawn, eight at most.",
        alt="Points with intervals: recovered share against the number of parameters, a colour and "
        "a mark for each condition, with the names of the models below.",
        quantities=("conditions.recovered*",),
    ),
    "slope_sweep": Entry(
        "A4 masks", ("conditions", "reference"),
        height=3.3,
        caption="Perplexity against the slope of ALiBi and against the floor of the linear mask, "
        "with its interval. Levels: the intact model, the one without positions, and n-gram "
        "models where there are any.",
        alt="Line charts: perplexity against the slope and against the floor of a mask, with "
        "horizontal levels for the intact model and for n-gram models.",
        quantities=("*sweep.slope.*", "*sweep.floor.*", "reference.*"),
        positions=TABLE,
    ),
    "length_sweep": Entry(
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
    ),
    "extrapolation": Entry(
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
    "mask_semantics": Entry(
        "A4 masks", (), BOTH, MaskSemantics,
        height=4.0,
        caption="Attention pattern of one causal head under each meaning of one linear mask, for "
        "scores that are all zero and for one matrix of random scores. Queries go downwards, "
        "keys to the right; right of the stairs lies the future. The mask that multiplies "
        "embeddings is shown in the first block of a model that normalizes before it attends.",
        alt="Small maps of one attention pattern under each meaning of one mask; queries go "
        "downwards, keys to the right.",
    ),
    "position_maps": Entry(
        "B1 what position embeddings are", ("position_embeddings",),
        height=4.4,
        caption="Tables of position embeddings: entries, cosines between rows, and amplitude "
        "spectra of the columns along the positions, ordered by frequency. Large tables are drawn "
        "with every so many rows and columns; the shortest waves of the sinusoids are not seen so.",
        alt="Maps of tables of position embeddings: entries, cosines between rows, and amplitude "
        "spectra of columns.",
        quantities=("*.toeplitz", "*.first_*", "*.rows", "*.d_model"),
    ),
    "position_regression": Entry(
        "B3 what position embeddings learn", ("position_embeddings",),
        height=2.6, width=3.3,
        caption="Error of the position, and of the order of two, read off tables of position "
        "embeddings and random ones of their shape; mean and standard deviation over repeats.",
        alt="Points with intervals: errors of position and of order read off each table, beside "
        "those of random tables.",
        quantities=("*.mae*", "*.order_error*"),
    ),
    "readback": Entry(
        "B2 reading back", ("readback",),
        height=3.8,
        caption="How much noise stands before a token and its position are no longer read back "
        "from the sum of their embeddings: share read back against noise in units of the root mean "
        "square of the vectors' entries, before LayerNorm (above; dotted, of one table alone) and "
        "after it (below). Right, principal angles between the leading directions of both tables, "
        "beside those of random subspaces.",
        alt="Line charts, a column for each model: share of pairs read back against noise, before "
        "LayerNorm and after it; and principal angles of two subspaces against their rank.",
    ),
    "position_probes": Entry(
        "B4 probes", ("probes", "scheme_probes"),
        height=3.0,
        caption="How much of its position a token still has after each layer: error of a linear "
        "probe on documents that it did not learn from, of models as they are and without "
        "positions (left), and of decoders trained with other position schemes (right). Sparsely "
        "dotted, the best constant. Order and further texts are in the table.",
        alt="Two line charts: error of the position in tokens against layer, for models with and "
        "without positions, and for decoders trained with other position schemes.",
    ),
    "causal_probes": Entry(
        "B4 probes", ("causal_probes",), (PAPER,),
        height=3.4,
        caption="Error of a ridge probe of position by layer, for the first decoder examined. "
        "Left: as it is, and without positions, with its own weights and random ones, without a "
        "causal mask, with the first key hidden, and with windows of so many tokens. Right: under "
        "masks in the place of positions. All probes learn from the same tokens; dotted, the best "
        "constant.",
        alt="Two line charts: error of the position in tokens against layer, a line for each "
        "variant of a decoder and for each mask, and the level of chance.",
    ),
    "random_causal": Entry(
        "B4 probes", ("random_causal",),
        height=2.4, width=3.3,
        caption="Variance of the output of attention by position, times the position, in causal "
        "models with random weights; the law of the first layer is the constant.",
        alt="Line chart on logarithmic axes: variance against position in causal models with "
        "random weights.",
    ),
    "spectra": Entry(
        "C1 columns as signals", ("spectra",),
        height=5.0,
        caption="Hidden states, queries and keys as signals along the sequence: share of the power "
        "that varies, by frequency and layer; and the part of the keys' power that is the same in "
        "all documents, corrected for their number. The narrow panels are of the constant part.",
        alt="Maps and lines: share of power by frequency and layer, of hidden states, queries "
        "and keys.",
        quantities=("*.hidden_states.*", "*.keys.*", "*.locked"),
    ),
    "band_pass": Entry(
        "C2 band-pass", ("spectra",),
        height=3.0,
        caption="Distance of the attention pattern from the intact one when queries and keys "
        "keep one band of frequencies, or lose one.",
        alt="Line charts: distance of the attention pattern from the intact one by layer, for "
        "each band that is kept or lost.",
        quantities=("*.without.*", "*.uniform"),
    ),
    "filtered_loss": Entry(
        "C2 band-pass: what it costs", ("filtered_loss",),
        height=4.6,
        caption="What a model loses when queries and keys lose a band of frequencies along the "
        "sequence, or keep one alone; a decoder's filter sees what comes before a query. Above: in "
        "all layers, beside as many directions at random, and beside queries and keys that lose as "
        "much of their length and keep their directions. Below: each band left out of one layer, "
        "and (dotted) as many directions at random.",
        alt="Points with intervals, a column for each model: lost nats per token, or the distance "
        "of the last hidden states, by band, and line charts of the same by layer.",
    ),
    "components": Entry(
        "C4 components", ("components",),
        height=4.6,
        caption="Components of hidden states by layer: variance of the leading ones; canonical "
        "correlation with waves of position, on documents that it was not fitted to; and share "
        "of the variance of each component that lies between positions.",
        alt="Line charts by layer: variance of leading components, canonical correlation with "
        "waves of position, shares between positions.",
    ),
    "layer_norm": Entry(
        "C5 where position goes", ("layer_norm",),
        height=7.0,
        caption="Along all normalisations of a model: their scales; spectrum of positions before "
        "and after the first; share of the variance of the residual stream between positions; gain "
        "of position's mean part over that of content; and which share of position's part has come "
        "from the embedding P itself, from attention, and from MLPs.",
        alt="Line charts by normalisation: scales, share of variance between positions, gain of "
        "position over content, sources of position; and spectra before and after the first.",
    ),
    "position_interventions": Entry(
        "C5 where position is needed", ("position_interventions",),
        height=5.0,
        caption="Share of what a model loses without position embeddings when their mean effect on "
        "the input of one layer is taken from the intact model (removed), added to the model whose "
        "table is zero (injected), or taken from that layer alone and put back behind it "
        "(withheld); the lower line is the intact model, the upper one that without positions. At "
        "the end it is the last states that are changed. Dashed: the effect of another position, "
        "by one permutation, and the mean over positions. Shares beyond the axis are not shown.",
        alt="Line charts, a column for each model: share of what is lost without positions, by "
        "layer, when position is removed, injected or withheld, beside two controls.",
    ),
    "relative_attention": Entry(
        "C3 relative attention by weights", ("relative_attention",),
        height=4.4,
        caption="What weights alone say of each head: scores by offset that positions would "
        "give, heads ordered by layer; and frequency and lag of the leading pairs of singular "
        "vectors, with the bounds of half a period.",
        alt="Maps of scores by offset for each head, and points of the frequency and lag of its "
        "leading pairs of singular vectors.",
    ),
    "position_heads": Entry(
        "C3 relative attention by weights", ("position_heads",), BOTH,
        height=8.2,
        caption="What each head makes of positions alone: the function of the distance that is "
        "nearest to the scores of position against position, in standard deviations of the head's "
        "scores within a query. Numbers are that deviation, in nats (below), and the share of "
        "the scores that the curve explains (above); the larger it is, the darker the curve. "
        "Marked are the three steepest, and the three of the first layer that look nearest, "
        "whose attention by offset is below. Of the tables and models whose query and key maps "
        "are there, the one with the most heads is shown.",
        alt="Small charts, a row for each layer and a column for each head: bias against the "
        "distance back from query to key. Below, attention by offset of three heads.",
    ),
    "head_offsets": Entry(
        "C6 heads", ("heads",),
        height=5.0,
        caption="Where each head looks, with positions and without: attention mass by offset (key "
        "minus query) on a logarithmic scale, heads ordered by layer, with the types that "
        "clustering finds.",
        alt="Maps: attention mass by offset for every head, ordered by layer.",
    ),
    "lags": Entry(
        "C3 and C6: lags", ("lags",),
        height=4.4,
        caption="Offset that weights and positions alone predict for a head against the offset "
        "where its attention is on real text.",
        alt="Scatter plots: offset found on text against the offset that weights predict, a "
        "point for each head.",
    ),
    "head_curves": Entry(
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
    ),
    "score_parts": Entry(
        "F2 how much of position is a mask?", ("score_parts",),
        height=2.4,
        caption="Share of the variance of attention scores, over all pairs, of the content alone, "
        "of the mask in closed form, and of what position does beyond it; mean over the heads of "
        "a layer, with its interval. With what covariances of two of them add, which is drawn as "
        "one line, they make up the whole.",
        alt="Line charts, one for each model: share of the variance of scores against layer, for "
        "content, mask, interaction and covariances.",
        quantities=("*.pairs.*", "*.attention.*"),
    ),
    "downstream": Entry(
        "A6 downstream", ("downstream",),
        height=2.8,
        caption="Accuracy of classifiers with and without position embeddings or rotation, and of "
        "a bag of the same words; and what positions add against how far the classifier depends on "
        "the order of words: one minus Cohen's kappa of its answers to documents and to the same "
        "ones with their words shuffled, beyond what chance agrees.",
        alt="Points with intervals: test accuracy of each method on each task, and the gain from "
        "positions against how sensitive a task is to order.",
    ),
    "superposition": Entry(
        "B5 superposition", ("superposition", "embedding_sums"),
        height=4.8,
        caption="Are two things in one vector both found? Above: recall of two mixed images, and "
        "distance of networks from additivity. Below: recall of two summed token embeddings by "
        "the number of dimensions.",
        alt="Line charts: share of pairs recovered against the mixing weight, for images and for "
        "token embeddings, with the distance from additivity and the recall by dimensions.",
    ),
    "mixed_images": Entry(
        "B5 mixed images", ("mixed_images",),
        height=3.2,
        caption="Does a pretrained network find both of two averaged photographs? Pairs whose two "
        "classes are among the highest, of all classes and of those of the pictures alone, by the "
        "mixing weight (dashed: outputs are mixed in place of pictures; grey: pictures that are "
        "found where grey is mixed in); and stage by stage, for equal weights, pairs that are the "
        "two pictures nearest to the state of their average, and the distance of the network from "
        "additive, with its weights and with initial ones.",
        alt="Line charts: share of pairs whose classes are both found against the mixing weight; "
        "share of pairs that are found again, and distance from additivity, at each stage of a "
        "trained and of an untrained network.",
    ),
    "tokenizers": Entry(
        "D3 tokenizers", ("tokenizers",),
        height=3.0,
        caption="Bits per byte by tokenizer, data set and Unicode form, how much those of "
        "validation documents still fell in the last third of the training (dashed: flat), and "
        "fertility.",
        alt="Points, a row for each kind of tokenizer: bits per byte, how much they still fell, "
        "tokens per character and size of the vocabulary, with open marks after normalization.",
    ),
    "scaling": Entry(
        "D4 scaling of scores", ("scaling",),
        height=2.4,
        caption="Scores, their softmax and its Jacobian by the number of entries of queries and "
        "keys, with and without scaling.",
        alt="Line charts on logarithmic axes: variance of attention scores, largest probability "
        "and norm of the Jacobian against the number of entries of queries and keys.",
    ),
    "pretraining": Entry(
        "D5 pre-training", ("pretraining",),
        height=4.6,
        caption="Accuracy by pre-training, auxiliary loss and architecture; effects paired by "
        "seed; layers transferred; and in how many pairs of texts a language model, while it is "
        "trained, rather expects a label's word behind the text that has it (dashed: other words).",
        alt="Points with intervals: test accuracy of each kind of pre-training, paired effects, "
        "and accuracy by the number of transferred blocks. Lines: pairs in order by steps.",
    ),
    "hard_attention": Entry(
        "E1 and E2: soft and hard attention", ("hard_attention",),
        height=2.8,
        caption="Variance of the estimated gradient of hard attention against the number of "
        "samples, and against that without a baseline.",
        alt="Line charts: variance of the gradient against the number of samples for each "
        "baseline, and points of its ratio to that without a baseline.",
    ),
    "effective_keys": Entry(
        "E1 and E2: how many keys attention reads", ("effective_keys",),
        height=6.2,
        caption="Effective keys (exp of the pattern's entropy; geometric mean over heads and "
        "queries), with and without the first key, by layer and by how many keys a query sees; "
        "dotted, keys that are read alike. Below, what it costs when each query of each head reads "
        "a few keys only.",
        alt="Line charts, a column for each model: effective keys against layer and against the "
        "number of keys that a query sees, and the loss, or the distance of the last hidden "
        "states, against the number of keys that are read.",
    ),
    "rotation_terms": Entry(
        "F7 rotation to first order", ("rotation_terms",),
        height=2.8,
        caption="What rotation adds to the scores of a head is a sum of four terms: one of the "
        "head's mean query and mean key, the mask; one that the key adds; one that the query adds; "
        "and a rest that needs both. Share of its variance within queries that partial sums "
        "explain, means over the heads of a layer, on documents that had no part in the means. "
        "Dotted, a control: all of first order with the means of other heads (shares below minus "
        "one are drawn there).",
        alt="Line charts, a panel for each data set: share explained against the layer, for four "
        "partial sums and a control.",
        positions=ROTATION,
    ),
    "unrotated_heads": Entry(
        "F5 where rotation acts", ("unrotated_heads",),
        height=3.0,
        caption="Left: what the loss gains when one head alone has no rotation. Right: when the "
        "heads that cost most, least, or any, lose rotation together, as a share of what all heads "
        "cost; on documents that had no part in the choice of heads.",
        alt="A map of layers and heads coloured by the cost of each head, and a line chart of the "
        "share of the cost against the number of heads without rotation.",
    ),
    "retraining": Entry(
        "F6 a start for training without rotation", ("retraining",),
        height=4.6,
        caption="Left: loss by training tokens of a decoder that is trained on without rotation, "
        "from nothing in its place and from a mask, and of the intact one; a row per data set. "
        "Right: what it has above the intact one after as many. Dotted: the loss of the mask "
        "before training, as far as the model without it needs to reach it.",
        alt="Two line charts of loss against training tokens for each data set, a line for each "
        "start and for the intact model: the loss, and what it has above the intact model's.",
    ),
    "token_classes": Entry(
        "A1 and F1: which tokens pay without positions", ("token_classes",), (PAPER,),
        height=5.2,
        caption="What it costs to take positions away, by class of token: mean over the tokens of "
        "a class (filled), and from a linear model of all classes at once with the documents taken "
        "out (hollow). The dotted line is the mean over all tokens.",
        alt="Points with intervals, a panel for each model and data set: cost in nats per token "
        "by word class, last occurrence, place in sentence and document, and surprisal.",
    ),
    "exchanged_roles": Entry(
        "A1 sentences that differ in order alone", ("exchanged_roles",),
        height=2.6,
        caption="Cosine of a sentence's vector (the mean of its last hidden states) with that of "
        "the same sentence with its two names exchanged, of a paraphrase, and of an unrelated "
        "sentence, with positions (filled) and without (hollow). An encoder without positions "
        "cannot tell a sentence from its exchanged form.",
        alt="Points with intervals, a panel for each model: cosine with exchanged names, a "
        "paraphrase and an unrelated sentence, in English and Japanese.",
    ),
    "memory_networks": Entry(
        "E3 memory networks", ("memory_networks",),
        height=2.8,
        caption="Errors of memory networks by task, and the levels of those who must guess.",
        alt="Points with intervals, a panel for each task: share of wrong answers of each "
        "variant of a memory network.",
    ),
}  # fmt: skip
"""By name, which is the module's, in order of presentation."""

TABLES = {
    "models": Table(("similarity",), (PAPER,)),
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
