"""The machine that numbers are made on, as far as it decides about their last digits."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import TypedDict

CPUINFO = Path("/proc/cpuinfo")
FLAGS = ("avx2", "avx512f", "amx_tile")


class Machine(TypedDict):
    """What determines last digits on a machine.

    Attributes
    ----------
    processor
        Its name.
    instructions
        Those of ``FLAGS`` that it has.
    processors
        How many a process may use.
    torch
        Its version.
    """

    processor: str
    instructions: list[str]
    processors: int
    torch: str


def processor(cpuinfo: Path = CPUINFO) -> tuple[str, list[str]]:
    """A processor's name and its instructions; nothing where the system does not list them."""
    try:
        text = cpuinfo.read_text(encoding="utf-8")
    except OSError:
        text = ""
    parts = (line.partition(":") for line in text.splitlines())
    said = {name.strip(): value.strip() for name, _, value in parts}
    return said.get("model name", ""), said.get("flags", "").split()


def machine(cpuinfo: Path = CPUINFO) -> Machine:
    """This machine."""
    name, flags = processor(cpuinfo)
    return {
        "processor": name or platform.processor() or platform.machine(),
        "instructions": [flag for flag in FLAGS if flag in flags],
        "processors": len(os.sched_getaffinity(0)),
        "torch": importlib.metadata.version("torch"),
    }


def described(facts: Machine) -> str:
    """A machine in a line."""
    instructions = ", ".join(facts["instructions"]) or "none of " + ", ".join(FLAGS)
    return (
        f"{facts['processor']} ({instructions}), {facts['processors']} processors,"
        f" torch {facts['torch']}"
    )


def is_alike(first: Machine, second: Machine) -> bool:
    """Whether two machines give the same digits: processors alike, and torch of one version."""
    same = ("processor", "instructions", "torch")
    return all(first[key] == second[key] for key in same)  # type: ignore[literal-required]
