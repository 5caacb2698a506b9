"""Capture and store: what exists is resumed after a kill, kept, or found damaged."""

from __future__ import annotations

import pytest

import posenc.steps.capture as step
from posenc.artifacts.activations import INDEX, LOSSES, ActivationStore, shard_name
from posenc.artifacts.files import (
    CHECKSUMS,
    ArtifactError,
    DamagedError,
    write_checksums,
)
from posenc.capture import runs
from tests.parity.capture_project import (
    INTACT,
    SHARDS,
    ZERO,
    killed,
    shards,
)
from tests.parity.library import reference
from tests.unit.damage import Killed, call, flip, found_and_marked

# --- Kills --------------------------------------------------------------------------------------


@pytest.mark.parametrize("killed_at", [0, 1, 3, 5, 7])
def test_a_killed_capture_goes_on_and_ends_the_same(project, monkeypatch, killed_at):
    expected = project.from_nothing()
    order = shards("intact") + shards("zero")
    written, original = [], step.write_shard

    def write(partial, number, *rest):
        if len(written) == killed_at:
            written.append("killed")
            raise Killed
        written.append((partial.name.split(".")[1], number))
        original(partial, number, *rest)

    monkeypatch.setattr(step, "write_shard", write)
    with pytest.raises(Killed):
        project.capture()
    assert not project.output.exists() and not project.receipt().exists()
    project.make()
    assert written == [*order[:killed_at], "killed", *order[killed_at:]]
    assert project.contents() == expected


@pytest.mark.parametrize("name", ["ShardFile.write", "write_sealed"])
def test_a_shard_counts_only_with_its_receipt(project, written, monkeypatch, name):
    """Killed between a shard's own files."""
    expected = project.from_nothing()
    written.clear()
    with monkeypatch.context() as patch:
        patch.setattr(f"posenc.capture.runs.{name}", killed)
        with pytest.raises(Killed):
            project.capture()
    with pytest.raises(ArtifactError, match="5 of 5 shards are not captured"):
        project.store()
    project.make()
    assert written == [*shards("intact", 0), *shards("intact"), *shards("zero")]
    assert project.contents() == expected


@pytest.mark.parametrize("killed_at", ["write_table", "replace_directory"])
@pytest.mark.parametrize("condition", ["intact", "zero"])
def test_a_killed_store_goes_on_by_itself(project, written, monkeypatch, killed_at, condition):
    """The captures count as done by then: nothing but the store runs again."""
    expected = project.from_nothing()
    project.capture()
    original = getattr(runs, killed_at)

    def killed_once(*arguments):
        if any(f"sample.{condition}." in str(argument) for argument in arguments):
            raise Killed
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(runs, killed_at, killed_once)
        with pytest.raises(Killed):
            project.store()
    assert not project.run(condition).exists()
    written.clear()
    project.store()
    assert project.contents() == expected
    assert written == []


def test_partial_work_of_another_condition_is_not_mixed_in(project, written):
    project.capture()
    project.conditions["zero"] = INTACT
    expected = project.from_nothing()
    written.clear()
    project.make()
    # Finished parts of the unedited run are taken over.
    assert written == shards("zero")
    assert project.contents() == expected
    same = {name.rsplit("/", 1)[1]: digest for name, digest in expected.items() if "/zero/" in name}
    for number in range(SHARDS):
        assert same[shard_name(number)] == expected[f"sample/intact/{shard_name(number)}"]


@pytest.mark.parametrize("file", [shard_name(2), "losses-00002.npy", f"{shard_name(2)}.json"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "removed"])
def test_a_damaged_finished_shard_is_made_again(project, written, capsys, file, damage):
    expected = project.from_nothing()
    project.capture()
    path = project.partial("zero") / file
    if damage == "flipped":
        flip(path)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:-4])
    else:
        path.unlink()
    written.clear()
    capsys.readouterr()
    project.make()
    assert written == shards("zero", 2)
    if not (damage == "removed" and file.endswith(".json")):
        said = capsys.readouterr().err
        assert "shard 2 of sample.zero is damaged and is made again" in said
        assert said.count("is damaged") == 1
    assert project.contents() == expected


# --- Current runs -------------------------------------------------------------------------------


def test_current_runs_are_kept_and_no_model_is_loaded(project, monkeypatch, capsys):
    assert project.make() == {"intact", "zero"}
    before = project.stamps()
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("posenc.models.affine.load_ready", killed)
        assert project.make() == set()
        assert project.stamps() == before
        said = capsys.readouterr().err
        assert "gpt2/sample/intact is current and is kept" in said
        assert "gpt2/sample/zero is current and is kept" in said
        project.conditions["zero"] = INTACT
        with pytest.raises(Killed):
            project.make()


def test_an_edited_condition_leaves_the_others_as_they_are(project, written):
    project.make()
    before, old = project.stamps(), project.contents()
    written.clear()
    project.conditions["zero"] = INTACT
    assert project.make() == {"zero"}
    assert written == shards("zero")
    after = project.stamps()
    for name, stamp in before.items():
        assert (after[name] == stamp) == name.startswith("sample/intact/"), name
    assert project.contents() == project.from_nothing() != old


