"""Push and pull: a clone gets the same bytes, damage is found, and a killed transfer goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.budget import wait_for
from tests.workflow.conftest import ROOT, Project, reproduced
from tests.workflow.test_front_ends import artifacts

# Commands of docs/remotes.md that are more than one word of DVC; a test keeps the page in step.
FIND_DAMAGE = (
    r"find . -type f ! -name '.*' | sed -E 's|^\./(..)/(.{30}).*|\1\2  &|'"
    r" | md5sum --check --quiet"
)
REMOVE_PARTS = "find {} -type f '(' -name '.*.tmp' -o -name '*.dir' -empty ')' -delete"
PUSH_THE_REST = "dvc push $(dvc stage list --name-only | grep -v '^activations@')"

CACHE = ".dvc/cache/files/md5"
SSHD = shutil.which("sshd", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"]))


@dataclasses.dataclass(frozen=True)
class Store:
    """A remote: its address for DVC, the options to reach it, and its folder."""

    url: str
    folder: Path
    options: dict[str, str]

    @property
    def content(self) -> Path:
        """Where objects lie, named by their MD5; a project's cache is laid out the same way."""
        return self.folder / "files/md5"

    def add_to(self, project: Project, **options: str) -> None:
        """Make it the project's default remote, in the file that git ignores."""
        project.run("dvc", "remote", "add", "--local", "--default", "store", self.url)
        for name, value in {**self.options, **options}.items():
            project.run("dvc", "remote", "modify", "--local", "store", name, value)


