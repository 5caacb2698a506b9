"""Errors of memory networks by task, over seeds, and what each needs to answer (E3)."""

from __future__ import annotations

from collections.abc import Iterable

from posenc.artifacts.command import run
from posenc.experiments.frame import SeedFile, Trial
from posenc.experiments.memory_networks.result import (
    Cell,
    Difference,
    Differences,
    Guess,
    GuessTest,
    MemoryNetworks,
    Published,
    Task,
)
from posenc.experiments.memory_networks.stories import guess_levels
from posenc.experiments.results import OverSeeds
from posenc.experiments.summary import by_variant, summary_command
from posenc.metrics.seeds import SHARE, difference_over_seeds, over_seeds
from posenc.metrics.stories import guess_test

SUPERVISED = ("strongly_supervised", "dynamic")
"""Networks that learn from the numbers of the supporting sentences too."""
PUBLISHED = Published(
    network="end_to_end",
    error=0.138,
    description="mean over the 20 bAbI tasks, 1,000 training questions each",
    source="Sukhbaatar et al. (2015), https://arxiv.org/abs/1503.08895",
)
"""Not of these tasks, so only the order of magnitude compares."""


def summarise(files: list[SeedFile], confidence: float) -> MemoryNetworks:
    """Errors over seeds, guess levels, paired differences, and tests against guessing.

    Parameters
    ----------
    files
        Content of the trials of each seed.
    confidence
        Of the intervals.
    """
    parameters = files[0]["provenance"]["parameters"]
    trials = by_variant([{**file, "trials": best_attempts(file["trials"])} for file in files])
    deviations = [trial["pattern_deviation"] for of_seeds in trials for trial in of_seeds]
    return MemoryNetworks(
        training_stories=parameters["training_stories"],
        test_stories=parameters["test_stories"],
        tasks=[Task(task=task, guess=Guess(**guess_levels(task))) for task in parameters["tasks"]],
        cells=[cell(of_seeds, confidence) for of_seeds in trials],
        differences=Differences(
            positions=differences(trials, "positions", False, confidence),
            hops=differences(trials, "hops", 1, confidence),
        ),
        guesses=guesses(trials, parameters["test_stories"]),
        pattern_deviation=max(
            (deviation for deviation in deviations if deviation is not None), default=None
        ),
        published=PUBLISHED,
    )


def best_attempts(trials: list[Trial]) -> list[Trial]:
    """Of the attempts at each variant the one that validation chose, and how many there were."""
    by_place: dict[str, list[Trial]] = {}
    for trial in trials:
        variant = {key: value for key, value in trial["variant"].items() if key != "attempt"}
        by_place.setdefault(str(variant), []).append({**trial, "variant": variant})
    chosen: list[Trial] = []
    for attempts in by_place.values():
        best = min(attempts, key=lambda attempt: attempt["validation_error"])
        chosen.append({**best, "attempts": len(attempts)})
    return chosen


def cell(of_seeds: list[Trial], confidence: float) -> Cell:
    """One row of the table: a variant, its errors, and how often its hops find a fact."""
    variant = of_seeds[0]["variant"]

    def over(shares: Iterable[float]) -> OverSeeds:
        return OverSeeds(**over_seeds(list(shares), confidence, SHARE))

    def by_hop(key: str) -> list[OverSeeds] | None:
        if of_seeds[0][key] is None:
            return None
        # Of all seeds, by hop.
        return [over(shares) for shares in zip(*(trial[key] for trial in of_seeds), strict=True)]

    return Cell(
        **variant,
        supervised=variant["network"] in SUPERVISED,
        parameters=of_seeds[0]["parameters"],
        attempts=[trial["attempts"] for trial in of_seeds],
        error=over(trial["error"] for trial in of_seeds),
        validation_error=over(trial["validation_error"] for trial in of_seeds),
        training_error=over(trial["training_error"] for trial in of_seeds),
        facts_found=by_hop("facts_found"),
        facts_in_order=by_hop("facts_in_order"),
    )


def differences(
    trials: list[list[Trial]], key: str, reference: bool | int, confidence: float
) -> list[Difference]:
    """Test errors of variants minus those of the same with the reference value of one key.

    Parameters
    ----------
    trials
        Trials of all seeds by variant.
    key
        What is varied, ``hops``.
    reference
        Its value in the variant that is subtracted; variants without one have no difference.
    confidence
        Of the intervals.
    """
    entries = []
    for of_seeds in trials:
        variant = of_seeds[0]["variant"]
        wanted = {**variant, key: reference}
        same = [candidate for candidate in trials if candidate[0]["variant"] == wanted]
        if variant[key] in (None, reference) or not same:
            continue
        errors, base = ([trial["error"] for trial in each] for each in (of_seeds, same[0]))
        difference = difference_over_seeds(errors, base, confidence, SHARE)
        entries.append(Difference(**variant, minus=reference, **difference))
    return entries


def guesses(trials: list[list[Trial]], questions: int) -> list[GuessTest]:
    """Tests of those that must guess, by what they cannot see.

    ``story``: a bag of the words of the story cannot tell which word stands in which sentence.
    ``sentences``: without word positions a sentence is a bag of words, so ``order`` has two
    answers. ``one_hop``: one look finds what was carried, and where things are, but not both
    together, in ``two_facts``; this level is not a theorem, but a claim that the test may reject.
    """
    tests = []
    for of_seeds in trials:
        variant = of_seeds[0]["variant"]
        level, seen = guess_levels(variant["task"]), None
        if variant["network"] == "bag_of_words":
            seen = "story"
        elif variant["task"] == "order" and variant["positions"] is False:
            seen = "sentences"
        elif (
            variant["task"] == "two_facts"
            and variant["network"] == "end_to_end"
            and variant["hops"] == 1
        ):
            seen = "one_hop"
        if seen:
            known = level["story" if seen == "one_hop" else seen]
            errors = [trial["error"] for trial in of_seeds]
            test = guess_test(errors, questions, known)
            tests.append(GuessTest(**variant, seen=seen, **test._asdict()))
    return tests


main = summary_command("memory_networks", ["E3"], summarise)

if __name__ == "__main__":
    run(main)
