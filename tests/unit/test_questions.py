"""Questions with right and wrong answers: the harness's formulas, and the library's own forward."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from posenc.artifacts.files import (
    CHECKSUMS,
    read_sealed,
    sha256_file,
    write_checksums,
    write_json,
    write_sealed,
)
from posenc.artifacts.tables import write_table
from posenc.conditions.learned import LearnedMask, write
from posenc.conditions.section import Condition
from posenc.datasets.documents import write_documents
from posenc.datasets.section import Content
from posenc.measurements.choices import measure as step
from posenc.metrics.categories import two_level_counts
from posenc.metrics.choices import chance, mc1, mc2, others
from posenc.models.load import load
from posenc.tokens.tokenize import END_OF_TEXT
from posenc.tokens.tokenized import Tokens

from .small_models import saved

WORDS = "who is the best of them Q : A one two three four five six seven ? good bad"
QUESTIONS = [
    step.Question("who is the best ?", ["one two", "three"], ["four five six", "seven"], "law"),
    step.Question("is the best bad ?", ["good"], ["bad", "one", "two three"], "maps"),
    step.Question("who of them ?", ["seven six", "five", "four"], ["the best"], "law"),
]
MASKED = {"semantics": "additive", "profile": {"kind": "learned", "mask": "bumps"}}
CONDITIONS = {
    "intact": {},
    "zero": {"position": "zero"},
    "bumps": {"position": "zero", "mask": MASKED},
    "alibi": {"mask": {"semantics": "additive", "profile": {"kind": "alibi", "slope": 0.5}}},
}
PARAMETERS = {
    "questions": 3, "primer": ["good bad"], "prompt": ["Q: {question}", "A:"],
    "conditions": list(CONDITIONS), "batch_tokens": 64,
    "bootstrap_samples": 100, "confidence": 0.9, "seed": 1,
}  # fmt: skip


def bumps() -> LearnedMask:
    rng = np.random.default_rng(2)
    return LearnedMask(
        relative=rng.normal(size=(2, 2, 1, 9)).astype(np.float32),
        first=rng.normal(size=(2, 2, 9)).astype(np.float32),
        temperature=None,
    )


def words() -> Tokenizer:
    """A word is a token, and so is a sign."""
    ids = {word: number for number, word in enumerate([END_OF_TEXT, "[UNK]", *WORDS.split()])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def job(family: str = "gpt2", max_tokens: int = 40, documents=None, **changed) -> step.Job:
    return step.Job.model_validate(
        {"parameters": {**PARAMETERS, **changed}, "datasets": ["text"], "conditions": CONDITIONS,
         "reading": {"family": family, "max_tokens": max_tokens}, "documents": documents}
    )  # fmt: skip


def harness(lls: list[float], labels: list[int]) -> tuple[float, float]:
    """``acc`` of a multiple-choice task whose gold is 0, and ``process_results_mc2``."""
    acc = 1.0 if np.argmax(lls) == 0 else 0.0
    split_idx = list(labels).index(0)
    ll_true, ll_false = lls[:split_idx], lls[split_idx:]
    p_true, p_false = np.exp(np.array(ll_true)), np.exp(np.array(ll_false))
    p_true = p_true / (sum(p_true) + sum(p_false))
    return acc, sum(p_true)


scores = st.lists(st.floats(-20, -0.1), min_size=1, max_size=5)


@given(scores, scores)
def test_scores_are_those_of_the_harness(true, wrong):
    acc, _ = harness([true[0], *wrong], [1] + [0] * len(wrong))
    assert mc1(true[0], wrong) == bool(acc)
    _, share = harness([*true, *wrong], [1] * len(true) + [0] * len(wrong))
    assert mc2(true, wrong) == pytest.approx(share)
    # A likelier wrong answer lowers the share; a common factor does not.
    assert mc2(true, [*wrong, -1.0]) < mc2(true, wrong)
    assert mc2(np.array(true) - 2000, np.array(wrong) - 2000) == pytest.approx(share)


def test_scores_of_a_fixed_case():
    # Probabilities 0.2 and 0.1 of the true answers, 0.15 and 0.05 of the wrong ones.
    true, wrong = np.log([0.2, 0.1]), np.log([0.15, 0.05])
    assert mc1(true[0], wrong) and not mc1(true[1], wrong)
    assert mc2(true, wrong) == pytest.approx(0.6)
    assert mc1(-1.0, [-1.0])  # the harness's argmax takes the first


def test_chance_is_the_mean_over_answers_that_mean_nothing():
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(20000, 5))
    expected = chance(2, 3)
    assert np.mean([mc1(sample[0], sample[2:]) for sample in drawn]) == pytest.approx(
        expected[0], abs=0.01
    )
    assert np.mean([mc2(sample[:2], sample[2:]) for sample in drawn]) == pytest.approx(
        expected[1], abs=0.01
    )


@given(st.integers(2, 30), st.integers(0, 99))
def test_each_question_has_another_one_and_all_are_used(count, seed):
    partners = others(count, seed)
    assert sorted(partners) == list(range(count)) and all(partners != np.arange(count))


def test_one_question_has_no_other():
    with pytest.raises(ValueError, match="1 questions are too few"):
        others(1, 0)


def brute(model, documents, condition) -> list[np.ndarray]:
    """Log-probabilities of tokens 1, 2, ... of each document alone, from the library."""
    scored = []
    for ids in documents:
        bias = torch.full((len(ids), len(ids)), -torch.inf).triu(1)
        mask = condition.mask
        if mask is not None:
            distance = torch.arange(len(ids))[:, None] - torch.arange(len(ids))
            bias = bias - mask.profile.slope * distance
        with torch.inference_mode():
            out = model(torch.tensor([ids]), attention_mask=bias[None, None])
        logs = out.logits[0].log_softmax(-1)
        scored.append(
            np.array([float(logs[place - 1, ids[place]]) for place in range(1, len(ids))])
        )
    return scored


@pytest.mark.parametrize("name", ["intact", "zero", "alibi"])
def test_scores_are_of_the_library_s_own_logits(tmp_path, name):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    wanted, condition = job(), Condition.model_validate(CONDITIONS[name])
    measurement = step.measure(wanted, model, words(), QUESTIONS, {"bumps": bumps()}).as_json()
    entry = next(entry for entry in measurement["conditions"] if entry["condition"] == name)
    if name == "zero":
        model.transformer.wpe.weight.data.zero_()
    reader, other = words(), others(3, 1)
    for suffix, asked in (("", range(3)), ("_other", other)):
        scores, nll, tokens = [], 0.0, 0
        for question, about in zip(QUESTIONS, asked, strict=True):
            prompt = f"good bad\nQ: {QUESTIONS[about].text}\nA:"
            start = [0, *reader.encode(prompt).ids]
            lls = []
            for answer in [*question.true, *question.wrong]:
                ids = reader.encode(answer).ids
                logs = brute(model, [[*start, *ids]], condition)[0]
                assert len(logs) == len(start) + len(ids) - 1
                lls.append(logs[-len(ids) :].sum())
                if answer in question.true:
                    nll, tokens = nll - lls[-1], tokens + len(ids)
            true = len(question.true)
            first, _ = harness([lls[0], *lls[true:]], [1, 0])
            _, second = harness(lls, [1] * true + [0] * len(question.wrong))
            scores.append((first, second))
        for key, value in zip(("mc1", "mc2"), np.mean(scores, axis=0), strict=True):
            assert entry[f"{key}{suffix}"]["value"] == pytest.approx(value, abs=1e-5)
        assert entry[f"nll{suffix}"]["value"] == pytest.approx(nll / tokens, abs=1e-5)


def test_differences_are_of_the_numbers_beside_them(tmp_path):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    measurement = step.measure(job(), model, words(), QUESTIONS, {"bumps": bumps()}).as_json()
    assert (
        measurement["documents"] == 3
        and measurement["answers"] == 12
        and measurement["too_long"] == 0
    )
    assert measurement["chance"] == pytest.approx(
        {"mc1": (1 / 3 + 1 / 4 + 1 / 2) / 3, "mc2": (2 / 4 + 1 / 4 + 3 / 4) / 3}
    )
    entries = {entry["condition"]: entry for entry in measurement["conditions"]}
    intact, zero = entries["intact"], entries["zero"]
    for entry in entries.values():
        for key in ("mc1", "mc2", "nll"):
            own = entry[key]["value"]
            assert entry[f"delta_{key}"]["value"] == pytest.approx(own - intact[key]["value"])
            other = entry[f"{key}_other"]["value"]
            assert entry[f"{key}_question"]["value"] == pytest.approx(own - other)
        for key, level in measurement["chance"].items():
            assert entry[f"{key}_chance"]["value"] == pytest.approx(entry[key]["value"] - level)
        if entry["recovered"] is not None:
            lost = zero["nll"]["value"] - intact["nll"]["value"]
            gained = zero["nll"]["value"] - entry["nll"]["value"]
            assert entry["recovered"]["value"] == pytest.approx(gained / lost)


def test_a_second_interval_is_over_categories(tmp_path):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")

    def entries(questions):
        measurement = step.measure(job(), model, words(), questions, {"bumps": bumps()}).as_json()
        return {entry["condition"]: entry for entry in measurement["conditions"]}

    by_condition = entries(QUESTIONS)
    for name in ("zero", "bumps", "alibi"):
        for part in step.Scored._fields:
            questions, categories = (
                by_condition[name][f"delta_{part}{of}"] for of in ("", "_categories")
            )
            assert categories["value"] == questions["value"]
            assert categories["low"] <= categories["value"] <= categories["high"]
    # Of the same losses: drawn by hand, two categories of two and one questions.
    drawn = two_level_counts(["law", "maps", "law"], 100, 1)
    asked = step.sequences(words(), job(), [question.text for question in QUESTIONS], QUESTIONS)
    documents = [ids for pairs in asked for ids, _ in pairs]
    begins = [begin for pairs in asked for _, begin in pairs]
    losses = step.losses_under(model, documents, begins, job(), {"bumps": bumps()})
    own, intact = (step.scored(QUESTIONS, losses[name]).mc2 for name in ("alibi", "intact"))
    low, high = np.quantile(drawn @ (own - intact) / drawn.sum(axis=1), [0.05, 0.95])
    interval = by_condition["alibi"]["delta_mc2_categories"]
    assert (interval["low"], interval["high"]) == pytest.approx((low, high))
    alone = [question._replace(category="law") for question in QUESTIONS]
    unknown = [QUESTIONS[0]._replace(category=None), *QUESTIONS[1:]]
    for questions in (alone, unknown):
        other = entries(questions)["zero"]
        assert other["delta_nll_categories"] is None
        assert other["delta_nll"] == by_condition["zero"]["delta_nll"]


def test_batches_change_nothing(tmp_path):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    whole, single = (
        step.measure(
            job(batch_tokens=size), model, words(), QUESTIONS, {"bumps": bumps()}
        ).as_json()
        for size in (4096, 1)
    )
    for entry, other in zip(whole["conditions"], single["conditions"], strict=True):
        for key in ("mc1", "mc2", "nll", "nll_other"):
            assert entry[key] == pytest.approx(other[key], abs=1e-5)


@pytest.mark.parametrize(
    ("changed", "questions", "reason"),
    [
        ({"family": "bert"}, QUESTIONS, "no language-model head"),
        ({}, QUESTIONS[:1], "1 documents of the text are questions with true and wrong answers"),
        ({"max_tokens": 12}, QUESTIONS, "0 of 3 questions fit 12 tokens"),
    ],
)
def test_what_cannot_be_measured_says_why(changed, questions, reason):
    measurement = step.measure(job(**changed), None, words(), questions, {}).as_json()
    assert (measurement["status"], measurement["reason"]) == ("not run", reason)


def test_questions_that_are_too_long_are_counted(tmp_path):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    long = step.Question("who ?", ["one"], ["two " * 20])
    measurement = step.measure(
        job(questions=4, max_tokens=24), model, words(), [*QUESTIONS, long], {"bumps": bumps()}
    ).as_json()
    assert (measurement["documents"], measurement["too_long"]) == (3, 1)


def test_a_large_model_has_as_many_questions_as_documents(tmp_path):
    model = load(saved("gpt2", tmp_path / "model"), "gpt2")
    measurement = step.measure(
        job(documents=2), model, words(), QUESTIONS, {"bumps": bumps()}
    ).as_json()
    assert measurement["documents"] == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prompt": ["Q:", "A:"]}, "there is no {question} in it"),
        ({"conditions": ["zero"]}, "intact is not among them"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        job(**changed)


def of_the_step(tmp_path) -> tuple:
    """Arguments of the step, with all files that they name."""
    weights, masks = saved("gpt2", tmp_path / "model"), tmp_path / "masks"
    masks.mkdir()
    write(masks / "bumps.safetensors", bumps(), {})
    write_sealed(masks / "masks.json", {"masks": {"bumps": "0" * 64}})
    reader = tmp_path / "reader"
    reader.mkdir()
    words().save(str(reader / "tokenizer.json"))
    write_checksums(reader / CHECKSUMS, "tokenizer.json")
    content = Content.model_validate(
        {"format": "truthfulqa", "text": {"line_breaks": "newline", "normalization": "none"}}
    )
    rows = [
        {"document_id": f"validation/{number}", "split": "validation", "text": question.text,
         "best_answer": question.true[0], "correct_answers": question.true[1:],
         "incorrect_answers": question.wrong, "category": question.category}
        for number, question in enumerate(QUESTIONS)
    ]  # fmt: skip
    # One that the study does not evaluate, and one without wrong answers.
    rows += [
        {**rows[0], "document_id": "other"},
        {**rows[0], "document_id": "validation/3", "incorrect_answers": []},
    ]
    source = tmp_path / "documents" / "text.parquet"
    source.parent.mkdir()
    write_documents(rows, source, content, {})
    text = tmp_path / "tokens" / "text.parquet"
    text.parent.mkdir()
    names = [f"validation/{number}" for number in range(4)]
    write_table(pa.table({"document_id": names}), text, {"bos": True})
    assert step.questions_of(Tokens(text), source) == QUESTIONS
    write_json(tmp_path / "config.json", job().model_dump())
    return (
        "small", tmp_path / "config.json", weights, text.parent, masks, source.parent,
        reader / "tokenizer.json", tmp_path / "out",
    )  # fmt: skip


def test_the_file_says_what_it_is_made_of(tmp_path):
    threads, asked = torch.get_num_threads(), of_the_step(tmp_path)
    step.main(*asked)
    torch.set_num_threads(threads)
    measurement = read_sealed(tmp_path / "out" / "text.json")
    assert (
        measurement["run"] == {"model": "small", "dataset": "text"}
        and measurement["documents"] == 3
    )
    inputs = measurement["provenance"]["inputs"]
    assert inputs["documents"] == sha256_file(tmp_path / "documents" / "text.parquet")
    assert inputs["tokenizer"] == sha256_file(tmp_path / "reader" / "tokenizer.json")
    assert inputs["masks"] == {"bumps": "0" * 64}


def test_a_model_that_lacks_what_is_needed_is_not_loaded(tmp_path, monkeypatch):
    asked = of_the_step(tmp_path)
    can = {"losses": "no language-model head"}
    write_json(tmp_path / "model/verification.json", {"model_type": "gpt2", "can": can})
    monkeypatch.setattr("posenc.models.affine.load_ready", lambda *_, **__: pytest.fail("loaded"))
    step.main(*asked)
    measurement = read_sealed(tmp_path / "out" / "text.json")
    assert (measurement["status"], measurement["reason"]) == ("not run", can["losses"])
