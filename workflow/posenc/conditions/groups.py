"""How conditions are presented: by what they do, and not by what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUPS = {
    "positions": "positions",
    "norms": "norms",
    "versions": "library versions",
    "semantics": "other semantics",
    "profiles": "other profiles",
    "learned": "learned",
    "adaptation": "learned on the intact model",
}
"""By what is shown of them, in order of presentation."""
MASKED = ("versions", "semantics", "profiles", "learned")
"""Groups of conditions that put something in the place of positions."""


def group_of(spec: Mapping[str, Any]) -> str:
    """The group of a condition.

    Parameters
    ----------
    spec : mapping
        As params.yaml has it; what is left out is as in the intact model.

    Returns
    -------
    str
        A key of ``GROUPS``. Tokens that are run alone stand with the library's versions, one of
        which does the same by a mask.

    Examples
    --------
    >>> group_of({"position": "zero"})
    'positions'
    >>> group_of({"position": "zero", "segments": 1})
    'versions'
    >>> group_of({"mask": {"profile": {"kind": "learned"}}})
    'adaptation'
    """
    position, mask = spec.get("position", "intact"), spec.get("mask")
    given = mask["profile"] if mask else {}
    profile = given.get("kind")
    learns = isinstance(position, Mapping) and position["kind"] == "learned"
    is_added = profile == "learned" and given.get("scale", 1) > 0
    if (learns and position.get("added")) or (is_added and position == "intact"):
        return "adaptation"
    if profile == "learned" or learns:
        return "learned"
    if mask is None:
        if spec.get("segments") == 1:
            return "versions"
        return "positions" if spec.get("embeddings", "intact") == "intact" else "norms"
    if mask["semantics"].startswith("hf_"):
        return "versions"
    return "semantics" if profile == "linear" else "profiles"


def semantics_of(spec: Mapping[str, Any]) -> str | None:
    """What the mask of a condition means, as the table of semantics names it; None for other masks.

    Parameters
    ----------
    spec : mapping
        As params.yaml has it.

    Examples
    --------
    >>> semantics_of({"position": "zero", "segments": 1})
    'single_token'
    """
    mask = spec.get("mask")
    if mask is None:
        return "single_token" if spec.get("segments") == 1 else None
    profile = mask["profile"]["kind"]
    if mask["semantics"] == "additive":
        return "alibi" if profile == "alibi" else None
    if profile != "linear":
        return None
    return "per_query" if mask.get("span") == "query" else mask["semantics"]


def grouped(specs: Mapping[str, Mapping[str, Any]], *groups: str) -> dict[str, list[str]]:
    """Names of conditions by group, without the intact model and without empty groups.

    Parameters
    ----------
    specs : mapping
        Specification of each condition, in order of presentation.
    *groups : str
        Only these; none for all.
    """
    members: dict[str, list[str]] = {group: [] for group in groups or GROUPS}
    for name, spec in specs.items():
        group = group_of(spec)
        if group in members and any(spec.values()):
            members[group].append(name)
    return {group: names for group, names in members.items() if names}
