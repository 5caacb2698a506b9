"""Kinds of models that are easily run wrong: the library's numbers, or a one-line refusal.

Each folder is made here, with several members of its kind.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import posenc
from posenc.artifacts.files import ArtifactError
from posenc.capture.capture import packed_states
from posenc.capture.evaluation import stacked_states
from posenc.models.heads import HeadWeights
from posenc.models.load import load
from posenc.models.values import ValueWeights
from posenc.models.weights import Weights
from tests.parity.any_models import tiny

TEXTS = ["The film was good, and the cast was better than its plot.", "A slow start."]
END = "<|endoftext|>"
SIZES = {
    "vocab_size": 300, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "max_position_embeddings": 66, "initializer_range": 0.3,
    "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1,
}  # fmt: skip
CLOSE = 2e-3
"""Of states of random models in float32, which are of order 1."""


def byte_level(*special: str, begin: str | None = None) -> Tokenizer:
    """A byte-level encoding; texts begin with a token where one is named."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[*special],
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    if begin is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, tokenizer.token_to_id(begin))]
        )
    return tokenizer


def save(folder: Path, kind: str, tokenizer: Tokenizer | None = None, **options) -> Path:
    """A random model of a class, in the hub's format."""
    made_by = getattr(transformers, kind)
    torch.manual_seed(0)
    config = made_by.config_class(**SIZES, **options)
    made_by(config).save_pretrained(folder)
    (tokenizer or byte_level(END, "<pad>")).save(str(folder / "tokenizer.json"))
    return folder


def edit(folder: Path, **changes) -> Path:
    """Change keys of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return folder


@torch.inference_mode()
def library(folder: Path, kind: str, ids, **options):
    """The library's own run of one document."""
    model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()
    given = torch.tensor([list(ids)])
    return model(
        given, attention_mask=torch.ones_like(given), output_hidden_states=True,
        output_attentions=True, return_dict=True, **options,
    )  # fmt: skip


def check_all(folder: Path, kind: str, max_tokens: int | None = None, texts=TEXTS) -> None:
    """Python, captures, evaluations, patterns and a mask without effect, against the library."""
    model = posenc.load(folder)
    run = posenc.run(model, texts, patterns=True, max_tokens=max_tokens)
    constant = {"semantics": "log_mask", "profile": {"kind": "constant", "value": 1.0}}
    with posenc.under(model, {"mask": constant}):
        masked = posenc.run(model, texts, max_tokens=max_tokens)
    documents = [ids.tolist() for ids in run.ids]
    packed = packed_states(model.network, documents)
    (stacked,) = stacked_states(model.network, documents, [posenc.Condition()], {})
    begin = 0
    for number, ids in enumerate(documents):
        output = library(folder, kind, ids)
        span = slice(begin, begin + len(ids))
        begin += len(ids)
        for layer, state in enumerate(output.hidden_states):
            expected = state[0].numpy()
            for what, ours in {
                "python": run.hidden_states[number][layer],
                "constant mask": masked.hidden_states[number][layer],
                "capture": packed[layer][0, span].numpy(),
                "evaluation": stacked[layer][span].numpy(),
            }.items():
                np.testing.assert_allclose(ours, expected, rtol=0, atol=CLOSE, err_msg=what)
        for layer, pattern in enumerate(output.attentions):
            np.testing.assert_allclose(
                run.patterns[number][layer], pattern[0].numpy(), rtol=0, atol=1e-4
            )


# --- Configuration flags that change attention -------------------------------------------------

