"""The page made of the record: arrays of facts in, Markdown out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

INTRODUCTION = """\
# What a float attention mask means, by version of `transformers`

<!-- Made by `python -m tests.versions.compare` from mask-versions.json; do not edit. -->

`attention_mask=linspace(0.1, 1, n)` is one line of user code with several meanings. Small random
models (GPT-2 and BERT, {layers} layers, documents of {lengths} tokens, float32 on the CPU) were run
in each version below and here under our semantics (`posenc.conditions.semantics`), on the same
weights, with position embeddings intact and zeroed. A version *agrees with* a semantics if hidden
states of all layers and logits differ by less than {tolerance} of their largest value in every
document and with both kinds of positions. {exceptions}
All versions ran with torch {torch} and Python {python}.

To repeat it, or for other versions (about 0.1 GB each):

```
python -m tests.versions.compare --cache .cache/versions
python -m tests.versions.compare --versions 4.36.2,installed --output new.json --page new.md
```
"""

MASKS = {
    "linear 0.1": "`linspace(0.1, 1, n)`, 2-D",
    "linear 0.0": "`linspace(0, 1, n)`, 2-D: the first key's factor is 0",
    "constant 0.5": "0.5 for every key, 2-D",
    "4-D log": "a 4-D float mask of log m, m from 0.1 to 1, with the future shut out for GPT-2",
    "none": "no mask",
}

NOTES = """\
- `sdpa, CUDA branch`: up to 4.51 the library treats the causal mask differently if it lies on a
  CUDA device (`_unmask_unattended`). That step was run on CPU tensors; no GPU was used.
- `sdpa, output_attentions`: the same model, called with `output_attentions=True`. In 4.53.0 and
  before, that falls back to the eager attention and its meaning of the mask; in 4.57.6 no longer.
