"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from posenc.artifacts.printing import By, Fields, Printed, quantities
from posenc.drawing.exhibit import Exhibit

LANGUAGES = {"english": "English", "japanese": "Japanese"}
PRINTED: Fields = {
    "languages": By(
        "language",
        spoken=tuple(LANGUAGES),
        absent="the study has no such sentences",
        words=LANGUAGES,
    ),
    "languages.pairs": Printed("sentences"),
    "languages.conditions": By("condition", spoken=("intact", "zero")),
    "languages.conditions.exchanged": Printed("cosine with names exchanged"),
    "languages.conditions.paraphrase": Printed("cosine with a paraphrase"),
    "languages.conditions.unrelated": Printed("cosine with an unrelated sentence"),
    "languages.conditions.nearer": Printed(
        "share of sentences nearer to exchanged names than to the paraphrase"
    ),
}
QUANTITIES = quantities(__package__, "Comparisons", PRINTED)
FIGURE = Exhibit(
    "A1 sentences that differ in order alone",
    ("exchanged_roles",),
    height=2.6,
    caption="Cosine of a sentence's vector (the mean of its last hidden states) with that of "
    "the same sentence with its two names exchanged, of a paraphrase, and of an unrelated "
    "sentence, with positions (filled) and without (hollow). An encoder without positions "
    "cannot tell a sentence from its exchanged form.",
    alt="Points with intervals, a panel for each model: cosine with exchanged names, a "
    "paraphrase and an unrelated sentence, in English and Japanese.",
)
