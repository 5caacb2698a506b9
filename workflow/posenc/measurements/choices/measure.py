"""Questions with right and wrong answers, by condition: MC1 and MC2 of TruthfulQA (A5, F4).

The benchmark of Lin, Hilton and Evans (2022, https://arxiv.org/abs/2109.07958), scored as in
lm-evaluation-harness (``truthfulqa_mc1``, ``truthfulqa_mc2``; :mod:`posenc.metrics.choices`), with
two differences, so that numbers cannot be compared with a leaderboard's. Choices are those of
the published CSV: MC1 is the best answer against all incorrect ones, MC2 all correct ones and the
best against all incorrect ones; the harness reads lists of multiple-choice targets from a JSON
file, which may differ. And the harness puts six answered questions before each prompt, a primer;
here ``params.yaml`` says what stands there.

As a control, answers are scored after another question of the data set as well: what is left of a
score there does not need the question. Questions come in categories: what a condition changes has a
second interval, which resamples categories and questions within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posenc.artifacts.command import read_section, run
from posenc.artifacts.files import sha256_file, verify
from posenc.artifacts.results import Interval, NotMeasured
from posenc.conditions.learned import LearnedMask
from posenc.conditions.section import dumped
from posenc.measurements.choices.declaration import FIELD, MEASUREMENT, Choices
from posenc.measurements.choices.result import Answering, Chance, Scores
from posenc.measurements.declaration import INTACT
from posenc.measurements.frame import Config, Output, bootstrap, not_run, seal
from posenc.measurements.of_models import (
    DocumentsFolder,
    MasksFolder,
    Model,
    TokenizerFile,
    TokensFolder,
    WeightsFolder,
    cells,
)
from posenc.measurements.under_conditions import ConditionsJob, loaded, losses_shown, recovered_loss
from posenc.metrics.categories import CategoryMeans, has_categories
from posenc.metrics.choices import chance, mc1, mc2, others
from posenc.metrics.recovery import PairedMeans
from posenc.tokens.tokenized import Tokens

Floats = NDArray[np.float64]
SCORES = ("mc1", "mc2")


class Job(ConditionsJob[Choices]):
    """What the measurement of one model depends on, besides its files."""

    documents: int | None
    """Of how many documents a study evaluates the model, if it says so."""


class Question(NamedTuple):
    """A question; the best of its true answers is the first."""

    text: str
    true: list[str]
    wrong: list[str]
    category: str | None = None


class Scored(NamedTuple):
    """What one condition makes of the questions after a prompt.

    Attributes
    ----------
    mc1, mc2
        float64 [questions].
    nll
        float64 [questions]: sum of the losses in nats of the tokens of the true answers.
    """

    mc1: Floats
    mc2: Floats
    nll: Floats


def main(
    model: Model,
    config: Config,
    weights: WeightsFolder,
    tokens: TokensFolder,
    masks: MasksFolder,
    documents: DocumentsFolder,
    tokenizer: TokenizerFile,
    output: Output,
) -> None:
    """Write OUTPUT/DATASET.json for each data set."""
    from tokenizers import Tokenizer

    job = read_section(config, Job)
    reason, network, learned, inputs = loaded(MEASUREMENT, job, weights, masks)
    reader, reader_digest = Tokenizer.from_file(str(verify(tokenizer))), sha256_file(tokenizer)
    for path, of, text in cells(model, job.datasets, tokens, output):
        source = documents / path.with_suffix(".parquet").name
        if reason is None:
            measured = measure(job, network, reader, questions_of(text, source), learned)
        else:
            measured = not_run(reason, job.parameters)
        made_of = {
            "tokens": text.digest, "documents": sha256_file(source), **inputs,
            "tokenizer": reader_digest,
        }  # fmt: skip
        seal(path, MEASUREMENT, of, measured, job.parameters, made_of)


def questions_of(text: Tokens, source: Path) -> list[Question]:
    """The questions of a text that have true and wrong answers, in its order."""
    from posenc.datasets.documents import read_documents

    names = (
        "document_id", "text", "category", "best_answer", "correct_answers", "incorrect_answers"
    )  # fmt: skip
    rows = {row["document_id"]: row for row in read_documents(source, columns=names).to_pylist()}
    questions = []
    for name in text.table["document_id"].to_pylist():
        row = rows[name]
        best, wrong = (row["best_answer"] or "").strip(), row["incorrect_answers"]
        if best and wrong:
            true = list(dict.fromkeys([best, *(row["correct_answers"] or [])]))
            questions.append(Question(row["text"], true, wrong, row["category"]))
    return questions


def measure(
    job: Job,
    network: Any,
    tokenizer: Any,
    questions: list[Question],
    learned: dict[str, LearnedMask],
) -> Scores | NotMeasured:
    """Score the answers of drawn questions after their own and after another question."""
    parameters = job.parameters
    if not job.reading.is_decoder:
        return not_run("no language-model head", parameters)
    count = min(parameters.questions, job.documents or parameters.questions, len(questions))
    if count < 2:
        reason = f"{count} documents of the text are questions with true and wrong answers"
        return not_run(reason, parameters)
    drawn = np.random.default_rng(parameters.seed).choice(len(questions), count, replace=False)
    chosen = [questions[index] for index in np.sort(drawn)]
    other = others(count, parameters.seed)  # [questions]
    prompts = {
        "own": [question.text for question in chosen],
        "other": [chosen[index].text for index in other],
    }
    asked = {kind: sequences(tokenizer, job, texts, chosen) for kind, texts in prompts.items()}
    longest = [
        max(len(ids) for kind in asked.values() for ids, _ in kind[place]) for place in range(count)
    ]
    kept = [place for place in range(count) if longest[place] <= job.reading.max_tokens]
    if len(kept) < 2:
        reason = f"{len(kept)} of {count} questions fit {job.reading.max_tokens} tokens"
        return not_run(reason, parameters)
    chosen = [chosen[place] for place in kept]
    asked = {kind: [pairs[place] for place in kept] for kind, pairs in asked.items()}
    flat = [pair for kind in asked.values() for pairs in kind for pair in pairs]
    documents = [ids for ids, _ in flat]
    begins = [begin for _, begin in flat]
    answers = losses_under(network, documents, begins, job, learned)
    answer_tokens = [
        sum(len(ids) - begin for ids, begin in pairs[: len(question.true)])
        for question, pairs in zip(chosen, asked["own"], strict=True)
    ]
    levels = np.array(
        [chance(len(question.true), len(question.wrong)) for question in chosen]
    )  # [questions, 2]
    scores = {
        name: [scored(chosen, part) for part in np.split(sums, 2)] for name, sums in answers.items()
    }
    mc1_level, mc2_level = levels.mean(axis=0).tolist()
    return Scores(
        documents=len(chosen),
        tokens=sum(len(ids) for pairs in asked["own"] for ids, _ in pairs),
        confidence=parameters.confidence,
        too_long=count - len(kept),
        answers=sum(len(question.true) + len(question.wrong) for question in chosen),
        chance=Chance(mc1=mc1_level, mc2=mc2_level),
        conditions=results(
            job, scores, np.array(answer_tokens), levels, [question.category for question in chosen]
        ),
    )


def sequences(
    tokenizer: Any, job: Job, asked: list[str], questions: list[Question]
) -> list[list[tuple[list[int], int]]]:
    """For each question, tokens of a prompt with each of its answers, and where the answer begins.

    As in the harness, an answer's tokens are those beyond as many as the prompt alone has.

    Parameters
    ----------
    tokenizer, job
        The model's, and what is measured.
    asked
        What each prompt asks.
    questions
        Whose answers follow it.
    """
    from posenc.tokens.tokenize import tokenize

    texts = []
    for text, question in zip(asked, questions, strict=True):
        lines = [line.replace(FIELD, text) for line in job.parameters.prompt]
        prompt = "\n".join([*job.parameters.primer, *lines])
        texts += [prompt, *(f"{prompt} {answer}" for answer in [*question.true, *question.wrong])]
    names = [str(number) for number in range(len(texts))]
    table = tokenize(tokenizer, names, texts, max_tokens=None, is_decoder=True)
    ids = iter(table["input_ids"].to_pylist())
    by_question = []
    for question in questions:
        begin = len(next(ids))
        by_question.append([(next(ids), begin) for _ in [*question.true, *question.wrong]])
    return by_question


def losses_under(
    network: Any,
    documents: list[list[int]],
    begins: list[int],
    job: Job,
    learned: dict[str, LearnedMask],
) -> dict[str, Floats]:
    """By condition, the summed loss in nats of each document's tokens from its answer on.

    Returns
    -------
    float64 [documents] each.
    """
    sums = {name: np.empty(len(documents)) for name in job.conditions}
    for name, row, losses in losses_shown(
        network, documents, job.conditions, learned, job.parameters.batch_tokens, "choices"
    ):
        # The loss of token 1 is the first.
        sums[name][row] = losses[begins[row] - 1 :].sum(dtype=np.float64)
    return sums


def scored(questions: list[Question], losses: Floats) -> Scored:
    """Scores of questions from the losses of their answers in order, true ones first."""
    ends = np.cumsum(
        [len(question.true) + len(question.wrong) for question in questions]
    )  # [questions]
    rows = []
    for question, own in zip(questions, np.split(-losses, ends[:-1]), strict=True):
        true, wrong = np.split(own, [len(question.true)])  # [true answers], [wrong answers]
        rows.append((mc1(true[0], wrong), mc2(true, wrong), -true.sum()))
    return Scored(*np.array(rows, np.float64).T)


def results(
    job: Job,
    scores: dict[str, list[Scored]],
    answer_tokens: NDArray[np.int64],
    levels: Floats,
    categories: Sequence[str | None],
) -> list[Answering]:
    """How each condition answers, all on the same resampled questions.

    Parameters
    ----------
    job, scores
        What was asked for; by condition, scores after the own and after another question.
    answer_tokens
        int64 [questions]: tokens of the true answers.
    levels
        float64 [questions, 2]: MC1 and MC2 by chance.
    categories
        [questions]; where one has none, or all have the same, categories are not resampled.
    """
    options, names = bootstrap(job.parameters), list(scores)
    intact, count = names.index(INTACT), len(names)
    means, over_categories = {}, {}
    for part in Scored._fields:
        columns = [getattr(pair[asked], part) for asked in (0, 1) for pair in scores.values()]
        if part in SCORES:
            columns.append(levels[:, SCORES.index(part)])
        # Own and other question of all conditions, then chance: [questions, columns].
        sums = np.stack(columns, axis=1)
        counts = np.ones(len(sums)) if part in SCORES else answer_tokens
        means[part] = PairedMeans(sums, counts, **options)
        if has_categories(categories):
            over_categories[part] = CategoryMeans(
                sums, counts, list(map(str, categories)), **options
            )
    conditions = []
    for column, name in enumerate(names):
        scores_of: dict[str, Interval | None] = {}
        for part, mean in means.items():
            wider = over_categories.get(part)
            scores_of |= {
                part: Interval.of(mean.of(lambda own: own, column)),
                f"delta_{part}": Interval.of(mean.of(np.subtract, column, intact)),
                f"{part}_other": Interval.of(mean.of(lambda own: own, count + column)),
                f"delta_{part}_categories": (
                    Interval.of(wider.of(np.subtract, column, intact)) if wider else None
                ),
                f"{part}_question": Interval.of(mean.of(np.subtract, column, count + column)),
            }
        for part in SCORES:
            above = means[part].of(np.subtract, column, 2 * count)
            scores_of[f"{part}_chance"] = Interval.of(above)
        conditions.append(
            Answering.model_validate(
                {
                    "condition": name,
                    "spec": dumped(job.conditions[name]),
                    **scores_of,
                    "recovered": recovered_loss(means["nll"], names, column),
                }
            )
        )
    return conditions


if __name__ == "__main__":
    run(main)
