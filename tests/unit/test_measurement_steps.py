"""The two steps that turn stores into measurements, on small stores in the real format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import save_file
from scipy.spatial import distance

from posenc.artifacts.activations import (
    INDEX,
    LOSSES,
    SCHEMA,
    ActivationStore,
    check_pair,
    shard_name,
)
from posenc.artifacts.files import (
    ArtifactError,
    DamagedError,
    read_sealed,
    sha256_file,
    write_json,
)
from posenc.artifacts.tables import read_table, write_table
from posenc.measurements import frame as measurement
from posenc.measurements.perplexity import measure as perplexity
from posenc.measurements.perplexity.declaration import Perplexity
from posenc.measurements.similarity import measure as similarity
from posenc.measurements.similarity.declaration import Similarity

from .damage import call, flip, found_and_marked
from .runs import result_of

LENGTHS = [[5, 3, 7], [4, 9]]  # documents of two shards
N_LAYERS, D_MODEL, VOCABULARY = 3, 16, 50
SIMILARITY = Similarity(
    special_tokens=True,
    baseline_pairs=500,
    histogram_bins=20,
    sample_tokens=100,
    bootstrap_samples=100,
    confidence=0.9,
    seed=3,
)
PERPLEXITY = Perplexity(bootstrap_samples=100, confidence=0.9, seed=3)


def hidden_states(noise: float) -> list[np.ndarray]:
    """float16 [n_layers + 1, tokens, d_model] for each shard; noise grows with depth."""
    shards = []
    for number, lengths in enumerate(LENGTHS):
        rng = np.random.default_rng(number)
        shape = (N_LAYERS + 1, sum(lengths), D_MODEL)
        base = rng.normal(size=shape) + 0.7  # shifted: random pairs are similar
        depth = np.arange(N_LAYERS + 1)[:, None, None]  # the embedding stays as it is
        shards.append((base + noise * depth * rng.normal(size=shape)).astype(np.float16))
    return shards


def token_ids() -> list[np.ndarray]:
    """int32 [tokens] for each shard: few words, and after each document the same special token."""
    shards = []
    for number, lengths in enumerate(LENGTHS):
        ids = np.random.default_rng(number).integers(2, 8, sum(lengths), np.int32)
        ids[np.cumsum(lengths) - 1] = 1
        shards.append(ids)
    shards[1][0] = 99  # in one document alone
    return shards


def losses(scale: float) -> list[np.ndarray]:
    """float32 [length - 1] for each document: its first token has no context to be scored in."""
    rng = np.random.default_rng(9)
    return [
        (scale * rng.exponential(2, length - 1)).astype(np.float32)
        for lengths in LENGTHS
        for length in lengths
    ]


def write_store(
    folder: Path,
    condition: str,
    noise: float = 0.0,
    scale: float | None = None,
    model: str = "toy",
    dataset: str = "sample",
    prefix: str = "document",
) -> Path:
    """A store as ``posenc.steps.capture`` leaves it; with ``scale``, of a decoder."""
    folder.mkdir(parents=True)
    files, flat_lengths = [], [length for lengths in LENGTHS for length in lengths]
    for number, states in enumerate(hidden_states(noise)):
        ends = np.cumsum(LENGTHS[number])
        special = np.zeros(states.shape[1], dtype=bool)  # [tokens of the shard]
        special[ends - 1] = True  # the last token of each document
        name = shard_name(number)
        arrays = {"token_ids": token_ids()[number], "hidden_states": states}
        save_file({**arrays, "special_mask": special}, folder / name)
        files.append({"file": name, "sha256": sha256_file(folder / name)})
    ids = [f"{prefix}-{number}" for number in range(len(flat_lengths))]
    if scale is not None:
        nll = pa.array(losses(scale), pa.list_(pa.float32()))
        sizes = pa.array([4 * (length - 1) for length in flat_lengths], pa.int64())
        table = pa.table({"document_id": ids, "nll": nll, "bytes": sizes})
        write_table(table, folder / LOSSES, {"schema": SCHEMA})
        files.append({"file": LOSSES, "sha256": sha256_file(folder / LOSSES)})
    index = pa.table(
        {
            "document_id": ids,
            "shard": np.repeat([0, 1], [len(lengths) for lengths in LENGTHS]),
            "start": np.concatenate([np.cumsum(lengths) - lengths for lengths in LENGTHS]),
            "length": pa.array(flat_lengths, pa.int32()),
        }
    )
    metadata = {
        "schema": SCHEMA,
        "run": {"model": model, "dataset": dataset, "condition": condition},
        "is_decoder": scale is not None,
        "n_layers": N_LAYERS,
        "d_model": D_MODEL,
        "vocabulary_size": VOCABULARY,
        "bos": scale is not None,
        "precision": {"mode": "exact"},
        "n_shards": len(LENGTHS),
        "files": files,
    }
    write_table(index, folder / INDEX, metadata)
    return folder


@pytest.fixture
def encoder(tmp_path) -> tuple[ActivationStore, ActivationStore]:
    intact = write_store(tmp_path / "intact", "intact")
    zero = write_store(tmp_path / "zero", "zero", noise=0.4)
    return ActivationStore(intact), ActivationStore(zero)


@pytest.fixture
def decoder(tmp_path) -> tuple[ActivationStore, ActivationStore]:
    intact = write_store(tmp_path / "intact", "intact", scale=1.0)
    zero = write_store(tmp_path / "zero", "zero", noise=0.4, scale=1.5)
    return ActivationStore(intact), ActivationStore(zero)


@pytest.mark.parametrize("special_tokens", [True, False])
def test_similarity_agrees_with_a_loop_over_all_tokens(encoder, special_tokens):
    intact, zero = encoder
    parameters = SIMILARITY.model_copy(update={"special_tokens": special_tokens})
    result = similarity.measure(parameters, intact, zero).as_json()
    lasts = np.cumsum([length for lengths in LENGTHS for length in lengths]) - 1
    rows = [row for row in range(28) if special_tokens or row not in lasts]
    assert result["tokens"] == len(rows) == (28 if special_tokens else 23)
    assert result["documents"] == 5
    x, y = (np.concatenate(hidden_states(noise), axis=1).astype(float) for noise in (0, 0.4))
    document = np.repeat(np.arange(5), [length for part in LENGTHS for length in part])
    token = np.concatenate(token_ids())
    partners = [
        [j for j in rows if token[i] == token[j] and document[i] != document[j]] for i in rows
    ]
    inside = [
        [j for j in rows if token[i] != token[j] and document[i] == document[j]] for i in rows
    ]
    assert result["same_token_share"] == np.mean([len(others) > 0 for others in partners]) < 1
    assert [layer["name"] for layer in result["layers"]] == [
        "embedding", "block 1", "block 2", "last",
    ]  # fmt: skip
    for state, layer in enumerate(result["layers"]):
        cosines = [1 - distance.cosine(x[state, row], y[state, row]) for row in rows]
        assert layer["layer"] == state
        assert layer["cosine"]["value"] == pytest.approx(np.mean(cosines), abs=1e-12)
        assert layer["token_sd"] == pytest.approx(np.std(cosines), abs=1e-7)
        for name in ("cosine", "baseline", "rescaled", "same_document", "rescaled_same_document",
                     "same_token", "rescaled_same_token"):  # fmt: skip
            estimate = layer[name]
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
        # The mean over all pairs of different documents, which the sampled one estimates.
        pairs = [
            1 - distance.cosine(x[state, i], x[state, j])
            for i in rows
            for j in rows
            if document[i] != document[j]
        ]

        def of_partners(partners, state=state):
            """The mean over the partners of each token, and of these over tokens; deviation."""
            same = [
                [1 - distance.cosine(x[state, i], x[state, j]) for j in others]
                for i, others in zip(rows, partners, strict=True)
                if others
            ]
            mean, square = (np.mean([np.mean(np.power(c, k)) for c in same]) for k in (1, 2))
            return mean, np.sqrt(square - mean**2)

        for null, name, mean, deviation in (
            ("baseline", "rescaled", np.mean(pairs), np.std(pairs)),
            ("same_document", "rescaled_same_document", *of_partners(inside)),
            ("same_token", "rescaled_same_token", *of_partners(partners)),
        ):
            error = deviation / np.sqrt(SIMILARITY.baseline_pairs)
            base = layer[null]
            assert base["value"] == pytest.approx(mean, abs=4 * error)
            # Documents are resampled, not pairs: not narrower (tests/unit/test_pairs.py).
            assert base["low"] <= base["value"] <= base["high"]
            assert base["high"] - base["low"] > 1.5 * 1.645 * error
            expected = (layer["cosine"]["value"] - base["value"]) / (1 - base["value"])
            assert layer[name]["value"] == pytest.approx(expected, abs=1e-12)
    assert result["layers"][0]["cosine"] == {"value": 1, "low": 1, "high": 1}
    assert result["layers"][3]["cosine"]["value"] < result["layers"][1]["cosine"]["value"] < 1


def test_tokens_are_compared_with_each_other_as_they_are_by_hand(encoder):
    """The sample is all tokens here: centred, standardised, retrieved, and as a whole."""
    intact, zero = encoder
    result = similarity.measure(SIMILARITY, intact, zero).as_json()
    assert result["sample_tokens"] == result["tokens"]
    for state, layer in enumerate(result["layers"]):
        x, y = (
            np.concatenate([store.hidden_states(n)[state] for n in range(store.n_shards)])
            for store in (intact, zero)
        )
        special = np.concatenate([intact.special_mask(n) for n in range(intact.n_shards)])
        keep = ~special | SIMILARITY.special_tokens
        x, y = x[keep].astype(float), y[keep].astype(float)
        assert len(x) == result["tokens"]
        centred = [
            1 - distance.cosine(a, b) for a, b in zip(x - x.mean(0), y - y.mean(0), strict=True)
        ]
        assert layer["centred"]["value"] == pytest.approx(np.mean(centred), abs=1e-9)
        nearest = [np.argmin([distance.cosine(b, a) for a in x]) for b in y]
        share = np.mean(np.array(nearest) == np.arange(len(x)))
        assert layer["retrieval"]["value"] == pytest.approx(share, abs=0.05)
        assert 0 <= layer["cka"] <= 1
        for name in ("centred", "standardised", "retrieval"):
            assert layer[name]["low"] <= layer[name]["value"] <= layer[name]["high"]
    assert result["layers"][0]["cka"] == pytest.approx(1)


def test_similarity_has_the_agreed_form(encoder):
    intact, zero = encoder
    result = result_of(similarity, SIMILARITY, zero, intact)
    assert result["run"] == {"model": "toy", "dataset": "sample", "condition": "zero"}
    assert (result["status"], result["reason"]) == ("measured", None)
    assert result["catalogue"] == ["A1", "A2"]
    assert result["gaussian_null"] == {"mean": 0.0, "sd": D_MODEL**-0.5}
    edges = np.array(result["histograms"]["edges"])
    assert len(edges) == 21
    for name in ("embedding", "last"):
        for density in result["histograms"][name].values():
            assert np.sum(density * np.diff(edges)) == pytest.approx(1)
    json.dumps(result, allow_nan=False)


def test_the_intact_run_is_like_itself(encoder):
    result = similarity.measure(SIMILARITY, encoder[0], encoder[0]).as_json()
    for layer in result["layers"]:
        assert layer["cosine"] == layer["rescaled"] == {"value": 1, "low": 1, "high": 1}
        assert layer["rescaled_same_token"] == layer["rescaled"]
        assert layer["token_sd"] == 0


def test_states_of_the_token_alone_leave_no_room_above_the_same_token(encoder, monkeypatch):
    """Planted: all hidden states of one id are alike, so that their cosine is exactly one."""
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(N_LAYERS + 1, 100, D_MODEL)).astype(np.float16)  # a row an id

    def states(store: ActivationStore, shard: int) -> np.ndarray:
        return vectors[:, store.token_ids(shard)]  # [n_layers + 1, tokens, d_model]

    monkeypatch.setattr(ActivationStore, "hidden_states", states)
    for layer in similarity.measure(SIMILARITY, *encoder).as_json()["layers"]:
        assert layer["same_token"] == {"value": 1, "low": 1, "high": 1}
        assert layer["rescaled_same_token"] is None
        assert layer["baseline"]["value"] < 0.5


def test_documents_of_one_word_have_no_null_of_one_document(encoder, monkeypatch):
    whole = [np.repeat(np.arange(len(part)), part).astype(np.int32) for part in LENGTHS]
    monkeypatch.setattr(ActivationStore, "token_ids", lambda store, n: whole[n] + 10 * n)
    for layer in similarity.measure(SIMILARITY, *encoder).as_json()["layers"]:
        assert layer["same_document"] is None and layer["rescaled_same_document"] is None


def test_states_of_the_document_alone_leave_no_room_above_the_same_document(encoder, monkeypatch):
    """Planted: all hidden states of a document are alike, so that their cosine is exactly one."""
    vectors = np.random.default_rng(5).normal(size=(N_LAYERS + 1, 9, D_MODEL)).astype(np.float16)
    whole = [np.repeat(np.arange(len(part)), part) for part in LENGTHS]

    def states(store: ActivationStore, shard: int) -> np.ndarray:
        return vectors[:, whole[shard] + 4 * shard]  # [n_layers + 1, tokens, d_model]

    monkeypatch.setattr(ActivationStore, "hidden_states", states)
    for layer in similarity.measure(SIMILARITY, *encoder).as_json()["layers"]:
        assert layer["same_document"] == {"value": 1, "low": 1, "high": 1}
        assert layer["rescaled_same_document"] is None
        assert layer["same_token"]["value"] < 0.5


def test_documents_without_a_common_token_have_no_such_null(encoder, monkeypatch):
    names = ("same_token", "rescaled_same_token", "same_document", "rescaled_same_document")
    before = similarity.measure(SIMILARITY, *encoder).as_json()
    counted = [np.arange(sum(lengths), dtype=np.int32) for lengths in LENGTHS]
    monkeypatch.setattr(ActivationStore, "token_ids", lambda store, n: counted[n] + 100 * n)
    result = similarity.measure(SIMILARITY, *encoder).as_json()
    assert result["same_token_share"] == 0
    for layer, old in zip(result["layers"], before["layers"], strict=True):
        assert [layer.pop(name) for name in names][:2] == [None, None]
        assert layer == {name: old[name] for name in layer}, "the rest does not hang on the ids"
    assert result["histograms"]["last"].keys() == {"cosine", "baseline", "same_document"}
    json.dumps(result, allow_nan=False)


def test_a_store_of_an_older_version_is_refused(encoder):
    intact, _ = encoder
    table, metadata = read_table(intact.directory / INDEX)
    write_table(table, intact.directory / INDEX, {**metadata, "schema": 1})
    with pytest.raises(ArtifactError, match=rf"schema 1, .*reads {SCHEMA}; delete it and rerun"):
        ActivationStore(intact.directory)


def test_stores_that_do_not_correspond_are_refused(tmp_path, encoder):
    intact, zero = encoder
    with pytest.raises(ArtifactError, match="not the intact run"):
        check_pair(zero, intact)
    model = ActivationStore(write_store(tmp_path / "model", "zero", model="other"))
    with pytest.raises(ArtifactError, match="not the intact run"):
        check_pair(intact, model)
    documents = ActivationStore(write_store(tmp_path / "documents", "zero", prefix="other"))
    with pytest.raises(ArtifactError, match="different documents"):
        check_pair(intact, documents)
    check_pair(intact, zero)
    check_pair(intact, intact)


def test_a_state_that_overflowed_is_named_with_the_way_out(tmp_path, encoder):
    with np.errstate(over="ignore"):
        broken = ActivationStore(write_store(tmp_path / "broken", "zero", noise=1e6))
    with pytest.raises(ArtifactError, match=r"block 1, shard 0: token \d+ .* float32"):
        similarity.measure(SIMILARITY, encoder[0], broken)


def test_perplexity_agrees_with_the_formulae(decoder):
    intact, zero = decoder
    result = result_of(perplexity, PERPLEXITY, zero, intact)
    ours, theirs = np.concatenate(losses(1.5)), np.concatenate(losses(1.0))
    assert result["status"] == "measured" and result["reason"] is None
    assert result["tokens"] == len(ours) == 23 and result["bytes"] == 4 * 23
    assert result["documents"] == 5 and result["vocabulary_size"] == VOCABULARY
    assert result["bos"] is True
    mean = float(ours.mean(dtype=np.float64))
    delta = mean - float(theirs.mean(dtype=np.float64))
    own = [np.exp(document.mean(dtype=np.float64)) for document in losses(1.5)]
    assert result["sequence_perplexity"] == pytest.approx(
        {"mean": np.mean(own), "median": np.median(own)}
    )
    expected = {
        "perplexity": np.exp(mean),
        "bits_per_byte": mean / np.log(2) / 4,
        "nll_per_token": mean,
        "worse_than_uniform": np.mean(ours > np.log(VOCABULARY)),
        "delta_nll": delta,
        "perplexity_ratio": np.exp(delta),
    }
    for name, value in expected.items():
        estimate = result[name]
        assert estimate["value"] == pytest.approx(value, rel=1e-9), name
        assert estimate["low"] <= estimate["value"] <= estimate["high"], name
    assert 0 < result["worse_than_uniform"]["value"] < 1


def test_perplexity_of_the_intact_run_has_no_change(decoder):
    result = perplexity.measure(PERPLEXITY, decoder[0], decoder[0]).as_json()
    assert result["delta_nll"] == {"value": 0, "low": 0, "high": 0}
    assert result["perplexity_ratio"] == {"value": 1, "low": 1, "high": 1}


def test_an_encoder_says_why_it_has_no_perplexity(encoder):
    result = perplexity.measure(PERPLEXITY, *encoder).as_json()
    assert result["status"] == "not run"
    assert result["reason"] == "toy has no language-model head"
    assert "perplexity" not in result and result["tokens"] == 0


SECTIONS = {"similarity": SIMILARITY, "perplexity": PERPLEXITY}
MODULES = {"similarity": similarity, "perplexity": perplexity}


class Runs:
    """The runs of a decoder on two data sets, and the jobs that measure them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conditions = ["intact", "zero"]
        for dataset in ("questions", "reviews"):
            self.capture(dataset, "intact")
            self.capture(dataset, "zero", noise=0.4, scale=1.5)

    def capture(self, dataset: str, condition: str, noise: float = 0, scale: float = 1) -> Path:
        return write_store(
            self.folder / "activations" / dataset / condition,
            condition,
            noise=noise,
            scale=scale,
            dataset=dataset,
        )

    def options(self, step: str, output: str = "measured", **changes) -> dict[str, Path]:
        """Options of a job; ``changes`` are of its parameters."""
        config = self.folder / f"{step}.json"
        job = {
            "parameters": {**SECTIONS[step].model_dump(), **changes},
            "datasets": ["questions", "reviews"],
            "conditions": self.conditions,
        }
        write_json(config, job)
        return {
            "config": config,
            "activations": self.folder / "activations",
            "output": self.folder / output,
        }

    def measure(self, step: str, output: str = "measured", **changes) -> set[str]:
        """Run a job, and say which measurements it wrote."""
        before = self.stamps(output)
        MODULES[step].main(**self.options(step, output, **changes))
        after = self.stamps(output)
        assert after.keys() == {
            f"{dataset}/{condition}.json"
            for dataset in ("questions", "reviews")
            for condition in self.conditions
        }
        return {name for name, stamp in after.items() if before.get(name) != stamp}

    def stamps(self, output: str = "measured") -> dict[str, tuple[int, int]]:
        """Inode and date of every file: a file that is written again has another inode."""
        top = self.folder / output
        files = {str(path.relative_to(top)): path.stat() for path in top.rglob("*.json")}
        return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in files.items()}


