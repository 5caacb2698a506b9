"""What the report page calls quantities."""

from __future__ import annotations

import re

from posenc.report.order_words import ORDER_WORDS

PARTS = {
    "embedding": "embedding",
    "last": "last hidden state",
    "best": "best layer",
    "first": "first layer",
    "documents": "documents",
    "tokens": "tokens",
    "bytes": "bytes of text",
    "d_model": "width of hidden states",
    "perplexity": "perplexity",
    "nll_per_token": "loss (nats per token)",
    "bits_per_byte": "bits per byte",
    "delta_nll": "change of the loss against intact (nats per token)",
    "cosine": "token cosine with intact",
    "last_cosine": "last hidden state, token cosine with intact",
    "recovered": "recovered share of the lost log-perplexity",
    "recovered_perplexity": "recovered share of the lost perplexity",
    "worse_than_uniform": "share of tokens predicted worse than by a uniform guess",
    "delta_nll_without": "change of the loss against the model without positions (nats per token)",
    "mean": "mean",
    "sd": "standard deviation",
    "least": "least",
    "masks": "learned mask",
    "sweep": "sweep",
}
"""Parts of quantities, as a reader knows them; what is missing is shown as it is."""
WORDS: dict[str, dict[str, str]] = {
    "similarity": {
        "baseline": "cosine of random token pairs",
        "rescaled": "rescaled similarity (random pairs at 0)",
        "same_token": "cosine of the same token in another document",
        "rescaled_same_token": "rescaled similarity (the same token in another document at 0)",
        "same_token_share": "share of tokens that are in another document too",
        "centred": "token cosine, mean subtracted",
        "standardised": "token cosine, dimensions standardised",
        "retrieval": "share of tokens found again",
        "token_sd": "standard deviation of the cosine over tokens",
        "cka": "linear CKA with intact",
        "gaussian": "independent Gaussian vectors",
        "sd": "standard deviation of their cosine",
        "sample_tokens": "tokens in the sample",
    },
    "perplexity": {
        "vocabulary_size": "size of the vocabulary",
        "sequence": "perplexity of single documents",
        "perplexity": "corpus perplexity",
        "perplexity_ratio": "perplexity as a multiple of the intact one",
    },
    "conditions": {
        "loss": "loss with it on calibration text (nats per token)",
        "start": "loss without it on calibration text (nats per token)",
        "intact": "loss of the intact model on calibration text (nats per token)",
        "slope": "slope",
        "parameters": "parameters",
        "count": "number of decoders",
    },
    "adaptation": {
        "interaction": "what a fit gives beyond what it gives the intact model",
        "interaction_share": "the same, as a share of what is lost",
        "placebo_interaction": "what a placebo's fit gives beyond what it gives the intact model",
        "placebo_interaction_share": "the same, as a share of what is lost",
        "beyond_placebo": "what a fit gives beyond its placebo",
        "beyond_placebo_share": "the same, as a share of what is lost",
    },
    "norms": {
        "r2": "R² of position from norms",
        "position_embeddings": "of position embeddings",
        "token_embeddings": "of token embeddings",
        "sum": "of their sum",
        "linear": "straight line",
        "flexible": "flexible curve",
    },
    "reference": {
        "uniform": "uniform guess",
        "unigram": "unigram model",
        "bigram": "bigram model",
        "trigram": "trigram model",
    },
    "extrapolation": {
        "within": "loss at the end of the trained length (nats per token)",
        "beyond": "loss at the end of long documents (nats per token)",
        "difference": "the same, more than in a window that slides (nats per token)",
        "trained": "trained length (tokens)",
        "positions": "positions",
    },
    "training": {
        "steps": "steps",
        "tokens_seen": "tokens seen",
        "training_documents": "training documents",
        "validation_documents": "held-out documents",
        "final_training_loss": "last training loss (nats per token)",
        "final_validation_loss": "last held-out loss (nats per token)",
        "best_validation_loss": "best held-out loss (nats per token)",
    },
    "position_embeddings": {
        "mae": "error of the position (rows)",
        "mae_sd": "error of the position, standard deviation over repeats (rows)",
        "order_error": "share of pairs put in the wrong order",
        "order_error_sd": "share of pairs put in the wrong order, standard deviation",
        "toeplitz": "share of inner products that the offset explains",
        "first_4": "variance in the 4 leading components (%)",
        "first_12": "variance in the 12 leading components (%)",
        "frequency": "frequency below which half of the columns' power lies (cycles per token)",
        "correlation": "first canonical correlation of components with waves of position",
        "explained": "largest share of a principal component that waves explain",
        "independent": "largest share of an independent component that waves explain",
        "last": "the last row",
        "norm": "norm, as a multiple of the median",
        "cosine": "cosine with the row before",
        "neighbours": "median cosine of neighbouring rows",
        "chance": "cosine of independent directions, 95 % below",
        "untouched": "rows at the end that are like no neighbour",
        "rows": "rows",
        "d_model": "columns",
    },
    "readback": {
        "before": "share of pairs read back before LayerNorm",
        "after": "share of pairs read back after LayerNorm",
        "alone": "share read back with the other unknown",
        "exact": "no noise",
        "weak": "weak noise",
        "strong": "strong noise",
        "noise": "level of the noise",
        "margin": "least margin",
        "pairs": "pairs",
        "searched": "pairs searched",
        "mistaken": "pairs, of all, that are mistaken without noise",
        "bound": "upper confidence bound of failures with weak noise (%)",
        "angle": "median principal angle of both tables (degrees)",
        "angle_random": "the same of random subspaces (degrees)",
    },
    "probes": {
        "ridge": "error of the position, linear probe (tokens)",
        "relu": "error of the position, one hidden layer (tokens)",
        "order": "share of pairs put in the wrong order, linear probe",
        "order_relu": "share of pairs put in the wrong order, one hidden layer",
        "chance": "error of the best constant (tokens)",
        "control": "error with shuffled labels (tokens)",
        "control_order": "share in the wrong order with shuffled labels",
    },
    "components": {
        "correlation": "first canonical correlation with position",
        "shuffled": "the same with shuffled positions",
        "principal": "largest share of a principal component between positions",
        "independent": "largest share of an independent component between positions",
        "layers": "layers",
        "converged": "layers in which the search for independent components ended by itself",
        "starts": "most starts of that search",
        "rank": "lowest rank of the components",
    },
    "spectra": {
        "hidden_states": "share of the power of hidden states",
        "keys": "share of the power of keys",
        "without": "distance of the attention pattern without the band",
        "low": "low frequencies",
        "middle": "middle frequencies",
        "high": "high frequencies",
        "uniform": "distance of the uniform pattern",
        "locked": "largest part of the keys' power that all documents share",
    },
    "filtered_loss": {
        "documents": "documents",
        "tokens": "tokens",
        "without": "queries and keys without a band",
        "only": "queries and keys of one band alone",
        "mean": "mean",
        "low": "low frequencies",
        "middle": "middle frequencies",
        "high": "high frequencies",
        "random": "as many directions at random",
        "scaled": "as much of the length, directions kept",
        "beyond_random": "more than as many directions at random",
        "beyond_scaled": "more than as much of the length",
        "most": "in the layer where it costs most",
        "layer": "which layer",
        "delta_nll": "loss, minus the intact model's (nats per token)",
        "distance": "1 − cosine of the last hidden state with the intact model's",
    },
    "savings": {
        "parameters": "parameters of the model",
        "table": "parameters of its positions",
        "share": "as a share of all",
        "bytes": "in bytes",
        "cached_token": "bytes of a cached token's keys and values",
        "near": "passage at the nearest offset",
        "far": "passage at the furthest offset",
        "offset": "which offset",
        "intact": "cache as it was kept",
        "turned": "cache whose keys are turned on",
        "zero": "without positions",
        "kept": "share of the cache that is the same",
        "keys": "keys, relative difference (0: float16 rounds it away)",
        "values": "values, relative difference (0: float16 rounds it away)",
        "largest": "largest relative difference",
        "first": "first layer",
        "last": "last layer",
    },
    "layer_norm": {
        "variation": "relative variation of the first scale",
        "position_share": "share of the first scale's variance that position explains",
        "between": "share of variance between positions",
        "shuffled": "the same with shuffled positions",
    },
    "position_interventions": {
        "documents": "documents",
        "tokens": "tokens",
        "positions": "positions",
        "without": "without position embeddings",
        "removed": "position taken from this layer's input on",
        "injected": "position missing up to this layer's input",
        "withheld": "position taken from this layer alone",
        "first": "first layer",
        "second": "second layer",
        "middle": "middle layer",
        "last": "last layer",
        "output": "last states themselves",
        "most": "layer where it costs most",
        "layer": "which layer",
        "size": "length of position's mean part, over that of the states",
        "alignment": "cosine of position's mean part with that of the first layer",
        "permuted": "that of another position",
        "offset": "the mean over positions",
        "beyond_permuted": "more than that of another position",
        "beyond_offset": "more than the mean over positions",
        "share": "share of what is lost without positions",
        "delta_nll": "loss, minus the intact model's (nats per token)",
        "distance": "1 − cosine of the last hidden state with the intact model's",
    },
    "heads": {
        "previous": "strongest on the previous token",
        "self": "strongest on the token itself",
        "next": "strongest on the next token",
        "first": "strongest on the first token",
        "layer": "its layer",
        "head": "its head",
    },
    "relative_attention": {
        "scores": "residual of the scores",
        "trace": "residual of the trace",
        "null_weights": "turned null space: change of the weights",
        "null_spectra": "turned null space: change of the spectra",
    },
    "position_heads": {
        "heads": "heads",
        "distance_share": "share of the scores that a mask by distance explains",
        "least": "the head with the least",
        "most": "the head with the most",
        "near": "heads of layer 0 that look nearest, in order",
        "steep": "heads whose mask is the steepest, in order",
        "waves": "leading pairs of waves, over heads",
        "period": "period of the leading pair (tokens)",
        "lag": "lag of the leading pair (tokens)",
        "wave_share": "share of one frequency in the leading pair",
        "share": "median share of one frequency",
        "lags": "heads with a lag of a few tokens",
        "lags_chance": "the same with phases at random",
        "offset": "mean offset",
        "deviation": "standard deviation of its scores (nats)",
        "layer": "its layer",
        "head": "its number",
    },
    "lags": {
        "peak": "rank correlation of predicted and found peaks",
        "profile_mean": "rank correlation of predicted and found mean offsets",
        "profile_peak": "rank correlation of the peaks of predicted and found attention",
        "peak_mean": "rank correlation of predicted peaks and found mean offsets",
        "p": "p of permutations within layers",
        "lowest_layer": "mean offsets, the layer with the lowest rank correlation",
        "highest_layer": "mean offsets, the layer with the highest rank correlation",
        "chosen": "rank correlation of the comparison that is best in the even layers",
        "even": "in the even layers",
        "odd": "in the odd layers",
        "agreement": "share of equal peaks",
        "agreement_chance": "share of equal peaks by chance",
        "heads": "heads",
    },
    "score_parts": {
        "r2": "R² of the mask in closed form for the measured difference by distance",
        "shuffled": "the same with curves shuffled over heads",
        "first_key": "the same of the first key",
        "one_document": "the same, means of one document",
        "high_share": "share of heads with an R² of 0.95 or more",
        "pairs": "all pairs",
        "attention": "weighted by attention",
        "correlation": "correlation of the scores with content + mask",
        "content": "share of the scores' variance, content",
        "mask": "share of the scores' variance, mask",
        "interaction": "share of the scores' variance, interaction",
    },
    "random_causal": {
        "exponent": "exponent of the variance by position",
        "exponent_sd": "exponent of the variance by position, standard deviation over seeds",
    },
}
"""The same, of one measurement; they come before :data:`PARTS`."""
WORDS |= {
    "hard_attention": {
        "entropy": "entropy of the attention pattern (nats)",
        "uniform": "objective of the uniform read-out",
        "soft": "objective of the soft read-out",
        "hard": "objective of the hard read-out",
        "mean": "variance with the mean as baseline, as a share",
        "optimal": "variance with the best baseline, as a share",
        "mean_over_optimal": "variance with the mean over that with the best baseline",
        "worse": "share of queries that the mean makes worse",
        "samples": "samples until the signal exceeds the noise",
        "samples_optimal": "the same with the best baseline",
        "noise": "squared error of reading one drawn key, as a share of the soft read-out's square",
        "noise_anywhere": "the same of reading any key",
        "values": "heads' own values in place of hidden states",
    },
    "effective_keys": {
        "seen": "keys that a query sees, geometric mean",
        "keys": "effective keys",
        "others": "effective keys without the first key",
        "first": "weight of the first key",
        "largest": "largest weight",
        "fewest": "effective keys of the layer with the fewest",
        "most": "effective keys of the layer with the most",
        "layer": "which layer",
        "strongest": "strongest keys alone",
        "nearest": "nearest keys alone",
        "random": "random keys alone",
        "delta_nll": "loss, minus the intact model's (nats per token)",
        "cosine": "cosine of the last hidden state with the intact model's",
    },
    "embedding_sums": {
        "both": "share of pairs, both found",
        "both_centred": "share of pairs, both found, mean subtracted",
        "gaussian": "share of pairs, both found, Gaussian table",
        "inner_product": "share of pairs, both found by inner product",
        "needed": "dimensions needed",
    },
    "downstream": {
        "accuracy": "accuracy (%)",
        "accuracy_shuffled": "accuracy with shuffled words (%)",
        "changed": "predictions that shuffling changes (%)",
        "order_sensitivity": "order sensitivity (1 − κ)",
        "gain": "gain from positions (percentage points)",
        "more": "accuracy, more than the bag of words (percentage points)",
        "chance": "chance (%)",
        "p_value": "p-value against chance",
    },
    "tokenizers": {
        "bits_per_original_byte": "bits per byte of the original",
        "against_bpe": "bits per byte, difference to BPE",
        "change": "change by normalization (bits per byte of the original)",
    },
    "pretraining": {
        "accuracy": "test accuracy (%)",
        "effect": "effect, paired by seed (percentage points)",
        "ablation": "ablation (percentage points)",
        "transfer": "blocks transferred, gain (percentage points)",
        "zero_shot": "right without fine-tuning (%): words that are expected, by steps",
    },
    "memory_networks": {
        "error": "wrong answers (%)",
        "fact": "stories in which it looks at the fact of its turn (%), pass",
    },
}
NULLS = {"_control": "random table", "_shuffled": "shuffled rows"}
"""What the ending of a quantity says of the table that it is of."""
WORDS |= ORDER_WORDS
WORDS["scheme_probes"] = WORDS["probes"]


def label(measurement: str, quantity: str) -> str:
    """A quantity in words.

    Examples
    --------
    >>> label("similarity", "block_2.cka")
    'block 2 · linear CKA with intact'
    """
    words = {**PARTS, **WORDS.get(measurement, {})}

    def word(part: str) -> str:
        for ending, of in NULLS.items():
            base = part.removesuffix(ending)
            if part not in words and base != part and base in words:
                return f"{of}: {words[base]}"
        return words.get(part, part.replace("_", " "))

    return " · ".join(map(word, quantity.split(".")))


def anchor(text: str) -> str:
    """A text as a part of an address.

    Examples
    --------
    >>> anchor("layer_similarity")
    'layer-similarity'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
