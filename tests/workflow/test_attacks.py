"""Ways that led to stale numbers or lost work: each ends right or is refused in one line.

Every test works in its own copy of the finished core study.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from posenc.artifacts.files import sha256_file
from posenc.report import latex
from tests.budget import PATIENCE, quick, wait_for
from tests.workflow.conftest import Project, ran
from tests.workflow.test_front_ends import artifacts

STUDY = "data/studies/default"
T = f"{STUDY}/measurements/similarity/decoder/sample_reviews/zero.json"
SEED = "measurements.similarity.seed"
MODULE = "workflow/posenc/metrics/similarity.py"
PLAIN, SCALED = "np.sqrt(", "2 * np.sqrt("
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")
"""Another PID namespace, as a container or a second login node has."""
PYTHON_M = (sys.executable, "-u", "-m", "snakemake", "--cores", "1", "--resources", "gpu=1")
needs_latex = pytest.mark.skipif(bool(latex.missing()), reason=f"needs LaTeX: {latex.INSTALL}")


@pytest.fixture
def project(core, tmp_path) -> Project:
    """A copy of the finished, recorded study, with its results committed."""
    copy = core.copy(tmp_path / "project")
    commit(copy)
    return copy


def commit(project: Project) -> None:
    project.run("git", "add", "--all")
    project.run("git", "commit", "--quiet", "--allow-empty", "--message", "results")


class Run:
    """A command under way; its output is read line by line."""

    def __init__(self, project: Project, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            command, cwd=project.folder, env={**project.environment, **environment},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.output = ""

    def until(self, text: str) -> None:
        """Read until a line has a text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return
        pytest.fail(f"{text!r} is not said:\n{self.output[-3000:]}")

    def end(self) -> int:
        """Read the rest; its exit code."""
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.output += rest
        return self.process.returncode


