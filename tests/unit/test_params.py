"""params.yaml: an error names the key, its value and what would be right."""

import copy
import itertools
import math
import sys
import unicodedata
from pathlib import Path

import pytest
from pydantic import ValidationError

from posenc.config.base import Section
from posenc.config.text import unprintable
from posenc.frontends import leftovers
from posenc.study import configs
from posenc.study.names import RESERVED
from posenc.study.params import ParamsError, load, validate
from posenc.study.schema import json_schema
from posenc.study.switch import activate
from tests.copies import copy_params, whole_params

ROOT = Path(__file__).parents[2]


@pytest.fixture
def raw() -> dict:
    return whole_params()


def changed(raw: dict, key: str, value) -> dict:
    """A copy with one dotted key replaced or added."""
    result = copy.deepcopy(raw)
    *path, last = key.split(".")
    node = result
    for part in path:
        node = node.setdefault(part, {})
    node[last] = value
    return result


def test_the_shipped_file_is_valid_and_its_schema_is_in_sync(raw):
    import json

    validate(raw)
    shipped = json.loads((ROOT / "workflow/schemas/params.schema.json").read_text())
    assert shipped == json_schema(), "run `posenc schema`"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("activations.batch_token", 1, r"activations\.batch_token: unknown key 'batch_token'; "
         r"did you mean 'batch_tokens'\?"),
        ("activations.batch_tokens", "many", r"activations\.batch_tokens: is 'many': .*integer"),
        ("activations.batch_tokens", 0, r"activations\.batch_tokens: is 0: .*greater than or"),
        ("activations.dtype", "int8", r"activations\.dtype: is 'int8': .*'float16' or 'float32'"),
        ("datasets.imdb.source.sha256", "c40f", r"datasets\.imdb\.source\.sha256: is 'c40f'"),
        ("datasets.imdb.source.kind", "ftp", r"datasets\.imdb\.source: .*'hub'"),
        ("datasets.imdb.evaluation.split", "dev", r"datasets\.imdb: there is no split 'dev'.*"
         r"train, test, unsup"),
        ("studies.default.extrapolation.against", "other",
         r"extrapolation: against is 'other', which is not one of the conditions: intact, "),
        ("models.decoder.source.sequences_begin", "here", r"sequences_begin: is 'here'"),
        ("models.decoder.source.n_heads", 3, r"d_model 128 is not a multiple of n_heads 3"),
        ("models.decoder.max_tokens", 500, r"max_tokens 500 exceeds source\.n_positions 128"),
        ("models.decoder.source.split", "test", r"models\.decoder would be trained on the split"),
        ("models.decoder.source.positions", "rotary", r"studies\.default\.models names 'decoder', "
         r"whose source\.positions is 'rotary'.*list it under studies\.default\.schemes"),
        ("models.scheme_none.source.positions", "relative", r"source\.positions: is 'relative'"),
        ("models.scheme_rotary.source.n_heads", 64, r"positions 'rotary' turns pairs of features"),
        ("studies.default.schemes", {"minilm": "sample_reviews"}, r"'minilm' is in models and in"),
        ("studies.default.schemes", {"bert": "sample_reviews"}, r"studies\.default\.schemes names "
         r"'bert', whose source\.kind is 'hub'"),
        ("studies.default.schemes", {"scheme_none": "imbd"}, r"schemes names 'imbd'"),
        ("studies.default.matrices", ["sinusoids"], r"matrices names 'sinusoids'.*'sinusoid'\?"),
        ("matrices.sinusoid.d_model", 7, r"matrices\.sinusoid\.d_model: is 7"),
        ("measurements.spectra.bands", [0.2, 0.1], r"bands \[0\.2, 0\.1\] must rise"),
        ("experiments.downstream.sample.seeds", [1, 1], r"seeds \[1, 1\] names one twice"),
        ("experiments.downstream.sample.stepss", 3, r"unknown key 'stepss'.*known: .*swaps"),
        ("experiments.downstream.sample.dataset", "imdb", r"studies\.default\.experiments\."
         r"downstream is 'sample', whose dataset is 'imdb': it must be labelled of the study"),
        ("experiments.tokenizers.sample.datasets", ["imdb"], r"tokenizers is 'sample', whose "
         r"datasets are \['imdb'\]: they must be labelled and corpora of the study"),
        ("studies.default.labelled", "imdb", r"labelled is 'imdb', which must be one of its"),
        ("studies.default.experiments.tokenizers", "smal", r"tokenizers names 'smal', which"),
        ("studies.default.corpora", ["sample_reviews"], r"in datasets and in corpora"),
        ("conditions.zero.position", "null", r"conditions\.zero\.position: is 'null'"),
        ("figures.perplexity.height", "tall", r"figures\.perplexity\.height: is 'tall'"),
        ("studies.real.models", ["bret", "gpt2"], r"models names 'bret'"),
        ("studies.default.captured", ["decodr"], r"studies\.default: captured names 'decodr', "
         r"which is not in models: add it there too, or take it out of captured"),
        ("studies.default.captured", ["decoder", "minilm"], r"captured must have the order of "
         r"models: write captured: \[minilm, decoder\]$"),
        ("studies.default.captured", ["minilm", "minilm"], r"captured names 'minilm' twice"),
        ("studies.default.examined", ["bert"], r"examined names 'bert', which is not in models"),
        ("studies.rotary.measurements", ["causal_probes"], r"measurements names 'causal_probes', "
         r"which is of the models in examined: name some there, or leave it out"),
        ("studies.default.finetuned", ["decoder"], r"finetuned names 'decoder', which is not in "
         r"pretrained: add it there too, or take it out of finetuned"),
        ("studies.schemes.retrained", ["minilm"], r"studies\.schemes\.retrained names 'minilm', "
         r"which is trained on another split .* name one under studies\.schemes\.calibration"),
        # What is for position tables only, and what for rotation.
        ("studies.rotary.evaluations.smollm2.evaluated", ["mean"], r"studies\.rotary names the "
         r"condition 'mean', which is for none of its models: position 'mean' is not for a model "
         r"whose positions are a rotation: it takes intact, zero, .*unrotated, clip, first_order$"),
        ("conditions.zero_hf_finfo.mask.layers", [9], r"evaluates 'decoder' under 'zero_hf_finfo': "
         r"mask\.layers names 9, but the model's are 0 to \d; leave it out under studies\.default"),
        ("studies.default.conditions", ["intact", "clipped_32"], r"studies\.default\.conditions "
         r"names 'clipped_32', which needs .*list it under studies\.default\.evaluated"),
        ("studies.default.evaluations", {"smolm": {}}, r"evaluations names 'smolm', which is not "
         r"one of models"),
        ("studies.default.evaluations.smollm2.evaluated", ["zeros"], r"evaluations\.smollm2\."
         r"evaluated names 'zeros'.*did you mean 'zero'"),
        ("studies.default.evaluations.smollm2.evaluated", ["shift_8", "shift_8"],
         r"conditions and evaluations\.smollm2\.evaluated name 'shift_8' twice"),
        ("masks.fitted.begin", "nothing", r"masks\.fitted begins with 'nothing', which is not"),
        ("masks.fitted.begin", "fitted", r"masks\.fitted\.begin leads back to 'fitted'"),
        ("masks.hashed_zero.begin", "closed", r"masks\.hashed_zero.*hashed distances begin with no "
         r"mask: leave begin out"),
        ("measurements.conditions.controls",
         {"zero_fitted": {"intact": "intact_fitted", "placebo": "zero_hash",
                          "placebo_intact": "intact_hashed"}},
         r"measurements\.conditions\.controls names 'zero_hash', which is not defined in "
         r"conditions; did you mean 'zero_hashed'"),
        ("masks.distilled_scores.sequential", True, r"has no order of layers: set sequential"),
        ("studies.default.datasets", ["sample_review"], r"datasets names 'sample_review', which "
         r"is not defined in datasets; did you mean 'sample_reviews'\?"),
        ("studies.default.conditions", ["zero"], r"conditions must begin with 'intact'"),
        ("studies.default.title", "one\ntwo", r"^params\.yaml: studies\.default\.title: 'one\\ntwo'"
         r" contains the control character U\+000A: write it in one line, without this character$"),
        ("studies.default.title", "\x1b[31m", r"the control character U\+001B"),
        ("studies.default.title", "a\ud83d", r"the control character U\+D83D"),
        ("studies.default.title", "a\u202eb", r"the control character U\+202E"),
        ("studies.default.title", "a\u2028b", r"the control character U\+2028"),
        ("studies.default.title", "x" * 301, r"title: is 'x+\.\.\.: .*at most 300 characters$"),
        ("datasets.imdb_local.source.path", "a\0b", r"imdb_local\.source\.path: .*U\+0000"),
        ("models.bert.source.id", "a\tb", r"models\.bert\.source\.id: .*U\+0009"),
        # Would be a traceback in a job.
        ("experiments.tokenizers.sample.n_heads", 3, r"d_model 64 is not a multiple of n_heads 3"),
        ("experiments.pretraining.sample.n_heads", 3, r"d_model 64 is not a multiple of n_heads"),
        ("measurements.random_causal.n_heads", 3, r"d_model 256 is not a multiple of n_heads 3"),
        ("sweeps.length.values", [16.5, 32], r"sweeps\.length: tokens cannot be 16\.5: it should"),
        ("sweeps.length.values", [-1, 32], r"sweeps\.length: tokens cannot be -1: it should"),
        ("datasets.imdb.source.url", "https://a b", r"datasets\.imdb\.source\.url: is 'https"),
        ("datasets.imdb.source", {"seed": 1}, r"datasets\.imdb\.source: kind is missing"),
        ("datasets.imdb.source", 3, r"datasets\.imdb\.source: is 3: should be a mapping"),
        ("study", "reel", r"study: is 'reel', which is not one of studies; did you mean 'real'"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained(raw, key, value, message):
    with pytest.raises(ParamsError, match=message):
        validate(changed(raw, key, value))


def test_the_characters_that_are_refused_are_those_of_unicode_s_classes():
    embeddings = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    for character in map(chr, range(sys.maxunicode + 1)):
        steers = unicodedata.bidirectional(character) in embeddings
        steers |= unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        assert steers == bool(list(unprintable(character, ("title",)))), f"U+{ord(character):04X}"


@pytest.mark.parametrize(
    "title", ["日本語", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{ROCKET}", "שלום", "e\u0301", "x" * 300]
)
def test_a_title_may_be_of_any_script(raw, title):
    assert validate(changed(raw, "studies.default.title", title)).study.title == title


def test_an_unknown_model_and_a_missing_key(raw):
    with pytest.raises(ParamsError, match=r"'gpt3', which must be in exactly one of"):
        validate(changed(raw, "studies.real.models", ["bert", "gpt3"]))
    unknown = changed(raw, "studies.real.models", ["bert", "gpt3"])
    unknown["studies"]["real"]["pretrained"] = ["bert", "gpt3"]
    unknown["studies"]["real"] |= {"captured": ["bert"], "examined": [], "finetuned": []}
    with pytest.raises(ParamsError, match=r"studies\.real\.models names 'gpt3', which is not def"):
        validate(unknown)
    del raw["datasets"]["imdb"]["evaluation"]
    with pytest.raises(ParamsError, match=r"datasets\.imdb\.evaluation: is missing"):
        validate(raw)


def test_several_mistakes_are_listed_together(raw):
    wrong = changed(changed(raw, "activations.dtype", "int8"), "activations.device", "tpu")
    with pytest.raises(ParamsError) as caught:
        validate(wrong)
    assert len(str(caught.value).splitlines()) == 2


def numbers(node, path=()):
    """Containers and keys of all numbers, each once, however many its aliases."""
    seen = set()

    def walk(node, path):
        if id(node) in seen:
            return
        seen.add(id(node))
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(value, dict | list):
                yield from walk(value, (*path, key))
            elif isinstance(value, int | float) and not isinstance(value, bool):
                yield node, key, (*path, key)

    return list(walk(node, path))


@pytest.mark.parametrize(
    "values",
    [[10**12], [math.inf, -math.inf, math.nan, 1e12, 10**400]],
    ids=["absurd", "each of another kind"],
)
def test_no_number_is_infinite_or_absurd(raw, values):
    """Every number in the shipped file has bounds, and the refusal names it."""
    places = numbers(raw)
    assert len(places) > 300  # test_defaults.py asks the same of what has a default
    for (node, key, path), value in zip(places, itertools.cycle(values), strict=False):
        before, node[key] = node[key], value
        with pytest.raises(ParamsError) as caught:
            validate(raw)
        node[key] = before
        named = path[-1] if isinstance(path[-1], str) else path[-2]
        said = str(caught.value)
        assert named in said or (path[0] == "sweeps" and said.startswith(f"params.yaml: {path[0]}"))
        assert all(len(line) < 400 for line in said.splitlines())
    validate(raw)


def test_a_section_takes_no_number_that_is_infinite_or_none():
    class Free(Section):
        number: float

    assert Free(number=1e300).number == 1e300
    for value in (math.inf, -math.inf, math.nan):
        with pytest.raises(ValidationError, match="finite"):
            Free(number=value)


def test_names_that_the_workflow_uses_are_refused(raw):
    for kind, names in RESERVED.items():
        for name in names:
            wrong = copy.deepcopy(raw)
            wrong[kind][name] = next(iter(wrong[kind].values()))
            with pytest.raises(ParamsError, match=rf"{kind}\.{name}: .*: choose another"):
                validate(wrong)


def test_every_name_in_a_folder_of_names_is_reserved(raw):
    """Where data sets, models or conditions name files or folders, no other name may collide."""
    params = validate(raw)
    study = params.study
    chosen = {
        "datasets": {*study.all_datasets, *study.corpora},
        "models": {*study.models, *study.schemes},
        "conditions": set(study.conditions),
    }
    paths = {path for path, _ in configs.sections(params)}
    for _, _, leaves, _ in leftovers._places(params):
        paths |= leaves
    # What a name ends with where it lies: nothing for a folder, .json for a file, or .STEP.json.
    places = {
        ((path.parent, "".join(path.suffixes)), path.name.partition(".")[0])
        for leaf in paths
        for path in (leaf, *leaf.parents)
    }
    others = {
        (kind, name)
        for kind, names in chosen.items()
        for folder in {folder for folder, name in places if name in names}
        for parent, name in places
        if parent == folder and name not in {*getattr(params, kind), *params.matrices}
    }
    assert ("datasets", "long") in others
    for kind, name in others:
        assert name in RESERVED[kind], (kind, name)


def test_a_name_fits_a_file_name(raw):
    raw["datasets"]["d" * 65] = raw["datasets"]["imdb"]
    with pytest.raises(ParamsError, match=r"datasets\.ddd.*at most 64 characters"):
        validate(raw)


@pytest.mark.parametrize(
    ("name", "before", "after", "key"),
    [
        # What fifteen models are like, through a grid.
        ("params.yaml", "shown_as: IMDB decoder\n    family: gpt2",
         "shown_as: IMDB decoder\n    family: gpt3", "models.decoder_imdb.family"),
        ("params.yaml", "      d_model: 64\n      steps: 300", "      d_model: 64\n      steps: x",
         "models.scheme_learned.source.steps"),
        # The active study is one of studies; a misspelt key is not missing as well.
        ("studies/default.yaml", "labelled: sample_reviews", "labeled: sample_reviews",
         "studies.default.labeled"),
        ("studies/default.yaml", "labelled: sample_reviews", "labelled: 3",
         "studies.default.labelled"),
        ("studies/default.yaml", "calibration: sample_reviews", "calibration: x",
         "studies.default.calibration"),
        # What a study defines.
        ("studies/rotary_text_1.yaml", "calibration: {seed: 11}", "calibration: {seed: -1}",
         "datasets.imdb_fresh_1.calibration.seed"),
        # Several alternatives, an item of a list, a kind without what it needs.
        ("params.yaml", "authors:", "conditions: {unit_norm: {embeddings: unit}}\nauthors:",
         "conditions.unit_norm.embeddings"),
        ("params.yaml", "authors:", "sweeps: {length: {values: [x, 32]}}\nauthors:",
         "sweeps.length.values.0"),
        ("params.yaml", "authors:", "conditions: {zero: {position: {kind: shuffle}}}\nauthors:",
         "conditions.zero.position"),
        ("params.yaml", "authors:",
         "conditions: {zero_alibi: {mask: {profile: {slope: -1.0}}}}\nauthors:",
         "conditions.zero_alibi.mask.profile.slope"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_once_with_its_line(tmp_path, name, before, after, key):
    copy_params(tmp_path)
    path = tmp_path / name
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    with pytest.raises(ParamsError) as caught:
        load(tmp_path / "params.yaml")
    (said,) = str(caught.value).splitlines()
    start = text.index(before)
    line = text[:start].count("\n") + 1
    if not after.endswith("authors:"):
        line += before.count("\n")
    assert said.startswith(f"{path}:{line}: {key}")


def test_switching_the_study_changes_one_line(tmp_path):
    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    before = path.read_text()
    activate(path, "real")
    after = path.read_text()
    assert load(path).study.name == "real"
    differing = [
        pair
        for pair in zip(before.splitlines(), after.splitlines(), strict=True)
        if pair[0] != pair[1]
    ]
    assert differing == [("study: default", "study: real")]
    with pytest.raises(
        ParamsError, match=r"there is no study 'huge'; known: default, headline, local"
    ):
        activate(path, "huge")
    with pytest.raises(ParamsError, match="; did you mean 'real'"):
        activate(path, "reel")
    assert path.read_text() == after


@pytest.mark.parametrize("name", ["yes", "null"])
def test_a_study_may_be_called_as_a_word_of_yaml(tmp_path, name):
    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    (tmp_path / "studies/real.yaml").rename(tmp_path / f"studies/{name}.yaml")
    activate(path, name)
    assert load(path).study.name == name


def test_dvc_names_a_study(tmp_path):
    """As `dvc exp run -S study=local` does; DVC's stages follow it."""
    from dvc.utils.hydra import apply_overrides

    copy_params(tmp_path)
    path = tmp_path / "params.yaml"
    before = load(path).model_dump(exclude={"study"}, warnings=False)
    apply_overrides(path, ["study=local", "++measurements.perplexity.seed=5"])
    after = load(path)
    assert after.study.name == "local" and after.parameters.perplexity.seed == 5
    before["measurements"]["perplexity"]["seed"] = 5
    assert after.model_dump(exclude={"study"}, warnings=False) == before


def test_a_study_is_called_as_its_key(raw):
    assert "name" not in raw["studies"]["default"] and validate(raw).study.name == "default"
    with pytest.raises(ParamsError, match=r"studies\.real\.name is 'local'; it must be 'real'"):
        validate(changed(raw, "studies.real.name", "local"))
