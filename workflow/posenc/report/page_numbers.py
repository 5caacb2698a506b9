"""How the report page writes names and numbers."""

from __future__ import annotations

from posenc.artifacts.numbers import Number
from posenc.report.quantities import decimals_of, written

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def typographic(text: str) -> str:
    """A number in digits, with a minus sign and a power of ten."""
    digits, _, exponent = text.replace("-", "−").partition("e")
    if not exponent:
        return digits
    return f"{digits} × 10{str(int(exponent.replace('−', '-'))).translate(RAISED)}"


def shown(entry: Number) -> dict[str, str]:
    """A number as it is shown, in the digits of the documents, and its interval."""
    decimals = decimals_of(entry)
    ends = {"low": entry.low, "high": entry.high}
    return {
        "value": typographic(written(entry.value, decimals)),
        **{
            name: "" if end is None else typographic(written(end, decimals))
            for name, end in ends.items()
        },
    }


def inline(entry: Number) -> str:
    """A number as it is shown in a line, its interval in brackets."""
    number = shown(entry)
    return number["value"] + (f" [{number['low']}, {number['high']}]" if number["low"] else "")
