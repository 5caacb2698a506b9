"""The words of the sample corpora, and random draws from them that are alike on every machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


NAMES = _words(
    "Anna Boris Clara Dmitri Elena Felix Greta Hugo Irene Jonas Karin Leon Marta Nils Olga Pavel "
    "Quinn Rosa Stefan Tilda Ursula Viktor Wanda Xavier Yara Zeno Alba Bruno Celia Dario Edith "
    "Fabian Gilda Henrik Ines Jarek"
)
PEOPLE = _words(
    "baker tailor dancer painter singer miller farmer doctor lawyer sailor pilot clown teacher "
    "editor writer hunter joiner weaver potter barber banker butler driver fiddler gardener "
    "grocer jeweller porter printer waiter"
)
"""Their plurals end in s."""
OBJECTS = _words(
    "lantern violin anchor basket candle mirror pillow ladder hammer needle kettle bucket button "
    "carpet curtain feather helmet hourglass jacket compass letter locket map medal napkin "
    "notebook paddle parcel pencil picture puppet ribbon saddle saucer scarf shovel spoon "
    "statue suitcase teapot ticket trumpet umbrella vase wagon whistle window wrench"
)
COLOURS = _words("red blue green yellow purple orange brown grey black white pink silver")
MATERIALS = _words(
    "copper wooden paper leather marble cotton woollen glass iron velvet clay wicker"
)
PLACES = _words(
    "river bridge market harbour castle forest meadow station tower garden mill chapel museum "
    "orchard quarry stable tavern theatre valley village island lighthouse library bakery"
)
GOOD = _words(
    "clever bright charming honest tender lively graceful gentle witty fresh elegant daring "
    "joyful moving warm subtle vivid brilliant delightful patient generous thoughtful polished "
    "funny brave splendid sincere crisp inventive radiant"
)
BAD = _words(
    "dull stale clumsy hollow tedious bitter noisy shallow lazy gloomy crude messy sour cold "
    "careless boring stiff pointless feeble vulgar dreary awkward bland grim lifeless muddled "
    "pompous predictable tiresome shabby"
)
PLAIN = _words(
    "late early tired hungry quiet calm busy ready lost awake asleep alone proud shy curious "
    "nervous famous poor rich young"
)
"""What a person can be without being good or bad."""
PARTS = _words(
    "story music ending acting camera script humour pace lighting dialogue plot editing casting "
    "costume scenery opening chorus finale"
)
"""What a film has."""
DEEDS = _words(
    "praised thanked followed warned helped blamed trusted admired ignored called visited chased "
    "pushed hugged teased cheered pulled phoned invited rescued fooled tricked scolded greeted "
    "mocked copied obeyed watched painted carried"
)
"""Past tense and participle alike, and either side can do it to the other."""
ACTS = _words(
    "smiled laughed slept waited danced cried sneezed shouted coughed vanished jumped waved "
    "whistled yawned bowed trembled"
)
SPEECH = _words("whispered shouted sang wrote muttered announced")
HOURS = _words("dawn noon dusk midnight")
CYCLE = _words("Firstly Secondly Thirdly Fourthly Fifthly Sixthly Lastly")
"""Every passage of a review opens with the next one; after the last comes the first."""
NUMBERS = _words("one two three four five six seven eight nine ten")
CONNECTIVES = _words("Later Afterwards Meanwhile Tomorrow Yesterday Eventually Suddenly Soon")


def draw(rng: random.Random, words: Sequence[T]) -> T:
    """Return one of the words, or of what else is listed.

    Integer draws alone are alike on all machines and versions.
    """
    return words[rng.randrange(len(words))]


def draw_distinct(rng: random.Random, words: Sequence[T], count: int) -> list[T]:
    """Return several different ones of the words, in random order."""
    rest = list(words)
    return [rest.pop(rng.randrange(len(rest))) for _ in range(count)]


def listing(words: Sequence[str]) -> str:
    """Join words as ``the a, the b and the c``."""
    named = [f"the {word}" for word in words]
    return f"{', '.join(named[:-1])} and {named[-1]}"
