"""Its parameters, what it covers and what it reads."""

from __future__ import annotations

from posenc.measurements.declaration import CELL, TOKENS, WEIGHTS, Measurement
from posenc.measurements.probes.declaration import Probes

MEASUREMENT = Measurement(
    "scheme_probes", Probes, of=CELL, reads=(TOKENS, WEIGHTS, "training"), catalogue=("B4",),
    uses=("scikit-learn", "torch", "transformers"), subjects="schemes", parameters_of="probes",
)  # fmt: skip
