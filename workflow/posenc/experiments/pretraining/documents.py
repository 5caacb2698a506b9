"""Documents of the experiment on pre-training: with labels, without, and to test on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posenc.artifacts.files import ArtifactError
from posenc.datasets.documents import read_documents
from posenc.datasets.section import Evaluation
from posenc.experiments.frame import TRAINING_SPLIT
from posenc.experiments.pretraining.section import PretrainingTraining

Text = tuple[str, str | None]
"""A text and its label."""


def draw(
    path: Path, evaluation: Evaluation, parameters: PretrainingTraining, seed: int
) -> dict[str, list[Text]]:
    """Draw the documents of a seed; no text is in two parts, even under another identity.

    Parameters
    ----------
    path
        Documents of the data set.
    evaluation
        Its split is tested on.
    parameters
        How many documents of each part.
    seed
        Of the draw.

    Returns
    -------
    dict
        ``test``, ``validation`` and ``training`` have as many documents of each label, or one
        more; ``pretraining`` has no labels.

    Raises
    ------
    ArtifactError
        If there are too few documents, or fewer than two labels.
    """
    rows = read_documents(path, columns=["split", "text", "label"]).to_pylist()
    generator = np.random.default_rng(seed)
    pool = list({r["text"]: r["label"] for r in rows if r["split"] == evaluation.split}.items())
    classes = sorted({label for _, label in pool if label is not None})
    if len(classes) < 2:
        raise ArtifactError(
            f"experiments.pretraining: the split {evaluation.split!r} of {parameters.dataset} has "
            f"{len(classes)} labels, but a classifier needs two: choose another data set"
        )
    parts = {"test": _balanced(pool, classes, parameters, "test", generator)}
    tested = {text for text, _ in parts["test"]}
    learned = [r for r in rows if r["split"] == TRAINING_SPLIT and r["text"] not in tested]
    texts = {r["text"]: r["label"] for r in learned}
    left = list(texts.items())
    for name in ("validation", "training"):
        parts[name] = _balanced(left, classes, parameters, name, generator)
        taken = set(parts[name])
        left = [example for example in left if example not in taken]
    asked = parameters.pretraining_documents
    if len(left) < asked:
        raise _too_few(parameters, "pretraining", f"{len(left)} beside those with labels")
    chosen = generator.permutation(len(left))[:asked]
    parts["pretraining"] = [(left[i][0], None) for i in chosen]
    return parts


def _balanced(
    pool: Sequence[Text],
    classes: Sequence[str],
    parameters: PretrainingTraining,
    part: str,
    generator: np.random.Generator,
) -> list[Text]:
    """As many documents of each class as of the others, or one more, in random order."""
    asked = getattr(parameters, f"{part}_documents")
    chosen: list[Text] = []
    for index, label in enumerate(classes):
        share = asked // len(classes) + (index < asked % len(classes))
        own = [example for example in pool if example[1] == label]
        if len(own) < share:
            raise _too_few(parameters, part, f"{len(own)} of one of its {len(classes)} labels")
        chosen += [own[i] for i in generator.permutation(len(own))[:share]]
    return [chosen[i] for i in generator.permutation(len(chosen))]


def _too_few(parameters: PretrainingTraining, part: str, available: str) -> ArtifactError:
    field = f"{part}_documents"
    return ArtifactError(
        f"experiments.pretraining.{field} asks for {getattr(parameters, field)} documents, but "
        f"{parameters.dataset} has {available}: lower it in params.yaml"
    )