def job_of(project: Project, module: str) -> psutil.Process | None:
    """The job at work that runs a module."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            command = process.cmdline()
            is_job = module in command and "workflow/job.py" in command
            if is_job and "bash" not in command[0] and Path(process.cwd()) == project.folder:
                return process
    return None


@contextlib.contextmanager
def held(project: Project, run: Run, module: str) -> Iterator[None]:
    """A job is at work for a block, and goes on afterwards."""
    job = wait_for(lambda: job_of(project, module))
    assert isinstance(job, psutil.Process)
    # It has hashed what it reads and has not ended; LaTeX is its own program.
    wait_for(lambda: job.cpu_times().user > 0.25 or job.children())
    job.suspend()
    try:
        yield
    finally:
        job.resume()


def seed_of(project: Project) -> int:
    return json.loads((project.folder / T).read_text())["provenance"]["parameters"]["seed"]


@pytest.fixture(scope="module")
def made_with_seed_1(core, tmp_path_factory) -> bytes:
    """The file that an undisturbed run makes."""
    project = core.copy(tmp_path_factory.mktemp("seed") / "project")
    project.edit(SEED, 1)
    project.snakemake("--", T)
    return (project.folder / T).read_bytes()


# --- What is stale is never taken for current ---------------------------------------------------


@pytest.mark.parametrize("after", quick(0.4, of=[0.0, 0.4, 0.9]))
@pytest.mark.parametrize("undo", quick("git", of=["edit", "git"]))
def test_code_that_is_edited_during_a_run_computes_nothing(project, made_with_seed_1, after, undo):
    path = project.folder / MODULE
    whole = path.read_text()
    assert whole.count(f"norms = {PLAIN}") == 1
    project.edit(SEED, 1)
    run = Run(project, *PYTHON_M, "--", T)
    run.until("Job stats")
    path.write_text(whole.replace(f"norms = {PLAIN}", f"norms = {SCALED}"))
    wait_for(
        lambda: job_of(project, "posenc.measurements.similarity.measure") or run.process.poll()
    )
    time.sleep(after)
    if undo == "git":
        project.run("git", "checkout", "--quiet", "workflow")
    else:
        path.write_text(whole)
    code = run.end()
    assert code == 0 or "was edited after this run was planned: start it again" in run.output
    if project.planned().get("similarity") is None:
        assert (project.folder / T).read_bytes() == made_with_seed_1
    project.snakemake()
    assert (project.folder / T).read_bytes() == made_with_seed_1
    assert project.planned() == {}


@pytest.mark.slow
@needs_latex
@pytest.mark.parametrize("how", ["saved", "moved into place, with an older date"])
def test_a_text_that_is_saved_while_its_document_is_built_is_built_again(project, how):
    path = project.folder / "paper/supplement.tex"
    path.write_text(path.read_text().replace(r"\begin{document}", "\\begin{document}\nFirst."))
    run = Run(project, *PYTHON_M)
    with held(project, run, "posenc.steps.latex"):
        text = path.read_text().replace("First.", "Second.")
        if how == "saved":
            path.write_text(text)
        else:
            other = path.with_name("other.tex")
            other.write_text(text)
            os.utime(other, (1e9, 1e9))
            other.replace(path)
    assert run.end() != 0
    assert "paper/supplement.tex was changed while supplement was at work" in run.output
    assert set(project.planned()) == {"supplement"}
    project.snakemake()
    assert project.planned() == {}


RULES = "workflow/rules/measurements.smk"
COMMAND = 'job("posenc.measurements.{rule}.measure {params.options}")'


def edit_a_rule(project) -> None:
    """Have a rule run another command, which says the same."""
    path = project.folder / RULES
    text = path.read_text()
    edited = text.replace(COMMAND, COMMAND.replace("options}", "options} --"))
    assert edited != text
    path.write_text(edited)


@pytest.mark.parametrize(
    "name",
    quick(
        "params.yaml", MODULE,
        of=["paper/supplement.tex", "paper/published.yaml", "params.yaml", MODULE, RULES],
    ),
)  # fmt: skip
def test_nothing_is_recorded_while_what_it_is_made_of_is_saved(project, name):
    project.edit("figures.training_loss.height", 3.1)
    project.snakemake()
    lock = (project.folder / "dvc.lock").read_bytes()
    run = Run(project, "posenc", "record")
    wait_for(lambda: child_that_runs(run, "commit"))
    if name == RULES:
        edit_a_rule(project)
    else:
        project.append(name, "% a sentence\n" if name.endswith("tex") else "# a sentence\n")
    if name == "params.yaml":
        project.edit(SEED, 3)
    assert run.end() != 0
    assert "nothing is recorded" in run.output and "edited meanwhile" in run.output
    assert (project.folder / "dvc.lock").read_bytes() == lock
    assert project.planned()


def child_that_runs(run: Run, word: str) -> bool:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(run.process.pid).children(recursive=True):
            if word in child.cmdline():
                return True
    return run.process.poll() is not None


@pytest.mark.slow
@needs_latex
def test_a_text_that_is_saved_during_dvc_repro_is_noticed_by_both(project):
    path = project.folder / "paper/supplement.tex"
    project.append("paper/supplement.tex", "% first\n")
    run = Run(project, "dvc", "repro")
    with held(project, run, "posenc.steps.latex"):
        path.write_text(path.read_text() + "% second\n")
    assert run.end() != 0
    assert set(project.planned()) == {"supplement"}
    assert project.reproduced() == ["paper"]
    assert project.planned() == {}


LOOKING = {
    "plan": ("posenc", "plan"),
    "check": ("posenc", "check"),
    "check --write": ("posenc", "check", "--write"),
    "dry run": ("snakemake", "--dry-run"),
    "plan elsewhere": (*NAMESPACE, "posenc", "plan"),
    "check --write elsewhere": (*NAMESPACE, "posenc", "check", "--write"),
    "run elsewhere": (*NAMESPACE, "snakemake", "--cores", "1"),
    "run": ("snakemake", "--cores", "1"),
    "stage": ("dvc", "repro"),
    "study": ("posenc", "study", "default"),
    "record": ("posenc", "record"),
    "verify": ("posenc", "verify"),
}
WRITES = {name for name in LOOKING if not re.match(r"plan|check$|dry", name)}


@pytest.mark.parametrize("what", quick("check --write elsewhere", of=LOOKING))
def test_an_edit_during_a_run_waits_for_its_end(project, made_with_seed_1, what):
    """Whatever is called meanwhile, a job at work reads what was written for it."""
    project.edit(SEED, 1)
    config = project.folder / "data/config/measurements/similarity/decoder.json"
    run = Run(project, *PYTHON_M, "--", T)
    with held(project, run, "posenc.measurements.similarity.measure"):
        written = config.read_bytes()
        project.edit(SEED, 2)
        result = project.run(*LOOKING[what], check=False)
        assert config.read_bytes() == written
        assert "Traceback" not in result.stdout
        if what in WRITES:
            assert result.returncode != 0
            assert "running here" in result.stdout or "Unable to acquire lock" in result.stdout
        else:
            assert result.returncode == 0, result.stdout[-2000:]
    assert run.end() == 0, run.output[-3000:]
    assert (project.folder / T).read_bytes() == made_with_seed_1
    assert "similarity" in project.planned(), "it was made with seed 1"
    project.snakemake()
    assert seed_of(project) == 2
    assert project.planned() == {}


@pytest.mark.slow
def test_a_second_clone_that_shares_the_data_waits_too(project, tmp_path):
    second = tmp_path / "second"
    project.run("git", "clone", "--quiet", str(project.folder), str(second))
    shutil.rmtree(second / "data")
    (second / "data").symlink_to(project.folder / "data")
    project.edit(SEED, 1)
    run = Run(project, *PYTHON_M, "--", T)
    with held(project, run, "posenc.measurements.similarity.measure"):
        result = Project(second).run("snakemake", "--cores", "1", check=False)
        assert result.returncode != 0 and "is running here" in result.stdout
        assert Project(second).run("posenc", "check", "--write", check=False).returncode != 0
    assert run.end() == 0, run.output[-3000:]
    assert seed_of(project) == 1


@pytest.mark.parametrize(
    "package", quick("metrics", of=["metrics", "measurements", "artifacts", ""])
)
def test_a_constant_in_a_package_is_code(project, package):
    path = f"workflow/posenc/{package}/__init__.py"
    project.append(path, "\nSCALE = 1\n")
    project.append(MODULE, f"\nfrom posenc{'.' * bool(package)}{package} import SCALE\n")
    project.snakemake("--", T)
    project.run("posenc", "check", "--write")
    assert "similarity" not in project.planned()
    text = (project.folder / path).read_text()
    (project.folder / path).write_text(text.replace("SCALE = 1", "SCALE = 2"))
    assert project.planned()["similarity"] == 1
    assert "check@default" in project.run("dvc", "status").stdout


@pytest.mark.parametrize(
    "package", quick("numpy", of=["numpy", "torch", "transformers", "tokenizers"])
)
def test_another_version_of_a_package_is_another_result(project, tmp_path, package):
    other = tmp_path / "other"
    described = other / f"{package}-99.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 99.0\n")
    before = project.environment["PYTHONPATH"]
    # Python finds what is first on the path.
    project.environment["PYTHONPATH"] = f"{other}:{before}"
    planned = project.planned()
    assert planned["tokenize" if package == "tokenizers" else "evaluate"] == 1
    said = project.run("posenc", "plan").stdout
    assert f"{package} 99.0 in place of " in said
    assert project.run("posenc", "verify", check=False).returncode != 0
    project.run("posenc", "check", "--write")
    assert "check@default" in project.run("dvc", "status").stdout
    project.environment["PYTHONPATH"] = before
    project.run("posenc", "check", "--write")
    assert project.planned() == {}


def test_dvc_sees_the_version_of_a_package_by_itself(project):
    """Its first stage depends on the file in which the installed package names its version."""
    link = project.folder / "data/packages/numpy"
    assert "Name: numpy" in link.read_text()
    text = re.sub(r"(?m)^Version: .*$", "Version: 99.0", link.read_text())
    link.unlink()
    link.write_text(text)
    assert "check@default" in project.run("dvc", "status").stdout


@pytest.mark.slow
def test_a_rule_s_command_is_a_part_of_what_made_a_result(project, tmp_path):
    edit_a_rule(project)
    assert "not current" in project.run("posenc", "verify", check=False).stdout
    measured = {"similarity": 1, "perplexity": 1, "heads": 1}
    assert measured.items() <= project.planned().items()
    assert "measurements@default" in project.run("dvc", "status").stdout
    # After commit, push, clone and pull as well.
    remote = tmp_path / "remote"
    project.run("dvc", "remote", "add", "--local", "--default", "here", str(remote))
    project.run("dvc", "push")
    commit(project)
    clone = Project(tmp_path / "clone")
    project.run("git", "clone", "--quiet", str(project.folder), str(clone.folder))
    clone.run("dvc", "remote", "add", "--local", "--default", "here", str(remote))
    clone.run("dvc", "pull")
    assert measured.items() <= clone.planned().items()


@pytest.mark.slow
def test_code_that_dvc_noted_too_late_costs_one_more_call_and_no_more(project):
    """DVC hashes what its first stage has read only after the stage has ended."""
    project.append(MODULE, "# saved while DVC noted\n")
    project.run("dvc", "commit", "--force", "check@default")
    shutil.rmtree(project.folder / ".dvc/cache")
    shutil.rmtree(project.folder / "data/studies/default/measurements")
    shutil.rmtree(project.folder / "data/kept")
    result = project.run("dvc", "repro", check=False)
    assert result.returncode != 0 and "start `dvc repro` again" in result.stdout
    project.run("dvc", "repro")
    assert project.planned() == {}


def test_what_has_no_receipt_any_more_is_not_passed_over_by_verify(project):
    study = project.folder / "data/studies/default"
    (study / "receipts/page/page.json").unlink()
    (study / "index.html").write_text("another page")
    shutil.rmtree(project.folder / "data/kept")
    result = project.run("posenc", "verify", check=False)
    assert result.returncode != 0 and "1 jobs are not made, or not current" in result.stdout
    shutil.rmtree(study)
    result = project.run("posenc", "verify", check=False)
    assert result.returncode != 0 and "not made, or not current" in result.stdout


def test_an_order_to_believe_changes_nothing(project):
    """`dvc commit --force` and `snakemake --touch` write down what the user says, not what is."""
    project.edit(SEED, 1)
    project.run("dvc", "commit", "--force")
    assert project.planned()["similarity"] == 1
    for command in ("verify", "compare"):
        assert "not current" in project.run("posenc", command, check=False).stdout
    assert project.run("posenc", "record", check=False).returncode != 0
    project.snakemake("--touch")
    assert project.planned()["similarity"] == 1
    project.snakemake()
    assert seed_of(project) == 1 and project.planned() == {}


# --- No work is lost ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", quick("checkout", of=["checkout", "pull"]))
def test_what_dvc_removes_and_was_not_recorded_comes_back(project, command, tmp_path):
    project.run("dvc", "remote", "add", "--local", "--default", "here", str(tmp_path / "remote"))
    project.run("dvc", "push")
    project.edit("models.decoder.source.steps", 31)
    project.snakemake()
    digests = artifacts(project)
    project.run("dvc", command, "--force")
    assert artifacts(project) != digests
    result = project.snakemake()
    assert "had been removed" in result.stdout
    assert "train" not in ran(result.stdout)
    assert artifacts(project) == digests
    assert project.planned() == {}


@pytest.mark.slow
def test_a_recorded_study_that_was_never_pushed_survives_its_folders(project):
    digests = artifacts(project)
    shutil.rmtree(project.folder / STUDY)
    shutil.rmtree(project.folder / "data/models")
    result = project.snakemake()
    assert "had been removed" in result.stdout and "train" not in ran(result.stdout)
    assert artifacts(project) == digests


@pytest.mark.slow
def test_records_of_several_studies_lie_side_by_side(project, tmp_path):
    from tests.workflow.test_matrix import OTHER_STUDY

    project.run("dvc", "remote", "add", "--local", "--default", "here", str(tmp_path / "remote"))
    of_default = artifacts(project)
    project.run("posenc", "push")
    raw = project.folder / "params.yaml"
    raw.write_text(raw.read_text().replace("studies:\n", "studies:\n" + OTHER_STUDY, 1))
    project.run("posenc", "study", "other")
    project.snakemake()
    project.run("posenc", "record")
    project.run("posenc", "push")
    commit(project)
    clone = Project(tmp_path / "clone")
    project.run("git", "clone", "--quiet", str(project.folder), str(clone.folder))
    clone.run("dvc", "remote", "add", "--local", "--default", "here", str(tmp_path / "remote"))
    clone.run("posenc", "pull")
    assert clone.planned() == {}
    of_other = artifacts(clone)
    clone.run("posenc", "pull", "default")
    assert clone.planned() == {}
    digests = artifacts(clone)
    assert {name: digests.get(name) for name in of_default} == of_default
    # DVC removes a study's files when it fetches another; they are kept all the same.
    clone.run("posenc", "study", "other")
    assert "Nothing to be done" in clone.snakemake().stdout
    own = {name: sha for name, sha in of_other.items() if name.startswith("data/studies/other")}
    assert own and own.items() <= artifacts(clone).items()
    # What DVC clears away of the inactive study is still there.
    project.run("dvc", "gc", "--workspace", "--force")
    project.run("posenc", "study", "default")
    assert project.planned() == {}
    project.run("posenc", "record")
    assert project.reproduced() == []


@pytest.mark.slow
def test_what_is_not_recorded_is_said_before_it_is_not_pushed(project, tmp_path):
    project.run("dvc", "remote", "add", "--local", "--default", "here", str(tmp_path / "remote"))
    assert "not recorded" not in project.run("posenc", "push").stdout
    project.edit("figures.training_loss.height", 3.1)
    project.snakemake()
    said = project.run("posenc", "push").stdout
    assert "not recorded: figures of study 'default'; `posenc record` records it" in said


WITH_OPTIONS = (sys.executable, "-X", "utf8", "-W", "ignore", "BIN/snakemake", *PYTHON_M[-4:])


@pytest.mark.parametrize(
    ("call", "elsewhere"),
    [(PYTHON_M, NAMESPACE), (WITH_OPTIONS, ())],
    ids=["another namespace", "here"],
)
def test_a_second_run_leaves_the_first_alone(project, made_with_seed_1, call, elsewhere):
    project.edit(SEED, 1)
    bin_folder = str(Path(sys.executable).parent)
    run = Run(project, *(part.replace("BIN", bin_folder) for part in call), "--", T)
    with held(project, run, "posenc.measurements.similarity.measure"):
        result = project.run(*elsewhere, "snakemake", "--cores", "1", check=False)
        assert result.returncode != 0
        assert "is running here: wait until it has ended" in result.stdout
        assert run.process.poll() is None
        assert list((project.folder / ".snakemake/locks").iterdir())
    assert run.end() == 0, run.output[-3000:]
    assert (project.folder / T).read_bytes() == made_with_seed_1


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", [(), NAMESPACE], ids=["here", "another namespace"])
def test_jobs_of_a_killed_run_never_write_beside_the_next(project, made_with_seed_1, elsewhere):
    project.edit(SEED, 1)
    run = Run(project, *elsewhere, *PYTHON_M, "--", T)
    job = wait_for(lambda: job_of(project, "posenc.measurements.similarity.measure"))
    assert isinstance(job, psutil.Process)
    job.suspend()
    for process in reversed(psutil.Process(run.process.pid).children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if "snakemake" in command and "job.py" not in command:
                process.send_signal(signal.SIGKILL)
    run.process.kill()
    run.process.wait()
    project.snakemake()
    assert not psutil.pid_exists(job.pid) or job.status() == psutil.STATUS_ZOMBIE
    assert (project.folder / T).read_bytes() == made_with_seed_1
    assert project.planned() == {}


@pytest.mark.parametrize(
    "name",
    quick(
        "params.yaml",
        of=["paper/published.yaml", "params.yaml", "data/documents/sample_reviews.parquet"],
    ),
)
def test_a_date_in_the_future_costs_nothing(project, name):
    ahead = time.time() + 86400
    project.edit(SEED, 1)
    os.utime(project.folder / name, (ahead, ahead))
    for config in (project.folder / "data/config").rglob("*.json"):
        os.utime(config, (ahead, ahead))
    result = project.snakemake()
    assert "clock skew" not in result.stdout
    assert seed_of(project) == 1
    assert project.planned() == {}


@pytest.mark.slow
@pytest.mark.parametrize("lacks", ["records", "records and DVC's cache", "git"])
def test_a_copy_is_as_current_as_what_it_was_copied_from(project, tmp_path, lacks):
    copy = project.copy(tmp_path / "copy")
    shutil.rmtree(copy.folder / ".snakemake")
    if "cache" in lacks:
        shutil.rmtree(copy.folder / ".dvc/cache")
    if lacks == "git":
        shutil.rmtree(copy.folder / ".git")
    assert copy.planned() == {}
    assert artifacts(copy) == artifacts(project)


# --- The right word ----------------------------------------------------------------------------


@pytest.mark.slow
def test_each_file_that_was_tampered_with_is_named(project):
    wrong = [
        "data/raw/sample_reviews/raw",
        "data/documents/sample_reviews.parquet",
        f"{STUDY}/figures/perplexity.svg",
        f"{STUDY}/activations/decoder/sample_reviews/zero/shard-00000.safetensors",
    ]
    count = re.search(r"(\d+) files", project.run("posenc", "verify").stdout)
    for name in wrong:
        path = project.folder / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    result = project.run("posenc", "verify", check=False)
    assert result.returncode != 0
    for name in wrong:
        assert f"damaged: {name}" in result.stdout
    assert count is not None and f"of {count[1]} files" in result.stdout
    assert "its code changed" not in project.run("posenc", "plan").stdout
    project.snakemake()
    assert "all match their checksums" in project.run("posenc", "verify").stdout


@pytest.mark.slow
def test_a_worktree_runs_its_own_code(project, tmp_path):
    folder = tmp_path / "tree"
    project.run("git", "worktree", "add", "--quiet", str(folder))
    tree = Project(folder)
    cli = folder / "workflow/posenc/study/explain.py"
    cli.write_text(cli.read_text().replace("did you mean", "would you like"))
    (folder / "params.yaml").write_text(
        (folder / "params.yaml").read_text().replace("max_tokens:", "max_token:")
    )
    # The environment is another checkout's.
    tree.environment["PYTHONPATH"] = str(project.folder / "workflow")
    result = tree.run("posenc", "check", check=False)
    assert "would you like 'max_tokens'" in result.stdout
    assert "the code of this checkout runs" in result.stdout


@pytest.mark.slow
@needs_latex
def test_a_document_names_what_leads_to_its_commit(project):
    preamble = project.folder / "paper/supplement.tex"
    text = preamble.read_text().replace(
        r"\begin{document}", "\\begin{document}\nCommit: \\texttt{\\projectcommit}."
    )
    preamble.write_text(text)
    project.snakemake()
    project.run("posenc", "record")
    commit(project)
    pdf = project.folder / STUDY / "pdf/supplement.pdf"
    said = subprocess.run(["pdftotext", pdf, "-"], capture_output=True, text=True, check=True)
    digest = re.search(r"inputs ([0-9a-f]{12})", said.stdout.replace("\n", " "))
    assert digest is not None, said.stdout[:500]
    commits = project.run(
        "git", "log", "-S", digest[1], "--format=%H", "--", "data/records"
    ).stdout.split()
    assert commits == project.run("git", "log", "-1", "--format=%H").stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["TMPDIR", "HOME", "PYTHONOPTIMIZE"])
def test_an_unusual_machine_is_no_traceback(project, tmp_path, what):
    if what == "HOME":
        project.environment["HOME"] = "/proc/nowhere"  # nobody may write there, root neither
    elif what == "PYTHONOPTIMIZE":
        project.environment["PYTHONOPTIMIZE"] = "2"
    else:
        full = tmp_path / "full"
        full.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=2", "tmpfs", full], check=True
        )
        (full / "a").touch()
        project.environment["TMPDIR"] = str(full)
    try:
        project.edit(SEED, 1)
        for command in (("posenc", "check"), ("posenc", "plan"), PYTHON_M):
            result = project.run(*command, check=False)
            assert "Traceback" not in result.stdout, result.stdout[-3000:]
            assert "delete it" not in result.stdout
            assert result.returncode == 0 or str(tmp_path) in result.stdout, result.stdout[-2000:]
    finally:
        if what == "TMPDIR":
            subprocess.run(["umount", "--lazy", full], check=True)


def test_a_name_is_never_run(project, tmp_path):
    """What a shell would run as a command, in names of files and addresses."""
    marked = project.folder / "PWNED"
    for name in ("a;touch PWNED;.txt", "a b.txt", "$(touch PWNED).txt", "`touch PWNED`.txt",
                 "a'\"{}[]<>|&*?#~!.txt", "日本語：,.txt", "-rf.txt", "a\\nb.txt"):  # fmt: skip
        path = project.folder / name
        path.write_text("A sentence of one document.\nAnother one, of the second.\n" * 3)
        project.edit_all(
            {
                "datasets.own": {
                    "format": "text",
                    "source": {"kind": "path", "path": name, "sha256": sha256_file(path)},
                    "text": {"line_breaks": "keep", "normalization": "none"},
                    "evaluation": {"split": "test", "documents": None, "seed": 0},
                }
            }
        )
        project.snakemake("--", "data/documents/own.parquet")
        assert not marked.exists(), name
        path.unlink()
        project.run("git", "checkout", "--quiet", "--", "params.yaml")


NAMES = ["a b", "$(touch PWNED)", "a'b\"c;&", "日本語", "a{b}c", "#a:b,c"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_project_s_own_path_is_never_run(core, tmp_path, name):
    project = core.copy(tmp_path / name / "project")
    project.edit(SEED, 1)
    project.snakemake("--", T)
    assert not list(tmp_path.rglob("PWNED"))
    assert seed_of(project) == 1
    assert "of this checkout" in project.run("posenc", "plan").stdout or ":" not in name
    if "{" not in name:  # DVC itself takes braces for a place of its progress bar
        project.reproduced()
        assert project.planned() == {}
