"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from posenc.artifacts.numbers import Facts, NotRun, Number
from posenc.artifacts.printing import number, quantities
from posenc.drawing.exhibit import Exhibit

if TYPE_CHECKING:
    from posenc.measurements.spectra.result import PowerSpectra

T = TypeVar("T")
BANDS = ("low", "middle", "high")
SPECTRA = (
    *(f"{quantity}.{band}" for quantity in ("hidden_states", "keys") for band in BANDS),
    *(f"without.{band}" for band in BANDS),
    "uniform",
    "locked",
)


def spectra(result: PowerSpectra) -> Facts:
    """Shares of power by band, and what losing a band does, in the second layer.

    The second band counts as the middle one; of more than three, the others are in the file alone.
    """
    from posenc.measurements.spectra.result import BandPass

    last = len(result.bands) - 2
    places = dict(zip(BANDS, (0, min(1, last), last), strict=True))
    keys, passed = result.quantities.keys, result.band_pass
    facts: Facts = {"locked": Number(max(keys.locked[0][1:]))}
    for quantity, signal in (("hidden_states", result.quantities.hidden_states), ("keys", keys)):
        shares = second(signal.band_shares)
        facts |= {f"{quantity}.{band}": number(shares[place]) for band, place in places.items()}
    if isinstance(passed, BandPass):
        without = second(passed.left_out)
        facts |= {f"without.{band}": number(without[place]) for band, place in places.items()}
        facts["uniform"] = number(second(passed.uniform))
    else:
        names = ("uniform", *(f"without.{band}" for band in BANDS))
        facts |= dict.fromkeys(names, NotRun(passed.reason))
    return facts


def second(layers: Sequence[T]) -> T:
    """The second layer, or the only one."""
    return layers[min(1, len(layers) - 1)]


WORDS = {
    "hidden_states": "share of the power of hidden states",
    "keys": "share of the power of keys",
    "without": "distance of the attention pattern without the band",
    "low": "low frequencies",
    "middle": "middle frequencies",
    "high": "high frequencies",
    "uniform": "distance of the uniform pattern",
    "locked": "largest part of the keys' power that all documents share",
}
QUANTITIES = quantities(__package__, "PowerSpectra", {}, spectra, names=SPECTRA, words=WORDS)
FIGURE = Exhibit(
    "C1 columns as signals",
    ("spectra",),
    height=5.0,
    caption="Hidden states, queries and keys as signals along the sequence: share of the power "
    "that varies, by frequency and layer; and the part of the keys' power that is the same in "
    "all documents, corrected for their number. The narrow panels are of the constant part.",
    alt="Maps and lines: share of power by frequency and layer, of hidden states, queries "
    "and keys.",
    quantities=("*.hidden_states.*", "*.keys.*", "*.locked"),
    drawn="first data set",
)