FLAGS = {
    "bert decoder": ("BertModel", {"is_decoder": True}),
    "bert language model": ("BertLMHeadModel", {"is_decoder": True}),
    "roberta decoder": ("RobertaModel", {"is_decoder": True}),
    "electra decoder": ("ElectraModel", {"is_decoder": True, "embedding_size": 32}),
    "two-sided llama": ("LlamaForCausalLM", {"is_causal": False}),
    "mistral window": ("MistralForCausalLM", {"num_key_value_heads": 2, "sliding_window": 8}),
    "qwen2 upper layers": ("Qwen2ForCausalLM", {
        "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 8,
        "max_window_layers": 2}),
    "qwen2 window not used": ("Qwen2ForCausalLM", {
        "num_key_value_heads": 2, "use_sliding_window": False, "sliding_window": 8}),
    "qwen3 layer types": ("Qwen3ForCausalLM", {
        "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8, "use_sliding_window": True,
        "layer_types": ["full_attention", "sliding_attention"] * 2}),
    "gemma2": ("Gemma2ForCausalLM", {
        "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8,
        "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 10}),
    "gemma3": ("Gemma3ForCausalLM", {
        "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 8}),
    "sinks": ("GptOssForCausalLM", {
        "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8, "num_local_experts": 4}),
    "local encoder": ("ModernBertModel", {"local_attention": 8}),
    "gpt2 without scaling": ("GPT2LMHeadModel", {"scale_attn_weights": False}),
    "gpt2 scaled by layer": ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_change_attention(tmp_path, name):
    kind, options = FLAGS[name]
    folder = save(tmp_path / "model", kind, **options)
    check_all(folder, kind, max_tokens=60)


def test_what_a_study_says_is_compared_with_the_model(tmp_path):
    """The fetch notices a flag that makes a decoder of an encoder or the reverse."""
    from posenc.artifacts.files import sha256_file
    from posenc.models.load import fetch
    from posenc.models.section import Model
    from posenc.steps.model import look

    for kind, family, options in (
        ("BertModel", "bert", {"is_decoder": True}),
        ("LlamaForCausalLM", "llama", {"is_causal": False}),
    ):
        folder = save(tmp_path / family, kind, **options)
        files = {name: sha256_file(folder / name) for name in ("config.json", "tokenizer.json")}
        weights = sha256_file(folder / "model.safetensors")
        source = {"kind": "path", "path": str(folder), "sha256": weights, "files": files}
        section = Model.model_validate({"family": family, "max_tokens": 60, "source": source})
        with pytest.raises(posenc.ModelError, match=r"^models\.mine: its kind is '(dec|enc)oder"):
            fetch(
                "mine", section, tmp_path / "data", tmp_path / "tokenizer",
                lambda *given, section=section: look("mine", section, *given),
            )  # fmt: skip
        assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["mistral window", "gemma2", "gemma3", "qwen2 upper layers"])
@pytest.mark.parametrize("semantics", ["log_mask", "logit_mul", "prob_mul"])
def test_a_mask_stays_within_the_window(tmp_path, name, semantics):
    """A key that the model hides is in no pattern, whatever is done to those it sees."""
    kind, options = FLAGS[name]
    model = posenc.load(save(tmp_path / "model", kind, **options))
    plain = posenc.run(model, TEXTS[:1], patterns=True, max_tokens=40)
    mask = {"semantics": semantics, "profile": {"kind": "linear", "floor": 0.5}}
    with posenc.under(model, {"mask": mask}):
        run = posenc.run(model, TEXTS[:1], patterns=True, max_tokens=40)
    hidden = plain.patterns[0] == 0
    assert hidden[0].sum() > np.triu(np.ones_like(hidden[0, 0]), 1).sum() * len(hidden[0]) - 1
    assert not run.patterns[0][hidden].any() and run.patterns[0][~hidden].all()


@pytest.mark.parametrize("name", ["mistral window", "qwen2 upper layers", "gemma2"])
def test_flags_hold_beyond_the_trained_length(tmp_path, name):
    kind, options = FLAGS[name]
    folder = save(tmp_path / "model", kind, **options)
    model, long = posenc.load(folder), [" ".join(TEXTS * 6)]
    with posenc.under(model, "intact"):
        run = posenc.run(model, long, max_tokens=90)
    assert len(run.ids[0]) == 90
    expected = library(folder, kind, run.ids[0]).hidden_states[-1][0].numpy()
    np.testing.assert_allclose(run.hidden_states[0][-1], expected, rtol=0, atol=CLOSE)


# --- Tokens that are padding elsewhere, and rows of tables --------------------------------------

PADDED = {
    "bert": ("BertModel", {}),
    "roberta": ("RobertaModel", {}),
    "esm": ("EsmModel", {"position_embedding_type": "absolute", "mask_token_id": 2}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "llama": ("LlamaForCausalLM", {}),
    "opt": ("OPTForCausalLM", {"word_embed_proj_dim": 32, "ffn_dim": 64}),
    "roberta decoder": ("RobertaForCausalLM", {"is_decoder": True}),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_that_occurs_in_a_text(tmp_path, name):
    kind, options = PADDED[name]
    folder = save(tmp_path / "model", kind, **options)
    texts = ["The film <pad> was <pad><pad> good", "A slow start", "<pad>A start<pad>"]
    model = posenc.load(folder)
    run = posenc.run(model, texts)
    assert 1 in run.ids[0] and 1 in run.ids[2]
    check_all(folder, kind, texts=texts)


@pytest.mark.parametrize("pad", [0, 1, 3, 7])
def test_the_first_row_of_a_table_is_the_model_s(tmp_path, pad):
    """In a run without positions, in the weights, and for a position that is kept."""
    folder = save(tmp_path / "model", "RobertaModel")
    edit(folder, pad_token_id=pad)
    model = posenc.load(folder)
    table = model.network.embeddings.position_embeddings.weight.detach().numpy()
    assert model.positions == len(table) - pad - 1
    np.testing.assert_array_equal(Weights(folder, "roberta").embeddings()[1], table[pad + 1 :])
    stored = load_file(folder / "model.safetensors")
    key = next(name for name in stored if name.endswith("position_embeddings.weight"))
    stored[key][pad + 2 :] = 0  # what `keep_first` leaves
    with posenc.under(model, {"position": "keep_first"}):
        run = posenc.run(model, TEXTS)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    expected = library(folder, "RobertaModel", run.ids[0]).hidden_states[-1][0].numpy()
    np.testing.assert_allclose(run.hidden_states[0][-1], expected, rtol=0, atol=CLOSE)


# --- Tokenizers ---------------------------------------------------------------------------------


def library_ids(folder: Path, text: str) -> list[int]:
    return transformers.AutoTokenizer.from_pretrained(folder)(text)["input_ids"]


def word_pieces(post_processor: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    if post_processor:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return tokenizer


@pytest.mark.parametrize("post_processor", [True, False])
@pytest.mark.parametrize("options", [
    {"tokenizer_class": "BertTokenizer", "do_lower_case": False},
    {"tokenizer_class": "BertTokenizer", "do_lower_case": True},
    {"tokenizer_class": "PreTrainedTokenizerFast"},
])  # fmt: skip
def test_an_encoder_s_tokens_are_the_library_s(tmp_path, post_processor, options):
    folder = save(tmp_path / "model", "BertModel", word_pieces(post_processor))
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    run = posenc.run(posenc.load(folder), TEXTS)
    for text, ids in zip(TEXTS, run.ids, strict=True):
        assert ids.tolist() == library_ids(folder, text)


@pytest.mark.parametrize(("kind", "options"), [
    ("RobertaModel", {"tokenizer_class": "RobertaTokenizer"}),
    ("RobertaModel", None),
    ("GPT2LMHeadModel", {"tokenizer_class": "GPT2Tokenizer"}),
    ("GPT2LMHeadModel", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}),
])  # fmt: skip
def test_vocabulary_and_merges_in_any_family(tmp_path, kind, options):
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", END]
    folder = save(tmp_path / "model", kind, byte_level(*special))
    whole = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(whole["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in whole["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    if options:
        (folder / "tokenizer_config.json").write_text(json.dumps(options))
    run = posenc.run(posenc.load(folder), TEXTS)
    for text, ids in zip(TEXTS, run.ids, strict=True):
        expected = library_ids(folder, text)
        begin = [] if kind == "RobertaModel" else [run.ids[0][0]]
        assert ids.tolist() == [*begin, *expected]


@pytest.mark.parametrize(("special", "own", "begin"), [
    ([END], None, 0),  # the end-of-text token, as GPT-2's texts begin here
    ([END], END, 0),  # once, not twice
    (["<s>", END], "<s>", 0),  # the tokenizer's own, though there is the other
    (["<s>", "</s>"], "<s>", 0),
    (["</s>", "<s>"], None, 1),  # the configuration's
])  # fmt: skip
def test_a_decoder_s_text_begins_once(tmp_path, special, own, begin):
    folder = save(tmp_path / "model", "LlamaForCausalLM", byte_level(*special, begin=own))
    edit(folder, bos_token_id=begin)
    run = posenc.run(posenc.load(folder), TEXTS)
    for text, ids in zip(TEXTS, run.ids, strict=True):
        plain = byte_level(*special).encode(text).ids
        assert ids.tolist() == [begin, *plain]
        assert len(run.nll[0]) == len(run.ids[0]) - 1


def test_tokens_that_were_added_later(tmp_path):
    tokenizer = byte_level(END)
    tokenizer.add_tokens(["better"])
    tokenizer.add_special_tokens(["<|user|>"])
    made_by = transformers.GPT2LMHeadModel
    made_by(made_by.config_class(**SIZES | {"vocab_size": 310})).save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    run = posenc.run(posenc.load(tmp_path), ["<|user|>a better film"])
    expected = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    assert run.ids[0].tolist()[1:] == expected("<|user|>a better film")["input_ids"]
    assert "better" in run.tokens[0] and "<|user|>" in run.tokens[0]


def test_a_tokenizer_that_draws_at_random_is_refused(tmp_path):
    tokenizer = byte_level(END)
    tokenizer.model.dropout = 0.1
    folder = save(tmp_path / "model", "GPT2LMHeadModel", tokenizer)
    with pytest.raises(posenc.ModelError, match=r"at random \(dropout 0\.1\): set dropout to null"):
        posenc.load(folder)


@pytest.mark.parametrize("kind", ["falcon", "gptj", "gpt_neo", "bloom"])
def test_a_folder_of_a_type_with_its_own_attention_is_refused(tmp_path, kind):
    """Some look up their attention class by the requested name."""
    tiny("causal", kind).save_pretrained(tmp_path)
    with pytest.raises(posenc.ModelError, match=rf"{kind}: its attention does not go through"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "LlamaForCausalLM", "BertModel"])
def test_a_token_without_a_row_is_an_error_for_users(tmp_path, kind):
    made_by = getattr(transformers, kind)
    made_by(made_by.config_class(**SIZES | {"vocab_size": 250})).save_pretrained(tmp_path)
    byte_level(END).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises((posenc.ModelError, ArtifactError, ValueError), match="another model's"):
        posenc.run(posenc.load(tmp_path), TEXTS)


# --- Weights and configurations -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("kind", "family", "norm"), [
    ("GPT2LMHeadModel", "gpt2", "h.1.ln_1"),
    ("BertModel", "bert", "encoder.layer.1.output.LayerNorm"),
    ("RobertaModel", "roberta", "encoder.layer.1.output.LayerNorm"),
    ("LlamaForCausalLM", "llama", "layers.1.input_layernorm"),
])  # fmt: skip
def test_weights_in_half_precision_are_read(tmp_path, dtype, kind, family, norm):
    """Tables, maps of queries and keys, and maps of values, as all measurements read them."""
    made_by = getattr(transformers, kind)
    torch.manual_seed(0)
    network = made_by(made_by.config_class(**SIZES)).to(dtype)
    network.save_pretrained(tmp_path)
    whole = {name: tensor.float().numpy() for name, tensor in network.state_dict().items()}

    def stored(name):
        return next(array for key, array in whole.items() if key.endswith(name))

    gain, _ = Weights(tmp_path, family).norm(norm)
    np.testing.assert_array_equal(gain, stored(f"{norm}.weight"))
    values = ValueWeights(tmp_path, family).maps(1)
    assert values.output.dtype == np.float64 and np.isfinite(values.value).all()
    if family != "llama":
        tokens, positions = Weights(tmp_path, family).embeddings()
        assert tokens.dtype == positions.dtype == np.float32
        name = "wte.weight" if family == "gpt2" else "word_embeddings.weight"
        np.testing.assert_array_equal(tokens, stored(name))
        query, key = HeadWeights(tmp_path, family).heads(1)
        assert query.shape == key.shape == (4, 33, 8)
        expected = (
            stored("h.1.attn.c_attn.weight")[:, :8]
            if family == "gpt2"
            else stored("layer.1.attention.self.query.weight").T[:, :8]
        )
        np.testing.assert_array_equal(query[0, :-1], expected)


@pytest.mark.parametrize("kind", ["BertModel", "GPT2LMHeadModel", "LlamaForCausalLM"])
@pytest.mark.parametrize("options", [
    {"output_attentions": True}, {"return_dict": False}, {"output_hidden_states": True},
    {"use_cache": True, "output_attentions": True, "return_dict": False},
])  # fmt: skip
def test_options_of_output_change_nothing(tmp_path, kind, options):
    folder = save(tmp_path / "model", kind)
    plain = posenc.run(posenc.load(folder), TEXTS)
    edit(folder, **options)
    run = posenc.run(posenc.load(folder), TEXTS)
    for ours, other in zip(run.hidden_states, plain.hidden_states, strict=True):
        np.testing.assert_array_equal(ours, other)


@pytest.mark.parametrize(("changes", "message"), [
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantization_config says gptq"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
     "quantization_config says bitsandbytes"),
    ({"model_type": "deepthought", "auto_map": {"AutoModel": "modeling.Deep"}},
     r"'deepthought', which transformers .* does not know, and code beside weights is not run"),
    ({"model_type": "mamba"}, "."),
])  # fmt: skip
def test_what_is_not_run_is_refused_in_a_line(tmp_path, changes, message):
    folder = edit(save(tmp_path / "model", "LlamaForCausalLM"), **changes)
    with pytest.raises((posenc.ModelError, ArtifactError), match=message) as error:
        posenc.load(folder)
    assert "\n" not in str(error.value)


# --- Where models come from ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "GPT2LMHeadModel", "BertModel"])
def test_weights_in_several_files(tmp_path, kind):
    folder = save(tmp_path / "model", kind)
    whole = posenc.run(posenc.load(folder), TEXTS)
    made_by = getattr(transformers, kind)
    made_by.from_pretrained(folder).save_pretrained(tmp_path / "shards", max_shard_size="40KB")
    (tmp_path / "shards/tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    assert len(list((tmp_path / "shards").glob("model-*.safetensors"))) > 2
    run = posenc.run(posenc.load(tmp_path / "shards"), TEXTS)
    for ours, other in zip(run.hidden_states, whole.hidden_states, strict=True):
        np.testing.assert_array_equal(ours, other)
    next((tmp_path / "shards").glob("model-00002*")).unlink()
    with pytest.raises(posenc.ModelError, match=r"index\.json names model-00002.*not there"):
        posenc.load(tmp_path / "shards")


@pytest.mark.parametrize(
    "kind", ["Qwen3ForCausalLM", "OPTForCausalLM", "GPT2LMHeadModel", "DistilBertModel"]
)
def test_a_model_in_memory_is_taken_with_its_tokenizer(tmp_path, kind):
    made_by = getattr(transformers, kind)
    torch.manual_seed(0)
    sizes = {name: SIZES[name] for name in ("vocab_size", "bos_token_id")}
    options = {
        "Qwen3ForCausalLM": {**SIZES, "head_dim": 16, "num_key_value_heads": 2},
        "OPTForCausalLM": {**SIZES, "word_embed_proj_dim": 32, "ffn_dim": 64},
        "DistilBertModel": {**sizes, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
                            "pad_token_id": 1},
    }.get(kind, SIZES)  # fmt: skip
    network = made_by(made_by.config_class(**options)).eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(END))
    network.save_pretrained(tmp_path)
    model = posenc.load(network, tokenizer=tokenizer)
    assert model.network is network
    run = posenc.run(model, TEXTS, patterns=True)
    for ids, states, patterns in zip(run.ids, run.hidden_states, run.patterns, strict=True):
        output = library(tmp_path, kind, ids)
        np.testing.assert_allclose(
            states[-1], output.hidden_states[-1][0].numpy(), rtol=0, atol=CLOSE
        )
        np.testing.assert_allclose(patterns[-1], output.attentions[-1][0].numpy(), atol=1e-4)
    with pytest.raises(TypeError, match="needs its tokenizer"):
        posenc.load(network)
    for dtype, name in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        with pytest.raises(posenc.ModelError, match=rf"is in {name}: load it with dtype=torch.fl"):
            posenc.load(network.to(dtype), tokenizer=tokenizer)


def test_positions_are_not_taken_from_a_model_that_sees_too_little(tmp_path):
    """A short window tells positions by itself: nothing can be proved."""
    kind, options = FLAGS["gemma2"]
    model = posenc.load(save(tmp_path / "model", kind, **options))
    with (
        pytest.raises(posenc.ConditionError, match="fewer than 10 tokens, which tells positions"),
        posenc.under(model, {"position": "zero"}),
    ):
        posenc.run(model, TEXTS[:1])


def test_a_window_is_said_to_tell_positions(tmp_path):
    kind, options = FLAGS["gemma2"]
    model = posenc.load(save(tmp_path / "model", kind, **options | {"sliding_window": 12}))
    with posenc.under(model, {"position": "zero"}):
        with pytest.warns(UserWarning, match=r"2 layers of .* which tells positions: .*tokens=12"):
            posenc.run(model, TEXTS[:1], max_tokens=20)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            posenc.run(model, ["A film"], max_tokens=20)