def test_a_condition_that_is_added_or_left_out_changes_no_other(project, written):
    project.make()
    before = project.stamps()
    written.clear()
    project.conditions = {"other": ZERO, "intact": INTACT}
    assert project.make() == {"other"}
    assert written == shards("other")
    after = project.stamps()
    # The workflow, not this step, sets aside what the study no longer has.
    assert all(after[name] == stamp for name, stamp in before.items())


@pytest.mark.parametrize("edit", ["tokens", "weights", "config", "parameters", "versions", "code"])
def test_a_run_of_other_inputs_is_captured_again(project, written, monkeypatch, edit):
    project.make()
    written.clear()
    if edit == "tokens":
        project.tokenize([ids[::-1] for ids in project.documents])
    elif edit in ("weights", "config"):
        model = reference("gpt2")
        if edit == "weights":
            model.transformer.wte.weight.data[3] += 1
        else:
            model.config.layer_norm_epsilon = 1e-3
        model.save_pretrained(project.weights)
        write_checksums(project.weights / CHECKSUMS, "config.json", "model.safetensors")
    elif edit == "parameters":
        project.parameters["batch_tokens"] = 65
    elif edit == "versions":
        monkeypatch.setattr(runs, "versions", lambda *names: dict.fromkeys(names, "0"))
    else:
        monkeypatch.setattr(runs, "code_digest", lambda module: "0" * 64)
    assert project.make() == {"intact", "zero"}
    assert sorted(written) == shards("intact") + shards("zero")
    assert project.contents() == project.from_nothing()
    assert project.make() == set()


@pytest.mark.parametrize("file", [shard_name(1), LOSSES, INDEX])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "removed"])
def test_a_damaged_run_is_captured_again(project, written, capsys, file, damage):
    project.make()
    whole, before = project.contents(), project.stamps()
    path = project.run("zero") / file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flipped" else content[:-3])
        with pytest.raises(DamagedError) as caught:
            ActivationStore(project.run("zero"))
        assert caught.value.path == project.run("zero") / INDEX
    written.clear()
    capsys.readouterr()
    assert project.make() == {"zero"}
    assert written == shards("zero")
    said = capsys.readouterr().err
    assert (f"{path} " in said and "captured again" in said) == (
        (damage, file) != ("removed", INDEX)
    )
    assert project.contents() == whole
    after = project.stamps()
    for name, stamp in before.items():
        assert (after[name] == stamp) == name.startswith("sample/intact/"), name
    assert project.make() == set()


# --- Damage -------------------------------------------------------------------------------------


def test_a_flipped_bit_a_truncation_and_a_missing_shard_are_found(project):
    project.make()
    folder = project.run()
    path = folder / shard_name(1)
    whole = path.read_bytes()
    for damage in (whole[:-1], whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]):
        path.write_bytes(damage)
        with pytest.raises(DamagedError, match=r"shard-00001.* checksum"):
            ActivationStore(folder)
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedError, match="truncated"):
        ActivationStore(folder, verify=()).shard(1)
    path.unlink()
    with pytest.raises(DamagedError, match="missing") as caught:
        ActivationStore(folder)
    index = folder / INDEX
    assert caught.value.path == index
    index.write_bytes(index.read_bytes()[:-20])
    with pytest.raises(DamagedError, match="damaged"):
        ActivationStore(folder)


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", CHECKSUMS])
def test_an_altered_model_is_not_captured(project, file):
    path = flip(project.weights / file)
    with pytest.raises(DamagedError) as caught:
        project.capture()
    assert caught.value.path == path
    found_and_marked(path, "posenc.steps.capture", **project.options)
    assert not project.output.exists() and not (project.folder / "captures").exists()


def test_altered_tokens_are_not_captured(project):
    path = project.tokens / "sample.parquet"
    whole = path.read_bytes()
    # Within a page and within its metadata: no reader reads the bytes between.
    for position in (60, whole.index(b"ARROW:schema") + 400):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(DamagedError) as caught:
            project.capture()
        assert caught.value.path == path


@pytest.mark.parametrize("file", [shard_name(2), "losses-00002.npy", f"{shard_name(2)}.json"])
def test_what_is_damaged_before_it_is_gathered_is_found(project, written, file):
    """A shard, unread by the store, at the latest when it is opened."""
    expected = project.from_nothing()
    project.capture()
    flip(project.partial("zero") / file)
    with pytest.raises(DamagedError) as caught:
        project.store()
        ActivationStore(project.run("zero"))
    written.clear()
    # As the command does.
    caught.value.path.unlink()
    project.make()
    assert {condition for condition, _ in written} == {"zero"}
    assert project.contents() == expected


@pytest.mark.parametrize("cause", ["missing", "damaged"])
def test_a_store_that_is_refused_makes_the_captures_due_again(project, cause):
    """Snakemake runs a capture again only when its receipt is gone: `start again` must help."""
    expected = project.from_nothing()
    for part in ("1-of-2", "2-of-2"):
        project.capture(part)
    path = project.partial("zero") / f"{shard_name(2)}.json"
    path.unlink() if cause == "missing" else flip(path)
    done = call("posenc.steps.store", **project.options)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and "start" in line
    due = [part for part in ("1-of-2", "2-of-2") if not project.receipt(part).exists()]
    # Shard 2 belongs to the first part.
    assert "1-of-2" in due
    for part in due:
        project.capture(part)
    project.store()
    assert project.contents() == expected