ALL = {
    "questions/intact.json",
    "questions/zero.json",
    "reviews/intact.json",
    "reviews/zero.json",
}


@pytest.fixture
def runs(tmp_path) -> Runs:
    return Runs(tmp_path)


@pytest.mark.parametrize("step", SECTIONS)
def test_a_job_measures_every_run_and_says_of_what(runs, step):
    assert runs.measure(step) == ALL
    for dataset in ("questions", "reviews"):
        stores = {
            name: ActivationStore(runs.folder / "activations" / dataset / name)
            for name in runs.conditions
        }
        for condition in runs.conditions:
            written = read_sealed(runs.folder / "measured" / dataset / f"{condition}.json")
            provenance = written.pop("provenance")
            assert written.pop("precision") == {"mode": "exact"}
            assert written == result_of(
                MODULES[step], SECTIONS[step], stores[condition], stores["intact"]
            )
            assert written["run"] == {"model": "toy", "dataset": dataset, "condition": condition}
            assert provenance["parameters"] == SECTIONS[step].model_dump()
            assert provenance["inputs"] == {
                "intact": stores["intact"].digest,
                "condition": stores[condition].digest,
            }
            assert provenance["versions"]["numpy"] == np.__version__


@pytest.mark.parametrize("step", SECTIONS)
def test_what_is_current_is_kept(runs, step, monkeypatch, capsys):
    runs.measure(step)
    before = runs.stamps()

    def opened(*_):
        raise AssertionError("a store is read though nothing is to be measured")

    with monkeypatch.context() as patch:
        patch.setattr(measurement, "ActivationStore", opened)
        assert runs.measure(step) == set()
    assert runs.stamps() == before
    assert capsys.readouterr().err.count("is current and is kept") == 4


