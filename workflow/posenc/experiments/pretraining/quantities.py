"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Facts, Number, Quantities, estimate, percent
from posenc.drawing.exhibit import Exhibit


def cell_name(entry: Mapping[str, Any]) -> str:
    """``pretrained.auxiliary.transformer`` and so on."""
    return ".".join(
        (
            "pretrained" if entry["pretrained"] else "new",
            "auxiliary" if entry["auxiliary"] else "plain",
            entry["architecture"],
        )
    )


def pretraining(measurement: Mapping[str, Any]) -> Facts:
    """Accuracy of each cell, effects, and layers transferred."""
    facts: Facts = {
        "seeds": Number(len(measurement["seeds"])),
        "chance": percent(measurement["chance"]),
        "auxiliary_weight": Number(measurement["auxiliary_weight"]),
        "difference": percent(measurement["parameters"]["relative_difference"]),
    }
    for name in ("transformer", "lstm"):
        facts[f"parameters.{name}"] = Number(measurement["parameters"][name])
    for entry in measurement["language_models"]:
        place = f"language_model.{entry['architecture']}"
        for key in ("perplexity", "bits_per_byte"):
            facts[f"{place}.{key}"] = estimate(entry["test"][key])
        place = f"zero_shot.{entry['architecture']}"
        for kind, gain in entry["zero_shot_gain"].items():
            for row in entry["zero_shot"]:
                facts[f"{place}.{kind}.{row['step']}"] = percent(row[kind])
            facts[f"{place}.{kind}.last"] = percent(entry["zero_shot"][-1][kind])
            facts[f"{place}.{kind}.gain"] = percent(gain)
    for entry in measurement["cells"]:
        facts[f"{cell_name(entry)}.accuracy"] = percent(entry["accuracy"])
    for entry in measurement["effects"]:
        facts[f"effect.{entry['factor']}"] = percent(entry["average"])
        # The first setting has all else that GPT-1 has: the published ablation.
        facts[f"ablation.{entry['factor']}"] = percent(entry["settings"][0]["difference"])
    for entry in measurement["transfer"]:
        facts[f"transfer.{entry['layers']}"] = percent(entry["gain"])
    facts["transfer.all"] = percent(measurement["transfer"][-1]["gain"])
    facts["transfer.embeddings"] = percent(measurement["transfer"][0]["gain"])
    return facts


WORDS = {
    "accuracy": "test accuracy (%)",
    "effect": "effect, paired by seed (percentage points)",
    "ablation": "ablation (percentage points)",
    "transfer": "blocks transferred, gain (percentage points)",
    "zero_shot": "right without fine-tuning (%): words that are expected, by steps",
}
QUANTITIES = Quantities(read=pretraining, words=WORDS)
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
