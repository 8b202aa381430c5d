"""The option `fold_weights`, of `torch.compile` and of exported models."""

import gc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.torch_compile import compiled, gradients
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import coda_ir

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

FOLDING: dict[str, Any] = {"target": "triton", "pack_weights": True, "fold_weights": True}


class Network(nn.Module):
    """A norm after a GEMM, and two GEMMs after the norm."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(16, 16)
        self.norm = nn.RMSNorm(16, eps=1e-5)
        self.gate = nn.Linear(16, 24, bias=False)
        self.up = nn.Linear(16, 24)
        self.down = nn.Linear(24, 16)
        nn.init.normal_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.proj(x)
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def llama() -> Any:
    """With a head that has the table of the embeddings."""
    transformers: Any = pytest.importorskip("transformers")
    sizes = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(**sizes, **heads, tie_word_embeddings=True, use_cache=False)
    model = transformers.LlamaForCausalLM(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            nn.init.uniform_(parameter, 0.5, 2.0)
    return model


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return what the pass that folds has said since the last call."""
    monkeypatch.setenv("CODA_REMARKS", "passed,missed")

    def told() -> str:
        messages = [r.getMessage() for r in caplog.records if r.name == "coda_ir.remarks"]
        caplog.clear()
        return "\n".join(message for message in messages if "place-column-scale" in message)

    return told


def check(fast: Any, model: nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_weights_are_folded_and_followed(told: Callable[[], str]):
    model, x = Network(), torch.randn(3, 5, 16)
    fast = compiled(model, **FOLDING)
    for _ in range(3):
        check(fast, model, x)
        model.load_state_dict({k: torch.randn_like(v) for k, v in model.state_dict().items()})
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).square().mean().backward()
    optimizer.step()
    check(fast, model, x)
    assert "coda.mul in norm: folded into 2 weights, whose copies take 3072 bytes" in told()


def test_copies_are_released():
    model, x = Network(), torch.randn(3, 16)
    fast = compiled(model, **FOLDING)
    check(fast, model, x)
    storage = StorageWeakRef(model.up.weight.untyped_storage())
    model.up.weight = nn.Parameter(torch.randn(24, 16))
    gc.collect()
    assert storage.expired()
    check(fast, model, x)


@pytest.mark.slow
def test_a_tied_head(told: Callable[[], str]):
    model, ids = llama(), torch.randint(0, 61, (2, 7))
    fast = compiled(model, **FOLDING)
    with torch.no_grad():
        for _ in range(3):
            exact = deepcopy(model).double()(ids).logits
            actual = fast(ids).logits
            assert (actual - exact).abs().max() <= 1e-4 * exact.abs().max()
            model.lm_head.weight.mul_(1.5)
            model.model.norm.weight.add_(0.25)
            model.model.layers[0].mlp.up_proj.weight.neg_()
    assert told().count("folded into") == 3


@pytest.mark.slow
def test_gradients_fold_nothing_and_say_so(told: Callable[[], str]):
    model, x = Network(), torch.randn(3, 16)
    fast = compiled(model, **FOLDING)
    got, wanted = (gradients(function, model, x) for function in (fast, model))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    missed = told()
    assert "no weight is folded: the graph needs gradients" in missed
    assert "folded into" not in missed
    check(fast, model, x)
    assert "folded into 2 weights" in told()


@pytest.mark.slow
@pytest.mark.parametrize("backward", ["derived", "autograd"])
def test_training_between_evaluations(backward: str):
    model, x = Network(), torch.randn(3, 16)
    fast = compiled(model, backward=backward, **FOLDING)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        fast(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        check(fast, model, x)


def test_tensors_that_are_passed_are_not_folded(told: Callable[[], str]):
    def network(x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.linear(F.rms_norm(x + F.linear(x, w), (16,), g), v)

    fast = compiled(network, **FOLDING)
    for _ in range(2):
        given = [torch.randn(shape) for shape in ((3, 16), (16, 16), (16,), (24, 16))]
        torch.testing.assert_close(fast(*given), network(*given), rtol=1e-4, atol=1e-5)
    assert "may be a different tensor in each call" in told()


@pytest.mark.slow
def test_an_exported_model():
    model, x = Network().eval(), torch.randn(3, 16)
    exported = coda_ir.export(model, (x,))
    fast = exported.compile(fold_weights=True)
    assert fast.function.folds_weights
    for _ in range(2):
        check(fast, model, x)
        with torch.no_grad():
            model.norm.weight.mul_(-1.5)
            model.gate.weight.add_(0.5)
    assert not exported.compile().function.folds_weights
