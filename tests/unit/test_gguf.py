"""A GGUF file becomes a folder of the hub's format: weights, configuration, tokenizer."""

from __future__ import annotations

import json
import struct
import sys

import numpy as np
import pytest
import regex
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from posenc.artifacts.files import CHECKSUMS, ArtifactError, sha256_file, verify
from posenc.models.gguf import configuration, convert, tokenizer_of, unpermuted
from posenc.models.gguf_file import File
from posenc.models.load import ModelError, fetch, source_folder
from posenc.models.section import Model, PackageSource, PathSource
from posenc.tokens.tokenize import tokenize

from .damage import call
from .gguf_files import SIZES, file_name, random_weights, small_tokenizer, write_gguf
from .synthetic import params_of

VOCABULARY = small_tokenizer().get_vocab_size()


@pytest.fixture
def weights() -> dict:
    return random_weights(VOCABULARY)


@pytest.fixture
def file(tmp_path, weights):
    return write_gguf(tmp_path / "model.gguf", weights, Type.Q4_1)


@pytest.fixture
def made(file, tmp_path):
    (tmp_path / "made").mkdir()
    convert(file, tmp_path / "made")
    return tmp_path / "made"


# --- Weights ------------------------------------------------------------------------------------


def numbers(data: bytes, kind: Type) -> list[np.float32]:
    """The numbers that bytes stand for, block by block, by the format's definition."""
    if kind in (Type.F32, Type.F16):
        return [
            np.float32(x) for (x,) in struct.iter_unpack("<f" if kind == Type.F32 else "<e", data)
        ]
    values = []
    if kind == Type.Q8_0:  # a scale, and 32 whole numbers
        for block in struct.iter_unpack("<e32b", data):
            values += [np.float32(block[0]) * np.float32(q) for q in block[1:]]
        return values
    for scale, least, packed in struct.iter_unpack("<ee16s", data):  # Q4_1: two numbers per byte
        quanta = [byte & 15 for byte in packed] + [byte >> 4 for byte in packed]
        values += [np.float32(scale) * np.float32(q) + np.float32(least) for q in quanta]
    return values


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.Q8_0, Type.Q4_1], ids=lambda k: k.name)
def test_each_tensor_is_dequantised_and_its_rows_are_in_order_again(tmp_path, weights, kind):
    path = write_gguf(tmp_path / "model.gguf", weights, kind)
    convert(path, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert set(tensors) == set(weights)
    stored = {tensor.name: tensor for tensor in GGUFReader(path).tensors}
    content = path.read_bytes()
    for name, original in weights.items():
        tensor = stored[file_name(name)]
        data = content[tensor.data_offset : tensor.data_offset + tensor.n_bytes]
        values = np.array(numbers(data, tensor.tensor_type)).reshape(original.shape)
        d_head = SIZES["width"] // SIZES["heads"]
        order = np.arange(len(values))
        if ".q_proj." in name or ".k_proj." in name:
            rows = [*range(0, d_head, 2), *range(1, d_head, 2)]
            order = [head + row for head in range(0, len(values), d_head) for row in rows]
        assert tensors[name].dtype == np.float32
        np.testing.assert_array_equal(tensors[name], values[order], err_msg=name)
        # What was written comes back, as far as the type has room for it.
        steps = {Type.F32: 0, Type.F16: 1e-3, Type.Q8_0: 1 / 127, Type.Q4_1: 2 / 15}[kind]
        assert np.abs(tensors[name] - original).max() <= steps * np.abs(original).max(), name


def test_biases_are_permuted_as_their_rows_are(tmp_path):
    weights = random_weights(VOCABULARY, biases=True, tied=False)
    convert(write_gguf(tmp_path / "model.gguf", weights), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert set(tensors) == set(weights)
    for name, original in weights.items():
        np.testing.assert_array_equal(tensors[name], original, err_msg=name)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["attention_bias"] and not config["tie_word_embeddings"]


def test_scores_are_those_of_turned_neighbours():
    """llama.cpp turns features (2c, 2c + 1) of its rows, the library (c, c + d_head / 2) of its."""
    random, n_heads, d_head = np.random.default_rng(3), 3, 8
    rows = random.normal(size=(2, n_heads * d_head, 5))  # W^Q and W^K of a file
    x = random.normal(size=(2, 5))
    angles = 0.7 * 10.0 ** -np.arange(d_head // 2)

    def turned(vector, pairs, position):
        out = np.empty_like(vector)
        for c, (feature, other) in enumerate(pairs):
            cosine, sine = np.cos(position * angles[c]), np.sin(position * angles[c])
            out[feature] = vector[feature] * cosine - vector[other] * sine
            out[other] = vector[other] * cosine + vector[feature] * sine
        return out

    neighbours = [(2 * c, 2 * c + 1) for c in range(d_head // 2)]
    halves = [(c, c + d_head // 2) for c in range(d_head // 2)]
    for head in range(n_heads):
        part = slice(head * d_head, (head + 1) * d_head)
        theirs = [turned(rows[i][part] @ x[i], neighbours, p) for i, p in enumerate((5, 2))]
        ours = [
            turned(unpermuted(rows[i], n_heads)[part] @ x[i], halves, p)
            for i, p in enumerate((5, 2))
        ]
        assert ours[0] @ ours[1] == pytest.approx(theirs[0] @ theirs[1], rel=1e-12)


def test_the_configuration_is_the_library_s(made):
    from transformers import LlamaConfig

    config = LlamaConfig.from_pretrained(made)
    assert config.hidden_size == SIZES["width"] and config.intermediate_size == SIZES["inner"]
    assert config.num_hidden_layers == SIZES["layers"]
    assert config.num_attention_heads == SIZES["heads"]
    assert config.num_key_value_heads == SIZES["key_value_heads"]
    assert config.max_position_embeddings == 128 and config.vocab_size == VOCABULARY
    # The file has them in float32.
    assert config.rms_norm_eps == 1e-5
    assert config.rope_parameters == {"rope_type": "default", "rope_theta": 50_000.0}
    assert config.tie_word_embeddings and not config.attention_bias and config.bos_token_id == 0


# --- Tokenizer ----------------------------------------------------------------------------------

GPT2 = regex.compile(
    r"""'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
)
QWEN2 = regex.compile(
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
SINGLE_DIGITS = ("smollm", "starcoder", "refact")
CUT = [
    "In 1984, 12 films (½ of 24) cost $3.50 each; x86 and 4k.",
    "a\n\n8 b\n\nc  d\t\t9 \n\n 10   ",
    "  leading, trailing  \r\n \n",
    "日本語の文、２０２４年に③本。　全角 空白",
    "🙂🙂 naïve café 👩‍👩‍👧 1🙂2 ½¾ ١٢٣ they're it's 'tis",
    "",
]


def pieces_by_hand(text: str, pre: str) -> list[tuple[int, int]]:
    """Spans that are encoded on their own, by llama.cpp's expressions in turn."""
    cuts, expression = [(0, len(text))], QWEN2 if pre == "stablelm2" else GPT2
    if pre in SINGLE_DIGITS:
        cuts, end = [], 0
        for match in regex.finditer(r"\p{N}", text):
            cuts += [(end, match.start()), match.span()]
            end = match.end()
        cuts.append((end, len(text)))
    return [
        (begin + match.start(), begin + match.end())
        for begin, end in cuts
        for match in expression.finditer(text[begin:end])
    ]


@pytest.mark.parametrize("pre", [*SINGLE_DIGITS, "gpt-2", "olmo", "stablelm2"])
@pytest.mark.parametrize("text", CUT)
def test_text_is_cut_by_the_pre_tokenizer_that_the_file_names(tmp_path, weights, pre, text):
    convert(write_gguf(tmp_path / "model.gguf", weights, pre=pre), tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    spans = pieces_by_hand(text, pre)
    assert [span for _, span in tokenizer.pre_tokenizer.pre_tokenize_str(text)] == spans
    # The pieces in the alphabet of bytes, each encoded by merges alone.
    plain, expected = small_tokenizer(), []
    for begin, end in spans:
        cut = plain.pre_tokenizer.pre_tokenize_str(text[begin:end])
        joined = "".join(piece for piece, _ in cut)
        expected += [token.id for token in plain.model.tokenize(joined)]
    ids = tokenizer.encode(text).ids
    assert ids == expected
    assert tokenizer.decode(ids) == text


def test_digits_after_white_space_tell_the_two_pre_tokenizers_apart(tmp_path, weights):
    cuts = {}
    for pre in ("smollm", "gpt-2"):
        convert(write_gguf(tmp_path / f"{pre}.gguf", weights, pre=pre), tmp_path)
        tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
        cuts[pre] = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str("a\n\n8 12")]
    assert cuts == {"smollm": ["a", "ĊĊ", "8", "Ġ", "1", "2"], "gpt-2": ["a", "Ċ", "Ċ", "8", "Ġ12"]}


def test_the_control_token_keeps_its_id_and_is_found_in_a_text(made):
    tokenizer = Tokenizer.from_file(str(made / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == VOCABULARY
    encoded = tokenizer.encode("a<|endoftext|>b")
    assert encoded.ids[1] == tokenizer.token_to_id("<|endoftext|>") == 0
    assert tokenizer.decode(encoded.ids) == "ab"


def test_documents_of_smollm2_begin_with_token_0():
    """Of the package itself, whose first tokens are <|endoftext|>, <|im_start|> and <|im_end|>."""
    model = params_of().models["smollm2"]
    path = source_folder(model.source)
    assert sha256_file(path) == model.source.sha256
    text = "The film of 1994 was <|im_end|> good."
    table = tokenize(tokenizer_of(File(path)), ["a"], [text], model.max_tokens, model.is_decoder)
    (row,) = table.to_pylist()
    assert row["input_ids"].index(0) == 0 and row["input_ids"].count(0) == 1
    assert row["special"][0] and row["starts"][0] == row["ends"][0] == 0
    pieces = [text[a:b] for a, b in zip(row["starts"][1:], row["ends"][1:], strict=True)]
    assert "".join(pieces) == text and pieces.count("<|im_end|>") == 1
    # Digits stand alone, and a space belongs to the word that it precedes.
    assert pieces[:8] == ["The", " film", " of", " ", "1", "9", "9", "4"]


# --- Errors -------------------------------------------------------------------------------------


def one_line(error) -> str:
    message = str(error.value)
    assert "\n" not in message and len(message) < 400
    return message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "mamba"}, r"is a mamba: only models with attention are read"),
        ({"pre": "chameleon"}, r"the pre-tokenizer 'chameleon', which is not read"),
        ({"model": "rwkv"}, r"a tokenizer 'rwkv' with"),
        ({"changes": lambda w: w.add_rope_dimension_count(8)}, r"turns 8 of 16 features"),
        ({"changes": lambda w: w.add_rope_scaling_type(_yarn())}, r"the scaling 'yarn'"),
        (
            {"changes": lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, np.float32))},
            r"no Llama has the tensor 'rope_freqs.weight'",
        ),
        (
            {"changes": lambda w: w.add_tensor("blk.0.attn_sinks.weight", np.ones(8, np.float32))},
            r"no Llama has the tensor 'blk.0.attn_sinks.weight'",
        ),
    ],
)
def test_what_is_not_read_is_named(tmp_path, weights, options, message):
    path = write_gguf(tmp_path / "model.gguf", weights, **options)
    with pytest.raises(ArtifactError, match=message) as error:
        convert(path, tmp_path)
    assert one_line(error).startswith(str(path))


def _yarn():
    from gguf import RopeScalingType

    return RopeScalingType.YARN


def test_a_type_that_the_package_does_not_read_is_named(tmp_path, file, monkeypatch):
    import gguf.quants

    def refuse(*_):
        raise NotImplementedError

    monkeypatch.setattr(gguf.quants, "dequantize", refuse)
    with pytest.raises(ArtifactError, match=r"the tensor '.*' is of type \w+, which") as error:
        convert(file, tmp_path)
    one_line(error)


@pytest.mark.parametrize("share", [0.0, 1e-5, 0.001, 0.02, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_noticed(tmp_path, file, share):
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ArtifactError, match="is not a whole GGUF file") as error:
        convert(file, tmp_path)
    one_line(error)
    assert not (tmp_path / "model.safetensors").exists()


# --- From a package, or a folder ----------------------------------------------------------------


def model_of(source) -> Model:
    return Model(family="llama", source=source, max_tokens=100)


def package(tmp_path, monkeypatch, code: str, name: str = "carrier") -> PackageSource:
    (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / name / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return PackageSource(kind="package", package=name, sha256="0" * 64)


def fetched(source, tmp_path):
    fetch("mine", model_of(source), tmp_path / "data" / "model", tmp_path / "data" / "tokenizer")
    return tmp_path / "data"


def test_a_package_with_a_file_beside_its_code_is_not_imported(
    tmp_path, weights, monkeypatch, made
):
    source = package(tmp_path, monkeypatch, "import not_installed_anywhere")
    path = write_gguf(tmp_path / "carrier" / "model.gguf", weights, Type.Q4_1)
    data = fetched(source.model_copy(update={"sha256": sha256_file(path)}), tmp_path)
    for file in ("config.json", "model.safetensors"):
        assert verify(data / "model" / file).read_bytes() == (made / file).read_bytes()
    assert (data / "tokenizer" / "tokenizer.json").exists()
    # Nothing of the conversion is left.
    assert sorted(path.name for path in data.iterdir()) == ["model", "tokenizer"]
    names = sorted(path.name for path in (data / "model").iterdir())
    assert names == sorted(["config.json", "model.safetensors", CHECKSUMS])


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_package_may_say_where_its_file_is(tmp_path, file, monkeypatch, place):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = file.rename(folder / "model.gguf")
    said = path if place == "file" else folder
    source = package(tmp_path, monkeypatch, f"def get_model_path():\n    return {str(said)!r}\n")
    data = fetched(source.model_copy(update={"sha256": sha256_file(path)}), tmp_path)
    assert (data / "model" / "model.safetensors").exists()


def test_a_folder_with_a_file_is_read_too(tmp_path, file):
    source = PathSource(kind="path", path=str(tmp_path), sha256=sha256_file(file))
    assert (fetched(source, tmp_path) / "model" / "model.safetensors").exists()


def test_a_file_of_another_checksum_is_refused(tmp_path, file):
    source = PathSource(kind="path", path=str(tmp_path), sha256="0" * 64)
    with pytest.raises(ModelError, match=r"sha256 is 0{64}, but model\.gguf has") as error:
        fetched(source, tmp_path)
    assert sha256_file(file) in one_line(error)
    assert not list((tmp_path).glob("data/*/*"))


def test_a_file_that_is_not_read_leaves_nothing(tmp_path, weights):
    path = write_gguf(tmp_path / "model.gguf", weights, pre="chameleon")
    source = PathSource(kind="path", path=str(tmp_path), sha256=sha256_file(path))
    with pytest.raises(
        ModelError, match=r"^models\.mine: .*the pre-tokenizer 'chameleon'"
    ) as error:
        fetched(source, tmp_path)
    one_line(error)
    assert not list((tmp_path / "data").iterdir())


def test_other_files_beside_it_are_not_named(tmp_path, file):
    source = PathSource(
        kind="path", path=str(tmp_path), sha256=sha256_file(file), files={"config.json": "1" * 64}
    )
    with pytest.raises(ModelError, match=r"source\.files names config\.json, which is not in"):
        fetched(source, tmp_path)


def test_packages_that_give_no_weights_say_what_is_missing(tmp_path, file, monkeypatch):
    with pytest.raises(ModelError, match=r"'nowhere\.inside' .* is not installed"):
        fetched(PackageSource(kind="package", package="nowhere.inside", sha256="0" * 64), tmp_path)
    source = package(tmp_path, monkeypatch, "import not_installed_anywhere", "needy_carrier")
    with pytest.raises(ModelError, match=r"cannot be imported \(No module named 'not_installed"):
        fetched(source, tmp_path)
    source = package(tmp_path, monkeypatch, "", "empty_carrier")
    with pytest.raises(ModelError, match=r"neither a \.gguf file nor get_model_path"):
        fetched(source, tmp_path)
    (tmp_path / "empty_carrier" / "a.gguf").write_bytes(b"")
    (tmp_path / "empty_carrier" / "b.gguf").write_bytes(b"")
    with pytest.raises(ModelError, match=r"2 \.gguf files \(a\.gguf, b\.gguf\): leave it one"):
        fetched(source, tmp_path)


def test_the_step_ends_with_one_line(tmp_path, file):
    file.write_bytes(file.read_bytes()[:-40])
    source = PathSource(kind="path", path=str(tmp_path), sha256=sha256_file(file))
    (tmp_path / "fetch.json").write_text(model_of(source).model_dump_json())
    done = call(
        "posenc.steps.model", name="mine", config=tmp_path / "fetch.json",
        output=tmp_path / "data" / "model", tokenizer=tmp_path / "data" / "tokenizer",
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: models.mine: ")
    assert "is not a whole GGUF file" in done.stderr


# --- What a file says of its rotation and its attention -----------------------------------------


def with_keys(path, **values):
    """A file of a Llama's sizes without weights, with further keys."""
    from gguf import GGUFWriter

    file = GGUFWriter(str(path), "llama")
    sizes = {
        "context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64,
        "attention.head_count": 4, "attention.head_count_kv": 2,
    }  # fmt: skip
    for name, value in sizes.items():
        file.add_uint32(f"llama.{name}", value)
    file.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-6)
    for name, value in values.items():
        add = {str: file.add_string, int: file.add_uint32, bool: file.add_bool}
        add.get(type(value), file.add_float32)(f"llama.{name}", value)
    file.add_token_list(["<|endoftext|>", "a"])
    file.add_tensor("output_norm.weight", np.ones(32, np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.mark.parametrize(
    ("keys", "rotation"),
    [
        ({}, {"rope_type": "default"}),
        ({"rope.scaling.factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"rope.scale_linear": 2.5}, {"rope_type": "linear", "factor": 2.5}),
        (
            {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
            {"rope_type": "linear", "factor": 8.0},
        ),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 8.0}, {"rope_type": "default"}),
        ({"rope.scaling.factor": 1.0}, {"rope_type": "default"}),
        ({"attention.key_length": 8, "attention.causal": True}, {"rope_type": "default"}),
    ],
)
def test_a_linear_scaling_is_read(tmp_path, keys, rotation):
    config = configuration(File(with_keys(tmp_path / "m.gguf", **keys)))
    assert config["rope_parameters"] == {**rotation, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, "with the scaling 'yarn'"),
        ({"rope.scaling.attn_factor": 1.2}, r"llama\.rope\.scaling\.attn_factor"),
        ({"rope.scaling.original_context_length": 32}, "original_context_length = 32"),
        ({"rope.dimension_count": 4}, "turns 4 of 8 features"),
        ({"attention.scale": 0.1}, r"llama\.attention\.scale"),
        ({"attention.key_length": 16}, r"attention\.key_length = 16; only 8 is read"),
        ({"attention.sliding_window": 16}, r"attention\.sliding_window = 16"),
        ({"attention.causal": False}, r"attention\.causal = False"),
        ({"expert_count": 4}, r"expert_count = 4"),
        ({"logit_scale": 0.5}, r"llama\.logit_scale"),
    ],
)
def test_a_key_that_is_not_understood_is_refused(tmp_path, keys, message):
    with pytest.raises(ArtifactError, match=message) as error:
        configuration(File(with_keys(tmp_path / "m.gguf", **keys)))
    assert "\n" not in str(error.value)
