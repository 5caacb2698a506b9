"""The study that docs/studies.md begins with runs as it stands there, from a text to a record."""

from __future__ import annotations

import json
import random
import re
import subprocess

from ruamel.yaml import YAML

from posenc.artifacts.files import sha256_file
from tests.copies import ROOT, copy_project
from tests.workflow.conftest import Project

BLOCK = re.compile(r"```yaml\n(.*?)```", re.S)
JOBS = 15
"""Of one model, one file and two conditions, as the issue that asked for small studies has it."""


def test_a_study_of_ten_lines_goes_from_a_file_to_a_record(tmp_path):
    project = Project(tmp_path / "project")
    copy_project(project.folder)
    chance = random.Random(0)
    words = ["old", "the", "house", "by", "sea", "was", "cold", "we", "left", "it", "in", "spring"]
    lines = [" ".join(chance.choices(words, k=chance.randint(8, 30))) for _ in range(20)]
    text = tmp_path / "notes.txt"
    text.write_text("\n".join(lines) + "\n")
    block = BLOCK.search((ROOT / "docs/studies.md").read_text())[1]
    own = YAML(typ="safe").load(block.replace("CHECKSUM", sha256_file(text)))
    assert len(own["studies"]["mine"]) <= 10
    project.edit_all({f"{kind}.{name}": one for kind in own for name, one in own[kind].items()})
    (project.folder / "dvc.lock").unlink()
    for command in (["git", "init", "-q"], ["git", "add", "-A"], ["dvc", "init", "-q", "-f"]):
        subprocess.run(command, cwd=project.folder, env=project.environment, check=True)

    assert "Study 'mine': 2 runs" in project.run("posenc", "study", "mine").stdout
    assert sum(project.planned().values()) <= JOBS
    project.snakemake()
    for made in ("data/figures/layer_similarity.pdf", "report/index.html"):
        assert (project.folder / made).stat().st_size > 10_000
    numbers = json.loads((project.folder / "data/numbers.json").read_text())
    similar = [
        one for key, one in numbers.items() if key.startswith("minilm.notes.zero.similarity")
    ]
    assert similar
    assert "not part of this study" in (project.folder / "report/index.html").read_text()
    assert project.planned() == {}
    project.run("posenc", "stages")
    assert "recorded in dvc.lock" in project.run("posenc", "record").stdout
    assert project.reproduced() == []
