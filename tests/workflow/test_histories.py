"""Whatever happened before, one plain run ends with what a fresh clone would make.

Random histories of edits, runs, kills, full disks, damage and undoing, on the core study, with code
that is edited during a run, other versions of packages, other front ends and namespaces, dates in
the future, other studies and copies. The seed of a history is in the name of its test. `make test`
runs short ones, ``POSENC_HISTORIES=300`` (`make test-all`) long ones too, and
``python -m pytest tests/workflow/test_histories.py -k "[17]"`` runs one again.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from posenc.artifacts import receipts
from posenc.artifacts.receipts import FOLDER, STANDS_FOR_FOLDER
from tests.budget import PATIENCE
from tests.faults.kills import VICTIMS, kill, start
from tests.workflow.conftest import Project
from tests.workflow.test_attacks import MODULE, NAMESPACE, PLAIN, SCALED
from tests.workflow.test_front_ends import artifacts
from tests.workflow.test_matrix import OTHER_STUDY

SHORT = 25
"""Histories of one or two moves, the first seeds; later ones have up to five."""
HISTORIES = int(os.environ.get("POSENC_HISTORIES", SHORT))
SNAKEMAKE = ("snakemake", "--cores", "2", "--resources", "gpu=1")
STUDY = "data/studies/default"
UNFINISHED = ("data/partial/", f"{STUDY}/partial/", f"{STUDY}/captures/")
VARIANTS: dict[str, dict[str, object]] = {
    "base": {},
    # A measurement with a file per run, one with a file for all runs, a figure.
    "shallow": {
        "measurements.perplexity.seed": 5,
        "measurements.heads.bootstrap_samples": 110,
        "figures.training_loss.height": 3.1,
    },
    # Tokens, and all that is made of them.
    "deep": {"models.decoder.max_tokens": 40},
}


@pytest.fixture(scope="session")
def fresh(core, tmp_path_factory) -> dict[str, tuple[bytes, dict[str, str]]]:
    """Each variant's parameters, and what a clone without results makes of them."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    by_variant = {}
    for variant, edits in VARIANTS.items():
        whole = shared / f"fresh-{variant}"
        with FileLock(f"{whole}.lock"):
            if not whole.exists():
                clone = Project(tmp_path_factory.mktemp(variant) / "clone")
                core.run("git", "clone", "--quiet", str(core.folder), str(clone.folder))
                clone.edit_all(edits)
                if edits:
                    clone.snakemake()
                else:
                    clone = core.copy(clone.folder.with_name("base"))
                params = clone.folder / "params.yaml"
                text = params.read_text().replace("studies:\n", "studies:\n" + OTHER_STUDY, 1)
                params.write_text(text)
                clone.folder.rename(whole)
        by_variant[variant] = ((whole / "params.yaml").read_bytes(), artifacts(Project(whole)))
    return by_variant


def of_study(project: Project) -> dict[str, str]:
    """SHA-256 of what the workflow makes for the study whose histories these are."""
    digests = artifacts(project)
    return {name: sha for name, sha in digests.items() if "data/studies/other/" not in name}


