"""Tokenizers: codes can be read back, bits are those by hand, runs can be resumed."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.files import ArtifactError, read_sealed, write_json
from posenc.datasets.documents import read_documents, write_documents
from posenc.datasets.generated import japanese, reviews
from posenc.datasets.section import Content, Text
from posenc.experiments.fitting import fit
from posenc.experiments.tokenizers import figure as figure_of
from posenc.experiments.tokenizers import summary as summary
from posenc.experiments.tokenizers import trials as step
from posenc.experiments.tokenizers.choice import choose
from posenc.experiments.tokenizers.kinds import (
    UNKNOWN,
    TokenizerError,
    rebuild,
    tokenize,
    train_tokenizer,
    whole_entries,
)
from posenc.experiments.tokenizers.network import (
    bits_per_byte,
    language_model,
    nll,
    summed_nll,
)
from posenc.experiments.tokenizers.section import TokenizersTraining
from posenc.metrics import tokenizers as measures
from posenc.metrics.perplexity import entropy
from posenc.tokens.tokenize import END_OF_TEXT

from . import synthetic
from .damage import Killed
from .test_figures import check_texts, texts

KINDS = ["whitespace", "character", "bpe", "unigram"]
SMALL = TokenizersTraining(
    datasets=["english", "kana"],
    training_documents=24,
    validation_documents=4,
    test_documents=6,
    kinds=KINDS,
    vocabulary_size=640,
    normalizations=["none", "NFKC"],
    n_layers=1,
    d_model=16,
    n_heads=2,
    context_bytes=48,
    optimization={
        "steps": 4,
        "batch": 4,
        "learning_rate": 1e-2,
        "warmup_steps": 1,
        "weight_decay": 0.0,
        "precision": "float32",
        "validate_steps": 2,
        "patience": None,
        "checkpoint_steps": 2,
    },
    rate_factors=[0.01, 1],
    tried_steps=2,
)
ENGLISH = [reviews.review(random.Random(seed), 1 + seed % 10) for seed in range(40)]
ENGLISH = [text.replace("<br /><br />", "\n")[-240:] for text in ENGLISH]
KANA = [japanese.review(random.Random(seed), 1 + seed % 10) for seed in range(40)]
KANA = [text.replace("<br /><br />", "\n")[-120:] for text in KANA]
# Without the mark that stands for a space in pieces.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), min_size=1)
END = b"\xff"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def tokenizers():
    return {
        (kind, name): train_tokenizer(kind, documents[:24], 640)
        for kind in KINDS
        for name, documents in (("english", ENGLISH), ("kana", KANA))
    }


# The measures.


@given(st.lists(TEXT))
def test_a_spelling_is_read_back_and_has_its_length(pieces):
    code = b"".join(piece.encode() + END for piece in pieces)
    assert [piece.decode() for piece in code.split(END)[:-1]] == pieces
    lengths = [len(piece.encode()) for piece in pieces]
    assert measures.spelling_bits(lengths) == 8 * len(code)


def test_spellings_satisfy_kraft_s_inequality():
    points = [*range(0xD800), *range(0xE000, 0x110000)]
    used = set("".join(map(chr, points)).encode())
    assert END[0] not in used
    # There are fewer than len(used)**n pieces of n bytes: the sum of 2**-bits must not exceed 1.
    total = sum(len(used) ** n * 2 ** -measures.spelling_bits([n]) for n in range(100))
    assert 0 < total <= 1


@given(TEXT, st.integers(2, 1000))
def test_bits_of_a_uniform_guess_by_hand(text, vocabulary):
    size = len(text.encode())
    bits = measures.code_length(measures.uniform_nll(7, vocabulary), [3, 1], size)
    assert bits["total"] == pytest.approx((7 * math.log2(vocabulary) + 8 * 4 + 8 * 2) / size)
    assert bits["total"] == bits["model"] + bits["spelling"]


@given(st.lists(TEXT, min_size=1), st.integers(0, 100))
def test_fertility_by_brute_force(documents, tokens):
    words = characters = size = 0
    for text in documents:
        words += len([word for word in text.split() if word])
        for character in text:
            characters += 1
            size += len(character.encode())
    if not words:
        with pytest.raises(ValueError, match="word"):
            measures.fertility(tokens, documents)
        return
    assert measures.fertility(tokens, documents) == {
        "per_word": tokens / words,
        "per_character": tokens / characters,
        "per_byte": tokens / size,
    }


@given(TEXT)
def test_byte_offsets_by_brute_force(text):
    expected = [len(text[:place].encode()) for place in range(len(text) + 1)]
    assert measures.byte_offsets(text, range(len(text) + 1)).tolist() == expected


@given(st.lists(TEXT, min_size=1))
def test_a_change_is_counted_by_characters_and_documents(documents):
    changed = [unicodedata.normalize("NFKC", text) for text in documents]
    shares = measures.change(documents, changed)
    assert shares["documents"] == np.mean([a != b for a, b in zip(documents, changed, strict=True)])
    joined = "".join(documents)
    alone = [unicodedata.normalize("NFKC", c) != c for c in joined]
    if shares["documents"]:
        assert shares["characters"] == pytest.approx(np.mean(alone))
    assert measures.change(documents, documents) == {
        "documents": 0.0,
        "characters": 0.0,
        "bytes": 1.0,
    }


@given(st.lists(st.sampled_from("AaＡａｱアｲイ１1Z"), min_size=1))
def test_merging_forms_never_raises_the_entropy(characters):
    def bits(symbols):
        _, counts = np.unique(symbols, return_counts=True)
        return entropy(counts / counts.sum(), base=2)

    merged = [unicodedata.normalize("NFKC", c) for c in characters]
    assert bits(merged) <= bits(characters) + 1e-12
    fewer = len(set(characters)) - len(set(merged))
    assert measures.merged_entries(characters) == fewer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: measures.code_length(1.0, [], 0), "without bytes"),
        (lambda: measures.spelling_bits([-1]), "fewer than 0"),
        (lambda: measures.segment_of([3, 2], 4), "order"),
        (lambda: measures.change(["a"], []), "1 texts"),
    ],
)
def test_what_has_no_measure_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# The kinds.


@settings(deadline=None, max_examples=60)
@given(text=TEXT)
def test_nothing_is_lost_but_what_is_not_known(tokenizers, text):
    """Tokens and spelled pieces give back any text; tokens of bytes do so alone."""
    for (kind, _), tokenizer in tokenizers.items():
        encoding = tokenizer.encode(text)
        assert rebuild(tokenizer, text, encoding) == text, kind
        tokenized = tokenize(tokenizer, [text], 16, decode=True)
        assert tokenized.rebuilt == 1
        if kind == "bpe":
            assert tokenized.exact == 1 and not tokenized.unknown_bytes
        if kind != "bpe" and not tokenized.unknown_bytes:
            assert tokenized.exact == 1
        # What is known and what is spelled make up all bytes.
        unknown = tokenizer.token_to_id(UNKNOWN)
        known = [token for token in encoding.ids if token != unknown]
        entries = [tokenizer.decode([token], skip_special_tokens=False) for token in known]
        if kind != "bpe":
            size = len("".join(entries).encode()) + sum(tokenized.unknown_bytes)
            assert size == len(text.encode())


@pytest.mark.parametrize("name", ["english", "kana"])
def test_segments_are_cut_at_the_same_bytes_for_all_kinds(tokenizers, name):
    documents, size = (ENGLISH if name == "english" else KANA)[30:34], 48
    counts = [-(-len(text.encode()) // size) for text in documents]
    for kind in KINDS:
        tokenizer = tokenizers[kind, name]
        end = tokenizer.token_to_id(END_OF_TEXT)
        tokenized = tokenize(tokenizer, documents, size)
        assert len(tokenized.segments) == len(tokenized.contexts) == sum(counts)
        first = 0
        for text, count in zip(documents, counts, strict=True):
            encoding = tokenizer.encode(text)
            own = tokenized.segments[first : first + count]
            joined = np.concatenate(own).tolist()
            assert joined == [*encoding.ids, end]
            # Each segment follows what stands before it.
            before = np.cumsum([0, *map(len, own[:-1])])
            stream = [end, *joined]
            assert tokenized.contexts[first : first + count] == [stream[place] for place in before]
            # By brute force: the bytes before a token say where it is.
            place = [len(text[:start].encode()) // size for start, _ in encoding.offsets]
            assert [n for n, part in enumerate(own[:-1]) for _ in part] == [
                n for n in place if n < count - 1
            ]
            first += count
    assert step.segment_bytes(documents, size).sum() == sum(
        len(text.encode()) for text in documents
    )
    assert len(step.segment_bytes(documents, size)) == sum(counts)


def test_segments_hold_no_more_tokens_than_the_model_has_positions(tokenizers):
    hard = ["\U0001f600" * 40, "é" * 50, "a" * 64, "\x00" * 100]
    for tokenizer in tokenizers.values():
        for size in (16, 17, 18, 19):
            longest = max(map(len, tokenize(tokenizer, hard, size).segments))
            assert longest <= size + 4


def test_nfkc_makes_one_entry_of_two_widths():
    widths = ["ＤＶＤとDVDとﾋﾟｱﾉとピアノ"] * 3
    ordinary = [unicodedata.normalize("NFKC", text) for text in widths]
    apart = whole_entries(train_tokenizer("character", widths, 300))
    merged = whole_entries(train_tokenizer("character", ordinary, 300))
    assert {"Ｄ", "D", "ﾋ", "ピ"} <= set(apart) and "ﾋ" not in merged
    assert {"D", "ピ"} <= set(merged)
    # D and V, ア and ノ; the half-width ピ is two characters.
    assert measures.merged_entries(apart) == 4 and measures.merged_entries(merged) == 0
    for kind in KINDS:
        tokenizer = train_tokenizer(kind, ordinary, 300)
        assert measures.merged_entries(whole_entries(tokenizer)) == 0


def test_a_mark_that_pieces_use_for_the_space_is_counted_as_lost(tokenizers):
    tokenized = tokenize(tokenizers["unigram", "english"], ["a ▁ b"], 16, decode=True)
    assert tokenized.rebuilt == tokenized.exact == 0


def test_words_and_characters_are_the_frequent_ones():
    tokenizer = train_tokenizer("whitespace", ["a bb bb\nccc bb", "a bb"], 5)
    # Beside the end and the unknown: " bb" comes four times, "a" twice, the others once.
    entries = whole_entries(tokenizer)
    assert entries[:2] == [" bb", "a"] and len(entries) == 3
    tokenized = tokenize(tokenizer, [" bbb bb"], 300)
    assert tokenized.count == 2 and tokenized.unknown_bytes == [4]


def test_a_unigram_model_without_room_for_all_characters_is_refused():
    with pytest.raises(TokenizerError, match=r"vocabulary_size 50 has no room for the \d+ char"):
        train_tokenizer("unigram", KANA[:20], 50)


def test_tokenizers_are_the_same_in_every_process(tokenizers):
    """The trainers count in hash maps whose order differs between processes."""
    program = (
        "import json, sys\n"
        "from posenc.experiments.tokenizers.kinds import train_tokenizer\n"
        "kinds, some = json.load(sys.stdin)\n"
        "print(json.dumps([train_tokenizer(kind, some, 640).to_str() for kind in kinds]))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([KINDS, KANA[:24]]),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(printed) == [tokenizers[kind, "kana"].to_str() for kind in KINDS]


# The model.


def test_losses_are_those_of_every_token_by_itself(tokenizers):
    tokenizer = tokenizers["bpe", "english"]
    tokenized = tokenize(tokenizer, ENGLISH[30:33], SMALL.context_bytes)
    network = language_model(SMALL, tokenizer.get_vocab_size(), 0).eval()
    by_hand = 0.0
    with torch.inference_mode():
        for context, segment in zip(tokenized.contexts, tokenized.segments, strict=True):
            stream = [context, *segment.tolist()]
            for place in range(1, len(stream)):
                logits = network(torch.tensor([stream[:place]])).logits[0, -1].double()
                by_hand -= float(torch.log_softmax(logits, -1)[stream[place]])
    for batch in (1, 5, 64):
        assert summed_nll(network, tokenized, "cpu", batch) == pytest.approx(by_hand, rel=1e-5)


def test_a_model_that_knows_nothing_costs_a_uniform_guess(tokenizers):
    for (kind, name), tokenizer in tokenizers.items():
        documents = (ENGLISH if name == "english" else KANA)[30:32]
        tokenized, vocabulary = (
            tokenize(tokenizer, documents, SMALL.context_bytes),
            tokenizer.get_vocab_size(),
        )
        network = language_model(SMALL, vocabulary, 0).eval()
        with torch.no_grad():
            network.get_input_embeddings().weight.zero_()
        # Every token of the texts and each text's end.
        expected = (tokenized.count + 2) * math.log(vocabulary)
        assert summed_nll(network, tokenized, "cpu", 8) == pytest.approx(expected, rel=1e-5), kind


def test_segments_without_a_token_cost_nothing_and_can_be_learned_from(tokenizers):
    tokenizer = tokenizers["whitespace", "kana"]
    tokenized = tokenize(tokenizer, KANA[30:31], 16)
    empty = [row for row, segment in enumerate(tokenized.segments) if not len(segment)]
    assert len(empty) > 5
    network = language_model(SMALL, tokenizer.get_vocab_size(), 0)
    total, count = nll(network, tokenized, empty, "cpu")
    (total / max(1, count)).backward()
    assert float(total.detach()) == 0 and count == 0
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


# The choice.


FACTORS = [0.01, 1.0, 300.0]
SEARCH = SMALL.model_copy(
    update={
        "rate_factors": FACTORS,
        "tried_steps": 4,
        "optimization": SMALL.optimization.model_copy(
            update={"steps": 12, "learning_rate": 3e-3, "checkpoint_steps": 3}
        ),
    }
)


@pytest.fixture(scope="module")
def segments(tokenizers):
    """A tokenizer, and segments to learn from and to choose by."""
    tokenizer, size = tokenizers["bpe", "english"], SEARCH.context_bytes
    return (
        tokenizer,
        tokenize(tokenizer, ENGLISH[:24], size),
        tokenize(tokenizer, ENGLISH[24:28], size),
    )


def chosen(segments, folder, report=lambda step, loss: None, parameters=SEARCH):
    """The choice of seed 3, kept in a folder."""
    tokenizer, training, validation = segments
    kept = [Checkpoint(folder / f"{n}.pt", f"{n}") for n in range(len(parameters.rate_factors))]
    utf8_bytes = sum(len(text.encode()) for text in ENGLISH[24:28])
    return choose(
        parameters, tokenizer.get_vocab_size(), training, validation, utf8_bytes, 3, kept,
        report, "cpu",
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(segments, tmp_path_factory):
    """Each rate's training from beginning to end, by the loop that all experiments share."""
    tokenizer, training, validation = segments
    utf8_bytes = sum(len(text.encode()) for text in ENGLISH[24:28])
    by_rate = {}
    for rate in SEARCH.rates:
        network = language_model(SEARCH, tokenizer.get_vocab_size(), 3)

        def loss(rows, network=network):
            total, count = nll(network, training, rows.tolist(), "cpu")
            return total / count

        by_rate[rate] = network, fit(
            network, loss, len(training.segments),
            lambda network=network: (
                bits_per_byte(network, validation, utf8_bytes, "cpu")["total"]
            ),
            SEARCH.optimization.model_copy(update={"learning_rate": rate}), 3,
            Checkpoint(tmp_path_factory.mktemp("whole") / "c.pt", ""),
        )  # fmt: skip
    return by_rate


