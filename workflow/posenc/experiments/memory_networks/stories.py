"""Questions about short stories whose answers, guess levels and supporting sentences are known.

Three tasks in the spirit of Weston et al. (2015, https://arxiv.org/abs/1502.05698), from a grammar
of our own. Names are drawn so that the words of a story say nothing about the answer beyond what
:func:`guess_levels` states; only who stands with what in one sentence does.

=========  =====================================================  ================================
task       sentences                                              question
=========  =====================================================  ================================
one_fact   6: each of 3 people walks to 2 places, 6 in all        the last place of one
two_facts  8: each of 4 people carried an object, each object is  the place of the object that one
           in a place                                             carried
order      4: two pairs of a direction, ``a north of b north of   what is north of ``b``, or what
           c`` and ``d east of b east of e``                      ``b`` is north of
=========  =====================================================  ================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TASKS = ("one_fact", "two_facts", "order")
PEOPLE = ("ada", "bela", "chen", "dora")
OBJECTS = ("lamp", "rope", "coin", "drum")
PLACES = ("mill", "harbour", "orchard", "library", "tower", "chapel")
DIRECTIONS = ("north", "south", "east", "west")
WALKS = ("walked", "ran", "hurried")
OTHERS = ("where", "what", "is", "in", "of", "that", "the", "to", "object", "carried")
VOCABULARY = ("", *PEOPLE, *OBJECTS, *PLACES, *DIRECTIONS, *WALKS, *OTHERS)
"""Words by number; number 0 fills up sentences that are shorter than the longest."""

_NUMBER = {word: number for number, word in enumerate(VOCABULARY)}


@dataclass(frozen=True)
class Stories:
    """Stories of one task, all with as many sentences.

    Attributes
    ----------
    sentences
        int64 [stories, sentences, words], 0 after the last word of a sentence.
    questions
        int64 [stories, words], 0 after the last word.
    answers
        int64 [stories]: the word that answers.
    facts
        int64 [stories, facts]: numbers of the supporting sentences, from 0, in the order in which
        the answer follows from them.
    """

    sentences: NDArray[np.int64]
    questions: NDArray[np.int64]
    answers: NDArray[np.int64]
    facts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.answers)

    def rows(self, chosen: slice | NDArray[np.int64]) -> Stories:
        """Some of the stories."""
        return Stories(
            self.sentences[chosen], self.questions[chosen], self.answers[chosen], self.facts[chosen]
        )


def generate(task: str, count: int, seed: int) -> Stories:
    """Draw different stories of a task.

    Answers are balanced: story i has the place i modulo 6, and in the task ``order`` the two
    questions come in turn, so in any 12 stories in a row each answer and question is as frequent.

    Parameters
    ----------
    task
        One of ``TASKS``.
    count
        How many; any two differ in a sentence, the order of sentences, or the question.
    seed
        Of the draws; tasks with the same seed are independent.

    Returns
    -------
    Stories

    Raises
    ------
    ValueError
        If the task is not known, or count is not positive.
    """
    if task not in TASKS:
        raise ValueError(f"{task!r} is none of the tasks {', '.join(TASKS)}")
    if count < 1:
        raise ValueError(f"{count} stories were asked for; it must be at least one")
    rng = np.random.default_rng([seed, TASKS.index(task)])
    told: dict[tuple[str, ...], tuple[str, list[int]]] = {}
    while len(told) < count:
        sentences, question, answer, facts = _TELL[task](rng, len(told))
        told.setdefault((*sentences, question), (answer, facts))
    return Stories(
        sentences=_numbers([list(key[:-1]) for key in told]),
        questions=_numbers([[key[-1]] for key in told])[:, 0],
        answers=np.array([_NUMBER[answer] for answer, _ in told.values()], np.int64),
        facts=np.array([facts for _, facts in told.values()], np.int64),
    )


def guess_levels(task: str) -> dict[str, float]:
    """Lowest expected error of those who see only a part of the story.

    Parameters
    ----------
    task
        One of ``TASKS``.

    Returns
    -------
    dict
        ``nothing``: of those who know only how frequent answers are. ``story``: of those who see
        the words of the whole story and of the question, without order. ``sentences``: of those who
        see the words of each sentence and the order of sentences, but no order of words.

    Raises
    ------
    KeyError
        If the task is not known.

    Notes
    -----
    All draws are uniform, so the best guess is any of those that remain: in ``one_fact`` all six
    places are in the story; in ``two_facts`` four; in ``order`` four besides that of the question,
    and two of the sentences with its direction.
    """
    return {
        "one_fact": {"nothing": 5 / 6, "story": 5 / 6, "sentences": 0.0},
        "two_facts": {"nothing": 5 / 6, "story": 3 / 4, "sentences": 0.0},
        "order": {"nothing": 5 / 6, "story": 3 / 4, "sentences": 1 / 2},
    }[task]


_Told = tuple[list[str], str, str, list[int]]
"""Sentences, question, answer, and numbers of the supporting sentences."""


def _one_fact(rng: np.random.Generator, number: int) -> _Told:
    people = _draw(rng, PEOPLE, 3)
    walkers = _draw(rng, people * 2, 6)
    asked = people[0]
    last = max(place for place, walker in enumerate(walkers) if walker == asked)
    answer, others = _answer_and_others(rng, number)
    places = [*others[:last], answer, *others[last:]]
    sentences = [
        f"{walker} {rng.choice(WALKS)} to the {place}"
        for walker, place in zip(walkers, places, strict=True)
    ]
    return sentences, f"where is {asked}", answer, [last]


def _two_facts(rng: np.random.Generator, number: int) -> _Told:
    people, objects = _draw(rng, PEOPLE, 4), _draw(rng, OBJECTS, 4)
    answer, others = _answer_and_others(rng, number)
    carried = [f"{p} carried the {o}" for p, o in zip(people, objects, strict=True)]
    lying = [
        f"the {thing} is in the {place}"
        for thing, place in zip(objects, [answer, *others[:3]], strict=True)
    ]
    sentences = _draw(rng, [*carried, *lying], 8)
    facts = [sentences.index(carried[0]), sentences.index(lying[0])]
    return sentences, f"where is the object that {people[0]} carried", answer, facts


def _order(rng: np.random.Generator, number: int) -> _Told:
    answer, others = _answer_and_others(rng, number)
    middle, opposite, *side = others[:4]
    asked, other = _draw(rng, DIRECTIONS, 2)
    answer_is_first = (number // len(PLACES)) % 2 == 0
    first, last = (answer, opposite) if answer_is_first else (opposite, answer)
    pairs = [_relation(first, asked, middle), _relation(middle, asked, last)]
    told = [*pairs, _relation(side[0], other, middle), _relation(middle, other, side[1])]
    sentences = _draw(rng, told, 4)
    # The same words in two orders.
    forms = (f"what is the {middle} {asked} of", f"what is {asked} of the {middle}")
    fact = sentences.index(pairs[0] if answer_is_first else pairs[1])
    return sentences, forms[answer_is_first], answer, [fact]


_TELL = {"one_fact": _one_fact, "two_facts": _two_facts, "order": _order}


def _relation(subject: str, direction: str, other: str) -> str:
    return f"the {subject} is {direction} of the {other}"


def _answer_and_others(rng: np.random.Generator, number: int) -> tuple[str, list[str]]:
    """The place whose turn it is, and the others in random order."""
    answer = PLACES[number % len(PLACES)]
    return answer, _draw(rng, [place for place in PLACES if place != answer], len(PLACES) - 1)


def _draw(rng: np.random.Generator, words: tuple[str, ...] | list[str], count: int) -> list[str]:
    """Some words, each at most once, in random order."""
    return [words[place] for place in rng.permutation(len(words))[:count]]


def _numbers(texts: list[list[str]]) -> NDArray[np.int64]:
    """Word numbers, int64 [stories, sentences, words]."""
    words = max(len(sentence.split()) for sentences in texts for sentence in sentences)
    word_numbers = np.zeros((len(texts), len(texts[0]), words), np.int64)
    for story, sentences in enumerate(texts):
        for place, sentence in enumerate(sentences):
            numbers = [_NUMBER[word] for word in sentence.split()]
            word_numbers[story, place, : len(numbers)] = numbers
    return word_numbers
