"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posenc.artifacts.numbers import Facts, Number
from posenc.artifacts.printing import Printed, number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.experiments.pretraining.result import Ablation

PERCENT = Printed(percent=True)


def pretraining(result: Ablation) -> Facts:
    """Accuracy of each cell, effects, and layers transferred."""
    facts: Facts = {
        "seeds": Number(len(result.seeds)),
        "chance": number(result.chance, PERCENT),
        "auxiliary_weight": Number(result.auxiliary_weight),
        "difference": number(result.parameters.relative_difference, PERCENT),
        "parameters.transformer": Number(result.parameters.transformer),
        "parameters.lstm": Number(result.parameters.lstm),
    }
    for model in result.language_models:
        place = f"language_model.{model.architecture}"
        facts[f"{place}.perplexity"] = number(model.test.perplexity)
        facts[f"{place}.bits_per_byte"] = number(model.test.bits_per_byte)
        place = f"zero_shot.{model.architecture}"
        for kind, gain in model.zero_shot_gain:
            for row in model.zero_shot:
                facts[f"{place}.{kind}.{row.step}"] = number(getattr(row, kind), PERCENT)
            facts[f"{place}.{kind}.last"] = number(getattr(model.zero_shot[-1], kind), PERCENT)
            facts[f"{place}.{kind}.gain"] = number(gain, PERCENT)
    for cell in result.cells:
        facts[f"{cell.place}.accuracy"] = number(cell.accuracy, PERCENT)
    for effect in result.effects:
        facts[f"effect.{effect.factor}"] = number(effect.average, PERCENT)
        facts[f"ablation.{effect.factor}"] = number(effect.settings[0].difference, PERCENT)
    for transfer in result.transfer:
        facts[f"transfer.{transfer.layers}"] = number(transfer.gain, PERCENT)
    facts["transfer.all"] = number(result.transfer[-1].gain, PERCENT)
    facts["transfer.embeddings"] = number(result.transfer[0].gain, PERCENT)
    return facts


WORDS = {
    "accuracy": "test accuracy (%)",
    "effect": "effect, paired by seed (percentage points)",
    "ablation": "ablation (percentage points)",
    "transfer": "blocks transferred, gain (percentage points)",
    "zero_shot": "right without fine-tuning (%): words that are expected, by steps",
}
QUANTITIES = quantities(__package__, "Ablation", {}, pretraining, words=WORDS)
FIGURE = Exhibit(
    "D5 pre-training",
    ("pretraining",),
    height=4.6,
    caption="Accuracy by pre-training, auxiliary loss and architecture; effects paired by "
    "seed; layers transferred; and in how many pairs of texts a language model, while it is "
    "trained, rather expects a label's word behind the text that has it (dashed: other words).",
    alt="Points with intervals: test accuracy of each kind of pre-training, paired effects, "
    "and accuracy by the number of transferred blocks. Lines: pairs in order by steps.",
)