def test_validation_chooses_the_rate_and_the_step(segments, whole, tmp_path):
    choice = chosen(segments, tmp_path)
    # A hundredth of the rate learns nothing in four steps, and three hundred times it does harm.
    assert choice.rate == SEARCH.rates[1] == 3e-3
    for rate, (_, fitted) in whole.items():
        first = [row["validation_loss"] for row in fitted.curve if row["step"] <= 4]
        assert len(first) == 2 and choice.tried[rate] == min(first)
    network, fitted = whole[choice.rate]
    # Going on after the first steps is the same as never having stopped.
    assert vars(choice.fitted) == vars(fitted)
    assert choice.fitted.loss == min(row["validation_loss"] for row in fitted.curve)
    for name, value in network.state_dict().items():
        assert torch.equal(value, choice.network.state_dict()[name]), name
    record = choice.as_json()
    assert record["bits_per_byte"] == fitted.loss and record["best_step"] == fitted.step
    assert [row["step"] for row in record["curve"]] == [2, 4, 6, 8, 10, 12]
    assert record["flat"] == (record["fall"] < 0.01)


@pytest.mark.parametrize("killed_at", [2, 6, 10, 14, 19])
def test_a_killed_choice_ends_with_the_same_bits(segments, whole, tmp_path, killed_at):
    told = []

    def dying(number, loss):
        told.append(number)
        if number == killed_at:
            raise Killed

    with pytest.raises(Killed):
        chosen(segments, tmp_path, dying)
    assert told == list(range(1, killed_at + 1))
    told.clear()
    choice = chosen(segments, tmp_path, lambda number, loss: told.append(number))
    # Rates that were tried are not tried again: no more than a rate's four steps are repeated.
    assert killed_at - 4 < told[0] <= killed_at and told[-1] == SEARCH.steps == 20
    assert vars(choice.fitted) == vars(whole[3e-3][1])
    assert choice.tried == chosen(segments, tmp_path / "other").tried


