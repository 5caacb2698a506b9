"""The step that measures position embeddings, of models and of files, and its two figures."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from posenc.artifacts.files import (
    ArtifactError,
    read_sealed,
    sha256_file,
    write_checksums,
)
from posenc.artifacts.numbers import NotRun, Number
from posenc.config.labels import display
from posenc.drawing.section import Figure
from posenc.figures import position_maps, position_regression
from posenc.measurements.of_tables import Job
from posenc.measurements.position_embeddings import measure as step
from posenc.measurements.position_embeddings.declaration import PositionEmbeddings
from posenc.measurements.position_embeddings.quantities import QUANTITIES
from posenc.metrics import geometry, sinusoid, table_waves
from posenc.metrics.components import principal_components
from posenc.models.matrices import Matrix, PathMatrix, RandomMatrix, SinusoidMatrix
from posenc.models.section import Reading
from posenc.models.tables import read_matrix

from .damage import call
from .test_figures import STYLE, check_texts, texts

PARAMETERS = PositionEmbeddings(
    rows=64, folds=3, repeats=3, pairs=150, components=4, harmonics=2, seed=1
)
MODULE = "posenc.measurements.position_embeddings.measure"
MATRIX = TypeAdapter(Matrix)
BERT = Reading(family="bert", max_tokens=16)


def table(rows=40, d_model=24):
    return np.random.default_rng(0).normal(size=(rows, d_model)).astype(np.float32)


def configured(path, matrix=None, reading=None):
    """The file of one subject's job."""
    job = Job[PositionEmbeddings](parameters=PARAMETERS, reading=reading, matrix=matrix)
    path.write_text(job.model_dump_json())
    return path


def measured(folder, subject, matrix=None, reading=None, weights=None):
    """The measurement of a subject, through its command."""
    config = configured(folder / f"{subject}.config.json", matrix, reading)
    output = folder / f"{subject}.json"
    step.main(subject, config, output, weights)
    return read_sealed(output)


