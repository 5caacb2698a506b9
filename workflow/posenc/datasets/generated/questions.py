"""Invented questions whose answers follow from the order of their words.

Each category asks one thing; the ``Adversarial`` wording of it asks the other way round, so that
who answers by the words alone, or by what stands last, is wrong.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from posenc.datasets.generated.lexicon import (
    BAD,
    COLOURS,
    DEEDS,
    GOOD,
    MATERIALS,
    NAMES,
    OBJECTS,
    PARTS,
    PEOPLE,
    PLAIN,
    draw,
    draw_distinct,
)


class Question(NamedTuple):
    """A question, its answer, and answers that another word order would make right."""

    text: str
    answer: str
    wrong: tuple[str, ...]


def _deeds(rng: random.Random, is_adversarial: bool) -> Question:
    first, second, third = draw_distinct(rng, NAMES, 3)
    deed = draw(rng, DEEDS)
    told = f"If {first} {deed} {second} and {second} {deed} {third}, who"
    if is_adversarial:
        return Question(f"{told} was {deed} by {second}?", third, (first, second))
    return Question(f"{told} {deed} {second}?", first, (third, second))


def _queues(rng: random.Random, is_adversarial: bool) -> Question:
    first, second, third = draw_distinct(rng, NAMES, 3)
    if is_adversarial:
        told = f"If {first} stands behind {second} and {second} stands behind {third}"
        return Question(f"{told}, who is first?", third, (first, second))
    told = f"If {first} stands before {second} and {second} stands before {third}"
    return Question(f"{told}, who is first?", first, (third, second))


def _lists(rng: random.Random, is_adversarial: bool) -> Question:
    things = [f"the {thing}" for thing in draw_distinct(rng, OBJECTS, 4)]
    told = f"First came {things[0]}, then {things[1]}, then {things[2]}, finally {things[3]}: which"
    if is_adversarial:
        return Question(f"{told} came right before {things[2]}?", things[1], (things[3], things[0]))
    return Question(f"{told} came right after {things[1]}?", things[2], (things[0], things[3]))


def _denials(rng: random.Random, is_adversarial: bool) -> Question:
    denied, claimed = draw_distinct(rng, (draw(rng, GOOD), draw(rng, BAD)), 2)
    part = draw(rng, PARTS)
    if is_adversarial:
        text = f"If the {part} was {claimed} and not {denied}, what was the {part} really?"
    else:
        text = f"If the {part} was not {denied} but {claimed}, what was the {part} really?"
    return Question(text, claimed, (denied, f"neither {claimed} nor {denied}"))


def _nesting(rng: random.Random, is_adversarial: bool) -> Question:
    first, second, third = (f"the {person}" for person in draw_distinct(rng, PEOPLE, 3))
    inner, outer = draw_distinct(rng, DEEDS, 2)
    told = f"When {first} that {second} {inner} {outer} {third}, who"
    if is_adversarial:
        return Question(f"{told} {outer} {third}?", first, (second, third))
    return Question(f"{told} {inner} {first}?", second, (third, first))


def _passives(rng: random.Random, is_adversarial: bool) -> Question:
    first, second = (f"the {person}" for person in draw_distinct(rng, PEOPLE, 2))
    deed = draw(rng, DEEDS)
    asked = f"which of the two {deed} the other one?"
    if is_adversarial:
        return Question(f"If {first} was {deed} by {second}, {asked}", second, (first, "both"))
    return Question(f"If {first} {deed} {second}, {asked}", first, (second, "both"))


def _gifts(rng: random.Random, is_adversarial: bool) -> Question:
    first, second = draw_distinct(rng, NAMES, 2)
    here, there = draw_distinct(rng, OBJECTS, 2)
    told = f"If {first} gave {second} the {here} and {second} gave {first} the {there}, who"
    if is_adversarial:
        return Question(f"{told} gave away the {here}?", first, (second, "nobody"))
    return Question(f"{told} now has the {here}?", second, (first, "nobody"))


def _rows(rng: random.Random, is_adversarial: bool) -> Question:
    row = draw_distinct(rng, COLOURS, 4)
    told = f"In the row {', '.join(row)}, which colour stands right"
    if is_adversarial:
        return Question(f"{told} before {row[2]}?", row[1], (row[3], row[0]))
    return Question(f"{told} after {row[2]}?", row[3], (row[1], row[0]))


def _agreement(rng: random.Random, is_adversarial: bool) -> Question:
    head, near = draw_distinct(rng, PEOPLE, 2)
    mood = draw(rng, PLAIN)
    head, near = (head, near + "s") if rng.randrange(2) else (head + "s", near)
    verb = "were" if head.endswith("s") else "was"
    if is_adversarial:
        text = f"If the {head} behind the {near} {verb} {mood}, who of them {verb} {mood}?"
        return Question(text, f"the {head}", (f"the {near}", "all of them"))
    text = f"If behind the {near} the {head} {verb} {mood}, who of them {verb} {mood}?"
    return Question(text, f"the {head}", (f"the {near}", "all of them"))


def _echoes(rng: random.Random, is_adversarial: bool) -> Question:
    first, second = draw_distinct(rng, NAMES, 2)
    words = [draw(rng, COLOURS), draw(rng, MATERIALS), draw(rng, OBJECTS)]
    words = draw_distinct(rng, words, 3)
    other = words[1:] + words[:1]
    told = f"If {first} said {' '.join(words)} and {second} said {' '.join(other)}, who said"
    if is_adversarial:
        return Question(f"{told} {words[0]} last?", second, (first, "both"))
    return Question(f"{told} {words[0]} first?", first, (second, "both"))


CATEGORIES = {
    "Deeds": _deeds,
    "Queues": _queues,
    "Lists": _lists,
    "Denials": _denials,
    "Nesting": _nesting,
    "Passives": _passives,
    "Gifts": _gifts,
    "Rows": _rows,
    "Agreement": _agreement,
    "Echoes": _echoes,
}


def question(rng: random.Random, category: str, is_adversarial: bool) -> Question:
    """Return a question of 8 to 25 words.

    Parameters
    ----------
    rng
        Source of randomness; the question depends on its state alone.
    category
        A key of ``CATEGORIES``.
    is_adversarial
        Whether to ask the other way round.
    """
    return CATEGORIES[category](rng, is_adversarial)