def test_a_rate_that_diverges_is_not_chosen(segments, tmp_path):
    wild = SEARCH.model_copy(
        update={"optimization": SEARCH.optimization.model_copy(update={"learning_rate": 1e30})}
    )
    with pytest.raises(ArtifactError, match=r"diverged: lower optimization\.learning_rate"):
        chosen(segments, tmp_path / "all", parameters=wild)
    mixed = wild.model_copy(update={"rate_factors": [1.0, 1e-33]})
    choice = chosen(segments, tmp_path / "one", parameters=mixed)
    assert choice.rate == pytest.approx(1e-3)
    assert [row["bits_per_byte"] is None for row in choice.as_json()["tried"]] == [True, False]


def test_the_late_fall_by_hand():
    assert measures.late_fall([2, 4, 6], [4.0, 2.0, 1.5]) == 0.25
    # The lowest before and since, wherever they are; at two thirds it is not late yet.
    assert measures.late_fall([1, 2, 3, 4, 5, 6], [5.0, 4.0, 4.5, 4.2, 3.0, 3.5]) == 0.25
    assert measures.late_fall([1, 2, 3], [2.0, 2.0, 2.5]) == -0.25
    with pytest.raises(ValueError, match="validated once"):
        measures.late_fall([4], [1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tried_steps": 3}, "multiple of validate_steps 2"),
        ({"tried_steps": 6}, "at most steps 4"),
        ({"rate_factors": [1, 1]}, "names one twice"),
        ({"rate_factors": [1, 200]}, "passes 1"),
        ({"optimization": {"validate_steps": 4}, "tried_steps": 4}, "two thirds of them at most"),
        ({"optimization": {"patience": 1}, "tried_steps": 4}, "raise patience"),
        ({"optimization": {"enough": 0.1}}, "leave it out"),
    ],
)
def test_a_search_that_cannot_be_made_is_refused(change, message):
    given = SMALL.model_dump()
    given["optimization"] |= change.pop("optimization", {})
    with pytest.raises(ValueError, match=message):
        TokenizersTraining(**{**given, **change})