@pytest.mark.parametrize(
    ("dataset", "condition", "measured"),
    [
        ("questions", "zero", {"questions/zero.json"}),
        # All are compared with the intact run.
        ("reviews", "intact", {"reviews/intact.json", "reviews/zero.json"}),
    ],
)
@pytest.mark.parametrize("step", SECTIONS)
def test_only_runs_whose_store_changed_are_measured_again(runs, step, dataset, condition, measured):
    runs.measure(step)
    folder = runs.folder / "activations" / dataset / condition
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    runs.capture(dataset, condition, noise=0.2, scale=1.2)
    assert runs.measure(step) == measured
    runs.measure(step, output="anew")
    for name in ALL:
        kept, anew = ((runs.folder / top / name).read_bytes() for top in ("measured", "anew"))
        assert kept == anew, name
    assert runs.measure(step) == set()


def test_other_parameters_code_or_versions_measure_again(runs, monkeypatch):
    runs.measure("perplexity")
    assert runs.measure("perplexity", seed=4) == ALL
    for name, value in (("code_digest", "0" * 64), ("versions", {"numpy": "0.0"})):
        with monkeypatch.context() as patch:
            patch.setattr(measurement, name, lambda *_, value=value: value)
            assert runs.measure("perplexity", seed=4) == ALL
            assert runs.measure("perplexity", seed=4) == set()
        assert runs.measure("perplexity", seed=4) == ALL