def write_model(folder, positions):
    """Weights that hold only embeddings."""
    folder.mkdir()
    tensors = {
        "embeddings.word_embeddings.weight": table(50, positions.shape[1]),
        "embeddings.position_embeddings.weight": positions,
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    write_checksums(folder / "checksums.json", "model.safetensors", "config.json")
    return folder


def npy(path) -> PathMatrix:
    """The section of an existing file."""
    return PathMatrix(kind="path", path=str(path), sha256=sha256_file(path))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two models, the sinusoids, random vectors and a file."""
    folder = tmp_path_factory.mktemp("tables")
    positions = sinusoid.sinusoidal(40, 24).astype(np.float32) + 0.3 * table()
    encoder = write_model(folder / "encoder", positions)
    padded = write_model(folder / "padded", np.vstack([np.zeros((2, 24), np.float32), positions]))
    np.save(folder / "table.npy", table(200, 32))
    roberta = BERT.model_copy(update={"family": "roberta"})
    return [
        measured(folder, "encoder", reading=BERT, weights=encoder),
        measured(folder, "padded", reading=roberta, weights=padded),
        measured(folder, "sinusoid", SinusoidMatrix(kind="sinusoid", rows=150, d_model=160)),
        measured(
            folder,
            "gaussian",
            RandomMatrix(kind="random", rows=64, d_model=32, deviation=0.02, seed=4),
        ),
        measured(folder, "a_file", npy(folder / "table.npy")),
    ]


def test_a_measurement_says_what_it_is_of(results):
    encoder, padded, fixed, random, file = results
    assert encoder["run"] == {"model": "encoder"} and fixed["run"] == {"matrix": "sinusoid"}
    assert [result["subject"] for result in results] == [
        "encoder", "padded", "sinusoid", "gaussian", "a_file"
    ]  # fmt: skip
    assert [result["kind"] for result in results] == [
        "model", "model", "sinusoid", "random", "path"
    ]  # fmt: skip
    assert all(result["status"] == "measured" for result in results)
    # Fewer rows than asked for, and more.
    assert [result["shape"]["rows"] for result in results] == [40, 40, 64, 64, 64]
    assert [result["shape"]["available"] for result in results] == [40, 40, 150, 64, 200]
    assert random["shape"]["deviation"] == pytest.approx(0.02, rel=0.05)
    # RoBERTa's first rows are for padding; the rest is the same.
    for key in ("regression", "pca", "maps"):
        assert encoder[key] == padded[key]
    assert file["provenance"]["inputs"].keys() == {"file"}
    assert "path" not in file["provenance"]["matrix"]
    assert encoder["provenance"]["inputs"].keys() == {"weights", "config"}


def test_results_are_those_of_the_measures(results):
    fixed, random = results[2:4]
    table = sinusoid.sinusoidal(150, 160)[:64]
    assert fixed["regression"]["absolute"] == {"mean": 0, "sd": 0}
    assert fixed["regression"]["pairs"] == 150
    assert fixed["toeplitz_share"]["gram"] == pytest.approx(1)
    assert fixed["pca"]["first_4"] == pytest.approx(geometry.pca_shares(table)[:4].sum())
    identities = fixed["identities"]
    assert identities["shifts"] == [1, 2, 4, 8, 16, 32]
    assert identities["wavelengths"]["unit"] == "tokens"
    residuals = ("shift_residual", "squared_norm_residual", "gram_toeplitz_residual")
    assert all(identities[residual] < 1e-11 for residual in residuals)
    assert identities["wavelengths"]["shortest"] == pytest.approx(2 * np.pi)
    amplitudes = np.abs(np.fft.rfft(table, axis=0)).mean(axis=1)
    np.testing.assert_allclose(fixed["spectrum"]["mean_amplitude"], amplitudes)
    assert fixed["spectrum"]["frequencies"][-1] == 0.5
    # Its components are waves; those of random vectors are not.
    basis = [trig(np.pi * np.arange(64) * k / 64) for trig in (np.cos, np.sin) for k in (1, 2)]
    expected = table_waves.explained_share(
        principal_components(table, 4).scores, np.transpose(basis)
    )
    np.testing.assert_allclose(fixed["components"]["principal"], expected)
    assert fixed["components"]["correlation"] > 0.99
    chance = random["components"]["correlation_shuffled"]
    assert random["components"]["correlation"] < chance["most"] + 0.3
    assert fixed["last_rows"]["untouched"] == 0 and fixed["last_rows"]["neighbours"] > 0.9
    # Of all rows, not only the measured ones.
    whole = sinusoid.sinusoidal(150, 160)
    cosine = whole[-1] @ whole[-2] / (np.linalg.norm(whole[-1]) * np.linalg.norm(whole[-2]))
    assert fixed["last_rows"]["cosine"] == pytest.approx(cosine)
    # Random vectors are like their control, and the others are not.
    assert random["identities"] is None
    own, control = random["regression"], random["regression"]["control"]
    for kind in ("absolute", "relative", "relative_unit_deviation"):
        spread = np.hypot(own[kind]["sd"], control[kind]["sd"])
        assert abs(own[kind]["mean"] - control[kind]["mean"]) < 4 * spread
        assert fixed["regression"][kind]["mean"] < fixed["regression"]["control"][kind]["mean"] / 2
    assert random["geometry_control"]["toeplitz_share"]["gram"] < 0.1


def test_a_unit_of_the_vectors_changes_no_error_but_the_penalised_one(results, tmp_path):
    np.save(tmp_path / "small.npy", 0.02 * table(200, 32))
    section = npy(tmp_path / "small.npy")
    large, small = results[4], measured(tmp_path, "small", section)
    errors, other = large["regression"], small["regression"]
    for kind in ("absolute", "relative_unit_deviation"):
        assert errors[kind]["mean"] == pytest.approx(other[kind]["mean"], abs=1e-2)
    assert errors["relative"] != other["relative"]
    assert large["maps"]["table"]["values"] == small["maps"]["table"]["values"]
    assert large["toeplitz_share"] == pytest.approx(small["toeplitz_share"])


def test_maps_are_small_and_show_every_so_many(tmp_path):
    maps = step.maps(sinusoid.sinusoidal(300, 260)).as_json()
    assert (maps["row_stride"], maps["column_stride"]) == (3, 3)
    assert np.shape(maps["table"]["values"]) == (100, 87) and np.shape(maps["cosine"]) == (
        100,
        100,
    )
    expected = geometry.cosine_map(sinusoid.sinusoidal(300, 260)[::3])
    np.testing.assert_allclose(maps["cosine"], expected, atol=1e-3)
    spectra = maps["spectra"]
    assert len(spectra["edges"]) == len(spectra["amplitude"]) + 1 <= 65
    assert np.shape(spectra["amplitude"])[1] == 87
    assert spectra["edges"][0] == pytest.approx(0.5 / 300)
    # Columns by frequency: the peak rises from one to the next.
    assert (np.diff(np.argmax(spectra["amplitude"], axis=0)) >= 0).all()
    assert np.max(spectra["amplitude"]) == 1 and np.min(spectra["amplitude"]) >= 0


def test_components_of_too_small_a_table_are_not_run(tmp_path):
    np.save(tmp_path / "narrow.npy", table(20, 3))
    measurement = measured(tmp_path, "narrow", npy(tmp_path / "narrow.npy"))
    assert (
        measurement["components"]["status"] == "not run"
        and "4 principal" in (measurement["components"]["reason"])
    )
    numbers = QUANTITIES.read(measurement)
    assert tuple(sorted(numbers)) == tuple(sorted(QUANTITIES.names))
    assert numbers["correlation"] == NotRun(measurement["components"]["reason"])
    assert isinstance(numbers["last.untouched"], Number)


def test_the_same_each_time(results, tmp_path):
    section = RandomMatrix(kind="random", rows=64, d_model=32, deviation=0.02, seed=4)
    assert measured(tmp_path, "gaussian", section) == results[3]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_type_is_read(kind, tmp_path):
    whole = torch.from_numpy(table()).to(kind)
    path = tmp_path / "one.safetensors"
    save_torch({"positions": whole, "bias": torch.zeros(3)}, path)
    section = PathMatrix(kind="path", path=str(path), sha256=sha256_file(path), first_row=2)
    matrix, inputs = read_matrix(section, "matrices.one")
    np.testing.assert_array_equal(matrix, whole.double().numpy()[2:])
    assert matrix.dtype == np.float64 and inputs == {"file": sha256_file(path)}
    if kind != torch.bfloat16:
        np.save(tmp_path / "one.npy", whole.numpy())
        path = tmp_path / "one.npy"
        section = section.model_copy(update={"path": str(path), "sha256": sha256_file(path)})
        np.testing.assert_array_equal(read_matrix(section, "matrices.one")[0], matrix)


def write_tensors(folder):
    """Files that hold anything but one table."""
    save_file(
        {
            "flat": np.ones(4, np.float32), "whole": np.ones((20, 4), np.int32),
            "short": table(12, 4), "constant": np.ones((20, 4), np.float32),
            "nan": np.full((20, 4), np.nan, np.float32), "padded": np.eye(20, 4, dtype=np.float32),
        },
        folder / "some.safetensors",
    )  # fmt: skip
    save_file({"flat": np.ones(4, np.float32)}, folder / "none.safetensors")
    np.save(folder / "cube.npy", np.ones((20, 4, 2)))
    np.save(folder / "objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(folder / "integers.npy", np.ones((20, 4), int))
    (folder / "broken.npy").write_bytes(b"not an array")
    (folder / "broken.safetensors").write_bytes(b"\xff" * 40)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"path": "absent.npy"}, r"matrices\.it\.path: .*absent\.npy does not exist"),
        ({"path": "cube.npy", "sha256": "0" * 64}, r"matrices\.it\.sha256: .*checksum .* not 0000"),
        ({"path": "cube.npy"}, r"matrices\.it: the shape \(20, 4, 2\) .* is not \[rows, d_model\]"),
        ({"path": "objects.npy"}, r"matrices\.it\.path: .* cannot be read"),
        ({"path": "broken.npy"}, r"matrices\.it\.path: .* cannot be read"),
        ({"path": "broken.safetensors"}, r"matrices\.it\.path: .* cannot be read"),
        ({"path": "integers.npy"}, r"matrices\.it: .* type int64, not float"),
        ({"path": "cube.npy", "tensor": "a"}, r"matrices\.it\.tensor: a \.npy file names no"),
        ({}, r"matrices\.it\.tensor: .* has 5 tensors of two dimensions; name one of constant, "),
        (
            {"path": "none.safetensors"},
            r"matrices\.it\.tensor: .* has 0 tensors of two dim.*s$",
        ),
        ({"tensor": "absent"}, r"matrices\.it\.tensor: .* no tensor 'absent'; it has constant"),
        ({"tensor": "whole"}, r"matrices\.it: whole .* type I32, not one of F16"),
        ({"tensor": "flat"}, r"matrices\.it: the shape \(4,\)"),
        ({"tensor": "short"}, r"matrices\.it: .* 12 rows; at least 16"),
        ({"tensor": "padded", "first_row": 5}, r"first_row 5 on: 15 rows; at least 16"),
        ({"tensor": "padded"}, r"row 4 is zero, .* first_row passes over"),
        ({"tensor": "nan"}, "an entry is not finite"),
        ({"tensor": "constant"}, "all rows are the same"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path, options, problem):
    write_tensors(tmp_path)
    options = {"kind": "path", "path": "some.safetensors", **options}
    path = tmp_path / options["path"]
    options = {"sha256": sha256_file(path) if path.exists() else "0" * 64, **options}
    options["path"] = str(path)
    with pytest.raises(ArtifactError, match=problem):
        read_matrix(PathMatrix(**options), "matrices.it")


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "path", "path": "weights.bin", "sha256": "0" * 64},
        {"kind": "path", "path": "a.npy", "sha256": "0" * 64, "first_row": -1},
        {"kind": "path", "path": "a.npy"},
        {"kind": "path", "path": "a.npy", "sha256": "abc"},
        {"kind": "sinusoid", "rows": 512, "d_model": 7},
        {"kind": "random", "rows": 512, "d_model": 8, "deviation": 0.0, "seed": 0},
        {"kind": "random", "rows": 512, "d_model": 8, "deviation": 1.0, "seed": -1},
        {"kind": "rotary", "rows": 512, "d_model": 8},
        {"kind": "sinusoid", "rows": 512, "d_model": 8, "base": 2.0},
    ],
)
def test_a_wrong_section_is_refused(section):
    with pytest.raises(ValidationError):
        MATRIX.validate_python(section)


def test_errors_of_the_command_are_one_line(tmp_path):
    output = tmp_path / "out.json"
    config = configured(
        tmp_path / "config.json", PathMatrix(kind="path", path="absent.npy", sha256="0" * 64)
    )
    result = call(MODULE, subject="it", config=config, output=output)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1
    assert "matrices.it.path" in result.stderr
    with pytest.raises(ArtifactError, match="it is a model: give --weights"):
        step.main("it", configured(config, reading=BERT), output)
    job = json.loads(config.read_text())
    config.write_text(json.dumps({**job, "reading": None}))
    with pytest.raises(ArtifactError, match="either reading, of a model, or matrix"):
        step.main("it", config, output)
    assert not output.exists()


# The figures.

MAPS, REGRESSION = Figure(width=6.6, height=4.4), Figure(width=3.3, height=2.6)


def test_maps_show_the_measured_values(results):
    shown = results[1:]
    figure = position_maps.draw(shown, MAPS, STYLE)
    images = [axes.images[0].get_array().data for axes in figure.axes if axes.images]
    maps = [measurement["maps"] for measurement in shown]
    for image, entry in zip(images[: len(shown)], maps, strict=True):
        np.testing.assert_array_equal(image, entry["table"]["values"])
    for image, entry in zip(images[len(shown) :], maps, strict=True):
        np.testing.assert_array_equal(image, entry["cosine"])
    for axes, entry in zip(figure.axes[8:12], maps, strict=True):
        values = axes.collections[0].get_array().data
        np.testing.assert_array_equal(values, entry["spectra"]["amplitude"])
        assert axes.get_yscale() == "log" and axes.get_ylim()[1] >= 0.5
    labels = {text.get_text().replace("\n", " ") for text in texts(figure)}
    assert {"cycles / token", "period (tokens)", "cosine", display("sinusoid")} <= labels


def test_points_are_the_errors_and_bars_their_deviations(results):
    figure = position_regression.draw(results, REGRESSION, STYLE)
    for axes, kind in zip(figure.axes, ("absolute", "relative"), strict=True):
        own, control = axes.containers
        for drawn, errors in (
            (own, [result["regression"][kind] for result in results]),
            (control, [result["regression"]["control"][kind] for result in results]),
        ):
            points, _, (bars,) = drawn.lines
            assert list(points.get_xdata()) == [error["mean"] for error in errors]
            for segment, error in zip(bars.get_segments(), errors, strict=True):
                half = (segment[1][0] - segment[0][0]) / 2
                assert half == pytest.approx(error["sd"], abs=1e-9)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["encoder", "padded", display("sinusoid"), display("gaussian"), "a file"]


@pytest.mark.parametrize("draw", [position_maps.draw, position_regression.draw])
@pytest.mark.parametrize("subjects", [1, 4, 6])
def test_the_figures_are_readable(results, draw, subjects):
    shown = (results * 2)[:subjects]
    long = copy.deepcopy(shown[0])
    long["subject"] = "decoder_imdb_10"
    section = MAPS if draw is position_maps.draw else REGRESSION
    check_texts(draw([long, *shown[1:]], section, STYLE))


@pytest.mark.parametrize("draw", [position_maps.draw, position_regression.draw])
def test_what_was_not_run_says_why(results, draw):
    section = MAPS if draw is position_maps.draw else REGRESSION
    absent = {**results[0], "status": "not run", "reason": "its weights are not there"}
    for shown in ([absent], [], [absent, *results[1:3]], [*results[1:4], absent]):
        check_texts(draw(shown, section, STYLE))
    (text,) = texts(draw([absent], section, STYLE))
    assert "its weights are not there" in text.get_text().replace("\n", " ")
