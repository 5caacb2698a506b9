"""Run one version of ``transformers`` on prepared weights; the driver is ``compare.py``.

Runs by itself inside an environment that holds an old version, so it imports nothing of this
project and keeps to what every version has::

    python reference.py FOLDER OUTPUT.npz

``FOLDER`` holds ``inputs.json`` and, for each model, ``<name>.json`` (its configuration) and
``<name>.pt`` (its state dict). ``OUTPUT.npz`` receives float32 arrays under
``<model>/<implementation>/<position>/<mask>/<document>/<quantity>`` and, under ``record``, what
this version does not have or refuses.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

os.environ["USE_TF"] = os.environ["USE_FLAX"] = "0"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
if os.environ.get("WITHOUT_TOKENIZERS"):
    # No build of the `tokenizers` that this version wants: the models do not need it, and an
    # entry of None makes both `import` and `find_spec` find nothing.
    sys.modules["tokenizers"] = None

import numpy as np
import torch
import torch.optim.lr_scheduler

if not hasattr(torch.optim.lr_scheduler, "SAVE_STATE_WARNING"):
    # 4.0 imports a text that torch has since dropped, for a trainer that is unused here.
    torch.optim.lr_scheduler.SAVE_STATE_WARNING = ""

import transformers
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

CLASSES = {"gpt2": (GPT2Config, GPT2LMHeadModel, {}), "bert": (BertConfig, BertModel, {})}
CLASSES["bert"][2]["add_pooling_layer"] = False
SDPA = "_prepare_4d_causal_attention_mask_for_sdpa"
BUFFERS = (".attn.bias", ".attn.masked_bias", "position_ids", "token_type_ids")
"""Ends of the names of constants that some versions keep among the weights."""


def build(name, folder, implementation):
    """Make a model with the driver's weights, or raise what this version raises."""
    config_class, model_class, options = CLASSES[name]
    config = config_class(**json.loads((folder / f"{name}.json").read_text()))
    if implementation is None:
        model = model_class(config, **options)
    elif hasattr(model_class, "_from_config"):
        model = model_class._from_config(config, attn_implementation=implementation, **options)
    else:
        raise ValueError("no choice of attention implementation in this version")
    missing, unexpected = model.load_state_dict(torch.load(folder / f"{name}.pt"), strict=False)
    missing = [key for key in missing if not key.endswith(BUFFERS)]
    if missing or unexpected:
        raise RuntimeError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    return model.eval()


def default_implementation(name, folder):
    """What this version takes by default; "eager" where there is only one."""
    return getattr(build(name, folder, None).config, "_attn_implementation", None) or "eager"


def implementations(name, folder):
    """This version's implementations, and why others are left out."""
    available, refused = {}, {}
    if not hasattr(build(name, folder, None).config, "_attn_implementation"):
        return {"eager": build(name, folder, None)}, {"sdpa": "not in this version"}
    for implementation in ("eager", "sdpa"):
        try:
            available[implementation] = build(name, folder, implementation)
        except (ValueError, ImportError) as error:
            refused[implementation] = str(error).split(". ")[0]
    return available, refused


def has_cuda_branch(model):
    """Whether this version treats the causal mask of this model differently on a CUDA device."""
    return isinstance(model, GPT2LMHeadModel) and hasattr(sys.modules[type(model).__module__], SDPA)


@contextlib.contextmanager
def cuda_branch():
    """Treat causal masks as on a CUDA device.

    Where this function exists, it ends with ``if mask.device.type == "cuda":
    mask = _unmask_unattended(mask)``. That step runs anywhere: it is applied to the CPU's masks.
    """
    from transformers.modeling_attn_mask_utils import AttentionMaskConverter

    module = sys.modules[GPT2LMHeadModel.__module__]
    prepare = getattr(module, SDPA)

    def prepare_as_on_cuda(*arguments, **options):
        mask = prepare(*arguments, **options)
        if mask is None:
            return None
        return AttentionMaskConverter._unmask_unattended(mask, torch.finfo(mask.dtype).min)

    setattr(module, SDPA, prepare_as_on_cuda)
    try:
        yield
    finally:
        setattr(module, SDPA, prepare)


