"""Memory networks: stories whose answers are known, modules against loops, what each can answer."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from posenc.artifacts.checkpoints import Checkpoint
from posenc.artifacts.files import read_sealed, write_json, write_sealed
from posenc.experiments.memory_networks import figure as figure_of
from posenc.experiments.memory_networks import summary as summary
from posenc.experiments.memory_networks import trials as step
from posenc.experiments.memory_networks.network import (
    MARGIN,
    Answered,
    BagOfWords,
    Dynamic,
    EndToEnd,
    Sizes,
    StronglySupervised,
    turn_facts,
)
from posenc.experiments.memory_networks.section import MemoryNetworksTraining
from posenc.experiments.memory_networks.stories import (
    PEOPLE,
    PLACES,
    TASKS,
    VOCABULARY,
    generate,
    guess_levels,
)
from posenc.metrics.stories import guess_test, word_positions

from . import synthetic
from .damage import Killed
from .test_figures import check_texts, texts

OPTIMIZATION = {
    "steps": 6,
    "batch": 8,
    "learning_rate": 1e-2,
    "warmup_steps": 2,
    "weight_decay": 0.0,
    "precision": "float32",
    "validate_steps": 3,
    "patience": None,
    "checkpoint_steps": 2,
}
PARAMETERS = MemoryNetworksTraining(
    tasks=["order"],
    training_stories=60,
    validation_stories=12,
    test_stories=24,
    d_model=6,
    hops=[1, 2],
    linear_steps=3,
    optimization=OPTIMIZATION,
    dynamic=OPTIMIZATION,
    attempts=2,
)
FIGURES = synthetic.params_of().figures

pytestmark = pytest.mark.usefixtures("one_thread")


def text(numbers):
    """Words of a sentence, which all come before what fills it up."""
    words = [VOCABULARY[number] for number in numbers]
    count = sum(word != "" for word in words)
    assert all(words[:count]) and not any(words[count:])
    return words[:count]


def told(stories):
    """Sentences, question, answer and facts of each story, in words."""
    for place in range(len(stories)):
        sentences = [text(sentence) for sentence in stories.sentences[place]]
        yield (
            sentences,
            text(stories.questions[place]),
            VOCABULARY[stories.answers[place]],
            stories.facts[place].tolist(),
        )


def solve(task, sentences, question):
    """Answer and supporting sentences, found from the words alone."""
    if task == "one_fact":
        (last,) = [n for n, sentence in enumerate(sentences) if sentence[0] == question[-1]][-1:]
        return sentences[last][-1], [last]
    if task == "two_facts":
        (first,) = [
            n for n, sentence in enumerate(sentences) if sentence[:2] == [question[-2], "carried"]
        ]
        thing = sentences[first][-1]
        (second,) = [n for n, sentence in enumerate(sentences) if sentence[:2] == ["the", thing]]
        return sentences[second][-1], [first, second]
    # "the a is north of the b"; "what is north of the b" or "what is the b north of".
    is_first_wanted = question[-2] == "the"
    place, direction = (
        (question[-1], question[2]) if is_first_wanted else (question[3], question[4])
    )
    wanted, known = (1, 6) if is_first_wanted else (6, 1)
    (index,) = [
        n
        for n, sentence in enumerate(sentences)
        if (sentence[known], sentence[3]) == (place, direction)
    ]
    return sentences[index][wanted], [index]


@pytest.mark.parametrize("task", TASKS)
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_supporting_sentences_prove_every_answer(task, seed):
    for sentences, question, answer, facts in told(generate(task, 24, seed)):
        assert solve(task, sentences, question) == (answer, facts)
        # The supporting sentences alone are enough.
        alone, _ = solve(task, [sentences[fact] for fact in facts], question)
        assert alone == answer


@pytest.mark.parametrize("task", TASKS)
def test_answers_are_balanced_and_stories_differ(task):
    stories = generate(task, 240, 3)
    _, counts = np.unique(stories.answers, return_counts=True)
    assert counts.tolist() == [40] * len(PLACES)
    keys = {
        (*map(tuple, s), *q)
        for s, q in zip(stories.sentences.tolist(), stories.questions.tolist(), strict=True)
    }
    assert len({str(key) for key in keys}) == 240
    again, other = generate(task, 240, 3), generate(task, 240, 4)
    assert np.array_equal(stories.sentences, again.sentences)
    assert not np.array_equal(stories.sentences, other.sentences)
    # The first stories do not depend on how many are drawn.
    assert np.array_equal(stories.rows(slice(24)).sentences, generate(task, 24, 3).sentences)


@pytest.mark.parametrize("task", TASKS)
def test_what_guesses_can_know(task):
    """The candidates that remain, each equally often the answer."""
    ranks, reached = [], []
    for sentences, question, answer, _ in told(generate(task, 1200, 0)):
        words = [word for sentence in sentences for word in sentence]
        candidates = sorted({word for word in words if word in PLACES} - set(question))
        assert len({words.count(word) for word in candidates}) == 1
        ranks.append(candidates.index(answer))
        if task == "order":
            (direction,) = {"north", "south", "east", "west"} & set(question)
            left = sorted(
                {
                    w
                    for sentence in sentences
                    if direction in sentence
                    for w in sentence
                    if w in PLACES
                }
            )
            left = [word for word in left if word not in question]
            reached.append(left.index(answer))
            assert 1 - 1 / len(left) == guess_levels(task)["sentences"]
        assert 1 - 1 / len(candidates) == pytest.approx(guess_levels(task)["story"])
    # Rarer than once in a thousand by chance; the seed is fixed.
    assert stats.chisquare(np.bincount(ranks)).pvalue > 1e-3
    assert not reached or stats.chisquare(np.bincount(reached)).pvalue > 1e-3
    assert guess_levels(task)["nothing"] == pytest.approx(1 - 1 / len(PLACES))


def test_a_story_of_order_backwards_has_the_same_words_and_another_answer():
    for sentences, question, answer, _ in told(generate("order", 60, 1)):
        backwards = [
            [sentence[0], sentence[6], *sentence[2:6], sentence[1]] for sentence in sentences
        ]
        assert [sorted(sentence) for sentence in backwards] == [
            sorted(sentence) for sentence in sentences
        ]
        other, _ = solve("order", backwards, question)
        assert other != answer


def test_the_two_questions_of_order_have_the_same_words():
    stories = generate("order", 12, 0)
    forms = {
        tuple("P" if w in PLACES else w for w in question) for _, question, _, _ in told(stories)
    }
    assert len({tuple("D" if w in {"north", "south", "east", "west"} else w for w in f)
                for f in forms}) == 2  # fmt: skip
    for answer in PLACES:
        asked = [q[-2] == "the" for _, q, a, _ in told(stories) if a == answer]
        assert sorted(asked) == [False, True]


def test_stories_that_cannot_be_drawn_are_refused():
    with pytest.raises(ValueError, match="three_facts"):
        generate("three_facts", 5, 0)
    with pytest.raises(ValueError, match="at least one"):
        generate("order", 0, 0)


@given(words=st.integers(1, 12), width=st.integers(1, 30))
def test_word_positions_are_the_published_ones(words, width):
    weights = word_positions(words, width)  # [words, width]
    for j in range(1, words + 1):
        for k in range(1, width + 1):
            # Equation of section 4.1, in fractions.
            exact = 1 - Fraction(j, words) - Fraction(k, width) * (1 - Fraction(2 * j, words))
            assert weights[j - 1, k - 1] == pytest.approx(float(exact), abs=1e-12)
    sums = (words - 1) / 2 + np.arange(1, width + 1) / width
    np.testing.assert_allclose(weights.sum(axis=0), sums, atol=1e-12)


def test_word_positions_of_nothing_are_refused():
    with pytest.raises(ValueError, match="0 words"):
        word_positions(0, 3)


@settings(deadline=None)
@given(wrong=st.lists(st.integers(0, 8), min_size=1, max_size=3), level=st.floats(0.05, 0.95))
def test_the_test_of_guesses_sums_the_chances_of_as_few_errors(wrong, level):
    test = guess_test([number / 8 for number in wrong], 8, level)
    count = 8 * len(wrong)
    chances = [
        math.comb(count, n) * level**n * (1 - level) ** (count - n) for n in range(count + 1)
    ]
    assert test.p == pytest.approx(sum(chances[: sum(wrong) + 1]), abs=1e-9)
    assert (test.wrong, test.questions) == (sum(wrong), count)


@pytest.mark.parametrize(("errors", "level"), [([0.3], 0.5), ([1.2], 0.5), ([0.5], 1.0)])
def test_errors_that_are_no_shares_are_refused(errors, level):
    with pytest.raises(ValueError, match=r"must be between|not shares"):
        guess_test(errors, 8, level)


SIZES = Sizes(vocabulary=len(VOCABULARY), sentences=8, words=7)
WIDTH = 5


def batch(task="two_facts", count=4):
    """Sentences, questions, answers and facts as tensors."""
    return step.as_tensors(generate(task, count, 7))


def numbers(value):
    return value.detach().double().numpy()


def softmax(values):
    return np.exp(values - values.max()) / np.exp(values - values.max()).sum()


def summed(table, words, has_positions):
    """A sentence by loops: Σ_j l_j ∘ (row of the table), [d]."""
    words = [int(word) for word in words if word > 0]
    weights = word_positions(len(words), table.shape[1]) if has_positions else None
    total = np.zeros(table.shape[1])
    for j, word in enumerate(words):
        total += table[word] * (weights[j] if has_positions else 1)
    return total


@pytest.mark.parametrize("has_positions", [False, True])
@pytest.mark.parametrize("hops", [1, 3])
def test_end_to_end_is_its_equations(hops, has_positions):
    torch.manual_seed(0)
    network = EndToEnd(SIZES, WIDTH, hops, has_positions, 0)
    network.sentences.embed.weight.data *= 5
    sentences, questions, _, _ = batch()
    said = network(sentences, questions)
    tables = [numbers(network.sentences.matrix(k)) for k in range(hops + 1)]  # [V, d] each
    times = numbers(network.times)  # [S, 1 + K, d]
    for story in range(len(sentences)):
        u = summed(tables[0], questions[story], has_positions)
        for hop in range(hops):
            m, c = (
                np.stack(
                    [
                        summed(tables[place], sentence, has_positions) + times[i, place]
                        for i, sentence in enumerate(sentences[story])
                    ]
                )
                for place in (hop, hop + 1)
            )  # [S, d] each
            p = softmax(m @ u)
            np.testing.assert_allclose(numbers(said.focus[story, hop]), p, atol=1e-5)
            u = u + sum(p[i] * c[i] for i in range(len(p)))
        np.testing.assert_allclose(numbers(said.scores[story]), tables[hops] @ u, atol=2e-5)


def test_attention_weights_of_every_hop_sum_to_one():
    network = EndToEnd(SIZES, WIDTH, 3, True, 0)
    network.sentences.embed.weight.data *= 100
    sentences, questions, _, _ = batch(count=30)
    focus = numbers(network(sentences, questions).focus)
    assert focus.min() >= 0
    np.testing.assert_allclose(focus.sum(axis=-1), 1, atol=1e-6)


def test_the_linear_start_has_no_softmax_in_its_training_steps_only():
    torch.manual_seed(0)
    network = EndToEnd(SIZES, WIDTH, 1, True, 2)
    sentences, questions, answers, facts = batch()
    memory = network.sentences(sentences) + network.times  # [B, S, 2, d]
    u = network.sentences(questions)[:, 0]  # [B, d]
    p = torch.einsum("bsd,bd->bs", memory[:, :, 0], u)  # [B, S]
    state = u + torch.einsum("bs,bsd->bd", p, memory[:, :, 1])  # [B, d]
    torch.testing.assert_close(
        network(sentences, questions).scores, state @ network.sentences.matrix(1).T
    )
    network.eval()
    soft = network(sentences, questions).focus
    torch.testing.assert_close(soft[:, 0], p.softmax(dim=1))
    network.loss(sentences, questions, answers, facts)
    assert int(network.steps) == 0
    network.train()
    for _ in range(2):
        assert not torch.equal(network(sentences, questions).focus, soft)
        network.loss(sentences, questions, answers, facts)
    assert torch.equal(network(sentences, questions).focus, soft)
    assert int(network.state_dict()["steps"]) == 2


def pair(has_positions):
    torch.manual_seed(1)
    return {
        "end_to_end": EndToEnd(SIZES, WIDTH, 2, has_positions, 0),
        "strongly_supervised": StronglySupervised(SIZES, WIDTH, 2, has_positions),
    }


@pytest.mark.parametrize("name", ["end_to_end", "strongly_supervised"])
def test_without_positions_a_sentence_is_a_bag_of_words(name):
    sentences, questions, _, _ = batch(count=20)
    shuffled, rng = sentences.clone(), np.random.default_rng(0)
    for story in shuffled:
        for sentence in story:
            words = int((sentence > 0).sum())
            sentence[:words] = sentence[:words][torch.from_numpy(rng.permutation(words))]
    blind, seeing = (pair(has)[name] for has in (False, True))
    before, after = (blind(stories, questions).scores for stories in (sentences, shuffled))
    torch.testing.assert_close(before, after)
    before, after = (seeing(stories, questions).scores for stories in (sentences, shuffled))
    assert not torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("name", ["end_to_end", "strongly_supervised", "dynamic", "bag_of_words"])
def test_what_fills_up_a_sentence_changes_nothing(name):
    sizes = Sizes(SIZES.vocabulary, 8, 9)
    torch.manual_seed(2)
    network = {
        "end_to_end": EndToEnd(sizes, WIDTH, 2, True, 0),
        "strongly_supervised": StronglySupervised(sizes, WIDTH, 2, True),
        "dynamic": Dynamic(sizes, WIDTH, 2),
        "bag_of_words": BagOfWords(sizes, WIDTH),
    }[name]
    sentences, questions, _, _ = batch()
    longer, asked = (torch.nn.functional.pad(tensor, (0, 1)) for tensor in (sentences, questions))
    torch.testing.assert_close(
        network(sentences, questions).scores, network(longer, asked).scores, rtol=0, atol=1e-6
    )


def test_strong_supervision_is_its_equations():
    torch.manual_seed(0)
    network = StronglySupervised(SIZES, WIDTH, 2, True)
    for parameter in network.parameters():
        parameter.data *= 4
    sentences, questions, answers, facts = batch()
    match, respond = (
        [numbers(module.matrix(place)) for place in range(3)]
        for module in (network.match, network.respond)
    )  # [V, d] each
    times, words = numbers(network.times), numbers(network.words)
    free, losses = network(sentences, questions), []
    for story in range(len(sentences)):
        for own, followed in ((True, None), (False, facts[story].tolist())):
            x = summed(match[1], questions[story], True)
            y = summed(respond[0], questions[story], True)
            scores = []
            for hop in range(2):
                scores.append(np.array([
                    (summed(match[0], sentence, True) + times[hop, i]) @ x
                    for i, sentence in enumerate(sentences[story])
                ]))  # fmt: skip
                chosen = int(scores[-1].argmax()) if own else followed[hop]
                if hop == 0:
                    x = x + summed(match[2], sentences[story][chosen], True)
                y = y + summed(respond[1 + hop], sentences[story][chosen], True)
            said = words @ y
            if own:
                np.testing.assert_allclose(numbers(free.scores[story]), said, atol=1e-4)
                np.testing.assert_allclose(numbers(free.focus[story]), scores, atol=1e-4)
                continue
            loss = 0.0
            for right, values in zip(
                [*followed, int(answers[story])], [*scores, said], strict=True
            ):
                ranks = [
                    max(0, MARGIN - values[right] + v) for i, v in enumerate(values) if i != right
                ]
                loss += sum(ranks) / len(values)
            losses.append(loss)
    result = network.loss(sentences, questions, answers, facts).item()
    assert result == pytest.approx(np.mean(losses), rel=1e-4)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def gated_unit(unit, x, h, suffix=""):
    """A step of a gated recurrent unit by its equations (Cho et al., 2014)."""
    w, u, b, c = (
        numbers(getattr(unit, f"{name}{suffix}"))
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    a, r = np.split(w @ x + b, 3), np.split(u @ h + c, 3)
    reset, update = sigmoid(a[0] + r[0]), sigmoid(a[1] + r[1])
    return (1 - update) * np.tanh(a[2] + reset * r[2]) + update * h


def test_dynamic_is_its_equations():
    torch.manual_seed(0)
    network = Dynamic(SIZES, WIDTH, 2)
    sentences, questions, answers, facts = batch()
    said = network(sentences, questions)
    losses = []
    table = numbers(network.sentences.embed.weight)
    similarity = numbers(network.similarity.weight)
    for story in range(len(sentences)):
        read = [summed(table, sentence, True) for sentence in sentences[story]]
        c = np.zeros((len(read), WIDTH))
        for suffix, order in (("_l0", range(len(read))), ("_l0_reverse", range(len(read))[::-1])):
            h = np.zeros(WIDTH)
            for i in order:
                h = gated_unit(network.read, read[i], h, suffix)
                c[i] += h
        q = np.zeros(WIDTH)
        for word in questions[story][questions[story] > 0]:
            q = gated_unit(network.ask, table[word], q, "_l0")
        m, loss = q, 0.0
        for number in range(2):
            e = np.zeros(WIDTH)
            for i, fact in enumerate(c):
                z = np.concatenate([
                    fact, q, m, fact * q, np.abs(fact - q), [q @ similarity @ fact],
                    fact * m, np.abs(fact - m), [m @ similarity @ fact],
                ])  # fmt: skip
                hidden = np.tanh(numbers(network.hidden.weight) @ z + numbers(network.hidden.bias))
                (logit,) = numbers(network.gate.weight) @ hidden + numbers(network.gate.bias)
                assert float(said.focus[story, number, i]) == pytest.approx(logit, abs=1e-5)
                g = sigmoid(logit)
                e = g * gated_unit(network.episode, fact, e) + (1 - g) * e
                is_fact = i == int(facts[story, number])
                loss -= np.log(g if is_fact else 1 - g)
            m = gated_unit(network.remember, e, m)
        a = gated_unit(network.respond, q, m)
        scores = numbers(network.answer.weight) @ a + numbers(network.answer.bias)
        np.testing.assert_allclose(numbers(said.scores[story]), scores, atol=1e-5)
        losses.append(loss - np.log(softmax(scores)[int(answers[story])]))
    result = network.loss(sentences, questions, answers, facts).item()
    assert result == pytest.approx(np.mean(losses), rel=1e-5)


def test_gates_are_supervised_with_the_facts_of_a_planted_story():
    network = Dynamic(SIZES, WIDTH, 3)
    sentences, questions, answers, _ = batch(count=2)
    facts = torch.tensor([[4, 1], [0, 6]])
    assert turn_facts(facts, 3).tolist() == [[4, 1, 1], [0, 6, 6]]
    assert turn_facts(facts.numpy(), 1).tolist() == [[4], [0]]
    # Gates that are open at these sentences and closed elsewhere cost nothing; others do.
    planted = torch.full((2, 3, 8), -50.0)
    for story, turns in enumerate(((4, 1, 1), (0, 6, 6))):
        for number, fact in enumerate(turns):
            planted[story, number, fact] = 50.0
    scores = 1000 * torch.nn.functional.one_hot(answers, SIZES.vocabulary).float()
    said = {"right": planted, "swapped": planted.flip(1), "open": planted.abs()}
    losses = {}
    for name, focus in said.items():
        network.forward = lambda *_, focus=focus: Answered(scores, focus)
        losses[name] = network.loss(sentences, questions, answers, facts).item()
    assert losses["right"] == pytest.approx(0, abs=1e-6)
    # In two of three passes both the gate that should be open and the one that is are wrong.
    assert losses["swapped"] == pytest.approx(2 * 2 * 50, rel=1e-6)
    # All other gates of the eight in each of three passes.
    assert losses["open"] == pytest.approx(3 * 7 * 50, rel=1e-6)


def test_a_gate_of_zero_keeps_the_state_and_one_is_the_plain_unit():
    torch.manual_seed(0)
    network = Dynamic(SIZES, WIDTH, 2)
    fact, state = torch.randn(2, 3, WIDTH)  # [B, d] each
    assert torch.equal(network.step(fact, torch.zeros(3), state), state)
    assert torch.equal(network.step(fact, torch.ones(3), state), network.episode(fact, state))


def test_a_bag_of_words_sees_no_order_at_all():
    torch.manual_seed(0)
    network = BagOfWords(SIZES, WIDTH)
    sentences, questions, _, _ = batch()
    order = torch.from_numpy(np.random.default_rng(0).permutation(sentences[0].numel()))
    mixed = sentences.flatten(1)[:, order].view_as(sentences)
    before, after = (network(stories, questions).scores for stories in (sentences, mixed))
    torch.testing.assert_close(before, after)
    assert network(sentences, questions).focus is None


def trained(task, variant, tmp_path, steps=250, stories=2000):
    """The results of a variant after a short training on one task."""
    parameters = PARAMETERS.model_copy(
        update={
            "tasks": [task],
            "training_stories": stories,
            "validation_stories": 120,
            "test_stories": 240,
            "linear_steps": 200,
            "d_model": 32,
            "optimization": PARAMETERS.optimization.model_copy(
                update={"steps": steps, "batch": 32, "validate_steps": 50,
                        "checkpoint_steps": 1000, "learning_rate": 3e-2}
            ),
        }
    )  # fmt: skip
    variant = {"task": task, "hops": None, "positions": None, **variant}
    splits = step.draw_splits(task, parameters, 0)
    work = step.work(variant, splits, parameters, 0)
    return work(Checkpoint(tmp_path / "checkpoint", "x"), lambda step, loss: None)


def test_order_needs_the_positions_of_words(tmp_path):
    seeing, blind = (
        trained("order", {"network": "strongly_supervised", "positions": has}, tmp_path, 150)
        for has in (True, False)
    )
    assert seeing["error"] < 0.05
    # Two answers remain: the test of guessing between them.
    assert guess_test([blind["error"]], 240, 0.5).p > 0.01


def test_a_bag_of_words_of_the_story_guesses(tmp_path):
    result = trained("one_fact", {"network": "bag_of_words"}, tmp_path, steps=100)
    assert guess_test([result["error"]], 240, 5 / 6).p > 0.01


def test_majority_is_wrong_in_five_of_six():
    splits = step.draw_splits("order", PARAMETERS, 0)
    assert step.majority(splits)["error"] == pytest.approx(5 / 6)
    used = [set(map(str, stories.sentences.tolist())) for stories in splits.values()]
    assert [len(stories) for stories in splits.values()] == [60, 12, 24]
    assert not (used[0] & used[2])


def command(folder, seed=3):
    config = folder / "config.json"
    write_json(config, {"parameters": PARAMETERS.model_dump()})
    step.main(
        seed=seed, config=config, output=folder / "3.json", partial=folder / "partial", threads=1
    )
    return folder / "3.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return command(tmp_path_factory.mktemp("whole"))


def test_trials_have_all_variants_and_finite_numbers(whole):
    content = read_sealed(whole)
    expected = list(step.variants("order", [1, 2]))
    expected.append({**expected[-1], "attempt": 1})  # so little training passes nothing
    assert [trial["variant"] for trial in content["trials"]] == expected
    json.dumps(content, allow_nan=False)
    for trial in content["trials"]:
        assert 0 <= trial["error"] <= 1
        is_memory = trial["variant"]["network"] not in ("majority", "bag_of_words")
        assert (trial["facts_found"] is not None) == is_memory
        if is_memory:
            # Each story here has one fact: finding it is finding it in its turn.
            assert trial["facts_in_order"] == trial["facts_found"]
        if trial["training"]:
            assert trial["training"]["steps"] == 6
    written = whole.read_text()
    assert not any(f'"{word}"' in written for word in (*PEOPLE, *PLACES))


@pytest.mark.parametrize(
    ("network", "killed_at"), [("bag_of_words", 3), ("end_to_end", 4), ("dynamic", 4)]
)
def test_killed_trials_end_with_the_same_file(tmp_path, monkeypatch, whole, network, killed_at):
    real = step.work

    def killing(variant, *arguments):
        done = real(variant, *arguments)

        def trial(checkpoint, report):
            def kill(at, loss):
                report(at, loss)
                if variant["network"] == network and at == killed_at:
                    raise Killed

            return done(checkpoint, kill)

        return trial

    monkeypatch.setattr(step, "work", killing)
    with pytest.raises(Killed):
        command(tmp_path)
    monkeypatch.undo()
    steps = []
    fresh = step.Trials.measure

    def counting(self, variant, count, work):
        def told_of(checkpoint, report):
            return work(checkpoint, lambda at, loss: (steps.append(at), report(at, loss)))

        return fresh(self, variant, count, told_of)

    monkeypatch.setattr(step.Trials, "measure", counting)
    assert command(tmp_path).read_bytes() == whole.read_bytes()
    # It went on from the checkpoint of step 2.
    assert steps[0] == 3
    assert not (tmp_path / "partial").exists()


@pytest.mark.parametrize(("error", "attempts"), [(1.0, 2), (0.06, 2), (0.05, 1)])
def test_attempts_end_with_the_first_that_passes(error, attempts):
    seen = []

    class Recorded:
        seed = 5

        def measure(self, variant, steps, work):
            seen.append(variant)
            return {"validation_error": error}

    step.measure(SimpleNamespace(parameters=PARAMETERS), None, Recorded())
    dynamic = [entry for entry in seen if entry["network"] == "dynamic"]
    assert [entry.get("attempt", 0) for entry in dynamic] == list(range(attempts))
    assert not any("attempt" in entry for entry in seen if entry["network"] != "dynamic")
    stories = step.draw_splits("order", PARAMETERS, 5)["training"]
    first, again, second = (
        next(step.build({**dynamic[0], "attempt": k}, stories, PARAMETERS, 5).parameters())
        for k in (0, 0, 1)
    )
    assert torch.equal(first, again) and not torch.equal(first, second)


def test_validation_chooses_among_attempts_and_not_the_test():
    def trial(network, validation, error, **attempt):
        variant = {"task": "order", "network": network, **attempt}
        return {"variant": variant, "error": error, "validation_error": validation}

    majority = trial("majority", 0.8, 0.9)
    trials = [majority, trial("dynamic", 0.5, 0.1), trial("dynamic", 0.2, 0.3, attempt=1),
              trial("dynamic", 0.4, 0.0, attempt=2)]  # fmt: skip
    first, chosen = summary.best_attempts(trials)
    assert first == {**majority, "attempts": 1}
    assert (chosen["error"], chosen["attempts"]) == (0.3, 3)
    assert chosen["variant"] == {"task": "order", "network": "dynamic"}


def results(seed_errors, tasks=("order", "two_facts"), hops=(1, 2)):
    """What seeds' files hold, with planted errors by variant."""
    files = []
    for seed, error in enumerate(seed_errors):
        trials = [
            {
                "variant": variant,
                "error": error(variant),
                "validation_error": 0.5,
                "training_error": 0.25,
                "facts_found": [0.5] * variant["hops"] if variant["hops"] else None,
                "facts_in_order": [0.25 + error(variant), 0.125][: variant["hops"] or 2]
                if variant["network"] not in ("majority", "bag_of_words")
                else None,
                "pattern_deviation": 1e-7 * seed if variant["network"] == "end_to_end" else None,
                "parameters": 10,
                "training": None,
            }
            for task in tasks
            for variant in step.variants(task, list(hops))
        ]
        parameters = {**PARAMETERS.model_dump(), "tasks": list(tasks), "test_stories": 200}
        files.append({
            "run": {}, "seed": seed, "trials": trials,
            "provenance": {"parameters": parameters, "inputs": {}},
        })  # fmt: skip
    return files


