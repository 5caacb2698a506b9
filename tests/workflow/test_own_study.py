"""The first study of docs/studies.md runs as it stands there, from a text to a record."""

from __future__ import annotations

import html
import json
import random
import re
import subprocess

from ruamel.yaml import YAML

from posenc.artifacts.files import sha256_file
from tests.copies import ROOT, copy_project
from tests.workflow.conftest import Project, ran

BLOCK = re.compile(r"```yaml\n(.*?)```", re.S)
UGLY = "日本 語'\"; touch ran; $(touch ran) & `touch ran` #{x},: %s"
"""What people call files; a folder and a file are called so."""
JOBS = 15
"""Of one model, one file and two conditions, as the issue that asked for small studies has it."""


def test_a_study_of_ten_lines_goes_from_a_file_to_a_record(tmp_path):
    project = Project(tmp_path / "project")
    copy_project(project.folder)
    chance = random.Random(0)
    words = ["old", "the", "house", "by", "sea", "was", "cold", "we", "left", "it", "in", "spring"]
    lines = [" ".join(chance.choices(words, k=chance.randint(8, 30))) for _ in range(20)]
    text = tmp_path / UGLY / f"{UGLY}.txt"
    text.parent.mkdir()
    text.write_text("\n".join(lines) + "\n")
    path = f"../{UGLY}/{UGLY}.txt"
    block = BLOCK.search((ROOT / "docs/studies.md").read_text())[1]
    shown = YAML(typ="safe").load(block.replace("CHECKSUM", sha256_file(text)))
    shown["define"]["datasets"]["mine"]["source"]["path"] = path
    (project.folder / "dvc.lock").unlink()
    for command in (["git", "init", "-q"], ["git", "add", "-A"], ["dvc", "init", "-q", "-f"]):
        subprocess.run(command, cwd=project.folder, env=project.environment, check=True)

    said = project.run("posenc", "new", "mine", "--text", path).stdout
    assert "Study 'mine': 2 runs" in said
    written = YAML(typ="safe").load((project.folder / "studies/mine.yaml").read_text())
    assert written == shown and len(written) <= 10
    assert sum(project.planned().values()) <= JOBS
    assert "have not run here" not in project.run("posenc", "plan").stdout
    followed = project.snakemake().stdout
    assert len(followed.splitlines()) <= JOBS + 10, followed
    assert f"{JOBS - 1} of {JOBS - 1}: " in followed, "the rule `all` is no job to people"
    assert {"fetch", "tokenize", "similarity", "figure", "page"} <= ran(followed)
    assert "data/studies/mine/index.html" in followed.splitlines()[-4]
    assert project.run("posenc", "plan").stdout == "Everything is up to date.\n"
    for artifact in ("data/studies/mine/figures/layer_similarity.pdf", "report/index.html"):
        assert (project.folder / artifact).stat().st_size > 10_000
    numbers = json.loads((project.folder / "data/studies/mine/numbers.json").read_text())
    similar = [
        number for key, number in numbers.items() if key.startswith("minilm.mine.zero.similarity")
    ]
    assert similar
    page = (project.folder / "report/index.html").read_text()
    said = re.sub(r"(?s)<script.*?</script>", "", page)
    assert "in this study" not in said and "minilm has no language-model head" in page
    assert all("value" in number for number in numbers.values())
    assert path in html.unescape(page)
    assert [*tmp_path.rglob("ran")] == [], "a part of a name was run"
    assert project.planned() == {}
    assert "Nothing to be done" in project.snakemake().stdout
    assert "recorded in dvc.lock" in project.run("posenc", "record").stdout
    assert project.reproduced() == []