def variants(available):
    """Every (label, model, options of the call, context to call it in)."""
    for implementation, model in available.items():
        yield implementation, model, {}, contextlib.nullcontext
    if "sdpa" in available:
        model = available["sdpa"]
        yield "sdpa, output_attentions", model, {"output_attentions": True}, contextlib.nullcontext
        if has_cuda_branch(model):
            yield "sdpa, CUDA branch", model, {}, cuda_branch


@contextlib.contextmanager
def positions(model, position):
    """Leave the position embeddings as they are or zero them; then put them back."""
    (table,) = (
        module
        for key, module in model.named_modules()
        if key.split(".")[-1] in ("wpe", "position_embeddings")
    )
    original = table.weight.data.clone()
    if position == "zero":
        table.weight.data.zero_()
    try:
        yield
    finally:
        table.weight.data.copy_(original)


def run(model, ids, mask=None, **options):
    """Logits (GPT-2) and hidden states of documents of one length."""
    with torch.no_grad():
        output = model(
            ids, attention_mask=mask, output_hidden_states=True, return_dict=True, **options
        )
    result = {"hidden": torch.stack(list(output.hidden_states))}  # [layers + 1, batch, n, d]
    if hasattr(output, "logits"):
        result["logits"] = output.logits[None]  # [1, batch, n, V]
    # A batch is one document, or the tokens of a document as documents of one token.
    return {key: value.flatten(1, 2).numpy() for key, value in result.items()}


def profile(section, n):
    """The mask as a user would write it, float32 [n]."""
    if section["kind"] == "linear":
        return torch.linspace(section["floor"], 1, n)
    return torch.full((n,), section["value"])


def four_dimensional(factors, causal):
    """The float mask log m_j, [1, 1, n, n], with the future shut out for a decoder."""
    n = len(factors)
    mask = factors.log().expand(n, n).clone()  # [n, n]
    if causal:
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        mask = mask.masked_fill(future, torch.finfo(mask.dtype).min)
    return mask[None, None]


def cases(model, inputs, is_decoder, options):
    """Every (mask, document, arrays or the exception that the version raised)."""
    for number, document in enumerate(inputs["documents"]):
        n = len(document)
        ids = torch.tensor([document])  # [1, n]
        masks = {mask: profile(section, n)[None] for mask, section in inputs["masks"].items()}
        masks["4-D log"] = four_dimensional(profile(inputs["4-D log"], n), is_decoder)
        yield "none", number, run(model, ids, **options)
        # Each token by itself, at its own position.
        yield "alone", number, run(model, ids.T, position_ids=torch.arange(n)[:, None], **options)
        for mask, values in masks.items():
            try:
                yield mask, number, run(model, ids, values, **options)
            except (ValueError, RuntimeError, IndexError) as error:
                yield mask, number, error


def main():
    """Run every case of every model and write the arrays."""
    folder, output = Path(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    inputs = json.loads((folder / "inputs.json").read_text())
    arrays = {}
    record = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "default": {},
        "refused": {},
    }
    for name in CLASSES:
        record["default"][name] = default_implementation(name, folder)
        available, refused = implementations(name, folder)
        record["refused"].update({f"{name}/{key}": reason for key, reason in refused.items()})
        for implementation, model, options, setting in variants(available):
            for position in ("intact", "zero"):
                with setting(), positions(model, position):
                    results = cases(model, inputs, name == "gpt2", options)
                    for mask, document, result in results:
                        where = f"{name}/{implementation}/{position}/{mask}"
                        if isinstance(result, Exception):
                            reason = f"{type(result).__name__}: {str(result).splitlines()[0]}"
                            record["refused"][where] = reason
                            continue
                        for quantity, values in result.items():
                            arrays[f"{where}/{document}/{quantity}"] = values
    np.savez(output, record=json.dumps(record), **arrays)


if __name__ == "__main__":
    main()