def planted(shift):
    def error(variant):
        if variant["positions"] is False and variant["task"] == "order":
            return 0.5 + shift
        return 0.75 if variant["hops"] == 1 else 0.25 + shift

    return error


def test_the_summary_is_arithmetic_over_seeds():
    files = results([planted(0.0), planted(0.01), planted(0.02)])
    content = summary.summarise(files, 0.95).as_json()
    json.dumps(content, allow_nan=False)
    cells = {(c["task"], c["network"], c["hops"], c["positions"]): c for c in content["cells"]}
    cell = cells["order", "end_to_end", 2, True]
    assert cell["error"]["value"] == pytest.approx(0.26)
    # Student's, on the scale of the logit: an error is a share.
    half = stats.t.ppf(0.975, 2) * 0.01 / math.sqrt(3) / (0.26 * 0.74)
    assert cell["error"]["high"] == pytest.approx(1 / (1 + math.exp(-half) * 0.74 / 0.26))
    assert cell["supervised"] is False and cells["order", "dynamic", 2, None]["supervised"]
    assert len(cell["facts_found"]) == 2
    assert [hop["value"] for hop in cell["facts_in_order"]] == pytest.approx([0.51, 0.125])
    (difference,) = [
        d
        for d in content["differences"]["positions"]
        if (d["task"], d["network"], d["hops"]) == ("order", "end_to_end", 2)
    ]
    # Paired by seed: the shift is the same in both, so nothing is left of it.
    assert difference["value"] == pytest.approx(-0.25) and difference["sd"] < 1e-12
    assert difference["minus"] is False and difference["positions"] is True
    hops = [d for d in content["differences"]["hops"] if d["task"] == "two_facts"]
    assert {(d["hops"], d["positions"]) for d in hops} == {(2, False), (2, True)}
    assert all(d["network"] == "end_to_end" for d in hops)
    assert content["pattern_deviation"] == pytest.approx(2e-7)
    tests = {(g["task"], g["network"], g["hops"], g["positions"]): g for g in content["guesses"]}
    assert set(tests) == {
        ("order", "bag_of_words", None, None),
        ("order", "strongly_supervised", None, False),
        ("order", "end_to_end", 1, False),
        ("order", "end_to_end", 2, False),
        ("two_facts", "bag_of_words", None, None),
        ("two_facts", "end_to_end", 1, False),
        ("two_facts", "end_to_end", 1, True),
    }
    test = tests["two_facts", "end_to_end", 1, True]
    assert (test["wrong"], test["questions"], test["level"]) == (450, 600, 0.75)
    assert 0.5 < test["p"] < 0.53