@dataclasses.dataclass(frozen=True)
class Server:
    """A running sshd, and the key of the user that it lets in."""

    port: int
    key: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An sshd of this test's own on loopback; nothing of the system's or the user's is read."""
    if SSHD is None:
        pytest.skip("there is no sshd: apt-get install openssh-server")
    if importlib.util.find_spec("dvc_ssh") is None:
        pytest.skip("DVC has no support of SSH: pip install -c requirements.lock 'dvc[ssh]'")
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    (folder / "config").write_text(
        "ListenAddress 127.0.0.1\n"
        f"HostKey {folder / 'host'}\n"
        f"AuthorizedKeysFile {folder / 'user.pub'}\n"
        "AuthenticationMethods publickey\n"
        "PermitRootLogin prohibit-password\n"
        "StrictModes no\n"  # the folders above are as pytest makes them
        "UsePAM no\n"
        "PidFile none\n"
        "Subsystem sftp internal-sftp\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # else made when the service starts
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    command = [SSHD, "-D", "-e", "-f", str(folder / "config"), "-p", str(port)]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wait_for(lambda: "listening on" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield Server(port, folder / "user")
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def directory(tmp_path) -> Store:
    """A remote that is a folder of this machine."""
    return Store(str(tmp_path / "store"), tmp_path / "store", {})


@pytest.fixture(params=["directory", pytest.param("ssh", marks=pytest.mark.slow)])
def store(request, directory) -> Store:
    """A remote of each kind that is tested, empty."""
    if request.param == "directory":
        return directory
    server = request.getfixturevalue("server")
    user = pwd.getpwuid(os.geteuid()).pw_name
    url = f"ssh://{user}@127.0.0.1:{server.port}{directory.folder}"
    return Store(url, directory.folder, {"keyfile": str(server.key)})


@pytest.fixture
def source(core):
    """The core study; the remotes that a test adds to it are forgotten afterwards."""
    local = core.folder / ".dvc/config.local"
    assert not local.exists()
    tracked = (core.folder / ".dvc/config").read_bytes()
    yield core
    local.unlink(missing_ok=True)
    assert (core.folder / ".dvc/config").read_bytes() == tracked


def clone_of(source: Project, folder: Path) -> Project:
    """What a colleague gets from git: the project with the lock file and metrics of the run.

    ``core`` does not commit them, and other tests share it, so the clone commits its copies.
    """
    source.run("git", "clone", "--quiet", ".", str(folder))
    project = Project(folder)
    project.environment = {
        **source.environment,
        **project.environment,
        # What DVC remembers of files is kept beside the clone and goes with it.
        "DVC_SITE_CACHE_DIR": str(folder.with_suffix(".site")),
    }
    listing = source.run("git", "ls-files", "--modified", "--others", "--exclude-standard").stdout
    for name in listing.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.folder / name, folder / name)
    project.run("git", "add", "--all")
    project.run("git", "commit", "--quiet", "--message", "results")
    assert not (folder / ".dvc/cache").exists()
    return project


def object_name(md5: str) -> str:
    return f"{md5[:2]}/{md5[2:]}"


def objects(project: Project, stage: str = "") -> dict[str, str]:
    """Objects that a push of stages with this prefix sends, and what each becomes.

    Outputs that git keeps (``cache: false``) are not sent.
    """
    with Repo(str(project.folder)) as repo:
        outs = [out for out in repo.index.outs if out.use_cache]
        outs = [out for out in outs if out.stage.name.startswith(stage)]
        paths = {object_name(out.hash_info.value): out.def_path for out in outs}
    for name, path in list(paths.items()):
        if name.endswith(".dir"):
            for entry in json.loads((project.folder / CACHE / name).read_text()):
                paths[object_name(entry["md5"])] = f"{path}/{entry['relpath']}"
    return paths


def stored(content: Path) -> set[str]:
    """Names of the whole objects in a remote or a cache; DVC hides what is not whole yet."""
    return {f"{path.parent.name}/{path.name}" for path in content.glob("*/[!.]*")}


def unclean(project: Project) -> str:
    """What ``dvc status`` finds once the files that each clone writes for itself exist."""
    project.run("posenc", "check", "--write")
    result = project.run("dvc", "status", check=False)
    return "" if "up to date" in result.stdout else result.stdout


def assert_same(project: Project, source: Project) -> None:
    """Every artifact has the bytes of the source's, and DVC knows that they are current."""
    assert artifacts(project) == artifacts(source)
    assert unclean(project) == ""


def killed(project: Project, *command: str, when: Callable[[], bool]) -> None:
    """Start a command; kill it and all it started as soon as a condition holds."""
    process = subprocess.Popen(
        command,
        cwd=project.folder,
        env=project.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not when():
            assert process.poll() is None, "it was done before it could be killed"
            time.sleep(0.001)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_page_has_the_commands_that_are_tested():
    page = (ROOT / "docs/remotes.md").read_text()
    assert FIND_DAMAGE in page
    assert PUSH_THE_REST in page
    assert REMOVE_PARTS.format("/mnt/shared/posenc") in page


def test_a_clone_pulls_the_same_bytes(source, store, tmp_path):
    store.add_to(source)
    source.run("dvc", "push")
    assert stored(store.content) == set(objects(source))
    clone = clone_of(source, tmp_path / "clone")
    store.add_to(clone, verify="true")
    clone.run("dvc", "pull")
    assert_same(clone, source)
    assert clone.run("git", "status", "--porcelain").stdout == ""


def test_both_front_ends_go_on_in_a_clone(source, directory, tmp_path):
    directory.add_to(source)
    source.run("dvc", "push")
    clone = clone_of(source, tmp_path / "clone")
    directory.add_to(clone, verify="true")
    clone.run("dvc", "pull")
    assert clone.planned() == {}
    assert clone.reproduced() == []
    assert_same(clone, source)


def test_a_study_is_shared_without_its_activations(source, directory, tmp_path):
    directory.add_to(source)
    source.run("bash", "-c", PUSH_THE_REST)
    activations = objects(source, "activations@")
    assert stored(directory.content) == set(objects(source)) - set(activations) != set()
    clone = clone_of(source, tmp_path / "clone")
    directory.add_to(clone, verify="true")
    assert clone.run("dvc", "pull", check=False).returncode, "a plain pull wants all of them"
    clone.run("dvc", "pull", "--allow-missing")
    digests = artifacts(source)
    assert artifacts(clone) == {
        name: digests[name] for name in set(digests) - set(activations.values())
    }
    clone.run("posenc", "check", "--write")
    for edit, expected in (False, []), (True, ["figures"]):
        if edit:
            clone.edit("figures.training_loss.height", 3.3)
        command = ("dvc", "repro", "--allow-missing", "figures@default")
        assert reproduced(clone.run(*command).stdout) == expected


def write_over(path: Path, content: bytes) -> None:
    """Replace the content of an object that DVC made read-only and therefore trusts."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(content)
    path.chmod(mode)


def flip(path: Path) -> None:
    """Damage one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    write_over(path, content)


def find_damage(content: Path) -> set[str]:
    """Objects that do not match their name, by the command of docs/remotes.md."""
    result = subprocess.run(
        ["bash", "-c", FIND_DAMAGE],
        cwd=content,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    damaged = set(re.findall(r"(?m)^\./(.+): FAILED$", result.stdout))
    assert bool(damaged) == bool(result.returncode)
    return damaged


def test_damage_on_a_remote_is_found_and_repaired(source, store, tmp_path):
    store.add_to(source)
    source.run("dvc", "push")
    assert find_damage(store.content) == set()

    known = objects(source)
    lists = {path: name for name, path in known.items() if name.endswith(".dir")}
    inside = {path: name for name, path in known.items() if str(Path(path).parent) in lists}
    alone = [name for name, path in known.items() if path not in {**lists, **inside}]
    path_inside, damaged_inside = next(iter(inside.items()))
    # In another directory: a readable list that names a file that never was.
    path_list, damaged_list = next(
        item for item in reversed(lists.items()) if item[0] != str(Path(path_inside).parent)
    )
    damaged_alone = alone[0]
    flip(store.content / damaged_alone)
    flip(store.content / damaged_inside)
    files = json.loads((store.content / damaged_list).read_text())
    files[0]["relpath"] += "~"
    write_over(store.content / damaged_list, json.dumps(files).encode())
    damaged = {damaged_alone, damaged_inside, damaged_list}
    assert find_damage(store.content) == damaged

    clone = clone_of(source, tmp_path / "clone")
    store.add_to(clone, verify="true")
    result = clone.run("dvc", "pull", check=False)
    assert result.returncode == 1
    assert known[damaged_alone] in result.stdout
    assert str(Path(path_inside).parent) in result.stdout
    assert not (clone.folder / known[damaged_alone]).exists()
    assert not (clone.folder / path_inside).exists()
    # DVC verifies no list; it finds later that the files differ from the lock file.
    assert path_list in unclean(clone)

    source.run("dvc", "push")
    assert find_damage(store.content) == damaged, "a push repairs nothing that is there"
    for name in damaged:
        cached = source.folder / CACHE / name
        source.run("cp", "--force", str(cached), str(store.content / name))
    assert find_damage(store.content) == set()
    repaired = clone_of(source, tmp_path / "repaired")
    shutil.copy(clone.folder / ".dvc/config.local", repaired.folder / ".dvc/config.local")
    repaired.run("dvc", "pull")
    assert_same(repaired, source)


@pytest.mark.slow
def test_without_verify_a_damaged_file_is_pulled_unnoticed(source, directory, tmp_path):
    """Why docs/remotes.md asks for ``verify``. If DVC changes its ways, change the page."""
    directory.add_to(source)
    source.run("dvc", "push")
    damaged, path = next(
        (name, path) for name, path in objects(source).items() if not name.endswith(".dir")
    )
    flip(directory.content / damaged)
    clone = clone_of(source, tmp_path / "clone")
    directory.add_to(clone)
    clone.run("dvc", "pull")
    assert unclean(clone) == ""
    assert (clone.folder / path).read_bytes() != (source.folder / path).read_bytes()
    assert find_damage(clone.folder / CACHE) == {damaged}


def remove_parts(store: Store) -> None:
    """Remove what a killed push left, by the command of docs/remotes.md."""
    subprocess.run(["bash", "-c", REMOVE_PARTS.format(store.folder)], check=True)


def test_a_killed_push_is_finished_by_the_next(source, store, tmp_path):
    store.add_to(source)
    every = set(objects(source))
    killed(source, "dvc", "push", when=lambda: len(stored(store.content)) > len(every) // 3)
    assert stored(store.content) < every
    remove_parts(store)
    source.run("dvc", "push")
    assert stored(store.content) == every
    assert find_damage(store.content) == set()
    clone = clone_of(source, tmp_path / "clone")
    store.add_to(clone, verify="true")
    clone.run("dvc", "pull")
    assert_same(clone, source)


@pytest.mark.slow
def test_what_a_push_that_is_killed_at_the_worst_moment_leaves(source, directory):
    """Why docs/remotes.md has a command for it. If DVC changes its ways, change the page."""
    directory.add_to(source)
    source.run("dvc", "push")
    known = objects(source)
    a_list = next(name for name in known if name.endswith(".dir"))
    a_file = next(name for name in known if not name.endswith(".dir"))
    for name in (a_list, a_file):  # as DVC's attempt at a reflink makes it
        (directory.content / name).unlink()
        (directory.content / name).touch()
    stopped = source.run("dvc", "push", check=False)
    assert stopped.returncode and "is corrupted" in stopped.stdout
    remove_parts(directory)
    source.run("dvc", "push")
    assert stored(directory.content) == set(known)
    assert find_damage(directory.content) == set()


def fetched(project: Project) -> set[str]:
    return stored(project.folder / CACHE)


@pytest.mark.slow
def test_a_pull_killed_while_it_fetches_is_finished_by_the_next(source, store, tmp_path):
    store.add_to(source)
    source.run("dvc", "push")
    clone = clone_of(source, tmp_path / "clone")
    store.add_to(clone, verify="true")
    every = set(objects(source))
    killed(clone, "dvc", "pull", when=lambda: len(fetched(clone)) > len(every) // 3)
    assert fetched(clone) < every
    clone.run("dvc", "pull")
    assert_same(clone, source)


@pytest.mark.slow
def test_a_pull_killed_while_it_writes_artifacts_is_finished_by_the_next(
    source, directory, tmp_path
):
    directory.add_to(source)
    source.run("dvc", "push")
    clone = clone_of(source, tmp_path / "clone")
    directory.add_to(clone, verify="true")
    every = objects(source)

    def written() -> list[str]:
        return [path for path in every.values() if (clone.folder / path).is_file()]

    lists = {path for name, path in every.items() if name.endswith(".dir")}

    def inside() -> list[str]:
        return [path for path in written() if str(Path(path).parent) in lists]

    # DVC writes files in its own order: in good time, some of a folder exist.
    killed(clone, "dvc", "pull", when=lambda: len(written()) > len(every) // 3 and inside())
    assert fetched(clone) == set(every)
    assert artifacts(clone).keys() < artifacts(source).keys()
    # A kill within a file leaves a part under another name; one between two does not.
    (clone.folder / inside()[0]).with_name(".AAAAAAAAAAAAAAAAAAAAAA.tmp").write_bytes(b"part")
    again = clone.run("dvc", "pull", check=False)
    if again.returncode:  # it says which file is in its way, and how to go on
        assert ".tmp" in again.stdout and "--force" in again.stdout
        clone.run("dvc", "pull", "--force")
    assert_same(clone, source)