def test_another_condition_in_the_study_measures_only_it(runs):
    runs.measure("similarity")
    for dataset in ("questions", "reviews"):
        runs.capture(dataset, "noisy", noise=0.8)
    runs.conditions = ["intact", "noisy", "zero"]
    assert runs.measure("similarity") == {"questions/noisy.json", "reviews/noisy.json"}


def test_a_damaged_measurement_is_measured_again(runs, capsys):
    runs.measure("perplexity")
    path = runs.folder / "measured/reviews/zero.json"
    whole = path.read_bytes()
    flip(path)
    with pytest.raises(DamagedError):
        read_sealed(path)
    assert runs.measure("perplexity") == {"reviews/zero.json"}
    assert "measured again" in capsys.readouterr().err
    assert path.read_bytes() == whole


def test_a_killed_job_goes_on(runs, monkeypatch):
    runs.measure("perplexity", output="undisturbed")
    written, original = [], measurement.write_sealed

    def write(path, value):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)
        original(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(measurement, "write_sealed", write)
        with pytest.raises(KeyboardInterrupt):
            runs.measure("perplexity")
    assert runs.measure("perplexity") == {"reviews/intact.json", "reviews/zero.json"}
    for name in ALL:
        again, undisturbed = (runs.folder / top / name for top in ("measured", "undisturbed"))
        assert again.read_bytes() == undisturbed.read_bytes()


def test_a_run_that_is_not_captured_is_named(runs):
    (runs.folder / "activations/reviews/zero" / INDEX).unlink()
    with pytest.raises(ArtifactError, match=r"reviews/zero is not captured; start"):
        runs.measure("similarity")


def test_a_job_of_another_measurement_is_refused(runs):
    options = runs.options("similarity")
    with pytest.raises(ArtifactError, match=r"similarity\.json is not a Job\[Perplexity\] section"):
        perplexity.main(**options)


@pytest.mark.parametrize("step", SECTIONS)
def test_the_commands_write_the_same_bytes_twice_and_no_path(runs, step):
    outputs = {}
    for top in ("first", "second"):
        done = call(f"posenc.measurements.{step}.measure", **runs.options(step, top))
        assert done.returncode == 0, done.stderr
        outputs[top] = {
            str(path.relative_to(runs.folder / top)): path.read_bytes()
            for path in (runs.folder / top).rglob("*")
            if path.is_file()
        }
    assert outputs["first"].keys() == ALL
    assert outputs["first"] == outputs["second"]
    for written in outputs["first"].values():
        assert str(runs.folder).encode() not in written
        assert json.loads(written)["measurement"] == step


@pytest.mark.parametrize(
    ("step", "file"),
    [("similarity", shard_name(1)), ("similarity", INDEX), ("perplexity", LOSSES)],
)
def test_a_damaged_store_ends_with_one_line_and_no_output(runs, step, file):
    """Its index is marked, whichever file is damaged: the store is made again."""
    folder = runs.folder / "activations/questions/zero"
    path = folder / file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    line = found_and_marked(
        path, f"posenc.measurements.{step}.measure", marked=folder / INDEX, **runs.options(step)
    )
    assert file == INDEX or "does not match its checksum" in line
    written = {path.name for path in (runs.folder / "measured").rglob("*.json")}
    assert written == {"intact.json"}
