"""What positions, profiles, semantics and learned biases are, pair by pair, without a model."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from pydantic import ValidationError

from posenc.artifacts import receipts
from posenc.artifacts.files import ArtifactError, DamagedError, write_sealed
from posenc.conditions import groups, learned, positions, profiles, semantics
from posenc.conditions.learned import LearnedMask
from posenc.conditions.masks import DistilledMask, FittedMask, SlopeMask, beneath
from posenc.conditions.section import Condition, dumped
from posenc.conditions.sweeps import Sweep
from posenc.metrics.mask_placebos import hashed_distances, hashed_sides

N = 5
LOWEST = float(np.finfo(np.float32).min)
TABLE = np.arange(12.0).reshape(4, 3) ** 2


def attention(z: np.ndarray, change: semantics.Change, causal: bool) -> np.ndarray:
    """The pattern of one head under a change, row by row in float32 as the models have it."""
    pattern = np.zeros((N, N))
    for i in range(N):
        row = []
        for j in range(N):
            hidden = causal and j > i and not change.sees_future
            factor = 1.0 if change.score_factor is None else at(change.score_factor, i, j)
            bias = 0.0 if change.bias is None else at(change.bias, i, j)
            row.append(-np.inf if hidden else np.float32(z[i, j] * factor) + np.float32(bias))
        weights = np.exp(np.array(row, np.float64) - max(row))
        pattern[i] = weights / weights.sum()
        if change.pattern_factor is not None:
            pattern[i] *= [at(change.pattern_factor, i, j) for j in range(N)]
    return pattern


def at(array: np.ndarray, i: int, j: int) -> float:
    return float(np.broadcast_to(array, (N, N))[i, j])


def softmax(row: list[float]) -> np.ndarray:
    weights = np.exp(np.array(row) - max(row))
    return weights / weights.sum()


def by_hand(name: str, z: np.ndarray, m: np.ndarray, causal: bool) -> np.ndarray:
    """Definitions of the catalogue's table."""
    rows = []
    for i in range(N):
        seen = [not causal or j <= i for j in range(N)]
        if name in ("hf_le420", "hf_finfo"):
            # Only past keys with the largest factor: the others are out of reach.
            most = max(m[0, j] for j in range(N) if seen[j])
            kept = [seen[j] and m[0, j] == most for j in range(N)]
            rows.append(softmax([z[i, j] if kept[j] else -np.inf for j in range(N)]))
        elif name in ("hf_sdpa_cpu", "hf_sdpa_cuda"):
            kept = [seen[j] and m[0, j] == 1 for j in range(N)]
            if any(kept):
                rows.append(softmax([z[i, j] if kept[j] else -np.inf for j in range(N)]))
            elif name == "hf_sdpa_cuda" and causal:
                rows.append(softmax(list(z[i])))
            else:
                rows.append(np.full(N, 1 / N))
        else:
            row = [z[i, j] if seen[j] else -np.inf for j in range(N)]
            if name == "hf_bool":
                row = [x if m[0, j] != 0 else -np.inf for j, x in enumerate(row)]
            if name == "log_mask":
                rows.append(softmax(row) * m[0] / (softmax(row) * m[0]).sum())
                continue
            if name == "logit_mul":
                row = [x * m[0, j] for j, x in enumerate(row)]
            rows.append(softmax(row) * (m[0] if name == "prob_mul" else 1.0))
    return np.array(rows)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", [n for n in semantics.semantics.functions if n != "emb_mul"])
def test_patterns_are_those_of_the_definition(name, causal):
    z = np.random.default_rng(0).normal(size=(N, N))
    m = np.array([[0.2, 0.4, 0.6, 0.8, 1.0]])
    if name == "hf_bool":
        m[0, 2] = 0.0
    pattern = attention(z, semantics.semantics.functions[name](m, causal), causal)
    np.testing.assert_allclose(pattern, by_hand(name, z, m, causal), rtol=0, atol=2e-4)