class History:
    """A project, and what is done to it."""

    def __init__(self, project: Project, chance: random.Random, params: dict[str, bytes]) -> None:
        self.project, self.chance, self.params = project, chance, params
        self.variant, self.told = "base", []
        self.disk_is_small = False

    def tell(self, what: str) -> None:
        """Note what is done, for the message of a failure."""
        self.told.append(what)

    def run(self, *command: str) -> None:
        """Run a command that may fail: what it leaves behind is tested."""
        result = self.project.run(*command, check=False)
        self.tell(f"{' '.join(command)} -> {result.returncode}")
        assert "Traceback" not in result.stdout or "dvc" in command[0], result.stdout[-4000:]

    def edit(self) -> None:
        """Change the parameters, or take them back."""
        self.variant = self.chance.choice([name for name in VARIANTS if name != self.variant])
        (self.project.folder / "params.yaml").write_bytes(self.params[self.variant])
        self.tell(f"edit: {self.variant}")

    def outputs(self) -> list[str]:
        """What jobs made for the study."""
        folders = (self.project.folder / "data" / FOLDER, self.project.folder / STUDY / FOLDER)
        records = [receipts.read(path) for folder in folders for path in folder.rglob("*.json")]
        names = {name for receipt in records if receipt for name in receipt.outputs}
        # What lies beside one that stands for its folder is made with it.
        whole = {Path(name).parent for name in names if Path(name).name in STANDS_FOR_FOLDER}
        return sorted(
            name
            for name in names
            if Path(name).parent not in whole or Path(name).name in STANDS_FOR_FOLDER
        )

    def targets(self) -> list[str]:
        """Some outputs."""
        outputs = [name for name in self.outputs() if "/plots/" not in name]
        return self.chance.sample(outputs, self.chance.randint(1, 2)) if outputs else []

    def run_targets(self) -> None:
        """Run some targets and no more."""
        self.run(*SNAKEMAKE, "--", *self.targets())

    def run_snakemake(self) -> None:
        """A plain run."""
        self.run(*SNAKEMAKE, *self.chance.choice([(), ("--keep-going",)]))

    def run_dvc(self) -> None:
        """A plain run by DVC."""
        self.run("dvc", "repro", *self.chance.choice([(), ("--keep-going",)]))

    def kill(self) -> None:
        """Kill a run, or a job of it as the out-of-memory killer would, or interrupt it."""
        command = self.chance.choice([SNAKEMAKE, (*SNAKEMAKE, "--keep-going"), ("dvc", "repro")])
        victim, seconds = self.chance.choice(VICTIMS), self.chance.uniform(0.5, 9)
        self.tell(f"{' '.join(command)}, after {seconds:.1f} s kill: {victim}")
        run = start(self.project, *command)
        end = time.monotonic() + seconds
        while run.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        kill(self.project, run, victim)

    def fill_disk(self) -> None:
        """Run on a disk with hardly any room."""
        if not self.disk_is_small:
            self.tell("a full disk: not possible here")
            return
        data = self.project.folder / "data"
        usage = os.statvfs(data)
        used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
        free = self.chance.randrange(4096, 400_000)
        remount(data, used + free)
        self.tell(f"{free} bytes free:")
        self.run(*SNAKEMAKE)
        remount(data, 1 << 30)

    def victim(self) -> Path | None:
        """A file that a job made, or one that such a file stands for."""
        outputs = [path for name in self.outputs() if (path := self.project.folder / name).exists()]
        if not outputs:
            return None
        path = self.chance.choice(outputs)
        beside = [path]
        if path.name in STANDS_FOR_FOLDER:
            beside = [other for other in sorted(path.parent.iterdir()) if other.is_file()]
        return self.chance.choice(beside)

    def damage(self) -> None:
        """Flip a byte, cut, empty or delete a file, by an ordinary write."""
        if (path := self.victim()) is None:
            return
        how = self.chance.choice(["flip", "cut", "empty", "delete"])
        self.tell(f"{how} {path.relative_to(self.project.folder)}")
        content = bytearray(path.read_bytes())
        if how == "delete":
            path.unlink()
        elif how == "empty":
            path.write_bytes(b"")
        elif how == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif content:
            content[self.chance.randrange(len(content))] ^= 1 << self.chance.randrange(8)
            path.write_bytes(content)

    def rot(self) -> None:
        """Flip a byte and keep the date, as a failing disk does, then look for it."""
        path = self.victim()
        if path is None or not path.stat().st_size:
            return
        self.tell(f"rot {path.relative_to(self.project.folder)}")
        before, content = path.stat(), bytearray(path.read_bytes())
        content[self.chance.randrange(len(content))] ^= 1
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.run("posenc", "verify")

    def check_out(self) -> None:
        """Take back what DVC last recorded."""
        self.run("dvc", "checkout", "--force")

    def edit_code_meanwhile(self) -> None:
        """Edit a module while a run is under way, and undo it."""
        path = self.project.folder / MODULE
        whole = path.read_text()
        edited, undone = sorted(self.chance.uniform(0, 8) for _ in range(2))
        self.tell(f"code edited {edited:.1f} to {undone:.1f} s after the start of a run")
        run = start(self.project, *SNAKEMAKE)
        begin = time.monotonic()
        try:
            while time.monotonic() < begin + edited and run.poll() is None:
                time.sleep(0.02)
            path.write_text(whole.replace(f"norms = {PLAIN}", f"norms = {SCALED}"))
            while time.monotonic() < begin + undone and run.poll() is None:
                time.sleep(0.02)
        finally:
            path.write_text(whole)
        self.tell(f"-> {run.wait()}")

    def edit_a_package(self) -> None:
        """Run with a constant in a package, and without it."""
        path = self.project.folder / "workflow/posenc/metrics/__init__.py"
        whole = path.read_bytes()
        path.write_bytes(whole + b"\nSCALE = 1\n")
        self.tell("with a constant in a package:")
        self.run_targets()
        path.write_bytes(whole)

    def change_a_version(self) -> None:
        """Run with another version of a package, and go back."""
        described = self.project.folder.with_name("other") / "numpy-99.0.dist-info"
        described.mkdir(parents=True, exist_ok=True)
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 99.0\n")
        before = self.project.environment["PYTHONPATH"]
        self.project.environment["PYTHONPATH"] = f"{described.parent}:{before}"
        self.chance.choice([self.run_targets, self.run_snakemake])()
        self.project.environment["PYTHONPATH"] = before

    def come_second(self) -> None:
        """Call a front end, here or from another namespace, while a run is under way."""
        run = start(self.project, *SNAKEMAKE)
        time.sleep(self.chance.uniform(1, 4))
        where = self.chance.choice([(), NAMESPACE])
        command = self.chance.choice([
            SNAKEMAKE, (*SNAKEMAKE, "--dry-run"), ("posenc", "plan"),
            ("posenc", "check", "--write"), ("posenc", "record"),
            ("dvc", "repro"), ("dvc", "checkout", "--force"),
        ])  # fmt: skip
        self.tell("during a run:")
        self.run(*where, *command)
        self.tell(f"the run -> {run.wait()}")

    def date_ahead(self) -> None:
        """Date a file in the future."""
        path = self.victim() or self.project.folder / "params.yaml"
        os.utime(path, (time.time() + 1e6,) * 2)
        self.tell(f"dated ahead: {path.relative_to(self.project.folder)}")

    def look(self) -> None:
        """Call a command of posenc's."""
        self.run("posenc", *self.chance.choice([
            ("plan",), ("check",), ("check", "--write"), ("verify",), ("compare",), ("summary",),
        ]))  # fmt: skip

    def visit_another_study(self) -> None:
        """Go to another study, run some of it, record it, and come back."""
        self.run("posenc", "study", "other")
        self.run(*SNAKEMAKE)
        self.run("posenc", "record")
        self.run("posenc", "study", "default")

    def forget(self) -> None:
        """Lose Snakemake's notes and all dates, as a copy or a restored backup does."""
        shutil.rmtree(self.project.folder / ".snakemake", ignore_errors=True)
        for path in (self.project.folder / "data").rglob("*"):
            if path.is_file() and not path.is_symlink():
                os.utime(path, (self.chance.uniform(1e9, 1.7e9),) * 2)
        self.tell("copied without dates and notes")

    def record(self) -> None:
        """Record, which refuses what is incomplete."""
        self.run("posenc", "record")

    def actions(self) -> list[Callable[[], None]]:
        """What may happen; frequent ones several times."""
        return [
            self.edit, self.edit, self.edit, self.run_targets, self.run_snakemake, self.run_dvc,
            self.kill, self.kill, self.kill, self.fill_disk, self.damage, self.rot,
            self.check_out, self.record, self.edit_code_meanwhile, self.edit_a_package,
            self.change_a_version, self.come_second, self.date_ahead, self.look,
            self.visit_another_study, self.forget,
        ]  # fmt: skip


