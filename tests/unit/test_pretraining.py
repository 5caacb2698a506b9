"""Pre-training: matched networks, their losses, and the trials of a seed from start to end."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn import functional

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.files import ArtifactError, read_sealed, write_json
from posenc.datasets.documents import write_documents
from posenc.datasets.section import Content, Evaluation
from posenc.experiments.pretraining import figure as figure_of
from posenc.experiments.pretraining import (
    summary as pretraining,
)
from posenc.experiments.pretraining import (
    trials as pretraining_trials,
)
from posenc.experiments.pretraining.documents import draw
from posenc.experiments.pretraining.network import (
    ARCHITECTURES,
    Sizes,
    build,
    finetuning_loss,
    parameter_count,
    text_losses,
    transfer,
)
from posenc.experiments.pretraining.section import PretrainingTraining
from posenc.metrics.parameter_matching import (
    lstm_parameters,
    lstm_width,
    relative_difference,
    transformer_parameters,
)
from posenc.tokens.tokenize import END_OF_TEXT, train_bpe

from . import synthetic
from .damage import Killed, flip
from .test_figures import check_texts, texts

PARAMS = synthetic.params_of()
SIZES = Sizes(vocabulary=50, tokens=12, n_layers=2, d_model=16, n_heads=2, classes=2)
STEPS = {
    "steps": 4, "batch": 4, "learning_rate": 1e-3, "warmup_steps": 2, "weight_decay": 0.1,
    "precision": "float32", "validate_steps": 2, "patience": None, "checkpoint_steps": 2,
}  # fmt: skip
TINY = PretrainingTraining(
    dataset="reviews",
    pretraining_documents=20,
    training_documents=13,
    validation_documents=6,
    test_documents=10,
    vocabulary_size=300,
    tokens=12,
    n_layers=2,
    d_model=16,
    n_heads=2,
    auxiliary_weight=0.5,
    zero_shot={
        "prompt": "town",
        "words": {"pos": "good", "neg": "bad"},
        "control": {"pos": "old", "neg": "many"},
    },
    pretraining=STEPS,
    finetuning=STEPS,
)
EVALUATION = Evaluation(split="test", documents=2, seed=0)

pytestmark = pytest.mark.usefixtures("one_thread")


def batch(seed=0):
    """Ids of three texts of different lengths, their lengths and labels."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SIZES.vocabulary, (3, SIZES.tokens), generator=generator)
    return ids, torch.tensor([12, 5, 2]), torch.tensor([0, 1, 1])


# --- Numbers of parameters -----------------------------------------------------------------------


@pytest.mark.parametrize("d_model", [16, 64])
def test_counts_are_those_of_the_networks(d_model):
    sizes = Sizes(50, 12, 3, d_model, 2, 2)
    target = transformer_parameters(3, d_model, 12)
    width = lstm_width(target, d_model)
    table = 50 * d_model
    assert parameter_count(build("transformer", sizes, 0)) == target + table
    assert parameter_count(build("lstm", sizes, 0)) == lstm_parameters(d_model, width) + table


@settings(deadline=None)
@given(target=st.integers(1, 200_000), d_model=st.integers(1, 64))
def test_no_other_width_is_nearer(target, d_model):
    width = lstm_width(target, d_model)
    apart = abs(lstm_parameters(d_model, width) - target)
    for other in (width - 1, width + 1):
        assert other < 1 or abs(lstm_parameters(d_model, other) - target) >= apart


@pytest.mark.parametrize("name", PARAMS.experiments.pretraining)
def test_the_sizes_of_params_yaml_match_within_two_per_cent(name):
    p = PARAMS.experiments.pretraining[name]
    target = transformer_parameters(p.n_layers, p.d_model, p.tokens)
    other = lstm_parameters(p.d_model, lstm_width(target, p.d_model))
    assert relative_difference(target, other) < 0.02


def test_sizes_below_one_are_refused():
    for call in (
        lambda: transformer_parameters(0, 8, 8),
        lambda: lstm_parameters(8, 0),
        lambda: lstm_width(0, 8),
        lambda: relative_difference(0, 8),
    ):
        with pytest.raises(ValueError, match="at least 1"):
            call()