def test_finite_numbers_weigh_as_the_library_has_them():
    """-10^4 times what is missing of a factor; the future's scores are replaced."""
    m = np.array([[0.9999, 1.0]])
    change = semantics.hf_le420(m, True)
    np.testing.assert_allclose(change.bias, [[-1.0, -1e4], [-1.0, 0.0]], rtol=0, atol=1e-2)
    np.testing.assert_array_equal(change.score_factor, [[1, 0], [1, 1]])
    assert change.sees_future
    encoder = semantics.hf_le420(m, False)
    np.testing.assert_allclose(encoder.bias, [[-1.0, 0.0]], rtol=0, atol=1e-2)
    assert encoder.score_factor is None and not encoder.sees_future
    half = semantics.hf_finfo(np.array([[0.5, 1.0]]), False).bias
    assert half.dtype == np.float32 and half[0, 0] == np.float32(LOWEST / 2)
    np.testing.assert_array_equal(semantics.future(3), [[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(semantics.additive(m).bias, m)
    np.testing.assert_array_equal(semantics.emb_mul(m, True).embedding_factor, m[0])
    with pytest.raises(ValueError, match="emb_mul needs a profile that is the same for every"):
        semantics.emb_mul(np.ones((2, 2)), True)


def test_tables_become_what_they_are_said_to():
    mean = TABLE.mean(axis=0)
    cases = {
        "intact": TABLE,
        "zero": 0 * TABLE,
        "mean": np.tile(mean, (4, 1)),
        "keep_first": np.vstack([TABLE[:1], 0 * TABLE[1:]]),
        "keep_first_mean": np.vstack([TABLE[:1], np.tile(TABLE[1:].mean(axis=0), (3, 1))]),
    }
    for name, expected in cases.items():
        np.testing.assert_array_equal(positions.position.call(name, TABLE), expected, name)
    np.testing.assert_array_equal(positions.shift(TABLE, by=1), TABLE[[1, 2, 3, 0]])
    np.testing.assert_array_equal(positions.shift(TABLE, by=-1), TABLE[[3, 0, 1, 2]])
    orders = {tuple(positions.shuffle(TABLE, seed=seed)[:, 0]) for seed in range(40)}
    assert len(orders) > 10 and all(sorted(order) == list(TABLE[:, 0]) for order in orders)
    again = positions.shuffle(TABLE, seed=3)
    np.testing.assert_array_equal(again, positions.shuffle(TABLE, seed=3))
    tables, rotations = (set(positions.kinds_for(kind)) for kind in ("table", "rotation"))
    assert tables - rotations == {"mean", "keep_first", "keep_first_mean"}
    assert rotations - tables == {"bands", "interpolate", "base"}
    assert {"intact", "zero", "shuffle", "shift"} == tables & rotations


def test_angles_become_what_they_are_said_to():
    """Frequencies base^(-2i/d): a stretch s makes the lowest s times as low."""
    width, top = 8, 10_000.0
    frequencies = top ** (-np.arange(4) / 4)
    angles = np.arange(6)[:, None] * frequencies
    for kept, count, ones in (
        ("highest", 1, [1, 0, 0, 0]), ("lowest", 1, [0, 0, 0, 1]), ("highest", 9, [1, 1, 1, 1]),
        ("lowest", 9, [1, 1, 1, 1]), ("highest", 0, [0, 0, 0, 0]), ("lowest", 0, [0, 0, 0, 0]),
        ("lowest", 3, [0, 1, 1, 1]),
    ):  # fmt: skip
        turned = positions.bands(angles, kept=kept, count=count)
        np.testing.assert_array_equal(turned, angles * ones)
    np.testing.assert_array_equal(positions.interpolate(angles, by=0.25), angles / 4)
    stretched = positions.base(angles, stretch=3.0)
    other = top * 3.0 ** (width / (width - 2))
    expected = np.arange(6)[:, None] * other ** (-np.arange(4) / 4)
    np.testing.assert_allclose(stretched, expected, rtol=1e-12)
    np.testing.assert_allclose(stretched[:, -1], angles[:, -1] / 3, rtol=1e-12)


@pytest.mark.parametrize("per_query", [False, True])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_factors_are_those_of_each_place(length, per_query):
    document = profiles.Document(length, per_query)
    rows = range(length) if per_query else [length - 1]
    places = np.array([[min(j / i, 1.0) if i else 1.0 for j in range(length)] for i in rows])
    np.testing.assert_allclose(document.fraction, places, rtol=0, atol=1e-15)
    factors = profiles.linear(document, floor=0.25)
    np.testing.assert_allclose(factors, 0.25 + 0.75 * places, rtol=1e-14)
    factors = profiles.power(document, floor=0.25, exponent=3.0)
    np.testing.assert_allclose(factors, 0.25 + 0.75 * places**3, rtol=1e-14)
    factors = profiles.exponential(document, floor=0.25)
    np.testing.assert_allclose(factors, np.exp(math.log(0.25) * (1 - places)), rtol=1e-14)
    np.testing.assert_array_equal(profiles.constant(document, value=0.5), [[0.5] * length])


def test_biases_are_those_of_each_pair():
    distance = np.array([[abs(i - j) for j in range(4)] for i in range(4)])
    here = profiles.Places.of(4, 3)
    np.testing.assert_array_equal(profiles.alibi(here, slope=0.5), -0.5 * distance)
    np.testing.assert_allclose(
        profiles.logarithmic(here, slope=0.5), -0.5 * np.log(1 + distance), rtol=1e-14
    )
    for scale in (1.0, 2.0):
        bias = profiles.alibi_geometric(here, scale=scale)
        expected = [-scale * 2 ** (-8 * head / 3) * distance for head in (1, 2, 3)]
        np.testing.assert_allclose(bias, expected, rtol=1e-14)
    np.testing.assert_array_equal(
        profiles.alibi_geometric(here), profiles.alibi_geometric(here, scale=1.0)
    )
    expected = np.where(distance <= 1, 0, -np.inf)
    np.testing.assert_array_equal(profiles.window(here, tokens=2), expected)
    assert profiles.Places.of(4).n_heads == 1
    with pytest.raises(NotImplementedError, match=r"^a learned bias is read from its file, by "):
        profiles.learned(here, mask="it")


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("offsets", [3, 6])
def test_a_relative_bias_is_that_of_each_distance(sides, offsets):
    rng = np.random.default_rng(0)
    relative = rng.normal(size=(2, 3, sides, offsets)).astype(np.float32)
    first = rng.normal(size=(2, 3, 2)).astype(np.float32)
    for layer in (0, 1):
        for own in (None, first):
            bias = LearnedMask(relative=relative, first=own).bias(layer, N)
            for head in range(3):
                for i in range(N):
                    for j in range(N):
                        side = 0 if j <= i else sides - 1
                        value = relative[layer, head, side, min(abs(i - j), offsets - 1)]
                        if own is not None and j == 0:
                            value = value + own[layer, head, min(i, 1)]
                        assert bias[head, i, j] == value


def test_a_mask_gives_what_it_has_and_says_what_it_lacks():
    absolute = np.arange(2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)
    mask = LearnedMask(absolute=absolute)
    np.testing.assert_array_equal(mask.bias(1, 4), absolute[1])
    np.testing.assert_array_equal(mask.bias(0, 2), absolute[0, :, :2, :2])
    longer = r"^an absolute mask of 4 positions does not reach 5 tokens: use a relative one for"
    with pytest.raises(ArtifactError, match=longer):
        mask.bias(0, 5)
    assert mask.arrays().keys() == {"absolute"}
    with pytest.raises(ArtifactError, match=r"^the learned mask has no bias: it is not for a mask"):
        LearnedMask().bias(0, 2)
    with pytest.raises(ArtifactError, match=r"^the learned mask has no vectors: it is not for a "):
        mask.vectors(3)
    constant, initial = np.float32([1, 2]), np.float32([3, 4])
    np.testing.assert_array_equal(LearnedMask(constant=constant).vectors(2), [constant] * 2)
    both = LearnedMask(constant=constant, initial=initial).vectors(3)
    np.testing.assert_array_equal(both, [initial, constant, constant])
    hashed = LearnedMask(relative=absolute[:, :, :1, :], hashed=np.int64(1))
    with pytest.raises(ArtifactError, match=r"^distances are hashes of token ids: the mask needs"):
        hashed.bias(0, 2)


@pytest.mark.parametrize("sides", [1, 2])
def test_a_hashed_bias_is_that_of_each_pair_s_hash(sides):
    rng, ids, seed = np.random.default_rng(0), (7, 8, 7, 9), 5
    relative = rng.normal(size=(2, 3, sides, 6)).astype(np.float32)
    first = rng.normal(size=(2, 3, 4)).astype(np.float32)
    mask = LearnedMask(relative=relative, first=first, hashed=np.int64(seed))
    distances, sides_of = hashed_distances(ids, 6, seed), hashed_sides(ids, seed)
    bias = mask.bias(1, 4, ids)
    for head, i, j in itertools.product(range(3), range(4), range(4)):
        side = sides_of[i, j] if sides > 1 else 0
        value = relative[1, head, side, distances[i, j]]
        assert bias[head, i, j] == (value + first[1, head, i] if j == 0 else value)
    other = LearnedMask(relative=relative, first=first, hashed=np.int64(seed + 1)).bias(1, 4, ids)
    assert not np.array_equal(bias, other)


def test_a_mask_is_read_as_it_was_written_and_its_damage_is_found(tmp_path):
    wide = np.arange(24, dtype=np.float32).reshape(2, 3, 1, 4)
    mask = LearnedMask(relative=wide[..., ::-1], constant=np.float32([1, 2]))
    path = tmp_path / "it.safetensors"
    learned.write(path, mask, {"loss": 1.5})
    stored, facts = learned.read(path)
    assert stored.arrays().keys() == {"relative", "constant"}
    np.testing.assert_array_equal(stored.relative, wide[..., ::-1])
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (facts["loss"], facts["schema"], facts["arrays"]) == (1.5, 1, sha256)
    write_sealed(tmp_path / "masks.json", {"masks": {"it": "of it.json"}})
    listed = {str(tmp_path / "it.json"): "of it.json", str(path): sha256}
    assert receipts.parts_of(tmp_path / "masks.json") == listed
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedError, match="does not match its checksum: it was altered") as caught:
        learned.read(path)
    assert caught.value.path == path
    path.unlink()
    with pytest.raises(ArtifactError, match=r"it\.safetensors is missing; start the workflow"):
        learned.read(path)


def test_positions_beyond_the_table_are_its_end_or_its_beginning():
    for count in (2, 4, 7):
        rows = range(max(4, count))
        clamped, wrapped = (positions.extended(TABLE, count, rule) for rule in ("clamp", "wrap"))
        np.testing.assert_array_equal(clamped, [TABLE[min(row, 3)] for row in rows])
        np.testing.assert_array_equal(wrapped, [TABLE[row % 4] for row in rows])


def of(**section) -> Condition:
    return Condition.model_validate(section)


def test_conditions_say_whom_they_are_for_and_what_they_need():
    by_mask = {"semantics": "additive", "profile": {"kind": "learned", "mask": "b"}}
    assert of(position={"kind": "learned", "mask": "a"}, mask=by_mask).masks() == ["a", "b"]
    assert of().masks() == [] == of(position="zero").masks()
    assert of(only="decoder").is_for(True) and not of(only="decoder").is_for(False)
    assert of(only="encoder").is_for(False) and not of(only="encoder").is_for(True)
    assert of().is_for(True) and of().is_for(False)
    assert of(position={"kind": "clip", "distance": 2}).of_pairs and not of().of_pairs
    bands = {"kind": "bands", "kept": "highest", "count": 1}
    assert of(position=bands).is_for(True, "rotation") and not of(position=bands).is_for(True)
    assert of(position="mean").misfit("table") is None
    assert (
        of(position="mean")
        .misfit("rotation")
        .startswith(
            "position 'mean' is not for a model whose positions are a rotation: it takes intact,"
        )
    )
    assert "whose positions are a table: it takes" in of(position=bands).misfit("table")
    wrap = of(beyond="wrap")
    assert wrap.misfit("table") is None and "'wrap' is for tables" in wrap.misfit("rotation")
    mask = {"semantics": "log_mask", "profile": {"kind": "linear", "floor": 0.1}}
    assert of(mask={**mask, "layers": [0, 2]}).problem(3, 4) is None
    problem = of(mask={**mask, "layers": [0, 3]}).problem(3, 4)
    assert problem == "mask.layers names 3, but the model's are 0 to 2"
    problem = of(position={"kind": "unrotated", "heads": [4]}).problem(9, 4, "rotation")
    assert problem == "position.heads names 4, but the model's are 0 to 3"
    clip, learned_one = {"kind": "clip", "distance": 2}, {"kind": "learned", "mask": "a"}
    for section, kind in ((clip, "rotation"), (learned_one, "table")):
        other = {"rotation": "table", "table": "rotation"}[kind]
        assert of(position=section).misfit(kind) is of(position=section).problem(1, 1, kind) is None
        assert f"positions are a {other}" in of(position=section).problem(1, 1, other)
    assert of(position={"kind": "unrotated"}).misfit("rotation") is None
    assert dumped(of(position="zero", mask=mask)) == {"position": "zero", "mask": mask}
    assert dumped(of()) == {}


def test_a_sweep_varies_one_key_of_each_condition():
    alibi = of(mask={"semantics": "additive", "profile": {"kind": "alibi", "slope": 1.0}})
    sweep = Sweep(conditions=["a", "b"], key="mask.profile.slope", values=[0.5, 2.0])
    units = list(sweep.units({"a": alibi, "b": of(position="zero", mask=alibi.mask)}))
    varied = [
        (name, value, condition.mask.profile.slope, length)
        for name, value, condition, length in units
    ]
    assert varied == [(name, value, value, None) for name in "ab" for value in (0.5, 2.0)]
    assert units[2][2].position == "zero" and alibi.mask.profile.slope == 1.0
    tokens = Sweep(conditions=["a"], key="tokens", values=[4, 9])
    assert list(tokens.units({"a": alibi})) == [("a", 4, alibi, 4), ("a", 9, alibi, 9)]
    with pytest.raises(ValueError, match="greater than or equal to 4"):
        list(Sweep(conditions=["a"], key="tokens", values=[3, 9]).units({"a": alibi}))
    for key in ("mask.profile.floor", "mask.none.slope", "none", "position.slope"):
        with pytest.raises(ValueError, match=f"^the condition 'a' has no key {key}$"):
            list(Sweep(conditions=["a"], key=key, values=[1, 2]).units({"a": alibi}))


def test_groups_are_by_what_a_condition_does():
    def mask(kind: str, name: str = "additive") -> dict:
        return {"semantics": name, "profile": {"kind": kind}}

    cases = {
        "positions": [{}, {"position": "zero"}, {"position": {"kind": "shift"}}, {"segments": 2}],
        "norms": [{"embeddings": "unit_norm"}, {"embeddings": {"kind": "scale", "by": 2.0}}],
        "versions": [{"position": "zero", "segments": 1},
                     {"position": "zero", "mask": mask("linear", "hf_bool")}],
        "semantics": [{"mask": mask("linear", "log_mask")}],
        "profiles": [{"mask": mask("power", "log_mask")}, {"mask": mask("alibi")}],
        "learned": [{"position": {"kind": "learned"}},
                    {"position": "zero", "mask": mask("learned")}],
        "adaptation": [{"mask": mask("learned")}, {"position": {"kind": "learned", "added": True}}],
    }  # fmt: skip
    specs = {
        f"{group}_{n}": section for group, own in cases.items() for n, section in enumerate(own)
    }
    for name, spec in specs.items():
        assert groups.group_of(spec) == name.rpartition("_")[0], name
    by_group = groups.grouped(specs)
    assert list(by_group) == list(groups.GROUPS) and by_group["positions"][0] == "positions_1"
    assert groups.grouped(specs, "norms", "none") == {"norms": ["norms_0", "norms_1"]}


FITTED = {
    "method": "fitted", "position": "zero", "learn_position": False, "terms": ["slope"],
    "steps": 5, "batch_documents": 2, "learning_rate": 0.1, "precision": "float32",
    "validate_steps": 1, "seed": 0,
}  # fmt: skip
DISTILLED = {
    "method": "distilled", "position": "zero", "layout": "relative", "first": True,
    "weights": "uniform", "sequential": False,
}  # fmt: skip


def fitted(begin: str | None) -> FittedMask:
    return FittedMask(**FITTED, begin=begin)


def test_masks_lie_on_those_that_they_begin_with():
    slope = SlopeMask(method="slope", position="zero", slopes=[0.1, 0.2])
    on = {"low": slope, "middle": fitted("low"), "top": fitted("middle"), "other": fitted(None)}
    below = {name: beneath(on, name) for name in on}
    assert below == {"low": [], "middle": ["low"], "top": ["middle", "low"], "other": []}


@pytest.mark.parametrize(
    ("begins", "name", "message"),
    [
        ({"a": "b"}, "a", "masks.a begins with 'b', which is not defined in masks"),
        ({"a": "a"}, "a", "masks.a.begin leads back to 'a': masks begin with each other"),
        ({"a": "b", "b": "a"}, "a", "masks.a.begin leads back to 'a': masks begin with each other"),
        # The circle is below, and does not hold the mask that is asked for.
        ({"a": "b", "b": "c", "c": "b"}, "a",
         "masks.a.begin leads back to 'b': masks begin with each other"),
    ],
)  # fmt: skip
def test_masks_that_begin_with_none_or_each_other_are_named(begins, name, message):
    masks = {mask: fitted(begin) for mask, begin in begins.items()}
    with pytest.raises(ValueError) as raised:
        beneath(masks, name)
    assert str(raised.value) == message


def test_masks_that_contradict_themselves_are_refused():
    FittedMask(**FITTED, distances="hashed")
    FittedMask(**FITTED, begin="low")
    DistilledMask(**{**DISTILLED, "of": "scores", "temperature": True})
    for source, changed, message in (
        (FittedMask, {**FITTED, "distances": "hashed", "begin": "low"}, "begin with no mask"),
        (DistilledMask, {**DISTILLED, "of": "scores", "sequential": True}, "no order of layers"),
        (DistilledMask, {**DISTILLED, "temperature": True}, "needs of: scores"),
        (DistilledMask,
         {**DISTILLED, "of": "scores", "layout": "absolute", "temperature": True}, "layout: rel"),
    ):  # fmt: skip
        with pytest.raises(ValidationError, match=message):
            source(**changed)
