"""Small models of Hugging Face trained through `torch.compile(model, backend="coda")`.

Loss and gradients are as exact as those of PyTorch eager in float32 and bfloat16, and so are the
weights after a few steps of an optimizer.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from support.daily import daily
from support.examples import mean_errors
from support.torch_compile import compiled, record_derived

from coda_ir.float64 import computing_in_float64

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

transformers: Any = pytest.importorskip("transformers")

COMMON: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
GROUPED: dict[str, Any] = {**COMMON, "num_key_value_heads": 2, "head_dim": 8}
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def gpt2() -> Any:
    sizes = {"n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32, "vocab_size": 61}
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    special = {"bos_token_id": 0, "eos_token_id": 0, "loss_type": "ForCausalLM"}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **no_dropout, **special))


def t5() -> Any:
    """With a smooth activation: which elements of a ReLU are 0 is up to rounding."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    special = {"vocab_size": 61, "pad_token_id": 0, "decoder_start_token_id": 0}
    config = transformers.T5Config(
        **sizes, **special, dropout_rate=0.0, feed_forward_proj="gated-gelu"
    )
    return transformers.T5ForConditionalGeneration(config)


MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**GROUPED, tie_word_embeddings=True)
    ),
    "gpt2": gpt2,
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**COMMON, **NO_DROPOUT)),
    "qwen3": lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**GROUPED)),
    "gemma2": lambda: transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**GROUPED, query_pre_attn_scalar=8)
    ),
}
"""`tests/training/test_training.py` trains blocks of the last two every day."""
IN_BFLOAT16 = {"llama": MODELS["llama"], "bert": MODELS["bert"], "t5": t5}
INPUTS = 4


def make(name: str) -> tuple[Any, torch.Tensor]:
    model = (MODELS | IN_BFLOAT16)[name]().train()
    model.config.use_cache = False
    return model, torch.randint(1, 61, (2, 9))


def loss_and_gradients(function: Any, model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    model.zero_grad()
    loss = function(input_ids=ids, labels=ids).loss
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def assert_as_accurate(model: Any, function: Any, inputs: Sequence[torch.Tensor]) -> None:
    """The error of each gradient, in the mean of the inputs, is at most 1.25 times eager's."""
    exact = copy.deepcopy(model).double()
    ours = [loss_and_gradients(function, model, ids) for ids in inputs]
    eager = [loss_and_gradients(model, model, ids) for ids in inputs]
    with computing_in_float64():
        right = [loss_and_gradients(exact, exact, ids) for ids in inputs]
    errors, allowed = mean_errors(ours, right), mean_errors(eager, right)
    # The loss is one number: whose error is smaller is a matter of luck.
    assert errors[0] <= torch.finfo(ours[0][1].dtype).eps
    gradients = list(zip(errors, allowed, ours[0], right[0], strict=True))[1:]
    largest = max(gradient.abs().max().item() for *_, gradient in gradients)
    for error, bound, got, gradient in gradients:
        if gradient.abs().max().item() > 1e-10 * largest:
            assert error <= 1.25 * bound
        else:
            # It is 0, as that of a bias of keys: there is only noise to compare.
            assert got.abs().max().item() < torch.finfo(got.dtype).eps * largest


@pytest.mark.slow
@daily(lambda name: name not in ("qwen3", "gemma2"))
@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients(name: str, monkeypatch: pytest.MonkeyPatch):
    derived = record_derived(monkeypatch)
    model, ids = make(name)
    function = compiled(model)
    assert_as_accurate(model, function, [torch.randint(1, 61, ids.shape) for _ in range(INPUTS)])
    assert derived


@pytest.mark.slow
@daily(lambda name: name != "t5")
@pytest.mark.parametrize("name", IN_BFLOAT16)
def test_gradients_in_bfloat16(name: str):
    model, ids = make(name)
    model.bfloat16()
    inputs = [torch.randint(1, 61, ids.shape) for _ in range(INPUTS)]
    assert_as_accurate(model, compiled(model), inputs)


@pytest.mark.slow
def test_steps_of_an_optimizer():
    """With tied embeddings, a frozen norm, and checkpointed layers."""
    model, ids = make("llama")
    model.model.norm.weight.requires_grad_(False)
    twin = copy.deepcopy(model)
    model.gradient_checkpointing_enable()
    for function, owner in ((compiled(model, fullgraph=True), model), (twin, twin)):
        optimizers: Any = torch.optim
        optimizer = optimizers.SGD(owner.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            loss_and_gradients(function, owner, ids)
            optimizer.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
