"""Where the files of a study lie: all below one folder, apart from those of other studies."""

from __future__ import annotations

from pathlib import Path

STUDIES = Path("data/studies")