# --- Networks against the library, by hand, and against themselves --------------------------------


def test_the_transformer_is_the_library_s_own():
    from transformers import GPT2ForSequenceClassification, GPT2LMHeadModel

    ours = build("transformer", SIZES, 0).eval()
    ids, lengths, labels = batch()
    config = ours.decoder.config
    config.num_labels, config.pad_token_id = 2, 49
    ids[ids == 49] = 48
    padded = torch.where(torch.arange(SIZES.tokens) < lengths[:, None], ids, 49)
    language = GPT2LMHeadModel(config).eval()
    classifier = GPT2ForSequenceClassification(config).eval()
    for other in (language, classifier):
        other.transformer.load_state_dict(ours.decoder.state_dict())
    classifier.score.load_state_dict(ours.classifier.state_dict())
    with torch.inference_mode():
        states = ours.states(padded)
        expected = language(ids)
        torch.testing.assert_close(ours.next_token_logits(ours.states(ids)), expected.logits)
        # Its own loss is the mean over all tokens that are predicted.
        whole = text_losses(expected.logits, ids, torch.full((3,), 12)).sum() / (3 * 11)
        torch.testing.assert_close(whole, language(ids, labels=ids).loss)
        logits = classifier(padded, attention_mask=(padded != 49).long()).logits
        torch.testing.assert_close(ours.class_logits(states, lengths), logits)
        torch.testing.assert_close(
            finetuning_loss(ours, padded, lengths, labels, 0.0),
            functional.cross_entropy(logits, labels),
        )


def test_the_lstm_is_its_equations():
    network = build("lstm", SIZES, 0).eval()
    ids, _, _ = batch()
    weights = {name: p.detach().double() for name, p in network.named_parameters()}
    width = network.lstm.hidden_size
    hidden = cell = torch.zeros(3, width, dtype=torch.float64)  # [batch, width]
    with torch.inference_mode():
        states = network.states(ids)  # [batch, tokens, d_model]
    for place in range(SIZES.tokens):
        x = weights["embedding.weight"][ids[:, place]]  # [batch, d_model]
        gates = (
            x @ weights["lstm.weight_ih_l0"].T
            + weights["lstm.bias_ih_l0"]
            + hidden @ weights["lstm.weight_hh_l0"].T
            + weights["lstm.bias_hh_l0"]
        )
        enter, forget, new, leave = gates.split(width, dim=1)  # [batch, width] each
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        hidden = torch.sigmoid(leave) * torch.tanh(cell)
        state = hidden @ weights["projection.weight"].T + weights["projection.bias"]
        torch.testing.assert_close(states[:, place].double(), state, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_neither_the_future_nor_padding_changes_a_loss(architecture):
    network = build(architecture, SIZES, 0).eval()
    ids, lengths, labels = batch()
    other, _, _ = batch(seed=1)
    changed = torch.where(torch.arange(SIZES.tokens) < lengths[:, None], ids, other)
    assert not torch.equal(ids, changed)
    with torch.inference_mode():
        loss, altered = (finetuning_loss(network, x, lengths, labels, 0.5) for x in (ids, changed))
        torch.testing.assert_close(loss, altered)
        cut = network.states(ids[:, :5])
        torch.testing.assert_close(network.states(ids)[:, :5], cut)


def test_the_loss_of_a_text_is_that_of_its_tokens_alone():
    logits = torch.randn(3, 12, 50, generator=torch.Generator().manual_seed(0))
    ids, lengths, _ = batch()
    losses = text_losses(logits, ids, lengths)
    for row, length in enumerate(lengths.tolist()):
        chances = torch.softmax(logits[row].double(), dim=1)  # [tokens, vocabulary]
        by_hand = -sum(math.log(chances[t, ids[row, t + 1]]) for t in range(length - 1))
        assert float(losses[row]) == pytest.approx(by_hand, rel=1e-5)
    # A uniform model needs log V nats per token.
    uniform = text_losses(torch.zeros(3, 12, 50), ids, lengths)
    np.testing.assert_allclose(uniform, (lengths - 1) * math.log(50), rtol=1e-6)


# --- The auxiliary loss ---------------------------------------------------------------------------


def parts_of_the_loss(network, ids, lengths, labels):
    """Equation 5's L2 and L1, written out."""
    states = network.states(ids)
    classes = functional.cross_entropy(network.class_logits(states, lengths), labels)
    language = text_losses(network.next_token_logits(states), ids, lengths) / (lengths - 1)
    return classes, language.mean()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lambda_0_is_no_auxiliary_term_to_the_bit(architecture):
    """Weights after steps of AdamW: the function, no term at all, and a term times 0."""

    def none(*given):
        return parts_of_the_loss(*given)[0]

    def times_zero(*given):
        classes, language = parts_of_the_loss(*given)
        return classes + 0.0 * language

    results = []
    for loss in (lambda *given: finetuning_loss(*given, 0.0), none, times_zero):
        network = build(architecture, SIZES, 0)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.1)
        for step in range(4):
            optimizer.zero_grad(set_to_none=True)
            loss(network, *batch(step)).backward()
            optimizer.step()
        results.append((network.state_dict(), [p.grad for p in network.parameters()]))
    for weights, gradients in results[1:]:
        assert all(torch.equal(weights[name], results[0][0][name]) for name in weights)
        assert all(torch.equal(a, b) for a, b in zip(gradients, results[0][1], strict=True))


