"""Tokenizers compared over seeds: bits a byte, and what NFKC changes (D3)."""

from __future__ import annotations

from typing import Any

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.experiments.frame import summary_command
from posenc.metrics.seeds import difference_over_seeds, over_seeds

REFERENCE = "bpe"
BITS = ("bits_per_byte", "bits_per_original_byte")
"""Of the text that is coded, and of the text before it was normalised: the same bits over other
bytes."""


def summarise(files: list[dict[str, Any]], confidence: float) -> dict[str, Any]:
    """Results over seeds.

    Parameters
    ----------
    files
        Content of the seeds' files.
    confidence
        Of the intervals over seeds.

    Returns
    -------
    dict
        ``tokenizers``: of each data set, normalisation and kind what does not depend on the seed,
        and bits a byte over seeds; ``differences`` from byte-level BPE, and ``normalizations``,
        NFKC minus none, both paired by seed.

    Raises
    ------
    ArtifactError
        If the tokenizer of a variant is not the same for all seeds.
    """
    variants = [one["variant"] for one in files[0]["trials"]]
    by_seed = {tuple(v.values()): [_of(file, v) for file in files] for v in variants}

    def paired(key: str, first: dict[str, str], second: dict[str, str]) -> dict[str, Any]:
        ours, theirs = ([one[key]["total"] for one in by_seed[tuple(v.values())]]
                        for v in (first, second))  # fmt: skip
        return difference_over_seeds(ours, theirs, confidence)

    return {
        "tokenizers": [{**v, **_over(by_seed[tuple(v.values())], v, confidence)} for v in variants],
        "differences": [
            {**one, "reference": REFERENCE, "bits_per_byte": paired("bits_per_byte", one, other)}
            for one in variants
            if one["kind"] != REFERENCE
            for other in variants
            if other == {**one, "kind": REFERENCE}
        ],
        "normalizations": [
            {
                "dataset": one["dataset"],
                "kind": one["kind"],
                **{key: paired(key, one, other) for key in BITS},
            }
            for one in variants
            if one["normalization"] == "NFKC"
            for other in variants
            if other == {**one, "normalization": "none"}
        ],
    }


def _of(file: dict[str, Any], variant: dict[str, str]) -> dict[str, Any]:
    return next(one for one in file["trials"] if one["variant"] == variant)


def _over(
    trials: list[dict[str, Any]], variant: dict[str, str], confidence: float
) -> dict[str, Any]:
    """One variant: facts once, results over seeds."""
    first = trials[0]
    if any(one["facts"] != first["facts"] for one in trials):
        raise ArtifactError(
            f"the tokenizers of {' '.join(variant.values())} differ between seeds, but they are "
            f"trained on the same documents: delete trials/tokenizers and start again"
        )
    return {
        **first["facts"],
        **{
            key: {
                part: over_seeds([one[key][part] for one in trials], confidence)
                for part in ("total", "model", "spelling")
            }
            for key in BITS
        },
        "training_bytes": [one["training_bytes"] for one in trials],
        "best_steps": [one["fit"]["best_step"] for one in trials],
        "steps": [one["fit"]["steps"] for one in trials],
    }


main = summary_command("tokenizers", ["D3"], summarise)

if __name__ == "__main__":
    run(main)