# The steps.


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Documents of two data sets, and the config of their trials."""
    folder = tmp_path_factory.mktemp("tokenizers")
    texts = {}
    for name, corpus, form in (("english", ENGLISH, "NFKC"), ("kana", KANA, "none")):
        content = Content(format="imdb", text=Text(line_breaks="newline", normalization=form))
        documents = (
            {
                "document_id": f"{row}",
                "split": "train" if row < 30 else "test",
                "text": unicodedata.normalize("NFKC", text) if form == "NFKC" else text,
            }
            for row, text in enumerate(corpus)
        )
        write_documents(documents, folder / f"{name}.parquet", content, {})
        texts[name] = {
            "normalization": form,
            "evaluation": {"split": "test", "documents": 10, "seed": 1},
        }
    write_json(folder / "config.json", {"parameters": SMALL.model_dump(), "texts": texts})
    return folder


def trained(job, seed, name="", **config):
    """Run the trials of a seed."""
    path = job / "config.json"
    if config:
        path = job / f"config{name}.json"
        write_json(path, {**json.loads((job / "config.json").read_text()), **config})
    output = job / f"{seed}{name}.json"
    documents = [job / "english.parquet", job / "kana.parquet"]
    step.main(seed, path, output, job / f"partial{seed}{name}", documents=documents)
    return output


@pytest.fixture(scope="module")
def files(job):
    return [read_sealed(trained(job, seed)) for seed in (0, 1)]


@pytest.fixture(scope="module")
def measured(files):
    return summary.summarise(files, 0.9).as_json()


def test_nothing_is_run_twice(files):
    variants = [tuple(trial["variant"].values()) for trial in files[0]["trials"]]
    assert variants == [
        *(("english", "none", kind) for kind in KINDS),
        *(("kana", form, kind) for form in ("none", "NFKC") for kind in KINDS),
    ]


def test_all_tokenizers_are_compared_on_the_same_bytes(files):
    for file in files:
        for name in ("english", "kana"):
            for form in ("none", "NFKC"):
                trials = [
                    trial
                    for trial in file["trials"]
                    if trial["variant"]["dataset"] == name
                    and trial["variant"]["normalization"] == form
                ]
                assert len({trial["training_bytes"] for trial in trials}) <= 1
                assert len({trial["facts"]["body_parameters"] for trial in trials}) <= 1
                assert len({json.dumps(trial["facts"]["test"]) for trial in trials}) <= 1
                for trial in trials:
                    bits, facts = trial["bits_per_byte"], trial["facts"]
                    # A few steps are enough where there are few tokens.
                    if trial["variant"]["kind"] == "character":
                        assert bits["total"] < facts["uniform_bits_per_byte"]
                    own = trial["bits_per_original_byte"]["total"]
                    assert own == pytest.approx(bits["total"] * facts["changed"]["bytes"])
                    assert (own == bits["total"]) == (form == "none")


def test_test_documents_have_no_say_in_what_is_chosen(job, files, tmp_path):
    """Test documents of another kind leave all but their bits as it was, bit for bit."""
    for name in ("english", "kana"):
        table = read_documents(job / f"{name}.parquet").to_pylist()
        content = Content(
            format="imdb",
            text=Text(line_breaks="newline", normalization="NFKC" if name == "english" else "none"),
        )
        for row in table:
            if row["split"] == "test":
                row["text"] = "zq" * 40
        rows = ({key: row[key] for key in ("document_id", "split", "text")} for row in table)
        write_documents(rows, tmp_path / f"{name}.parquet", content, {})
    write_json(tmp_path / "config.json", json.loads((job / "config.json").read_text()))
    other = read_sealed(trained(tmp_path, 0))
    for ours, theirs in zip(files[0]["trials"], other["trials"], strict=True):
        assert ours["variant"] == theirs["variant"] and ours["choice"] == theirs["choice"]
        assert ours["training_bytes"] == theirs["training_bytes"]
        assert ours["facts"]["vocabulary"] == theirs["facts"]["vocabulary"]
        assert ours["bits_per_byte"] != theirs["bits_per_byte"]


def test_no_document_is_in_two_parts(job):
    config = json.loads((job / "config.json").read_text())
    parsed = step.TokenizersJob(**config)
    paths = {name: job / f"{name}.parquet" for name in ("english", "kana")}
    for variant in step.variants(parsed):
        corpus = step.read_corpus(parsed, paths, variant)
        parts = [set(part) for part in (corpus.training, corpus.validation, corpus.test)]
        assert [len(part) for part in parts] == [24, 4, 6]
        assert len(set().union(*parts)) == 34


def test_facts_are_those_of_the_kinds(files):
    for trial in files[0]["trials"]:
        facts, kind = trial["facts"], trial["variant"]["kind"]
        assert facts["rebuilt"] == 1 and facts["vocabulary"] <= SMALL.vocabulary_size
        assert facts["embedding_parameters"] == facts["vocabulary"] * SMALL.d_model
        if kind == "bpe":
            assert facts["round_trip"] == 1 and facts["unknown"] == {"tokens": 0, "bytes": 0}
        if kind == "character":
            assert facts["fertility"]["per_character"] == 1
        if kind == "whitespace":
            lines = facts["fertility"]["per_word"]
            assert 1 <= lines < 2
            if trial["variant"]["dataset"] == "kana":
                assert facts["round_trip"] == 0 and facts["unknown"]["bytes"] > 0.9
        is_changed = trial["variant"]["normalization"] == "NFKC"
        assert (facts["changed"]["documents"] > 0.3) == is_changed
        if is_changed:
            assert facts["merged_by_nfkc"] == 0
    json.dumps(files, allow_nan=False)


def test_a_killed_seed_ends_with_the_same_file(job, files, monkeypatch):
    real = step.trial

    def killing(corpus, kind, parameters, seed, kept, report, device):
        def dying(number, loss):
            report(number, loss)
            # The first rate was tried, and the second is.
            if kind == "unigram" and number == 3:
                raise Killed

        return real(corpus, kind, parameters, seed, kept, dying, device)

    monkeypatch.setattr(step, "trial", killing)
    with pytest.raises(Killed):
        trained(job, 1, "killed")
    monkeypatch.setattr(step, "trial", real)
    seen = []
    monkeypatch.setattr(step, "trial", lambda *a: seen.append(a[1]) or real(*a))
    output = trained(job, 1, "killed")
    # The three that were done are not done again.
    assert seen[0] == "unigram" and len(seen) == 9
    assert output.read_bytes() == (job / "1.json").read_bytes()
    assert not (job / "partial1killed").exists()


def test_the_summary_is_arithmetic_over_seeds(files, measured):
    assert len(measured["tokenizers"]) == 12
    totals = {
        tuple(trial["variant"].values()): [
            next(t for t in file["trials"] if t["variant"] == trial["variant"])[
                "bits_per_original_byte"
            ]["total"]
            for file in files
        ]
        for trial in files[0]["trials"]
    }
    for entry in measured["tokenizers"]:
        key = entry["dataset"], entry["normalization"], entry["kind"]
        assert entry["bits_per_original_byte"]["total"]["values"] == totals[key]
        assert entry["bits_per_original_byte"]["total"]["value"] == pytest.approx(
            np.mean(totals[key])
        )
    assert len(measured["differences"]) == 9
    for entry in measured["normalizations"]:
        ours, theirs = (totals[entry["dataset"], form, entry["kind"]] for form in ("NFKC", "none"))
        assert entry["bits_per_original_byte"]["values"] == pytest.approx(np.subtract(ours, theirs))
    assert [entry["kind"] for entry in measured["normalizations"]] == KINDS
    for entry in measured["differences"]:
        assert entry["reference"] == "bpe" and entry["kind"] != "bpe"


def test_a_training_ended_if_it_was_not_cut_off(files):
    most = SMALL.optimization.steps
    cut, ended = json.loads(json.dumps(files)), json.loads(json.dumps(files))
    for cut_file, ended_file in zip(cut, ended, strict=True):
        for number, trial in enumerate(cut_file["trials"]):
            trial["choice"]["steps"] = most
            ended_file["trials"][number]["choice"]["steps"] = most - 1
    ended[1]["trials"][2]["choice"]["steps"] = most
    of_cut, of_ended = (summary.summarise(each, 0.9).tokenizers for each in (cut, ended))
    assert [entry.ended for entry in of_cut] == [0] * 12
    assert [entry.ended for entry in of_ended] == [2, 2, 1, *[2] * 9]


def test_tokenizers_that_differ_between_seeds_are_refused(files):
    other = json.loads(json.dumps(files[1]))
    other["trials"][2]["facts"]["vocabulary"] += 1
    with pytest.raises(ArtifactError, match="english none bpe differ"):
        summary.summarise([files[0], other], 0.95)


def test_the_measurement_is_written(job, files, tmp_path):
    paths = [str(trained(job, seed)) for seed in (0, 1)]
    write_json(tmp_path / "c.json", {"name": "sample", "seeds": [0, 1], "confidence": 0.95})
    import typer

    app = typer.Typer()
    app.command()(summary.main)
    options = ["--config", str(tmp_path / "c.json"), "--output", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, [*paths, *options], catch_exceptions=False)
    assert result.exit_code == 0
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "tokenizers" and written["catalogue"] == ["D3"]
    # No text of a data set.
    assert not any(ord(c) > 0x2FFF for c in (tmp_path / "out.json").read_text())


def test_what_is_missing_is_named(job):
    few = {**SMALL.model_dump(), "training_documents": 30}
    with pytest.raises(ArtifactError, match=r"training_documents and .* 34 .* has 30"):
        trained(job, 0, "few", parameters=few)
    absent = {**SMALL.model_dump(), "datasets": ["english", "other"]}
    with pytest.raises(ArtifactError, match=r"data set other"):
        trained(job, 0, "absent", parameters=absent)
    texts = json.loads((job / "config.json").read_text())["texts"]
    texts["english"]["evaluation"]["split"] = "train"
    with pytest.raises(ArtifactError, match=r"english.evaluation.split is 'train'"):
        trained(job, 0, "split", texts=texts)


# The figure.


def test_the_figure_shows_the_bits_and_their_intervals(measured):
    sections = synthetic.params_of().figures
    measurement = {"measurement": "tokenizers", "run": {}, "status": "measured", **measured}
    figure = figure_of.draw([measurement], sections.tokenizers, sections.style)
    check_texts(figure)
    points = [
        line.get_xdata()[0]
        for line in figure.axes[0].get_lines()
        if line.get_marker() == "o" and len(line.get_xdata()) == 1
    ]
    assert sorted(points) == sorted(
        entry["bits_per_original_byte"]["total"]["value"] for entry in measured["tokenizers"]
    )
    falls = [line.get_xdata()[0] for line in figure.axes[1].get_lines() if line.get_marker() == "o"]
    assert falls == [100 * entry["fall"]["value"] for entry in measured["tokenizers"]]
    ends = {tuple(line.get_xdata()) for line in figure.axes[0].get_lines()}
    for entry in measured["tokenizers"]:
        total = entry["bits_per_original_byte"]["total"]
        assert (total["low"], total["high"]) in ends
    fewer = [entry for entry in measured["tokenizers"] if entry["dataset"] == "english"]
    more = [{**entry, "dataset": "another_data_set"} for entry in fewer]
    for entries in (fewer, [*measured["tokenizers"], *more]):
        figure = figure_of.draw(
            [{**measurement, "tokenizers": entries}], sections.tokenizers, sections.style
        )
        check_texts(figure)
    absent = {**measurement, "status": "not run", "reason": "too large"}
    figure = figure_of.draw([absent], sections.tokenizers, sections.style)
    assert "too large" in texts(figure)[0].get_text()