- *each token alone*: the outputs are those of running every token by itself, at its own position.
- Where several semantics are named, they do the same under this mask in this model.
"""

NOTE_OF_ZERO = """\
With a factor of 0 (or nearly) for the first key, no mask of GPT-2 is clean. Up to 4.51, eager, the
first query's own score is as low as that of the last key, which lies in the future: up to 4.20
the causal mask puts 10⁴ below zero in place of a score and the attention mask is added to it; from
4.21 the lowest float32 does the same. From 4.52 the first query has no key left: it sees itself
(eager, 4.52.1 to 5.0.0), all keys alike (sdpa to 4.53.0; eager in 5.23.0) or gets zeros (sdpa in
4.57.6 and later).
Where none agrees, the difference is the nearest one's.
"""


@dataclass(frozen=True)
class Line:
    """One version, model and implementation under one mask, both positions together."""

    version: str
    model: str
    implementation: str
    is_default: bool
    verdict: str
    same_as: str
    largest: float | None


def lines(record: dict, mask: str) -> list[Line]:
    """All lines of one mask: by model, implementation and version."""
    mask_lines = []
    for entry in record["versions"]:
        cases: dict[tuple[str, str], list[dict]] = {}
        for case in entry.get("cases", []):
            if case["mask"] == mask:
                cases.setdefault((case["model"], case["implementation"]), []).append(case)
        for (model, implementation), positions in cases.items():
            mask_lines.append(_line(entry["version"], model, implementation, positions))
        for key, reason in entry.get("refused", {}).items():
            model, implementation, *rest = key.split("/")
            if rest == ["intact", mask]:
                is_default = entry["default"][model] == implementation
                verdict = f"refused ({reason.split(':')[0]})"
                mask_lines.append(
                    Line(entry["version"], model, implementation, is_default, verdict, "", None)
                )
    order = [entry["version"] for entry in record["versions"]]
    key = lambda line: (line.model != "gpt2", line.implementation, order.index(line.version))  # noqa: E731
    return sorted(mask_lines, key=key)


def _line(version: str, model: str, implementation: str, positions: list[dict]) -> Line:
    agreeing = set.intersection(*(set(case["agrees_with"]) for case in positions))
    same = set.intersection(*(set(case["same_as"]) for case in positions))
    worst = {
        name: max(case["differences"][name] for case in positions)
        for name in positions[0]["differences"]
        if all(case["differences"][name] is not None for case in positions)
    }
    nearest = min(worst, key=worst.__getitem__) if worst else None
    if agreeing:
        verdict = ", ".join(f"`{name}`" for name in sorted(agreeing))
        largest = max(worst[name] for name in agreeing)
    else:
        refusing = sorted({name for case in positions for name in case.get("refused_by_us", {})})
        verdict = "none" + "".join(f"; ours refuses it: `{name}`" for name in refusing)
        largest = worst.get(nearest)
    is_default = positions[0]["is_default"]
    return Line(
        version, model, implementation, is_default, verdict, ", ".join(sorted(same)), largest
    )


def ranges(mask_lines: list[Line], versions: list[str]) -> list[list[Line]]:
    """Lines grouped where neighbouring versions say the same."""
    groups: list[list[Line]] = []
    for line in mask_lines:
        last = groups[-1][-1] if groups else None
        same = last is not None and (
            (last.model, last.implementation, last.verdict, last.same_as, last.is_default)
            == (line.model, line.implementation, line.verdict, line.same_as, line.is_default)
            and versions.index(line.version) == versions.index(last.version) + 1
        )
        if same:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _number(value: float | None) -> str:
    return "–" if value is None else "0" if value == 0 else f"{value:.0e}"


def _implementation(line: Line) -> str:
    return line.implementation + (" (default)" if line.is_default else "")


def _table(header: list[str], rows: list[list[str]]) -> str:
    written = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in written) + "\n"


def summary(record: dict, mask: str) -> str:
    """One table: a row for each range of versions that mean the same."""
    versions = [entry["version"] for entry in record["versions"]]
    rows = []
    for group in ranges(lines(record, mask), versions):
        first, last = group[0].version, group[-1].version
        numbers = [line.largest for line in group if line.largest is not None]
        rows.append(
            [
                *(group[0].model, _implementation(group[0])),
                first if first == last else f"{first} to {last}",
                *(group[0].verdict, group[0].same_as),
                _number(max(numbers) if numbers else None),
            ]
        )
    header = ["model", "implementation", "versions", "agrees with", "same as", "largest difference"]
    return _table(header, rows)


def changes(record: dict, mask: str) -> str:
    """Where the meaning changes if no implementation is requested."""
    versions = [entry["version"] for entry in record["versions"]]
    chosen = [line for line in lines(record, mask) if line.is_default]
    chosen.sort(key=lambda line: (line.model != "gpt2", versions.index(line.version)))
    rows = []
    for model, of_model in groupby(chosen, key=lambda line: line.model):
        model_lines = list(of_model)
        for before, after in pairwise(model_lines):
            if (before.verdict, before.implementation) != (after.verdict, after.implementation):
                rows.append(
                    [
                        *(model, f"{before.version} → {after.version}"),
                        f"{before.implementation}: {before.verdict}",
                        f"{after.implementation}: {after.verdict}",
                    ]
                )
    return _table(["model", "versions", "before", "after"], rows)


def every(record: dict, mask: str) -> str:
    """One table: a row for each version, model and implementation."""
    rows = [
        [
            *(line.version, line.model, _implementation(line), line.verdict),
            *(_number(line.largest), f"same as {line.same_as}" if line.same_as else ""),
        ]
        for line in lines(record, mask)
    ]
    for entry in record["versions"]:
        if entry["status"] != "run":
            reason = entry["status"].removeprefix("not run: ")
            rows.append([entry["version"], "", "", "not run", "–", reason])
    rows.sort(key=lambda row: [entry["version"] for entry in record["versions"]].index(row[0]))
    header = ["version", "model", "implementation", "agrees with", "largest difference", "note"]
    return _table(header, rows)


def environments(record: dict) -> str:
    """What each version was run with."""
    rows = []
    for entry in record["versions"]:
        packages = entry.get("packages", {})
        names = ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
        rows.append([entry["version"], entry["status"], entry.get("tokenizers", ""), names])
    return _table(["version", "status", "tokenizers", "other packages"], rows)


def page(record: dict) -> str:
    """The whole page.

    Parameters
    ----------
    record
        ``mask-versions.json``.
    """
    exceptions = " ".join(
        f"For `{name}` it is {_number(value)}:\nit adds numbers near 10⁴, where float32 has steps "
        f"of 10⁻³, and what scores are rounded to depends\non the kernel."
        for name, value in record["tolerances"].items()
    )
    parts = [
        INTRODUCTION.format(
            layers=record["models"]["gpt2"]["n_layer"],
            lengths=", ".join(map(str, record["lengths"])),
            tolerance=_number(record["tolerance"]),
            exceptions=exceptions,
            torch=record["torch"],
            python=record["python"],
        )
    ]
    first, *others = MASKS
    parts += [f"## {MASKS[first]}\n", summary(record, first), NOTES]
    parts += ["## Where the default changes\n", changes(record, first)]
    for mask in others:
        parts += [f"## {MASKS[mask]}\n", summary(record, mask)]
        if mask == "linear 0.0":
            parts.append(NOTE_OF_ZERO)
    parts += [f"## Every version under {MASKS[first]}\n", every(record, first)]
    parts += ["## What each version was run with\n", environments(record)]
    return "\n".join(parts)