@settings(deadline=None, max_examples=10)
@example(weight=1.0)
@given(weight=st.floats(0.01, 3))
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_loss_is_equation_5(architecture, weight):
    network = build(architecture, SIZES, 0)
    loss = finetuning_loss(network, *batch(), weight)
    classes, language = parts_of_the_loss(network, *batch())
    torch.testing.assert_close(loss, classes + weight * language)
    parameters = list(network.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    for got, a, b in zip(
        gradients,
        torch.autograd.grad(classes, parameters, retain_graph=True),
        torch.autograd.grad(language, parameters, allow_unused=True),
        strict=True,
    ):
        # The classifier is no part of the language model.
        torch.testing.assert_close(got, a + weight * (0 if b is None else b), atol=1e-6, rtol=1e-4)


# --- Transfer -------------------------------------------------------------------------------------


def test_what_is_transferred_is_the_embeddings_and_the_first_blocks():
    trained = build("transformer", SIZES, 1).state_dict()
    trained["decoder.ln_f.weight"] = trained["decoder.ln_f.weight"] + 1
    for layers in (0, 1, 2, None):
        network = build("transformer", SIZES, 2)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        transfer(network, trained, layers)
        for name, value in network.state_dict().items():
            block = int(name.split(".")[2]) if ".h." in name else None
            wanted = (
                name.startswith(("decoder.wte", "decoder.wpe"))
                or (block is not None and (layers is None or block < layers))
                or (name.startswith("decoder.ln_f") and layers is None)
            )
            assert torch.equal(value, trained[name] if wanted else before[name]), (name, layers)
    with pytest.raises(ValueError, match="3 of 2 blocks"):
        transfer(build("transformer", SIZES, 2), trained, 3)
    with pytest.raises(ValueError, match="blocks of a Transformer"):
        transfer(build("lstm", SIZES, 2), build("lstm", SIZES, 1).state_dict(), 0)


def test_all_of_an_lstm_is_transferred_except_the_classifier():
    trained, network = build("lstm", SIZES, 1), build("lstm", SIZES, 2)
    own = network.classifier.weight.clone()
    transfer(network, trained.state_dict())
    assert torch.equal(network.classifier.weight, own)
    ids, _, _ = batch()
    assert torch.equal(network.states(ids), trained.states(ids))


# --- Documents ------------------------------------------------------------------------------------


def reviews(path, train=60, test=20):
    """Short reviews whose last word tells the label; some are twice in the file."""
    generator = np.random.default_rng(0)
    text = "a film of some kind that was seen by many people in the old town"
    words = np.array(text.split(" "))
    rows = []
    for split, count in (("train", train), ("test", test)):
        for number in range(count):
            text = " ".join(generator.choice(words, 14))
            label = "pos" if number % 2 else "neg"
            rows.append((split, f"{text} {'good' if label == 'pos' else 'bad'}.", label))
    # The same review under other identities, and in both splits.
    rows += [rows[0], ("train", *rows[-1][1:]), ("train", *rows[-2][1:])]
    content = Content(format="imdb", text={"line_breaks": "newline", "normalization": "NFKC"})
    documents = [
        {"document_id": f"{split}/{i}", "split": split, "text": text, "label": label}
        for i, (split, text, label) in enumerate(rows)
    ]
    write_documents(documents, path, content, {})
    return documents


def test_no_text_is_in_two_parts_and_labels_are_balanced(tmp_path):
    documents = reviews(tmp_path / "reviews.parquet")
    split = {document["text"]: document["split"] for document in reversed(documents)}
    drawn = [draw(tmp_path / "reviews.parquet", EVALUATION, TINY, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for parts in drawn:
        every = [text for part in parts.values() for text, _ in part]
        assert len(set(every)) == len(every)
        for name in ("training", "validation", "test"):
            counts = Counter(label for _, label in parts[name])
            assert sum(counts.values()) == getattr(TINY, f"{name}_documents")
            assert max(counts.values()) - min(counts.values()) <= 1
        assert all(split[text] == "test" for text, _ in parts["test"])
        assert all(label is None for _, label in parts["pretraining"])
    # Even where the same split is tested on.
    same = draw(
        tmp_path / "reviews.parquet", Evaluation(split="train", documents=2, seed=0), TINY, 0
    )
    every = [text for part in same.values() for text, _ in part]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_documents": 40}, r"test_documents asks for 40 .* has 10 of one"),
        ({"training_documents": 70}, r"training_documents asks for 70"),
        ({"pretraining_documents": 50}, r"pretraining_documents asks for 50 .* beside those with"),
    ],
)
def test_too_few_documents_are_named(tmp_path, changed, message):
    reviews(tmp_path / "reviews.parquet")
    asked = TINY.model_copy(update=changed)
    with pytest.raises(ArtifactError, match=message):
        draw(tmp_path / "reviews.parquet", EVALUATION, asked, 0)


def test_what_has_no_labels_is_refused(tmp_path):
    reviews(tmp_path / "reviews.parquet", test=1)
    with pytest.raises(ArtifactError, match=r"'test' of reviews has 1 labels"):
        draw(tmp_path / "reviews.parquet", EVALUATION, TINY, 0)


def test_sizes_that_do_not_fit_are_named(tmp_path):
    reviews(tmp_path / "reviews.parquet")
    parts = draw(tmp_path / "reviews.parquet", EVALUATION, TINY, 0)
    uneven = TINY.model_copy(update={"n_heads": 3})
    with pytest.raises(ArtifactError, match=r"d_model 16 is not a multiple of n_heads 3"):
        pretraining_trials.Experiment(uneven, parts, 0, "cpu")


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents") / "reviews.parquet"
    reviews(path)
    parts = draw(path, EVALUATION, TINY, 0)
    return parts, pretraining_trials.Experiment(TINY, parts, 0, "cpu")


def test_classifiers_read_the_end_of_a_text_and_language_models_its_beginning(experiment):
    parts, trials = experiment
    tokenizer = train_bpe([text for text, _ in parts["pretraining"]], TINY.vocabulary_size)
    first = tokenizer.token_to_id(END_OF_TEXT)
    ends, beginnings = trials.ends["test"], trials.beginnings["test"]
    for row, (text, label) in enumerate(parts["test"]):
        for kept, cut in ((ends, slice(-11, None)), (beginnings, slice(11))):
            length = int(kept.lengths[row])
            assert kept.ids[row, :length].tolist() == [first, *tokenizer.encode(text).ids[cut]]
        assert int(ends.labels[row]) == ["neg", "pos"].index(label)


def test_quality_of_a_language_model_is_that_of_its_texts_one_by_one(experiment):
    parts, trials = experiment
    network = trials._network("transformer", "pretraining").eval()
    quality = trials.language(network, "test")
    total, tokens = 0.0, 0
    beginnings = trials.beginnings["test"]
    for row, length in enumerate(beginnings.lengths.tolist()):
        ids = beginnings.ids[row : row + 1, :length]
        with torch.inference_mode():
            logits = network.next_token_logits(network.states(ids))[0].double()
        total += float(functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum"))
        tokens += length - 1
    tokenizer = train_bpe([text for text, _ in parts["pretraining"]], TINY.vocabulary_size)
    covered = sum(
        len(text[: tokenizer.encode(text).offsets[:11][-1][1]].encode())
        for text, _ in parts["test"]
    )
    assert quality["tokens"] == tokens and quality["bytes"] == covered
    assert quality["nll"] == pytest.approx(total / tokens, rel=1e-5)
    assert quality["perplexity"] == pytest.approx(math.exp(total / tokens), rel=1e-4)
    assert quality["bits_per_byte"] == pytest.approx(total / math.log(2) / covered, rel=1e-5)


def test_zero_shot_is_the_word_that_a_text_makes_more_likely(experiment):
    """Word by word with softmax in float64, and each pair of texts by hand."""
    parts, trials = experiment
    tokenizer = train_bpe([text for text, _ in parts["pretraining"]], TINY.vocabulary_size)
    first = tokenizer.token_to_id(END_OF_TEXT)
    network = trials._network("lstm", "pretraining").eval()
    scores = trials.zero_shot(network)
    labels = [label for _, label in parts["test"]]
    for kind, words in TINY.zero_shot.answers.items():
        difference = []
        for text, _ in parts["test"]:
            # A text that has the prompt is asked where it stands last.
            text = text[: text.rindex(" town ")] if " town " in text else text
            losses = {}
            for label, word in words.items():
                ids = {part: tokenizer.encode(part).ids for part in (text, " town", f" {word}")}
                longest = max(len(tokenizer.encode(f" {answer}").ids) for answer in words.values())
                room = TINY.tokens - 1 - len(ids[" town"]) - longest
                whole = [first, *ids[text][-room:], *ids[" town"], *ids[f" {word}"]]
                with torch.inference_mode():
                    states = network.states(torch.tensor([whole]))
                    logits = network.next_token_logits(states)[0].double()  # [tokens, vocabulary]
                chances = logits.log_softmax(1)
                count = len(ids[f" {word}"])
                losses[label] = -sum(
                    float(chances[place - 1, whole[place]])
                    for place in range(len(whole) - count, len(whole))
                )
            difference.append(losses["neg"] - losses["pos"])
        right = np.mean(
            [(d > 0) == (label == "pos") for d, label in zip(difference, labels, strict=True)]
        )
        assert scores[kind] == pytest.approx(right)
        pairs = [
            (a > b) + 0.5 * (a == b)
            for a, own_label in zip(difference, labels, strict=True)
            for b, other in zip(difference, labels, strict=True)
            if own_label == "pos" and other == "neg"
        ]
        assert scores[f"{kind}_ranked"] == pytest.approx(np.mean(pairs), abs=0.05)
    assert any(" town " in text for text, _ in parts["test"])


def test_a_language_model_that_knows_the_word_is_right(experiment, monkeypatch):
    """Planted: a network that gives the label's word all the probability, and the other none."""
    _, trials = experiment
    network = trials._network("transformer", "pretraining").eval()
    answers: dict[int, list[list[int]]] = {}
    for rows, _ in trials.questions["words"]:
        for row, (ids, length) in enumerate(zip(rows.ids, rows.lengths, strict=True)):
            answers.setdefault(row, []).append(ids[: int(length)].tolist())
    right = {tuple(own[trials.ends["test"].labels[row]]) for row, own in answers.items()}

    def logits(states):
        values = torch.full((*states.shape[:2], trials.vocabulary), -9.0)
        for row, ids in enumerate(states[..., 0].long().tolist()):
            for place in range(len(ids) - 1):
                values[row, place, ids[place + 1]] = (
                    9.0 if any(tuple(ids[: len(answer)]) == answer for answer in right) else -9.0
                )
        return values

    monkeypatch.setattr(network, "states", lambda ids: ids[..., None].float())
    monkeypatch.setattr(network, "next_token_logits", logits)
    scores = trials.zero_shot(network)
    assert scores["words"] == scores["words_ranked"] == 1
    assert scores["control"] == scores["control_ranked"] == 0.5


def test_words_for_labels_that_are_not_there_are_named(tmp_path):
    reviews(tmp_path / "reviews.parquet")
    parts = draw(tmp_path / "reviews.parquet", EVALUATION, TINY, 0)
    words = {"good": "good", "bad": "bad"}
    other = TINY.zero_shot.model_copy(update={"words": words, "control": words})
    wrong = TINY.model_copy(update={"zero_shot": other})
    with pytest.raises(ArtifactError, match=r"words for \['bad', 'good'\], but reviews has"):
        pretraining_trials.Experiment(wrong, parts, 0, "cpu")
    long = TINY.zero_shot.model_copy(update={"prompt": "in the old town " * 4})
    with pytest.raises(ArtifactError, match="take all 11 tokens of a text: shorten them"):
        pretraining_trials.Experiment(TINY.model_copy(update={"zero_shot": long}), parts, 0, "cpu")
    with pytest.raises(ValueError, match="need the same two labels"):
        type(other)(prompt="very", words={"pos": "good"}, control={"neg": "bad"})


# --- The trials of a seed -------------------------------------------------------------------------


@pytest.fixture
def options(tmp_path):
    reviews(tmp_path / "reviews.parquet")
    job = {"parameters": TINY.model_dump(), "evaluation": EVALUATION.model_dump(), "device": "cpu"}
    write_json(tmp_path / "config.json", job)

    def of(name, seed=0):
        return {
            "seed": seed,
            "config": tmp_path / "config.json",
            "documents": [tmp_path / "reviews.parquet"],
            "output": tmp_path / f"{name}.json",
            "partial": tmp_path / f"{name}.partial",
        }

    return of


def killed_after(monkeypatch, saves, **options):
    """Run until so many states are on disk."""
    save, count = Checkpoint.save, itertools.count(1)

    def kill(self, state):
        save(self, state)
        if next(count) == saves:
            raise Killed

    with monkeypatch.context() as changed, pytest.raises(Killed):
        changed.setattr(Checkpoint, "save", kill)
        pretraining_trials.main(**options)


def test_a_killed_seed_ends_with_the_same_bytes(options, monkeypatch, capsys):
    pretraining_trials.main(**options("undisturbed"))
    expected = options("undisturbed")["output"].read_bytes()
    assert not options("undisturbed")["partial"].exists()
    assert "parameters: transformer" in capsys.readouterr().err
    # After the first checkpoint, after the weights of the first pre-training, in a fine-tuning.
    for saves in (1, 3, 7):
        again = options(f"killed {saves}")
        killed_after(monkeypatch, saves, **again)
        assert not again["output"].exists()
        pretraining_trials.main(**again)
        assert again["output"].read_bytes() == expected
        assert not again["partial"].exists()
    # Weights that are lost, or damaged, are made again, and what was made of them.
    for number, damage in enumerate((Path.unlink, flip)):
        again = options(f"lost {number}")
        killed_after(monkeypatch, 14, **again)
        assert len(read_sealed(again["partial"] / "done.json")["trials"]) > 2
        damage(again["partial"] / "lstm.pt")
        pretraining_trials.main(**again)
        assert again["output"].read_bytes() == expected
    pretraining_trials.main(**options("undisturbed"))
    assert "is current" in capsys.readouterr().err


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Trials of two seeds."""
    folder = tmp_path_factory.mktemp("seeds")
    reviews(folder / "reviews.parquet")
    job = {"parameters": TINY.model_dump(), "evaluation": EVALUATION.model_dump(), "device": "cpu"}
    write_json(folder / "config.json", job)
    for seed in (0, 1):
        pretraining_trials.main(
            seed=seed, config=folder / "config.json", documents=[folder / "reviews.parquet"],
            output=folder / f"{seed}.json", partial=folder / f"partial{seed}",
        )  # fmt: skip
    return [folder / "0.json", folder / "1.json"]


def test_every_variant_is_there_once(files):
    first = read_sealed(files[0])
    encoded = [json.dumps(trial["variant"], sort_keys=True) for trial in first["trials"]]
    assert len(encoded) == len(set(encoded)) == 2 + 8 + TINY.n_layers
    assert first["run"] == {"dataset": "reviews"}
    for trial in first["trials"]:
        assert trial["steps"] == STEPS["steps"]
        assert trial["validation_loss"] == min(r["validation_loss"] for r in trial["curve"])
        assert "validation" not in trial or trial["validation"]["nll"] == trial["validation_loss"]
    variants, other = ([t["variant"] for t in read_sealed(path)["trials"]] for path in files)
    assert variants == other


# --- The summary ----------------------------------------------------------------------------------


def synthetic_files(seeds=3, n_layers=3):
    """Trials whose accuracies follow a rule: .5 + .2 pre-trained + .05 auxiliary + ..."""
    generator = np.random.default_rng(0)
    parameters = {
        **TINY.model_copy(update={"n_layers": n_layers}).model_dump(),
        "test_split": "test",
    }
    asked = TINY.model_copy(update={"n_layers": n_layers})
    out = []
    for seed in range(seeds):
        shift = generator.normal(scale=0.03)
        quality = {"nll": 2.0, "perplexity": math.exp(2), "bits_per_byte": 1.1}
        trials = [
            {
                "variant": {"stage": "pretraining", "architecture": name},
                "parameters": 1000 + index,
                "validation_loss": 2.0 + shift,
                "best_step": 5,
                "steps": 6,
                "validation": quality,
                "test": quality,
                "zero_shot": [
                    {
                        "step": step,
                        "words": 0.5 + 0.1 * step + shift,
                        "words_ranked": 0.6,
                        "control": 0.5 + shift,
                        "control_ranked": 0.5,
                    }
                    for step in (0, 2, 4)
                ],
            }
            for index, name in enumerate(ARCHITECTURES)
        ]
        for variant in pretraining_trials.variants(asked):
            share = variant.get("layers", n_layers) / n_layers
            accuracy = (
                0.5
                + shift
                + 0.2 * variant["pretrained"] * share
                + 0.04 * (variant["auxiliary_weight"] > 0)
                - 0.06 * (variant["architecture"] == "lstm") * variant["pretrained"]
            )
            trials.append(
                {
                    "variant": variant,
                    "accuracy": accuracy,
                    "validation_accuracy": accuracy,
                    "validation_loss": 0.6,
                    "test_loss": 0.6,
                    "best_step": 4,
                    "steps": 6,
                }
            )
        out.append(
            {"run": {"dataset": "reviews"}, "seed": seed, "trials": trials,
             "provenance": {"parameters": parameters}}
        )  # fmt: skip
    return out


def test_planted_effects_are_found_and_pairing_removes_what_seeds_share():
    summary = pretraining.summarise(synthetic_files(), 0.95).as_json()
    effects = {effect["factor"]: effect for effect in summary["effects"]}
    # Where nothing else varies, the intervals have no width: seeds differ by a shift alone.
    expected = {"pretrained": 0.17, "auxiliary": 0.04, "architecture": 0.03}
    for factor, value in expected.items():
        for end in ("value", "low", "high"):
            assert effects[factor]["average"][end] == pytest.approx(value, abs=1e-12)
    first = {factor: effect["settings"][0] for factor, effect in effects.items()}
    assert first["pretrained"]["architecture"] == "transformer" and first["pretrained"]["auxiliary"]
    assert first["pretrained"]["difference"]["value"] == pytest.approx(0.2)
    assert first["architecture"]["difference"]["value"] == pytest.approx(0.06)
    assert [len(effect["settings"]) for effect in effects.values()] == [4, 4, 4]
    gains = [entry["gain"]["value"] for entry in summary["transfer"]]
    np.testing.assert_allclose(gains, [0, 0.2 / 3, 0.4 / 3, 0.2], atol=1e-12)
    assert [entry["layers"] for entry in summary["transfer"]] == [0, 1, 2, 3]
    assert len(summary["cells"]) == 8
    for model in summary["language_models"]:
        assert [row["step"] for row in model["zero_shot"]] == [0, 2, 4]
        gains = {key: gain["value"] for key, gain in model["zero_shot_gain"].items()}
        expected = {"words": 0.4, "words_ranked": 0, "control": 0, "control_ranked": 0}
        assert gains == pytest.approx(expected, abs=1e-12)
    json.dumps(summary, allow_nan=False)


def test_intervals_of_accuracies_stay_inside_their_bounds():
    files = synthetic_files(seeds=2)  # where Student's interval is widest
    for seed, file in enumerate(files):
        for trial in file["trials"]:
            if "accuracy" in trial:
                trial["accuracy"] = 0.5 if seed == 0 and trial["variant"]["pretrained"] else 1.0
    summary = pretraining.summarise(files, 0.95).as_json()
    accuracies = [entry["accuracy"] for entry in (*summary["cells"], *summary["transfer"])]
    assert any(accuracy["sd"] > 0 for accuracy in accuracies)
    assert all(0 <= accuracy["low"] <= accuracy["high"] <= 1 for accuracy in accuracies)
    differences = [effect["average"] for effect in summary["effects"]]
    differences += [entry["gain"] for entry in summary["transfer"]]
    differences += [s["difference"] for effect in summary["effects"] for s in effect["settings"]]
    assert any(difference["sd"] > 0 for difference in differences)
    assert all(-1 <= difference["low"] <= difference["high"] <= 1 for difference in differences)


def test_the_measurement_is_over_the_seeds_of_params_yaml(files, tmp_path):
    config = {"name": "sample", "seeds": [0, 1], "confidence": 0.9}
    write_json(tmp_path / "config.json", config)
    pretraining.main(files, tmp_path / "config.json", tmp_path / "out.json")
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "pretraining" and written["catalogue"] == ["D5"]
    assert written["sizes"]["test_split"] == "test"
    read = [read_sealed(path) for path in files]
    for cell in written["cells"]:
        values = [
            next(
                t["accuracy"]
                for t in file["trials"]
                if t["variant"]["stage"] == "finetuning"
                and t["variant"]["architecture"] == cell["architecture"]
                and t["variant"]["pretrained"] == cell["pretrained"]
                and (t["variant"]["auxiliary_weight"] > 0) == cell["auxiliary"]
            )
            for file in read
        ]
        assert cell["accuracy"]["values"] == values
        assert cell["accuracy"]["value"] == pytest.approx(np.mean(values))
    assert written["parameters"]["relative_difference"] <= pretraining_trials.MOST_APART


# --- The figure -----------------------------------------------------------------------------------


def test_the_figure_shows_cells_effects_and_transfer():
    measured = {
        "measurement": "pretraining",
        "run": {"dataset": "reviews"},
        "status": "measured",
        **pretraining.summarise(synthetic_files(), 0.95).as_json(),
    }
    figure = figure_of.draw([measured], PARAMS.figures.pretraining, PARAMS.figures.style)
    check_texts(figure)
    cells, effects, transferred, zero_shot = figure.axes
    shown = sorted(
        line.get_xdata()[0] for line in cells.get_lines() if line.get_marker() in ("o", "s")
    )
    expected = sorted(100 * cell["accuracy"]["value"] for cell in measured["cells"])
    np.testing.assert_allclose(shown, expected)
    shown = [line.get_xdata()[0] for line in effects.get_lines() if line.get_marker() == "D"]
    expected = [100 * effect["average"]["value"] for effect in measured["effects"]]
    np.testing.assert_allclose(shown, expected)
    (line,) = (line for line in transferred.get_lines() if line.get_marker() == "o")
    expected = [100 * entry["accuracy"]["value"] for entry in measured["transfer"]]
    np.testing.assert_allclose(line.get_ydata(), expected)
    for name, label in figure_of.ARCHITECTURES.items():
        (line,) = (line for line in zero_shot.get_lines() if line.get_gid() == name)
        (model,) = (m for m in measured["language_models"] if m["architecture"] == name)
        expected = [100 * row["words_ranked"]["value"] for row in model["zero_shot"]]
        np.testing.assert_allclose(line.get_ydata(), expected, err_msg=label)
    absent = {**measured, "status": "not run", "reason": "no documents"}
    figure = figure_of.draw([absent], PARAMS.figures.pretraining, PARAMS.figures.style)
    assert "no documents" in texts(figure)[0].get_text()