def test_the_measurement_names_its_row(tmp_path):
    files = results([planted(0.0), planted(0.01)])
    paths = [tmp_path / f"{file['seed']}.json" for file in files]
    for path, file in zip(paths, files, strict=True):
        write_sealed(path, file)
    write_json(tmp_path / "c.json", {"name": "sample", "seeds": [0, 1], "confidence": 0.9})
    summary.main(paths, tmp_path / "c.json", tmp_path / "out.json")
    written = read_sealed(tmp_path / "out.json")
    assert written["measurement"] == "memory_networks" and written["catalogue"] == ["E3"]
    assert written["status"] == "measured" and written["confidence"] == 0.9


@pytest.mark.parametrize("tasks", [("one_fact", "two_facts", "order"), ("order",)])
def test_the_figure_shows_the_errors(tasks):
    hops = (1, 2, 3)
    files = results([planted(0.0), planted(0.02), planted(0.01)], tasks, hops)
    content = summary.summarise(files, 0.95).as_json()
    measurement = {"measurement": "memory_networks", "run": {}, "status": "measured", **content}
    figure = figure_of.draw([measurement], FIGURES.memory_networks, FIGURES.style)
    check_texts(figure)
    assert len(figure.axes) == len(tasks)
    for axes, task in zip(figure.axes, tasks, strict=True):
        shown = sorted(
            x for bars in axes.containers for x in np.asarray(bars.lines[0].get_xdata(), float)
        )
        expected = sorted(100 * c["error"]["value"] for c in content["cells"] if c["task"] == task)
        np.testing.assert_allclose(shown, expected)
        lines = [line.get_xdata()[0] for line in axes.get_lines()
                 if line.get_linestyle() in ("--", ":") and len(line.get_xdata()) == 2]  # fmt: skip
        assert 100 * guess_levels(task)["story"] in lines


def test_the_figure_says_why_it_is_empty():
    absent = {"measurement": "memory_networks", "run": {}, "status": "not run", "reason": "too big"}
    figure = figure_of.draw([absent], FIGURES.memory_networks, FIGURES.style)
    assert "too big" in texts(figure)[0].get_text()
