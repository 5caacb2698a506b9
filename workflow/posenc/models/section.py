"""The ``models`` section: where weights come from, or how a model is trained here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from posenc.architectures.table import KINDS, TRAINED_HERE
from posenc.config.base import (
    Batch,
    Decay,
    Documents,
    FirstSteps,
    HeadCount,
    Layers,
    Length,
    Line,
    Rate,
    Revision,
    Section,
    Seed,
    Sha256,
    Steps,
    Vocabulary,
    Width,
    check_heads,
)

TokenizerFile = Literal["tokenizer.json", "vocab.json", "merges.txt"]
OtherFile = Annotated[str, Field(pattern=r"^[\w-][\w.-]*\.(json|txt|model|safetensors)$")]


class PackageSource(Section):
    """Weights carried by an installed Python package."""

    kind: Literal["package"]
    package: Line
    """Import name of the package; its ``get_model_path()`` gives the folder, or a GGUF file lies
    beside its code."""
    sha256: Sha256
    """Checksum of ``model.safetensors``, or in its place of the GGUF file, or of
    ``model.safetensors.index.json``."""
    files: dict[OtherFile, Sha256] = Field(default_factory=dict)
    """Checksums of the other files that are read: ``config.json``, the tokenizer's and the shards
    of an index. A GGUF file holds all of them."""


class HubSource(Section):
    """A model of the Hugging Face hub at a pinned commit."""

    kind: Literal["hub"]
    id: Line
    revision: Revision


class PathSource(Section):
    """A folder on this machine in the hub's format, or with one GGUF file."""

    kind: Literal["path"]
    path: Line
    sha256: Sha256
    """Checksum of ``model.safetensors``, or in its place of the GGUF file, or of
    ``model.safetensors.index.json``."""
    files: dict[OtherFile, Sha256] = Field(default_factory=dict)
    """Checksums of the other files that are read: ``config.json``, the tokenizer's and the shards
    of an index. A GGUF file holds all of them."""


class TrainedTokenizer(Section):
    """A byte-level byte-pair encoding learned from the training documents."""

    kind: Literal["bpe"]
    vocabulary_size: Annotated[Vocabulary, Field(ge=257)]
    """Number of tokens: 256 bytes, the end-of-text token, and the merges."""


class PathTokenizer(Section):
    """A folder on this machine with ``vocab.json`` and ``merges.txt`` or ``tokenizer.json``."""

    kind: Literal["path"]
    path: Line
    files: dict[TokenizerFile, Sha256]
    """Checksums of the files that are read."""


class Corpus(Section):
    """What a trained model's tokenizer and training tokens depend on."""

    tokenizer: Annotated[TrainedTokenizer | PathTokenizer, Field(discriminator="kind")]
    """Learned here, or read from files."""
    split: Line = "train"
    """Split of the training data set that is learned from."""
    documents: Documents | None = None
    """How many documents of the split, drawn at random; null for all."""
    validation_share: Annotated[float, Field(gt=0, lt=0.5)]
    """Share of those documents held out for the validation loss."""
    seed: Seed
    """Of the draw, the initial weights, and the order of the sequences."""


