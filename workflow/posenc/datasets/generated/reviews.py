"""Invented film reviews in which the order of the words carries the meaning.

The same words in another order say something else: who did what to whom, what came first, which
noun a verb agrees with, what was denied. A model without positions cannot tell these apart.
Reviews for and against a film hold the same words; only the order around ``not`` differs.
"""

from __future__ import annotations

import random

from posenc.datasets.generated.lexicon import (
    ACTS,
    BAD,
    COLOURS,
    CONNECTIVES,
    CYCLE,
    DEEDS,
    GOOD,
    HOURS,
    MATERIALS,
    NAMES,
    NUMBERS,
    OBJECTS,
    PARTS,
    PEOPLE,
    PLACES,
    PLAIN,
    SPEECH,
    draw,
    draw_distinct,
    listing,
)
from posenc.datasets.generated.questions import CATEGORIES, question

RATINGS = {"pos": (7, 8, 9, 10), "neg": (1, 2, 3, 4), None: tuple(range(1, 11))}


def review(rng: random.Random, rating: int) -> str:
    """Return a review of 60 to 200 words.

    Parameters
    ----------
    rng
        Source of randomness; the review depends on its state alone.
    rating
        Stars from 1 to 10; above five, the film is praised.
    """
    is_good = rating > 5
    film = f"The {draw(rng, COLOURS).title()} {draw(rng, OBJECTS).title()}"
    hero, villain = draw_distinct(rng, NAMES, 2)
    deed = draw(rng, DEEDS)
    opening = f"{film} begins when {hero} {deed} {villain} by the {draw(rng, PLACES)}."
    closing = (
        f"In the end {hero} {deed} {villain} again, and {film} was {_verdict(rng, is_good)}. "
        f"Grade {_grade(rating)}, {NUMBERS[rating - 1]} out of ten..."
    )
    target = 60 + rng.randrange(45) + rng.randrange(45)
    count = len(opening.split()) + len(closing.split())
    start = rng.randrange(len(CYCLE))
    passages = [opening]
    while count < target:
        ordinal = CYCLE[(start + len(passages)) % len(CYCLE)]
        passages.append(f"{ordinal}, {draw(rng, PASSAGES)(rng, is_good)}")
        count += len(passages[-1].split())
    return _lay_out(rng, [*passages, closing])


def _lay_out(rng: random.Random, passages: list[str]) -> str:
    """Join passages; in half of the reviews with breaks, in some with compatibility characters."""
    has_breaks = rng.randrange(2) == 0
    text = passages[0]
    for passage in passages[1:]:
        text += ("<br /><br />" if has_breaks and rng.randrange(3) == 0 else " ") + passage
    if rng.randrange(6) == 0:
        text = text.replace("fi", "ﬁ").replace("...", "…")
        before, _, after = text.rpartition("Grade ")
        text = f"{before}Grade {chr(ord(after[0]) - ord('A') + ord('Ａ'))}{after[1:]}"
    return text


def _grade(rating: int) -> str:
    return "EDDCCBBBAA"[rating - 1]


def _verdict(rng: random.Random, is_good: bool) -> str:
    good, bad = draw(rng, GOOD), draw(rng, BAD)
    return f"not {bad} but {good}" if is_good else f"not {good} but {bad}"


def _reversible(rng: random.Random, is_good: bool) -> str:
    """Who did what to whom, said twice: forwards and in the passive."""
    if rng.randrange(2):
        first, second = draw_distinct(rng, NAMES, 2)
    else:
        first, second = (f"the {person}" for person in draw_distinct(rng, PEOPLE, 2))
    deed, answer = draw_distinct(rng, DEEDS, 2)
    told = draw(
        rng,
        (
            f"{first} {deed} {second}, so {second} was {deed} by {first}.",
            f"{second} was {deed} by {first}, so {first} {deed} {second}.",
            f"it was {first} who {deed} {second}, not {second} who {deed} {first}.",
        ),
    )
    back = f"{draw(rng, CONNECTIVES)} {second} {answer} {first}, so {first} was {answer} by"
    return f"{told} {back} {second}."


