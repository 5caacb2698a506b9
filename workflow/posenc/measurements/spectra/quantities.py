"""What documents print of it: numbers by key, their words, and its figure's caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from posenc.artifacts.numbers import Entry, NotRun, Number, Quantities, estimate
from posenc.drawing.exhibit import Exhibit

BANDS = ("low", "middle", "high")
SPECTRA = (
    *(f"{quantity}.{band}" for quantity in ("hidden_states", "keys") for band in BANDS),
    *(f"without.{band}" for band in BANDS),
    "uniform",
    "locked",
)


def spectra(measurement: Mapping[str, Any]) -> dict[str, Entry]:
    """Shares of power by band, and what losing a band does, in the second layer.

    The second band counts as the middle one; of more than three, the others are in the file alone.
    """
    facts: dict[str, Entry] = {}
    last = len(measurement["bands"]) - 2
    places = dict(zip(BANDS, (0, min(1, last), last), strict=True))
    for quantity in ("hidden_states", "keys"):
        shares = measurement["quantities"][quantity]["band_shares"]
        layer = min(1, len(shares) - 1)
        for band, place in places.items():
            facts[f"{quantity}.{band}"] = estimate(shares[layer][place])
    locked = measurement["quantities"]["keys"]["locked"]
    facts["locked"] = Number(max(locked[0][1:]))
    passed = measurement["band_pass"]
    for band, place in places.items():
        facts[f"without.{band}"] = (
            NotRun(passed["reason"])
            if passed["status"] != "measured"
            else estimate(passed["left_out"][min(1, len(passed["left_out"]) - 1)][place])
        )
    facts["uniform"] = (
        NotRun(passed["reason"])
        if passed["status"] != "measured"
        else estimate(passed["uniform"][min(1, len(passed["uniform"]) - 1)])
    )
    return facts


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
QUANTITIES = Quantities(read=spectra, names=SPECTRA, words=WORDS)
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
)