class TrainSource(Corpus):
    """A GPT-2-architecture decoder trained by the workflow (``studies.*.trained`` says on what)."""

    kind: Literal["train"]
    n_layers: Layers
    """Blocks."""
    d_model: Width
    """Width."""
    n_heads: HeadCount = 4
    """Attention heads of a layer."""
    n_positions: Annotated[Length, Field(ge=8)]
    """Length of the table of position embeddings, and of the training sequences."""
    positions: Literal["learned", "sinusoidal", "alibi", "rotary", "none"] = "learned"
    """How positions come in (posenc.models.schemes). Conditions edit the table of a learned one;
    the others are for ``studies.*.schemes``."""
    sequences_begin: Literal["anywhere", "documents"] = "anywhere"
    """Documents are joined and cut anywhere, or each sequence begins with a document, as the texts
    do that a model is measured on; what does not fit is dropped."""
    steps: Steps
    """Of the training."""
    batch_sequences: Batch
    """Sequences of a step."""
    learning_rate: Rate
    """At its highest, after the warm-up."""
    warmup_steps: FirstSteps
    """First steps, in which the learning rate rises."""
    weight_decay: Decay = 0.1
    """Of AdamW."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 computes the forward pass under autocast; the weights stay float32."""
    checkpoint_steps: Steps = 100
    """A killed training goes on from its last checkpoint, written every so many steps."""
    validate_steps: Steps = 100
    """The loss on held-out documents is computed every so many steps."""

    @model_validator(mode="after")
    def _check_heads(self) -> TrainSource:
        check_heads(self.d_model, self.n_heads)
        if self.positions == "rotary" and self.d_model // self.n_heads % 2:
            raise ValueError(
                f"positions 'rotary' turns pairs of features: d_model / n_heads is "
                f"{self.d_model // self.n_heads}, which must be even"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"positions 'sinusoidal' needs an even d_model, not {self.d_model}")
        return self


Source = Annotated[
    PackageSource | HubSource | PathSource | TrainSource, Field(discriminator="kind")
]


class Reading(Section):
    """How a model reads text: what tokens and captures depend on, beside the model's files."""

    kind: Literal["decoder", "encoder"] | None = None
    """What it is; null for a family of which it is known (``posenc new --model`` writes it)."""
    position: Literal["table", "rotation", "none"] | None = None
    """How positions come in; null for a family of which it is known."""
    family: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{1,40}$")]
    """The model type that its ``config.json`` names; ``llama`` stands for Mistral and Qwen2 too."""
    max_tokens: Annotated[Length, Field(ge=4)]
    """Documents are truncated to this many tokens, special tokens included."""

    @property
    def is_decoder(self) -> bool:
        """Whether the model is a causal language model."""
        return KINDS[self.family][0] if self.kind is None else self.kind == "decoder"

    @property
    def positions(self) -> Literal["table", "rotation", "none"]:
        """How positions come in: embeddings that are added, or queries and keys that are turned."""
        return KINDS[self.family][1] if self.position is None else self.position

    @field_validator("family")
    @classmethod
    def _check_family(cls, family: str, info: ValidationInfo) -> str:
        if family not in KINDS and None in (info.data.get("kind"), info.data.get("position")):
            raise ValueError(
                f"{family!r} is none of {', '.join(KINDS)}: say kind (decoder or encoder) and "
                f"position (table, rotation or none) beside it, as `posenc models` finds them"
            )
        return family


class Model(Reading):
    """One model."""

    source: Source
    """Where its weights come from."""
    title: Annotated[Line, Field(max_length=80)] | None = Field(default=None, exclude=True)
    """What documents call the model where they say what it is; elsewhere its name stands, which is
    shorter. Steps do not read it."""

    @property
    def reading(self) -> Reading:
        """The part that tokens and captures depend on."""
        return Reading(**{name: getattr(self, name) for name in Reading.model_fields})

    def steps(self) -> dict[str, Section]:
        """The part of the section that each step reads, so that an edit reaches no other."""
        if not isinstance(self.source, TrainSource):
            return {"fetch": self}
        corpus = Corpus(**{name: getattr(self.source, name) for name in Corpus.model_fields})
        return {"train": self.source, "corpus": corpus}

    @model_validator(mode="after")
    def _check_source(self) -> Model:
        if isinstance(self.source, TrainSource):
            if self.family != TRAINED_HERE:
                raise ValueError(
                    f"source.kind 'train' makes a decoder: set family to {TRAINED_HERE!r}"
                )
            if self.max_tokens > self.source.n_positions:
                raise ValueError(
                    f"max_tokens {self.max_tokens} exceeds source.n_positions "
                    f"{self.source.n_positions}"
                )
        return self
