"""What it finds out about the study's data sets."""

from __future__ import annotations

from posenc.artifacts.results import Part
from posenc.experiments.results import OfSeeds, OverSeeds


class Sizes(Part):
    """How much text there is."""

    documents: int
    words: int
    """Between white space."""
    characters: int
    bytes: int
    """Of UTF-8."""


class Change(Part):
    """What the normalisation changes of the test documents."""

    documents: float
    """Share that is not the same after."""
    characters: float
    """Share of the original's that NFKC writes otherwise; 0 where no document is changed."""
    bytes: float
    """After, over before."""


class Fertility(Part):
    """Tokens of the test documents by unit of text."""

    per_word: float
    per_character: float
    per_byte: float


class Unknown(Part):
    """What the tokenizer does not know of the test documents."""

    tokens: float
    """Share of tokens that are unknown."""
    bytes: float
    """Share of bytes that they stand for."""


class Bits(Part):
    """Bits of the test documents over their bytes."""

    total: OverSeeds
    model: OverSeeds
    """Of the tokens, by the language model."""
    spelling: OverSeeds
    """Of what the tokenizer does not know."""


class Tried(Part):
    """A learning rate that was tried."""

    learning_rate: float
    bits_per_byte: float | None
    """The fewest of the validation documents in its first steps; None where it diverged."""


class Validation(Part):
    """Bits of the validation documents over their bytes, after some steps."""

    step: int
    bits_per_byte: float


class Choice(Part):
    """How one seed's learning rate and number of steps were chosen."""

    tried: list[Tried]
    learning_rate: float
    best_step: int
    """After which the bits were fewest."""
    steps: int
    """That were taken."""
    bits_per_byte: float
    """Of the validation documents after the best step."""
    curve: list[Validation]
    fall: float
    """Share by which the bits fell in the last third of the training."""
    flat: bool
    """Whether that is less than 1 %."""


class Variant(Part):
    """A tokenizer of a data set in one normalisation."""

    dataset: str
    normalization: str
    """``none`` or ``NFKC``."""
    kind: str

    @property
    def place(self) -> str:
        """``none.bpe`` and so on."""
        return f"{self.normalization}.{self.kind}"


class Tokenizer(Variant):
    """A tokenizer, and the language model over it."""

    vocabulary: int
    merged_by_nfkc: int
    """Entries of the vocabulary that NFKC writes like another."""
    embedding_parameters: int
    body_parameters: int
    """Parameters of the language model beside its embeddings."""
    training: Sizes
    test: Sizes
    changed: Change
    tokens: int
    """Of the test documents."""
    fertility: Fertility
    unknown: Unknown
    round_trip: float
    """Share of test documents that are the same when their tokens are read back."""
    rebuilt: float
    """Share of test documents that tokens and spelled pieces give back."""
    uniform_bits_per_byte: float
    """Of the test documents, by a model that has learned nothing."""
    bits_per_byte: Bits
    """Over bytes of the text that is coded."""
    bits_per_original_byte: Bits
    """Over bytes of the text before it was normalised."""
    training_bytes: list[int]
    """[seeds]: bytes of text that were learned from, repetitions included."""
    choices: list[Choice]
    """[seeds]"""
    ended: int
    """Trainings that ended before the most steps, because bits fell no more."""
    fall: OverSeeds
    """Share by which validation bits fell in the last third of a training."""


class Difference(Variant):
    """Bits per byte less those of a reference, paired by seed."""

    reference: str
    bits_per_byte: OverSeeds


class Normalization(Part):
    """Bits per byte with NFKC, less those without, paired by seed."""

    dataset: str
    kind: str
    bits_per_byte: OverSeeds
    bits_per_original_byte: OverSeeds


class Comparison(OfSeeds):
    """Tokenizers, each with a language model of the same body and the same training."""

    tokenizers: list[Tokenizer]
    differences: list[Difference]
    """From byte-level BPE."""
    normalizations: list[Normalization]