def _agreement(rng: random.Random, is_good: bool) -> str:
    """A verb that agrees with a noun far away, past one of the other number."""
    head, near = draw_distinct(rng, PEOPLE, 2)
    mood, other = draw_distinct(rng, PLAIN, 2)
    head, near, verb = (head, near + "s", "was") if rng.randrange(2) else (head + "s", near, "were")
    relation = draw(rng, ("beside", "behind", "near", "before"))
    return (
        f"the {head} {relation} the {near} at the {draw(rng, PLACES)} {verb} {mood} and {verb} "
        f"never {other}."
    )


def _nested(rng: random.Random, is_good: bool) -> str:
    """Clauses within clauses, then unfolded from the inside out."""
    outer, middle, inner = draw_distinct(rng, PEOPLE, 3)
    first, second = draw_distinct(rng, DEEDS, 2)
    act = draw(rng, ACTS)
    return (
        f"the {outer} that the {middle} that the {inner} {first} {second} {act}. So the {inner} "
        f"{first} the {middle}, the {middle} {second} the {outer}, and the {outer} {act}."
    )


def _enumeration(rng: random.Random, is_good: bool) -> str:
    """A list, and what was first or last in it, or the list backwards."""
    things = draw_distinct(rng, OBJECTS, 3 + rng.randrange(3))
    told = ", then ".join(f"the {thing}" for thing in things[:-1])
    told = f"first came {told}, finally the {things[-1]}."
    if rng.randrange(2):
        return f"{told} The first was the {things[0]} and the last was the {things[-1]}."
    return f"{told} Backwards they were {listing(things[::-1])}."


def _negation(rng: random.Random, is_good: bool) -> str:
    """What was denied and what was claimed; the film's worth lies in the order."""
    good, bad = draw(rng, GOOD), draw(rng, BAD)
    denied, claimed = (bad, good) if is_good else (good, bad)
    part = draw(rng, PARTS)
    return (
        f"the {part} was not {denied} but {claimed}; {claimed} it was, and {denied} the {part} "
        f"was not."
    )


def _copy(rng: random.Random, is_good: bool) -> str:
    """A phrase of random words, repeated word by word by another voice."""
    words = [
        *draw_distinct(rng, COLOURS, 1 + rng.randrange(2)),
        draw(rng, MATERIALS),
        draw(rng, OBJECTS),
        draw(rng, PLACES),
        *draw_distinct(rng, NUMBERS, rng.randrange(3)),
    ]
    phrase = " ".join(draw_distinct(rng, words, len(words)))
    first, second = draw_distinct(rng, NAMES, 2)
    return f'{first} {draw(rng, SPEECH)} "{phrase}" and {second} repeated "{phrase}".'


def _hours(rng: random.Random, is_good: bool) -> str:
    """The hours in their fixed cycle, from any of them on."""
    start = rng.randrange(len(HOURS))
    hours = [HOURS[(start + step) % len(HOURS)] for step in range(len(HOURS))]
    first, second = draw_distinct(rng, NAMES, 2)
    return (
        f"{first} and {second} met at {hours[0]}, then at {hours[1]}, then at {hours[2]}, and "
        f"once more at {hours[3]} by the {draw(rng, PLACES)}."
    )


def _asked(rng: random.Random, is_good: bool) -> str:
    """A question of the other corpus and its answer, so that a decoder of reviews knows them."""
    # Questions about praise and blame would speak of the film's worth.
    categories = tuple(category for category in CATEGORIES if category != "Denials")
    asked = question(rng, draw(rng, categories), rng.randrange(2) == 0)
    return f'{draw(rng, NAMES)} asked: "{asked.text}" The answer was {asked.answer}.'


PASSAGES = (_reversible, _agreement, _nested, _enumeration, _negation, _copy, _hours, _asked)
