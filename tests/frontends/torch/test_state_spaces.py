"""State space models as an operator of PyTorch, and models of transformers that are traced so."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.torch_compile import compiled, counters
from torch import Tensor

import coda_ir
from coda_ir.backends.reference.scan import delta_rule, scanned_channels, scanned_states
from coda_ir.diagnostics import ArgumentError
from coda_ir.dialects import coda
from coda_ir.float64 import relative_error
from coda_ir.frontends.torch.state_spaces import DELTA_RULE, HEADS, SCAN, state_space

transformers: Any = pytest.importorskip("transformers")

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64, "eos_token_id": 2}
SIZES_OF_HEADS = {"num_heads": 4, "head_dim": 16, "n_groups": 2, "state_size": 8, "chunk_size": 8}
MODELS: dict[str, Callable[[], Any]] = {
    "mamba": lambda: transformers.MambaConfig(**SMALL, state_size=4),
    "mamba2": lambda: transformers.Mamba2Config(**SMALL, **SIZES_OF_HEADS),
}


def operands_of(model: str, length: int = 5, *, initial: bool = True) -> list[Tensor]:
    """Operands of one sign with 2 samples, 6 channels or heads of 3 columns, and 4 states."""
    generator = torch.Generator().manual_seed(length)
    if model == DELTA_RULE:
        shapes = [(2, length, 4), (2, length, 4), (2, length, 6), *2 * [(2, length, 2)]]
        q, k, v, beta, decay = (torch.rand(shape, generator=generator) for shape in shapes)
        states = torch.rand((2, 2, 4, 3), generator=generator)
        return [q, k / 2, v, beta, -decay, *([states] if initial else [])]
    a = (6, 4) if model == SCAN else (2,)
    times = 6 if model == SCAN else 2
    states = (6, 4) if model == SCAN else (2, 3, 4)
    shapes = [(2, length, 6), (2, length, times), a, (2, length, 4), (2, length, 4), (2, *states)]
    operands = [torch.rand(shape, generator=generator) for shape in shapes]
    operands[2].neg_()
    return operands if initial else operands[:5]


def exact(model: str, operands: list[Tensor]) -> tuple[Tensor, Tensor]:
    wide = [operand.double() for operand in operands]
    if model == SCAN:
        return scanned_channels(wide)
    return (delta_rule if model == DELTA_RULE else scanned_states)(wide, 4)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("model", [SCAN, HEADS, DELTA_RULE])
def test_operator(model: str, initial: bool) -> None:
    operands = operands_of(model, initial=initial)
    found, expected = state_space(model, operands, 4), exact(model, operands)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.float32 and relative_error(a, b) <= 1e-6


@pytest.mark.parametrize(
    ("model", "count", "message"),
    [
        ("mamba", 5, "unknown model 'mamba'\n  help: use one of selective_scan, ssd, delta_rule"),
        (HEADS, 3, "ssd takes 5 or 6 operands, got 3\n  help: pass a list of x, dt, a, b, c"),
    ],
)
def test_wrong_calls(model: str, count: int, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        state_space(model, operands_of(HEADS)[:count], 4)


@pytest.mark.slow
@pytest.mark.parametrize("model", [SCAN, HEADS, DELTA_RULE])
def test_registration(model: str) -> None:
    """Types of results without data, gradients, and strides, as PyTorch checks them."""
    library: Any = torch.library  # without complete types
    operands = [operand.requires_grad_() for operand in operands_of(model)]
    library.opcheck(torch.ops.coda_ir.state_space.default, (operands, model, 4))


@pytest.mark.parametrize("model", [SCAN, HEADS, DELTA_RULE])
def test_gradients(model: str) -> None:
    operands = [operand.requires_grad_() for operand in operands_of(model)]
    adjoints = [torch.rand_like(result) for result in state_space(model, operands, 4)]
    found = torch.autograd.grad(state_space(model, operands, 4), operands, adjoints)
    wide = [operand.detach().double().requires_grad_() for operand in operands]
    expected = torch.autograd.grad(
        exact(model, wide), wide, [adjoint.double() for adjoint in adjoints]
    )
    for a, b in zip(found, expected, strict=True):
        assert relative_error(a, b) <= 1e-5


def model_of(name: str) -> Any:
    torch.default_generator.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()


def tokens(length: int) -> Tensor:
    return torch.randint(64, (2, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_prompts_of_any_length(name: str) -> None:
    """One graph, without a loop over time, serves all lengths."""
    coda_ir.keep_scans()  # a test before may have imported the backend without transformers
    model = model_of(name)
    run = compiled(model, dynamic=True)
    for length in (9, 24, 5):
        found = run(tokens(length), use_cache=False).logits
        wide = model_of(name).double()(tokens(length), use_cache=False).logits
        assert relative_error(found, wide) <= 1e-5
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("target", ["reference", "triton"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_tokens_from_states(name: str, target: str) -> None:
    """The states of a cache are updated in place, token by token."""
    model, wide = model_of(name), model_of(name).double()
    run = compiled(model, target=target, compare=False, fullgraph=True)
    caches = [each(tokens(9), use_cache=True).cache_params for each in (model, wide)]
    for token in (3, 4):
        ids = torch.full((2, 1), token)
        found, expected = (
            each(ids, cache_params=cache, use_cache=True).logits
            for each, cache in zip((run, wide), caches, strict=True)
        )
        assert relative_error(found, expected) <= 1e-5
    for layer, other in zip(*(cache.layers for cache in caches), strict=True):
        for states in ("conv_states", "recurrent_states"):
            found, expected = (getattr(each, states)[0] for each in (layer, other))
            assert relative_error(found, expected) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_exported_for_any_length(name: str) -> None:
    model, shapes = model_of(name), {"input_ids": {1: torch.export.Dim("T")}, "use_cache": None}
    run = coda_ir.export(model, (tokens(9),), {"use_cache": False}, dynamic_shapes=shapes).compile(
        target="reference"
    )
    for length in (9, 24, 5):
        wide = model_of(name).double()(tokens(length), use_cache=False).logits
        assert relative_error(run(tokens(length), use_cache=False).logits, wide) <= 1e-5


@pytest.mark.slow
def test_exported_in_float64() -> None:
    """The operators compute in 32 bits at most; the loop remains."""
    module = coda_ir.export(model_of("mamba").double(), (tokens(3),), {"use_cache": False}).module
    assert not [op for op in module.walk() if isinstance(op, coda.SelectiveScanOp)]
