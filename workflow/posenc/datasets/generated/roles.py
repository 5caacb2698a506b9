"""Sentences about two names, the same with the names exchanged, and a paraphrase.

"The train goes from Tokyo to Osaka" and "from Osaka to Tokyo" hold the same words and say the
opposite; "there is a train that leaves Tokyo and arrives in Osaka" holds others and says the same.
Names never stand first, where a tokenizer or an upper-case letter would give them away.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np


class Roles(NamedTuple):
    """Four sentences.

    Attributes
    ----------
    text
        Who does something to whom, or what leads from where to where.
    exchanged
        The same words, with the two names exchanged.
    paraphrase
        Other words for what ``text`` says.
    unrelated
        Of another pattern, about two other names.
    """

    text: str
    exchanged: str
    paraphrase: str
    unrelated: str


CITIES = {
    "english": "Tokyo Osaka Paris Rome Berlin London Madrid Vienna Cairo Lima Oslo Athens",
    "japanese": "東京 大阪 京都 名古屋 札幌 福岡 仙台 広島 長崎 金沢 神戸 奈良",
}
PEOPLE = {
    "english": "Anna Boris Clara Peter Maria George Alice Robert Emma Thomas Julia David",
    "japanese": "佐藤 鈴木 高橋 田中 伊藤 渡辺 山本 中村 小林 加藤 吉田 山田",
}
PATTERNS = {
    "english": (
        (CITIES, "The train goes from {a} to {b}.",
         "There is a train that leaves {a} and arrives in {b}."),
        (CITIES, "We moved from {a} to {b} last year.",
         "Last year we left {a} and now we live in {b}."),
        (PEOPLE, "Yesterday {a} thanked {b} for the book.",
         "For the book {b} was thanked by {a} the day before."),
        (PEOPLE, "We know that {a} is older than {b}.",
         "It is known to us that {b} is younger than {a}."),
        (PEOPLE, "This is the letter that {a} wrote to {b}.",
         "Here is what {b} received in the mail from {a}."),
    ),
    "japanese": (
        (CITIES, "この列車は{a}から{b}へ行く。", "それは{a}を出て{b}に着く列車だ。"),
        (CITIES, "去年{a}から{b}に引っ越した。", "以前は{a}に住んでいたが、今の家は{b}にある。"),
        (PEOPLE, "昨日{a}が{b}に本の礼を言った。", "前の日に{b}は{a}から本のことで感謝された。"),
        (PEOPLE, "たしか{a}は{b}より年上だ。", "私の知るところでは{b}は{a}より若い。"),
        (PEOPLE, "これは{a}が{b}に書いた手紙だ。", "ここに{b}が{a}から受け取った便りがある。"),
    ),
}  # fmt: skip
"""By language: names, a sentence, and its paraphrase."""


def sentences(language: str, count: int, seed: int) -> list[Roles]:
    """Sentences of drawn patterns and names, no two alike.

    Parameters
    ----------
    language
        ``english`` or ``japanese``.
    count
        How many, at most: there are as many as patterns and ordered pairs of names.
    seed
        Of the draws.
    """
    generator, patterns = np.random.default_rng([seed, len(language)]), PATTERNS[language]
    every = [
        (number, pair)
        for number, (names, _, _) in enumerate(patterns)
        for pair in itertools.permutations(names[language].split(), 2)
    ]
    roles = []
    for place in generator.permutation(len(every))[:count]:
        number, (a, b) = every[place]
        _, text, paraphrase = patterns[number]
        another = (number + generator.integers(1, len(patterns))) % len(patterns)
        other_names, other, _ = patterns[another]
        rest = [name for name in other_names[language].split() if name not in (a, b)]
        c, d = generator.permutation(rest)[:2]
        roles.append(
            Roles(
                text.format(a=a, b=b),
                text.format(a=b, b=a),
                paraphrase.format(a=a, b=b),
                other.format(a=c, b=d),
            )
        )
    return roles