def remount(folder: Path, size: int) -> None:
    """Change the size of a small disk."""
    command = ["mount", "-o", f"remount,size={size}", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


@pytest.fixture
def history(request, core, fresh, tmp_path) -> History:
    """A copy of the recorded core study, on a small disk where one can be had."""
    chance = random.Random(request.node.callspec.params["seed"])
    project = core.copy(tmp_path / "project")
    history = History(project, chance, {name: params for name, (params, _) in fresh.items()})
    data, kept = project.folder / "data", project.folder / "kept"
    data.rename(kept)
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1G", "tmpfs", str(data)]
    history.disk_is_small = not subprocess.run(
        mount, capture_output=True, timeout=PATIENCE
    ).returncode
    shutil.copytree(kept, data, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(kept)
    yield history
    if history.disk_is_small:
        subprocess.run(["umount", "--lazy", str(data)], check=True, timeout=PATIENCE)
    shutil.rmtree(project.folder, ignore_errors=True)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_one_plain_run_ends_with_what_a_fresh_clone_makes(history, fresh, seed):
    chance, project = history.chance, history.project
    moves = chance.randint(1, 2) if seed < SHORT else chance.randint(2, 5)
    for _ in range(moves):
        chance.choice(history.actions())()
    front_end = chance.choice([SNAKEMAKE, ("dvc", "repro")])
    result = project.run(*front_end, check=False)
    if "JSON structure is corrupted" in result.stdout:
        # A kill cut DVC's own lock. DVC cannot start then, and nothing of ours runs before it does:
        # docs/front-ends.md says what to do.
        history.tell("dvc's lock is cut")
        history.run(*SNAKEMAKE)
        result = project.run(*front_end, check=False)
    story = "\n".join([f"seed {seed}:", *history.told, " ".join(front_end)])
    assert result.returncode == 0, f"{story}\n{result.stdout[-4000:]}"
    digests, (_, expected) = of_study(project), fresh[history.variant]
    unfinished = [name for name in digests if name.startswith(UNFINISHED)]
    if front_end[0] == "dvc" and unfinished:
        # It took the result of a job that was killed from its cache and called nothing of ours:
        # what the job had begun goes with the next run of Snakemake.
        history.run(*SNAKEMAKE)
        after = of_study(project)
        assert after == {name: sha for name, sha in digests.items() if name not in unfinished}, (
            story
        )
        digests = after
    stale = {name for name in expected if digests.get(name) != expected[name]}
    assert stale == set() and digests.keys() == expected.keys(), (
        f"{story}\n{sorted(stale)}\nmore: {sorted(digests.keys() - expected.keys())}\n"
        f"{result.stdout[-3000:]}"
    )
    assert project.planned() == {}, story
