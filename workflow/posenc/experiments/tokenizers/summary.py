"""Tokenizers compared over seeds: bits per byte, and what NFKC changes (D3)."""

from __future__ import annotations

from posenc.artifacts.command import run
from posenc.artifacts.files import ArtifactError
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.results import OverSeeds
from posenc.experiments.summary import by_variant, over, summary_command
from posenc.experiments.tokenizers.result import Comparison, Difference, Normalization, Tokenizer
from posenc.metrics.seeds import difference_over_seeds, over_seeds

REFERENCE = "bpe"
BITS = ("bits_per_byte", "bits_per_original_byte")
"""Of the text that is coded, and of the text before it was normalised: the same bits over other
bytes."""
PARTS = ("total", "model", "spelling")


def summarise(files: list[SeedFile], confidence: float) -> Comparison:
    """Tokenizers over seeds, and differences that are paired by seed.

    Parameters
    ----------
    files
        Content of the seeds' files.
    confidence
        Of the intervals over seeds.

    Raises
    ------
    ArtifactError
        If the tokenizer of a variant is not the same for all seeds.
    """
    trials = by_variant(files)
    most_steps = files[0]["provenance"]["parameters"]["parameters"]["optimization"]["steps"]
    variants = [of_seeds[0]["variant"] for of_seeds in trials]
    by_values = {
        tuple(v.values()): of_variant for v, of_variant in zip(variants, trials, strict=True)
    }

    def paired(key: str, first: dict[str, str], second: dict[str, str]) -> OverSeeds:
        ours, theirs = (
            [trial[key]["total"] for trial in by_values[tuple(v.values())]] for v in (first, second)
        )
        return OverSeeds(**difference_over_seeds(ours, theirs, confidence))

    return Comparison(
        tokenizers=[_tokenizer(of_seeds, most_steps, confidence) for of_seeds in trials],
        differences=[
            Difference(
                **variant,
                reference=REFERENCE,
                bits_per_byte=paired("bits_per_byte", variant, other),
            )
            for variant in variants
            if variant["kind"] != REFERENCE
            for other in variants
            if other == {**variant, "kind": REFERENCE}
        ],
        normalizations=[
            Normalization(
                dataset=variant["dataset"],
                kind=variant["kind"],
                **{key: paired(key, variant, other) for key in BITS},
            )
            for variant in variants
            if variant["normalization"] == "NFKC"
            for other in variants
            if other == {**variant, "normalization": "none"}
        ],
    )


def _tokenizer(trials: list[Trial], most_steps: int, confidence: float) -> Tokenizer:
    """One variant: facts once, results over seeds."""
    first = trials[0]
    variant = first["variant"]
    if any(trial["facts"] != first["facts"] for trial in trials):
        raise ArtifactError(
            f"the tokenizers of {' '.join(variant.values())} differ between seeds, but they are "
            f"trained on the same documents: delete trials/tokenizers and start again"
        )
    choices = [trial["choice"] for trial in trials]
    return Tokenizer.model_validate(
        {
            **variant,
            **first["facts"],
            **{key: over([trial[key] for trial in trials], PARTS, confidence) for key in BITS},
            "training_bytes": [trial["training_bytes"] for trial in trials],
            "choices": choices,
            "ended": sum(choice["steps"] < most_steps for choice in choices),
            "fall": over_seeds([choice["fall"] for choice in choices], confidence),
        }
    )


main = summary_command("tokenizers", ["D3"], summarise)

if __name__ == "__main__":
    run(main)
